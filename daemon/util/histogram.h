/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Histogram of durations with a bounded relative error
 *
 * Sixteen buckets per power of two, so a quantile is off by at most 1/16 of its value. Values below 1 us go into the
 * first bucket, values above 34 s into the last one. The idea is G. Tene's HdrHistogram.
 */
#pragma once

#include <stdint.h>

#define DS_HISTOGRAM_SUB_BITS 4u
#define DS_HISTOGRAM_LOW_BITS 10u  /* log2 of the first bucket's lower bound, ns: 1.024 us */
#define DS_HISTOGRAM_HIGH_BITS 35u /* log2 of the last bucket's upper bound, ns: 34.4 s */
#define DS_HISTOGRAM_BUCKETS ((DS_HISTOGRAM_HIGH_BITS - DS_HISTOGRAM_LOW_BITS) << DS_HISTOGRAM_SUB_BITS)

struct ds_histogram {
        uint64_t n, max_ns;
        uint32_t count[DS_HISTOGRAM_BUCKETS];
};

void ds_histogram_add(struct ds_histogram *histogram, uint64_t ns);
/* The smallest value that at least `permille` of the values in both histograms do not exceed, within the buckets'
 * resolution. 0 if they are empty. */
uint64_t ds_histogram_quantile(const struct ds_histogram *a, const struct ds_histogram *b, uint32_t permille);
