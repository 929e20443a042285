/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory with handles, mapped where the program wants
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/copy.h"
#include "cuda/range.h"
#include "cuda/vmm.h"

#define GRANULARITY (2ull << 20)

/* Taken after dcu.lock; protects mappings and the counts of objects. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dcu_physical *all, *dead;

static int aligned(uint64_t n)
{
        return n % GRANULARITY == 0;
}

/* --- properties --- */

static CUresult check_location(const CUmemLocation *location)
{
        if (location->type == CU_MEM_LOCATION_TYPE_DEVICE)
                return dcu_check_device(location->id);
        return location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
                               location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
                       ? CUDA_ERROR_NOT_SUPPORTED
                       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
        if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED || prop->win32HandleMetaData)
                return CUDA_ERROR_INVALID_VALUE;
        if (prop->requestedHandleTypes & ~(unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
                return CUDA_ERROR_NOT_SUPPORTED;
        if (prop->allocFlags.usage != 0)
                return CUDA_ERROR_NOT_SUPPORTED;
        return check_location(&prop->location);
}

CUresult cuMemGetAllocationGranularity(
        size_t *granularity, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS && (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                                                          option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)))
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = check_prop(prop);
        if (r == CUDA_SUCCESS)
                *granularity = GRANULARITY;
        return r;
}

/* --- addresses --- */

CUresult cuMemAddressReserve(
        CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags)
{
        uint64_t align = alignment > GRANULARITY ? alignment : GRANULARITY, at;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!ptr || size == 0 || !aligned(size) || flags != 0 || (align & (align - 1)) != 0)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_address_reserve(size, align, addr, &at);
        if (r == CUDA_SUCCESS)
                *ptr = at;
        return r;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
        CUresult r = dcu_enter_process();

        return r == CUDA_SUCCESS ? dcu_address_free(ptr, size) : r;
}

/* --- memory --- */

struct dcu_physical *dcu_physical_new(uint64_t id, uint64_t bytes, const CUmemAllocationProp *prop)
{
        struct dcu_physical *physical;

        pthread_mutex_lock(&dcu.lock);
        physical = dcu_object_new(DCU_PHYSICAL, sizeof(*physical), NULL);
        if (physical) {
                physical->id = id;
                physical->bytes = bytes;
                physical->refs = 1;
                physical->prop = *prop;
                pthread_mutex_lock(&lock);
                physical->next = all;
                if (all)
                        all->prev = physical;
                all = physical;
                pthread_mutex_unlock(&lock);
        }
        pthread_mutex_unlock(&dcu.lock);
        return physical;
}

/* Returns the physical memory of a handle that the program may still use; else NULL. */
static struct dcu_physical *physical_of(CUmemGenericAllocationHandle handle)
{
        struct dcu_physical *physical = dcu_object_of((void *)(uintptr_t)handle, DCU_PHYSICAL);

        return physical && physical->refs ? physical : NULL;
}

/* Moves the object from the list of all to the list of those to free, if no handle and no mapping needs it. With the
 * lock held. */
static void let_go(struct dcu_physical *physical)
{
        if (physical->refs || physical->n_mapped)
                return;
        if (physical->prev)
                physical->prev->next = physical->next;
        else
                all = physical->next;
        if (physical->next)
                physical->next->prev = physical->prev;
        physical->next = dead;
        dead = physical;
}

/* Frees the objects of the list `dead`. No lock is held meanwhile: freeing an object needs dcu.lock, which no thread
 * may hold while it waits for work. */
static CUresult bury(void)
{
        struct dcu_physical *physical;
        CUresult r = CUDA_SUCCESS, one;
        uint64_t id = 0;

        do {
                pthread_mutex_lock(&dcu.lock);
                pthread_mutex_lock(&lock);
                physical = dead;
                if (physical) {
                        dead = physical->next;
                        id = physical->id;
                        dcu_object_free(&physical->head);
                }
                pthread_mutex_unlock(&lock);
                pthread_mutex_unlock(&dcu.lock);
                one = physical ? dcu_result(dsc_mem_release(dcu.session, id)) : CUDA_SUCCESS;
                r = r == CUDA_SUCCESS ? one : r;
        } while (physical);
        return r;
}

