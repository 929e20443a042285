/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning a table from samples
 *
 * The methods are tried in this order, and each is judged by pages that it was not shown: a few probes choose a page's
 * pattern, and the rest of the page must come out as labelled.
 *
 *  1. parities, and parities joined with a number modulo m (lut/learn/modulus.h);
 *  2. a sequence that goes round in steps of the page's own (lut/learn/congruence.h);
 *  3. pages laid over each other by XORed granule numbers, and a network for what was not seen (lut/learn/cover.h).
 *
 * Wrong labels among the samples count as wrong in the judgement too: with one of twenty wrong a perfect table is told
 * to be right for 95%. So what is asked is not to be worse than on the samples that were learnt from.
 */
#pragma once

#include <stdio.h>

#include "lut/learn/set.h"

#define DS_LEARN_E_NO_TABLE 3 /* contract: no method's outcome holds for pages that it was not shown */

enum ds_learn_method {
        DS_LEARN_AUTO,
        DS_LEARN_STRUCTURE, /* 1 and 2 */
        DS_LEARN_NETWORK,   /* 3 */
};

struct ds_learn_options {
        enum ds_learn_method method;
        uint32_t samples; /* at most so many granules are learnt from */
        uint64_t seed;
        const char *learner; /* what the table says it was learnt by; the method is added */
        int64_t when;        /* seconds since 1970 */
        FILE *findings;      /* what is found, in words; NULL: nowhere */
};

/* A table as a file's bytes; the caller frees them with ds_free. 0, a DS_LEARN_E_ code, or negative errno. */
int ds_learn(
        const struct ds_lut_samples *samples, const struct ds_learn_options *options, uint8_t **ret, size_t *ret_n);
