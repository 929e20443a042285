/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Felt: measures what BE costs the requests of an LS session
 *
 * The prices of prices.h come from blocks and stairs. They ignore caches, memory and the order in which an SM takes
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

#include <stdint.h>

#define FELT_PIECE_NS 5000000u
#define FELT_SAMPLES 16u
#define FELT_KNOWN 4u /* pairs of a regime, or requests of the base, from which on their mean counts */
#define FELT_BASE 8u  /* number of last requests in the base */
#define FELT_RENEW 64u
#define FELT_FIRST 4u /* interval of pairs while the regime in force is unknown, requests */
#define FELT_TRIAL 1000u
#define FELT_SOON 128u /* one request in this many is a trial, while little is known of the more generous regime */

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

/* Whether requests under the regime surely lose no more than the slack. */
int felt_keeps(const struct felt *felt, uint32_t regime, uint64_t slack_permille);

/* Whether a request took at least twice the base, whatever ran beside it. */
int felt_is_bad(const struct felt *felt, uint64_t ns, uint32_t operations);

/* Learns a request of `operations` (at least 1) that took `ns`. */
void felt_learn(struct felt *felt, uint32_t regime, uint64_t ns, uint32_t operations);

/*
 * The regime that is in force from now on, chosen by the known costs. slack_permille: slowdown that BE may cause.
 * steps: number of regimes besides HELD that may be used, from EBB on, at least 1.
 */
uint32_t felt_now(struct felt *felt, uint64_t slack_permille, uint32_t steps);

/* Whether the session holds BE only because it does not know what BE costs. */
int felt_is_ignorant(const struct felt *felt);

/*
 * The regime of the request that begins now; slack_permille and steps as for felt_now(). sessions: number of LS
 * sessions with trials, at least 1. A session that does not know the cost of BE also bears the trials of the other
 * sessions, so each session makes fewer.
 */
uint32_t felt_choose(struct felt *felt, uint64_t slack_permille, uint32_t steps, uint32_t sessions);

/* Discards the learned cost of BE, because another BE session runs now. */
void felt_forget(struct felt *felt);
