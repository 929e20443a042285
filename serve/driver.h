/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver that runs a pack: DetShare's drop-in, or NVIDIA's own library
 *
 * Both are found at run time and called through one table. So the code that runs a pack is the same for both, and a
 * comparison measures DetShare only.
 *
 * The drop-in is the libcuda.so.1 beside this program (build/cuda, LIBDIR/detshare), else the one that the dynamic
 * linker finds. NVIDIA's library is the one that DETSHARE_LIBCUDA names. Without that variable it is searched for in
 * the folders of distributions, NVIDIA's installer, its container tools and WSL, and then by the dynamic linker. An ELF
 * note identifies the drop-in, so neither is taken for the other.
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
        SV_DRIVER_FOUND, /* whichever library the dynamic linker finds */
};

struct sv_driver {
        void *library;
        bool native;
        char path[PATH_MAX];
        char gpu[128];
        CUdevice device;
        CUcontext context;
        /* by names without the version suffix of the headers */
#define X(name) __typeof__(&name) name##_fn;
        SV_DRIVER_FUNCTIONS(X)
#undef X
};

/* Loads the library and its functions; driver->native says which one it is. */
int sv_driver_load(struct sv_driver *driver, enum sv_which which, struct sv_why *why);
/* Opens a device and makes its primary context current to this thread. */
int sv_driver_begin(struct sv_driver *driver, struct sv_why *why);
/* The library stays loaded, because it has threads. May be called twice. */
void sv_driver_close(struct sv_driver *driver);
/* Makes the context current to the calling thread. */
int sv_driver_enter(const struct sv_driver *driver, struct sv_why *why);
/* Writes "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)" to why. Returns -1. */
int sv_driver_fail(const struct sv_driver *driver, const char *call, CUresult r, struct sv_why *why);

/* Calls a function of the driver: 0, or -1 with the reason in why. */
#define SV_CU(driver, why, name, ...)                                                    \
        ({                                                                               \
                CUresult sv_r = (driver)->name##_fn(__VA_ARGS__);                        \
                sv_r == CUDA_SUCCESS ? 0 : sv_driver_fail((driver), #name, sv_r, (why)); \
        })
