/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/pass/facts.h"

#include <errno.h>
#include <string.h>

#include "ptx/pass/use.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define EFFORT_PER_INSTR 64 /* most steps of loop analysis per instruction; beyond that every loop counts as waiting */
#define ROUNDS 64           /* most passes from callees to callers; beyond that all functions get all facts */

#define BIT(fact) (1u << DS_PTX_FACT_##fact)

const char *ds_ptx_fact_word(enum ds_ptx_fact fact)
{
        static const char *const words[] = {
#define X(name, word, text) word,
                DS_PTX_FACTS(X)
#undef X
        };

        return words[fact];
}

const char *ds_ptx_fact_text(enum ds_ptx_fact fact)
{
        static const char *const texts[] = {
#define X(name, word, text) text,
                DS_PTX_FACTS(X)
#undef X
        };

        return texts[fact];
}

/* Adds facts found at this line; each fact keeps the line of its first cause. */
static void learn(struct ds_ptx_facts *facts, uint32_t mask, uint32_t line)
{
        for (uint32_t more = mask & ~facts->mask; more; more &= more - 1)
                facts->line[__builtin_ctz(more)] = line;
        facts->mask |= mask;
}

/* --- facts of one instruction --- */

/* Whether the memory that the instruction accesses may be accessible to other blocks. */
static bool is_far(const struct ds_ptx_instr *instr)
{
        enum ds_ptx_space space = ds_ptx_instr_space(instr);

        return space == DS_PTX_IN_GLOBAL || space == DS_PTX_SPACE_NONE;
}

static bool is_ordered(const struct ds_ptx_instr *instr)
{
        enum ds_ptx_modifier sem = ds_ptx_mod(instr, DS_PTX_SEM_WEAK);

        return (sem && sem != DS_PTX_SEM_WEAK) || ds_ptx_has(instr, DS_PTX_CACHE_CV);
}

static uint32_t facts_of_memory(const struct ds_ptx_instr *instr)
{
        switch (instr->op) {
        case DS_PTX_OP_LD:
        case DS_PTX_OP_ST:
                return is_far(instr) && is_ordered(instr) ? BIT(ORDERED) : 0;
        case DS_PTX_OP_MEMBAR:
                return ds_ptx_has(instr, DS_PTX_LEVEL_CTA) ? 0 : BIT(FENCES);
        case DS_PTX_OP_FENCE:
                return ds_ptx_has(instr, DS_PTX_SCOPE_CTA) ? 0 : BIT(FENCES);
        case DS_PTX_OP_CP_REDUCE_BULK:
        case DS_PTX_OP_CP_REDUCE_TENSOR:
                return is_far(instr) ? BIT(ATOMICS) : 0;
        case DS_PTX_OP_SURED:
                return BIT(ATOMICS);
        case DS_PTX_OP_GRIDDEP_LAUNCH:
        case DS_PTX_OP_GRIDDEP_WAIT:
                return BIT(LAUNCHES);
        case DS_PTX_OP_TRAP:
        case DS_PTX_OP_BRKPT:
                return BIT(TRAPS);
        default:
                return ds_ptx_op_info((enum ds_ptx_op)instr->op)->class == DS_PTX_CLASS_ATOMIC && is_far(instr)
                               ? BIT(ATOMICS)
                               : 0;
        }
}

/* Whether the instruction reads memory that this run of the kernel, or an earlier one, can have written. */
static bool reads_anew(const struct ds_ptx_instr *instr)
{
        enum ds_ptx_space space = ds_ptx_instr_space(instr);

        if (instr->op == DS_PTX_OP_LD && ds_ptx_has(instr, DS_PTX_NC_NC))
                return false;
        return space == DS_PTX_IN_GLOBAL || space == DS_PTX_SPACE_NONE;
}

/* BIT(ONCE), unless the instruction is known to give the same result when repeated. Calls and special registers are
 * handled elsewhere. */
