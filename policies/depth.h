/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a coroutine's work is on the device at once
 *
 * A few operations, so that the device never waits for the next one, and what came is decided late. When operations are
 * so short that telling and deciding takes longer than they do, a few are not enough: then as many more as are expected
 * to end within a given time. What is not known (nothing of its kind has ended yet) is not taken for short.
 */
#pragma once

#include "policies/detshare_policy.h"

#define DEPTH_MAX 256u

/* The parameters that say so, the same in every policy that has them, in this order. */
#define DEPTH_PARAMS                                                                                                  \
        {.name = "ls_depth",                                                                                          \
                .help = "operations of an LS coroutine on the device at once",                                        \
                .def = 64,                                                                                            \
                .min = 1,                                                                                             \
                .max = 1024},                                                                                         \
                {.name = "be_depth",                                                                                  \
                        .help = "operations of a BE coroutine on the device at once",                                 \
                        .def = 4,                                                                                     \
                        .min = 1,                                                                                     \
                        .max = 1024},                                                                                 \
        {                                                                                                             \
                .name = "be_ahead_us", .help = "and as many more as are expected to end within so many microseconds", \
                .def = 100, .min = 0, .max = 1000000                                                                  \
        }

/* Operations to launch now: up to `depth` on the device, and more of them while all are to end within ahead_ns. */
static inline uint32_t depth_count(const struct detshare_coroutine_view *coroutine, uint32_t depth, uint64_t ahead_ns)
{
        uint32_t least = depth > coroutine->in_flight ? depth - coroutine->in_flight : 0, n = 0;
        uint64_t expected = coroutine->in_flight_expected_ns;

        for (; n < coroutine->n_ahead && coroutine->in_flight + n < DEPTH_MAX; n++) {
                expected += coroutine->ahead[n].expected_ns;
                if (n >= least && (!coroutine->ahead[n].samples || expected > ahead_ns))
                        break;
        }
        return n > least ? n : least;
}
