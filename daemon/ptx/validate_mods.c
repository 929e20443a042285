/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combinations of modifiers and types
 *
 * An opcode's row says which words may follow. These tables say which of them go together: values of a slot that an
 * opcode accepts, types that a value requires, modifiers of each conversion. Each was compared with NVIDIA's assembler,
 * word by word.
 */
#include <string.h>

#include "ptx/tables.h"
#include "ptx/validate_internal.h"
#include "util/macro.h"

#define TYPE(name) (UINT64_C(1) << DS_PTX_TYPE_##name)
#define HALVES (TYPE(F16) | TYPE(F16X2) | TYPE(BF16) | TYPE(BF16X2))
#define BRAINS (TYPE(BF16) | TYPE(BF16X2))
#define SIGNED_TYPES (TYPE(S8) | TYPE(S16) | TYPE(S32) | TYPE(S64))
#define UNSIGNED_TYPES (TYPE(U8) | TYPE(U16) | TYPE(U32) | TYPE(U64))
#define INTS (SIGNED_TYPES | UNSIGNED_TYPES)
#define WIDE_INTS (INTS & ~(TYPE(U8) | TYPE(S8)))
#define BITS (TYPE(B16) | TYPE(B32) | TYPE(B64))
#define FP8 (TYPE(E4M3X2) | TYPE(E5M2X2))
#define ANY_TYPE UINT64_MAX

static bool has(const struct ds_ptx_check *c, enum ds_ptx_modifier modifier)
{
        return ds_ptx_has(c->instr, modifier);
}

static bool type_in(const struct ds_ptx_check *c, uint32_t index, uint64_t set)
{
        return set >> c->instr->types[index] & 1;
}

static bool type_of_reg_is(const struct ds_ptx_check *c, uint32_t reg, uint64_t set)
{
        return set >> c->function->regs[reg].type & 1;
}

/* Whether the instruction has a second destination, which is a predicate. */
static bool has_second(const struct ds_ptx_check *c)
{
        return c->instr->operands[0].kind == DS_PTX_OPERAND_PAIR && c->instr->operands[0].pair != DS_PTX_NO_REG;
}

static void wrong(struct ds_ptx_check *c, const char *what)
{
        ds_ptx_invalid(c, c->instr->line, c->instr->column, "'%s': %s", c->instr->text, what);
}

/* --- values of a slot that an opcode accepts --------------------------------------------------------------------- */
#define ONLY_MAX 6

struct only {
        uint16_t op;
        uint16_t values[ONLY_MAX]; /* accepted values, all of one slot */
};

