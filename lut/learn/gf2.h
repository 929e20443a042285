/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of up to 32 bits over GF(2): spans and dual bases
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline uint32_t ds_gf2_dot(uint32_t a, uint32_t b)
{
        return (uint32_t)__builtin_parity(a & b);
}

/* A span in echelon form: row[i] is zero, or has bit i as its highest bit. */
struct ds_gf2_span {
        uint32_t row[32];
        uint32_t n;
};

/* The vector reduced by the span; 0 if the vector lies in the span. */
uint32_t ds_gf2_rest(const struct ds_gf2_span *span, uint32_t vector);
/* Adds the vector to the span. Returns true if the span did not contain the vector before. */
bool ds_gf2_add(struct ds_gf2_span *span, uint32_t vector);
/* The dual basis: mask[i] . basis[k] is 1 for i = k, else 0. The n vectors are independent and have n bits. */
void ds_gf2_dual(const uint32_t *basis, uint32_t n, uint32_t *ret_mask);
