/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous instructions: mbarriers, copies by an SM's copy engine, reductions over several devices
 *
 * Their operands depend on their modifiers: source and destination of a copy decide how its completion is signalled,
 * and this decides which operands follow. So each family walks over its operands here, after the general checks of
 * validate.c.
 */
#include "ptx/tables.h"
#include "ptx/validate_internal.h"
#include "util/macro.h"

#define TYPE(name) (UINT64_C(1) << DS_PTX_TYPE_##name)

static void wrong(struct ds_ptx_check *c, const char *what)
{
        ds_ptx_invalid(c, c->instr->line, c->instr->column, "'%.120s': %s", c->instr->text, what);
}

static bool has(const struct ds_ptx_check *c, enum ds_ptx_modifier modifier)
{
        return ds_ptx_has(c->instr, modifier);
}

static bool type_in(const struct ds_ptx_check *c, uint64_t set)
{
        return set >> c->instr->types[0] & 1;
}

/* --- walking over operands --------------------------------------------------------------------------------------- */
/* Whether the operand is an integer register of `bits` bits, or a constant. */
static bool is_value(const struct ds_ptx_check *c, const struct ds_ptx_operand *operand, uint32_t bits)
{
        enum ds_ptx_type type;

        if (operand->kind == DS_PTX_OPERAND_INT)
                return true;
        if (operand->kind != DS_PTX_OPERAND_REG || operand->select)
                return false;
        type = (enum ds_ptx_type)c->function->regs[operand->reg].type;
        return type != DS_PTX_TYPE_PRED && ds_ptx_type_bits(type) == bits &&
               (!ds_ptx_type_is_float(type) || type == DS_PTX_TYPE_F16X2);
}

static const struct ds_ptx_operand *operand_at(const struct ds_ptx_check *c, uint32_t i)
{
        return i < c->instr->n_operands ? &c->instr->operands[i] : NULL;
}

static bool expect_address(struct ds_ptx_check *c, uint32_t *at, bool coordinates)
{
        const struct ds_ptx_operand *operand = operand_at(c, *at);

        if (!operand || operand->kind != DS_PTX_OPERAND_ADDRESS || !operand->n_elements == coordinates) {
                wrong(c, coordinates ? "an address [map, {x}] is missing" : "an address [x] is missing");
                return false;
        }
        ++*at;
        return true;
}

static bool accept_value(const struct ds_ptx_check *c, uint32_t *at, uint32_t bits)
{
        const struct ds_ptx_operand *operand = operand_at(c, *at);

        if (!operand || !is_value(c, operand, bits))
                return false;
        ++*at;
        return true;
}

static void expect_value(struct ds_ptx_check *c, uint32_t *at, uint32_t bits, const char *what)
{
        if (!accept_value(c, at, bits))
                wrong(c, what);
}

/* Checks that operand `at`, if it exists, is the cache policy and the last operand. */
static void expect_end(struct ds_ptx_check *c, uint32_t at)
{
        if (has(c, DS_PTX_HINT_CACHE_HINT))
                expect_value(c, &at, 64, "the cache policy is missing");
        if (at < c->instr->n_operands)
                wrong(c, "there are too many operands, or one is in the wrong place");
}

static bool is_vector_of(const struct ds_ptx_check *c, const struct ds_ptx_operand *operand, uint32_t n, uint32_t bits)
{
        if (operand->kind != DS_PTX_OPERAND_VECTOR || operand->n_elements != n)
                return false;
        for (uint32_t i = 0; i < n; i++)
                if (!is_value(c, &operand->elements[i], bits))
                        return false;
        return true;
}

/* --- orders and scopes ------------------------------------------------------------------------------------------- */
static void check_order(struct ds_ptx_check *c)
{
        enum ds_ptx_modifier sem = ds_ptx_mod(c->instr, DS_PTX_SEM_WEAK);
        bool scope = ds_ptx_mod(c->instr, DS_PTX_SCOPE_CTA), ordered = sem && sem != DS_PTX_SEM_WEAK;

        if (ordered != scope)
                wrong(c, scope ? "a scope needs an order, such as .relaxed" : "the scope is missing");
}

