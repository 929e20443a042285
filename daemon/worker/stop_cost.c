/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/stop_cost.h"

#define BUDGET_MAX (DSW_STOP_SAVED * DSW_STOP_SHARE)
#define GAPS_PER_UNKNOWN 4u                    /* known gaps that count as much as the gap of an unknown service */
#define LENGTH_UNKNOWN_NS (500 * DS_NS_PER_US) /* assumed length of a class's first call */

unsigned dsw_stop_class(enum dsw_stop_kind kind, uint64_t bytes)
{
        unsigned size = 0;

        for (uint64_t bound = DSW_STOP_SIZE_FIRST; size < DSW_STOP_SIZES - 1 && bytes > bound; bound *= 4)
                size++;
        return (unsigned)kind * DSW_STOP_SIZES + size;
}

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

static uint32_t known_lengths(const struct dsw_stop_lengths *lengths)
{
        return (uint32_t)DS_MIN(lengths->n, (uint64_t)DSW_STOP_LENGTHS);
}

static void lengths_sort(struct dsw_stop_lengths *lengths)
{
        const uint32_t n = known_lengths(lengths);
        uint64_t *sorted = lengths->sorted_ns, sum = 0;

        for (uint32_t i = 0, at; i < n; i++) {
                for (at = i; at && sorted[at - 1] > lengths->ns[i]; at--)
                        sorted[at] = sorted[at - 1];
                sorted[at] = lengths->ns[i];
                sum += lengths->ns[i];
        }
        lengths->mean_ns = sum / n;
}

/* Number of known lengths of at least ns. */
static uint32_t lengths_from(const struct dsw_stop_lengths *lengths, uint64_t ns)
{
        uint32_t low = 0, high = known_lengths(lengths);

        if (ns > lengths->sorted_ns[high - 1])
                return 0;
        while (low < high) {
                uint32_t middle = (low + high) / 2;

                if (lengths->sorted_ns[middle] < ns)
                        low = middle + 1;
                else
                        high = middle;
        }
        return known_lengths(lengths) - low;
}

void dsw_stop_cost_call(struct dsw_stop_cost *cost, unsigned class_, uint64_t ns)
{
        struct dsw_stop_lengths *lengths = &cost->lengths[class_];

        lengths->ns[lengths->n++ % DSW_STOP_LENGTHS] = ns;
        lengths_sort(lengths);
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

uint32_t dsw_stop_cost_risk(const struct dsw_stop_cost *cost, unsigned class_, uint64_t idle_ns)
{
        static const struct dsw_stop_lengths unknown = {
                .ns = {LENGTH_UNKNOWN_NS}, .sorted_ns = {LENGTH_UNKNOWN_NS}, .mean_ns = LENGTH_UNKNOWN_NS, .n = 1};
        const struct dsw_stop_lengths *lengths = cost->lengths[class_].n ? &cost->lengths[class_] : &unknown;
        uint64_t longer = 0, met = 0, doubled;

        if (known_gaps(cost) < DSW_STOP_GAPS_MIN)
                return 1000;
        for (uint32_t i = 0; i < known_gaps(cost); i++) {
                if (cost->gaps_ns[i] <= idle_ns)
                        continue;
                longer++;
                met += lengths_from(lengths, cost->gaps_ns[i] - idle_ns);
        }
        /* the gap of an unknown service */
        doubled = 1000 * lengths->mean_ns / (idle_ns + lengths->mean_ns + 1);
        return (uint32_t)((1000 * GAPS_PER_UNKNOWN * met / known_lengths(lengths) + doubled) /
                          (GAPS_PER_UNKNOWN * longer + 1));
}

int dsw_stop_cost_limit(const struct dsw_stop_cost *cost)
{
        return cost->budget > 0 ? (int)(1000 * cost->budget / (DSW_STOP_SHARE * DSW_STOP_RISK)) : -1;
}

uint64_t dsw_stop_cost_moment(const struct dsw_stop_cost *cost, unsigned class_, uint64_t idle_ns, int limit)
{
        uint64_t next = UINT64_MAX;

        if ((int)dsw_stop_cost_risk(cost, class_, idle_ns) <= limit)
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
