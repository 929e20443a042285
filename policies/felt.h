/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Felt: what BE really costs an LS session's requests
 *
 * A rule that prices BE's kernels by their blocks and stairs knows nothing of caches, memory and the order in which an
 * SM takes blocks: on an H200 a BERT that was to lose 5 % beside another one lost 50 %. So requests are timed under two
 * regimes of BE:
 *
 *      EBB     BE goes where the prices send it
 *      HELD    no kernel of BE is launched while the request goes on
 *
 * HELD requests, and those that met no BE at all, are the measure. It begins with EBB, and goes to HELD when EBB's
 * requests surely break the slack, and back when they surely keep it. Sure is what lies outside twice the standard
 * errors (as the mean deviation estimates them); in between all stays as it is, so requests that vary by themselves
 * decide nothing. One that takes more than twice the mean counts as twice: a single one that somebody else held up must
 * not decide, either. What is compared is time per operation: where requests come in several sizes, or follow each
 * other so closely that they look like one, their lengths say little. What goes on for longer than FELT_PIECE_NS is
 * looked at in pieces of that.
 *
 * While one regime is in force, a request now and then runs under the other: one of RENEW is HELD; one of TRIAL is
 * EBB, fewer than the one of a hundred that a 99th percentile sees, and sooner only while nothing is known of it. Means
 * forget: the last FELT_SAMPLES or so count.
 */
#pragma once

#include <stdint.h>

#define FELT_PIECE_NS 5000000u
#define FELT_SAMPLES 16u
#define FELT_KNOWN 4u /* samples before a mean says anything */
#define FELT_RENEW 64u
#define FELT_FIRST 4u /* of the measure, while that is not known */
#define FELT_TRIAL 200u
#define FELT_SOON 32u /* of EBB, while that is not known */
#define FELT_SLACK_MAX 1000000u

enum felt_regime {
        FELT_EBB,
        FELT_HELD,
        FELT_REGIMES,
};

struct felt {
        struct {
                uint32_t n;
                uint64_t mean, deviation; /* of the time per operation, in 1/16 ns */
        } of[FELT_REGIMES];
        uint32_t requests;
        uint32_t now; /* enum felt_regime */
};

/* A request of so many operations, at least 1, took so long. */
static inline void felt_learn(struct felt *felt, uint32_t regime, uint64_t ns, uint32_t operations)
{
        uint32_t n = felt->of[regime].n < FELT_SAMPLES ? ++felt->of[regime].n : FELT_SAMPLES;
        uint64_t mean = felt->of[regime].mean, value = ns * 16 / operations;
        uint64_t away;

        if (n > 1 && value > 2 * mean)
                value = 2 * mean;
        away = value > mean ? value - mean : mean - value;

        if (n == 1) {
                felt->of[regime].mean = value;
                felt->of[regime].deviation = 0;
                return;
        }
        felt->of[regime].mean = value > mean ? mean + away / n : mean - away / n;
        felt->of[regime].deviation += away / n;
        felt->of[regime].deviation -= felt->of[regime].deviation / n;
}

/* Twice the standard error of a mean; a mean deviation of 1 stands for a standard deviation of 1.25. */
static inline uint64_t felt_error(const struct felt *felt, uint32_t regime)
{
        uint32_t root = 1;

        while ((root + 1) * (root + 1) <= felt->of[regime].n)
                root++;
        return felt->of[regime].deviation / 2 * 5 / root;
}

/*
 * The regime in force, by what is known. slack_permille: by so much EBB may make requests longer; an SLO may be any
 * number, so it may be, too.
 */
static inline uint32_t felt_now(struct felt *felt, uint64_t slack_permille)
{
        const uint64_t error = felt_error(felt, FELT_EBB) + felt_error(felt, FELT_HELD);
        const uint64_t slack = slack_permille < FELT_SLACK_MAX ? slack_permille : FELT_SLACK_MAX;
        const uint64_t may = felt->of[FELT_HELD].mean + felt->of[FELT_HELD].mean / 1000 * slack;
        const uint64_t ebb = felt->of[FELT_EBB].mean;

        if (felt->of[FELT_EBB].n < FELT_KNOWN || felt->of[FELT_HELD].n < FELT_KNOWN)
                return felt->now;
        if (ebb > may && ebb - may > error)
                felt->now = FELT_HELD;
        else if (ebb <= may && may - ebb >= error)
                felt->now = FELT_EBB;
        return felt->now;
}

/*
 * Whether this request is the one among so many that runs under the other regime. It has another place among each so
 * many: of a program that does this and that in turn, the one would run under one regime only and the other under the
 * other. 37 has no divisor in common with any number that this is asked for.
 */
static inline int felt_other(uint32_t number, uint32_t many)
{
        return number % many == number / many * 37 % many;
}

/* The regime of the request that begins now. */
static inline uint32_t felt_choose(struct felt *felt, uint64_t slack_permille)
{
        const uint32_t number = ++felt->requests;
        const uint32_t renew = felt->of[FELT_HELD].n < FELT_KNOWN ? FELT_FIRST : FELT_RENEW;
        const uint32_t trial = felt->of[FELT_EBB].n < FELT_KNOWN ? FELT_SOON : FELT_TRIAL;

        if (felt_now(felt, slack_permille) == FELT_EBB)
                return felt_other(number, renew) ? FELT_HELD : FELT_EBB;
        return felt_other(number, trial) ? FELT_EBB : FELT_HELD;
}

/* BE is another one now: what it costs is not known. */
static inline void felt_forget(struct felt *felt)
{
        felt->of[FELT_EBB].n = 0;
}