/* --- barriers in memory ------------------------------------------------------------------------------------------ */
static void check_arrive(struct ds_ptx_check *c)
{
        bool remote = has(c, DS_PTX_SPACE_SHARED_CLUSTER), no_complete = has(c, DS_PTX_NOCOMPLETE_NOCOMPLETE);
        bool expects = has(c, DS_PTX_EXPECT_EXPECT_TX);
        bool wide = has(c, DS_PTX_SEM_RELAXED) || has(c, DS_PTX_SCOPE_CLUSTER) || remote;
        const struct ds_ptx_operand *first = &c->instr->operands[0];
        bool result = first->kind != DS_PTX_OPERAND_ADDRESS;
        uint32_t at = result ? 1 : 0;

        check_order(c);
        if (result && remote && first->kind != DS_PTX_OPERAND_SINK)
                wrong(c, "with .shared::cluster the result must be '_'");
        if (!result && !remote)
                wrong(c, "the result is missing");
        if (no_complete && (expects || wide))
                wrong(c, ".noComplete does not go with the other words");
        if (!expect_address(c, &at, false))
                return;
        if (no_complete || expects)
                expect_value(c, &at, 32, "the count is missing");
        else if (accept_value(c, &at, 32))
                ds_ptx_check_least(c, 90, 78);
        expect_end(c, at);
        if (result && first->kind == DS_PTX_OPERAND_SINK)
                ds_ptx_check_least(c, 80, 71);
}

static void check_wait(struct ds_ptx_check *c)
{
        const struct ds_ptx_operand *phase = &c->instr->operands[2];

        check_order(c);
        if (!is_value(c, phase, has(c, DS_PTX_PARITY_PARITY) ? 32 : 64))
                wrong(c, has(c, DS_PTX_PARITY_PARITY) ? "the parity must have 32 bits" : "the phase must have 64 bits");
        else if (has(c, DS_PTX_PARITY_PARITY) && phase->kind == DS_PTX_OPERAND_INT && phase->bits > 1)
                wrong(c, "the parity must be 0 or 1");
}

/* --- st.async, red.async, multimem ------------------------------------------------------------------------------- */
#define ADD_TYPES (TYPE(U32) | TYPE(S32) | TYPE(U64))
#define EXTREME_TYPES (TYPE(U32) | TYPE(S32))
#define LONGS (TYPE(U64) | TYPE(S64))
#define BIT_TYPES (TYPE(B32) | TYPE(B64))
#define HALVES (TYPE(F16) | TYPE(BF16))
#define PAIRS (TYPE(F16X2) | TYPE(BF16X2))

static void check_reduction(struct ds_ptx_check *c, uint64_t add, uint64_t extreme, uint64_t bits, uint64_t count)
{
        uint64_t allowed;

        switch (ds_ptx_mod(c->instr, DS_PTX_ATOM_ADD)) {
        case DS_PTX_ATOM_ADD:
                allowed = add;
                break;
        case DS_PTX_ATOM_MIN:
        case DS_PTX_ATOM_MAX:
                allowed = extreme;
                break;
        case DS_PTX_ATOM_INC:
        case DS_PTX_ATOM_DEC:
                allowed = count;
                break;
        default:
                allowed = bits;
        }
        if (!type_in(c, allowed))
                wrong(c, "the operation does not go with the type");
}

