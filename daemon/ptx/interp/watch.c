/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching one thread: every operation gets a handler that checks whether the watched lane runs
 *
 * For debugging a kernel, so it may be slow. Without watching it costs nothing, since the interpreter's operations stay
 * as decoded. Several operations may form one instruction, which is reported after the last of them.
 */
#include <errno.h>

#include "ptx/interp/core.h"
#include "ptx/pass/use.h"
#include "util/error.h"

struct ds_ix_watch {
        uint32_t block[3], warp, lane;
        ds_interp_step_fn fn;
        void *user;
        ds_ix_fn **handlers; /* original handlers, [function][operation] */
};

struct collector {
        const ds_ix_func *func;
        const uint8_t *regs;
        uint32_t lane;
        struct ds_interp_step *step;
};

static void collect(void *user, uint32_t *reg, unsigned use)
{
        struct collector *c = user;
        struct ds_interp_value *v = &c->step->values[c->step->n_values];
        uint32_t bits = ds_ptx_type_bits((enum ds_ptx_type)c->func->ir->regs[*reg].type), word;

        if (!(use & DS_PTX_USE_WRITE) || c->step->n_values == DS_INTERP_STEP_VALUES)
                return;
        *v = (struct ds_interp_value){.reg = *reg};
        if (bits == 1) {
                memcpy(&word, c->regs + c->func->reg[*reg], sizeof(word));
                v->bits[0] = word >> c->lane & 1;
        } else {
                memcpy(v->bits, c->regs + c->func->reg[*reg] + (size_t)c->lane * (bits / 8), bits / 8);
        }
        c->step->n_values++;
}

/* Index of the function's first instruction on this line of the text or behind it. */
static uint32_t find_instr(const struct ds_ptx_function *f, uint32_t line)
{
        uint32_t low = 0, high = f->n_instrs;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (f->instrs[middle].line < line)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static void tell(const ds_ix_warp *w, const struct ds_ix_watch *watch, const ds_ix_func *func, const ds_ix_frame *frame,
        const ds_ix_op *op, int skipped)
{
        struct ds_interp_step step = {.function = func->ir, .line = op->line, .skipped = skipped};
        struct collector c = {.func = func, .lane = watch->lane, .step = &step};

        /* after a call or a return, and after a fault, the registers written are not in this frame */
        if (!skipped && w->frame == frame && !w->block->faulted) {
                c.regs = frame->regs;
                for (uint32_t i = find_instr(func->ir, op->line);
                        i < func->ir->n_instrs && func->ir->instrs[i].line == op->line; i++)
                        ds_ptx_each_register(&func->ir->instrs[i], collect, &c);
        }
        watch->fn(watch->user, &step);
}

/* Whether the lane waits for other lanes at this operation, and will repeat it when they have come. */
static int waits_for_lanes(const ds_ix_warp *w, const ds_ix_op *op, uint32_t lane)
{
        for (uint32_t i = 0; i < w->n_groups; i++)
                if (w->group[i].mask >> lane & 1)
                        return w->group[i].state == DS_IX_WAIT_SYNC && w->group[i].pc == op;
        return 0;
}

static int is_watched(const ds_ix_warp *w, const struct ds_ix_watch *watch)
{
        return w->index == watch->warp && (w->mask >> watch->lane & 1) &&
               memcmp(w->block->ctaid, watch->block, sizeof(watch->block)) == 0;
}

static const ds_ix_op *watched(ds_ix_warp *w, const ds_ix_op *op)
{
        const ds_interp *interp = w->block->interp;
        const struct ds_ix_watch *watch = interp->watch;
        const ds_ix_frame *frame = w->frame;
        const ds_ix_func *func = frame->func;
        int here = is_watched(w, watch), skipped = 0;
        const ds_ix_op *next;

        if (here && op->guard != DS_IX_NO_SLOT)
                skipped = (ds_ix_pred(w, op->guard) >> watch->lane & 1) == (op->guard_not ? 1 : 0);
        next = watch->handlers[func - interp->funcs][op - func->ops](w, op);
        if (here && op->line && !(next && next == op + 1 && next->line == op->line && w->frame == frame) &&
                !waits_for_lanes(w, op, watch->lane))
                tell(w, watch, func, frame, op, skipped);
        return next;
}

static int watch_function(ds_interp *interp, struct ds_ix_watch *watch, uint32_t index)
{
        ds_ix_func *func = &interp->funcs[index];

        watch->handlers[index] = ds_arena_alloc(interp->arena, (size_t)func->n_ops + 1, sizeof(ds_ix_fn));
        if (!watch->handlers[index])
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < func->n_ops; i++) {
                watch->handlers[index][i] = func->ops[i].fn;
                /* not watched: operations that stand for no instruction, and those that other code recognises by
                 * their handler */
                if (func->ops[i].fn != ds_ix_fall && func->ops[i].fn != ds_ix_barrier_red)
                        func->ops[i].fn = watched;
        }
        return 0;
}

int ds_interp_watch(ds_interp *interp, const uint32_t block[3], uint32_t thread, ds_interp_step_fn fn, void *user)
{
        struct ds_ix_watch *watch = ds_arena_alloc(interp->arena, 1, sizeof(*watch));
        int r = 0;

        assert(!interp->watch);
        if (!watch)
                return ds_error_origin(-ENOMEM);
        *watch = (struct ds_ix_watch){.block = {block[0], block[1], block[2]},
                .warp = thread / DS_IX_LANES,
                .lane = thread % DS_IX_LANES,
                .fn = fn,
                .user = user,
                .handlers = ds_arena_alloc(
                        interp->arena, (size_t)interp->module->n_functions + 1, sizeof(*watch->handlers))};
        if (!watch->handlers)
                return ds_error_origin(-ENOMEM);
        interp->watch = watch;
        for (uint32_t i = 0; i < interp->module->n_functions && !r; i++)
                if (interp->funcs[i].ops)
                        r = watch_function(interp, watch, i);
        return r;
}
