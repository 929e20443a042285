/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the device
 */
#include "cudart/rt.h"

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
        cudaError_t e = rt_enter();
        CUdeviceptr address = 0;

        if (e != cudaSuccess)
                return e;
        if (!devPtr)
                return rt_fail(cudaErrorInvalidValue);
        /* nothing of nothing is a success, which the driver does not say */
        e = size ? rt_error(cuMemAlloc(&address, size)) : cudaSuccess;
        *devPtr = (void *)address;
        return e;
}

cudaError_t cudaFree(void *devPtr)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemFree((CUdeviceptr)devPtr));
}
