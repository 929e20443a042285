/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parities joined with a number modulo m
 *
 * What parities leave of a channel is sought as s + w1 y1 + w2 y2 + ... modulo m: digits y are parities of address bits
 * too, which the page's constant flips, and s is the page's. Found in this order, each by counts over all pages that a
 * wrong label here and there does not change:
 *
 *  1. the differences that flip one digit: those after which the channel is known best, among independent ones;
 *  2. the channels' numbers modulo m: flipping one digit leads from each channel to two others, which makes a ring;
 *  3. each digit's weight, and each page's constants.
 *
 * This fails, and says so, when the channels are not equally many on all sides, when m is even or when more digits than
 * a page has bits lie within it: then the sums of several digits are no digits.
 */
#pragma once

#include "lut/learn/parity.h"

struct ds_learn_modulus {
        uint32_t modulus; /* 1: parities are all there is */
        uint32_t dims;    /* digits */
        uint32_t mask[16];
        uint8_t weight[16];
        struct ds_learn_parities parities;
        uint8_t number[DS_LUT_CHANNELS_MAX]; /* of each channel, modulo the modulus */
        /* of each page of the set: digits and above them parities that are flipped, and s; ds_free */
        uint32_t *constant;
        uint8_t *shift;
        double *explained;      /* share of its labels */
        double least_following; /* of the digits: how clearly they were seen, 0 to 1 */
};

/* 0; DS_LEARN_E_NONE with why (at most size bytes); negative errno. ret: deinit in any case. */
int ds_learn_find_modulus(const struct ds_learn_set *set, const struct ds_learn_parities *parities,
        struct ds_learn_modulus *ret, char *why, size_t size);
void ds_learn_modulus_deinit(struct ds_learn_modulus *modulus);
