/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory
 *
 * It is pinned host memory: host and device see the same bytes at one address, at once, without migration. This is
 * correct for every program, but slow for kernels that work on it, because each access crosses the bus. An allocation
 * returns before the pages exist; the daemon allocates them and registers them with the GPU before later work of the
 * session. Hints about its location are checked, stored where a program can query them, and have no effect.
 */
#include <string.h>

#include "cuda/capture.h"
#include "cuda/context.h"
#include "cuda/range.h"
#include "cuda/stream.h"

static CUresult allocate(struct dcu_context *context, size_t bytes, unsigned int flags, CUdeviceptr *ret)
{
        struct dcu_range range = {
                .size = bytes, .kind = DCU_RANGE_MANAGED, .flags = flags, .sync_memops = 1, .owner = context};
        uint64_t base, size;
        void *p;
        CUresult r = dcu_result(dsc_managed_alloc(dcu.session, bytes, &p));

        if (r != CUDA_SUCCESS)
                return r;
        range.base = (uintptr_t)p;
        /* without shared memory the device cannot access the allocation */
        r = dsc_lookup(dcu.session, range.base, &base, &size) == 2 ? dcu_range_add(&range) : CUDA_ERROR_NOT_SUPPORTED;
        if (r != CUDA_SUCCESS) {
                (void)dsc_host_free(dcu.session, p);
                return r;
        }
        *ret = range.base;
        return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
        struct dcu_context *context;
        CUresult r = dcu_enter(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS)
                return r;
        if (!dptr || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
                return CUDA_ERROR_INVALID_VALUE;
        *dptr = 0;
        return allocate(context, bytesize, flags, dptr);
}

/* 1: all the bytes lie in one allocation of managed memory. */
static int is_managed(uint64_t address, size_t bytes, struct dcu_range *ret)
{
        return bytes && dcu_range_find(address, ret) && ret->kind == DCU_RANGE_MANAGED &&
               bytes <= ret->size - (address - ret->base);
}

static CUresult check_location(const CUmemLocation *location)
{
        switch ((int)location->type) {
        case CU_MEM_LOCATION_TYPE_DEVICE:
                return dcu_check_device(location->id);
        case CU_MEM_LOCATION_TYPE_HOST:
        case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
                return CUDA_SUCCESS;
        case CU_MEM_LOCATION_TYPE_HOST_NUMA:
                return location->id >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

/* CUDA before 13 passed a location as one number: a device, or CU_DEVICE_CPU for the host. */
static CUmemLocation location_of(CUdevice device)
{
        CUmemLocation location;

        memset(&location, 0, sizeof(location));
        location.type = device == CU_DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE;
        location.id = device == CU_DEVICE_CPU ? 0 : device;
        return location;
}

/* --- prefetching --- */

static CUresult note_prefetch(CUdeviceptr address, size_t bytes, const CUmemLocation *location)
{
        struct dcu_range range;
        CUresult r = check_location(location);

        if (r != CUDA_SUCCESS)
                return r;
        if (!is_managed(address, bytes, &range))
                return CUDA_ERROR_INVALID_VALUE;
        dcu_range_advise(address, DCU_ADVICE_PREFETCHED, location);
        return CUDA_SUCCESS;
}

static CUresult enter_stream(CUstream stream)
{
        struct dcu_context *context, *owner;
        uint32_t slot;
        CUresult r = dcu_enter_any(&context);

        return r == CUDA_SUCCESS ? dcu_stream_slot(stream, context, &slot, &owner) : r;
}

static CUresult prefetch(CUdeviceptr address, size_t bytes, CUmemLocation location, CUstream stream)
{
        CUresult r = enter_stream(stream);

        return r == CUDA_SUCCESS ? note_prefetch(address, bytes, &location) : r;
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
        return prefetch(devPtr, count, location_of(dstDevice), hStream);
}

CUresult cuMemPrefetchAsync_v2(
        CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags, CUstream hStream)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        return flags == 0 ? prefetch(devPtr, count, location, hStream) : CUDA_ERROR_INVALID_VALUE;
}

/* Checks every range before the first operation, so that an error changes nothing. */
static CUresult check_batch(const CUdeviceptr *addresses, const size_t *sizes, size_t n)
{
        struct dcu_range range;

        if (!addresses || !sizes || n == 0)
                return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < n; i++)
                if (!is_managed(addresses[i], sizes[i], &range))
                        return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
}

static CUresult check_places(const CUmemLocation *locations, const size_t *begins, size_t n, size_t n_ranges)
{
        CUresult r = CUDA_SUCCESS;

        if (!locations || !begins || n == 0 || n > n_ranges || begins[0] != 0)
                return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
                if (begins[i] >= n_ranges || (i > 0 && begins[i] <= begins[i - 1]))
                        return CUDA_ERROR_INVALID_VALUE;
                r = check_location(&locations[i]);
        }
        return r;
}

