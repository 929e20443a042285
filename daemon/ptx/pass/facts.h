/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about kernels: what they do that a scheduler, a pass or a person must know
 *
 * One bit per fact and function, with the line that shows it first. A function has the facts of what it calls. The
 * facts err to one side: a kernel without the bit does not do it (except through machine code that nobody sees); one
 * with the bit may do it. So "waits" is a loop left when memory says so that other blocks or the host write: a kernel
 * that has it may need all its blocks resident. A loop that tries an atomic again until it worked is none: somebody has
 * got ahead each time.
 *
 * A kernel without "once" is proven idempotent: run in part, and then again in full, it leaves what it leaves when it
 * is run once. For what it does depends on its parameters, on constants and on memory that it reads as constant (.nc)
 * and so may not write; it reads nothing that it, or what was there before, can have written, has no order among its
 * threads but barriers, and does not know when, where or for the how manyth time it runs. So the second run writes the
 * same values to the same places. Two parameters are never known to point to different memory.
 */
#pragma once

#include <stdint.h>

#include "ptx/ir.h"

/* NAME, "word", "what it means" */
#define DS_PTX_FACTS(X)                                                                                   \
        X(WAITS, "waits", "has a loop that waits for other blocks or the host")                           \
        X(ATOMICS, "atomics", "changes memory that blocks share by atomics")                              \
        X(ORDERED, "ordered", "reads or writes shared memory of the device in order (volatile, acquire)") \
        X(FENCES, "fences", "orders its accesses for other blocks")                                       \
        X(COOPERATIVE, "cooperative", "asks for the grid's workspace: a cooperative launch")              \
        X(CLUSTERS, "clusters", "uses clusters of blocks")                                                \
        X(CLOCK, "clock", "reads a clock")                                                                \
        X(PLACE, "place", "asks which SM or warp slot it is on")                                          \
        X(LAUNCHES, "launches", "launches kernels or waits for others of its stream")                     \
        X(PRINTS, "prints", "prints or asserts")                                                          \
        X(ALLOCATES, "allocates", "takes memory from the device's heap")                                  \
        X(INDIRECT, "indirect", "calls functions by their address")                                       \
        X(UNKNOWN, "unknown", "calls functions whose code is not here")                                   \
        X(TEXTURES, "textures", "uses textures or surfaces")                                              \
        X(TENSOR, "tensor", "uses tensor cores")                                                          \
        X(ASYNC, "async", "copies asynchronously")                                                        \
        X(BARRIERS, "barriers", "has barriers within the block")                                          \
        X(TRAPS, "traps", "may trap")                                                                     \
        X(VARIABLES, "variables", "uses variables of the module that can be written")                     \
        X(REFUSED, "refused", "has instructions that the simulated device does not execute")              \
        X(SIZES, "sizes", "reads the size of its shared memory")                                          \
        X(ONCE, "once", "is not proven to leave the same when it is run in part and then again")

enum ds_ptx_fact {
#define X(name, word, text) DS_PTX_FACT_##name,
        DS_PTX_FACTS(X)
#undef X
                _DS_PTX_FACT_MAX,
};

struct ds_ptx_facts {
        uint32_t mask;                   /* of 1 << enum ds_ptx_fact */
        uint32_t line[_DS_PTX_FACT_MAX]; /* of the first instruction, 0: none */
};

const char *ds_ptx_fact_word(enum ds_ptx_fact fact);
const char *ds_ptx_fact_text(enum ds_ptx_fact fact);

static inline int ds_ptx_fact(const struct ds_ptx_facts *facts, enum ds_ptx_fact fact)
{
        return facts->mask >> fact & 1;
}

/*
 * Of every function of the module, by its index: ret_facts has module->n_functions entries. Takes time linear in the
 * module's size; where that is not enough to be sure, the bit is set. Returns 0 or -ENOMEM.
 */
int ds_ptx_facts_find(const struct ds_ptx_module *module, struct ds_ptx_facts *ret_facts);

/* What blocks can tell each other while they run: when none of it, their order cannot show in the results. */
#define DS_PTX_FACTS_TALK                                                                                             \
        (1u << DS_PTX_FACT_WAITS | 1u << DS_PTX_FACT_ATOMICS | 1u << DS_PTX_FACT_ORDERED | 1u << DS_PTX_FACT_FENCES | \
                1u << DS_PTX_FACT_COOPERATIVE | 1u << DS_PTX_FACT_CLUSTERS | 1u << DS_PTX_FACT_LAUNCHES |             \
                1u << DS_PTX_FACT_ALLOCATES | 1u << DS_PTX_FACT_UNKNOWN | 1u << DS_PTX_FACT_INDIRECT)
