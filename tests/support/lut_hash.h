/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random hashes from the family of real GPUs' hashes, and samples of them
 *
 * For tests of the programs that learn tables. A hash combines parities of address bits with a number modulo an odd
 * value. Drawn at random:
 * - the granule (256 bytes to 1 KiB), the modulus (1, 3, 5, 7, 9 or 11) and the number of parities, for 3 to 48
 *   channels
 * - the address bits of each parity
 * - the first address bit of the number, and for each of its bits the higher bits with which it is XORed, as hardware
 *   does to spread strides
 * - the names of the channels
 *
 * The learning program does not use this file.
 *
 * lut_hash_draw_places draws from the family of an H200's hash: a number modulo an odd value from 23 to 93, whose
 * values are the places of the channels, two for each channel except one. Either the number has two values for a
 * channel, or a parity selects one of two maps, of which the second exchanges most channels in pairs. Address bits are
 * the number's digits in order, except one that is only XORed into others.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LUT_HASH_TOP_BIT 35 /* number of address bits that a hash uses: addresses below 32 GiB */

struct lut_hash {
        unsigned granule_bits;
        uint32_t modulus, parities, channels;
        uint64_t parity[6];
        unsigned number_from;             /* address bit that is bit 0 of the number */
        uint64_t digit[LUT_HASH_TOP_BIT]; /* bits of the number, as masks of address bits */
        uint32_t digits;
        uint8_t name[256]; /* name of the channel with index parities * modulus + number */
};

/* shared_bits: the number may use bits that parities use, so that both depend on each other within a page. */
void lut_hash_draw(struct lut_hash *hash, uint64_t seed, bool shared_bits);
void lut_hash_draw_places(struct lut_hash *hash, uint64_t seed);
uint32_t lut_hash_channel(const struct lut_hash *hash, uint64_t address);
/* Writes a description such as "12 channels: 2 parities, modulo 3 from bit 12, granules of 1024" */
void lut_hash_describe(const struct lut_hash *hash, char *ret, unsigned size);
