/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ptx/pass/flow.h"
#include "ptx/pass/form.h"
#include "ptx/pass/use.h"
#include "util/error.h"
#include "util/macro.h"

/* most searches for the instruction that writes a register; beyond that its value counts as unknown */
#define LOOKUPS 1000
#define BARRIERS 16           /* number of barriers that a block has */
#define OLD_PARAM_BYTES 4352u /* most bytes of a kernel's parameters before PTX 8.1 or sm_70 */
#define STATIC_SLACK 16u      /* most bytes that the alignment of one more variable can cost */

static int refuse(struct ds_ptx_form_plan *plan, uint32_t line, const char *fmt, ...)
        __attribute__((__format__(__printf__, 3, 4)));

/* Records a reason to refuse the form (the first one stays) and returns the contract code, so that a check can
 * return this call's result. */
static int refuse(struct ds_ptx_form_plan *plan, uint32_t line, const char *fmt, ...)
{
        va_list args;

        if (plan->reason[0])
                return DS_PTX_FORM_E_REFUSED;
        va_start(args, fmt);
        vsnprintf(plan->reason, sizeof(plan->reason), fmt, args);
        va_end(args);
        plan->line = line;
        return DS_PTX_FORM_E_REFUSED;
}

static int refuse_facts(struct ds_ptx_form_run *run, struct ds_ptx_form_plan *plan, uint32_t mask)
{
        const struct ds_ptx_facts *facts = &run->facts[plan->kernel->index];
        enum ds_ptx_fact fact;

        mask &= facts->mask;
        if (!mask)
                return 0;
        fact = (enum ds_ptx_fact)__builtin_ctz(mask);
        return refuse(plan, facts->line[fact], "%s", ds_ptx_fact_text(fact));
}

/* --- functions of a kernel --- */

static void add(struct ds_ptx_form_run *run, struct ds_ptx_form_plan *plan, const struct ds_ptx_function *f)
{
        if (run->reached[f->index])
                return;
        run->reached[f->index] = 1;
        run->list[plan->n_functions++] = f;
        plan->asks |= f != plan->kernel && run->asks[f->index];
}

static void reach(struct ds_ptx_form_run *run, struct ds_ptx_form_plan *plan)
{
        plan->functions = run->list;
        add(run, plan, plan->kernel);
        for (uint32_t k = 0; k < plan->n_functions; k++)
                for (uint32_t i = 0; i < run->list[k]->n_instrs; i++) {
                        const struct ds_ptx_function *called = ds_ptx_form_called(&run->list[k]->instrs[i]);

                        if (called)
                                add(run, plan, called);
                }
        for (uint32_t k = 0; k < plan->n_functions; k++)
                run->reached[run->list[k]->index] = 0;
}

/* --- instructions that prevent all forms --- */

static bool wants_cluster(const struct ds_ptx_instr *instr)
{
        bool cluster = (ds_ptx_op_info((enum ds_ptx_op)instr->op)->flags & DS_PTX_CLUSTER) ||
                       ds_ptx_has(instr, DS_PTX_SPACE_SHARED_CLUSTER) || ds_ptx_has(instr, DS_PTX_MULTICAST_CLUSTER);

        switch (instr->op) {
        case DS_PTX_OP_FENCE_MBARRIER: /* compilers also emit this instruction for a kernel without clusters */
                return false;
        case DS_PTX_OP_CP_BULK:
        case DS_PTX_OP_CP_BULK_TENSOR:
                return ds_ptx_has(instr, DS_PTX_MULTICAST_CLUSTER);
        default:
                return cluster;
        }
}

static bool asks_for_launch(const struct ds_ptx_instr *instr)
{
        for (uint32_t i = 0; i < instr->n_operands; i++)
                if (instr->operands[i].kind == DS_PTX_OPERAND_SREG && instr->operands[i].sreg == DS_PTX_SREG_GRIDID)
                        return true;
        return false;
}

