/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver: reservations, VMM memory, registered host memory
 *
 * Device memory is the sim's slab files, so an exported descriptor keeps the bytes alive and another process can import
 * it, as on a GPU. An inaccessible mapping holds the addresses of a reservation; the slab replaces it while it is
 * accessible. The sim unmaps a slab when the last job that could see it is done. Until then its addresses are a hole in
 * the reservation, and mapping there again waits.
 *
 * A GPU hands out memory with the data of its last owner. To imitate this, some pages of each new slab get a pattern,
 * so that tests detect a missing clear.
 *
 * Registered host memory must become accessible to kernels. The sim only knows memory that it mapped itself and
 * variables of modules, so each registration is a variable of its own empty module.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/fake_cuda/fake.h"

#define GRANULARITY DS_MIB(2)
#define PATTERN_EVERY DS_MIB(1)
#define EMPTY_MODULE ".version 7.0\n.target sm_60\n.address_size 64\n"

/* --- ranges --- */

static struct fake_range *range_add(struct fake_range **list, uint64_t va, uint64_t size)
{
        struct fake_range *range = ds_alloc0(1, sizeof(*range));

        if (range) {
                range->va = va;
                range->size = size;
                DL_APPEND(*list, range);
        }
        return range;
}

static void range_drop(struct fake_range **list, struct fake_range *range)
{
        DL_DELETE(*list, range);
        ds_free(range);
}

static struct fake_range *range_over(struct fake_range *list, uint64_t va, uint64_t size)
{
        struct fake_range *range;

        DL_FOREACH(list, range)
        {
                if (va < range->va + range->size && range->va < va + size)
                        return range;
        }
        return NULL;
}

static struct fake_range *range_around(struct fake_range *list, uint64_t va, uint64_t size)
{
        struct fake_range *range = range_over(list, va, size);

        return range && range->va <= va && va + size <= range->va + range->size ? range : NULL;
}

bool fake_covers(uint64_t va, uint64_t size)
{
        return sim_space_covers(sim_space_find(fake.device, FAKE_SPACE), va, size);
}

bool fake_is_device(uint64_t va)
{
        return !range_over(fake.registered, va, 1);
}

/* --- reservations --- */

/* Maps inaccessible memory at the address by a direct system call: a sanitizer's interceptor would record each page
 * of terabytes. */
static int hold(uint64_t va, uint64_t size)
{
        long r = syscall(SYS_mmap, va, size, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0L);

        if (r < 0 || (uint64_t)r == va)
                return r < 0 ? -errno : 0;
        syscall(SYS_munmap, r, size);
        return -EEXIST;
}

static void let_go(uint64_t va, uint64_t size)
{
        syscall(SYS_munmap, va, size);
}

