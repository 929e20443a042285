/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session's memory, as the client knows it
 *
 * The daemon allocates. This file keeps which addresses belong to which allocation (so that libcuda recognises a device
 * pointer without a request), and the mappings of pinned memory. Pinned memory has the same address here and in the
 * daemon: its mapping replaces a part of the reserved window while it exists.
 *
 * An address is removed from the table before the daemon frees it, because after the daemon's answer another thread may
 * get it. A pinned mapping is removed before its memory for the same reason. Threads hold memory.use for reading while
 * they map or unmap: when a session is retired meanwhile, its window may become other mappings' addresses.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "core/internal.h"

/* naps between tries to allocate memory that others keep without using it: the work of its owner may run */
#define NAP_MIN_NS 1000000u
#define NAP_MAX_NS 256000000u

int dsc__memory_init(struct dsc__memory *memory)
{
        pthread_rwlock_init(&memory->use, NULL);
        pthread_rwlock_init(&memory->table, NULL);
        pthread_mutex_init(&memory->arena_lock, NULL);
        return 0;
}

void dsc__memory_deinit(struct dsc__memory *memory)
{
        free(memory->ranges);
        memory->ranges = NULL;
}

/* --- the table --- */

/* Returns the index of the first range that begins above the address. */
static size_t above(const struct dsc__memory *m, uint64_t address)
{
        size_t low = 0, high = m->n_ranges;
        while (low < high) {
                const size_t middle = low + (high - low) / 2;
                if (m->ranges[middle].base <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static int grow_locked(struct dsc__memory *m)
{
        if (m->n_ranges < m->n_space)
                return 0;
        const size_t n = m->n_space ? m->n_space * 2 : 64;
        struct dsc__range *ranges = reallocarray(m->ranges, n, sizeof(*ranges));
        if (!ranges)
                return DSC__OUT_OF_MEMORY;
        m->ranges = ranges;
        m->n_space = n;
        return 0;
}

int dsc__table_add(dsc_session *s, const struct dsc__range *range)
{
        struct dsc__memory *m = &s->memory;
        pthread_rwlock_wrlock(&m->table);
        int r = grow_locked(m);
        if (!r) {
                const size_t at = above(m, range->base);
                if (at > 0 && m->ranges[at - 1].base == range->base) {
                        m->ranges[at - 1] = *range;
                } else {
                        memmove(m->ranges + at + 1, m->ranges + at, (m->n_ranges - at) * sizeof(*m->ranges));
                        m->ranges[at] = *range;
                        m->n_ranges++;
                }
        }
        pthread_rwlock_unlock(&m->table);
        return r;
}

/* Removes the range of a kind in `kinds` that begins at base. 0 and *ret: the range; INVALID_VALUE: there is none. */
static int table_take(dsc_session *s, uint64_t base, uint32_t kinds, struct dsc__range *ret)
{
        struct dsc__memory *m = &s->memory;
        int r = DSC__INVALID_VALUE;
        pthread_rwlock_wrlock(&m->table);
        const size_t at = above(m, base);
        if (at > 0 && m->ranges[at - 1].base == base && (kinds & 1u << m->ranges[at - 1].kind)) {
                *ret = m->ranges[at - 1];
                memmove(m->ranges + at - 1, m->ranges + at, (m->n_ranges - at) * sizeof(*m->ranges));
                m->n_ranges--;
                r = 0;
        }
        pthread_rwlock_unlock(&m->table);
        return r;
}

void dsc__table_drop_module(dsc_session *s, uint64_t module)
{
        struct dsc__memory *m = &s->memory;
        size_t n = 0;
        pthread_rwlock_wrlock(&m->table);
        for (size_t i = 0; i < m->n_ranges; i++)
                if (m->ranges[i].kind != DSC__RANGE_GLOBAL || m->ranges[i].module != module)
                        m->ranges[n++] = m->ranges[i];
        m->n_ranges = n;
        pthread_rwlock_unlock(&m->table);
}

void dsc__table_clear(dsc_session *s)
{
        struct dsc__memory *m = &s->memory;
        size_t n = 0;
        pthread_rwlock_wrlock(&m->table);
        for (size_t i = 0; i < m->n_ranges; i++) {
                if (m->ranges[i].kind == DSC__RANGE_PINNED)
                        dsc__pinned_unmap(s, m->ranges[i].base, m->ranges[i].size);
                if (m->ranges[i].kind == DSC__RANGE_PLAIN)
                        m->ranges[n++] = m->ranges[i]; /* keep: pageable memory of the program */
        }
        m->n_ranges = n;
        pthread_rwlock_unlock(&m->table);
}

void dsc__table_export(dsc_session *s, uint64_t base)
{
        struct dsc__memory *m = &s->memory;
        pthread_rwlock_wrlock(&m->table);
        const size_t at = above(m, base);
        if (at > 0)
                m->ranges[at - 1].exported = true;
        pthread_rwlock_unlock(&m->table);
}

int dsc_lookup(dsc_session *s, uint64_t address, uint64_t *ret_base, uint64_t *ret_size)
{
        struct dsc__memory *m = &s->memory;
        int kind = 0;
        if (atomic_load_explicit(&dsc__forked, memory_order_relaxed))
                return 0;
        pthread_rwlock_rdlock(&m->table);
        const size_t at = above(m, address);
        const struct dsc__range *range = at > 0 ? &m->ranges[at - 1] : NULL;
        if (range && address - range->base < range->size && range->kind != DSC__RANGE_PLAIN) {
                *ret_base = range->base;
                *ret_size = range->size;
                kind = range->kind == DSC__RANGE_PINNED ? 2 : 1;
        }
        pthread_rwlock_unlock(&m->table);
        return kind;
}

/* --- device memory --- */

static int free_call(dsc_session *s, uint64_t address, bool pinned)
{
        Detshare__MemFree mem_free = DETSHARE__MEM_FREE__INIT;
        Detshare__PinnedFree pinned_free = DETSHARE__PINNED_FREE__INIT;
        mem_free.address = pinned_free.address = address;
        Detshare__Request device = DSC__REQUEST(MEM_FREE, mem_free, &mem_free);
        Detshare__Request host = DSC__REQUEST(PINNED_FREE, pinned_free, &pinned_free);
        return dsc__call(s, pinned ? &host : &device, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
}

/* reclaim: first frees the memory that this user's programs keep without using it */
static int info_call(dsc_session *s, bool reclaim, Detshare__MemInfoReply *ret)
{
        Detshare__MemInfo info = DETSHARE__MEM_INFO__INIT;
        info.reclaim = reclaim;
        Detshare__Request request = DSC__REQUEST(MEM_INFO, mem_info, &info);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_MEM_INFO, &answer);
        if (r)
                return r;
        *ret = *answer.reply->mem_info; /* only numbers are used */
        dsc__answer_clear(&answer);
        return 0;
}

static int alloc_call(dsc_session *s, uint64_t bytes, uint64_t *ret_address)
{
        Detshare__MemAlloc alloc = DETSHARE__MEM_ALLOC__INIT;
        alloc.bytes = bytes;
        Detshare__Request request = DSC__REQUEST(MEM_ALLOC, mem_alloc, &alloc);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_MEM_ALLOC, &answer);
        if (r)
                return r;
        *ret_address = answer.reply->mem_alloc->address;
        dsc__answer_clear(&answer);
        return 0;
}

bool dsc__memory_comes(dsc_session *s, int error, uint64_t bytes, uint32_t *nap_ns)
{
        const struct timespec nap = {.tv_nsec = *nap_ns};
        Detshare__MemInfoReply info;
        char message[DSC__MESSAGE_BYTES];
        if ((error != DSC__OUT_OF_MEMORY && error != DETSHARE__STATUS__QUOTA) || *nap_ns > NAP_MAX_NS)
                return false;
        memcpy(message, dsc_message(), sizeof(message));
        if (info_call(s, true, &info) || !info.coming || info.free < bytes) {
                dsc__message("%s", message); /* the failed allocation's, not the request's */
                return false;
        }
        if (*nap_ns)
                nanosleep(&nap, NULL);
        *nap_ns = *nap_ns ? *nap_ns * 4 : NAP_MIN_NS;
        return true;
}

int dsc_mem_alloc(dsc_session *s, uint64_t bytes, uint64_t *ret_address)
{
        struct dsc__range range = {.size = bytes, .kind = DSC__RANGE_DEVICE};
        uint32_t nap_ns = 0;
        int r = dsc__usable(s);
        if (r || bytes == 0)
                return r ? r : DSC__INVALID_VALUE;
        do
                r = alloc_call(s, bytes, &range.base);
        while (r && dsc__memory_comes(s, r, bytes, &nap_ns));
        if (r)
                return r;
        r = dsc__table_add(s, &range);
        if (r) {
                free_call(s, range.base, false);
                return r;
        }
        *ret_address = range.base;
        return 0;
}

int dsc_mem_free(dsc_session *s, uint64_t address)
{
        struct dsc__range range;
        int r = dsc__usable(s);
        if (!r)
                r = table_take(s, address, 1u << DSC__RANGE_DEVICE, &range);
        return r ? r : free_call(s, address, false);
}

int dsc_mem_free_later(dsc_session *s, uint64_t address)
{
        Detshare__MemFree mem_free = DETSHARE__MEM_FREE__INIT;
        Detshare__Request request = DSC__REQUEST(MEM_FREE, mem_free, &mem_free);
        struct dsc__range range;
        int r = dsc__usable(s);
        if (!r)
                r = table_take(s, address, 1u << DSC__RANGE_DEVICE, &range);
        mem_free.address = address;
        if (!r)
                dsc__call_forget(s, &request);
        return r;
}

int dsc_mem_info(dsc_session *s, uint64_t *ret_free, uint64_t *ret_total)
{
        Detshare__MemInfoReply info;
        const int r = info_call(s, false, &info);
        if (r)
                return r;
        *ret_free = info.free;
        *ret_total = info.total;
        return 0;
}

/* --- spare memory --- */

static bool can_offer_locked(dsc_session *s)
{
        return !dsc__usable(s) && !s->socket_only && dsc__attached(s);
}

uint64_t dsc_mem_offer_most(dsc_session *s)
{
        pthread_mutex_lock(&s->submit.lock);
        const uint64_t most = can_offer_locked(s) ? s->memory.spare_bytes : 0;
        pthread_mutex_unlock(&s->submit.lock);
        return most;
}

/* Finds the word of the offer (0: a word that offers nothing); DS_SPARES: there is none. */
static uint32_t spare_find_locked(dsc_session *s, uint64_t offer)
{
        uint32_t at = 0;
        while (at < DS_SPARES && (s->memory.spares[at].size ? s->memory.offers[at] : 0) != offer)
                at++;
        return at;
}

/* Forgets allocations that the daemon has taken: their addresses may be in use again. */
static void spare_sweep_locked(dsc_session *s)
{
        for (uint32_t i = 0; i < DS_SPARES; i++)
                if (atomic_load(&s->ring_header->spare[i]) == 0)
                        s->memory.spares[i].size = 0;
}

uint64_t dsc_mem_offer(dsc_session *s, uint64_t address)
{
        struct dsc__memory *m = &s->memory;
        struct dsc__range range;
        uint64_t offer = 0;
        pthread_mutex_lock(&s->submit.lock);
        if (can_offer_locked(s)) {
                spare_sweep_locked(s);
                const uint32_t at = spare_find_locked(s, 0);
                const bool taken = at < (m->spare_bytes ? DS_SPARES : 1u) &&
                                   !table_take(s, address, 1u << DSC__RANGE_DEVICE, &range);
                if (taken && range.exported) {
                        (void)dsc__table_add(s, &range); /* cannot fail: the table has had the range */
                } else if (taken) {
                        m->spares[at] = range;
                        m->offers[at] = offer = ++m->n_offers;
                        atomic_store(&s->ring_header->spare[at], address);
                }
        }
        pthread_mutex_unlock(&s->submit.lock);
        return offer;
}

int dsc_mem_offered(dsc_session *s, uint64_t offer)
{
        pthread_mutex_lock(&s->submit.lock);
        const uint32_t at = can_offer_locked(s) ? spare_find_locked(s, offer) : DS_SPARES;
        const int there = at < DS_SPARES && atomic_load(&s->ring_header->spare[at]) == s->memory.spares[at].base;
        pthread_mutex_unlock(&s->submit.lock);
        return there;
}

int dsc_mem_withdraw(dsc_session *s, uint64_t offer)
{
        struct dsc__range range = {.size = 0};
        int ours = 0;
        pthread_mutex_lock(&s->submit.lock);
        const uint32_t at = spare_find_locked(s, offer);
        if (at < DS_SPARES) {
                range = s->memory.spares[at];
                uint64_t seen = range.base;
                ours = can_offer_locked(s) && atomic_compare_exchange_strong(&s->ring_header->spare[at], &seen, 0);
                s->memory.spares[at].size = 0;
        }
        pthread_mutex_unlock(&s->submit.lock);
        if (!ours || !dsc__table_add(s, &range))
                return ours;
        free_call(s, range.base, false);
        return 0;
}

void dsc__spare_leave_locked(dsc_session *s, uint64_t ret[DS_SPARES])
{
        for (uint32_t i = 0; i < DS_SPARES; i++)
                ret[i] = dsc__attached(s) ? atomic_exchange(&s->ring_header->spare[i], 0) : 0;
}

/* --- pinned memory --- */

bool dsc__in_pinned_half(const dsc_session *s, uint64_t address, uint64_t bytes)
{
        const uint64_t half = s->window_bytes / 2, base = s->window_base + half;
        return bytes && address >= base && address - base < half && bytes <= half - (address - base);
}

static int map_pinned(dsc_session *s, const struct dsc__answer *answer, uint64_t bytes)
{
        const Detshare__Address *a = answer->reply->pinned_alloc;
        if (answer->n_fds == 1 && answer->fds[0] < 0) {
                dsc__message("the process has no file descriptor left for pinned memory");
                return DSC__OUT_OF_MEMORY;
        }
        if (answer->n_fds != 1 || a->bytes < bytes || a->address % 4096 ||
                !dsc__in_pinned_half(s, a->address, a->bytes) || !dsc__keeps_bytes(answer->fds[0], a->bytes)) {
                dsc__message("the daemon's pinned memory lies outside the session's window, or is too short");
                return DETSHARE__STATUS__INTERNAL;
        }
        void *p = mmap((void *)(uintptr_t)a->address, a->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                answer->fds[0], 0);
        return p == MAP_FAILED ? DSC__OUT_OF_MEMORY : 0;
}

static int pinned_map(dsc_session *s, uint64_t bytes, bool later, uint64_t *ret_address, uint64_t *ret_bytes)
{
        Detshare__PinnedAlloc alloc = DETSHARE__PINNED_ALLOC__INIT;
        alloc.bytes = bytes;
        alloc.later = later;
        Detshare__Request request = DSC__REQUEST(PINNED_ALLOC, pinned_alloc, &alloc);
        struct dsc__answer answer = DSC__ANSWER_NULL;
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT_PINNED_ALLOC, &answer);
        if (r)
                return r;
        const uint64_t address = answer.reply->pinned_alloc->address, mapped = answer.reply->pinned_alloc->bytes;
        r = map_pinned(s, &answer, bytes);
        dsc__answer_clear(&answer);
        if (r) {
                free_call(s, address, true);
                return r;
        }
        *ret_address = address;
        *ret_bytes = mapped;
        return 0;
}

int dsc__pinned_map(dsc_session *s, uint64_t bytes, uint64_t *ret_address, uint64_t *ret_bytes)
{
        return pinned_map(s, bytes, false, ret_address, ret_bytes);
}

void dsc__pinned_unmap(dsc_session *s, uint64_t address, uint64_t bytes)
{
        const uint64_t page = 4096;
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        bytes = (bytes + page - 1) & ~(page - 1);
        mmap((void *)(uintptr_t)address, bytes, PROT_NONE, flags, -1, 0);
}

void dsc__pinned_release(dsc_session *s, uint64_t address, uint64_t bytes)
{
        dsc__pinned_unmap(s, address, bytes);
        free_call(s, address, true);
}

static int plain_alloc(dsc_session *s, uint64_t bytes, void **ret)
{
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
                return DSC__OUT_OF_MEMORY;
        const struct dsc__range range = {.base = (uintptr_t)p, .size = bytes, .kind = DSC__RANGE_PLAIN};
        int r = dsc__table_add(s, &range);
        if (r) {
                munmap(p, bytes);
                return r;
        }
        *ret = p;
        return 0;
}

static int host_alloc(dsc_session *s, uint64_t bytes, bool later, void **ret)
{
        struct dsc__range range = {.kind = DSC__RANGE_PINNED};
        int r = dsc__usable(s);
        if (r || bytes == 0)
                return r ? r : DSC__INVALID_VALUE;
        if (s->socket_only)
                return plain_alloc(s, bytes, ret);
        pthread_rwlock_rdlock(&s->memory.use);
        r = pinned_map(s, bytes, later, &range.base, &range.size);
        if (!r) {
                r = dsc__table_add(s, &range);
                if (r)
                        dsc__pinned_release(s, range.base, range.size);
        }
        pthread_rwlock_unlock(&s->memory.use);
        if (r)
                return r;
        *ret = (void *)(uintptr_t)range.base;
        return 0;
}

int dsc_host_alloc(dsc_session *s, uint64_t bytes, void **ret)
{
        return host_alloc(s, bytes, false, ret);
}

int dsc_managed_alloc(dsc_session *s, uint64_t bytes, void **ret)
{
        return host_alloc(s, bytes, true, ret);
}

static int plain_free(dsc_session *s, void *p)
{
        struct dsc__range range;
        int r = table_take(s, (uintptr_t)p, 1u << DSC__RANGE_PLAIN, &range);
        if (r)
                return r;
        return munmap(p, range.size) < 0 ? DSC__INVALID_VALUE : 0;
}

int dsc_host_free(dsc_session *s, void *p)
{
        struct dsc__range range;
        if (atomic_load_explicit(&dsc__forked, memory_order_relaxed))
                return DSC__NOT_INITIALIZED;
        if (s->socket_only)
                /* plain host memory belongs to the process, so it is freed even if the daemon is gone */
                return plain_free(s, p);
        int r = dsc__usable(s);
        if (r)
                return r;
        pthread_rwlock_rdlock(&s->memory.use);
        r = table_take(s, (uintptr_t)p, 1u << DSC__RANGE_PINNED, &range);
        if (!r)
                dsc__pinned_unmap(s, range.base, range.size);
        pthread_rwlock_unlock(&s->memory.use);
        return r ? r : free_call(s, range.base, true);
}

/* --- everything --- */

static int reset_locked(dsc_session *s)
{
        /* the reset frees the spare memory, whose address may be in use again afterwards */
        uint64_t spare[DS_SPARES];
        dsc__spare_leave_locked(s, spare);
        memset(s->memory.spares, 0, sizeof(s->memory.spares));
        Detshare__ResetSession reset = DETSHARE__RESET_SESSION__INIT;
        Detshare__Request request = DSC__REQUEST(RESET_SESSION, reset_session, &reset);
        int r = dsc__call(s, &request, -1, DETSHARE__REPLY__RESULT__NOT_SET, NULL);
        if (r)
                return r;
        atomic_store(&s->submit.lost_error, 0);
        atomic_store(&s->fault_told, false);
        atomic_store(&s->n_events, 0);
        dsc__streams_forget_locked(s);
        dsc__settle_forget_locked(s);
        /* operations that a dead worker left unfinished count as ended */
        if (dsc__attached(s))
                for (uint32_t i = 0; i < DS_STREAMS_MAX; i++)
                        atomic_store(&s->submit.tails[i], atomic_load(&s->page->stream_done[i]));
        dsc__table_clear(s);
        dsc__arena_drop(s);
        dsc__reserved_drop(s, true);
        /* if the attached worker is dead, its page keeps the error: attach to the living worker */
        return dsc__attached(s) ? dsc__attach_locked(s) : 0;
}

int dsc_reset(dsc_session *s)
{
        int r = dsc__usable(s);
        if (r)
                return r;
        dsc_output(s);
        pthread_rwlock_wrlock(&s->memory.use);
        pthread_mutex_lock(&s->submit.lock);
        r = reset_locked(s);
        pthread_mutex_unlock(&s->submit.lock);
        pthread_rwlock_unlock(&s->memory.use);
        if (!r)
                dsc__coloured_drop(s);
        if (!r)
                dsc__host_wake(s, true);
        dsc_output(s);
        return r;
}
