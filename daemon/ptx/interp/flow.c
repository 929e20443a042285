/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control flow: jumps, calls, and the groups of a diverged warp
 *
 * A jump on which lanes disagree splits the running group. From then on the warp decides at every jump which group
 * continues: the one deepest in calls and, at that depth, furthest behind in the function's order. Groups at the same
 * operation in the same frame merge. That order puts loops before the code after them. So lanes wait at the end of a
 * loop or branch for the others, and warps become full again without any computed reconvergence point.
 *
 * A group that spins on memory would starve the lane that it waits for. So a group that touched shared state during a
 * slice of instructions is put back one turn, and groups with fewer turns run first.
 */
#include "ptx/interp/core.h"
#include "util/alloc.h"

/* --- frames --- */
/* Frees the frames in the block's free lists. */
static void trim_frames(ds_ix_block *block)
{
        for (uint32_t i = 0; i < block->n_free_frames; i++) {
                while (block->free_frames[i]) {
                        ds_ix_frame *frame = block->free_frames[i];

                        block->free_frames[i] = frame->next_free;
                        block->cluster->frames_bytes -= frame->bytes;
                        ds_free(frame);
                }
        }
}

/* Whether `bytes` more bytes of frames are within the limit, after freeing unused frames if necessary. */
static int frames_fit(struct ds_ix_cluster *cluster, size_t bytes)
{
        uint64_t most = DS_IX_MAX_FRAMES_BYTES * (cluster->n > 1 ? 2 : 1);

        for (uint32_t i = 0; i < cluster->n && cluster->frames_bytes + bytes > most; i++)
                trim_frames(cluster->block[i]);
        return cluster->frames_bytes + bytes <= most;
}

ds_ix_frame *ds_ix_frame_new(ds_ix_block *block, ds_ix_func *func)
{
        ds_ix_frame *frame = block->free_frames[func->ir->index];
        size_t args = (size_t)func->args_bytes * DS_IX_LANES;
        size_t bytes = sizeof(*frame) + 64 + func->frame_bytes + args;

        if (frame) {
                block->free_frames[func->ir->index] = frame->next_free;
        } else {
                if (!frames_fit(block->cluster, bytes))
                        return NULL;
                frame = ds_alloc(bytes);
                if (!frame)
                        return NULL;
                frame->bytes = bytes;
                frame->func = func;
                frame->regs = (uint8_t *)DS_ALIGN_UP((uintptr_t)(frame + 1), 64);
                frame->args = frame->regs + func->frame_bytes;
                block->cluster->frames_bytes += bytes;
        }
        memset(frame->regs, 0, func->frame_bytes + args);
        frame->parent = NULL;
        frame->call = NULL;
        frame->ret = NULL;
        frame->refs = 1;
        frame->depth = 0;
        frame->local_base = 0;
        return frame;
}

/* Drops one reference. A frame without references returns to its function's list and drops its caller's frame. */
void ds_ix_frame_release(ds_ix_block *block, ds_ix_frame *frame)
{
        while (frame && --frame->refs == 0) {
                ds_ix_frame *parent = frame->parent;

                frame->next_free = block->free_frames[frame->func->ir->index];
                block->free_frames[frame->func->ir->index] = frame;
                frame = parent;
        }
}

/* Frees frames in the free lists; every group must have dropped its frame. */
void ds_ix_frames_free(ds_ix_block *block)
{
        trim_frames(block);
        block->free_frames = ds_free(block->free_frames);
        block->n_free_frames = 0;
}

void ds_ix_enter_frame(ds_ix_warp *w, ds_ix_frame *frame)
{
        w->frame = frame;
        w->local_limit = (uint64_t)frame->local_base + frame->func->local_bytes;
        w->base[DS_IX_IN_FRAME] = frame->regs;
        w->base[DS_IX_IN_POOL] = frame->func->pool;
}

/* --- groups --- */
static uint32_t rank_of(const ds_ix_frame *frame, const ds_ix_op *pc)
{
        return frame->func->rank[pc - frame->func->ops];
}

/* Whether group a runs before group b. */
static int before(const struct ds_ix_group *a, const struct ds_ix_group *b)
{
        if (a->turn != b->turn)
                return a->turn < b->turn;
        if (a->frame->depth != b->frame->depth)
                return a->frame->depth > b->frame->depth;
        return rank_of(a->frame, a->pc) < rank_of(b->frame, b->pc);
}

static void remove_group(ds_ix_warp *w, uint32_t index)
{
        w->n_groups--;
        if (w->current == w->n_groups)
                w->current = index;
        w->group[index] = w->group[w->n_groups];
}

