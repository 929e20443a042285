/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The .target and .version that an instruction requires
 *
 * A modifier or type that needs a newer GPU or PTX version has one entry here. So has an opcode, if it is new as a
 * whole or accepts a word later than others do. Everything without an entry exists since before sm_60 and PTX 6.0. The
 * numbers are those in the refusals of NVIDIA's assembler ("requires .target sm_80 or higher").
 */
#include "ptx/tables.h"
#include "ptx/validate_internal.h"
#include "util/macro.h"

#define TYPE(name) (UINT64_C(1) << DS_PTX_TYPE_##name)
#define HALF (TYPE(F16) | TYPE(F16X2))
#define BRAIN (TYPE(BF16) | TYPE(BF16X2))
#define FP8 (TYPE(E4M3X2) | TYPE(E5M2X2))
#define ANY UINT64_MAX

struct since {
        uint8_t target; /* least .target: 80 for sm_80; 0: any */
        uint8_t version;
};

/* requirements of modifiers that have one meaning in all instructions */
static const struct since modifier_since[_DS_PTX_MODIFIER_MAX] = {
        [DS_PTX_SCOPE_CLUSTER] = {90, 78},
        [DS_PTX_SPACE_SHARED_CLUSTER] = {90, 78},
        [DS_PTX_SPACE2_SHARED_CLUSTER] = {90, 78},
        [DS_PTX_SPACE_SHARED_CTA] = {0, 78},
        [DS_PTX_SPACE2_SHARED_CTA] = {0, 78},
        [DS_PTX_SPACE_PARAM_ENTRY] = {0, 83},
        [DS_PTX_SPACE_PARAM_FUNC] = {0, 83},
        [DS_PTX_HINT_CACHE_HINT] = {80, 74},
        [DS_PTX_L1_EVICT_NORMAL] = {70, 74},
        [DS_PTX_L1_EVICT_UNCHANGED] = {70, 74},
        [DS_PTX_L1_EVICT_FIRST] = {70, 74},
        [DS_PTX_L1_EVICT_LAST] = {70, 74},
        [DS_PTX_L1_NO_ALLOCATE] = {70, 74},
        [DS_PTX_FETCH_B64] = {75, 74},
        [DS_PTX_FETCH_B128] = {75, 74},
        [DS_PTX_FETCH_B256] = {80, 74},
        [DS_PTX_CACHE_LEVEL_L2_EVICT_LAST] = {80, 74},
        [DS_PTX_CACHE_LEVEL_L2_EVICT_NORMAL] = {80, 74},
        [DS_PTX_SEM_WEAK] = {70, 0},
        [DS_PTX_SEM_RELAXED] = {70, 0},
        [DS_PTX_SEM_ACQUIRE] = {70, 0},
        [DS_PTX_SEM_RELEASE] = {70, 0},
        [DS_PTX_SEM_ACQ_REL] = {70, 0},
        [DS_PTX_SEM_MMIO] = {70, 82},
        [DS_PTX_BAR_CTA_CTA] = {0, 78},
        [DS_PTX_XORSIGN_XORSIGN] = {86, 72},
        [DS_PTX_NAN_NAN] = {80, 70},
        [DS_PTX_RELU_RELU] = {80, 70},
        [DS_PTX_OOB_OOB] = {90, 81},
        [DS_PTX_EXPECT_EXPECT_TX] = {90, 80},
        [DS_PTX_PARITY_PARITY] = {0, 71},
        [DS_PTX_ACC_F32] = {0, 82},
        [DS_PTX_ACC_F16] = {100, 86},
        [DS_PTX_ROUND_RNA] = {80, 70},
        [DS_PTX_BITOP_AND] = {80, 71},
};

static const struct since type_since[_DS_PTX_TYPE_MAX] = {
        [DS_PTX_TYPE_BF16] = {80, 70},
        [DS_PTX_TYPE_BF16X2] = {80, 70},
        [DS_PTX_TYPE_TF32] = {80, 70},
        [DS_PTX_TYPE_B128] = {70, 83},
        [DS_PTX_TYPE_E4M3X2] = {89, 78},
        [DS_PTX_TYPE_E5M2X2] = {89, 78},
        [DS_PTX_TYPE_U16X2] = {90, 80},
        [DS_PTX_TYPE_S16X2] = {90, 80},
};

