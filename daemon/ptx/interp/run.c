/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running blocks: warps take turns until all have exited
 *
 * Each warp runs until it waits at a barrier, exits, or has used its slice; then the next warp runs, over all blocks of
 * the cluster. Nothing depends on time or on other threads, so every run has the same result. If no warp can continue
 * although some have not exited, their barriers can never complete, and one of their blocks faults. A fault ends the
 * whole cluster. The shared memory of a block that has ended stays until all blocks have ended.
 *
 * All memory that a kernel can read is zeroed or filled before it starts: no data of an earlier block, which may have
 * been another client's, is visible.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "ptx/interp/core.h"
#include "util/alloc.h"
#include "util/error.h"

static int forced_isa = -1;

void ds_ix_force_isa(int isa)
{
        forced_isa = isa;
}

static struct {
        uint64_t slice;
        int backwards;
        uint8_t fill;
} turns = {DS_IX_SLICE, 0, 0};

void ds_ix_force_turns(uint32_t slice, int backwards, uint8_t fill)
{
        turns.slice = slice ? slice : DS_IX_SLICE;
        turns.backwards = backwards;
        turns.fill = fill;
}

uint64_t ds_ix_slice(void)
{
        return turns.slice;
}

int ds_ix_isa(void)
{
        if (forced_isa >= 0)
                return forced_isa;
#if defined(__x86_64__)
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
                return DS_IX_ISA_AVX2;
#endif
        return DS_IX_ISA_BASE;
}

static void record(ds_ix_warp *w, const ds_ix_op *op, enum ds_interp_fault fault, uint32_t lane, uint64_t address,
        const char *fmt, va_list args)
{
        const ds_ix_block *block = w->block;
        struct ds_interp_result *r = block->result;
        const uint32_t *dim = block->launch->block;
        uint32_t thread = w->index * DS_IX_LANES + lane;
        int n;

        if (r->fault)
                return;
        r->fault = fault;
        r->address = address;
        r->line = op ? op->line : 0;
        r->thread[0] = thread % dim[0];
        r->thread[1] = thread / dim[0] % dim[1];
        r->thread[2] = thread / dim[0] / dim[1];
        n = snprintf(r->message, sizeof(r->message), "%.60s: ", block->kernel->info.name);
        (void)vsnprintf(r->message + n, sizeof(r->message) - (size_t)n, fmt, args);
}

void ds_ix_record(ds_ix_warp *w, const ds_ix_op *op, enum ds_interp_fault fault, uint32_t lane, uint64_t address,
        const char *fmt, ...)
{
        va_list args;

        va_start(args, fmt);
        record(w, op, fault, lane, address, fmt, args);
        va_end(args);
}

const ds_ix_op *ds_ix_fault(ds_ix_warp *w, const ds_ix_op *op, enum ds_interp_fault fault, uint32_t lane,
        uint64_t address, const char *fmt, ...)
{
        va_list args;

        if (w->block->faulted)
                return NULL;
        w->block->faulted = w->block->cluster->faulted = 1;
        va_start(args, fmt);
        record(w, op, fault, lane, address, fmt, args);
        va_end(args);
        return NULL;
}

/* --- working memory --- */
ds_interp_block *ds_interp_block_new(void)
{
        size_t warps = DS_ALIGN_UP(sizeof(ds_ix_warp), 64) * DS_IX_WARPS;
        ds_cleanup(ds_interp_block_freep) ds_interp_block *block = ds_alloc0(1, sizeof(*block) + 16);

        if (!block)
                return NULL;
        block->memory = ds_alloc0(1, warps + (size_t)DS_IX_SREGS_BYTES * DS_IX_WARPS + 64);
        if (!block->memory)
                return NULL;
        block->warp = (ds_ix_warp *)(void *)DS_ALIGN_UP((uintptr_t)block->memory, 64);
        block->sregs = (uint8_t *)block->warp + warps;
        block->cluster = &block->own;
        return DS_TAKE_PTR(block);
}

static void free_others(ds_interp_block *block)
{
        for (uint32_t i = 1; i < DS_INTERP_CLUSTER_MAX; i++)
                block->other[i] = ds_interp_block_free(block->other[i]);
}

ds_interp_block *ds_interp_block_free(ds_interp_block *block)
{
        if (!block)
                return NULL;
        free_others(block);
        ds_ix_frames_free(block);
        ds_free(block->shared_memory);
        ds_free(block->local_memory);
        ds_free(block->memory);
        ds_free(block->text);
        return ds_free(block);
}

