/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of matrix instructions and test operands. Users are the comparison with a GPU (tests/gpu/tensor_diff.c) and
 * the test that compares the interpreter with results of a GPU (test_interp_tensor.c).
 *
 * Each row becomes a kernel in which one warp per case loads its registers, executes the instruction and stores the
 * result, register by register. This shows both the arithmetic and the places of elements in the lanes. The operands
 * are the same in every run: sixteen kinds of cases, from ordinary numbers to numbers that show which bits are cut off.
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

#define TENSOR_CASES 128
#define TENSOR_MAX 600
#define TENSOR_LANES 32
#define TENSOR_IN_WORDS 48 /* maximum of 32-bit words per lane */
#define TENSOR_OUT_WORDS 16

/* Type of the values in an operand's registers. */
enum tensor_kind {
        T_NONE,
        T_F16,
        T_BF16,
        T_TF32,
        T_F32,
        T_F64,
        T_E4M3,
        T_E5M2,
        T_INT,
        T_META,      /* metadata that selects two of four elements */
        T_META_TF32, /* metadata that selects one of two elements */
};

struct tensor_row {
        char text[256];
        enum tensor_kind kind[4]; /* kinds of the operands a, b, c and of the metadata */
        uint8_t n[4];             /* number of registers of each of these operands */
        enum tensor_kind d;
        uint8_t nd;
};

static struct tensor_row tensor_rows[TENSOR_MAX];
static int n_tensor_rows;
static const char *tensor_filter = "";

/* Adds a row. In its text %A %B %C %D become {registers}, %M the metadata, %P the address of a's words in memory, %Q
 * the address of the results, %S the address of the lane's word of shared memory. */
static inline void tensor_add(enum tensor_kind d, uint32_t nd, enum tensor_kind a, uint32_t na, enum tensor_kind b,
        uint32_t nb, enum tensor_kind c, uint32_t nc, const char *fmt, ...) ds_printf(9, 10);
static inline void tensor_add(enum tensor_kind d, uint32_t nd, enum tensor_kind a, uint32_t na, enum tensor_kind b,
        uint32_t nb, enum tensor_kind c, uint32_t nc, const char *fmt, ...)
{
        struct tensor_row *r = &tensor_rows[n_tensor_rows];
        va_list args;

        *r = (struct tensor_row){
                .kind = {a, b, c, T_NONE}, .n = {(uint8_t)na, (uint8_t)nb, (uint8_t)nc, 0}, .d = d, .nd = (uint8_t)nd};
        va_start(args, fmt);
        (void)vsnprintf(r->text, sizeof(r->text), fmt, args);
        va_end(args);
        if (strstr(r->text, "%M")) {
                r->kind[3] = a == T_TF32 ? T_META_TF32 : T_META;
                r->n[3] = 1;
        }
        if (strstr(r->text, tensor_filter) && n_tensor_rows < TENSOR_MAX - 1)
                n_tensor_rows++;
}

/* --- the table --- */
static inline void tensor_mma_f16(void)
{
        static const char *const layouts[] = {"row", "col"};

        for (int i = 0; i < 4; i++) {
                const char *la = layouts[i >> 1], *lb = layouts[i & 1];

                tensor_add(T_F16, 4, T_F16, 2, T_F16, 2, T_F16, 4,
                        "mma.sync.aligned.m8n8k4.%s.%s.f16.f16.f16.f16 %%D, %%A, %%B, %%C;", la, lb);
                tensor_add(T_F32, 8, T_F16, 2, T_F16, 2, T_F16, 4,
                        "mma.sync.aligned.m8n8k4.%s.%s.f32.f16.f16.f16 %%D, %%A, %%B, %%C;", la, lb);
                tensor_add(T_F32, 8, T_F16, 2, T_F16, 2, T_F32, 8,
                        "mma.sync.aligned.m8n8k4.%s.%s.f32.f16.f16.f32 %%D, %%A, %%B, %%C;", la, lb);
        }
        for (uint32_t k = 1; k <= 2; k++) {
                tensor_add(T_F16, 2, T_F16, 2 * k, T_F16, k, T_F16, 2,
                        "mma.sync.aligned.m16n8k%u.row.col.f16.f16.f16.f16 %%D, %%A, %%B, %%C;", 8 * k);
                tensor_add(T_F32, 4, T_F16, 2 * k, T_F16, k, T_F32, 4,
                        "mma.sync.aligned.m16n8k%u.row.col.f32.f16.f16.f32 %%D, %%A, %%B, %%C;", 8 * k);
                tensor_add(T_F32, 4, T_BF16, 2 * k, T_BF16, k, T_F32, 4,
                        "mma.sync.aligned.m16n8k%u.row.col.f32.bf16.bf16.f32 %%D, %%A, %%B, %%C;", 8 * k);
                tensor_add(T_F32, 4, T_TF32, 2 * k, T_TF32, k, T_F32, 4,
                        "mma.sync.aligned.m16n8k%u.row.col.f32.tf32.tf32.f32 %%D, %%A, %%B, %%C;", 4 * k);
        }
}

