/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs among the threads of a block, and what from block to block
 *
 * A pass that puts a loop around a kernel's body must know whether threads of one block can leave it at different times
 * while others still wait for the whole block, and whether a later block does again what the first one did. Both are
 * one question: which registers, and which places, depend on something that varies. The values are followed from where
 * they come from (thread index, memory, ...) through instructions; and where a branch depends on one, everything
 * between it and where its ways meet again is executed by some and not by others, or not as often, so registers that
 * are written there vary as well. What is not known to be the same counts as varying: answers err to that side, also
 * when a function is so large that following it takes too long.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ptx/ir.h"

typedef struct ds_ptx_flow ds_ptx_flow;

enum ds_ptx_vary {
        DS_PTX_VARY_THREAD, /* among the threads of a block */
        DS_PTX_VARY_BLOCK,  /* for one thread of a block, from block to block of a launch */
};

/* The function must outlive it. Returns 0 or -ENOMEM. */
int ds_ptx_flow_new(const struct ds_ptx_function *function, enum ds_ptx_vary what, ds_ptx_flow **ret);
ds_ptx_flow *ds_ptx_flow_free(ds_ptx_flow *flow);
/* Whether the register may vary */
bool ds_ptx_flow_varies(const ds_ptx_flow *flow, uint32_t reg);
/* Whether it may vary if the instruction is executed at all: it stands behind a branch that varies, or its guard does
 */
bool ds_ptx_flow_is_uncertain(const ds_ptx_flow *flow, uint32_t instr);

/*
 * Who leaves for good while others go on to something that lanes of a warp do together. loud: by instruction, 1 for
 * those. ret_leaves: by instruction, n_instrs of them: of a branch that varies and has one way on which nothing loud
 * comes any more, LEAVES_JUMP or LEAVES_ON, else 0. Returns DS_PTX_NO_REG, or an instruction at which it is not known
 * whether all lanes that did not leave come to it together.
 */
#define DS_PTX_FLOW_LEAVES_JUMP 1 /* who jumps, or executes a ret, leaves */
#define DS_PTX_FLOW_LEAVES_ON 2   /* who goes on behind it leaves */
uint32_t ds_ptx_flow_leavers(ds_ptx_flow *flow, const uint8_t *loud, uint8_t *ret_leaves);

static inline void ds_ptx_flow_freep(ds_ptx_flow **p)
{
        *p = ds_ptx_flow_free(*p);
}
