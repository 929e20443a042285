/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs: what becomes of a granule's channel when some bits of its number are flipped
 *
 * For every difference d the channels of x and x ^ d are counted against each other, over all pages. How closely the
 * second follows from the first is a number between 0 and 1 that needs no names for channels: for a hash of parities
 * and a number modulo m it is the product of what each digit contributes that d flips, and 1 when d flips none.
 */
#pragma once

#include "lut/learn/parity.h"

/* count[a * channels + b]: how many granules x of channel a have x ^ d in channel b */
void ds_learn_count_pairs(const struct ds_learn_set *set, uint32_t d, uint32_t *ret_count);
/* How closely the channel follows, within the channels that the parities leave; per is how many these are. */
double ds_learn_following(const struct ds_learn_set *set, const struct ds_learn_parities *parities, uint32_t per,
        uint32_t d, const uint32_t *count);