static const char *about_instr(
        const struct ds_ptx_form_plan *plan, const struct ds_ptx_function *f, const struct ds_ptx_instr *instr)
{
        const struct ds_ptx_function *called = ds_ptx_form_called(instr);
        bool loop = plan->form == DS_PTX_FORM_PERSISTENT;

        if (wants_cluster(instr))
                return ds_ptx_fact_text(DS_PTX_FACT_CLUSTERS);
        if (asks_for_launch(instr))
                return "reads the id of its grid";
        if (called && !called->has_body &&
                (strncmp(called->name, "cuda", 4) == 0 || strncmp(called->name, "__cudaCDP2", 10) == 0))
                return "launches kernels";
        switch (instr->op) {
        case DS_PTX_OP_GRIDDEP_WAIT:
                return "waits for the kernel before it in its stream";
        case DS_PTX_OP_SETMAXNREG:
                return loop ? "moves registers between warps (setmaxnreg)" : NULL;
        case DS_PTX_OP_ALLOCA:
                return loop && f->is_entry ? "allocates memory on its stack, which only its end frees" : NULL;
        case DS_PTX_OP_EXIT:
                return loop && !f->is_entry ? "a function that it may call exits threads" : NULL;
        default:
                return NULL;
        }
}

static int check_instrs(struct ds_ptx_form_plan *plan)
{
        for (uint32_t i = 0; i < plan->n_functions; i++) {
                const struct ds_ptx_function *f = plan->functions[i];

                for (uint32_t k = 0; k < f->n_instrs; k++) {
                        const char *why = about_instr(plan, f, &f->instrs[k]);

                        if (why)
                                return refuse(plan, f->instrs[k].line, "%s", why);
                }
        }
        return 0;
}

/* --- memory --- */

static void see_shared(uint8_t *seen, const struct ds_ptx_operand *o)
{
        if ((o->kind == DS_PTX_OPERAND_ADDRESS || o->kind == DS_PTX_OPERAND_VAR) && o->var && !o->var->function &&
                o->var->space == DS_PTX_IN_SHARED)
                seen[o->var->definition->index] = 1;
        for (uint32_t i = 0; i < o->n_elements; i++)
                see_shared(seen, &o->elements[i]);
}

/* Computes the most bytes of static shared memory that the kernel may have: those of the module's variables that it
 * names. A module has the arrays of all its kernels. */
static int shared_of_module(struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan, uint64_t *ret)
{
        const struct ds_ptx_module *m = run->module;
        uint8_t *seen = ds_arena_alloc(run->arena, (size_t)m->n_vars + 1, 1);

        if (!seen)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < plan->n_functions; i++)
                for (uint32_t k = 0; k < plan->functions[i]->n_instrs; k++)
                        for (uint32_t o = 0; o < plan->functions[i]->instrs[k].n_operands; o++)
                                see_shared(seen, &plan->functions[i]->instrs[k].operands[o]);
        *ret = 0;
        for (uint32_t i = 0; i < m->n_vars; i++)
                if (seen[i])
                        *ret += m->vars[i]->size + m->vars[i]->align;
        return 0;
}

