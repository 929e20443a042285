/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/stop_cost.h"

#define BUDGET_MAX (DSW_STOP_SAVED * DSW_STOP_SHARE)
#define GAPS_PER_UNKNOWN 4u                    /* known gaps that count as much as the gap of an unknown service */
#define LENGTH_UNKNOWN_NS (500 * DS_NS_PER_US) /* assumed length of a kind's first call */

void dsw_stop_cost_init(struct dsw_stop_cost *cost)
{
        *cost = (struct dsw_stop_cost){.budget = DSW_STOP_FIRST * DSW_STOP_SHARE};
}

void dsw_stop_cost_gap(struct dsw_stop_cost *cost, uint64_t ns)
{
        if (ns < DSW_STOP_QUIET_NS)
                return;
        cost->gaps_ns[cost->n_gaps++ % DSW_STOP_GAPS] = ns;
        cost->budget = DS_MIN(cost->budget + 1, (int64_t)BUDGET_MAX);
}

void dsw_stop_cost_call(struct dsw_stop_cost *cost, enum dsw_stop_kind kind, uint64_t ns)
{
        struct dsw_stop_lengths *lengths = &cost->lengths[kind];

        lengths->ns[lengths->n++ % DSW_STOP_LENGTHS] = ns;
}

void dsw_stop_cost_hits(struct dsw_stop_cost *cost, uint32_t n, int charged)
{
        cost->n_hits += n;
        if (charged)
                cost->budget = DS_MAX(cost->budget - (int64_t)n * DSW_STOP_SHARE, (int64_t)-BUDGET_MAX);
}

static uint32_t known_gaps(const struct dsw_stop_cost *cost)
{
        return (uint32_t)DS_MIN(cost->n_gaps, (uint64_t)DSW_STOP_GAPS);
}

/* Number of known gaps with a length in (above, upto]. */
static uint32_t gaps_between(const struct dsw_stop_cost *cost, uint64_t above, uint64_t upto)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < known_gaps(cost); i++)
                n += cost->gaps_ns[i] > above && cost->gaps_ns[i] <= upto;
        return n;
}

uint32_t dsw_stop_cost_risk(const struct dsw_stop_cost *cost, enum dsw_stop_kind kind, uint64_t idle_ns)
{
        const struct dsw_stop_lengths *lengths = &cost->lengths[kind];
        const uint32_t n = DS_MAX(DS_MIN(lengths->n, DSW_STOP_LENGTHS), 1u);
        uint64_t sum = 0, gaps;

        if (known_gaps(cost) < DSW_STOP_GAPS_MIN)
                return 1000;
        gaps = 1 + GAPS_PER_UNKNOWN * gaps_between(cost, idle_ns, UINT64_MAX);
        for (uint32_t i = 0; i < n; i++) {
                uint64_t ns = lengths->n ? lengths->ns[i] : LENGTH_UNKNOWN_NS;

                /* the second term is the gap of an unknown service */
                sum += 1000 * (uint64_t)GAPS_PER_UNKNOWN * gaps_between(cost, idle_ns, idle_ns + ns) +
                       1000 * ns / (idle_ns + ns + 1);
        }
        return (uint32_t)(sum / (gaps * n));
}

int dsw_stop_cost_limit(const struct dsw_stop_cost *cost)
{
        return cost->budget > 0 ? (int)(1000 * cost->budget / (DSW_STOP_SHARE * DSW_STOP_RISK)) : -1;
}

uint64_t dsw_stop_cost_moment(const struct dsw_stop_cost *cost, enum dsw_stop_kind kind, uint64_t idle_ns, int limit)
{
        uint64_t next = UINT64_MAX;

        if ((int)dsw_stop_cost_risk(cost, kind, idle_ns) <= limit)
                return idle_ns;
        if (known_gaps(cost) < DSW_STOP_GAPS_MIN || limit < 0)
                return UINT64_MAX;
        /* the risk falls when one of the gaps is over; beyond all of them it falls slowly */
        for (uint32_t i = 0; i < known_gaps(cost); i++)
                if (cost->gaps_ns[i] > idle_ns)
                        next = DS_MIN(next, cost->gaps_ns[i]);
        return next == UINT64_MAX ? idle_ns + idle_ns / 8 + 1 : next;
}

int dsw_stop_cost_overdrawn(const struct dsw_stop_cost *cost)
{
        return cost->budget < -BUDGET_MAX / 2;
}
