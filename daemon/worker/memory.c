/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's memory: device slabs, pinned memory, and the bounce buffer of its Write and Read requests
 *
 * Device allocations are carved from slabs of 64 MiB or more. Each slab is a file of its own, of which the supervisor
 * keeps a descriptor. Each pinned allocation is one file, mapped at the same address here and in the client. The worker
 * closes its own descriptors once a file is mapped and passed on. Nothing here waits: callers free memory only when no
 * operation uses it any more.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/error.h"
#include "worker/internal.h"
#include "worker/later.h"
#include "worker/spare.h"

#define MEMORY_SLAB_ALIGN DS_MIB(2)
#define MEMORY_PLACES_MAX 64   /* number of addresses tried for a slab */
#define MEMORY_RESERVE_PART 16 /* part of the device below which no client keeps memory that it does not use */

enum {
        RANGE_FREEING = 1,  /* flag: its client has freed the allocation; work in flight may still use it */
        RANGE_INTERNAL = 2, /* flag: part of the bounce buffer */
        RANGE_GONE = 4,     /* flag of pinned memory: freed, and unmapped in a quiesce */
        RANGE_NEW = 8,      /* flag: its client does not know the address yet and can only guess it */
};

void dsw_memory_init(struct dsw_session *session, uint64_t base, uint64_t bytes, uint64_t limit)
{
        struct dsw_memory *memory = &session->memory;

        *memory = (struct dsw_memory){.limit = limit, .cap = UINT64_MAX, .physical_id = session->worker->id_base};
        dsw_heap_init(&memory->device, base, base + bytes / 2, DSW_ALLOC_ALIGN);
        dsw_heap_init(&memory->pinned, base + bytes / 2, base + bytes, DSW_PAGE_ALIGN);
        dsw_heap_init(&memory->bounce, 0, 0, DSW_ALLOC_ALIGN);
}

void dsw_memory_free_device(struct dsw_session *session)
{
        struct dsw_memory *memory = &session->memory;
        ds_worker *worker = session->worker;
        uint64_t va, bytes;

        dsw_vmm_free_all(session);
        dsw_pool_return_all(session);
        for (size_t i = 0; dsw_heap_slab_at(&memory->device, i, &va, &bytes) == 0; i++)
                (void)ds_error_trace(worker->ops->mem_unmap(worker->device, session->space, va, bytes));
        assert(worker->slab_bytes >= memory->device.slab_bytes);
        worker->slab_bytes -= memory->device.slab_bytes;
        dsw_heap_deinit(&memory->device);
        memory->peak = 0;
}

int dsw_memory_has_pinned(const struct dsw_session *session)
{
        return session->memory.pinned.n_slabs > 0;
}

/* Unmaps pinned memory. The last close of its file frees the pages, which takes longer, so another thread does it. */
static void memory_host_forget(struct dsw_session *session, uint64_t va, uint64_t bytes)
{
        ds_worker *worker = session->worker;

        (void)ds_error_trace(worker->ops->host_unmap(worker->device, session->space, va, bytes));
        dsw_pages_release(session, va);
}

void dsw_memory_free_all(struct dsw_session *session)
{
        struct dsw_memory *memory = &session->memory;
        ds_worker *worker = session->worker;
        uint64_t va, bytes;

        dsw_memory_free_device(session);
        dsw_later_free_all(session);
        for (size_t i = 0; dsw_heap_slab_at(&memory->pinned, i, &va, &bytes) == 0; i++)
                memory_host_forget(session, va, bytes);
        dsw_pages_forget(session, &session->file);
        assert(worker->n_gone >= memory->n_gone);
        worker->n_gone -= memory->n_gone;
        worker->gone_bytes -= memory->gone_bytes;
        dsw_heap_deinit(&memory->pinned);
        dsw_heap_deinit(&memory->bounce);
        memory->bounce_va = 0;
        memory->n_pinned = memory->n_gone = 0;
        memory->gone_bytes = 0;
}

static uint64_t memory_slab_align(const ds_worker *worker)
{
        return DS_MAX(MEMORY_SLAB_ALIGN, worker->info->slab_granularity);
}

