/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools
 *
 * The descriptions of pools, locations, access and attributes have the driver's members.
 */
#include "cudart/rt.h"

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps), "the same members");
_Static_assert(sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc), "the same members");
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "the same members");
_Static_assert(sizeof(struct cudaMemPoolPtrExportData) == sizeof(CUmemPoolPtrExportData), "bytes");

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuDeviceGetDefaultMemPool(memPool, device));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuDeviceSetMemPool(device, memPool));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuDeviceGetMemPool(memPool, device));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemPoolTrimTo(memPool, minBytesToKeep));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList, size_t count)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemPoolSetAccess(memPool, (const CUmemAccessDesc *)descList, count));
}

cudaError_t cudaMemPoolGetAccess(
        enum cudaMemAccessFlags *flags, cudaMemPool_t memPool, struct cudaMemLocation *location)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemPoolGetAccess((CUmemAccess_flags *)flags, memPool, (CUmemLocation *)location));
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemPoolCreate(memPool, (const CUmemPoolProps *)poolProps));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemPoolDestroy(memPool));
}

cudaError_t cudaMemGetDefaultMemPool(
        cudaMemPool_t *memPool, struct cudaMemLocation *location, enum cudaMemAllocationType type)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemGetDefaultMemPool(memPool, (CUmemLocation *)location, (CUmemAllocationType)type));
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location, enum cudaMemAllocationType type)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemGetMemPool(memPool, (CUmemLocation *)location, (CUmemAllocationType)type));
}

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type, cudaMemPool_t memPool)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemSetMemPool((CUmemLocation *)location, (CUmemAllocationType)type, memPool));
}

cudaError_t cudaMemPoolExportToShareableHandle(
        void *shareableHandle, cudaMemPool_t memPool, enum cudaMemAllocationHandleType handleType, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuMemPoolExportToShareableHandle(
                           shareableHandle, memPool, (CUmemAllocationHandleType)handleType, flags));
}

cudaError_t cudaMemPoolImportFromShareableHandle(
        cudaMemPool_t *memPool, void *shareableHandle, enum cudaMemAllocationHandleType handleType, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuMemPoolImportFromShareableHandle(
                           memPool, shareableHandle, (CUmemAllocationHandleType)handleType, flags));
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData, void *ptr)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemPoolExportPointer((CUmemPoolPtrExportData *)exportData, (CUdeviceptr)ptr));
}

cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool, struct cudaMemPoolPtrExportData *exportData)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuMemPoolImportPointer((CUdeviceptr *)ptr, memPool, (CUmemPoolPtrExportData *)exportData));
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuDeviceGraphMemTrim(device));
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attr, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr, void *value)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)attr, value));
}
