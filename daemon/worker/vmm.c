/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory without an address, and the client's mappings of it
 *
 * Each piece is one file, which stays open because the client may map it at any time, more than once. The supervisor
 * checks beforehand which addresses outside its window the session may use. This file checks that the session's
 * mappings do not overlap, and the device checks that no other session has a mapping there. An imported piece is
 * another session's memory and counts there.
 *
 * A mapping that the client removed is hidden from new work at once. It is unmapped when the work that may use it has
 * ended.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "util/error.h"
#include "worker/internal.h"

struct dsw_physical *dsw_vmm_find(struct dsw_session *session, uint64_t id)
{
        struct dsw_physical *physical = NULL;

        HASH_FIND(hh, session->memory.physical, &id, sizeof(id), physical);
        return physical;
}

int dsw_vmm_add(struct dsw_session *session, uint64_t id, uint64_t bytes, int *fd, int owned, uint64_t *ret_id)
{
        struct dsw_memory *memory = &session->memory;
        struct dsw_physical *physical;

        if (!bytes || bytes % session->worker->info->slab_granularity || dsw_vmm_find(session, id))
                return DS_CUDA_INVALID_VALUE;
        if (HASH_COUNT(memory->physical) >= DSW_SESSION_PHYSICAL_MAX)
                return DETSHARE__STATUS__QUOTA;
        physical = ds_alloc0(1, sizeof(*physical));
        if (!physical)
                return ds_error_origin(-ENOMEM);
        *physical = (struct dsw_physical){.id = id ? id : ++memory->physical_id, .bytes = bytes, .owned = owned};
        HASH_ADD(hh, memory->physical, id, sizeof(physical->id), physical);
        if (!physical->hh.tbl) {
                ds_free(physical);
                return ds_error_origin(-ENOMEM);
        }
        physical->fd = DS_TAKE_FD(*fd);
        memory->physical_bytes += owned ? bytes : 0;
        session->worker->slab_bytes += owned ? bytes : 0;
        memory->peak = DS_MAX(memory->peak, dsw_memory_used(session));
        dsw_memory_tell(session);
        *ret_id = physical->id;
        return 0;
}

static void vmm_drop(struct dsw_session *session, struct dsw_physical *physical)
{
        uint64_t counted = physical->owned ? physical->bytes : 0;

        assert(!physical->n_mapped);
        assert(session->memory.physical_bytes >= counted && session->worker->slab_bytes >= counted);
        session->memory.physical_bytes -= counted;
        session->worker->slab_bytes -= counted;
        HASH_DELETE(hh, session->memory.physical, physical);
        ds_close(physical->fd);
        ds_free(physical);
        dsw_memory_tell(session);
}

int dsw_vmm_release(struct dsw_session *session, uint64_t id)
{
        struct dsw_physical *physical = dsw_vmm_find(session, id);

        if (!physical || physical->n_mapped)
                return DS_CUDA_INVALID_VALUE;
        vmm_drop(session, physical);
        return 0;
}