CUresult cuMemCreate(
        CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
        struct dcu_physical *physical;
        uint64_t id;
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS && (!handle || size == 0 || !aligned(size) || flags != 0))
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = check_prop(prop);
        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_mem_create(dcu.session, size, &id));
        if (r != CUDA_SUCCESS)
                return r;
        physical = dcu_physical_new(id, size, prop);
        if (!physical) {
                (void)dsc_mem_release(dcu.session, id);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        physical->prop.allocFlags.compressionType = 0;
        *handle = (uintptr_t)dcu_handle(physical);
        return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
        struct dcu_physical *physical;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&lock);
        physical = physical_of(handle);
        if (physical) {
                physical->refs--;
                let_go(physical);
        }
        pthread_mutex_unlock(&lock);
        return physical ? bury() : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
        struct dcu_physical *physical;
        struct dcu_range range;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&lock);
        if (handle && dcu_range_find((uintptr_t)addr, &range) && range.kind == DCU_RANGE_MAPPED) {
                physical = range.detail;
                physical->refs++;
                *handle = (uintptr_t)dcu_handle(physical);
        } else {
                r = CUDA_ERROR_INVALID_VALUE;
        }
        pthread_mutex_unlock(&lock);
        return r;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
        const struct dcu_physical *physical;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        physical = physical_of(handle);
        if (!prop || !physical)
                return CUDA_ERROR_INVALID_VALUE;
        *prop = physical->prop;
        return CUDA_SUCCESS;
}

/* --- mappings --- */

CUresult cuMemMap(
        CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
        struct dcu_range range = {.base = ptr, .size = size, .kind = DCU_RANGE_MAPPED, .sync_memops = 1};
        struct dcu_physical *physical;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (size == 0 || !aligned(size) || !aligned(ptr) || offset != 0 || flags != 0 ||
                !dcu_address_is_reserved(ptr, size))
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&lock);
        physical = physical_of(handle);
        range.detail = physical;
        if (physical && size > physical->bytes)
                r = CUDA_ERROR_NOT_SUPPORTED; /* NVIDIA's driver returns this, not an invalid value */
        else
                r = physical ? dcu_range_add(&range) : CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                physical->n_mapped++;
        pthread_mutex_unlock(&lock);
        return r;
}

typedef CUresult (*each_fn)(const struct dcu_range *range, unsigned int flags);

/* *ret: mapping at the address. 0: there is none; *ret then has a size that is certainly unmapped. */
static int mapping_at(uint64_t at, struct dcu_range *ret)
{
        if (dcu_range_find(at, ret) && ret->kind == DCU_RANGE_MAPPED)
                return 1;
        *ret = (struct dcu_range){.base = at, .size = GRANULARITY};
        return 0;
}

/* Checks that [ptr, ptr + size) begins with a mapping and ends with a mapping. holes: 1 allows reserved addresses
 * without a mapping in between. */
static CUresult check_mapped(CUdeviceptr ptr, size_t size, int holes)
{
        uint64_t at = ptr, end = ptr + size;
        struct dcu_range range;

        if (size == 0 || end < ptr || !aligned(ptr) || !aligned(size))
                return CUDA_ERROR_INVALID_VALUE;
        for (; at < end; at = range.base + range.size) {
                if (!mapping_at(at, &range) && !(holes && dcu_address_is_reserved(at, range.size)))
                        return CUDA_ERROR_INVALID_VALUE;
                if (range.base != at)
                        return CUDA_ERROR_INVALID_VALUE;
        }
        return at == end ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult each(CUdeviceptr ptr, size_t size, each_fn fn, unsigned int flags)
{
        uint64_t at = ptr, end = ptr + size;
        struct dcu_range range;
        CUresult r = CUDA_SUCCESS;

        for (; r == CUDA_SUCCESS && at < end; at = range.base + range.size)
                if (mapping_at(at, &range))
                        r = fn(&range, flags);
        return r;
}

/* Maps memory in the daemon when the program gives it access, and unmaps it when the program takes access away. */
static CUresult set_access(const struct dcu_range *range, unsigned int flags)
{
        const struct dcu_physical *physical = range->detail;
        CUresult r = CUDA_SUCCESS;

        if (flags && !range->flags)
                r = dcu_result(dsc_mem_map(dcu.session, physical->id, range->base, range->size));
        else if (!flags && range->flags)
                r = dcu_result(dsc_mem_unmap(dcu.session, range->base));
        if (r == CUDA_SUCCESS)
                (void)dcu_range_set_flags(range->base, DCU_RANGE_MAPPED, flags);
        return r;
}

static CUresult unmap(const struct dcu_range *range, unsigned int flags)
{
        struct dcu_physical *physical = range->detail;
        struct dcu_range gone;
        CUresult r = set_access(range, 0);

        if (r != CUDA_SUCCESS)
                return r;
        (void)dcu_range_remove(range->base, 1u << DCU_RANGE_MAPPED, &gone);
        physical->n_mapped--;
        let_go(physical);
        return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&lock);
        r = check_mapped(ptr, size, 1); /* unmapping 0 bytes succeeds, as in NVIDIA's driver */
        if (r == CUDA_SUCCESS)
                r = each(ptr, size, unmap, 0);
        pthread_mutex_unlock(&lock);
        return r == CUDA_SUCCESS ? bury() : r;
}

