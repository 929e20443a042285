/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of pointers
 *
 * cuPointerGetAttribute refuses addresses unknown to CUDA. cuPointerGetAttributes accepts them: zeros, the address
 * itself as host pointer, and ordinal -2, by which the runtime recognises pageable memory. Both use this process's
 * table and need no context.
 */
#include <string.h>

#include "cuda/context.h"
#include "cuda/pool.h"
#include "cuda/range.h"
#include "cuda/replace.h"
#include "cuda/vmm.h"

#define ORDINAL_UNKNOWN (-2)
#define ACCESS_READ_WRITE 3u

static void put_u64(void *data, uint64_t value)
{
        memcpy(data, &value, sizeof(value));
}

static void put_u32(void *data, uint32_t value)
{
        memcpy(data, &value, sizeof(value));
}

static int is_device(const struct dcu_range *range)
{
        switch (range->kind) {
        case DCU_RANGE_DEVICE:
        case DCU_RANGE_GLOBAL:
        case DCU_RANGE_POOL:
        case DCU_RANGE_MAPPED:
        case DCU_RANGE_OPENED:
                return 1;
        default:
                return 0;
        }
}

static int device_reaches(const struct dcu_range *range)
{
        return is_device(range) || range->kind == DCU_RANGE_PINNED || range->kind == DCU_RANGE_MANAGED ||
               range->kind == DCU_RANGE_REPLACED;
}

/* The device's address of the memory; 0: none. */
static uint64_t device_address(const struct dcu_range *range, uint64_t address)
{
        if (range->kind == DCU_RANGE_REGISTERED && range->detail)
                return dcu_replace_address(range->base, (uintptr_t)range->detail, address);
        return device_reaches(range) ? address : 0;
}

static CUresult known_address(
        const struct dcu_range *range, CUpointer_attribute attribute, uint64_t address, void *data)
{
        switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
                put_u64(data, range->owner ? (uintptr_t)dcu_context_handle(range->owner) : 0);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
                put_u64(data, device_address(range, address));
                return device_address(range, address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
                put_u64(data, is_device(range) ? 0 : address);
                return is_device(range) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
                put_u64(data, range->base);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
                put_u64(data, range->size);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
                put_u64(data, range->id);
                return CUDA_SUCCESS;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

static CUresult known_small(const struct dcu_range *range, CUpointer_attribute attribute, void *data)
{
        switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
                /* CUDA reports managed memory as device memory, wherever it lies */
                put_u32(data, is_device(range) || range->kind == DCU_RANGE_MANAGED ? CU_MEMORYTYPE_DEVICE
                                                                                   : CU_MEMORYTYPE_HOST);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
                put_u32(data, (uint32_t)range->sync_memops);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MAPPED:
                put_u32(data, 1);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
                put_u32(data, device_reaches(range) ? ACCESS_READ_WRITE : 0);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
                put_u64(data, range->kind == DCU_RANGE_MAPPED
                                      ? ((const struct dcu_physical *)range->detail)->prop.requestedHandleTypes
                                      : 0);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
                put_u64(data, range->kind == DCU_RANGE_POOL ? (uintptr_t)dcu_pool_of_block(range->detail) : 0);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
                put_u32(data, range->kind == DCU_RANGE_MANAGED);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
                put_u32(data, range->kind == DCU_RANGE_DEVICE);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
                put_u32(data, 0);
                return CUDA_SUCCESS;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

static int is_address_attribute(CUpointer_attribute attribute)
{
        switch (attribute) {
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
                return 1;
        default:
                return 0;
        }
}

static CUresult known(const struct dcu_range *range, CUpointer_attribute attribute, uint64_t address, void *data)
{
        return is_address_attribute(attribute) ? known_address(range, attribute, address, data)
                                               : known_small(range, attribute, data);
}

/* *data: attribute of an address in pageable memory, or in no memory. */
static CUresult unknown(CUpointer_attribute attribute, uint64_t address, void *data)
{
        switch (attribute) {
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
                put_u64(data, address);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
                put_u32(data, (uint32_t)ORDINAL_UNKNOWN);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
                return CUDA_SUCCESS; /* CUDA leaves the program's variable unchanged */
        case CU_POINTER_ATTRIBUTE_CONTEXT:
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
                put_u64(data, 0);
                return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        case CU_POINTER_ATTRIBUTE_MAPPED:
        case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
                put_u32(data, 0);
                return CUDA_SUCCESS;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
        struct dcu_range range;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!data || !dcu_range_find(ptr, &range))
                return CUDA_ERROR_INVALID_VALUE;
        return known(&range, attribute, ptr, data);
}

CUresult cuPointerGetAttributes(
        unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr)
{
        struct dcu_range range;
        CUresult r = dcu_enter_process();
        int found;

        if (r != CUDA_SUCCESS)
                return r;
        if (numAttributes == 0 || !attributes || !data)
                return CUDA_ERROR_INVALID_VALUE;
        found = dcu_range_find(ptr, &range);
        for (unsigned int i = 0; i < numAttributes && r == CUDA_SUCCESS; i++) {
                if (!data[i])
                        return CUDA_ERROR_INVALID_VALUE;
                r = found ? known(&range, attributes[i], ptr, data[i]) : unknown(attributes[i], ptr, data[i]);
                /* an address in a known range without a host or device pointer gives NULL, not an error */
                if (r != CUDA_SUCCESS && found &&
                        (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
                                attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER))
                        r = CUDA_SUCCESS;
        }
        return r;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
        struct dcu_range range;
        int on;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !dcu_range_find(ptr, &range) ||
                !is_device(&range))
                return CUDA_ERROR_INVALID_VALUE;
        memcpy(&on, value, sizeof(on));
        dcu_range_set_sync_memops(ptr, on != 0);
        return CUDA_SUCCESS;
}