/* Requirement of an opcode, optionally only with a modifier and with a first and second type. */
struct need {
        uint16_t op;
        uint16_t modifier; /* 0: any */
        uint64_t first, second;
        struct since since;
        bool suffix; /* true: the target must have the suffix, such as sm_90a instead of sm_90 */
};

#define ALWAYS(op, target, version)                                   \
        {                                                             \
                DS_PTX_OP_##op, 0, ANY, ANY, {target, version}, false \
        }
#define SUFFIX(op, target, version)                                  \
        {                                                            \
                DS_PTX_OP_##op, 0, ANY, ANY, {target, version}, true \
        }
#define WITH(op, modifier, target, version)                                           \
        {                                                                             \
                DS_PTX_OP_##op, DS_PTX_##modifier, ANY, ANY, {target, version}, false \
        }
#define TYPED(op, first, target, version)                               \
        {                                                               \
                DS_PTX_OP_##op, 0, first, ANY, {target, version}, false \
        }
#define SECOND(op, second, target, version)                              \
        {                                                                \
                DS_PTX_OP_##op, 0, ANY, second, {target, version}, false \
        }

/* requirements of opcodes; the rows of one opcode are adjacent */
static const struct need needs[] = {
        TYPED(FADD, BRAIN, 90, 78),
        TYPED(FSUB, BRAIN, 90, 78),
        TYPED(FMUL, BRAIN, 90, 78),
        TYPED(FABS, HALF, 0, 65),
        TYPED(FMIN, HALF, 80, 70),
        TYPED(FMAX, HALF, 80, 70),
        WITH(MIN, RELU_RELU, 90, 80),
        WITH(MAX, RELU_RELU, 90, 80),
        ALWAYS(DP4A, 61, 0),
        ALWAYS(DP2A, 61, 0),
        ALWAYS(LOP3_BOOL, 70, 82),
        ALWAYS(SZEXT, 70, 76),
        ALWAYS(BMSK, 70, 76),
        TYPED(EX2, HALF, 75, 70),
        TYPED(EX2, BRAIN, 90, 78),
        ALWAYS(TANH, 75, 70),
        TYPED(TANH, BRAIN, 90, 78),
        TYPED(SETP, BRAIN, 90, 78),
        TYPED(SET, BRAIN, 90, 78),
        SECOND(SET, BRAIN, 90, 78),
        {DS_PTX_OP_SET, 0, ~HALF, HALF, {0, 65}, false},
        TYPED(CVT, TYPE(BF16X2) | TYPE(F16X2), 80, 70),
        SECOND(CVT, TYPE(F16X2), 89, 78),
        {DS_PTX_OP_CVT, DS_PTX_SATFINITE_SATFINITE, TYPE(TF32) | HALF | BRAIN, ANY, {80, 81}, false},
        {DS_PTX_OP_CVT, DS_PTX_ROUND_RN, TYPE(TF32), ANY, {90, 78}, false},
        {DS_PTX_OP_CVT, DS_PTX_ROUND_RZ, TYPE(TF32), ANY, {90, 78}, false},
        {DS_PTX_OP_CVT, 0, TYPE(BF16), ~TYPE(F32), {90, 78}, false},
        {DS_PTX_OP_CVT, 0, ~TYPE(F32), TYPE(BF16), {90, 78}, false},
        {DS_PTX_OP_CVT, 0, TYPE(F32), TYPE(BF16), {80, 71}, false},
        ALWAYS(CVT_PACK, 72, 65),
        TYPED(CVT_PACK, TYPE(U4) | TYPE(S4) | TYPE(U2) | TYPE(S2), 75, 65),
        WITH(CVTA, SPACE_PARAM, 70, 77),
        WITH(CVTA, SPACE_PARAM_ENTRY, 70, 83),
        WITH(ISSPACEP, SPACE_PARAM, 70, 77),
        WITH(ISSPACEP, SPACE_PARAM_ENTRY, 70, 83),
        ALWAYS(MAPA, 90, 78),
        ALWAYS(GETCTARANK, 90, 78),
        ALWAYS(ST_ASYNC, 90, 81),
        ALWAYS(PREFETCH_TENSORMAP, 90, 80),
        ALWAYS(APPLYPRIORITY, 80, 74),
        ALWAYS(DISCARD, 80, 74),
        ALWAYS(POLICY_RANGE, 80, 74),
        ALWAYS(POLICY_FRACTIONAL, 80, 74),
        ALWAYS(POLICY_CVT, 80, 74),
        TYPED(ATOM_CAS, TYPE(B16), 70, 63),
        TYPED(ATOM_CAS, TYPE(B128), 90, 83),
        TYPED(ATOM_EXCH, TYPE(B128), 90, 83),
        TYPED(ATOM, TYPE(F16), 70, 63),
        TYPED(ATOM, TYPE(F16X2), 60, 62),
        TYPED(ATOM, BRAIN, 90, 78),
        WITH(ATOM, VEC_V2, 90, 81),
        WITH(ATOM, VEC_V4, 90, 81),
        WITH(ATOM, VEC_V8, 90, 81),
        ALWAYS(RED_ASYNC, 90, 81),
        TYPED(RED, TYPE(F16), 70, 63),
        TYPED(RED, TYPE(F16X2), 60, 62),
        TYPED(RED, BRAIN, 90, 78),
        WITH(RED, VEC_V2, 90, 81),
        WITH(RED, VEC_V4, 90, 81),
        WITH(RED, VEC_V8, 90, 81),
        ALWAYS(MEMBAR_PROXY, 0, 75),
        ALWAYS(FENCE_PROXY_ACQUIRE, 90, 86),
        ALWAYS(FENCE_PROXY_RELEASE, 90, 86),
        ALWAYS(FENCE_PROXY_TENSORMAP, 90, 83),
        ALWAYS(FENCE_PROXY, 70, 75),
        WITH(FENCE_PROXY, PROXY_ASYNC, 90, 80),
        ALWAYS(FENCE_MBARRIER, 90, 80),
        ALWAYS(FENCE_ACQUIRE_RESTRICT, 90, 86),
        ALWAYS(FENCE_RELEASE_RESTRICT, 90, 86),
        ALWAYS(FENCE, 70, 0),
        ALWAYS(NANOSLEEP, 70, 62),
        ALWAYS(GRIDDEP_LAUNCH, 90, 78),
        ALWAYS(GRIDDEP_WAIT, 90, 78),
        SUFFIX(SETMAXNREG, 90, 80),
        ALWAYS(ALLOCA, 0, 73),
        ALWAYS(STACKSAVE, 0, 73),
        ALWAYS(STACKRESTORE, 0, 73),
        ALWAYS(BARRIER_CLUSTER_ARRIVE, 90, 78),
        WITH(BARRIER_CLUSTER_ARRIVE, SEM_RELEASE, 90, 80),
        WITH(BARRIER_CLUSTER_ARRIVE, SEM_RELAXED, 90, 80),
        ALWAYS(BARRIER_CLUSTER_WAIT, 90, 78),
        WITH(BARRIER_CLUSTER_WAIT, SEM_ACQUIRE, 90, 80),
        ALWAYS(MATCH, 70, 0),
        ALWAYS(ACTIVEMASK, 0, 62),
        ALWAYS(REDUX, 80, 70),
        ALWAYS(ELECT, 90, 80),
        ALWAYS(CP_ASYNC_COMMIT, 80, 70),
        ALWAYS(CP_ASYNC_WAIT_GROUP, 80, 70),
        ALWAYS(CP_ASYNC_WAIT_ALL, 80, 70),
        ALWAYS(CP_ASYNC_MBARRIER, 80, 70),
        ALWAYS(CP_BULK_COMMIT, 90, 80),
        ALWAYS(CP_BULK_WAIT, 90, 80),
        ALWAYS(CP_BULK_TENSOR, 90, 80),
        WITH(CP_BULK_TENSOR, SPACE_SHARED_CTA, 90, 86),
        ALWAYS(CP_BULK_PREFETCH_TENSOR, 90, 80),
        ALWAYS(CP_BULK_PREFETCH, 90, 80),
        ALWAYS(CP_REDUCE_TENSOR, 90, 80),
        ALWAYS(CP_REDUCE_BULK, 90, 80),
        ALWAYS(CP_BULK, 90, 80),
        WITH(CP_BULK, SPACE_SHARED_CTA, 90, 86),
        WITH(CP_BULK, BYTEMASK_CP_MASK, 100, 86),
        ALWAYS(CP_ASYNC, 80, 70),
        ALWAYS(TENSORMAP_FENCE, 90, 83),
        SUFFIX(TENSORMAP_REPLACE, 90, 83),
        ALWAYS(MULTIMEM_LD, 90, 81),
        ALWAYS(MULTIMEM_ST, 90, 81),
        ALWAYS(MULTIMEM_RED, 90, 81),
        ALWAYS(MBARRIER_INIT, 80, 70),
        ALWAYS(MBARRIER_INVAL, 80, 70),
        ALWAYS(MBARRIER_EXPECT_TX, 90, 80),
        ALWAYS(MBARRIER_COMPLETE_TX, 90, 80),
        ALWAYS(MBARRIER_ARRIVE, 80, 70),
        WITH(MBARRIER_ARRIVE, SEM_RELEASE, 80, 80),
        WITH(MBARRIER_ARRIVE, SEM_RELAXED, 90, 86),
        WITH(MBARRIER_ARRIVE, SPACE_SHARED_CLUSTER, 90, 80),
        ALWAYS(MBARRIER_ARRIVE_DROP, 80, 70),
        WITH(MBARRIER_ARRIVE_DROP, SEM_RELEASE, 80, 80),
        WITH(MBARRIER_ARRIVE_DROP, SEM_RELAXED, 90, 86),
        WITH(MBARRIER_ARRIVE_DROP, SPACE_SHARED_CLUSTER, 90, 80),
        ALWAYS(MBARRIER_TEST_WAIT, 80, 70),
        WITH(MBARRIER_TEST_WAIT, SEM_ACQUIRE, 80, 80),
        WITH(MBARRIER_TEST_WAIT, SEM_RELAXED, 90, 86),
        ALWAYS(MBARRIER_TRY_WAIT, 90, 78),
        WITH(MBARRIER_TRY_WAIT, SEM_ACQUIRE, 90, 80),
        WITH(MBARRIER_TRY_WAIT, SEM_RELAXED, 90, 86),
        ALWAYS(MBARRIER_PENDING, 80, 70),
        ALWAYS(LDMATRIX, 75, 65),
        ALWAYS(STMATRIX, 90, 78),
        ALWAYS(MOVMATRIX, 75, 78),
        SUFFIX(WGMMA_FENCE, 90, 80),
        SUFFIX(WGMMA_COMMIT, 90, 80),
        SUFFIX(WGMMA_WAIT, 90, 80),
        SUFFIX(WGMMA, 90, 80),
        SUFFIX(WGMMA_SP, 90, 82),
        TYPED(SURED, TYPE(S64), 0, 81),
        {DS_PTX_OP_SURED, DS_PTX_ATOM_MIN, TYPE(U64), ANY, {0, 81}, false},
        {DS_PTX_OP_SURED, DS_PTX_ATOM_MAX, TYPE(U64), ANY, {0, 81}, false},
};

