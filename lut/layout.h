/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a table, and the table as its reader has it
 *
 * For the reader, the matcher and the writer only; everybody else has lut/table.h. A file is the head, the offsets of
 * the signature, the numbers and tables of its form, and the SHA-256 of all that. Numbers are little endian.
 *
 * - MODULUS: u32 mask[dims + parities]; u32 origin; u32 direction[directions]; u8 weight[dims];
 *   u8 channel[modulus << parities].
 *   Bit i of a granule's coordinate is the parity of x & mask[i]; the first `dims` bits are digits, the others
 * parities. A page's constant is the origin XORed with any of the directions. The channel is at parities * modulus + (s
 * + the weights of the digits that are set) mod modulus. pattern = s << directions | which directions.
 * - XOR: u32 mask[dims]; u32 origin; u32 direction[directions]; u8 channel[tables << dims].
 *   As above; pattern = table << directions | which directions.
 * - CONGRUENCE: u8 channel[period << slot_bits].
 *   Slot (u k + v) mod period, k = x >> slot_bits. pattern = (which of the numbers u prime to the period) * period + v.
 */
#pragma once

#include "lut/table.h"
#include "util/sha256.h"

#define DS_LUT_MAGIC "DSLUT\n\x1a" /* and its zero byte */
#define DS_LUT_PATTERNS_MAX (1u << 20)
#define DS_LUT_BYTES_MAX (8u << 20)
#define DS_LUT_BITS_MAX 16 /* of a granule's number */
#define DS_LUT_DIMS_MAX 24 /* of a granule's coordinate */
#define DS_LUT_PERIOD_MAX 4096u

struct ds_lut_head {
        char magic[8];
        uint32_t version;
        uint32_t bytes; /* of the whole file */
        char model[64];
        char driver[32];
        char learner[96];
        uint8_t source, form, granule_bits, page_bits;
        uint32_t channels;
        uint32_t samples, held_out, held_right;
        uint32_t n_signature;
        int64_t learnt_at;
        uint32_t dims, directions;  /* XOR, MODULUS */
        uint32_t tables;            /* XOR */
        uint32_t parities, modulus; /* MODULUS */
        uint32_t period, slot_bits; /* CONGRUENCE */
        uint32_t zero;
};
_Static_assert(sizeof(struct ds_lut_head) == 272, "as in files of version 1");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are read as they lie");

struct ds_lut {
        struct ds_lut_head head;
        struct ds_lut_facts facts;
        unsigned bits;       /* of a granule's number in its page */
        uint32_t *signature; /* bytes */
        uint8_t *channel;
        /* XOR, MODULUS */
        uint32_t *image; /* a granule's coordinate */
        uint32_t origin, direction[DS_LUT_DIMS_MAX];
        /* MODULUS */
        uint8_t *sum; /* of the weights of the digits that are set, mod modulus */
        /* CONGRUENCE */
        uint16_t *step; /* numbers prime to the period */
        uint32_t n_steps;
};

/* The constant that a page of this pattern has. XOR and MODULUS. */
uint32_t ds_lut_constant(const struct ds_lut *lut, uint32_t pattern);
/* The channel of granule x of a page with this pattern and, where there is one, its constant. */
static inline uint8_t ds_lut_at(const struct ds_lut *lut, uint32_t pattern, uint32_t constant, uint32_t x)
{
        const struct ds_lut_head *head = &lut->head;
        uint32_t y, slot;

        switch (head->form) {
        case DS_LUT_XOR:
                return lut->channel[(size_t)(pattern >> head->directions) << head->dims | (lut->image[x] ^ constant)];
        case DS_LUT_MODULUS:
                y = lut->image[x] ^ constant;
                slot = (pattern >> head->directions) + lut->sum[y & ((1u << head->dims) - 1)];
                slot -= slot >= head->modulus ? head->modulus : 0;
                return lut->channel[(y >> head->dims) * head->modulus + slot];
        }
        slot = (lut->step[pattern / head->period] * (x >> head->slot_bits) + pattern % head->period) % head->period;
        return lut->channel[slot << head->slot_bits | (x & ((1u << head->slot_bits) - 1))];
}
