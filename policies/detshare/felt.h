/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Felt: measures what BE costs the requests of an LS session
 *
 * The prices of detshare.c come from blocks and stairs. They ignore caches, memory and the order in which an SM takes
 * blocks: on an H200 a BERT with a predicted loss of 5% beside another one lost 50%. So this file times requests under
 * several regimes of BE, each stricter than the previous one:
 *
 *      EBB                       BE goes where the prices send it
 *      HALF, QUARTER, EIGHTH     all kernels of BE keep to that part of the SMs during the request
 *      HELD                      no kernel of BE is launched
 *
 * One regime is in force. The caller chooses the first one (`first`); after a new BE session has appeared, the regime
 * in force is at least as strict as that. With HELD first, a few requests of many measure what BE costs; with EBB
 * first, all of the first requests suffer from it.
 *
 * The regime in force changes in two cases. If its requests surely lose more than the slack, the most generous regime
 * that surely keeps the slack replaces it (HELD if none is known to). If a more generous regime surely keeps the slack,
 * that one replaces it. Sure means: by more than twice the standard error, estimated from the mean deviation. So
 * requests that vary by themselves change nothing. A request of more than twice the mean counts as twice the mean, so a
 * single request that another program delayed changes nothing either.
 *
 * A request is compared only with requests shortly before it, because a session's own speed may change by more than the
 * slack for seconds (clocks, memory, its own program). Most requests run under the regime in force; the mean of the
 * last few is the base. One request in FELT_RENEW runs under HELD. With the base it makes a pair: a request with BE and
 * one without. One in FELT_TRIAL runs under a more generous regime. With the base, and the known cost of the regime in
 * force, it makes a pair of that regime. It is one in FELT_SOON while too little is known of the more generous regime,
 * or after a trial that cost far less than earlier ones. Trials are rarer than the one request in a hundred that a p99
 * shows, because a request that takes twice as long may delay others. (The caller ends such a trial early.)
 *
 * A regime's cost is the difference of the means over its pairs, of which the last FELT_SAMPLES or so count. If the
 * base becomes longer by more than the slack, BE may or may not be the cause, so pairs are made as often as at first.
 * Requests that met no BE count as HELD. Times are per operation, because the length of a request says little where
 * requests have several sizes, or follow each other so closely that they look like one. Requests longer than
 * FELT_PIECE_NS are measured in pieces of that length.
 */
#pragma once

#include "policies/detshare/gaps.h"

#define FELT_PIECE_NS 5000000u
#define FELT_SAMPLES 16u
#define FELT_KNOWN 4u /* pairs of a regime, or requests of the base, from which on their mean counts */
#define FELT_BASE 8u  /* number of last requests in the base */
#define FELT_NEAR 32u /* largest age, in requests, of a base that requests are compared with */
#define FELT_RENEW 64u
#define FELT_FIRST 4u /* interval of pairs while the regime in force is unknown, requests */
#define FELT_TRIAL 1000u
#define FELT_SOON 128u /* one request in this many is a trial, while little is known of the more generous regime */
#define FELT_SLACK_MAX 1000000u
#define FELT_RATIO 1024u /* fixed-point value of the ratio 1 */

enum felt_regime {
        FELT_EBB,
        FELT_HALF, /* HALF to EIGHTH: BE keeps to 1 / 2^regime of the SMs */
        FELT_QUARTER,
        FELT_EIGHTH,
        FELT_HELD,
};

struct felt {
        struct {
                uint32_t n;
                /* means over the pairs of the regime: time per operation with BE, without BE, and their mean
                 * deviation; 1/16 ns */
                uint64_t with, without, deviation;
        } of[FELT_HELD];
        struct {
                uint32_t n, at; /* requests in the base; number of the last one */
                uint64_t mean;
        } base;
        uint32_t requests;
        uint32_t now, first; /* enum felt_regime; first is set before the first request */
};

/* Longest time per operation with BE that keeps the slack, from the time without BE. Saturates: objective and slack
 * may be any number. */
static inline uint64_t felt_may(const struct felt *felt, uint32_t regime, uint64_t slack_permille)
{
        const uint64_t slack = slack_permille < FELT_SLACK_MAX ? slack_permille : FELT_SLACK_MAX;

        return felt->of[regime].without + felt->of[regime].without / 1000 * slack;
}

/* Twice the standard error of the mean. A mean deviation of 1 is taken for a standard deviation of 1.25. */
static inline uint64_t felt_error(const struct felt *felt, uint32_t regime)
{
        uint32_t root = 1;

        while ((root + 1) * (root + 1) <= felt->of[regime].n)
                root++;
        return felt->of[regime].deviation / 2 * 5 / root;
}

