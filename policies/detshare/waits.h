/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits: how long requests have probably waited in their client, where no policy sees them
 *
 * A client that answers one request after the other has its queue in its own process. A policy sees only that a request
 * begins right after the previous one ended, so it must have arrived before. How long before is unknown, but not
 * arbitrary: with random arrivals (Poisson) at the session's mean rate, the wait of a request is the wait of the one
 * before it, plus that one's time, less the time between their arrivals, given that the sum is not negative (Lindley's
 * recursion; D. V. Lindley, "The theory of queues with a single server", 1952). This file keeps the distribution of the
 * present request's wait. A pause sets it to 0: the next request has not waited. A short gap may be a pause, too, or
 * the time that the client needs to take the next request from its queue; the more probable of the two counts.
 *
 * Not known: arrivals that are not random (several at once, or at fixed intervals) wait longer or shorter than this. A
 * client that never pauses looks like an overloaded queue, although it may only send its next request when it has the
 * answer to the previous one.
 */
#pragma once

#include <stdint.h>

#define WAITS 96u          /* bins of the distribution; the last one has all longer waits */
#define WAITS_PER_SLO 24u  /* bins up to the objective */
#define WAITS_ONE 0x10000u /* fixed-point value of 1: probabilities, and the decay per bin */

struct waits {
        uint32_t p[WAITS];    /* probability that the wait is in this bin; sum: about WAITS_ONE */
        uint64_t bin_ns;      /* width of a bin, ns */
        uint64_t interval_ns; /* mean time between the begins of two requests, ns; 0: unknown */
        uint32_t intervals;   /* intervals in that mean, up to WAITS_INTERVALS */
        uint64_t cycle_ns;    /* time since the begin of the first request after the last pause, ns */
        uint32_t cycle;       /* requests that began in that time */
        uint64_t turn_ns;     /* mean turn, ns; 0: unknown */
        uint32_t row;         /* requests since the last pause, the present one included; 0: none yet */
};

/* A request begins, since_ns after the begin of the previous one and gap_ns after its end. */
void waits_begin(struct waits *waits, uint64_t since_ns, uint64_t gap_ns, uint64_t slo_ns);

/* A request begins that has not waited, or whose wait the objective already leaves out. */
void waits_none(struct waits *waits, uint64_t slo_ns);

/* Probability that the present request has waited for longer than ns, of WAITS_ONE. */
uint32_t waits_over(const struct waits *waits, uint64_t ns);

/* A time for which the present request has probably not waited: `percent` of the distribution is below it, ns. */
uint64_t waits_quantile(const struct waits *waits, uint32_t percent);
