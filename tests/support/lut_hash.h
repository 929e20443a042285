/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random hashes from the family that real GPUs use, and samples of them
 *
 * Tests of the learner of tables need them: parities of address bits combined with a number modulo an odd number. Drawn
 * at random: the granule (256 bytes to 1 KiB), the modulus (1, 3, 5, 7, 9 or 11), the number of parities, with 3 to 48
 * channels; the address bits of each parity; the lowest address bit of the number, and the higher bits that are XORed
 * into each of its bits, as hardware does it to spread strides; and the channels' names. The learner does not include
 * this file.
 *
 * The second family is that of an H200: a number modulo an odd number from 23 to 93, whose values are the places of the
 * channels, two for each channel but one. Either a channel has two values of the number, or a parity selects one of two
 * maps, of which the second exchanges most channels in pairs. The address bits are the number's digits in turn, except
 * one that is only XORed into others.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LUT_HASH_TOP_BIT 35 /* 64 GiB */

struct lut_hash {
        unsigned granule_bits;
        uint32_t modulus, parities, channels;
        uint64_t parity[6];
        unsigned number_from;             /* address bit that is bit 0 of the number */
        uint64_t digit[LUT_HASH_TOP_BIT]; /* bits of the number, as masks of address bits */
        uint32_t digits;
        uint8_t name[256]; /* channel at parities * modulus + number */
};

/* shared_bits: the number may use bits that parities use too, so both depend on each other within a page. */
void lut_hash_draw(struct lut_hash *hash, uint64_t seed, bool shared_bits);
void lut_hash_draw_places(struct lut_hash *hash, uint64_t seed);
uint32_t lut_hash_channel(const struct lut_hash *hash, uint64_t address);
/* "12 channels: 2 parities, modulo 3 from bit 12, granules of 1024" */
void lut_hash_describe(const struct lut_hash *hash, char *ret, unsigned size);
