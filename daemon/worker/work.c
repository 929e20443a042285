/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns ring records and requests into operations
 *
 * The ring and the socket differ only in how they report a wrong argument. Both use this file, so that a program
 * behaves the same over either.
 */
#include <assert.h>
#include <string.h>

#include "worker/graph.h"
#include "worker/internal.h"

static int work_refuse(int status, const char **ret_why, const char *why)
{
        *ret_why = why;
        return status;
}

static int work_no_memory(const char **ret_why)
{
        return work_refuse(DS_CUDA_OUT_OF_MEMORY, ret_why, "the daemon is out of memory");
}

static int work_submit(struct dsw_stream *stream, struct dsw_op *op, uint64_t *ret_seq, const char **ret_why)
{
        if (!dsw_op_submit(stream, op, ret_seq))
                return 0;
        /* if the session has nothing in flight, only memory can be lacking, and no completion would cause a retry */
        return stream->session->live ? DSW_WORK_E_STALLED : work_no_memory(ret_why);
}

int dsw_work_launch(struct dsw_stream *stream, const struct ds_record_launch *launch, const void *params,
        uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_session *session = stream->session;
        struct dsw_kernel *kernel = dsw_module_kernel(session, launch->kernel);
        struct ds_launch l;
        struct dsw_op *op;
        int status;

        if (!kernel)
                return work_refuse(DS_CUDA_INVALID_HANDLE, ret_why, "launch of an unknown kernel");
        l = dsw_graph_launch_of(kernel, launch);
        status = dsw_check_launch(&session->worker->limits, kernel->info, &l, ret_why);
        if (status)
                return status;
        if (!dsw_op_room(session, stream, launch->params_size))
                return DSW_WORK_E_STALLED;
        op = dsw_op_new(session, DS_OP_LAUNCH, launch->params_size);
        if (!op)
                return work_no_memory(ret_why);
        l.params = op->op.launch.params;
        op->op.launch = l;
        if (launch->params_size)
                memcpy(op->large_params ? op->large_params : op->params, params, launch->params_size);
        dsw_forms_launch(session, kernel, op);
        return work_submit(stream, op, ret_seq, ret_why);
}

/* Submits a MARK operation, which does no work but may record an event. */
static int work_mark(struct dsw_stream *stream, uint64_t event, uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_op *op;

        if (!dsw_op_room(stream->session, stream, 0))
                return DSW_WORK_E_STALLED;
        op = dsw_op_new(stream->session, DS_OP_MARK, 0);
        if (!op)
                return work_no_memory(ret_why);
        op->event = event;
        return work_submit(stream, op, ret_seq, ret_why);
}

int dsw_work_copy(
        struct dsw_stream *stream, const struct ds_record_copy *record, uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_session *session = stream->session;
        struct ds_copy copy = {
                .kind = (enum ds_copy_kind)record->kind,
                .dst = record->dst,
                .src = record->src,
                .width = record->width,
                .height = record->height,
                .dst_pitch = record->dst_pitch,
                .src_pitch = record->src_pitch,
        };
        int status, empty;
        struct dsw_op *op;

        status = dsw_check_copy(&copy, dsw_memory_where, session, &empty, ret_why);
        if (status)
                return status;
        if (empty)
                return work_mark(stream, 0, ret_seq, ret_why);
        if (!dsw_op_room(session, stream, 0))
                return DSW_WORK_E_STALLED;
        op = dsw_op_new(session, DS_OP_COPY, 0);
        if (!op)
                return work_no_memory(ret_why);
        op->op.copy = copy;
        return work_submit(stream, op, ret_seq, ret_why);
}

int dsw_work_memset(
        struct dsw_stream *stream, const struct ds_record_memset *record, uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_session *session = stream->session;
        struct ds_memset set = {
                .dst = record->dst,
                .value = record->value,
                .element_size = record->element_size,
                .width = record->width,
                .height = record->height,
                .pitch = record->pitch,
        };
        int status, empty;
        struct dsw_op *op;

        status = dsw_check_memset(&set, dsw_memory_where, session, &empty, ret_why);
        if (status)
                return status;
        if (empty)
                return work_mark(stream, 0, ret_seq, ret_why);
        if (!dsw_op_room(session, stream, 0))
                return DSW_WORK_E_STALLED;
        op = dsw_op_new(session, DS_OP_MEMSET, 0);
        if (!op)
                return work_no_memory(ret_why);
        op->op.memset = set;
        return work_submit(stream, op, ret_seq, ret_why);
}

int dsw_work_event(struct dsw_stream *stream, uint64_t id, uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_event *event = id ? dsw_event_find(stream->session, id) : NULL;
        int r;

        if (id && !event)
                return work_refuse(DS_CUDA_INVALID_HANDLE, ret_why, "record of an unknown event");
        r = work_mark(stream, id, ret_seq, ret_why);
        if (r || !event)
                return r;
        event->index = stream->session->op_index;
        event->ended = 0;
        return 0;
}

int dsw_work_change(struct dsw_stream *stream, const struct ds_record_graph *record, const void *changes,
        uint64_t *ret_seq, const char **ret_why)
{
        int r = dsw_graph_change(stream->session, record->graph, changes, record->head.size - sizeof(*record), ret_why);

        return r ? r : work_mark(stream, 0, ret_seq, ret_why);
}

