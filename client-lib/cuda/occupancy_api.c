/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on occupancy
 */
#include "cuda/module.h"
#include "cuda/occupancy.h"

void dcu_occupancy_device(struct dcu_occupancy_device *ret)
{
        *ret = (struct dcu_occupancy_device){
                .cc_major = dcu_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                .cc_minor = dcu_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
                .threads_per_block = dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
                .threads_per_sm = dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
                .blocks_per_sm = dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
                .warp = dcu_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
                .registers_per_block = dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
                .registers_per_sm = dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
                .shared_per_sm = (size_t)dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
                .shared_per_block_optin = (size_t)dcu_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
                .shared_reserved = (size_t)dcu_attribute(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK),
        };
}

void dcu_occupancy_kernel(const struct dcu_entry *entry, struct dcu_occupancy_kernel *ret)
{
        *ret = (struct dcu_occupancy_kernel){
                .registers = (int)entry->info.registers,
                .static_shared = entry->info.static_shared,
                .max_dynamic_shared = (size_t)atomic_load(&entry->max_dynamic_shared),
                .carveout = entry->carveout,
        };
}

static CUresult enter_occupancy(CUfunction func, struct dcu_occupancy_device *device,
        struct dcu_occupancy_kernel *kernel, struct dcu_entry **ret_entry)
{
        struct dcu_context *context, *owner;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        *ret_entry = dcu_entry_of(func, &owner);
        if (!*ret_entry)
                return CUDA_ERROR_INVALID_HANDLE;
        dcu_occupancy_device(device);
        dcu_occupancy_kernel(*ret_entry, kernel);
        return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned int flags)
{
        struct dcu_occupancy_device device;
        struct dcu_occupancy_kernel kernel;
        struct dcu_entry *entry;
        CUresult r = enter_occupancy(func, &device, &kernel, &entry);

        if (r != CUDA_SUCCESS)
                return r;
        if (!numBlocks || blockSize <= 0 || (flags & ~(unsigned int)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
                return CUDA_ERROR_INVALID_VALUE;
        *numBlocks = dcu_occupancy_blocks(&device, &kernel, blockSize, dynamicSMemSize);
        return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
        int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize)
{
        return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                numBlocks, func, blockSize, dynamicSMemSize, CU_OCCUPANCY_DEFAULT);
}

/* The block size with most resident threads; among equals the largest. */
static void best_block(const struct dcu_occupancy_device *device, const struct dcu_occupancy_kernel *kernel, int limit,
        CUoccupancyB2DSize size_of, size_t dynamic, int *ret_block, int *ret_blocks)
{
        int most = 0;

        *ret_block = *ret_blocks = 0;
        for (int top = (limit + device->warp - 1) / device->warp * device->warp; top > 0; top -= device->warp) {
                int block = top < limit ? top : limit;
                int blocks = dcu_occupancy_blocks(device, kernel, block, size_of ? size_of(block) : dynamic);

                if (blocks * block > most) {
                        most = blocks * block;
                        *ret_block = block;
                        *ret_blocks = blocks;
                }
                if (most == device->threads_per_sm)
                        break;
        }
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
        CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit, unsigned int flags)
{
        struct dcu_occupancy_device device;
        struct dcu_occupancy_kernel kernel;
        struct dcu_entry *entry;
        int limit, blocks;
        CUresult r = enter_occupancy(func, &device, &kernel, &entry);

        if (r != CUDA_SUCCESS)
                return r;
        if (!minGridSize || !blockSize || blockSizeLimit < 0 ||
                (flags & ~(unsigned int)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE))
                return CUDA_ERROR_INVALID_VALUE;
        limit = (int)entry->info.max_threads < device.threads_per_block ? (int)entry->info.max_threads
                                                                        : device.threads_per_block;
        if (blockSizeLimit > 0 && blockSizeLimit < limit)
                limit = blockSizeLimit;
        best_block(&device, &kernel, limit, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSize, &blocks);
        *minGridSize = blocks * dcu_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
        return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
        CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit)
{
        return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                dynamicSMemSize, blockSizeLimit, CU_OCCUPANCY_DEFAULT);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks, int blockSize)
{
        struct dcu_occupancy_device device;
        struct dcu_occupancy_kernel kernel;
        struct dcu_entry *entry;
        int64_t bytes;
        CUresult r = enter_occupancy(func, &device, &kernel, &entry);

        if (r != CUDA_SUCCESS)
                return r;
        if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0)
                return CUDA_ERROR_INVALID_VALUE;
        bytes = dcu_occupancy_dynamic_shared(&device, &kernel, numBlocks, blockSize);
        if (bytes < 0)
                return CUDA_ERROR_INVALID_VALUE;
        *dynamicSmemSize = (size_t)bytes;
        return CUDA_SUCCESS;
}