/* Reserves `size` bytes, aligned to 64, in *memory; the previous contents are lost. Returns 0 or -ENOMEM. */
static int reserve(void **memory, uint8_t **area, uint64_t *capacity, uint64_t size)
{
        if (*area && *capacity >= size)
                return 0;
        *memory = ds_free(*memory);
        *area = NULL;
        *capacity = 0;
        *memory = ds_alloc(size + 64);
        if (!*memory)
                return ds_error_origin(-ENOMEM);
        *area = (uint8_t *)DS_ALIGN_UP((uintptr_t)*memory, 64);
        *capacity = size;
        return 0;
}

static int prepare_frames(ds_ix_block *block)
{
        const ds_interp *interp = block->interp;

        if (block->frames_of == interp->serial)
                return 0;
        ds_ix_frames_free(block);
        block->frames_of = 0;
        block->free_frames = ds_alloc0(interp->module->n_functions, sizeof(*block->free_frames));
        if (!block->free_frames)
                return ds_error_origin(-ENOMEM);
        block->n_free_frames = interp->module->n_functions;
        block->frames_of = interp->serial;
        return 0;
}

static int prepare_memory(ds_ix_block *block)
{
        const struct ds_interp_launch *launch = block->launch;
        const ds_interp_kernel *kernel = block->kernel;
        uint64_t shared = (uint64_t)kernel->info.static_shared + launch->dynamic_shared;
        uint64_t threads = (uint64_t)block->n_warps * DS_IX_LANES;
        size_t params = DS_MIN(launch->params_size, (size_t)kernel->info.params_size);
        int r;

        block->local_stride = DS_ALIGN_UP(kernel->info.local_bytes, 16);
        if (shared > DS_IX_MAX_SHARED || threads * block->local_stride * block->cluster->n > DS_IX_MAX_LOCAL_BLOCK)
                return ds_error_origin(-ENOMEM);
        r = reserve(&block->shared_memory, &block->shared, &block->shared_capacity, shared);
        if (r)
                return r;
        r = reserve(&block->local_memory, &block->local, &block->local_capacity, threads * block->local_stride);
        if (r)
                return r;
        block->shared_size = (uint32_t)shared;
        block->shared_base = block->rank << DS_IX_RANK_SHIFT;
        memset(block->shared, turns.fill, shared);
        block->params_size = kernel->info.params_size;
        memset(block->params, 0, block->params_size);
        if (params)
                memcpy(block->params, launch->params, params);
        return prepare_frames(block);
}

/* --- warps --- */
static void zero_local(ds_ix_warp *w)
{
        uint32_t bytes = w->frame->func->local_bytes;

        for (uint32_t i = 0; bytes && i < DS_IX_LANES; i++)
                memset(w->local + (size_t)i * w->block->local_stride, turns.fill, bytes);
}

static int start_warp(ds_ix_block *block, uint32_t index)
{
        ds_ix_warp *w = &block->warp[index];
        uint32_t lanes = DS_MIN(block->n_threads - index * DS_IX_LANES, (uint32_t)DS_IX_LANES);
        ds_ix_func *func = block->kernel->func;
        ds_ix_frame *frame = ds_ix_frame_new(block, func);

        if (!frame)
                return ds_error_origin(-ENOMEM);
        memset(w, 0, offsetof(ds_ix_warp, group));
        w->block = block;
        w->index = index;
        w->live = lanes == DS_IX_LANES ? DS_IX_FULL : (1u << lanes) - 1;
        w->mask = w->live;
        w->base[DS_IX_IN_SREGS] = block->sregs + (size_t)index * DS_IX_SREGS_BYTES;
        w->base[DS_IX_IN_SCRATCH] = w->scratch;
        w->local = block->local + (size_t)index * DS_IX_LANES * block->local_stride;
        w->slice = DS_MIN(block->cluster->left, ds_ix_slice());
        w->fuel = (int64_t)w->slice;
        if (block->launch->n_ranges) {
                w->lo = block->launch->ranges[0].va;
                w->size = block->launch->ranges[0].size;
        }
        w->n_groups = 1;
        w->group[0] = (struct ds_ix_group){.pc = func->ops, .frame = frame, .mask = w->live, .state = DS_IX_READY};
        memset(w->exchange, 0, sizeof(w->exchange));
        w->exchange_pred = 0;
        memset(w->scratch, 0, sizeof(w->scratch));
        ds_ix_sregs_fill(block, w);
        ds_ix_enter_frame(w, frame);
        zero_local(w);
        for (uint32_t i = 0; i < DS_IX_LANES; i++)
                w->stack[i] = block->local_stride;
        return 0;
}

