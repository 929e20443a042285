/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Approximations within the error that PTX states (tests/support/interp_bounds.h), and the special values of its tables
 *
 * Single precision: every exponent and sign with SAMPLES mantissas each, the ends of the range first;
 * INTERP_ACCURACY=all takes all 2^32 numbers (hours). Half precision: all numbers. tests/gpu/interp_diff.c measures a
 * GPU in the same way.
 */
#include "ptx/interp/core.h"
#include "tests/support/interp_bounds.h"
#include "tests/support/interp_harness.h"
#include "util/macro.h"

#define BATCH 65536
#define SAMPLES 160

#define ENTRY(name, type, body)                                                                               \
        ".visible .entry " name                                                                               \
        "(.param .u64 a, .param .u64 b, .param .u64 d)\n{\n.reg .b64 %o, %x;\n.reg .b32 %i, %j, "             \
        "%k;\n.reg ." type " %A, %B, %D;\nmov.u32 %i, %ctaid.x;\nmov.u32 %j, %ntid.x;\nmov.u32 %k, %tid.x;\n" \
        "mad.lo.u32 %i, %i, %j, %k;\nmul.wide.u32 %o, %i, " body "\nret;\n}\n"
#define WORDS(name, text)                                                                                          \
        ENTRY(name, "f32",                                                                                         \
                "4;\nld.param.u64 %x, [a];\nadd.u64 %x, %x, %o;\nld.global.f32 %A, [%x];\nld.param.u64 %x, [b];\n" \
                "add.u64 %x, %x, %o;\nld.global.f32 %B, [%x];\n" text                                              \
                "\nld.param.u64 %x, [d];\nadd.u64 %x, %x, %o;\nst.global.f32 [%x], %D;")
#define HALVES(name, text)                                                                       \
        ENTRY(name, "b16",                                                                       \
                "2;\nld.param.u64 %x, [a];\nadd.u64 %x, %x, %o;\nld.global.b16 %A, [%x];\n" text \
                "\nld.param.u64 %x, [d];\nadd.u64 %x, %x, %o;\nst.global.b16 [%x], %D;")

/* kernel name, instruction, operands */
#define SINGLES(X)                                \
        X("k0", "div.approx.f32 %D, %A, %B;")     \
        X("k1", "div.approx.ftz.f32 %D, %A, %B;") \
        X("k2", "div.full.f32 %D, %A, %B;")       \
        X("k3", "div.full.ftz.f32 %D, %A, %B;")   \
        X("k4", "rcp.approx.f32 %D, %A;")         \
        X("k5", "rcp.approx.ftz.f32 %D, %A;")     \
        X("k6", "sqrt.approx.f32 %D, %A;")        \
        X("k7", "sqrt.approx.ftz.f32 %D, %A;")    \
        X("k8", "rsqrt.approx.f32 %D, %A;")       \
        X("k9", "rsqrt.approx.ftz.f32 %D, %A;")   \
        X("k10", "sin.approx.f32 %D, %A;")        \
        X("k11", "sin.approx.ftz.f32 %D, %A;")    \
        X("k12", "cos.approx.f32 %D, %A;")        \
        X("k13", "cos.approx.ftz.f32 %D, %A;")    \
        X("k14", "lg2.approx.f32 %D, %A;")        \
        X("k15", "lg2.approx.ftz.f32 %D, %A;")    \
        X("k16", "ex2.approx.f32 %D, %A;")        \
        X("k17", "ex2.approx.ftz.f32 %D, %A;")    \
        X("k18", "tanh.approx.f32 %D, %A;")
#define SHORTS(X)                              \
        X("h0", "ex2.approx.f16 %D, %A;")      \
        X("h1", "tanh.approx.f16 %D, %A;")     \
        X("h2", "ex2.approx.ftz.bf16 %D, %A;") \
        X("h3", "tanh.approx.bf16 %D, %A;")

#define X(name, text) WORDS(name, text)
#define Y(name, text) HALVES(name, text)
static const char module[] = ".version 8.3\n.target sm_90\n.address_size 64\n" SINGLES(X) SHORTS(Y);
#undef X
#undef Y
#define X(name, text) {name, text},
static const struct {
        const char *kernel, *text;
} singles[] = {SINGLES(X)}, shorts[] = {SHORTS(X)};
#undef X

static float as_float(uint32_t u)
{
        float f;

        memcpy(&f, &u, sizeof(f));
        return f;
}

static uint32_t as_bits(float f)
{
        uint32_t u;

        memcpy(&u, &f, sizeof(u));
        return u;
}

struct memory {
        struct rig rig;
        float *a, *b, *d;
        const char *worst_text;
        double worst;
};

static void open_memory(struct memory *m)
{
        rig_text(&m->rig, module);
        m->a = rig_alloc(&m->rig, BATCH * sizeof(float));
        m->b = rig_alloc(&m->rig, BATCH * sizeof(float));
        m->d = rig_alloc(&m->rig, BATCH * sizeof(float));
}

