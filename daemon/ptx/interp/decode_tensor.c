/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding matrix instructions: from shapes and types to fragments
 *
 * A combination of a shape and types ("form" in this file) is accepted if PTX has it for sm_90 and earlier. All others
 * are refused by name, even if the front end accepts them, because the handlers' buffers are only as large as these
 * need.
 */
#include "ptx/interp/decode.h"
#include "ptx/interp/tensor.h"

#define T(name) DS_PTX_TYPE_##name
#define KIND(name) DS_IX_MATRIX_##name

/* --- combinations of shape and types --- */
static int kind_of(enum ds_ptx_type type)
{
        static const uint8_t kinds[_DS_PTX_TYPE_MAX] = {[T(F16)] = KIND(F16) + 1,
                [T(BF16)] = KIND(BF16) + 1,
                [T(TF32)] = KIND(TF32) + 1,
                [T(E4M3)] = KIND(E4M3) + 1,
                [T(E5M2)] = KIND(E5M2) + 1,
                [T(F64)] = KIND(F64) + 1,
                [T(S8)] = KIND(S8) + 1,
                [T(U8)] = KIND(U8) + 1,
                [T(S4)] = KIND(S4) + 1,
                [T(U4)] = KIND(U4) + 1,
                [T(B1)] = KIND(B1) + 1,
                [T(F32)] = KIND(F32) + 1,
                [T(S32)] = KIND(S32) + 1};

        return (int)kinds[type] - 1;
}

struct types {
        uint8_t kind, bits, unit; /* unit: elements along k in a register's tile; this is k of the smallest shape */
        uint8_t accumulators;     /* types allowed for accumulators, bits: 1: f16, 2: f32, 4: s32, 8: f64 */
        uint8_t group;            /* number of elements along k whose products are added at once, see tensor.c */
};

static const struct types all_types[] = {
        {KIND(F16), 16, 8, 1 | 2, 16},
        {KIND(BF16), 16, 8, 2, 16},
        {KIND(TF32), 32, 4, 2, 8},
        {KIND(E4M3), 8, 16, 1 | 2, 16},
        {KIND(E5M2), 8, 16, 1 | 2, 16},
        {KIND(F64), 64, 4, 8, 1},
        {KIND(S8), 8, 16, 4, 1},
        {KIND(U8), 8, 16, 4, 1},
        {KIND(S4), 4, 32, 4, 1},
        {KIND(U4), 4, 32, 4, 1},
        {KIND(B1), 1, 128, 4, 1},
};

static const struct types *types_of(int kind)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(all_types); i++)
                if (all_types[i].kind == kind)
                        return &all_types[i];
        return NULL;
}

static uint8_t accumulator_bit(int kind)
{
        return kind == KIND(F16) ? 1 : kind == KIND(F32) ? 2 : kind == KIND(S32) ? 4 : kind == KIND(F64) ? 8 : 0;
}

/*
 * Sets the tiles of a fragment of A: blocks of 16 rows, and in each the tiles of one piece along k first. A fragment of
 * B has the tiles of eight columns along k first. wmma's fragments of halves have more registers than tiles, so the
 * tiles repeat.
 */
static void tiles_of_a(struct ds_ix_fragment *f, unsigned outer, unsigned inner)
{
        unsigned tall = DS_MIN(outer, 2u), block = tall * inner;

        f->used = (uint8_t)(outer * inner);
        for (unsigned r = 0; r < f->n; r++) {
                unsigned at = r % (outer * inner), in = at % block;

                f->tile[r].outer = (uint8_t)(at / block * 2 + in % tall);
                f->tile[r].inner = (uint8_t)(in / tall);
        }
}

static void tiles_of_b(struct ds_ix_fragment *f, unsigned outer, unsigned inner)
{
        f->used = (uint8_t)(outer * inner);
        for (unsigned r = 0; r < f->n; r++) {
                unsigned at = r % (outer * inner);

                f->tile[r].outer = (uint8_t)(at / inner);
                f->tile[r].inner = (uint8_t)(at % inner);
        }
}

