/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a block: warps take turns until all have exited
 *
 * Each warp runs until it waits at a barrier, exits, or has used its slice; then the next one. Nothing depends on time
 * or on other threads, so a block does the same in every run. When no warp can go on although some have not exited,
 * their barriers can never complete, and the block faults.
 *
 * All memory that a kernel can read is zeroed or filled before it starts: nothing of an earlier block, which may have
 * been another client's, can be seen.
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
        w->block->faulted = 1;
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
        return DS_TAKE_PTR(block);
}

ds_interp_block *ds_interp_block_free(ds_interp_block *block)
{
        if (!block)
                return NULL;
        ds_ix_frames_free(block);
        ds_free(block->shared_memory);
        ds_free(block->local_memory);
        ds_free(block->memory);
        ds_free(block->text);
        return ds_free(block);
}

/* Room for `size` bytes, aligned to 64, in *memory; what was there is lost. Returns 0 or -ENOMEM. */
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
        if (shared > DS_IX_MAX_SHARED || threads * block->local_stride > DS_IX_MAX_LOCAL_BLOCK)
                return ds_error_origin(-ENOMEM);
        r = reserve(&block->shared_memory, &block->shared, &block->shared_capacity, shared);
        if (r)
                return r;
        r = reserve(&block->local_memory, &block->local, &block->local_capacity, threads * block->local_stride);
        if (r)
                return r;
        block->shared_size = (uint32_t)shared;
        memset(block->shared, 0, shared);
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
                memset(w->local + (size_t)i * w->block->local_stride, 0, bytes);
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
        w->slice = DS_MIN(block->left, (uint64_t)DS_IX_SLICE);
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
        return 0;
}

/* Runs warp w until it waits, ends or its slice is over. Returns whether it ran at all. */
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
        w->block->moved |= !w->idle;
        return 1;
}

static int aborted(const ds_ix_block *block)
{
        const _Atomic uint32_t *flag = block->launch->abort;

        return flag && atomic_load_explicit(flag, memory_order_relaxed);
}

static void run_warps(ds_ix_block *block)
{
        while (!block->faulted) {
                ds_ix_warp *stuck = NULL;
                int ran = 0;

                block->moved = 0;
                for (uint32_t k = 0; k < block->n_warps && !block->faulted; k++) {
                        ds_ix_warp *w = &block->warp[k];

                        if (w->n_groups == 0)
                                continue;
                        ran |= run_warp(w);
                        stuck = w->n_groups ? w : stuck;
                }
                if (!stuck || block->faulted)
                        return;
                block->idle_rounds = block->moved ? 0 : block->idle_rounds + 1;
                if (aborted(block))
                        ds_ix_fault(stuck, NULL, DS_INTERP_FAULT_ABORTED, 0, 0, "the launch was aborted");
                else if (!ran)
                        ds_ix_fault(stuck, stuck->group[0].pc, DS_INTERP_FAULT_BARRIER,
                                (uint32_t)__builtin_ctz(stuck->group[0].mask), 0,
                                "threads wait for others that will never come");
        }
}

/* --- the public call --- */
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

static void finish(ds_ix_block *block, uint32_t n_started)
{
        struct ds_interp_cost *cost = &block->result->cost;

        for (uint32_t k = 0; k < n_started; k++) {
                ds_ix_warp *w = &block->warp[k];

                add_cost(cost, w);
                for (uint32_t i = 0; i < w->n_groups; i++)
                        ds_ix_frame_release(block, w->group[i].frame);
                w->n_groups = 0;
        }
        cost->instructions = block->executed;
}

int ds_interp_run_block(ds_interp_block *block, const struct ds_interp_launch *launch, uint32_t x, uint32_t y,
        uint32_t z, struct ds_interp_result *result)
{
        uint32_t started = 0;
        int r;

        memset(result, 0, sizeof(*result));
        block->launch = launch;
        block->kernel = launch->kernel;
        block->interp = launch->kernel->interp;
        block->result = result;
        block->ctaid[0] = x;
        block->ctaid[1] = y;
        block->ctaid[2] = z;
        block->n_threads = launch->block[0] * launch->block[1] * launch->block[2];
        assert(block->n_threads >= 1 && block->n_threads <= DS_IX_WARPS * DS_IX_LANES);
        block->n_warps = DS_DIV_UP(block->n_threads, DS_IX_LANES);
        block->live_threads = block->n_threads;
        block->left = launch->max_instructions ? launch->max_instructions : DS_IX_DEFAULT_BUDGET;
        block->executed = block->told = 0;
        block->faulted = 0;
        block->idle_rounds = 0;
        memset(block->barrier, 0, sizeof(block->barrier));
        r = prepare_memory(block);
        for (; !r && started < block->n_warps; started++)
                r = start_warp(block, started);
        if (!r)
                run_warps(block);
        finish(block, r && started ? started - 1 : started);
        return r;
}
