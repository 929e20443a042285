/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/felt.h"

#include "policies/detshare/mean.h"

#define FELT_NEAR 32u /* largest age, in requests, of a base that requests are compared with */
#define FELT_SLACK_MAX 1000000u
#define FELT_RATIO 1024u /* fixed-point value of the ratio 1 */

/* Longest time per operation with BE that keeps the slack, from the time without BE. Saturates: objective and slack
 * may be any number. */
static uint64_t felt_may(const struct felt *felt, uint32_t regime, uint64_t slack_permille)
{
        const uint64_t slack = slack_permille < FELT_SLACK_MAX ? slack_permille : FELT_SLACK_MAX;

        return felt->of[regime].without + felt->of[regime].without / 1000 * slack;
}

/* Twice the standard error of the mean. A mean deviation of 1 is taken for a standard deviation of 1.25. */
static uint64_t felt_error(const struct felt *felt, uint32_t regime)
{
        uint32_t root = 1;

        while ((root + 1) * (root + 1) <= felt->of[regime].n)
                root++;
        return felt->of[regime].deviation / 2 * 5 / root;
}

static int felt_breaks(const struct felt *felt, uint32_t regime, uint64_t slack_permille)
{
        const uint64_t may = felt_may(felt, regime, slack_permille), with = felt->of[regime].with;

        return felt->of[regime].n >= FELT_KNOWN && with > may && with - may > felt_error(felt, regime);
}

int felt_keeps(const struct felt *felt, uint32_t regime, uint64_t slack_permille)
{
        const uint64_t may = felt_may(felt, regime, slack_permille), with = felt->of[regime].with;

        return felt->of[regime].n >= FELT_KNOWN && with <= may && may - with >= felt_error(felt, regime);
}

/* The value, limited to between half of the mean and twice the mean of the n samples so far. The first sample is not
 * limited. */
static uint64_t felt_bounded(uint64_t value, uint64_t mean, uint32_t n)
{
        if (n > 1 && value > 2 * mean)
                return 2 * mean;
        return n > 1 && value < mean / 2 ? mean / 2 : value;
}

/* Adds a pair to the means of a regime: the time per operation of a request with BE, and without BE. */
static void felt_pair(struct felt *felt, uint32_t regime, uint64_t with, uint64_t without)
{
        const uint32_t n = felt->of[regime].n < FELT_SAMPLES ? ++felt->of[regime].n : FELT_SAMPLES;
        uint64_t away;

        with = felt_bounded(with, felt->of[regime].with, n);
        without = felt_bounded(without, felt->of[regime].without, n);
        if (n == 1) {
                felt->of[regime].with = with;
                felt->of[regime].without = without;
                felt->of[regime].deviation = 0;
                return;
        }
        /* deviation of BE's cost in this pair from its mean; compared as sums, because the cost may be negative */
        away = difference_u64(with + felt->of[regime].without, without + felt->of[regime].with);
        learn_part(&felt->of[regime].with, with, n);
        learn_part(&felt->of[regime].without, without, n);
        felt->of[regime].deviation += away / n;
        felt->of[regime].deviation -= felt->of[regime].deviation / n;
}

/*
 * Whether BE costs so much less in this pair than in earlier ones that it must have changed: by more than four
 * deviations, and by more than a thirty-second of the time.
 */
static int felt_changed(const struct felt *felt, uint32_t regime, uint64_t with, uint64_t without)
{
        const uint64_t least = 4 * felt->of[regime].deviation + felt->of[regime].without / 32;

        return felt->of[regime].n >= FELT_KNOWN &&
               felt->of[regime].with + without > with + felt->of[regime].without + least;
}

/* Expected time of requests without BE, from the base and its regime; 0: unknown. */
static uint64_t felt_without(const struct felt *felt)
{
        uint64_t ratio;

        if (felt->now == FELT_HELD)
                return felt->base.mean;
        if (felt->of[felt->now].n < FELT_KNOWN)
                return 0;
        ratio = felt->of[felt->now].without * FELT_RATIO / (felt->of[felt->now].with + 1);
        return felt->base.mean * (ratio < 4 * FELT_RATIO ? ratio : 4 * FELT_RATIO) / FELT_RATIO;
}

