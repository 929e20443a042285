/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/gaps.h"

#include "policies/detshare/mean.h"

#define GAPS_NS 1000ull /* upper edge of the first bucket, ns */

/* The lowest time above the bucket, ns. The last bucket ends nowhere; this returns a time after all others. */
static uint64_t upper_edge(uint32_t bucket)
{
        return (GAPS_NS << (bucket / GAPS_PARTS)) / GAPS_PARTS * (GAPS_PARTS + bucket % GAPS_PARTS);
}

static uint32_t bucket_of(uint64_t ns)
{
        uint32_t octave;

        if (ns < GAPS_NS)
                return 0;
        octave = 63u - (uint32_t)__builtin_clzll(ns / GAPS_NS);
        if (octave >= GAPS / GAPS_PARTS)
                return GAPS - 1;
        return (uint32_t)min_u64(
                octave * GAPS_PARTS + 1 + (ns - (GAPS_NS << octave)) * GAPS_PARTS / (GAPS_NS << octave), GAPS - 1);
}

void gaps_learn(struct gaps *gaps, uint64_t ns)
{
        gaps->n[bucket_of(ns)]++;
        if (++gaps->total < GAPS_MAX)
                return;
        gaps->total = 0;
        for (uint32_t i = 0; i < GAPS; i++) {
                gaps->n[i] /= 2;
                gaps->total = (uint16_t)(gaps->total + gaps->n[i]);
        }
}

uint64_t gaps_quantile(const struct gaps *gaps, uint32_t percent)
{
        uint32_t sum = 0, bucket = 0;

        if (gaps->total < GAPS_MIN)
                return UINT64_MAX;
        for (; bucket < GAPS - 1; bucket++) {
                sum += gaps->n[bucket];
                if (sum * 100 >= gaps->total * percent)
                        break;
        }
        return upper_edge(bucket);
}

uint32_t gaps_over_permille(const struct gaps *gaps, uint64_t since_ns, uint64_t ns)
{
        const uint64_t end = ns < UINT64_MAX - since_ns ? since_ns + ns : UINT64_MAX;
        uint64_t longer = 0, over = 0;

        if (gaps->total < GAPS_MIN)
                return 0;
        for (uint32_t i = bucket_of(since_ns); i < GAPS; i++) {
                const uint64_t from = i ? upper_edge(i - 1) : 0, to = upper_edge(i), begin = max_u64(from, since_ns);

                if (!gaps->n[i] || begin >= to)
                        continue;
                longer += gaps->n[i] * ((to - begin) * 1000 / (to - from));
                if (end > begin)
                        over += gaps->n[i] * ((min_u64(end, to) - begin) * 1000 / (to - from));
        }
        return longer ? (uint32_t)(over * 1000 / longer) : 0;
}

uint64_t gaps_edge(uint64_t since_ns)
{
        return max_u64(upper_edge(bucket_of(since_ns)), since_ns + 1);
}