static uint32_t once_of(const struct ds_ptx_instr *instr)
{
        const struct ds_ptx_op_info *info = ds_ptx_op_info((enum ds_ptx_op)instr->op);

        switch (info->class) {
        case DS_PTX_CLASS_ATOMIC:
        case DS_PTX_CLASS_ASYNC:
        case DS_PTX_CLASS_TEXTURE:
                return BIT(ONCE);
        default:
                break;
        }
        switch (instr->op) {
        case DS_PTX_OP_LDU:
        case DS_PTX_OP_DISCARD:
        case DS_PTX_OP_BRKPT:
        case DS_PTX_OP_ACTIVEMASK:
        case DS_PTX_OP_GRIDDEP_LAUNCH:
        case DS_PTX_OP_GRIDDEP_WAIT:
                return BIT(ONCE);
        default:
                break;
        }
        if ((info->flags & DS_PTX_CLUSTER) || ds_ptx_has(instr, DS_PTX_SPACE_SHARED_CLUSTER) || !info->run)
                return BIT(ONCE);
        if ((info->flags & (DS_PTX_READS | DS_PTX_WRITES)) && is_ordered(instr))
                return BIT(ONCE);
        return (info->flags & DS_PTX_READS) && reads_anew(instr) ? BIT(ONCE) : 0;
}

static uint32_t facts_of_row(const struct ds_ptx_instr *instr)
{
        const struct ds_ptx_op_info *info = ds_ptx_op_info((enum ds_ptx_op)instr->op);
        /* compilers also emit these instructions for a kernel without clusters */
        bool plain = instr->op == DS_PTX_OP_FENCE_MBARRIER || instr->op == DS_PTX_OP_CP_BULK ||
                     instr->op == DS_PTX_OP_CP_BULK_TENSOR;
        bool cluster = (info->flags & DS_PTX_CLUSTER) || ds_ptx_has(instr, DS_PTX_SPACE_SHARED_CLUSTER);

        return (info->class == DS_PTX_CLASS_TEXTURE ? BIT(TEXTURES) : 0) |
               (info->class == DS_PTX_CLASS_TENSOR ? BIT(TENSOR) : 0) |
               (info->class == DS_PTX_CLASS_ASYNC ? BIT(ASYNC) : 0) |
               (info->class == DS_PTX_CLASS_BARRIER ? BIT(BARRIERS) : 0) | (cluster && !plain ? BIT(CLUSTERS) : 0) |
               (info->run ? 0 : BIT(REFUSED));
}

static uint32_t facts_of_sreg(const struct ds_ptx_operand *o)
{
        switch (o->sreg) {
        case DS_PTX_SREG_CLOCK:
        case DS_PTX_SREG_CLOCK_HI:
        case DS_PTX_SREG_CLOCK64:
        case DS_PTX_SREG_GLOBALTIMER:
        case DS_PTX_SREG_GLOBALTIMER_LO:
        case DS_PTX_SREG_GLOBALTIMER_HI:
                return BIT(CLOCK) | BIT(ONCE);
        case DS_PTX_SREG_SMID:
        case DS_PTX_SREG_WARPID:
                return BIT(PLACE) | BIT(ONCE);
        case DS_PTX_SREG_ENVREG: /* %envreg1 and 2 are the halves of the cooperative workspace's address */
                return (o->component == 1 || o->component == 2 ? BIT(COOPERATIVE) : 0) | BIT(ONCE);
        case DS_PTX_SREG_CLUSTERID:
        case DS_PTX_SREG_NCLUSTERID:
        case DS_PTX_SREG_CLUSTER_CTAID:
        case DS_PTX_SREG_CLUSTER_NCTAID:
        case DS_PTX_SREG_CLUSTER_CTARANK:
        case DS_PTX_SREG_CLUSTER_NCTARANK:
                return BIT(CLUSTERS);
        case DS_PTX_SREG_TOTAL_SMEM_SIZE:
        case DS_PTX_SREG_AGGR_SMEM_SIZE:
        case DS_PTX_SREG_DYNAMIC_SMEM_SIZE:
                return BIT(SIZES);
        case DS_PTX_SREG_TID:
        case DS_PTX_SREG_NTID:
        case DS_PTX_SREG_CTAID:
        case DS_PTX_SREG_NCTAID:
        case DS_PTX_SREG_LANEID:
        case DS_PTX_SREG_NWARPID:
        case DS_PTX_SREG_LANEMASK_EQ:
        case DS_PTX_SREG_LANEMASK_LE:
        case DS_PTX_SREG_LANEMASK_LT:
        case DS_PTX_SREG_LANEMASK_GE:
        case DS_PTX_SREG_LANEMASK_GT:
                return 0;
        default: /* ids of the grid and of the GPU, and counters, differ from run to run */
                return BIT(ONCE);
        }
}

