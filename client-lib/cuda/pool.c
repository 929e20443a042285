/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks and blocks of memory pools
 *
 * The blocks of a chunk tile it, in a list sorted by address; free blocks are also in their pool's list of spare ones.
 * A free block has at most one mark, which must end before streams other than the mark's may get the block.
 * Neighbouring free blocks are merged if they have no mark, or marks of one stream; the later mark then counts.
 */
#include <stdlib.h>

#include "cuda/kept.h"
#include "cuda/pool.h"
#include "cuda/range.h"

#define ALIGN 512u
#define CHUNK_BYTES (32ull << 20)
#define LARGE_ALIGN (2ull << 20)
#define NO_SLOT UINT32_MAX

struct dcu_block {
        struct dcu_chunk *chunk;
        struct dcu_block *before, *after; /* neighbours in the chunk */
        struct dcu_block *prev, *next;    /* links of the pool's list of spare blocks */
        uint64_t base, size;
        int used;
        uint32_t slot; /* stream slot of the last free (the mark); NO_SLOT: the block has no mark */
        uint64_t seq;
};

struct dcu_chunk {
        struct dcu_pool *pool;
        struct dcu_chunk *prev, *next;
        struct dcu_block *first;
        uint64_t base, size;
};

/* The object behind a pool's handle; the pool may outlive it. */
struct dcu_pool_face {
        struct dcu_object head;
        struct dcu_pool *pool;
};

/* Taken after dcu.lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The pool without a handle behind small allocations of cuMemAlloc(). Its blocks are usable by every stream at once. */
static struct dcu_pool plain = {.reuse = DCU_REUSE_OPPORTUNISTIC, .threshold = UINT64_MAX};
static struct dcu_pool *pools = &plain, *default_pool;
static struct dcu_chunk *offered; /* the empty chunk of `plain` that the daemon may take; NULL: none */
static uint64_t offer;            /* its number, dsc_mem_offer() */
_Atomic int dcu_pool_excess;

/* --- lists --- */

static void spare_add(struct dcu_pool *pool, struct dcu_block *block)
{
        block->prev = NULL;
        block->next = pool->spare;
        if (pool->spare)
                pool->spare->prev = block;
        pool->spare = block;
}

static void spare_take(struct dcu_pool *pool, struct dcu_block *block)
{
        if (block->prev)
                block->prev->next = block->next;
        else
                pool->spare = block->next;
        if (block->next)
                block->next->prev = block->prev;
        block->prev = block->next = NULL;
}

/* --- marks --- */

static int ended(struct dcu_block *block)
{
        if (block->slot != NO_SLOT && dsc_peek(dcu.session, block->slot, block->seq) != CUDA_ERROR_NOT_READY)
                block->slot = NO_SLOT;
        return block->slot == NO_SLOT;
}

static int joins(const struct dcu_block *a, const struct dcu_block *b)
{
        return a && b && !a->used && !b->used && a->slot == b->slot;
}

/* Merges two neighbouring free blocks into `left`. */
static void join(struct dcu_pool *pool, struct dcu_block *left, struct dcu_block *right)
{
        left->size += right->size;
        left->seq = right->seq > left->seq ? right->seq : left->seq;
        left->after = right->after;
        if (right->after)
                right->after->before = left;
        spare_take(pool, right);
        free(right);
}

/* Merges the block with its neighbours where possible. */
static struct dcu_block *join_around(struct dcu_pool *pool, struct dcu_block *block)
{
        if (joins(block, block->after))
                join(pool, block, block->after);
        if (joins(block->before, block)) {
                block = block->before;
                join(pool, block, block->after);
        }
        return block;
}

