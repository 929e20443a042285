/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Initialisation of the process, and the current context of a thread
 *
 * Nothing happens before the first call. A thread's check stays valid until `epoch` changes, so a call costs one read
 * of the driver's current context and a comparison.
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
static _Atomic int default_device;

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

static int chosen_device(void)
{
        return rt_self.chosen ? rt_self.device : atomic_load(&default_device);
}

CUresult rt_device(CUdevice *ret)
{
        CUcontext current;
        CUresult r = cuCtxGetCurrent(&current);

        if (r != CUDA_SUCCESS)
                return r;
        *ret = chosen_device();
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

void rt_set_default_device(int device)
{
        atomic_store(&default_device, device);
}

CUcontext rt_primary(CUdevice device)
{
        CUcontext context;

        pthread_mutex_lock(&lock);
        context = primary[device];
        pthread_mutex_unlock(&lock);
        return context;
}

CUresult rt_retain(CUdevice device)
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

CUresult rt_use_device(CUdevice device)
{
        CUresult r = rt_retain(device);

        if (r != CUDA_SUCCESS)
                return r;
        rt_self.device = device;
        rt_self.chosen = 1;
        return cuCtxSetCurrent(rt_primary(device));
}

/* Accepts the thread's current context. If it is a device's primary context, retains that once per process. */
static CUresult keep(CUcontext current)
{
        unsigned int flags;
        CUdevice device;
        CUresult r;
        int active;

        for (int i = 0; i < n_devices; i++) {
                if (rt_primary(i) == current)
                        return rt_retain(i);
        }
        r = cuCtxGetDevice(&device);
        if (r == CUDA_SUCCESS)
                r = cuDevicePrimaryCtxGetState(device, &flags, &active);
        /* if there is no primary context, the program made the current context itself */
        return r == CUDA_SUCCESS && active ? rt_retain(device) : r;
}

static CUresult bind(CUcontext current)
{
        uint64_t now = atomic_load(&epoch);
        CUresult r = current ? keep(current) : rt_use_device(chosen_device());

        if (r == CUDA_SUCCESS && !current)
                r = cuCtxGetCurrent(&current);
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
