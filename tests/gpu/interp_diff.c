/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every instruction on a GPU and in the interpreter: do they give the same bits?
 *
 * Each row of the table is one PTX instruction. It becomes a kernel that applies it to a few thousand operands, edge
 * values in every combination first; the kernel runs on the GPU through the driver and in the interpreter, and the
 * results are compared. Rows marked approximate report the largest difference in units in the last place instead.
 * Exit status: 0 when all exact rows agree, 1 when not, 3 when there is no GPU.
 *
 * interp_diff [SUBSTRING of instructions to try] | print NUMBER (the module of one row, 2 when there is none)
 */
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/interp.h"
#include "ptx/ptx.h"
#include "util/macro.h"

#define N 4096
#define MAX_ROWS 1200

/* What an operand's test values are: integers, floats, half, bfloat16, pairs of them, shift amounts, predicates */
enum kind { NONE, I16, I32, I64, F32, F64, F16, BF16, F16X2, BF16X2, SMALL, PRED };

struct row {
        char text[160];
        enum kind d, a, b, c;
        int approx;
};

static struct row rows[MAX_ROWS];
static int n_rows;
static const char *filter = "";
static int show = 3; /* differences per row, INTERP_DIFF_SHOW */

static void add(enum kind d, enum kind a, enum kind b, enum kind c, int approx, const char *fmt, ...) ds_printf(6, 7);
static void add(enum kind d, enum kind a, enum kind b, enum kind c, int approx, const char *fmt, ...)
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
        if (strstr(r->text, filter) && n_rows < MAX_ROWS - 1)
                n_rows++;
}

/* --- the table --- */
static const struct {
        const char *name;
        enum kind kind;
} ints[] = {{"u16", I16}, {"s16", I16}, {"u32", I32}, {"s32", I32}, {"u64", I64}, {"s64", I64}};

static void integer_rows(void)
{
        static const char *const two[] = {"add", "sub", "mul.lo", "mul.hi", "div", "rem", "min", "max"};

        for (int t = 0; t < 6; t++) {
                const char *n = ints[t].name;
                enum kind k = ints[t].kind, wide = k == I16 ? I32 : I64;

                for (size_t i = 0; i < DS_ARRAY_SIZE(two); i++)
                        add(k, k, k, NONE, 0, "%s.%s %%D, %%A, %%B;", two[i], n);
                add(k, k, k, k, 0, "mad.lo.%s %%D, %%A, %%B, %%C;", n);
                add(k, k, k, k, 0, "mad.hi.%s %%D, %%A, %%B, %%C;", n);
                add(k, k, k, k, 0, "sad.%s %%D, %%A, %%B, %%C;", n);
                add(k, k, SMALL, NONE, 0, "shr.%s %%D, %%A, %%B;", n);
                if (n[0] == 's') {
                        add(k, k, NONE, NONE, 0, "abs.%s %%D, %%A;", n);
                        add(k, k, NONE, NONE, 0, "neg.%s %%D, %%A;", n);
                }
                if (k != I64) {
                        add(wide, k, k, NONE, 0, "mul.wide.%s %%D, %%A, %%B;", n);
                        add(wide, k, k, wide, 0, "mad.wide.%s %%D, %%A, %%B, %%C;", n);
                }
                if (k != I16) {
                        add(k, k, SMALL, SMALL, 0, "bfe.%s %%D, %%A, %%B, %%C;", n);
                        add(I32, k, NONE, NONE, 0, "bfind.%s %%D, %%A;", n);
                        add(I32, k, NONE, NONE, 0, "bfind.shiftamt.%s %%D, %%A;", n);
                        add(k, k, k, k, 0, "add.cc.%s %%D, %%A, %%B; addc.%s %%D, %%C, %%D;", n, n);
                        add(k, k, k, k, 0, "sub.cc.%s %%D, %%A, %%B; subc.%s %%D, %%C, %%D;", n, n);
                        add(k, k, k, k, 0, "mad.lo.cc.%s %%D, %%A, %%B, %%C; madc.hi.%s %%D, %%A, %%B, %%C;", n, n);
                        add(k, k, k, k, 0, "mad.hi.cc.%s %%D, %%A, %%B, %%C; addc.%s %%D, %%A, 0;", n, n);
                        add(k, k, k, k, 0,
                                "add.cc.%s %%D, %%A, %%B; madc.lo.cc.%s %%D, %%A, %%D, %%C; madc.hi.cc.%s %%D, %%D, "
                                "%%B, %%D; "
                                "addc.%s %%D, %%D, 0;",
                                n, n, n, n);
                }
        }
        for (int t = 2; t < 4; t++) {
                add(I32, I32, I32, NONE, 0, "mul24.lo.%s %%D, %%A, %%B;", ints[t].name);
                add(I32, I32, I32, NONE, 0, "mul24.hi.%s %%D, %%A, %%B;", ints[t].name);
                add(I32, I32, I32, I32, 0, "mad24.lo.%s %%D, %%A, %%B, %%C;", ints[t].name);
                add(I32, I32, I32, I32, 0, "mad24.hi.%s %%D, %%A, %%B, %%C;", ints[t].name);
                for (int u = 2; u < 4; u++) {
                        add(I32, I32, I32, I32, 0, "dp4a.%s.%s %%D, %%A, %%B, %%C;", ints[t].name, ints[u].name);
                        add(I32, I32, I32, I32, 0, "dp2a.lo.%s.%s %%D, %%A, %%B, %%C;", ints[t].name, ints[u].name);
                        add(I32, I32, I32, I32, 0, "dp2a.hi.%s.%s %%D, %%A, %%B, %%C;", ints[t].name, ints[u].name);
                }
                add(I32, I32, SMALL, NONE, 0, "szext.clamp.%s %%D, %%A, %%B;", ints[t].name);
                add(I32, I32, SMALL, NONE, 0, "szext.wrap.%s %%D, %%A, %%B;", ints[t].name);
        }
        add(I32, I32, I32, NONE, 0, "add.sat.s32 %%D, %%A, %%B;");
        add(I32, I32, I32, NONE, 0, "sub.sat.s32 %%D, %%A, %%B;");
        add(I32, I32, I32, I32, 0, "mad.hi.sat.s32 %%D, %%A, %%B, %%C;");
        add(I32, I32, I32, I32, 0, "mad24.hi.sat.s32 %%D, %%A, %%B, %%C;");
        add(I32, I32, I32, NONE, 0, "min.relu.s32 %%D, %%A, %%B;");
        add(I32, I32, I32, NONE, 0, "max.relu.s32 %%D, %%A, %%B;");
        add(I32, I32, I32, NONE, 0, "add.u16x2 %%D, %%A, %%B;");
        add(I32, I32, I32, NONE, 0, "add.s16x2 %%D, %%A, %%B;");
        add(I32, I32, I32, NONE, 0, "min.u16x2 %%D, %%A, %%B;");
        add(I32, I32, I32, NONE, 0, "max.s16x2 %%D, %%A, %%B;");
        add(I32, I32, I32, NONE, 0, "min.s16x2 %%D, %%A, %%B;");
        add(I32, I32, I32, NONE, 0, "max.relu.s16x2 %%D, %%A, %%B;");
        add(I32, I32, I32, NONE, 0, "min.relu.s16x2 %%D, %%A, %%B;");
}

