/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Half precision and bfloat16 as bit patterns
 *
 * Widening is exact. Narrowing rounds to nearest even, correctly also for subnormals and overflow, and turns NaN into
 * the canonical 0x7fff. All code is branch-free on lanes, so loops over it vectorise; no compiler support for half
 * types is needed.
 */
#pragma once

#include "ptx/interp/lane.h"

#define DS_IX_NAN16 0x7fffu

DS_IX_INLINE float ds_ix_from_half(uint16_t h)
{
        uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
        /* an exact multiplication adjusts the exponent, and handles subnormals too */
        float f = ds_ix_float(rest << 13) * 0x1p112f;
        uint32_t u = rest >= 0x7c00u ? 0x7f800000u | rest << 13 : ds_ix_bits32(f);

        return ds_ix_float(sign | u);
}

DS_IX_INLINE uint16_t ds_ix_to_half(float f)
{
        uint32_t u = ds_ix_bits32(f), sign = u >> 16 & 0x8000u, size = u & 0x7fffffffu;
        /* normal result: adds half a unit (a bit less for an even result) and truncates */
        uint32_t normal = (size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13;
        /* subnormal result: adding 0.5 rounds to units of 2^-24 */
        uint32_t tiny = ds_ix_bits32(ds_ix_float(size) + 0.5f) - 0x3f000000u;
        uint32_t r = size < 0x38800000u ? tiny : normal;

        r = size >= 0x477ff000u ? 0x7c00u : r;
        return (uint16_t)(size > 0x7f800000u ? DS_IX_NAN16 : sign | r);
}

DS_IX_INLINE float ds_ix_from_bf16(uint16_t h)
{
        return ds_ix_float((uint32_t)h << 16);
}

DS_IX_INLINE uint16_t ds_ix_to_bf16(float f)
{
        uint32_t u = ds_ix_bits32(f);

        return (uint16_t)(f != f ? DS_IX_NAN16 : (u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

/* a * b + c of bfloat16 or half values, rounded once to odd in f32: narrowing the result equals narrowing the exact
 * value */
DS_IX_INLINE float ds_ix_fma_odd(float a, float b, float c)
{
        double exact = (double)a * b;

        return ds_ix_narrow_odd(ds_ix_add_odd(exact, c));
}

/* .ftz for halves: subnormals become zeros of the same sign */
DS_IX_INLINE uint16_t ds_ix_ftz_half(uint16_t h)
{
        return h & 0x7c00u ? h : h & 0x8000u;
}
