/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of instructions and test operands, one row each. Users are the comparison with a GPU
 * (tests/gpu/interp_diff.c) and the test that compares the interpreter with results of a GPU (test_interp_rows.c).
 *
 * Each row becomes a kernel that applies the instruction to ROWS_N operands: edge values in every combination first,
 * then random ones, the same in every run. rows_hash hashes the results.
 */
#pragma once

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "util/macro.h"

#define ROWS_N 4096
#define ROWS_MAX 3000

/* Type of an operand's test values: integers, floats, half, bfloat16, pairs of them, shift amounts, predicates. */
enum { ROWS_APPROX = 1, ROWS_ODD = 2 };
enum kind { NONE, I16, I32, I64, F32, F64, F16, BF16, F16X2, BF16X2, SMALL, PRED };

struct row {
        char text[512];
        enum kind d, a, b, c;
        /* how results are compared. 0: bit by bit; ROWS_APPROX: within an error; ROWS_ODD: not, since the hardware
         * differs from PTX */
        int approx;
};

static struct row rows[ROWS_MAX];
static int n_rows;
static const char *rows_filter = "";

static inline void rows_add(enum kind d, enum kind a, enum kind b, enum kind c, int approx, const char *fmt, ...)
        ds_printf(6, 7);
static inline void rows_add(enum kind d, enum kind a, enum kind b, enum kind c, int approx, const char *fmt, ...)
{
        struct row *r = &rows[n_rows];
        va_list args;

        va_start(args, fmt);
        (void)vsnprintf(r->text, sizeof(r->text), fmt, args);
        va_end(args);
        r->d = d;
        r->a = a;
        r->b = b;
        r->c = c;
        r->approx = approx;
        for (int i = 0; i < n_rows; i++) {
                if (strcmp(rows[i].text, r->text) == 0)
                        return;
        }
        if (strstr(r->text, rows_filter) && n_rows < ROWS_MAX - 1)
                n_rows++;
}

/* --- the table --- */
static const struct {
        const char *name;
        enum kind kind;
} ints[] = {{"u16", I16}, {"s16", I16}, {"u32", I32}, {"s32", I32}, {"u64", I64}, {"s64", I64}};

static inline void rows_integer(void)
{
        static const char *const two[] = {"add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"};

        for (int t = 0; t < 6; t++) {
                const char *n = ints[t].name;
                enum kind k = ints[t].kind, wide = k == I16 ? I32 : I64;

                for (size_t i = 0; i < DS_ARRAY_SIZE(two); i++)
                        rows_add(k, k, k, NONE, 0, "%s.%s %%D, %%A, %%B;", two[i], n);
                rows_add(k, k, k, k, 0, "mad.lo.%s %%D, %%A, %%B, %%C;", n);
                rows_add(k, k, k, k, 0, "mad.hi.%s %%D, %%A, %%B, %%C;", n);
                rows_add(k, k, k, k, 0, "sad.%s %%D, %%A, %%B, %%C;", n);
                rows_add(k, k, SMALL, NONE, 0, "shr.%s %%D, %%A, %%B;", n);
                if (n[0] == 's') {
                        rows_add(k, k, NONE, NONE, 0, "abs.%s %%D, %%A;", n);
                        rows_add(k, k, NONE, NONE, 0, "neg.%s %%D, %%A;", n);
                }
                if (k != I64) {
                        rows_add(wide, k, k, NONE, 0, "mul.wide.%s %%D, %%A, %%B;", n);
                        rows_add(wide, k, k, wide, 0, "mad.wide.%s %%D, %%A, %%B, %%C;", n);
                }
                if (k != I16) {
                        rows_add(k, k, SMALL, SMALL, 0, "bfe.%s %%D, %%A, %%B, %%C;", n);
                        rows_add(I32, k, NONE, NONE, 0, "bfind.%s %%D, %%A;", n);
                        rows_add(I32, k, NONE, NONE, 0, "bfind.shiftamt.%s %%D, %%A;", n);
                        rows_add(k, k, k, k, 0, "add.cc.%s %%D, %%A, %%B; addc.%s %%D, %%C, %%D;", n, n);
                        rows_add(k, k, k, k, 0, "sub.cc.%s %%D, %%A, %%B; subc.%s %%D, %%C, %%D;", n, n);
                        rows_add(
                                k, k, k, k, 0, "mad.lo.cc.%s %%D, %%A, %%B, %%C; madc.hi.%s %%D, %%A, %%B, %%C;", n, n);
                        rows_add(k, k, k, k, 0, "mad.hi.cc.%s %%D, %%A, %%B, %%C; addc.%s %%D, %%A, 0;", n, n);
                        rows_add(k, k, k, k, 0,
                                "add.cc.%s %%D, %%A, %%B; madc.lo.cc.%s %%D, %%A, %%D, %%C; madc.hi.cc.%s %%D, %%D, "
                                "%%B, %%D; "
                                "addc.%s %%D, %%D, 0;",
                                n, n, n, n);
                }
        }
        for (int t = 2; t < 4; t++) {
                rows_add(I32, I32, I32, NONE, 0, "mul24.lo.%s %%D, %%A, %%B;", ints[t].name);
                rows_add(I32, I32, I32, NONE, 0, "mul24.hi.%s %%D, %%A, %%B;", ints[t].name);
                rows_add(I32, I32, I32, I32, 0, "mad24.lo.%s %%D, %%A, %%B, %%C;", ints[t].name);
                rows_add(I32, I32, I32, I32, 0, "mad24.hi.%s %%D, %%A, %%B, %%C;", ints[t].name);
                for (int u = 2; u < 4; u++) {
                        rows_add(I32, I32, I32, I32, 0, "dp4a.%s.%s %%D, %%A, %%B, %%C;", ints[t].name, ints[u].name);
                        rows_add(
                                I32, I32, I32, I32, 0, "dp2a.lo.%s.%s %%D, %%A, %%B, %%C;", ints[t].name, ints[u].name);
                        rows_add(
                                I32, I32, I32, I32, 0, "dp2a.hi.%s.%s %%D, %%A, %%B, %%C;", ints[t].name, ints[u].name);
                }
                rows_add(I32, I32, SMALL, NONE, 0, "szext.clamp.%s %%D, %%A, %%B;", ints[t].name);
                rows_add(I32, I32, SMALL, NONE, 0, "szext.wrap.%s %%D, %%A, %%B;", ints[t].name);
        }
        rows_add(I32, I32, I32, NONE, 0, "add.sat.s32 %%D, %%A, %%B;");
        rows_add(I32, I32, I32, NONE, 0, "sub.sat.s32 %%D, %%A, %%B;");
        rows_add(I32, I32, I32, I32, 0, "mad.hi.sat.s32 %%D, %%A, %%B, %%C;");
        rows_add(I32, I32, I32, I32, 0, "mad24.hi.sat.s32 %%D, %%A, %%B, %%C;");
        rows_add(I32, I32, I32, NONE, 0, "min.relu.s32 %%D, %%A, %%B;");
        rows_add(I32, I32, I32, NONE, 0, "max.relu.s32 %%D, %%A, %%B;");
        rows_add(I32, I32, I32, NONE, 0, "add.u16x2 %%D, %%A, %%B;");
        rows_add(I32, I32, I32, NONE, 0, "add.s16x2 %%D, %%A, %%B;");
        rows_add(I32, I32, I32, NONE, 0, "min.u16x2 %%D, %%A, %%B;");
        rows_add(I32, I32, I32, NONE, 0, "max.s16x2 %%D, %%A, %%B;");
        rows_add(I32, I32, I32, NONE, 0, "min.s16x2 %%D, %%A, %%B;");
        rows_add(I32, I32, I32, NONE, 0, "max.relu.s16x2 %%D, %%A, %%B;");
        rows_add(I32, I32, I32, NONE, 0, "min.relu.s16x2 %%D, %%A, %%B;");
}

