/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traps, failed assertions, fences, and addresses of variables
 */
#include "ptx/interp_core.h"

#define TEXT_MAX 48 /* of each of an assertion's strings */

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

/* There is nothing to wait for but other groups and warps: let them run. */
const ds_ix_op *ds_ix_nanosleep(ds_ix_warp *w, const ds_ix_op *op)
{
        w->spun = 1;
        return op + 1;
}

/* --- device-side assert --- */
/* A client's string at a generic address; what cannot be read or printed is left out. */
static void read_text(ds_ix_warp *w, uint64_t address, char *text)
{
        size_t n = 0;

        for (; n < TEXT_MAX - 1; n++) {
                const uint8_t *p = ds_ix_global(w, address + n, 1, DS_IX_READ);

                if (!p || !*p)
                        break;
                text[n] = *p >= ' ' && *p < 127 ? (char)*p : '?';
        }
        text[n] = 0;
}

/* void __assertfail(const char *expression, const char *file, unsigned line, const char *function, size_t char_size) */
const ds_ix_op *ds_ix_assert(ds_ix_warp *w, const ds_ix_op *op)
{
        const ds_ix_call *call = op->ext;
        uint32_t lane = (uint32_t)__builtin_ctz(w->mask);
        char text[4][TEXT_MAX] = {""};
        uint64_t value[4] = {0};

        for (uint32_t k = 0; k < call->n_args && k < 4; k++) {
                const struct ds_ix_arg *a = &call->args[k];
                const uint8_t *from =
                        a->slot == DS_IX_NO_SLOT
                                ? w->frame->args + (size_t)lane * w->frame->func->args_bytes + a->caller_offset
                                : (const uint8_t *)ds_ix_lanes(w, a->slot) + (size_t)lane * a->size;

                memcpy(&value[k], from, DS_MIN(a->size, (uint32_t)sizeof(value[k])));
                if (k != 2)
                        read_text(w, value[k], text[k]);
        }
        return ds_ix_fault(w, op, DS_INTERP_FAULT_ASSERT, lane, 0, "%s:%u: %s: assertion `%s' failed", text[1],
                (unsigned)value[2], text[3], text[0]);
}

/* --- addresses --- */
/* mov of a variable of shared or local memory: the same address for all lanes, known only when the kernel runs */
const ds_ix_op *ds_ix_symbol_address(ds_ix_warp *w, const ds_ix_op *op)
{
        uint64_t value = op->imm;
        uint8_t *d = ds_ix_lanes(w, op->d);

        value += op->f == DS_IX_SYM_LOCAL ? w->frame->local_base : w->block->kernel->symbol[op->f];
        for (uint32_t i = 0; i < DS_IX_LANES; i++) {
                if (w->mask >> i & 1)
                        memcpy(d + (size_t)i * op->n, &value, op->n);
        }
        return op + 1;
}