static void check_remote(struct ds_ptx_check *c)
{
        enum ds_ptx_modifier scope = ds_ptx_mod(c->instr, DS_PTX_SCOPE_CTA);

        uint32_t bits = ds_ptx_type_bits((enum ds_ptx_type)c->instr->types[0]);

        if (!has(c, DS_PTX_COMPLETION_MBARRIER))
                wrong(c, "this completion does not go with the instruction");
        if ((bits != 32 && bits != 64) || bits * ds_ptx_instr_vector(c->instr) > 128)
                wrong(c, "the value must have 32, 64 or 128 bits");
        if (c->instr->op != DS_PTX_OP_RED_ASYNC)
                return;
        if (!has(c, DS_PTX_SEM_RELAXED) || scope != DS_PTX_SCOPE_CLUSTER)
                wrong(c, "the instruction needs .relaxed.cluster");
        check_reduction(c, ADD_TYPES, EXTREME_TYPES, TYPE(B32), TYPE(U32));
}

static void check_multimem(struct ds_ptx_check *c)
{
        uint32_t vector = ds_ptx_instr_vector(c->instr);
        uint32_t bits = vector * ds_ptx_type_bits((enum ds_ptx_type)c->instr->types[0]);
        uint64_t vectors = HALVES | PAIRS | TYPE(F32);
        bool load = c->instr->op == DS_PTX_OP_MULTIMEM_LD, extreme = has(c, DS_PTX_ATOM_MIN) || has(c, DS_PTX_ATOM_MAX);

        if (has(c, DS_PTX_SEM_WEAK) && c->instr->op == DS_PTX_OP_MULTIMEM_RED)
                wrong(c, ".weak does not go with the instruction");
        check_order(c);
        if (vector > 1 && !type_in(c, vectors))
                wrong(c, "vectors need a float type");
        if (bits > 128 || (type_in(c, HALVES) && bits != 32 && bits != 64 && bits != 128))
                wrong(c, "the vector must have 32, 64 or 128 bits");
        if (c->instr->op == DS_PTX_OP_MULTIMEM_ST)
                return;
        check_reduction(c, ADD_TYPES | TYPE(F32) | TYPE(F64) | HALVES | PAIRS,
                EXTREME_TYPES | LONGS | (load || vector > 1 ? HALVES | PAIRS : 0), BIT_TYPES, 0);
        if (load && ds_ptx_mod(c->instr, DS_PTX_ACC_F32) && (extreme || !type_in(c, HALVES | PAIRS)))
                wrong(c, ".acc::f32 goes with the addition of 16-bit floats");
}

/* --- copies ------------------------------------------------------------------------------------------------------ */
static void check_cp_async(struct ds_ptx_check *c)
{
        bool policy = has(c, DS_PTX_HINT_CACHE_HINT);
        const struct ds_ptx_operand *operands = c->instr->operands;
        const struct ds_ptx_operand *source = c->instr->n_operands > 3u + policy ? &operands[3] : NULL;
        uint64_t size = operands[2].bits;
        uint32_t at = 3;

        if (!has(c, DS_PTX_SPACE2_GLOBAL) || !(has(c, DS_PTX_SPACE_SHARED) || has(c, DS_PTX_SPACE_SHARED_CTA)))
                wrong(c, "a copy goes from .global to .shared");
        if (has(c, DS_PTX_CACHE_CG) ? size != 16 : size != 4 && size != 8 && size != 16)
                wrong(c, has(c, DS_PTX_CACHE_CG) ? "the size must be 16" : "the size must be 4, 8 or 16");
        if (source && source->kind == DS_PTX_OPERAND_REG && c->function->regs[source->reg].type == DS_PTX_TYPE_PRED) {
                ds_ptx_check_least(c, 80, 75);
                at++;
        } else if (source && source->kind == DS_PTX_OPERAND_INT && (source->bits > size || source->negated)) {
                wrong(c, "more bytes of the source than the copy has");
                return;
        } else if (source) {
                accept_value(c, &at, 32);
        }
        expect_end(c, at);
}

/* direction of a copy: from shared memory to another block's shared memory, to global memory, or from global memory */
enum direction {
        TO_CLUSTER,
        TO_BLOCK,
        BETWEEN_BLOCKS,
        TO_GLOBAL,
        NO_DIRECTION,
};

