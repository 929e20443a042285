/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory, and attributes of pointers
 *
 * Locations, advice and range attributes have the driver's numbers.
 */
#include <string.h>

#include "cudart/rt.h"

cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
        cudaError_t e = rt_enter();
        CUdeviceptr address = 0;

        if (e != cudaSuccess)
                return e;
        if (!devPtr)
                return rt_fail(cudaErrorInvalidValue);
        e = size ? rt_error(cuMemAllocManaged(&address, size, flags)) : cudaSuccess;
        if (e == cudaSuccess)
                *devPtr = (void *)address;
        return e;
}

cudaError_t cudaMemAdvise(
        const void *devPtr, size_t count, enum cudaMemoryAdvise advice, struct cudaMemLocation location)
{
        CUmemLocation where = {.type = (CUmemLocationType)location.type, .id = location.id};
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuMemAdvise((CUdeviceptr)devPtr, count, (CUmem_advise)advice, where));
}

cudaError_t cudaMemRangeGetAttribute(
        void *data, size_t dataSize, enum cudaMemRangeAttribute attribute, const void *devPtr, size_t count)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuMemRangeGetAttribute(
                           data, dataSize, (CUmem_range_attribute)attribute, (CUdeviceptr)devPtr, count));
}

cudaError_t cudaMemRangeGetAttributes(void **data, size_t *dataSizes, enum cudaMemRangeAttribute *attributes,
        size_t numAttributes, const void *devPtr, size_t count)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuMemRangeGetAttributes(data, dataSizes, (CUmem_range_attribute *)attributes, numAttributes,
                           (CUdeviceptr)devPtr, count));
}

static enum cudaMemoryType type_of(unsigned int type, unsigned int managed)
{
        if (managed)
                return cudaMemoryTypeManaged;
        if (type == CU_MEMORYTYPE_HOST)
                return cudaMemoryTypeHost;
        return type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
}

/* Returns zeros for memory that the driver neither allocated nor registered. */
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
        CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
        unsigned int type = 0, managed = 0;
        CUdeviceptr device = 0;
        void *host = NULL;
        int ordinal = cudaInvalidDeviceId;
        void *answers[] = {&type, &managed, &device, &host, &ordinal};
        cudaError_t e = rt_enter();

        if (e != cudaSuccess)
                return e;
        if (!attributes)
                return rt_fail(cudaErrorInvalidValue);
        e = rt_error(cuPointerGetAttributes(sizeof(wanted) / sizeof(wanted[0]), wanted, answers, (CUdeviceptr)ptr));
        if (e != cudaSuccess)
                return e;
        memset(attributes, 0, sizeof(*attributes));
        attributes->type = type_of(type, managed);
        attributes->device = ordinal;
        attributes->devicePointer = (void *)device;
        attributes->hostPointer = host;
        if (attributes->type == cudaMemoryTypeUnregistered) {
                attributes->device = cudaInvalidDeviceId;
                attributes->devicePointer = NULL;
                attributes->hostPointer = (void *)(uintptr_t)ptr;
        }
        return cudaSuccess;
}

/* Fills in a structure; needs no driver. */
struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind f)
{
        return (struct cudaChannelFormatDesc){.x = x, .y = y, .z = z, .w = w, .f = f};
}
