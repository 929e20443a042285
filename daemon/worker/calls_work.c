/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream operations by request, for clients without shared memory
 *
 * The operations and checks are those of the ring, but a wrong argument is answered and does not become a sticky error.
 * Write and Read carry their data in the request or reply. The data passes through the session's bounce buffer, which
 * lies in the session's own window and is therefore a valid device address.
 */
#include <string.h>

#include "worker/internal.h"

static struct dsw_stream *work_stream(struct dsw_call *call, uint32_t slot)
{
        struct dsw_stream *stream = dsw_stream_find(call->session, slot);

        if (!stream)
                dsw_call_fail(call, DS_CUDA_INVALID_HANDLE, "no stream %u", slot);
        return stream;
}

/* Turns the result of a dsw_work_ function into an outcome. */
static enum dsw_outcome work_answer(struct dsw_call *call, int status, uint64_t seq, const char *why)
{
        Detshare__Submitted result = DETSHARE__SUBMITTED__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        if (status == DSW_WORK_E_STALLED)
                return DSW_STALLED;
        if (status)
                return dsw_call_fail(call, status, "%s", why);
        result.seq = seq;
        reply.result_case = DETSHARE__REPLY__RESULT_SUBMITTED;
        reply.submitted = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
        return DSW_ANSWERED;
}

enum dsw_outcome dsw_calls_launch(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__Launch *ask = request->launch;
        struct dsw_stream *stream = work_stream(call, ask->stream);
        struct ds_record_launch launch = {
                .kernel = ask->kernel,
                .grid = {ask->grid_x, ask->grid_y, ask->grid_z},
                .block = {ask->block_x, ask->block_y, ask->block_z},
                .shared_bytes = ask->shared_bytes,
                .cooperative = (uint16_t)ask->cooperative,
        };
        const char *why = "";
        uint64_t seq = 0;
        int status;

        if (!stream)
                return DSW_ANSWERED;
        if (ask->params.len > DS_RECORD_PARAMS_MAX)
                return dsw_call_fail(call, DS_CUDA_INVALID_VALUE, "%zu bytes of parameters", ask->params.len);
        launch.params_size = (uint32_t)ask->params.len;
        launch.cluster[0] = (uint16_t)DS_MIN(ask->cluster_x, (uint32_t)UINT16_MAX);
        launch.cluster[1] = (uint16_t)DS_MIN(ask->cluster_y, (uint32_t)UINT16_MAX);
        launch.cluster[2] = (uint16_t)DS_MIN(ask->cluster_z, (uint32_t)UINT16_MAX);
        status = dsw_work_launch(stream, &launch, ask->params.data, &seq, &why);
        return work_answer(call, status, seq, why);
}

enum dsw_outcome dsw_calls_graph_launch(struct dsw_call *call, const Detshare__Request *request)
{
        struct dsw_stream *stream = work_stream(call, request->graph_launch->stream);
        const struct ds_record_graph launch = {
                .head = {DS_RECORD_GRAPH, 0, sizeof(launch)}, .graph = request->graph_launch->graph};
        const char *why = "";
        uint64_t seq = 0;
        int status;

        if (!stream)
                return DSW_ANSWERED;
        status = dsw_work_graph(stream, &launch, NULL, &seq, &why);
        return work_answer(call, status, seq, why);
}

enum dsw_outcome dsw_calls_copy(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__Copy *ask = request->copy;
        struct dsw_stream *stream = work_stream(call, ask->stream);
        struct ds_record_copy copy = {
                .kind = ask->kind,
                .dst = ask->dst,
                .src = ask->src,
                .width = ask->width,
                .height = ask->height,
                .dst_pitch = ask->dst_pitch,
                .src_pitch = ask->src_pitch,
        };
        const char *why = "";
        uint64_t seq = 0;
        int status;

        if (!stream)
                return DSW_ANSWERED;
        if (ask->kind >= _DS_COPY_MAX)
                return dsw_call_fail(call, DS_CUDA_INVALID_VALUE, "unknown kind of copy %u", ask->kind);
        status = dsw_work_copy(stream, &copy, &seq, &why);
        return work_answer(call, status, seq, why);
}

