/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/pass/flow.h"

#include <errno.h>
#include <string.h>

#include "ptx/pass/use.h"
#include "util/alloc.h"
#include "util/arena.h"
#include "util/error.h"
#include "util/macro.h"

#define ARENA_LIMIT DS_MIB(256)
#define ROUNDS 64 /* most passes over all instructions; beyond that everything counts as varying */
#define EFFORT 64 /* most basic blocks examined behind branches, per block; beyond that everything counts as varying */
#define NONE UINT32_MAX

/* A basic block, called stretch in this file: instructions executed one after the other */
struct stretch {
        uint32_t first, end;
        uint32_t n_next, *next; /* successors, as indices of stretches; n stands for the exit of the function */
        uint32_t n_before, *before;
        /* immediate postdominator: stretch where all paths from this one meet, at the latest the exit */
        uint32_t meet;
        uint32_t place; /* number in the order from the exit backwards; NONE: the stretch never reaches the exit */
        bool uncertain, followed, loud, torn;
        uint32_t stamp;
};

struct ds_ptx_flow {
        ds_arena *arena;
        const struct ds_ptx_function *function;
        enum ds_ptx_vary what;
        struct stretch *stretches; /* array of n + 1 stretches, of which the last is the exit */
        uint32_t n, *of;           /* number of stretches without the exit; index of each instruction's stretch */
        uint8_t *varies;           /* for each register, 1 if it varies */
        uint32_t *stack;           /* work space, one entry per stretch */
        uint64_t effort;
        uint32_t stamp;
        bool changed, gave_up;
};

/* --- basic blocks ("stretches") --- */

static bool is_branch(const struct ds_ptx_instr *instr)
{
        return ds_ptx_op_info((enum ds_ptx_op)instr->op)->flags & DS_PTX_BRANCH;
}

static bool leaves(const struct ds_ptx_instr *instr)
{
        return instr->op == DS_PTX_OP_RET || instr->op == DS_PTX_OP_EXIT;
}

static int cut(ds_ptx_flow *flow)
{
        const struct ds_ptx_function *f = flow->function;
        ds_cleanup(ds_freep) uint8_t *begins = ds_alloc0((size_t)f->n_instrs + 1, 1);
        uint32_t n = 0;

        flow->of = ds_arena_alloc(flow->arena, (size_t)f->n_instrs + 1, sizeof(*flow->of));
        if (!begins || !flow->of)
                return -ENOMEM;
        begins[0] = 1;
        for (uint32_t i = 0; i < f->n_labels; i++)
                begins[f->labels[i].instr] = 1;
        for (uint32_t i = 0; i < f->n_instrs; i++)
                if (is_branch(&f->instrs[i]))
                        begins[i + 1] = 1;
        for (uint32_t i = 0; i < f->n_instrs; i++)
                n += begins[i];
        flow->stretches = ds_arena_alloc(flow->arena, (size_t)n + 1, sizeof(*flow->stretches));
        flow->stack = ds_arena_alloc(flow->arena, (size_t)n + 1, 2 * sizeof(*flow->stack));
        if (!flow->stretches || !flow->stack)
                return -ENOMEM;
        flow->n = n;
        n = 0;
        for (uint32_t i = 0; i < f->n_instrs; i++) {
                n += begins[i];
                if (begins[i])
                        flow->stretches[n - 1].first = i;
                flow->stretches[n - 1].end = i + 1;
                flow->of[i] = n - 1;
        }
        flow->of[f->n_instrs] = flow->n;
        return 0;
}

/* Finds the successors of a stretch: labels, the next stretch, the exit. Returns their number; `to`, which receives
 * them, may be NULL. */
static uint32_t ways(const ds_ptx_flow *flow, const struct stretch *s, uint32_t *to)
{
        const struct ds_ptx_function *f = flow->function;
        const struct ds_ptx_instr *last = &f->instrs[s->end - 1];
        const uint32_t *labels;
        uint32_t jumps = ds_ptx_jumps(f, last, &labels), n = 0;

        for (uint32_t i = 0; i < jumps; i++, n++)
                if (to)
                        to[n] = flow->of[f->labels[labels[i]].instr];
        if (leaves(last)) {
                if (to)
                        to[n] = flow->n;
                n++;
        }
        if (ds_ptx_falls_through(last)) {
                if (to)
                        to[n] = flow->of[s->end];
                n++;
        }
        return n;
}

