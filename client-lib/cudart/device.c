/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: the thread's device, flags of its primary context, limits, peers, PCI names
 */
#include "cudart/rt.h"

cudaError_t cudaGetDeviceCount(int *count)
{
        cudaError_t e;

        if (!count)
                return rt_fail(cudaErrorInvalidValue);
        *count = 0;
        e = rt_enter_process();
        if (e == cudaSuccess)
                *count = rt_device_count();
        return e;
}

static int known(int device)
{
        return device >= 0 && device < rt_device_count();
}

cudaError_t cudaSetDevice(int device)
{
        cudaError_t e = rt_enter_process();

        if (e != cudaSuccess)
                return e;
        return known(device) ? rt_error(rt_use_device(device)) : rt_fail(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *device)
{
        cudaError_t e = rt_enter_process();

        if (e != cudaSuccess)
                return e;
        return device ? rt_error(rt_device(device)) : rt_fail(cudaErrorInvalidValue);
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
        cudaError_t e = rt_enter_process();
        CUresult r = CUDA_SUCCESS;

        if (e != cudaSuccess)
                return e;
        if (!known(device))
                return rt_fail(cudaErrorInvalidDevice);
        if (flags & cudaInitDeviceFlagsAreValid)
                r = cuDevicePrimaryCtxSetFlags(device, deviceFlags & ~(unsigned int)cudaDeviceMapHost);
        return rt_error(r == CUDA_SUCCESS ? rt_retain(device) : r);
}

/* The first device of the list becomes the device of threads that chose none. */
cudaError_t cudaSetValidDevices(int *device_arr, int len)
{
        cudaError_t e = rt_enter_process();

        if (e != cudaSuccess)
                return e;
        if (len < 0 || len > rt_device_count() || (len > 0 && !device_arr))
                return rt_fail(cudaErrorInvalidValue);
        for (int i = 0; i < len; i++) {
                if (!known(device_arr[i]))
                        return rt_fail(cudaErrorInvalidDevice);
        }
        rt_set_default_device(len > 0 ? device_arr[0] : 0);
        return cudaSuccess;
}

/* Ignores cudaDeviceMapHost, because host memory can always be mapped. */
cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
        cudaError_t e = rt_enter_process();
        CUdevice device;
        CUresult r;

        if (e != cudaSuccess)
                return e;
        if (flags & ~(unsigned int)cudaDeviceMask)
                return rt_fail(cudaErrorInvalidValue);
        r = rt_device(&device);
        if (r == CUDA_SUCCESS)
                r = cuDevicePrimaryCtxSetFlags(device, flags & ~(unsigned int)cudaDeviceMapHost);
        return rt_error(r);
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
        cudaError_t e = rt_enter_process();
        CUcontext current = NULL;
        CUdevice device;
        int active;
        CUresult r;

        if (e != cudaSuccess)
                return e;
        if (!flags)
                return rt_fail(cudaErrorInvalidValue);
        r = cuCtxGetCurrent(&current);
        if (r == CUDA_SUCCESS && current)
                r = cuCtxGetFlags(flags);
        if (r == CUDA_SUCCESS && !current) {
                r = rt_device(&device);
                if (r == CUDA_SUCCESS)
                        r = cuDevicePrimaryCtxGetState(device, flags, &active);
        }
        if (r == CUDA_SUCCESS)
                *flags |= cudaDeviceMapHost;
        return rt_error(r);
}

cudaError_t cudaDeviceReset(void)
{
        cudaError_t e = rt_enter_process();
        CUdevice device;
        CUresult r;

        if (e != cudaSuccess)
                return e;
        r = rt_device(&device);
        if (r == CUDA_SUCCESS)
                r = cuDevicePrimaryCtxReset(device);
        rt_contexts_changed();
        return rt_error(r);
}

