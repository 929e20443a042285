/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parities: XORs of address bits that divide the channels into two halves
 *
 * A bit of the hash that is a parity of address bits is found without knowing the bits above the page. Within a page
 * the granules of each channel all lie on one side of the parity; which side is the product of a constant of the page
 * and one of the channel. The Walsh transform of each channel's granules yields all parities at once. Wrong labels
 * lower a peak by their share, and create no new one.
 */
#pragma once

#include "lut/learn/gf2.h"
#include "lut/learn/set.h"

#define DS_LEARN_PARITIES_MAX 8

struct ds_learn_parities {
        uint32_t n;
        uint32_t mask[DS_LEARN_PARITIES_MAX]; /* masks of bits of a granule's number, independent */
        double share[DS_LEARN_PARITIES_MAX];  /* share of the granules that lie on the predicted side, 0.5 to 1 */
        uint8_t side[DS_LUT_CHANNELS_MAX];    /* bit i: side of the channel in parity i */
};

/* The parities of x; bit i belongs to mask i. */
static inline uint32_t ds_learn_parities_of(const struct ds_learn_parities *parities, uint32_t x)
{
        uint32_t bits = 0;

        for (uint32_t i = 0; i < parities->n; i++)
                bits |= ds_gf2_dot(parities->mask[i], x) << i;
        return bits;
}

/* Finds the parities. Returns 0, also if there are none, or a negative errno. */
int ds_learn_find_parities(const struct ds_learn_set *set, struct ds_learn_parities *ret);
