/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools: stream-ordered allocation without asking the daemon
 *
 * A pool has chunks of device memory from the daemon and carves blocks out of them here, so an allocation returns at
 * once. A free is an operation of its stream (a mark, with a sequence number): the block may be given out again to the
 * same stream at once, since what is submitted there later runs later, and to any other stream when the mark has ended.
 * When neither is to be had the pool grows; when it cannot grow, the stream that asks is made to wait for a mark
 * (if the pool may insert dependencies), and at last the caller waits for frees until chunks can go back.
 *
 * What a pool holds beyond its release threshold goes back to the daemon when the program synchronises. The default
 * pool is there for as long as the process; pools belong to the device, not to a context, and lose all they hold when
 * the session is reset.
 */
#pragma once

#include <stdatomic.h>

#include "cuda/context.h"

struct dcu_chunk;
struct dcu_block;

enum dcu_pool_reuse { DCU_REUSE_EVENTS = 1, DCU_REUSE_OPPORTUNISTIC = 2, DCU_REUSE_INTERNAL = 4 };

struct dcu_pool_face;

/* Guarded by the allocator's lock. */
struct dcu_pool {
        struct dcu_pool_face *face; /* NULL: destroyed */
        CUmemoryPool handle;
        struct dcu_pool *prev, *next; /* of all pools */
        struct dcu_chunk *chunks;
        struct dcu_block *spare; /* blocks that are free, in no order */
        unsigned int reuse;      /* enum dcu_pool_reuse */
        int dying;               /* destroyed; gone when nothing of it is in use */
        uint64_t threshold, limit;
        uint64_t reserved, reserved_high, used, used_high;
};

/* NULL when out of memory. limit: bytes that it may hold, 0 = no limit. */
struct dcu_pool *dcu_pool_new(uint64_t limit);
/* The device's own; NULL when out of memory. */
struct dcu_pool *dcu_pool_default(void);
struct dcu_pool *dcu_pool_of(CUmemoryPool handle); /* NULL: none that lives */
/* It takes no more allocations, and goes when those that there are have been freed. */
void dcu_pool_destroy(struct dcu_pool *pool);

/* bytes at *ret for what is submitted to the stream slot from now on; noted as a range. */
CUresult dcu_pool_alloc(struct dcu_pool *pool, uint32_t slot, size_t bytes, CUdeviceptr *ret);
/* After what has been submitted to the slot. CUDA_ERROR_INVALID_VALUE: it is no allocation of a pool. */
CUresult dcu_pool_free(CUdeviceptr address, uint32_t slot);
/* After all that has been submitted: waits for that. */
CUresult dcu_pool_free_now(CUdeviceptr address);
/* Give back chunks with nothing in them until the pool holds no more than that. */
void dcu_pool_trim(struct dcu_pool *pool, uint64_t keep);
/* The handle of the pool that a range's block belongs to. */
CUmemoryPool dcu_pool_of_block(const void *block);

extern _Atomic int dcu_pool_excess; /* some pool holds more than its threshold */
void dcu_pool_release_excess(void);
/* The program has waited for work. */
static inline void dcu_pool_synchronized(void)
{
        if (__builtin_expect(atomic_load_explicit(&dcu_pool_excess, memory_order_relaxed), 0))
                dcu_pool_release_excess();
}
/* The session has been reset: nothing is left of what the pools had. */
void dcu_pool_reset(void);

/* For attributes: a copy of the pool's figures; and changing one. The high-water marks begin anew at what is there. */
enum dcu_pool_setting { DCU_POOL_REUSE, DCU_POOL_THRESHOLD, DCU_POOL_RESERVED_HIGH, DCU_POOL_USED_HIGH };
void dcu_pool_get(struct dcu_pool *pool, struct dcu_pool *ret);
void dcu_pool_set(struct dcu_pool *pool, enum dcu_pool_setting setting, uint64_t value);