/* Runs warp w until it waits, ends or its slice is over. Returns 1 if it executed anything. */
static int run_warp(ds_ix_warp *w)
{
        const ds_ix_op *op = ds_ix_pick(w);

        if (!op)
                return 0;
        w->idle = 0;
        do
                op = op->fn(w, op);
        while (op);
        ds_ix_account(w);
        w->block->cluster->moved |= !w->idle;
        return 1;
}

static int aborted(const ds_ix_block *block)
{
        const _Atomic uint32_t *flag = block->launch->abort;

        return flag && atomic_load_explicit(flag, memory_order_relaxed);
}

/* Runs each warp of the block for one turn. Returns 1 if one executed anything; *stuck: a warp that has not ended,
 * if any. */
static int run_block(ds_ix_block *block, ds_ix_warp **stuck)
{
        int ran = 0;

        for (uint32_t k = 0; k < block->n_warps && !block->faulted; k++) {
                ds_ix_warp *w = &block->warp[turns.backwards ? block->n_warps - 1 - k : k];

                if (w->n_groups == 0)
                        continue;
                ran |= run_warp(w);
                *stuck = w->n_groups ? w : *stuck;
        }
        return ran;
}

/* Runs each block of the cluster for one turn. Returns 1 if there is more to run. */
static int run_round(struct ds_ix_cluster *cluster)
{
        ds_ix_warp *stuck = NULL;
        int ran = 0;

        cluster->moved = 0;
        for (uint32_t i = 0; i < cluster->n && !cluster->faulted; i++)
                ran |= run_block(cluster->block[i], &stuck);
        if (!stuck || cluster->faulted)
                return 0;
        cluster->idle_rounds = cluster->moved ? 0 : cluster->idle_rounds + 1;
        if (aborted(stuck->block))
                ds_ix_fault(stuck, NULL, DS_INTERP_FAULT_ABORTED, 0, 0, "the launch was aborted");
        else if (!ran)
                ds_ix_fault(stuck, stuck->group[0].pc, DS_INTERP_FAULT_BARRIER,
                        (uint32_t)__builtin_ctz(stuck->group[0].mask), 0,
                        "threads wait for others that will never come");
        return !cluster->faulted;
}

/* --- starting and ending --- */
static void add_cost(struct ds_interp_cost *to, const ds_ix_warp *w)
{
        to->memory_instructions += w->cost.memory_instructions;
        to->sectors += w->cost.sectors;
        to->shared_instructions += w->cost.shared_instructions;
        to->special_instructions += w->cost.special_instructions;
        to->tensor_instructions += w->cost.tensor_instructions;
        to->barriers += w->cost.barriers;
        to->critical_path = DS_MAX(to->critical_path, w->executed);
}

static void finish(ds_ix_block *block)
{
        struct ds_interp_cost *cost = &block->result->cost;

        for (uint32_t k = 0; k < block->n_started; k++) {
                ds_ix_warp *w = &block->warp[k];

                add_cost(cost, w);
                for (uint32_t i = 0; i < w->n_groups; i++)
                        ds_ix_frame_release(block, w->group[i].frame);
                w->n_groups = 0;
        }
        cost->instructions = block->executed;
}

/* Starts one block of the cluster; `first`: the cluster's first block. */
static int start_block(ds_ix_block *block, const struct ds_interp_launch *launch, const uint32_t *first, uint32_t rank)
{
        const uint32_t *dim = block->cluster->dim;
        int r;

        block->launch = launch;
        block->kernel = launch->kernel;
        block->interp = launch->kernel->interp;
        block->rank = rank;
        block->ctaid[0] = first[0] + rank % dim[0];
        block->ctaid[1] = first[1] + rank / dim[0] % dim[1];
        block->ctaid[2] = first[2] + rank / dim[0] / dim[1];
        block->n_threads = launch->block[0] * launch->block[1] * launch->block[2];
        assert(block->n_threads >= 1 && block->n_threads <= DS_IX_WARPS * DS_IX_LANES);
        block->n_warps = DS_DIV_UP(block->n_threads, DS_IX_LANES);
        block->live_threads = block->n_threads;
        block->cluster->live_threads += block->n_threads;
        block->executed = 0;
        block->faulted = 0;
        memset(block->barrier, 0, sizeof(block->barrier));
        r = prepare_memory(block);
        for (; !r && block->n_started < block->n_warps; block->n_started += !r)
                r = start_warp(block, block->n_started);
        return r;
}