static int check_memory(struct ds_ptx_form_run *run, struct ds_ptx_form_plan *plan)
{
        const struct ds_ptx_module *m = run->module;
        uint64_t limit = m->version >= 81 && m->target >= 70 ? DS_PTX_MAX_PARAM_BYTES : OLD_PARAM_BYTES, shared = 0;
        int r;

        if (DS_ALIGN_UP((uint64_t)plan->kernel->params_size, 8) + sizeof(struct ds_ptx_virtual) > limit)
                return refuse(plan, plan->kernel->line, "has no room for one more parameter");
        r = shared_of_module(run, plan, &shared);
        if (r)
                return ds_error_trace(r);
        for (uint32_t i = 0; i < plan->n_functions; i++) {
                const struct ds_ptx_function *f = plan->functions[i];

                for (uint32_t k = 0; k < f->n_vars; k++) {
                        if (f->vars[k]->space == DS_PTX_IN_GLOBAL || f->vars[k]->space == DS_PTX_IN_CONST)
                                return refuse(plan, f->vars[k]->line,
                                        "has a variable of its own in memory, and a copy would have another");
                        if (f->vars[k]->space == DS_PTX_IN_SHARED)
                                shared += f->vars[k]->size;
                }
        }
        if (plan->board && shared + STATIC_SLACK + DS_PTX_BOARD_BYTES > DS_PTX_STATIC_SHARED_MAX)
                return refuse(plan, plan->kernel->line, "has no room for %d bytes more of static shared memory",
                        DS_PTX_BOARD_BYTES);
        return 0;
}

static bool wants_alignment(const struct ds_ptx_form_plan *plan)
{
        for (uint32_t i = 0; i < plan->n_functions; i++)
                for (uint32_t k = 0; k < plan->functions[i]->n_instrs; k++)
                        switch (plan->functions[i]->instrs[k].op) {
                        case DS_PTX_OP_WGMMA:
                        case DS_PTX_OP_WGMMA_SP:
                        case DS_PTX_OP_CP_BULK_TENSOR:
                        case DS_PTX_OP_CP_REDUCE_TENSOR:
                                return true;
                        default:
                                break;
                        }
        return false;
}

static bool has_static_shared(const struct ds_ptx_module *m)
{
        bool has = false;

        for (uint32_t i = 0; i < m->n_vars; i++)
                has |= m->vars[i]->space == DS_PTX_IN_SHARED && !m->vars[i]->unsized;
        for (uint32_t i = 0; i < m->n_functions; i++)
                for (uint32_t k = 0; k < m->functions[i]->n_vars; k++)
                        has |= m->functions[i]->vars[k]->space == DS_PTX_IN_SHARED;
        return has;
}

/*
 * Decides whether dynamic shared memory needs an alignment variable. It begins behind the static part, aligned only as
 * declared. Some instructions need up to 1 KiB, and compilers that know that there is no static part declare less
 * (Triton: 16). All arrays without a size begin at one address, so another one with that alignment keeps it there.
 * Native kernels without static shared memory are not affected.
 */
static int check_alignment(struct ds_ptx_form_run *run, struct ds_ptx_form_plan *plan)
{
        const struct ds_ptx_module *m = run->module;
        bool less = false;

        for (uint32_t i = 0; i < m->n_vars; i++)
                less |= m->vars[i]->space == DS_PTX_IN_SHARED && m->vars[i]->unsized &&
                        m->vars[i]->align < DS_PTX_SHARED_ALIGN;
        if (!plan->board || !less || !wants_alignment(plan))
                return 0;
        if (has_static_shared(m))
                return refuse(plan, plan->kernel->line, "its dynamic shared memory may be aligned only by chance");
        plan->aligns = true;
        return 0;
}

/* --- barriers --- */

/* Operand with the number of the barrier that the instruction uses; *ret_counted: whether a thread count follows.
 * NULL: no barrier. */
static const struct ds_ptx_operand *barrier_of(const struct ds_ptx_instr *instr, bool *ret_counted)
{
        switch (instr->op) {
        case DS_PTX_OP_BAR_SYNC:
        case DS_PTX_OP_BARRIER_SYNC:
                *ret_counted = instr->n_operands > 1;
                return &instr->operands[0];
        case DS_PTX_OP_BAR_ARRIVE:
        case DS_PTX_OP_BARRIER_ARRIVE:
                *ret_counted = true;
                return &instr->operands[0];
        case DS_PTX_OP_BAR_RED:
        case DS_PTX_OP_BARRIER_RED:
                *ret_counted = instr->n_operands > 3;
                return &instr->operands[1];
        default:
                return NULL;
        }
}

