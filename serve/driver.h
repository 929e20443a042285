/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver that a pack runs on: DetShare's drop-in, or NVIDIA's own library
 *
 * Both are found at run time and called through one table, so that the code that runs a pack is the same for both and
 * a comparison says something about DetShare and nothing else.
 *
 * The drop-in is the libcuda.so.1 beside this program (build/cuda, LIBDIR/detshare), else what the dynamic linker
 * finds. NVIDIA's is what DETSHARE_LIBCUDA names and nothing else when that is set; else it lies where distributions,
 * NVIDIA's installer, its container tools and WSL put it; else where the dynamic linker finds it. The drop-in carries
 * an ELF note that tells which is which: neither is ever taken for the other.
 */
#pragma once

#include <cuda.h>
#include <limits.h>
#include <stdbool.h>

#include "serve/why.h"

#define SV_DRIVER_FUNCTIONS(X)        \
        X(cuInit)                     \
        X(cuGetErrorName)             \
        X(cuGetErrorString)           \
        X(cuDeviceGet)                \
        X(cuDeviceGetName)            \
        X(cuDeviceGetAttribute)       \
        X(cuDevicePrimaryCtxRetain)   \
        X(cuDevicePrimaryCtxRelease)  \
        X(cuCtxSetCurrent)            \
        X(cuCtxSynchronize)           \
        X(cuModuleLoadDataEx)         \
        X(cuModuleUnload)             \
        X(cuModuleGetFunction)        \
        X(cuFuncGetAttribute)         \
        X(cuFuncSetAttribute)         \
        X(cuFuncGetParamInfo)         \
        X(cuMemGetInfo)               \
        X(cuMemAlloc)                 \
        X(cuMemFree)                  \
        X(cuMemAllocHost)             \
        X(cuMemFreeHost)              \
        X(cuMemcpyHtoD)               \
        X(cuMemcpyHtoDAsync)          \
        X(cuMemcpyDtoHAsync)          \
        X(cuMemsetD8Async)            \
        X(cuStreamCreateWithPriority) \
        X(cuStreamDestroy)            \
        X(cuStreamSynchronize)        \
        X(cuEventCreate)              \
        X(cuEventDestroy)             \
        X(cuEventRecord)              \
        X(cuEventSynchronize)         \
        X(cuEventElapsedTime)         \
        X(cuLaunchKernel)

enum sv_which {
        SV_DRIVER_DETSHARE,
        SV_DRIVER_NATIVE,
        SV_DRIVER_FOUND, /* what the dynamic linker finds, whichever it is */
};

struct sv_driver {
        void *library;
        bool native;
        char path[PATH_MAX];
        char gpu[128];
        CUdevice device;
        CUcontext context;
        /* by the names without the version that the headers put behind some */
#define X(name) __typeof__(&name) name##_fn;
        SV_DRIVER_FUNCTIONS(X)
#undef X
};

/* The library and its functions; driver->native says which it is. */
int sv_driver_load(struct sv_driver *driver, enum sv_which which, struct sv_why *why);
/* A device, its primary context, current to this thread. */
int sv_driver_begin(struct sv_driver *driver, struct sv_why *why);
/* The library stays: it has threads of its own. Twice is fine. */
void sv_driver_close(struct sv_driver *driver);
/* The context becomes the calling thread's. */
int sv_driver_enter(const struct sv_driver *driver, struct sv_why *why);
/* "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"; -1. */
int sv_driver_fail(const struct sv_driver *driver, const char *call, CUresult r, struct sv_why *why);

/* Call a function of it: 0, or -1 after the words. */
#define SV_CU(driver, why, name, ...)                                                    \
        ({                                                                               \
                CUresult sv_r = (driver)->name##_fn(__VA_ARGS__);                        \
                sv_r == CUDA_SUCCESS ? 0 : sv_driver_fail((driver), #name, sv_r, (why)); \
        })
