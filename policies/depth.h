/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a coroutine's work is on the device at once
 *
 * A few operations, so that the device never waits for the next one, and decisions still come late. For very short
 * operations a few are not enough, because reporting and deciding takes longer than they do. Then more are sent while
 * all of them should end within a given time. An operation of unknown duration does not count as short.
 *
 * That time is longer while best-effort work is alone. A device that has more work queued reports less often, which
 * saves 1 to 2 us between two kernels. Alone means no latency-sensitive work for a second; the first request after that
 * waits once for the queued work.
 */
#pragma once

#include "policies/detshare_policy.h"

#define DEPTH_MAX 256u

/* The policy parameters that depth_init() reads, the same and in the same order in every policy that includes this
 * file. */
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
        uint32_t least[2]; /* operations of a coroutine on the device that are always allowed, by class */
        uint64_t ahead_ns, alone_ns;
        uint64_t ls_seen_ns; /* time of the last LS work + 1, ns; 0: never */
};

/* params: the values of DEPTH_PARAMS. */
static inline void depth_init(struct depth *depth, const int64_t *params)
{
        depth->least[DETSHARE_CLASS_LS] = (uint32_t)params[0];
        depth->least[DETSHARE_CLASS_BE] = (uint32_t)params[1];
        depth->ahead_ns = (uint64_t)params[2] * 1000;
        depth->alone_ns = (uint64_t)params[3] * 1000;
}

/* Notes the time of LS work. A policy calls this at the beginning of every decision. */
static inline void depth_look(struct depth *depth, const struct detshare_snapshot *snapshot)
{
        for (uint32_t i = 0; i < snapshot->n_sessions; i++)
                if (snapshot->sessions[i].class_ == DETSHARE_CLASS_LS)
                        depth->ls_seen_ns = snapshot->now_ns + 1;
}

/* Number of the coroutine's operations to launch now: up to least[class], and more while all operations on the
 * device should end within the time described above. */
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
