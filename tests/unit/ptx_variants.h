/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variants of every instruction, generated from the rows of opcodes.def and a seed
 *
 * A variant is one statement: the mnemonic with some of the dotted words and types that its row allows, and operands
 * that fit them or, now and then, do not. Most combinations are wrong somewhere. They serve to compare the verdict of
 * our front end with that of NVIDIA's assembler. Registers are those of PTX_VARIANTS_HEAD.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ptx/ir.h"
#include "ptx/tables.h"
#include "util/macro.h"

#define PTX_VARIANTS_HEAD                                                                                             \
        ".address_size 64\n.global .align 16 .b8 garr[64]; .visible .entry k(.param .b64 pa) { "                      \
        ".reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<200>; .reg .b64 %rd<20>; .reg .f32 %f<200>; "              \
        ".reg .f64 %d<20>; .reg .u32 %u<10>; .reg .s32 %s<10>; .reg .u64 %ul<10>; .reg .s64 %sl<10>; "                \
        ".reg .u16 %us<10>; .reg .s16 %ss<10>; .reg .f16 %hf<10>; .reg .f16x2 %hx<10>; .reg .b8 %b<10>; "             \
        ".reg .u8 %ub<10>; .reg .s8 %sb<10>; .reg .b128 %q<4>; .shared .align 16 .b8 sarr[64]; .local .align 16 .b8 " \
        "larr[64];\n"

struct ptx_variant {
        enum ds_ptx_op op;
        uint64_t seed;
        uint16_t mods[DS_PTX_MAX_WORDS];
        uint32_t n_mods, n_types;
        uint8_t types[DS_PTX_MAX_TYPES];
        uint32_t shape[3];
        char text[4096];
        size_t length;
};

struct ptx_modifier_row {
        uint8_t slot;
        const char *word;
};

static const struct ptx_modifier_row ptx_modifier_rows[] = {
        {DS_PTX_SLOT_NONE, ""},
#define DS_PTX_MODIFIER(slot_, value_, word_) {DS_PTX_SLOT_##slot_, word_},
#include "ptx/modifiers.def"
#undef DS_PTX_MODIFIER
};

/* SplitMix64 (Steele, Lea, Flood 2014) */
static uint64_t ptx_random(struct ptx_variant *v)
{
        uint64_t z = v->seed += UINT64_C(0x9E3779B97F4A7C15);

        z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
        z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
        return z ^ z >> 31;
}

static uint32_t ptx_below(struct ptx_variant *v, uint32_t n)
{
        return (uint32_t)(ptx_random(v) % n);
}

static void __attribute__((__format__(__printf__, 2, 3))) ptx_put(struct ptx_variant *v, const char *fmt, ...)
{
        va_list args;

        va_start(args, fmt);
        v->length += (size_t)vsnprintf(v->text + v->length, sizeof(v->text) - v->length, fmt, args);
        va_end(args);
        v->length = DS_MIN(v->length, sizeof(v->text) - 1);
}

static bool ptx_chose(const struct ptx_variant *v, enum ds_ptx_modifier modifier)
{
        for (uint32_t i = 0; i < v->n_mods; i++)
                if (v->mods[i] == modifier)
                        return true;
        return false;
}

/* --- modifiers --------------------------------------------------------------------------------------------------- */
static void ptx_put_modifier(struct ptx_variant *v, uint32_t slot)
{
        uint32_t first = 0, n = 0;

        for (uint32_t i = 1; i < DS_ARRAY_SIZE(ptx_modifier_rows); i++) {
                if (ptx_modifier_rows[i].slot != slot)
                        continue;
                first = n++ ? first : i;
        }
        first += ptx_below(v, n);
        v->mods[v->n_mods++] = (uint16_t)first;
        ptx_put(v, ".%s", ptx_modifier_rows[first].word);
}

