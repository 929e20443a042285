/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that sessions of one user share
 *
 * A shared event is a position: a coroutine and a sequence number in it, set by the latest record. The coroutine may
 * belong to another session, so waiting for it is a wait in the queue like any other. A wait refers only to work
 * submitted before it, so no cycle is possible. A session that has the token and the uid may open it; each open has an
 * id that only that session can use. The last close ends it, and so does the end of the worker.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "util/error.h"
#include "worker/internal.h"

#define SHARED_TOKEN 32u
#define SHARED_OPEN_MAX 4096u /* shared events that one session may have open */

struct dsw_shared {
        uint8_t token[SHARED_TOKEN];
        uint32_t uid, refs;
        ds_coroutine *coroutine; /* NULL: the event has recorded no work to wait for */
        uint64_t seq;
        UT_hash_handle hh;
};

struct dsw_opened {
        uint64_t id;
        struct dsw_shared *shared;
        UT_hash_handle hh;
};

static void shared_settle(struct dsw_shared *shared)
{
        if (shared->coroutine && ds_coroutine_done(shared->coroutine) >= shared->seq)
                shared->coroutine = ds_coroutine_unref(shared->coroutine);
}

static void shared_unref(ds_worker *worker, struct dsw_shared *shared)
{
        assert(shared->refs > 0);
        if (--shared->refs)
                return;
        HASH_DEL(worker->shared, shared);
        ds_coroutine_unref(shared->coroutine);
        ds_free(shared);
}

static struct dsw_opened *shared_find(struct dsw_session *session, uint64_t id)
{
        struct dsw_opened *opened;

        HASH_FIND(hh, session->opened, &id, sizeof(id), opened);
        return opened;
}

static void shared_close(struct dsw_session *session, struct dsw_opened *opened)
{
        HASH_DEL(session->opened, opened);
        shared_unref(session->worker, opened->shared);
        ds_free(opened);
}

void dsw_shared_close_all(struct dsw_session *session)
{
        struct dsw_opened *opened, *next;

        HASH_ITER(hh, session->opened, opened, next)
        shared_close(session, opened);
}

/* Assigns an id to a shared event that the session opens. Returns 0, QUOTA or -ENOMEM; on 0 the session's entry
 * holds the reference. */
static int shared_open(struct dsw_session *session, struct dsw_shared *shared, uint64_t *ret_id)
{
        ds_worker *worker = session->worker;
        struct dsw_opened *opened;

        if (HASH_COUNT(session->opened) >= SHARED_OPEN_MAX)
                return DETSHARE__STATUS__QUOTA;
        opened = ds_alloc0(1, sizeof(*opened));
        if (!opened)
                return ds_error_origin(-ENOMEM);
        opened->id = worker->id_base + ++worker->shared_id;
        opened->shared = shared;
        HASH_ADD(hh, session->opened, id, sizeof(opened->id), opened);
        if (!opened->hh.tbl) {
                ds_free(opened);
                return ds_error_origin(-ENOMEM);
        }
        shared->refs++;
        *ret_id = opened->id;
        return 0;
}

static int shared_create(struct dsw_session *session, struct dsw_shared **ret)
{
        ds_worker *worker = session->worker;
        struct dsw_shared *shared = ds_alloc0(1, sizeof(*shared));

        if (!shared)
                return ds_error_origin(-ENOMEM);
        if (getrandom(shared->token, sizeof(shared->token), 0) != sizeof(shared->token)) {
                ds_free(shared);
                return ds_error_origin(-EIO);
        }
        shared->uid = session->uid;
        shared->refs = 1;
        HASH_ADD(hh, worker->shared, token, sizeof(shared->token), shared);
        if (!shared->hh.tbl) {
                ds_free(shared);
                return ds_error_origin(-ENOMEM);
        }
        *ret = shared;
        return 0;
}

