/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix instructions: the shapes of each type, and the registers of each fragment
 *
 * mma, wmma and wgmma multiply A (m by k) with B (k by n) and add C (m by n). The type of A decides the family, and
 * each family has its shapes. The number of a fragment's registers follows from its elements: 32 threads (wgmma: 128)
 * hold them packed into registers of 32 bits, doubles into registers of 64. Exception: wmma's fragments of 16-bit
 * floats hold some elements twice and have a table.
 */
#include "ptx/tables.h"
#include "ptx/validate_internal.h"
#include "util/macro.h"

#define WARP 32

enum family {
        HALF,   /* A is .f16; C and D are .f16 or .f32 */
        BRAIN,  /* A is .bf16 */
        TF,     /* A is .tf32 */
        DOUBLE, /* A is .f64 */
        BYTE,   /* A and B are .u8 or .s8, also mixed; C and D are .s32 */
        NIBBLE, /* A and B are .u4 or .s4, also mixed */
        BIT,    /* A is .b1 */
        EIGHT,  /* A and B are .e4m3 or .e5m2, also mixed */
        N_FAMILIES,
        NO_FAMILY = N_FAMILIES,
};

struct product {
        uint16_t m, n, k;
        uint8_t family;
        uint8_t target, version;
        uint8_t selectors; /* number of values of the selector in sparse products */
};

static const struct product products[] = {
        {8, 8, 4, HALF, 70, 64, 0},
        {16, 8, 8, HALF, 75, 65, 0},
        {16, 8, 16, HALF, 80, 70, 0},
        {16, 8, 8, BRAIN, 80, 70, 0},
        {16, 8, 16, BRAIN, 80, 70, 0},
        {16, 8, 4, TF, 80, 70, 0},
        {16, 8, 8, TF, 80, 70, 0},
        {8, 8, 4, DOUBLE, 80, 70, 0},
        {16, 8, 4, DOUBLE, 90, 78, 0},
        {16, 8, 8, DOUBLE, 90, 78, 0},
        {16, 8, 16, DOUBLE, 90, 78, 0},
        {8, 8, 16, BYTE, 75, 65, 0},
        {16, 8, 16, BYTE, 80, 70, 0},
        {16, 8, 32, BYTE, 80, 70, 0},
        {8, 8, 32, NIBBLE, 75, 65, 0},
        {16, 8, 32, NIBBLE, 80, 70, 0},
        {16, 8, 64, NIBBLE, 80, 70, 0},
        {8, 8, 128, BIT, 75, 70, 0},
        {16, 8, 128, BIT, 80, 70, 0},
        {16, 8, 256, BIT, 80, 70, 0},
        {16, 8, 16, EIGHT, 89, 87, 0},
        {16, 8, 32, EIGHT, 89, 84, 0},
};

static const struct product sparse_products[] = {
        {16, 8, 16, HALF, 80, 71, 4},
        {16, 8, 32, HALF, 80, 71, 2},
        {16, 8, 16, BRAIN, 80, 71, 4},
        {16, 8, 32, BRAIN, 80, 71, 2},
        {16, 8, 8, TF, 80, 71, 4},
        {16, 8, 16, TF, 80, 71, 2},
        {16, 8, 32, BYTE, 80, 71, 2},
        {16, 8, 64, BYTE, 80, 71, 1},
        {16, 8, 64, NIBBLE, 80, 71, 2},
        {16, 8, 128, NIBBLE, 80, 71, 1},
        {16, 8, 64, EIGHT, 89, 84, 1},
};

/* Number of registers of wmma's fragments by shape; C and D of .f16 have half of the number in `c`. */
static const struct fragments {
        uint16_t m, n, k;
        uint8_t family;
        uint8_t a, b, c;
        uint8_t target, version;
} fragments[] = {
        {16, 16, 16, HALF, 8, 8, 8, 70, 63},
        {32, 8, 16, HALF, 8, 8, 8, 70, 63},
        {8, 32, 16, HALF, 8, 8, 8, 70, 63},
        {16, 16, 16, BRAIN, 4, 4, 8, 80, 70},
        {32, 8, 16, BRAIN, 8, 2, 8, 80, 70},
        {8, 32, 16, BRAIN, 2, 8, 8, 80, 70},
        {16, 16, 16, BYTE, 2, 2, 8, 72, 63},
        {32, 8, 16, BYTE, 4, 1, 8, 72, 63},
        {8, 32, 16, BYTE, 1, 4, 8, 72, 63},
        {16, 16, 8, TF, 4, 4, 8, 80, 70},
        {8, 8, 4, DOUBLE, 1, 1, 2, 80, 70},
        {8, 8, 32, NIBBLE, 1, 1, 2, 75, 63},
        {8, 8, 128, BIT, 1, 1, 2, 75, 63},
};

