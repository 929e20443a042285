/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gaps: a histogram of the times between kernels, or between requests
 *
 * Memory and time are bounded. The histogram has eight buckets per power of two, from 1 us to 8 s, so a pause that
 * always has the same length is known to an eighth of it. All counts are halved from time to time, so that old samples
 * count less.
 */
#pragma once

#include <stdint.h>

#define GAPS_PARTS 8u                /* buckets per power of two */
#define GAPS (23u * GAPS_PARTS + 1u) /* the first one is below 1 us, the last one has no upper edge */
#define GAPS_MIN 8u                  /* samples before a quantile counts */
#define GAPS_MAX 512u                /* samples after which all bucket counts are halved */

/* Number of gaps per bucket. */
struct gaps {
        uint16_t n[GAPS], total;
};

/* Counts a gap. */
void gaps_learn(struct gaps *gaps, uint64_t ns);

/* A time that `percent` of the gaps are shorter than, ns; UINT64_MAX while too few samples are known. */
uint64_t gaps_quantile(const struct gaps *gaps, uint32_t percent);

/*
 * Share of the gaps longer than `since_ns` that end within another `ns`, permille. The gaps of a bucket count as spread
 * evenly over it. 0 if no gap was that long, or if too few samples are known.
 */
uint32_t gaps_over_permille(const struct gaps *gaps, uint64_t since_ns, uint64_t ns);

/* The first bucket edge after since_ns: the next time at which the estimate of a gap's remaining length changes, ns. */
uint64_t gaps_edge(uint64_t since_ns);
