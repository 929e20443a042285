/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/waits.h"

#include <string.h>

#include "policies/detshare/mean.h"

#define WAITS_INTERVALS 512u
/* A client needs a while to take the next request from its queue, its turn: a Python program 50 to 200 us. Turns are
 * taken to last for up to three times their mean, with equal probability. */
#define WAITS_TURN_NS 100000ull      /* mean turn while none is known, ns */
#define WAITS_TURN_MOST_NS 100000ull /* longest mean turn, ns */
#define WAITS_TURN_PART 16u          /* a mean turn is at most this part of the mean interval */
#define WAITS_TURN_SPREAD 3u

/* e to the power of -x / WAITS_ONE, times WAITS_ONE, for x up to some WAITS_ONE. */
static uint64_t waits_decay(uint64_t x)
{
        const uint64_t one = WAITS_ONE, square = x * x / one, cube = square * x / one;

        return one * one / (one + x + square / 2 + cube / 6);
}

static uint64_t waits_bin(uint64_t slo_ns)
{
        return max_u64(slo_ns / WAITS_PER_SLO, 1);
}

/* Whether the bins still suit the objective: one that is a factor of the latency alone changes a little all the
 * time. */
static int waits_fit(const struct waits *waits, uint64_t slo_ns)
{
        const uint64_t bin_ns = waits_bin(slo_ns);

        return waits->bin_ns - min_u64(waits->bin_ns, bin_ns) <= bin_ns / 4 &&
               bin_ns - min_u64(waits->bin_ns, bin_ns) <= bin_ns / 4;
}

void waits_none(struct waits *waits, uint64_t slo_ns)
{
        memset(waits->p, 0, sizeof(waits->p));
        waits->p[0] = WAITS_ONE;
        waits->bin_ns = waits_bin(slo_ns);
        waits->row = 1;
}

/* Moves the distribution up by ns: everybody in the queue has waited for that longer. */
static void waits_grow(struct waits *waits, uint64_t ns)
{
        const uint64_t bins = min_u64(ns / waits->bin_ns, WAITS), rest = ns % waits->bin_ns * WAITS_ONE / waits->bin_ns;
        uint32_t p[WAITS] = {0};

        for (uint32_t i = 0; i < WAITS; i++) {
                const uint32_t upper = (uint32_t)(waits->p[i] * rest / WAITS_ONE);

                p[min_u64(i + bins, WAITS - 1)] += waits->p[i] - upper;
                p[min_u64(i + bins + 1, WAITS - 1)] += upper;
        }
        memcpy(waits->p, p, sizeof(p));
}

/* Subtracts the time between two arrivals, given that the result is not negative. Returns the probability of that, of
 * WAITS_ONE: that the next request arrived before the present one ended. */
static uint64_t waits_shrink(struct waits *waits)
{
        const uint64_t bins = waits->bin_ns * WAITS_ONE / max_u64(waits->interval_ns, 1);
        const uint64_t decay = waits_decay(min_u64(bins, 4 * WAITS_ONE));
        uint64_t above = 0, sum = 0;

        for (uint32_t i = WAITS; i-- > 0;) {
                above = above * decay / WAITS_ONE + waits->p[i];
                waits->p[i] = (uint32_t)above;
                sum += above;
        }
        for (uint32_t i = 0; i < WAITS && sum; i++)
                waits->p[i] = (uint32_t)(waits->p[i] * (uint64_t)WAITS_ONE / sum);
        return min_u64(sum * (WAITS_ONE - decay) / WAITS_ONE, WAITS_ONE);
}

/*
 * Probability that a request which began gap_ns after the end of the previous one was queued, of WAITS_ONE. queued: the
 * same before the gap is known. A queued request begins after a turn. A request that was not queued may begin at any
 * time, so it rarely begins as soon.
 */
static uint64_t waits_queued(const struct waits *waits, uint64_t gap_ns, uint64_t queued)
{
        const uint64_t turn_ns = waits->turn_ns ? waits->turn_ns : WAITS_TURN_NS;
        const uint64_t most_ns = min_u64(turn_ns, waits->interval_ns / WAITS_TURN_PART) * WAITS_TURN_SPREAD;
        const uint64_t with = queued / 64 * max_u64(waits->interval_ns, 1),
                       without = (WAITS_ONE - queued) / 64 * most_ns;

        return gap_ns > most_ns || !with ? 0 : min_u64(with / ((with + without) / WAITS_ONE + 1), WAITS_ONE);
}

/*
 * Learns the mean interval at a pause: from one pause to the next as many requests arrive as are answered. Within a row
 * the intervals between begins would not do, because those of an overloaded session say only how long requests take.
 */
static void waits_learn(struct waits *waits)
{
        for (uint32_t i = 0; i < waits->cycle && i < WAITS_INTERVALS; i++) {
                waits->intervals += waits->intervals < WAITS_INTERVALS;
                learn_part(&waits->interval_ns, waits->cycle_ns / waits->cycle, waits->intervals);
        }
        waits->cycle_ns = waits->cycle = 0;
}

void waits_begin(struct waits *waits, uint64_t since_ns, uint64_t gap_ns, uint64_t slo_ns)
{
        uint64_t queued = 0;

        if (waits->row) {
                waits->cycle_ns += since_ns;
                waits->cycle++;
                if (waits_fit(waits, slo_ns)) {
                        waits_grow(waits, since_ns);
                        queued = waits_queued(waits, gap_ns, waits_shrink(waits));
                }
        }
        if (queued < WAITS_ONE / 2) {
                waits_learn(waits);
                waits_none(waits, slo_ns);
                return;
        }
        waits->row++;
        learn_slowly(&waits->turn_ns, max_u64(gap_ns, 1));
        waits->turn_ns = min_u64(waits->turn_ns, WAITS_TURN_MOST_NS);
        for (uint32_t i = 0; i < WAITS; i++)
                waits->p[i] = (uint32_t)(waits->p[i] * queued / WAITS_ONE);
        waits->p[0] += (uint32_t)(WAITS_ONE - queued);
}

uint32_t waits_over(const struct waits *waits, uint64_t ns)
{
        const uint64_t first = waits->row ? ns / waits->bin_ns : 0;
        uint64_t over = 0;

        for (uint64_t i = first + 1; i < WAITS; i++)
                over += waits->p[i];
        if (first && first < WAITS)
                over += waits->p[first] * (waits->bin_ns - ns % waits->bin_ns) / waits->bin_ns;
        return (uint32_t)over;
}

uint64_t waits_quantile(const struct waits *waits, uint32_t percent)
{
        uint64_t sum = 0;
        uint32_t i = 0;

        for (; i < WAITS - 1; i++) {
                sum += waits->p[i];
                if (sum * 100 >= (uint64_t)WAITS_ONE * percent)
                        break;
        }
        return i ? (i + 1) * waits->bin_ns : 0;
}
