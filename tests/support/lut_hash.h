/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hashes drawn at random from the family that real parts use, and samples of them
 *
 * For tests of what learns tables: parities of address bits joined with a number modulo something odd. What is drawn:
 * the granule (256 bytes to 1 KiB), the modulus (1, 3, 5, 7, 9 or 11) and how many parities there are, with 3 to 48
 * channels; which address bits each parity takes; from which bit on the address is the number, and which higher bits
 * each of its bits is XORed with, as hardware does it to spread strides; and the channels' names. The learner does not
 * know this file.
 *
 * And of the family that an H200's is of: a number modulo something odd, from 23 to 93, whose values are the places of
 * the channels, two for each but one. Either the number has two values for a channel, or a parity says which of two
 * maps holds, where the second one exchanges most channels by twos. Address bits are the number's digits in turn, but
 * for one that is only XORed into others.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LUT_HASH_TOP_BIT 35 /* 64 GiB */

struct lut_hash {
        unsigned granule_bits;
        uint32_t modulus, parities, channels;
        uint64_t parity[6];
        unsigned number_from;             /* the address bit that is bit 0 of the number */
        uint64_t digit[LUT_HASH_TOP_BIT]; /* its bits, as masks of address bits */
        uint32_t digits;
        uint8_t name[256]; /* of parities * modulus + number */
};

/* shared_bits: the number may take bits that parities take too, so that they are not independent within a page. */
void lut_hash_draw(struct lut_hash *hash, uint64_t seed, bool shared_bits);
void lut_hash_draw_places(struct lut_hash *hash, uint64_t seed);
uint32_t lut_hash_channel(const struct lut_hash *hash, uint64_t address);
/* "12 channels: 2 parities, modulo 3 from bit 12, granules of 1024" */
void lut_hash_describe(const struct lut_hash *hash, char *ret, unsigned size);
