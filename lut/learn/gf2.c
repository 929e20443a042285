/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/gf2.h"

#include <assert.h>

uint32_t ds_gf2_rest(const struct ds_gf2_span *span, uint32_t vector)
{
        uint32_t left = vector, row;

        while (left) {
                row = span->row[31 - __builtin_clz(left)];
                vector ^= row;
                left ^= row ? row : UINT32_C(1) << (31 - __builtin_clz(left));
        }
        return vector;
}

bool ds_gf2_add(struct ds_gf2_span *span, uint32_t vector)
{
        uint32_t rest = ds_gf2_rest(span, vector);

        if (!rest)
                return false;
        span->row[31 - __builtin_clz(rest)] = rest;
        span->n++;
        return true;
}

void ds_gf2_dual(const uint32_t *basis, uint32_t n, uint32_t *ret_mask)
{
        uint32_t left[32], right[32], pivot, swap;

        /* inverts the matrix whose rows are the basis; the masks are the columns of the inverse */
        for (uint32_t i = 0; i < n; i++) {
                left[i] = basis[i];
                right[i] = UINT32_C(1) << i;
        }
        for (uint32_t bit = 0; bit < n; bit++) {
                for (pivot = bit; pivot < n && !(left[pivot] >> bit & 1); pivot++)
                        ;
                assert(pivot < n);
                swap = left[bit], left[bit] = left[pivot], left[pivot] = swap;
                swap = right[bit], right[bit] = right[pivot], right[pivot] = swap;
                for (uint32_t i = 0; i < n; i++)
                        if (i != bit && left[i] >> bit & 1) {
                                left[i] ^= left[bit];
                                right[i] ^= right[bit];
                        }
        }
        for (uint32_t i = 0; i < n; i++) {
                ret_mask[i] = 0;
                for (uint32_t bit = 0; bit < n; bit++)
                        ret_mask[i] |= (right[bit] >> i & 1) << bit;
        }
}