static void bit_rows(void)
{
        static const char *const widths[] = {"b16", "b32", "b64"};
        static const char *const modes[] = {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"};

        for (int t = 0; t < 3; t++) {
                enum kind k = t == 0 ? I16 : t == 1 ? I32 : I64;

                add(k, k, k, NONE, 0, "and.%s %%D, %%A, %%B;", widths[t]);
                add(k, k, k, NONE, 0, "or.%s %%D, %%A, %%B;", widths[t]);
                add(k, k, k, NONE, 0, "xor.%s %%D, %%A, %%B;", widths[t]);
                add(k, k, NONE, NONE, 0, "not.%s %%D, %%A;", widths[t]);
                add(k, k, NONE, NONE, 0, "cnot.%s %%D, %%A;", widths[t]);
                add(k, k, SMALL, NONE, 0, "shl.%s %%D, %%A, %%B;", widths[t]);
                if (t == 0)
                        continue;
                add(k, k, k, SMALL, 0, "bfi.%s %%D, %%A, %%B, %%C, 7;", widths[t]);
                add(k, k, k, SMALL, 0, "bfi.%s %%D, %%A, %%B, 5, %%C;", widths[t]);
                add(k, k, NONE, NONE, 0, "brev.%s %%D, %%A;", widths[t]);
                add(I32, k, NONE, NONE, 0, "clz.%s %%D, %%A;", widths[t]);
                add(I32, k, NONE, NONE, 0, "popc.%s %%D, %%A;", widths[t]);
        }
        for (int i = 0; i < 7; i++)
                add(I32, I32, I32, I32, 0, "prmt.b32%s %%D, %%A, %%B, %%C;", modes[i]);
        for (int lut = 0; lut < 256; lut += 17)
                add(I32, I32, I32, I32, 0, "lop3.b32 %%D, %%A, %%B, %%C, %d;", lut);
        add(PRED, I32, I32, I32, 0, "setp.ne.u32 %%Q, %%A, 1; lop3.and.b32 %%T|%%D, %%A, %%B, %%C, 0x6a, %%Q;");
        add(I32, I32, I32, SMALL, 0, "shf.l.wrap.b32 %%D, %%A, %%B, %%C;");
        add(I32, I32, I32, SMALL, 0, "shf.r.wrap.b32 %%D, %%A, %%B, %%C;");
        add(I32, I32, I32, SMALL, 0, "shf.l.clamp.b32 %%D, %%A, %%B, %%C;");
        add(I32, I32, I32, SMALL, 0, "shf.r.clamp.b32 %%D, %%A, %%B, %%C;");
        add(I32, SMALL, SMALL, NONE, 0, "bmsk.clamp.b32 %%D, %%A, %%B;");
        add(I32, SMALL, SMALL, NONE, 0, "bmsk.wrap.b32 %%D, %%A, %%B;");
        add(I32, I32, SMALL, NONE, 0, "and.b32 %%T, %%B, 31; fns.b32 %%D, %%A, %%T, 3;");
        add(I32, I32, SMALL, NONE, 0, "and.b32 %%T, %%B, 31; fns.b32 %%D, %%A, %%T, -2;");
        add(I32, I32, SMALL, NONE, 0, "and.b32 %%T, %%B, 31; fns.b32 %%D, %%A, %%T, 0;");
}

static void float_rows(void)
{
        static const char *const rounds[] = {"", ".rn", ".rz", ".rm", ".rp"};
        static const char *const flags[] = {"", ".ftz", ".sat", ".ftz.sat"};
        static const char *const two[] = {"add", "sub", "mul"};
        static const char *const minmax[] = {"", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs"};

        for (int r = 0; r < 5; r++) {
                for (int i = 0; i < 3; i++) {
                        for (int f = 0; f < 4; f++)
                                add(F32, F32, F32, NONE, 0, "%s%s%s.f32 %%D, %%A, %%B;", two[i], rounds[r], flags[f]);
                        add(F64, F64, F64, NONE, 0, "%s%s.f64 %%D, %%A, %%B;", two[i], rounds[r]);
                }
                for (int f = 0; r && f < 4; f++)
                        add(F32, F32, F32, F32, 0, "fma%s%s.f32 %%D, %%A, %%B, %%C;", rounds[r], flags[f]);
                for (int f = 0; r && f < 2; f++) {
                        add(F32, F32, F32, NONE, 0, "div%s%s.f32 %%D, %%A, %%B;", rounds[r], flags[f]);
                        add(F32, F32, NONE, NONE, 0, "rcp%s%s.f32 %%D, %%A;", rounds[r], flags[f]);
                        add(F32, F32, NONE, NONE, 0, "sqrt%s%s.f32 %%D, %%A;", rounds[r], flags[f]);
                }
                if (!r)
                        continue;
                add(F64, F64, F64, F64, 0, "fma%s.f64 %%D, %%A, %%B, %%C;", rounds[r]);
                add(F64, F64, F64, NONE, 0, "div%s.f64 %%D, %%A, %%B;", rounds[r]);
                add(F64, F64, NONE, NONE, 0, "rcp%s.f64 %%D, %%A;", rounds[r]);
                add(F64, F64, NONE, NONE, 0, "sqrt%s.f64 %%D, %%A;", rounds[r]);
        }
        for (int i = 0; i < 6; i++) {
                add(F32, F32, F32, NONE, 0, "min%s.f32 %%D, %%A, %%B;", minmax[i]);
                add(F32, F32, F32, NONE, 0, "max%s.f32 %%D, %%A, %%B;", minmax[i]);
        }
        add(F64, F64, F64, NONE, 0, "min.f64 %%D, %%A, %%B;");
        add(F64, F64, F64, NONE, 0, "max.f64 %%D, %%A, %%B;");
        for (int f = 0; f < 2; f++) {
                add(F32, F32, NONE, NONE, 0, "abs%s.f32 %%D, %%A;", flags[f]);
                add(F32, F32, NONE, NONE, 0, "neg%s.f32 %%D, %%A;", flags[f]);
                add(F32, F32, F32, NONE, 1, "div.approx%s.f32 %%D, %%A, %%B;", flags[f]);
                add(F32, F32, F32, NONE, 1, "div.full%s.f32 %%D, %%A, %%B;", flags[f]);
                add(F32, F32, NONE, NONE, 1, "rcp.approx%s.f32 %%D, %%A;", flags[f]);
                add(F32, F32, NONE, NONE, 1, "sqrt.approx%s.f32 %%D, %%A;", flags[f]);
                add(F32, F32, NONE, NONE, 1, "rsqrt.approx%s.f32 %%D, %%A;", flags[f]);
                add(F32, F32, NONE, NONE, 1, "sin.approx%s.f32 %%D, %%A;", flags[f]);
                add(F32, F32, NONE, NONE, 1, "cos.approx%s.f32 %%D, %%A;", flags[f]);
                add(F32, F32, NONE, NONE, 1, "lg2.approx%s.f32 %%D, %%A;", flags[f]);
                add(F32, F32, NONE, NONE, 1, "ex2.approx%s.f32 %%D, %%A;", flags[f]);
        }
        add(F32, F32, NONE, NONE, 1, "tanh.approx.f32 %%D, %%A;");
        add(F64, F64, NONE, NONE, 0, "abs.f64 %%D, %%A;");
        add(F64, F64, NONE, NONE, 0, "neg.f64 %%D, %%A;");
        add(F64, F64, NONE, NONE, 1, "rcp.approx.ftz.f64 %%D, %%A;");
        add(F64, F64, NONE, NONE, 1, "rsqrt.approx.ftz.f64 %%D, %%A;");
        add(F64, F64, NONE, NONE, 1, "rsqrt.approx.f64 %%D, %%A;");
        add(F32, F32, F32, NONE, 0, "copysign.f32 %%D, %%A, %%B;");
        add(F64, F64, F64, NONE, 0, "copysign.f64 %%D, %%A, %%B;");
}

static void half_rows(void)
{
        static const struct {
                const char *name;
                enum kind kind;
        } types[] = {{"f16", F16}, {"f16x2", F16X2}, {"bf16", BF16}, {"bf16x2", BF16X2}};

        for (int t = 0; t < 4; t++) {
                const char *n = types[t].name;
                enum kind k = types[t].kind;

                add(k, k, k, NONE, 0, "add.rn.%s %%D, %%A, %%B;", n);
                add(k, k, k, NONE, 0, "sub.rn.%s %%D, %%A, %%B;", n);
                add(k, k, k, NONE, 0, "mul.rn.%s %%D, %%A, %%B;", n);
                add(k, k, k, k, 0, "fma.rn.%s %%D, %%A, %%B, %%C;", n);
                add(k, k, k, k, 0, "fma.rn.relu.%s %%D, %%A, %%B, %%C;", n);
                add(k, k, k, NONE, 0, "min.%s %%D, %%A, %%B;", n);
                add(k, k, k, NONE, 0, "max.%s %%D, %%A, %%B;", n);
                add(k, k, k, NONE, 0, "min.NaN.%s %%D, %%A, %%B;", n);
                add(k, k, k, NONE, 0, "max.xorsign.abs.%s %%D, %%A, %%B;", n);
                add(k, k, NONE, NONE, 0, "neg.%s %%D, %%A;", n);
                add(k, k, NONE, NONE, 0, "abs.%s %%D, %%A;", n);
                add(k, k, NONE, NONE, 1, "tanh.approx.%s %%D, %%A;", n);
                if (t < 2) {
                        add(k, k, k, NONE, 0, "add.ftz.%s %%D, %%A, %%B;", n);
                        add(k, k, k, NONE, 0, "mul.sat.%s %%D, %%A, %%B;", n);
                        add(k, k, k, k, 0, "fma.rn.ftz.sat.%s %%D, %%A, %%B, %%C;", n);
                        add(k, k, NONE, NONE, 1, "ex2.approx.%s %%D, %%A;", n);
                } else {
                        add(k, k, NONE, NONE, 1, "ex2.approx.ftz.%s %%D, %%A;", n);
                }
        }
        add(I32, F16X2, F16X2, NONE, 0, "set.gt.u32.f16 %%D, %%E, %%F;");
        add(F16X2, F16X2, F16X2, NONE, 0, "set.le.f16x2.f16x2 %%D, %%A, %%B;");
        add(I32, F16X2, F16X2, NONE, 0, "set.neu.u32.f16x2 %%D, %%A, %%B;");
        add(PRED, F16X2, F16X2, NONE, 0, "setp.geu.f16x2 %%D|%%Q, %%A, %%B;");
        add(PRED, BF16X2, BF16X2, NONE, 0, "setp.lt.bf16x2 %%D|%%Q, %%A, %%B;");
}

static void compare_rows(void)
{
        static const char *const basic[] = {"eq", "ne", "lt", "le", "gt", "ge"};
        static const char *const unordered[] = {"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
        static const char *const logic[] = {"and", "or", "xor"};
        static const char *const floats[] = {"f32", "ftz.f32", "f64", "f16", "bf16"};
        static const enum kind kinds[] = {F32, F32, F64, F16, BF16};
        static const char *const tests[] = {"finite", "infinite", "number", "notanumber", "normal", "subnormal"};

        for (int i = 0; i < 6; i++) {
                for (int t = 0; t < 6; t++)
                        add(PRED, ints[t].kind, ints[t].kind, NONE, 0, "setp.%s.%s %%D|%%Q, %%A, %%B;", basic[i],
                                ints[t].name);
                for (int t = 0; t < 5; t++)
                        add(PRED, kinds[t], kinds[t], NONE, 0, "setp.%s.%s %%D%s, %%A, %%B;", basic[i], floats[t],
                                t < 3 ? "|%Q" : "");
                add(F32, F32, F32, NONE, 0, "set.%s.f32.f32 %%D, %%A, %%B;", basic[i]);
                add(I32, I64, I64, NONE, 0, "set.%s.s32.s64 %%D, %%A, %%B;", basic[i]);
                add(PRED, F32, NONE, NONE, 0, "testp.%s.f32 %%D, %%A;", tests[i]);
                add(PRED, F64, NONE, NONE, 0, "testp.%s.f64 %%D, %%A;", tests[i]);
        }
        for (int i = 0; i < 8; i++) {
                for (int t = 0; t < 5; t++)
                        add(PRED, kinds[t], kinds[t], NONE, 0, "setp.%s.%s %%D%s, %%A, %%B;", unordered[i], floats[t],
                                t < 3 ? "|%Q" : "");
        }
        for (int i = 0; i < 3; i++)
                add(PRED, I32, I32, I32, 0, "setp.lt.s32 %%R, %%C, %%A; setp.lt.%s.u32 %%D|%%Q, %%A, %%B, %%R;",
                        logic[i]);
        add(PRED, I32, I32, I32, 0, "setp.lt.s32 %%R, %%C, %%A; setp.lo.and.u32 %%D|%%Q, %%A, %%B, !%%R;");
        add(PRED, I32, I32, NONE, 0, "setp.hs.u32 %%D|%%Q, %%A, %%B;");
        add(I32, I32, I32, I32, 0, "slct.u32.s32 %%D, %%A, %%B, %%C;");
        add(I64, I64, I64, F32, 0, "slct.b64.f32 %%D, %%A, %%B, %%C;");
        add(I64, I64, I64, F32, 0, "slct.ftz.b64.f32 %%D, %%A, %%B, %%C;");
        add(I16, I16, I16, I32, 0, "setp.gt.s32 %%Q, %%C, 0; selp.b16 %%D, %%A, %%B, %%Q;");
}

static void convert_rows(void)
{
        static const char *const whole[] = {"rni", "rzi", "rmi", "rpi"}, *const round[] = {"rn", "rz", "rm", "rp"};
        static const char *const f_names[] = {"f16", "f32", "f64"};
        static const enum kind f_kinds[] = {F16, F32, F64};

        for (int t = 0; t < 6; t++) {
                for (int u = 0; u < 6; u++) {
                        add(ints[t].kind, ints[u].kind, NONE, NONE, 0, "cvt.%s.%s %%D, %%A;", ints[t].name,
                                ints[u].name);
                        /* only where there is something to saturate */
                        if (t != u && (t / 2 < u / 2 || (t & 1) != (u & 1)) && !(t / 2 > u / 2 && (t & 1)))
                                add(ints[t].kind, ints[u].kind, NONE, NONE, 0, "cvt.sat.%s.%s %%D, %%A;", ints[t].name,
                                        ints[u].name);
                }
                for (int f = 0; f < 3; f++) {
                        for (int r = 0; r < 4; r++) {
                                add(ints[t].kind, f_kinds[f], NONE, NONE, 0, "cvt.%s.%s.%s %%D, %%A;", whole[r],
                                        ints[t].name, f_names[f]);
                                add(f_kinds[f], ints[t].kind, NONE, NONE, 0, "cvt.%s.%s.%s %%D, %%A;", round[r],
                                        f_names[f], ints[t].name);
                        }
                }
                add(ints[t].kind, F32, NONE, NONE, 0, "cvt.rzi.ftz.%s.f32 %%D, %%A;", ints[t].name);
        }
        for (int r = 0; r < 4; r++) {
                for (int f = 0; f < 3; f++)
                        add(f_kinds[f], f_kinds[f], NONE, NONE, 0, "cvt.%s.%s.%s %%D, %%A;", whole[r], f_names[f],
                                f_names[f]);
                add(F32, F64, NONE, NONE, 0, "cvt.%s.f32.f64 %%D, %%A;", round[r]);
                add(F16, F64, NONE, NONE, 0, "cvt.%s.f16.f64 %%D, %%A;", round[r]);
                add(F16, F32, NONE, NONE, 0, "cvt.%s.f16.f32 %%D, %%A;", round[r]);
        }
        add(F64, F32, NONE, NONE, 0, "cvt.f64.f32 %%D, %%A;");
        add(F64, F32, NONE, NONE, 0, "cvt.ftz.f64.f32 %%D, %%A;");
        add(F64, F16, NONE, NONE, 0, "cvt.f64.f16 %%D, %%A;");
        add(F32, F16, NONE, NONE, 0, "cvt.f32.f16 %%D, %%A;");
        add(F32, BF16, NONE, NONE, 0, "cvt.f32.bf16 %%D, %%A;");
        add(BF16, F32, NONE, NONE, 0, "cvt.rn.bf16.f32 %%D, %%A;");
        add(BF16, F32, NONE, NONE, 0, "cvt.rz.bf16.f32 %%D, %%A;");
        add(BF16, F32, NONE, NONE, 0, "cvt.rn.relu.bf16.f32 %%D, %%A;");
        add(F16X2, F32, F32, NONE, 0, "cvt.rn.f16x2.f32 %%D, %%A, %%B;");
        add(F16X2, F32, F32, NONE, 0, "cvt.rn.relu.f16x2.f32 %%D, %%A, %%B;");
        add(BF16X2, F32, F32, NONE, 0, "cvt.rn.bf16x2.f32 %%D, %%A, %%B;");
        add(F32, F32, NONE, NONE, 0, "cvt.rna.tf32.f32 %%D, %%A;");
        add(F32, F32, NONE, NONE, 0, "cvt.sat.f32.f32 %%D, %%A;");
        add(F32, F32, NONE, NONE, 0, "cvt.ftz.sat.f32.f32 %%D, %%A;");
        add(F32, F64, NONE, NONE, 0, "cvt.rn.sat.f32.f64 %%D, %%A;");
        add(F64, F64, NONE, NONE, 0, "cvt.sat.f64.f64 %%D, %%A;");
        add(F32, F64, NONE, NONE, 0, "cvt.rn.ftz.f32.f64 %%D, %%A;");
        add(I32, I32, NONE, NONE, 0, "cvt.s32.s8 %%D, %%A;");
        add(I32, I32, NONE, NONE, 0, "cvt.u32.u8 %%D, %%A;");
        add(I32, I32, NONE, NONE, 0, "cvt.s8.s32 %%D, %%A;");
        add(I32, I32, NONE, NONE, 0, "cvt.sat.u8.s32 %%D, %%A;");
        add(I32, I32, NONE, NONE, 0, "cvt.sat.s8.u32 %%D, %%A;");
        add(I16, I64, NONE, NONE, 0, "cvt.sat.s8.s64 %%D, %%A;");
        add(I16, F32, NONE, NONE, 0, "cvt.rni.s8.f32 %%D, %%A;");
        add(I16, F64, NONE, NONE, 0, "cvt.rzi.u8.f64 %%D, %%A;");
        add(I32, I32, I32, I32, 0, "cvt.pack.sat.u8.s32.b32 %%D, %%A, %%B, %%C;");
        add(I32, I32, I32, I32, 0, "cvt.pack.sat.s8.s32.b32 %%D, %%A, %%B, %%C;");
        add(I32, I32, I32, NONE, 0, "cvt.pack.sat.s16.s32 %%D, %%A, %%B;");
        add(I32, I32, I32, NONE, 0, "cvt.pack.sat.u16.s32 %%D, %%A, %%B;");
}

static void warp_rows(void)
{
        static const char *const how[] = {"up", "down", "bfly", "idx"};
        static const char *const redux[] = {
                "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"};

        for (int i = 0; i < 4; i++)
                add(I32, I32, SMALL, I32, 0, "shfl.sync.%s.b32 %%D|%%Q, %%A, %%B, %%C, -1; @%%Q xor.b32 %%D, %%D, 1;",
                        how[i]);
        for (int i = 0; i < 9; i++)
                add(I32, I32, NONE, NONE, 0, "redux.sync.%s %%D, %%A, -1;", redux[i]);
        add(I32, SMALL, NONE, NONE, 0, "and.b32 %%A, %%A, 3; match.any.sync.b32 %%D, %%A, -1;");
        add(I32, SMALL, NONE, NONE, 0,
                "shr.u32 %%A, %%A, 5; match.all.sync.b32 %%D|%%Q, %%A, -1; @%%Q xor.b32 %%D, %%D, 5;");
        add(I32, I32, NONE, NONE, 0, "setp.gt.s32 %%Q, %%A, 0; vote.sync.ballot.b32 %%D, %%Q, -1;");
        add(PRED, I32, NONE, NONE, 0,
                "setp.gt.s32 %%R, %%A, 0; vote.sync.any.pred %%D, %%R, -1; vote.sync.all.pred %%Q, !%%R, -1;");
        add(PRED, I32, NONE, NONE, 0,
                "setp.ne.s32 %%R, %%A, 7; vote.sync.uni.pred %%D, %%R, -1; elect.sync _|%%Q, -1;");
}

/* Each thread has a cell of its own, which starts as %B; the result is old xor new. */
static void atomic_row(const char *op, const char *type, enum kind k)
{
        const char *b = k == I64 || k == F64 ? "b64" : "b32";

        add(k, k, k, NONE, 0,
                "st.global.%s [%%P], %%B; atom.global.%s.%s %%D, [%%P], %%A; ld.global.%s %%T%s, [%%P]; xor.%s %%D, "
                "%%D, %%T%s;",
                b, op, type, b, b[1] == '6' ? "D" : "", b, b[1] == '6' ? "D" : "");
        add(k, k, k, NONE, 0,
                "st.shared.%s [%%S], %%B; atom.shared.%s.%s %%D, [%%S], %%A; ld.shared.%s %%T%s, [%%S]; xor.%s %%D, "
                "%%D, %%T%s;",
                b, op, type, b, b[1] == '6' ? "D" : "", b, b[1] == '6' ? "D" : "");
}

static void atomic_rows(void)
{
        static const char *const logic[] = {"and", "or", "xor", "exch"};
        static const char *const order[] = {"min", "max"};

        for (int i = 0; i < 4; i++) {
                atomic_row(logic[i], "b32", I32);
                atomic_row(logic[i], "b64", I64);
        }
        for (int i = 0; i < 2; i++) {
                for (int t = 2; t < 6; t++)
                        atomic_row(order[i], ints[t].name, ints[t].kind);
        }
        atomic_row("add", "u32", I32);
        atomic_row("add", "s32", I32);
        atomic_row("add", "u64", I64);
        atomic_row("inc", "u32", I32);
        atomic_row("dec", "u32", I32);
        atomic_row("add", "f32", F32);
        atomic_row("add", "f64", F64);
        atomic_row("add.noftz", "f16x2", F16X2);
        atomic_row("add.noftz", "bf16x2", BF16X2);
}

/* --- kernels --- */
static uint32_t bytes_of(enum kind k)
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

static void emit_load(FILE *f, enum kind k, char name, const char *param)
{
        static const char *const types[] = {[2] = "b16", [4] = "b32", [8] = "b64"};

        if (k == NONE)
                return;
        (void)fprintf(f,
                "\t.reg .%s %%%c;\n\tld.param.u64 %%x, [%s];\n\tadd.u64 %%x, %%x, %%o;\n\tld.global.%s %%%c, [%%x];\n",
                types[bytes_of(k)], name, param, types[bytes_of(k)], name);
}

static void emit_kernel(FILE *f, const struct row *r, int index)
{
        (void)fprintf(f,
                ".visible .entry k%d(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d, .param .u64 p)\n{\n"
                "\t.shared .align 8 .b8 cells[1024];\n\t.reg .b64 %%x, %%o, %%P, %%TD;\n\t.reg .b32 %%i, %%j, %%t, "
                "%%T, %%S;\n\t.reg .pred %%Q, %%R;\n"
                "\tmov.u32 %%i, %%ctaid.x;\n\tmov.u32 %%j, %%tid.x;\n\tmad.lo.u32 %%i, %%i, 128, %%j;\n"
                "\tmul.wide.u32 %%o, %%i, 8;\n\tld.param.u64 %%P, [p];\n\tadd.u64 %%P, %%P, %%o;\n"
                "\tmov.u32 %%S, cells;\n\tmad.lo.u32 %%S, %%j, 8, %%S;\n\tsetp.ne.u32 %%Q, %%i, %%i;\n",
                index);
        emit_load(f, r->a, 'A', "a");
        emit_load(f, r->b, 'B', "b");
        emit_load(f, r->c, 'C', "c");
        if (strstr(r->text, "%E"))
                (void)fprintf(f, "\t.reg .b16 %%E, %%F;\n\tmov.b32 {%%E, _}, %%A;\n\tmov.b32 {%%F, _}, %%B;\n");
        (void)fprintf(f,
                "\t.reg .%s %%D;\n\t%s\n\tld.param.u64 %%x, [d];\n\tadd.u64 %%x, %%x, %%o;\n\t.reg .b64 %%y, %%z;\n",
                r->d == PRED          ? "pred"
                : bytes_of(r->d) == 2 ? "b16"
                : bytes_of(r->d) == 8 ? "b64"
                                      : "b32",
                r->text);
        if (r->d == PRED)
                (void)fprintf(f, "\tselp.b64 %%y, 1, 0, %%D;\n\tselp.b64 %%z, 2, 0, %%Q;\n\tor.b64 %%y, %%y, %%z;\n");
        else if (bytes_of(r->d) == 8)
                (void)fprintf(f, "\tmov.b64 %%y, %%D;\n");
        else
                (void)fprintf(f, "\tcvt.u64.%s %%y, %%D;\n", bytes_of(r->d) == 2 ? "u16" : "u32");
        (void)fprintf(f, "\tst.global.b64 [%%x], %%y;\n\tret;\n}\n");
}

static char *emit_module(int from, int to, size_t *length)
{
        char *text = NULL;
        FILE *f = open_memstream(&text, length);

        if (!f)
                return NULL;
        (void)fprintf(f, ".version 8.3\n.target sm_90\n.address_size 64\n");
        for (int i = from; i < to; i++)
                emit_kernel(f, &rows[i], i);
        (void)fclose(f);
        return text;
}

/* --- values --- */
static uint32_t state = 88172645;

static uint32_t random32(void)
{
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        return state;
}

static uint64_t random64(void)
{
        uint64_t high = random32();

        return high << 32 | random32();
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

static uint64_t edge(enum kind k, uint32_t i)
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
                return edge(F16, i) | edge(F16, i / 3 + 5) << 16;
        case BF16X2:
                return edge(BF16, i) | edge(BF16, i / 3 + 5) << 16;
        case SMALL:
                return i % 80;
        default:
                return edge_int[i % DS_ARRAY_SIZE(edge_int)];
        }
}

/* Random: any bits, or a number of ordinary size */
static uint64_t any(enum kind k)
{
        double x = ((double)(int32_t)random32()) * ldexp(1, (int)(random32() % 24) - 31);
        float f = (float)x;
        uint64_t u;
        uint32_t v;

        switch (random32() % 3 ? k : NONE) {
        case F32:
                memcpy(&v, &f, 4);
                return v;
        case F64:
                memcpy(&u, &x, 8);
                return u;
        case F16:
                return 0x3000 + random32() % 0x1800 + (random32() & 0x8000);
        case BF16:
                return 0x3e00 + random32() % 0x0300 + (random32() & 0x8000);
        case SMALL:
                return random32() % 80;
        default:
                return k == SMALL ? random32() % 40 : random64() >> (random32() % 3 ? 0 : random32() % 64);
        }
}

static void fill(const struct row *r, uint64_t *a, uint64_t *b, uint64_t *c)
{
        state = 88172645;
        for (uint32_t i = 0; i < N; i++) {
                int edges = i < 1024, mixed = i < 2048;

                a[i] = edges ? edge(r->a, i / 32) : any(r->a);
                b[i] = edges ? edge(r->b, i % 32) : mixed ? edge(r->b, random32()) : any(r->b);
                c[i] = edges ? edge(r->c, i * 7 / 5) : mixed && i & 1 ? edge(r->c, random32()) : any(r->c);
        }
}

/* --- the two machines --- */
static struct {
        int (*init)(unsigned);
        int (*device)(int *, int);
        int (*retain)(void **, int);
        int (*current)(void *);
        int (*alloc)(uint64_t *, size_t);
        int (*to)(uint64_t, const void *, size_t);
        int (*from)(void *, uint64_t, size_t);
        int (*load)(void **, const void *, unsigned, int *, void **);
        int (*unload)(void *);
        int (*function)(void **, void *, const char *);
        int (*launch)(
                void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
        int (*synchronize)(void);
} cu;

static int open_gpu(void)
{
        static const struct {
                const char *name;
                void *where;
        } entries[] = {{"cuInit", &cu.init}, {"cuDeviceGet", &cu.device}, {"cuDevicePrimaryCtxRetain", &cu.retain},
                {"cuCtxSetCurrent", &cu.current}, {"cuMemAlloc_v2", &cu.alloc}, {"cuMemcpyHtoD_v2", &cu.to},
                {"cuMemcpyDtoH_v2", &cu.from}, {"cuModuleLoadDataEx", &cu.load}, {"cuModuleUnload", &cu.unload},
                {"cuModuleGetFunction", &cu.function}, {"cuLaunchKernel", &cu.launch},
                {"cuCtxSynchronize", &cu.synchronize}};
        void *library = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
        int device = 0;

        if (!library)
                return 0;
        for (size_t i = 0; i < DS_ARRAY_SIZE(entries); i++) {
                void *symbol = dlsym(library, entries[i].name);

                if (!symbol)
                        return 0;
                memcpy(entries[i].where, &symbol, sizeof(symbol));
        }
        return !cu.init(0) && !cu.device(&device, 0) && !cu.retain(&context, device) && !cu.current(context);
}

static uint64_t in[3][N], got[N], want[N], cells[N], gpu_memory;

static int on_gpu(void *module, int index)
{
        uint64_t a = gpu_memory, b = a + sizeof(got), c = b + sizeof(got), d = c + sizeof(got), p = d + sizeof(got);
        void *args[] = {&a, &b, &c, &d, &p}, *function = NULL;
        char name[16];

        (void)snprintf(name, sizeof(name), "k%d", index);
        if (cu.to(gpu_memory, in, sizeof(in)) || cu.function(&function, module, name) ||
                cu.launch(function, N / 128, 1, 1, 128, 1, 1, 0, NULL, args, NULL) || cu.synchronize())
                return 0;
        return cu.from(want, d, sizeof(want)) == 0;
}

static int in_interpreter(const ds_interp *interp, ds_interp_block *work, int index)
{
        const struct ds_interp_range range[] = {
                {(uintptr_t)in, sizeof(in)}, {(uintptr_t)got, sizeof(got)}, {(uintptr_t)cells, sizeof(cells)}};
        struct ds_interp_range sorted[3];
        uint64_t args[] = {(uintptr_t)in[0], (uintptr_t)in[1], (uintptr_t)in[2], (uintptr_t)got, (uintptr_t)cells};
        struct ds_interp_launch l = {.grid = {N / 128, 1, 1},
                .block = {128, 1, 1},
                .params = args,
                .params_size = sizeof(args),
                .ranges = sorted,
                .n_ranges = 3};
        struct ds_interp_result result;
        char name[16];

        memcpy(sorted, range, sizeof(range));
        for (int i = 0; i < 2; i++)
                for (int k = 0; k < 2; k++)
                        if (sorted[k].va > sorted[k + 1].va) {
                                struct ds_interp_range t = sorted[k];

                                sorted[k] = sorted[k + 1];
                                sorted[k + 1] = t;
                        }
        (void)snprintf(name, sizeof(name), "k%d", index);
        l.kernel = ds_interp_find_kernel(interp, name);
        for (uint32_t b = 0; l.kernel && b < N / 128; b++) {
                if (ds_interp_run_block(work, &l, b, 0, 0, &result) || result.fault) {
                        (void)printf("FAULT %s: %s\n", rows[index].text, result.message);
                        return 0;
                }
        }
        return l.kernel != NULL;
}

/* --- comparing --- */
static double ulps(enum kind k, uint64_t a, uint64_t b)
{
        int64_t x = (int64_t)a, y = (int64_t)b;
        uint64_t sign = k == F64 ? UINT64_C(1) << 63 : k == F32 ? UINT64_C(1) << 31 : UINT64_C(1) << 15;

        x = (uint64_t)x & sign ? -(int64_t)((uint64_t)x & ~sign) : x;
        y = (uint64_t)y & sign ? -(int64_t)((uint64_t)y & ~sign) : y;
        return fabs((double)x - (double)y);
}

static int compare(const struct row *r)
{
        int different = 0, shown = 0;
        double worst = 0;

        for (int i = 0; i < N; i++) {
                if (got[i] == want[i])
                        continue;
                different++;
                if (r->approx && ulps(r->d, got[i], want[i]) > worst)
                        worst = ulps(r->d, got[i], want[i]);
                else if (r->approx)
                        continue;
                if (shown++ < show)
                        (void)printf("  %llx %llx %llx: gpu %llx, interpreter %llx\n", (unsigned long long)in[0][i],
                                (unsigned long long)in[1][i], (unsigned long long)in[2][i], (unsigned long long)want[i],
                                (unsigned long long)got[i]);
        }
        if (different)
                (void)printf("%s %s: %d of %d differ%s", r->approx ? "APPROX" : "DIFFER", r->text, different, N,
                        r->approx ? "" : "\n");
        if (different && r->approx)
                (void)printf(", by up to %g ulp\n", worst);
        return different && !r->approx;
}

/* Rows of one module: both machines must take it. Returns rows that differ. */
static int try_rows(int from, int to, ds_interp_block *work)
{
        static struct ds_ptx_diags diags;
        static char said[65536];
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        static char log[4096];
        size_t length = 0;
        char *text = emit_module(from, to, &length);
        void *gpu = NULL;
        int options[] = {5, 6}, bad = 0; /* CU_JIT_ERROR_LOG_BUFFER and its size */
        void *values[] = {log, (void *)(uintptr_t)sizeof(log)};

        memset(&diags, 0, sizeof(diags));
        if (!text)
                return 1;
        if (cu.load(&gpu, text, 2, options, values)) {
                if (to - from == 1)
                        (void)printf("GPU refuses %s\n", rows[from].text);
                for (int i = from; to - from > 1 && i < to; i++)
                        bad += try_rows(i, i + 1, work);
                free(text);
                return bad;
        }
        if (ds_ptx_parse(text, length, 0, &diags, &module) || ds_interp_new(module, &diags, &interp)) {
                (void)ds_ptx_diags_format(&diags, "rows", said, sizeof(said));
                if (to - from == 1)
                        (void)printf("INTERPRETER refuses %s\n%s", rows[from].text, said);
                for (int i = from; to - from > 1 && i < to; i++)
                        bad += try_rows(i, i + 1, work);
                free(text);
                (void)cu.unload(gpu);
                return to - from == 1 ? 1 : bad;
        }
        for (int i = from; i < to; i++) {
                fill(&rows[i], in[0], in[1], in[2]);
                memset(got, 0, sizeof(got));
                if (!on_gpu(gpu, i))
                        (void)printf("GPU fails on %s\n", rows[i].text);
                else
                        bad += in_interpreter(interp, work, i) ? compare(&rows[i]) : 1;
        }
        free(text);
        (void)cu.unload(gpu);
        return bad;
}

static int print_row(int index)
{
        size_t length = 0;
        char *text = index >= 0 && index < n_rows ? emit_module(index, index + 1, &length) : NULL;

        if (!text)
                return 2;
        (void)printf("// %s\n%s", rows[index].text, text);
        free(text);
        return 0;
}

int main(int argc, char **argv)
{
        ds_cleanup(ds_interp_block_freep) ds_interp_block *work = ds_interp_block_new();
        int bad = 0;

        filter = argc == 2 ? argv[1] : "";
        if (getenv("INTERP_DIFF_SHOW"))
                show = atoi(getenv("INTERP_DIFF_SHOW"));
        integer_rows();
        bit_rows();
        float_rows();
        half_rows();
        compare_rows();
        convert_rows();
        warp_rows();
        atomic_rows();
        if (argc == 3)
                return print_row(atoi(argv[2]));
        if (!open_gpu() || cu.alloc(&gpu_memory, 5 * sizeof(got))) {
                (void)fprintf(stderr, "no GPU\n");
                return 3;
        }
        for (int i = 0; work && i < n_rows; i += 40)
                bad += try_rows(i, i + 40 < n_rows ? i + 40 : n_rows, work);
        (void)printf("%d instructions compared, %d differ\n", n_rows, bad);
        return bad || !work;
}
