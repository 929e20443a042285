/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/felt.h"

#include "policies/detshare/mean.h"

#define FELT_NEAR 32u /* largest age, in requests, of a base that requests are compared with */
#define FELT_SLACK_MAX 1000000u

/* Longest time per operation with BE that keeps the slack, from the time without BE. Saturates: the slack may be any
 * number. */
static uint64_t felt_may(const struct felt *felt, uint64_t slack_permille)
{
        return felt->cost.without + felt->cost.without / 1000 * min_u64(slack_permille, FELT_SLACK_MAX);
}

/* Twice the standard error of the mean. A mean deviation of 1 is taken for a standard deviation of 1.25. */
static uint64_t felt_error(const struct felt *felt)
{
        uint32_t root = 1;

        while ((root + 1) * (root + 1) <= felt->cost.n)
                root++;
        return felt->cost.deviation / 2 * 5 / root;
}

static int felt_breaks(const struct felt *felt, uint64_t slack_permille)
{
        const uint64_t may = felt_may(felt, slack_permille), with = felt->cost.with;

        return felt->cost.n >= FELT_KNOWN && with > may && with - may > felt_error(felt);
}

int felt_keeps(const struct felt *felt, uint64_t slack_permille)
{
        const uint64_t may = felt_may(felt, slack_permille), with = felt->cost.with;

        return felt->cost.n >= FELT_KNOWN && with <= may && may - with >= felt_error(felt);
}

/* The value, limited to between half of the mean and twice the mean of the n samples so far. The first sample is not
 * limited. */
static uint64_t felt_bounded(uint64_t value, uint64_t mean, uint32_t n)
{
        return n > 1 ? max_u64(min_u64(value, 2 * mean), mean / 2) : value;
}

/* Adds a pair: the time per operation of a request with BE, and without BE. */
static void felt_pair(struct felt *felt, uint64_t with, uint64_t without)
{
        const uint32_t n = felt->cost.n < FELT_SAMPLES ? ++felt->cost.n : FELT_SAMPLES;
        uint64_t away;

        with = felt_bounded(with, felt->cost.with, n);
        without = felt_bounded(without, felt->cost.without, n);
        if (n == 1) {
                felt->cost.with = with;
                felt->cost.without = without;
                felt->cost.deviation = 0;
                return;
        }
        /* deviation of BE's cost in this pair from its mean; compared as sums, because the cost may be negative */
        away = difference_u64(with + felt->cost.without, without + felt->cost.with);
        learn_part(&felt->cost.with, with, n);
        learn_part(&felt->cost.without, without, n);
        felt->cost.deviation += away / n;
        felt->cost.deviation -= felt->cost.deviation / n;
}

/*
 * Whether BE costs so much less in this pair than in earlier ones that it must have changed: by more than four
 * deviations, and by more than a thirty-second of the time.
 */
static int felt_changed(const struct felt *felt, uint64_t with, uint64_t without)
{
        const uint64_t least = 4 * felt->cost.deviation + felt->cost.without / 32;

        return felt->cost.n >= FELT_KNOWN && felt->cost.with + without > with + felt->cost.without + least;
}

/* Whether a base exists that a request of the other regime can be compared with. */
static int felt_has_base(const struct felt *felt)
{
        return felt->base.n >= FELT_KNOWN && felt->requests - felt->base.at <= FELT_NEAR;
}

int felt_is_bad(const struct felt *felt, uint64_t ns, uint32_t operations)
{
        return felt_has_base(felt) && ns * 16 / operations >= 2 * felt->base.mean;
}

void felt_learn(struct felt *felt, uint32_t regime, uint64_t ns, uint32_t operations)
{
        const uint64_t value = ns * 16 / operations;

        if (regime == felt->now) {
                if (felt->base.n < FELT_BASE)
                        felt->base.n++;
                felt->base.at = felt->requests;
                learn_part(&felt->base.mean, felt_bounded(value, felt->base.mean, felt->base.n), felt->base.n);
        } else if (!felt_has_base(felt)) {
                return;
        } else if (regime == FELT_HELD) {
                felt_pair(felt, felt->base.mean, value);
        } else {
                if (felt_changed(felt, value, felt->base.mean))
                        felt->cost.n = 0; /* restarts the means, so the next trials come soon */
                felt_pair(felt, value, felt->base.mean);
        }
}

uint32_t felt_now(struct felt *felt, uint64_t slack_permille)
{
        const uint32_t before = felt->now;

        if (felt_breaks(felt, slack_permille))
                felt->now = FELT_HELD;
        else if (felt_keeps(felt, slack_permille))
                felt->now = FELT_EBB;
        if (felt->now != before)
                felt->base.n = 0;
        return felt->now;
}

/*
 * Whether this request is the one of `many` that runs under the other regime. Its place differs from group to group;
 * otherwise a program that alternates between two kinds of requests would run only one of them so. 37 shares no divisor
 * with any `many` in use.
 */
static int felt_other(uint32_t number, uint32_t many)
{
        return number % many == number / many * 37 % many;
}

static int felt_is_unknown(const struct felt *felt, uint64_t slack_permille)
{
        return felt->cost.n < FELT_KNOWN ||
               (felt->cost.n < FELT_SAMPLES && !felt_keeps(felt, slack_permille) && !felt_breaks(felt, slack_permille));
}

/* Whether requests beside BE have become longer by more than the slack. */
static int felt_suspects(const struct felt *felt, uint64_t slack_permille)
{
        const uint64_t slack = felt_may(felt, slack_permille) - felt->cost.without;

        return felt->base.n == FELT_BASE && felt->base.mean > felt->cost.with + slack + felt_error(felt);
}

int felt_is_ignorant(const struct felt *felt)
{
        return felt->now == FELT_HELD && felt->first == FELT_HELD && felt->cost.n < FELT_KNOWN;
}

/* Interval at which requests run under the other regime, requests. */
static uint32_t felt_interval(const struct felt *felt, uint64_t slack_permille, uint32_t sessions)
{
        const int unknown = felt_is_unknown(felt, slack_permille);

        if (felt->now == FELT_EBB)
                return unknown || felt_suspects(felt, slack_permille) ? FELT_FIRST : FELT_RENEW;
        return unknown ? FELT_SOON * sessions : FELT_TRIAL;
}

uint32_t felt_choose(struct felt *felt, uint64_t slack_permille, uint32_t sessions)
{
        if (++felt->requests == 1)
                felt->now = felt->first;
        else
                felt_now(felt, slack_permille);
        if (!felt_has_base(felt) || !felt_other(felt->requests, felt_interval(felt, slack_permille, sessions)))
                return felt->now;
        return felt->now == FELT_EBB ? FELT_HELD : FELT_EBB;
}

int felt_measures(const struct felt *felt, uint64_t slack_permille, uint32_t sessions)
{
        const uint32_t many = felt_interval(felt, slack_permille, sessions);

        for (uint32_t i = 0; i <= FELT_KNOWN; i++)
                if (felt_other(felt->requests + i, many))
                        return 1;
        return 0;
}

void felt_forget(struct felt *felt)
{
        felt->cost.n = 0;
        if (felt->now >= felt->first)
                return;
        felt->base.n = 0;
        felt->now = felt->first;
}