static void ptx_put_type(struct ptx_variant *v, const struct ds_ptx_op_info *info)
{
        uint64_t set = info->types[DS_MIN(v->n_types, 2u)];
        uint32_t n = (uint32_t)__builtin_popcountll(set), pick = ptx_below(v, n);
        uint32_t type = 0;

        /* repeating the previous type often gives a valid combination */
        if (v->n_types && set >> v->types[v->n_types - 1] & 1 && ptx_below(v, 2)) {
                type = v->types[v->n_types - 1];
        } else {
                for (type = 0; !(set >> type & 1) || pick--;)
                        type++;
        }
        v->types[v->n_types++] = (uint8_t)type;
        ptx_put(v, ".%s", ds_ptx_type_name((enum ds_ptx_type)type));
}

static void ptx_put_shape(struct ptx_variant *v, enum ds_ptx_op op)
{
        static const uint16_t shapes[][3] = {{16, 8, 16}, {16, 8, 8}, {8, 8, 4}, {16, 8, 4}, {8, 8, 16}, {16, 8, 32},
                {8, 8, 32}, {16, 8, 64}, {8, 8, 128}, {16, 8, 128}, {16, 8, 256}, {16, 16, 16}, {32, 8, 16},
                {8, 32, 16}, {16, 16, 8}};
        static const uint16_t flat[][2] = {{8, 8}, {8, 16}, {16, 16}};
        static const uint16_t depths[] = {8, 16, 32, 64, 128, 256, 512};
        const struct ds_ptx_op_info *info = ds_ptx_op_info(op);
        uint32_t i;

        if (strncmp(info->mnemonic, "wgmma", 5) == 0) {
                v->shape[0] = 64;
                v->shape[1] = 8 * (1 + ptx_below(v, 32));
                v->shape[2] = depths[ptx_below(v, DS_ARRAY_SIZE(depths))];
        } else if (strstr(info->mnemonic, "matrix")) {
                i = ptx_below(v, DS_ARRAY_SIZE(flat));
                v->shape[0] = flat[i][0];
                v->shape[1] = flat[i][1];
                ptx_put(v, ".m%un%u", v->shape[0], v->shape[1]);
                return;
        } else {
                i = ptx_below(v, DS_ARRAY_SIZE(shapes));
                for (int j = 0; j < 3; j++)
                        v->shape[j] = shapes[i][j];
        }
        ptx_put(v, ".m%un%uk%u", v->shape[0], v->shape[1], v->shape[2]);
}

static void ptx_put_words(struct ptx_variant *v, const struct ds_ptx_op_info *info)
{
        uint32_t optional = 0;

        ptx_put(v, "%s", info->mnemonic);
        for (size_t i = 0; i < DS_ARRAY_SIZE(info->syntax) && info->syntax[i]; i++)
                optional += info->syntax[i] & DS_PTX_SYNTAX_OPTIONAL ? 1 : 0;
        for (size_t i = 0; i < DS_ARRAY_SIZE(info->syntax) && info->syntax[i]; i++) {
                uint32_t slot = info->syntax[i] & ~DS_PTX_SYNTAX_OPTIONAL & 0xff;

                if (info->syntax[i] & DS_PTX_SYNTAX_OPTIONAL && ptx_below(v, 3 + optional) > 2)
                        continue;
                if (slot == DS_PTX_SLOT_TYPE)
                        ptx_put_type(v, info);
                else if (slot == DS_PTX_SLOT_SHAPE)
                        ptx_put_shape(v, v->op);
                else
                        ptx_put_modifier(v, slot);
        }
}

/* --- operands ---------------------------------------------------------------------------------------------------- */
static uint32_t ptx_bits_of(const struct ptx_variant *v, char width)
{
        switch (width) {
        case '0':
        case '1':
        case '2':
        case '3':
                return (uint32_t)(width - '0') < v->n_types ? ds_ptx_type_bits((enum ds_ptx_type)v->types[width - '0'])
                                                            : 32;
        case 'w':
                return ds_ptx_type_bits((enum ds_ptx_type)v->types[0]) << ptx_chose(v, DS_PTX_MUL_WIDE);
        case 'p':
                return 1;
        case 'h':
                return 16;
        case 'q':
        case 'z':
                return 64;
        default:
                return 32;
        }
}

