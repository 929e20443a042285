/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's beginning, and the context that a thread works in
 *
 * Nothing happens before the first call. What a thread has found good stays good until `epoch` changes, so that a call
 * costs a look at the driver's current context and a comparison.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "cudart/rt.h"

__thread struct rt_thread rt_self;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUresult started;
static int n_devices;
static _Atomic uint64_t epoch = 1;
static CUcontext primary[RT_DEVICES_MAX];
static uint8_t retained[RT_DEVICES_MAX];

static void start(void)
{
        started = cuInit(0);
        if (started == CUDA_SUCCESS)
                started = cuDeviceGetCount(&n_devices);
        if (started == CUDA_SUCCESS && n_devices == 0)
                started = CUDA_ERROR_NO_DEVICE;
        if (n_devices > RT_DEVICES_MAX)
                n_devices = RT_DEVICES_MAX;
}

cudaError_t rt_enter_process(void)
{
        pthread_once(&once, start);
        return started == CUDA_SUCCESS ? cudaSuccess : rt_error(started);
}

int rt_device_count(void)
{
        return n_devices;
}

CUresult rt_device(CUdevice *ret)
{
        CUcontext current;
        CUresult r = cuCtxGetCurrent(&current);

        if (r != CUDA_SUCCESS)
                return r;
        *ret = rt_self.device;
        return current ? cuCtxGetDevice(ret) : CUDA_SUCCESS;
}

void rt_contexts_changed(void)
{
        pthread_mutex_lock(&lock);
        for (int i = 0; i < n_devices; i++) {
                unsigned int flags;
                int active;

                if (retained[i] && cuDevicePrimaryCtxGetState(i, &flags, &active) == CUDA_SUCCESS && !active)
                        retained[i] = 0;
        }
        pthread_mutex_unlock(&lock);
        atomic_fetch_add(&epoch, 1);
}

/* The primary context of a device, retained once for the process. */
static CUresult retain(CUdevice device)
{
        CUresult r = CUDA_SUCCESS;

        pthread_mutex_lock(&lock);
        if (!retained[device]) {
                r = cuDevicePrimaryCtxRetain(&primary[device], device);
                retained[device] = r == CUDA_SUCCESS;
        }
        pthread_mutex_unlock(&lock);
        return r;
}

/* A thread without a context gets the primary one; one that has a primary context keeps it alive with a retain. */
static CUresult bind(CUcontext current)
{
        CUdevice device = rt_self.device;
        uint64_t now = atomic_load(&epoch);
        unsigned int flags;
        int active = 1;
        CUresult r = CUDA_SUCCESS;

        if (current)
                r = cuCtxGetDevice(&device);
        if (r == CUDA_SUCCESS && current && current != primary[device])
                r = cuDevicePrimaryCtxGetState(device, &flags, &active);
        /* what is current though there is no primary context was made by the program itself */
        if (r == CUDA_SUCCESS && active)
                r = retain(device);
        if (r == CUDA_SUCCESS && !current) {
                current = primary[device];
                r = cuCtxSetCurrent(current);
        }
        if (r != CUDA_SUCCESS)
                return r;
        rt_self.context = current;
        rt_self.epoch = now;
        return CUDA_SUCCESS;
}

cudaError_t rt_enter(void)
{
        cudaError_t e = rt_enter_process();
        CUcontext current;
        CUresult r;

        if (e != cudaSuccess)
                return e;
        r = cuCtxGetCurrent(&current);
        if (r == CUDA_SUCCESS && current && current == rt_self.context &&
                rt_self.epoch == atomic_load_explicit(&epoch, memory_order_acquire))
                return cudaSuccess;
        if (r == CUDA_SUCCESS)
                r = bind(current);
        return r == CUDA_SUCCESS ? cudaSuccess : rt_error(r);
}
