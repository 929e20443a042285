/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host functions: stream operations that the client itself carries out
 *
 * A host function becomes due when everything before it in its stream has ended. Until the client reports that it has
 * returned, the operation stays in the coroutine's queue. The device does not know it: no quiesce waits for it, no
 * policy sees it, and other streams and clients continue.
 *
 * With a ring, the worker writes the function's id into the page, and the client counts returned functions in the
 * ring's header. At most DS_HOST_CALLS are called at a time; further due functions wait. Without a ring the client
 * requests the next id (HostNext), and its next request names the function that has returned.
 *
 * If the operation of a called function is dropped (an error, a reset), its place stays occupied, because the client
 * counts the function anyway. A new worker continues the client's count. It does not repeat calls of an earlier worker:
 * those operations were lost with it.
 */
#include <assert.h>

#include "worker/internal.h"

/* --- callbacks of the scheduler ----------------------------------------------------------------------------------- */

int dsw_op_due(void *user, struct ds_op *scheduled)
{
        struct dsw_op *op = DS_CONTAINER_OF(scheduled, struct dsw_op, op);

        op->session->worker->n_due++;
        if (op->outside == DSW_OUTSIDE_VALUE)
                return dsw_value_due(op);
        DL_APPEND2(op->session->host.due, op, due_prev, due_next);
        op->due = DSW_DUE_WAITING;
        dsw_session_dirty(op->session);
        return 0;
}

void dsw_host_forget(struct dsw_op *op)
{
        struct dsw_host *host = &op->session->host;

        if (op->due == DSW_DUE_WAITING)
                DL_DELETE2(host->due, op, due_prev, due_next);
        else if (op->due == DSW_DUE_GIVEN)
                DL_DELETE2(host->given, op, due_prev, due_next);
        for (uint32_t i = 0; op->due == DSW_DUE_CALLED && i < DS_HOST_CALLS; i++) {
                if (host->calls[i] == op)
                        host->calls[i] = NULL;
        }
        op->due = DSW_DUE_NOT;
}

static void host_over(struct dsw_op *op)
{
        ds_worker *worker = op->session->worker;

        op->due = DSW_DUE_NOT;
        ds_sched_over(&op->op, worker->now_ns);
        worker->sched_due = 1;
}

uint32_t dsw_host_running(const struct dsw_session *session)
{
        const struct dsw_host *host = &session->host;
        const struct dsw_op *op;
        uint32_t n = (uint32_t)(host->called - host->ended);

        DL_FOREACH2(host->given, op, due_next)
        {
                n++;
        }
        return n;
}

/* --- through page and ring ---------------------------------------------------------------------------------------- */

void dsw_host_attach(struct dsw_session *session)
{
        struct dsw_host *host = &session->host;

        host->called = host->ended = atomic_load(&session->ring->host_done);
        atomic_store(&session->page->host_calls, host->called);
        dsw_session_dirty(session);
}

void dsw_host_call(struct dsw_session *session)
{
        struct ds_completion_page *page = session->page;
        struct dsw_host *host = &session->host;
        uint64_t before = host->called;
        struct dsw_op *op;

        while (session->ring && (op = host->due) && host->called - host->ended < DS_HOST_CALLS) {
                uint64_t at = host->called % DS_HOST_CALLS;

                DL_DELETE2(host->due, op, due_prev, due_next);
                op->due = DSW_DUE_CALLED;
                host->calls[at] = op;
                atomic_store_explicit(&page->host_ids[at], op->host_id, memory_order_relaxed);
                host->called++;
        }
        if (host->called == before)
                return;
        atomic_store(&page->host_calls, host->called);
        host->called_wall_ns = session->worker->wall_ns(); /* the called function holds the virtual clock from now on */
}

int dsw_host_waits(const struct dsw_session *session)
{
        return session->ring && session->state != DSW_SESSION_FAULTED &&
               atomic_load(&session->ring->host_done) != session->host.ended;
}

size_t dsw_host_poll(struct dsw_session *session)
{
        struct dsw_host *host = &session->host;
        uint64_t done;
        size_t n = 0;

        if (!dsw_host_waits(session))
                return 0;
        done = atomic_load_explicit(&session->ring->host_done, memory_order_acquire);
        if (done - host->ended > host->called - host->ended) {
                dsw_session_fault(session, "host functions returned that were not called");
                return 0;
        }
        for (; host->ended != done; host->ended++, n++) {
                struct dsw_op *op = host->calls[host->ended % DS_HOST_CALLS];

                host->calls[host->ended % DS_HOST_CALLS] = NULL;
                if (op)
                        host_over(op);
        }
        dsw_session_dirty(session);
        return n;
}

/* --- through requests, without page and ring ---------------------------------------------------------------------- */

static int host_next_ready(const struct dsw_call *call)
{
        return call->session->host.due || call->session->error;
}

static void host_next_finish(struct dsw_call *call)
{
        Detshare__HostReply result = DETSHARE__HOST_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;
        struct dsw_session *session = call->session;
        struct dsw_host *host = &session->host;
        struct dsw_op *op = host->due;

        if (session->error || session->ring) {
                dsw_call_fail(call, session->error ? session->error : DS_CUDA_INVALID_VALUE, "%s",
                        session->error ? session->error_text
                                       : "a session with a ring gets host functions through its page only");
                return;
        }
        DL_DELETE2(host->due, op, due_prev, due_next);
        DL_APPEND2(host->given, op, due_prev, due_next);
        op->due = DSW_DUE_GIVEN;
        host->called_wall_ns = session->worker->wall_ns();
        op->host_number = session->worker->id_base + ++host->number;
        result.number = op->host_number;
        result.id = op->host_id;
        reply.result_case = DETSHARE__REPLY__RESULT_HOST_NEXT;
        reply.host_next = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
}

enum dsw_outcome dsw_calls_host_next(struct dsw_call *call, const Detshare__Request *request)
{
        struct dsw_session *session = call->session;
        uint64_t done = request->host_next->done;
        struct dsw_op *op;

        if (session->ring)
                return dsw_call_fail(
                        call, DS_CUDA_INVALID_VALUE, "a session with a ring gets host functions through its page only");
        DL_FOREACH2(session->host.given, op, due_next)
        {
                if (op->host_number == done)
                        break;
        }
        if (op) {
                DL_DELETE2(session->host.given, op, due_prev, due_next);
                host_over(op);
        }
        return dsw_call_park(call, host_next_ready, host_next_finish);
}