struct writer {
        uint32_t reg, n;
};

static void find_writer(void *user, uint32_t *reg, unsigned use)
{
        struct writer *w = user;

        w->n += *reg == w->reg && (use & DS_PTX_USE_WRITE);
}

/* The only instruction that writes the register, if it does so unconditionally; NULL: several instructions, none, a
 * guard, or too many searches. */
static const struct ds_ptx_instr *only_writer(
        struct ds_ptx_form_plan *plan, const struct ds_ptx_function *f, uint32_t reg)
{
        const struct ds_ptx_instr *found = NULL;
        struct writer w = {.reg = reg};

        if (plan->lookups++ == LOOKUPS) {
                plan->lookups--;
                return NULL;
        }

        for (uint32_t i = 0; i < f->n_instrs && w.n < 2; i++) {
                uint32_t before = w.n;

                ds_ptx_each_register(&f->instrs[i], find_writer, &w);
                if (w.n != before)
                        found = &f->instrs[i];
        }
        return w.n == 1 && found->guard == DS_PTX_NO_REG ? found : NULL;
}

/* Value of an operand that is a constant, or a register set to a constant in one place. false: the value is not
 * known. */
static bool known(
        struct ds_ptx_form_plan *plan, const struct ds_ptx_function *f, const struct ds_ptx_operand *o, uint64_t *ret)
{
        const struct ds_ptx_instr *writer;

        if (o->kind == DS_PTX_OPERAND_REG) {
                writer = only_writer(plan, f, o->reg);
                if (!writer || writer->op != DS_PTX_OP_MOV)
                        return false;
                o = &writer->operands[1];
        }
        *ret = o->bits;
        return o->kind == DS_PTX_OPERAND_INT;
}

/* Properties of the barriers of a kernel and its callees */
struct barriers {
        uint32_t used;  /* mask of the barrier numbers that are used */
        uint32_t whole; /* mask of the barrier numbers at which all threads of the block meet */
        uint32_t line;  /* line of a barrier at which all threads meet; 0: there is none */
        bool elsewhere; /* true: such a barrier is in a called function */
};

static int look_at_barrier(struct ds_ptx_form_plan *plan, const struct ds_ptx_function *f,
        const struct ds_ptx_instr *instr, struct barriers *b)
{
        bool counted = false;
        const struct ds_ptx_operand *operand = barrier_of(instr, &counted);
        uint64_t number = 0;

        if (!operand)
                return 0;
        if (!known(plan, f, operand, &number) || number >= BARRIERS)
                return refuse(plan, instr->line, "uses a barrier whose number is unknown");
        if (instr->op == DS_PTX_OP_BAR_ARRIVE || instr->op == DS_PTX_OP_BARRIER_ARRIVE)
                return refuse(plan, instr->line, "may end while a barrier has arrivals that no thread waits for");
        b->used |= 1u << number;
        if (counted)
                return 0;
        b->whole |= 1u << number;
        b->elsewhere |= !f->is_entry;
        b->line = instr->line;
        return 0;
}

/* Finds a barrier of the whole block that some threads may reach after others have left the function. *ret_line: its
 * line, or 0. */
static int find_gone_in(const struct barriers *b, const struct ds_ptx_function *f, uint32_t *ret_line)
{
        ds_cleanup(ds_ptx_flow_freep) ds_ptx_flow *flow = NULL;
        int r = ds_ptx_flow_new(f, DS_PTX_VARY_THREAD, &flow);

        for (uint32_t i = 0; !r && i < f->n_instrs && !*ret_line; i++) {
                const struct ds_ptx_function *called = ds_ptx_form_called(&f->instrs[i]);
                bool counted = false, is = barrier_of(&f->instrs[i], &counted) && !counted;

                is |= b->elsewhere && called && called->has_body;
                if (is && ds_ptx_flow_is_uncertain(flow, i))
                        *ret_line = f->instrs[i].line;
        }
        return r;
}

