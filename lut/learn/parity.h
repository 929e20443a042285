/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parities: which XORs of address bits divide the channels in two halves
 *
 * A hash's bit that is a parity of address bits is found without knowing the bits above the page: within a page, the
 * granules of each channel lie all on one side of the parity, or all on the other, and which side is a constant of the
 * page times one of the channel. The Walsh transform of each channel's granules has all parities at once; wrong labels
 * lower a peak by their share, and make no new one.
 */
#pragma once

#include "lut/learn/gf2.h"
#include "lut/learn/set.h"

#define DS_LEARN_PARITIES_MAX 8

struct ds_learn_parities {
        uint32_t n;
        uint32_t mask[DS_LEARN_PARITIES_MAX]; /* over the bits of a granule's number, independent */
        double share[DS_LEARN_PARITIES_MAX];  /* of the granules that are on their side, 0.5 to 1 */
        uint8_t side[DS_LUT_CHANNELS_MAX];    /* bit i: where the channel is of parity i */
};

/* The parities of x, bit i that of mask i. */
static inline uint32_t ds_learn_parities_of(const struct ds_learn_parities *parities, uint32_t x)
{
        uint32_t bits = 0;

        for (uint32_t i = 0; i < parities->n; i++)
                bits |= ds_gf2_dot(parities->mask[i], x) << i;
        return bits;
}

/* 0, also when there are none; negative errno. */
int ds_learn_find_parities(const struct ds_learn_set *set, struct ds_learn_parities *ret);