static void wrong(struct ds_ptx_check *c, const char *what)
{
        ds_ptx_invalid(c, c->instr->line, c->instr->column, "'%.120s': %s", c->instr->text, what);
}

static bool has(const struct ds_ptx_check *c, enum ds_ptx_modifier modifier)
{
        return ds_ptx_has(c->instr, modifier);
}

static uint8_t type(const struct ds_ptx_check *c, uint32_t i)
{
        return i < c->instr->n_types ? c->instr->types[i] : DS_PTX_TYPE_NONE;
}

static enum family family_of(uint8_t type)
{
        switch (type) {
        case DS_PTX_TYPE_F16:
                return HALF;
        case DS_PTX_TYPE_BF16:
                return BRAIN;
        case DS_PTX_TYPE_TF32:
                return TF;
        case DS_PTX_TYPE_F64:
                return DOUBLE;
        case DS_PTX_TYPE_U8:
        case DS_PTX_TYPE_S8:
                return BYTE;
        case DS_PTX_TYPE_U4:
        case DS_PTX_TYPE_S4:
                return NIBBLE;
        case DS_PTX_TYPE_B1:
                return BIT;
        case DS_PTX_TYPE_E4M3:
        case DS_PTX_TYPE_E5M2:
                return EIGHT;
        default:
                return NO_FAMILY;
        }
}

/* Whether C and D of the family may have this type. */
static bool accumulates(enum family family, uint8_t type)
{
        switch (family) {
        case HALF:
        case EIGHT:
                return type == DS_PTX_TYPE_F16 || type == DS_PTX_TYPE_F32;
        case BRAIN:
        case TF:
                return type == DS_PTX_TYPE_F32;
        case DOUBLE:
                return type == DS_PTX_TYPE_F64;
        default:
                return type == DS_PTX_TYPE_S32;
        }
}

/* Checks that operand `index` is a vector of n registers with elements of the type. */
static void check_fragment(struct ds_ptx_check *c, uint32_t index, uint32_t n, uint8_t type)
{
        const struct ds_ptx_operand *operand = &c->instr->operands[index];
        bool is_float = type == DS_PTX_TYPE_F32 || type == DS_PTX_TYPE_F64;
        uint32_t bits = type == DS_PTX_TYPE_F64 ? 64 : 32;

        if (operand->kind != DS_PTX_OPERAND_VECTOR || operand->n_elements != n) {
                ds_ptx_invalid(c, operand->line, operand->column, "'%.120s': a vector of %u registers belongs here",
                        c->instr->text, n);
                return;
        }
        for (uint32_t i = 0; i < n; i++) {
                const struct ds_ptx_operand *e = &operand->elements[i];
                uint8_t have = e->kind == DS_PTX_OPERAND_REG ? c->function->regs[e->reg].type : DS_PTX_TYPE_NONE;
                bool have_float = have == DS_PTX_TYPE_F32 || have == DS_PTX_TYPE_F64;

                if (have == DS_PTX_TYPE_NONE)
                        continue;
                if (ds_ptx_type_bits((enum ds_ptx_type)have) != bits ||
                        (have_float && !is_float && type != DS_PTX_TYPE_B32) ||
                        (is_float && have_float && have != type) ||
                        (is_float && have >= DS_PTX_TYPE_U8 && have <= DS_PTX_TYPE_S64))
                        ds_ptx_invalid(c, e->line, e->column, "'%.120s': a register of type .%s holds no .%s",
                                c->instr->text, ds_ptx_type_name((enum ds_ptx_type)have),
                                ds_ptx_type_name((enum ds_ptx_type)type));
        }
}

static uint32_t registers(uint32_t elements, uint8_t type)
{
        uint32_t bits = ds_ptx_type_bits((enum ds_ptx_type)type);

        return elements * bits / WARP / (bits == 64 ? 64 : 32);
}

static const struct product *find_product(const struct ds_ptx_check *c, enum family family, bool sparse)
{
        const struct product *rows = sparse ? sparse_products : products;
        size_t n = sparse ? DS_ARRAY_SIZE(sparse_products) : DS_ARRAY_SIZE(products);
        const uint16_t *shape = c->instr->shape;

        for (size_t i = 0; i < n; i++)
                if (rows[i].family == family && rows[i].m == shape[0] && rows[i].n == shape[1] && rows[i].k == shape[2])
                        return &rows[i];
        return NULL;
}