static inline void tensor_mma_fp8(void)
{
        static const char *const names[] = {"e4m3", "e5m2"};

        for (int i = 0; i < 4; i++) {
                const char *a = names[i >> 1], *b = names[i & 1];
                enum tensor_kind ka = i >> 1 ? T_E5M2 : T_E4M3, kb = i & 1 ? T_E5M2 : T_E4M3;

                for (uint32_t k = 1; k <= 2; k++) {
                        tensor_add(T_F16, 2, ka, 2 * k, kb, k, T_F16, 2,
                                "mma.sync.aligned.m16n8k%u.row.col.f16.%s.%s.f16 %%D, %%A, %%B, %%C;", 16 * k, a, b);
                        tensor_add(T_F32, 4, ka, 2 * k, kb, k, T_F32, 4,
                                "mma.sync.aligned.m16n8k%u.row.col.f32.%s.%s.f32 %%D, %%A, %%B, %%C;", 16 * k, a, b);
                }
                tensor_add(T_F32, 4, ka, 4, kb, 4, T_F32, 4,
                        "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.%s.%s.f32 %%D, %%A, %%B, %%C, %%M, "
                        "0x0;",
                        a, b);
        }
}

static inline void tensor_mma_f64(void)
{
        static const char *const rounds[] = {"", ".rn", ".rz", ".rm", ".rp"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(rounds); i++) {
                tensor_add(T_F64, 2, T_F64, 1, T_F64, 1, T_F64, 2,
                        "mma.sync.aligned.m8n8k4.row.col%s.f64.f64.f64.f64 %%D, %%A, %%B, %%C;", rounds[i]);
                for (uint32_t k = 1; k <= 4; k *= 2)
                        tensor_add(T_F64, 4, T_F64, 2 * k, T_F64, k, T_F64, 4,
                                "mma.sync.aligned.m16n8k%u.row.col%s.f64.f64.f64.f64 %%D, %%A, %%B, %%C;", 4 * k,
                                rounds[i]);
        }
}

static inline void tensor_mma_int(void)
{
        static const char *const types[2][2] = {{"s8", "u8"}, {"s4", "u4"}};

        for (int i = 0; i < 16; i++) {
                const char *sat = i & 1 ? ".satfinite" : "", *a = types[i >> 3][i >> 1 & 1],
                           *b = types[i >> 3][i >> 2 & 1];
                uint32_t unit = i >> 3 ? 32 : 16;

                tensor_add(T_INT, 2, T_INT, 1, T_INT, 1, T_INT, 2,
                        "mma.sync.aligned.m8n8k%u.row.col%s.s32.%s.%s.s32 %%D, %%A, %%B, %%C;", unit, sat, a, b);
                for (uint32_t k = 1; k <= 2; k++)
                        tensor_add(T_INT, 4, T_INT, 2 * k, T_INT, k, T_INT, 4,
                                "mma.sync.aligned.m16n8k%u.row.col%s.s32.%s.%s.s32 %%D, %%A, %%B, %%C;", unit * k, sat,
                                a, b);
                tensor_add(T_INT, 4, T_INT, 4, T_INT, 4, T_INT, 4,
                        "mma.sp::ordered_metadata.sync.aligned.m16n8k%u.row.col%s.s32.%s.%s.s32 %%D, %%A, %%B, %%C, "
                        "%%M, 0x0;",
                        unit * 4, sat, a, b);
                for (uint32_t f = 0; f < 2; f++)
                        tensor_add(T_INT, 4, T_INT, 2, T_INT, 2, T_INT, 4,
                                "mma.sp::ordered_metadata.sync.aligned.m16n8k%u.row.col%s.s32.%s.%s.s32 %%D, %%A, "
                                "%%B, %%C, %%M, 0x%u;",
                                unit * 2, sat, a, b, f);
        }
        for (int i = 0; i < 2; i++) {
                const char *op = i ? "and" : "xor";

                tensor_add(T_INT, 2, T_INT, 1, T_INT, 1, T_INT, 2,
                        "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.%s.popc %%D, %%A, %%B, %%C;", op);
                for (uint32_t k = 1; k <= 2; k++)
                        tensor_add(T_INT, 4, T_INT, 2 * k, T_INT, k, T_INT, 4,
                                "mma.sync.aligned.m16n8k%u.row.col.s32.b1.b1.s32.%s.popc %%D, %%A, %%B, %%C;", 128 * k,
                                op);
        }
}