static void ptx_put_register(struct ptx_variant *v, uint32_t bits, bool wider)
{
        static const char *const any[] = {"%p1", "%h2", "%r3", "%rd4", "%f5", "%d6", "%u7", "%s8", "%ul9", "%sl1",
                "%us2", "%ss3", "%hf4", "%hx5", "%b6", "%ub7", "%sb8"};

        if (!ptx_below(v, 16)) {
                ptx_put(v, "%s", any[ptx_below(v, DS_ARRAY_SIZE(any))]);
                return;
        }
        if (wider && !ptx_below(v, 4) && bits < 64)
                bits *= 2;
        switch (bits) {
        case 1:
                ptx_put(v, "%%p%u", ptx_below(v, 10));
                break;
        case 16:
                ptx_put(v, "%%h%u", ptx_below(v, 10));
                break;
        case 64:
                ptx_put(v, "%%rd%u", ptx_below(v, 10));
                break;
        case 128:
                ptx_put(v, "%%q%u", ptx_below(v, 4));
                break;
        default:
                if (bits < 16 && wider)
                        ptx_put(v, "%%h%u", ptx_below(v, 10));
                else
                        ptx_put(v, "%%r%u", ptx_below(v, 10));
        }
}

static void ptx_put_registers(struct ptx_variant *v, uint32_t n, uint32_t bits, bool wider)
{
        ptx_put(v, "{");
        for (uint32_t i = 0; i < n; i++) {
                ptx_put(v, "%s", i ? "," : "");
                ptx_put_register(v, bits, wider);
        }
        ptx_put(v, "}");
}

static void ptx_put_constant(struct ptx_variant *v)
{
        static const char *const constants[] = {"0", "1", "16", "128", "-1", "0xff", "1.5", "0f3F800000",
                "0d3FF0000000000000", "8", "4", "24", "232", "7U"};

        ptx_put(v, "%s", constants[ptx_below(v, DS_ARRAY_SIZE(constants) - (ptx_below(v, 4) ? 6 : 0))]);
}

/* Number of registers that a matrix fragment in operand `operand` needs; 0 if the variant has no shape. */
static uint32_t ptx_fragment(struct ptx_variant *v, uint32_t operand, uint32_t *ret_bits)
{
        const char *mnemonic = ds_ptx_op_info(v->op)->mnemonic;
        uint32_t type = operand == 0 || operand == 3 ? (operand && v->n_types > 3 ? 3 : 0) : operand;
        uint32_t bits = ds_ptx_type_bits((enum ds_ptx_type)v->types[DS_MIN(type, v->n_types - 1)]);
        uint32_t m = v->shape[0], n = v->shape[1], k = v->shape[2];
        uint32_t elements = operand == 1 ? m * k : operand == 2 ? k * n : m * n;

        if (strstr(mnemonic, "matrix"))
                return ptx_chose(v, DS_PTX_NUM_X4) ? 4 : ptx_chose(v, DS_PTX_NUM_X2) ? 2 : 1;
        if (operand == 1 && strstr(mnemonic, ".sp"))
                elements /= 2;
        *ret_bits = bits == 64 ? 64 : 32;
        if (strncmp(mnemonic, "wgmma", 5) == 0)
                return operand ? 4 : elements * DS_MIN(bits, 32u) / 32 / 128;
        if (m == 8 && n == 8 && k == 4 && bits == 16)
                return operand == 0 || operand == 3 ? 4 : 2;
        if (m == 8 && n == 8 && k == 4 && bits == 32)
                return 8;
        if (strncmp(mnemonic, "wmma", 4) == 0 && bits == 16)
                return operand == 0 || operand == 3 ? 4 : ptx_below(v, 3) ? 8 : 4;
        return elements * bits / 32 / *ret_bits;
}