static void check_product_modifiers(struct ds_ptx_check *c, enum family family, bool any_layout)
{
        enum ds_ptx_modifier round = ds_ptx_mod(c->instr, DS_PTX_ROUND_RN);
        bool bit_operation = ds_ptx_mod(c->instr, DS_PTX_BITOP_AND);

        if (!any_layout && !(has(c, DS_PTX_ROW_ROW) && has(c, DS_PTX_COL_COL)))
                wrong(c, "the layout must be .row.col");
        if (round && (family != DOUBLE || round == DS_PTX_ROUND_RNA))
                wrong(c, "this rounding does not go with the types");
        if (bit_operation != has(c, DS_PTX_POPC_POPC) || bit_operation != (family == BIT))
                wrong(c, family == BIT ? ".b1 needs .xor.popc or .and.popc" : "only .b1 takes .xor.popc and .and.popc");
}

static void check_mma(struct ds_ptx_check *c, bool sparse)
{
        uint8_t d = type(c, 0), a = type(c, 1), b = type(c, 2), last = type(c, 3);
        const uint16_t *shape = c->instr->shape;
        enum family family = family_of(a);
        const struct product *p = find_product(c, family, sparse);
        bool quad = p && family == HALF && p->k == 4; /* m8n8k4 of halves: four products, one for each eight threads */
        bool mixed = family == BYTE || family == NIBBLE || family == EIGHT;
        uint32_t mk, kn, mn;

        if (!p) {
                wrong(c, "there is no such shape for the type of A");
                return;
        }
        if (family_of(b) != family || (!mixed && a != b) || !accumulates(family, d) || !accumulates(family, last) ||
                (d != last && !(quad && d == DS_PTX_TYPE_F32))) {
                wrong(c, "these types do not go together");
                return;
        }
        ds_ptx_check_least(c, p->target, family == EIGHT && d == DS_PTX_TYPE_F16 ? DS_MAX(p->version, 87) : p->version);
        check_product_modifiers(c, family, quad);
        if (has(c, DS_PTX_SATFINITE_SATFINITE) && family != BYTE && family != NIBBLE)
                wrong(c, ".satfinite goes with integers only");
        mk = quad ? 2 * shape[0] * shape[2] * 2 : (uint32_t)shape[0] * shape[2] / (sparse ? 2 : 1);
        kn = quad ? mk : (uint32_t)shape[2] * shape[1];
        mn = (uint32_t)shape[0] * shape[1] * (quad ? 4 : 1);
        check_fragment(c, 0, registers(mn, d), d);
        check_fragment(c, 1, registers(mk, a), a);
        check_fragment(c, 2, registers(kn, b), b);
        check_fragment(c, 3, registers(mn, last), last);
        if (sparse && c->instr->operands[5].bits >= p->selectors)
                ds_ptx_invalid(c, c->instr->operands[5].line, c->instr->operands[5].column,
                        "'%.120s': the selector must be below %u", c->instr->text, p->selectors);
}

/* --- wmma -------------------------------------------------------------------------------------------------------- */
static const struct fragments *find_fragments(const struct ds_ptx_check *c, enum family family)
{
        const uint16_t *shape = c->instr->shape;

        for (size_t i = 0; i < DS_ARRAY_SIZE(fragments); i++)
                if (fragments[i].m == shape[0] && fragments[i].n == shape[1] && fragments[i].k == shape[2] &&
                        fragments[i].family == family)
                        return &fragments[i];
        return NULL;
}

/* Row of the shape for a moved accumulator; its type alone does not decide the family. */
static const struct fragments *find_accumulator(const struct ds_ptx_check *c, uint8_t type)
{
        for (uint32_t family = 0; family < N_FAMILIES; family++) {
                const struct fragments *f = find_fragments(c, (enum family)family);

                if (f && accumulates((enum family)family, type))
                        return f;
        }
        return NULL;
}

static uint32_t accumulator_registers(const struct fragments *f, uint8_t type)
{
        return type == DS_PTX_TYPE_F16 ? f->c / 2 : f->c;
}

static void check_wmma_space(struct ds_ptx_check *c)
{
        enum ds_ptx_modifier space = ds_ptx_mod(c->instr, DS_PTX_SPACE_GLOBAL);

        if (space && space != DS_PTX_SPACE_GLOBAL && space != DS_PTX_SPACE_SHARED && space != DS_PTX_SPACE_SHARED_CTA)
                wrong(c, "the matrix must be in .global or .shared");
}