/* Prepares the cluster whose first block is `block`, with working memory for all its blocks. 0 or -ENOMEM. */
static int make_cluster(ds_ix_block *block, const struct ds_interp_launch *launch, struct ds_interp_result *results)
{
        struct ds_ix_cluster *cluster = &block->own;

        cluster->n = ds_interp_cluster_blocks(launch);
        assert(cluster->n >= 1 && cluster->n <= DS_INTERP_CLUSTER_MAX);
        for (uint32_t i = 0; i < 3; i++)
                cluster->dim[i] = DS_MAX(launch->cluster[i], 1u);
        if (cluster->n == 1)
                /* frees working memory that an earlier launch left for other blocks, since it may be large */
                free_others(block);
        cluster->left = launch->max_instructions ? launch->max_instructions : DS_IX_DEFAULT_BUDGET;
        cluster->executed = cluster->told = cluster->elsewhere = 0;
        cluster->live_threads = cluster->arrived = 0;
        cluster->faulted = 0;
        cluster->idle_rounds = 0;
        for (uint32_t i = 0; i < cluster->n; i++) {
                if (i && !block->other[i])
                        block->other[i] = ds_interp_block_new();
                cluster->block[i] = i ? block->other[i] : block;
                if (!cluster->block[i])
                        return ds_error_origin(-ENOMEM);
                cluster->block[i]->cluster = cluster;
                cluster->block[i]->result = &results[i];
                cluster->block[i]->n_started = 0;
        }
        return 0;
}

/* Puts every block of a cluster at its first instruction. finish_cluster must follow, also after a failure. */
static int start_cluster(ds_ix_block *block, const struct ds_interp_launch *launch, const uint32_t *first,
        struct ds_interp_result *results)
{
        int r;

        memset(results, 0, ds_interp_cluster_blocks(launch) * sizeof(*results));
        r = make_cluster(block, launch, results);
        if (r)
                block->own.n = 0;
        for (uint32_t i = 0; !r && i < block->own.n; i++)
                r = start_block(block->own.block[i], launch, first, i);
        return r;
}

static void finish_cluster(struct ds_ix_cluster *cluster)
{
        for (uint32_t i = 0; i < cluster->n; i++)
                finish(cluster->block[i]);
}

/* --- the public calls --- */
int ds_interp_run_cluster(ds_interp_block *block, const struct ds_interp_launch *launch, uint32_t x, uint32_t y,
        uint32_t z, struct ds_interp_result *results)
{
        const uint32_t first[3] = {x, y, z};
        int r = start_cluster(block, launch, first, results);

        while (!r && run_round(&block->own))
                ;
        finish_cluster(&block->own);
        return r;
}

/* Runs the clusters of a grid in turns until all have ended. */
static void run_clusters(struct ds_interp_part *parts, uint32_t n)
{
        uint64_t executed = 0;
        uint32_t left = n;

        for (uint32_t i = 0; left > 0; i = (i + 1) % n) {
                struct ds_ix_cluster *cluster = &parts[i].work->own;
                uint64_t before = cluster->executed;

                if (!parts[i].runs)
                        continue;
                cluster->elsewhere = executed - before;
                parts[i].runs = run_round(cluster);
                executed += cluster->executed - before;
                left -= !parts[i].runs;
                if (cluster->faulted)
                        return;
        }
}

int ds_interp_run_grid(struct ds_interp_part *parts, uint32_t n)
{
        uint32_t started = 0;
        int r = 0;

        for (; started < n && !r; started++) {
                struct ds_interp_part *part = &parts[started];

                r = start_cluster(part->work, &part->launch, part->first, part->results);
                part->runs = 1;
        }
        if (!r)
                run_clusters(parts, n);
        for (uint32_t i = 0; i < started; i++)
                finish_cluster(&parts[i].work->own);
        return r;
}

int ds_interp_run_block(ds_interp_block *block, const struct ds_interp_launch *launch, uint32_t x, uint32_t y,
        uint32_t z, struct ds_interp_result *result)
{
        assert(ds_interp_cluster_blocks(launch) == 1);
        return ds_interp_run_cluster(block, launch, x, y, z, result);
}