int dsw_work_wait_shared(struct dsw_stream *stream, uint64_t event, uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_opened *opened = shared_find(stream->session, event);

        if (!opened) {
                *ret_why = "wait for an unknown shared event";
                return DS_CUDA_INVALID_HANDLE;
        }
        shared_settle(opened->shared);
        return dsw_work_wait_for(stream, opened->shared->coroutine, opened->shared->seq, ret_seq, ret_why);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static enum dsw_outcome shared_answer(struct dsw_call *call, uint64_t event, struct dsw_shared *shared, int done)
{
        Detshare__SharedEventReply result = DETSHARE__SHARED_EVENT_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        result.event = event;
        result.done = done;
        if (shared)
                result.token = (ProtobufCBinaryData){.len = sizeof(shared->token), .data = shared->token};
        reply.result_case = DETSHARE__REPLY__RESULT_SHARED_EVENT;
        reply.shared_event = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

static enum dsw_outcome shared_call_create(struct dsw_call *call, const Detshare__SharedEvent *ask)
{
        ds_worker *worker = call->session->worker;
        struct dsw_shared *shared = NULL;
        enum dsw_outcome outcome;
        uint64_t id = 0;
        int r;

        if (ask->op == DETSHARE__SHARED_EVENT_OP__SHARED_CREATE) {
                r = shared_create(call->session, &shared);
                if (r)
                        return dsw_call_fail(call, r, "shared event not created");
        } else {
                if (ask->token.len == SHARED_TOKEN)
                        HASH_FIND(hh, worker->shared, ask->token.data, SHARED_TOKEN, shared);
                if (!shared || shared->uid != call->session->uid)
                        return dsw_call_fail(call, DS_CUDA_INVALID_VALUE, "no such shared event");
                shared->refs++;
        }
        r = shared_open(call->session, shared, &id);
        if (r)
                outcome = dsw_call_fail(call, r, "shared event not opened: %s",
                        r == DETSHARE__STATUS__QUOTA ? "too many" : "out of memory");
        else
                outcome = shared_answer(call, id, shared, 0);
        shared_unref(worker, shared);
        return outcome;
}

static enum dsw_outcome shared_call_record(
        struct dsw_call *call, struct dsw_shared *shared, const Detshare__SharedEvent *ask)
{
        struct dsw_stream *stream = dsw_stream_find(call->session, ask->stream);
        uint64_t seq;

        if (dsw_session_error(call->session))
                return dsw_call_sticky(call);
        if (!stream || ask->seq > stream->submitted)
                return dsw_call_fail(call, DS_CUDA_INVALID_VALUE, "no operation %llu in stream %u",
                        (unsigned long long)ask->seq, ask->stream);
        shared->coroutine = ds_coroutine_unref(shared->coroutine);
        if (ask->seq > stream->done && ask->seq > stream->base) {
                seq = ask->seq - stream->base;
                shared->coroutine = ds_coroutine_ref(stream->coroutine);
                shared->seq = DS_MIN(seq, ds_coroutine_submitted(stream->coroutine));
        }
        return dsw_call_ok(call);
}

static int shared_ready(const struct dsw_call *call)
{
        const struct dsw_opened *opened = shared_find(call->session, call->target);

        return !opened || !opened->shared->coroutine ||
               ds_coroutine_done(opened->shared->coroutine) >= opened->shared->seq || call->session->error;
}

static void shared_finish(struct dsw_call *call)
{
        if (call->session->error)
                dsw_call_sticky(call);
        else
                shared_answer(call, call->target, NULL, 1);
}

size_t dsw_shared_step(ds_worker *worker)
{
        struct dsw_session *session;
        uint32_t before = worker->n_shared_syncs;

        for (session = before ? worker->sessions : NULL; session; session = session->hh.next) {
                if (session->opened && session->parked)
                        dsw_call_settle(session);
        }
        return before - worker->n_shared_syncs;
}

enum dsw_outcome dsw_calls_shared_event(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__SharedEvent *ask = request->shared_event;
        struct dsw_opened *opened;

        if (ask->op == DETSHARE__SHARED_EVENT_OP__SHARED_CREATE || ask->op == DETSHARE__SHARED_EVENT_OP__SHARED_OPEN)
                return shared_call_create(call, ask);
        opened = shared_find(call->session, ask->event);
        if (!opened)
                return dsw_call_fail(call, DS_CUDA_INVALID_HANDLE, "no such shared event");
        shared_settle(opened->shared);
        switch ((int)ask->op) {
        case DETSHARE__SHARED_EVENT_OP__SHARED_CLOSE:
                shared_close(call->session, opened);
                return dsw_call_ok(call);
        case DETSHARE__SHARED_EVENT_OP__SHARED_RECORD:
                return shared_call_record(call, opened->shared, ask);
        case DETSHARE__SHARED_EVENT_OP__SHARED_QUERY:
                return shared_answer(call, opened->id, NULL, !opened->shared->coroutine);
        case DETSHARE__SHARED_EVENT_OP__SHARED_SYNC:
                call->target = opened->id;
                call->shared = 1;
                call->session->worker->n_shared_syncs++;
                return dsw_call_park(call, shared_ready, shared_finish);
        default:
                return dsw_call_fail(
                        call, DETSHARE__STATUS__BAD_REQUEST, "unknown operation %d on a shared event", (int)ask->op);
        }
}
