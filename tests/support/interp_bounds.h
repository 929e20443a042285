/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allowed errors of approximations, as the PTX ISA document states them for each instruction
 *
 * bounds_error returns the used part of the allowed error: 0 for the exact value, 1 at the bound, infinity for an
 * impossible result (a number instead of NaN, the wrong sign of infinity). The C library computes the reference in long
 * double. PTX states nothing outside of some ranges, and no number for rsqrt.approx.f64 and the upper-half forms of
 * f64; the bounds there are DetShare's own, and comments say so.
 */
#pragma once

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "util/macro.h"

/* Any of the three bounds may be 0; the largest allowance counts. low, high: applies to |operand| in [low, high). */
struct bound {
        const char *name;
        double low, high, ulps, relative, absolute;
        const char *words;
};

#define BOUNDS_PI 3.14159265358979323846
static const struct bound bounds[] = {
        {"div.approx.f32", 0x1p-126, 0x1p126, 2, 0, 0, "for |b| in [2^-126, 2^126], the maximum ulp error is 2"},
        {"div.full.f32", 0, INFINITY, 2, 0, 0, "maximum ulp error 2 across the full range of inputs"},
        {"rcp.approx.f32", 0, INFINITY, 1, 0, 0, "the maximum ulp error is 1 across the full range of inputs"},
        {"sqrt.approx.f32", 0, INFINITY, 0, 0x1p-23, 0, "maximum relative error 2^-23 over the positive finite range"},
        {"rsqrt.approx.f32", 0, INFINITY, 0, 0x1.125fbep-23, 0, "maximum relative error 2^-22.9"},
        {"sin.approx.f32", 0, 2 * BOUNDS_PI, 0, 0, 0x1.6a09e7p-21, "maximum absolute error 2^-20.5 in [-2pi, 2pi]"},
        {"sin.approx.f32", 2 * BOUNDS_PI, 100 * BOUNDS_PI, 0, 0, 0x1.3b2c48p-15, "2^-14.7 in [-100pi, 100pi]"},
        {"cos.approx.f32", 0, 2 * BOUNDS_PI, 0, 0, 0x1.6a09e7p-21, "maximum absolute error 2^-20.5 in [-2pi, 2pi]"},
        {"cos.approx.f32", 2 * BOUNDS_PI, 100 * BOUNDS_PI, 0, 0, 0x1.3b2c48p-15, "2^-14.7 in [-100pi, 100pi]"},
        {"lg2.approx.f32", 0.5, 2, 0, 0, 0x1p-22, "maximum absolute error 2^-22 in (0.5, 2)"},
        {"lg2.approx.f32", 0, INFINITY, 0, 0x1p-22, 0, "maximum relative error 2^-22 outside of it"},
        {"ex2.approx.f32", 0, INFINITY, 2, 0, 0, "the maximum ulp error is 2 across the full range of inputs"},
        {"ex2.approx.f16", 0, INFINITY, 0, 0x1.125fbep-10, 0x1p-24, "maximum relative error 2^-9.9"},
        {"ex2.approx.bf16", 0, INFINITY, 0, 0x1p-7, 0, "maximum relative error 2^-7"},
        {"tanh.approx.f32", 0, INFINITY, 0, 0x1p-11, 0, "maximum relative error 2^-11"},
        {"tanh.approx.f16", 0, INFINITY, 0, 0, 0x1.0249dfp-11, "maximum absolute error 2^-10.987"},
        {"tanh.approx.bf16", 0, INFINITY, 0, 0, 0x1p-8, "maximum absolute error 2^-8"},
        {"rcp.approx.f64", 0, INFINITY, 0, 0x1p-19, 0, "ours: the upper half of operand and result"},
        {"rsqrt.approx.f64", 0, INFINITY, 0, 0x1p-19, 0, "ours: the upper half of operand and result, or 2 ulp"},
};

/* Finds the bound of an instruction ("sin.approx.ftz.f32 %D, %A;") for an operand. NULL: PTX states none. */
static inline const struct bound *bounds_find(const char *text, double at)
{
        char name[32];
        size_t n = 0;

        for (const char *s = text; *s && *s != ' ' && n < sizeof(name) - 1; s++) {
                if (strncmp(s, ".ftz", 4) == 0)
                        s += 4;
                if (*s == 'x' && s[1] == '2' && s[2] == ' ')
                        break;
                name[n++] = *s;
        }
        name[n] = 0;
        for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
                if (strcmp(bounds[i].name, name) == 0 && fabs(at) >= bounds[i].low && fabs(at) < bounds[i].high)
                        return &bounds[i];
        }
        return NULL;
}