cudaError_t cudaDeviceSynchronize(void)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuCtxSynchronize());
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuCtxGetLimit(pValue, (CUlimit)limit));
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *pCacheConfig)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuCtxGetCacheConfig((CUfunc_cache *)pCacheConfig));
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuCtxSetCacheConfig((CUfunc_cache)cacheConfig));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuCtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
        cudaError_t e = rt_enter_process();

        return e ? e : rt_error(cuDeviceGetByPCIBusId(device, pciBusId));
}

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
        cudaError_t e = rt_enter_process();

        return e ? e : rt_error(cuDeviceGetPCIBusId(pciBusId, len, device));
}

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(
        enum cudaFlushGPUDirectRDMAWritesTarget target, enum cudaFlushGPUDirectRDMAWritesScope scope)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuFlushGPUDirectRDMAWrites(
                           (CUflushGPUDirectRDMAWritesTarget)target, (CUflushGPUDirectRDMAWritesScope)scope));
}

cudaError_t cudaDeviceRegisterAsyncNotification(
        int device, cudaAsyncCallback callbackFunc, void *userData, cudaAsyncCallbackHandle_t *callback)
{
        cudaError_t e = rt_enter_process();

        return e ? e
                 : rt_error(cuDeviceRegisterAsyncNotification(
                           device, (CUasyncCallback)callbackFunc, userData, (CUasyncCallbackHandle *)callback));
}

cudaError_t cudaDeviceUnregisterAsyncNotification(int device, cudaAsyncCallbackHandle_t callback)
{
        cudaError_t e = rt_enter_process();

        return e ? e : rt_error(cuDeviceUnregisterAsyncNotification(device, (CUasyncCallbackHandle)callback));
}

cudaError_t cudaDeviceGetHostAtomicCapabilities(
        unsigned int *capabilities, const enum cudaAtomicOperation *operations, unsigned int count, int device)
{
        cudaError_t e = rt_enter_process();

        return e ? e
                 : rt_error(cuDeviceGetHostAtomicCapabilities(
                           capabilities, (const CUatomicOperation *)operations, count, device));
}

cudaError_t cudaDeviceGetP2PAtomicCapabilities(unsigned int *capabilities, const enum cudaAtomicOperation *operations,
        unsigned int count, int srcDevice, int dstDevice)
{
        cudaError_t e = rt_enter_process();

        return e ? e
                 : rt_error(cuDeviceGetP2PAtomicCapabilities(
                           capabilities, (const CUatomicOperation *)operations, count, srcDevice, dstDevice));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice)
{
        cudaError_t e = rt_enter_process();

        return e ? e : rt_error(cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attr, srcDevice, dstDevice));
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
        cudaError_t e = rt_enter_process();

        return e ? e : rt_error(cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice));
}

/* *ret: primary context of a peer of the current device. itself: error to return if the peer is the current device. */
static cudaError_t peer_context(int peer, cudaError_t itself, CUcontext *ret)
{
        cudaError_t e = rt_enter();
        CUdevice device;
        CUresult r;

        if (e != cudaSuccess)
                return e;
        r = cuCtxGetDevice(&device);
        if (r != CUDA_SUCCESS)
                return rt_error(r);
        if (!known(peer))
                return rt_fail(cudaErrorInvalidDevice);
        if (peer == device)
                return rt_fail(itself);
        r = rt_retain(peer);
        *ret = rt_primary(peer);
        return rt_error(r);
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
        CUcontext peer;
        cudaError_t e = peer_context(peerDevice, cudaErrorPeerAccessUnsupported, &peer);

        return e ? e : rt_error(cuCtxEnablePeerAccess(peer, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
        CUcontext peer;
        cudaError_t e = peer_context(peerDevice, cudaErrorPeerAccessNotEnabled, &peer);

        return e ? e : rt_error(cuCtxDisablePeerAccess(peer));
}

cudaError_t cudaCtxResetPersistingL2Cache(void)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuCtxResetPersistingL2Cache());
}