static CUresult check_access(const CUmemAccessDesc *desc, size_t count, unsigned int *ret_flags)
{
        CUresult r = desc && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

        for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
                r = check_location(&desc[i].location);
                if (r == CUDA_SUCCESS && desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
                        desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
                        desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
                        r = CUDA_ERROR_INVALID_VALUE;
                *ret_flags = (unsigned int)desc[i].flags;
        }
        return r;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
        unsigned int flags = 0;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        r = check_access(desc, count, &flags);
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&lock);
        r = check_mapped(ptr, size, 0);
        if (r == CUDA_SUCCESS)
                r = each(ptr, size, set_access, flags);
        pthread_mutex_unlock(&lock);
        return r;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
        struct dcu_range range;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!flags || !location || !dcu_range_find(ptr, &range) || range.kind != DCU_RANGE_MAPPED)
                return CUDA_ERROR_INVALID_VALUE;
        r = check_location(location);
        if (r == CUDA_SUCCESS)
                *flags = range.flags;
        return r;
}

void dcu_vmm_reset(void)
{
        struct dcu_physical *next;

        pthread_mutex_lock(&lock);
        dcu_range_remove_kind(DCU_RANGE_MAPPED);
        for (; all; all = next) {
                next = all->next;
                dcu_object_free(&all->head);
        }
        for (; dead; dead = next) {
                next = dead->next;
                dcu_object_free(&dead->head);
        }
        pthread_mutex_unlock(&lock);
        dcu_address_reset();
}

/* --- sharing with other processes --- */

/* Makes a file that contains the token: a process that gets the file may import the memory. Returns its descriptor. */
static int token_file(const uint8_t token[DSC_TOKEN_BYTES])
{
        int fd = memfd_create("detshare-memory", MFD_CLOEXEC);

        if (fd >= 0 && write(fd, token, DSC_TOKEN_BYTES) != DSC_TOKEN_BYTES) {
                close(fd);
                return -1;
        }
        return fd;
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
        CUmemAllocationHandleType handleType, unsigned long long flags)
{
        const struct dcu_physical *physical;
        uint8_t token[DSC_TOKEN_BYTES];
        int fd;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        physical = physical_of(handle);
        if (!shareableHandle || !physical || flags != 0 || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
                !(physical->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_memory_share();
        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_mem_export(dcu.session, 0, physical->id, token));
        if (r != CUDA_SUCCESS)
                return r;
        fd = token_file(token);
        if (fd < 0)
                return CUDA_ERROR_OPERATING_SYSTEM;
        memcpy(shareableHandle, &fd, sizeof(fd));
        return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(
        CUmemGenericAllocationHandle *handle, void *osHandle, CUmemAllocationHandleType shHandleType)
{
        static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
        struct dsc_imported imported;
        struct dcu_physical *physical;
        uint8_t token[DSC_TOKEN_BYTES];
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
                pread((int)(intptr_t)osHandle, token, sizeof(token), 0) != (ssize_t)sizeof(token))
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_memory_share();
        if (r == CUDA_SUCCESS)
                r = dcu_result(dsc_mem_import(dcu.session, token, &imported));
        if (r != CUDA_SUCCESS)
                return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
        physical = dcu_physical_new(imported.handle, imported.bytes, &prop);
        if (!physical) {
                (void)dsc_mem_release(dcu.session, imported.handle);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *handle = (uintptr_t)dcu_handle(physical);
        return CUDA_SUCCESS;
}