enum dsw_outcome dsw_calls_memset(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__Memset *ask = request->memset;
        struct dsw_stream *stream = work_stream(call, ask->stream);
        struct ds_record_memset set = {
                .dst = ask->dst,
                .value = ask->value,
                .element_size = ask->element_size,
                .width = ask->width,
                .height = ask->height,
                .pitch = ask->pitch,
        };
        const char *why = "";
        uint64_t seq = 0;
        int status;

        if (!stream)
                return DSW_ANSWERED;
        status = dsw_work_memset(stream, &set, &seq, &why);
        return work_answer(call, status, seq, why);
}

enum dsw_outcome dsw_calls_event_record(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__EventRecord *ask = request->event_record;
        struct dsw_stream *stream = work_stream(call, ask->stream);
        const char *why = "";
        uint64_t seq = 0;
        int status;

        if (!stream)
                return DSW_ANSWERED;
        status = dsw_work_event(stream, ask->event, &seq, &why);
        return work_answer(call, status, seq, why);
}

enum dsw_outcome dsw_calls_stream_wait(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__StreamWait *ask = request->stream_wait;
        struct dsw_stream *stream = work_stream(call, ask->stream);
        const char *why = "";
        uint64_t seq = 0;
        int status;

        if (!stream)
                return DSW_ANSWERED;
        if (ask->shared)
                status = dsw_work_wait_shared(stream, ask->seq, &seq, &why);
        else
                status = dsw_work_wait(stream, ask->other, ask->seq, &seq, &why);
        return work_answer(call, status, seq, why);
}

enum dsw_outcome dsw_calls_host_call(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__HostCall *ask = request->host_call;
        struct dsw_stream *stream = work_stream(call, ask->stream);
        const char *why = "";
        uint64_t seq = 0;
        int status;

        if (!stream)
                return DSW_ANSWERED;
        status = dsw_work_host(stream, ask->id, &seq, &why);
        return work_answer(call, status, seq, why);
}

enum dsw_outcome dsw_calls_value(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__Value *ask = request->value;
        struct dsw_stream *stream = work_stream(call, ask->stream);
        const struct ds_record_value value = {
                .kind = ask->kind,
                .bytes = ask->bytes,
                .address = ask->address,
                .value = ask->value,
        };
        const char *why = "";
        uint64_t seq = 0;
        int status;

        if (!stream)
                return DSW_ANSWERED;
        status = dsw_work_value(stream, &value, &seq, &why);
        return work_answer(call, status, seq, why);
}

/* --- copies through the bounce buffer ----------------------------------------------------------------------------- */

/* Pointer to the data at this address of the bounce buffer, which the worker maps at the same address as the device. */
static uint8_t *work_bounce(uint64_t va)
{
        return (uint8_t *)(uintptr_t)va;
}

/* Creates a copy between the bounce buffer and the client's memory, without submitting it. *ret_op is valid on 0. */
static int work_bounce_op(
        struct dsw_stream *stream, uint64_t address, size_t bytes, struct dsw_op **ret_op, const char **ret_why)
{
        struct dsw_session *session = stream->session;
        struct dsw_op *op;
        uint64_t bounce;
        int r;

