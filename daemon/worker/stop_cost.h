/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops of the device: which LS requests they delay, and when a stop is worth its risk
 *
 * A stop that ends before the next LS request arrives delays nobody. Most stops last 0.1 ms, and most services are idle
 * for longer after a request. So the worker learns three things:
 *
 *  - the last DSW_STOP_GAPS idle gaps of LS. Only gaps of at least DSW_STOP_QUIET_NS count, because kernels of one
 *    request follow each other faster. A gap ends a request in the sense of this file;
 *  - the lengths of the last DSW_STOP_LENGTHS calls of each class: of a kind, with objects of a size. On an H200 the
 *    code of a library takes 0.03 to 2.6 ms, by its size. Calls that are certainly short must not wait for the budget
 *    of long ones;
 *  - hits: LS requests that arrived during a stop, or that a stop interrupted.
 *
 * The risk of a stop is the probability of a hit, given that LS has been idle for some time. It is the share of known
 * gaps that were longer than this time but not longer by the length of a call, averaged over the known lengths. For a
 * service with a period the risk is almost 0 until shortly before the next request. For arrivals at random the risk is
 * the rate times the length, at all times. The estimate includes a fraction of a gap of an unknown service, whose idle
 * time doubles with probability 1/2: this matters only beyond the known gaps.
 *
 * The budget limits what a wrong estimate can cost. Each request earns 1/DSW_STOP_SHARE of a hit, up to
 * DSW_STOP_SAVED hits, and each hit spends one. A stop is worth its risk if the risk is at most 1/DSW_STOP_RISK of the
 * saved hits. So of N requests in a row, stops of this kind delay at most N / DSW_STOP_SHARE + DSW_STOP_SAVED: fewer
 * than 1 in 100 of 1,600 requests, whatever the service's arrivals are.
 *
 * The worker asks in each round of its loop while a session waits, so the answer takes a fraction of a microsecond.
 *
 * Not guaranteed: a program that pauses within a request for longer than DSW_STOP_QUIET_NS has several requests here.
 * Several LS sessions are one service here: LS is idle only while all of them are.
 */
#pragma once

#include <stdint.h>

#include "util/macro.h"

#define DSW_STOP_GAPS 64u
#define DSW_STOP_GAPS_MIN 8u /* with fewer known gaps, the risk is unknown */
#define DSW_STOP_LENGTHS 32u
#define DSW_STOP_QUIET_NS (100 * DS_NS_PER_US)
#define DSW_STOP_SHARE 200 /* requests that earn a hit */
#define DSW_STOP_SAVED 8
#define DSW_STOP_FIRST 1 /* saved hits at the start of the worker */
#define DSW_STOP_RISK 16

enum dsw_stop_kind {
        DSW_STOP_MODULE,
        DSW_STOP_KERNEL,
        DSW_STOP_OTHER,
        DSW_STOP_CHORE, /* a piece of background work */
        _DSW_STOP_KIND_MAX,
};

#define DSW_STOP_SIZES 4u
#define DSW_STOP_SIZE_FIRST DS_KIB(256) /* bound of the first size; each further bound is 4 times as large */
#define DSW_STOP_CLASSES (_DSW_STOP_KIND_MAX * DSW_STOP_SIZES)

struct dsw_stop_lengths {
        uint64_t ns[DSW_STOP_LENGTHS];
        uint64_t sorted_ns[DSW_STOP_LENGTHS]; /* the same, shortest first */
        uint64_t mean_ns;
        uint64_t n; /* calls so far */
};

struct dsw_stop_cost {
        uint64_t gaps_ns[DSW_STOP_GAPS];
        uint64_t n_gaps, n_hits; /* so far */
        struct dsw_stop_lengths lengths[DSW_STOP_CLASSES];
        int64_t budget; /* saved hits, multiplied by DSW_STOP_SHARE; negative after more hits than were earned */
};

/* Class of a call for an object of so many bytes; 0 if the size does not matter. */
unsigned dsw_stop_class(enum dsw_stop_kind kind, uint64_t bytes);
void dsw_stop_cost_init(struct dsw_stop_cost *cost);
/* LS was idle for this time, and now has work again. Shorter gaps than DSW_STOP_QUIET_NS change nothing. */
void dsw_stop_cost_gap(struct dsw_stop_cost *cost, uint64_t ns);
void dsw_stop_cost_call(struct dsw_stop_cost *cost, unsigned class_, uint64_t ns);
/* n LS requests met a stop. `charged`: the stop served BE, so the budget pays. */
void dsw_stop_cost_hits(struct dsw_stop_cost *cost, uint32_t n, int charged);
/* Probability, in permille, that an LS request meets a call that begins after LS was idle for so long. 1000 if
 * unknown. */
uint32_t dsw_stop_cost_risk(const struct dsw_stop_cost *cost, unsigned class_, uint64_t idle_ns);
/* Highest risk that the budget allows, permille; -1: none. */
int dsw_stop_cost_limit(const struct dsw_stop_cost *cost);
/* Returns the idle time of LS from which a call of this class has at most this risk: idle_ns if it has now. A greater
 * result is the time at which to ask again. UINT64_MAX: the next request of LS comes first. */
uint64_t dsw_stop_cost_moment(const struct dsw_stop_cost *cost, unsigned class_, uint64_t idle_ns, int limit);
/* Whether stops have delayed so many requests that even an idle LS counts as active for longer. */
int dsw_stop_cost_overdrawn(const struct dsw_stop_cost *cost);
