/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of up to 32 bits over GF(2): spans, and bases turned into coordinates
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t ds_gf2_dot(uint32_t a, uint32_t b)
{
        return (uint32_t)__builtin_parity(a & b);
}

/* A span in echelon form: row[i] is zero, or has bit i as its highest. */
struct ds_gf2_span {
        uint32_t row[32];
        uint32_t n;
};

/* What of the vector is not in the span: 0 when all of it is. */
uint32_t ds_gf2_rest(const struct ds_gf2_span *span, uint32_t vector);
/* Whether it was new to the span, which then has it. */
bool ds_gf2_add(struct ds_gf2_span *span, uint32_t vector);
/* The functionals of a basis: mask[i] . basis[k] is 1 for i = k and else 0. The n vectors are independent, of n bits.
 */
void ds_gf2_dual(const uint32_t *basis, uint32_t n, uint32_t *ret_mask);
