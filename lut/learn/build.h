/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Construction of a table's bytes
 *
 * A draft holds the values of lut/layout.h for its form. The signature is chosen here: random granules, as many as are
 * needed to distinguish pages of any pattern even if one probe of twenty is wrong.
 */
#pragma once

#include "lut/layout.h"
#include "lut/learn/set.h"

struct ds_learn_draft {
        struct ds_lut_head head; /* form, and the numbers of that form; ds_learn_finish() fills in the other fields */
        uint32_t mask[DS_LUT_DIMS_MAX];
        uint8_t weight[DS_LUT_BITS_MAX];
        uint8_t *channel; /* contents as in lut/layout.h; owned by the draft */
        size_t n_channel;
};

/* Reads a draft as a table with an empty signature, which cannot match pages. Returns 0; DS_LUT_E_NO_PATTERN: the
 * draft has more patterns than a table may have; or a negative errno. The caller owns *ret. */
int ds_learn_read(const struct ds_learn_draft *draft, struct ds_lut **ret);
/* Makes the table of a draft, with its signature. Returns 0; DS_LUT_E_NO_PATTERN: no signature distinguishes the
 * draft's patterns; or a negative errno. The caller owns *ret. */
int ds_learn_finish(struct ds_learn_draft *draft, uint64_t seed, struct ds_lut **ret);
/* The bytes of the table file for a finished draft; free them with ds_free(). */
int ds_learn_bytes(const struct ds_learn_draft *draft, const struct ds_lut *table, uint8_t **ret_bytes, size_t *ret_n);