/*
 * Maps a slab at the lowest address that the device accepts: it may refuse addresses that were just unmapped. Returns
 * 0, OUT_OF_MEMORY, or a negative errno.
 */
static int memory_map_slab(struct dsw_session *session, int fd, uint64_t bytes, uint64_t *ret_va)
{
        const struct dsw_heap *heap = &session->memory.device;
        ds_worker *worker = session->worker;
        uint64_t va = 0;
        int r = -EEXIST;

        for (int i = 0; i < MEMORY_PLACES_MAX && r == -EEXIST; i++, va += bytes) {
                if (dsw_heap_gap(heap, va, bytes, memory_slab_align(worker), &va))
                        return DS_CUDA_OUT_OF_MEMORY;
                *ret_va = va;
                r = worker->ops->mem_map(worker->device, session->space, fd, va, bytes);
        }
        return r == -EEXIST ? DS_CUDA_OUT_OF_MEMORY : r;
}

/* Creates, maps and registers a slab. Returns 0, OUT_OF_MEMORY, or a negative errno. */
static int memory_add_slab(struct dsw_session *session, uint64_t bytes, struct dsw_slab_note *ret)
{
        struct dsw_heap *heap = &session->memory.device;
        ds_worker *worker = session->worker;
        ds_cleanup(ds_closep) int fd = -1;
        uint64_t va;
        int r;

        if (bytes > worker->info->memory_bytes || worker->slab_bytes > worker->info->memory_bytes - bytes)
                return DS_CUDA_OUT_OF_MEMORY;
        if (dsw_heap_gap(heap, 0, bytes, memory_slab_align(worker), &va))
                return DS_CUDA_OUT_OF_MEMORY;
        r = worker->ops->mem_create(worker->device, bytes, &fd);
        if (r)
                return ds_error_trace(r);
        r = memory_map_slab(session, fd, bytes, &va);
        if (r)
                return ds_error_trace(r);
        r = dsw_heap_add_slab(heap, va, bytes);
        if (r) {
                (void)ds_error_trace(worker->ops->mem_unmap(worker->device, session->space, va, bytes));
                return ds_error_fold(r);
        }
        worker->slab_bytes += bytes;
        *ret = (struct dsw_slab_note){.va = va, .bytes = bytes, .fd = DS_TAKE_FD(fd)};
        return 0;
}

static void memory_remove_slab(struct dsw_session *session, uint64_t va)
{
        ds_worker *worker = session->worker;
        uint64_t bytes = 0;

        if (dsw_heap_remove_slab(&session->memory.device, va, &bytes))
                return;
        (void)ds_error_trace(worker->ops->mem_unmap(worker->device, session->space, va, bytes));
        assert(worker->slab_bytes >= bytes);
        worker->slab_bytes -= bytes;
}

uint64_t dsw_memory_used(const struct dsw_session *session)
{
        return session->memory.device.used + session->memory.physical_bytes + dsw_pool_used(session);
}

void dsw_memory_tell(const struct dsw_session *session)
{
        const ds_worker *worker = session->worker;
        uint64_t total = worker->info->memory_bytes;

        if (!worker->sched)
                return;
        if (session->sched)
                ds_sched_session_memory(
                        session->sched, dsw_memory_used(session), session->memory.limit, worker->now_ns);
        ds_sched_memory(worker->sched, total, total - DS_MIN(total, worker->slab_bytes));
}

static void memory_used_changed(struct dsw_session *session)
{
        session->memory.peak = DS_MAX(session->memory.peak, dsw_memory_used(session));
        dsw_memory_tell(session);
}

/* The smaller of the session's and the policy's limit, bytes; UINT64_MAX = none. */
static uint64_t memory_limit(const struct dsw_memory *memory)
{
        return DS_MIN(memory->limit ? memory->limit : UINT64_MAX, memory->cap);
}

int dsw_memory_may(const struct dsw_session *session, uint64_t bytes)
{
        uint64_t limit = memory_limit(&session->memory), used = dsw_memory_used(session);

        return bytes <= limit && used <= limit - bytes;
}