static const struct only only_table[] = {
        {DS_PTX_OP_LD, {DS_PTX_SEM_WEAK, DS_PTX_SEM_RELAXED, DS_PTX_SEM_ACQUIRE, DS_PTX_SEM_VOLATILE, DS_PTX_SEM_MMIO}},
        {DS_PTX_OP_ST, {DS_PTX_SEM_WEAK, DS_PTX_SEM_RELAXED, DS_PTX_SEM_RELEASE, DS_PTX_SEM_VOLATILE, DS_PTX_SEM_MMIO}},
        {DS_PTX_OP_LD, {DS_PTX_CACHE_CA, DS_PTX_CACHE_CG, DS_PTX_CACHE_CS, DS_PTX_CACHE_LU, DS_PTX_CACHE_CV}},
        {DS_PTX_OP_ST, {DS_PTX_CACHE_WB, DS_PTX_CACHE_CG, DS_PTX_CACHE_CS, DS_PTX_CACHE_WT}},
        {DS_PTX_OP_CP_ASYNC, {DS_PTX_CACHE_CA, DS_PTX_CACHE_CG}},
        {DS_PTX_OP_LDU, {DS_PTX_SPACE_GLOBAL}},
        {DS_PTX_OP_LDU, {DS_PTX_VEC_V2, DS_PTX_VEC_V4}},
        {DS_PTX_OP_PREFETCH, {DS_PTX_SPACE_GLOBAL, DS_PTX_SPACE_LOCAL}},
        {DS_PTX_OP_PREFETCH_TENSORMAP, {DS_PTX_SPACE_CONST, DS_PTX_SPACE_PARAM}},
        {DS_PTX_OP_PREFETCHU, {DS_PTX_CACHE_LEVEL_L1}},
        {DS_PTX_OP_APPLYPRIORITY, {DS_PTX_SPACE_GLOBAL}},
        {DS_PTX_OP_APPLYPRIORITY, {DS_PTX_CACHE_LEVEL_L2_EVICT_NORMAL}},
        {DS_PTX_OP_DISCARD, {DS_PTX_SPACE_GLOBAL}},
        {DS_PTX_OP_DISCARD, {DS_PTX_CACHE_LEVEL_L2}},
        {DS_PTX_OP_POLICY_RANGE, {DS_PTX_SPACE_GLOBAL}},
        {DS_PTX_OP_POLICY_CVT, {DS_PTX_CACHE_LEVEL_L2}},
        {DS_PTX_OP_ATOM, {DS_PTX_SEM_RELAXED, DS_PTX_SEM_ACQUIRE, DS_PTX_SEM_RELEASE, DS_PTX_SEM_ACQ_REL}},
        {DS_PTX_OP_ATOM_CAS, {DS_PTX_SEM_RELAXED, DS_PTX_SEM_ACQUIRE, DS_PTX_SEM_RELEASE, DS_PTX_SEM_ACQ_REL}},
        {DS_PTX_OP_ATOM_EXCH, {DS_PTX_SEM_RELAXED, DS_PTX_SEM_ACQUIRE, DS_PTX_SEM_RELEASE, DS_PTX_SEM_ACQ_REL}},
        {DS_PTX_OP_RED, {DS_PTX_SEM_RELAXED, DS_PTX_SEM_RELEASE}},
        {DS_PTX_OP_ATOM,
                {DS_PTX_SPACE_GLOBAL, DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA, DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_ATOM_CAS,
                {DS_PTX_SPACE_GLOBAL, DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA, DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_ATOM_EXCH,
                {DS_PTX_SPACE_GLOBAL, DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA, DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_RED,
                {DS_PTX_SPACE_GLOBAL, DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA, DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_MEMBAR_PROXY, {DS_PTX_PROXY_ALIAS}},
        {DS_PTX_OP_FENCE, {DS_PTX_SEM_SC, DS_PTX_SEM_ACQ_REL, DS_PTX_SEM_ACQUIRE, DS_PTX_SEM_RELEASE}},
        {DS_PTX_OP_FENCE_MBARRIER, {DS_PTX_SEM_RELEASE}},
        {DS_PTX_OP_FENCE_MBARRIER, {DS_PTX_SCOPE_CLUSTER}},
        {DS_PTX_OP_FENCE_PROXY_TENSORMAP, {DS_PTX_SEM_ACQUIRE, DS_PTX_SEM_RELEASE}},
        {DS_PTX_OP_FENCE_PROXY, {DS_PTX_SPACE_GLOBAL, DS_PTX_SPACE_SHARED_CTA, DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_BARRIER_CLUSTER_ARRIVE, {DS_PTX_SEM_RELEASE, DS_PTX_SEM_RELAXED}},
        {DS_PTX_OP_BARRIER_CLUSTER_WAIT, {DS_PTX_SEM_ACQUIRE}},
        {DS_PTX_OP_FENCE_ACQUIRE_RESTRICT, {DS_PTX_SCOPE_CLUSTER}},
        {DS_PTX_OP_FENCE_RELEASE_RESTRICT, {DS_PTX_SCOPE_CLUSTER}},
        {DS_PTX_OP_FENCE_PROXY_ACQUIRE, {DS_PTX_SCOPE_CLUSTER}},
        {DS_PTX_OP_FENCE_PROXY_RELEASE, {DS_PTX_SCOPE_CLUSTER}},
        {DS_PTX_OP_PREFETCH_TENSORMAP, {DS_PTX_TENSORMAP_TENSORMAP}},
        {DS_PTX_OP_LOP3_BOOL, {DS_PTX_BOOL_AND, DS_PTX_BOOL_OR}},
        {DS_PTX_OP_MAPA, {DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_GETCTARANK, {DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_RCP, {DS_PTX_APPROX_APPROX}},
        {DS_PTX_OP_SQRT, {DS_PTX_APPROX_APPROX}},
        {DS_PTX_OP_RSQRT, {DS_PTX_APPROX_APPROX}},
        {DS_PTX_OP_SIN, {DS_PTX_APPROX_APPROX}},
        {DS_PTX_OP_COS, {DS_PTX_APPROX_APPROX}},
        {DS_PTX_OP_LG2, {DS_PTX_APPROX_APPROX}},
        {DS_PTX_OP_EX2, {DS_PTX_APPROX_APPROX}},
        {DS_PTX_OP_TANH, {DS_PTX_APPROX_APPROX}},
        {DS_PTX_OP_CP_ASYNC_MBARRIER, {DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA}},
        {DS_PTX_OP_MBARRIER_INIT, {DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA}},
        {DS_PTX_OP_MBARRIER_INVAL, {DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA}},
        {DS_PTX_OP_MBARRIER_EXPECT_TX, {DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA, DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_MBARRIER_EXPECT_TX, {DS_PTX_SEM_RELAXED}},
        {DS_PTX_OP_MBARRIER_EXPECT_TX, {DS_PTX_SCOPE_CTA, DS_PTX_SCOPE_CLUSTER}},
        {DS_PTX_OP_MBARRIER_COMPLETE_TX, {DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA, DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_MBARRIER_COMPLETE_TX, {DS_PTX_SEM_RELAXED}},
        {DS_PTX_OP_MBARRIER_COMPLETE_TX, {DS_PTX_SCOPE_CTA, DS_PTX_SCOPE_CLUSTER}},
        {DS_PTX_OP_MBARRIER_ARRIVE, {DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA, DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_MBARRIER_ARRIVE, {DS_PTX_SEM_RELAXED, DS_PTX_SEM_RELEASE}},
        {DS_PTX_OP_MBARRIER_ARRIVE, {DS_PTX_SCOPE_CTA, DS_PTX_SCOPE_CLUSTER}},
        {DS_PTX_OP_MBARRIER_ARRIVE_DROP, {DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA, DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_MBARRIER_ARRIVE_DROP, {DS_PTX_SEM_RELAXED, DS_PTX_SEM_RELEASE}},
        {DS_PTX_OP_MBARRIER_ARRIVE_DROP, {DS_PTX_SCOPE_CTA, DS_PTX_SCOPE_CLUSTER}},
        {DS_PTX_OP_MBARRIER_TEST_WAIT, {DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA}},
        {DS_PTX_OP_MBARRIER_TEST_WAIT, {DS_PTX_SEM_RELAXED, DS_PTX_SEM_ACQUIRE}},
        {DS_PTX_OP_MBARRIER_TEST_WAIT, {DS_PTX_SCOPE_CTA, DS_PTX_SCOPE_CLUSTER}},
        {DS_PTX_OP_MBARRIER_TRY_WAIT, {DS_PTX_SPACE_SHARED, DS_PTX_SPACE_SHARED_CTA}},
        {DS_PTX_OP_MBARRIER_TRY_WAIT, {DS_PTX_SEM_RELAXED, DS_PTX_SEM_ACQUIRE}},
        {DS_PTX_OP_MBARRIER_TRY_WAIT, {DS_PTX_SCOPE_CTA, DS_PTX_SCOPE_CLUSTER}},
        {DS_PTX_OP_ST_ASYNC, {DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_ST_ASYNC, {DS_PTX_SEM_WEAK}},
        {DS_PTX_OP_ST_ASYNC, {DS_PTX_VEC_V2, DS_PTX_VEC_V4}},
        {DS_PTX_OP_RED_ASYNC, {DS_PTX_SPACE_SHARED_CLUSTER}},
        {DS_PTX_OP_MULTIMEM_LD, {DS_PTX_SPACE_GLOBAL}},
        {DS_PTX_OP_MULTIMEM_LD, {DS_PTX_SEM_WEAK, DS_PTX_SEM_RELAXED, DS_PTX_SEM_ACQUIRE}},
        {DS_PTX_OP_MULTIMEM_ST, {DS_PTX_SPACE_GLOBAL}},
        {DS_PTX_OP_MULTIMEM_ST, {DS_PTX_SEM_WEAK, DS_PTX_SEM_RELAXED, DS_PTX_SEM_RELEASE}},
        {DS_PTX_OP_MULTIMEM_RED, {DS_PTX_SPACE_GLOBAL}},
        {DS_PTX_OP_MULTIMEM_RED, {DS_PTX_SEM_RELAXED, DS_PTX_SEM_RELEASE}},
        {DS_PTX_OP_TENSORMAP_REPLACE, {DS_PTX_SPACE_GLOBAL, DS_PTX_SPACE_SHARED_CTA}},
};

static void check_only(struct ds_ptx_check *c)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(only_table); i++) {
                const struct only *only = &only_table[i];
                enum ds_ptx_modifier value;
                bool found = false;

                if (only->op != c->instr->op)
                        continue;
                value = ds_ptx_mod(c->instr, (enum ds_ptx_modifier)only->values[0]);
                for (size_t j = 0; j < ONLY_MAX; j++)
                        found |= only->values[j] == value;
                if (value != DS_PTX_MODIFIER_NONE && !found)
                        ds_ptx_invalid(c, c->instr->line, c->instr->column, "'%s' does not take .%s", c->instr->text,
                                ds_ptx_modifier_word(value));
        }
}

/* --- types that a value requires --------------------------------------------------------------------------------- */
struct wants {
        uint16_t op;
        uint16_t value;
        uint64_t types; /* types of the first suffix that are accepted together with `value` */
};

#define ATOM_ADD_TYPES (TYPE(U32) | TYPE(S32) | TYPE(U64) | TYPE(F32) | TYPE(F64) | HALVES)
#define ATOM_MINMAX_TYPES (TYPE(U32) | TYPE(S32) | TYPE(U64) | TYPE(S64) | HALVES)
#define ATOM_BIT_TYPES (TYPE(B32) | TYPE(B64))

static const struct wants wants_table[] = {
        {DS_PTX_OP_ATOM, DS_PTX_ATOM_ADD, ATOM_ADD_TYPES},
        {DS_PTX_OP_ATOM, DS_PTX_ATOM_MIN, ATOM_MINMAX_TYPES},
        {DS_PTX_OP_ATOM, DS_PTX_ATOM_MAX, ATOM_MINMAX_TYPES},
        {DS_PTX_OP_ATOM, DS_PTX_ATOM_AND, ATOM_BIT_TYPES},
        {DS_PTX_OP_ATOM, DS_PTX_ATOM_OR, ATOM_BIT_TYPES},
        {DS_PTX_OP_ATOM, DS_PTX_ATOM_XOR, ATOM_BIT_TYPES},
        {DS_PTX_OP_ATOM, DS_PTX_ATOM_INC, TYPE(U32)},
        {DS_PTX_OP_ATOM, DS_PTX_ATOM_DEC, TYPE(U32)},
        {DS_PTX_OP_RED, DS_PTX_ATOM_ADD, ATOM_ADD_TYPES},
        {DS_PTX_OP_RED, DS_PTX_ATOM_MIN, ATOM_MINMAX_TYPES},
        {DS_PTX_OP_RED, DS_PTX_ATOM_MAX, ATOM_MINMAX_TYPES},
        {DS_PTX_OP_RED, DS_PTX_ATOM_AND, ATOM_BIT_TYPES},
        {DS_PTX_OP_RED, DS_PTX_ATOM_OR, ATOM_BIT_TYPES},
        {DS_PTX_OP_RED, DS_PTX_ATOM_XOR, ATOM_BIT_TYPES},
        {DS_PTX_OP_RED, DS_PTX_ATOM_INC, TYPE(U32)},
        {DS_PTX_OP_RED, DS_PTX_ATOM_DEC, TYPE(U32)},
        {DS_PTX_OP_BAR_RED, DS_PTX_BARRED_POPC, TYPE(U32)},
        {DS_PTX_OP_BAR_RED, DS_PTX_BARRED_AND, TYPE(PRED)},
        {DS_PTX_OP_BAR_RED, DS_PTX_BARRED_OR, TYPE(PRED)},
        {DS_PTX_OP_BARRIER_RED, DS_PTX_BARRED_POPC, TYPE(U32)},
        {DS_PTX_OP_BARRIER_RED, DS_PTX_BARRED_AND, TYPE(PRED)},
        {DS_PTX_OP_BARRIER_RED, DS_PTX_BARRED_OR, TYPE(PRED)},
        {DS_PTX_OP_VOTE, DS_PTX_VOTE_ALL, TYPE(PRED)},
        {DS_PTX_OP_VOTE, DS_PTX_VOTE_ANY, TYPE(PRED)},
        {DS_PTX_OP_VOTE, DS_PTX_VOTE_UNI, TYPE(PRED)},
        {DS_PTX_OP_VOTE, DS_PTX_VOTE_BALLOT, TYPE(B32)},
        {DS_PTX_OP_REDUX, DS_PTX_REDUX_ADD, TYPE(U32) | TYPE(S32)},
        {DS_PTX_OP_REDUX, DS_PTX_REDUX_MIN, TYPE(U32) | TYPE(S32)},
        {DS_PTX_OP_REDUX, DS_PTX_REDUX_MAX, TYPE(U32) | TYPE(S32)},
        {DS_PTX_OP_REDUX, DS_PTX_REDUX_AND, TYPE(B32)},
        {DS_PTX_OP_REDUX, DS_PTX_REDUX_OR, TYPE(B32)},
        {DS_PTX_OP_REDUX, DS_PTX_REDUX_XOR, TYPE(B32)},
        {DS_PTX_OP_ADD, DS_PTX_SAT_SAT, TYPE(S32)},
        {DS_PTX_OP_SUB, DS_PTX_SAT_SAT, TYPE(S32)},
        {DS_PTX_OP_MAD, DS_PTX_SAT_SAT, TYPE(S32)},
        {DS_PTX_OP_MAD24, DS_PTX_SAT_SAT, TYPE(S32)},
        {DS_PTX_OP_MUL, DS_PTX_MUL_WIDE, TYPE(U16) | TYPE(S16) | TYPE(U32) | TYPE(S32)},
        {DS_PTX_OP_MAD, DS_PTX_MUL_WIDE, TYPE(U16) | TYPE(S16) | TYPE(U32) | TYPE(S32)},
        {DS_PTX_OP_MIN, DS_PTX_RELU_RELU, TYPE(S32) | TYPE(S16X2)},
        {DS_PTX_OP_MAX, DS_PTX_RELU_RELU, TYPE(S32) | TYPE(S16X2)},
        {DS_PTX_OP_FMIN, DS_PTX_NAN_NAN, ANY_TYPE & ~TYPE(F64)},
        {DS_PTX_OP_FMAX, DS_PTX_NAN_NAN, ANY_TYPE & ~TYPE(F64)},
        {DS_PTX_OP_FMIN, DS_PTX_ABS_ABS, ANY_TYPE & ~TYPE(F64)},
        {DS_PTX_OP_FMAX, DS_PTX_ABS_ABS, ANY_TYPE & ~TYPE(F64)},
        {DS_PTX_OP_FMA, DS_PTX_RELU_RELU, HALVES},
        {DS_PTX_OP_FMA, DS_PTX_OOB_OOB, HALVES},
        {DS_PTX_OP_FDIV, DS_PTX_APPROX_APPROX, TYPE(F32)},
        {DS_PTX_OP_FDIV, DS_PTX_APPROX_FULL, TYPE(F32)},
        {DS_PTX_OP_SQRT, DS_PTX_APPROX_APPROX, TYPE(F32)},
};

static void check_wants(struct ds_ptx_check *c)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(wants_table); i++) {
                const struct wants *wants = &wants_table[i];

                if (wants->op == c->instr->op && has(c, (enum ds_ptx_modifier)wants->value) &&
                        !type_in(c, 0, wants->types))
                        ds_ptx_invalid(c, c->instr->line, c->instr->column, "'%s': .%s does not go with .%s",
                                c->instr->text, ds_ptx_modifier_word((enum ds_ptx_modifier)wants->value),
                                ds_ptx_type_name((enum ds_ptx_type)c->instr->types[0]));
        }
}

/* --- floating point ---------------------------------------------------------------------------------------------- */
static void check_arithmetic(struct ds_ptx_check *c)
{
        enum ds_ptx_modifier round = ds_ptx_mod(c->instr, DS_PTX_ROUND_RN);

        if (round == DS_PTX_ROUND_RNA || (round > DS_PTX_ROUND_RN && type_in(c, 0, HALVES)))
                wrong(c, "this rounding does not go with the type");
        if (has(c, DS_PTX_SAT_SAT) && type_in(c, 0, TYPE(F64) | BRAINS))
                wrong(c, ".sat does not go with the type");
        if (has(c, DS_PTX_FTZ_FTZ) && type_in(c, 0, TYPE(F64) | BRAINS))
                wrong(c, ".ftz does not go with the type");
        if (has(c, DS_PTX_XORSIGN_XORSIGN) != has(c, DS_PTX_ABS_ABS))
                wrong(c, ".xorsign and .abs belong together");
        if (has(c, DS_PTX_OOB_OOB) && has(c, DS_PTX_FTZ_FTZ))
                wrong(c, ".oob does not go with .ftz");
        if (has(c, DS_PTX_RELU_RELU) && has(c, DS_PTX_SAT_SAT))
                wrong(c, ".relu and .sat exclude each other");
}

/* Checks div, rcp, sqrt: they are either approximate or have a rounding. */
static void check_division(struct ds_ptx_check *c)
{
        enum ds_ptx_modifier approx = ds_ptx_mod(c->instr, DS_PTX_APPROX_APPROX);
        enum ds_ptx_modifier round = ds_ptx_mod(c->instr, DS_PTX_ROUND_RN);
        bool f64 = type_in(c, 0, TYPE(F64)), ftz = has(c, DS_PTX_FTZ_FTZ);

        if (!approx == !round || round == DS_PTX_ROUND_RNA)
                wrong(c, "either .approx or a rounding mode is required");
        else if (f64 && c->instr->op == DS_PTX_OP_RCP ? approx && !ftz : f64 && ftz)
                wrong(c, approx ? ".approx.f64 needs .ftz" : ".ftz does not go with .f64");
}

static void check_special(struct ds_ptx_check *c)
{
        bool ftz = has(c, DS_PTX_FTZ_FTZ);

        if (c->instr->op != DS_PTX_OP_EX2)
                return;
        if (type_in(c, 0, BRAINS) && !ftz)
                wrong(c, ".ftz is needed with this type");
        if (type_in(c, 0, TYPE(F16) | TYPE(F16X2)) && ftz)
                wrong(c, ".ftz does not go with the type");
}

/* --- comparisons ------------------------------------------------------------------------------------------------- */
static uint64_t types_of_comparison(enum ds_ptx_modifier cmp)
{
        uint64_t floats = TYPE(F32) | TYPE(F64) | HALVES;

        switch (cmp) {
        case DS_PTX_CMP_EQ:
        case DS_PTX_CMP_NE:
                return ANY_TYPE;
        case DS_PTX_CMP_LT:
        case DS_PTX_CMP_LE:
        case DS_PTX_CMP_GT:
        case DS_PTX_CMP_GE:
                return INTS | floats;
        case DS_PTX_CMP_LO:
        case DS_PTX_CMP_LS:
        case DS_PTX_CMP_HI:
        case DS_PTX_CMP_HS:
                return UNSIGNED_TYPES;
        default:
                return floats;
        }
}

/* Types of the result that `set` may have after a comparison of the type `source`. */
static uint64_t results_of_set(enum ds_ptx_type source)
{
        uint64_t always = TYPE(U32) | TYPE(S32);

        switch (source) {
        case DS_PTX_TYPE_F16:
                return always | TYPE(F16) | TYPE(BF16) | TYPE(U16) | TYPE(S16);
        case DS_PTX_TYPE_BF16:
                return always | TYPE(BF16) | TYPE(U16) | TYPE(S16);
        case DS_PTX_TYPE_F16X2:
                return always | TYPE(F16X2);
        case DS_PTX_TYPE_BF16X2:
                return always | TYPE(BF16X2);
        default:
                return always | TYPE(F32) | TYPE(F16) | TYPE(BF16);
        }
}

static void check_comparison(struct ds_ptx_check *c)
{
        bool set = c->instr->op == DS_PTX_OP_SET;
        uint32_t source = set ? 1 : 0;
        enum ds_ptx_modifier cmp = ds_ptx_mod(c->instr, DS_PTX_CMP_EQ);

        if (!type_in(c, source, types_of_comparison(cmp)))
                ds_ptx_invalid(c, c->instr->line, c->instr->column, "'%s': .%s does not go with .%s", c->instr->text,
                        ds_ptx_modifier_word(cmp), ds_ptx_type_name((enum ds_ptx_type)c->instr->types[source]));
        if (has(c, DS_PTX_FTZ_FTZ) &&
                (!type_in(c, source, TYPE(F32) | TYPE(F16) | TYPE(F16X2)) || (set && type_in(c, 0, BRAINS))))
                wrong(c, ".ftz does not go with the type");
        if (set && !type_in(c, 0, results_of_set((enum ds_ptx_type)c->instr->types[1])))
                wrong(c, "these types do not go together");
        if (!set && type_in(c, 0, TYPE(F16) | TYPE(BF16)) && has_second(c))
                wrong(c, "one comparison has one result");
        if (!ds_ptx_mod(c->instr, DS_PTX_BOOL_AND) != !c->n_optional)
                wrong(c, c->n_optional ? "a predicate to combine with needs .and, .or or .xor"
                                       : "the predicate to combine with is missing");
}

/* --- conversions ------------------------------------------------------------------------------------------------- */
enum {
        CVT_FTZ = 1,
        CVT_SAT = 2,
        CVT_RELU = 4,
        CVT_SATFINITE = 8,
        CVT_FINITE_NEEDED = 16, /* .satfinite is mandatory */
        CVT_PAIR = 32,          /* packs two sources into one value */
};

enum cvt_round {
        ROUND_NONE,
        ROUND_INT,     /* .rni etc., mandatory */
        ROUND_INT_MAY, /* .rni etc., optional */
        ROUND_ALL,     /* .rn .rz .rm .rp, mandatory */
        ROUND_TWO,     /* .rn .rz, mandatory */
        ROUND_ALL_MAY, /* .rn .rz .rm .rp, optional */
        ROUND_RN,      /* .rn, mandatory */
        ROUND_TF32,    /* .rn .rz .rna, mandatory */
};

struct conversion {
        uint64_t to, from;
        uint8_t round;
        uint8_t flags;
};

static const struct conversion conversions[] = {
        {INTS, INTS, ROUND_NONE, CVT_SAT},
        {INTS, TYPE(F16) | TYPE(F64), ROUND_INT, CVT_SAT},
        {INTS, TYPE(F32), ROUND_INT, CVT_SAT | CVT_FTZ},
        {WIDE_INTS, TYPE(BF16), ROUND_INT, 0},
        {TYPE(F64) | TYPE(F16), INTS, ROUND_ALL, CVT_SAT},
        {TYPE(F32), INTS, ROUND_ALL, CVT_SAT | CVT_FTZ},
        {TYPE(BF16), WIDE_INTS, ROUND_ALL, 0},
        {TYPE(F16), TYPE(F64), ROUND_ALL, CVT_SAT},
        {TYPE(F16), TYPE(F32), ROUND_ALL, CVT_SAT | CVT_FTZ | CVT_RELU | CVT_SATFINITE},
        {TYPE(F16), TYPE(F16), ROUND_INT_MAY, CVT_SAT},
        {TYPE(F64), TYPE(F64), ROUND_INT_MAY, CVT_SAT},
        {TYPE(F32), TYPE(F32), ROUND_INT_MAY, CVT_SAT | CVT_FTZ},
        {TYPE(BF16), TYPE(BF16), ROUND_INT_MAY, 0},
        {TYPE(F32), TYPE(F64), ROUND_ALL, CVT_SAT | CVT_FTZ},
        {TYPE(F32), TYPE(F16), ROUND_NONE, CVT_SAT | CVT_FTZ},
        {TYPE(F64), TYPE(F32), ROUND_NONE, CVT_SAT | CVT_FTZ},
        {TYPE(F64), TYPE(F16), ROUND_NONE, CVT_SAT},
        {TYPE(F16) | TYPE(F64), TYPE(BF16), ROUND_ALL_MAY, 0},
        {TYPE(BF16), TYPE(F16), ROUND_ALL_MAY, 0},
        {TYPE(F32), TYPE(BF16), ROUND_ALL_MAY, CVT_FTZ},
        {TYPE(BF16), TYPE(F64), ROUND_ALL, 0},
        {TYPE(BF16), TYPE(F32), ROUND_ALL, CVT_FTZ | CVT_RELU | CVT_SATFINITE},
        {TYPE(F16X2) | TYPE(BF16X2), TYPE(F32), ROUND_TWO, CVT_RELU | CVT_SATFINITE | CVT_PAIR},
        {TYPE(F16X2), FP8, ROUND_RN, CVT_RELU},
        {TYPE(TF32), TYPE(F32), ROUND_TF32, CVT_RELU | CVT_SATFINITE},
        {FP8, TYPE(F32), ROUND_RN, CVT_RELU | CVT_SATFINITE | CVT_FINITE_NEEDED | CVT_PAIR},
        {FP8, TYPE(F16X2), ROUND_RN, CVT_RELU | CVT_SATFINITE | CVT_FINITE_NEEDED},
};

static bool rounding_fits(const struct ds_ptx_check *c, enum cvt_round wanted)
{
        enum ds_ptx_modifier to_int = ds_ptx_mod(c->instr, DS_PTX_ROUND_INT_RNI);
        enum ds_ptx_modifier round = ds_ptx_mod(c->instr, DS_PTX_ROUND_RN);
        bool two = round == DS_PTX_ROUND_RN || round == DS_PTX_ROUND_RZ;

        switch (wanted) {
        case ROUND_NONE:
                return !to_int && !round;
        case ROUND_INT:
                return to_int && !round;
        case ROUND_INT_MAY:
                return !round;
        case ROUND_ALL:
                return !to_int && round && round != DS_PTX_ROUND_RNA;
        case ROUND_TWO:
                return !to_int && two;
        case ROUND_ALL_MAY:
                return !to_int && round != DS_PTX_ROUND_RNA;
        case ROUND_RN:
                return !to_int && round == DS_PTX_ROUND_RN;
        default:
                return !to_int && (two || round == DS_PTX_ROUND_RNA);
        }
}

/* Whether every value of the integer type `from` fits into `to` */
static bool int_fits(enum ds_ptx_type to, enum ds_ptx_type from)
{
        uint32_t to_bits = ds_ptx_type_bits(to), from_bits = ds_ptx_type_bits(from);

        if (ds_ptx_type_is_signed(from))
                return ds_ptx_type_is_signed(to) && to_bits >= from_bits;
        return ds_ptx_type_is_signed(to) ? to_bits > from_bits : to_bits >= from_bits;
}

static void check_cvt_flags(struct ds_ptx_check *c, const struct conversion *cvt)
{
        bool relu = has(c, DS_PTX_RELU_RELU), finite = has(c, DS_PTX_SATFINITE_SATFINITE);
        bool sat = has(c, DS_PTX_SAT_SAT), ftz = has(c, DS_PTX_FTZ_FTZ);

        if (sat && type_in(c, 0, INTS) && type_in(c, 1, INTS) &&
                int_fits((enum ds_ptx_type)c->instr->types[0], (enum ds_ptx_type)c->instr->types[1]))
                wrong(c, ".sat has nothing to saturate");
        if ((ftz && !(cvt->flags & CVT_FTZ)) || (sat && !(cvt->flags & CVT_SAT)) ||
                (relu && !(cvt->flags & CVT_RELU)) || (finite && !(cvt->flags & CVT_SATFINITE)) ||
                ((ftz || sat) && (relu || finite)))
                wrong(c, "a modifier does not go with this conversion");
        if (cvt->flags & CVT_FINITE_NEEDED && !finite)
                wrong(c, "this conversion needs .satfinite");
        if (c->n_optional != (cvt->flags & CVT_PAIR ? 1 : 0))
                wrong(c, cvt->flags & CVT_PAIR ? "this conversion takes two sources" : "a conversion takes one source");
        if (cvt->round == ROUND_TF32 && finite && !has(c, DS_PTX_ROUND_RNA))
                wrong(c, ".satfinite goes with .rna only");
        if (cvt->round == ROUND_TF32 && relu && has(c, DS_PTX_ROUND_RNA))
                wrong(c, ".relu does not go with .rna");
        if ((relu || finite) && (has(c, DS_PTX_ROUND_RM) || has(c, DS_PTX_ROUND_RP)))
                wrong(c, "this conversion rounds by .rn or .rz");
}

static void check_cvt(struct ds_ptx_check *c)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(conversions); i++) {
                const struct conversion *cvt = &conversions[i];

                if (!type_in(c, 0, cvt->to) || !type_in(c, 1, cvt->from))
                        continue;
                if (!rounding_fits(c, (enum cvt_round)cvt->round))
                        wrong(c, cvt->round == ROUND_NONE || cvt->round == ROUND_INT_MAY
                                         ? "this conversion does not take this rounding"
                                         : "this conversion requires another rounding mode");
                check_cvt_flags(c, cvt);
                return;
        }
        wrong(c, "there is no conversion between these types");
}

/* --- memory ------------------------------------------------------------------------------------------------------ */
static void check_cache_hint(struct ds_ptx_check *c)
{
        if (has(c, DS_PTX_HINT_CACHE_HINT) != (c->n_optional > 0))
                wrong(c, c->n_optional ? "a cache policy needs .L2::cache_hint" : "the cache policy is missing");
}

static void check_order(struct ds_ptx_check *c)
{
        enum ds_ptx_modifier sem = ds_ptx_mod(c->instr, DS_PTX_SEM_WEAK);
        bool scope = ds_ptx_mod(c->instr, DS_PTX_SCOPE_CTA), mmio = sem == DS_PTX_SEM_MMIO;
        bool ordered = sem == DS_PTX_SEM_RELAXED || sem == DS_PTX_SEM_ACQUIRE || sem == DS_PTX_SEM_RELEASE || mmio;

        if (ordered != scope)
                wrong(c, scope ? "a scope needs .relaxed, .acquire or .release" : "the scope is missing");
        if (mmio != (ds_ptx_mod(c->instr, DS_PTX_SEM2_RELAXED) != 0))
                wrong(c, ".mmio and .relaxed belong together here");
        if (mmio && ds_ptx_instr_vector(c->instr) > 1)
                wrong(c, ".mmio takes no vectors");
}

/* Checks modifiers that are valid only for global memory, and those that are invalid for constants, parameters and
 * local memory. */
static void check_memory_words(struct ds_ptx_check *c)
{
        enum ds_ptx_modifier sem = ds_ptx_mod(c->instr, DS_PTX_SEM_WEAK);
        enum ds_ptx_space space = ds_ptx_instr_space(c->instr);
        bool global = space == DS_PTX_IN_GLOBAL || space == DS_PTX_SPACE_NONE;
        bool fixed = space == DS_PTX_IN_CONST || space == DS_PTX_IN_PARAM;

        if (!global && (has(c, DS_PTX_HINT_CACHE_HINT) || ds_ptx_mod(c->instr, DS_PTX_L1_EVICT_LAST) ||
                               ds_ptx_mod(c->instr, DS_PTX_FETCH_B64) || sem == DS_PTX_SEM_MMIO))
                wrong(c, "cache hints and .mmio need global memory");
        if (sem && sem != DS_PTX_SEM_WEAK && (fixed || (space == DS_PTX_IN_LOCAL && sem != DS_PTX_SEM_VOLATILE)))
                wrong(c, "the order does not go with the state space");
        if (ds_ptx_mod(c->instr, DS_PTX_L1_EVICT_LAST) && ds_ptx_mod(c->instr, DS_PTX_CACHE_CA))
                wrong(c, "a cache operation and an eviction priority exclude each other");
}

static void check_load_store(struct ds_ptx_check *c)
{
        uint32_t bits = ds_ptx_type_bits((enum ds_ptx_type)c->instr->types[0]) * ds_ptx_instr_vector(c->instr);
        enum ds_ptx_modifier space = ds_ptx_mod(c->instr, DS_PTX_SPACE_GLOBAL);
        const struct ds_ptx_operand *address = &c->instr->operands[c->instr->op == DS_PTX_OP_ST ? 0 : 1];

        check_cache_hint(c);
        check_order(c);
        check_memory_words(c);
        if (bits > 256 || (bits > 128 && c->module->target < 100))
                wrong(c, "the vector has more than 128 bits");
        if (ds_ptx_mod(c->instr, DS_PTX_L2_EVICT_LAST) && bits != 256)
                wrong(c, "an L2 eviction priority needs a 256-bit access");
        if (has(c, DS_PTX_NC_NC) && space != DS_PTX_SPACE_GLOBAL)
                wrong(c, ".nc needs .global");
        if (c->instr->op != DS_PTX_OP_ST)
                return;
        if (space == DS_PTX_SPACE_CONST || space == DS_PTX_SPACE_PARAM_ENTRY)
                wrong(c, "this state space cannot be written");
        if (address->kind == DS_PTX_OPERAND_ADDRESS && address->var && address->var->space == DS_PTX_IN_PARAM &&
                c->function->is_entry && address->var->index < c->function->n_params &&
                c->function->params[address->var->index] == address->var)
                wrong(c, "an entry's parameter cannot be written");
}

static void check_atomic(struct ds_ptx_check *c)
{
        enum ds_ptx_space space = ds_ptx_instr_space(c->instr);
        enum ds_ptx_modifier op = ds_ptx_mod(c->instr, DS_PTX_ATOM_ADD);
        uint32_t vector = ds_ptx_instr_vector(c->instr);

        check_cache_hint(c);
        if (has(c, DS_PTX_HINT_CACHE_HINT) && (space == DS_PTX_IN_SHARED || c->instr->op == DS_PTX_OP_ATOM_CAS))
                wrong(c, ".L2::cache_hint does not go with the instruction");
        if (c->instr->op != DS_PTX_OP_ATOM && c->instr->op != DS_PTX_OP_RED)
                return;
        if (has(c, DS_PTX_NOFTZ_NOFTZ) != type_in(c, 0, HALVES))
                wrong(c, ".noftz belongs to 16-bit floats, and only to them");
        if (vector > 1 && (space == DS_PTX_IN_SHARED || !type_in(c, 0, HALVES | TYPE(F32))))
                wrong(c, "vectors need a float type in global memory");
        if (vector > 1 && type_in(c, 0, TYPE(F32)) && (op != DS_PTX_ATOM_ADD || vector > 4))
                wrong(c, "vectors of .f32 are only added, 2 or 4 at a time");
        if (vector * ds_ptx_type_bits((enum ds_ptx_type)c->instr->types[0]) > 128)
                wrong(c, "the vector has more than 128 bits");
        if (vector == 1 && type_in(c, 0, HALVES) && op != DS_PTX_ATOM_ADD)
                wrong(c, "16-bit floats are compared in vectors only");
}

/* --- the rest ---------------------------------------------------------------------------------------------------- */
static void check_constant_128(struct ds_ptx_check *c, uint32_t index)
{
        if (c->instr->operands[index].bits != 128)
                wrong(c, "the size must be 128");
}

static void check_spaces(struct ds_ptx_check *c)
{
        if (has(c, DS_PTX_SPACE_PARAM_FUNC))
                wrong(c, "this state space does not go with the instruction");
        if (c->instr->op == DS_PTX_OP_PREFETCH && has(c, DS_PTX_SPACE_LOCAL) &&
                ds_ptx_mod(c->instr, DS_PTX_CACHE_LEVEL_L1) > DS_PTX_CACHE_LEVEL_L2)
                wrong(c, "an eviction priority needs global memory");
}

static void check_pair_needed(struct ds_ptx_check *c)
{
        if (c->instr->operands[0].kind != DS_PTX_OPERAND_PAIR || c->instr->operands[0].pair == DS_PTX_NO_REG)
                wrong(c, "the second destination, a predicate, is missing");
}

/* Checks that operand `index`, if it is a constant, is from low to high and a multiple of `step`. */
static void check_range(struct ds_ptx_check *c, uint32_t index, uint64_t low, uint64_t high, uint32_t step)
{
        const struct ds_ptx_operand *operand = &c->instr->operands[index];

        if (index >= c->instr->n_operands || operand->kind != DS_PTX_OPERAND_INT)
                return;
        if (operand->bits < low || operand->bits > high || operand->bits % step)
                ds_ptx_invalid(c, operand->line, operand->column,
                        "'%.120s': the number must be %s%.0u%sfrom %llu to %llu", c->instr->text,
                        step > 1 ? "a multiple of " : "", step > 1 ? step : 0, step > 1 ? " " : "",
                        (unsigned long long)low, (unsigned long long)high);
}

/* Checks bar: the barrier's number (operand `number`) is 0..15, and the thread count is a multiple of a warp. */
static void check_barrier(struct ds_ptx_check *c, uint32_t number)
{
        check_range(c, number, 0, 15, 1);
        if (c->instr->op != DS_PTX_OP_BAR_RED && c->instr->op != DS_PTX_OP_BARRIER_RED)
                check_range(c, number + 1, number + 1 && c->n_optional ? 0 : 32, INT32_MAX & ~31, 32);
        else if (c->n_optional)
                check_range(c, number + 1, 0, INT32_MAX & ~31, 32);
}

static void check_match(struct ds_ptx_check *c)
{
        const struct ds_ptx_operand *first = &c->instr->operands[0];

        if (has(c, DS_PTX_MATCH_ANY) && (has_second(c) || first->kind == DS_PTX_OPERAND_SINK))
                wrong(c, "there is one destination");
}

static void check_fraction(struct ds_ptx_check *c)
{
        const struct ds_ptx_operand *operand = &c->instr->operands[1];
        uint32_t bits = (uint32_t)operand->bits;
        double value = 0;
        float narrow;

        if (!c->n_optional)
                return;
        if (operand->kind == DS_PTX_OPERAND_F64) {
                memcpy(&value, &operand->bits, sizeof(value));
        } else if (operand->kind == DS_PTX_OPERAND_F32) {
                memcpy(&narrow, &bits, sizeof(narrow));
                value = (double)narrow;
        } else if (operand->kind == DS_PTX_OPERAND_REG && !operand->select &&
                   type_of_reg_is(c, operand->reg, TYPE(F32) | TYPE(B32))) {
                return;
        }
        if (!(value > 0 && value <= 1))
                wrong(c, "the fraction must be a float greater than 0 and at most 1");
}

static void check_numbers(struct ds_ptx_check *c)
{
        switch (c->instr->op) {
        case DS_PTX_OP_BFE:
                check_range(c, 2, 0, 255, 1);
                check_range(c, 3, 0, 255, 1);
                break;
        case DS_PTX_OP_BFI:
                check_range(c, 3, 0, 255, 1);
                check_range(c, 4, 0, 255, 1);
                break;
        case DS_PTX_OP_PMEVENT:
                check_range(c, 0, 0, has(c, DS_PTX_MASK_MASK) ? 0xffff : 15, 1);
                break;
        case DS_PTX_OP_WGMMA_WAIT:
                check_range(c, 0, 0, INT32_MAX, 1);
                break;
        case DS_PTX_OP_BAR_SYNC:
        case DS_PTX_OP_BAR_ARRIVE:
        case DS_PTX_OP_BARRIER_SYNC:
        case DS_PTX_OP_BARRIER_ARRIVE:
                check_barrier(c, 0);
                break;
        case DS_PTX_OP_BAR_RED:
        case DS_PTX_OP_BARRIER_RED:
                check_barrier(c, 1);
                break;
        default:
                break;
        }
}

static void check_group(struct ds_ptx_check *c)
{
        switch (c->instr->op) {
        case DS_PTX_OP_MAD:
        case DS_PTX_OP_MAD24:
                if (has(c, DS_PTX_SAT_SAT) && !has(c, DS_PTX_MUL_HI) && !has(c, DS_PTX_HILO_HI))
                        wrong(c, ".sat goes with .hi only");
                break;
        case DS_PTX_OP_SLCT:
                if (has(c, DS_PTX_FTZ_FTZ) && !type_in(c, 1, TYPE(F32)))
                        wrong(c, ".ftz goes with .f32 only");
                break;
        case DS_PTX_OP_ALLOCA:
                if (c->n_optional &&
                        (c->instr->operands[2].bits & (c->instr->operands[2].bits - 1) || !c->instr->operands[2].bits))
                        wrong(c, "the alignment must be a power of two");
                break;
        case DS_PTX_OP_STACKRESTORE:
                if (c->instr->operands[0].kind != DS_PTX_OPERAND_REG)
                        wrong(c, "a register belongs here");
                break;
        case DS_PTX_OP_MATCH:
                check_match(c);
                break;
        case DS_PTX_OP_POLICY_FRACTIONAL:
                check_fraction(c);
                break;
        case DS_PTX_OP_APPLYPRIORITY:
        case DS_PTX_OP_DISCARD:
                check_constant_128(c, 1);
                break;
        case DS_PTX_OP_CVTA:
        case DS_PTX_OP_ISSPACEP:
        case DS_PTX_OP_PREFETCH:
                check_spaces(c);
                break;
        case DS_PTX_OP_LOP3_BOOL:
        case DS_PTX_OP_ELECT:
                check_pair_needed(c);
                break;
        case DS_PTX_OP_SETMAXNREG:
                if (c->instr->operands[0].bits % 8 || c->instr->operands[0].bits < 24 ||
                        c->instr->operands[0].bits > 256)
                        wrong(c, "the count must be a multiple of 8 from 24 to 256");
                break;
        case DS_PTX_OP_CVT_PACK:
                if ((c->instr->n_types == 3) != type_in(c, 0, ~(TYPE(U16) | TYPE(S16))) ||
                        (c->instr->n_types == 3) != (c->n_optional == 1))
                        wrong(c, "types and operands do not go together");
                break;
        case DS_PTX_OP_FENCE_PROXY:
                if (ds_ptx_mod(c->instr, DS_PTX_SPACE_GLOBAL) && !has(c, DS_PTX_PROXY_ASYNC))
                        wrong(c, "a state space goes with .async only");
                break;
        case DS_PTX_OP_FENCE_PROXY_TENSORMAP:
                if (c->n_optional != (has(c, DS_PTX_SEM_ACQUIRE) ? 2 : 0))
                        wrong(c, ".acquire takes an address and a size, .release nothing");
                else if (c->n_optional)
                        check_constant_128(c, 1);
                break;
        default:
                break;
        }
}

void ds_ptx_index_modifiers(struct ds_ptx_check *c)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(only_table); i++)
                c->has_rows[only_table[i].op] = true;
        for (size_t i = 0; i < DS_ARRAY_SIZE(wants_table); i++)
                c->has_rows[wants_table[i].op] = true;
}

void ds_ptx_check_modifiers(struct ds_ptx_check *c)
{
        if (c->has_rows[c->instr->op]) {
                check_only(c);
                check_wants(c);
        }
        check_numbers(c);
        check_group(c);
        switch (c->instr->op) {
        case DS_PTX_OP_FADD:
        case DS_PTX_OP_FSUB:
        case DS_PTX_OP_FMUL:
        case DS_PTX_OP_FMA:
        case DS_PTX_OP_FMAD:
        case DS_PTX_OP_FABS:
        case DS_PTX_OP_FNEG:
        case DS_PTX_OP_FMIN:
        case DS_PTX_OP_FMAX:
                check_arithmetic(c);
                break;
        case DS_PTX_OP_FDIV:
        case DS_PTX_OP_RCP:
        case DS_PTX_OP_SQRT:
                check_division(c);
                break;
        case DS_PTX_OP_EX2:
                check_special(c);
                break;
        case DS_PTX_OP_SET:
        case DS_PTX_OP_SETP:
                check_comparison(c);
                break;
        case DS_PTX_OP_CVT:
                check_cvt(c);
                break;
        case DS_PTX_OP_LD:
        case DS_PTX_OP_LDU:
        case DS_PTX_OP_ST:
                check_load_store(c);
                break;
        case DS_PTX_OP_ATOM:
        case DS_PTX_OP_ATOM_CAS:
        case DS_PTX_OP_ATOM_EXCH:
        case DS_PTX_OP_RED:
                check_atomic(c);
                break;
        default:
                break;
        }
}
