/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream operations: allocation, submission, completion
 *
 * Operations come from one pool of the worker. Their number per session is bounded. A session at its bound is not
 * refused: its ring is not read further and its requests stay queued until some of its work ends. Parameters are stored
 * inside the operation unless they are large.
 */
#include <assert.h>
#include <string.h>

#include "worker/graph.h"
#include "worker/graph_piece.h"
#include "worker/internal.h"

static uint32_t op_large(uint32_t params_size)
{
        return params_size > DSW_PARAMS_INLINE ? params_size : 0;
}

int dsw_op_room(const struct dsw_session *session, const struct dsw_stream *stream, uint32_t params_size)
{
        if (session->error)
                return 1; /* there is always room in a failed session, because its operation will be dropped */
        if (session->n_live >= DSW_SESSION_OPS_MAX)
                return 0;
        if (session->param_bytes + op_large(params_size) > DSW_SESSION_PARAM_BYTES)
                return 0;
        return ds_coroutine_room(stream->coroutine) > 0 &&
               dsw_user_room(session->user, op_large(params_size), stream->live == 0);
}

struct dsw_op *dsw_op_new(struct dsw_session *session, enum ds_op_kind kind, uint32_t params_size)
{
        ds_worker *worker = session->worker;
        struct dsw_op *op = worker->free_ops;

        if (op)
                worker->free_ops = op->next;
        else
                op = ds_alloc(sizeof(*op));
        if (!op)
                return NULL;
        memset(op, 0, offsetof(struct dsw_op, params));
        op->op.kind = kind;
        op->session = session;
        op->large_size = op_large(params_size);
        if (op->large_size) {
                op->large_params = ds_alloc(op->large_size);
                if (!op->large_params) {
                        op->large_size = 0;
                        dsw_op_free(op);
                        return NULL;
                }
        }
        session->param_bytes += op->large_size;
        session->user->param_bytes += op->large_size;
        if (kind == DS_OP_LAUNCH)
                op->op.launch.params = op->large_size ? op->large_params : op->params;
        return op;
}

void dsw_op_free(struct dsw_op *op)
{
        ds_worker *worker = op->session->worker;

        assert(op->session->param_bytes >= op->large_size);
        if (op->piece)
                dsw_piece_unuse(op->piece);
        dsw_graph_put(op->session, op->graph);
        op->graph = NULL;
        op->session->param_bytes -= op->large_size;
        op->session->user->param_bytes -= op->large_size;
        op->large_params = ds_free(op->large_params);
        op->next = worker->free_ops;
        worker->free_ops = op;
}

void dsw_op_pool_free(ds_worker *worker)
{
        while (worker->free_ops) {
                struct dsw_op *next = worker->free_ops->next;

                ds_free(worker->free_ops);
                worker->free_ops = next;
        }
}

/* Copies the session's attributes that the device needs. Exact times cost time on a GPU, so only sessions with timed
 * events get them. */
void dsw_op_set_session(struct dsw_op *op)
{
        const uint32_t timed = op->session->events != NULL;

        switch (op->op.kind) {
        case DS_OP_LAUNCH:
                op->op.launch.space = op->session->space;
                op->op.launch.timed = timed;
                break;
        case DS_OP_COPY:
                op->op.copy.space = op->session->space;
                op->op.copy.timed = timed;
                break;
        case DS_OP_MEMSET:
                op->op.memset.space = op->session->space;
                op->op.memset.timed = timed;
                break;
        case DS_OP_GRAPH:
                op->op.whole.space = op->session->space;
                op->op.whole.timed = timed;
                break;
        case DS_OP_MARK:
        case DS_OP_WAIT:
        case DS_OP_OUTSIDE:
        case _DS_OP_KIND_MAX:
                break;
        }
}

static uint32_t op_kernels(const struct ds_op *op)
{
        return op->kind == DS_OP_GRAPH ? op->graph->n_kernels : op->kind == DS_OP_LAUNCH;
}

int dsw_op_submit(struct dsw_stream *stream, struct dsw_op *op, uint64_t *ret_seq)
{
        struct dsw_session *session = stream->session;
        ds_worker *worker = session->worker;

        assert(!session->error);
        op->stream = stream;
        op->seq = stream->submitted + 1 + op->op.more;
        op->index = session->op_index + 1;
        dsw_op_set_session(op);
        if (ds_sched_submit(stream->coroutine, &op->op, worker->now_ns)) {
                dsw_op_free(op);
                return DS_SCHED_E_FULL;
        }
        assert(op->seq == stream->base + op->op.seq);
        worker->totals.launches += op_kernels(&op->op);
        stream->submitted = op->seq;
        session->user->n_streams += stream->live++ == 0;
        session->op_index++;
        session->n_live++;
        session->user->n_live++;
        worker->live_ops++;
        op->ls = session->class_ == DETSHARE_CLASS_LS;
        if (op->ls && !worker->ls_live++)
                dsw_quiesce_ls_begins(worker);
        worker->sched_due = 1;
        atomic_fetch_add_explicit(&session->page->accepted, 1 + op->op.more, memory_order_relaxed);
        DL_APPEND(session->live, op);
        *ret_seq = op->seq;
        return 0;
}