static inline void tensor_mma_sparse(void)
{
        static const struct {
                const char *a, *c;
                enum tensor_kind ka, kc;
                uint32_t nc, unit;
        } forms[] = {{"f16", "f16", T_F16, T_F16, 2, 16}, {"f16", "f32", T_F16, T_F32, 4, 16},
                {"bf16", "f32", T_BF16, T_F32, 4, 16}, {"tf32", "f32", T_TF32, T_F32, 4, 8}};
        static const char *const how[] = {"", "::ordered_metadata"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(forms); i++) {
                for (uint32_t f = 0; f < 4; f++)
                        tensor_add(forms[i].kc, forms[i].nc, forms[i].ka, 2, forms[i].ka, 2, forms[i].kc, forms[i].nc,
                                "mma.sp%s.sync.aligned.m16n8k%u.row.col.%s.%s.%s.%s %%D, %%A, %%B, %%C, %%M, 0x%u;",
                                how[f & 1], forms[i].unit, forms[i].c, forms[i].a, forms[i].a, forms[i].c, f);
                for (uint32_t f = 0; f < 2; f++)
                        tensor_add(forms[i].kc, forms[i].nc, forms[i].ka, 4, forms[i].ka, 4, forms[i].kc, forms[i].nc,
                                "mma.sp%s.sync.aligned.m16n8k%u.row.col.%s.%s.%s.%s %%D, %%A, %%B, %%C, %%M, 0x%u;",
                                how[f & 1], 2 * forms[i].unit, forms[i].c, forms[i].a, forms[i].a, forms[i].c, f);
        }
}

static inline void tensor_moves(void)
{
        for (uint32_t n = 1; n <= 4; n *= 2) {
                for (int i = 0; i < 2; i++) {
                        const char *trans = i ? ".trans" : "";

                        tensor_add(T_INT, n, T_INT, 4, T_NONE, 0, T_NONE, 0,
                                "st.shared.v4.b32 [%%S], %%A; bar.warp.sync -1; "
                                "ldmatrix.sync.aligned.m8n8.x%u%s.shared.b16 %%D, [%%T];",
                                n, trans);
                        tensor_add(T_INT, 4, T_INT, n, T_NONE, 0, T_NONE, 0,
                                "st.shared.v4.b32 [%%S], {%%n, %%n, %%n, %%n}; bar.warp.sync -1; "
                                "stmatrix.sync.aligned.m8n8.x%u%s.shared.b16 [%%T], %%A; bar.warp.sync -1; "
                                "ld.shared.v4.b32 %%D, [%%S];",
                                n, trans);
                }
        }
        tensor_add(T_INT, 1, T_INT, 1, T_NONE, 0, T_NONE, 0, "movmatrix.sync.aligned.m8n8.trans.b16 %%d0, %%a0;");
}

/* wmma: shapes, with the number of registers of a and b for 16-bit and for 8-bit elements. */
static const struct {
        const char *name;
        uint32_t m, n, k, a8, b8;
} tensor_shapes[] = {{"m16n16k16", 16, 16, 16, 2, 2}, {"m8n32k16", 8, 32, 16, 1, 4}, {"m32n8k16", 32, 8, 16, 4, 1}};

/* Adds rows with a load and a store of a fragment of rows x columns elements in both layouts. */
static inline void tensor_wmma_access(const char *what, const char *shape, const char *type, enum tensor_kind k,
        uint32_t registers, uint32_t rows, uint32_t columns, uint32_t bits)
{
        for (int col = 0; col < 2; col++) {
                uint32_t major = col ? columns : rows, minor = col ? rows : columns, ld = minor + 128 / bits;
                uint32_t words = (major * ld * bits + 1023) / 1024;

                /* elements below 8 bits exist only in the layout of the multiplication */
                if (bits < 8 && col != (what[0] == 'b'))
                        continue;
                if (bits < 8)
                        ld = minor + (bits == 1 ? 128 : 32);
                if (bits < 8)
                        words = (major * ld * bits + 1023) / 1024;
                tensor_add(k, registers, k, k == T_F64 ? (words + 1) / 2 : words, T_NONE, 0, T_NONE, 0,
                        "wmma.load.%s.sync.aligned.%s.%s.global.%s %%D, [%%P], %u;", what, col ? "col" : "row", shape,
                        type, ld);
                if (what[0] == 'c') /* the results need as many words as the store writes */
                        tensor_add(T_NONE, k == T_F64 ? (words + 1) / 2 : words, k, registers, T_NONE, 0, T_NONE, 0,
                                "wmma.store.d.sync.aligned.%s.%s.global.%s [%%Q], %%A, %u;", col ? "col" : "row", shape,
                                type, ld);
        }
}