/* Facts of a function that has no code in the module, by its name: the driver or the linker provides it. */
static uint32_t facts_of_name(const char *name)
{
        static const struct {
                const char *prefix;
                uint32_t mask;
        } known[] = {
                {"vprintf", BIT(PRINTS) | BIT(ONCE)},
                {"__assertfail", BIT(PRINTS) | BIT(ONCE)},
                {"__assert_fail", BIT(PRINTS) | BIT(ONCE)},
                {"malloc", BIT(ALLOCATES) | BIT(ONCE)},
                {"free", BIT(ALLOCATES) | BIT(ONCE)},
                {"cuda", BIT(LAUNCHES) | BIT(ONCE)},
                {"__cudaCDP2", BIT(LAUNCHES) | BIT(ONCE)},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(known); i++)
                if (strncmp(name, known[i].prefix, strlen(known[i].prefix)) == 0)
                        return known[i].mask;
        return BIT(UNKNOWN) | BIT(ONCE);
}

static const struct ds_ptx_function *code_of(const struct ds_ptx_function *function)
{
        return function->definition ? function->definition : function;
}

static uint32_t facts_of_operand(const struct ds_ptx_operand *o)
{
        uint32_t mask = 0;

        if (o->kind == DS_PTX_OPERAND_SREG)
                return facts_of_sreg(o);
        if (o->kind == DS_PTX_OPERAND_CALL) {
                if (!o->call->function)
                        return BIT(INDIRECT) | BIT(ONCE);
                return code_of(o->call->function)->has_body ? 0 : facts_of_name(o->call->function->name);
        }
        if ((o->kind == DS_PTX_OPERAND_ADDRESS || o->kind == DS_PTX_OPERAND_VAR) && o->var &&
                o->var->space == DS_PTX_IN_GLOBAL && o->var->name[0] != '$')
                mask |= BIT(VARIABLES);
        for (uint32_t i = 0; i < o->n_elements; i++)
                mask |= facts_of_operand(&o->elements[i]);
        return mask;
}

static void facts_of_function(const struct ds_ptx_function *function, struct ds_ptx_facts *facts)
{
        const struct ds_ptx_limits *limits = &function->limits;

        *facts = (struct ds_ptx_facts){0};
        if (limits->reqnctapercluster[0] || limits->maxclusterrank || limits->explicitcluster ||
                limits->blocksareclusters)
                learn(facts, BIT(CLUSTERS), function->line);
        for (uint32_t i = 0; i < function->n_instrs; i++) {
                const struct ds_ptx_instr *instr = &function->instrs[i];
                uint32_t mask = facts_of_row(instr) | facts_of_memory(instr) | once_of(instr);

                for (uint32_t k = 0; k < instr->n_operands; k++)
                        mask |= facts_of_operand(&instr->operands[k]);
                learn(facts, mask, instr->line);
        }
}

/* --- loops that wait --- */

struct loops {
        const struct ds_ptx_function *function;
        const struct ds_ptx_facts *facts; /* facts of all functions */
        /* for each instruction, number of earlier instructions that may read what other threads did */
        uint32_t *asks;
        uint32_t *found; /* for each register, stamp of the last loop in which it depends on memory */
        /* for each register, stamp of the last loop in which it depends on what other threads did */
        uint32_t *told;
        uint32_t stamp;
        /* true: a value that depends on other threads was stored where this thread may load it again */
        bool memory_told;
        uint64_t effort;
};