        if (bytes > DSW_COPY_RPC_MAX || dsw_memory_where(session, address, bytes) == DSW_WHERE_NOWHERE) {
                *ret_why = bytes > DSW_COPY_RPC_MAX ? "too many bytes" : "the address is not in an allocation";
                return DS_CUDA_INVALID_VALUE;
        }
        if (!dsw_op_room(session, stream, 0))
                return DSW_WORK_E_STALLED;
        r = dsw_memory_bounce_alloc(session, bytes, &bounce);
        if (r == DSW_HEAP_E_FULL)
                return DSW_WORK_E_STALLED;
        op = r ? NULL : dsw_op_new(session, DS_OP_COPY, 0);
        if (!op) {
                if (!r)
                        dsw_memory_bounce_free(session, bounce);
                *ret_why = "the daemon is out of memory";
                return DS_CUDA_OUT_OF_MEMORY;
        }
        op->bounce = bounce;
        op->op.copy = (struct ds_copy){.width = bytes, .height = 1, .dst_pitch = bytes, .src_pitch = bytes};
        *ret_op = op;
        return 0;
}

static int work_bounce_submit(struct dsw_stream *stream, struct dsw_op *op, uint64_t *ret_seq, const char **ret_why)
{
        struct dsw_session *session = stream->session;
        uint64_t bounce = op->bounce;

        if (!dsw_op_submit(stream, op, ret_seq))
                return 0;
        dsw_memory_bounce_free(session, bounce);
        *ret_why = "the daemon is out of memory";
        return session->live ? DSW_WORK_E_STALLED : DS_CUDA_OUT_OF_MEMORY;
}

enum dsw_outcome dsw_calls_write(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__Write *ask = request->write;
        struct dsw_stream *stream = work_stream(call, ask->stream);
        struct dsw_op *op = NULL;
        const char *why = "";
        uint64_t seq = 0;
        int status;

        if (!stream)
                return DSW_ANSWERED;
        if (!ask->data.len) {
                status = dsw_work_event(stream, 0, &seq, &why);
                return work_answer(call, status, seq, why);
        }
        status = work_bounce_op(stream, ask->dst, ask->data.len, &op, &why);
        if (status)
                return work_answer(call, status, 0, why);
        memcpy(work_bounce(op->bounce), ask->data.data, ask->data.len);
        op->op.copy.kind = DS_COPY_HTOD;
        op->op.copy.src = op->bounce;
        op->op.copy.dst = ask->dst;
        status = work_bounce_submit(stream, op, &seq, &why);
        return work_answer(call, status, seq, why);
}

static int work_read_ended(const struct dsw_call *call)
{
        return !call->op;
}

static void work_finish_read(struct dsw_call *call)
{
        Detshare__ReadReply result = DETSHARE__READ_REPLY__INIT;
        Detshare__Reply reply = DETSHARE__REPLY__INIT;

        if (call->status) {
                dsw_call_fail(call, call->status, "%s", call->session->error_text);
                return;
        }
        result.data.data = call->bounce ? work_bounce(call->bounce) : NULL;
        result.data.len = call->bytes;
        reply.result_case = DETSHARE__REPLY__RESULT_READ;
        reply.read = &result;
        dsw_call_reply(call, &reply, NULL, NULL, 0, 0);
}

enum dsw_outcome dsw_calls_read(struct dsw_call *call, const Detshare__Request *request)
{
        const Detshare__Read *ask = request->read;
        struct dsw_stream *stream = work_stream(call, ask->stream);
        struct dsw_op *op = NULL;
        const char *why = "";
        uint64_t seq = 0, bounce;
        int status;

        if (!stream)
                return DSW_ANSWERED;
        if (!ask->bytes)
                return dsw_call_fail(call, DS_CUDA_INVALID_VALUE, "a read of 0 bytes");
        status = work_bounce_op(stream, ask->src, ask->bytes, &op, &why);
        if (status)
                return work_answer(call, status, 0, why);
        bounce = op->bounce;
        op->op.copy.kind = DS_COPY_DTOH;
        op->op.copy.src = ask->src;
        op->op.copy.dst = bounce;
        op->call = call;
        status = work_bounce_submit(stream, op, &seq, &why);
        if (status)
                return work_answer(call, status, 0, why);
        call->op = op;
        call->bounce = bounce;
        call->bytes = ask->bytes;
        return dsw_call_park(call, work_read_ended, work_finish_read);
}