/* Merges all ready groups that are at the same operation as group `index` into it, and returns its index. */
static uint32_t merge(ds_ix_warp *w, uint32_t index)
{
        for (uint32_t i = 0; i < w->n_groups;) {
                struct ds_ix_group *g = &w->group[i], *to = &w->group[index];

                if (i == index || g->state != DS_IX_READY || g->pc != to->pc || g->frame != to->frame || g->granted ||
                        to->granted) {
                        i++;
                        continue;
                }
                to->mask |= g->mask;
                to->turn = DS_MAX(to->turn, g->turn);
                ds_ix_frame_release(w->block, g->frame);
                if (index == w->n_groups - 1)
                        index = i;
                remove_group(w, i);
        }
        return index;
}

/* Lets lanes continue together that wait for each other at different operations of the same kind. Returns 1 if some
 * continue. */
static int grant(ds_ix_warp *w)
{
        int any = 0;

        for (uint32_t i = 0; i < w->n_groups; i++) {
                struct ds_ix_group *g = &w->group[i];
                uint32_t present = 0;

                if (g->state != DS_IX_WAIT_SYNC)
                        continue;
                for (uint32_t k = 0; k < w->n_groups; k++) {
                        const struct ds_ix_group *o = &w->group[k];

                        if (o->state == DS_IX_WAIT_SYNC && o->need == g->need && o->kind == g->kind)
                                present |= o->mask;
                }
                if (g->need & w->live & ~present)
                        continue;
                for (uint32_t k = i; k < w->n_groups; k++) {
                        struct ds_ix_group *o = &w->group[k];

                        if (o->state != DS_IX_WAIT_SYNC || o->need != g->need || o->kind != g->kind || o == g)
                                continue;
                        o->state = DS_IX_READY;
                        o->granted = present;
                }
                g->state = DS_IX_READY;
                g->granted = present;
                any = 1;
        }
        return any;
}

/* Chooses the ready group that continues, and makes it the running one. NULL: none is ready. */
const ds_ix_op *ds_ix_pick(ds_ix_warp *w)
{
        uint32_t best = UINT32_MAX, ready = 0;
        struct ds_ix_group *g;

        for (uint32_t i = 0; i < w->n_groups; i++) {
                if (w->group[i].state != DS_IX_READY)
                        continue;
                if (best == UINT32_MAX || before(&w->group[i], &w->group[best]))
                        best = i;
        }
        if (best == UINT32_MAX)
                return grant(w) ? ds_ix_pick(w) : NULL;
        best = merge(w, best);
        for (uint32_t i = 0; i < w->n_groups; i++)
                ready += w->group[i].state == DS_IX_READY;
        if (w->current != best)
                w->patience = 0;
        g = &w->group[best];
        g->state = DS_IX_RUNNING;
        w->current = best;
        w->others = ready - 1;
        w->mask = g->mask;
        w->granted = g->granted;
        g->granted = 0;
        ds_ix_enter_frame(w, g->frame);
        return g->pc;
}

/* Sets the running group's next operation to pc, then chooses the group that continues. */
const ds_ix_op *ds_ix_switch(ds_ix_warp *w, const ds_ix_op *pc)
{
        struct ds_ix_group *g = &w->group[w->current];

        g->pc = pc;
        g->mask = w->mask;
        g->frame = w->frame;
        g->state = DS_IX_READY;
        return ds_ix_pick(w);
}

/* Makes the running group wait at pc, and chooses another group. */
const ds_ix_op *ds_ix_wait(ds_ix_warp *w, const ds_ix_op *pc, enum ds_ix_state state)
{
        struct ds_ix_group *g = &w->group[w->current];

        g->pc = pc;
        g->mask = w->mask;
        g->frame = w->frame;
        g->state = (uint8_t)state;
        return ds_ix_pick(w);
}

/* Removes the running group, whose lanes have exited. */
const ds_ix_op *ds_ix_leave(ds_ix_warp *w)
{
        ds_ix_frame_release(w->block, w->frame);
        remove_group(w, w->current);
        return ds_ix_pick(w);
}

/* Splits the lanes in `mask` off the running group: they become a group at pc with its own reference to the frame. */
void ds_ix_split(ds_ix_warp *w, uint32_t mask, const ds_ix_op *pc)
{
        struct ds_ix_group *g = &w->group[w->n_groups++];

        *g = w->group[w->current];
        g->pc = pc;
        g->frame = w->frame;
        g->mask = mask;
        g->state = DS_IX_READY;
        g->granted = 0;
        w->frame->refs++;
        w->mask &= ~mask;
        w->group[w->current].mask = w->mask;
        w->others++;
}

