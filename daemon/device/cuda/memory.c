/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: slabs, pinned host memory, and the mappings of each space
 *
 * A slab is made by cuMemCreate and lives by its exported file descriptor; no handle is kept. Making one costs this
 * thread most of a millisecond, so some unmapped slabs of the usual size are kept for reuse (`pool`), until memory is
 * short. So an owner that unmaps a slab made here gives it up: it must have reported to all others that the slab is
 * gone before the next mem_create (the worker tells the supervisor so, in order).
 *
 * A new slab contains another session's data and must be cleared. The mark for that is on the slab's open file itself,
 * as the signal number of F_SETSIG: the kernel keeps it per open file, it goes with the file wherever it is passed, and
 * it does nothing without O_ASYNC. So no list of such slabs can leak. A slab that an earlier worker had in use is never
 * taken for a new one: the mark is removed when the clearing is submitted, and until mem_cleared the owner gives the
 * file to nobody. A slab whose clearing could not be submitted keeps the mark. (NVIDIA's files all have one inode, so
 * their identity says nothing.)
 *
 * Clearing runs on own_stream at low priority in pieces, so that memory for one session does not delay others for long.
 * Only later work of the space that mapped the slab waits for it, on the GPU, by an event that is already recorded.
 *
 * The driver unmaps at once, and work that still uses the memory would end the context. So an unmapping waits (`going`)
 * until all work that its space had submitted before has completed and its clearing has ended; until then its addresses
 * stay taken. Later work does not delay it: a session that is never idle frees memory too. Unregistering host memory
 * stops the context: the memory of a removed space waits for the next quiesce.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "device/cuda/internal.h"
#include "util/error.h"

#define VA_END (UINT64_C(1) << 47)
#define CLEAR_PIECE DS_MIB(256) /* bytes cleared by one operation, some 100 us on an H200 */
#define SLAB_DIRTY SIGUSR2
#define POOL_SLAB DS_MIB(64) /* size of the slabs kept for reuse: the worker's slab size for smaller requests */

/* --- clearing --------------------------------------------------------------------------------------------------- */

static CUevent clear_event(const ds_device *device, uint64_t seq)
{
        return device->clear_events[seq % CUDA_CLEAR_EVENTS];
}

static bool clear_ended(ds_device *device, uint64_t seq)
{
        CUresult result;

        if (seq <= device->clear_done)
                return true;
        if (device->lost)
                return false;
        result = CU(device, cuEventQuery)(clear_event(device, seq));
        if (result == CUDA_ERROR_NOT_READY)
                return false;
        if (result) {
                ds_cuda_failed(device, result, "querying the end of a clearing");
                return false;
        }
        device->clear_done = seq;
        return true;
}

static CUresult clear_pieces(ds_device *device, uint64_t va, uint64_t size)
{
        CUresult result = CUDA_SUCCESS;

        for (uint64_t at = 0; at < size && !result; at += CLEAR_PIECE)
                result = CU(device, cuMemsetD8Async)(va + at, 0, DS_MIN(size - at, CLEAR_PIECE), device->own_stream);
        return result;
}

static int clear_submit(ds_device *device, uint64_t va, uint64_t size)
{
        CUresult result = clear_pieces(device, va, size);

        if (!result)
                result = CU(device, cuEventRecord)(clear_event(device, device->clear_seq + 1), device->own_stream);
        if (result) {
                /* earlier pieces of the clearing may still run in memory that is about to be unmapped */
                CU(device, cuStreamSynchronize)(device->own_stream);
                return ds_cuda_failed(device, result, "clearing a slab");
        }
        device->clear_seq++;
        return 0;
}

int cuda_memory_order(ds_device *device, struct cuda_stream *stream, const struct cuda_space *space)
{
        CUresult result;

        if (space->clear_seq <= stream->clear_seen)
                return 0;
        if (space->clear_seq > device->clear_done) {
                cuda_launcher_settle(device, stream);
                result = CU(device, cuStreamWaitEvent)(stream->stream, clear_event(device, space->clear_seq), 0);
                if (result)
                        return ds_cuda_failed(device, result, "waiting for a clearing");
        }
        stream->clear_seen = space->clear_seq;
        return 0;
}

int cuda_memory_init(ds_device *device)
{
        CUresult result;

        for (size_t i = 0; i < CUDA_CLEAR_EVENTS; i++) {
                result = CU(device, cuEventCreate)(&device->clear_events[i], CU_EVENT_DISABLE_TIMING);
                if (result)
                        return ds_cuda_failed(device, result, "cuEventCreate");
        }
        return 0;
}

