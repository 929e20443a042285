/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client's request, from arrival to reply
 *
 * A request starts when the session's ring has been read up to the tail in the request, and every earlier request of
 * the session has started. Most are answered at once. A request that waits for work or time is parked, with a test
 * (ready) and a final step (finish), and does not block later ones. A request that finds no room is put back unchanged
 * and starts again when something of the session has ended. Every request gets exactly one reply, in every case.
 *
 * While the supervisor does not read (dsw_message_full), no queued request starts and no parked one is answered.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "worker/graph.h"
#include "worker/internal.h"
#include "worker/later.h"
#include "worker/ring.h"

/* Answers a request for which no struct dsw_call could be created. */
static void call_reject(ds_worker *worker, uint64_t id, uint64_t request_id, int status, const char *why)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        reply.id = request_id;
        reply.status = status;
        reply.message = (char *)(uintptr_t)why;
        message.id = id;
        message.status = status;
        message.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY;
        message.reply = &reply;
        dsw_message_send(worker, &message, NULL, 0);
}

static void call_enlist(struct dsw_call *call)
{
        struct dsw_session *session = call->session;

        session->n_calls++;
        session->n_blocked += call->row->blocks ? 1 : 0;
        dsw_session_alive(session);
}

static void call_queue(struct dsw_call *call, int first)
{
        struct dsw_session *session = call->session;

        call->state = DSW_CALL_QUEUED;
        if (first)
                DL_PREPEND(session->queue, call);
        else
                DL_APPEND(session->queue, call);
        session->n_queued_plain += call->row->blocks ? 0 : 1;
        dsw_session_activate(session);
}

static void call_unqueue(struct dsw_call *call)
{
        struct dsw_session *session = call->session;

        assert(call->state == DSW_CALL_QUEUED);
        DL_DELETE(session->queue, call);
        session->n_queued_plain -= call->row->blocks ? 0 : 1;
        call->state = DSW_CALL_RUNNING;
}

/* Removes the request from every list and frees it. */
static void call_free(struct dsw_call *call)
{
        struct dsw_session *session = call->session;

        if (call->state == DSW_CALL_QUEUED)
                call_unqueue(call);
        if (call->state == DSW_CALL_PARKED)
                DL_DELETE(session->parked, call);
        if (call->sleeper)
                dsw_clock_wake(call);
        if (call->op)
                call->op->call = NULL; /* the operation frees the bounce buffer when it ends */
        else if (call->bounce)
                dsw_memory_bounce_free(session, call->bounce);
        if (call->slab.clearing) {
                session->n_clearing--;
                session->worker->n_clearing--;
        }
        session->worker->n_shared_syncs -= call->shared ? 1 : 0;
        if (session->reset_call == call)
                session->reset_call = NULL;
        assert(session->n_calls > 0);
        session->n_calls--;
        session->n_blocked -= call->row->blocks ? 1 : 0;
        /* the client's thread that waited for this reply runs from now on, so the session counts as active */
        session->active_wall_ns = session->worker->wall_ns();
        dsw_loop_follow(session->worker, call->spin_ns);
        dsw_graph_put(session, call->graph);
        ds_close(call->fd);
        ds_free(call->raw);
        ds_free(call);
}

void dsw_call_reply(struct dsw_call *call, Detshare__Reply *reply, Detshare__Internal__Ledger *ledger, const int *fds,
        size_t n_fds, size_t n_kept)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Reply plain = DETSHARE__REPLY__INIT;

        assert(n_kept <= n_fds);
        if (!reply)
                reply = &plain;
        reply->id = call->request_id;
        reply->fds = (uint32_t)(n_fds - n_kept);
        message.id = call->id;
        message.status = reply->status;
        message.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_REPLY;
        message.reply = reply;
        if (ledger) {
                ledger->session = call->session->id;
                message.ledger = ledger;
        }
        dsw_message_send(call->session->worker, &message, fds, n_fds);
        call_free(call);
}

