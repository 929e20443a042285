/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/waits.h"

#include <string.h>

#include "policies/detshare/mean.h"

#define WAITS_INTERVALS 512u
#define WAITS_RECENT 32u /* intervals of which the recent mean knows the load */
#define WAITS_KNOWN 8u   /* intervals from which on their mean bounds the next one */
#define WAITS_LONG 4u    /* a longer pause than so many mean intervals counts as so many */
#define WAITS_CHANGE 2u  /* a recent mean so many times the mean, or so small a part of it, is another load */
#define WAITS_INTERVAL_MOST_NS (1ull << 40) /* a longer mean interval counts as this one, ns */
#define WAITS_THINK_NS 400000ull            /* alike gaps of at least this length are no turns, ns */
/* A client needs a while to take the next request from its queue, its turn: a Python program 50 to 300 us. */
#define WAITS_SLOW_NS 2000000ull /* longest turn of a client that is slow for a while, ns */
#define WAITS_SLOW_PART 2u       /* a slow turn is at most this part of the mean interval */
#define WAITS_TURN_NS 100000ull  /* mean turn while none is known, ns */
#define WAITS_TURN_PART 4u       /* a mean turn is at most this part of the mean interval */
#define WAITS_TURN_LOW 4u        /* so many times the low gap, and WAITS_TURN_NS, is the longest turn */
#define WAITS_TOGETHER_OF 128    /* requests over which it is learned which part arrives together */
#define WAITS_TOGETHER_MOST (WAITS_ONE / 16 * 15)
#define WAITS_LOW_PERCENT 5u   /* quantile of the gaps that counts as a short one, percent, at most */
#define WAITS_BUSY_PERCENT 50u /* the same as a part of the session's load, percent */
#define WAITS_HIGH_PERCENT 97u /* quantile of the gaps that counts as a long one, percent */
#define WAITS_PAUSE_TIMES 3u   /* a session pauses if its longer gaps are so many times its short ones */
#define WAITS_TURNS_MOST 16u   /* a gap of so many mean turns is a pause */

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

int waits_are_endless(const struct waits *waits)
{
        return waits->row > WAITS_ROW_MOST;
}