static inline void tensor_wmma_f16(void)
{
        for (size_t s = 0; s < DS_ARRAY_SIZE(tensor_shapes); s++) {
                const char *name = tensor_shapes[s].name;
                uint32_t m = tensor_shapes[s].m, n = tensor_shapes[s].n, a8 = tensor_shapes[s].a8,
                         b8 = tensor_shapes[s].b8;

                tensor_wmma_access("a", name, "f16", T_F16, 8, m, 16, 16);
                tensor_wmma_access("b", name, "f16", T_F16, 8, 16, n, 16);
                tensor_wmma_access("c", name, "f16", T_F16, 4, m, n, 16);
                tensor_wmma_access("c", name, "f32", T_F32, 8, m, n, 32);
                tensor_wmma_access("a", name, "bf16", T_BF16, 2 * a8, m, 16, 16);
                tensor_wmma_access("b", name, "bf16", T_BF16, 2 * b8, 16, n, 16);
                for (int i = 0; i < 4; i++) {
                        const char *la = i >> 1 ? "col" : "row", *lb = i & 1 ? "col" : "row";

                        for (int t = 0; t < 4; t++)
                                tensor_add(t & 1 ? T_F32 : T_F16, t & 1 ? 8 : 4, T_F16, 8, T_F16, 8,
                                        t & 2 ? T_F32 : T_F16, t & 2 ? 8 : 4,
                                        "wmma.mma.sync.aligned.%s.%s.%s.%s.%s %%D, %%A, %%B, %%C;", la, lb, name,
                                        t & 1 ? "f32" : "f16", t & 2 ? "f32" : "f16");
                        tensor_add(T_F32, 8, T_BF16, 2 * a8, T_BF16, 2 * b8, T_F32, 8,
                                "wmma.mma.sync.aligned.%s.%s.%s.f32.bf16.bf16.f32 %%D, %%A, %%B, %%C;", la, lb, name);
                }
        }
        tensor_wmma_access("a", "m16n16k8", "tf32", T_TF32, 4, 16, 8, 32);
        tensor_wmma_access("b", "m16n16k8", "tf32", T_TF32, 4, 8, 16, 32);
        tensor_wmma_access("c", "m16n16k8", "f32", T_F32, 8, 16, 16, 32);
        tensor_wmma_access("a", "m8n8k4", "f64", T_F64, 1, 8, 4, 64);
        tensor_wmma_access("b", "m8n8k4", "f64", T_F64, 1, 4, 8, 64);
        tensor_wmma_access("c", "m8n8k4", "f64", T_F64, 2, 8, 8, 64);
        for (int i = 0; i < 4; i++) {
                const char *la = i >> 1 ? "col" : "row", *lb = i & 1 ? "col" : "row";

                tensor_add(T_F32, 8, T_TF32, 4, T_TF32, 4, T_F32, 8,
                        "wmma.mma.sync.aligned.%s.%s.m16n16k8.f32.tf32.tf32.f32 %%D, %%A, %%B, %%C;", la, lb);
                tensor_add(T_F64, 2, T_F64, 1, T_F64, 1, T_F64, 2,
                        "wmma.mma.sync.aligned.%s.%s.m8n8k4.rn.f64.f64.f64.f64 %%D, %%A, %%B, %%C;", la, lb);
        }
}