/* Sets the tiles of accumulators: an 8 x 8 tile of results is one register of pairs of halves, or two registers;
 * tiles along the rows come first. */
static void tiles_of_c(struct ds_ix_fragment *f, unsigned rows, unsigned columns)
{
        unsigned each = f->kind == KIND(F16) ? 1 : 2;

        f->n = (uint8_t)(rows * columns * each);
        for (unsigned r = 0; r < f->n; r++) {
                unsigned at = r / each;

                f->tile[r] = (struct ds_ix_tile){.outer = (uint8_t)(at % rows), .inner = (uint8_t)(at / rows)};
        }
}

/* --- operands --- */
static int fragment(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o, int is_destination,
        struct ds_ix_fragment *f)
{
        const struct ds_ptx_operand *e = o->kind == DS_PTX_OPERAND_VECTOR ? o->elements : o;
        uint32_t n = o->kind == DS_PTX_OPERAND_VECTOR ? o->n_elements : 1, bytes = f->kind == KIND(F64) ? 8 : 4;

        if (n != f->n)
                return ds_ix_refuse(d, in, "a fragment of %u registers, but this shape and type need %u", n, f->n);
        for (uint32_t r = 0; r < n; r++) {
                if (is_destination ? !ds_ix_destination(d, in, &e[r], bytes, &f->slot[r])
                                   : !ds_ix_source(d, in, &e[r], bytes, &f->slot[r]))
                        return 0;
        }
        return 1;
}

/* Appends a matrix operation without a guard wrapper: its lanes wait for each other, so lanes without the guard jump
 * over it. */
static int emit(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ix_matrix *m,
        const struct ds_ix_impl *impl, uint32_t skip)
{
        struct ds_ix_matrix *kept = ds_arena_alloc(d->interp->arena, 1, sizeof(*kept));
        struct ds_ptx_instr always = *in;
        ds_ix_op op = ds_ix_blank(in);

        if (!kept) {
                d->out_of_memory = 1;
                return 0;
        }
        *kept = *m;
        op.ext = kept;
        always.guard = DS_PTX_NO_REG;
        ds_ix_emit(d, &always, op, impl);
        ds_ix_end_skip(d, skip);
        return 1;
}

static int refuse_form(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        return ds_ix_refuse(d, in, "no such shape with these types up to sm_90");
}

/* --- mma --- */
/* Sets the types of d, a, b and c; false: the accumulators do not fit the types of a and b. */
static int mma_types(const struct ds_ptx_instr *in, struct ds_ix_matrix *m)
{
        int kinds[4];
        const struct types *t;

        for (uint32_t i = 0; i < 4; i++) {
                kinds[i] = i < in->n_types ? kind_of((enum ds_ptx_type)in->types[i]) : -1;
                if (kinds[i] < 0)
                        return 0;
        }
        m->d.kind = (uint8_t)kinds[0];
        m->a.kind = (uint8_t)kinds[1];
        m->b.kind = (uint8_t)kinds[2];
        m->c.kind = (uint8_t)kinds[3];
        t = types_of(kinds[1]);
        if (!t || !types_of(kinds[2]) || types_of(kinds[2])->bits != t->bits)
                return 0;
        if (kinds[1] != kinds[2] && t->bits != 8 && t->bits != 4)
                return 0;
        if ((types_of(kinds[2])->accumulators & t->accumulators) != t->accumulators)
                return 0;
        m->group = t->group;
        return (accumulator_bit(kinds[0]) & t->accumulators) && (accumulator_bit(kinds[3]) & t->accumulators);
}

