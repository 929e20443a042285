/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Felt: measures what BE costs the requests of an LS session
 *
 * The prices of prices.h come from blocks and stairs. They ignore caches, memory and the order in which an SM takes
 * blocks: on an H200 a BERT with a predicted loss of 5% beside another one lost 50%. So this file times requests under
 * two regimes of BE: under EBB, BE kernels run beside the request where their prices send them; under HELD, no kernel
 * of BE is launched during the request.
 *
 * One regime is in force. The caller chooses the first one (`first`); after a new BE session has appeared, the regime
 * in force is at least as strict as that. With HELD first, a few requests of many measure what BE costs; with EBB
 * first, all of the first requests suffer from it.
 *
 * The regime in force changes when the requests under EBB surely lose more than the slack (to HELD), and when they
 * surely keep the slack (to EBB). Sure means: by more than twice the standard error, estimated from the mean deviation.
 * So requests that vary by themselves change nothing. A request of more than twice the mean counts as twice the mean,
 * so a single request that another program delayed changes nothing either.
 *
 * A request is compared only with requests shortly before it, because a session's own speed may change by more than the
 * slack for seconds (clocks, memory, its own program). Most requests run under the regime in force; the mean of the
 * last few is the base. Together with the base, one request under the other regime makes a pair: a time with BE and a
 * time without. Under EBB, one request in FELT_RENEW is held. Under HELD, one in FELT_TRIAL is a trial of EBB; it is
 * one in FELT_SOON while too little is known of EBB, or after a trial that cost far less than earlier ones. Trials are
 * rarer than the one request in a hundred that a p99 shows, because a request that takes twice as long may delay
 * others. (The caller ends such a trial early.)
 *
 * The cost is the difference of the means over the pairs, of which the last FELT_SAMPLES or so count. If the base
 * becomes longer by more than the slack, BE may or may not be the cause, so pairs are made as often as at first.
 * Requests that met no BE count as HELD. Times are per operation, because the length of a request says little where
 * requests have several sizes, or follow each other so closely that they look like one. Requests longer than
 * FELT_PIECE_NS are measured in pieces of that length.
 */
#pragma once

#include <stdint.h>

#define FELT_PIECE_NS 20000000u
#define FELT_SAMPLES 16u
#define FELT_KNOWN 4u  /* pairs, or requests of the base, from which on their mean counts */
#define FELT_BASE 8u   /* number of last requests in the base */
#define FELT_RENEW 64u /* under EBB one request in this many is held */
#define FELT_FIRST 4u  /* the same while the cost is unknown */
/* Under HELD one request in this many is a trial of EBB: ten times rarer than what a p99 shows */
#define FELT_TRIAL 1000u
#define FELT_SOON 128u /* the same while little is known of EBB: still rarer than one in a hundred */

enum felt_regime {
        FELT_EBB,
        FELT_HELD,
};

struct felt {
        struct {
                uint32_t n;
                /* means over the pairs: time per operation with BE, without BE, and their mean deviation; 1/16 ns */
                uint64_t with, without, deviation;
        } cost;
        struct {
                uint32_t n, at; /* requests in the base; number of the last one */
                uint64_t mean;  /* 1/16 ns */
        } base;
        uint32_t requests;
        uint32_t now, first; /* enum felt_regime; first is set before the first request */
};

/* Whether requests beside BE surely lose no more than the slack. */
int felt_keeps(const struct felt *felt, uint64_t slack_permille);

/* Whether a request took at least twice the base, whatever ran beside it. */
int felt_is_bad(const struct felt *felt, uint64_t ns, uint32_t operations);

/* Learns a request of `operations` (at least 1) that took `ns`. */
void felt_learn(struct felt *felt, uint32_t regime, uint64_t ns, uint32_t operations);

/* The regime that is in force from now on, chosen by the known cost. slack_permille: slowdown that BE may cause. */
uint32_t felt_now(struct felt *felt, uint64_t slack_permille);

/* Whether the session holds BE only because it does not know what BE costs. */
int felt_is_ignorant(const struct felt *felt);

/*
 * The regime of the request that begins now. slack_permille: slowdown that BE may cause. sessions: number of LS
 * sessions with trials, at least 1. A session that does not know the cost of BE also bears the trials of the other
 * sessions, so each session makes fewer.
 */
uint32_t felt_choose(struct felt *felt, uint64_t slack_permille, uint32_t sessions);

/* Whether the request that felt_choose() was called for last is needed to learn the cost: it runs under the other
 * regime, or belongs to the base of a request that soon does. Arguments as for felt_choose(). */
int felt_measures(const struct felt *felt, uint64_t slack_permille, uint32_t sessions);

/* Discards the learned cost of BE, because another BE session runs now. */
void felt_forget(struct felt *felt);
