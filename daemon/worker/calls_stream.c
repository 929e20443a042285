/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests about streams and events, and waiting for them
 */
#include "worker/internal.h"

static enum dsw_outcome stream_unknown(struct dsw_call *call, uint64_t slot)
{
        return dsw_call_fail(call, DS_CUDA_INVALID_HANDLE, "no stream %llu", (unsigned long long)slot);
}

enum dsw_outcome dsw_calls_stream_create(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__StreamCreate *create = request->stream_create;
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;
        Detshare__Internal__Stream note = DETSHARE__INTERNAL__STREAM__INIT;
        Detshare__StreamReply result = DETSHARE__STREAM_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        struct dsw_stream *stream;
        int r;

        r = dsw_stream_open(call->session, UINT32_MAX, create->priority, create->non_blocking, &stream);
        if (r)
                return dsw_call_fail(call, r, "stream not created: %s",
                        r == DETSHARE__STATUS__QUOTA ? "too many streams" : "out of memory");
        result.stream = note.stream = stream->slot;
        note.priority = create->priority;
        note.non_blocking = create->non_blocking;
        ledger.stream_added = &note;
        reply.result_case = DETSHARE__REPLY__RESULT_STREAM_CREATE;
        reply.stream_create = &result;
        dsw_call_reply(call, &reply, &ledger, NULL, 0, 0);
        return DSW_ANSWERED;
}

static int stream_drained(const struct dsw_call *call)
{
        return call->stream->done >= call->target;
}

static void stream_finish_destroy(struct dsw_call *call)
{
        Detshare__Internal__Ledger ledger = DETSHARE__INTERNAL__LEDGER__INIT;

        ledger.stream_removed = call->stream->slot;
        dsw_call_reply(call, NULL, &ledger, NULL, 0, 0);
}

enum dsw_outcome dsw_calls_stream_destroy(struct dsw_call *call, const Detshare__Request *request)
{
        uint32_t slot = request->stream_destroy->stream;
        struct dsw_stream *stream = dsw_stream_find(call->session, slot);

        if (!stream || slot == 0)
                return stream_unknown(call, slot);
        dsw_stream_close(stream);
        call->stream = stream;
        call->target = stream->submitted;
        return dsw_call_park(call, stream_drained, stream_finish_destroy);
}

/* Informs the scheduler that a client without a ring has all its results. Clients with a ring report that in it. */
static void stream_synchronised(struct dsw_session *session)
{
        if (session->ring || !session->sched)
                return;
        ds_sched_session_synchronised(session->sched, session->worker->now_ns);
        dsw_session_judge(session);
        session->worker->sched_due = 1;
}

static void stream_finish_sync(struct dsw_call *call)
{
        stream_synchronised(call->session);
        if (dsw_session_error(call->session))
                dsw_call_sticky(call);
        else
                dsw_call_ok(call);
}

enum dsw_outcome dsw_calls_sync(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__Sync *sync = request->sync;
        struct dsw_session *session = call->session;

        if (sync->all) {
                call->target = session->op_index;
                return dsw_call_park(call, dsw_call_session_ended, stream_finish_sync);
        }
        /* a client can still wait for numbers of a destroyed stream */
        call->stream = sync->stream < session->n_streams ? session->streams[sync->stream] : NULL;
        if (!call->stream)
                return stream_unknown(call, sync->stream);
        if (sync->seq > call->stream->submitted)
                return dsw_call_fail(call, DS_CUDA_INVALID_VALUE, "operation %llu of stream %u was not submitted",
                        (unsigned long long)sync->seq, sync->stream);
        call->target = sync->seq ? sync->seq : call->stream->submitted;
        return dsw_call_park(call, stream_drained, stream_finish_sync);
}

enum dsw_outcome dsw_calls_query(struct dsw_call *call, const Detshare__Request *request)
{
        uint32_t slot = request->query->stream;
        struct dsw_stream *stream = dsw_stream_find(call->session, slot);
        Detshare__QueryReply result = DETSHARE__QUERY_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        if (!stream)
                return stream_unknown(call, slot);
        result.done = stream->done;
        result.submitted = stream->submitted;
        result.error = dsw_session_error(call->session);
        if (result.error)
                result.fault = call->session->error_text;
        reply.result_case = DETSHARE__REPLY__RESULT_QUERY;
        reply.query = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_calls_event_create(struct dsw_call *call, const Detshare__Request *request)
{
        Detshare__EventReply result = DETSHARE__EVENT_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        int r;

        r = dsw_event_create(call->session, &result.event);
        if (r)
                return dsw_call_fail(call, r, "event not created: %s",
                        r == DETSHARE__STATUS__QUOTA ? "too many events" : "out of memory");
        reply.result_case = DETSHARE__REPLY__RESULT_EVENT_CREATE;
        reply.event_create = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

static enum dsw_outcome event_unknown(struct dsw_call *call, uint64_t id)
{
        return dsw_call_fail(call, DS_CUDA_INVALID_HANDLE, "no event %llu", (unsigned long long)id);
}

enum dsw_outcome dsw_calls_event_destroy(struct dsw_call *call, const Detshare__Request *request)
{
        struct dsw_event *event = dsw_event_find(call->session, request->event_destroy->event);

        if (!event)
                return event_unknown(call, request->event_destroy->event);
        dsw_event_destroy(call->session, event);
        dsw_graph_taken(call->session);
        return dsw_call_ok(call);
}

enum dsw_outcome dsw_calls_event_elapsed(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__EventElapsed *ask = request->event_elapsed;
        struct dsw_event *start = dsw_event_find(call->session, ask->start);
        struct dsw_event *end = dsw_event_find(call->session, ask->end);
        Detshare__ElapsedReply result = DETSHARE__ELAPSED_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        if (!start || !end)
                return event_unknown(call, start ? ask->end : ask->start);
        if (!start->ended || !end->ended)
                return dsw_call_fail(call, DS_CUDA_NOT_READY, "not both events have ended");
        result.ns = (int64_t)(end->ns - start->ns);
        reply.result_case = DETSHARE__REPLY__RESULT_EVENT_ELAPSED;
        reply.event_elapsed = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}
