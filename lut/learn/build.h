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
        struct ds_lut_head head; /* form and its numbers; the rest is filled in here */
        uint32_t mask[DS_LUT_DIMS_MAX];
        uint8_t weight[DS_LUT_BITS_MAX];
        uint8_t *channel; /* owned */
        size_t n_channel;
};

/* Reads a draft as a table, with a signature that distinguishes nothing. 0; DS_LUT_E_NO_PATTERN: it is larger than a
 * table may be; negative errno. The caller owns *ret. */
int ds_learn_read(const struct ds_learn_draft *draft, struct ds_lut **ret);
/* Makes the table of a draft, with its signature. 0; DS_LUT_E_NO_PATTERN: no signature distinguishes its patterns;
 * negative errno. The caller owns *ret. */
int ds_learn_finish(struct ds_learn_draft *draft, uint64_t seed, struct ds_lut **ret);
/* The file's bytes of a finished draft; free them with ds_free(). */
int ds_learn_bytes(const struct ds_learn_draft *draft, const struct ds_lut *table, uint8_t **ret_bytes, size_t *ret_n);