FAKE_API cuMemAddressReserve(
        CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags)
{
        long anywhere;

        FAKE_ENTER(cuMemAddressReserve, CONTEXT);
        if (!size || size % GRANULARITY || hint % GRANULARITY || flags)
                return CUDA_ERROR_INVALID_VALUE;
        /* the address is only a hint, as in CUDA: the caller checks the returned address */
        if (!hint || hold(hint, size)) {
                anywhere = syscall(SYS_mmap, 0, size + GRANULARITY, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0L);
                if (anywhere < 0)
                        return CUDA_ERROR_OUT_OF_MEMORY;
                hint = DS_ALIGN_UP((uint64_t)anywhere, GRANULARITY);
                let_go((uint64_t)anywhere, size + GRANULARITY);
                if (hold(hint, size))
                        return CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (!range_add(&fake.reserved, hint, size)) {
                let_go(hint, size);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *ptr = hint;
        return CUDA_SUCCESS;
}

FAKE_API cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
        struct fake_range *range, *hole;

        FAKE_ENTER(cuMemAddressFree, CONTEXT);
        range = range_around(fake.reserved, ptr, size);
        if (!range || range->va != ptr || range->size != size || range_over(fake.mapped, ptr, size))
                return CUDA_ERROR_INVALID_VALUE;
        if (range_over(fake.holes, ptr, size))
                fake_wait(NULL);
        while ((hole = range_over(fake.holes, ptr, size)))
                range_drop(&fake.holes, hole);
        let_go(ptr, size);
        range_drop(&fake.reserved, range);
        return CUDA_SUCCESS;
}

/* --- memory --- */

static struct fake_handle *handle_new(int fd, uint64_t size, bool exportable)
{
        struct fake_handle *handle = ds_alloc0(1, sizeof(*handle));

        if (!handle)
                return NULL;
        *handle = (struct fake_handle){.fd = fd, .size = size, .refs = 1, .exportable = exportable};
        DL_APPEND(fake.handles, handle);
        return handle;
}

static void handle_put(struct fake_handle *handle)
{
        if (--handle->refs)
                return;
        DL_DELETE(fake.handles, handle);
        ds_close(handle->fd);
        ds_free(handle);
}

static struct fake_handle *handle_of(CUmemGenericAllocationHandle number)
{
        struct fake_handle *handle;

        DL_FOREACH(fake.handles, handle)
        {
                if ((uintptr_t)handle == number && !handle->released)
                        return handle;
        }
        return NULL;
}

static void pattern_write(int fd, uint64_t size)
{
        uint8_t page[4096];

        memset(page, 0xa5, sizeof(page));
        for (uint64_t at = 0; at < size; at += PATTERN_EVERY)
                if (pwrite(fd, page, sizeof(page), (off_t)at) != (ssize_t)sizeof(page))
                        return;
}

FAKE_API cuMemGetAllocationGranularity(
        size_t *granularity, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
        FAKE_ENTER(cuMemGetAllocationGranularity, CONTEXT);
        *granularity = GRANULARITY;
        return CUDA_SUCCESS;
}

FAKE_API cuMemCreate(
        CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)
{
        struct fake_handle *made;
        int fd = -1, r;

        FAKE_ENTER(cuMemCreate, CONTEXT);
        if (!size || size % GRANULARITY || flags || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
                prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->location.id)
                return CUDA_ERROR_INVALID_VALUE;
        r = fake_sim->mem_create(fake.device, size, &fd);
        if (r)
                return fake_result(r);
        pattern_write(fd, size);
        made = handle_new(fd, size, prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        if (!made) {
                ds_close(fd);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *handle = (uintptr_t)made;
        return CUDA_SUCCESS;
}

FAKE_API cuMemRelease(CUmemGenericAllocationHandle number)
{
        struct fake_handle *handle;

        FAKE_ENTER(cuMemRelease, CONTEXT);
        handle = handle_of(number);
        if (!handle)
                return CUDA_ERROR_INVALID_VALUE;
        handle->released = true;
        handle_put(handle);
        return CUDA_SUCCESS;
}

FAKE_API cuMemExportToShareableHandle(
        void *ret, CUmemGenericAllocationHandle number, CUmemAllocationHandleType type, unsigned long long flags)
{
        struct fake_handle *handle;
        int fd;

        FAKE_ENTER(cuMemExportToShareableHandle, CONTEXT);
        handle = handle_of(number);
        if (!handle || !handle->exportable || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags)
                return CUDA_ERROR_INVALID_VALUE;
        fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
                return CUDA_ERROR_OPERATING_SYSTEM;
        *(int *)ret = fd;
        return CUDA_SUCCESS;
}

FAKE_API cuMemImportFromShareableHandle(
        CUmemGenericAllocationHandle *handle, void *os_handle, CUmemAllocationHandleType type)
{
        struct fake_handle *made;
        struct stat st;
        int fd;

        FAKE_ENTER(cuMemImportFromShareableHandle, CONTEXT);
        if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat((int)(intptr_t)os_handle, &st) < 0 ||
                st.st_size <= 0 || (uint64_t)st.st_size % GRANULARITY)
                return CUDA_ERROR_INVALID_VALUE;
        fd = fcntl((int)(intptr_t)os_handle, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
                return CUDA_ERROR_OPERATING_SYSTEM;
        made = handle_new(fd, (uint64_t)st.st_size, true);
        if (!made) {
                ds_close(fd);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *handle = (uintptr_t)made;
        return CUDA_SUCCESS;
}

FAKE_API cuMemGetInfo(size_t *free_bytes, size_t *total)
{
        uint64_t used, size;

        FAKE_ENTER(cuMemGetInfo, CONTEXT);
        size = fake_memory();
        used = fake.device->charged + FAKE_CONTEXT_BYTES + fake.n_greens * FAKE_GREEN_BYTES;
        *total = size;
        *free_bytes = size - DS_MIN(size, used);
        return CUDA_SUCCESS;
}

/* --- mapping --- */

FAKE_API cuMemMap(
        CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle number, unsigned long long flags)
{
        struct fake_handle *handle;
        struct fake_range *range;

        FAKE_ENTER(cuMemMap, CONTEXT);
        handle = handle_of(number);
        if (!handle || !size || size % GRANULARITY || ptr % GRANULARITY || offset || size > handle->size || flags)
                return CUDA_ERROR_INVALID_VALUE;
        if (!range_around(fake.reserved, ptr, size) || range_over(fake.mapped, ptr, size))
                return CUDA_ERROR_INVALID_VALUE;
        range = range_add(&fake.mapped, ptr, size);
        if (!range)
                return CUDA_ERROR_OUT_OF_MEMORY;
        range->handle = handle;
        handle->refs++;
        return CUDA_SUCCESS;
}

/* Replaces the mapping that holds the addresses by the slab. */
static CUresult range_access(struct fake_range *range)
{
        struct fake_range *hole;
        int r;

        if (range->accessible)
                return CUDA_SUCCESS;
        if (range_over(fake.holes, range->va, range->size))
                fake_wait(NULL);
        while ((hole = range_over(fake.holes, range->va, range->size)))
                range_drop(&fake.holes, hole);
        let_go(range->va, range->size);
        r = fake_sim->mem_map(fake.device, FAKE_SPACE, range->handle->fd, range->va, range->size);
        if (r) {
                hold(range->va, range->size);
                return fake_result(r);
        }
        range->accessible = true;
        return CUDA_SUCCESS;
}

/* Memory of this call is never freed, since only callers with a short-lived context allocate this way. */
FAKE_API cuMemAlloc(CUdeviceptr *ptr, size_t size)
{
        const CUmemAllocationProp prop = {
                .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
        const CUmemAccessDesc access = {
                .location.type = CU_MEM_LOCATION_TYPE_DEVICE, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        const size_t whole = DS_ALIGN_UP(size, GRANULARITY);
        CUmemGenericAllocationHandle handle;
        CUresult r = cuMemAddressReserve(ptr, whole, 0, 0, 0);

        if (!r)
                r = cuMemCreate(&handle, whole, &prop, 0);
        if (!r)
                r = cuMemMap(*ptr, whole, 0, handle, 0);
        return r ? r : cuMemSetAccess(*ptr, whole, &access, 1);
}

FAKE_API cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
        struct fake_range *range;
        CUresult r;

        FAKE_ENTER(cuMemSetAccess, CONTEXT);
        if (count != 1 || desc->location.type != CU_MEM_LOCATION_TYPE_DEVICE || desc->location.id ||
                desc->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE || !range_over(fake.mapped, ptr, size))
                return CUDA_ERROR_INVALID_VALUE;
        DL_FOREACH(fake.mapped, range)
        {
                if (range->va < ptr || range->va + range->size > ptr + size)
                        continue;
                r = range_access(range);
                if (r)
                        return r;
        }
        return CUDA_SUCCESS;
}

static void range_unmap(struct fake_range *range)
{
        if (range->accessible) {
                fake_sim->mem_unmap(fake.device, FAKE_SPACE, range->va, range->size);
                if (hold(range->va, range->size))
                        range_add(&fake.holes, range->va, range->size);
        }
        handle_put(range->handle);
        range_drop(&fake.mapped, range);
}

FAKE_API cuMemUnmap(CUdeviceptr ptr, size_t size)
{
        struct fake_range *range, *next;
        bool any = false;

        FAKE_ENTER(cuMemUnmap, CONTEXT);
        fake_pump();
        DL_FOREACH(fake.mapped, range)
        {
                if (range->va >= ptr + size || range->va + range->size <= ptr)
                        continue;
                if (range->va < ptr || range->va + range->size > ptr + size)
                        return CUDA_ERROR_INVALID_VALUE;
                any = true;
        }
        if (!any)
                return CUDA_ERROR_INVALID_VALUE;
        DL_FOREACH_SAFE(fake.mapped, range, next)
        {
                if (range->va >= ptr && range->va + range->size <= ptr + size)
                        range_unmap(range);
        }
        return CUDA_SUCCESS;
}

/* --- host memory --- */

FAKE_API cuMemHostRegister(void *p, size_t size, unsigned int flags)
{
        uint64_t va = (uintptr_t)p, page = (uint64_t)sysconf(_SC_PAGESIZE);
        ds_device_module *module;
        struct fake_range *range;
        unsigned char there;
        CUresult r;

        FAKE_ENTER(cuMemHostRegister, STOPS);
        if (!p || !size || mincore((void *)(uintptr_t)(va & ~(page - 1)), 1, &there) < 0)
                return CUDA_ERROR_INVALID_VALUE;
        if (range_over(fake.registered, va, size))
                return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
        r = fake_result(
                fake_sim->module_load(fake.device, FAKE_SPACE, EMPTY_MODULE, sizeof(EMPTY_MODULE), NULL, 0, &module));
        if (r)
                return r;
        range = range_add(&fake.registered, va, size);
        if (!range || sim_space_add_global(sim_space_find(fake.device, FAKE_SPACE), module, va, size)) {
                fake_sim->module_unload(fake.device, module);
                if (range)
                        range_drop(&fake.registered, range);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        range->registrar = module;
        return CUDA_SUCCESS;
}

FAKE_API cuMemHostUnregister(void *p)
{
        struct fake_range *range;

        FAKE_ENTER(cuMemHostUnregister, STOPS);
        range = range_over(fake.registered, (uintptr_t)p, 1);
        if (!range || range->va != (uintptr_t)p)
                return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
        fake_sim->module_unload(fake.device, range->registrar);
        range_drop(&fake.registered, range);
        return CUDA_SUCCESS;
}

FAKE_API cuMemHostGetDevicePointer(CUdeviceptr *ptr, void *p, unsigned int flags)
{
        FAKE_ENTER(cuMemHostGetDevicePointer, CONTEXT);
        if (flags || !range_over(fake.registered, (uintptr_t)p, 1))
                return CUDA_ERROR_INVALID_VALUE;
        *ptr = (uintptr_t)p;
        return CUDA_SUCCESS;
}

/* --- end of the context ----------- */

void fake_memory_reset(void)
{
        struct fake_range *range, *next;

        DL_FOREACH_SAFE(fake.mapped, range, next)
        {
                handle_put(range->handle);
                range_drop(&fake.mapped, range);
        }
        DL_FOREACH_SAFE(fake.registered, range, next)
        {
                range_drop(&fake.registered, range);
        }
        DL_FOREACH_SAFE(fake.holes, range, next)
        {
                range_drop(&fake.holes, range);
        }
        DL_FOREACH_SAFE(fake.reserved, range, next)
        {
                let_go(range->va, range->size);
                range_drop(&fake.reserved, range);
        }
}
