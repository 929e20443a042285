/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that processes of one user share
 *
 * The daemon knows the operation that such an event follows. Each call is a request, which the daemon handles after the
 * ring's records up to then, so the recorded operation has been submitted. A stream's wait for such an event is an
 * operation like any other.
 */
#include <string.h>

#include "core/internal.h"

static int ask(dsc_session *s, Detshare__SharedEvent *shared, struct dsc__answer *ret)
{
        Detshare__Request request = DSC__REQUEST(SHARED_EVENT, shared_event, shared);
        return dsc__call(
                s, &request, -1, ret ? DETSHARE__REPLY__RESULT_SHARED_EVENT : DETSHARE__REPLY__RESULT__NOT_SET, ret);
}

int dsc_shared_create(dsc_session *s, uint64_t *ret_event, uint8_t ret_token[DSC_SHARED_TOKEN])
{
        Detshare__SharedEvent shared = DETSHARE__SHARED_EVENT__INIT;
        struct dsc__answer answer = DSC__ANSWER_NULL;
        shared.op = DETSHARE__SHARED_EVENT_OP__SHARED_CREATE;
        int r = ask(s, &shared, &answer);
        if (r)
                return r;
        const Detshare__SharedEventReply *reply = answer.reply->shared_event;
        if (reply->token.len == DSC_SHARED_TOKEN) {
                memcpy(ret_token, reply->token.data, DSC_SHARED_TOKEN);
                *ret_event = reply->event;
        } else {
                r = DETSHARE__STATUS__INTERNAL;
        }
        dsc__answer_clear(&answer);
        return r;
}

int dsc_shared_open(dsc_session *s, const uint8_t token[DSC_SHARED_TOKEN], uint64_t *ret_event)
{
        Detshare__SharedEvent shared = DETSHARE__SHARED_EVENT__INIT;
        struct dsc__answer answer = DSC__ANSWER_NULL;
        shared.op = DETSHARE__SHARED_EVENT_OP__SHARED_OPEN;
        shared.token = (ProtobufCBinaryData){.len = DSC_SHARED_TOKEN, .data = (uint8_t *)token};
        int r = ask(s, &shared, &answer);
        if (r)
                return r;
        *ret_event = answer.reply->shared_event->event;
        dsc__answer_clear(&answer);
        return 0;
}

int dsc_shared_close(dsc_session *s, uint64_t event)
{
        Detshare__SharedEvent shared = DETSHARE__SHARED_EVENT__INIT;
        shared.op = DETSHARE__SHARED_EVENT_OP__SHARED_CLOSE;
        shared.event = event;
        return ask(s, &shared, NULL);
}

int dsc_shared_record(dsc_session *s, uint64_t event, uint32_t stream, uint64_t seq)
{
        Detshare__SharedEvent shared = DETSHARE__SHARED_EVENT__INIT;
        shared.op = DETSHARE__SHARED_EVENT_OP__SHARED_RECORD;
        shared.event = event;
        shared.stream = stream;
        shared.seq = seq;
        return ask(s, &shared, NULL);
}

static int look(dsc_session *s, uint64_t event, Detshare__SharedEventOp op)
{
        Detshare__SharedEvent shared = DETSHARE__SHARED_EVENT__INIT;
        struct dsc__answer answer = DSC__ANSWER_NULL;
        shared.op = op;
        shared.event = event;
        int r = ask(s, &shared, &answer);
        if (r)
                return r;
        r = answer.reply->shared_event->done ? 0 : DSC__NOT_READY;
        dsc__answer_clear(&answer);
        return r;
}

int dsc_shared_query(dsc_session *s, uint64_t event)
{
        return look(s, event, DETSHARE__SHARED_EVENT_OP__SHARED_QUERY);
}

int dsc_shared_wait(dsc_session *s, uint64_t event)
{
        return look(s, event, DETSHARE__SHARED_EVENT_OP__SHARED_SYNC);
}

int dsc_shared_stream_wait(dsc_session *s, uint32_t stream, uint64_t event)
{
        if (stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        if (s->socket_only) {
                Detshare__StreamWait wait = DETSHARE__STREAM_WAIT__INIT;
                wait.stream = stream;
                wait.seq = event;
                wait.shared = true;
                Detshare__Request request = DSC__REQUEST(STREAM_WAIT, stream_wait, &wait);
                return dsc__submit_call(s, stream, &request, NULL);
        }
        const struct ds_record_wait record = {
                .head = {.type = DS_RECORD_WAIT, .stream = (uint16_t)stream},
                .shared = 1,
                .seq = event,
        };
        return dsc__submit(s, &record.head, sizeof(record), NULL, 0, NULL);
}