static void run(struct memory *m, const char *kernel, uint32_t n)
{
        rig_run(&m->rig, kernel, RIG_DIM1((n + 255) / 256), RIG_DIM1(256), 0, RIG_ARGS(&m->a, &m->b, &m->d));
}

/* --- single precision --- */
static double check_single(struct memory *m, const char *kernel, const char *text, uint32_t n)
{
        double worst = 0;

        run(m, kernel, n);
        for (uint32_t i = 0; i < n; i++) {
                double e = bounds_error(text, m->a[i], m->b[i], m->d[i]);

                cr_assert(e <= 1, "%s of %a, %a: %a, %g times what is allowed", text, m->a[i], m->b[i], m->d[i], e);
                worst = fmax(worst, e);
        }
        return worst;
}

static void all_numbers(struct memory *m, const char *kernel, const char *text)
{
        double worst = 0;
        uint32_t state = 7;

        for (uint64_t base = 0; base < UINT64_C(1) << 32; base += BATCH) {
                for (uint32_t i = 0; i < BATCH; i++) {
                        m->a[i] = as_float((uint32_t)base + i);
                        m->b[i] = as_float(rig_random(&state));
                }
                worst = fmax(worst, check_single(m, kernel, text, BATCH));
        }
        (void)fprintf(stderr, "%s: %.3f of what is allowed\n", text, worst);
}

/* For every exponent the first and last numbers, and random ones between. The second operand has exponents of its
 * own. */
static void sampled_numbers(struct memory *m, const char *kernel, const char *text)
{
        uint32_t state = 88172645, n = 0;

        for (uint32_t exponent = 0; exponent < 512; exponent++) {
                for (uint32_t k = 0; k < SAMPLES; k++) {
                        uint32_t mantissa = k < 4 ? k : k < 8 ? 0x7fffffu - (k - 4) : rig_random(&state) & 0x7fffffu;

                        m->a[n] = as_float(exponent << 23 | mantissa);
                        m->b[n] = as_float(rig_random(&state));
                        if (++n < BATCH)
                                continue;
                        (void)check_single(m, kernel, text, n);
                        n = 0;
                }
        }
        (void)check_single(m, kernel, text, n);
}

static void single_precision(int isa)
{
        const char *how = getenv("INTERP_ACCURACY");
        struct memory m;

        ds_ix_force_isa(isa);
        open_memory(&m);
        for (size_t i = 0; i < DS_ARRAY_SIZE(singles); i++) {
                if (how && strcmp(how, "all") == 0)
                        all_numbers(&m, singles[i].kernel, singles[i].text);
                else
                        sampled_numbers(&m, singles[i].kernel, singles[i].text);
        }
        rig_close(&m.rig);
        ds_ix_force_isa(-1);
}

Test(interp_accuracy, single_precision, .timeout = 1000000)
{
        single_precision(-1);
}

Test(interp_accuracy, single_precision_of_the_baseline)
{
        if (!getenv("INTERP_ACCURACY"))
                single_precision(DS_IX_ISA_BASE);
}

/* --- half precision: all numbers --- */
static double half(uint32_t h, int bf16)
{
        uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
        double v;

        if (bf16)
                return as_float(h << 16);
        v = exponent == 31 ? (mantissa ? NAN : INFINITY)
                           : ldexp(exponent ? 1024 + mantissa : mantissa, (int)(exponent ? exponent : 1) - 25);
        return h & 0x8000 ? -v : v;
}

Test(interp_accuracy, half_precision)
{
        struct memory m;

        open_memory(&m);
        for (size_t i = 0; i < DS_ARRAY_SIZE(shorts); i++) {
                const char *text = shorts[i].text;
                int bf16 = strstr(text, "bf16") != NULL;
                uint16_t *a = (uint16_t *)m.a, *d = (uint16_t *)m.d;

                for (uint32_t k = 0; k < BATCH; k++)
                        a[k] = (uint16_t)k;
                run(&m, shorts[i].kernel, BATCH);
                for (uint32_t k = 0; k < BATCH; k++) {
                        double e = bounds_error(text, half(k, bf16), 0, half(d[k], bf16));

                        cr_assert(e <= 1, "%s of %04x: %04x, %g times what is allowed", text, k, d[k], e);
                }
        }
        rig_close(&m.rig);
}

/* --- special values of PTX's tables -------------- */
#define INF 0x7f800000u
#define MINUS 0x80000000u
#define QUIET 0x7fffffffu
#define ONE 0x3f800000u
#define SUB 0x00000001u /* a subnormal number */

