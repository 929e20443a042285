/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traps, fences, and addresses of variables
 */
#include "ptx/interp/core.h"

const ds_ix_op *ds_ix_nop(ds_ix_warp *w, const ds_ix_op *op)
{
        (void)w;
        return op + 1;
}

const ds_ix_op *ds_ix_trap(ds_ix_warp *w, const ds_ix_op *op)
{
        return ds_ix_fault(w, op, DS_INTERP_FAULT_TRAP, (uint32_t)__builtin_ctz(w->mask), 0, "trap executed");
}

const ds_ix_op *ds_ix_fence(ds_ix_warp *w, const ds_ix_op *op)
{
        (void)w;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        return op + 1;
}

/* Handler of nanosleep: it only lets other groups and warps run. */
const ds_ix_op *ds_ix_nanosleep(ds_ix_warp *w, const ds_ix_op *op)
{
        w->spun = 1;
        return op + 1;
}

/* --- addresses --- */
/* mov of a shared or local variable: the same address for all lanes, known only when the kernel runs */
const ds_ix_op *ds_ix_symbol_address(ds_ix_warp *w, const ds_ix_op *op)
{
        uint64_t value = op->imm;
        uint8_t *d = ds_ix_lanes(w, op->d);

        value += op->f == DS_IX_SYM_LOCAL ? w->frame->local_base
                                          : w->block->kernel->symbol[op->f] + w->block->shared_base;
        for (uint32_t i = 0; i < DS_IX_LANES; i++) {
                if (w->mask >> i & 1)
                        memcpy(d + (size_t)i * op->n, &value, op->n);
        }
        return op + 1;
}