/* An objective that is a factor of the latency alone changes a little all the time. */
int waits_fit(uint64_t old_slo_ns, uint64_t slo_ns)
{
        return old_slo_ns <= slo_ns ? slo_ns - old_slo_ns <= slo_ns / 4 : old_slo_ns - slo_ns <= slo_ns / 4;
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

/*
 * Subtracts the time between two arrivals, which is 0 for the part `together`, given that the result is not negative.
 * Returns the probability of that, of WAITS_ONE: that the next request arrived before the present one ended. A result
 * between two bins counts half for each.
 */
static uint64_t waits_shrink(struct waits *waits)
{
        const uint64_t apart = WAITS_ONE - waits->together;
        const uint64_t bins = waits->bin_ns * apart / max_u64(waits->interval_ns, 1);
        const uint64_t decay = waits_decay(min_u64(bins, 4 * WAITS_ONE)), less = WAITS_ONE - decay;
        uint64_t above = 0, sum = 0;

        for (uint32_t i = WAITS; i-- > 0;) {
                const uint64_t same = i ? waits->p[i] + above * decay / WAITS_ONE : 0;
                const uint64_t here = (same + above) * less / WAITS_ONE * apart / WAITS_ONE / 2;

                above = waits->p[i] + above * decay / WAITS_ONE;
                waits->p[i] = (uint32_t)(here + (uint64_t)waits->p[i] * waits->together / WAITS_ONE);
                sum += waits->p[i];
        }
        for (uint32_t i = 0; i < WAITS && sum; i++)
                waits->p[i] = (uint32_t)(waits->p[i] * (uint64_t)WAITS_ONE / sum);
        return min_u64(sum, WAITS_ONE);
}

/*
 * A gap than which few are shorter, ns: a turn, if some requests are queued. In a session that is seldom busy fewer are,
 * so a smaller part of the gaps are turns. 0: not known, or too long for a turn.
 */
static uint64_t waits_low(const struct waits *waits)
{
        const uint64_t busy = waits->length_ns * WAITS_BUSY_PERCENT / max_u64(waits->interval_ns, 1);
        const uint64_t low_ns = gaps_quantile(&waits->gaps, (uint32_t)min_u64(max_u64(busy, 1), WAITS_LOW_PERCENT));

        return low_ns > WAITS_SLOW_NS ? 0 : low_ns;
}

/*
 * Whether all gaps of the session are about as long, and longer than usual turns: requests begin at fixed times, or the
 * client sends its next request some time after the answer. Then none waits, unless it begins at once. In a queue some
 * gaps are pauses, and much longer than the others.
 */
static int waits_are_alike(const struct waits *waits)
{
        const uint64_t low_ns = gaps_quantile(&waits->gaps, WAITS_LOW_PERCENT);

        return low_ns != UINT64_MAX && low_ns >= WAITS_THINK_NS &&
               gaps_quantile(&waits->gaps, WAITS_HIGH_PERCENT) / WAITS_PAUSE_TIMES < low_ns;
}

/* Learns from a request and the gap after it. */
static void waits_learn_after(struct waits *waits, const struct waits_step *step)
{
        memmove(&waits->last_ns[1], waits->last_ns, sizeof(waits->last_ns) - sizeof(waits->last_ns[0]));
        waits->last_ns[0] = step->gap_ns;
        if (step->bought)
                return;
        gaps_learn(&waits->gaps, step->gap_ns);
        learn_slowly(&waits->length_ns, max_u64(step->since_ns - min_u64(step->gap_ns, step->since_ns), 1));
}

/*
 * Probability that a request which began gap_ns after the end of the previous one was queued, of WAITS_ONE. queued: the
 * same before the gap is known. A queued request begins after a turn, and turns are taken to have an exponential
 * distribution. A request that was not queued may begin at any time, so it rarely begins as soon.
 */
static uint64_t waits_queued(const struct waits *waits, uint64_t gap_ns, uint64_t low_ns, uint64_t queued)
{
        const uint64_t mean_ns = max_u64(waits->turn_ns ? waits->turn_ns : WAITS_TURN_NS, low_ns);
        const uint64_t interval_ns = min_u64(max_u64(waits->interval_ns, 1), WAITS_INTERVAL_MOST_NS);
        const uint64_t turn_ns = max_u64(min_u64(mean_ns, interval_ns / WAITS_TURN_PART), 1);
        const uint64_t turns =
                min_u64(gap_ns / turn_ns, WAITS_TURNS_MOST) * WAITS_ONE + gap_ns % turn_ns * WAITS_ONE / turn_ns;
        const uint64_t quarter = waits_decay(turns / 4), half = quarter * quarter / WAITS_ONE;
        const uint64_t with = queued * (half * half / WAITS_ONE) / WAITS_ONE * interval_ns,
                       without = (WAITS_ONE - queued) * turn_ns;

        return turns >= WAITS_TURNS_MOST * WAITS_ONE || !with
                       ? 0
                       : min_u64(with / ((with + without) / WAITS_ONE + 1), WAITS_ONE);
}

/*
 * Learns the mean interval at a pause: from one pause to the next as many requests arrive as are answered. Within a row
 * the intervals between begins would not do, because those of an overloaded session say only how long requests take.
 * After a change of the load, older intervals do not count.
 */
static void waits_learn(struct waits *waits)
{
        for (uint32_t i = 0; i < waits->cycle && i < WAITS_INTERVALS; i++) {
                waits->intervals += waits->intervals < WAITS_INTERVALS;
                learn_part(&waits->interval_ns, waits->cycle_ns / waits->cycle, waits->intervals);
                learn_part(&waits->recent_ns, waits->cycle_ns / waits->cycle,
                        (uint32_t)min_u64(waits->intervals, WAITS_RECENT));
        }
        if (waits->recent_ns > WAITS_CHANGE * waits->interval_ns ||
                waits->recent_ns < waits->interval_ns / WAITS_CHANGE) {
                waits->interval_ns = waits->recent_ns;
                waits->intervals = min_u64(waits->intervals, WAITS_RECENT);
        }
        waits->cycle_ns = waits->cycle = 0;
}

/* A long pause, such as that of a client that restarts or between two bursts, must not look like a lower load: the mean
 * is that of the arrivals between long pauses. */
static uint64_t waits_bounded(const struct waits *waits, uint64_t since_ns)
{
        return waits->intervals < WAITS_KNOWN ? since_ns : min_u64(since_ns, waits->interval_ns * WAITS_LONG);
}

static void waits_learn_turn(struct waits *waits, uint64_t gap_ns, uint64_t low_ns)
{
        learn_slowly(&waits->turn_ns, min_u64(max_u64(gap_ns, 1), low_ns * WAITS_TURN_LOW + WAITS_TURN_NS));
}

/*
 * Learns which part of the requests arrives together with the one before, from requests after one that has not waited:
 * more of them than was probable were queued. The evidence is the gap alone, so what was believed before does not
 * confirm itself.
 */
static void waits_learn_together(struct waits *waits, uint64_t gap_ns, uint64_t low_ns, uint64_t probable)
{
        const int64_t was = waits_queued(waits, gap_ns, low_ns, WAITS_ONE / 2) > WAITS_ONE / 2 ? WAITS_ONE : 0;
        const int64_t together = (int64_t)waits->together + (was - (int64_t)probable) / WAITS_TOGETHER_OF;

        waits->together = (uint32_t)(together < 0 ? 0 : min_u64((uint64_t)together, WAITS_TOGETHER_MOST));
}

/* The shortest of the last gaps if none was longer than a slow turn, ns; else 0. A client that is slow for a while,
 * because its host is, takes long turns then. */
static uint64_t waits_slow(const struct waits *waits)
{
        uint64_t shortest = UINT64_MAX, longest = 0;

        for (uint32_t i = 0; i < WAITS_LAST; i++) {
                shortest = min_u64(shortest, waits->last_ns[i]);
                longest = max_u64(longest, waits->last_ns[i]);
        }
        return longest <= min_u64(WAITS_SLOW_NS, waits->interval_ns / WAITS_SLOW_PART) ? shortest : 0;
}

/* Updates the distribution for a request that follows another one. Returns the probability that it was queued, of
 * WAITS_ONE. low_ns: shortest turn that the session's gaps show, ns. */
static uint64_t waits_follow(struct waits *waits, const struct waits_step *step, uint64_t low_ns)
{
        uint64_t probable, queued;

        waits_grow(waits, step->since_ns);
        probable = waits_shrink(waits);
        queued = waits_queued(waits, step->gap_ns, low_ns, probable);
        if (waits->row == 1)
                waits_learn_together(waits, step->gap_ns, low_ns, probable);
        return queued;
}

void waits_begin(struct waits *waits, const struct waits_step *step, uint64_t slo_ns)
{
        uint64_t queued = 0, low_ns = 0;

        if (waits->row) {
                waits->cycle_ns += waits_bounded(waits, step->since_ns);
                waits->cycle++;
                if (waits_are_endless(waits))
                        waits->cycle_ns = waits->cycle = 0;
                waits_learn_after(waits, step);
                low_ns = max_u64(waits_low(waits), waits_slow(waits));
                if (waits_fit(waits->bin_ns * WAITS_PER_SLO, slo_ns) &&
                        (step->gap_ns <= WAITS_TURN_NS || !waits_are_alike(waits)))
                        queued = waits_follow(waits, step, low_ns);
        }
        if (queued < WAITS_ONE / 2)
                waits_learn(waits);
        else
                waits_learn_turn(waits, step->gap_ns, low_ns);
        if (!queued) {
                waits_none(waits, slo_ns);
                return;
        }
        waits->row = queued < WAITS_ONE / 2 ? 1 : waits->row + 1;
        for (uint32_t i = 0; i < WAITS; i++)
                waits->p[i] = (uint32_t)(waits->p[i] * queued / WAITS_ONE);
        waits->p[0] += (uint32_t)(WAITS_ONE - queued);
}

uint32_t waits_over(const struct waits *waits, uint64_t ns)
{
        const uint64_t at = ns + waits->bin_ns / 2, first = waits->row ? at / waits->bin_ns : 0;
        uint64_t over = 0;

        for (uint64_t i = first + 1; i < WAITS; i++)
                over += waits->p[i];
        if (first && first < WAITS)
                over += waits->p[first] * (waits->bin_ns - at % waits->bin_ns) / waits->bin_ns;
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
        return i ? i * waits->bin_ns + waits->bin_ns / 2 : 0;
}
