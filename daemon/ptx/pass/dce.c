/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dce: removes instructions whose results are unused
 *
 * Mark and sweep over registers, independent of the order of the text. An instruction with an effect (stores, jumps,
 * waits, works with other lanes, may fault, reads a clock) is needed; so is every instruction that writes a register
 * read by a needed one. The others are removed. That takes linear time on any text. Dead code that only a
 * flow-sensitive analysis finds (a register written twice, the first value unused) stays: the assembler removes it
 * anyway.
 */
#include <errno.h>

#include "ptx/pass/pass.h"
#include "ptx/pass/use.h"
#include "util/alloc.h"
#include "util/error.h"

#define NONE UINT32_MAX

/* An instruction that writes a register; `next` links all those of one register. */
struct write {
        uint32_t instr, next;
};

struct sweep {
        struct ds_ptx_function *function;
        uint32_t *head;   /* for each register, the list of the instructions that write it */
        uint8_t *reached; /* for each register, 1 if a needed instruction reads it */
        struct write *writes;
        size_t n_writes;
        uint8_t *needed; /* for each instruction, 1 if it is needed */
        uint32_t *todo;  /* needed instructions whose reads are not processed yet */
        uint32_t n_todo;
        uint32_t at;
        int phase;
};

enum { COUNT, LIST, FOLLOW };

static bool reads_time(const struct ds_ptx_instr *instr)
{
        for (uint32_t i = 0; i < instr->n_operands; i++) {
                const struct ds_ptx_operand *o = &instr->operands[i];

                if (o->kind == DS_PTX_OPERAND_SREG && o->sreg >= DS_PTX_SREG_CLOCK &&
                        o->sreg <= DS_PTX_SREG_GLOBALTIMER_HI)
                        return true;
                if (o->kind == DS_PTX_OPERAND_SREG && o->sreg >= DS_PTX_SREG_PM0)
                        return true;
        }
        return false;
}

static bool does_something(const struct ds_ptx_instr *instr)
{
        const struct ds_ptx_op_info *info = ds_ptx_op_info((enum ds_ptx_op)instr->op);

        if (info->flags & ~(DS_PTX_READS | DS_PTX_CARRY_IN))
                return true;
        switch (info->class) {
        case DS_PTX_CLASS_INT:
        case DS_PTX_CLASS_FLOAT:
        case DS_PTX_CLASS_SPECIAL:
        case DS_PTX_CLASS_COMPARE:
        case DS_PTX_CLASS_MOVE:
        case DS_PTX_CLASS_CONVERT:
        case DS_PTX_CLASS_VIDEO:
                return reads_time(instr);
        case DS_PTX_CLASS_MEMORY: /* only loads that cannot fault are without effect */
                return instr->op != DS_PTX_OP_LD ||
                       instr->operands[instr->n_operands - 1].kind != DS_PTX_OPERAND_ADDRESS ||
                       !instr->operands[instr->n_operands - 1].var || ds_ptx_mod(instr, DS_PTX_SEM_WEAK) ||
                       (ds_ptx_instr_space(instr) != DS_PTX_IN_PARAM && ds_ptx_instr_space(instr) != DS_PTX_IN_CONST);
        default:
                return true;
        }
}

static void need(struct sweep *s, uint32_t instr)
{
        if (s->needed[instr])
                return;
        s->needed[instr] = 1;
        s->todo[s->n_todo++] = instr;
}

static void visit(void *user, uint32_t *reg, unsigned use)
{
        struct sweep *s = user;

        if (s->phase == FOLLOW) {
                /* continues only with registers that are read; a partial write also needs the register's earlier
                 * value */
                if (!(use & (DS_PTX_USE_READ | DS_PTX_USE_PART)) || s->reached[*reg])
                        return;
                s->reached[*reg] = 1;
                for (uint32_t k = s->head[*reg]; k != NONE; k = s->writes[k].next)
                        need(s, s->writes[k].instr);
                return;
        }
        if (!(use & DS_PTX_USE_WRITE))
                return;
        if (s->phase == LIST) {
                s->writes[s->n_writes] = (struct write){.instr = s->at, .next = s->head[*reg]};
                s->head[*reg] = (uint32_t)s->n_writes;
        }
        s->n_writes++;
}

static void each(struct sweep *s, int phase)
{
        s->phase = phase;
        s->n_writes = 0;
        for (s->at = 0; s->at < s->function->n_instrs; s->at++)
                ds_ptx_each_register(&s->function->instrs[s->at], visit, s);
}

static int mark(struct sweep *s)
{
        struct ds_ptx_function *f = s->function;

        s->head = ds_alloc((f->n_regs + (size_t)1) * sizeof(*s->head));
        s->reached = ds_alloc0(f->n_regs + (size_t)1, 1);
        s->needed = ds_alloc0(f->n_instrs + (size_t)1, 1);
        s->todo = ds_alloc0(f->n_instrs + (size_t)1, sizeof(*s->todo));
        each(s, COUNT);
        s->writes = ds_alloc0(s->n_writes + 1, sizeof(*s->writes));
        if (!s->head || !s->reached || !s->needed || !s->todo || !s->writes)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < f->n_regs; i++)
                s->head[i] = NONE;
        each(s, LIST);
        for (uint32_t i = 0; i < f->n_instrs; i++)
                if (does_something(&f->instrs[i]))
                        need(s, i);
        s->phase = FOLLOW;
        /* registers that hold a function's results are needed */
        for (uint32_t i = 0; i < f->n_rets; i++)
                if (f->rets[i]->reg != DS_PTX_NO_REG)
                        visit(s, &f->rets[i]->reg, DS_PTX_USE_READ);
        while (s->n_todo)
                ds_ptx_each_register(&f->instrs[s->todo[--s->n_todo]], visit, s);
        return 0;
}

int ds_ptx_pass_dce(struct ds_ptx_pass_run *run)
{
        int r = 0;

        for (uint32_t i = 0; i < run->module->n_functions && !r; i++) {
                struct sweep s = {.function = run->module->functions[i]};

                if (!ds_ptx_pass_wants(run, s.function))
                        continue;
                r = mark(&s);
                for (uint32_t k = 0; k < s.function->n_instrs && !r; k++) {
                        if (s.needed[k])
                                continue;
                        ds_ptx_edit_remove(run->edit, s.function, k);
                        ds_ptx_pass_done(run, s.function);
                }
                ds_free(s.head);
                ds_free(s.reached);
                ds_free(s.needed);
                ds_free(s.todo);
                ds_free(s.writes);
        }
        return r;
}
