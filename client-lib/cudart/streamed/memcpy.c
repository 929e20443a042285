/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 1-D copies
 */
#include "cudart/rt.h"

static CUresult copy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
        switch (kind) {
        case cudaMemcpyHostToDevice:
                return cuMemcpyHtoD((CUdeviceptr)dst, src, count);
        case cudaMemcpyDeviceToHost:
                return cuMemcpyDtoH(dst, (CUdeviceptr)src, count);
        case cudaMemcpyDeviceToDevice:
                return cuMemcpyDtoD((CUdeviceptr)dst, (CUdeviceptr)src, count);
        default:
                return cuMemcpy((CUdeviceptr)dst, (CUdeviceptr)src, count);
        }
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
        cudaError_t e = rt_enter();

        if (e != cudaSuccess)
                return e;
        if ((unsigned int)kind > cudaMemcpyDefault)
                return rt_fail(cudaErrorInvalidMemcpyDirection);
        return rt_error(copy(dst, src, count, kind));
}
