/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on memory pools
 *
 * Only pools of device memory are supported. Other processes cannot share a pool: no handle type is supported.
 */
#include <string.h>

#include "cuda/capture.h"
#include "cuda/pool.h"
#include "cuda/range.h"
#include "cuda/stream.h"

static _Atomic(struct dcu_pool *) current; /* pool that the program set as current; NULL: the default pool */

static struct dcu_pool *current_pool(void)
{
        struct dcu_pool *pool = atomic_load(&current);

        return pool ? pool : dcu_pool_default();
}

static int on_device(const CUmemLocation *location)
{
        return location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == 0;
}

/* --- the device's pools --- */

static CUresult give(struct dcu_pool *pool, CUmemoryPool *ret)
{
        if (!pool)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *ret = pool->handle;
        return CUDA_SUCCESS;
}

static CUresult enter_device(CUdevice dev)
{
        CUresult r = dcu_enter_process();

        return r == CUDA_SUCCESS ? dcu_check_device(dev) : r;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        return pool_out ? give(dcu_pool_default(), pool_out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        return pool ? give(current_pool(), pool) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
        CUresult r = enter_device(dev);

        if (r != CUDA_SUCCESS)
                return r;
        if (!dcu_pool_of(pool))
                return CUDA_ERROR_INVALID_VALUE;
        atomic_store(&current, dcu_pool_of(pool));
        return CUDA_SUCCESS;
}

/* Checks a location and kind, by which CUDA 13 identifies the device's pools. */
static CUresult enter_place(const CUmemLocation *location, CUmemAllocationType type)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!location || (type != CU_MEM_ALLOCATION_TYPE_PINNED && type != CU_MEM_ALLOCATION_TYPE_MANAGED))
                return CUDA_ERROR_INVALID_VALUE;
        if (type == CU_MEM_ALLOCATION_TYPE_MANAGED || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
                return CUDA_ERROR_NOT_SUPPORTED;
        return dcu_check_device(location->id);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
        CUresult r = enter_place(location, type);

        if (r != CUDA_SUCCESS)
                return r;
        return pool_out ? give(dcu_pool_default(), pool_out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
        CUresult r = enter_place(location, type);

        if (r != CUDA_SUCCESS)
                return r;
        return pool ? give(current_pool(), pool) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
        CUresult r = enter_place(location, type);

        return r == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, pool) : r;
}

/* --- creation and destruction ----- */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
        static const unsigned char zeros[sizeof(poolProps->reserved)];
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!pool || !poolProps || memcmp(poolProps->reserved, zeros, sizeof(zeros)) != 0 ||
                poolProps->win32SecurityAttributes)
                return CUDA_ERROR_INVALID_VALUE;
        if (poolProps->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED ||
                (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE &&
                        poolProps->location.type != CU_MEM_LOCATION_TYPE_INVALID))
                return CUDA_ERROR_NOT_SUPPORTED;
        if (poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
                poolProps->location.type == CU_MEM_LOCATION_TYPE_INVALID)
                return CUDA_ERROR_INVALID_VALUE;
        if (!on_device(&poolProps->location))
                return CUDA_ERROR_INVALID_DEVICE;
        if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE || poolProps->usage != 0)
                return CUDA_ERROR_NOT_SUPPORTED;
        return give(dcu_pool_new(poolProps->maxSize), pool);
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
        struct dcu_pool *own, *expected;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        own = expected = dcu_pool_of(pool);
        if (!own || own == dcu_pool_default())
                return CUDA_ERROR_INVALID_VALUE;
        atomic_compare_exchange_strong(&current, &expected, NULL);
        dcu_pool_destroy(own);
        return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!dcu_pool_of(pool))
                return CUDA_ERROR_INVALID_VALUE;
        dcu_pool_trim(dcu_pool_of(pool), minBytesToKeep);
        return CUDA_SUCCESS;
}

/* --- attributes --- */

/* Returns the bit of enum dcu_pool_reuse for an attribute; 0: the attribute is none of them. */
static unsigned int reuse_bit(CUmemPool_attribute attr)
{
        switch (attr) {
        case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
                return DCU_REUSE_EVENTS;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
                return DCU_REUSE_OPPORTUNISTIC;
        case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
                return DCU_REUSE_INTERNAL;
        default:
                return 0;
        }
}