/* Removes the marks of spare blocks whose frees have ended, and merges the blocks that this allows. */
static void settle_spare(struct dcu_pool *pool)
{
        struct dcu_block *block;

        for (block = pool->spare; block; block = block->next)
                (void)ended(block);
        for (struct dcu_chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
                for (block = chunk->first; block; block = block->after)
                        while (joins(block, block->after))
                                join(pool, block, block->after);
}

/* --- chunks --- */

static struct dcu_block *chunk_add(struct dcu_pool *pool, uint64_t base, uint64_t size)
{
        struct dcu_chunk *chunk = calloc(1, sizeof(*chunk));
        struct dcu_block *block = calloc(1, sizeof(*block));

        if (!chunk || !block) {
                free(chunk);
                free(block);
                return NULL;
        }
        *chunk = (struct dcu_chunk){.pool = pool, .next = pool->chunks, .first = block, .base = base, .size = size};
        if (pool->chunks)
                pool->chunks->prev = chunk;
        pool->chunks = chunk;
        *block = (struct dcu_block){.chunk = chunk, .base = base, .size = size, .slot = NO_SLOT};
        spare_add(pool, block);
        pool->reserved += size;
        if (pool->reserved > pool->reserved_high)
                pool->reserved_high = pool->reserved;
        return block;
}

/* How the daemon frees the memory of a dropped chunk. */
enum drop {
        DROP_HERE,  /* not at all: a reset of the session frees it, or the daemon has taken it */
        DROP_LATER, /* after the submitted work; the caller does not wait */
        DROP_NOW,   /* after the submitted work; the caller waits */
};

/* Frees the chunk and its blocks, and its memory in the daemon as `how` says. */
static void chunk_drop(struct dcu_chunk *chunk, enum drop how)
{
        struct dcu_pool *pool = chunk->pool;
        struct dcu_block *block, *next;
        struct dcu_range range;

        if (chunk == offered) {
                offered = NULL;
                if (!dsc_mem_withdraw(dcu.session, offer))
                        how = DROP_HERE;
        }
        for (block = chunk->first; block; block = next) {
                next = block->after;
                if (block->used)
                        (void)dcu_range_remove(block->base, 1u << DCU_RANGE_POOL | 1u << DCU_RANGE_DEVICE, &range);
                else
                        spare_take(pool, block);
                free(block);
        }
        if (chunk->prev)
                chunk->prev->next = chunk->next;
        else
                pool->chunks = chunk->next;
        if (chunk->next)
                chunk->next->prev = chunk->prev;
        pool->reserved -= chunk->size;
        if (how == DROP_NOW)
                (void)dsc_mem_free(dcu.session, chunk->base);
        else if (how == DROP_LATER)
                (void)dsc_mem_free_later(dcu.session, chunk->base);
        free(chunk);
}

/* Returns empty chunks to the daemon until the pool holds `keep` bytes. wait: waits for unfinished frees, so that
 * more chunks become empty, and until the daemon has freed the chunks. */
static void trim(struct dcu_pool *pool, uint64_t keep, int wait)
{
        struct dcu_chunk *chunk, *next;

        settle_spare(pool);
        for (chunk = pool->chunks; chunk && pool->reserved > keep; chunk = next) {
                const struct dcu_block *block = chunk->first;
                int whole = 1;

                next = chunk->next;
                for (; block && whole; block = block->after) {
                        if (!block->used && block->slot != NO_SLOT && wait)
                                (void)dsc_wait(dcu.session, block->slot, block->seq);
                        whole = !block->used && (block->slot == NO_SLOT || wait);
                }
                if (whole)
                        chunk_drop(chunk, wait ? DROP_NOW : DROP_LATER);
        }
}

/*
 * Size of the pool's next chunk, bytes. Chunks for cuMemAlloc() begin at 2 MiB, as the driver's do, and grow with the
 * memory in use: a small program is charged little more than it uses, and a large one makes few requests.
 */
static uint64_t chunk_bytes(const struct dcu_pool *pool)
{
        uint64_t size = pool == &plain ? pool->reserved / 4 & ~(LARGE_ALIGN - 1) : CHUNK_BYTES;

        if (size < LARGE_ALIGN)
                return LARGE_ALIGN;
        return size < CHUNK_BYTES ? size : CHUNK_BYTES;
}

/* Returns a block in a new chunk. NULL: the pool is at its limit, or memory is short. */
static struct dcu_block *grow(struct dcu_pool *pool, uint64_t bytes)
{
        uint64_t most =
                pool->limit ? pool->limit - (pool->reserved < pool->limit ? pool->reserved : pool->limit) : UINT64_MAX;
        uint64_t least = bytes > UINT64_MAX - LARGE_ALIGN ? bytes : (bytes + LARGE_ALIGN - 1) & ~(LARGE_ALIGN - 1);
        uint64_t usual = chunk_bytes(pool), size = least > usual ? least : usual, base;
        struct dcu_block *block;

        if (most < least)
                return NULL;
        size = size < most ? size : least;
        if (dsc_mem_alloc(dcu.session, size, &base)) {
                if (size == least || dsc_mem_alloc(dcu.session, least, &base))
                        return NULL;
                size = least;
        }
        block = chunk_add(pool, base, size);
        if (!block)
                (void)dsc_mem_free_later(dcu.session, base);
        return block;
}

/* --- blocks --- */

/* Returns the smallest spare block that is large enough. any: 1 also blocks that the stream of this slot must wait
 * for. NULL: none fits. */
static struct dcu_block *fitting(const struct dcu_pool *pool, uint64_t bytes, uint32_t slot, int any)
{
        struct dcu_block *best = NULL;

        for (struct dcu_block *block = pool->spare; block; block = block->next) {
                if (block->size < bytes || (best && best->size <= block->size))
                        continue;
                if (any || block->slot == NO_SLOT || block->slot == slot)
                        best = block;
                if (best && best->size == bytes)
                        break;
        }
        return best;
}

/* Splits off the rest of the block as a spare block. 0: no memory for a block structure, so the whole block is used. */
static int split(struct dcu_pool *pool, struct dcu_block *block, uint64_t bytes)
{
        struct dcu_block *rest;

        if (block->size == bytes)
                return 1;
        rest = calloc(1, sizeof(*rest));
        if (!rest)
                return 0;
        *rest = (struct dcu_block){.chunk = block->chunk,
                .before = block,
                .after = block->after,
                .base = block->base + bytes,
                .size = block->size - bytes,
                .slot = block->slot,
                .seq = block->seq};
        if (block->after)
                block->after->before = rest;
        block->after = rest;
        block->size = bytes;
        spare_add(pool, rest);
        return 1;
}

static struct dcu_block *wait_for_one(struct dcu_pool *pool, uint64_t bytes, uint32_t slot)
{
        struct dcu_block *block = pool->reuse & DCU_REUSE_INTERNAL ? fitting(pool, bytes, slot, 1) : NULL;

        if (block && dsc_stream_wait(dcu.session, slot, block->slot, block->seq))
                return NULL;
        return block;
}

/* Returns all empty chunks. wait: as in trim(). */
static void trim_all(int wait)
{
        for (struct dcu_pool *pool = pools; pool; pool = pool->next)
                trim(pool, 0, wait);
}

static struct dcu_block *find(struct dcu_pool *pool, uint64_t bytes, uint32_t slot)
{
        struct dcu_block *block = fitting(pool, bytes, slot, 0);

        if (!block && (pool->reuse & DCU_REUSE_OPPORTUNISTIC)) {
                settle_spare(pool);
                block = fitting(pool, bytes, slot, 0);
        }
        if (!block)
                block = grow(pool, bytes);
        if (!block)
                block = wait_for_one(pool, bytes, slot);
        if (block || pool == &plain)
                return block;
        trim_all(1);
        block = fitting(pool, bytes, slot, 0);
        return block ? block : grow(pool, bytes);
}

/* Makes the block an allocation: cuts it to `bytes` and adds the range, whose address and detail it fills in. */
static CUresult take(struct dcu_pool *pool, struct dcu_block *block, uint64_t bytes, struct dcu_range *range)
{
        CUresult r = split(pool, block, bytes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

        range->base = block->base;
        range->detail = block;
        if (r == CUDA_SUCCESS)
                r = dcu_range_add(range);

        if (r != CUDA_SUCCESS)
                return r == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_UNKNOWN : r;
        spare_take(pool, block);
        block->used = 1;
        block->slot = NO_SLOT;
        block->seq = 0;
        pool->used += block->size;
        if (pool->used > pool->used_high)
                pool->used_high = pool->used;
        return CUDA_SUCCESS;
}

CUresult dcu_pool_alloc(struct dcu_pool *pool, uint32_t slot, size_t bytes, CUdeviceptr *ret)
{
        uint64_t rounded = ((uint64_t)bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
        struct dcu_range range = {.size = bytes, .kind = DCU_RANGE_POOL};
        struct dcu_block *block;
        CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

        if (rounded < bytes)
                return r;
        pthread_mutex_lock(&lock);
        block = find(pool, rounded, slot);
        if (block)
                r = take(pool, block, rounded, &range);
        if (r == CUDA_SUCCESS)
                *ret = block->base;
        pthread_mutex_unlock(&lock);
        return r;
}

static void pool_free(struct dcu_pool *pool)
{
        while (pool->chunks)
                chunk_drop(pool->chunks, DROP_LATER);
        if (pool->prev)
                pool->prev->next = pool->next;
        else
                pools = pool->next;
        if (pool->next)
                pool->next->prev = pool->prev;
        free(pool);
}

static void give_back(struct dcu_block *block, uint32_t slot, uint64_t seq)
{
        struct dcu_pool *pool = block->chunk->pool;

        pool->used -= block->size;
        block->used = 0;
        block->slot = slot;
        block->seq = seq;
        spare_add(pool, block);
        join_around(pool, block);
        if (pool->dying && !pool->used)
                pool_free(pool);
        else if (pool->reserved > pool->threshold)
                atomic_store_explicit(&dcu_pool_excess, 1, memory_order_relaxed);
}

CUresult dcu_pool_free(CUdeviceptr address, uint32_t slot)
{
        struct dcu_range range;
        uint64_t seq = 0;
        CUresult r;

        pthread_mutex_lock(&lock);
        if (!dcu_range_remove(address, 1u << DCU_RANGE_POOL, &range)) {
                pthread_mutex_unlock(&lock);
                return CUDA_ERROR_INVALID_VALUE;
        }
        /* slot 0 joins with all blocking streams, so the end of its last operation does not prove that their work
         * has ended */
        r = dcu_result(dsc_event_record(dcu.session, slot, 0, &seq));
        give_back(range.detail, r == CUDA_SUCCESS ? slot : NO_SLOT, seq);
        pthread_mutex_unlock(&lock);
        return r;
}

CUresult dcu_pool_free_now(CUdeviceptr address)
{
        struct dcu_range range;
        CUresult r;

        if (!dcu_range_find(address, &range) || range.base != address || range.kind != DCU_RANGE_POOL)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_result(dsc_wait_all(dcu.session));
        pthread_mutex_lock(&lock);
        if (dcu_range_remove(address, 1u << DCU_RANGE_POOL, &range))
                give_back(range.detail, NO_SLOT, 0);
        else
                r = CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_unlock(&lock);
        return r;
}

/* --- allocations outside of pools: cuMemAlloc() --- */

/* Allocates memory of its own in the daemon. If memory is short, first returns the empty chunks of all pools. It waits
 * for submitted work without the lock: that work may wait for a value that another thread writes after an allocation. */
static CUresult alloc_direct(struct dcu_range *range)
{
        int r = dcu_kept_take(range->size, &range->base) ? 0 : dsc_mem_alloc(dcu.session, range->size, &range->base);

        if (dcu_result(r) == CUDA_ERROR_OUT_OF_MEMORY) {
                (void)dsc_wait_all(dcu.session); /* result ignored: after an error the work has ended, too */
                pthread_mutex_lock(&lock);
                trim_all(0);
                pthread_mutex_unlock(&lock);
                r = dsc_mem_alloc(dcu.session, range->size, &range->base);
        }
        if (r)
                return dcu_result(r);
        range->detail = NULL;
        if (dcu_range_add(range) == CUDA_SUCCESS)
                return CUDA_SUCCESS;
        (void)dsc_mem_free(dcu.session, range->base);
        return CUDA_ERROR_OUT_OF_MEMORY;
}

/* As find(), for `plain`: the block is in no chunk that the daemon may take. */
static struct dcu_block *plain_find(uint64_t bytes)
{
        for (;;) {
                struct dcu_block *block = find(&plain, bytes, NO_SLOT);
                struct dcu_chunk *chunk = block ? block->chunk : NULL;

                if (!chunk || chunk != offered)
                        return block;
                offered = NULL;
                if (dsc_mem_withdraw(dcu.session, offer))
                        return block;
                chunk_drop(chunk, DROP_HERE);
        }
}

CUresult dcu_plain_alloc(struct dcu_context *owner, size_t bytes, CUdeviceptr *ret)
{
        struct dcu_range range = {.size = bytes, .kind = DCU_RANGE_DEVICE, .sync_memops = 1, .owner = owner};
        struct dcu_block *block = NULL;
        /* an allocation that makes no request must find out, too, that the daemon is gone */
        CUresult r = dcu_result(dsc_peek(dcu.session, 0, 0));

        if (r != CUDA_SUCCESS)
                return r;
        if (bytes < LARGE_ALIGN) {
                uint64_t rounded = ((uint64_t)bytes + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);

                pthread_mutex_lock(&lock);
                block = plain_find(rounded);
                if (block)
                        r = take(&plain, block, rounded, &range);
                pthread_mutex_unlock(&lock);
        }
        if (!block) /* also a small allocation, where less than a chunk is left */
                r = alloc_direct(&range);
        if (r == CUDA_SUCCESS)
                *ret = range.base;
        return r;
}

static int is_empty(const struct dcu_chunk *chunk)
{
        return !chunk->first->used && !chunk->first->after;
}

/*
 * Returns the empty chunks: all of them if no memory is in use, else all but one, which the next allocation may need.
 * The daemon may take that one when another session needs memory, at once: so no submitted work may use it, even work
 * that the daemon has not read yet.
 */
static void plain_bound(void)
{
        struct dcu_chunk *chunk, *next;

        if (offered && !dsc_mem_offered(dcu.session, offer))
                chunk_drop(offered, DROP_HERE);
        for (chunk = plain.chunks; chunk; chunk = next) {
                next = chunk->next;
                if (plain.used == 0)
                        chunk_drop(chunk, DROP_LATER);
                else if (chunk != offered && is_empty(chunk)) {
                        if (!offered && ended(chunk->first) && (offer = dsc_mem_offer(dcu.session, chunk->base)))
                                offered = chunk;
                        else
                                chunk_drop(chunk, DROP_LATER);
                }
        }
}

/* Gives a block of cuMemAlloc() back. slot, seq: mark of the free; NO_SLOT: the block's work has ended. */
static void plain_give_back(struct dcu_block *block, uint32_t slot, uint64_t seq)
{
        struct dcu_chunk *chunk = block->chunk;

        give_back(block, slot, seq);
        if (plain.used == 0 || is_empty(chunk))
                plain_bound();
}

CUresult dcu_plain_free(CUdeviceptr address)
{
        struct dcu_range range;
        CUresult r = CUDA_SUCCESS;
        int found, keep;

        if (!dcu_range_find(address, &range) || range.base != address || range.kind != DCU_RANGE_DEVICE)
                return CUDA_ERROR_INVALID_VALUE;
        keep = !range.detail && dcu_kept_wants(range.size);
        if (range.detail || keep)
                r = dcu_result(dsc_wait_all(dcu.session));
        pthread_mutex_lock(&lock);
        found = dcu_range_remove(address, 1u << DCU_RANGE_DEVICE, &range);
        if (found && range.detail)
                plain_give_back(range.detail, NO_SLOT, 0);
        pthread_mutex_unlock(&lock);
        if (!found)
                return CUDA_ERROR_INVALID_VALUE;
        if (range.detail || (keep && r == CUDA_SUCCESS && dcu_kept_put(address)))
                return r;
        return dcu_result(dsc_mem_free(dcu.session, address));
}

CUresult dcu_plain_free_later(CUdeviceptr address, uint32_t slot)
{
        struct dcu_range range;
        CUresult r = CUDA_SUCCESS;
        uint64_t seq = 0;

        pthread_mutex_lock(&lock);
        if (!dcu_range_remove(address, 1u << DCU_RANGE_DEVICE, &range)) {
                r = CUDA_ERROR_INVALID_VALUE;
        } else if (!range.detail) {
                r = dcu_result(dsc_mem_free_later(dcu.session, address));
        } else {
                r = dcu_result(dsc_event_record(dcu.session, slot, 0, &seq));
                plain_give_back(range.detail, r == CUDA_SUCCESS ? slot : NO_SLOT, seq);
        }
        pthread_mutex_unlock(&lock);
        return r;
}

void dcu_plain_free_removed(const struct dcu_range *range)
{
        if (!range->detail) {
                (void)dsc_mem_free(dcu.session, range->base);
                return;
        }
        (void)dsc_wait_all(dcu.session); /* result ignored: after an error the work has ended, too */
        pthread_mutex_lock(&lock);
        plain_give_back(range->detail, NO_SLOT, 0);
        pthread_mutex_unlock(&lock);
}

int dcu_plain_place(CUdeviceptr address, struct dcu_range *ret, uint64_t *ret_place)
{
        const struct dcu_block *block;
        int found;

        pthread_mutex_lock(&lock); /* the block lives as long as its range is in the table */
        found = dcu_range_find(address, ret) && ret->kind == DCU_RANGE_DEVICE;
        if (found) {
                block = ret->detail;
                *ret_place = block ? block->chunk->base : ret->base;
        }
        pthread_mutex_unlock(&lock);
        return found;
}

/* --- pools --- */

struct dcu_pool *dcu_pool_new(uint64_t limit)
{
        struct dcu_pool *pool = calloc(1, sizeof(*pool));
        struct dcu_pool_face *face = NULL;

        if (!pool)
                return NULL;
        pthread_mutex_lock(&dcu.lock);
        face = dcu_object_new(DCU_POOL, sizeof(*face), NULL);
        if (face) {
                face->pool = pool;
                pool->face = face;
                pool->handle = dcu_handle(face);
        }
        pthread_mutex_unlock(&dcu.lock);
        if (!face) {
                free(pool);
                return NULL;
        }
        pool->limit = limit;
        pool->reuse = DCU_REUSE_EVENTS | DCU_REUSE_OPPORTUNISTIC | DCU_REUSE_INTERNAL;
        pthread_mutex_lock(&lock);
        pool->next = pools;
        if (pools)
                pools->prev = pool;
        pools = pool;
        pthread_mutex_unlock(&lock);
        return pool;
}

struct dcu_pool *dcu_pool_default(void)
{
        static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

        pthread_mutex_lock(&making);
        if (!default_pool)
                default_pool = dcu_pool_new(0);
        pthread_mutex_unlock(&making);
        return default_pool;
}

struct dcu_pool *dcu_pool_of(CUmemoryPool handle)
{
        const struct dcu_pool_face *face = dcu_object_of(handle, DCU_POOL);

        return face ? face->pool : NULL;
}

void dcu_pool_destroy(struct dcu_pool *pool)
{
        pthread_mutex_lock(&dcu.lock);
        dcu_object_free(&pool->face->head);
        pool->face = NULL;
        pthread_mutex_unlock(&dcu.lock);
        pthread_mutex_lock(&lock);
        pool->dying = 1;
        if (!pool->used)
                pool_free(pool);
        pthread_mutex_unlock(&lock);
}

void dcu_pool_trim(struct dcu_pool *pool, uint64_t keep)
{
        pthread_mutex_lock(&lock);
        trim(pool, keep, 0);
        pthread_mutex_unlock(&lock);
}

CUmemoryPool dcu_pool_of_block(const void *block)
{
        return ((const struct dcu_block *)block)->chunk->pool->handle;
}

void dcu_pool_release_excess(void)
{
        int excess = 0;

        pthread_mutex_lock(&lock);
        for (struct dcu_pool *pool = pools; pool; pool = pool->next) {
                uint64_t keep = pool->threshold;

                if (pool->reserved > keep)
                        trim(pool, keep, 0);
                excess |= pool->reserved > keep && pool->spare;
        }
        atomic_store_explicit(&dcu_pool_excess, excess, memory_order_relaxed);
        pthread_mutex_unlock(&lock);
}

void dcu_pool_reset(void)
{
        struct dcu_pool *pool, *next;

        dcu_kept_reset();
        pthread_mutex_lock(&lock);
        for (pool = pools; pool; pool = next) {
                next = pool->next;
                while (pool->chunks)
                        chunk_drop(pool->chunks, DROP_HERE);
                pool->used = 0;
                if (pool->dying)
                        pool_free(pool);
        }
        pthread_mutex_unlock(&lock);
}

void dcu_pool_get(struct dcu_pool *pool, struct dcu_pool *ret)
{
        pthread_mutex_lock(&lock);
        *ret = *pool;
        pthread_mutex_unlock(&lock);
}

void dcu_pool_set(struct dcu_pool *pool, enum dcu_pool_setting setting, uint64_t value)
{
        pthread_mutex_lock(&lock);
        switch (setting) {
        case DCU_POOL_REUSE:
                pool->reuse = (unsigned int)value;
                break;
        case DCU_POOL_THRESHOLD:
                pool->threshold = value;
                if (pool->reserved > value)
                        atomic_store_explicit(&dcu_pool_excess, 1, memory_order_relaxed);
                break;
        case DCU_POOL_RESERVED_HIGH:
                pool->reserved_high = pool->reserved;
                break;
        case DCU_POOL_USED_HIGH:
                pool->used_high = pool->used;
                break;
        }
        pthread_mutex_unlock(&lock);
}
