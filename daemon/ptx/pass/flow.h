/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that differ among the threads of a block, or from block to block
 *
 * A pass that puts a loop around a kernel's body needs two answers. Can threads of one block leave the body at
 * different times while others still wait for the whole block? And does a later block repeat what the first one did?
 * Both are one question: which registers, and which instructions, depend on something that varies. Values are
 * propagated from their sources (thread index, memory, ...) through instructions. If a branch depends on one,
 * everything up to the point where its paths meet again is executed by some threads and not by others, or not equally
 * often; so registers written there vary as well. Anything not known to be equal counts as varying: answers err to that
 * side, also when a function is too large to analyse in the time limit.
 *
 * A "loud" instruction in these files is one that lanes of a warp execute together.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ptx/ir.h"

typedef struct ds_ptx_flow ds_ptx_flow;

enum ds_ptx_vary {
        DS_PTX_VARY_THREAD, /* differs among the threads of a block */
        DS_PTX_VARY_BLOCK,  /* differs from block to block of a launch, for the same thread index */
};

/* Analyses a function, which must outlive the result. Returns 0 or -ENOMEM. */
int ds_ptx_flow_new(const struct ds_ptx_function *function, enum ds_ptx_vary what, ds_ptx_flow **ret);
ds_ptx_flow *ds_ptx_flow_free(ds_ptx_flow *flow);
/* Whether the register may vary */
bool ds_ptx_flow_varies(const ds_ptx_flow *flow, uint32_t reg);
/* Whether execution of the instruction may vary: it is behind a branch that varies, or its guard varies */
bool ds_ptx_flow_is_uncertain(const ds_ptx_flow *flow, uint32_t instr);

/*
 * Finds lanes that leave the function for good while others continue to a loud instruction, one that lanes of a warp
 * execute together. loud[i]: 1 if instruction i is loud. ret_leaves: n_instrs entries: LEAVES_JUMP or LEAVES_ON for a
 * branch that varies and has one path without any further loud instruction, else 0. Returns DS_PTX_NO_REG, or an
 * instruction for which it is not known whether all remaining lanes reach it together.
 */
#define DS_PTX_FLOW_LEAVES_JUMP 1 /* lanes that take the jump, or execute a ret, leave */
#define DS_PTX_FLOW_LEAVES_ON 2   /* lanes that do not take the jump leave */
uint32_t ds_ptx_flow_leavers(ds_ptx_flow *flow, const uint8_t *loud, uint8_t *ret_leaves);

static inline void ds_ptx_flow_freep(ds_ptx_flow **p)
{
        *p = ds_ptx_flow_free(*p);
}
