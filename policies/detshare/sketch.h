/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sketch: a number for the kernels of a program that is the same each time the program runs
 *
 * It keeps the four least hashes of all kernels seen. So it depends neither on their order nor on how often each runs,
 * and it changes ever more seldom: the n-th new kernel changes it with probability 4/n. Graphs do not count, because
 * which launches the host puts together may differ from run to run.
 */
#pragma once

#include "policies/detshare_policy.h"

#define SKETCH_HASHES 4u

struct sketch {
        uint64_t least[SKETCH_HASHES]; /* ascending; 0: free, at the end */
};

/* Mixes a number so that all bits of the result depend on all of its bits (the finaliser of SplitMix64). */
static inline uint64_t sketch_mix(uint64_t value)
{
        value += 0x9e3779b97f4a7c15ull;
        value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
        value = (value ^ value >> 27) * 0x94d049bb133111ebull;
        return value ^ value >> 31;
}

static inline void sketch_add(struct sketch *sketch, const struct detshare_op_view *op)
{
        uint64_t hash = sketch_mix(op->kernel) | 1;

        if (op->kind != DETSHARE_OP_KERNEL || op->forms & DETSHARE_FORM_GRAPH)
                return;
        for (uint32_t i = 0; i < SKETCH_HASHES && hash; i++) {
                const uint64_t here = sketch->least[i];

                if (here == hash)
                        return;
                if (here && here < hash)
                        continue;
                sketch->least[i] = hash;
                hash = here;
        }
}

/* The number; 0: no kernel was seen. */
static inline uint64_t sketch_value(const struct sketch *sketch)
{
        uint64_t value = 0;

        for (uint32_t i = 0; i < SKETCH_HASHES && sketch->least[i]; i++)
                value = sketch_mix(value ^ sketch->least[i]);
        return value;
}
