/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools, and cuMemAlloc(): allocation without a request to the daemon
 *
 * A pool gets chunks of device memory from the daemon and carves blocks out of them here, so an allocation returns at
 * once. A free is an operation of its stream (a mark, with a sequence number). The block may be reused by the same
 * stream at once, because later work of that stream runs later, and by other streams when the mark has ended. If no
 * block fits, the pool grows. If it cannot grow, the allocating stream waits for a mark (if the pool may insert
 * dependencies); at last the caller waits for frees until chunks can be returned.
 *
 * When the program synchronises, chunks beyond the pool's release threshold go back to the daemon. The default pool
 * lives as long as the process. Pools belong to the device, not to a context; a reset of the session empties them.
 *
 * Allocations of cuMemAlloc() below 2 MiB are blocks of chunks of 2 to 32 MiB too; larger ones are allocations of the
 * daemon, of which some stay with the client when they are freed (kept.h). The daemon charges a chunk to the session
 * from the moment that the client gets it. Of empty chunks the client keeps one, which the worker may free when memory
 * is needed; when the program frees its last small allocation, the client keeps none. Before an allocation fails, the
 * client returns the empty chunks of all pools and tries again.
 */
#pragma once

#include <stdatomic.h>

#include "cuda/context.h"

struct dcu_chunk;
struct dcu_block;
struct dcu_range;

enum dcu_pool_reuse { DCU_REUSE_EVENTS = 1, DCU_REUSE_OPPORTUNISTIC = 2, DCU_REUSE_INTERNAL = 4 };

struct dcu_pool_face;

/* Protected by the lock of the allocator. */
struct dcu_pool {
        struct dcu_pool_face *face; /* object of the handle; NULL: the program destroyed the pool */
        CUmemoryPool handle;
        struct dcu_pool *prev, *next; /* links of the list of all pools */
        struct dcu_chunk *chunks;
        struct dcu_block *spare; /* free blocks, in no order */
        unsigned int reuse;      /* bits of enum dcu_pool_reuse */
        int dying;               /* 1: the program destroyed the pool; it is freed with its last allocation */
        uint64_t threshold, limit;
        uint64_t reserved, reserved_high, used, used_high;
};

/* Makes a pool. limit: most bytes that it may hold, 0 = no limit. NULL: out of memory. */
struct dcu_pool *dcu_pool_new(uint64_t limit);
/* Returns the device's default pool, which lives as long as the process; NULL: out of memory. */
struct dcu_pool *dcu_pool_default(void);
struct dcu_pool *dcu_pool_of(CUmemoryPool handle); /* NULL: no live pool has that handle */
/* Destroys the pool for the program: it takes no more allocations, and is freed with its last allocation. */
void dcu_pool_destroy(struct dcu_pool *pool);

/* *ret: address of memory for work that the slot gets from now on. Adds a range for the memory. */
CUresult dcu_pool_alloc(struct dcu_pool *pool, uint32_t slot, size_t bytes, CUdeviceptr *ret);
/* Frees the memory after all work that the slot got so far. CUDA_ERROR_INVALID_VALUE: the address is no allocation
 * of a pool. */
CUresult dcu_pool_free(CUdeviceptr address, uint32_t slot);
/* Frees the memory after all work submitted so far, and waits for that work. */
CUresult dcu_pool_free_now(CUdeviceptr address);
/* cuMemAlloc(): memory of a context, at an address that is a multiple of 512. Adds a range of kind DEVICE for it. */
CUresult dcu_plain_alloc(struct dcu_context *owner, size_t bytes, CUdeviceptr *ret);
/* Frees memory of dcu_plain_alloc() or a DEVICE range of the daemon. Waits for all work submitted so far.
 * CUDA_ERROR_INVALID_VALUE: no such memory begins at the address. */
CUresult dcu_plain_free(CUdeviceptr address);
/* As dcu_plain_free(), but does not wait: the memory is reused after all work that the slot got so far. */
CUresult dcu_plain_free_later(CUdeviceptr address, uint32_t slot);
/* As dcu_plain_free(), for a range that is no longer in the table. */
void dcu_plain_free_removed(const struct dcu_range *range);
/* 1: *ret is the DEVICE range that contains the address, *ret_place the first address of the daemon's allocation around
 * it. */
int dcu_plain_place(CUdeviceptr address, struct dcu_range *ret, uint64_t *ret_place);
/* Returns empty chunks to the daemon until the pool holds at most `keep` bytes. */
void dcu_pool_trim(struct dcu_pool *pool, uint64_t keep);
/* Returns the handle of the pool to which the block belongs. */
CUmemoryPool dcu_pool_of_block(const void *block);

extern _Atomic int dcu_pool_excess; /* 1: some pool holds more than its threshold */
void dcu_pool_release_excess(void);
/* Call when the program has waited for work: reduces each pool to its release threshold. */
static inline void dcu_pool_synchronized(void)
{
        if (__builtin_expect(atomic_load_explicit(&dcu_pool_excess, memory_order_relaxed), 0))
                dcu_pool_release_excess();
}
/* Call after a reset of the session: forgets all chunks and blocks. */
void dcu_pool_reset(void);

/* dcu_pool_get() copies the pool's figures; dcu_pool_set() changes one. A reset high-water mark begins at the
 * current value. */
enum dcu_pool_setting { DCU_POOL_REUSE, DCU_POOL_THRESHOLD, DCU_POOL_RESERVED_HIGH, DCU_POOL_USED_HIGH };
void dcu_pool_get(struct dcu_pool *pool, struct dcu_pool *ret);
void dcu_pool_set(struct dcu_pool *pool, enum dcu_pool_setting setting, uint64_t value);
