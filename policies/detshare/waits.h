/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits: how long requests have probably waited in their client, where no policy sees them
 *
 * A client that answers one request after the other has its queue in its own process. A policy sees only that a request
 * begins soon after the previous one ended, so it must have arrived before. How long before is unknown, but not
 * arbitrary: with random arrivals (Poisson) at the session's mean rate, the wait of a request is the wait of the one
 * before it, plus that one's time, less the time between their arrivals, given that the sum is not negative (Lindley's
 * recursion; D. V. Lindley, "The theory of queues with a single server", 1952). This file keeps the distribution of the
 * present request's wait. A pause sets it to 0: the next request has not waited. A short gap may be a pause, too, or
 * the time that the client needs to take the next request from its queue (a turn). Both count with their probabilities:
 * the shortest gaps of a session show how long its turns take.
 *
 * Arrivals in bursts: if more requests follow one that has not waited than random arrivals explain, a part of the
 * requests is taken to arrive together with the one before. That errs towards longer waits.
 *
 * Requests at fixed times, or some time after the answer: if all gaps are about as long, no request waits.
 *
 * Not known: a client whose pauses are all shorter than 0.4 ms looks like an overloaded queue, although it may only send
 * its next request when it has the answer to the previous one. Such a row has no end: after WAITS_ROW_MOST requests it
 * says nothing about the arrivals of other requests.
 */
#pragma once

#include <stdint.h>

#include "policies/detshare/gaps.h"

#define WAITS 96u           /* bins of the distribution; the last one has all longer waits */
#define WAITS_PER_SLO 24u   /* bins up to the objective */
#define WAITS_LAST 3u       /* a client whose last gaps were all long may need as long for a turn now */
#define WAITS_ROW_MOST 128u /* longest row of requests that random arrivals explain, up to a load of 75% */
#define WAITS_ONE 0x10000u  /* fixed-point value of 1: probabilities, and the decay per bin */

struct waits {
        uint32_t p[WAITS];    /* probability that the wait is about so many bins; sum: about WAITS_ONE */
        uint64_t bin_ns;      /* width of a bin, ns */
        uint64_t interval_ns; /* mean time between the begins of two requests, without long pauses, ns; 0: unknown */
        uint64_t recent_ns;   /* the same of the last requests, ns; 0: unknown */
        uint32_t together;    /* part of the requests that arrives together with the one before, of WAITS_ONE */
        uint32_t intervals;   /* intervals in that mean, up to WAITS_INTERVALS */
        uint64_t cycle_ns;    /* time since the begin of the first request after the last pause, ns */
        uint32_t cycle;       /* requests that began in that time */
        uint64_t turn_ns;     /* mean turn, ns; 0: unknown */
        uint64_t last_ns[WAITS_LAST]; /* last gaps, ns; the newest one first */
        struct gaps gaps;             /* gaps after requests beside which the objective allowed no BE */
        uint64_t length_ns;           /* mean length of those requests, ns; 0: unknown */
        uint32_t row;                 /* requests since the last pause, the present one included; 0: none yet */
};

/* How a request follows the one before it. */
struct waits_step {
        uint64_t since_ns, gap_ns; /* time since the begin and since the end of that one, ns */
        int bought;                /* 1: the objective allowed BE beside that one */
};

/* A request begins. */
void waits_begin(struct waits *waits, const struct waits_step *step, uint64_t slo_ns);

/* A request begins that has not waited, or whose wait the objective already leaves out. */
void waits_none(struct waits *waits, uint64_t slo_ns);

/* Whether the present request belongs to a row that random arrivals do not explain: a closed loop, or an overload. */
int waits_are_endless(const struct waits *waits);

/* Whether two objectives, ns, are the same but for a small difference. */
int waits_fit(uint64_t old_slo_ns, uint64_t slo_ns);

/* Probability that the present request has waited for longer than ns, of WAITS_ONE. */
uint32_t waits_over(const struct waits *waits, uint64_t ns);

/* A time for which the present request has probably not waited: `percent` of the distribution is below it, ns. */
uint64_t waits_quantile(const struct waits *waits, uint32_t percent);