/* Sets the modifiers that only some types have; false: these types do not have one that the instruction has. */
static int modifiers(const struct ds_ptx_instr *in, const struct types *t, struct ds_ix_matrix *m)
{
        enum ds_ptx_modifier round = ds_ptx_mod(in, DS_PTX_ROUND_RN), bits = ds_ptx_mod(in, DS_PTX_BITOP_XOR);

        m->round = (uint8_t)(round ? round - DS_PTX_ROUND_RN + DS_IX_RN : DS_IX_RN);
        m->saturate = ds_ptx_has(in, DS_PTX_SATFINITE_SATFINITE);
        m->bit_and = bits == DS_PTX_BITOP_AND;
        return (!round || t->kind == KIND(F64)) && (!m->saturate || t->bits == 8 || t->bits == 4) &&
               (!m->saturate || t->accumulators == 4) && (bits != 0) == (t->kind == KIND(B1));
}

/* Whether mma.sync or mma.sp has this shape for these types; sets the number of tiles. */
static int mma_shape(const struct ds_ptx_instr *in, const struct types *t, struct ds_ix_matrix *m)
{
        unsigned unit = t->unit * (m->sparse ? 2u : 1u), pieces;

        m->m = in->shape[0];
        m->n = in->shape[1];
        m->k = in->shape[2];
        if (m->n != 8 || (m->m != 8 && m->m != 16) || m->k % unit)
                return 0;
        pieces = m->k / unit;
        if (m->m == 8) /* m = 8: only f64 and integers of at most 8 bits have such shapes */
                return !m->sparse && pieces == 1 && (t->accumulators & 12) != 0;
        if (m->sparse && (t->kind == KIND(E4M3) || t->kind == KIND(E5M2)))
                return pieces == 2 && m->d.kind == KIND(F32);
        if (m->sparse && t->accumulators == 8)
                return 0;
        return pieces == 1 || pieces == 2 || (pieces == 4 && t->accumulators == 8);
}

static int metadata(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct types *t, struct ds_ix_matrix *m)
{
        const struct ds_ptx_operand *o = in->operands;
        /* bits: bits of metadata in a row, 16, 32 or 64; lanes: number of values of the selector */
        unsigned bits = m->k / (2u * t->unit) * 16, lanes = 4 / (bits / 16);

        if (t->bits == 8 || t->bits == 4)
                lanes /= 2;
        if (in->n_operands < 6 || o[5].kind != DS_PTX_OPERAND_INT || o[5].bits >= DS_MAX(lanes, 1u))
                return ds_ix_refuse(d, in, "a sparsity selector below %u is needed", DS_MAX(lanes, 1u));
        m->selector = (uint8_t)o[5].bits;
        return ds_ix_source(d, in, &o[4], 4, &m->metadata);
}

static int decode_m8n8k4(ds_ix_decoder *d, const struct ds_ptx_instr *in, struct ds_ix_matrix *m)
{
        const struct ds_ptx_operand *o = in->operands;
        uint32_t skip;

        m->a.n = m->b.n = 2;
        m->c.n = m->c.kind == KIND(F16) ? 4 : 8;
        m->d.n = m->d.kind == KIND(F16) ? 4 : 8;
        m->a_columns = ds_ptx_mod(in, DS_PTX_ROW_ROW) == DS_PTX_ROW_COL;
        m->b_columns = ds_ptx_mod(in, DS_PTX_COL_ROW) == DS_PTX_COL_COL;
        m->weight = 1;
        skip = ds_ix_emit_skip(d, in);
        return fragment(d, in, &o[0], 1, &m->d) && fragment(d, in, &o[1], 0, &m->a) &&
               fragment(d, in, &o[2], 0, &m->b) && fragment(d, in, &o[3], 0, &m->c) &&
               emit(d, in, m, &ds_ix_mma_m8n8k4, skip);
}