int dsw_session_ended(const struct dsw_session *session, uint64_t index)
{
        return !session->live || session->live->index > index;
}

/* Ends an operation of kind OUTSIDE: the client's host function or the awaited value no longer matters. */
static void op_end_outside(struct dsw_op *op)
{
        if (!op->op.outside.due)
                return;
        op->session->worker->n_due--;
        if (op->outside == DSW_OUTSIDE_VALUE)
                dsw_value_forget(op);
        else
                dsw_host_forget(op);
}

static void op_end_event(const struct dsw_op *op, uint64_t end_ns)
{
        struct dsw_event *event = op->event ? dsw_event_known(op->session, op->event) : NULL;

        /* ignore a record that a later record of the same event has replaced */
        if (!event || event->index != op->index)
                return;
        event->ns = end_ns;
        event->ended = 1;
        dsw_page_time(op->session, event->id, op->stream->slot, op->seq, end_ns);
}

/* Number of kernels, copies and memsets in an operation, as the scheduler counts a session's work. */
static uint32_t op_works(const struct ds_op *op)
{
        switch (op->kind) {
        case DS_OP_LAUNCH:
        case DS_OP_COPY:
        case DS_OP_MEMSET:
                return 1;
        case DS_OP_GRAPH:
                return op->in_parts ? 0 : op->graph->n_works;
        default:
                return 0;
        }
}

static void op_status(struct dsw_op *op, int status, uint64_t end_ns, const char *message)
{
        struct dsw_session *session = op->session;

        if (!status) {
                op_end_event(op, end_ns);
                return;
        }
        dsw_lost_op(session, status, message);
        session->worker->totals.errors += session->state == DSW_SESSION_OPEN;
        dsw_session_fail(session, status, message);
}

/* Ends an operation that is one part of a graph; the operation of the graph itself ends later. */
static void op_part_done(struct dsw_op *op, int status, uint64_t end_ns, const char *message)
{
        struct dsw_session *session = op->session;

        session->worker->totals.completed += op_works(&op->op);
        if (op->op.kind == DS_OP_OUTSIDE)
                op_end_outside(op);
        op_status(op, status, end_ns, message);
        op->stream->stuck_wall_ns = 0; /* a part that ends is progress of the stream */
        dsw_op_free(op);
        dsw_session_dirty(session);
}

void dsw_op_done(
        void *user, struct ds_op *scheduled, int status, uint64_t start_ns, uint64_t end_ns, const char *message)
{
        struct dsw_op *op = DS_CONTAINER_OF(scheduled, struct dsw_op, op);
        struct dsw_session *session = op->session;
        ds_worker *worker = user;

        if (op->kernel && !status) {
                op->kernel->key = scheduled->kernel_key;
                op->kernel->launches++;
        }
        if (scheduled->part) {
                op_part_done(op, status, end_ns, message);
                return;
        }
        if (!op->stream) {
                if (op == session->loan.clearing)
                        dsw_pool_cleared(op, status);
                else
                        dsw_value_probed(op, status);
                return;
        }
        if (scheduled->kind == DS_OP_OUTSIDE)
                op_end_outside(op);
        assert(session->n_live > 0);
        DL_DELETE(session->live, op);
        session->n_live--;
        session->user->n_live--;
        worker->live_ops--;
        if (op->ls) {
                worker->ls_live--;
                worker->ls_end_ns = worker->now_ns;
                if (!status)
                        dsw_stirs_ended(session, op_kernels(scheduled), start_ns, end_ns, !session->n_live);
        }
        worker->totals.completed += op_works(scheduled);
        op_status(op, status, end_ns, message);
        if (scheduled->kind == DS_OP_GRAPH)
                /* background work: the device may have launched the graph on a rung where it had no instance of it */
                dsw_quiesce_chore(worker);
        if (op->call) {
                /* the operation was a Read, whose reply copies the data from the bounce buffer */
                op->call->op = NULL;
                op->call->status = status;
        } else if (op->bounce) {
                dsw_memory_bounce_free(session, op->bounce);
        }
        dsw_stream_ended(op->stream, op->seq);
        dsw_op_free(op);
        dsw_user_ended(worker, session->user);
        dsw_session_dirty(session);
}