void dsw_memory_cap(void *user, uint64_t session_id, uint64_t bytes)
{
        struct dsw_session *session = dsw_session_find(user, session_id);

        if (session)
                session->memory.cap = bytes;
}

/* Adds a slab of `usual` bytes, or one of `least` bytes where memory is short. */
static int memory_try_slab(struct dsw_session *session, uint64_t usual, uint64_t least, struct dsw_slab_note *ret)
{
        int r = memory_add_slab(session, usual, ret);

        return r == DS_CUDA_OUT_OF_MEMORY && least < usual ? memory_add_slab(session, least, ret) : r;
}

/* Allocates from the session's slabs, or from a new one. ret: the new slab; unchanged if there is none. */
static int memory_place(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va, struct dsw_slab_note *ret)
{
        uint64_t least = DS_ALIGN_UP(bytes, memory_slab_align(session->worker));
        int r = dsw_heap_alloc(&session->memory.device, bytes, ret_va);

        if (r != DSW_HEAP_E_FULL)
                return r;
        r = memory_try_slab(session, DS_MAX(least, DSW_SLAB_BYTES), least, ret);
        if (r)
                return r;
        r = dsw_heap_alloc(&session->memory.device, bytes, ret_va);
        if (r) {
                memory_remove_slab(session, ret->va);
                ret->fd = ds_close(ret->fd);
        }
        return ds_error_fold(r);
}

/* Allocates all of a new slab. */
static int memory_place_alone(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va, struct dsw_slab_note *ret)
{
        int r = memory_add_slab(session, bytes, ret);

        *ret_va = ret->va;
        return r;
}

/*
 * Calls place(). If memory is short, first frees what clients offer: that of sessions without work, whose memory is
 * free at once, then that of others. The session's own offers may make room in its slabs.
 */
static int memory_find_place(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va, struct dsw_slab_note *ret,
        int (*place)(struct dsw_session *, uint64_t, uint64_t *, struct dsw_slab_note *))
{
        int r = place(session, bytes, ret_va, ret);

        for (int busy = 0; r == DS_CUDA_OUT_OF_MEMORY && busy <= 1; busy++) {
                if (dsw_spare_free_all(session->worker, NULL, busy))
                        r = place(session, bytes, ret_va, ret);
        }
        return r;
}

/* Frees what clients offer if the device is nearly full, because the driver needs memory, too. */
static void memory_reserve(ds_worker *worker)
{
        uint64_t total = worker->info->memory_bytes;

        if (total - DS_MIN(total, worker->slab_bytes) < total / MEMORY_RESERVE_PART)
                (void)dsw_spare_free_all(worker, NULL, 0);
}

/* As dsw_memory_may(), after the session's own client has lost what it offers, if need be. */
static int memory_make_room(struct dsw_session *session, uint64_t bytes)
{
        return dsw_memory_may(session, bytes) || (dsw_spare_free(session) && dsw_memory_may(session, bytes));
}

int dsw_memory_alloc(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va, struct dsw_slab_note *ret_slab)
{
        struct dsw_memory *memory = &session->memory;
        struct dsw_heap *heap = &memory->device;
        struct dsw_slab_note slab = {.fd = -1};
        uint64_t rounded;
        int r;

        if (!bytes)
                return DS_CUDA_INVALID_VALUE;
        if (bytes > heap->end - heap->base)
                return DS_CUDA_OUT_OF_MEMORY;
        rounded = DS_ALIGN_UP(bytes, DSW_ALLOC_ALIGN);
        if (!memory_make_room(session, rounded))
                return DS_CUDA_OUT_OF_MEMORY;
        if (heap->n_ranges >= DSW_SESSION_ALLOCS_MAX)
                return DETSHARE__STATUS__QUOTA;
        r = memory_find_place(session, rounded, ret_va, &slab, memory_place);
        if (r)
                return ds_error_trace(r);
        dsw_heap_find(heap, *ret_va)->flags = RANGE_NEW;
        if (slab.fd >= 0)
                memory_reserve(session->worker);
        memory_used_changed(session);
        *ret_slab = slab;
        return 0;
}

