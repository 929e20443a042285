/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA Runtime API on top of the Driver API
 *
 * libcudart.so.13 for machines without NVIDIA's driver: programs built with `nvcc -cudart shared` run on it unchanged.
 * It is a thin layer: a call becomes the driver calls that NVIDIA's runtime makes for it, and whatever is checked, is
 * checked by the driver. It includes the toolkit's public headers and knows nothing of what lies below libcuda.
 *
 * A call has this shape:
 *
 *         cudaError_t cudaFree(void *devPtr)
 *         {
 *                 cudaError_t e = rt_enter();
 *
 *                 return e ? e : rt_error(cuMemFree((CUdeviceptr)devPtr));
 *         }
 *
 * Stream 0 means another stream in code that was compiled for per-thread default streams: such code calls
 * cudaMemcpy_ptds where other code calls cudaMemcpy. Functions that exist in both forms are in streamed/, whose files
 * are compiled twice, the second time with CUDA_API_PER_THREAD_DEFAULT_STREAM: the toolkit's headers then rename both
 * the functions defined there and the driver's that they call. Nothing else may be defined there except static
 * functions. What has no implementation answers cudaErrorNotSupported (gen/generate.py).
 *
 * Not offered: textures, surfaces, arrays, graphics, and NVIDIA's tables for its own libraries (cudaGetExportTable).
 */
#pragma once

#pragma GCC visibility push(default)
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#pragma GCC visibility pop
#include <cuda.h>
#include <cudaProfiler.h>
#include <stddef.h>
#include <stdint.h>

#define RT_DEVICES_MAX 64

/* What each thread has. */
struct rt_thread {
        CUcontext context; /* found good at `epoch` */
        uint64_t epoch;
        int device, chosen; /* of cudaSetDevice */
        cudaError_t last;   /* for cudaGetLastError */
};

extern __thread struct rt_thread rt_self;

/* The process is initialised; no context is made. For calls that only ask. */
cudaError_t rt_enter_process(void);
/* As above, and the thread has a context: its own current one, else the primary one of its device, which is retained.
 */
cudaError_t rt_enter(void);
/* The thread's device has another context from now on (reset, or another device): whoever was entered looks again. */
void rt_contexts_changed(void);

/* What a call returns: a driver's result or an error of the runtime, kept as the thread's last error. */
cudaError_t rt_error(CUresult r);
cudaError_t rt_fail(cudaError_t e);
/* A driver's result in the runtime's numbers, for others than the caller. */
cudaError_t rt_code(CUresult r);

/* How many devices there are, after rt_enter_process. */
int rt_device_count(void);
/* The device of the thread's current context, or the one that cudaSetDevice chose. */
CUresult rt_device(CUdevice *ret);
/* The thread works on that device from now on. */
CUresult rt_use_device(CUdevice device);
/* The device of threads that never chose one. */
void rt_set_default_device(int device);
/* One retain of a device's primary context, for the process; and its handle, after that. */
CUresult rt_retain(CUdevice device);
CUcontext rt_primary(CUdevice device);

/*
 * What a pointer that a program uses as a name stands for (register.h has how it got there): the kernel of a function's
 * address, the memory of a variable's. They load the code that has it, on first use. Both need rt_enter. A CUkernel may
 * be passed wherever the driver wants a CUfunction, except to graphs' nodes.
 */
cudaError_t rt_kernel(const void *func, CUkernel *ret);
cudaError_t rt_symbol(const void *symbol, CUdeviceptr *ret, size_t *ret_bytes);