static inline void tensor_wmma_int(void)
{
        static const char *const types[] = {"s8", "u8"}, *const narrow[] = {"s4", "u4"};

        for (size_t s = 0; s < DS_ARRAY_SIZE(tensor_shapes); s++) {
                const char *name = tensor_shapes[s].name;
                uint32_t m = tensor_shapes[s].m, n = tensor_shapes[s].n, a8 = tensor_shapes[s].a8,
                         b8 = tensor_shapes[s].b8;

                tensor_wmma_access("a", name, "s8", T_INT, a8, m, 16, 8);
                tensor_wmma_access("b", name, "u8", T_INT, b8, 16, n, 8);
                tensor_wmma_access("c", name, "s32", T_INT, 8, m, n, 32);
                for (int i = 0; i < 16; i++)
                        tensor_add(T_INT, 8, T_INT, a8, T_INT, b8, T_INT, 8,
                                "wmma.mma.sync.aligned.%s.%s.%s.s32.%s.%s.s32%s %%D, %%A, %%B, %%C;",
                                i & 1 ? "col" : "row", i & 2 ? "col" : "row", name, types[i >> 2 & 1],
                                types[i >> 2 & 1], i & 8 ? ".satfinite" : "");
        }
        tensor_wmma_access("a", "m8n8k32", "s4", T_INT, 1, 8, 32, 4);
        tensor_wmma_access("b", "m8n8k32", "u4", T_INT, 1, 32, 8, 4);
        tensor_wmma_access("c", "m8n8k32", "s32", T_INT, 2, 8, 8, 32);
        tensor_wmma_access("a", "m8n8k128", "b1", T_INT, 1, 8, 128, 1);
        tensor_wmma_access("b", "m8n8k128", "b1", T_INT, 1, 128, 8, 1);
        tensor_wmma_access("c", "m8n8k128", "s32", T_INT, 2, 8, 8, 32);
        for (int i = 0; i < 4; i++)
                tensor_add(T_INT, 2, T_INT, 1, T_INT, 1, T_INT, 2,
                        "wmma.mma.sync.aligned.row.col.m8n8k32.s32.%s.%s.s32%s %%D, %%A, %%B, %%C;", narrow[i & 1],
                        narrow[i & 1], i & 2 ? ".satfinite" : "");
        for (int i = 0; i < 2; i++)
                tensor_add(T_INT, 2, T_INT, 1, T_INT, 1, T_INT, 2,
                        "wmma.mma.%s.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32 %%D, %%A, %%B, %%C;",
                        i ? "and" : "xor");
}

/* Builds the table with the rows whose text contains filter. */
static inline void tensor_make(const char *filter)
{
        tensor_filter = filter;
        n_tensor_rows = 0;
        tensor_mma_f16();
        tensor_mma_fp8();
        tensor_mma_f64();
        tensor_mma_int();
        tensor_mma_sparse();
        tensor_moves();
        tensor_wmma_f16();
        tensor_wmma_int();
}

/* --- a row as a kernel --- */
static inline uint32_t tensor_words(const struct tensor_row *r, int operand) /* number of 32-bit words per lane */
{
        return r->n[operand] * (r->kind[operand] == T_F64 ? 2u : 1u);
}

static inline uint32_t tensor_in_words(const struct tensor_row *r)
{
        return tensor_words(r, 0) + tensor_words(r, 1) + tensor_words(r, 2) + tensor_words(r, 3);
}

static inline uint32_t tensor_out_words(const struct tensor_row *r)
{
        return r->d == T_F64 || (r->d == T_NONE && r->kind[0] == T_F64) ? 2u * r->nd : r->nd;
}

static inline const char *tensor_type(enum tensor_kind k)
{
        return k == T_F64 ? "f64" : k == T_F32 ? "f32" : "b32";
}

/* Writes the operand's registers as a vector, for example {%a0, %a1}. */
static inline void tensor_emit_vector(FILE *f, char name, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                (void)fprintf(f, "%s%%%c%u", i ? ", " : "{", name, i);
        (void)fprintf(f, "}");
}

static inline void tensor_emit_text(FILE *f, const struct tensor_row *r)
{
        for (const char *p = r->text; *p; p++) {
                if (p[0] != '%') {
                        (void)fputc(*p, f);
                        continue;
                }
                switch (*++p) {
                case 'A':
                        tensor_emit_vector(f, 'a', r->n[0]);
                        break;
                case 'B':
                        tensor_emit_vector(f, 'b', r->n[1]);
                        break;
                case 'C':
                        tensor_emit_vector(f, 'c', r->n[2]);
                        break;
                case 'D':
                        tensor_emit_vector(f, 'd', r->nd);
                        break;
                case 'M':
                        (void)fprintf(f, "%%m0");
                        break;
                case 'P':
                case 'Q':
                case 'S':
                case 'T':
                        (void)fprintf(f, "%%%c", *p - 'A' + 'a');
                        break;
                default:
                        (void)fprintf(f, "%%%c", *p);
                }
        }
        (void)fputc('\n', f);
}

/* Loads one operand's registers: word w of lane l of a case lies at (first word of the operand + w) * 128 + l *
 * size. */