static int connect(ds_ptx_flow *flow)
{
        for (uint32_t i = 0; i < flow->n; i++) {
                struct stretch *s = &flow->stretches[i];

                s->n_next = ways(flow, s, NULL);
                s->next = ds_arena_alloc(flow->arena, (size_t)s->n_next + 1, sizeof(*s->next));
                if (!s->next)
                        return -ENOMEM;
                ways(flow, s, s->next);
                for (uint32_t k = 0; k < s->n_next; k++)
                        flow->stretches[s->next[k]].n_before++;
        }
        for (uint32_t i = 0; i <= flow->n; i++) {
                struct stretch *s = &flow->stretches[i];

                s->before = ds_arena_alloc(flow->arena, (size_t)s->n_before + 1, sizeof(*s->before));
                if (!s->before)
                        return -ENOMEM;
                s->n_before = 0;
        }
        for (uint32_t i = 0; i < flow->n; i++)
                for (uint32_t k = 0; k < flow->stretches[i].n_next; k++) {
                        struct stretch *to = &flow->stretches[flow->stretches[i].next[k]];

                        to->before[to->n_before++] = i;
                }
        return 0;
}

/* --- immediate postdominators (Cooper, Harvey, Kennedy 2001), from the exit backwards ----------------------- */

/* Numbers the stretches that reach the exit, in postorder of a backward traversal, and returns how many they are;
 * order[i]: stretch with number i */
static uint32_t number(ds_ptx_flow *flow, uint32_t *order)
{
        uint32_t *next = flow->stack + flow->n + 1, depth = 0, n = 0;

        for (uint32_t i = 0; i <= flow->n; i++) {
                flow->stretches[i].place = NONE;
                next[i] = 0;
        }
        flow->stack[depth++] = flow->n;
        flow->stretches[flow->n].place = 0;
        while (depth) {
                struct stretch *s = &flow->stretches[flow->stack[depth - 1]];
                uint32_t *k = &next[flow->stack[depth - 1]];

                if (*k == s->n_before) {
                        order[n] = flow->stack[--depth];
                        s->place = n++;
                        continue;
                }
                if (flow->stretches[s->before[*k]].place == NONE) {
                        flow->stretches[s->before[*k]].place = 0;
                        flow->stack[depth++] = s->before[*k];
                }
                ++*k;
        }
        return n;
}

static uint32_t common(const ds_ptx_flow *flow, uint32_t a, uint32_t b)
{
        const struct stretch *s = flow->stretches;

        while (a != b) {
                while (s[a].place < s[b].place)
                        a = s[a].meet;
                while (s[b].place < s[a].place)
                        b = s[b].meet;
        }
        return a;
}

static bool find_meet(ds_ptx_flow *flow, uint32_t at)
{
        struct stretch *s = &flow->stretches[at];
        uint32_t meet = NONE;

        for (uint32_t k = 0; k < s->n_next; k++) {
                uint32_t to = s->next[k];

                if (flow->stretches[to].place == NONE || flow->stretches[to].meet == NONE)
                        continue;
                meet = meet == NONE ? to : common(flow, meet, to);
        }
        if (meet == s->meet)
                return false;
        s->meet = meet;
        return true;
}

static int find_meets(ds_ptx_flow *flow)
{
        uint32_t *order = ds_arena_alloc(flow->arena, (size_t)flow->n + 1, sizeof(*order)), n;
        bool changed = true;

        if (!order)
                return -ENOMEM;
        n = number(flow, order);
        for (uint32_t i = 0; i <= flow->n; i++)
                flow->stretches[i].meet = NONE;
        flow->stretches[flow->n].meet = flow->n;
        while (changed) {
                changed = false;
                for (uint32_t i = n - 1; i-- > 0;)
                        changed |= find_meet(flow, order[i]);
        }
        for (uint32_t i = 0; i < flow->n; i++)
                if (flow->stretches[i].meet == NONE)
                        flow->stretches[i].meet = flow->n;
        return 0;
}