static void ptx_put_value(struct ptx_variant *v, const char *word, size_t n, uint32_t operand)
{
        bool vector = memchr(word, '{', n), any = memchr(word, 'V', n), pair = memchr(word, '|', n);
        bool wider = memchr(word, '+', n) || vector;
        uint32_t bits = ptx_bits_of(v, word[1]), count = ptx_chose(v, DS_PTX_VEC_V2)   ? 2
                                                         : ptx_chose(v, DS_PTX_VEC_V4) ? 4
                                                         : ptx_chose(v, DS_PTX_VEC_V8) ? 8
                                                                                       : 1;

        if (memchr(word, '#', n) || (word[0] == 's' && !any && !vector && !ptx_below(v, 10))) {
                ptx_put_constant(v);
        } else if (any && v->op == DS_PTX_OP_MOV) {
                if (ptx_below(v, 4))
                        ptx_put_register(v, bits, false);
                else
                        ptx_put_registers(v, bits < 64 || ptx_below(v, 2) ? 2 : 4, bits / 2, false);
        } else if (any) {
                bits = 32;
                count = ptx_fragment(v, operand, &bits);
                ptx_put_registers(v, ptx_below(v, 20) && count ? DS_MIN(count, 200u) : 2, bits, false);
        } else if (vector && count > 1) {
                ptx_put_registers(v, count, bits, true);
        } else if (memchr(word, '_', n) && !ptx_below(v, 10)) {
                ptx_put(v, pair && ptx_below(v, 2) ? "_|%%p1" : "_");
        } else {
                if (word[0] == 's' && word[1] == 'p' && !ptx_below(v, 4))
                        ptx_put(v, "!");
                ptx_put_register(v, bits, wider);
                if (pair && ptx_below(v, 2))
                        ptx_put(v, "|%s", ptx_below(v, 8) ? "%p2" : ptx_below(v, 2) ? "_" : "%r1");
        }
}

static void ptx_put_address(struct ptx_variant *v)
{
        static const char *const addresses[] = {"[%rd1]", "[%rd1]", "[%rd1]", "[%rd2+16]", "[%r1]", "[sarr]",
                "[garr+16]", "[larr]", "[%rd1+-16]", "[16]", "[pa]"};

        ptx_put(v, "%s", addresses[ptx_below(v, ptx_below(v, 4) ? 4 : DS_ARRAY_SIZE(addresses))]);
}

static void ptx_put_coordinates(struct ptx_variant *v)
{
        uint32_t n = ptx_chose(v, DS_PTX_DIM_D1)   ? 1
                     : ptx_chose(v, DS_PTX_DIM_D2) ? 2
                     : ptx_chose(v, DS_PTX_DIM_D3) ? 3
                     : ptx_chose(v, DS_PTX_DIM_D4) ? 4
                                                   : 5;

        ptx_put(v, "[%%rd1, ");
        ptx_put_registers(v, ptx_below(v, 10) ? n : n % 5 + 1, 32, false);
        ptx_put(v, "]");
}

/* Operands of instructions whose operand string in opcodes.def does not describe them: `T` stands for tensor
 * coordinates, `D` for a wgmma accumulator */
struct ptx_forms {
        uint16_t op;
        const char *forms[8];
};