static enum direction direction_of(const struct ds_ptx_check *c)
{
        bool from_global = has(c, DS_PTX_SPACE2_GLOBAL), from_block = has(c, DS_PTX_SPACE2_SHARED_CTA);

        if (from_global && has(c, DS_PTX_SPACE_SHARED_CLUSTER))
                return TO_CLUSTER;
        if (from_global && has(c, DS_PTX_SPACE_SHARED_CTA))
                return TO_BLOCK;
        if (from_block && has(c, DS_PTX_SPACE_SHARED_CLUSTER))
                return BETWEEN_BLOCKS;
        return from_block && has(c, DS_PTX_SPACE_GLOBAL) ? TO_GLOBAL : NO_DIRECTION;
}

/* Checks that the modifiers fit the direction of the copy; false: they do not, or there is no such copy. */
static bool check_direction(struct ds_ptx_check *c, enum direction direction)
{
        if (direction == NO_DIRECTION)
                wrong(c, "there is no copy between these state spaces");
        else if (has(c, DS_PTX_COMPLETION_BULK_GROUP) != (direction == TO_GLOBAL))
                wrong(c, direction == TO_GLOBAL ? "the completion must be .bulk_group"
                                                : "the completion must be .mbarrier::complete_tx::bytes");
        else if (has(c, DS_PTX_MULTICAST_CLUSTER) && direction != TO_CLUSTER)
                wrong(c, ".multicast::cluster needs a copy from .global to .shared::cluster");
        else if (has(c, DS_PTX_HINT_CACHE_HINT) && direction == BETWEEN_BLOCKS)
                wrong(c, ".L2::cache_hint needs global memory");
        else
                return true;
        return false;
}

static void check_size(struct ds_ptx_check *c, uint32_t *at)
{
        const struct ds_ptx_operand *size = operand_at(c, *at);

        if (size && size->kind == DS_PTX_OPERAND_INT && size->bits % 16)
                wrong(c, "the size must be a multiple of 16");
        expect_value(c, at, 32, "the size is missing");
}

static void check_bulk(struct ds_ptx_check *c)
{
        enum direction direction = direction_of(c);
        bool reduces = c->instr->op == DS_PTX_OP_CP_REDUCE_BULK;
        uint32_t at = 0;

        if (!check_direction(c, direction) || !expect_address(c, &at, false) || !expect_address(c, &at, false))
                return;
        check_size(c, &at);
        if (direction != TO_GLOBAL && !expect_address(c, &at, false))
                return;
        if (has(c, DS_PTX_MULTICAST_CLUSTER))
                expect_value(c, &at, 16, "the mask of blocks is missing");
        expect_end(c, at);
        if (!reduces)
                return;
        if (direction == BETWEEN_BLOCKS)
                check_reduction(c, ADD_TYPES, EXTREME_TYPES, TYPE(B32), TYPE(U32));
        else if (direction == TO_GLOBAL)
                check_reduction(c, ADD_TYPES | TYPE(F32) | TYPE(F64) | HALVES, EXTREME_TYPES | LONGS | HALVES,
                        BIT_TYPES, TYPE(U32));
        else
                wrong(c, "there is no reduction between these state spaces");
        if (has(c, DS_PTX_NOFTZ_NOFTZ) != (has(c, DS_PTX_ATOM_ADD) && type_in(c, HALVES)))
                wrong(c, ".noftz belongs to the addition of 16-bit floats");
}

static uint32_t dimensions(const struct ds_ptx_check *c)
{
        return ds_ptx_mod(c->instr, DS_PTX_DIM_D1) - DS_PTX_DIM_D1 + 1u;
}

