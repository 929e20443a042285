/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a kernel's pointers go: which registers may have the address of a coloured parameter, and what is done with it
 *
 * Each register has an origin, the union over all places that write it: parameters that it points to (their address
 * plus a number), parameters whose address it was made from in another way, and whether it may be anything else. It is
 * followed through moves, sums, selections and loops until nothing changes. Then each instruction that reads such a
 * register must be one of: arithmetic, a comparison that comes out as it does for linear tensors, or an access at the
 * address. Everything else is a reason to leave the kernel alone. What is not known counts against it: a kernel without
 * a reason reaches its coloured parameters by the accesses that are listed, and by nothing else.
 *
 * Only the kernel's own instructions are looked at: functions that it calls never get such an address.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ptx/ir.h"

/* Of one register; all 0: nothing has been written to it so far */
struct ds_ptx_colour_origin {
        uint64_t from;  /* parameters that it may point to */
        uint64_t mixed; /* parameters whose address is in it in another way */
        bool other;     /* it may be something that is no coloured pointer */
        bool rough;     /* its low 8 bits may be others than with linear tensors */
};

struct ds_ptx_colour_trace {
        const struct ds_ptx_function *function;
        uint64_t mask; /* the coloured parameters */
        struct ds_ptx_colour_origin *regs;
        /* By instruction, 0: nothing to translate; else 1 + the operand that is the address. Good without a reason. */
        uint8_t *accesses;
        uint32_t n_accesses;
        uint32_t line; /* of what stands against it */
        char reason[160];
        bool changed;
        uint64_t steps; /* that are left */
};

/*
 * The kernel must outlive it. steps: how many instructions may be looked at, of which those that were are taken away; a
 * kernel that needs more has that for a reason. Returns 0 (also where there is a reason) or -ENOMEM.
 */
int ds_ptx_colour_trace_new(
        const struct ds_ptx_function *kernel, uint64_t mask, uint64_t *steps, struct ds_ptx_colour_trace **ret);
struct ds_ptx_colour_trace *ds_ptx_colour_trace_free(struct ds_ptx_colour_trace *trace);

/* Whether the parameter is one that can have an address: 64 bits, a number, no array */
bool ds_ptx_colour_is_wide(const struct ds_ptx_function *kernel, uint32_t param);

static inline void ds_ptx_colour_trace_freep(struct ds_ptx_colour_trace **p)
{
        *p = ds_ptx_colour_trace_free(*p);
}