void dsw_memory_publish(struct dsw_session *session, uint64_t va)
{
        dsw_heap_find(&session->memory.device, va)->flags &= ~(uint32_t)RANGE_NEW;
}

int dsw_memory_cleared(struct dsw_session *session, uint64_t address)
{
        const ds_worker *worker = session->worker;
        uint64_t va, bytes;

        for (size_t i = 0; dsw_heap_slab_at(&session->memory.device, i, &va, &bytes) == 0; i++) {
                if (address >= va && address - va < bytes)
                        return worker->ops->mem_cleared(worker->device, session->space, va);
        }
        return 1;
}

int dsw_memory_keep(struct dsw_session *session, uint64_t address)
{
        const ds_worker *worker = session->worker;
        const struct dsw_range *range = dsw_heap_find(&session->memory.device, address);
        uint64_t va, bytes;

        if (!range || range->va != address || range->flags)
                return DS_CUDA_INVALID_VALUE;
        for (size_t i = 0; dsw_heap_slab_at(&session->memory.device, i, &va, &bytes) == 0; i++) {
                if (address >= va && address - va < bytes)
                        return ds_error_trace(worker->ops->mem_keep(worker->device, session->space, va));
        }
        return DS_CUDA_INVALID_VALUE;
}

/*
 * Memory can be cleared only at an address, and no client may have the file before that. So new memory is first mapped
 * in the session's own half of the window, as a slab with one allocation that the client does not know.
 */
int dsw_memory_scrub_begin(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va, int *ret_fd)
{
        struct dsw_slab_note slab = {.fd = -1};
        ds_worker *worker = session->worker;
        int r;

        if (!bytes || bytes % memory_slab_align(worker))
                return DS_CUDA_INVALID_VALUE;
        if (!memory_make_room(session, bytes))
                return DS_CUDA_OUT_OF_MEMORY;
        r = memory_find_place(session, bytes, ret_va, &slab, memory_place_alone);
        if (r)
                return ds_error_trace(r);
        memory_reserve(worker);
        r = worker->ops->mem_keep(worker->device, session->space, slab.va);
        if (!r)
                r = dsw_heap_place(&session->memory.device, slab.va, bytes);
        if (r) {
                memory_remove_slab(session, slab.va);
                ds_close(slab.fd);
                return r < 0 ? ds_error_trace(r) : ds_error_origin(-EINVAL);
        }
        dsw_heap_find(&session->memory.device, slab.va)->flags = RANGE_INTERNAL;
        memory_used_changed(session);
        *ret_va = slab.va;
        *ret_fd = slab.fd;
        return 0;
}

void dsw_memory_scrub_end(struct dsw_session *session, uint64_t va)
{
        uint64_t removed;

        dsw_memory_free(session, va, &removed);
        assert(removed == va);
}

int dsw_memory_begin_free(struct dsw_session *session, uint64_t va, int pinned)
{
        struct dsw_heap *heap = pinned ? &session->memory.pinned : &session->memory.device;
        struct dsw_range *range = dsw_heap_find(heap, va);

        if (!range || range->va != va || range->flags & ~DSW_RANGE_LATER)
                return -ENOENT;
        range->flags |= RANGE_FREEING;
        dsw_graph_taken(session);
        return 0;
}

void dsw_memory_free(struct dsw_session *session, uint64_t va, uint64_t *ret_slab_removed)
{
        uint64_t empty = 0;
        int r = dsw_heap_free(&session->memory.device, va, &empty);

        assert(r == 0);
        (void)r;
        if (empty)
                memory_remove_slab(session, empty);
        memory_used_changed(session);
        *ret_slab_removed = empty;
}

/* --- pinned memory ------------------------------------------------------------------------------------------------ */

/* Creates a file of fixed size. Later workers must be able to map it writable, so it is sealed against changes of
 * its size only. */
