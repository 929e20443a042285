/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools: stream-ordered allocation without a request to the daemon
 *
 * A pool gets chunks of device memory from the daemon and carves blocks out of them here, so an allocation returns at
 * once. A free is an operation of its stream (a mark, with a sequence number). The block may be reused by the same
 * stream at once, because later work of that stream runs later, and by other streams when the mark has ended. If no
 * block fits, the pool grows. If it cannot grow, the allocating stream waits for a mark (if the pool may insert
 * dependencies); at last the caller waits for frees until chunks can be returned.
 *
 * When the program synchronises, chunks beyond the pool's release threshold go back to the daemon. The default pool
 * lives as long as the process. Pools belong to the device, not to a context; a reset of the session empties them.
 */
#pragma once

#include <stdatomic.h>

#include "cuda/context.h"

struct dcu_chunk;
struct dcu_block;

enum dcu_pool_reuse { DCU_REUSE_EVENTS = 1, DCU_REUSE_OPPORTUNISTIC = 2, DCU_REUSE_INTERNAL = 4 };

struct dcu_pool_face;

/* Protected by the allocator's lock. */
struct dcu_pool {
        struct dcu_pool_face *face; /* NULL: destroyed */
        CUmemoryPool handle;
        struct dcu_pool *prev, *next; /* next in the list of all pools */
        struct dcu_chunk *chunks;
        struct dcu_block *spare; /* free blocks, in no order */
        unsigned int reuse;      /* bits of enum dcu_pool_reuse */
        int dying;               /* 1: destroyed; freed when none of it is in use */
        uint64_t threshold, limit;
        uint64_t reserved, reserved_high, used, used_high;
};

/* Makes a pool. limit: most bytes that it may hold, 0 = no limit. NULL: out of memory. */
struct dcu_pool *dcu_pool_new(uint64_t limit);
/* The device's default pool; NULL: out of memory. */
struct dcu_pool *dcu_pool_default(void);
struct dcu_pool *dcu_pool_of(CUmemoryPool handle); /* NULL: no live pool has that handle */
/* The pool takes no more allocations, and is freed when its allocations are. */
void dcu_pool_destroy(struct dcu_pool *pool);

/* Allocates *ret for work submitted to the slot from now on; adds a range. */
CUresult dcu_pool_alloc(struct dcu_pool *pool, uint32_t slot, size_t bytes, CUdeviceptr *ret);
/* Frees after the work submitted to the slot so far. CUDA_ERROR_INVALID_VALUE: not an allocation of a pool. */
CUresult dcu_pool_free(CUdeviceptr address, uint32_t slot);
/* Frees after all work submitted so far, and waits for it. */
CUresult dcu_pool_free_now(CUdeviceptr address);
/* Returns empty chunks until the pool holds at most so many bytes. */
void dcu_pool_trim(struct dcu_pool *pool, uint64_t keep);
/* The handle of the pool of a range's block. */
CUmemoryPool dcu_pool_of_block(const void *block);

extern _Atomic int dcu_pool_excess; /* 1: some pool holds more than its threshold */
void dcu_pool_release_excess(void);
/* The program has waited for work: trims pools to their thresholds. */
static inline void dcu_pool_synchronized(void)
{
        if (__builtin_expect(atomic_load_explicit(&dcu_pool_excess, memory_order_relaxed), 0))
                dcu_pool_release_excess();
}
/* The session was reset: forgets everything in the pools. */
void dcu_pool_reset(void);

/* Attributes: a copy of the pool's figures, and changing one. A reset high-water mark starts at the current value. */
enum dcu_pool_setting { DCU_POOL_REUSE, DCU_POOL_THRESHOLD, DCU_POOL_RESERVED_HIGH, DCU_POOL_USED_HIGH };
void dcu_pool_get(struct dcu_pool *pool, struct dcu_pool *ret);
void dcu_pool_set(struct dcu_pool *pool, enum dcu_pool_setting setting, uint64_t value);
