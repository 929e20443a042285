/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The difference of two words that may be floats of any type, for the tolerance of approximations
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#define NEAR 0.001 /* tolerated relative difference of approximations */

static inline double near_relative(double a, double b)
{
        if (isnan(a) && isnan(b))
                return 0;
        if (!isfinite(a) || !isfinite(b))
                return a == b ? 0 : INFINITY;
        return fabs(a - b) / fmax(1e-6, fmax(fabs(a), fabs(b)));
}

static inline double near_wide_half(uint16_t h)
{
        int e = h >> 10 & 31, m = h & 1023;
        double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);

        return h & 0x8000 ? -v : v;
}

/* The relative difference of two 32-bit words, as the float type in which they are nearest; 16-bit types count less. */
static inline double near_word(uint32_t a, uint32_t b)
{
        float x, y;
        double single, half = 0, brain = 0, integer = fabs((double)(int32_t)a - (double)(int32_t)b);

        memcpy(&x, &a, 4);
        memcpy(&y, &b, 4);
        single = near_relative((double)x, (double)y);
        for (int i = 0; i < 32; i += 16) {
                uint32_t p = (a >> i & 0xffff) << 16, q = (b >> i & 0xffff) << 16;

                memcpy(&x, &p, 4);
                memcpy(&y, &q, 4);
                brain = fmax(brain, near_relative((double)x, (double)y));
                half = fmax(
                        half, near_relative(near_wide_half((uint16_t)(p >> 16)), near_wide_half((uint16_t)(q >> 16))));
        }
        /* a difference of two units in the last place counts as NEAR */
        half *= NEAR * 512;
        brain *= NEAR * 64;
        single = fmin(single, fmin(half, brain));
        return integer <= 1 ? fmin(single, NEAR) : single;
}