static bool is_constant(const struct ds_ptx_operand *o, uint64_t bits)
{
        return o->kind == DS_PTX_OPERAND_INT && o->bits == bits;
}

/* Whether a thread may learn from this instruction what other threads did. */
static bool may_ask(const struct loops *l, const struct ds_ptx_instr *instr)
{
        const struct ds_ptx_function *called;

        switch (instr->op) {
        case DS_PTX_OP_LD:
                return is_far(instr) && (is_ordered(instr) || ds_ptx_has(instr, DS_PTX_CACHE_CG));
        case DS_PTX_OP_ATOM_CAS:
        case DS_PTX_OP_ATOM_EXCH:
        case DS_PTX_OP_ATOM:
                return is_far(instr);
        case DS_PTX_OP_CALL:
                called = instr->operands[0].call->function;
                return !called || (l->facts[code_of(called)->index].mask &
                                          (BIT(ORDERED) | BIT(ATOMICS) | BIT(INDIRECT) | BIT(UNKNOWN)));
        default:
                return false;
        }
}

/* Whether the instruction's result, in this loop, may tell what other threads did and so decide whether the loop
 * continues. Atomics that succeed for one thread each time do not count. */
static bool asks(const struct loops *l, const struct ds_ptx_instr *instr)
{
        if (!may_ask(l, instr))
                return false;
        if (instr->op == DS_PTX_OP_ATOM_CAS) {
                const struct ds_ptx_operand *compare = &instr->operands[2];

                /* a compare with the value that the loop read before only retries until no other thread interfered:
                 * this does not count as waiting */
                return compare->kind != DS_PTX_OPERAND_REG || l->found[compare->reg] != l->stamp;
        }
        if (instr->op == DS_PTX_OP_ATOM && (ds_ptx_has(instr, DS_PTX_ATOM_ADD) || ds_ptx_has(instr, DS_PTX_ATOM_INC)))
                return is_constant(&instr->operands[2], 0);
        return true;
}

struct flow {
        struct loops *loops;
        bool told, changed, mark;
};

static void read_told(void *user, uint32_t *reg, unsigned use)
{
        struct flow *f = user;

        if (use & DS_PTX_USE_READ)
                f->told |= f->loops->told[*reg] == f->loops->stamp;
}

static void write_told(void *user, uint32_t *reg, unsigned use)
{
        struct flow *f = user;

        if (!(use & DS_PTX_USE_WRITE) || f->loops->told[*reg] == f->loops->stamp)
                return;
        f->loops->told[*reg] = f->loops->stamp;
        f->changed = true;
}

static void read_found(void *user, uint32_t *reg, unsigned use)
{
        struct flow *f = user;

        if (use & DS_PTX_USE_READ)
                f->told |= f->loops->found[*reg] == f->loops->stamp;
}

static void write_found(void *user, uint32_t *reg, unsigned use)
{
        struct flow *f = user;

        if (!(use & DS_PTX_USE_WRITE) || f->loops->found[*reg] == f->loops->stamp)
                return;
        f->loops->found[*reg] = f->loops->stamp;
        f->changed = true;
}

/* Whether the address holds a call's result; a function's own parameters do not change. */
static bool is_returned(const struct ds_ptx_operand *address)
{
        const struct ds_ptx_var *var = address->var;
        const struct ds_ptx_function *f = var ? var->function : NULL;

        return f && !(var->index < f->n_params && f->params[var->index] == var);
}

/* Whether the instruction reads memory that may have another value the next time. */
static bool finds(const struct ds_ptx_instr *instr)
{
        enum ds_ptx_space space = ds_ptx_instr_space(instr);

        if (instr->op == DS_PTX_OP_CALL)
                return true;
        if (!(ds_ptx_op_info((enum ds_ptx_op)instr->op)->flags & DS_PTX_READS) || space == DS_PTX_IN_CONST)
                return false;
        return space != DS_PTX_IN_PARAM || is_returned(&instr->operands[1]);
}