/* Finds such a barrier for the kernel and its functions: a thread that returns early from a function may then leave
 * the kernel. */
static int find_gone(const struct ds_ptx_form_plan *plan, const struct barriers *b, uint32_t *ret_line)
{
        uint32_t n = b->elsewhere ? plan->n_functions : 1;
        int r = 0;

        *ret_line = 0;
        for (uint32_t i = 0; i < n && !r && !*ret_line; i++)
                r = find_gone_in(b, plan->functions[i], ret_line);
        return r;
}

static int check_barriers(struct ds_ptx_form_plan *plan)
{
        struct barriers b = {0};
        uint32_t line = 0;
        int r = 0;

        for (uint32_t i = 0; i < plan->n_functions; i++) {
                const struct ds_ptx_function *f = plan->functions[i];

                for (uint32_t k = 0; k < f->n_instrs && !r; k++)
                        r = look_at_barrier(plan, f, &f->instrs[k], &b);
        }
        if (r)
                return r;
        if (b.used == (1u << BARRIERS) - 1)
                return refuse(plan, b.line, "uses all 16 barriers");
        plan->barrier = (uint32_t)__builtin_ctz(~b.used);
        r = b.whole ? find_gone(plan, &b, &line) : 0;
        if (r || !line)
                return r;
        /* Threads at the end of the form's loop could take part in these barriers, but gave wrong results on an
         * H200: lanes of one warp came to the barriers from two places, since the assembler lets a warp reconverge
         * before the loop's end */
        return refuse(plan, line, "threads may leave while others wait at barriers");
}

/* --- lanes that others wait for --- */

bool ds_ptx_form_is_together(const struct ds_ptx_instr *instr)
{
        return ds_ptx_op_info((enum ds_ptx_op)instr->op)->class == DS_PTX_CLASS_WARP &&
               instr->op != DS_PTX_OP_ACTIVEMASK;
}

/* Whether the instruction is a barrier of some of the block's warps: each of them must arrive as a whole, except for
 * exited threads. */
static bool is_counted(const struct ds_ptx_instr *instr)
{
        bool counted = false;

        return barrier_of(instr, &counted) && counted;
}

typedef bool (*is_fn)(const struct ds_ptx_instr *instr);

static bool is_inside(const struct ds_ptx_form_plan *plan, is_fn is)
{
        for (uint32_t i = 0; i < plan->n_functions; i++)
                for (uint32_t k = 0; plan->functions[i] != plan->kernel && k < plan->functions[i]->n_instrs; k++)
                        if (is(&plan->functions[i]->instrs[k]))
                                return true;
        return false;
}

/* Result of the search for lanes that leave a function while others continue to instructions of a kind. */
struct leavers {
        /* for each instruction, whether lanes leave there, as ds_ptx_flow_leavers reports it */
        uint8_t *leaves;
        const struct ds_ptx_instr *first; /* first instruction at which lanes leave; NULL: no lane leaves */
        /* instruction for which it is unknown whether all remaining lanes reach it; NULL: none */
        const struct ds_ptx_instr *unclear;
};

/* Finds lanes that leave while others continue to instructions for which `is` holds. inside: called functions have
 * such instructions, too. */
static int find_leavers(
        struct ds_ptx_form_run *run, const struct ds_ptx_function *f, is_fn is, bool inside, struct leavers *ret)
{
        ds_cleanup(ds_ptx_flow_freep) ds_ptx_flow *flow = NULL;
        uint8_t *loud = ds_arena_alloc(run->arena, (size_t)f->n_instrs + 1, 1);
        uint32_t at;

