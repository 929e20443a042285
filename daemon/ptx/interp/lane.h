/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lane operations: from one expression to a handler for 32 lanes
 *
 * DS_IX_OP1/2/3/4(name, D, A, B, ..., expression) defines the handler `name` whose lanes compute `expression` of x, y,
 * z, v (the sources, of types A, B...) and store it as D. The loop has a fixed count and no dependences, so the
 * compiler vectorises it. A full warp writes the register directly; otherwise the result goes through a buffer and only
 * the active lanes are stored. Source and destination may be the same register: a lane reads only its own value.
 *
 * Each handler is compiled twice from the same expression, for the baseline and for AVX2 with FMA. The result may not
 * depend on the choice: no contraction, no reassociation, library functions only where they are correctly rounded.
 */
#pragma once

#include "ptx/interp/core.h"

#if defined(__clang__)
/* a lane loop that cannot be vectorised is still correct */
#pragma clang diagnostic ignored "-Wpass-failed"
#define DS_IX_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define DS_IX_INDEPENDENT _Pragma("GCC ivdep")
#endif

#define DS_IX_EACH DS_IX_INDEPENDENT for (unsigned i = 0; i < DS_IX_LANES; i++)
#define DS_IX_INLINE static inline __attribute__((__always_inline__))
#define DS_IX_BUFFER(T, name) T name[DS_IX_LANES] __attribute__((__aligned__(64)))

#if defined(__x86_64__)
#define DS_IX_AVX2 __attribute__((__target__("avx2,fma,bmi,bmi2,lzcnt,popcnt")))
#else
#define DS_IX_AVX2
#endif

/* Defines the handler `name` for both instruction sets from name_body: void name_body(ds_ix_warp *w, const ds_ix_op
 * *op) */