static void check_wmma_load(struct ds_ptx_check *c)
{
        bool is_a = c->instr->op == DS_PTX_OP_WMMA_LOAD_A, is_b = c->instr->op == DS_PTX_OP_WMMA_LOAD_B;
        uint8_t t = type(c, 0);
        const struct fragments *f = is_a || is_b ? find_fragments(c, family_of(t)) : find_accumulator(c, t);

        check_wmma_space(c);
        if (!f) {
                wrong(c, "there is no such shape for the type");
                return;
        }
        ds_ptx_check_least(c, f->target, f->version);
        if ((is_a || is_b) && (f->family == NIBBLE || f->family == BIT) && has(c, DS_PTX_ROW_ROW) != is_a)
                wrong(c, "the layout must be .row for A and .col for B");
        check_fragment(c, c->instr->op == DS_PTX_OP_WMMA_STORE ? 1 : 0,
                is_a   ? f->a
                : is_b ? f->b
                       : accumulator_registers(f, t),
                t);
}

static void check_wmma(struct ds_ptx_check *c)
{
        bool two = c->instr->n_types == 2; /* wmma.mma of .f16 names only the types of D and C */
        uint8_t d = type(c, 0), a = two ? DS_PTX_TYPE_F16 : type(c, 1), b = two ? a : type(c, 2);
        uint8_t last = two ? type(c, 1) : type(c, 3);
        enum family family = family_of(a);
        const struct fragments *f = find_fragments(c, family);
        bool small = family == NIBBLE || family == BIT;

        if (!f || (!two && family == HALF) || c->instr->n_types == 3) {
                wrong(c, "there is no such shape for the type of A");
                return;
        }
        if (a != b || !accumulates(family, d) || !accumulates(family, last) || (d != last && family != HALF)) {
                wrong(c, "these types do not go together");
                return;
        }
        ds_ptx_check_least(c, f->target, f->version);
        check_product_modifiers(c, family, !small);
        if (has(c, DS_PTX_SATFINITE_SATFINITE) && family != BYTE && family != NIBBLE &&
                !(family == HALF && c->module->version < 65))
                wrong(c, ".satfinite does not go with the types");
        check_fragment(c, 0, accumulator_registers(f, d), d);
        check_fragment(c, 1, f->a, a);
        check_fragment(c, 2, f->b, b);
        check_fragment(c, 3, accumulator_registers(f, last), last);
}

/* --- wgmma ------------------------------------------------------------------------------------------------------- */
static bool wgmma_shape_fits(const uint16_t shape[3], enum family family, bool sparse)
{
        static const uint16_t depths[N_FAMILIES] = {
                [HALF] = 16, [BRAIN] = 16, [TF] = 8, [BYTE] = 32, [EIGHT] = 32, [BIT] = 256};
        bool integers = family == BYTE || family == BIT;

        if (shape[0] != 64 || !shape[1] || shape[1] > 256 || shape[1] % 8)
                return false;
        if (integers && shape[1] > 24 && shape[1] % 16)
                return false;
        return depths[family] && shape[2] == depths[family] * (sparse ? 2 : 1) && !(sparse && family == BIT);
}

/* Checks the operands behind the matrices: scale-d; for floats the signs of A and B; for 16-bit floats the
 * transposition of matrices in memory. */
static void check_wgmma_scales(struct ds_ptx_check *c, enum family family, uint32_t first, bool a_in_registers)
{
        bool floats = family != BYTE && family != BIT, halves = family == HALF || family == BRAIN;
        uint32_t n = 1 + (floats ? 2 : 0) + (halves ? a_in_registers ? 1 : 2 : 0);

        if (c->instr->n_operands != first + n) {
                wrong(c, "wrong number of operands behind the matrices");
                return;
        }
        for (uint32_t i = first; i < first + n; i++) {
                const struct ds_ptx_operand *operand = &c->instr->operands[i];
                bool constant = operand->kind == DS_PTX_OPERAND_INT;
                bool predicate = operand->kind == DS_PTX_OPERAND_REG && !operand->select &&
                                 c->function->regs[operand->reg].type == DS_PTX_TYPE_PRED;
                bool fits = i == first      ? predicate || (constant && operand->bits <= 1)
                            : i < first + 3 ? constant && (operand->bits == 1 || operand->bits == UINT64_MAX)
                                            : constant && operand->bits <= 1;

                if (!fits)
                        ds_ptx_invalid(c, operand->line, operand->column, "'%.120s': %s", c->instr->text,
                                i == first      ? "a predicate belongs here"
                                : i < first + 3 ? "the sign must be 1 or -1"
                                                : "this must be 0 or 1");
        }
}