/* Checks a tensor operand [map, {x, y}]: it has a coordinate for each dimension. */
static bool check_coordinates(struct ds_ptx_check *c, uint32_t *at)
{
        const struct ds_ptx_operand *operand = operand_at(c, *at);
        enum ds_ptx_modifier mode = ds_ptx_mod(c->instr, DS_PTX_LOADMODE_TILE);

        if (!expect_address(c, at, true))
                return false;
        if (operand->n_elements != 1 || !is_vector_of(c, &operand->elements[0], dimensions(c), 32)) {
                wrong(c, "there must be one coordinate of 32 bits per dimension");
                return false;
        }
        if (mode && mode != DS_PTX_LOADMODE_TILE && dimensions(c) < 3) {
                wrong(c, "an im2col mode needs three dimensions or more");
                return false;
        }
        return true;
}

/* Checks the offsets of .im2col: registers of 16 bits, two fewer than dimensions. */
static void check_offsets(struct ds_ptx_check *c, uint32_t *at)
{
        const struct ds_ptx_operand *operand = operand_at(c, *at);

        if (!has(c, DS_PTX_LOADMODE_IM2COL))
                return;
        if (operand && is_vector_of(c, operand, dimensions(c) - 2, 16))
                ++*at;
        else
                wrong(c, "the offsets {i} of .im2col are missing or have the wrong number");
}

static void check_bulk_tensor(struct ds_ptx_check *c)
{
        enum direction direction = direction_of(c);
        uint32_t at = 0;

        if (!check_direction(c, direction))
                return;
        if (direction == BETWEEN_BLOCKS ||
                has(c, direction == TO_GLOBAL ? DS_PTX_LOADMODE_IM2COL : DS_PTX_LOADMODE_IM2COL_NO_OFFS)) {
                wrong(c, "these modifiers cannot be combined");
                return;
        }
        if (direction == TO_GLOBAL) {
                if (check_coordinates(c, &at) && expect_address(c, &at, false))
                        expect_end(c, at);
                return;
        }
        if (!expect_address(c, &at, false) || !check_coordinates(c, &at) || !expect_address(c, &at, false))
                return;
        check_offsets(c, &at);
        if (has(c, DS_PTX_MULTICAST_CLUSTER))
                expect_value(c, &at, 16, "the mask of blocks is missing");
        expect_end(c, at);
}

static void check_prefetch(struct ds_ptx_check *c)
{
        uint32_t at = 0;

        if (!has(c, DS_PTX_CACHE_LEVEL_L2) || !has(c, DS_PTX_SPACE_GLOBAL)) {
                wrong(c, "a bulk prefetch is .L2.global");
                return;
        }
        if (c->instr->op == DS_PTX_OP_CP_BULK_PREFETCH) {
                if (!expect_address(c, &at, false))
                        return;
                check_size(c, &at);
        } else {
                if (has(c, DS_PTX_LOADMODE_IM2COL_NO_OFFS))
                        wrong(c, ".im2col_no_offs does not go with the instruction");
                else if (check_coordinates(c, &at))
                        check_offsets(c, &at);
                else
                        return;
        }
        expect_end(c, at);
}

static void check_reduce_tensor(struct ds_ptx_check *c)
{
        uint32_t at = 0;

        if (direction_of(c) != TO_GLOBAL || !has(c, DS_PTX_COMPLETION_BULK_GROUP) || has(c, DS_PTX_LOADMODE_IM2COL))
                wrong(c, "a reduction of tensors goes from .shared::cta to .global, in a .bulk_group");
        else if (check_coordinates(c, &at) && expect_address(c, &at, false))
                expect_end(c, at);
}

/* --- tensor maps ------------------------------------------------------------------------------------------------- */
static uint32_t greatest_value(enum ds_ptx_modifier field)
{
        switch (field) {
        case DS_PTX_TFIELD_ELEMTYPE:
                return 15;
        case DS_PTX_TFIELD_INTERLEAVE:
                return 2;
        case DS_PTX_TFIELD_SWIZZLE:
                return 3;
        default:
                return 1;
        }
}