/* --- sources of variation --- */

static bool sreg_varies(const struct ds_ptx_operand *o, enum ds_ptx_vary what)
{
        switch (o->sreg) {
        case DS_PTX_SREG_NTID:
        case DS_PTX_SREG_NCTAID:
        case DS_PTX_SREG_NCLUSTERID:
        case DS_PTX_SREG_NSMID:
        case DS_PTX_SREG_NWARPID:
        case DS_PTX_SREG_CLUSTER_NCTAID:
        case DS_PTX_SREG_CLUSTER_NCTARANK:
        case DS_PTX_SREG_TOTAL_SMEM_SIZE:
        case DS_PTX_SREG_AGGR_SMEM_SIZE:
        case DS_PTX_SREG_DYNAMIC_SMEM_SIZE:
        case DS_PTX_SREG_ENVREG:
                return false;
        case DS_PTX_SREG_TID:
        case DS_PTX_SREG_LANEID:
        case DS_PTX_SREG_LANEMASK_EQ:
        case DS_PTX_SREG_LANEMASK_LE:
        case DS_PTX_SREG_LANEMASK_LT:
        case DS_PTX_SREG_LANEMASK_GE:
        case DS_PTX_SREG_LANEMASK_GT:
                return what == DS_PTX_VARY_THREAD;
        case DS_PTX_SREG_CTAID:
        case DS_PTX_SREG_CLUSTERID:
        case DS_PTX_SREG_CLUSTER_CTAID:
        case DS_PTX_SREG_CLUSTER_CTARANK:
        case DS_PTX_SREG_SMID:
        case DS_PTX_SREG_GRIDID:
                return what == DS_PTX_VARY_BLOCK;
        default:
                return true;
        }
}

/* Whether a load has the same result for the same address: from the kernel's parameters or constants. */
static bool loads_constant(const struct ds_ptx_function *f, const struct ds_ptx_instr *instr)
{
        enum ds_ptx_space space = ds_ptx_instr_space(instr);
        const struct ds_ptx_var *var = instr->operands[1].var;

        if (instr->op != DS_PTX_OP_LD)
                return false;
        return space == DS_PTX_IN_CONST ||
               (space == DS_PTX_IN_PARAM && f->is_entry &&
                       (!var || (var->index < f->n_params && f->params[var->index] == var)));
}

/* Whether the instruction's result varies although its operands do not */
static bool is_source(const ds_ptx_flow *flow, const struct ds_ptx_instr *instr)
{
        const struct ds_ptx_op_info *info = ds_ptx_op_info((enum ds_ptx_op)instr->op);

        for (uint32_t i = 0; i < instr->n_operands; i++)
                if (instr->operands[i].kind == DS_PTX_OPERAND_SREG && sreg_varies(&instr->operands[i], flow->what))
                        return true;
        if (info->flags & DS_PTX_CARRY_IN)
                return true;
        switch (info->class) {
        case DS_PTX_CLASS_INT:
        case DS_PTX_CLASS_FLOAT:
        case DS_PTX_CLASS_SPECIAL:
        case DS_PTX_CLASS_COMPARE:
        case DS_PTX_CLASS_MOVE:
        case DS_PTX_CLASS_CONVERT:
        case DS_PTX_CLASS_VIDEO:
                return false;
        case DS_PTX_CLASS_WARP:
                return flow->what == DS_PTX_VARY_THREAD || instr->op == DS_PTX_OP_ACTIVEMASK;
        case DS_PTX_CLASS_MEMORY:
                return !loads_constant(flow->function, instr);
        /* a barrier's result is equal in all threads of a block, but may vary from block to block */
        case DS_PTX_CLASS_BARRIER:
                return flow->what == DS_PTX_VARY_BLOCK || instr->n_operands > 3;
        default:
                return true;
        }
}

