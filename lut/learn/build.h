/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a table's bytes
 *
 * A draft holds what lut/layout.h says of a form. The signature is chosen here: granules at random, as many as it takes
 * until pages of any pattern are told from all others although one probe of twenty is wrong.
 */
#pragma once

#include "lut/layout.h"
#include "lut/learn/set.h"

struct ds_learn_draft {
        struct ds_lut_head head; /* form and its numbers; the rest is filled in */
        uint32_t mask[DS_LUT_DIMS_MAX];
        uint8_t weight[DS_LUT_BITS_MAX];
        uint8_t *channel; /* owned */
        size_t n_channel;
};

/* A draft as it stands, without a signature that would tell anything. 0; DS_LUT_E_NO_PATTERN when it is larger than a
 * table may be; negative errno. The caller owns *ret. */
int ds_learn_read(const struct ds_learn_draft *draft, struct ds_lut **ret);
/* The table of a draft, with its signature. 0; DS_LUT_E_NO_PATTERN when no signature tells its patterns apart; negative
 * errno. The caller owns *ret. */
int ds_learn_finish(struct ds_learn_draft *draft, uint64_t seed, struct ds_lut **ret);
/* The file's bytes of a draft that was finished; ds_free. */
int ds_learn_bytes(const struct ds_learn_draft *draft, const struct ds_lut *table, uint8_t **ret_bytes, size_t *ret_n);