static inline void rows_bit(void)
{
        static const char *const widths[] = {"b16", "b32", "b64"};
        static const char *const modes[] = {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"};

        for (int t = 0; t < 3; t++) {
                enum kind k = t == 0 ? I16 : t == 1 ? I32 : I64;

                rows_add(k, k, k, NONE, 0, "and.%s %%D, %%A, %%B;", widths[t]);
                rows_add(k, k, k, NONE, 0, "or.%s %%D, %%A, %%B;", widths[t]);
                rows_add(k, k, k, NONE, 0, "xor.%s %%D, %%A, %%B;", widths[t]);
                rows_add(k, k, NONE, NONE, 0, "not.%s %%D, %%A;", widths[t]);
                rows_add(k, k, NONE, NONE, 0, "cnot.%s %%D, %%A;", widths[t]);
                rows_add(k, k, SMALL, NONE, 0, "shl.%s %%D, %%A, %%B;", widths[t]);
                if (t == 0)
                        continue;
                rows_add(k, k, k, SMALL, 0, "bfi.%s %%D, %%A, %%B, %%C, 7;", widths[t]);
                rows_add(k, k, k, SMALL, 0, "bfi.%s %%D, %%A, %%B, 5, %%C;", widths[t]);
                rows_add(k, k, NONE, NONE, 0, "brev.%s %%D, %%A;", widths[t]);
                rows_add(I32, k, NONE, NONE, 0, "clz.%s %%D, %%A;", widths[t]);
                rows_add(I32, k, NONE, NONE, 0, "popc.%s %%D, %%A;", widths[t]);
        }
        for (int i = 0; i < 7; i++)
                rows_add(I32, I32, I32, I32, 0, "prmt.b32%s %%D, %%A, %%B, %%C;", modes[i]);
        for (int lut = 0; lut < 256; lut += 17)
                rows_add(I32, I32, I32, I32, 0, "lop3.b32 %%D, %%A, %%B, %%C, %d;", lut);
        rows_add(PRED, I32, I32, I32, 0, "setp.ne.u32 %%Q, %%A, 1; lop3.and.b32 %%T|%%D, %%A, %%B, %%C, 0x6a, %%Q;");
        rows_add(I32, I32, I32, SMALL, 0, "shf.l.wrap.b32 %%D, %%A, %%B, %%C;");
        rows_add(I32, I32, I32, SMALL, 0, "shf.r.wrap.b32 %%D, %%A, %%B, %%C;");
        rows_add(I32, I32, I32, SMALL, 0, "shf.l.clamp.b32 %%D, %%A, %%B, %%C;");
        rows_add(I32, I32, I32, SMALL, 0, "shf.r.clamp.b32 %%D, %%A, %%B, %%C;");
        rows_add(I32, SMALL, SMALL, NONE, 0, "bmsk.clamp.b32 %%D, %%A, %%B;");
        rows_add(I32, SMALL, SMALL, NONE, 0, "bmsk.wrap.b32 %%D, %%A, %%B;");
        rows_add(I32, I32, SMALL, NONE, 0, "and.b32 %%T, %%B, 31; fns.b32 %%D, %%A, %%T, 3;");
        rows_add(I32, I32, SMALL, NONE, 0, "and.b32 %%T, %%B, 31; fns.b32 %%D, %%A, %%T, -2;");
        rows_add(I32, I32, SMALL, NONE, 0, "and.b32 %%T, %%B, 31; fns.b32 %%D, %%A, %%T, 0;");
}

static inline void rows_float(void)
{
        static const char *const rounds[] = {"", ".rn", ".rz", ".rm", ".rp"};
        static const char *const flags[] = {"", ".ftz", ".sat", ".ftz.sat"};
        static const char *const two[] = {"add", "sub", "mul"};
        static const char *const minmax[] = {"", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs"};

        for (int r = 0; r < 5; r++) {
                for (int i = 0; i < 3; i++) {
                        for (int f = 0; f < 4; f++)
                                rows_add(F32, F32, F32, NONE, 0, "%s%s%s.f32 %%D, %%A, %%B;", two[i], rounds[r],
                                        flags[f]);
                        rows_add(F64, F64, F64, NONE, 0, "%s%s.f64 %%D, %%A, %%B;", two[i], rounds[r]);
                }
                for (int f = 0; r && f < 4; f++)
                        rows_add(F32, F32, F32, F32, 0, "fma%s%s.f32 %%D, %%A, %%B, %%C;", rounds[r], flags[f]);
                for (int f = 0; r && f < 2; f++) {
                        rows_add(F32, F32, F32, NONE, 0, "div%s%s.f32 %%D, %%A, %%B;", rounds[r], flags[f]);
                        rows_add(F32, F32, NONE, NONE, 0, "rcp%s%s.f32 %%D, %%A;", rounds[r], flags[f]);
                        rows_add(F32, F32, NONE, NONE, 0, "sqrt%s%s.f32 %%D, %%A;", rounds[r], flags[f]);
                }
                if (!r)
                        continue;
                rows_add(F64, F64, F64, F64, 0, "fma%s.f64 %%D, %%A, %%B, %%C;", rounds[r]);
                rows_add(F64, F64, F64, NONE, 0, "div%s.f64 %%D, %%A, %%B;", rounds[r]);
                rows_add(F64, F64, NONE, NONE, 0, "rcp%s.f64 %%D, %%A;", rounds[r]);
                rows_add(F64, F64, NONE, NONE, 0, "sqrt%s.f64 %%D, %%A;", rounds[r]);
        }
        for (int i = 0; i < 6; i++) {
                rows_add(F32, F32, F32, NONE, 0, "min%s.f32 %%D, %%A, %%B;", minmax[i]);
                rows_add(F32, F32, F32, NONE, 0, "max%s.f32 %%D, %%A, %%B;", minmax[i]);
        }
        rows_add(F64, F64, F64, NONE, 0, "min.f64 %%D, %%A, %%B;");
        rows_add(F64, F64, F64, NONE, 0, "max.f64 %%D, %%A, %%B;");
        for (int f = 0; f < 2; f++) {
                rows_add(F32, F32, NONE, NONE, 0, "abs%s.f32 %%D, %%A;", flags[f]);
                rows_add(F32, F32, NONE, NONE, 0, "neg%s.f32 %%D, %%A;", flags[f]);
                rows_add(F32, F32, F32, NONE, 1, "div.approx%s.f32 %%D, %%A, %%B;", flags[f]);
                rows_add(F32, F32, F32, NONE, 1, "div.full%s.f32 %%D, %%A, %%B;", flags[f]);
                rows_add(F32, F32, NONE, NONE, 1, "rcp.approx%s.f32 %%D, %%A;", flags[f]);
                rows_add(F32, F32, NONE, NONE, 1, "sqrt.approx%s.f32 %%D, %%A;", flags[f]);
                rows_add(F32, F32, NONE, NONE, 1, "rsqrt.approx%s.f32 %%D, %%A;", flags[f]);
                rows_add(F32, F32, NONE, NONE, 1, "sin.approx%s.f32 %%D, %%A;", flags[f]);
                rows_add(F32, F32, NONE, NONE, 1, "cos.approx%s.f32 %%D, %%A;", flags[f]);
                rows_add(F32, F32, NONE, NONE, 1, "lg2.approx%s.f32 %%D, %%A;", flags[f]);
                rows_add(F32, F32, NONE, NONE, 1, "ex2.approx%s.f32 %%D, %%A;", flags[f]);
        }
        rows_add(F32, F32, NONE, NONE, 1, "tanh.approx.f32 %%D, %%A;");
        rows_add(F64, F64, NONE, NONE, 0, "abs.f64 %%D, %%A;");
        rows_add(F64, F64, NONE, NONE, 0, "neg.f64 %%D, %%A;");
        rows_add(F64, F64, NONE, NONE, 1, "rcp.approx.ftz.f64 %%D, %%A;");
        rows_add(F64, F64, NONE, NONE, 1, "rsqrt.approx.ftz.f64 %%D, %%A;");
        rows_add(F64, F64, NONE, NONE, 1, "rsqrt.approx.f64 %%D, %%A;");
        rows_add(F32, F32, F32, NONE, 0, "copysign.f32 %%D, %%A, %%B;");
        rows_add(F64, F64, F64, NONE, 0, "copysign.f64 %%D, %%A, %%B;");
}

static inline void rows_half(void)
{
        static const struct {
                const char *name;
                enum kind kind;
        } types[] = {{"f16", F16}, {"f16x2", F16X2}, {"bf16", BF16}, {"bf16x2", BF16X2}};

        for (int t = 0; t < 4; t++) {
                const char *n = types[t].name;
                enum kind k = types[t].kind;

                rows_add(k, k, k, NONE, 0, "add.rn.%s %%D, %%A, %%B;", n);
                rows_add(k, k, k, NONE, 0, "sub.rn.%s %%D, %%A, %%B;", n);
                rows_add(k, k, k, NONE, 0, "mul.rn.%s %%D, %%A, %%B;", n);
                rows_add(k, k, k, k, 0, "fma.rn.%s %%D, %%A, %%B, %%C;", n);
                rows_add(k, k, k, k, 0, "fma.rn.relu.%s %%D, %%A, %%B, %%C;", n);
                rows_add(k, k, k, NONE, 0, "min.%s %%D, %%A, %%B;", n);
                rows_add(k, k, k, NONE, 0, "max.%s %%D, %%A, %%B;", n);
                rows_add(k, k, k, NONE, 0, "min.NaN.%s %%D, %%A, %%B;", n);
                rows_add(k, k, k, NONE, 0, "max.xorsign.abs.%s %%D, %%A, %%B;", n);
                rows_add(k, k, NONE, NONE, 0, "neg.%s %%D, %%A;", n);
                rows_add(k, k, NONE, NONE, 0, "abs.%s %%D, %%A;", n);
                rows_add(k, k, NONE, NONE, 1, "tanh.approx.%s %%D, %%A;", n);
                if (t < 2) {
                        rows_add(k, k, k, NONE, 0, "add.ftz.%s %%D, %%A, %%B;", n);
                        rows_add(k, k, k, NONE, 0, "mul.sat.%s %%D, %%A, %%B;", n);
                        rows_add(k, k, k, k, 0, "fma.rn.ftz.sat.%s %%D, %%A, %%B, %%C;", n);
                        rows_add(k, k, NONE, NONE, 1, "ex2.approx.%s %%D, %%A;", n);
                } else {
                        rows_add(k, k, NONE, NONE, 1, "ex2.approx.ftz.%s %%D, %%A;", n);
                }
        }
        rows_add(I32, F16X2, F16X2, NONE, 0, "set.gt.u32.f16 %%D, %%E, %%F;");
        rows_add(F16X2, F16X2, F16X2, NONE, 0, "set.le.f16x2.f16x2 %%D, %%A, %%B;");
        rows_add(I32, F16X2, F16X2, NONE, 0, "set.neu.u32.f16x2 %%D, %%A, %%B;");
        rows_add(PRED, F16X2, F16X2, NONE, 0, "setp.geu.f16x2 %%D|%%Q, %%A, %%B;");
        rows_add(PRED, BF16X2, BF16X2, NONE, 0, "setp.lt.bf16x2 %%D|%%Q, %%A, %%B;");
}

static inline void rows_compare(void)
{
        static const char *const basic[] = {"eq", "ne", "lt", "le", "gt", "ge"};
        static const char *const unordered[] = {"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
        static const char *const logic[] = {"and", "or", "xor"};
        static const char *const floats[] = {"f32", "ftz.f32", "f64", "f16", "bf16"};
        static const enum kind kinds[] = {F32, F32, F64, F16, BF16};
        static const char *const tests[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};

        for (int i = 0; i < 6; i++) {
                for (int t = 0; t < 6; t++)
                        rows_add(PRED, ints[t].kind, ints[t].kind, NONE, 0, "setp.%s.%s %%D|%%Q, %%A, %%B;", basic[i],
                                ints[t].name);
                for (int t = 0; t < 5; t++)
                        rows_add(PRED, kinds[t], kinds[t], NONE, 0, "setp.%s.%s %%D%s, %%A, %%B;", basic[i], floats[t],
                                t < 3 ? "|%Q" : "");
                rows_add(F32, F32, F32, NONE, 0, "set.%s.f32.f32 %%D, %%A, %%B;", basic[i]);
                rows_add(I32, I64, I64, NONE, 0, "set.%s.s32.s64 %%D, %%A, %%B;", basic[i]);
                rows_add(PRED, F32, NONE, NONE, 0, "testp.%s.f32 %%D, %%A;", tests[i]);
                rows_add(PRED, F64, NONE, NONE, 0, "testp.%s.f64 %%D, %%A;", tests[i]);
        }
        for (int i = 0; i < 8; i++) {
                for (int t = 0; t < 5; t++)
                        rows_add(PRED, kinds[t], kinds[t], NONE, 0, "setp.%s.%s %%D%s, %%A, %%B;", unordered[i],
                                floats[t], t < 3 ? "|%Q" : "");
        }
        for (int i = 0; i < 3; i++)
                rows_add(PRED, I32, I32, I32, 0, "setp.lt.s32 %%R, %%C, %%A; setp.lt.%s.u32 %%D|%%Q, %%A, %%B, %%R;",
                        logic[i]);
        rows_add(PRED, I32, I32, I32, 0, "setp.lt.s32 %%R, %%C, %%A; setp.lo.and.u32 %%D|%%Q, %%A, %%B, !%%R;");
        rows_add(PRED, I32, I32, NONE, 0, "setp.hs.u32 %%D|%%Q, %%A, %%B;");
        rows_add(I32, I32, I32, I32, 0, "slct.u32.s32 %%D, %%A, %%B, %%C;");
        rows_add(I64, I64, I64, F32, 0, "slct.b64.f32 %%D, %%A, %%B, %%C;");
        rows_add(I64, I64, I64, F32, 0, "slct.ftz.b64.f32 %%D, %%A, %%B, %%C;");
        rows_add(I16, I16, I16, I32, 0, "setp.gt.s32 %%Q, %%C, 0; selp.b16 %%D, %%A, %%B, %%Q;");
}

static inline void rows_convert(void)
{
        static const char *const whole[] = {"rni", "rzi", "rmi", "rpi"}, *const round[] = {"rn", "rz", "rm", "rp"};
        static const char *const f_names[] = {"f16", "f32", "f64"};
        static const enum kind f_kinds[] = {F16, F32, F64};

        for (int t = 0; t < 6; t++) {
                for (int u = 0; u < 6; u++) {
                        rows_add(ints[t].kind, ints[u].kind, NONE, NONE, 0, "cvt.%s.%s %%D, %%A;", ints[t].name,
                                ints[u].name);
                        /* Adds a row with .sat only if saturation can happen. */
                        if (t != u && (t / 2 < u / 2 || (t & 1) != (u & 1)) && !(t / 2 > u / 2 && (t & 1)))
                                rows_add(ints[t].kind, ints[u].kind, NONE, NONE, 0, "cvt.sat.%s.%s %%D, %%A;",
                                        ints[t].name, ints[u].name);
                }
                for (int f = 0; f < 3; f++) {
                        for (int r = 0; r < 4; r++) {
                                rows_add(ints[t].kind, f_kinds[f], NONE, NONE, 0, "cvt.%s.%s.%s %%D, %%A;", whole[r],
                                        ints[t].name, f_names[f]);
                                rows_add(f_kinds[f], ints[t].kind, NONE, NONE, 0, "cvt.%s.%s.%s %%D, %%A;", round[r],
                                        f_names[f], ints[t].name);
                        }
                }
                rows_add(ints[t].kind, F32, NONE, NONE, 0, "cvt.rzi.ftz.%s.f32 %%D, %%A;", ints[t].name);
        }
        for (int r = 0; r < 4; r++) {
                for (int f = 0; f < 3; f++)
                        rows_add(f_kinds[f], f_kinds[f], NONE, NONE, 0, "cvt.%s.%s.%s %%D, %%A;", whole[r], f_names[f],
                                f_names[f]);
                rows_add(F32, F64, NONE, NONE, 0, "cvt.%s.f32.f64 %%D, %%A;", round[r]);
                rows_add(F16, F64, NONE, NONE, 0, "cvt.%s.f16.f64 %%D, %%A;", round[r]);
                rows_add(F16, F32, NONE, NONE, 0, "cvt.%s.f16.f32 %%D, %%A;", round[r]);
        }
        rows_add(F64, F32, NONE, NONE, 0, "cvt.f64.f32 %%D, %%A;");
        rows_add(F64, F32, NONE, NONE, 0, "cvt.ftz.f64.f32 %%D, %%A;");
        rows_add(F64, F16, NONE, NONE, 0, "cvt.f64.f16 %%D, %%A;");
        rows_add(F32, F16, NONE, NONE, 0, "cvt.f32.f16 %%D, %%A;");
        rows_add(F32, BF16, NONE, NONE, 0, "cvt.f32.bf16 %%D, %%A;");
        rows_add(BF16, F32, NONE, NONE, 0, "cvt.rn.bf16.f32 %%D, %%A;");
        rows_add(BF16, F32, NONE, NONE, 0, "cvt.rz.bf16.f32 %%D, %%A;");
        rows_add(BF16, F32, NONE, NONE, 0, "cvt.rn.relu.bf16.f32 %%D, %%A;");
        rows_add(F16X2, F32, F32, NONE, 0, "cvt.rn.f16x2.f32 %%D, %%A, %%B;");
        rows_add(F16X2, F32, F32, NONE, 0, "cvt.rn.relu.f16x2.f32 %%D, %%A, %%B;");
        rows_add(BF16X2, F32, F32, NONE, 0, "cvt.rn.bf16x2.f32 %%D, %%A, %%B;");
        rows_add(F32, F32, NONE, NONE, 0, "cvt.rna.tf32.f32 %%D, %%A;");
        rows_add(F32, F32, NONE, NONE, 0, "cvt.sat.f32.f32 %%D, %%A;");
        rows_add(F32, F32, NONE, NONE, 0, "cvt.ftz.sat.f32.f32 %%D, %%A;");
        rows_add(F32, F64, NONE, NONE, 0, "cvt.rn.sat.f32.f64 %%D, %%A;");
        rows_add(F64, F64, NONE, NONE, 0, "cvt.sat.f64.f64 %%D, %%A;");
        rows_add(F32, F64, NONE, NONE, 0, "cvt.rn.ftz.f32.f64 %%D, %%A;");
        rows_add(I32, I32, NONE, NONE, 0, "cvt.s32.s8 %%D, %%A;");
        rows_add(I32, I32, NONE, NONE, 0, "cvt.u32.u8 %%D, %%A;");
        rows_add(I32, I32, NONE, NONE, 0, "cvt.s8.s32 %%D, %%A;");
        rows_add(I32, I32, NONE, NONE, 0, "cvt.sat.u8.s32 %%D, %%A;");
        rows_add(I32, I32, NONE, NONE, 0, "cvt.sat.s8.u32 %%D, %%A;");
        rows_add(I16, I64, NONE, NONE, 0, "cvt.sat.s8.s64 %%D, %%A;");
        rows_add(I16, F32, NONE, NONE, 0, "cvt.rni.s8.f32 %%D, %%A;");
        rows_add(I16, F64, NONE, NONE, 0, "cvt.rzi.u8.f64 %%D, %%A;");
        rows_add(I32, I32, I32, I32, 0, "cvt.pack.sat.u8.s32.b32 %%D, %%A, %%B, %%C;");
        rows_add(I32, I32, I32, I32, 0, "cvt.pack.sat.s8.s32.b32 %%D, %%A, %%B, %%C;");
        rows_add(I32, I32, I32, NONE, 0, "cvt.pack.sat.s16.s32 %%D, %%A, %%B;");
        rows_add(I32, I32, I32, NONE, 0, "cvt.pack.sat.u16.s32 %%D, %%A, %%B;");
}

static inline void rows_warp(void)
{
        static const char *const how[] = {"up", "down", "bfly", "idx"};
        static const char *const redux[] = {
                "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"};

        for (int i = 0; i < 4; i++)
                rows_add(I32, I32, SMALL, I32, 0,
                        "shfl.sync.%s.b32 %%D|%%Q, %%A, %%B, %%C, -1; @%%Q xor.b32 %%D, %%D, 1;", how[i]);
        for (int i = 0; i < 9; i++)
                rows_add(I32, I32, NONE, NONE, 0, "redux.sync.%s %%D, %%A, -1;", redux[i]);
        rows_add(I32, SMALL, NONE, NONE, 0, "and.b32 %%A, %%A, 3; match.any.sync.b32 %%D, %%A, -1;");
        rows_add(I32, SMALL, NONE, NONE, 0,
                "shr.u32 %%A, %%A, 5; match.all.sync.b32 %%D|%%Q, %%A, -1; @%%Q xor.b32 %%D, %%D, 5;");
        rows_add(I32, I32, NONE, NONE, 0, "setp.gt.s32 %%Q, %%A, 0; vote.sync.ballot.b32 %%D, %%Q, -1;");
        rows_add(PRED, I32, NONE, NONE, 0,
                "setp.gt.s32 %%R, %%A, 0; vote.sync.any.pred %%D, %%R, -1; vote.sync.all.pred %%Q, !%%R, -1;");
        rows_add(PRED, I32, NONE, NONE, 0,
                "setp.ne.s32 %%R, %%A, 7; vote.sync.uni.pred %%D, %%R, -1; elect.sync _|%%Q, -1;");
}

/* Adds a row for an atomic: each thread has its own cell with the initial value %B, and the result is old xor new. */
static inline void rows_atomic_row(const char *op, const char *type, enum kind k)
{
        const char *b = k == I64 || k == F64 ? "b64" : "b32";

        rows_add(k, k, k, NONE, 0,
                "st.global.%s [%%P], %%B; atom.global.%s.%s %%D, [%%P], %%A; ld.global.%s %%T%s, [%%P]; xor.%s %%D, "
                "%%D, %%T%s;",
                b, op, type, b, b[1] == '6' ? "D" : "", b, b[1] == '6' ? "D" : "");
        rows_add(k, k, k, NONE, 0,
                "st.shared.%s [%%S], %%B; atom.shared.%s.%s %%D, [%%S], %%A; ld.shared.%s %%T%s, [%%S]; xor.%s %%D, "
                "%%D, %%T%s;",
                b, op, type, b, b[1] == '6' ? "D" : "", b, b[1] == '6' ? "D" : "");
}

static inline void rows_atomic(void)
{
        static const char *const logic[] = {"and", "or", "xor", "exch"};
        static const char *const order[] = {"min", "max"};

        for (int i = 0; i < 4; i++) {
                rows_atomic_row(logic[i], "b32", I32);
                rows_atomic_row(logic[i], "b64", I64);
        }
        for (int i = 0; i < 2; i++) {
                for (int t = 2; t < 6; t++)
                        rows_atomic_row(order[i], ints[t].name, ints[t].kind);
        }
        rows_atomic_row("add", "u32", I32);
        rows_atomic_row("add", "s32", I32);
        rows_atomic_row("add", "u64", I64);
        rows_atomic_row("inc", "u32", I32);
        rows_atomic_row("dec", "u32", I32);
        rows_atomic_row("add", "f32", F32);
        rows_atomic_row("add", "f64", F64);
        rows_atomic_row("add.noftz", "f16x2", F16X2);
        rows_atomic_row("add.noftz", "bf16x2", BF16X2);
}

/* --- video --- */
static const char *const video_types[] = {"u32.u32.u32", "u32.u32.s32", "u32.s32.u32", "u32.s32.s32", "s32.u32.u32",
        "s32.u32.s32", "s32.s32.u32", "s32.s32.s32"};

/*
 * Adds rows for one scalar video operation in each of its forms; the selected parts of registers vary by row.
 *
 * PTX computes with 34 bits, but ptxas 13 generates 32-bit code for sm_90, and the hardware's results differ from PTX
 * in these cases: .sat beyond 32 bits unsigned, shifts left with .sat, .min and .max as second operations, .sat into a
 * part of a register, and all results in .h1. Such rows are ROWS_ODD and not compared.
 */
static inline void rows_video_scalar(const char *op, const char *types, const char *mode, unsigned turn)
{
        static const char *const parts[] = {"", ".b0", ".h1", ".b3", ".h0", ".b2", ".b1"};
        static const char *const to[] = {".h0", ".b3", ".h1", ".b0", ".b2", ".b1"};
        static const char *const second[] = {".add", ".min", ".max"};
        const char *a = parts[turn % 7], *b = parts[turn / 7 % 7], *sat = turn & 1 ? ".sat" : "";
        const char *sat_to = turn & 2 ? ".sat" : "";
        int odd = strcmp(op, "vshl") == 0 || types[0] == 'u' ? ROWS_ODD : 0, odd_sat = *sat ? odd : 0;

        rows_add(I32, I32, I32, NONE, 0, "%s.%s%s %%D, %%A, %%B;", op, types, mode);
        rows_add(I32, I32, I32, NONE, odd, "%s.%s.sat%s %%D, %%A, %%B;", op, types, mode);
        rows_add(I32, I32, I32, NONE, odd_sat, "%s.%s%s%s %%D, %%A%s, %%B%s;", op, types, sat, mode, a, b);
        rows_add(I32, I32, I32, I32, turn % 3 ? ROWS_ODD : odd_sat, "%s.%s%s%s%s %%D, %%A%s, %%B%s, %%C;", op, types,
                sat, mode, second[turn % 3], b, a);
        rows_add(I32, I32, I32, I32, *sat_to || turn % 6 == 2 ? ROWS_ODD : 0, "%s.%s%s%s %%D%s, %%A%s, %%B%s, %%C;", op,
                types, sat_to, mode, to[turn % 6], a, b);
}

static inline void rows_video_simd(const char *op, const char *types, unsigned turn)
{
        static const char *const halves[] = {".h10", ".h32", ".h01", ".h20", ".h31", ".h33"};
        static const char *const bytes[] = {".b3210", ".b7654", ".b0123", ".b7531", ".b4444", ".b6240"};
        static const char *const two[] = {"", ".h0", ".h1", ".h10"};
        static const char *const four[] = {"", ".b0", ".b31", ".b210", ".b3", ".b3210"};
        int is_four = op[strlen(op) - 1] == '4';
        const char *a = is_four ? bytes[turn % 6] : halves[turn % 6];
        const char *b = is_four ? bytes[turn / 2 % 6] : halves[turn / 2 % 6];
        const char *to = is_four ? four[turn % 6] : two[turn % 4], *sat = op[1] == 's' && op[2] == 'e' ? "" : ".sat";

        rows_add(I32, I32, I32, I32, 0, "%s.%s %%D, %%A, %%B, %%C;", op, types);
        rows_add(I32, I32, I32, I32, 0, "%s.%s.add %%D%s, %%A, %%B, %%C;", op, types, to);
        rows_add(I32, I32, I32, I32, 0, "%s.%s%s %%D%s, %%A%s, %%B%s, %%C;", op, types, sat, to, a, b);
}

/* Rows of vmad, also with shifts and .sat: with these only all-signed products agree with PTX. */
static inline void rows_vmad(void)
{
        static const char *const types[] = {"u32.u32.u32", "u32.u32.s32", "s32.s32.u32", "s32.s32.s32"};
        static const char *const parts[][2] = {{"", ""}, {".h0", ".h1"}, {".b3", ""}};
        static const char *const scales[] = {"", ".shr7", ".shr15"};

        for (unsigned t = 0; t < 4; t++) {
                for (unsigned p = 0; p < 3; p++) {
                        const char *a = parts[p][0], *b = parts[p][1], *sat = (t + p) & 1 ? ".sat" : "";
                        int odd = t < 3 ? ROWS_ODD : 0, sometimes = p > 0 || *sat ? odd : 0;

                        rows_add(I32, I32, I32, I32, sometimes, "vmad.%s%s%s %%D, %%A%s, %%B%s, %%C;", types[t], sat,
                                scales[p], a, b);
                        rows_add(I32, I32, I32, I32, odd, "vmad.%s.sat%s %%D, %%A%s, %%B%s, -%%C;", types[t], scales[p],
                                a, b);
                        rows_add(I32, I32, I32, I32, sometimes, "vmad.%s%s%s %%D, -%%A%s, %%B%s, %%C;", types[t], sat,
                                scales[p], a, b);
                        rows_add(I32, I32, I32, I32, sometimes, "vmad.%s.po%s%s %%D, %%A%s, %%B%s, %%C;", types[t], sat,
                                scales[p], a, b);
                }
        }
}

static inline void rows_video(void)
{
        static const char *const scalar[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax"};
        static const char *const simd[] = {"vadd2", "vsub2", "vavrg2", "vabsdiff2", "vmin2", "vmax2", "vadd4", "vsub4",
                "vavrg4", "vabsdiff4", "vmin4", "vmax4"};
        static const char *const compare[] = {"eq", "ne", "lt", "le", "gt", "ge"};
        static const char *const pairs[] = {"u32.u32", "u32.s32", "s32.u32", "s32.s32"};
        unsigned turn = 0;
        char types[32];

        for (unsigned t = 0; t < 8; t++) {
                for (size_t i = 0; i < DS_ARRAY_SIZE(scalar); i++)
                        rows_video_scalar(scalar[i], video_types[t], "", turn++);
                for (size_t i = 0; i < DS_ARRAY_SIZE(simd); i++)
                        rows_video_simd(simd[i], video_types[t], turn++);
                /* only types whose second operand is unsigned, because it is the shift's amount */
                for (int k = 0; k < 4 && !(t & 1); k++)
                        rows_video_scalar(k & 1 ? "vshr" : "vshl", video_types[t], k & 2 ? ".clamp" : ".wrap", turn++);
        }
        for (unsigned t = 0; t < 4; t++) {
                for (size_t i = 0; i < 6; i++) {
                        rows_add(I32, I32, I32, NONE, 0, "vset.%s.%s %%D, %%A, %%B;", pairs[t], compare[i]);
                        rows_add(I32, I32, I32, I32, 0, "vset.%s.%s.add %%D, %%A.b1, %%B.h0, %%C;", pairs[t],
                                compare[i]);
                        rows_add(I32, I32, I32, I32, ROWS_ODD, "vset.%s.%s %%D.h1, %%A.b1, %%B.b2, %%C;", pairs[t],
                                compare[i]);
                        (void)snprintf(types, sizeof(types), "%s.%s", pairs[t], compare[i]);
                        rows_video_simd(i & 1 ? "vset2" : "vset4", types, turn++);
                }
        }
        rows_vmad();
}

/* --- conversions to small formats, products with operands outside of a tensor, rarer atomics --- */
static inline void rows_small(void)
{
        static const char *const relu[] = {"", ".relu"}, *const small[] = {"e4m3x2", "e5m2x2"};
        static const char *const pack[] = {"u4", "s4", "u2", "s2"}, *const how[] = {"rn", "rz"};

        for (int r = 0; r < 2; r++) {
                for (int t = 0; t < 2; t++) {
                        rows_add(I16, F32, F32, NONE, 0, "cvt.rn.satfinite%s.%s.f32 %%D, %%A, %%B;", relu[r], small[t]);
                        rows_add(I16, F16X2, NONE, NONE, 0, "cvt.rn.satfinite%s.%s.f16x2 %%D, %%A;", relu[r], small[t]);
                        rows_add(F16X2, I16, NONE, NONE, 0, "cvt.rn%s.f16x2.%s %%D, %%A;", relu[r], small[t]);
                        rows_add(F16, F32, NONE, NONE, 0, "cvt.%s.satfinite%s.f16.f32 %%D, %%A;", how[t], relu[r]);
                        rows_add(BF16, F32, NONE, NONE, 0, "cvt.%s.satfinite%s.bf16.f32 %%D, %%A;", how[t], relu[r]);
                        rows_add(F16X2, F32, F32, NONE, 0, "cvt.%s.satfinite%s.f16x2.f32 %%D, %%A, %%B;", how[t],
                                relu[r]);
                        rows_add(BF16X2, F32, F32, NONE, 0, "cvt.%s.satfinite%s.bf16x2.f32 %%D, %%A, %%B;", how[t],
                                relu[r]);
                }
                rows_add(F16X2, F32, F32, NONE, 0, "cvt.rz%s.f16x2.f32 %%D, %%A, %%B;", relu[r]);
                rows_add(BF16X2, F32, F32, NONE, 0, "cvt.rz%s.bf16x2.f32 %%D, %%A, %%B;", relu[r]);
                rows_add(F16, F16, F16, F16, 0, "fma.rn.oob%s.f16 %%D, %%A, %%B, %%C;", relu[r]);
                rows_add(F16, I16, I16, F16, 0,
                        "or.b16 %%A, %%A, 0x7c00; or.b16 %%B, %%B, 0x6400; fma.rn.oob%s.f16 %%D, %%A, %%B, %%C;",
                        relu[r]);
                rows_add(BF16, BF16, BF16, BF16, 0, "fma.rn.oob%s.bf16 %%D, %%A, %%B, %%C;", relu[r]);
                rows_add(BF16, I16, I16, BF16, 0,
                        "or.b16 %%A, %%A, 0x4f80; or.b16 %%B, %%B, 0x7f80; fma.rn.oob%s.bf16 %%D, %%A, %%B, %%C;",
                        relu[r]);
        }
        rows_add(F32, F32, NONE, NONE, 0, "cvt.rna.satfinite.tf32.f32 %%D, %%A;");
        rows_add(F16X2, F16X2, F16X2, F16X2, 0, "fma.rn.oob.f16x2 %%D, %%A, %%B, %%C;");
        rows_add(BF16X2, BF16X2, BF16X2, BF16X2, 0, "fma.rn.oob.bf16x2 %%D, %%A, %%B, %%C;");
        for (int t = 0; t < 4; t++)
                rows_add(I32, I32, I32, I32, 0, "cvt.pack.sat.%s.s32.b32 %%D, %%A, %%B, %%C;", pack[t]);
}

/* Adds rows for atomics on vectors of halves: the result is the old value, or the final contents. */
static inline void rows_atomic_halves(void)
{
        static const char *const ops[] = {"add", "min", "max"}, *const types[] = {"f16", "bf16"};

        for (int i = 0; i < 3; i++) {
                for (int t = 0; t < 2; t++) {
                        rows_add(I32, t ? BF16X2 : F16X2, t ? BF16X2 : F16X2, NONE, 0,
                                "{ .reg .b16 %%a, %%b, %%c, %%d; st.global.b32 [%%P], %%B; mov.b32 {%%a, %%b}, %%A; "
                                "atom.global.%s.noftz.v2.%s {%%c, %%d}, [%%P], {%%a, %%b}; ld.global.b32 %%D, [%%P]; }",
                                ops[i], types[t]);
                        rows_add(I32, t ? BF16X2 : F16X2, t ? BF16X2 : F16X2, NONE, 0,
                                "{ .reg .b32 %%c; st.global.v2.b32 [%%P], {%%A, %%B}; "
                                "red.global.%s.noftz.v2.%sx2 [%%P], {%%B, %%A}; ld.global.v2.b32 {%%D, %%c}, [%%P]; "
                                "xor.b32 %%D, %%D, %%c; }",
                                ops[i], types[t]);
                }
        }
        rows_add(I16, I16, I16, I16, 0,
                "st.global.b16 [%%P], %%A; atom.global.cas.b16 %%D, [%%P], %%B, %%C; ld.global.b16 %%D, [%%P];");
        rows_add(I64, I64, I64, NONE, 0,
                "{ .reg .b128 %%q, %%r; .reg .b64 %%e; .shared .align 16 .b8 wide[2048]; mad.lo.u32 %%S, %%j, 16, 0; "
                "mov.u32 %%T, wide; add.u32 %%S, %%S, %%T; st.shared.v2.b64 [%%S], {%%A, %%B}; "
                "mov.b128 %%q, {%%B, %%A}; atom.shared.exch.b128 %%r, [%%S], %%q; mov.b128 {%%D, %%e}, %%r; "
                "ld.shared.b64 %%e, [%%S]; add.u64 %%D, %%D, %%e; }");
}

/* Adds rows for mbarriers, as far as results show them: counts, phases. */
static inline void rows_mbarrier(void)
{
        rows_add(I32, SMALL, SMALL, NONE, 0,
                "add.u32 %%A, %%A, 2; mbarrier.init.shared.b64 [%%S], %%A; mbarrier.arrive.shared.b64 %%x, [%%S]; "
                "mbarrier.arrive.shared.b64 %%TD, [%%S]; mbarrier.pending_count.b64 %%D, %%x; "
                "mbarrier.pending_count.b64 %%T, %%TD; mad.lo.u32 %%D, %%D, 1000, %%T;");
        rows_add(PRED, SMALL, NONE, NONE, 0,
                "and.b32 %%A, %%A, 3; add.u32 %%A, %%A, 1; mbarrier.init.shared.b64 [%%S], %%A; "
                "mbarrier.arrive.shared.b64 %%x, [%%S]; mbarrier.test_wait.shared.b64 %%D, [%%S], %%x; "
                "mbarrier.test_wait.parity.shared.b64 %%Q, [%%S], 0;");
        rows_add(PRED, SMALL, SMALL, NONE, 0,
                "mbarrier.init.shared.b64 [%%S], 1; mbarrier.arrive.expect_tx.shared.b64 %%x, [%%S], %%A; "
                "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%%S], %%B; "
                "mbarrier.test_wait.shared.b64 %%D, [%%S], %%x; mbarrier.try_wait.parity.shared.b64 %%Q, [%%S], 1;");
        rows_add(I32, SMALL, NONE, NONE, 0,
                "add.u32 %%A, %%A, 2; mbarrier.init.shared.b64 [%%S], %%A; sub.u32 %%T, %%A, 1; "
                "mbarrier.arrive_drop.noComplete.shared.b64 %%x, [%%S], %%T; mbarrier.arrive.shared.b64 %%TD, [%%S]; "
                "mbarrier.pending_count.b64 %%D, %%x; mbarrier.pending_count.b64 %%T, %%TD; "
                "mad.lo.u32 %%D, %%D, 1000, %%T;");
}

/* --- kernels --- */
static inline uint32_t rows_bytes_of(enum kind k)
{
        switch (k) {
        case I16:
        case F16:
        case BF16:
                return 2;
        case I64:
        case F64:
                return 8;
        default:
                return 4;
        }
}

static inline void rows_emit_load(FILE *f, enum kind k, char name, const char *param)
{
        static const char *const types[] = {[2] = "b16", [4] = "b32", [8] = "b64"};

        if (k == NONE)
                return;
        (void)fprintf(f,
                "\t.reg .%s %%%c;\n\tld.param.u64 %%x, [%s];\n\tadd.u64 %%x, %%x, %%o;\n\tld.global.%s %%%c, [%%x];\n",
                types[rows_bytes_of(k)], name, param, types[rows_bytes_of(k)], name);
}

static inline void rows_emit_kernel(FILE *f, const struct row *r, int index)
{
        (void)fprintf(f,
                ".visible .entry k%d(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u64 p)\n{\n"
                "\t.shared .align 8 .b8 cells[1024];\n\t.reg .b64 %%x, %%o, %%P, %%TD;\n\t.reg .b32 %%i, %%j, %%t, "
                "%%T, %%S;\n\t.reg .pred %%Q, %%R;\n"
                "\tmov.u32 %%i, %%ctaid.x;\n\tmov.u32 %%j, %%tid.x;\n\tmad.lo.u32 %%i, %%i, 128, %%j;\n"
                "\tmul.wide.u32 %%o, %%i, 8;\n\tld.param.u64 %%P, [p];\n\tadd.u64 %%P, %%P, %%o;\n"
                "\tmov.u32 %%S, cells;\n\tmad.lo.u32 %%S, %%j, 8, %%S;\n\tsetp.ne.u32 %%Q, %%i, %%i;\n",
                index);
        rows_emit_load(f, r->a, 'A', "a");
        rows_emit_load(f, r->b, 'B', "b");
        rows_emit_load(f, r->c, 'C', "c");
        if (strstr(r->text, "%E"))
                (void)fprintf(f, "\t.reg .b16 %%E, %%F;\n\tmov.b32 {%%E, _}, %%A;\n\tmov.b32 {%%F, _}, %%B;\n");
        (void)fprintf(f,
                "\t.reg .%s %%D;\n\t%s\n\tld.param.u64 %%x, [d];\n\tadd.u64 %%x, %%x, %%o;\n\t.reg .b64 %%y, %%z;\n",
                r->d == PRED               ? "pred"
                : rows_bytes_of(r->d) == 2 ? "b16"
                : rows_bytes_of(r->d) == 8 ? "b64"
                                           : "b32",
                r->text);
        if (r->d == PRED)
                (void)fprintf(f, "\tselp.b64 %%y, 1, 0, %%D;\n\tselp.b64 %%z, 2, 0, %%Q;\n\tor.b64 %%y, %%y, %%z;\n");
        else if (rows_bytes_of(r->d) == 8)
                (void)fprintf(f, "\tmov.b64 %%y, %%D;\n");
        else
                (void)fprintf(f, "\tcvt.u64.%s %%y, %%D;\n", rows_bytes_of(r->d) == 2 ? "u16" : "u32");
        (void)fprintf(f, "\tst.global.b64 [%%x], %%y;\n\tret;\n}\n");
}

static inline char *rows_emit_module(int from, int to, size_t *length)
{
        char *text = NULL;
        FILE *f = open_memstream(&text, length);

        if (!f)
                return NULL;
        (void)fprintf(f, ".version 8.3\n.target sm_90\n.address_size 64\n");
        for (int i = from; i < to; i++)
                rows_emit_kernel(f, &rows[i], i);
        (void)fclose(f);
        return text;
}

/* --- values --- */
static uint32_t rows_state = 88172645;

static inline uint32_t rows_random32(void)
{
        rows_state ^= rows_state << 13;
        rows_state ^= rows_state >> 17;
        rows_state ^= rows_state << 5;
        return rows_state;
}

static inline uint64_t rows_random64(void)
{
        uint64_t high = rows_random32();

        return high << 32 | rows_random32();
}

static const uint64_t edge_int[] = {0, 1, 2, 7, 31, 32, 63, 64, 127, 128, 255, 32767, 32768, 65535, 0x7fffffff,
        0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0xfffffffffffffff9,
        0xffff8000, 0x12345678, 0xdeadbeefcafebabe};
static const uint64_t edge_f32[] = {0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x3f800000, 0xbf800000,
        0x3f800001, 0x3f7fffff, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001,
        0xff812345, 0x7fffffff, 0x40490fdb, 0x4b000001, 0x33800000, 0x4f000000, 0xcf000000, 0x5f000000, 0x3effffff,
        0x3f000000, 0x42280000, 0x477fe000, 0x33000000, 0x3fc00000, 0x00400000, 0x387fffff, 0x3f7ffffe};
static const uint64_t edge_f64[] = {0, 0x8000000000000000, 1, 0x8000000000000001, 0x000fffffffffffff,
        0x0010000000000000, 0x3ff0000000000000, 0xbff0000000000000, 0x3ff0000000000001, 0x7fefffffffffffff,
        0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000123,
        0x7ff0000000000001, 0xfff0000012345678, 0x400921fb54442d18, 0x41e0000000000000, 0xc1e0000000000000,
        0x43e0000000000000, 0xc3e0000000000000, 0x3fe0000000000000, 0x3fdfffffffffffff, 0x47efffffe0000000,
        0x36a0000000000000, 0x3690000000000000, 0x38100000000fffff, 0x4330000000000001, 0x380fffffffffffff,
        0xb80fffffffffffff, 0x3f0fffffffffffff, 0x3fc5555555555555};
static const uint64_t edge_f16[] = {0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x3c01, 0x3bff, 0x7bff,
        0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01, 0x7fff, 0x4248, 0x3800, 0x6400, 0x1400};
static const uint64_t edge_bf16[] = {0, 0x8000, 1, 0x8001, 0x007f, 0x0080, 0x3f80, 0xbf80, 0x3f81, 0x3f7f, 0x7f7f,
        0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 0x7fff, 0x4049, 0x3f00, 0x4b00, 0x3380};

static inline uint64_t rows_edge(enum kind k, uint32_t i)
{
        switch (k) {
        case F32:
                return edge_f32[i % DS_ARRAY_SIZE(edge_f32)];
        case F64:
                return edge_f64[i % DS_ARRAY_SIZE(edge_f64)];
        case F16:
                return edge_f16[i % DS_ARRAY_SIZE(edge_f16)];
        case BF16:
                return edge_bf16[i % DS_ARRAY_SIZE(edge_bf16)];
        case F16X2:
                return rows_edge(F16, i) | rows_edge(F16, i / 3 + 5) << 16;
        case BF16X2:
                return rows_edge(BF16, i) | rows_edge(BF16, i / 3 + 5) << 16;
        case SMALL:
                return i % 80;
        default:
                return edge_int[i % DS_ARRAY_SIZE(edge_int)];
        }
}

/* A random value: any bits, or a number of ordinary size. Takes one random number per statement, since the compiler
 * may reorder calls inside of one. */
static inline uint64_t rows_any(enum kind k)
{
        uint64_t wide = rows_random64();
        uint32_t a = rows_random32(), b = rows_random32(), c = rows_random32();
        double x = (double)(int32_t)a * ldexp(1, (int)(b % 24) - 31);
        float f = (float)x;
        uint64_t u;
        uint32_t v;

        switch (c % 3 ? k : NONE) {
        case F32:
                memcpy(&v, &f, 4);
                return v;
        case F64:
                memcpy(&u, &x, 8);
                return u;
        case F16:
                return 0x3000 + a % 0x1800 + (b & 0x8000);
        case BF16:
                return 0x3e00 + a % 0x0300 + (b & 0x8000);
        case SMALL:
                return a % 80;
        default:
                return k == SMALL ? a % 40 : wide >> (b % 3 ? 0 : a % 64);
        }
}

static inline void rows_fill(const struct row *r, uint64_t *a, uint64_t *b, uint64_t *c)
{
        rows_state = 88172645;
        for (uint32_t i = 0; i < ROWS_N; i++) {
                int edges = i < 1024, mixed = i < 2048;

                a[i] = edges ? rows_edge(r->a, i / 32) : rows_any(r->a);
                b[i] = edges ? rows_edge(r->b, i % 32) : mixed ? rows_edge(r->b, rows_random32()) : rows_any(r->b);
                c[i] = edges            ? rows_edge(r->c, i * 7 / 5)
                       : mixed && i & 1 ? rows_edge(r->c, rows_random32())
                                        : rows_any(r->c);
        }
}

/* Builds the table with the rows whose text contains filter. */
static inline void rows_make(const char *filter)
{
        rows_filter = filter;
        n_rows = 0;
        rows_integer();
        rows_bit();
        rows_float();
        rows_half();
        rows_compare();
        rows_convert();
        rows_warp();
        rows_atomic();
        rows_video();
        rows_small();
        rows_atomic_halves();
        rows_mbarrier();
}

/* FNV-1a over 64-bit words. */
static inline uint64_t rows_hash(const uint64_t *values)
{
        uint64_t h = UINT64_C(14695981039346656037);

        for (int i = 0; i < ROWS_N; i++)
                h = (h ^ values[i]) * UINT64_C(1099511628211);
        return h;
}

/* Runs row `index` of a loaded module on in[3]; results go to got. Returns a fault's message, or NULL. */
static inline const char *rows_run(
        const ds_interp *interp, ds_interp_block *work, int index, uint64_t in[3][ROWS_N], uint64_t *got)
{
        /* one array, so that one range suffices: the inputs, the results, a cell for every thread */
        static uint64_t memory[5 * ROWS_N];
        static struct ds_interp_result result;
        struct ds_interp_range range = {.va = (uintptr_t)memory, .size = sizeof(memory)};
        uint64_t args[5];
        struct ds_interp_launch l = {.grid = {ROWS_N / 128, 1, 1},
                .block = {128, 1, 1},
                .params = args,
                .params_size = sizeof(args),
                .ranges = &range,
                .n_ranges = 1};
        char name[16];

        for (int k = 0; k < 5; k++)
                args[k] = (uintptr_t)(memory + (size_t)k * ROWS_N);
        memset(memory, 0, sizeof(memory));
        memcpy(memory, in, sizeof(uint64_t) * 3 * ROWS_N);
        (void)snprintf(name, sizeof(name), "k%d", index);
        l.kernel = ds_interp_find_kernel(interp, name);
        for (uint32_t b = 0; l.kernel && b < ROWS_N / 128; b++) {
                if (ds_interp_run_block(work, &l, b, 0, 0, &result) || result.fault)
                        return result.message;
        }
        memcpy(got, memory + 3 * (size_t)ROWS_N, sizeof(uint64_t) * ROWS_N);
        return l.kernel ? NULL : "no such kernel";
}