/* --- the pool --------------------------------------------------------------------------------------------------- */

static void pool_put(ds_device *device, int fd)
{
        if (device->n_pool < CUDA_POOL_MAX)
                device->pool[device->n_pool++] = fd;
        else
                ds_close(fd);
}

size_t cuda_memory_pool_drop(ds_device *device)
{
        size_t n = device->n_pool;

        while (device->n_pool)
                ds_close(device->pool[--device->n_pool]);
        return n;
}

/* --- unmapping -------------------------------------------------------------------------------------------------- */

/* Frees a mapping that no work uses any more. */
static void mapping_release(ds_device *device, struct cuda_mapping *mapping)
{
        CUresult result = CUDA_SUCCESS;

        if (mapping->host) {
                if (cuda_usable(device))
                        result = CU(device, cuMemHostUnregister)((void *)(uintptr_t)mapping->va);
                /* frees the addresses in both cases: the driver has unregistered the pages, or it keeps the pages
                 * itself */
                cuda_va_host_unmap(mapping->va, mapping->size, mapping->own);
        } else if (cuda_usable(device)) {
                result = CU(device, cuMemUnmap)(mapping->va, mapping->size);
                if (!result) {
                        cuda_va_release(device, mapping->va, mapping->size, mapping->own);
                        if (mapping->fd >= 0)
                                pool_put(device, DS_TAKE_FD(mapping->fd));
                }
        }
        if (result)
                ds_cuda_failed(device, result, mapping->host ? "cuMemHostUnregister" : "cuMemUnmap");
        ds_close(mapping->fd);
        ds_free(mapping);
}

static bool mapping_idle(ds_device *device, const struct cuda_mapping *mapping)
{
        const struct cuda_job *oldest = mapping->space ? mapping->space->jobs : NULL;

        return (!oldest || oldest->space_number > mapping->last_use) && clear_ended(device, mapping->clear_seq);
}

void cuda_memory_sweep(ds_device *device)
{
        struct cuda_mapping *mapping, *next;

        if (!device->going || device->lost)
                return;
        DL_FOREACH_SAFE(device->going, mapping, next)
        {
                if (mapping->host || !mapping_idle(device, mapping))
                        continue;
                DL_DELETE(device->going, mapping);
                mapping_release(device, mapping);
        }
}

size_t cuda_memory_put_off(ds_device *device)
{
        struct cuda_mapping *mapping;
        size_t n = 0;

        DL_FOREACH(device->going, mapping)
        {
                n += mapping->host != 0;
        }
        return n;
}

static void memory_release_hosts(ds_device *device, size_t most)
{
        struct cuda_mapping *mapping, *next;

        DL_FOREACH_SAFE(device->going, mapping, next)
        {
                if (!mapping->host)
                        continue;
                if (!most--)
                        return;
                DL_DELETE(device->going, mapping);
                mapping_release(device, mapping);
        }
}

/* Unregisters only one mapping per call, since a mapping may be large. */
void cuda_memory_put_off_do(ds_device *device)
{
        memory_release_hosts(device, 1);
}

/* --- spaces ----------------------------------------------------------------------------------------------------- */

struct cuda_space *cuda_space_find(ds_device *device, uint32_t id)
{
        struct cuda_space *space = NULL;

        HASH_FIND(hh, device->spaces, &id, sizeof(id), space);
        return space;
}

int cuda_space_add(ds_device *device, uint32_t id)
{
        struct cuda_space *space;

        if (cuda_space_find(device, id))
                return -EEXIST;
        space = ds_alloc0(1, sizeof(*space));
        if (!space)
                return ds_error_origin(-ENOMEM);
        space->id = id;
        HASH_ADD(hh, device->spaces, id, sizeof(space->id), space);
        if (!cuda_space_find(device, id)) { /* the space is not in the hash table: uthash could not allocate memory */
                ds_free(space);
                return ds_error_origin(-ENOMEM);
        }
        return 0;
}

static void space_free(ds_device *device, struct cuda_space *space)
{
        struct cuda_mapping *mapping, *next;

        DL_FOREACH(device->going, mapping)
        {
                if (mapping->space == space)
                        mapping->space = NULL;
        }
        DL_FOREACH_SAFE(space->mappings, mapping, next)
        {
                DL_DELETE(space->mappings, mapping);
                DL_APPEND(device->going, mapping);
        }
        HASH_DEL(device->spaces, space);
        ds_free(space);
}