/* One pass over the loop: marks registers that depend on memory. True: there are more of them than before. */
static bool pass_found(struct loops *l, uint32_t first, uint32_t last)
{
        bool changed = false;

        for (uint32_t i = first; i <= last; i++) {
                struct ds_ptx_instr *instr = &l->function->instrs[i];
                struct flow f = {.loops = l, .told = finds(instr)};

                l->effort += 1 + instr->n_operands;
                ds_ptx_each_register(instr, read_found, &f);
                if (f.told)
                        ds_ptx_each_register(instr, write_found, &f);
                changed |= f.changed;
        }
        return changed;
}

static bool loads_own(const struct ds_ptx_instr *instr)
{
        return instr->op == DS_PTX_OP_LD && !ds_ptx_has(instr, DS_PTX_SPACE_GLOBAL) &&
               !ds_ptx_has(instr, DS_PTX_SPACE_CONST);
}

/* One pass over the loop: marks registers that depend on what other threads did. True: there are more of them than
 * before. */
static bool pass(struct loops *l, uint32_t first, uint32_t last)
{
        bool changed = false;

        for (uint32_t i = first; i <= last; i++) {
                struct ds_ptx_instr *instr = &l->function->instrs[i];
                struct flow f = {.loops = l};
                uint16_t flags = ds_ptx_op_info((enum ds_ptx_op)instr->op)->flags;

                l->effort += 1 + instr->n_operands;
                ds_ptx_each_register(instr, read_told, &f);
                f.told |= asks(l, instr) || (l->memory_told && loads_own(instr));
                if (!f.told)
                        continue;
                if (((flags & DS_PTX_WRITES) || instr->op == DS_PTX_OP_CALL) && !l->memory_told)
                        changed = l->memory_told = true;
                ds_ptx_each_register(instr, write_told, &f);
                changed |= f.changed;
        }
        return changed;
}

/* Whether the jump at `at` leaves or repeats the loop depending on what other threads did. */
static bool leaves(const struct loops *l, uint32_t at, uint32_t first, uint32_t last)
{
        const struct ds_ptx_instr *instr = &l->function->instrs[at];
        const uint32_t *labels;
        uint32_t n;
        bool told = instr->guard != DS_PTX_NO_REG && l->told[instr->guard] == l->stamp;

        if (instr->op == DS_PTX_OP_BRX && instr->operands[0].kind == DS_PTX_OPERAND_REG)
                told |= l->told[instr->operands[0].reg] == l->stamp;
        if (!told || !(ds_ptx_op_info((enum ds_ptx_op)instr->op)->flags & DS_PTX_BRANCH))
                return false;
        if (at == last || instr->op == DS_PTX_OP_RET || instr->op == DS_PTX_OP_EXIT)
                return true;
        n = ds_ptx_jumps(l->function, instr, &labels);
        for (uint32_t i = 0; i < n; i++) {
                uint32_t to = l->function->labels[labels[i]].instr;

                if (to < first || to > last)
                        return true;
        }
        return false;
}

static bool too_much(const struct loops *l)
{
        return l->effort > (uint64_t)EFFORT_PER_INSTR * (l->function->n_instrs + 1024);
}

/* Whether the loop between a backward jump (`last`) and its target (`first`) waits for other threads. */
static bool loop_waits(struct loops *l, uint32_t first, uint32_t last)
{
        if (l->asks[last + 1] == l->asks[first])
                return false;
        l->effort += 4 * (uint64_t)(last - first);
        if (too_much(l))
                return true;
        l->stamp++;
        l->memory_told = false;
        while (pass_found(l, first, last))
                if (too_much(l))
                        return true;
        while (pass(l, first, last))
                if (too_much(l))
                        return true;
        for (uint32_t i = first; i <= last; i++)
                if (leaves(l, i, first, last))
                        return true;
        return false;
}

