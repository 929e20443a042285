/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values in memory that a stream writes or waits for
 *
 * They are ordered in the stream like other operations. A wait stays in the daemon's queue, not on the device. So it
 * may wait for work that is submitted later, by any stream, process or the host. Device memory and pinned memory can be
 * waited for. Memory barriers need no work: each operation of a stream ends before the next begins.
 */
#include "cuda/memop.h"
#include "cuda/capture.h"
#include "cuda/range.h"
#include "cuda/stream.h"

#define MEMOPS_MAX 256u /* a batch has fewer operations than this */
/* Flags of the first ABI version: it accepts a write without a memory barrier before it, later versions do not. */
#define V1_FLAGS ((unsigned int)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)

static CUresult check_word(CUdeviceptr address, uint32_t bytes)
{
        enum dcu_place place;

        if (address % bytes)
                return CUDA_ERROR_INVALID_VALUE;
        place = dcu_place_of(address, bytes);
        return place == DCU_PLACE_DEVICE || place == DCU_PLACE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_wait(CUdeviceptr address, uint32_t bytes, unsigned int flags)
{
        if (flags & ~(unsigned int)(CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH))
                return CUDA_ERROR_INVALID_VALUE;
        if ((flags & CU_STREAM_WAIT_VALUE_FLUSH) && !dcu_attribute(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES))
                return CUDA_ERROR_NOT_SUPPORTED;
        return check_word(address, bytes);
}

static CUresult check_write(CUdeviceptr address, uint32_t bytes, unsigned int flags)
{
        return flags ? CUDA_ERROR_INVALID_VALUE : check_word(address, bytes);
}

CUresult dcu_memop_check(const CUstreamBatchMemOpParams *op)
{
        switch ((unsigned int)op->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
                return check_wait(op->waitValue.address, 4, op->waitValue.flags);
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
                return check_wait(op->waitValue.address, 8, op->waitValue.flags);
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
                return check_write(op->writeValue.address, 4, op->writeValue.flags);
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
                return check_write(op->writeValue.address, 8, op->writeValue.flags);
        case CU_STREAM_MEM_OP_BARRIER:
                return op->memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_ERROR_INVALID_VALUE
                                                                                   : CUDA_SUCCESS;
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
                if (op->flushRemoteWrites.flags)
                        return CUDA_ERROR_INVALID_VALUE;
                return dcu_attribute(CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES) ? CUDA_SUCCESS
                                                                                  : CUDA_ERROR_NOT_SUPPORTED;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

static CUresult submit_op(uint32_t slot, const CUstreamBatchMemOpParams *op)
{
        static const enum dsc_value_kind kinds[4] = {DSC_VALUE_GEQ, DSC_VALUE_EQ, DSC_VALUE_AND, DSC_VALUE_NOR};
        const enum dsc_value_kind kind = kinds[op->waitValue.flags & CU_STREAM_WAIT_VALUE_NOR];

        switch ((unsigned int)op->operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
                return dcu_result(dsc_value(dcu.session, slot, kind, 4, op->waitValue.address, op->waitValue.value));
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
                return dcu_result(dsc_value(dcu.session, slot, kind, 8, op->waitValue.address, op->waitValue.value64));
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
                return dcu_result(
                        dsc_value(dcu.session, slot, DSC_VALUE_WRITE, 4, op->writeValue.address, op->writeValue.value));
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
                return dcu_result(dsc_value(
                        dcu.session, slot, DSC_VALUE_WRITE, 8, op->writeValue.address, op->writeValue.value64));
        default:
                return CUDA_SUCCESS;
        }
}

static CUresult submit(CUstream stream, unsigned int count, const CUstreamBatchMemOpParams *ops, unsigned int flags)
{
        struct dcu_context *context, *owner;
        uint32_t slot;
        int capturing;
        CUresult r = dcu_enter_any(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!count || count >= MEMOPS_MAX || !ops || flags)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_stream_work(stream, context, &slot, &owner, &capturing);
        if (r == CUDA_SUCCESS && capturing)
                return dcu_capture_memops(slot, owner, count, ops, flags);
        for (unsigned int i = 0; i < count && r == CUDA_SUCCESS; i++)
                r = dcu_memop_check(&ops[i]);
        for (unsigned int i = 0; i < count && r == CUDA_SUCCESS; i++)
                r = submit_op(slot, &ops[i]);
        return r;
}

static CUresult wait_value(CUstream stream, CUdeviceptr address, uint64_t value, unsigned int flags, int wide)
{
        const CUstreamBatchMemOpParams op = {
                .waitValue = {
                        .operation = wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32,
                        .address = address,
                        .value64 = value,
                        .flags = flags,
                }};

        return submit(stream, 1, &op, 0);
}

static CUresult write_value(CUstream stream, CUdeviceptr address, uint64_t value, unsigned int flags, int wide)
{
        const CUstreamBatchMemOpParams op = {
                .writeValue = {
                        .operation = wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32,
                        .address = address,
                        .value64 = value,
                        .flags = flags,
                }};

        return submit(stream, 1, &op, 0);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
        return wait_value(stream, addr, value, flags, 0);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
        return wait_value(stream, addr, value, flags, 0);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
        return wait_value(stream, addr, value, flags, 1);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
        return wait_value(stream, addr, value, flags, 1);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
        return write_value(stream, addr, value, flags & ~V1_FLAGS, 0);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags)
{
        return write_value(stream, addr, value, flags, 0);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
        return write_value(stream, addr, value, flags & ~V1_FLAGS, 1);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags)
{
        return write_value(stream, addr, value, flags, 1);
}

CUresult cuStreamBatchMemOp(
        CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
        return submit(stream, count, paramArray, flags);
}

CUresult cuStreamBatchMemOp_v2(
        CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
        return submit(stream, count, paramArray, flags);
}