/* Decodes the rest of mma and wmma.mma, when the shape is known and a and b have the right number of registers. */
static int decode_product(
        ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct types *t, int swapped, struct ds_ix_matrix *m)
{
        const struct ds_ptx_operand *o = in->operands;
        unsigned stored = m->sparse ? m->k / 2u : m->k;
        uint32_t skip = ds_ix_emit_skip(d, in);

        tiles_of_a(&m->a, m->m / 8u, stored / t->unit);
        tiles_of_b(&m->b, m->n / 8u, m->k / t->unit);
        tiles_of_c(&m->c, m->m / 8u, m->n / 8u);
        tiles_of_c(&m->d, m->m / 8u, m->n / 8u);
        m->weight = (uint8_t)DS_MAX(m->m * m->n / 128u * stored / (2u * t->unit), 1u);
        return fragment(d, in, &o[0], 1, &m->d) && fragment(d, in, &o[1 + swapped], 0, &m->a) &&
               fragment(d, in, &o[2 - swapped], 0, &m->b) && fragment(d, in, &o[3], 0, &m->c) &&
               (!m->sparse || metadata(d, in, t, m)) && emit(d, in, m, ds_ix_find_mma(m), skip);
}

static int decode_mma(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        struct ds_ix_matrix m = {.sparse = in->op != DS_PTX_OP_MMA};
        const struct types *t;

        if (in->n_operands < 4 || !mma_types(in, &m))
                return refuse_form(d, in);
        t = types_of(m.a.kind);
        if (!modifiers(in, t, &m))
                return refuse_form(d, in);
        if (!m.sparse && m.a.kind == KIND(F16) && in->shape[0] == 8 && in->shape[1] == 8 && in->shape[2] == 4)
                return decode_m8n8k4(d, in, &m);
        if (m.c.kind != m.d.kind || !mma_shape(in, t, &m))
                return refuse_form(d, in);
        m.b.n = (uint8_t)(m.k / t->unit);
        m.a.n = (uint8_t)(m.m / 8u * (m.sparse ? m.b.n / 2u : m.b.n));
        return decode_product(d, in, t, 0, &m);
}

/* --- wmma --- */
/*
 * Whether wmma has this shape for these types. The fragments of m8n32k16 are those of m32n8k16 transposed: the
 * transposed product is computed, with the rows of C in place of columns.
 */
static int wmma_shape(const struct ds_ptx_instr *in, const struct types *t, int *ret_swapped, struct ds_ix_matrix *m)
{
        static const uint16_t large[][3] = {{16, 16, 16}, {32, 8, 16}, {8, 32, 16}};
        uint16_t small[3] = {8, 8, t->unit};
        int found = 0;

        if (t->kind == KIND(TF32))
                found = in->shape[0] == 16 && in->shape[1] == 16 && in->shape[2] == 8;
        else if (t->bits == 16 || t->bits == 8)
                for (size_t i = 0; i < DS_ARRAY_SIZE(large); i++)
                        found |= memcmp(in->shape, large[i], sizeof(large[i])) == 0;
        else
                found = memcmp(in->shape, small, sizeof(small)) == 0;
        *ret_swapped = in->shape[0] == 8 && in->shape[1] == 32;
        m->m = in->shape[*ret_swapped ? 1 : 0];
        m->n = in->shape[*ret_swapped ? 0 : 1];
        m->k = in->shape[2];
        if (t->kind == KIND(TF32))
                m->group = 4;
        return found && t->kind != KIND(E4M3) && t->kind != KIND(E5M2);
}

static uint8_t wmma_registers(const struct types *t, unsigned outer, unsigned k)
{
        return (uint8_t)(t->kind == KIND(F16) ? 8 : outer / 8 * k / t->unit);
}

static int decode_wmma_mma(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        struct ds_ptx_instr full = *in;
        struct ds_ix_matrix m = {0};
        const struct types *t;
        int swapped;

        if (in->n_types == 2) { /* wmma of halves names only the types of d and c */
                full.n_types = 4;
                full.types[3] = in->types[1];
                full.types[1] = full.types[2] = T(F16);
        }
        if (in->n_operands < 4 || !mma_types(&full, &m))
                return refuse_form(d, in);
        t = types_of(m.a.kind);
        if (!modifiers(in, t, &m) || !wmma_shape(in, t, &swapped, &m) || m.a.kind != m.b.kind)
                return refuse_form(d, in);
        m.a.n = wmma_registers(t, m.m, m.k);
        m.b.n = wmma_registers(t, m.n, m.k);
        return decode_product(d, in, t, swapped, &m);
}