/* --- time slices --- */
/* At the end of a slice: checks the budget and the abort flag, and lets another group or warp run. */
const ds_ix_op *ds_ix_expire(ds_ix_warp *w, const ds_ix_op *pc)
{
        ds_ix_block *block = w->block;
        const struct ds_interp_launch *launch = block->launch;
        struct ds_ix_group *g = &w->group[w->current];

        ds_ix_account(w);
        if (launch->abort && atomic_load_explicit(launch->abort, memory_order_relaxed))
                return ds_ix_fault(
                        w, pc, DS_INTERP_FAULT_ABORTED, (uint32_t)__builtin_ctz(w->mask), 0, "the launch was aborted");
        if (block->cluster->left == 0)
                return ds_ix_fault(w, pc, DS_INTERP_FAULT_BUDGET, (uint32_t)__builtin_ctz(w->mask), 0,
                        "the block executed more than %llu warp instructions",
                        (unsigned long long)(launch->max_instructions ? launch->max_instructions
                                                                      : DS_IX_DEFAULT_BUDGET));
        if (w->others && (w->spun || ++w->patience >= DS_IX_PATIENCE))
                g->turn++;
        w->spun = 0;
        g->pc = pc;
        g->mask = w->mask;
        g->frame = w->frame;
        g->state = DS_IX_READY;
        return NULL;
}

/* Adds the instructions of the ended slice to the block's total, and begins the next slice. */
void ds_ix_account(ds_ix_warp *w)
{
        ds_ix_block *block = w->block;
        struct ds_ix_cluster *cluster = block->cluster;
        uint64_t used = (uint64_t)((int64_t)w->slice - w->fuel);

        w->executed += used;
        block->executed += used;
        cluster->executed += used;
        cluster->left -= DS_MIN(cluster->left, used);
        if (cluster->executed - cluster->told >= DS_IX_SLICE && block->launch->progress) {
                cluster->told = cluster->executed;
                block->launch->progress(block->launch->progress_user, cluster->elsewhere + cluster->executed);
        }
        w->slice = DS_MIN(cluster->left, ds_ix_slice());
        w->fuel = (int64_t)w->slice;
}

static inline const ds_ix_op *go_on(ds_ix_warp *w, const ds_ix_op *next)
{
        if (__builtin_expect(w->fuel < 0, 0))
                return ds_ix_expire(w, next);
        return w->others ? ds_ix_switch(w, next) : next;
}

/* --- jumps --- */
/* Handler at the end of a block of code without a jump: counts the block's instructions. */
const ds_ix_op *ds_ix_fall(ds_ix_warp *w, const ds_ix_op *op)
{
        w->fuel -= op->count;
        return go_on(w, op + 1);
}

const ds_ix_op *ds_ix_bra(ds_ix_warp *w, const ds_ix_op *op)
{
        w->fuel -= op->count;
        return go_on(w, op->target);
}

const ds_ix_op *ds_ix_bra_if(ds_ix_warp *w, const ds_ix_op *op)
{
        uint32_t p = ds_ix_pred(w, op->guard), taken = w->mask & (op->guard_not ? ~p : p);

        w->fuel -= op->count;
        if (taken == w->mask)
                return go_on(w, op->target);
        if (taken)
                ds_ix_split(w, taken, op->target);
        return go_on(w, op + 1);
}

/* Handler of brx.idx: lanes may have different targets; an index beyond the table is a fault of the program. */
const ds_ix_op *ds_ix_brx(ds_ix_warp *w, const ds_ix_op *op)
{
        const struct ds_ix_table *table = op->ext;
        const uint32_t *index = ds_ix_lanes(w, op->a);
        uint32_t p = op->guard == DS_IX_NO_SLOT ? DS_IX_FULL : ds_ix_pred(w, op->guard);
        uint32_t left = w->mask & (op->guard_not ? ~p : p);
        const ds_ix_op *next = op + 1;

        w->fuel -= op->count;
        while (left) {
                uint32_t lane = (uint32_t)__builtin_ctz(left), same = 0;

                if (index[lane] >= table->n)
                        return ds_ix_fault(w, op, DS_INTERP_FAULT_ILLEGAL, lane, index[lane],
                                "branch index %u beyond %u targets", index[lane], table->n);
                for (uint32_t i = lane; i < DS_IX_LANES; i++)
                        same |= left >> i & 1 && index[i] == index[lane] ? 1u << i : 0;
                left &= ~same;
                next = table->target[index[lane]];
                if (same == w->mask)
                        return go_on(w, next);
                ds_ix_split(w, same, next);
        }
        return go_on(w, op + 1);
}