enum dsw_outcome dsw_call_ok(struct dsw_call *call)
{
        dsw_call_reply(call, NULL, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_call_fail(struct dsw_call *call, int status, const char *fmt, ...)
{
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        char text[DSW_MESSAGE_MAX];
        va_list args;

        va_start(args, fmt);
        vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        reply.status = status > 0 ? status : DETSHARE__STATUS__INTERNAL;
        reply.message = text;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_call_sticky(struct dsw_call *call)
{
        struct dsw_session *session = call->session;

        return dsw_call_fail(call, session->error, "%s", session->error_text);
}

int dsw_call_session_ended(const struct dsw_call *call)
{
        return dsw_session_ended(call->session, call->target);
}

enum dsw_outcome dsw_call_park(
        struct dsw_call *call, int (*ready)(const struct dsw_call *), void (*finish)(struct dsw_call *))
{
        assert(call->state == DSW_CALL_RUNNING);
        call->ready = ready;
        call->finish = finish;
        if (ready(call)) {
                finish(call);
                return DSW_ANSWERED;
        }
        call->state = DSW_CALL_PARKED;
        DL_APPEND(call->session->parked, call);
        return DSW_PARKED;
}

static void call_set_late(struct dsw_session *session, int late)
{
        ds_worker *worker = session->worker;

        if (late && !session->is_late)
                DL_APPEND2(worker->late, session, late_prev, late_next);
        else if (!late && session->is_late)
                DL_DELETE2(worker->late, session, late_prev, late_next);
        session->is_late = late;
}

void dsw_call_settle(struct dsw_session *session)
{
        struct dsw_call *call, *next;

        DL_FOREACH_SAFE(session->parked, call, next)
        {
                if (!call->ready(call))
                        continue;
                /* A ready request also waits while any session has late requests (ready ones that the supervisor's
                 * backlog delays): dsw_call_settle_late() chooses their order. */
                if (session->worker->late || dsw_message_full(session->worker)) {
                        call_set_late(session, 1);
                        return;
                }
                call->finish(call);
        }
}

/* Late requests are ready ones that the supervisor's backlog delays. Picks the user whose late requests were
 * answered longest ago, and of that user's sessions likewise the one answered longest ago. */
static struct dsw_session *call_next_late(const ds_worker *worker)
{
        struct dsw_session *session, *best = worker->late;

        DL_FOREACH2(worker->late, session, late_next)
        {
                if (session->user->answered < best->user->answered)
                        best = session;
        }
        return best;
}

/* Answers one ready request of the session. Returns 0 if it has no ready request. */
static int call_settle_one(struct dsw_session *session)
{
        struct dsw_call *call;

        DL_FOREACH(session->parked, call)
        {
                if (!call->ready(call))
                        continue;
                session->user->answered = ++session->worker->n_answered;
                call->finish(call);
                return 1;
        }
        return 0;
}

size_t dsw_call_settle_late(ds_worker *worker)
{
        size_t n = 0;

        for (; worker->late && !dsw_message_full(worker); n++) {
                struct dsw_session *session = call_next_late(worker);

                call_set_late(session, 0);
                if (call_settle_one(session))
                        call_set_late(session, 1);
                else
                        dsw_session_dirty(session);
        }
        return n;
}

void dsw_call_fail_all(struct dsw_session *session, int status, const char *why)
{
        while (session->parked)
                dsw_call_fail(session->parked, status, "%s", why);
        while (session->queue)
                dsw_call_fail(session->queue, status, "%s", why);
        call_set_late(session, 0);
}

/* Whether the worker has read the session's ring up to the tail that the request names. True for a session without a
 * ring. */
static int call_ring_reached(struct dsw_call *call)
{
        struct dsw_session *session = call->session;

        if (!session->ring || call->ring_tail <= session->head)
                return 1;
        if (call->ring_tail > dsw_ring_tail(session)) {
                dsw_session_fault(session, "a request names a ring tail that the ring has not reached");
                return 0;
        }
        dsw_session_activate(session);
        dsw_ring_consume(session, call->ring_tail, DS_RING_SLOTS);
        return session->head >= call->ring_tail;
}

/* Whether the request's work, or the check of it, needs memory that the GPU knows. */
static int call_uses_memory(const struct dsw_call *call)
{
        switch ((int)call->row->call) {
        case DETSHARE__REQUEST__CALL_LAUNCH:
        case DETSHARE__REQUEST__CALL_COPY:
        case DETSHARE__REQUEST__CALL_WRITE:
        case DETSHARE__REQUEST__CALL_READ:
        case DETSHARE__REQUEST__CALL_MEMSET:
        case DETSHARE__REQUEST__CALL_VALUE:
        case DETSHARE__REQUEST__CALL_GRAPH_CREATE:
        case DETSHARE__REQUEST__CALL_GRAPH_UPDATE:
        case DETSHARE__REQUEST__CALL_GRAPH_LAUNCH:
                return 1;
        default:
                return 0;
        }
}

static enum dsw_outcome call_start(struct dsw_call *call, const Detshare__Request *request)
{
        struct dsw_session *session = call->session;
        enum dsw_outcome outcome;

        if (session->worker->stopping)
                return dsw_call_fail(call, DETSHARE__STATUS__SHUTTING_DOWN, "the daemon is stopping");
        if (session->state == DSW_SESSION_RESETTING || !call_ring_reached(call))
                outcome = DSW_STALLED;
        else if (call_uses_memory(call) && dsw_later_settle(session))
                outcome = DSW_STALLED;
        else if (call->row->healthy && dsw_session_error(session))
                return dsw_call_sticky(call);
        else
                outcome = call->row->handler(call, request);
        return outcome;
}

/* Queues the request with a copy of its frame. */
static void call_defer(struct dsw_call *call, const uint8_t *payload, size_t size)
{
        call->raw = ds_alloc(size);
        if (!call->raw) {
                dsw_call_fail(call, DETSHARE__STATUS__INTERNAL, "the daemon is out of memory");
                return;
        }
        memcpy(call->raw, payload, size);
        call->raw_size = size;
        call_queue(call, 0);
}

size_t dsw_call_start_queued(struct dsw_session *session)
{
        Detshare__Internal__ToWorker *message;
        struct dsw_call *call;
        size_t n = 0;

        if (!session->retry || session->waits_stop || dsw_message_full(session->worker))
                return 0;
        session->retry = 0;
        while ((call = session->queue) && session->state == DSW_SESSION_OPEN) {
                message = dsw_message_unpack(session->worker, call->raw, call->raw_size);
                if (!message || !message->call || !message->call->request) {
                        dsw_call_fail(call, DETSHARE__STATUS__INTERNAL, "the daemon is out of memory");
                        continue;
                }
                call_unqueue(call);
                if (call_start(call, message->call->request) == DSW_STALLED) {
                        call_queue(call, 1);
                        break;
                }
                n++;
        }
        return n;
}

static struct dsw_call *call_new(
        struct dsw_session *session, const struct dsw_call_row *row, uint64_t id, const Detshare__Request *request)
{
        struct dsw_call *call = ds_alloc0(1, sizeof(*call));

        if (!call)
                return NULL;
        call->session = session;
        call->row = row;
        call->id = id;
        call->request_id = request->id;
        call->ring_tail = request->ring_tail;
        call->fd = -1;
        call_enlist(call);
        return call;
}

void dsw_call_arrive(
        ds_worker *worker, const Detshare__Internal__ToWorker *message, const uint8_t *payload, size_t size, int fd)
{
        const Detshare__Request *request = message->call->request;
        struct dsw_session *session = dsw_session_find(worker, message->call->session);
        const struct dsw_call_row *row = request ? dsw_calls_find(request->call_case) : NULL;
        uint64_t request_id = request ? request->id : 0;
        ds_cleanup(ds_closep) int owned_fd = fd;
        struct dsw_call *call;

        if (!row) {
                call_reject(
                        worker, message->id, request_id, DETSHARE__STATUS__BAD_REQUEST, "not a request for the worker");
                return;
        }
        if (!session || session->state == DSW_SESSION_FAULTED || session->state == DSW_SESSION_CLOSING) {
                call_reject(worker, message->id, request_id, DETSHARE__STATUS__NO_SUCH, "no such session");
                return;
        }
        if (session->n_calls >= DSW_SESSION_CALLS_MAX) {
                call_reject(worker, message->id, request_id, DETSHARE__STATUS__QUOTA, "too many unanswered requests");
                return;
        }
        call = call_new(session, row, message->id, request);
        if (!call) {
                call_reject(worker, message->id, request_id, DETSHARE__STATUS__INTERNAL, "the daemon is out of memory");
                return;
        }
        call->fd = DS_TAKE_FD(owned_fd);
        call->spin_ns = message->spin_ns;
        call->no_ptx = message->call->no_ptx;
        if (session->queue || call_start(call, request) == DSW_STALLED)
                call_defer(call, payload, size);
}