/* Index of the first mapping that ends above the address. */
static size_t vmm_index(const struct dsw_memory *memory, uint64_t address)
{
        size_t low = 0, high = memory->n_mapped;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (memory->mapped[mid].va + memory->mapped[mid].bytes <= address)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

static int vmm_reserve(struct dsw_memory *memory)
{
        size_t cap = memory->cap_mapped ? memory->cap_mapped * 2 : 16;
        struct dsw_mapped *grown;

        if (memory->n_mapped < memory->cap_mapped)
                return 0;
        grown = ds_realloc(memory->mapped, cap, sizeof(*grown));
        if (!grown)
                return ds_error_origin(-ENOMEM);
        memory->mapped = grown;
        memory->cap_mapped = cap;
        return 0;
}

/* Whether the range lies outside the session's window. Addresses inside the window are assigned by the session's
 * heaps. */
static int vmm_is_place(const struct dsw_session *session, uint64_t va, uint64_t bytes)
{
        uint64_t granularity = session->worker->info->slab_granularity;
        const struct dsw_memory *memory = &session->memory;

        if (!va || !bytes || (va | bytes) % granularity || bytes > UINT64_MAX - va)
                return 0;
        return va >= memory->pinned.end || va + bytes <= memory->device.base;
}

int dsw_vmm_map(struct dsw_session *session, uint64_t id, uint64_t va, uint64_t bytes)
{
        struct dsw_physical *physical = dsw_vmm_find(session, id);
        struct dsw_memory *memory = &session->memory;
        ds_worker *worker = session->worker;
        size_t at;
        int r;

        if (!physical || bytes > physical->bytes || !vmm_is_place(session, va, bytes))
                return DS_CUDA_INVALID_VALUE;
        at = vmm_index(memory, va);
        if (at < memory->n_mapped && memory->mapped[at].va < va + bytes)
                return DS_CUDA_INVALID_VALUE;
        if (memory->n_mapped >= DSW_SESSION_PHYSICAL_MAX)
                return DETSHARE__STATUS__QUOTA;
        r = vmm_reserve(memory);
        if (!r)
                r = worker->ops->mem_map(worker->device, session->space, physical->fd, va, bytes);
        if (r)
                return r == -EEXIST ? DS_CUDA_INVALID_VALUE : ds_error_trace(r);
        memmove(&memory->mapped[at + 1], &memory->mapped[at], (memory->n_mapped - at) * sizeof(*memory->mapped));
        memory->mapped[at] = (struct dsw_mapped){.va = va, .bytes = bytes, .physical = physical};
        memory->n_mapped++;
        physical->n_mapped++;
        return 0;
}

static struct dsw_mapped *vmm_at(struct dsw_session *session, uint64_t va)
{
        struct dsw_memory *memory = &session->memory;
        size_t at = vmm_index(memory, va);

        return at < memory->n_mapped && memory->mapped[at].va == va ? &memory->mapped[at] : NULL;
}

int dsw_vmm_begin_unmap(struct dsw_session *session, uint64_t va)
{
        struct dsw_mapped *mapped = vmm_at(session, va);

        if (!mapped || mapped->going)
                return -ENOENT;
        mapped->going = 1;
        dsw_graph_taken(session);
        return 0;
}

static void vmm_unmap_at(struct dsw_session *session, struct dsw_mapped *mapped)
{
        const ds_worker *worker = session->worker;

        (void)ds_error_trace(worker->ops->mem_unmap(worker->device, session->space, mapped->va, mapped->bytes));
        assert(mapped->physical->n_mapped > 0);
        mapped->physical->n_mapped--;
}

void dsw_vmm_unmap(struct dsw_session *session, uint64_t va)
{
        struct dsw_memory *memory = &session->memory;
        struct dsw_mapped *mapped = vmm_at(session, va);

        assert(mapped && mapped->going);
        vmm_unmap_at(session, mapped);
        memmove(mapped, mapped + 1, (size_t)(memory->mapped + memory->n_mapped - mapped - 1) * sizeof(*mapped));
        memory->n_mapped--;
}

/* Whether mappings cover the whole range. Adjacent mappings count as one range of memory. */
int dsw_vmm_covers(const struct dsw_session *session, uint64_t va, uint64_t bytes)
{
        const struct dsw_memory *memory = &session->memory;

        if (!bytes || bytes > UINT64_MAX - va)
                return 0;
        for (size_t at = vmm_index(memory, va); at < memory->n_mapped; at++) {
                const struct dsw_mapped *mapped = &memory->mapped[at];
                uint64_t inside = va - mapped->va;

                if (mapped->va > va || mapped->going)
                        return 0;
                if (bytes <= mapped->bytes - inside)
                        return 1;
                bytes -= mapped->bytes - inside;
                va = mapped->va + mapped->bytes;
        }
        return 0;
}

void dsw_vmm_free_all(struct dsw_session *session)
{
        struct dsw_memory *memory = &session->memory;
        struct dsw_physical *physical, *next;

        while (memory->n_mapped)
                vmm_unmap_at(session, &memory->mapped[--memory->n_mapped]);
        memory->mapped = ds_free(memory->mapped);
        memory->cap_mapped = 0;
        HASH_ITER(hh, memory->physical, physical, next)
        {
                vmm_drop(session, physical);
        }
}