/* --- calls --- */
/* Place of formal k in a frame: in its args area, or in a register (old style). *ret_step: bytes from lane to lane. */
static uint8_t *formal(const ds_ix_frame *frame, const struct ds_ptx_var *var, uint32_t offset, size_t *ret_step)
{
        if (var->reg != DS_PTX_NO_REG) {
                *ret_step = var->size;
                return frame->regs + frame->func->reg[var->reg];
        }
        *ret_step = frame->func->args_bytes;
        return frame->args + offset;
}

static void copy_arguments(const ds_ix_warp *w, const ds_ix_call *call, const ds_ix_frame *frame)
{
        const ds_ix_func *from = w->frame->func, *to = frame->func;

        for (uint32_t k = 0; k < call->n_args; k++) {
                const struct ds_ix_arg *a = &call->args[k];
                const uint8_t *source =
                        a->slot == DS_IX_NO_SLOT ? w->frame->args + a->caller_offset : ds_ix_lanes(w, a->slot);
                size_t step = a->slot == DS_IX_NO_SLOT ? from->args_bytes : a->size;
                size_t target_step;
                uint8_t *target = formal(frame, to->ir->params[k], to->param_offset[k], &target_step);

                for (unsigned i = 0; i < DS_IX_LANES; i++)
                        memcpy(target + i * target_step, source + i * step, a->size);
        }
}

/* Copies results to the lanes that return, and only to those: the caller's other lanes may have values there. */
static void copy_results(const ds_ix_warp *w, const ds_ix_frame *from, const ds_ix_frame *to)
{
        const ds_ix_call *call = from->call;

        for (uint32_t k = 0; k < call->n_rets; k++) {
                const struct ds_ix_arg *a = &call->rets[k];
                size_t source_step;
                const uint8_t *source = formal(from, from->func->ir->rets[k], from->func->ret_offset[k], &source_step);
                uint8_t *target = a->slot == DS_IX_NO_SLOT ? to->args + a->caller_offset : to->regs + a->slot;
                size_t step = a->slot == DS_IX_NO_SLOT ? to->func->args_bytes : a->size;

                for (unsigned i = 0; i < DS_IX_LANES; i++) {
                        if (w->mask >> i & 1)
                                memcpy(target + i * step, source + i * source_step, a->size);
                }
        }
}

/* Whether an indirect call has the parameters of its target. */
static int fits(const ds_ix_call *call, const ds_ix_func *func)
{
        if (!func->ops || func->ir->is_entry || call->n_args != func->ir->n_params || call->n_rets != func->ir->n_rets)
                return 0;
        for (uint32_t k = 0; k < call->n_args; k++) {
                if (call->args[k].size != func->ir->params[k]->size)
                        return 0;
        }
        for (uint32_t k = 0; k < call->n_rets; k++) {
                if (call->rets[k].size != func->ir->rets[k]->size)
                        return 0;
        }
        return 1;
}

/* The function that the running lanes call. Lanes that call another function stay behind, as a group at the same
 * operation. */
static ds_ix_func *target_of(ds_ix_warp *w, const ds_ix_op *op, const ds_ix_call *call)
{
        const struct ds_interp *interp = w->block->interp;
        const uint64_t *address = ds_ix_lanes(w, call->target);
        uint32_t lane = (uint32_t)__builtin_ctz(w->mask), other = 0;
        uint64_t index = (address[lane] - DS_IX_CODE_BASE) / 16;

        for (uint32_t i = lane; i < DS_IX_LANES; i++)
                other |= w->mask >> i & 1 && address[i] != address[lane] ? 1u << i : 0;
        if (other)
                ds_ix_split(w, other, op);
        if (address[lane] < DS_IX_CODE_BASE || index >= interp->module->n_functions ||
                !fits(call, &interp->funcs[index])) {
                ds_ix_fault(w, op, DS_INTERP_FAULT_ILLEGAL, lane, address[lane],
                        "call of 0x%llx, which is no such function", (unsigned long long)address[lane]);
                return NULL;
        }
        return &interp->funcs[index];
}

