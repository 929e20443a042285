/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation of device, pinned and managed memory
 *
 * For a size of 0 the runtime returns NULL and success, where the driver returns an error.
 */
#include <string.h>

#include "cudart/rt.h"

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
        cudaError_t e = rt_enter();
        CUdeviceptr address = 0;

        if (e != cudaSuccess)
                return e;
        if (!devPtr)
                return rt_fail(cudaErrorInvalidValue);
        e = size ? rt_error(cuMemAlloc(&address, size)) : cudaSuccess;
        if (e == cudaSuccess)
                *devPtr = (void *)address;
        return e;
}

cudaError_t cudaFree(void *devPtr)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemFree((CUdeviceptr)devPtr));
}

cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
        cudaError_t e = rt_enter();
        CUdeviceptr address = 0;

        if (e != cudaSuccess)
                return e;
        if (!devPtr || !pitch)
                return rt_fail(cudaErrorInvalidValue);
        if (width == 0 || height == 0)
                *pitch = 0;
        else
                e = rt_error(cuMemAllocPitch(&address, pitch, width, height, 4));
        if (e == cudaSuccess)
                *devPtr = (void *)address;
        return e;
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
        size_t rows, pitch = 0;
        void *address = NULL;
        cudaError_t e;

        if (!pitchedDevPtr || __builtin_mul_overflow(extent.height, extent.depth, &rows))
                return rt_fail(cudaErrorInvalidValue);
        e = cudaMallocPitch(&address, &pitch, extent.width, rows);
        if (e == cudaSuccess)
                *pitchedDevPtr = (struct cudaPitchedPtr){address, pitch, extent.width, extent.height};
        return e;
}

/* All pinned memory of the runtime is mapped for the device, and its flags say so. */
cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
        cudaError_t e = rt_enter();
        void *address = NULL;

        if (e != cudaSuccess)
                return e;
        if (!pHost)
                return rt_fail(cudaErrorInvalidValue);
        e = size ? rt_error(cuMemHostAlloc(&address, size, flags | CU_MEMHOSTALLOC_DEVICEMAP)) : cudaSuccess;
        if (e == cudaSuccess)
                *pHost = address;
        return e;
}

cudaError_t cudaMallocHost(void **ptr, size_t size)
{
        return cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

/* As in CUDA, freeing NULL succeeds. */
cudaError_t cudaFreeHost(void *ptr)
{
        cudaError_t e = rt_enter();

        return e || !ptr ? e : rt_error(cuMemFreeHost(ptr));
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemHostRegister(ptr, size, flags));
}

cudaError_t cudaHostUnregister(void *ptr)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemHostUnregister(ptr));
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemHostGetDevicePointer((CUdeviceptr *)pDevice, pHost, flags));
}

cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemHostGetFlags(pFlags, pHost));
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemGetInfo(free, total));
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuIpcGetMemHandle((CUipcMemHandle *)handle, (CUdeviceptr)devPtr));
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
        cudaError_t e = rt_enter();
        CUipcMemHandle copy;

        _Static_assert(sizeof(copy) == sizeof(handle), "a handle is bytes");
        memcpy(&copy, &handle, sizeof(copy));
        return e ? e : rt_error(cuIpcOpenMemHandle((CUdeviceptr *)devPtr, copy, flags));
}

cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuIpcCloseMemHandle((CUdeviceptr)devPtr));
}

/* Checks that both devices exist. A copy between them needs no more, because all contexts of a device share its
 * memory. */
static cudaError_t check_devices(int a, int b)
{
        cudaError_t e = rt_enter();

        if (e != cudaSuccess)
                return e;
        return a < 0 || b < 0 || a >= rt_device_count() || b >= rt_device_count() ? rt_fail(cudaErrorInvalidDevice)
                                                                                  : cudaSuccess;
}

cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
        cudaError_t e = check_devices(dstDevice, srcDevice);

        return e || count == 0 ? e : rt_error(cuMemcpyPeer((CUdeviceptr)dst, NULL, (CUdeviceptr)src, NULL, count));
}

cudaError_t cudaMemcpyPeerAsync(
        void *dst, int dstDevice, const void *src, int srcDevice, size_t count, cudaStream_t stream)
{
        cudaError_t e = check_devices(dstDevice, srcDevice);

        return e || count == 0
                       ? e
                       : rt_error(cuMemcpyPeerAsync((CUdeviceptr)dst, NULL, (CUdeviceptr)src, NULL, count, stream));
}
