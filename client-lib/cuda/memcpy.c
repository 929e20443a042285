/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-dimensional copies
 *
 * The names of the calls say the direction; the driver trusts only the CUdeviceptr side. A copy of zero bytes succeeds,
 * whatever the addresses.
 */
#include "cuda/copy.h"

static CUresult copy(CUdeviceptr dst, enum dcu_side_rule dst_rule, CUdeviceptr src, enum dcu_side_rule src_rule,
        size_t bytes, CUstream stream, int sync)
{
        const struct dcu_box box = {
                .dst = {dst, bytes, bytes, dst_rule},
                .src = {src, bytes, bytes, src_rule},
                .width = bytes,
                .height = 1,
                .depth = 1,
        };
        struct dcu_context *context;
        CUresult r = dcu_enter_any(&context);

        return r == CUDA_SUCCESS ? dcu_copy_box(context, stream, sync, &box) : r;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
        return copy(dstDevice, DCU_SIDE_DEVICE, (uintptr_t)srcHost, DCU_SIDE_ANY, ByteCount, NULL, 1);
}

CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
        return copy((uintptr_t)dstHost, DCU_SIDE_ANY, srcDevice, DCU_SIDE_DEVICE, ByteCount, NULL, 1);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
        return copy(dstDevice, DCU_SIDE_DEVICE, srcDevice, DCU_SIDE_DEVICE, ByteCount, NULL, 1);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
        return copy(dst, DCU_SIDE_ANY, src, DCU_SIDE_ANY, ByteCount, NULL, 1);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
        return copy(dstDevice, DCU_SIDE_DEVICE, (uintptr_t)srcHost, DCU_SIDE_ANY, ByteCount, hStream, 0);
}

CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
        return copy((uintptr_t)dstHost, DCU_SIDE_ANY, srcDevice, DCU_SIDE_DEVICE, ByteCount, hStream, 0);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
        return copy(dstDevice, DCU_SIDE_DEVICE, srcDevice, DCU_SIDE_DEVICE, ByteCount, hStream, 0);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
        return copy(dst, DCU_SIDE_ANY, src, DCU_SIDE_ANY, ByteCount, hStream, 0);
}

/* All contexts belong to the one device, so a copy between contexts is a plain copy. NULL is the current context. */
static CUresult check_peers(CUcontext a, CUcontext b)
{
        struct dcu_context *context;
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS && a)
                r = dcu_context_check(a, &context);
        if (r == CUDA_SUCCESS && b)
                r = dcu_context_check(b, &context);
        return r;
}

CUresult cuMemcpyPeer(
        CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount)
{
        CUresult r = check_peers(dstContext, srcContext);

        return r == CUDA_SUCCESS ? copy(dstDevice, DCU_SIDE_DEVICE, srcDevice, DCU_SIDE_DEVICE, ByteCount, NULL, 1) : r;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
        size_t ByteCount, CUstream hStream)
{
        CUresult r = check_peers(dstContext, srcContext);

        return r == CUDA_SUCCESS ? copy(dstDevice, DCU_SIDE_DEVICE, srcDevice, DCU_SIDE_DEVICE, ByteCount, hStream, 0)
                                 : r;
}
