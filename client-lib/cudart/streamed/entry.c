/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Driver functions by name, with the runtime's default stream unless the caller says otherwise
 */
#include "cudart/rt.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define DEFAULT_STREAM CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
#else
#define DEFAULT_STREAM CU_GET_PROC_ADDRESS_LEGACY_STREAM
#endif

static cudaError_t entry(const char *symbol, void **funcPtr, unsigned int version, unsigned long long flags,
        enum cudaDriverEntryPointQueryResult *driverStatus)
{
        CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
        cudaError_t e = rt_enter_process();
        CUresult r;

        if (e != cudaSuccess)
                return e;
        if (!symbol || !funcPtr || flags > cudaEnablePerThreadDefaultStream)
                return rt_fail(cudaErrorInvalidValue);
        r = cuGetProcAddress(
                symbol, funcPtr, (int)version, flags == cudaEnableDefault ? DEFAULT_STREAM : flags, &status);
        if (driverStatus)
                *driverStatus = (enum cudaDriverEntryPointQueryResult)status;
        return rt_error(r);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
        unsigned long long flags, enum cudaDriverEntryPointQueryResult *driverStatus)
{
        return entry(symbol, funcPtr, cudaVersion, flags, driverStatus);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
        enum cudaDriverEntryPointQueryResult *driverStatus)
{
        return entry(symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}