static const struct ptx_forms ptx_forms[] = {
        {DS_PTX_OP_TEX,
                {"{%r1,%r2,%r3,%r4}, [%rd1, {%r1}]", "{%r1,%r2,%r3,%r4}, [%rd1, {%r1,%r2}]",
                        "{%r1,%r2,%r3,%r4}, [%rd1, {%r1,%r2,%r3,%r4}]", "{%f1,%f2,%f3,%f4}, [%rd1, {%f1,%f2}], %f3",
                        "{%f1,%f2,%f3,%f4}, [%rd1, %rd2, {%f1,%f2}]", "{%f1,%f2,%f3,%f4}, [%rd1, {%r1,%f2,%f3,%f4}]",
                        "{%r1,%r2,%r3,%r4}, [%rd1, {%r1,%r2,%r3,%r4}], %r1, %r2",
                        "{%f1,%f2,%f3,%f4}, [%rd1, {%f1,%f2}], {%f1,%f2}, {%f3,%f4}"}},
        {DS_PTX_OP_TLD4,
                {"{%r1,%r2,%r3,%r4}, [%rd1, {%f1,%f2}]", "{%f1,%f2,%f3,%f4}, [%rd1, {%f1,%f2}]",
                        "{%f1,%f2,%f3,%f4}, [%rd1, %rd2, {%f1,%f2}]", "{%f1,%f2,%f3,%f4}, [%rd1, {%r1,%f1,%f2,%f3}]",
                        "{%f1,%f2,%f3,%f4}|%p1, [%rd1, {%f1,%f2,%f3,%f4}]",
                        "{%r1,%r2,%r3,%r4}, [%rd1, {%f1,%f2}], {%r1,%r2}"}},
        {DS_PTX_OP_SULD, {"%r1, [%rd1, {%r1}]", "%r1, [%rd1, {%r1,%r2}]", "{%r1,%r2}, [%rd1, {%r1,%r2}]",
                                 "{%r1,%r2,%r3,%r4}, [%rd1, {%r1,%r2,%r3,%r4}]", "%h1, [%rd1, {%r1,%r2}]",
                                 "{%rd1,%rd2}, [%rd1, {%r1}]", "%r1, [%rd1, %r1]"}},
        {DS_PTX_OP_SUST_B, {"[%rd1, {%r1}], %r1", "[%rd1, {%r1,%r2}], %r1", "[%rd1, {%r1,%r2}], {%r1,%r2}",
                                   "[%rd1, {%r1,%r2,%r3,%r4}], {%r1,%r2,%r3,%r4}", "[%rd1, {%r1,%r2}], %h1",
                                   "[%rd1, {%r1}], {%rd1,%rd2}"}},
        {DS_PTX_OP_SUST_P, {"[%rd1, {%r1}], %r1", "[%rd1, {%r1,%r2}], %r1", "[%rd1, {%r1,%r2}], {%r1,%r2}",
                                   "[%rd1, {%r1,%r2,%r3,%r4}], {%r1,%r2,%r3,%r4}"}},
        {DS_PTX_OP_SURED, {"[%rd1, {%r1}], %r1", "[%rd1, {%r1,%r2}], %r1", "[%rd1, {%r1,%r2,%r3,%r4}], %rd1"}},
        {DS_PTX_OP_CP_BULK_TENSOR, {"[%rd1], T, [%rd2]", "[%rd1], T, [%rd2], %h1", "[%rd1], T, [%rd2], %h1, %rd3",
                                           "[%rd1], T, [%rd2], %rd3", "T, [%rd1]", "T, [%rd1], %rd3",
                                           "[%rd1], T, [%rd2], {%h1,%h2}", "[%rd1], T, [%rd2], {%h1}, %h3, %rd4"}},
        {DS_PTX_OP_CP_BULK_PREFETCH_TENSOR, {"T", "T, %rd3", "T, {%h1,%h2}", "T, {%h1}", "T, {%h1,%h2,%h3}, %rd3"}},
        {DS_PTX_OP_CP_REDUCE_TENSOR, {"T, [%rd1]", "T, [%rd1], %rd3"}},
        {DS_PTX_OP_CP_BULK, {"[%rd1], [%rd2], %r1, [%rd3]", "[%rd1], [%rd2], %r1, [%rd3], %h1",
                                    "[%rd1], [%rd2], %r1, [%rd3], %h1, %rd4", "[%rd1], [%rd2], %r1, [%rd3], %rd4",
                                    "[%rd1], [%rd2], %r1", "[%rd1], [%rd2], %r1, %rd4", "[%rd1], [%rd2], 16, %rd4, %h1",
                                    "[%rd1], [%rd2], 32, %h1"}},
        {DS_PTX_OP_CP_REDUCE_BULK, {"[%rd1], [%rd2], %r1, [%rd3]", "[%rd1], [%rd2], %r1", "[%rd1], [%rd2], %r1, %rd4",
                                           "[%rd1], [%rd2], %r1, [%rd3], %rd4"}},
        {DS_PTX_OP_WGMMA, {"D, %rd1, %rd2, 1, 1, 1, 0, 0", "D, %rd1, %rd2, %p1, 1, 1, 0, 1",
                                  "D, %rd1, %rd2, %p1, 1, -1", "D, %rd1, %rd2, %p1",
                                  "D, {%r1,%r2,%r3,%r4}, %rd2, %p1, 1, 1, 0", "D, {%r1,%r2,%r3,%r4}, %rd2, %p1",
                                  "D, {%r1,%r2,%r3,%r4}, %rd2, %p1, 1, 1", "D, {%r1,%r2,%r3,%r4}, %rd2, 1, 1, 1"}},
        {DS_PTX_OP_WGMMA_SP,
                {"D, %rd1, %rd2, %r1, 0, 1, 1, 1, 0, 0", "D, %rd1, %rd2, %r1, 0, %p1, 1, 1, 0, 1",
                        "D, %rd1, %rd2, %r1, 0, %p1, 1, -1", "D, %rd1, %rd2, %r1, 0, %p1",
                        "D, {%r1,%r2,%r3,%r4}, %rd2, %r1, 0, %p1, 1, 1, 0", "D, {%r1,%r2,%r3,%r4}, %rd2, %r1, 0, %p1",
                        "D, {%r1,%r2,%r3,%r4}, %rd2, %r1, 1, %p1, 1, 1"}},
};