/* Whether a base exists that a request of another regime can be compared with. */
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
        const uint64_t value = ns * 16 / operations, without = felt_without(felt);

        if (regime == felt->now) {
                if (felt->base.n < FELT_BASE)
                        felt->base.n++;
                felt->base.at = felt->requests;
                learn_part(&felt->base.mean, felt_bounded(value, felt->base.mean, felt->base.n), felt->base.n);
        } else if (!felt_has_base(felt)) {
                return;
        } else if (regime == FELT_HELD) {
                felt_pair(felt, felt->now, felt->base.mean, value);
        } else if (without) {
                if (felt_changed(felt, regime, value, without))
                        felt->of[regime].n = 0; /* restarts the regime's means, so its next trials come soon */
                felt_pair(felt, regime, value, without);
        }
}

uint32_t felt_now(struct felt *felt, uint64_t slack_permille, uint32_t steps)
{
        uint32_t now = felt->now;

        if (now < FELT_HELD && (now >= steps || felt_breaks(felt, now, slack_permille))) {
                now = FELT_HELD;
                for (uint32_t i = steps; i-- > felt->now + 1;)
                        if (felt_keeps(felt, i, slack_permille))
                                now = i;
        }
        for (uint32_t i = now < steps ? now : steps; i-- > 0;)
                if (felt_keeps(felt, i, slack_permille))
                        now = i;
        if (now != felt->now)
                felt->base.n = 0;
        return felt->now = now;
}

/*
 * Whether this request is the one of `many` that runs under another regime. Its place differs from group to group;
 * otherwise a program that alternates between two kinds of requests would run only one of them so. 37 shares no divisor
 * with any `many` in use.
 */
static int felt_other(uint32_t number, uint32_t many)
{
        return number % many == number / many * 37 % many;
}

static int felt_is_unknown(const struct felt *felt, uint32_t regime, uint64_t slack_permille)
{
        const uint32_t n = felt->of[regime].n;

        return n < FELT_KNOWN || (n < FELT_SAMPLES && !felt_keeps(felt, regime, slack_permille) &&
                                         !felt_breaks(felt, regime, slack_permille));
}

/* Whether requests under the regime in force have become longer by more than the slack. */
static int felt_suspects(const struct felt *felt, uint64_t slack_permille)
{
        const uint64_t with = felt->of[felt->now].with, more = felt_may(felt, felt->now, slack_permille);

        return felt->base.n == FELT_BASE &&
               felt->base.mean > with + (more - felt->of[felt->now].without) + felt_error(felt, felt->now);
}

/*
 * The more generous regime that needs trials soon; FELT_HELD if none does. EBB is tried first, then the strictest of
 * them: if that one breaks the slack, those in between probably do too, and get only the regular trials.
 */
static uint32_t felt_wanted(const struct felt *felt, uint64_t slack_permille, uint32_t generous)
{
        if (generous && felt_is_unknown(felt, FELT_EBB, slack_permille))
                return FELT_EBB;
        for (uint32_t i = generous; i-- > 1;) {
                if (felt_is_unknown(felt, i, slack_permille))
                        return i;
                if (felt_breaks(felt, i, slack_permille))
                        break;
        }
        return FELT_HELD;
}

int felt_is_ignorant(const struct felt *felt)
{
        return felt->now == FELT_HELD && felt->first == FELT_HELD && felt->of[FELT_EBB].n < FELT_KNOWN;
}

uint32_t felt_choose(struct felt *felt, uint64_t slack_permille, uint32_t steps, uint32_t sessions)
{
        const uint32_t number = ++felt->requests;
        const uint32_t now = number > 1 ? felt_now(felt, slack_permille, steps) : (felt->now = felt->first);
        const uint32_t generous = now < steps ? now : steps; /* number of regimes that give BE more than `now` does */
        const uint32_t wanted = felt_wanted(felt, slack_permille, generous);
        const int uncertain =
                now < FELT_HELD && (felt_is_unknown(felt, now, slack_permille) || felt_suspects(felt, slack_permille));

        if (!felt_has_base(felt))
                return now;
        if (now < FELT_HELD && felt_other(number, uncertain ? FELT_FIRST : FELT_RENEW))
                return FELT_HELD;
        if (wanted < FELT_HELD)
                return felt_other(number, FELT_SOON * sessions) ? wanted : now;
        return generous && felt_other(number, FELT_TRIAL) ? number / FELT_TRIAL % generous : now;
}

void felt_forget(struct felt *felt)
{
        for (uint32_t i = 0; i < FELT_HELD; i++)
                felt->of[i].n = 0;
        if (felt->now >= felt->first)
                return;
        felt->base.n = 0;
        felt->now = felt->first;
}