static void check_wgmma(struct ds_ptx_check *c, bool sparse)
{
        uint8_t d = type(c, 0), a = type(c, 1), b = type(c, 2);
        enum family family = family_of(a);
        const struct ds_ptx_operand *operands = c->instr->operands;
        bool mixed = family == BYTE || family == EIGHT, registers_of_a = operands[1].kind == DS_PTX_OPERAND_VECTOR;
        uint32_t elements = (uint32_t)c->instr->shape[0] * c->instr->shape[1];

        if (family == NO_FAMILY || !wgmma_shape_fits(c->instr->shape, family, sparse)) {
                wrong(c, "there is no such shape for the type of A");
                return;
        }
        if (family_of(b) != family || (!mixed && a != b) || !accumulates(family, d)) {
                wrong(c, "these types do not go together");
                return;
        }
        if (has(c, DS_PTX_SATFINITE_SATFINITE) && family != BYTE)
                wrong(c, ".satfinite goes with integers only");
        if ((family == BIT) != has(c, DS_PTX_BITOP_AND) || (family == BIT) != has(c, DS_PTX_POPC_POPC))
                wrong(c, ".b1 needs .and.popc, and nothing else takes it");
        if (family == BYTE && a != b)
                ds_ptx_check_least(c, 90, 84);
        check_fragment(c, 0, registers(elements / 4, d), d);
        if (registers_of_a)
                check_fragment(c, 1, 4, a);
        if (sparse && (operands[4].kind != DS_PTX_OPERAND_INT ||
                              operands[4].bits >= (family == BYTE || family == EIGHT ? 1u : 2u)))
                wrong(c, "the selector of the sparse matrix is out of range");
        check_wgmma_scales(c, family, sparse ? 5 : 3, registers_of_a);
}

/* --- moving matrices --------------------------------------------------------------------------------------------- */
static void check_matrix_move(struct ds_ptx_check *c)
{
        enum ds_ptx_modifier space = ds_ptx_mod(c->instr, DS_PTX_SPACE_GLOBAL);
        enum ds_ptx_modifier number = ds_ptx_mod(c->instr, DS_PTX_NUM_X1);
        uint32_t n = number == DS_PTX_NUM_X4 ? 4 : number == DS_PTX_NUM_X2 ? 2 : 1;

        if (c->instr->shape[0] != 8 || c->instr->shape[1] != 8 || c->instr->shape[2])
                wrong(c, "the shape must be .m8n8");
        if (space && space != DS_PTX_SPACE_SHARED && space != DS_PTX_SPACE_SHARED_CTA)
                wrong(c, "the matrix must be in .shared");
        if (c->instr->op == DS_PTX_OP_MOVMATRIX && c->instr->operands[1].kind != DS_PTX_OPERAND_REG)
                wrong(c, "the source must be a register");
        if (c->instr->op == DS_PTX_OP_LDMATRIX)
                check_fragment(c, 0, n, DS_PTX_TYPE_B32);
        else if (c->instr->op == DS_PTX_OP_STMATRIX)
                check_fragment(c, 1, n, DS_PTX_TYPE_B32);
}

void ds_ptx_check_matrix(struct ds_ptx_check *c)
{
        switch (c->instr->op) {
        case DS_PTX_OP_MMA:
                check_mma(c, false);
                break;
        case DS_PTX_OP_MMA_SP_ORDERED:
                ds_ptx_check_least(c, 80, 85);
                check_mma(c, true);
                break;
        case DS_PTX_OP_MMA_SP:
                check_mma(c, true);
                break;
        case DS_PTX_OP_WMMA_LOAD_A:
        case DS_PTX_OP_WMMA_LOAD_B:
        case DS_PTX_OP_WMMA_LOAD_C:
        case DS_PTX_OP_WMMA_STORE:
                check_wmma_load(c);
                break;
        case DS_PTX_OP_WMMA_MMA:
        case DS_PTX_OP_WMMA_BITOP:
                check_wmma(c);
                break;
        case DS_PTX_OP_WGMMA:
                check_wgmma(c, false);
                break;
        case DS_PTX_OP_WGMMA_SP:
                check_wgmma(c, true);
                break;
        case DS_PTX_OP_LDMATRIX:
        case DS_PTX_OP_STMATRIX:
        case DS_PTX_OP_MOVMATRIX:
                check_matrix_move(c);
                break;
        default:
                break;
        }
}