int dsw_memory_host_file(uint64_t bytes, int *ret_fd)
{
        ds_cleanup(ds_closep) int fd = memfd_create("detshare-pinned", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0)
                return ds_error_origin(-errno);
        if (ftruncate(fd, (off_t)bytes) < 0)
                return errno == ENOMEM || errno == EFBIG ? DS_CUDA_OUT_OF_MEMORY : ds_error_origin(-errno);
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return ds_error_origin(-errno);
        *ret_fd = DS_TAKE_FD(fd);
        return 0;
}

/* Maps a file at an address in the pinned half and registers it as one empty slab. mapped: a mapping of the file, which
 * moves there; NULL: none. */
static int memory_host_map(struct dsw_session *session, int fd, void *mapped, uint64_t va, uint64_t bytes)
{
        ds_worker *worker = session->worker;
        uint64_t removed;
        int r;

        r = dsw_heap_add_slab(&session->memory.pinned, va, bytes);
        if (r) {
                dsw_pages_drop(worker, -1, mapped, bytes);
                return ds_error_fold(r);
        }
        if (mapped)
                r = worker->ops->host_move(worker->device, session->space, fd, mapped, va, bytes);
        else
                r = worker->ops->host_map(worker->device, session->space, fd, va, bytes);
        if (r) {
                dsw_heap_remove_slab(&session->memory.pinned, va, &removed);
                return ds_error_trace(r);
        }
        dsw_pages_hold(session, va, bytes, fd);
        return 0;
}

static void memory_host_unmap(struct dsw_session *session, uint64_t slab)
{
        uint64_t bytes = 0;

        if (dsw_heap_remove_slab(&session->memory.pinned, slab, &bytes))
                return;
        memory_host_forget(session, slab, bytes);
}

static uint64_t memory_host_align(uint64_t bytes)
{
        return bytes < DSW_PINNED_ALIGN ? DSW_PAGE_ALIGN : DSW_PINNED_ALIGN;
}

/* Creates one allocation that fills a new file. */
static int memory_host_new(struct dsw_session *session, uint64_t bytes, uint32_t flags, uint64_t *ret_va, int *ret_fd)
{
        struct dsw_heap *heap = &session->memory.pinned;
        ds_cleanup(ds_closep) int fd = -1;
        void *mapped;
        uint64_t va;
        int r;

        if (dsw_heap_gap(heap, 0, bytes, memory_host_align(bytes), &va))
                return DS_CUDA_OUT_OF_MEMORY;
        /* allocates the file's pages before the quiesce, because only the registration needs one */
        r = dsw_pages_ready(session, &session->file, bytes);
        if (r)
                return r == DSW_WORK_E_STALLED ? r : ds_error_trace(r);
        if (!dsw_quiesce_may_do(session, DSW_STOP_OTHER, bytes))
                return DSW_WORK_E_STALLED;
        fd = dsw_pages_take(session, &session->file, &mapped);
        r = fd < 0 ? dsw_memory_host_file(bytes, &fd) : 0;
        if (r)
                return ds_error_trace(r);
        r = memory_host_map(session, fd, mapped, va, bytes);
        if (r)
                return ds_error_trace(r);
        r = dsw_heap_place(heap, va, bytes);
        if (r) {
                memory_host_unmap(session, va);
                return ds_error_fold(r);
        }
        dsw_heap_find(heap, va)->flags = flags;
        *ret_va = va;
        *ret_fd = DS_TAKE_FD(fd);
        return 0;
}

int dsw_memory_pinned_alloc(
        struct dsw_session *session, uint64_t bytes, int later, uint64_t *ret_va, uint64_t *ret_bytes, int *ret_fd)
{
        struct dsw_memory *memory = &session->memory;
        int r;