const ds_ix_op *ds_ix_call_op(ds_ix_warp *w, const ds_ix_op *op)
{
        const ds_ix_call *call = op->ext;
        ds_ix_func *func = call->func ? call->func : target_of(w, op, call);
        ds_ix_frame *frame;
        uint32_t local;

        w->fuel -= op->count;
        if (!func)
                return NULL;
        local = w->frame->local_base + w->frame->func->local_bytes;
        if (w->frame->depth >= DS_IX_MAX_DEPTH || local + func->local_bytes > ds_ix_stack_least(w))
                return ds_ix_fault(w, op, DS_INTERP_FAULT_STACK, (uint32_t)__builtin_ctz(w->mask), 0,
                        "stack exhausted %u calls deep", w->frame->depth);
        frame = ds_ix_frame_new(w->block, func);
        if (!frame)
                return ds_ix_fault(w, op, DS_INTERP_FAULT_STACK, (uint32_t)__builtin_ctz(w->mask), 0,
                        "no memory for registers %u calls deep", w->frame->depth);
        frame->parent = w->frame; /* the new frame takes over the group's reference to the caller's frame */
        frame->call = call;
        frame->ret = op + 1;
        frame->depth = w->frame->depth + 1;
        frame->local_base = local;
        for (unsigned i = 0; i < DS_IX_LANES; i++) {
                if (w->mask >> i & 1)
                        memset(w->local + (size_t)i * w->block->local_stride + local, 0, func->local_bytes);
        }
        copy_arguments(w, call, frame);
        if (func->stack)
                ds_ix_stack_enter(w, frame);
        w->group[w->current].frame = frame;
        ds_ix_enter_frame(w, frame);
        return w->fuel < 0 ? ds_ix_expire(w, func->ops) : func->ops;
}

/* Handler of exit: ends the running lanes. */
const ds_ix_op *ds_ix_exit(ds_ix_warp *w, const ds_ix_op *op)
{
        uint32_t p = op->guard == DS_IX_NO_SLOT ? DS_IX_FULL : ds_ix_pred(w, op->guard);
        uint32_t leaving = w->mask & (op->guard_not ? ~p : p);
        int all = leaving == w->mask;

        w->fuel -= op->count;
        if (!leaving)
                return go_on(w, op + 1);
        w->live &= ~leaving;
        w->block->live_threads -= (uint32_t)__builtin_popcount(leaving);
        for (uint32_t i = 0; i < w->n_groups; i++) {
                struct ds_ix_group *g = &w->group[i];

                if (g->state == DS_IX_WAIT_SYNC && !(g->need & w->live & ~g->mask)) {
                        g->state = DS_IX_READY;
                        w->others++;
                }
        }
        ds_ix_barrier_exit(w, leaving);
        ds_ix_cluster_exit(w, leaving);
        if (all)
                return ds_ix_leave(w);
        w->mask &= ~leaving;
        w->group[w->current].mask = w->mask;
        return go_on(w, op + 1);
}

const ds_ix_op *ds_ix_ret(ds_ix_warp *w, const ds_ix_op *op)
{
        uint32_t p = op->guard == DS_IX_NO_SLOT ? DS_IX_FULL : ds_ix_pred(w, op->guard);
        uint32_t leaving = w->mask & (op->guard_not ? ~p : p);
        ds_ix_frame *frame = w->frame, *parent = frame->parent;

        if (!parent)
                return ds_ix_exit(w, op);
        w->fuel -= op->count;
        if (!leaving)
                return go_on(w, op + 1);
        if (leaving != w->mask)
                ds_ix_split(w, w->mask & ~leaving, op + 1);
        copy_results(w, frame, parent);
        if (frame->func->stack)
                ds_ix_stack_leave(w, frame);
        parent->refs++;
        const ds_ix_op *next = frame->ret;
        ds_ix_frame_release(w->block, frame);
        w->group[w->current].frame = parent;
        ds_ix_enter_frame(w, parent);
        return go_on(w, next);
}

/* --- wrappers --- */
static inline const ds_ix_op *guarded(ds_ix_warp *w, const ds_ix_op *op)
{
        uint32_t mask = w->mask, p = ds_ix_pred(w, op->guard), active = mask & (op->guard_not ? ~p : p);
        const ds_ix_op *next;

        if (!active)
                return op + 1;
        w->mask = active;
        next = op->inner(w, op);
        w->mask = mask;
        return next;
}

const ds_ix_op *ds_ix_guarded(ds_ix_warp *w, const ds_ix_op *op)
{
        return guarded(w, op);
}

const ds_ix_op *ds_ix_counted(ds_ix_warp *w, const ds_ix_op *op)
{
        w->cost.special_instructions++;
        return op->inner(w, op);
}

const ds_ix_op *ds_ix_guarded_counted(ds_ix_warp *w, const ds_ix_op *op)
{
        w->cost.special_instructions++;
        return guarded(w, op);
}