#define DS_IX_VARIANTS(name)                                                  \
        static const ds_ix_op *name##_base(ds_ix_warp *w, const ds_ix_op *op) \
        {                                                                     \
                name##_body(w, op);                                           \
                return op + 1;                                                \
        }                                                                     \
        DS_IX_AVX2                                                            \
        static const ds_ix_op *name##_avx2(ds_ix_warp *w, const ds_ix_op *op) \
        {                                                                     \
                name##_body(w, op);                                           \
                return op + 1;                                                \
        }                                                                     \
        static const struct ds_ix_impl name = {{name##_base, name##_avx2}};

/* Defines a handler like DS_IX_VARIANTS, from a body that returns the next operation, or NULL. */
#define DS_IX_FLOW_VARIANTS(name)                                             \
        static const ds_ix_op *name##_base(ds_ix_warp *w, const ds_ix_op *op) \
        {                                                                     \
                return name##_body(w, op);                                    \
        }                                                                     \
        DS_IX_AVX2                                                            \
        static const ds_ix_op *name##_avx2(ds_ix_warp *w, const ds_ix_op *op) \
        {                                                                     \
                return name##_body(w, op);                                    \
        }                                                                     \
        static const struct ds_ix_impl name = {{name##_base, name##_avx2}};

/* ds_ix_bit[i]: mask with the bit of lane i */
static const uint32_t ds_ix_bit[DS_IX_LANES] __attribute__((__aligned__(64))) = {1u << 0, 1u << 1, 1u << 2, 1u << 3,
        1u << 4, 1u << 5, 1u << 6, 1u << 7, 1u << 8, 1u << 9, 1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14,
        1u << 15, 1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23, 1u << 24, 1u << 25,
        1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

/* Stores the active lanes of `from` into `to`. Of the type D only the width matters. */
#define DS_IX_STORE(D, to, from, active)                                     \
        do {                                                                 \
                uint32_t store_mask = (active);                              \
                D *store_to = (to);                                          \
                const D *store_from = (from);                                \
                DS_IX_EACH                                                   \
                {                                                            \
                        D old = store_to[i], new = store_from[i];            \
                        store_to[i] = store_mask & ds_ix_bit[i] ? new : old; \
                }                                                            \
        } while (0)

#define DS_IX_BODY(name, D, loads, ...)                                  \
        DS_IX_INLINE void name##_body(ds_ix_warp *w, const ds_ix_op *op) \
        {                                                                \
                DS_IX_BUFFER(D, buffer);                                 \
                D *to = ds_ix_lanes(w, op->d);                           \
                uint32_t active = w->mask;                               \
                D *d = active == DS_IX_FULL ? to : buffer;               \
                loads;                                                   \
                d = __builtin_assume_aligned(d, 64);                     \
                DS_IX_EACH                                               \
                {                                                        \
                        __VA_ARGS__;                                     \
                }                                                        \
                if (active != DS_IX_FULL)                                \
                        DS_IX_STORE(D, to, buffer, active);              \
        }                                                                \
        DS_IX_VARIANTS(name)

#define DS_IX_OP1(name, D, A, ...) \
        DS_IX_BODY(name, D, const A *pa = ds_ix_lanes(w, op->a), A x = pa[i]; d[i] = (D)(__VA_ARGS__))
#define DS_IX_OP2(name, D, A, B, ...)                                                                              \
        DS_IX_BODY(name, D, const A *pa = ds_ix_lanes(w, op->a); const B *pb = ds_ix_lanes(w, op->b), A x = pa[i]; \
                   B y = pb[i]; d[i] = (D)(__VA_ARGS__))
#define DS_IX_OP3(name, D, A, B, C, ...)                                                              \
        DS_IX_BODY(name, D, const A *pa = ds_ix_lanes(w, op->a); const B *pb = ds_ix_lanes(w, op->b); \
                   const C *pc = ds_ix_lanes(w, op->c), A x = pa[i]; B y = pb[i]; C z = pc[i];        \
                   d[i] = (D)(__VA_ARGS__))
#define DS_IX_OP4(name, D, A, B, C, F, ...)                                                                            \
        DS_IX_BODY(name, D, const A *pa = ds_ix_lanes(w, op->a); const B *pb = ds_ix_lanes(w, op->b);                  \
                   const C *pc = ds_ix_lanes(w, op->c); const F *pf = ds_ix_lanes(w, op->f), A x = pa[i]; B y = pb[i]; \
                   C z = pc[i]; F v = pf[i]; d[i] = (D)(__VA_ARGS__))

/* Defines a function that returns the lanes where `condition` (of x and y) holds, as a bit mask. */
#define DS_IX_MASK2(name, A, ...)                                 \
        DS_IX_INLINE uint32_t name(const A *pa, const A *pb)      \
        {                                                         \
                uint32_t bits = 0;                                \
                for (unsigned i = 0; i < DS_IX_LANES; i++) {      \
                        A x = pa[i], y = pb[i];                   \
                        bits |= (__VA_ARGS__) ? ds_ix_bit[i] : 0; \
                }                                                 \
                return bits;                                      \
        }

/* Convert between numbers and their bit patterns without pointer casts. */
DS_IX_INLINE uint32_t ds_ix_bits32(float x)
{
        uint32_t u;

        memcpy(&u, &x, sizeof(u));
        return u;
}

DS_IX_INLINE float ds_ix_float(uint32_t u)
{
        float x;

        memcpy(&x, &u, sizeof(x));
        return x;
}

DS_IX_INLINE uint64_t ds_ix_bits64(double x)
{
        uint64_t u;

        memcpy(&u, &x, sizeof(u));
        return u;
}

DS_IX_INLINE double ds_ix_double(uint64_t u)
{
        double x;

        memcpy(&x, &u, sizeof(x));
        return x;
}

/* .ftz of an operand: subnormals become zeros of the same sign. */
DS_IX_INLINE float ds_ix_ftz(float x)
{
        uint32_t u = ds_ix_bits32(x);

        return ds_ix_float((u & 0x7f800000u) ? u : u & 0x80000000u);
}

/*
 * .ftz of a result: 1 if the result becomes zero, because it was below every normal number before rounding. exact: the
 * unrounded value, or the value rounded to odd.
 */
DS_IX_INLINE int ds_ix_tiny(double exact)
{
        return __builtin_fabs(exact) < 0x1p-126;
}

#define DS_IX_NAN32 0x7fffffffu

/* Replaces a NaN by the canonical NaN of single precision. */
DS_IX_INLINE uint32_t ds_ix_canonical(float x)
{
        return x != x ? DS_IX_NAN32 : ds_ix_bits32(x);
}

/* .sat: clamps to [0, 1]; NaN becomes +0. */
DS_IX_INLINE float ds_ix_saturate(float x)
{
        return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}

DS_IX_INLINE double ds_ix_saturate64(double x)
{
        return x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0;
}

/*
 * a + b as a double that is exact, or odd in its last bit (round to odd): narrowing it afterwards, in any rounding,
 * equals narrowing the exact sum.
 */
DS_IX_INLINE double ds_ix_add_odd(double a, double b)
{
        double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
        uint64_t u = ds_ix_bits64(sum);
        uint64_t step = (error > 0) == (sum > 0) ? 1 : (uint64_t)-1;
        int inexact = error < 0 || error > 0;

        return ds_ix_double(inexact && !(u & 1) ? u + step : u);
}

/* d as a float, rounded to odd: if d is not a float, the result's last bit is 1. */
DS_IX_INLINE float ds_ix_narrow_odd(double d)
{
        float f = (float)d;
        uint32_t u = ds_ix_bits32(f);
        double back = f, size = back < 0 ? -back : back, exact = d < 0 ? -d : d;

        u -= size > exact;
        u |= back < d || back > d;
        return ds_ix_float(u);
}