        if (!bytes)
                return DS_CUDA_INVALID_VALUE;
        if (bytes > memory->pinned.end - memory->pinned.base)
                return DS_CUDA_OUT_OF_MEMORY;
        if (memory->n_pinned >= DSW_SESSION_PINNED_MAX)
                return DETSHARE__STATUS__QUOTA;
        bytes = DS_ALIGN_UP(bytes, DSW_PAGE_ALIGN);
        *ret_bytes = bytes;
        r = later ? dsw_later_alloc(session, bytes, memory_host_align(bytes), ret_va, ret_fd) : DSW_LATER_E_NOW;
        if (r != DSW_LATER_E_NOW)
                return ds_error_trace(r);
        r = memory_host_new(session, bytes, 0, ret_va, ret_fd);
        if (r)
                return ds_error_trace(r);
        memory->n_pinned++;
        return 0;
}

static void memory_host_free(struct dsw_session *session, uint64_t va)
{
        uint64_t empty = 0;
        int r = dsw_heap_free(&session->memory.pinned, va, &empty);

        assert(r == 0);
        (void)r;
        if (empty)
                memory_host_unmap(session, empty);
}

/* Marks pinned memory for the next quiesce that has time to unregister it. */
static void memory_host_gone(struct dsw_session *session, struct dsw_range *range)
{
        struct dsw_memory *memory = &session->memory;

        if (range->flags & RANGE_GONE)
                return;
        range->flags |= RANGE_GONE;
        memory->n_gone++;
        session->worker->n_gone++;
        memory->gone_bytes += range->bytes;
        session->worker->gone_bytes += range->bytes;
}

/* Frees pinned memory that nothing uses any more. If unregistering it must wait for a quiesce, its addresses stay in
 * use until then. */
void dsw_memory_pinned_free(struct dsw_session *session, uint64_t va)
{
        struct dsw_memory *memory = &session->memory;

        assert(memory->n_pinned > 0);
        if (dsw_later_free(session, va))
                return;
        if (dsw_quiesce_runs(session->worker)) {
                memory->n_pinned--;
                memory_host_free(session, va);
                return;
        }
        memory_host_gone(session, dsw_heap_find(&memory->pinned, va));
        dsw_quiesce_chore(session->worker);
}

int dsw_memory_leave(struct dsw_session *session)
{
        struct dsw_memory *memory = &session->memory;

        dsw_later_free_all(session);
        for (size_t i = 0; i < memory->pinned.n_ranges; i++) {
                memory_host_gone(session, &memory->pinned.ranges[i]);
        }
        dsw_quiesce_chore(session->worker);
        return memory->n_gone > 0;
}

int dsw_memory_sweep(struct dsw_session *session)
{
        struct dsw_memory *memory = &session->memory;

        for (size_t i = memory->n_gone ? memory->pinned.n_ranges : 0; i > 0; i--) {
                const struct dsw_range *range = &memory->pinned.ranges[i - 1];

                if (!(range->flags & RANGE_GONE))
                        continue;
                memory->n_pinned -= range->flags & RANGE_INTERNAL ? 0 : 1;
                memory->n_gone--;
                session->worker->n_gone--;
                memory->gone_bytes -= range->bytes;
                session->worker->gone_bytes -= range->bytes;
                memory_host_free(session, range->va);
                if (session->state == DSW_SESSION_CLOSING && !dsw_memory_has_pinned(session))
                        dsw_session_dirty(session);
                return 1;
        }
        return 0;
}

/* --- after a restart ---------------------------------------------------------------------------------------------- */

int dsw_memory_restore_slab(struct dsw_session *session, uint64_t va, uint64_t bytes, int pinned, int fd)
{
        ds_worker *worker = session->worker;
        uint64_t removed;
        int r;

        if (pinned)
                return ds_error_trace(memory_host_map(session, fd, NULL, va, bytes));
        r = dsw_heap_add_slab(&session->memory.device, va, bytes);
        if (r)
                return ds_error_fold(r);
        r = worker->ops->mem_map(worker->device, session->space, fd, va, bytes);
        if (r) {
                dsw_heap_remove_slab(&session->memory.device, va, &removed);
                return ds_error_trace(r);
        }
        worker->slab_bytes += bytes;
        return 0;
}