/* Types of A and B that can be multiplied into this type of C; one such set is enough to identify the shape. */
static const struct types *multiplied_with(const struct ds_ptx_instr *in, int kind)
{
        if (kind == KIND(S32))
                return types_of(in->shape[2] == 32 ? KIND(S4) : in->shape[2] == 128 ? KIND(B1) : KIND(S8));
        if (kind == KIND(F64))
                return types_of(KIND(F64));
        return types_of(kind == KIND(F32) && in->shape[2] == 8 ? KIND(TF32) : KIND(F16));
}

/* Sets the registers of a loaded or stored matrix, and their tiles; columns: the layout is .col */
static int wmma_fragment(const struct ds_ptx_instr *in, int what, int columns, struct ds_ix_matrix *m)
{
        int kind = in->n_types ? kind_of((enum ds_ptx_type)in->types[0]) : -1, swapped;
        const struct types *t = kind < 0 ? NULL : what == 'c' ? multiplied_with(in, kind) : types_of(kind);

        if (!t || !wmma_shape(in, t, &swapped, m))
                return 0;
        m->d.kind = (uint8_t)kind;
        m->accumulator = what == 'c';
        m->across = what == 'c' ? columns != swapped : what == 'a' ? columns : !columns;
        if (what == 'c') {
                tiles_of_c(&m->d, m->m / 8u, m->n / 8u);
        } else if ((what == 'a') != swapped) {
                m->d.n = wmma_registers(t, m->m, m->k);
                tiles_of_a(&m->d, m->m / 8u, m->k / t->unit);
        } else {
                m->d.n = wmma_registers(t, m->n, m->k);
                tiles_of_b(&m->d, m->n / 8u, m->k / t->unit);
        }
        return t->bits >= 8 || what == 'c' || !m->across;
}

/* Decodes the address of a matrix, which must be in a register: moves a variable's address to a temporary one. */
static int matrix_address(ds_ix_decoder *d, const struct ds_ptx_instr *in, const struct ds_ptx_operand *o, ds_ix_op *at)
{
        struct ds_ptx_operand variable = *o;

        if (!ds_ix_address(d, in, o, ds_ptx_instr_space(in), at))
                return 0;
        if (at->space != DS_IX_GLOBAL && at->space != DS_IX_SHARED && at->space != DS_IX_GENERIC)
                return ds_ix_refuse(d, in, "matrices lie in global or shared memory");
        if (at->a != DS_IX_NO_SLOT)
                return 1;
        if (!o->var)
                return ds_ix_refuse(d, in, "a matrix at a constant address is not supported");
        variable.kind = DS_PTX_OPERAND_VAR;
        at->flags |= DS_IX_WIDE_ADDRESS;
        at->f = DS_IX_SYM_NONE;
        at->imm = 0;
        return ds_ix_source(d, in, &variable, 8, &at->a);
}

