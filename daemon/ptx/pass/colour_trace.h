/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracing a kernel's pointers: registers that may hold the address of a coloured parameter, and their uses
 *
 * Each register has an origin, the union over all instructions that write it: parameters that it points to (their
 * address plus a number), parameters whose address is part of it in another way, and whether it may be anything else.
 * Origins are propagated through moves, sums, selections and loops until nothing changes. Then each instruction that
 * reads such a register must be arithmetic, or a comparison with the same result as for linear tensors, or an access at
 * the address. Anything else is a reason to refuse the kernel. Unknown uses count as reasons too. So a kernel without a
 * reason reaches its coloured parameters only by the listed accesses.
 *
 * Only the kernel's own instructions are examined: functions that it calls never get such an address.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ptx/ir.h"

/* Origin of the value in one register; all fields 0: not written yet. */
struct ds_ptx_colour_origin {
        uint64_t from;  /* mask of the parameters that the value may point to */
        uint64_t mixed; /* mask of the parameters whose address is part of the value in another way */
        bool other;     /* true: the value may be something other than a coloured pointer */
        bool rough;     /* true: the value's low 8 bits may differ from those with linear tensors */
};

struct ds_ptx_colour_trace {
        const struct ds_ptx_function *function;
        uint64_t mask; /* mask of the coloured parameters */
        struct ds_ptx_colour_origin *regs;
        /* for each instruction, 0: no translation; else 1 + index of its address operand. Valid only if there is no
         * reason to refuse */
        uint8_t *accesses;
        uint32_t n_accesses;
        uint32_t line; /* line of the reason to refuse the kernel */
        char reason[160];
        bool changed;
        uint64_t steps; /* number of instructions that may still be examined */
};

/*
 * Traces a kernel, which must outlive the trace. steps: number of instructions that may be examined; reduced by those
 * that were. A kernel that needs more is refused for that reason. Returns 0 (also with a reason to refuse) or -ENOMEM.
 */
int ds_ptx_colour_trace_new(
        const struct ds_ptx_function *kernel, uint64_t mask, uint64_t *steps, struct ds_ptx_colour_trace **ret);
struct ds_ptx_colour_trace *ds_ptx_colour_trace_free(struct ds_ptx_colour_trace *trace);

/* Whether the parameter can hold an address: 64 bits, a number, not an array */
bool ds_ptx_colour_is_wide(const struct ds_ptx_function *kernel, uint32_t param);

static inline void ds_ptx_colour_trace_freep(struct ds_ptx_colour_trace **p)
{
        *p = ds_ptx_colour_trace_free(*p);
}