int dsw_memory_restore_alloc(struct dsw_session *session, uint64_t va, uint64_t bytes, int pinned)
{
        struct dsw_memory *memory = &session->memory;
        int r = dsw_heap_place(pinned ? &memory->pinned : &memory->device, va, bytes);

        if (r)
                return ds_error_fold(r);
        memory->n_pinned += pinned ? 1 : 0;
        memory_used_changed(session);
        return 0;
}

/* --- bounce buffer ------------------------------------------------------------------------------------------------ */

static int memory_bounce_make(struct dsw_session *session)
{
        struct dsw_memory *memory = &session->memory;
        ds_cleanup(ds_closep) int fd = -1;
        uint64_t va;
        int r;

        r = memory_host_new(session, DSW_BOUNCE_BYTES, RANGE_INTERNAL, &va, &fd);
        if (r)
                return ds_error_trace(r);
        dsw_heap_init(&memory->bounce, va, va + DSW_BOUNCE_BYTES, DSW_ALLOC_ALIGN);
        r = dsw_heap_add_slab(&memory->bounce, va, DSW_BOUNCE_BYTES);
        if (r) {
                dsw_heap_deinit(&memory->bounce);
                memory_host_free(session, va);
                return ds_error_fold(r);
        }
        memory->bounce_va = va;
        return 0;
}

int dsw_memory_bounce_alloc(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va)
{
        int r = 0;

        assert(bytes <= DSW_BOUNCE_BYTES);
        if (!session->memory.bounce_va)
                r = memory_bounce_make(session);
        if (r == DSW_WORK_E_STALLED)
                return DSW_HEAP_E_FULL;
        /* positive codes of memory_bounce_make() are CUDA errors, which must not be mistaken for DSW_HEAP_E_FULL */
        if (r)
                return r < 0 ? ds_error_trace(r) : ds_error_origin(-ENOMEM);
        return ds_error_trace(dsw_heap_alloc(&session->memory.bounce, bytes, ret_va));
}

void dsw_memory_bounce_free(struct dsw_session *session, uint64_t va)
{
        uint64_t empty;
        int r = dsw_heap_free(&session->memory.bounce, va, &empty);

        assert(r == 0);
        (void)r;
}

/* --- queries ------------------------------------------------------------------------------------------------------ */

void dsw_memory_info(const struct dsw_session *session, Detshare__MemInfoReply *ret)
{
        const struct dsw_memory *memory = &session->memory;
        const ds_worker *worker = session->worker;
        uint64_t total = worker->info->memory_bytes, limit = memory_limit(memory), available;
        uint64_t own = dsw_spare_bytes(session, 0), used = dsw_memory_used(session), other;

        dsw_spare_sum(session, &other, &ret->offered);
        /* slabs of others are not available; free parts of the session's own slabs are, and what clients offer */
        available = total - DS_MIN(total, worker->slab_bytes) + (memory->device.slab_bytes - memory->device.used);
        available += own + other;
        if (memory->limit)
                total = DS_MIN(total, memory->limit);
        /* the policy's temporary cap reduces the free memory that the client sees, but not the size of the device */
        available = DS_MIN(available, limit - DS_MIN(limit, used - DS_MIN(used, own)));
        ret->free = DS_MIN(available, total);
        ret->total = total;
        ret->used = used;
        ret->coming = dsw_spare_coming(worker);
}

enum dsw_where dsw_memory_where(void *user, uint64_t va, uint64_t bytes)
{
        struct dsw_session *session = user;
        const struct dsw_memory *memory = &session->memory;
        int pinned = va >= memory->pinned.base && va < memory->pinned.end;
        const struct dsw_range *range = dsw_heap_find(pinned ? &memory->pinned : &memory->device, va);

        if (memory->n_mapped && dsw_vmm_covers(session, va, bytes))
                return DSW_WHERE_DEVICE;
        if (range && !range->flags && bytes <= range->bytes - (va - range->va))
                return pinned ? DSW_WHERE_PINNED : DSW_WHERE_DEVICE;
        return dsw_module_is_global(session, va, bytes) ? DSW_WHERE_DEVICE : DSW_WHERE_NOWHERE;
}