/* --- propagation --- */

struct visit {
        ds_ptx_flow *flow;
        bool varies;
};

static void visit_read(void *user, uint32_t *reg, unsigned use)
{
        struct visit *v = user;

        if (use & DS_PTX_USE_READ)
                v->varies |= v->flow->varies[*reg];
}

static void visit_write(void *user, uint32_t *reg, unsigned use)
{
        struct visit *v = user;

        if (!(use & DS_PTX_USE_WRITE) || v->flow->varies[*reg])
                return;
        v->flow->varies[*reg] = 1;
        v->flow->changed = true;
}

static void follow_values(ds_ptx_flow *flow)
{
        const struct ds_ptx_function *f = flow->function;

        for (uint32_t i = 0; i < f->n_instrs; i++) {
                struct visit v = {.flow = flow, .varies = is_source(flow, &f->instrs[i])};

                ds_ptx_each_register(&f->instrs[i], visit_read, &v);
                if (v.varies || flow->stretches[flow->of[i]].uncertain)
                        ds_ptx_each_register(&f->instrs[i], visit_write, &v);
        }
}

static void reach(ds_ptx_flow *flow, uint32_t to, uint32_t meet, uint32_t *depth)
{
        struct stretch *s = &flow->stretches[to];

        if (to == meet || to == flow->n || s->stamp == flow->stamp)
                return;
        s->stamp = flow->stamp;
        flow->changed |= !s->uncertain;
        s->uncertain = true;
        flow->stack[(*depth)++] = to;
}

/* Marks everything between the branch that ends the stretch `from` and the point where its paths meet again. */
static void follow_branch(ds_ptx_flow *flow, struct stretch *from)
{
        uint32_t depth = 0;

        flow->stamp++;
        for (uint32_t k = 0; k < from->n_next; k++)
                reach(flow, from->next[k], from->meet, &depth);
        while (depth) {
                const struct stretch *s = &flow->stretches[flow->stack[--depth]];

                flow->effort++;
                for (uint32_t k = 0; k < s->n_next; k++)
                        reach(flow, s->next[k], from->meet, &depth);
        }
        from->followed = true;
}

static void follow_branches(ds_ptx_flow *flow)
{
        for (uint32_t i = 0; i < flow->n; i++) {
                struct stretch *s = &flow->stretches[i];
                const struct ds_ptx_instr *last = &flow->function->instrs[s->end - 1];
                struct visit v = {.flow = flow};

                if (s->followed || s->n_next < 2)
                        continue;
                ds_ptx_each_register((struct ds_ptx_instr *)last, visit_read, &v);
                if (v.varies)
                        follow_branch(flow, s);
                if (flow->effort > (uint64_t)EFFORT * (flow->n + 1024)) {
                        flow->gave_up = true;
                        return;
                }
        }
}

static int follow(ds_ptx_flow *flow)
{
        const struct ds_ptx_function *f = flow->function;

        flow->varies = ds_arena_alloc(flow->arena, (size_t)f->n_regs + 1, 1);
        if (!flow->varies)
                return -ENOMEM;
        for (uint32_t i = 0; i < f->n_params; i++)
                /* registers that hold a function's parameters vary: callers may pass any value */
                if (f->params[i]->reg != DS_PTX_NO_REG)
                        flow->varies[f->params[i]->reg] = 1;
        flow->changed = true;
        for (uint32_t round = 0; flow->changed && !flow->gave_up; round++) {
                flow->changed = false;
                follow_values(flow);
                follow_branches(flow);
                flow->gave_up |= round == ROUNDS;
        }
        return 0;
}

int ds_ptx_flow_new(const struct ds_ptx_function *function, enum ds_ptx_vary what, ds_ptx_flow **ret)
{
        ds_cleanup(ds_ptx_flow_freep) ds_ptx_flow *flow = ds_alloc0(1, sizeof(*flow));
        int r;

        if (!flow)
                return ds_error_origin(-ENOMEM);
        flow->function = function;
        flow->what = what;
        flow->arena = ds_arena_new(ARENA_LIMIT);
        r = flow->arena ? cut(flow) : -ENOMEM;
        if (!r)
                r = connect(flow);
        if (!r)
                r = find_meets(flow);
        if (!r)
                r = follow(flow);
        if (r)
                return ds_error_origin(r);
        *ret = DS_TAKE_PTR(flow);
        return 0;
}

