/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Number of waves of a kernel's blocks, and rungs that share no TPC
 */
#pragma once

#include "policies/detshare_policy.h"

/* Number of waves in which the kernel's blocks run on `sms` SMs. */
static inline uint64_t size_waves(const struct detshare_op_view *op, uint32_t sms)
{
        uint64_t slots = (uint64_t)(op->blocks_per_sm ? op->blocks_per_sm : 1) * (sms ? sms : 1);

        return op->blocks ? (op->blocks + slots - 1) / slots : 1;
}

/* Whether two rungs share TPCs. */
static inline int size_overlap(const struct detshare_rung_view *a, const struct detshare_rung_view *b)
{
        return (a->tpcs[0] & b->tpcs[0]) || (a->tpcs[1] & b->tpcs[1]);
}

/* The largest rung of a side with at most `sms` SMs that shares no TPC with `apart` (NULL: any rung); 0 if there is
 * none. */
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
