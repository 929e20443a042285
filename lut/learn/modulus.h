/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parities combined with a number modulo m
 *
 * The part of a channel that parities do not determine is modelled as s + w1 y1 + w2 y2 + ... modulo m. The digits y
 * are also parities of address bits, flipped by the page's constant, and s belongs to the page. The steps, each by
 * counts over all pages, so that a few wrong labels do not matter:
 *
 *  1. the differences that flip one digit: the independent ones after which the channel is most predictable;
 *  2. the channels' numbers modulo m: flipping one digit leads from each channel to two others, which forms a ring;
 *  3. each digit's weight, and each page's constants.
 *
 * The search fails with a reason if the sides have different numbers of channels, if m is even, or if there are more
 * digits than a page has bits, because then sums of several digits look like digits.
 */
#pragma once

#include "lut/learn/parity.h"

struct ds_learn_modulus {
        uint32_t modulus; /* 1: parities explain everything */
        uint32_t dims;    /* number of digits */
        uint32_t mask[16];
        uint8_t weight[16];
        struct ds_learn_parities parities;
        uint8_t number[DS_LUT_CHANNELS_MAX]; /* number of each channel, modulo `modulus` */
        /* per page of the set: flipped digits with flipped parities above them in `constant`, s in `shift`; free
         * with ds_free() */
        uint32_t *constant;
        uint8_t *shift;
        double *explained;      /* per page: share of the page's labels that the result predicts */
        double least_following; /* lowest predictability of the channel after flipping one digit, 0 to 1 */
};

/* Finds the modulus and its digits. Returns 0; DS_LEARN_E_NONE with the reason in why (at most size bytes); or a
 * negative errno. Call ds_learn_modulus_deinit() in every case. */
int ds_learn_find_modulus(const struct ds_learn_set *set, const struct ds_learn_parities *parities,
        struct ds_learn_modulus *ret, char *why, size_t size);
void ds_learn_modulus_deinit(struct ds_learn_modulus *modulus);