        *ret = (struct leavers){.leaves = ds_arena_alloc(run->arena, (size_t)f->n_instrs + 1, 1)};
        if (!loud || !ret->leaves)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < f->n_instrs; i++)
                loud[i] = is(&f->instrs[i]) || (inside && f->instrs[i].op == DS_PTX_OP_CALL);
        if (!memchr(loud, 1, (size_t)f->n_instrs + 1))
                return 0;
        if (ds_ptx_flow_new(f, DS_PTX_VARY_THREAD, &flow))
                return ds_error_trace(-ENOMEM);
        at = ds_ptx_flow_leavers(flow, loud, ret->leaves);
        ret->unclear = at == DS_PTX_NO_REG ? NULL : &f->instrs[at];
        for (uint32_t i = 0; i < f->n_instrs && !ret->first; i++)
                ret->first = ret->leaves[i] ? &f->instrs[i] : NULL;
        return 0;
}

/*
 * Checks instructions that lanes execute together: they wait for all named lanes that have not exited. A lane that
 * leaves the kernel's body in a form does not exit, so the other lanes must know that it is gone. A lane that returns
 * from a function before the others may leave then.
 */
static int check_lanes(struct ds_ptx_form_run *run, struct ds_ptx_form_plan *plan)
{
        is_fn const kinds[] = {is_counted, ds_ptx_form_is_together};

        for (size_t k = 0; k < DS_ARRAY_SIZE(kinds); k++) {
                bool inside = is_inside(plan, kinds[k]);
                bool known = !inside && kinds[k] != is_counted && run->module->target >= 70;

                for (uint32_t i = 0; i < (inside ? plan->n_functions : 1); i++) {
                        struct leavers l;
                        int r = find_leavers(run, plan->functions[i], kinds[k], inside, &l);

                        if (r)
                                return ds_error_trace(r);
                        if (l.first && !known && !l.unclear)
                                l.unclear = l.first;
                        if (l.unclear)
                                return refuse(plan, l.unclear->line,
                                        "lanes may leave while others of their warp wait for them");
                        if (l.first)
                                plan->leaves = l.leaves;
                }
        }
        return 0;
}

/* --- work that outlasts a block --- */

static void look_at_copies(struct ds_ptx_form_plan *plan, const struct ds_ptx_instr *instr)
{
        switch (instr->op) {
        case DS_PTX_OP_CP_ASYNC:
        case DS_PTX_OP_CP_ASYNC_MBARRIER:
        case DS_PTX_OP_CP_ASYNC_COMMIT:
                plan->copies = true;
                break;
        case DS_PTX_OP_CP_BULK:
        case DS_PTX_OP_CP_BULK_TENSOR:
        case DS_PTX_OP_CP_REDUCE_BULK:
        case DS_PTX_OP_CP_REDUCE_TENSOR:
                plan->bulk = true;
                break;
        case DS_PTX_OP_WGMMA:
        case DS_PTX_OP_WGMMA_SP:
                plan->wgmma = true;
                break;
        default:
                break;
        }
}

/* Variable, and offset in it, that an address operand names; false: not known. */
static bool place_of(
        struct ds_ptx_form_plan *plan, const struct ds_ptx_operand *o, const struct ds_ptx_var **ret, int64_t *ret_at)
{
        const struct ds_ptx_function *f = plan->kernel;

        *ret_at = o->offset;
        *ret = o->var;
        if (o->var || o->reg == DS_PTX_NO_REG)
                return o->var != NULL;
        for (uint32_t reg = o->reg, steps = 0; steps < 8; steps++) {
                const struct ds_ptx_instr *writer = only_writer(plan, f, reg);
                const struct ds_ptx_operand *from = writer && writer->n_operands > 1 ? &writer->operands[1] : NULL;

                if (!from || (writer->op != DS_PTX_OP_MOV && writer->op != DS_PTX_OP_CVTA &&
                                     writer->op != DS_PTX_OP_CVT && writer->op != DS_PTX_OP_ADD))
                        return false;
                if (writer->op == DS_PTX_OP_ADD) {
                        if (writer->operands[2].kind != DS_PTX_OPERAND_INT)
                                return false;
                        *ret_at += (int64_t)writer->operands[2].bits;
                }
                if (from->kind == DS_PTX_OPERAND_VAR) {
                        *ret = from->var;
                        *ret_at += from->offset;
                        return true;
                }
                if (from->kind != DS_PTX_OPERAND_REG)
                        return false;
                reg = from->reg;
        }
        return false;
}

