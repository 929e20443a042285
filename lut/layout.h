/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File format of a table, and the table as its reader holds it
 *
 * For the reader, the matcher and the writer only; all other code includes lut/table.h. A file is the head, the offsets
 * of the signature, the numbers and tables of its form, and the SHA-256 of all that. Numbers are little endian.
 *
 * - MODULUS: u32 mask[dims + parities]; u8 weight[dims]; u8 channel[modulus << parities].
 *   Bit i of a granule's coordinate is the parity of x & mask[i], XORed with the page's constant; the first `dims` bits
 *   are digits, the others parities. The channel is at index parities * modulus + (s + the weights of the digits that
 *   are 1) mod modulus. pattern = s << (dims + parities) | constant.
 * - PLACES: as MODULUS, but a channel may be at any number of indices, and need not have its own parities or numbers.
 * - XOR: u32 mask[dims]; u8 channel[tables << dims].
 *   As above; the channel is at the coordinate in one of the tables. pattern = table << dims | constant.
 * - CONGRUENCE: u8 channel[period << slot_bits].
 *   Slot (u k + v) mod period, k = x >> slot_bits. pattern = (index of u among the numbers coprime to the period) *
 *   period + v.
 *
 * So every constant is a valid pattern, even if no page with it was ever measured.
 */
#pragma once

#include "lut/table.h"
#include "util/sha256.h"

#define DS_LUT_MAGIC "DSLUT\n\x1a" /* followed by a zero byte */
#define DS_LUT_PATTERNS_MAX (1u << 30)
/* maximum number of candidates that a match tries: tables or sequences, and constants of the digits */
#define DS_LUT_SEARCH_MAX (1u << 20)
#define DS_LUT_BYTES_MAX (8u << 20)
#define DS_LUT_BITS_MAX 16 /* maximum number of bits of a granule's number in its page */
#define DS_LUT_DIMS_MAX 24 /* maximum number of bits of a granule's coordinate */
#define DS_LUT_PERIOD_MAX 4096u

struct ds_lut_head {
        char magic[8];
        uint32_t version;
        uint32_t bytes; /* size of the whole file */
        char model[64];
        char driver[32];
        char learner[96];
        uint8_t source, form, granule_bits, page_bits;
        uint32_t channels;
        uint32_t samples, held_out, held_right;
        uint32_t n_signature;
        int64_t learnt_at;
        uint32_t dims;              /* bits of a coordinate that are digits; XOR, MODULUS, PLACES */
        uint32_t tables;            /* number of tables; XOR */
        uint32_t parities, modulus; /* number of parity bits, and the modulus of the sums; MODULUS, PLACES */
        uint32_t period, slot_bits; /* length of the sequence in slots, log2 of the granules per slot; CONGRUENCE */
        uint32_t zero[2];
};
_Static_assert(sizeof(struct ds_lut_head) == 272, "as in files of version 1");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read as they lie");

struct ds_lut {
        struct ds_lut_head head;
        struct ds_lut_facts facts;
        unsigned bits;       /* bits of a granule's number in its page */
        uint32_t *signature; /* offsets of the signature's granules in a page, bytes */
        uint8_t *channel;
        /* used by XOR, MODULUS, PLACES */
        uint32_t *image; /* coordinate of each granule */
        /* used by MODULUS, PLACES */
        uint8_t *sum; /* per value of the digits: sum of the weights of the digits that are 1, mod modulus */
        /* used by PLACES: for each value of the parities and each channel, the numbers at which the channel is, in
         * one array. The list of (parities, channel) begins at from[parities * channels + channel] and ends where
         * the next list begins. */
        uint8_t *number;
        uint16_t *from;
        /* used by MODULUS */
        uint16_t place[DS_LUT_CHANNELS_MAX]; /* index of each channel in `channel` */
        /* used by CONGRUENCE */
        uint16_t *step; /* numbers coprime to the period */
        uint32_t n_steps;
};

/* The i-th number of a permutation of all `bits`-bit numbers whose first elements are spread like random ones. */
static inline uint32_t ds_lut_spread(uint32_t i, unsigned bits)
{
        uint32_t mask = (1u << bits) - 1, x = i * 0x9e3779b1u & mask;

        x ^= x >> (bits / 2 + 1);
        return (x * 0x85ebca6bu ^ 0x2545u) & mask;
}

/* The channel of granule x in a page with this pattern. */
static inline uint8_t ds_lut_at(const struct ds_lut *lut, uint32_t pattern, uint32_t x)
{
        const struct ds_lut_head *head = &lut->head;
        uint32_t y, slot;

        switch (head->form) {
        case DS_LUT_XOR:
                return lut->channel[pattern ^ lut->image[x]];
        case DS_LUT_MODULUS:
        case DS_LUT_PLACES:
                y = (lut->image[x] ^ pattern) & ((1u << (head->dims + head->parities)) - 1);
                slot = (pattern >> (head->dims + head->parities)) + lut->sum[y & ((1u << head->dims) - 1)];
                slot -= slot >= head->modulus ? head->modulus : 0;
                return lut->channel[(y >> head->dims) * head->modulus + slot];
        }
        slot = (lut->step[pattern / head->period] * (x >> head->slot_bits) + pattern % head->period) % head->period;
        return lut->channel[slot << head->slot_bits | (x & ((1u << head->slot_bits) - 1))];
}
