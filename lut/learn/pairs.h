/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pairs: how a granule's channel changes when some bits of its number are flipped
 *
 * For every difference d the channels of x and x ^ d are counted against each other, over all pages. The predictability
 * of the second from the first is a number between 0 and 1 that does not depend on channel names. For a hash of
 * parities and a number modulo m it is the product of the factors of all digits that d flips, and 1 if d flips none.
 */
#pragma once

#include "lut/learn/parity.h"

/* Counts pairs: count[a * channels + b] is the number of granules x of channel a for which x ^ d has channel b. */
void ds_learn_count_pairs(const struct ds_learn_set *set, uint32_t d, uint32_t *ret_count);
/* Predictability, 0 to 1, of the channel of x ^ d from that of x, among channels with the same parities; per: number
 * of channels with the same parities. */
double ds_learn_following(const struct ds_learn_set *set, const struct ds_learn_parities *parities, uint32_t per,
        uint32_t d, const uint32_t *count);