/* Whether the kernel itself invalidates the mbarrier that the instruction `init` initialises. */
static bool is_given_up(struct ds_ptx_form_plan *plan, const struct ds_ptx_instr *init)
{
        const struct ds_ptx_function *f = plan->kernel;
        const struct ds_ptx_var *var, *other;
        int64_t at, other_at;

        if (!place_of(plan, &init->operands[0], &var, &at))
                return false;
        for (uint32_t i = 0; i < f->n_instrs; i++)
                if (f->instrs[i].op == DS_PTX_OP_MBARRIER_INVAL &&
                        place_of(plan, &f->instrs[i].operands[0], &other, &other_at) && other == var && other_at == at)
                        return true;
        return false;
}

static const struct ds_ptx_instr *first_of(const struct ds_ptx_function *f, enum ds_ptx_op op)
{
        for (uint32_t i = 0; i < f->n_instrs; i++)
                if (f->instrs[i].op == op)
                        return &f->instrs[i];
        return NULL;
}

/* Checks that each block makes the same mbarriers at the same places, so that they can be invalidated before the
 * next block. */
static int check_same_objects(struct ds_ptx_form_plan *plan)
{
        const struct ds_ptx_function *f = plan->kernel;
        ds_cleanup(ds_ptx_flow_freep) ds_ptx_flow *flow = NULL;
        int r = ds_ptx_flow_new(f, DS_PTX_VARY_BLOCK, &flow);

        for (uint32_t i = 0; !r && i < f->n_instrs; i++) {
                const struct ds_ptx_operand *address = &f->instrs[i].operands[0];

                if (f->instrs[i].op != DS_PTX_OP_MBARRIER_INIT)
                        continue;
                if (ds_ptx_flow_is_uncertain(flow, i) ||
                        (address->reg != DS_PTX_NO_REG && ds_ptx_flow_varies(flow, address->reg)))
                        return refuse(
                                plan, f->instrs[i].line, "initialises an mbarrier, and not every block does it alike");
        }
        plan->objects = true;
        return r;
}

/* Checks mbarriers: initialising one that is still valid is undefined, and the next block would do so. */
static int check_objects(struct ds_ptx_form_plan *plan)
{
        const struct ds_ptx_instr *init = first_of(plan->kernel, DS_PTX_OP_MBARRIER_INIT), *elsewhere;

        for (uint32_t i = 0; i < plan->n_functions; i++) {
                const struct ds_ptx_function *f = plan->functions[i];

                if (f == plan->kernel)
                        continue;
                elsewhere = first_of(f, DS_PTX_OP_MBARRIER_INIT);
                if (!elsewhere)
                        elsewhere = first_of(f, DS_PTX_OP_MBARRIER_INVAL);
                if (elsewhere)
                        return refuse(plan, elsewhere->line, "initialises mbarriers in a function that it calls");
        }
        if (!init)
                return 0;
        if (!first_of(plan->kernel, DS_PTX_OP_MBARRIER_INVAL))
                return check_same_objects(plan);
        for (uint32_t i = 0; i < plan->kernel->n_instrs; i++)
                if (plan->kernel->instrs[i].op == DS_PTX_OP_MBARRIER_INIT &&
                        !is_given_up(plan, &plan->kernel->instrs[i]))
                        return refuse(plan, plan->kernel->instrs[i].line,
                                "invalidates some of its mbarriers, perhaps not this one");
        return 0;
}

/* --- recursion --- */

