/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream-ordered allocation
 */
#include "cudart/rt.h"

cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
        cudaError_t e = rt_enter();
        CUdeviceptr address = 0;

        if (e != cudaSuccess)
                return e;
        if (!devPtr)
                return rt_fail(cudaErrorInvalidValue);
        e = size ? rt_error(cuMemAllocAsync(&address, size, hStream)) : cudaSuccess;
        if (e == cudaSuccess)
                *devPtr = (void *)address;
        return e;
}

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream)
{
        cudaError_t e = rt_enter();
        CUdeviceptr address = 0;

        if (e != cudaSuccess)
                return e;
        if (!ptr)
                return rt_fail(cudaErrorInvalidValue);
        e = size ? rt_error(cuMemAllocFromPoolAsync(&address, size, memPool, stream)) : cudaSuccess;
        if (e == cudaSuccess)
                *ptr = (void *)address;
        return e;
}

cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
        cudaError_t e = rt_enter();

        return e || !devPtr ? e : rt_error(cuMemFreeAsync((CUdeviceptr)devPtr, hStream));
}

cudaError_t cudaMemPrefetchAsync(
        const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags, cudaStream_t stream)
{
        CUmemLocation where = {.type = (CUmemLocationType)location.type, .id = location.id};
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemPrefetchAsync((CUdeviceptr)devPtr, count, where, flags, stream));
}

cudaError_t cudaMemPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count, struct cudaMemLocation *prefetchLocs,
        size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuMemPrefetchBatchAsync((CUdeviceptr *)dptrs, sizes, count, (CUmemLocation *)prefetchLocs,
                           prefetchLocIdxs, numPrefetchLocs, flags, stream));
}

cudaError_t cudaMemDiscardBatchAsync(
        void **dptrs, size_t *sizes, size_t count, unsigned long long flags, cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemDiscardBatchAsync((CUdeviceptr *)dptrs, sizes, count, flags, stream));
}

cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count,
        struct cudaMemLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
        cudaStream_t stream)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuMemDiscardAndPrefetchBatchAsync((CUdeviceptr *)dptrs, sizes, count,
                           (CUmemLocation *)prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, stream));
}