static inline uint32_t tensor_emit_loads(FILE *f, const struct tensor_row *r, int operand, uint32_t at)
{
        enum tensor_kind k = r->kind[operand];
        uint32_t size = k == T_F64 ? 8 : 4;

        if (!r->n[operand])
                return at;
        (void)fprintf(f, "\t.reg .%s %%%c<%u>;\n", tensor_type(k), "abcm"[operand], r -> n[operand]);
        for (uint32_t i = 0; i < r->n[operand] && !strstr(r->text, "%P"); i++)
                (void)fprintf(f, "\tld.global.%s %%%c%u, [%%%c+%u];\n", tensor_type(k), "abcm"[operand], i,
                        size == 8 ? 'y' : 'x', at + i * 32 * size);
        return at + r->n[operand] * 32 * size;
}

static inline void tensor_emit_kernel(FILE *f, const struct tensor_row *r, int index)
{
        uint32_t at = 0, size = r->d == T_F64 ? 8 : 4;

        (void)fprintf(f,
                ".visible .entry k%d(.param .u64 p0, .param .u64 p1)\n{\n"
                "\t.shared .align 16 .b8 tile%d[512];\n"
                "\t.reg .b32 %%l, %%n, %%s, %%t;\n\t.reg .b64 %%x, %%y, %%p, %%q, %%o, %%w;\n"
                "\tld.param.u64 %%p, [p0];\n\tld.param.u64 %%q, [p1];\n"
                "\tcvta.to.global.u64 %%p, %%p;\n\tcvta.to.global.u64 %%q, %%q;\n"
                "\tmov.u32 %%l, %%tid.x;\n\tmov.u32 %%n, %%ctaid.x;\n"
                "\tmul.wide.u32 %%x, %%n, %u;\n\tadd.s64 %%p, %%p, %%x;\n"
                "\tmul.wide.u32 %%x, %%n, %u;\n\tadd.s64 %%q, %%q, %%x;\n"
                "\tmul.wide.u32 %%w, %%l, 4;\n\tadd.s64 %%x, %%p, %%w;\n\tadd.s64 %%y, %%x, %%w;\n"
                "\tmul.wide.u32 %%w, %%l, %u;\n\tadd.s64 %%o, %%q, %%w;\n",
                index, index, tensor_in_words(r) * 128, tensor_out_words(r) * 128, size);
        (void)fprintf(f,
                "\tmov.u32 %%s, tile%d;\n\tshl.b32 %%t, %%l, 4;\n\tadd.s32 %%s, %%s, %%t;\n"
                "\txor.b32 %%t, %%l, %%n;\n\tand.b32 %%t, %%t, 31;\n\tshl.b32 %%t, %%t, 4;\n"
                "\tmov.u32 %%l, tile%d;\n\tadd.s32 %%t, %%l, %%t;\n",
                index, index);
        for (int k = 0; k < 4; k++)
                at = tensor_emit_loads(f, r, k, at);
        if (r->d != T_NONE)
                (void)fprintf(f, "\t.reg .%s %%d<%u>;\n", tensor_type(r->d), r->nd);
        (void)fputc('\t', f);
        tensor_emit_text(f, r);
        for (uint32_t i = 0; i < r->nd && r->d != T_NONE; i++)
                (void)fprintf(f, "\tst.global.%s [%%o+%u], %%d%u;\n", tensor_type(r->d), i * 32 * size, i);
        (void)fprintf(f, "\tret;\n}\n");
}

static inline char *tensor_emit_module(int from, int to, size_t *length)
{
        char *text = NULL;
        FILE *f = open_memstream(&text, length);

        if (!f)
                return NULL;
        (void)fprintf(f, ".version 8.7\n.target sm_90\n.address_size 64\n");
        for (int i = from; i < to; i++)
                tensor_emit_kernel(f, &tensor_rows[i], i);
        (void)fclose(f);
        return text;
}

/* --- values --- */
static uint64_t tensor_state;

static inline uint32_t tensor_random(void)
{
        tensor_state = tensor_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)(tensor_state >> 32);
}

static const struct {
        int mantissa, bias, bits;
        int most; /* largest exponent of finite numbers */
} tensor_formats[] = {[T_F16] = {10, 15, 16, 30},
        [T_BF16] = {7, 127, 16, 254},
        [T_TF32] = {23, 127, 32, 254}, /* mantissa including the bits that the instruction ignores */
        [T_F32] = {23, 127, 32, 254},
        [T_F64] = {52, 1023, 64, 2046},
        [T_E4M3] = {3, 7, 8, 15},
        [T_E5M2] = {2, 15, 8, 30}};