static inline int felt_breaks(const struct felt *felt, uint32_t regime, uint64_t slack_permille)
{
        const uint64_t may = felt_may(felt, regime, slack_permille), with = felt->of[regime].with;

        return felt->of[regime].n >= FELT_KNOWN && with > may && with - may > felt_error(felt, regime);
}

static inline int felt_keeps(const struct felt *felt, uint32_t regime, uint64_t slack_permille)
{
        const uint64_t may = felt_may(felt, regime, slack_permille), with = felt->of[regime].with;

        return felt->of[regime].n >= FELT_KNOWN && with <= may && may - with >= felt_error(felt, regime);
}

/* The value, limited to between half of the mean and twice the mean of the n samples so far. The first sample is not
 * limited. */
static inline uint64_t felt_bounded(uint64_t value, uint64_t mean, uint32_t n)
{
        if (n > 1 && value > 2 * mean)
                return 2 * mean;
        return n > 1 && value < mean / 2 ? mean / 2 : value;
}

/* Adds a pair to the means of a regime: the time per operation of a request with BE, and without BE. */
static inline void felt_pair(struct felt *felt, uint32_t regime, uint64_t with, uint64_t without)
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
static inline int felt_changed(const struct felt *felt, uint32_t regime, uint64_t with, uint64_t without)
{
        const uint64_t least = 4 * felt->of[regime].deviation + felt->of[regime].without / 32;

        return felt->of[regime].n >= FELT_KNOWN &&
               felt->of[regime].with + without > with + felt->of[regime].without + least;
}

/* Expected time of requests without BE, from the base and its regime; 0: unknown. */
static inline uint64_t felt_without(const struct felt *felt)
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
static inline int felt_has_base(const struct felt *felt)
{
        return felt->base.n >= FELT_KNOWN && felt->requests - felt->base.at <= FELT_NEAR;
}

/* Whether a request took at least twice the base, whatever ran beside it. */
static inline int felt_is_bad(const struct felt *felt, uint64_t ns, uint32_t operations)
{
        return felt_has_base(felt) && ns * 16 / operations >= 2 * felt->base.mean;
}

/* Learns a request of `operations` (at least 1) that took `ns`. */
static inline void felt_learn(struct felt *felt, uint32_t regime, uint64_t ns, uint32_t operations)
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

/*
 * The regime that is in force from now on, chosen by the known costs. slack_permille: slowdown that BE may cause.
 * steps: number of regimes besides HELD that may be used, from EBB on, at least 1.
 */
static inline uint32_t felt_now(struct felt *felt, uint64_t slack_permille, uint32_t steps)
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
static inline int felt_other(uint32_t number, uint32_t many)
{
        return number % many == number / many * 37 % many;
}

static inline int felt_is_unknown(const struct felt *felt, uint32_t regime, uint64_t slack_permille)
{
        const uint32_t n = felt->of[regime].n;

        return n < FELT_KNOWN || (n < FELT_SAMPLES && !felt_keeps(felt, regime, slack_permille) &&
                                         !felt_breaks(felt, regime, slack_permille));
}

/* Whether requests under the regime in force have become longer by more than the slack. */
static inline int felt_suspects(const struct felt *felt, uint64_t slack_permille)
{
        const uint64_t with = felt->of[felt->now].with, more = felt_may(felt, felt->now, slack_permille);

        return felt->base.n == FELT_BASE &&
               felt->base.mean > with + (more - felt->of[felt->now].without) + felt_error(felt, felt->now);
}

/*
 * The more generous regime that needs trials soon; FELT_HELD if none does. EBB is tried first, then the strictest of
 * them: if that one breaks the slack, those in between probably do too, and get only the regular trials.
 */
static inline uint32_t felt_wanted(const struct felt *felt, uint64_t slack_permille, uint32_t generous)
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

/* Whether the session holds BE only because it does not know what BE costs. */
static inline int felt_is_ignorant(const struct felt *felt)
{
        return felt->now == FELT_HELD && felt->first == FELT_HELD && felt->of[FELT_EBB].n < FELT_KNOWN;
}

/*
 * The regime of the request that begins now; slack_permille and steps as for felt_now(). sessions: number of LS
 * sessions with trials, at least 1. A session that does not know the cost of BE also bears the trials of the other
 * sessions, so each session makes fewer.
 */
static inline uint32_t felt_choose(struct felt *felt, uint64_t slack_permille, uint32_t steps, uint32_t sessions)
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

/* Discards the learned cost of BE, because another BE session runs now. */
static inline void felt_forget(struct felt *felt)
{
        for (uint32_t i = 0; i < FELT_HELD; i++)
                felt->of[i].n = 0;
        if (felt->now >= felt->first)
                return;
        felt->base.n = 0;
        felt->now = felt->first;
}
