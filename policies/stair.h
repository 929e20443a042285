/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stairs: the time of a kernel on fewer SMs, and the rung that suits it
 *
 * Library kernels have a grid made for the SM count of the GPU. So their time over the SM count is a stair: twice as
 * long as soon as one SM is missing, and then the same down to half of them. Known are points (SMs, mean time). Between
 * them the time is estimated so that a kernel looks rather slower on fewer SMs than it is:
 *
 * - a time is never better than the busiest SM allows: it goes with ceil(blocks / SMs), from the next point above;
 * - it is never worse than that of the next point below, since fewer SMs never help;
 * - below the lowest and above the highest point only the busiest SM counts;
 * - without a point the mean over all rungs stands for the whole GPU; without that only ratios mean something.
 *
 * Times that differ by at most a tolerance are the same step of the stair.
 *
 * "The least SMs at the best latency" is from the SGDRC paper (PPoPP'25), section 7.1, which searches for it offline in
 * the same way. That BE belongs on the lowest SM count of its step was measured on an H200.
 */
#pragma once

#include "policies/detshare_policy.h"

#define STAIR_RUNGS_MAX 128u
#define STAIR_NS 1000u /* assumed time of a block of an unknown kernel, ns; only ratios of it mean anything */

/* Number of blocks that the busiest SM runs, if the kernel has n_sms SMs. */
static inline uint64_t stair_busiest(const struct detshare_op_view *op, uint32_t n_sms)
{
        uint64_t blocks = op->blocks ? op->blocks : 1;

        return (blocks + n_sms - 1) / n_sms;
}

/* Estimated time on `to` SMs of a kernel that takes `ns` on `from` SMs, ns. */
static inline uint64_t stair_scale(const struct detshare_op_view *op, uint64_t ns, uint32_t from, uint32_t to)
{
        uint64_t a = stair_busiest(op, from), b = stair_busiest(op, to);

        return ns >> 31 ? ns / a * b : ns * b / a;
}

/* Whether a time of the kernel was measured; otherwise only its grid and residency are known. */
static inline int stair_known(const struct detshare_op_view *op)
{
        return op->n_points || op->samples;
}

/* Estimated time of the kernel on n_sms of the GPU's n_all SMs, ns. */
static inline uint64_t stair_time(const struct detshare_op_view *op, uint32_t n_sms, uint32_t n_all)
{
        const struct detshare_profile_point *above, *below;
        uint32_t i = 0;
        uint64_t ns;

        if (!n_sms)
                return UINT64_MAX;
        if (!op->n_points)
                return stair_scale(
                        op, op->samples ? op->expected_ns : stair_busiest(op, n_all) * STAIR_NS, n_all, n_sms);
        while (i < op->n_points && op->points[i].n_sms < n_sms)
                i++;
        above = i < op->n_points ? &op->points[i] : NULL;
        below = i ? &op->points[i - 1] : NULL;
        if (!above)
                return stair_scale(op, below->mean_ns, below->n_sms, n_sms);
        ns = stair_scale(op, above->mean_ns, above->n_sms, n_sms);
        return below && below->mean_ns < ns ? below->mean_ns : ns;
}

/* Whether the time `a` is on the same step of the stair as `b`, or shorter. */
static inline int stair_same(uint64_t a, uint64_t b, uint32_t permille)
{
        return a <= b + b / 1000 * permille + b % 1000 * permille / 1000;
}

/* The least number of SMs on which the kernel takes no longer than on n_sms. */
static inline uint32_t stair_lowest(
        const struct detshare_op_view *op, uint32_t n_sms, uint32_t n_all, uint32_t permille)
{
        uint64_t ns = stair_time(op, n_sms, n_all);
        uint32_t low = 1, high = n_sms;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (stair_same(stair_time(op, middle, n_all), ns, permille))
                        high = middle;
                else
                        low = middle + 1;
        }
        return high;
}

/* The least number of SMs on which the kernel takes no longer than on all SMs, within a tolerance of `permille`. */
static inline uint32_t stair_need(const struct detshare_op_view *op, uint32_t n_all, uint32_t permille)
{
        return stair_lowest(op, n_all, n_all, permille);
}

/* Slowdown of the kernel on n_sms against all SMs, permille, at most 1000000. */
static inline uint64_t stair_loss(const struct detshare_op_view *op, uint32_t n_sms, uint32_t n_all)
{
        uint64_t all = stair_time(op, n_all, n_all), ns = stair_time(op, n_sms, n_all);

        if (!all || ns <= all)
                return 0;
        ns = (ns - all) / (all / 1000 + 1);
        return ns > 1000000 ? 1000000 : ns;
}

/* Whether the kernel's resident blocks leave no room for another block on any of the n_sms SMs. */
static inline int stair_fills(const struct detshare_op_view *op, uint32_t n_sms)
{
        return (uint64_t)op->blocks >= (uint64_t)op->blocks_per_sm * n_sms;
}

/* Time of one block on the whole GPU, ns: the kernel's time divided by its waves. */
static inline uint64_t stair_block(const struct detshare_op_view *op, uint32_t n_all)
{
        uint64_t slots = (uint64_t)op->blocks_per_sm * n_all;
        uint64_t waves = slots ? (op->blocks + slots - 1) / slots : 1;

        return stair_time(op, n_all, n_all) / (waves ? waves : 1);
}

/* Rungs of one side in one family, ascending. For kernels that do not fit there the host itself takes another rung. */
struct stair_side {
        uint32_t n;
        uint32_t rung[STAIR_RUNGS_MAX], n_sms[STAIR_RUNGS_MAX];
};

static inline void stair_side_init(
        struct stair_side *side, const struct detshare_policy_config *config, uint32_t which, uint32_t family)
{
        side->n = 0;
        for (uint32_t i = 0; i < config->n_rungs && side->n < STAIR_RUNGS_MAX; i++) {
                const struct detshare_rung_view *rung = &config->rungs[i];
                uint32_t at = side->n;

                if (rung->side != which || rung->family != family)
                        continue;
                for (; at && side->n_sms[at - 1] > rung->n_sms; at--) {
                        side->rung[at] = side->rung[at - 1];
                        side->n_sms[at] = side->n_sms[at - 1];
                }
                side->rung[at] = i;
                side->n_sms[at] = rung->n_sms;
                side->n++;
        }
}

/* Index of the smallest rung with at least n_sms SMs; side->n if there is none. */
static inline uint32_t stair_at_least(const struct stair_side *side, uint32_t n_sms)
{
        uint32_t i = 0;

        while (i < side->n && side->n_sms[i] < n_sms)
                i++;
        return i;
}

/*
 * Index of the rung for a kernel that may have at most n_sms SMs: the smallest rung on which it is as fast as on the
 * largest permitted one. side->n if even the smallest rung is too large.
 */
static inline uint32_t stair_choose(const struct stair_side *side, const struct detshare_op_view *op, uint32_t n_sms,
        uint32_t n_all, uint32_t permille)
{
        uint32_t most = stair_at_least(side, n_sms + 1);

        if (!most)
                return side->n;
        return stair_at_least(side, stair_lowest(op, side->n_sms[most - 1], n_all, permille));
}
