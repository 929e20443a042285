/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context's limits, and memory for local variables
 *
 * A limit is one for the whole context, so it is only ever raised: the largest value granted to any session holds.
 * Raising the stack size takes memory at once for every thread that can be resident on the GPU; all sessions together
 * get a fixed share of memory for it. The device heap cannot be raised once a kernel has used it (the driver answers
 * INVALID_VALUE). So it is made large at the start, which costs nothing until a module that uses it is loaded. A printf
 * buffer likewise keeps the size that it had when the first printing kernel was loaded.
 *
 * A kernel that needs more local memory per thread than the context has makes its launch wait for all running work. So
 * the stack size is raised to a kernel's need when its module is loaded, in a quiesce; the context never gives it back
 * (CU_CTX_LMEM_RESIZE_TO_MAX).
 */
#include "device/cuda/internal.h"
#include "util/error.h"

/* most local memory of the context: 16 KiB for each of the 270,336 threads of an H200 */
#define LOCAL_BYTES_MAX DS_MIB(4224)
/* local memory takes at most this fraction of all memory, 1 / 8, which matters on small GPUs */
#define LOCAL_SHARE 8
#define LOCAL_STEP UINT64_C(512)
#define PRINTF_BYTES_MAX DS_MIB(256)
#define HEAP_SHARE 8
#define HEAP_AT_START DS_MIB(128)
#define HEAP_AT_START_SHARE 64

#define ATTR_THREADS_PER_SM 39

/* Largest value to which a session may raise the limit. */
static uint64_t limit_bound(const ds_device *device, enum ds_device_limit limit)
{
        uint64_t threads = (uint64_t)device->info.n_sms * (uint64_t)device->info.attributes[ATTR_THREADS_PER_SM];

        switch (limit) {
        case DS_LIMIT_STACK_SIZE:
                return DS_MIN(LOCAL_BYTES_MAX, device->memory_total / LOCAL_SHARE) / DS_MAX(threads, 1);
        case DS_LIMIT_PRINTF_FIFO_SIZE:
                return PRINTF_BYTES_MAX;
        default:
                return device->memory_total / HEAP_SHARE;
        }
}

static CUresult limit_read(ds_device *device, enum ds_device_limit limit)
{
        size_t value = 0;
        /* the values of enum ds_device_limit are CUlimit's */
        CUresult result = CU(device, cuCtxGetLimit)(&value, (CUlimit)limit);

        if (!result)
                device->limits[limit] = value;
        return result;
}

int cuda_limits_init(ds_device *device)
{
        uint64_t heap = DS_MIN(HEAP_AT_START, device->memory_total / HEAP_AT_START_SHARE);
        CUresult result;

        for (int i = 0; i < _DS_LIMIT_MAX; i++) {
                result = limit_read(device, (enum ds_device_limit)i);
                if (result)
                        return ds_cuda_failed(device, result, "cuCtxGetLimit");
        }
        if (cuda_limit_raise(device, DS_LIMIT_MALLOC_HEAP_SIZE, heap))
                ds_log(DS_LOG_WARNING, "the device heap stays at %llu bytes",
                        (unsigned long long)device->limits[DS_LIMIT_MALLOC_HEAP_SIZE]);
        return 0;
}

int cuda_limit_raise(ds_device *device, enum ds_device_limit limit, uint64_t value)
{
        CUresult result;

        if ((int)limit < 0 || limit >= _DS_LIMIT_MAX)
                return DS_CUDA_INVALID_VALUE;
        if (value <= device->limits[limit])
                return 0;
        if (value > limit_bound(device, limit))
                return DS_CUDA_OUT_OF_MEMORY;
        result = CU(device, cuCtxSetLimit)((CUlimit)limit, value);
        device->n_stirs += !result;
        if (!result)
                result = limit_read(device, limit);
        return result ? ds_cuda_failed(device, result, "raising a limit of the context") : 0;
}

uint64_t cuda_limit_get(ds_device *device, enum ds_device_limit limit)
{
        return (int)limit >= 0 && limit < _DS_LIMIT_MAX ? device->limits[limit] : 0;
}

int cuda_limit_local(ds_device *device, uint64_t bytes_per_thread)
{
        uint64_t bound = limit_bound(device, DS_LIMIT_STACK_SIZE);

        if (bytes_per_thread > bound)
                return bytes_per_thread <= device->limits[DS_LIMIT_STACK_SIZE] ? 0 : DS_CUDA_OUT_OF_MEMORY;
        return cuda_limit_raise(device, DS_LIMIT_STACK_SIZE, DS_MIN(bound, DS_ALIGN_UP(bytes_per_thread, LOCAL_STEP)));
}