static int decode_wmma_access(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        int store = in->op == DS_PTX_OP_WMMA_STORE, what = in->op == DS_PTX_OP_WMMA_LOAD_A   ? 'a'
                                                           : in->op == DS_PTX_OP_WMMA_LOAD_B ? 'b'
                                                                                             : 'c';
        int columns = ds_ptx_mod(in, DS_PTX_ROW_ROW) == DS_PTX_ROW_COL;
        struct ds_ix_matrix m = {.at = ds_ix_blank(in)};
        const struct ds_ptx_operand *o = in->operands;
        uint32_t skip;

        if (in->n_operands < 2 || !wmma_fragment(in, what, columns, &m))
                return refuse_form(d, in);
        skip = ds_ix_emit_skip(d, in);
        m.at.n = 1;
        if (!matrix_address(d, in, &o[store ? 0 : 1], &m.at) || !fragment(d, in, &o[store ? 1 : 0], !store, &m.d))
                return 0;
        if (in->n_operands < 3) /* without a stride operand, rows lie next to each other */
                m.stride = ds_ix_constant_slot(d,
                        in->shape[what == 'a'   ? (columns ? 0 : 2)
                                  : what == 'b' ? (columns ? 2 : 1)
                                                : !columns],
                        4);
        else if (!ds_ix_source(d, in, &o[2], 4, &m.stride))
                return 0;
        return emit(d, in, &m, store ? &ds_ix_wmma_store : &ds_ix_wmma_load, skip);
}

/* --- ldmatrix, stmatrix, movmatrix --- */
static int decode_rows(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        int store = in->op == DS_PTX_OP_STMATRIX;
        enum ds_ptx_modifier num = ds_ptx_mod(in, DS_PTX_NUM_X1);
        struct ds_ix_matrix m = {.at = ds_ix_blank(in), .transposed = ds_ptx_has(in, DS_PTX_TRANS_TRANS)};
        const struct ds_ptx_operand *o = in->operands;
        uint32_t skip;

        if (in->n_operands != 2 || in->shape[0] != 8 || in->shape[1] != 8 || in->types[0] != T(B16))
                return refuse_form(d, in);
        skip = ds_ix_emit_skip(d, in);
        m.d.n = num == DS_PTX_NUM_X4 ? 4 : num == DS_PTX_NUM_X2 ? 2 : 1;
        m.at.size = 16;
        m.at.n = 1;
        if (!ds_ix_address(d, in, &o[store ? 0 : 1], ds_ptx_instr_space(in), &m.at) ||
                !fragment(d, in, &o[store ? 1 : 0], !store, &m.d))
                return 0;
        if (m.at.space != DS_IX_SHARED && m.at.space != DS_IX_GENERIC)
                return ds_ix_refuse(d, in, "rows lie in shared memory");
        return emit(d, in, &m, store ? &ds_ix_stmatrix : &ds_ix_ldmatrix, skip);
}

static int decode_movmatrix(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        struct ds_ix_matrix m = {.a.n = 1, .d.n = 1};
        uint32_t skip;

        if (in->n_operands != 2 || in->shape[0] != 8 || in->shape[1] != 8)
                return refuse_form(d, in);
        skip = ds_ix_emit_skip(d, in);
        return fragment(d, in, &in->operands[0], 1, &m.d) && fragment(d, in, &in->operands[1], 0, &m.a) &&
               emit(d, in, &m, &ds_ix_movmatrix, skip);
}

int ds_ix_decode_tensor(ds_ix_decoder *d, const struct ds_ptx_instr *in)
{
        switch (in->op) {
        case DS_PTX_OP_MMA:
        case DS_PTX_OP_MMA_SP:
        case DS_PTX_OP_MMA_SP_ORDERED:
                return decode_mma(d, in);
        case DS_PTX_OP_WMMA_MMA:
        case DS_PTX_OP_WMMA_BITOP:
                return decode_wmma_mma(d, in);
        case DS_PTX_OP_WMMA_LOAD_A:
        case DS_PTX_OP_WMMA_LOAD_B:
        case DS_PTX_OP_WMMA_LOAD_C:
        case DS_PTX_OP_WMMA_STORE:
                return decode_wmma_access(d, in);
        case DS_PTX_OP_LDMATRIX:
        case DS_PTX_OP_STMATRIX:
                return decode_rows(d, in);
        case DS_PTX_OP_MOVMATRIX:
                return decode_movmatrix(d, in);
        default:
                return ds_ix_refuse(d, in, "not supported by the simulated device");
        }
}
