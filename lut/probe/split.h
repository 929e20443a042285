/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two kinds of times, told apart by themselves
 *
 * How long it takes to read two lines at once is of two kinds: they share a channel, or they do not. How long that is
 * differs from GPU to GPU, so the threshold comes from the times: two means in the logarithm, their distance in units
 * of how far the times of either kind are spread. Where there are no two kinds, or where they run into each other, it
 * says so, and nobody labels by a threshold that means nothing.
 *
 * Spreads are between quantiles, so that a few times that went astray do not matter; a second kind that is rarer than
 * DS_PROBE_RARE is taken for such times.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DS_PROBE_E_ONE_KIND 1 /* contract: the times are of one kind, or too few */

#define DS_PROBE_RARE 0.004     /* of all times: the second kind is no accident from there on */
#define DS_PROBE_RATIO 1.25     /* two lines that contend take so many times as long, at least */
#define DS_PROBE_SEPARATION 3.0 /* the kinds are so many of their spreads (one deviation of each) apart, at least */

struct ds_probe_split {
        double threshold;  /* ticks; beyond it: the second kind */
        double doubt[2];   /* between these a single time says little */
        double low, high;  /* medians of the kinds, ticks */
        double separation; /* see DS_PROBE_SEPARATION; at most 1,000 */
        double share;      /* of the times that are of the second kind */
};

/*
 * ratio: see DS_PROBE_RATIO. 0 or DS_PROBE_E_ONE_KIND, and *ret is what was found either way; -ENOMEM.
 */
int ds_probe_split(const uint32_t *ticks, size_t n, double ratio, struct ds_probe_split *ret);
