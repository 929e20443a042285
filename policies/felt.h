/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Felt: what BE really costs an LS session's requests
 *
 * A rule that prices BE's kernels by their blocks and stairs knows nothing of caches, memory and the order in which an
 * SM takes blocks: on an H200 a BERT that was to lose 5 % beside another one lost 50 %. So requests are timed under
 * several regimes of BE, each stricter than the one before:
 *
 *      EBB                       BE goes where the prices send it
 *      HALF, QUARTER, EIGHTH     all kernels of BE keep to that part of the SMs while the request goes on
 *      HELD                      none is launched
 *
 * One is in force. Which one it begins with is the caller's choice (`first`), and beside BE that was not there before
 * it is no more generous than that: with HELD, what BE costs is found by a few requests of many, with EBB by all of the
 * first. A regime whose requests surely break the slack is left for the
 * most generous one that surely keeps it, or HELD if none is known to; and whenever a more generous one surely keeps
 * it, that is in force. Sure is what lies outside twice the standard error (as the mean deviation estimates it); in
 * between all stays as it is, so requests that vary by themselves decide nothing. One that takes more than twice the
 * mean counts as twice: a single one that somebody else held up must not decide, either.
 *
 * Compared are neighbours: a session's own speed may change by more than the slack for seconds (clocks, memory, its own
 * program), and times of before and after are then no measure of anything. Most requests run under the regime in force;
 * the mean of the last few is the base. One of RENEW is HELD: the base and that one are a pair, what requests take with
 * BE and without. One of TRIAL runs under a more generous regime, whose pair it makes with the base (and with what is
 * known of that), one of SOON while too little is known of it, or one says that it costs far less than it did: fewer
 * than the one of a hundred that a 99th percentile sees, for one that takes twice as long may hold up others (the rest
 * of it has the regime in force: who calls this sees to that). The means of a regime's pairs are compared, and forget:
 * the last FELT_SAMPLES or so count. If the base has become longer than the slack since, it is not known whether that
 * is BE, so pairs come as often as at first. Requests that met no BE at all are as good as HELD ones. Time is per
 * operation: where requests come in several sizes, or follow each other so closely that they look like one, their
 * lengths say little. What goes on for longer than FELT_PIECE_NS is looked at in pieces of that.
 */
#pragma once

#include "policies/gaps.h"

#define FELT_PIECE_NS 5000000u
#define FELT_SAMPLES 16u
#define FELT_KNOWN 4u /* samples before a mean says anything */
#define FELT_BASE 8u  /* requests in the base */
#define FELT_NEAR 32u /* requests after which it is no neighbour any more */
#define FELT_RENEW 64u
#define FELT_FIRST 4u /* of the pairs, while the regime in force is not known */
#define FELT_TRIAL 1000u
#define FELT_SOON 128u /* of a more generous regime, while that is not known */
#define FELT_SLACK_MAX 1000000u
#define FELT_RATIO 1024u /* 1 */

enum felt_regime {
        FELT_EBB,
        FELT_HALF, /* the part is 1 / 2^regime */
        FELT_QUARTER,
        FELT_EIGHTH,
        FELT_HELD,
};

struct felt {
        struct {
                uint32_t n;
                uint64_t with, without, deviation; /* means of the time per operation, in 1/16 ns */
        } of[FELT_HELD];
        struct {
                uint32_t n, at; /* at: the number of the request that was the last in it */
                uint64_t mean;
        } base;
        uint32_t requests;
        uint32_t now, first; /* enum felt_regime; first is set before the first request */
};

/* What BE may make of requests that take so long without it. An SLO may be any number, so the slack may be, too. */
static inline uint64_t felt_may(const struct felt *felt, uint32_t regime, uint64_t slack_permille)
{
        const uint64_t slack = slack_permille < FELT_SLACK_MAX ? slack_permille : FELT_SLACK_MAX;

        return felt->of[regime].without + felt->of[regime].without / 1000 * slack;
}

/* Twice the standard error of a mean; a mean deviation of 1 stands for a standard deviation of 1.25. */
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

static inline uint64_t felt_difference(uint64_t a, uint64_t b)
{
        return a > b ? a - b : b - a;
}