static int function_waits(struct loops *l, const struct ds_ptx_function *function, uint32_t *ret_line)
{
        const uint32_t *labels;

        *l = (struct loops){.function = function, .facts = l->facts};
        *ret_line = 0;
        l->asks = ds_alloc0((size_t)function->n_instrs + 1, sizeof(*l->asks));
        l->found = ds_alloc0((size_t)function->n_regs + 1, sizeof(*l->found));
        l->told = ds_alloc0((size_t)function->n_regs + 1, sizeof(*l->told));
        if (!l->asks || !l->found || !l->told)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < function->n_instrs; i++)
                l->asks[i + 1] = l->asks[i] + may_ask(l, &function->instrs[i]);
        for (uint32_t i = 0; i < function->n_instrs && !*ret_line; i++) {
                uint32_t n = l->asks[i + 1] ? ds_ptx_jumps(function, &function->instrs[i], &labels) : 0;

                for (uint32_t k = 0; k < n && !*ret_line; k++)
                        if (function->labels[labels[k]].instr <= i &&
                                loop_waits(l, function->labels[labels[k]].instr, i))
                                *ret_line = function->instrs[i].line;
        }
        return 0;
}

static int find_waits(const struct ds_ptx_module *module, struct ds_ptx_facts *facts)
{
        struct loops l = {.facts = facts};
        uint32_t line;
        int r = 0;

        for (uint32_t i = 0; i < module->n_functions && !r; i++) {
                if (!module->functions[i]->has_body)
                        continue;
                r = function_waits(&l, module->functions[i], &line);
                if (!r && line)
                        learn(&facts[i], BIT(WAITS), line);
                ds_free(l.asks);
                ds_free(l.found);
                ds_free(l.told);
        }
        return r;
}

/* --- from callees to callers --- */

static bool hand_on(const struct ds_ptx_module *module, struct ds_ptx_facts *facts)
{
        bool changed = false;

        for (uint32_t i = 0; i < module->n_functions; i++) {
                const struct ds_ptx_function *f = module->functions[i];

                for (uint32_t k = 0; k < f->n_instrs; k++) {
                        const struct ds_ptx_instr *instr = &f->instrs[k];
                        const struct ds_ptx_function *called;

                        if (instr->op != DS_PTX_OP_CALL || !(called = instr->operands[0].call->function))
                                continue;
                        changed |= (facts[code_of(called)->index].mask & ~facts[i].mask) != 0;
                        learn(&facts[i], facts[code_of(called)->index].mask, instr->line);
                }
        }
        return changed;
}

/* Adds the facts of all functions to the caller `who` of an indirect call, which may call any of them. */
static void hand_on_unseen(const struct ds_ptx_module *module, struct ds_ptx_facts *facts, uint32_t who)
{
        uint32_t all = 0;

        for (uint32_t i = 0; i < module->n_functions; i++)
                all |= module->functions[i]->is_entry ? 0 : facts[i].mask;
        for (uint32_t i = 0; i < module->n_functions; i++)
                if (facts[i].mask & who || who == UINT32_MAX)
                        learn(&facts[i], all, facts[i].line[DS_PTX_FACT_INDIRECT]);
}

static void hand_on_all(const struct ds_ptx_module *module, struct ds_ptx_facts *facts)
{
        uint32_t round = 0;

        hand_on_unseen(module, facts, BIT(INDIRECT));
        while (hand_on(module, facts) && round < ROUNDS)
                round++;
        if (round == ROUNDS)
                hand_on_unseen(module, facts, UINT32_MAX);
}

int ds_ptx_facts_find(const struct ds_ptx_module *module, struct ds_ptx_facts *ret_facts)
{
        int r;

        for (uint32_t i = 0; i < module->n_functions; i++)
                facts_of_function(module->functions[i], &ret_facts[i]);
        hand_on_all(module, ret_facts);
        r = find_waits(module, ret_facts);
        if (r)
                return ds_error_trace(r);
        hand_on_all(module, ret_facts);
        return 0;
}