int dsw_work_graph(struct dsw_stream *stream, const struct ds_record_graph *record, const void *changes,
        uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_session *session = stream->session;
        struct dsw_graph *graph;
        struct dsw_op *op;
        int r = 0;

        if (record->head.size > sizeof(*record))
                r = dsw_graph_change(session, record->graph, changes, record->head.size - sizeof(*record), ret_why);
        if (!r)
                r = dsw_graph_get(session, record->graph, &graph, ret_why);
        if (r)
                return r;
        op = dsw_op_room(session, stream, 0) ? dsw_op_new(session, DS_OP_GRAPH, 0) : NULL;
        if (!op) {
                dsw_graph_put(session, graph);
                return dsw_op_room(session, stream, 0) ? work_no_memory(ret_why) : DSW_WORK_E_STALLED;
        }
        dsw_graph_attach(session, graph, op);
        dsw_graph_put(session, graph); /* the operation has a reference of its own */
        r = work_submit(stream, op, ret_seq, ret_why);
        if (!r)
                dsw_graph_record_events(session, graph);
        return r;
}

int dsw_work_wait_for(
        struct dsw_stream *stream, ds_coroutine *coroutine, uint64_t seq, uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_op *op;

        if (!coroutine || coroutine == stream->coroutine)
                return work_mark(stream, 0, ret_seq, ret_why);
        if (!dsw_op_room(stream->session, stream, 0))
                return DSW_WORK_E_STALLED;
        op = dsw_op_new(stream->session, DS_OP_WAIT, 0);
        if (!op)
                return work_no_memory(ret_why);
        op->op.wait_for = coroutine;
        op->op.wait_seq = seq;
        return work_submit(stream, op, ret_seq, ret_why);
}

int dsw_work_wait(struct dsw_stream *stream, uint32_t slot, uint64_t seq, uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_session *session = stream->session;
        struct dsw_stream *other = slot < session->n_streams ? session->streams[slot] : NULL;

        /* a client can still wait for a destroyed stream: its sequence numbers stay valid */
        if (!other || seq > other->submitted)
                return work_refuse(DS_CUDA_INVALID_HANDLE, ret_why, "wait for work that was not submitted");
        if (other == stream || seq <= other->done)
                return work_mark(stream, 0, ret_seq, ret_why);
        assert(other->coroutine);
        assert(seq > other->base);
        return dsw_work_wait_for(stream, other->coroutine, seq - other->base, ret_seq, ret_why);
}

static struct dsw_op *work_outside(struct dsw_stream *stream, enum dsw_outside outside, int *ret, const char **ret_why)
{
        struct dsw_op *op = NULL;

        *ret = DSW_WORK_E_STALLED;
        if (!dsw_op_room(stream->session, stream, 0))
                return NULL;
        op = dsw_op_new(stream->session, DS_OP_OUTSIDE, 0);
        if (op)
                op->outside = outside;
        else
                *ret = work_no_memory(ret_why);
        return op;
}

int dsw_work_host(struct dsw_stream *stream, uint64_t id, uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_op *op;
        int r;

        op = work_outside(stream, DSW_OUTSIDE_HOST, &r, ret_why);
        if (!op)
                return r;
        op->host_id = id;
        return work_submit(stream, op, ret_seq, ret_why);
}

/* Turns a write of one word into a memset of one element, and a wait for a value into an operation of kind OUTSIDE. */
void dsw_op_set_value(struct dsw_op *op, const struct ds_record_value *value)
{
        if (value->kind == DS_VALUE_WRITE) {
                op->op.memset = (struct ds_memset){
                        .dst = value->address,
                        .value = value->value,
                        .element_size = value->bytes,
                        .width = 1,
                        .height = 1,
                        .pitch = value->bytes,
                };
                return;
        }
        op->outside = DSW_OUTSIDE_VALUE;
        op->address = value->address;
        op->value = value->value;
        op->value_kind = value->kind;
        op->value_bytes = value->bytes;
}

static int work_store(
        struct dsw_stream *stream, const struct ds_record_value *value, uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_op *op;

        if (!dsw_op_room(stream->session, stream, 0))
                return DSW_WORK_E_STALLED;
        op = dsw_op_new(stream->session, DS_OP_MEMSET, 0);
        if (!op)
                return work_no_memory(ret_why);
        dsw_op_set_value(op, value);
        return work_submit(stream, op, ret_seq, ret_why);
}

int dsw_work_value(
        struct dsw_stream *stream, const struct ds_record_value *value, uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_op *op;
        int r;

        r = dsw_check_value(value, dsw_memory_where, stream->session, ret_why);
        if (r)
                return r;
        if (value->kind == DS_VALUE_WRITE)
                return work_store(stream, value, ret_seq, ret_why);
        op = work_outside(stream, DSW_OUTSIDE_VALUE, &r, ret_why);
        if (!op)
                return r;
        dsw_op_set_value(op, value);
        return work_submit(stream, op, ret_seq, ret_why);
}