static CUresult set_number(struct dcu_pool *pool, CUmemPool_attribute attr, uint64_t value)
{
        switch (attr) {
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
                dcu_pool_set(pool, DCU_POOL_THRESHOLD, value);
                return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
                if (value != 0)
                        return CUDA_ERROR_INVALID_VALUE;
                dcu_pool_set(
                        pool, attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? DCU_POOL_USED_HIGH : DCU_POOL_RESERVED_HIGH, 0);
                return CUDA_SUCCESS;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
        unsigned int bit = reuse_bit(attr);
        struct dcu_pool *pool, now;
        uint64_t number;
        int flag;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pool = dcu_pool_of(handle);
        if (!pool || !value)
                return CUDA_ERROR_INVALID_VALUE;
        if (bit) {
                memcpy(&flag, value, sizeof(flag));
                dcu_pool_get(pool, &now);
                dcu_pool_set(pool, DCU_POOL_REUSE, flag ? now.reuse | bit : now.reuse & ~bit);
                return CUDA_SUCCESS;
        }
        memcpy(&number, value, sizeof(number));
        return set_number(pool, attr, number);
}

static CUresult get_number(const struct dcu_pool *pool, CUmemPool_attribute attr, uint64_t *ret)
{
        switch (attr) {
        case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
                *ret = pool->threshold;
                return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
                *ret = pool->reserved;
                return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
                *ret = pool->reserved_high;
                return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
                *ret = pool->used;
                return CUDA_SUCCESS;
        case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
                *ret = pool->used_high;
                return CUDA_SUCCESS;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attr, void *value)
{
        unsigned int bit = reuse_bit(attr);
        struct dcu_pool *pool, now;
        uint64_t number;
        int flag;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pool = dcu_pool_of(handle);
        if (!pool || !value)
                return CUDA_ERROR_INVALID_VALUE;
        dcu_pool_get(pool, &now);
        if (bit) {
                flag = (now.reuse & bit) != 0;
                memcpy(value, &flag, sizeof(flag));
                return CUDA_SUCCESS;
        }
        r = get_number(&now, attr, &number);
        if (r == CUDA_SUCCESS)
                memcpy(value, &number, sizeof(number));
        return r;
}

/* --- access of devices to a pool: the only device always has it --- */

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!dcu_pool_of(pool) || (!map && count))
                return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < count; i++) {
                if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
                        return CUDA_ERROR_INVALID_VALUE;
                if (!on_device(&map[i].location))
                        return CUDA_ERROR_INVALID_DEVICE;
                if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
                        return CUDA_ERROR_INVALID_VALUE; /* the pool's own device cannot lose access */
        }
        return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!flags || !location || !dcu_pool_of(memPool))
                return CUDA_ERROR_INVALID_VALUE;
        if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id != 0)
                return CUDA_ERROR_INVALID_DEVICE;
        *flags = on_device(location) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
        return CUDA_SUCCESS;
}

/* --- allocations --- */

static CUresult allocate(CUdeviceptr *dptr, size_t bytes, struct dcu_pool *pool, CUstream stream)
{
        struct dcu_context *context, *owner;
        uint32_t slot;
        int capturing;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_stream_work(stream, context, &slot, &owner, &capturing);
        if (r == CUDA_SUCCESS && !capturing)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS)
                return r;
        if (!dptr)
                return CUDA_ERROR_INVALID_VALUE;
        *dptr = 0;
        if (bytes == 0) /* a size of 0 gives the address NULL without an error, as NVIDIA's driver does */
                return CUDA_SUCCESS;
        if (capturing)
                return dcu_capture_mem_alloc(slot, bytes, dptr);
        return pool ? dcu_pool_alloc(pool, slot, bytes, dptr) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
        CUresult r = dcu_enter_process();

        return r == CUDA_SUCCESS ? allocate(dptr, bytesize, current_pool(), hStream) : r;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        return dcu_pool_of(pool) ? allocate(dptr, bytesize, dcu_pool_of(pool), hStream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
        struct dcu_context *context, *owner;
        struct dcu_range range;
        uint32_t slot;
        int capturing;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_stream_work(hStream, context, &slot, &owner, &capturing);
        if (r != CUDA_SUCCESS || dptr == 0)
                return r;
        if (capturing)
                return dcu_capture_mem_free(slot, dptr);
        r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS)
                return r;
        if (dcu_graph_memory_freed(dptr, &r))
                return r;
        if (!dcu_range_find(dptr, &range) || range.base != dptr)
                return CUDA_ERROR_INVALID_VALUE;
        if (range.kind == DCU_RANGE_POOL)
                return dcu_pool_free(dptr, slot);
        return dcu_plain_free_later(dptr, slot);
}

/* --- sharing with other processes: not supported --- */

CUresult cuMemPoolExportToShareableHandle(
        void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType, unsigned long long flags)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        return handle_out && dcu_pool_of(pool) && flags == 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolImportFromShareableHandle(
        CUmemoryPool *pool_out, void *handle, CUmemAllocationHandleType handleType, unsigned long long flags)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        return pool_out && flags == 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}