static bool ptx_put_form(struct ptx_variant *v)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(ptx_forms); i++) {
                uint32_t n = 0, bits = 32;
                const char *form;

                if (ptx_forms[i].op != v->op)
                        continue;
                while (n < DS_ARRAY_SIZE(ptx_forms[i].forms) && ptx_forms[i].forms[n])
                        n++;
                for (form = ptx_forms[i].forms[ptx_below(v, n)]; *form; form++) {
                        if (*form == 'T')
                                ptx_put_coordinates(v);
                        else if (*form == 'D')
                                ptx_put_registers(v, DS_MIN(ptx_fragment(v, 0, &bits), 200u), 32, false);
                        else
                                ptx_put(v, "%c", *form);
                }
                return true;
        }
        return false;
}

static void ptx_put_operands(struct ptx_variant *v, const struct ds_ptx_op_info *info)
{
        uint32_t operand = 0;

        if (ptx_put_form(v))
                return;
        for (const char *s = info->operands; *s; s += strspn(s, " ")) {
                size_t n = strcspn(s, " ");
                const char *word = s;

                s += n;
                if (memchr(word, '?', n) && ptx_below(v, 2))
                        continue;
                ptx_put(v, operand ? ", " : " ");
                if (*word == 'm')
                        ptx_put_address(v);
                else
                        ptx_put_value(v, word, n, operand);
                operand++;
        }
}

/* Makes one variant of the row; the same seed gives the same variant. */
static void ptx_variant_make(struct ptx_variant *v, enum ds_ptx_op op, uint64_t seed)
{
        const struct ds_ptx_op_info *info = ds_ptx_op_info(op);

        *v = (struct ptx_variant){.op = op, .seed = seed * UINT64_C(1000003) + op};
        ptx_put_words(v, info);
        ptx_put(v, " ");
        ptx_put_operands(v, info);
        ptx_put(v, ";");
}
