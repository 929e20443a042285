/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap: which addresses of a session's window are taken, and by what
 *
 * Pure bookkeeping over addresses; it touches no memory and knows no device. A heap covers one half of a window. Slabs
 * are put into it (by whoever made the memory), allocations are carved out of slabs first fit in address order, and
 * every address a client names is looked up here before it goes anywhere. A new worker rebuilds the same heap from the
 * supervisor's ledger with dsw_heap_add_slab and dsw_heap_place.
 *
 * Guarantees: allocations never overlap and lie wholly in one slab; dsw_heap_free never fails for lack of memory; a
 * call that fails changed nothing. All of it is bounded by the number of allocations, which the owner limits.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dsw_slab;

/* Contract codes */
#define DSW_HEAP_E_FULL 1    /* no slab (alloc) or no gap (gap) is large enough */
#define DSW_HEAP_E_OVERLAP 2 /* the place is taken, or outside of the heap or of every slab */
#define DSW_HEAP_E_UNKNOWN 3 /* nothing begins at that address */

struct dsw_range {
        uint64_t va, bytes; /* bytes: as reserved, a multiple of the heap's alignment */
        uint32_t flags;     /* the owner's */
};

struct dsw_heap {
        uint64_t base, end;      /* [base, end) */
        uint64_t align;          /* of allocations, a power of two */
        struct dsw_slab **slabs; /* by address */
        size_t n_slabs, cap_slabs;
        struct dsw_range *ranges; /* by address */
        size_t n_ranges, cap_ranges;
        uint64_t slab_bytes; /* sum over slabs */
        uint64_t used;       /* sum over allocations */
};

void dsw_heap_init(struct dsw_heap *heap, uint64_t base, uint64_t end, uint64_t align);
void dsw_heap_deinit(struct dsw_heap *heap);

/* Carve bytes (rounded up to the alignment) out of a slab. 0, FULL, or -ENOMEM. */
int dsw_heap_alloc(struct dsw_heap *heap, uint64_t bytes, uint64_t *ret_va);
/* Restore an allocation at a known place. 0, OVERLAP, or -ENOMEM. */
int dsw_heap_place(struct dsw_heap *heap, uint64_t va, uint64_t bytes);
/*
 * Give an allocation back. *ret_empty_slab is the address of its slab when nothing is left in it, else 0; the slab
 * stays until dsw_heap_remove_slab. 0 or UNKNOWN.
 */
int dsw_heap_free(struct dsw_heap *heap, uint64_t va, uint64_t *ret_empty_slab);

/* The lowest place for a slab from `from` on. bytes and the result are multiples of align (a power of two). 0 or FULL.
 */
int dsw_heap_gap(const struct dsw_heap *heap, uint64_t from, uint64_t bytes, uint64_t align, uint64_t *ret_va);
/* 0, OVERLAP, or -ENOMEM. */
int dsw_heap_add_slab(struct dsw_heap *heap, uint64_t va, uint64_t bytes);
/* The slab must be empty. 0 and its size, or UNKNOWN. */
int dsw_heap_remove_slab(struct dsw_heap *heap, uint64_t va, uint64_t *ret_bytes);
/* The i-th slab by address; 0 or UNKNOWN past the end. */
int dsw_heap_slab_at(const struct dsw_heap *heap, size_t i, uint64_t *ret_va, uint64_t *ret_bytes);

/* The allocation that holds the address; NULL if none does. Valid until the next change. */
struct dsw_range *dsw_heap_find(const struct dsw_heap *heap, uint64_t address);
/* Is every rule above true? For tests. */
int dsw_heap_check(const struct dsw_heap *heap);
