/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloca, stacksave, stackrestore
 *
 * Frames of functions grow up from the beginning of a thread's local memory, alloca allocations grow down from its end.
 * A kernel that uses alloca has DS_IX_RECURSION_LOCAL bytes for both. Each thread has a stack pointer of its own. A
 * function's allocations end when it returns. New memory is zero, like all memory that a kernel can read. A stack
 * pointer can only be restored upwards, never down over memory that is not allocated.
 */
#include "ptx/interp/core.h"

#define BYTES_PER_INSTRUCTION 512 /* bytes of an allocation whose zeroing costs one instruction */

static uint64_t value_of(const ds_ix_warp *w, const ds_ix_op *op, uint32_t lane)
{
        uint64_t value = 0;

        memcpy(&value, (const uint8_t *)ds_ix_lanes(w, op->a) + (size_t)lane * op->n, op->n);
        return value;
}

static void set(const ds_ix_warp *w, const ds_ix_op *op, uint32_t lane)
{
        uint64_t value = w->stack[lane];

        if (op->d != DS_IX_NO_SLOT)
                memcpy((uint8_t *)ds_ix_lanes(w, op->d) + (size_t)lane * op->n, &value, op->n);
}

const ds_ix_op *ds_ix_alloca(ds_ix_warp *w, const ds_ix_op *op)
{
        for (uint32_t left = w->mask; left; left &= left - 1) {
                uint32_t lane = (uint32_t)__builtin_ctz(left);
                uint64_t size = value_of(w, op, lane), room = w->stack[lane] - w->local_limit, to;

                to = size > room ? 0 : (w->stack[lane] - size) & ~(op->imm - 1);
                if (size > room || to < w->local_limit)
                        return ds_ix_fault(w, op, DS_INTERP_FAULT_STACK, lane, size,
                                "no room for %llu bytes on the stack, which has %llu", (unsigned long long)size,
                                (unsigned long long)room);
                memset(w->local + (size_t)lane * w->block->local_stride + to, 0, w->stack[lane] - to);
                w->fuel -= (int64_t)((w->stack[lane] - to) / BYTES_PER_INSTRUCTION);
                w->stack[lane] = (uint32_t)to;
                set(w, op, lane);
        }
        w->fuel -= op->count;
        return w->fuel < 0 ? ds_ix_expire(w, op + 1) : op + 1;
}

const ds_ix_op *ds_ix_stack_save(ds_ix_warp *w, const ds_ix_op *op)
{
        for (uint32_t left = w->mask; left; left &= left - 1)
                set(w, op, (uint32_t)__builtin_ctz(left));
        return op + 1;
}

const ds_ix_op *ds_ix_stack_restore(ds_ix_warp *w, const ds_ix_op *op)
{
        for (uint32_t left = w->mask; left; left &= left - 1) {
                uint32_t lane = (uint32_t)__builtin_ctz(left);
                uint64_t to = value_of(w, op, lane);

                if (to < w->stack[lane] || to > w->block->local_stride)
                        return ds_ix_fault(w, op, DS_INTERP_FAULT_ILLEGAL, lane, to,
                                "0x%llx is no stack pointer of before", (unsigned long long)to);
                w->stack[lane] = (uint32_t)to;
        }
        return op + 1;
}

/* --- calls --- */
uint32_t ds_ix_stack_least(const ds_ix_warp *w)
{
        uint32_t least = w->block->local_stride;

        if (!w->block->interp->stack)
                return least;
        for (uint32_t left = w->mask; left; left &= left - 1)
                least = DS_MIN(least, w->stack[__builtin_ctz(left)]);
        return least;
}

void ds_ix_stack_enter(const ds_ix_warp *w, const ds_ix_frame *frame)
{
        memcpy(frame->regs + frame->func->stack_slot, w->stack, sizeof(w->stack));
}

void ds_ix_stack_leave(ds_ix_warp *w, const ds_ix_frame *frame)
{
        const uint32_t *saved = (const uint32_t *)(const void *)(frame->regs + frame->func->stack_slot);

        for (uint32_t left = w->mask; left; left &= left - 1)
                w->stack[__builtin_ctz(left)] = saved[__builtin_ctz(left)];
}