/* A value is at most twice the mean, and at least half of it. */
static inline uint64_t felt_bounded(uint64_t value, uint64_t mean, uint32_t n)
{
        if (n > 1 && value > 2 * mean)
                return 2 * mean;
        return n > 1 && value < mean / 2 ? mean / 2 : value;
}

/* Requests of a regime take so long with BE, and so long without. */
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
        /* of what BE costs; sums, because it may be less than nothing */
        away = felt_difference(with + felt->of[regime].without, without + felt->of[regime].with);
        learn_part(&felt->of[regime].with, with, n);
        learn_part(&felt->of[regime].without, without, n);
        felt->of[regime].deviation += away / n;
        felt->of[regime].deviation -= felt->of[regime].deviation / n;
}

/*
 * Whether BE costs so much less in this pair than in those before that it must have changed: by more than four
 * deviations, and by more than a thirty-second of the time.
 */
static inline int felt_changed(const struct felt *felt, uint32_t regime, uint64_t with, uint64_t without)
{
        const uint64_t least = 4 * felt->of[regime].deviation + felt->of[regime].without / 32;

        return felt->of[regime].n >= FELT_KNOWN &&
               felt->of[regime].with + without > with + felt->of[regime].without + least;
}

/* What requests would take without BE, as the base and what is known of its regime say; 0: not known. */
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

/* Whether there is a base that a request of another regime can be compared with. */
static inline int felt_has_base(const struct felt *felt)
{
        return felt->base.n >= FELT_KNOWN && felt->requests - felt->base.at <= FELT_NEAR;
}

/* Whether what took so long took at least twice what others do, whoever they are beside. */
static inline int felt_is_bad(const struct felt *felt, uint64_t ns, uint32_t operations)
{
        return felt_has_base(felt) && ns * 16 / operations >= 2 * felt->base.mean;
}

/* A request of so many operations, at least 1, took so long. */
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
                        felt->of[regime].n = 0; /* so the next trials of it come soon */
                felt_pair(felt, regime, value, without);
        }
}

/*
 * The regime in force, by what is known. slack_permille: by so much BE may make requests longer. steps: how many
 * regimes there are besides HELD, from EBB on: at least 1.
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
 * Whether this request is the one among so many that runs under another regime. It has another place among each so
 * many: of a program that does this and that in turn, the one would run under one regime only and the other under the
 * other. 37 has no divisor in common with any number that this is asked for.
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

/* Whether requests under the regime in force take longer than they did, by more than the slack. */
static inline int felt_suspects(const struct felt *felt, uint64_t slack_permille)
{
        const uint64_t with = felt->of[felt->now].with, more = felt_may(felt, felt->now, slack_permille);

        return felt->base.n == FELT_BASE &&
               felt->base.mean > with + (more - felt->of[felt->now].without) + felt_error(felt, felt->now);
}

/*
 * The more generous regime that is to be known soon, FELT_HELD: none. EBB first, then the strictest: where that breaks
 * the slack those between them are likely to, and have the trials that all have in turn.
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

/* Whether it holds BE for no other reason than that it does not know what BE costs. */
static inline int felt_is_ignorant(const struct felt *felt)
{
        return felt->now == FELT_HELD && felt->first == FELT_HELD && felt->of[FELT_EBB].n < FELT_KNOWN;
}

/*
 * The regime of the request that begins now; slack_permille and steps as for felt_now(). sessions: how many have
 * trials, at least 1: who is ignorant has to bear those of others, too, so each has fewer.
 */
static inline uint32_t felt_choose(struct felt *felt, uint64_t slack_permille, uint32_t steps, uint32_t sessions)
{
        const uint32_t number = ++felt->requests;
        const uint32_t now = number > 1 ? felt_now(felt, slack_permille, steps) : (felt->now = felt->first);
        const uint32_t generous = now < steps ? now : steps; /* so many are more generous */
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

/* BE is another one now: what it costs is not known. */
static inline void felt_forget(struct felt *felt)
{
        for (uint32_t i = 0; i < FELT_HELD; i++)
                felt->of[i].n = 0;
        if (felt->now >= felt->first)
                return;
        felt->base.n = 0;
        felt->now = felt->first;
}
