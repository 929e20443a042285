/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many SMs a kernel is worth, and where rungs of that size lie
 *
 * The time of a kernel on so many SMs is what was measured there. Between two measured counts it is that of the smaller
 * one, since kernels cost stairs and the truth is no slower; below all of them it grows with the waves of blocks. Of
 * what nothing was measured on fewer SMs, the waves of blocks are all there is to go by.
 */
#pragma once

#include "policies/detshare_policy.h"

/* Waves of blocks on so many SMs. */
static inline uint64_t size_waves(const struct detshare_op_view *op, uint32_t sms)
{
        uint64_t slots = (uint64_t)(op->blocks_per_sm ? op->blocks_per_sm : 1) * (sms ? sms : 1);

        return op->blocks ? (op->blocks + slots - 1) / slots : 1;
}

/* Expected time on so many SMs; 0 where nothing of it is known. */
static inline uint64_t size_time(const struct detshare_op_view *op, uint32_t sms, uint32_t all_sms)
{
        const struct detshare_profile_point *below = NULL;

        for (uint32_t i = 0; i < op->n_points && op->points[i].n_sms <= sms; i++)
                below = &op->points[i];
        if (below)
                return below->mean_ns;
        if (op->n_points)
                return op->points[0].mean_ns * size_waves(op, sms) / size_waves(op, op->points[0].n_sms);
        return op->samples ? op->expected_ns * size_waves(op, sms) / size_waves(op, all_sms) : 0;
}

/* The fewest SMs on which all blocks run in as few waves as on all of them. */
static inline uint32_t size_by_waves(const struct detshare_op_view *op, uint32_t all_sms)
{
        uint64_t waves = size_waves(op, all_sms), per_wave = (op->blocks + waves - 1) / waves;
        uint64_t per_sm = op->blocks_per_sm ? op->blocks_per_sm : 1;
        uint64_t sms = (per_wave + per_sm - 1) / per_sm;

        return sms ? (uint32_t)sms : 1;
}

/*
 * The fewest SMs at the best latency: what was measured to take at most `permille` thousandths longer than the best.
 * The profile counts only if something was measured on fewer SMs.
 */
static inline uint32_t size_least(const struct detshare_op_view *op, uint32_t all_sms, uint32_t permille)
{
        uint64_t best = UINT64_MAX;

        if (op->n_points < 2)
                return size_by_waves(op, all_sms);
        for (uint32_t i = 0; i < op->n_points; i++)
                if (op->points[i].mean_ns < best)
                        best = op->points[i].mean_ns;
        for (uint32_t i = 0; i < op->n_points; i++)
                if (op->points[i].mean_ns - best <= best / 1000 * permille + best % 1000 * permille / 1000)
                        return op->points[i].n_sms;
        return all_sms;
}

/* Whether two rungs have TPCs in common. */
static inline int size_overlap(const struct detshare_rung_view *a, const struct detshare_rung_view *b)
{
        return (a->tpcs[0] & b->tpcs[0]) || (a->tpcs[1] & b->tpcs[1]);
}

/* The largest rung of a side that has at most so many SMs, and no TPC in common with `apart` (NULL: any). 0: none. */
static inline uint32_t size_rung(
        const struct detshare_snapshot *snapshot, uint32_t side, uint32_t sms, const struct detshare_rung_view *apart)
{
        uint32_t best = 0;

        for (uint32_t i = 1; i < snapshot->n_rungs; i++) {
                const struct detshare_rung_view *rung = &snapshot->rungs[i];

                if (rung->side != side || rung->family != DETSHARE_FAMILY_FINE || rung->n_sms > sms ||
                        (apart && size_overlap(rung, apart)))
                        continue;
                if (!best || rung->n_sms > snapshot->rungs[best].n_sms)
                        best = i;
        }
        return best;
}