/* A number of size 2^e, or the nearest representable one, with this many random bits after the first. */
static inline uint64_t tensor_number(enum tensor_kind k, int e, int bits)
{
        int mantissa = tensor_formats[k].mantissa, biased = e + tensor_formats[k].bias;
        uint64_t high = tensor_random(), m = high << 32 | tensor_random();

        m &= (UINT64_C(1) << mantissa) - 1;
        if (bits < mantissa)
                m &= ~((UINT64_C(1) << (mantissa - bits)) - 1);
        biased = biased < 0 ? 0 : biased > tensor_formats[k].most ? tensor_formats[k].most : biased;
        if (k == T_E4M3 && biased == 15)
                m &= ~UINT64_C(1);
        m |= (uint64_t)biased << mantissa;
        return m | (uint64_t)(tensor_random() & 1) << (tensor_formats[k].bits - 1);
}

static inline uint64_t tensor_edge(enum tensor_kind k)
{
        int mantissa = tensor_formats[k].mantissa;
        uint64_t one = UINT64_C(1) << mantissa, top = (uint64_t)tensor_formats[k].most;
        uint64_t sign = (uint64_t)(tensor_random() & 1) << (tensor_formats[k].bits - 1);

        switch (tensor_random() % 10) {
        case 0:
                return sign;
        case 1:
                return sign | 1;
        case 2:
                return sign | (one - 1);
        case 3:
                return sign | one;
        case 4:
                return sign | ((uint64_t)tensor_formats[k].bias << mantissa);
        case 5:
                return sign | (((uint64_t)tensor_formats[k].bias << mantissa) + 1);
        case 6:
                return sign | (k == T_E4M3 ? 0x7e : (top << mantissa) + one - 1);
        case 7:
                return sign | (k == T_E4M3 ? 0x7f : (top + 1) << mantissa); /* the value is infinity */
        case 8:
                return sign | (k == T_E4M3 ? 0x7f : ((top + 1) << mantissa) + one / 2); /* the value is NaN */
        default:
                return sign | (k == T_E4M3 ? 0x7f : ((top + 1) << mantissa) + (tensor_random() & 1 ? one - 1 : 1));
        }
}

static inline int tensor_between(int low, int high)
{
        return low + (int)(tensor_random() % (uint32_t)(high - low + 1));
}

/* An element of operand 0, 1, 2 (a, b, c) for this kind of case. */
static inline uint64_t tensor_element(enum tensor_kind k, int kind, int operand)
{
        int all = tensor_formats[k].mantissa, c = operand == 2, rare = tensor_random() % 8 == 0;

        switch (kind) {
        case 2:
                return tensor_number(k, tensor_between(-12, 12), all);
        case 3:
                return (uint64_t)tensor_random() << 32 | tensor_random();
        case 4:
                return tensor_edge(k);
        case 5:
                return tensor_random() % 4 ? 0 : tensor_number(k, tensor_between(-15, 15), all);
        case 6:
                return tensor_random() % 4 ? 0 : tensor_number(k, tensor_between(-7, 7), 2);
        case 7:
                return tensor_number(k, tensor_between(-10, 10), 0);
        case 8:
                return tensor_number(k, rare ? -tensor_between(0, 13) : 0, 0);
        case 9:
                if (operand == 1)
                        return tensor_number(k, 0, 0);
                return tensor_number(k, rare ? tensor_between(8, 12) : -tensor_between(8, 14), c ? all : 1);
        case 10: /* case 10: products below and around the smallest numbers */
                return tensor_number(k, operand == 1 ? tensor_between(-9, 3) : -tensor_formats[k].bias, all);
        case 11:
                return tensor_number(k, tensor_between(0, tensor_formats[k].most) - tensor_formats[k].bias, all);
        case 12: /* case 12: c has an exponent very different from the products' */
                return tensor_number(k, !c ? tensor_between(-2, 2) : rare ? 0 : tensor_between(-34, 34), all);
        case 13: /* case 13: the largest numbers */
                if (c)
                        return tensor_number(k, tensor_formats[k].most - tensor_formats[k].bias, all);
                return tensor_number(k, tensor_formats[k].most / 4 - tensor_between(0, 2), all);
        case 14:
                return tensor_random() % 48 ? tensor_number(k, tensor_between(-3, 3), all) : tensor_edge(k);
        case 15:
                return tensor_number(k, rare ? 0 : -9999, 0);
        default:
                return tensor_number(k, tensor_between(-3, 3), all);
        }
}