static const struct {
        uint16_t sreg;
        struct since since;
} sreg_since[] = {
        {DS_PTX_SREG_IS_EXPLICIT_CLUSTER, {90, 78}},
        {DS_PTX_SREG_CLUSTERID, {90, 78}},
        {DS_PTX_SREG_NCLUSTERID, {90, 78}},
        {DS_PTX_SREG_CLUSTER_CTAID, {90, 78}},
        {DS_PTX_SREG_CLUSTER_NCTAID, {90, 78}},
        {DS_PTX_SREG_CLUSTER_CTARANK, {90, 78}},
        {DS_PTX_SREG_CLUSTER_NCTARANK, {90, 78}},
        {DS_PTX_SREG_AGGR_SMEM_SIZE, {90, 81}},
        {DS_PTX_SREG_CURRENT_GRAPH_EXEC, {50, 80}},
        {DS_PTX_SREG_RESERVED_SMEM_BEGIN, {80, 76}},
        {DS_PTX_SREG_RESERVED_SMEM_END, {80, 76}},
        {DS_PTX_SREG_RESERVED_SMEM_CAP, {80, 76}},
        {DS_PTX_SREG_RESERVED_SMEM_0, {80, 76}},
        {DS_PTX_SREG_RESERVED_SMEM_1, {80, 76}},
};

