/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels as objects: attributes, names, parameters, handles
 */
#include <string.h>

#include "cudart/rt.h"

/* *ret: the driver's function of a kernel's host address or handle. */
static cudaError_t function(const void *func, CUfunction *ret)
{
        cudaError_t e = rt_enter();
        const char *name;
        CUkernel kernel;

        if (e == cudaSuccess)
                e = rt_kernel(func, &kernel);
        if (e != cudaSuccess)
                return e;
        if (cuKernelGetFunction(ret, kernel) == CUDA_SUCCESS)
                return cudaSuccess;
        /* the handle is perhaps a function already */
        *ret = (CUfunction)kernel;
        return rt_error(cuFuncGetName(&name, *ret));
}

static const size_t places[] = {
        [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = offsetof(struct cudaFuncAttributes, maxThreadsPerBlock),
        [CU_FUNC_ATTRIBUTE_NUM_REGS] = offsetof(struct cudaFuncAttributes, numRegs),
        [CU_FUNC_ATTRIBUTE_PTX_VERSION] = offsetof(struct cudaFuncAttributes, ptxVersion),
        [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = offsetof(struct cudaFuncAttributes, binaryVersion),
        [CU_FUNC_ATTRIBUTE_CACHE_MODE_CA] = offsetof(struct cudaFuncAttributes, cacheModeCA),
        [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] =
                offsetof(struct cudaFuncAttributes, maxDynamicSharedSizeBytes),
        [CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] =
                offsetof(struct cudaFuncAttributes, preferredShmemCarveout),
        [CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET] = offsetof(struct cudaFuncAttributes, clusterDimMustBeSet),
        [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH] = offsetof(struct cudaFuncAttributes, requiredClusterWidth),
        [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT] = offsetof(struct cudaFuncAttributes, requiredClusterHeight),
        [CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH] = offsetof(struct cudaFuncAttributes, requiredClusterDepth),
        [CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] =
                offsetof(struct cudaFuncAttributes, nonPortableClusterSizeAllowed),
        [CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE] =
                offsetof(struct cudaFuncAttributes, clusterSchedulingPolicyPreference),
};

static void store(struct cudaFuncAttributes *attr, CUfunction_attribute which, int value)
{
        if (which == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)
                attr->sharedSizeBytes = (size_t)value;
        else if (which == CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)
                attr->constSizeBytes = (size_t)value;
        else if (which == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)
                attr->localSizeBytes = (size_t)value;
        else
                memcpy((char *)attr + places[which], &value, sizeof(value));
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
        CUfunction f;
        cudaError_t e = function(func, &f);
        CUresult r = CUDA_SUCCESS;
        int value;

        if (e != cudaSuccess)
                return e;
        if (!attr)
                return rt_fail(cudaErrorInvalidValue);
        memset(attr, 0, sizeof(*attr));
        for (int i = 0; i < CU_FUNC_ATTRIBUTE_MAX && r == CUDA_SUCCESS; i++) {
                r = cuFuncGetAttribute(&value, (CUfunction_attribute)i, f);
                if (r == CUDA_SUCCESS)
                        store(attr, (CUfunction_attribute)i, value);
        }
        return rt_error(r);
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
        CUfunction f;
        cudaError_t e = function(func, &f);

        return e ? e : rt_error(cuFuncSetAttribute(f, (CUfunction_attribute)attr, value));
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attr, int value, int device)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuKernelSetAttribute((CUfunction_attribute)attr, value, (CUkernel)kernel, device));
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
        CUfunction f;
        cudaError_t e = function(func, &f);

        return e ? e : rt_error(cuFuncSetCacheConfig(f, (CUfunc_cache)cacheConfig));
}

cudaError_t cudaFuncGetName(const char **name, const void *func)
{
        CUfunction f;
        cudaError_t e = function(func, &f);

        return e ? e : rt_error(cuFuncGetName(name, f));
}

cudaError_t cudaFuncGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
        CUfunction f;
        cudaError_t e = function(func, &f);

        return e ? e : rt_error(cuFuncGetParamInfo(f, paramIndex, paramOffset, paramSize));
}

/* *ret: the driver's kernel of a host address or handle, for attributes that only a kernel has. */
static cudaError_t kernel_of(const void *symbol, CUkernel *ret)
{
        cudaError_t e = rt_enter();
        const char *name;

        if (e == cudaSuccess)
                e = rt_kernel(symbol, ret);
        if (e == cudaSuccess && cuKernelGetName(&name, *ret) != CUDA_SUCCESS)
                return rt_fail(cudaErrorInvalidDeviceFunction);
        return e;
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
        CUkernel kernel;
        CUfunction f;
        cudaError_t e;

        if (!functionPtr)
                return rt_fail(cudaErrorInvalidValue);
        e = kernel_of(symbolPtr, &kernel);
        if (e == cudaSuccess)
                e = function(symbolPtr, &f);
        if (e == cudaSuccess)
                *functionPtr = f;
        return e;
}

cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
        cudaError_t e = rt_enter();
        CUkernel kernel;

        if (e != cudaSuccess)
                return e;
        if (!kernelPtr)
                return rt_fail(cudaErrorInvalidValue);
        e = kernel_of(entryFuncAddr, &kernel);
        if (e == cudaSuccess)
                *kernelPtr = kernel;
        return e;
}

cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
        cudaError_t e = rt_enter();
        CUdeviceptr address;
        size_t bytes;

        if (e != cudaSuccess)
                return e;
        if (!devPtr)
                return rt_fail(cudaErrorInvalidValue);
        e = rt_symbol(symbol, &address, &bytes);
        if (e == cudaSuccess)
                *devPtr = (void *)address;
        return e;
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
        cudaError_t e = rt_enter();
        CUdeviceptr address;
        size_t bytes;

        if (e != cudaSuccess)
                return e;
        if (!size)
                return rt_fail(cudaErrorInvalidValue);
        e = rt_symbol(symbol, &address, &bytes);
        if (e == cudaSuccess)
                *size = bytes;
        return e;
}
