/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gaps and other times that a policy learns from what it sees
 *
 * Memory and time are bounded. A histogram counts how often a time was below 1, 2, 4, ... us, and is halved from time
 * to time so that old samples count less. There are also running means, one of which stays near the low values.
 */
#pragma once

#include <stdint.h>

#define GAPS 24u        /* buckets: below 1 us, 2 us, 4 us, ... */
#define GAPS_MIN 8u     /* samples before a quantile counts */
#define GAPS_MAX 512u   /* samples after which all bucket counts are halved */
#define GAPS_NS 1000ull /* upper edge of the first bucket, ns */

/* Number of gaps shorter than 1 << bucket microseconds. */
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

static inline uint64_t difference_u64(uint64_t a, uint64_t b)
{
        return a > b ? a - b : b - a;
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

/* A time that `percent` of the gaps are shorter than, ns; UINT64_MAX while too few samples are known. */
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

/*
 * Share of the gaps longer than `since_ns` that end within another `ns`, permille. The gaps of a bucket count as spread
 * evenly over it. 0 if no gap was that long, or if too few samples are known.
 */
static inline uint32_t gaps_over_permille(const struct gaps *gaps, uint64_t since_ns, uint64_t ns)
{
        uint64_t longer = 0, over = 0, from = 0, to = GAPS_NS;
        const uint64_t end = ns < UINT64_MAX - since_ns ? since_ns + ns : UINT64_MAX;

        if (gaps->total < GAPS_MIN)
                return 0;
        for (uint32_t i = 0; i < GAPS; i++, from = to, to *= 2) {
                const uint64_t begin = max_u64(from, since_ns);

                if (begin >= to)
                        continue;
                longer += gaps->n[i] * ((to - begin) * 1000 / (to - from));
                if (end > begin)
                        over += gaps->n[i] * ((min_u64(end, to) - begin) * 1000 / (to - from));
        }
        return longer ? (uint32_t)(over * 1000 / longer) : 0;
}

/* The first bucket edge after since_ns: the next time at which the estimate of a gap's remaining length changes, ns. */
static inline uint64_t gaps_edge(uint64_t since_ns)
{
        uint64_t edge = GAPS_NS;

        while (edge <= since_ns && edge < UINT64_MAX / 2)
                edge *= 2;
        return edge;
}

/* Moves a mean towards a sample by one n-th of the difference. */
static inline void learn_part(uint64_t *mean, uint64_t seen, uint32_t n)
{
        *mean = seen > *mean ? *mean + (seen - *mean) / n : *mean - (*mean - seen) / n;
}

/* Learns a value near the low end of the samples: the value falls at once by a quarter of the difference, and rises
 * slowly. */
static inline void learn_low(uint64_t *value, uint64_t seen)
{
        if (!*value)
                *value = seen;
        else if (seen < *value)
                *value -= (*value - seen + 3) / 4;
        else
                learn_part(value, seen, 64);
}

/* Learns a mean over the last few dozen samples. */
static inline void learn_slowly(uint64_t *mean, uint64_t seen)
{
        if (!*mean)
                *mean = seen;
        else
                learn_part(mean, seen, 32);
}

static inline void learn_mean(uint32_t *mean, uint64_t seen)
{
        int64_t difference = (int64_t)min_u64(seen, UINT32_MAX) - (int64_t)*mean;

        *mean = *mean ? (uint32_t)((int64_t)*mean + difference / 8) : (uint32_t)min_u64(seen, UINT32_MAX);
}
