/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating-point arithmetic of the interpreter, exact to the bit
 *
 * Round-to-nearest is the C operator (the build forbids contraction). The other roundings of single precision are
 * computed in double: products of floats are exact there, sums are rounded to odd, and the narrowing decides by
 * comparing. Double precision in other roundings sets the processor's rounding mode. Single-precision NaN results are
 * the NaN of NVIDIA hardware, 0x7fffffff.
 */
#include <fenv.h>
#include <math.h>

#include "ptx/interp/lane.h"

#define T(name) DS_PTX_TYPE_##name

/* --- round to nearest --- */
#define F(x) ds_ix_ftz(x)
#define OUT(r) ds_ix_canonical(r)
#define OUT_FTZ(r) ds_ix_canonical(ds_ix_ftz(r))
#define OUT_SAT(r) ds_ix_bits32(ds_ix_saturate(r))
#define OUT_FTZ_SAT(r) ds_ix_bits32(ds_ix_saturate(ds_ix_ftz(r)))
#define F32_2(name, op2)                                                            \
        DS_IX_OP2(name##_f32, uint32_t, float, float, OUT(op2(x, y)))               \
        DS_IX_OP2(name##_f32_ftz, uint32_t, float, float, OUT_FTZ(op2(F(x), F(y)))) \
        DS_IX_OP2(name##_f32_sat, uint32_t, float, float, OUT_SAT(op2(x, y)))       \
        DS_IX_OP2(name##_f32_ftz_sat, uint32_t, float, float, OUT_FTZ_SAT(op2(F(x), F(y))))
#define ADD(x, y) ((x) + (y))
#define SUB(x, y) ((x) - (y))
#define MUL(x, y) ((x) * (y))
F32_2(add, ADD)
F32_2(sub, SUB)
DS_IX_OP2(mul_f32, uint32_t, float, float, OUT(x *y))
DS_IX_OP2(mul_f32_sat, uint32_t, float, float, OUT_SAT(x *y))
DS_IX_OP3(fma_f32, uint32_t, float, float, float, OUT(__builtin_fmaf(x, y, z)))
DS_IX_OP3(fma_f32_sat, uint32_t, float, float, float, OUT_SAT(__builtin_fmaf(x, y, z)))

/*
 * With .ftz a product too small for a normal number is flushed even if rounding would raise it to the smallest one.
 * Lanes with that result are rare and are computed again, exactly.
 */
#define SMALLEST 0x00800000u

DS_IX_INLINE int is_smallest(uint32_t u)
{
        return (u & 0x7fffffffu) == SMALLEST;
}

#define FLUSHED(name, sources, value, exact)                                               \
        DS_IX_INLINE void name##_body(ds_ix_warp *w, const ds_ix_op *op)                   \
        {                                                                                  \
                DS_IX_BUFFER(uint32_t, buffer);                                            \
                const float *pa = ds_ix_lanes(w, op->a), *pb = ds_ix_lanes(w, op->b);      \
                sources;                                                                   \
                uint32_t doubtful = 0, sat = op->flags & DS_IX_SAT;                        \
                DS_IX_EACH                                                                 \
                {                                                                          \
                        buffer[i] = OUT_FTZ(value);                                        \
                }                                                                          \
                for (unsigned i = 0; i < DS_IX_LANES; i++)                                 \
                        doubtful |= (uint32_t)is_smallest(buffer[i]);                      \
                for (unsigned i = 0; doubtful && i < DS_IX_LANES; i++) {                   \
                        if (is_smallest(buffer[i]) && ds_ix_tiny(exact))                   \
                                buffer[i] &= 0x80000000u;                                  \
                }                                                                          \
                DS_IX_EACH                                                                 \
                {                                                                          \
                        uint32_t cut = OUT_SAT(ds_ix_float(buffer[i]));                    \
                        buffer[i] = sat ? cut : buffer[i];                                 \
                }                                                                          \
                DS_IX_STORE(uint32_t, (uint32_t *)ds_ix_lanes(w, op->d), buffer, w->mask); \
        }                                                                                  \
        DS_IX_VARIANTS(name)
FLUSHED(mul_f32_ftz, (void)0, F(pa[i]) * F(pb[i]), (double)F(pa[i]) * F(pb[i]))
FLUSHED(fma_f32_ftz, const float *pc = ds_ix_lanes(w, op->c), __builtin_fmaf(F(pa[i]), F(pb[i]), F(pc[i])),
        ds_ix_add_odd((double)F(pa[i]) * F(pb[i]), F(pc[i])))

/* NaN that double-precision operations such as inf - inf give */
#define DS_IX_NAN64 UINT64_C(0xfff8000000000000)

/* --- other roundings, single precision --- */
/* Narrows `exact` to a float in op's rounding. exact: the value itself, or the value rounded to odd; down_zero: 1 if
 * 0 becomes -0 in .rm */
DS_IX_INLINE uint32_t narrow(double exact, const ds_ix_op *op, int down_zero)
{
        uint32_t mode = op->mode;
        float f = (float)exact;
        uint32_t u = ds_ix_bits32(f);
        double back = f;
        int over = back > exact, under = back < exact, negative = (int)(u >> 31);

        if (exact != exact)
                return DS_IX_NAN32;
        if (exact == 0)
                return mode == DS_IX_RM && down_zero ? 0x80000000u : u;
        if (op->flags & DS_IX_FTZ && ds_ix_tiny(exact))
                return u & 0x80000000u;
        switch (mode) {
        case DS_IX_RZ:
                return negative ? u - (uint32_t)under : u - (uint32_t)over;
        case DS_IX_RM:
                return negative ? u + (uint32_t)over : u - (uint32_t)over;
        case DS_IX_RP:
                return negative ? u - (uint32_t)under : u + (uint32_t)under;
        default:
                return u;
        }
}

DS_IX_INLINE uint32_t finish(uint32_t u, uint32_t flags)
{
        float f = ds_ix_float(u);

        if (flags & DS_IX_SAT)
                f = ds_ix_saturate(f);
        return ds_ix_canonical(f);
}

DS_IX_INLINE float start(float x, uint32_t flags)
{
        return flags & DS_IX_FTZ ? ds_ix_ftz(x) : x;
}

static uint32_t directed_sum(float x, float y, const ds_ix_op *op)
{
        double a = start(x, op->flags), b = start(y, op->flags);

        return finish(narrow(ds_ix_add_odd(a, b), op, signbit(a) || signbit(b)), op->flags);
}

static uint32_t directed_product(float x, float y, const ds_ix_op *op)
{
        double a = start(x, op->flags), b = start(y, op->flags);

        return finish(narrow(a * b, op, signbit(a) != signbit(b)), op->flags);
}

static uint32_t directed_fma(float x, float y, float z, const ds_ix_op *op)
{
        double a = start(x, op->flags), b = start(y, op->flags), c = start(z, op->flags);

        return finish(narrow(ds_ix_add_odd(a * b, c), op, signbit(a * b) || signbit(c)), op->flags);
}

/* Division and square root in directed roundings, computed in double: a result that is not a float never becomes one
 * by the rounding in double, so no correction is needed. */
static uint32_t directed_quotient(float x, float y, const ds_ix_op *op)
{
        double a = start(x, op->flags), b = start(y, op->flags);

        return finish(narrow(a / b, op, signbit(a) != signbit(b)), op->flags);
}

static uint32_t directed_root(float x, const ds_ix_op *op)
{
        double a = start(x, op->flags);

        return finish(narrow(sqrt(a), op, signbit(a)), op->flags);
}

DS_IX_OP2(add_f32_directed, uint32_t, float, float, directed_sum(x, y, op))
DS_IX_OP2(sub_f32_directed, uint32_t, float, float, directed_sum(x, -y, op))
DS_IX_OP2(mul_f32_directed, uint32_t, float, float, directed_product(x, y, op))
DS_IX_OP3(fma_f32_directed, uint32_t, float, float, float, directed_fma(x, y, z, op))
DS_IX_OP2(div_f32_directed, uint32_t, float, float, directed_quotient(x, y, op))
DS_IX_OP1(rcp_f32_directed, uint32_t, float, directed_quotient(1.0f, x, op))
DS_IX_OP1(sqrt_f32_directed, uint32_t, float, directed_root(x, op))

/* --- double precision --- */
/* NaN result of a double-precision operation: a NaN operand becomes quiet, with priority y, z, x; a NaN from numbers
 * is the default one. */
DS_IX_INLINE uint64_t quiet(double r, double x, double y, double z)
{
        uint64_t q = UINT64_C(1) << 51;
        uint64_t n = y != y   ? ds_ix_bits64(y) | q
                     : z != z ? ds_ix_bits64(z) | q
                     : x != x ? ds_ix_bits64(x) | q
                              : DS_IX_NAN64;

        return r != r ? n : ds_ix_bits64(r);
}

#define OUT64(r, x, y, z) quiet(r, x, y, z)
DS_IX_OP2(add_f64, uint64_t, double, double, OUT64(x + y, x, y, 0.0))
DS_IX_OP2(sub_f64, uint64_t, double, double, OUT64(x - y, x, y, 0.0))
DS_IX_OP2(mul_f64, uint64_t, double, double, OUT64(x *y, x, y, 0.0))
DS_IX_OP3(fma_f64, uint64_t, double, double, double, OUT64(__builtin_fma(x, y, z), x, y, z))
DS_IX_OP2(div_f64, uint64_t, double, double, OUT64(x / y, y, x, 0.0))
DS_IX_OP1(rcp_f64, uint64_t, double, OUT64(1.0 / x, x, 0.0, 0.0))
DS_IX_OP1(sqrt_f64, uint64_t, double, OUT64(__builtin_sqrt(x), x, 0.0, 0.0))

enum { ADD64, SUB64, MUL64, FMA64, DIV64, RCP64, SQRT64 };

/* Computes in the processor's rounding mode; volatile keeps the computation between the two mode changes. */
static uint64_t directed64(int what, double x, double y, double z, const ds_ix_op *op)
{
        static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
        volatile double a = x, b = y, c = z, r = 0;
        int before = fegetround();

        (void)fesetround(modes[op->mode]);
        switch (what) {
        case ADD64:
                r = a + b;
                break;
        case SUB64:
                r = a - b;
                break;
        case MUL64:
                r = a * b;
                break;
        case FMA64:
                r = fma(a, b, c);
                break;
        case DIV64:
                r = a / b;
                break;
        case RCP64:
                r = 1.0 / a;
                break;
        case SQRT64:
                r = sqrt(a);
                break;
        }
        (void)fesetround(before);
        /* in a quotient the dividend's NaN has priority, so x and y are swapped */
        return what == DIV64 ? quiet(r, y, x, 0.0) : quiet(r, x, y, z);
}

DS_IX_OP2(add_f64_directed, uint64_t, double, double, directed64(ADD64, x, y, 0, op))
DS_IX_OP2(sub_f64_directed, uint64_t, double, double, directed64(SUB64, x, y, 0, op))
DS_IX_OP2(mul_f64_directed, uint64_t, double, double, directed64(MUL64, x, y, 0, op))
DS_IX_OP3(fma_f64_directed, uint64_t, double, double, double, directed64(FMA64, x, y, z, op))
DS_IX_OP2(div_f64_directed, uint64_t, double, double, directed64(DIV64, x, y, 0, op))
DS_IX_OP1(rcp_f64_directed, uint64_t, double, directed64(RCP64, x, 0, 0, op))
DS_IX_OP1(sqrt_f64_directed, uint64_t, double, directed64(SQRT64, x, 0, 0, op))

/* --- signs, minima --- */
/* Sign operations on a NaN: single precision gives the canonical NaN; double precision keeps the NaN, made quiet,
 * with its sign. */
DS_IX_INLINE uint64_t signed64(double x, uint64_t bits)
{
        return x != x ? ds_ix_bits64(x) | UINT64_C(1) << 51 : bits;
}

#define SIGN32(x, bits) ((x) != (x) ? DS_IX_NAN32 : (bits))
DS_IX_OP1(abs_f32, uint32_t, float, SIGN32(x, ds_ix_bits32(x) & 0x7fffffffu))
DS_IX_OP1(abs_f32_ftz, uint32_t, float, SIGN32(x, ds_ix_bits32(F(x)) & 0x7fffffffu))
DS_IX_OP1(abs_f64, uint64_t, double, signed64(x, ds_ix_bits64(x) & INT64_MAX))
DS_IX_OP1(neg_f32, uint32_t, float, SIGN32(x, ds_ix_bits32(x) ^ 0x80000000u))
DS_IX_OP1(neg_f32_ftz, uint32_t, float, SIGN32(x, ds_ix_bits32(F(x)) ^ 0x80000000u))
DS_IX_OP1(neg_f64, uint64_t, double, signed64(x, ds_ix_bits64(x) ^ (UINT64_C(1) << 63)))
/* copysign takes the sign of its first operand, the magnitude of its second */
DS_IX_OP2(copysign_f32, uint32_t, uint32_t, uint32_t, (x & 0x80000000u) | (y & 0x7fffffffu))
DS_IX_OP2(copysign_f64, uint64_t, uint64_t, uint64_t, (x & (UINT64_C(1) << 63)) | (y & INT64_MAX))

/* Integer that orders floats by value, with -0 before +0. */
DS_IX_INLINE int32_t order32(float x)
{
        int32_t u = (int32_t)ds_ix_bits32(x);

        return u ^ ((u >> 31) & INT32_MAX);
}

DS_IX_INLINE int64_t order64(double x)
{
        int64_t u = (int64_t)ds_ix_bits64(x);

        return u ^ ((u >> 63) & INT64_MAX);
}

DS_IX_INLINE uint64_t one_nan64(double x, double y)
{
        return x != x ? (y != y ? ds_ix_bits64(y) | UINT64_C(1) << 51 : ds_ix_bits64(y)) : ds_ix_bits64(x);
}

/* Minimum and maximum: a number wins over a NaN. Of two NaNs single precision gives the canonical one, double
 * precision the second one, made quiet. */
#define CHOOSE32(x, y, pick_x) ds_ix_canonical((x) != (x) ? (y) : (y) != (y) ? (x) : (pick_x) ? (x) : (y))
#define CHOOSE32_NAN(x, y, pick_x) ((x) != (x) || (y) != (y) ? DS_IX_NAN32 : ds_ix_bits32((pick_x) ? (x) : (y)))
#define CHOOSE64(x, y, pick_x) ((x) != (x) || (y) != (y) ? one_nan64(x, y) : ds_ix_bits64((pick_x) ? (x) : (y)))
#define LESS32(x, y) (order32(x) < order32(y))
#define MORE32(x, y) (order32(x) > order32(y))
DS_IX_OP2(min_f32, uint32_t, float, float, CHOOSE32(x, y, LESS32(x, y)))
DS_IX_OP2(max_f32, uint32_t, float, float, CHOOSE32(x, y, MORE32(x, y)))
DS_IX_OP2(min_f64, uint64_t, double, double, CHOOSE64(x, y, order64(x) < order64(y)))
DS_IX_OP2(max_f64, uint64_t, double, double, CHOOSE64(x, y, order64(x) > order64(y)))

/* minimum and maximum with .ftz, .NaN and .xorsign.abs in every combination */
enum { MINMAX_MAX = 1, MINMAX_NAN = 2, MINMAX_XORSIGN = 4 };
DS_IX_INLINE uint32_t minmax(float x, float y, const ds_ix_op *op)
{
        uint32_t sign = (ds_ix_bits32(x) ^ ds_ix_bits32(y)) & 0x80000000u, r;

        if (op->flags & DS_IX_FTZ) {
                x = ds_ix_ftz(x);
                y = ds_ix_ftz(y);
        }
        if (op->mode & MINMAX_XORSIGN) {
                x = ds_ix_float(ds_ix_bits32(x) & 0x7fffffffu);
                y = ds_ix_float(ds_ix_bits32(y) & 0x7fffffffu);
        }
        int first = op->mode & MINMAX_MAX ? MORE32(x, y) : LESS32(x, y);

        r = op->mode & MINMAX_NAN ? CHOOSE32_NAN(x, y, first) : CHOOSE32(x, y, first);
        return op->mode & MINMAX_XORSIGN && r != DS_IX_NAN32 ? (r & 0x7fffffffu) | sign : r;
}
DS_IX_OP2(minmax_f32, uint32_t, float, float, minmax(x, y, op))

/* --- handler tables --- */
static const struct ds_ix_impl *of_flags(const struct ds_ix_impl *const f[4], uint32_t flags)
{
        return f[flags & (DS_IX_FTZ | DS_IX_SAT)];
}

#define FLAGS(f)                                     \
        {                                            \
                &f, &f##_ftz, &f##_sat, &f##_ftz_sat \
        }
/* the handlers of products with .ftz handle .sat themselves */
#define mul_f32_ftz_sat mul_f32_ftz
#define fma_f32_ftz_sat fma_f32_ftz
static const struct ds_ix_impl *find_f32(const struct ds_ptx_instr *in, const ds_ix_op *op)
{
        static const struct ds_ix_impl *const add[] = FLAGS(add_f32), *const sub[] = FLAGS(sub_f32);
        static const struct ds_ix_impl *const mul[] = FLAGS(mul_f32), *const fma_[] = FLAGS(fma_f32);
        int nearest = op->mode == DS_IX_RN;

        switch (in->op) {
        case DS_PTX_OP_FADD:
                return nearest ? of_flags(add, op->flags) : &add_f32_directed;
        case DS_PTX_OP_FSUB:
                return nearest ? of_flags(sub, op->flags) : &sub_f32_directed;
        case DS_PTX_OP_FMUL:
                return nearest ? of_flags(mul, op->flags) : &mul_f32_directed;
        case DS_PTX_OP_FMA:
        case DS_PTX_OP_FMAD:
                return nearest ? of_flags(fma_, op->flags) : &fma_f32_directed;
        case DS_PTX_OP_FABS:
                return op->flags & DS_IX_FTZ ? &abs_f32_ftz : &abs_f32;
        case DS_PTX_OP_FNEG:
                return op->flags & DS_IX_FTZ ? &neg_f32_ftz : &neg_f32;
        case DS_PTX_OP_COPYSIGN:
                return &copysign_f32;
        case DS_PTX_OP_FDIV:
                return &div_f32_directed;
        case DS_PTX_OP_RCP:
                return &rcp_f32_directed;
        case DS_PTX_OP_SQRT:
                return &sqrt_f32_directed;
        default:
                return NULL;
        }
}

static const struct ds_ix_impl *find_f64(const struct ds_ptx_instr *in, const ds_ix_op *op)
{
        int nearest = op->mode == DS_IX_RN;

        switch (in->op) {
        case DS_PTX_OP_FADD:
                return nearest ? &add_f64 : &add_f64_directed;
        case DS_PTX_OP_FSUB:
                return nearest ? &sub_f64 : &sub_f64_directed;
        case DS_PTX_OP_FMUL:
                return nearest ? &mul_f64 : &mul_f64_directed;
        case DS_PTX_OP_FMA:
        case DS_PTX_OP_FMAD:
                return nearest ? &fma_f64 : &fma_f64_directed;
        case DS_PTX_OP_FDIV:
                return nearest ? &div_f64 : &div_f64_directed;
        case DS_PTX_OP_RCP:
                return nearest ? &rcp_f64 : &rcp_f64_directed;
        case DS_PTX_OP_SQRT:
                return nearest ? &sqrt_f64 : &sqrt_f64_directed;
        case DS_PTX_OP_FABS:
                return &abs_f64;
        case DS_PTX_OP_FNEG:
                return &neg_f64;
        case DS_PTX_OP_COPYSIGN:
                return &copysign_f64;
        case DS_PTX_OP_FMIN:
                return &min_f64;
        case DS_PTX_OP_FMAX:
                return &max_f64;
        default:
                return NULL;
        }
}

static const struct ds_ix_impl *find_minmax(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        int max = in->op == DS_PTX_OP_FMAX;

        op->mode = (uint8_t)(max ? MINMAX_MAX : 0);
        if (ds_ptx_has(in, DS_PTX_NAN_NAN))
                op->mode |= MINMAX_NAN;
        if (ds_ptx_has(in, DS_PTX_XORSIGN_XORSIGN))
                op->mode |= MINMAX_XORSIGN;
        if (op->mode & (MINMAX_NAN | MINMAX_XORSIGN) || op->flags & DS_IX_FTZ)
                return &minmax_f32;
        return max ? &max_f32 : &min_f32;
}

/* Handlers of FADD..FMAX, COPYSIGN, and of FDIV, RCP, SQRT with a rounding, for f32 and f64. */
const struct ds_ix_impl *ds_ix_find_float(const struct ds_ptx_instr *in, ds_ix_op *op)
{
        if (in->types[0] == T(F64))
                return find_f64(in, op);
        if (in->types[0] != T(F32))
                return ds_ix_find_half(in, op);
        if (ds_ptx_has(in, DS_PTX_OOB_OOB) || ds_ptx_has(in, DS_PTX_RELU_RELU))
                return NULL;
        if (in->op == DS_PTX_OP_FMIN || in->op == DS_PTX_OP_FMAX)
                return find_minmax(in, op);
        return find_f32(in, op);
}