static const struct {
        const char *text;
        uint32_t a, b, want;
} special[] = {
        {"rcp.approx.f32", MINUS | INF, 0, MINUS},
        {"rcp.approx.f32", MINUS, 0, MINUS | INF},
        {"rcp.approx.f32", 0, 0, INF},
        {"rcp.approx.f32", INF, 0, 0},
        {"rcp.approx.f32", 0xffc00001u, 0, QUIET},
        {"rcp.approx.ftz.f32", SUB, 0, INF},
        {"rcp.approx.ftz.f32", MINUS | SUB, 0, MINUS | INF},
        {"rcp.approx.ftz.f32", 0x7f000001u, 0, 0}, /* operand whose reciprocal would be subnormal */
        {"sqrt.approx.f32", MINUS | INF, 0, QUIET},
        {"sqrt.approx.f32", MINUS | ONE, 0, QUIET},
        {"sqrt.approx.f32", MINUS | SUB, 0, QUIET},
        {"sqrt.approx.ftz.f32", MINUS | SUB, 0, MINUS},
        {"sqrt.approx.f32", MINUS, 0, MINUS},
        {"sqrt.approx.f32", 0, 0, 0},
        {"sqrt.approx.ftz.f32", SUB, 0, 0},
        {"sqrt.approx.f32", INF, 0, INF},
        {"rsqrt.approx.f32", MINUS | INF, 0, QUIET},
        {"rsqrt.approx.f32", MINUS | ONE, 0, QUIET},
        {"rsqrt.approx.ftz.f32", MINUS | SUB, 0, MINUS | INF},
        {"rsqrt.approx.f32", MINUS, 0, MINUS | INF},
        {"rsqrt.approx.f32", 0, 0, INF},
        {"rsqrt.approx.ftz.f32", SUB, 0, INF},
        {"rsqrt.approx.f32", INF, 0, 0},
        {"sin.approx.f32", MINUS | INF, 0, QUIET},
        {"sin.approx.f32", INF, 0, QUIET},
        {"sin.approx.f32", MINUS, 0, MINUS},
        {"sin.approx.f32", 0, 0, 0},
        {"sin.approx.ftz.f32", MINUS | SUB, 0, MINUS},
        {"sin.approx.ftz.f32", SUB, 0, 0},
        {"cos.approx.f32", MINUS | INF, 0, QUIET},
        {"cos.approx.f32", INF, 0, QUIET},
        {"cos.approx.f32", MINUS, 0, ONE},
        {"cos.approx.f32", SUB, 0, ONE},
        {"lg2.approx.f32", MINUS | INF, 0, QUIET},
        {"lg2.approx.f32", MINUS | ONE, 0, QUIET},
        {"lg2.approx.f32", MINUS, 0, MINUS | INF},
        {"lg2.approx.f32", 0, 0, MINUS | INF},
        {"lg2.approx.ftz.f32", SUB, 0, MINUS | INF},
        {"lg2.approx.ftz.f32", MINUS | SUB, 0, MINUS | INF},
        {"lg2.approx.f32", SUB, 0, 0xc3150000u}, /* the result is -149 */
        {"lg2.approx.f32", INF, 0, INF},
        {"lg2.approx.f32", ONE, 0, 0},
        {"ex2.approx.f32", MINUS | INF, 0, 0},
        {"ex2.approx.f32", MINUS, 0, ONE},
        {"ex2.approx.f32", SUB, 0, ONE},
        {"ex2.approx.f32", INF, 0, INF},
        {"ex2.approx.f32", 0x7fa00000u, 0, QUIET},
        {"ex2.approx.f32", 0xc3120000u, 0, 0x00000008u}, /* the result is 2^-146 */
        {"ex2.approx.ftz.f32", 0xc3120000u, 0, 0},
        {"tanh.approx.f32", MINUS | INF, 0, MINUS | ONE},
        {"tanh.approx.f32", MINUS, 0, MINUS},
        {"tanh.approx.f32", 0, 0, 0},
        {"tanh.approx.f32", INF, 0, ONE},
        {"tanh.approx.f32", MINUS | SUB, 0, MINUS | SUB},
        {"div.approx.f32", ONE, 0, INF},
        {"div.approx.f32", 0, 0, QUIET},
        {"div.approx.f32", INF, INF, QUIET},
        {"div.approx.f32", ONE, 0x7f000000u, 0}, /* the divisor is 2^127; its reciprocal is flushed to zero */
        {"div.approx.f32", INF, 0x7f000000u, QUIET},
        {"div.full.f32", 0x7f000000u, 0x7f000000u, ONE},
        {"div.approx.ftz.f32", SUB, ONE, 0},
        {"div.full.ftz.f32", MINUS | SUB, ONE, MINUS},
};

Test(interp_accuracy, special_values)
{
        struct memory m;

        open_memory(&m);
        for (size_t i = 0; i < DS_ARRAY_SIZE(special); i++) {
                const char *kernel = NULL;

                for (size_t k = 0; k < DS_ARRAY_SIZE(singles); k++) {
                        if (strncmp(singles[k].text, special[i].text, strlen(special[i].text)) == 0 &&
                                singles[k].text[strlen(special[i].text)] == ' ')
                                kernel = singles[k].kernel;
                }
                cr_assert(kernel, "%s", special[i].text);
                m.a[0] = as_float(special[i].a);
                m.b[0] = as_float(special[i].b);
                run(&m, kernel, 256);
                cr_expect(as_bits(m.d[0]) == special[i].want, "%s of %08x, %08x: %08x, not %08x", special[i].text,
                        special[i].a, special[i].b, as_bits(m.d[0]), special[i].want);
        }
        rig_close(&m.rig);
}