static inline uint32_t tensor_int(int kind, int operand)
{
        uint32_t r = tensor_random();

        switch (kind % 4) {
        case 0:
                return r;
        case 1:
                return operand == 2 ? r % 2000 - 1000 : r & 0x13131313;
        case 2:
                return operand == 2 ? (r & 1 ? 0x7fffffff - r % 4096 : 0x80000000 + r % 4096) : r;
        default:
                return operand == 2 ? r : r & 1 ? 0x80808080 : r & 2 ? 0x7f7f7f7f : 0xffffffff;
        }
}

/* Metadata: every four bits select two of four elements, the lower one first. */
static inline uint32_t tensor_meta(enum tensor_kind k)
{
        static const uint32_t pairs[] = {4, 8, 12, 9, 13, 14}, halves[] = {4, 14};
        uint32_t word = 0;

        for (int i = 0; i < 8; i++)
                word = word << 4 | (k == T_META ? pairs[tensor_random() % 6] : halves[tensor_random() % 2]);
        return word;
}

static inline uint64_t tensor_register(enum tensor_kind k, int kind, int operand)
{
        uint64_t value = 0;

        switch (k) {
        case T_INT:
                return tensor_int(kind, operand);
        case T_META:
        case T_META_TF32:
                return tensor_meta(k);
        default:
                for (int i = 0; i < 32; i += tensor_formats[k].bits)
                        value = value << (tensor_formats[k].bits & 31) | tensor_element(k, kind, operand);
                return value;
        }
}

/* Makes the operands of one round of cases. The first round is the recorded one. */
static inline void tensor_fill(const struct tensor_row *r, uint32_t round, uint32_t *in)
{
        uint32_t words = tensor_in_words(r);

        tensor_state = 88172645 + UINT64_C(77777) * round;
        for (int c = 0; c < TENSOR_CASES; c++) {
                uint32_t *to = in + (size_t)c * words * TENSOR_LANES;

                for (int k = 0; k < 4; k++) {
                        for (uint32_t i = 0; i < (uint32_t)r->n[k] * TENSOR_LANES; i++) {
                                uint64_t value = tensor_register(r->kind[k], c % 16, k);
                                uint32_t bytes = r->kind[k] == T_F64 ? 8 : 4;

                                memcpy(to, &value, bytes);
                                to += bytes / 4;
                        }
                }
        }
}

/* Hash of n words, by FNV-1a. */
static inline uint64_t tensor_hash(const uint32_t *values, size_t n)
{
        uint64_t h = UINT64_C(14695981039346656037);

        for (size_t i = 0; i < n; i++)
                h = (h ^ values[i]) * UINT64_C(1099511628211);
        return h;
}

#define TENSOR_IN_ALL (TENSOR_CASES * TENSOR_LANES * TENSOR_IN_WORDS)
#define TENSOR_OUT_ALL (TENSOR_CASES * TENSOR_LANES * TENSOR_OUT_WORDS)

static inline size_t tensor_results(const struct tensor_row *r)
{
        return (size_t)TENSOR_CASES * TENSOR_LANES * tensor_out_words(r);
}

/* Runs row `index` of a loaded module on in; results go to got. Returns a fault's message, or NULL. */
static inline const char *tensor_run(
        const ds_interp *interp, ds_interp_block *work, int index, const uint32_t *in, uint32_t *got)
{
        static uint32_t memory[TENSOR_IN_ALL + TENSOR_OUT_ALL] __attribute__((__aligned__(256)));
        static struct ds_interp_result result;
        struct ds_interp_range range = {.va = (uintptr_t)memory, .size = sizeof(memory)};
        uint64_t args[2] = {(uintptr_t)memory, (uintptr_t)(memory + TENSOR_IN_ALL)};
        struct ds_interp_launch l = {.grid = {TENSOR_CASES, 1, 1},
                .block = {TENSOR_LANES, 1, 1},
                .params = args,
                .params_size = sizeof(args),
                .ranges = &range,
                .n_ranges = 1};
        const struct tensor_row *r = &tensor_rows[index];
        char name[16];

        memcpy(memory, in, sizeof(uint32_t) * TENSOR_CASES * TENSOR_LANES * tensor_in_words(r));
        memset(memory + TENSOR_IN_ALL, 0, sizeof(uint32_t) * TENSOR_OUT_ALL);
        (void)snprintf(name, sizeof(name), "k%d", index);
        l.kernel = ds_interp_find_kernel(interp, name);
        for (uint32_t b = 0; l.kernel && b < TENSOR_CASES; b++) {
                if (ds_interp_run_block(work, &l, b, 0, 0, &result) || result.fault)
                        return result.message;
        }
        memcpy(got, memory + TENSOR_IN_ALL, sizeof(uint32_t) * tensor_results(r));
        return l.kernel ? NULL : "no such kernel";
}
