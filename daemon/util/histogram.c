/* SPDX-License-Identifier: Apache-2.0 */
#include "util/histogram.h"

#include "util/macro.h"

#define SUB (1u << DS_HISTOGRAM_SUB_BITS)

static uint32_t bucket_of(uint64_t ns)
{
        uint32_t octave;

        if (ns < 1ULL << DS_HISTOGRAM_LOW_BITS)
                return 0;
        octave = 63u - (uint32_t)__builtin_clzll(ns);
        if (octave >= DS_HISTOGRAM_HIGH_BITS)
                return DS_HISTOGRAM_BUCKETS - 1;
        return ((octave - DS_HISTOGRAM_LOW_BITS) << DS_HISTOGRAM_SUB_BITS) +
               ((uint32_t)(ns >> (octave - DS_HISTOGRAM_SUB_BITS)) & (SUB - 1));
}

/* The lowest value above the bucket. */
static uint64_t bucket_end(uint32_t bucket)
{
        uint32_t octave = (bucket >> DS_HISTOGRAM_SUB_BITS) + DS_HISTOGRAM_LOW_BITS;

        return (uint64_t)(SUB + (bucket & (SUB - 1)) + 1) << (octave - DS_HISTOGRAM_SUB_BITS);
}

void ds_histogram_add(struct ds_histogram *histogram, uint64_t ns)
{
        histogram->count[bucket_of(ns)]++;
        histogram->n++;
        histogram->max_ns = DS_MAX(histogram->max_ns, ns);
}

uint64_t ds_histogram_quantile(const struct ds_histogram *a, const struct ds_histogram *b, uint32_t permille)
{
        uint64_t n = a->n + b->n, max = DS_MAX(a->max_ns, b->max_ns);
        uint64_t rank = DS_MAX(DS_DIV_UP(n * permille, 1000), (uint64_t)1), seen = 0;

        if (!n)
                return 0;
        for (uint32_t i = 0; i < DS_HISTOGRAM_BUCKETS - 1; i++) {
                seen += (uint64_t)a->count[i] + b->count[i];
                if (seen >= rank)
                        return DS_MIN(bucket_end(i) - 1, max);
        }
        return max;
}
