/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about kernels that a scheduler, a pass or a user must know
 *
 * One bit per fact and function, with the line of its first cause. A function has the facts of its callees. The facts
 * err to one side: a kernel without the bit does not do it (except through machine code that is not visible); a kernel
 * with the bit may do it. For example, "waits" means a loop whose end depends on memory that other blocks or the host
 * write: such a kernel may need all its blocks resident. A loop that retries an atomic until it succeeds does not
 * count, because each retry means that another thread has made progress.
 *
 * A kernel without "once" is proven idempotent: run in part, and then again in full, it has the same result as run
 * once. Its behaviour depends only on its parameters, on constants and on memory that it reads as constant (.nc) and so
 * may not write. It reads nothing that it can have written, or that was there before; it has no order among its threads
 * except barriers; and it does not depend on when, where or how often it runs. So the second run writes the same values
 * to the same places. Two parameters are never assumed to point to different memory.
 */
#pragma once

#include <stdint.h>

#include "ptx/ir.h"

/* list of the facts: name, "word", "what it means" */
#define DS_PTX_FACTS(X)                                                                        \
        X(WAITS, "waits", "has a loop that waits for other blocks or the host")                \
        X(ATOMICS, "atomics", "changes memory shared by blocks with atomics")                  \
        X(ORDERED, "ordered", "accesses memory shared by blocks in order (volatile, acquire)") \
        X(FENCES, "fences", "orders its accesses for other blocks")                            \
        X(COOPERATIVE, "cooperative", "uses the workspace of a cooperative launch")            \
        X(CLUSTERS, "clusters", "uses clusters of blocks")                                     \
        X(CLOCK, "clock", "reads a clock")                                                     \
        X(PLACE, "place", "reads its SM or warp slot")                                         \
        X(LAUNCHES, "launches", "launches kernels or waits for others of its stream")          \
        X(PRINTS, "prints", "prints or asserts")                                               \
        X(ALLOCATES, "allocates", "allocates memory from the device's heap")                   \
        X(INDIRECT, "indirect", "calls functions by their address")                            \
        X(UNKNOWN, "unknown", "calls functions without code in the module")                    \
        X(TEXTURES, "textures", "uses textures or surfaces")                                   \
        X(TENSOR, "tensor", "uses tensor cores")                                               \
        X(ASYNC, "async", "copies asynchronously")                                             \
        X(BARRIERS, "barriers", "has barriers within the block")                               \
        X(TRAPS, "traps", "may trap")                                                          \
        X(VARIABLES, "variables", "uses variables of the module that can be written")          \
        X(REFUSED, "refused", "has instructions that the simulated device does not execute")   \
        X(SIZES, "sizes", "reads the size of its shared memory")                               \
        X(ONCE, "once", "is not proven to have the same result when run in part and then again")

enum ds_ptx_fact {
#define X(name, word, text) DS_PTX_FACT_##name,
        DS_PTX_FACTS(X)
#undef X
                _DS_PTX_FACT_MAX,
};

struct ds_ptx_facts {
        uint32_t mask;                   /* set of 1 << enum ds_ptx_fact */
        uint32_t line[_DS_PTX_FACT_MAX]; /* line of the first cause, 0: none */
};

const char *ds_ptx_fact_word(enum ds_ptx_fact fact);
const char *ds_ptx_fact_text(enum ds_ptx_fact fact);

static inline int ds_ptx_fact(const struct ds_ptx_facts *facts, enum ds_ptx_fact fact)
{
        return facts->mask >> fact & 1;
}

/*
 * Facts of every function of the module, by its index: ret_facts has module->n_functions entries. Takes time linear in
 * the module's size; where that is not enough to be sure, the bit is set. Returns 0 or -ENOMEM.
 */
int ds_ptx_facts_find(const struct ds_ptx_module *module, struct ds_ptx_facts *ret_facts);

/* Facts that let running blocks communicate: without any of them, the order of the blocks cannot affect the results. */
#define DS_PTX_FACTS_TALK                                                                                             \
        (1u << DS_PTX_FACT_WAITS | 1u << DS_PTX_FACT_ATOMICS | 1u << DS_PTX_FACT_ORDERED | 1u << DS_PTX_FACT_FENCES | \
                1u << DS_PTX_FACT_COOPERATIVE | 1u << DS_PTX_FACT_CLUSTERS | 1u << DS_PTX_FACT_LAUNCHES |             \
                1u << DS_PTX_FACT_ALLOCATES | 1u << DS_PTX_FACT_UNKNOWN | 1u << DS_PTX_FACT_INDIRECT)