static void raise_to(struct since *least, struct since since)
{
        least->target = DS_MAX(least->target, since.target);
        least->version = DS_MAX(least->version, since.version);
}

static bool is_met(const struct ds_ptx_instr *instr, const struct need *need)
{
        if (need->modifier && !ds_ptx_has(instr, (enum ds_ptx_modifier)need->modifier))
                return false;
        return (need->first == ANY || need->first >> instr->types[0] & 1) &&
               (need->second == ANY || need->second >> instr->types[1] & 1);
}

static void check_least(struct ds_ptx_check *c, uint32_t line, uint32_t column, const char *what, struct since least)
{
        if (c->module->target < least.target)
                ds_ptx_invalid(c, line, column, "'%.120s' requires .target sm_%u or higher, the module has sm_%u", what,
                        least.target, c->module->target);
        else if (c->module->version < least.version)
                ds_ptx_invalid(c, line, column, "'%.120s' requires .version %u.%u or later, the module has %u.%u", what,
                        least.version / 10, least.version % 10, c->module->version / 10, c->module->version % 10);
}

static void check_special_registers(struct ds_ptx_check *c)
{
        for (uint32_t i = 0; i < c->instr->n_operands; i++) {
                const struct ds_ptx_operand *operand = &c->instr->operands[i];

                for (size_t j = 0; operand->kind == DS_PTX_OPERAND_SREG && j < DS_ARRAY_SIZE(sreg_since); j++)
                        if (sreg_since[j].sreg == operand->sreg)
                                check_least(c, operand->line, operand->column,
                                        ds_ptx_sreg_name((enum ds_ptx_sreg)operand->sreg), sreg_since[j].since);
        }
}

