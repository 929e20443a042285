/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timed events
 *
 * The worker keeps timed events. When a worker dies, the recorded times are lost, but not the events: the next worker
 * treats an older id as an event that has not been recorded. Where the daemon accepts it, the client chooses the ids,
 * and creating or destroying an event needs no request. The completion page also holds times of recorded events,
 * each until another event uses its place; reading such a time needs no request.
 */
#include "core/internal.h"

int dsc_event_create(dsc_session *s, uint64_t *ret_event)
{
        if (dsc__objects(s))
                return dsc__event_create(s, ret_event);
        Detshare__EventCreate create = DETSHARE__EVENT_CREATE__INIT;
        Detshare__Request request = DSC__REQUEST(EVENT_CREATE, event_create, &create);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_EVENT_CREATE, &answer);
        if (r)
                return r;
        *ret_event = answer.reply->event_create->event;
        dsc__answer_clear(&answer);
        return 0;
}

int dsc_event_destroy(dsc_session *s, uint64_t event)
{
        if ((event & DS_EVENT_OF_CLIENT) && dsc__objects(s))
                return dsc__event_destroy(s, event);
        Detshare__EventDestroy destroy = DETSHARE__EVENT_DESTROY__INIT;
        destroy.event = event;
        Detshare__Request request = DSC__REQUEST(EVENT_DESTROY, event_destroy, &destroy);
        return dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

int dsc_event_record(dsc_session *s, uint32_t stream, uint64_t event, uint64_t *ret_seq)
{
        if (stream >= DS_STREAMS_MAX)
                return DSC__INVALID_VALUE;
        if (s->socket_only) {
                Detshare__EventRecord record = DETSHARE__EVENT_RECORD__INIT;
                record.stream = stream;
                record.event = event;
                Detshare__Request request = DSC__REQUEST(EVENT_RECORD, event_record, &record);
                return dsc__submit_call(s, stream, &request, ret_seq);
        }
        const struct ds_record_event record = {
                .head = {.type = DS_RECORD_EVENT, .stream = (uint16_t)stream},
                .event = event,
        };
        return dsc__submit(s, &record.head, sizeof(record), NULL, 0, ret_seq);
}

int dsc_event_time(dsc_session *s, uint64_t event, uint32_t stream, uint64_t seq, uint64_t *ret_ns)
{
        if (s->socket_only)
                return 0;
        const struct ds_event_time *time = &s->page->times[event % DS_EVENT_TIMES];
        const uint32_t turn = atomic_load_explicit(&time->turn, memory_order_acquire);
        const bool same = atomic_load_explicit(&time->event, memory_order_acquire) == event &&
                          atomic_load_explicit(&time->stream, memory_order_acquire) == stream &&
                          atomic_load_explicit(&time->seq, memory_order_acquire) == seq;
        *ret_ns = atomic_load_explicit(&time->ns, memory_order_acquire);
        /* all loads are acquire: the second comparison of the turn must follow the value that it validates */
        return same && turn % 2 == 0 && atomic_load_explicit(&time->turn, memory_order_relaxed) == turn;
}

int dsc_event_elapsed(dsc_session *s, uint64_t start, uint64_t end, int64_t *ret_ns)
{
        Detshare__EventElapsed elapsed = DETSHARE__EVENT_ELAPSED__INIT;
        elapsed.start = start;
        elapsed.end = end;
        Detshare__Request request = DSC__REQUEST(EVENT_ELAPSED, event_elapsed, &elapsed);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_EVENT_ELAPSED, &answer);
        if (r)
                return r;
        *ret_ns = answer.reply->event_elapsed->ns;
        dsc__answer_clear(&answer);
        return 0;
}
