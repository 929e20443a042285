/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a coroutine's work is on the device at once
 *
 * A few operations, so that the device never waits for the next one, and what came is decided late. When operations are
 * so short that telling and deciding takes longer than they do, a few are not enough: then as many more as are expected
 * to end within a given time. What is not known (nothing of its kind has ended yet) is not taken for short.
 *
 * That time is longer while best-effort work is alone: a device told of more at once has to tell less often, and that
 * costs it 1 to 2 us between two kernels. Alone is who has seen no latency-sensitive work for a second; the first
 * request after that waits once for what was given to the device.
 */
#pragma once

#include "policies/detshare_policy.h"

#define DEPTH_MAX 256u

/* The parameters that say so, the same in every policy that has them, in this order. */
#define DEPTH_PARAMS                                                                                                 \
        {.name = "ls_depth",                                                                                         \
                .help = "operations of an LS coroutine on the device at once",                                       \
                .def = 64,                                                                                           \
                .min = 1,                                                                                            \
                .max = 1024},                                                                                        \
                {.name = "be_depth",                                                                                 \
                        .help = "operations of a BE coroutine on the device at once",                                \
                        .def = 4,                                                                                    \
                        .min = 1,                                                                                    \
                        .max = 1024},                                                                                \
                {.name = "be_ahead_us",                                                                              \
                        .help = "further BE operations are sent while those on the device should end within this "   \
                                "time, us",                                                                          \
                        .def = 100,                                                                                  \
                        .min = 0,                                                                                    \
                        .max = 1000000},                                                                             \
        {                                                                                                            \
                .name = "be_alone_us", .help = "the same as be_ahead_us while no LS work has come for a second, us", \
                .def = 1000, .min = 0, .max = 1000000                                                                \
        }

#define DEPTH_ALONE_NS 1000000000ull

struct depth {
        uint32_t least[2]; /* by class */
        uint64_t ahead_ns, alone_ns;
        uint64_t ls_seen_ns; /* 0: never */
};

/* params: the values of DEPTH_PARAMS. */
static inline void depth_init(struct depth *depth, const int64_t *params)
{
        depth->least[DETSHARE_CLASS_LS] = (uint32_t)params[0];
        depth->least[DETSHARE_CLASS_BE] = (uint32_t)params[1];
        depth->ahead_ns = (uint64_t)params[2] * 1000;
        depth->alone_ns = (uint64_t)params[3] * 1000;
}

/* At the beginning of every decision. */
static inline void depth_look(struct depth *depth, const struct detshare_snapshot *snapshot)
{
        for (uint32_t i = 0; i < snapshot->n_sessions; i++)
                if (snapshot->sessions[i].class_ == DETSHARE_CLASS_LS)
                        depth->ls_seen_ns = snapshot->now_ns + 1;
}

/* Operations of the coroutine to launch now: up to the least, and more of them while all are to end in time. */
static inline uint32_t depth_count(const struct depth *depth, const struct detshare_snapshot *snapshot,
        const struct detshare_coroutine_view *coroutine)
{
        uint32_t least = depth->least[coroutine->class_], n = 0;
        uint64_t expected = coroutine->in_flight_expected_ns, ahead_ns = 0;
        int alone = !depth->ls_seen_ns || snapshot->now_ns - depth->ls_seen_ns + 1 > DEPTH_ALONE_NS;

        if (coroutine->class_ == DETSHARE_CLASS_BE)
                ahead_ns = alone && depth->alone_ns > depth->ahead_ns ? depth->alone_ns : depth->ahead_ns;
        least = least > coroutine->in_flight ? least - coroutine->in_flight : 0;
        for (; n < coroutine->n_ahead && coroutine->in_flight + n < DEPTH_MAX; n++) {
                expected += coroutine->ahead[n].expected_ns;
                if (n >= least && (!coroutine->ahead[n].samples || expected > ahead_ns))
                        break;
        }
        return n > least ? n : least;
}