int cuda_space_remove(ds_device *device, uint32_t id)
{
        struct cuda_space *space = cuda_space_find(device, id);

        if (!space)
                return -ENOENT;
        if (space->jobs)
                return ds_error_origin(-EBUSY);
        cuda_forms_drop(device, id);
        space_free(device, space);
        cuda_memory_sweep(device);
        return 0;
}

void cuda_spaces_free(ds_device *device)
{
        struct cuda_mapping *mapping, *nextmapping;
        struct cuda_space *space, *next;

        /* waits for clearing only: it is short, and no other work runs that could delay it */
        if (cuda_usable(device) && device->clear_seq > device->clear_done)
                CU(device, cuStreamSynchronize)(device->own_stream);
        for (size_t i = 0; cuda_usable(device) && i < CUDA_CLEAR_EVENTS; i++)
                if (device->clear_events[i])
                        CU(device, cuEventDestroy)(device->clear_events[i]);
        HASH_ITER(hh, device->spaces, space, next)
        {
                space_free(device, space);
        }
        DL_FOREACH_SAFE(device->going, mapping, nextmapping)
        {
                DL_DELETE(device->going, mapping);
                mapping_release(device, mapping);
        }
        cuda_memory_pool_drop(device);
        cuda_va_free(device);
}

/* --- slabs ------------------------------------------------------------------------------------------------------ */

CUmemAllocationProp cuda_slab_prop(const ds_device *device)
{
        return (CUmemAllocationProp){
                .type = CU_MEM_ALLOCATION_TYPE_PINNED,
                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal},
        };
}

static int slab_make(ds_device *device, uint64_t size, int *ret_fd)
{
        const CUmemAllocationProp prop = cuda_slab_prop(device);
        CUmemGenericAllocationHandle handle;
        CUresult result;
        int fd = -1;

        result = CU(device, cuMemCreate)(&handle, size, &prop, 0);
        if (result)
                return ds_cuda_failed(device, result, "cuMemCreate");
        result = CU(device, cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        CU(device, cuMemRelease)(handle);
        if (result)
                return ds_cuda_failed(device, result, "cuMemExportToShareableHandle");
        *ret_fd = fd;
        return 0;
}

int cuda_mem_create(ds_device *device, uint64_t size, int *ret_fd)
{
        ds_cleanup(ds_closep) int fd = -1;
        int r = 0;

        if (!size || size % device->info.slab_granularity)
                return ds_error_origin(-EINVAL);
        if (size > device->info.memory_bytes)
                return DS_CUDA_OUT_OF_MEMORY;
        cuda_memory_sweep(device);
        if (size == POOL_SLAB && device->n_pool) {
                fd = device->pool[--device->n_pool];
        } else {
                r = slab_make(device, size, &fd);
                if (r == DS_CUDA_OUT_OF_MEMORY && cuda_memory_pool_drop(device))
                        r = slab_make(device, size, &fd);
        }
        if (r)
                return ds_error_trace(r);
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETSIG, SLAB_DIRTY) < 0)
                return ds_error_origin(-errno);
        *ret_fd = DS_TAKE_FD(fd);
        return 0;
}

static int range_check(uint64_t va, uint64_t size, uint64_t granularity)
{
        if (!size || size % granularity || !va || va % granularity || va >= VA_END || size > VA_END - va)
                return ds_error_origin(-EINVAL);
        return 0;
}