/* The reference value in long double. */
static inline long double bounds_reference(const char *text, double x, double y)
{
        switch (text[0]) {
        case 'd':
                return (long double)x / y;
        case 's':
                return text[1] == 'i' ? sinl(x) : sqrtl(x);
        case 'c':
                return cosl(x);
        case 'l':
                return x == 0 ? -INFINITY : log2l(x);
        case 'e':
                return exp2l(x);
        case 't':
                return tanhl(x);
        default:
                return text[1] == 'c' ? 1.0L / x : 1.0L / sqrtl(x);
        }
}

/* A floating-point format: bits of its mantissa, exponent of its least normal number, largest number. */
struct bounds_format {
        int mantissa, least;
        double most;
};

static inline struct bounds_format bounds_format(const char *text)
{
        if (strstr(text, "bf16"))
                return (struct bounds_format){7, -126, 0x1.fep127};
        if (strstr(text, "f16"))
                return (struct bounds_format){10, -14, 65504};
        if (strstr(text, "f64"))
                return (struct bounds_format){52, -1022, DBL_MAX};
        return (struct bounds_format){23, -126, FLT_MAX};
}

/*
 * Part of the allowed error that the result r of an instruction for x (and y) uses; -1: PTX states nothing here. x, y
 * and r have the instruction's type.
 */
static inline double bounds_error(const char *text, double x, double y, double r)
{
        const struct bounds_format f = bounds_format(text);
        const double least = ldexp(1, f.least), tiniest = ldexp(1, f.least - f.mantissa);
        const int ftz = strstr(text, ".ftz") != NULL && !strstr(text, "bf16");
        const struct bound *b;
        long double want, off;
        double allowed;
        int exponent;

        if (ftz && fabs(x) < least)
                x = copysign(0, x);
        if (ftz && fabs(y) < least)
                y = copysign(0, y);
        b = bounds_find(text, text[0] == 'd' ? y : x);
        want = bounds_reference(text, x, y);
        if (want != want)
                return r != r ? 0 : INFINITY;
        if (isinf(want) || want == 0) {
                /* a divisor beyond 2^126 gives 0, and 0 * infinity is NaN */
                return (double)want == r && signbit((double)want) == signbit(r) ? 0 : b ? INFINITY : -1;
        }
        if (!b)
                return -1;
        (void)frexpl(want, &exponent);
        allowed = fmax(b->absolute, b->relative * (double)fabsl(want));
        allowed = fmax(allowed, b->ulps * ldexp(1, (exponent - 1 < f.least ? f.least : exponent - 1) - f.mantissa));
        /* near the ends of the range the result may be the next representable number */
        allowed = fmax(allowed, fabsl(want) < least ? tiniest : 0);
        if (ftz && r == 0 && fabsl(want) < least + allowed)
                return 0;
        if (isinf(r))
                return fabsl(want) + allowed >= f.most && (r > 0) == (want > 0) ? 0 : INFINITY;
        if (r != r)
                return INFINITY;
        off = fabsl((long double)r - want);
        return (double)off / allowed;
}

/* The value of a word in the instruction's type; `high` selects the half of a packed type. */
static inline double bounds_value(const char *text, uint64_t word, int high)
{
        struct bounds_format f = bounds_format(text);
        int width = f.mantissa == 52 ? 64 : f.mantissa == 23 ? 32 : 16, exponents = width - f.mantissa - 1;
        uint64_t u = word >> (high ? 16 : 0), size, exponent, mantissa;
        double v;

        size = u & ((UINT64_C(1) << (width - 1)) - 1);
        exponent = size >> f.mantissa;
        mantissa = size & ((UINT64_C(1) << f.mantissa) - 1);
        if (exponent == (UINT64_C(1) << exponents) - 1)
                v = mantissa ? NAN : INFINITY;
        else
                v = ldexp((double)(exponent ? mantissa | UINT64_C(1) << f.mantissa : mantissa),
                        (int)DS_MAX(exponent, UINT64_C(1)) - 1 + f.least - f.mantissa);
        return u >> (width - 1) & 1 ? -v : v;
}

/* Like bounds_error, for the words of a row; for packed types the larger error of both halves. */
static inline double bounds_word_error(const char *text, uint64_t a, uint64_t b, uint64_t r)
{
        /* Approximations with .ftz.f64 read only the upper half of their operand, so they see some NaNs as
         * infinities. */
        const uint64_t seen = strstr(text, ".ftz.f64") ? UINT64_C(0xffffffff00000000) : UINT64_MAX;
        double worst = -1;

        a &= seen;
        b &= seen;
        for (int high = 0; high < (strstr(text, "x2 ") ? 2 : 1); high++)
                worst = fmax(worst, bounds_error(text, bounds_value(text, a, high), bounds_value(text, b, high),
                                            bounds_value(text, r, high)));
        return worst;
}
