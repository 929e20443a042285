/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gaps and other times that are learnt as they are seen
 *
 * Bounded and cheap: how often a time was below 1, 2, 4, ... us, halved from time to time so that what is long ago
 * counts less; and running means, one of which stays low among what it sees.
 */
#pragma once

#include <stdint.h>

#define GAPS 24u        /* buckets: below 1 us, 2 us, 4 us, ... */
#define GAPS_MIN 8u     /* samples before a quantile means something */
#define GAPS_MAX 512u   /* samples after which all count half */
#define GAPS_NS 1000ull /* the first bucket's edge */

/* How often a gap was shorter than 1 << bucket microseconds. */
struct gaps {
        uint16_t n[GAPS], total;
};

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

static inline void gaps_learn(struct gaps *gaps, uint64_t ns)
{
        uint32_t bucket = 0;

        for (uint64_t edge = GAPS_NS; bucket < GAPS - 1 && ns >= edge; edge *= 2)
                bucket++;
        gaps->n[bucket]++;
        if (++gaps->total < GAPS_MAX)
                return;
        gaps->total = 0;
        for (uint32_t i = 0; i < GAPS; i++) {
                gaps->n[i] /= 2;
                gaps->total = (uint16_t)(gaps->total + gaps->n[i]);
        }
}

/* A time that so many percent of the gaps are shorter than; UINT64_MAX while too little is known. */
static inline uint64_t gaps_quantile(const struct gaps *gaps, uint32_t percent)
{
        uint32_t sum = 0, bucket = 0;

        if (gaps->total < GAPS_MIN)
                return UINT64_MAX;
        for (; bucket < GAPS - 1; bucket++) {
                sum += gaps->n[bucket];
                if (sum * 100 >= gaps->total * percent)
                        break;
        }
        return GAPS_NS << bucket;
}

/* What a session takes after a while when it is often asked: down at once by a quarter of the difference, up slowly. */
static inline void learn_low(uint64_t *value, uint64_t seen)
{
        if (!*value)
                *value = seen;
        else if (seen < *value)
                *value -= (*value - seen + 3) / 4;
        else
                *value += (seen - *value) / 64;
}

static inline void learn_mean(uint32_t *mean, uint64_t seen)
{
        int64_t difference = (int64_t)min_u64(seen, UINT32_MAX) - (int64_t)*mean;

        *mean = *mean ? (uint32_t)((int64_t)*mean + difference / 8) : (uint32_t)min_u64(seen, UINT32_MAX);
}
