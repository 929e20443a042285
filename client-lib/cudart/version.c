/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions, profiler control, the driver's log, and refused functions
 */
#include "cudart/rt.h"

/* Works before any initialisation. */
cudaError_t cudaDriverGetVersion(int *driverVersion)
{
        return rt_error(cuDriverGetVersion(driverVersion));
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
        if (!runtimeVersion)
                return rt_fail(cudaErrorInvalidValue);
        *runtimeVersion = CUDART_VERSION;
        return cudaSuccess;
}

cudaError_t cudaProfilerStart(void)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuProfilerStart());
}

cudaError_t cudaProfilerStop(void)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuProfilerStop());
}

/* Not supported: NVIDIA's own libraries get undocumented tables by this function. */
cudaError_t cudaGetExportTable(const void **ppExportTable, const cudaUUID_t *pExportTableId)
{
        if (ppExportTable)
                *ppExportTable = NULL;
        return rt_fail(cudaErrorNotSupported);
}

cudaError_t cudaLogsRegisterCallback(
        cudaLogsCallback_t callbackFunc, void *userData, cudaLogsCallbackHandle *callback_out)
{
        cudaError_t e = rt_enter_process();

        return e ? e
                 : rt_error(cuLogsRegisterCallback(
                           (CUlogsCallback)callbackFunc, userData, (CUlogsCallbackHandle *)callback_out));
}

cudaError_t cudaLogsUnregisterCallback(cudaLogsCallbackHandle callback)
{
        cudaError_t e = rt_enter_process();

        return e ? e : rt_error(cuLogsUnregisterCallback((CUlogsCallbackHandle)callback));
}

cudaError_t cudaLogsCurrent(cudaLogIterator *iterator_out, unsigned int flags)
{
        cudaError_t e = rt_enter_process();

        return e ? e : rt_error(cuLogsCurrent(iterator_out, flags));
}

cudaError_t cudaLogsDumpToFile(cudaLogIterator *iterator, const char *pathToFile, unsigned int flags)
{
        cudaError_t e = rt_enter_process();

        return e ? e : rt_error(cuLogsDumpToFile(iterator, pathToFile, flags));
}

cudaError_t cudaLogsDumpToMemory(cudaLogIterator *iterator, char *buffer, size_t *size, unsigned int flags)
{
        cudaError_t e = rt_enter_process();

        return e ? e : rt_error(cuLogsDumpToMemory(iterator, buffer, size, flags));
}