/*
 * Finds a function that calls itself, perhaps indirectly: repeatedly removes the functions that call none of the
 * remaining ones. Callees mostly follow their callers in the plan, so one pass from the end handles a long chain. NULL:
 * there is none.
 */
static const struct ds_ptx_function *calls_itself(const struct ds_ptx_form_plan *plan, uint8_t *left)
{
        const struct ds_ptx_function *stays = NULL;
        bool changed = true;

        for (uint32_t i = 0; i < plan->n_functions; i++)
                left[plan->functions[i]->index] = 1;
        while (changed) {
                changed = false;
                stays = NULL;
                for (uint32_t i = plan->n_functions; i-- > 0;) {
                        const struct ds_ptx_function *f = plan->functions[i];
                        bool calls = false;

                        for (uint32_t k = 0; left[f->index] && k < f->n_instrs && !calls; k++) {
                                const struct ds_ptx_function *called = ds_ptx_form_called(&f->instrs[k]);

                                calls = called && left[called->index];
                        }
                        changed |= left[f->index] && !calls;
                        left[f->index] = calls;
                        stays = calls && !stays ? f : stays;
                }
        }
        return stays;
}

/* Refuses recursion, from which lanes return one by one. On an H200 some lanes were lost when the body ran again;
 * the cause is unknown. */
static int check_recursion(struct ds_ptx_form_run *run, struct ds_ptx_form_plan *plan)
{
        uint8_t *left = ds_arena_alloc(run->arena, (size_t)run->module->n_functions + 1, 1);
        const struct ds_ptx_function *f;

        if (!left)
                return ds_error_origin(-ENOMEM);
        f = calls_itself(plan, left);
        return f ? refuse(plan, f->line, "calls a function that calls itself") : 0;
}

/* --- all checks --- */

static int check_loop(struct ds_ptx_form_run *run, struct ds_ptx_form_plan *plan)
{
        int r = check_barriers(plan);

        if (!r)
                r = check_recursion(run, plan);
        if (!r)
                r = check_lanes(run, plan);
        if (!r)
                r = check_objects(plan);
        for (uint32_t i = 0; i < plan->n_functions; i++)
                for (uint32_t k = 0; k < plan->functions[i]->n_instrs; k++)
                        look_at_copies(plan, &plan->functions[i]->instrs[k]);
        /* whole warps wait for wgmma's products, and that wait cannot name fewer lanes */
        if (!r && plan->wgmma && plan->leaves)
                r = refuse(plan, plan->kernel->line, "lanes may leave while others of their warp wait for them");
        return r;
}

int ds_ptx_form_check(struct ds_ptx_form_run *run, const struct ds_ptx_function *kernel, enum ds_ptx_form form,
        struct ds_ptx_form_plan *ret)
{
        int r;

        *ret = (struct ds_ptx_form_plan){.kernel = kernel, .form = form};
        reach(run, ret);
        ret->board = form == DS_PTX_FORM_PERSISTENT || ret->asks;
        r = refuse_facts(run, ret,
                1u << DS_PTX_FACT_UNKNOWN | 1u << DS_PTX_FACT_INDIRECT | 1u << DS_PTX_FACT_COOPERATIVE |
                        (ret->board ? 1u << DS_PTX_FACT_SIZES : 0));
        if (!r && (kernel->limits.reqnctapercluster[0] || kernel->limits.maxclusterrank ||
                          kernel->limits.explicitcluster || kernel->limits.blocksareclusters))
                r = refuse(ret, kernel->line, "%s", ds_ptx_fact_text(DS_PTX_FACT_CLUSTERS));
        if (!r)
                r = check_instrs(ret);
        if (!r)
                r = check_memory(run, ret);
        if (!r)
                r = check_alignment(run, ret);
        if (!r && form == DS_PTX_FORM_PERSISTENT)
                r = check_loop(run, ret);
        return r < 0 ? ds_error_trace(r) : r;
}
