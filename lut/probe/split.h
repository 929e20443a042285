/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separation of two kinds of times
 *
 * Reading two lines at once takes one of two kinds of times: the lines share a channel, or they do not. The times
 * differ between GPUs, so the threshold is computed from the times: two means of the logarithms, and their distance
 * relative to the spread of each kind. If there is only one kind, or the kinds overlap, the result says so, and no
 * label is based on a meaningless threshold.
 *
 * Spreads are between quantiles, so a few outliers do not matter; a second kind rarer than DS_PROBE_RARE counts as
 * outliers.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DS_PROBE_E_ONE_KIND 1 /* contract: the times are of one kind, or too few */

#define DS_PROBE_RARE 0.004     /* least share of times of the second kind; rarer ones count as outliers */
#define DS_PROBE_RATIO 1.25     /* least ratio of the times of contending lines to those of other lines */
#define DS_PROBE_SEPARATION 3.0 /* least distance of the kinds, in spreads (one standard deviation of each) */

struct ds_probe_split {
        double threshold;  /* ticks; longer times are of the second kind */
        double doubt[2];   /* times between these two are not reliable alone, ticks */
        double low, high;  /* medians of the kinds, ticks */
        double separation; /* see DS_PROBE_SEPARATION; at most 1,000 */
        double share;      /* share of times of the second kind */
};

/*
 * Separates n times into two kinds. ratio: see DS_PROBE_RATIO. Returns 0 or DS_PROBE_E_ONE_KIND, with *ret set in both
 * cases, or -ENOMEM.
 */
int ds_probe_split(const uint32_t *ticks, size_t n, double ratio, struct ds_probe_split *ret);
