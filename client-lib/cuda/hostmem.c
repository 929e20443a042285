/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory: pinned, and registered
 *
 * Pinned memory is shared with the daemon at one address. In a session without shared memory it is pageable memory that
 * CUDA's copies accept, and the device attribute says that the device cannot access it. The program's existing memory
 * cannot be shared, so registering it is bookkeeping: copies work as before, and a device address for it is refused.
 * replace.h describes the alternative.
 */
#include "cuda/capture.h"
#include "cuda/context.h"
#include "cuda/range.h"
#include "cuda/replace.h"

#define ALLOC_FLAGS (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS                                                                              \
        (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY | \
                CU_MEMHOSTREGISTER_READ_ONLY)
#define ALLOCATED (1u << DCU_RANGE_PINNED | 1u << DCU_RANGE_HOST)

static CUresult allocate(void **ret, size_t bytes, unsigned int flags)
{
        struct dcu_context *context;
        struct dcu_range range = {.size = bytes,
                .flags = CU_MEMHOSTALLOC_DEVICEMAP |
                         (flags & (CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_PORTABLE))};
        uint64_t base, size;
        void *p;
        CUresult r = dcu_enter(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS)
                return r;
        if (!ret || (flags & ~(unsigned int)ALLOC_FLAGS))
                return CUDA_ERROR_INVALID_VALUE;
        *ret = NULL;
        if (bytes == 0)
                return CUDA_SUCCESS;
        r = dcu_result(dsc_host_alloc(dcu.session, bytes, &p));
        if (r != CUDA_SUCCESS)
                return r;
        range.base = (uintptr_t)p;
        range.owner = context;
        range.kind = dsc_lookup(dcu.session, range.base, &base, &size) == 2 ? DCU_RANGE_PINNED : DCU_RANGE_HOST;
        r = dcu_range_add(&range);
        if (r != CUDA_SUCCESS) {
                (void)dsc_host_free(dcu.session, p);
                return r;
        }
        *ret = p;
        return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
        return allocate(pp, bytesize, Flags);
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
        return allocate(pp, bytesize, 0);
}

CUresult cuMemFreeHost(void *p)
{
        struct dcu_context *context;
        struct dcu_range range;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS || !p)
                return r;
        if (!dcu_range_remove((uintptr_t)p, ALLOCATED, &range))
                return CUDA_ERROR_INVALID_VALUE;
        return dcu_result(dsc_host_free(dcu.session, p));
}

static int is_host_kind(enum dcu_range_kind kind)
{
        return kind == DCU_RANGE_PINNED || kind == DCU_RANGE_HOST || kind == DCU_RANGE_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
        struct dcu_context *context;
        struct dcu_range range;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pdptr || Flags != 0 || !dcu_range_find((uintptr_t)p, &range) || !is_host_kind(range.kind))
                return CUDA_ERROR_INVALID_VALUE;
        if (range.kind == DCU_RANGE_PINNED)
                *pdptr = (uintptr_t)p;
        else if (range.detail)
                *pdptr = dcu_replace_address(range.base, (uintptr_t)range.detail, (uintptr_t)p);
        else
                return CUDA_ERROR_NOT_SUPPORTED;
        return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
        struct dcu_context *context;
        struct dcu_range range;
        CUresult r = dcu_enter(&context);

        if (r != CUDA_SUCCESS)
                return r;
        if (!pFlags || !dcu_range_find((uintptr_t)p, &range) || !is_host_kind(range.kind))
                return CUDA_ERROR_INVALID_VALUE;
        *pFlags = range.flags;
        return CUDA_SUCCESS;
}

/* For DETSHARE_REGISTER=replace: replaces the range's pages by shared ones and adds a range for the device's address
 * of them. */
static CUresult replace_pages(struct dcu_range *range, unsigned int flags)
{
        struct dcu_range pinned = {.kind = DCU_RANGE_REPLACED, .sync_memops = 1, .owner = range->owner};
        uint64_t address;

        if (!dcu_replace((void *)(uintptr_t)range->base, range->size, &address)) {
                if (!(flags & CU_MEMHOSTREGISTER_DEVICEMAP))
                        return CUDA_SUCCESS; /* copies work without shared pages */
                (void)dcu_range_remove(range->base, 1u << DCU_RANGE_REGISTERED, range);
                return CUDA_ERROR_NOT_SUPPORTED;
        }
        pinned.base = dcu_replace_address(range->base, address, range->base);
        pinned.size = range->size;
        (void)dcu_range_add(&pinned); /* if it fails, only copies that use the device's address are refused */
        dcu_range_set_detail(range->base, (void *)(uintptr_t)address);
        return CUDA_SUCCESS;
}

void dcu_hostmem_unregister(const struct dcu_range *range, int in_daemon)
{
        uint64_t address = (uintptr_t)range->detail;
        struct dcu_range pinned;

        if (!address)
                return;
        (void)dcu_range_remove(
                dcu_replace_address(range->base, address, range->base), 1u << DCU_RANGE_REPLACED, &pinned);
        dcu_replace_undo((void *)(uintptr_t)range->base, range->size, address, in_daemon);
}

static CUresult host_register(void *p, size_t bytes, unsigned int flags)
{
        struct dcu_context *context;
        struct dcu_range range = {.base = (uintptr_t)p, .size = bytes, .kind = DCU_RANGE_REGISTERED};
        struct dcu_range known;
        CUresult r = dcu_enter(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS)
                return r;
        if (!p || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)p || (flags & ~(unsigned int)REGISTER_FLAGS))
                return CUDA_ERROR_INVALID_VALUE;
        if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) || ((flags & CU_MEMHOSTREGISTER_DEVICEMAP) && !dcu_replace_wanted()))
                return CUDA_ERROR_NOT_SUPPORTED;
        if (dcu_range_find(range.base, &known) && known.kind != DCU_RANGE_REGISTERED)
                return CUDA_ERROR_INVALID_VALUE;
        range.owner = context;
        range.flags = flags & CU_MEMHOSTREGISTER_PORTABLE;
        r = dcu_range_add(&range);
        if (r == CUDA_SUCCESS && dcu_replace_wanted())
                r = replace_pages(&range, flags);
        return r == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : r;
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
        return host_register(p, bytesize, Flags);
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
        return host_register(p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void *p)
{
        struct dcu_context *context;
        struct dcu_range range;
        CUresult r = dcu_enter_any(&context);

        if (r == CUDA_SUCCESS)
                r = dcu_capture_unsafe();
        if (r != CUDA_SUCCESS)
                return r;
        if (!p)
                return CUDA_ERROR_INVALID_VALUE;
        if (dcu_range_remove((uintptr_t)p, 1u << DCU_RANGE_REGISTERED, &range)) {
                if (range.detail) {
                        r = dcu_result(dsc_wait_all(dcu.session)); /* kernels may still write to the shared pages */
                        dcu_hostmem_unregister(&range, 1);
                }
                return r;
        }
        return dcu_range_find((uintptr_t)p, &range) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}
