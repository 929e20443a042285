/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning of a table from samples
 *
 * The methods are tried in this order. Each result is tested with pages that were not used for learning: a few probes
 * select a page's pattern, and the rest of the page must match its labels.
 *
 *  1. parities, and parities combined with a number modulo m (lut/learn/modulus.h);
 *  2. a periodic sequence with a step width per page (lut/learn/congruence.h);
 *  3. overlaid pages, and a network for granules without samples (lut/learn/cover.h).
 *
 * Wrong labels in the samples also count as wrong in the test: with one of twenty wrong, a perfect table scores 95%. So
 * the requirement is a score that is not worse than on the training samples.
 */
#pragma once

#include <stdio.h>

#include "lut/learn/set.h"

#define DS_LEARN_E_NO_TABLE 3 /* contract: no method's result passed the test with held-out pages */

enum ds_learn_method {
        DS_LEARN_AUTO,
        DS_LEARN_STRUCTURE, /* methods 1 and 2 */
        DS_LEARN_NETWORK,   /* method 3 */
};

struct ds_learn_options {
        enum ds_learn_method method;
        uint32_t samples; /* maximum number of granules used for learning */
        uint64_t seed;
        const char *learner; /* learner's name for the table; the method is appended */
        int64_t when;        /* seconds since 1970 */
        FILE *findings;      /* output for findings as text; NULL: none */
};

/* Learns a table and returns the bytes of its file; free them with ds_free(). Returns 0, a DS_LEARN_E_* code, or a
 * negative errno. */
int ds_learn(
        const struct ds_lut_samples *samples, const struct ds_learn_options *options, uint8_t **ret, size_t *ret_n);