/* Maps the slab at addresses that are reserved already. */
static int slab_place(ds_device *device, int fd, uint64_t va, uint64_t size)
{
        const CUmemAccessDesc access = {
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal},
                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        CUmemGenericAllocationHandle handle;
        CUresult result;

        result = CU(device, cuMemImportFromShareableHandle)(
                &handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
        if (result)
                return ds_cuda_failed(device, result, "cuMemImportFromShareableHandle");
        result = CU(device, cuMemMap)(va, size, 0, handle, 0);
        if (!result) {
                device->n_stirs++;
                result = CU(device, cuMemSetAccess)(va, size, &access, 1);
                if (result)
                        CU(device, cuMemUnmap)(va, size);
        }
        CU(device, cuMemRelease)(handle);
        if (result == CUDA_ERROR_INVALID_VALUE) /* the slab is smaller than the requested size */
                return ds_error_origin(-EINVAL);
        return result ? ds_cuda_failed(device, result, "mapping a slab") : 0;
}

/* Clears the mapped slab if it must be, and keeps a descriptor for its reuse. */
static int slab_clean(ds_device *device, int fd, const struct cuda_mapping *mapping, int *ret_fd)
{
        int r;

        if (fcntl(fd, F_GETSIG) != SLAB_DIRTY)
                return 0;
        r = clear_submit(device, mapping->va, mapping->size);
        if (r)
                return r;
        if (fcntl(fd, F_SETSIG, 0) < 0) /* the slab keeps its mark, so it may be cleared a second time */
                ds_log(DS_LOG_WARNING, "a slab keeps its mark for clearing: %s", strerror(errno));
        if (mapping->size == POOL_SLAB)
                *ret_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* if this fails, the slab is not kept for reuse */
        return 0;
}

static int slab_map(ds_device *device, int fd, struct cuda_mapping *mapping)
{
        int r = cuda_va_claim(device, mapping->va, mapping->size, &mapping->own);

        if (r)
                return r;
        r = slab_place(device, fd, mapping->va, mapping->size);
        if (!r) {
                r = slab_clean(device, fd, mapping, &mapping->fd);
                if (r)
                        CU(device, cuMemUnmap)(mapping->va, mapping->size);
        }
        if (r)
                cuda_va_release(device, mapping->va, mapping->size, mapping->own);
        return r;
}

static bool overlaps(const struct cuda_mapping *list, uint64_t va, uint64_t size)
{
        const struct cuda_mapping *mapping;

        DL_FOREACH(list, mapping)
        {
                if (va < mapping->va + mapping->size && mapping->va < va + size)
                        return true;
        }
        return false;
}

/* Creates the record of a mapping at these addresses. -EEXIST: the device already has one there. */
static int mapping_new(ds_device *device, uint64_t va, uint64_t size, int host, struct cuda_mapping **ret)
{
        struct cuda_space *space, *next;

        HASH_ITER(hh, device->spaces, space, next)
        {
                if (overlaps(space->mappings, va, size))
                        return ds_error_origin(-EEXIST);
        }
        if (overlaps(device->going, va, size))
                /* a mapping whose unmapping is delayed still has the addresses; the caller knows of it, so there is
                 * no log line */
                return -EEXIST;
        *ret = ds_alloc0(1, sizeof(**ret));
        if (!*ret)
                return ds_error_origin(-ENOMEM);
        **ret = (struct cuda_mapping){.va = va, .size = size, .host = host, .fd = -1};
        return 0;
}

int cuda_mem_map(ds_device *device, uint32_t id, int fd, uint64_t va, uint64_t size)
{
        struct cuda_space *space = cuda_space_find(device, id);
        ds_cleanup(ds_freep) struct cuda_mapping *mapping = NULL;
        int r;

        if (!space)
                return ds_error_origin(-ENOENT);
        r = range_check(va, size, device->info.slab_granularity);
        if (r)
                return ds_error_trace(r);
        if (fcntl(fd, F_GETFD) < 0)
                return ds_error_origin(-errno);
        cuda_memory_sweep(device);
        r = mapping_new(device, va, size, 0, &mapping);
        if (r == -EEXIST)
                return r;
        if (!r)
                r = slab_map(device, fd, mapping);
        if (r)
                return ds_error_trace(r);
        /* number of this slab's own clearing, or (for a slab that was mapped before) of the last one, which may
         * still clear the slab */
        mapping->clear_seq = space->clear_seq = device->clear_seq;
        DL_APPEND(space->mappings, mapping);
        mapping = NULL;
        return 0;
}

static struct cuda_mapping *mapping_find(const struct cuda_space *space, uint64_t va, int host)
{
        struct cuda_mapping *mapping;

        DL_FOREACH(space->mappings, mapping)
        {
                if (mapping->va == va && mapping->host == host)
                        return mapping;
        }
        return NULL;
}

static int mapping_take(ds_device *device, uint32_t id, uint64_t va, uint64_t size, int host, struct cuda_mapping **ret)
{
        struct cuda_space *space = cuda_space_find(device, id);
        struct cuda_mapping *mapping = space ? mapping_find(space, va, host) : NULL;

        if (!mapping || mapping->size != size)
                return ds_error_origin(-ENOENT);
        DL_DELETE(space->mappings, mapping);
        mapping->space = space;
        mapping->last_use = space->n_submitted;
        *ret = mapping;
        return 0;
}

int cuda_mem_unmap(ds_device *device, uint32_t id, uint64_t va, uint64_t size)
{
        struct cuda_mapping *mapping;
        int r = mapping_take(device, id, va, size, 0, &mapping);

        if (r)
                return ds_error_trace(r);
        DL_APPEND(device->going, mapping);
        cuda_memory_sweep(device);
        return 0;
}

int cuda_mem_cleared(ds_device *device, uint32_t id, uint64_t va)
{
        struct cuda_space *space = cuda_space_find(device, id);
        struct cuda_mapping *mapping = space ? mapping_find(space, va, 0) : NULL;

        return !mapping || clear_ended(device, mapping->clear_seq);
}

int cuda_mem_keep(ds_device *device, uint32_t id, uint64_t va)
{
        struct cuda_space *space = cuda_space_find(device, id);
        struct cuda_mapping *mapping = space ? mapping_find(space, va, 0) : NULL;

        if (!mapping)
                return ds_error_origin(-ENOENT);
        mapping->fd = ds_close(mapping->fd); /* without its descriptor the slab is not kept for reuse */
        return 0;
}

/* --- pinned host memory ----------------------------------------------------------------------------------------- */

static int host_check(int fd, uint64_t va, uint64_t size)
{
        struct stat st;
        int seals, r = range_check(va, size, (uint64_t)sysconf(_SC_PAGESIZE));

        if (r)
                return ds_error_trace(r);
        if (fstat(fd, &st) < 0)
                return ds_error_origin(-errno);
        if (st.st_size < 0 || (uint64_t)st.st_size < size)
                return ds_error_origin(-EINVAL);
        seals = fcntl(fd, F_GET_SEALS);
        /* only files sealed against shrinking: a process that truncates the file could make this process fault */
        if (seals < 0 || !(seals & F_SEAL_SHRINK))
                return ds_error_origin(-EPERM);
        return 0;
}

static int host_register(ds_device *device, void *host, uint64_t size)
{
        CUdeviceptr got = 0;
        CUresult result;

        result = CU(device, cuMemHostRegister)(host, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        if (result)
                return ds_cuda_failed(device, result, "cuMemHostRegister");
        device->n_stirs++;
        result = CU(device, cuMemHostGetDevicePointer)(&got, host, 0);
        if (!result && got == (uintptr_t)host)
                return 0;
        CU(device, cuMemHostUnregister)(host);
        if (result)
                return ds_cuda_failed(device, result, "cuMemHostGetDevicePointer");
        ds_log(DS_LOG_ERROR, "pinned memory at %p is at %#llx for the GPU: DetShare needs one address for both", host,
                (unsigned long long)got);
        return ds_error_origin(-ENOTSUP);
}

/* mapped: the file's mapping, which moves to va; NULL: none. Consumes the mapping. */
static int host_map(ds_device *device, uint32_t id, int fd, void *mapped, uint64_t va, uint64_t size)
{
        struct cuda_space *space = cuda_space_find(device, id);
        ds_cleanup(ds_freep) struct cuda_mapping *mapping = NULL;
        int r;

        r = space ? host_check(fd, va, size) : ds_error_origin(-ENOENT);
        if (r && mapped)
                munmap(mapped, size);
        if (r)
                return ds_error_trace(r);
        /* unregisters mappings of removed sessions now, since this call stops the context anyway */
        memory_release_hosts(device, SIZE_MAX);
        r = mapping_new(device, va, size, 1, &mapping);
        if (!r)
                r = cuda_va_host_map(device, fd, mapped, va, size, &mapping->own);
        else if (mapped)
                munmap(mapped, size);
        if (r)
                return ds_error_trace(r);
        r = host_register(device, (void *)(uintptr_t)va, size);
        if (r) {
                cuda_va_host_unmap(va, size, mapping->own);
                return ds_error_trace(r);
        }
        DL_APPEND(space->mappings, mapping);
        mapping = NULL;
        return 0;
}

int cuda_host_map(ds_device *device, uint32_t id, int fd, uint64_t va, uint64_t size)
{
        return ds_error_trace(host_map(device, id, fd, NULL, va, size));
}

int cuda_host_move(ds_device *device, uint32_t id, int fd, void *mapped, uint64_t va, uint64_t size)
{
        return ds_error_trace(host_map(device, id, fd, mapped, va, size));
}

int cuda_host_unmap(ds_device *device, uint32_t id, uint64_t va, uint64_t size)
{
        struct cuda_mapping *mapping;
        int r = mapping_take(device, id, va, size, 1, &mapping);

        if (r)
                return ds_error_trace(r);
        mapping_release(device, mapping);
        return 0;
}
