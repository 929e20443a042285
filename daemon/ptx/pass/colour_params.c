/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Analysis: the parameters of a kernel that can be coloured
 *
 * All parameters that may be addresses are traced at once. That shows which memory is reached through which of them;
 * parameters that meet in one access form a group. Each group is then judged as for a launch, and groups that can be
 * coloured are combined as far as possible.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ptx/pass/colour.h"
#include "ptx/pass/colour_trace.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

static void count(const struct ds_ptx_instr *instr, struct ds_ptx_colour_param *p)
{
        uint16_t flags = ds_ptx_op_info((enum ds_ptx_op)instr->op)->flags;

        if (instr->op == DS_PTX_OP_CP_ASYNC) /* cp.async writes only shared memory */
                flags &= (uint16_t)~DS_PTX_WRITES;
        p->loads += (flags & DS_PTX_READS) != 0;
        p->stores += (flags & DS_PTX_WRITES) != 0;
}

/* The parameters through which the instruction accesses memory: origins of its address operands. */
static struct ds_ptx_colour_origin reached_by(const struct ds_ptx_colour_trace *t, const struct ds_ptx_instr *instr)
{
        struct ds_ptx_colour_origin found = {0};

        for (uint32_t i = 0; i < instr->n_operands; i++) {
                const struct ds_ptx_operand *o = &instr->operands[i];

                if (o->kind != DS_PTX_OPERAND_ADDRESS || o->reg == DS_PTX_NO_REG)
                        continue;
                found.from |= t->regs[o->reg].from;
                found.mixed |= t->regs[o->reg].mixed;
        }
        return found;
}

/* Counts the accesses through each parameter, and records which parameters share an access. */
static void see(const struct ds_ptx_colour_trace *t, struct ds_ptx_colour_param *params)
{
        const struct ds_ptx_function *f = t->function;

        for (uint32_t i = 0; i < f->n_instrs; i++) {
                struct ds_ptx_colour_origin found = reached_by(t, &f->instrs[i]);

                for (uint64_t rest = found.from | found.mixed; rest; rest &= rest - 1) {
                        struct ds_ptx_colour_param *p = &params[__builtin_ctzll(rest)];

                        p->pointer = true;
                        p->with |= (rest & -rest) | (found.from & (rest & -rest) ? found.from : 0);
                        count(&f->instrs[i], p);
                }
        }
}

/* Completes the masks `with`: all parameters of a group get the whole group. */
static void close_groups(struct ds_ptx_colour_param *params, uint32_t n)
{
        bool changed = true;

        while (changed) {
                changed = false;
                for (uint32_t i = 0; i < n; i++)
                        for (uint64_t rest = params[i].with; rest; rest &= rest - 1) {
                                uint64_t with = params[i].with | params[__builtin_ctzll(rest)].with;

                                changed |= with != params[i].with;
                                params[i].with = with;
                        }
        }
}

static int judge(const struct ds_ptx_module *module, const struct ds_ptx_function *f, uint64_t mask,
        struct ds_ptx_colour_verdict *ret)
{
        return ds_ptx_colour_judge(module, &(struct ds_ptx_colour_want){f->name, mask}, ret);
}

/* Judges a group and stores the result for each of its members. */
static int judge_group(const struct ds_ptx_module *module, const struct ds_ptx_function *f,
        struct ds_ptx_colour_param *params, uint64_t group, uint64_t *most)
{
        struct ds_ptx_colour_verdict v, both;
        int r = judge(module, f, group, &v);

        both = v;
        if (!r && v.made && *most)
                r = judge(module, f, *most | group, &both);
        if (r)
                return ds_error_trace(r);
        if (v.made && both.made)
                *most |= group;
        for (uint64_t rest = group; rest; rest &= rest - 1) {
                struct ds_ptx_colour_param *p = &params[__builtin_ctzll(rest)];

                p->possible = v.made;
                p->line = v.line;
                snprintf(p->reason, sizeof(p->reason), "%s", v.reason);
        }
        return 0;
}

int ds_ptx_colour_params(const struct ds_ptx_module *module, const struct ds_ptx_function *kernel,
        struct ds_ptx_colour_param *ret_params, uint64_t *ret_most)
{
        ds_cleanup(ds_ptx_colour_trace_freep) struct ds_ptx_colour_trace *trace = NULL;
        uint32_t n = DS_MIN(kernel->n_params, DS_PTX_COLOUR_PARAMS);
        uint64_t all = 0, steps = DS_PTX_COLOUR_STEPS_MAX;
        int r = 0;

        memset(ret_params, 0, n * sizeof(*ret_params));
        *ret_most = 0;
        for (uint32_t i = 0; i < n; i++)
                all |= (uint64_t)ds_ptx_colour_is_wide(kernel, i) << i;
        if (!all)
                return 0;
        if (ds_ptx_colour_trace_new(kernel, all, &steps, &trace))
                return ds_error_trace(-ENOMEM);
        see(trace, ret_params);
        close_groups(ret_params, n);
        for (uint32_t i = 0; i < n && !r; i++)
                if (ret_params[i].pointer && (ret_params[i].with & -ret_params[i].with) == UINT64_C(1) << i)
                        r = judge_group(module, kernel, ret_params, ret_params[i].with, ret_most);
        return r ? ds_error_trace(r) : 0;
}
