/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap: the used address ranges of a session's window
 *
 * Pure bookkeeping of addresses: it touches no memory and no device. A heap covers one half of a window. The owner adds
 * slabs to it; allocations are carved out of slabs, first fit in address order. Every address that a client names is
 * looked up here before it is used. A new worker rebuilds the same heap from the supervisor's ledger with
 * dsw_heap_add_slab() and dsw_heap_place().
 *
 * Guarantees: allocations never overlap, and each lies in one slab; dsw_heap_free() never fails for lack of memory; a
 * call that fails changes nothing. Costs are bounded by the number of allocations, which the owner limits.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct dsw_slab;

/* Positive return codes of the functions below */
#define DSW_HEAP_E_FULL 1    /* no slab (dsw_heap_alloc) or no gap between slabs (dsw_heap_gap) is large enough */
#define DSW_HEAP_E_OVERLAP 2 /* the range is in use, lies outside the heap, or lies in no slab */
#define DSW_HEAP_E_UNKNOWN 3 /* no allocation or slab begins at that address */

struct dsw_range {
        uint64_t va, bytes; /* bytes: as reserved, a multiple of the heap's alignment */
        uint32_t flags;     /* flags whose meaning the owner of the heap defines */
};

struct dsw_heap {
        uint64_t base, end;      /* address range [base, end) of the heap */
        uint64_t align;          /* alignment of allocations, a power of two */
        struct dsw_slab **slabs; /* slabs, sorted by address */
        size_t n_slabs, cap_slabs;
        struct dsw_range *ranges; /* allocations, sorted by address */
        size_t n_ranges, cap_ranges;
        uint64_t slab_bytes; /* bytes of all slabs */
        uint64_t used;       /* bytes of all allocations */
};

void dsw_heap_init(struct dsw_heap *heap, uint64_t base, uint64_t end, uint64_t align);
void dsw_heap_deinit(struct dsw_heap *heap);

/* Allocates bytes (rounded up to the alignment) in a slab. Returns 0, FULL, or -ENOMEM. */
int dsw_heap_alloc(struct dsw_heap *heap, uint64_t bytes, uint64_t *ret_va);
/* Restores an allocation at a known address. Returns 0, OVERLAP, or -ENOMEM. */
int dsw_heap_place(struct dsw_heap *heap, uint64_t va, uint64_t bytes);
/*
 * Frees an allocation. If its slab has no allocation left, *ret_empty_slab is the slab's address, else 0. The slab
 * stays until dsw_heap_remove_slab(). Returns 0 or UNKNOWN.
 */
int dsw_heap_free(struct dsw_heap *heap, uint64_t va, uint64_t *ret_empty_slab);

/* Finds the lowest free address for a slab at or above `from`. bytes and the result are multiples of align (a power
 * of two). Returns 0 or FULL. */
int dsw_heap_gap(const struct dsw_heap *heap, uint64_t from, uint64_t bytes, uint64_t align, uint64_t *ret_va);
/* Adds a slab at this address. Returns 0, OVERLAP, or -ENOMEM. */
int dsw_heap_add_slab(struct dsw_heap *heap, uint64_t va, uint64_t bytes);
/* Removes an empty slab. Returns 0 and its size, or UNKNOWN. */
int dsw_heap_remove_slab(struct dsw_heap *heap, uint64_t va, uint64_t *ret_bytes);
/* The i-th slab by address; 0 or UNKNOWN past the end. */
int dsw_heap_slab_at(const struct dsw_heap *heap, size_t i, uint64_t *ret_va, uint64_t *ret_bytes);

/* The allocation that contains the address; NULL if there is none. Valid until the next change. */
struct dsw_range *dsw_heap_find(const struct dsw_heap *heap, uint64_t address);
/* For tests: whether all guarantees above hold. */
int dsw_heap_check(const struct dsw_heap *heap);