ds_ptx_flow *ds_ptx_flow_free(ds_ptx_flow *flow)
{
        if (!flow)
                return NULL;
        ds_arena_free(flow->arena);
        return ds_free(flow);
}

/* --- threads that leave --- */

/* Finds the stretches from whose beginning a loud instruction (flow.h) can be reached. */
static void find_loud(ds_ptx_flow *flow, const uint8_t *loud)
{
        uint32_t depth = 0;

        for (uint32_t i = 0; i < flow->n; i++) {
                struct stretch *s = &flow->stretches[i];

                s->loud = s->torn = false;
                for (uint32_t k = s->first; k < s->end; k++)
                        s->loud |= loud[k];
                if (s->loud)
                        flow->stack[depth++] = i;
        }
        while (depth) {
                const struct stretch *s = &flow->stretches[flow->stack[--depth]];

                for (uint32_t k = 0; k < s->n_before; k++)
                        if (!flow->stretches[s->before[k]].loud) {
                                flow->stretches[s->before[k]].loud = true;
                                flow->stack[depth++] = s->before[k];
                        }
        }
}

/* Marks the stretches in which lanes may be apart: behind a branch whose paths both reach loud instructions
 * (flow.h). */
static void tear(ds_ptx_flow *flow, const struct stretch *from)
{
        uint32_t depth = 0;

        flow->stamp++;
        for (uint32_t k = 0; k < from->n_next; k++)
                reach(flow, from->next[k], from->meet, &depth);
        while (depth) {
                struct stretch *s = &flow->stretches[flow->stack[--depth]];

                s->torn = true;
                for (uint32_t k = 0; k < s->n_next; k++)
                        reach(flow, s->next[k], from->meet, &depth);
        }
}

uint32_t ds_ptx_flow_leavers(ds_ptx_flow *flow, const uint8_t *loud, uint8_t *ret_leaves)
{
        memset(ret_leaves, 0, flow->function->n_instrs);
        find_loud(flow, loud);
        for (uint32_t i = 0; i < flow->n; i++) {
                const struct stretch *s = &flow->stretches[i];
                uint32_t n_loud = 0;

                for (uint32_t k = 0; k < s->n_next; k++)
                        n_loud += flow->stretches[s->next[k]].loud;
                if (flow->gave_up && s->loud)
                        return s->first;
                if (!s->followed || !n_loud)
                        continue;
                /* if the paths meet only at the exit, lanes of one path have left while the others still run */
                if (n_loud == s->n_next && s->meet != flow->n)
                        tear(flow, s);
                else if (n_loud == 1 && s->n_next == 2 && flow->function->instrs[s->end - 1].guard != DS_PTX_NO_REG)
                        ret_leaves[s->end - 1] =
                                flow->stretches[s->next[0]].loud ? DS_PTX_FLOW_LEAVES_ON : DS_PTX_FLOW_LEAVES_JUMP;
                else
                        return s->end - 1;
        }
        for (uint32_t i = 0; i < flow->n; i++)
                if (flow->stretches[i].torn && ret_leaves[flow->stretches[i].end - 1])
                        return flow->stretches[i].end - 1;
        return DS_PTX_NO_REG;
}

bool ds_ptx_flow_varies(const ds_ptx_flow *flow, uint32_t reg)
{
        return flow->gave_up || flow->varies[reg];
}

bool ds_ptx_flow_is_uncertain(const ds_ptx_flow *flow, uint32_t instr)
{
        uint32_t guard = flow->function->instrs[instr].guard;

        return flow->gave_up || flow->stretches[flow->of[instr]].uncertain ||
               (guard != DS_PTX_NO_REG && flow->varies[guard]);
}
