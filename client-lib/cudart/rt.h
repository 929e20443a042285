/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA Runtime API on top of the Driver API
 *
 * libcudart.so.13 for machines without NVIDIA's driver: programs built with `nvcc -cudart shared` run on it unchanged.
 * It is a thin layer: each call makes the driver calls that NVIDIA's runtime makes, and leaves checks to the driver. It
 * includes the toolkit's public headers and uses nothing below libcuda.
 *
 * A call has this shape:
 *
 *        cudaError_t cudaFree(void *devPtr)
 *        {
 *                cudaError_t e = rt_enter();
 *
 *                return e ? e : rt_error(cuMemFree((CUdeviceptr)devPtr));
 *        }
 *
 * Stream 0 means another stream in code compiled for per-thread default streams: such code calls cudaMemcpy_ptds
 * instead of cudaMemcpy. Functions with both variants lie in streamed/. Those files are compiled twice, the second time
 * with CUDA_API_PER_THREAD_DEFAULT_STREAM: the toolkit's headers then rename these functions and the driver functions
 * that they call. Only such functions and static ones may be defined there. Functions without an implementation return
 * cudaErrorNotSupported (gen/generate.py).
 *
 * Not supported: textures, surfaces, arrays, graphics, and NVIDIA's tables for its own libraries (cudaGetExportTable).
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

/* State of a thread. */
struct rt_thread {
        CUcontext context; /* current context when the thread was last checked, at `epoch` */
        uint64_t epoch;
        int device, chosen; /* device that the thread chose by cudaSetDevice(), and 1 if it chose one */
        cudaError_t last;   /* error that cudaGetLastError() returns */
};

extern __thread struct rt_thread rt_self;

/* The check with which calls that need no context begin: initialises the process, but makes no context. */
cudaError_t rt_enter_process(void);
/* The check with which other calls begin: as rt_enter_process(), and makes sure that the thread has a context: its
 * current one, else its device's primary context, which it retains. */
cudaError_t rt_enter(void);
/* Invalidates the checks of all threads, because the thread's device has another context (reset, other device). */
void rt_contexts_changed(void);

/* Converts the driver's result to the call's return value, and records an error as the thread's last error.
 * rt_fail() does the same with a runtime error. */
cudaError_t rt_error(CUresult r);
cudaError_t rt_fail(cudaError_t e);
/* Converts a driver's result without recording it as the thread's last error. */
cudaError_t rt_code(CUresult r);

/* Returns the number of devices. Call after rt_enter_process(). */
int rt_device_count(void);
/* *ret: device of the thread's current context, else the device of cudaSetDevice(). */
CUresult rt_device(CUdevice *ret);
/* Makes the device the thread's device. */
CUresult rt_use_device(CUdevice device);
/* Sets the device of threads that did not choose one. */
void rt_set_default_device(int device);
/* Retains a device's primary context once per process, and returns its handle. */
CUresult rt_retain(CUdevice device);
CUcontext rt_primary(CUdevice device);

/*
 * Find the object that a program names by a pointer (register.h): rt_kernel() the kernel of a function's address,
 * rt_symbol() the memory of a variable's address. The first use loads the code. Both need rt_enter(). The driver
 * accepts a CUkernel wherever it wants a CUfunction, except in graph nodes.
 */
cudaError_t rt_kernel(const void *func, CUkernel *ret);
cudaError_t rt_symbol(const void *symbol, CUdeviceptr *ret, size_t *ret_bytes);
