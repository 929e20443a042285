/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's driver library, loaded by path
 *
 * Nothing in the daemon links libcuda: on a machine where programs run under DetShare the first libcuda.so.1 that the
 * dynamic linker finds may be DetShare's drop-in. The genuine library is searched where drivers install it (or at
 * DETSHARE_LIBCUDA), opened by its path, and refused when it is the drop-in. Its functions form one table; each symbol
 * is the name that the headers give the call, with its version.
 */
#pragma once

#include <cuda.h>
#include <stddef.h>

#define DS_CUDA_FUNCTIONS(X)                           \
        X(cuInit)                                      \
        X(cuDriverGetVersion)                          \
        X(cuGetErrorName)                              \
        X(cuGetErrorString)                            \
        X(cuDeviceGetCount)                            \
        X(cuDeviceGet)                                 \
        X(cuDeviceGetName)                             \
        X(cuDeviceGetUuid)                             \
        X(cuDeviceTotalMem)                            \
        X(cuDeviceGetAttribute)                        \
        X(cuDevicePrimaryCtxRetain)                    \
        X(cuDevicePrimaryCtxRelease)                   \
        X(cuDevicePrimaryCtxSetFlags)                  \
        X(cuCtxSetCurrent)                             \
        X(cuCtxSynchronize)                            \
        X(cuCtxSetLimit)                               \
        X(cuCtxGetLimit)                               \
        X(cuCtxGetStreamPriorityRange)                 \
        X(cuDeviceGetDevResource)                      \
        X(cuDevSmResourceSplitByCount)                 \
        X(cuDevResourceGenerateDesc)                   \
        X(cuGreenCtxCreate)                            \
        X(cuGreenCtxDestroy)                           \
        X(cuGreenCtxStreamCreate)                      \
        X(cuStreamCreateWithPriority)                  \
        X(cuStreamDestroy)                             \
        X(cuStreamQuery)                               \
        X(cuStreamSynchronize)                         \
        X(cuStreamWaitEvent)                           \
        X(cuStreamWriteValue64)                        \
        X(cuStreamWriteValue32)                        \
        X(cuEventCreate)                               \
        X(cuEventDestroy)                              \
        X(cuEventRecord)                               \
        X(cuEventQuery)                                \
        X(cuEventSynchronize)                          \
        X(cuEventElapsedTime)                          \
        X(cuMemGetInfo)                                \
        X(cuMemAlloc)                                  \
        X(cuMemAddressReserve)                         \
        X(cuMemAddressFree)                            \
        X(cuMemCreate)                                 \
        X(cuMemRelease)                                \
        X(cuMemExportToShareableHandle)                \
        X(cuMemImportFromShareableHandle)              \
        X(cuMemMap)                                    \
        X(cuMemUnmap)                                  \
        X(cuMemSetAccess)                              \
        X(cuMemGetAllocationGranularity)               \
        X(cuMemHostRegister)                           \
        X(cuMemHostUnregister)                         \
        X(cuMemHostGetDevicePointer)                   \
        X(cuMemcpyAsync)                               \
        X(cuMemcpyHtoDAsync)                           \
        X(cuMemcpyDtoHAsync)                           \
        X(cuMemcpyDtoDAsync)                           \
        X(cuMemcpy2DAsync)                             \
        X(cuMemsetD8Async)                             \
        X(cuMemsetD16Async)                            \
        X(cuMemsetD32Async)                            \
        X(cuMemsetD2D8Async)                           \
        X(cuMemsetD2D16Async)                          \
        X(cuMemsetD2D32Async)                          \
        X(cuLibraryLoadData)                           \
        X(cuLibraryUnload)                             \
        X(cuLibraryGetKernelCount)                     \
        X(cuLibraryEnumerateKernels)                   \
        X(cuLibraryGetGlobal)                          \
        X(cuLibraryGetModule)                          \
        X(cuKernelGetName)                             \
        X(cuKernelGetParamInfo)                        \
        X(cuKernelGetAttribute)                        \
        X(cuKernelSetAttribute)                        \
        X(cuKernelGetFunction)                         \
        X(cuFuncGetAttribute)                          \
        X(cuFuncSetAttribute)                          \
        X(cuLaunchKernel)                              \
        X(cuLaunchKernelEx)                            \
        X(cuOccupancyMaxActiveClusters)                \
        X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
        X(cuCtxFromGreenCtx)                           \
        X(cuGraphCreate)                               \
        X(cuGraphDestroy)                              \
        X(cuGraphAddEmptyNode)                         \
        X(cuGraphAddKernelNode)                        \
        X(cuGraphAddMemcpyNode)                        \
        X(cuGraphAddMemsetNode)                        \
        X(cuGraphKernelNodeSetAttribute)               \
        X(cuGraphInstantiate)                          \
        X(cuGraphUpload)                               \
        X(cuGraphLaunch)                               \
        X(cuGraphExecDestroy)                          \
        X(cuGraphExecKernelNodeSetParams)              \
        X(cuGraphExecMemcpyNodeSetParams)              \
        X(cuGraphExecMemsetNodeSetParams)              \
        X(cuTensorMapEncodeTiled)                      \
        X(cuTensorMapEncodeIm2col)                     \
        X(cuTensorMapEncodeIm2colWide)                 \
        X(cuTensorMapReplaceAddress)

struct ds_cuda_driver {
        void *handle;
        char path[256];
        int version; /* from cuDriverGetVersion, e.g. 13000 */
#define X(name) __typeof__(name) *name##_fn;
        DS_CUDA_FUNCTIONS(X)
#undef X
};

/* Calls a function of the driver: CU(device, cuMemMap)(...). ## keeps the name as written, since the headers define
 * cuMemMap and others as macros. */
#define CU(device, name) ((device)->driver.name##_fn)

/*
 * Loads the library. candidate: a path; NULL: DETSHARE_LIBCUDA or the usual places. Returns 0, or -ENODEV with a line
 * in the log: no driver, the drop-in, or a driver that lacks a function that DetShare needs.
 */
int ds_cuda_driver_load(struct ds_cuda_driver *driver, const char *candidate);
void ds_cuda_driver_unload(struct ds_cuda_driver *driver);
/* The error's name ("CUDA_ERROR_ILLEGAL_ADDRESS"), or its number as text; never NULL. */
const char *ds_cuda_driver_error(const struct ds_cuda_driver *driver, CUresult result);