static void check_replace(struct ds_ptx_check *c)
{
        enum ds_ptx_modifier field = ds_ptx_mod(c->instr, DS_PTX_TFIELD_RANK);
        bool wide = field == DS_PTX_TFIELD_ADDRESS || field == DS_PTX_TFIELD_GLOBAL_STRIDE;
        bool indexed = field == DS_PTX_TFIELD_BOX_DIM || field == DS_PTX_TFIELD_GLOBAL_DIM ||
                       field == DS_PTX_TFIELD_GLOBAL_STRIDE || field == DS_PTX_TFIELD_ELEMENT_STRIDE;
        bool constant = field >= DS_PTX_TFIELD_ELEMTYPE;
        const struct ds_ptx_operand *operands = c->instr->operands;
        uint32_t last = c->instr->n_operands - 1u;

        if (type_in(c, TYPE(B64)) != wide)
                wrong(c, wide ? "this field requires type .b64" : "this field requires type .b32");
        if (indexed != (last == 2)) {
                wrong(c, indexed ? "the number of the dimension is missing" : "the field has no dimensions");
                return;
        }
        if (indexed && (operands[1].kind != DS_PTX_OPERAND_INT || operands[1].bits > 4))
                wrong(c, "the number of the dimension must be a constant from 0 to 4");
        if (constant && (operands[last].kind != DS_PTX_OPERAND_INT || operands[last].bits > greatest_value(field)))
                ds_ptx_invalid(c, operands[last].line, operands[last].column,
                        "'%.120s': the value must be a constant from 0 to %u", c->instr->text, greatest_value(field));
}

static void check_tensormap_fence(struct ds_ptx_check *c)
{
        if (!has(c, DS_PTX_SPACE_GLOBAL) || !has(c, DS_PTX_SPACE2_SHARED_CTA) || !has(c, DS_PTX_TENSORMAP_GENERIC) ||
                !has(c, DS_PTX_SEM_RELEASE))
                wrong(c, "the instruction is written .global.shared::cta.tensormap::generic.release");
        if (c->instr->operands[2].bits != 128)
                wrong(c, "the size must be 128");
}

void ds_ptx_check_async(struct ds_ptx_check *c)
{
        switch (c->instr->op) {
        case DS_PTX_OP_MBARRIER_EXPECT_TX:
        case DS_PTX_OP_MBARRIER_COMPLETE_TX:
                check_order(c);
                break;
        case DS_PTX_OP_MBARRIER_ARRIVE:
        case DS_PTX_OP_MBARRIER_ARRIVE_DROP:
                check_arrive(c);
                break;
        case DS_PTX_OP_MBARRIER_TEST_WAIT:
        case DS_PTX_OP_MBARRIER_TRY_WAIT:
                check_wait(c);
                break;
        case DS_PTX_OP_ST_ASYNC:
        case DS_PTX_OP_RED_ASYNC:
                check_remote(c);
                break;
        case DS_PTX_OP_MULTIMEM_LD:
        case DS_PTX_OP_MULTIMEM_ST:
        case DS_PTX_OP_MULTIMEM_RED:
                check_multimem(c);
                break;
        case DS_PTX_OP_CP_ASYNC:
                check_cp_async(c);
                break;
        case DS_PTX_OP_CP_BULK:
        case DS_PTX_OP_CP_REDUCE_BULK:
                check_bulk(c);
                break;
        case DS_PTX_OP_CP_BULK_TENSOR:
                check_bulk_tensor(c);
                break;
        case DS_PTX_OP_CP_BULK_PREFETCH:
        case DS_PTX_OP_CP_BULK_PREFETCH_TENSOR:
                check_prefetch(c);
                break;
        case DS_PTX_OP_CP_REDUCE_TENSOR:
                check_reduce_tensor(c);
                break;
        case DS_PTX_OP_TENSORMAP_REPLACE:
                check_replace(c);
                break;
        case DS_PTX_OP_TENSORMAP_FENCE:
                check_tensormap_fence(c);
                break;
        default:
                break;
        }
}