static CUresult prefetch_batch(const CUdeviceptr *addresses, const size_t *sizes, size_t n,
        const CUmemLocation *locations, const size_t *begins, size_t n_locations, unsigned long long flags,
        CUstream stream)
{
        size_t at = 0;
        CUresult r = enter_stream(stream);

        if (r == CUDA_SUCCESS && flags != 0)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = check_batch(addresses, sizes, n);
        if (r == CUDA_SUCCESS)
                r = check_places(locations, begins, n_locations, n);
        for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
                at += at + 1 < n_locations && begins[at + 1] <= i;
                r = note_prefetch(addresses[i], sizes[i], &locations[at]);
        }
        return r;
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
        size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)
{
        return prefetch_batch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}

/* Has no effect: CUDA allows the content of discarded memory to be kept. */
CUresult cuMemDiscardBatchAsync(
        CUdeviceptr *dptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream hStream)
{
        CUresult r = enter_stream(hStream);

        if (r != CUDA_SUCCESS)
                return r;
        return flags == 0 ? check_batch(dptrs, sizes, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count, CUmemLocation *prefetchLocs,
        size_t *prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)
{
        return prefetch_batch(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs, flags, hStream);
}

/* --- advice --- */

static CUresult advise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
        static const enum dcu_advice kinds[] = {
                [CU_MEM_ADVISE_SET_READ_MOSTLY] = DCU_ADVICE_READ_MOSTLY,
                [CU_MEM_ADVISE_UNSET_READ_MOSTLY] = DCU_ADVICE_READ_MOSTLY,
                [CU_MEM_ADVISE_SET_PREFERRED_LOCATION] = DCU_ADVICE_PREFERRED,
                [CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION] = DCU_ADVICE_PREFERRED,
                [CU_MEM_ADVISE_SET_ACCESSED_BY] = DCU_ADVICE_ACCESSED,
                [CU_MEM_ADVISE_UNSET_ACCESSED_BY] = DCU_ADVICE_ACCESSED,
        };
        struct dcu_range range;
        struct dcu_context *context;
        int set = advice % 2 == 1, about_place = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                                                 advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                                                 advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
        CUresult r = dcu_enter_any(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY ||
                !is_managed(address, bytes, &range))
                return CUDA_ERROR_INVALID_VALUE;
        if (about_place)
                r = check_location(&location);
        if (r != CUDA_SUCCESS)
                return r;
        if (advice == CU_MEM_ADVISE_SET_READ_MOSTLY)
                location = location_of(0);
        dcu_range_advise(address, kinds[advice], set ? &location : NULL);
        return CUDA_SUCCESS;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
        return advise(devPtr, count, advice, location_of(device));
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
        return advise(devPtr, count, advice, location);
}

/* --- queries of advice ------------ */

static int32_t as_device(const CUmemLocation *location)
{
        if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
                return location->id;
        return location->type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

/* Writes the list of devices that were advised to access the memory; fills the rest of the array with
 * CU_DEVICE_INVALID. */
static CUresult accessed_by(const struct dcu_range *range, void *data, size_t size)
{
        const CUmemLocation *location = &range->advice[DCU_ADVICE_ACCESSED];
        size_t n = size / sizeof(int32_t);

        if (size == 0 || size % sizeof(int32_t) != 0)
                return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < n; i++) {
                int32_t device = i == 0 ? as_device(location) : CU_DEVICE_INVALID;

                memcpy((char *)data + i * sizeof(device), &device, sizeof(device));
        }
        return CUDA_SUCCESS;
}

static CUresult range_attribute(const struct dcu_range *range, CUmem_range_attribute attribute, void *data, size_t size)
{
        const CUmemLocation *preferred = &range->advice[DCU_ADVICE_PREFERRED];
        const CUmemLocation *prefetched = &range->advice[DCU_ADVICE_PREFETCHED];
        int32_t value;

        if (!data)
                return CUDA_ERROR_INVALID_VALUE;
        switch (attribute) {
        case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
                value = range->advice[DCU_ADVICE_READ_MOSTLY].type != CU_MEM_LOCATION_TYPE_INVALID;
                break;
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
                value = as_device(preferred);
                break;
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
                value = as_device(prefetched);
                break;
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
                value = (int32_t)preferred->type;
                break;
        case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
                value = preferred->id;
                break;
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
                value = (int32_t)prefetched->type;
                break;
        case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
                value = prefetched->id;
                break;
        case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
                return accessed_by(range, data, size);
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
        if (size != sizeof(value))
                return CUDA_ERROR_INVALID_VALUE;
        memcpy(data, &value, sizeof(value));
        return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttribute(
        void *data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr, size_t count)
{
        struct dcu_range range;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!is_managed(devPtr, count, &range))
                return CUDA_ERROR_INVALID_VALUE;
        return range_attribute(&range, attribute, data, dataSize);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
        size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
        struct dcu_range range;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!data || !dataSizes || !attributes || numAttributes == 0 || !is_managed(devPtr, count, &range))
                return CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < numAttributes && r == CUDA_SUCCESS; i++)
                r = range_attribute(&range, attributes[i], data[i], dataSizes[i]);
        return r;
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
        struct dcu_range range;
        CUresult r = enter_stream(hStream);

        if (r != CUDA_SUCCESS)
                return r;
        if ((flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE) ||
                !dcu_range_find(dptr, &range) || range.kind != DCU_RANGE_MANAGED || range.base != dptr ||
                (length != 0 && length != range.size))
                return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
}
