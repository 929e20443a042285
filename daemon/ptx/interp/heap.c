/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "ptx/interp/area.h"
#include "ptx/interp/heap.h"
#include "util/alloc.h"

#define HEAP_BYTES (UINT32_C(8) << 20)
#define UNIT 64u
#define UNITS (HEAP_BYTES / UNIT)
#define USED (UINT32_C(1) << 31)
#define PIECES_PER_INSTRUCTION 8

struct ds_ix_heap {
        pthread_mutex_t lock;
        _Atomic(uint8_t *) base; /* memory of the heap; NULL until the first allocation */
        uint32_t *piece;
        uint32_t next;
};

ds_ix_heap *ds_ix_heap_new(void)
{
        ds_ix_heap *heap = ds_alloc0(1, sizeof(*heap));

        if (heap)
                (void)pthread_mutex_init(&heap->lock, NULL);
        return heap;
}

ds_ix_heap *ds_ix_heap_free(ds_ix_heap *heap)
{
        if (!heap)
                return NULL;
        (void)pthread_mutex_destroy(&heap->lock);
        (void)ds_ix_area_free(atomic_load(&heap->base), HEAP_BYTES);
        ds_free(heap->piece);
        return ds_free(heap);
}

uint64_t ds_ix_heap_base(ds_ix_heap *heap, uint64_t *ret_size)
{
        uint8_t *base = heap ? atomic_load_explicit(&heap->base, memory_order_acquire) : NULL;

        *ret_size = base ? HEAP_BYTES : 0;
        return (uintptr_t)base;
}

static int prepare(ds_ix_heap *heap)
{
        uint8_t *base;

        if (heap->piece)
                return 1;
        base = ds_ix_area_new(HEAP_BYTES);
        heap->piece = base ? ds_alloc0(UNITS, sizeof(*heap->piece)) : NULL;
        if (!heap->piece) {
                (void)ds_ix_area_free(base, HEAP_BYTES);
                return 0;
        }
        heap->piece[0] = UNITS;
        atomic_store_explicit(&heap->base, base, memory_order_release);
        return 1;
}

/* Merges the free piece at `at` with the free pieces behind it. */
static void join(ds_ix_heap *heap, uint32_t at)
{
        uint32_t end = at + heap->piece[at];

        while (end < UNITS && !(heap->piece[end] & USED)) {
                uint32_t size = heap->piece[end];

                heap->piece[end] = 0;
                heap->piece[at] += size;
                end += size;
        }
        if (heap->next > at && heap->next < end)
                heap->next = at;
}

/* Takes n adjacent free units and returns the first; UINT32_MAX: there are not so many. *ret_walked: number of
 * pieces visited */
static uint32_t take(ds_ix_heap *heap, uint32_t n, uint32_t *ret_walked)
{
        uint32_t at = heap->next, seen = 0, walked = 0;

        for (; seen < UNITS; walked++) {
                uint32_t size;

                if (!(heap->piece[at] & USED)) {
                        join(heap, at);
                        size = heap->piece[at];
                        if (size >= n) {
                                heap->piece[at] = n | USED;
                                if (size > n)
                                        heap->piece[at + n] = size - n;
                                heap->next = at + n < UNITS ? at + n : 0;
                                *ret_walked = walked;
                                return at;
                        }
                }
                size = heap->piece[at] & ~USED;
                seen += size;
                at = at + size < UNITS ? at + size : 0;
        }
        *ret_walked = walked;
        return UINT32_MAX;
}

static uint64_t allocate(ds_ix_heap *heap, uint64_t size, uint32_t *ret_walked)
{
        uint64_t address = 0;
        uint32_t at;

        *ret_walked = 0;
        if (size == 0 || size > HEAP_BYTES)
                return 0;
        (void)pthread_mutex_lock(&heap->lock);
        if (prepare(heap)) {
                at = take(heap, (uint32_t)((size + UNIT - 1) / UNIT), ret_walked);
                if (at != UINT32_MAX)
                        address = (uintptr_t)heap->base + (uint64_t)at * UNIT;
        }
        (void)pthread_mutex_unlock(&heap->lock);
        return address;
}

/* Frees the piece at this address; returns 0 if there is no such piece. */
static int give_back(ds_ix_heap *heap, uint64_t address)
{
        uint64_t size, offset = address - ds_ix_heap_base(heap, &size);
        int known;

        if (offset >= size || offset % UNIT)
                return 0;
        (void)pthread_mutex_lock(&heap->lock);
        known = !!(heap->piece[offset / UNIT] & USED);
        heap->piece[offset / UNIT] &= ~USED;
        (void)pthread_mutex_unlock(&heap->lock);
        return known;
}

/* --- void *malloc(size_t size), void free(void *p) --- */
const ds_ix_op *ds_ix_malloc(ds_ix_warp *w, const ds_ix_op *op)
{
        const ds_ix_call *call = op->ext;

        for (uint32_t left = w->mask; left; left &= left - 1) {
                uint32_t lane = (uint32_t)__builtin_ctz(left), walked;
                uint64_t p = allocate(w->block->interp->heap, ds_ix_call_argument(w, call, 0, lane), &walked);

                ds_ix_call_result(w, call, lane, p);
                w->fuel -= 1 + walked / PIECES_PER_INSTRUCTION;
        }
        w->fuel -= op->count;
        return w->fuel < 0 ? ds_ix_expire(w, op + 1) : op + 1;
}

const ds_ix_op *ds_ix_free(ds_ix_warp *w, const ds_ix_op *op)
{
        const ds_ix_call *call = op->ext;

        for (uint32_t left = w->mask; left; left &= left - 1) {
                uint32_t lane = (uint32_t)__builtin_ctz(left);
                uint64_t p = ds_ix_call_argument(w, call, 0, lane);

                if (p && !give_back(w->block->interp->heap, p))
                        return ds_ix_fault(w, op, DS_INTERP_FAULT_ADDRESS, lane, p,
                                "free of 0x%llx, which malloc did not give", (unsigned long long)p);
        }
        w->fuel -= op->count;
        return w->fuel < 0 ? ds_ix_expire(w, op + 1) : op + 1;
}