void ds_ptx_check_least(struct ds_ptx_check *c, uint32_t target, uint32_t version)
{
        check_least(
                c, c->instr->line, c->instr->column, c->instr->text, (struct since){(uint8_t)target, (uint8_t)version});
}

void ds_ptx_index_needs(struct ds_ptx_check *c)
{
        for (size_t i = DS_ARRAY_SIZE(needs); i-- > 0;)
                c->first_need[needs[i].op] = (uint16_t)(i + 1);
}

void ds_ptx_check_target(struct ds_ptx_check *c)
{
        const struct ds_ptx_instr *instr = c->instr;
        struct since least = {0, 0};
        bool suffix = false;

        for (uint32_t i = 0; i < instr->n_mods; i++)
                raise_to(&least, modifier_since[instr->mods[i]]);
        for (uint32_t i = 0; i < instr->n_types; i++)
                raise_to(&least, type_since[instr->types[i]]);
        for (size_t i = c->first_need[instr->op]; i && i <= DS_ARRAY_SIZE(needs) && needs[i - 1].op == instr->op; i++) {
                if (!is_met(instr, &needs[i - 1]))
                        continue;
                raise_to(&least, needs[i - 1].since);
                suffix |= needs[i - 1].suffix;
        }
        check_least(c, instr->line, instr->column, instr->text, least);
        if (suffix && !c->module->target_suffix)
                ds_ptx_invalid(c, instr->line, instr->column,
                        "'%.120s' requires an architecture-specific target, such as .target sm_90a", instr->text);
        if (instr->op == DS_PTX_OP_MOV)
                check_special_registers(c);
}
