/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/lut_hash.h"

#include <stdio.h>

static uint64_t next(uint64_t *state)
{
        uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

/* Draws a mask in which each bit from `from` on is set with a probability of 1/`of`. */
static uint64_t some_bits(uint64_t *state, unsigned from, unsigned of)
{
        uint64_t mask = 0;

        for (unsigned bit = from; bit < LUT_HASH_TOP_BIT; bit++)
                mask |= (uint64_t)(next(state) % of == 0) << bit;
        return mask;
}

/* Each parity has its own low bit; otherwise contiguous memory would not use all channels in turn. */
static void draw_parities(struct lut_hash *hash, uint64_t *state, unsigned *low)
{
        for (uint32_t i = 0; i < hash->parities; i++)
                hash->parity[i] = UINT64_C(1) << (*low)++;
        for (uint32_t i = 0; i < hash->parities; i++)
                hash->parity[i] |= some_bits(state, *low, 2 + next(state) % 3);
}

/* Permutes the names name[0] to name[n - 1]. */
static void shuffle(uint8_t *name, uint32_t n, uint64_t *state)
{
        for (uint32_t i = n; i > 1; i--) {
                uint32_t k = (uint32_t)(next(state) % i);
                uint8_t swap = name[i - 1];

                name[i - 1] = name[k];
                name[k] = swap;
        }
}

static void draw_number(struct lut_hash *hash, uint64_t *state, unsigned from)
{
        unsigned of = 3 + (unsigned)(next(state) % 8);

        hash->number_from = from;
        hash->digits = LUT_HASH_TOP_BIT - from;
        for (uint32_t i = 0; i < hash->digits; i++)
                hash->digit[i] = UINT64_C(1) << (from + i) | some_bits(state, from + i + 1, of);
}

void lut_hash_draw(struct lut_hash *hash, uint64_t seed, bool shared_bits)
{
        static const uint8_t moduli[] = {1, 3, 3, 3, 5, 5, 7, 9, 11};
        uint64_t state = seed;
        unsigned low, gap;

        *hash = (struct lut_hash){.granule_bits = 8 + (unsigned)(next(&state) % 3)};
        do {
                hash->modulus = moduli[next(&state) % sizeof(moduli)];
                hash->parities = (uint32_t)(next(&state) % 5);
                hash->channels = hash->modulus << hash->parities;
        } while (hash->channels < 3 || hash->channels > 48);
        low = hash->granule_bits;
        draw_parities(hash, &state, &low);
        gap = (unsigned)(next(&state) % 3);
        if (hash->modulus > 1)
                draw_number(hash, &state, shared_bits ? hash->granule_bits + gap : low + gap);
        for (uint32_t i = 0; i < hash->channels; i++)
                hash->name[i] = (uint8_t)i;
        shuffle(hash->name, hash->channels, &state);
}

/* Draws the second map of channels: the first one with pairs of channels exchanged; a sixth of the channels stay. */
static void draw_exchange(struct lut_hash *hash, uint64_t *state)
{
        uint8_t order[128];
        uint32_t m = hash->modulus;

        for (uint32_t i = 0; i < m; i++)
                order[i] = (uint8_t)i;
        shuffle(order, m, state);
        for (uint32_t i = 0; i < m; i++) {
                uint32_t with = i < m / 6 || (i + 1 == m && (m - m / 6) % 2) ? i : m / 6 + ((i - m / 6) ^ 1);

                hash->name[m + order[i]] = hash->name[order[with]];
        }
}

void lut_hash_draw_places(struct lut_hash *hash, uint64_t seed)
{
        uint64_t state = seed;
        unsigned skipped, bit;
        bool exchange = next(&state) % 2;

        *hash = (struct lut_hash){.granule_bits = 8 + (unsigned)(next(&state) % 3)};
        hash->modulus = 23 + 2 * (uint32_t)(next(&state) % (exchange ? 20 : 36));
        hash->channels = exchange ? hash->modulus : hash->modulus / 2 + 1;
        hash->parities = exchange;
        for (uint32_t i = 0; i < hash->modulus; i++)
                hash->name[i] = (uint8_t)(i % hash->channels);
        shuffle(hash->name, hash->modulus, &state);
        if (exchange)
                draw_exchange(hash, &state);
        skipped = hash->granule_bits + 2 + (unsigned)(next(&state) % 6);
        hash->number_from = hash->granule_bits;
        for (bit = hash->granule_bits; bit < LUT_HASH_TOP_BIT; bit++) {
                if (bit == skipped)
                        hash->parity[0] = UINT64_C(1) << bit | some_bits(&state, bit + 1, 3);
                else
                        hash->digit[hash->digits++] = UINT64_C(1) << bit | some_bits(&state, bit + 1, 4);
        }
        /* The number's lowest digit always contains the address bit of the parity; otherwise the bit above might
         * select no channel at all. */
        hash->digit[0] |= UINT64_C(1) << skipped;
}

uint32_t lut_hash_channel(const struct lut_hash *hash, uint64_t address)
{
        uint32_t bits = 0, number = 0, weight = 1;

        for (uint32_t i = 0; i < hash->parities; i++)
                bits |= (uint32_t)__builtin_parityll(address & hash->parity[i]) << i;
        for (uint32_t i = 0; i < hash->digits; i++) {
                number += (uint32_t)__builtin_parityll(address & hash->digit[i]) * weight;
                weight = weight * 2 % hash->modulus;
        }
        return hash->name[bits * hash->modulus + number % hash->modulus];
}

void lut_hash_describe(const struct lut_hash *hash, char *ret, unsigned size)
{
        snprintf(ret, size, "%u channels: %u parities, modulo %u from bit %u, granules of %u", hash->channels,
                hash->parities, hash->modulus, hash->number_from, 1u << hash->granule_bits);
}
