/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/pass/forms_make.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ptx/pass/form.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define ARENA_LIMIT DS_MIB(256)

const char *ds_ptx_form_word(enum ds_ptx_form form)
{
        static const char *const words[] = {"native", "sliced", "persistent"};

        return words[form];
}

static const char *suffix_of(enum ds_ptx_form form)
{
        return form == DS_PTX_FORM_SLICED ? DS_PTX_FORM_SLICED_SUFFIX : DS_PTX_FORM_PERSISTENT_SUFFIX;
}

static void write_form(
        struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan, const struct ds_ptx_function *to)
{
        if (plan->aligns)
                ds_ptx_form_align(run);
        if (plan->form == DS_PTX_FORM_SLICED)
                ds_ptx_form_slice(run, plan, to);
        else
                ds_ptx_form_preempt(run, plan, to);
}

/* --- in place --- */

int ds_ptx_form_pass(struct ds_ptx_pass_run *run, enum ds_ptx_form form)
{
        ds_cleanup(ds_arena_freep) ds_arena *arena = ds_arena_new(ARENA_LIMIT);
        struct ds_ptx_form_run forms;
        int r = arena ? ds_ptx_form_begin(&forms, run->module, run->facts, run->edit, arena) : -ENOMEM;

        for (uint32_t i = 0; i < run->module->n_functions && r >= 0; i++) {
                const struct ds_ptx_function *f = run->module->functions[i];
                const struct ds_ptx_function *declared = ds_ptx_pass_declaration(run->module, f);
                struct ds_ptx_form_plan plan;

                if (!f->is_entry || !ds_ptx_pass_wants(run, f))
                        continue;
                r = ds_ptx_form_check(&forms, f, form, &plan);
                if (declared && r >= 0) {
                        ds_ptx_pass_refuse(run, f, declared->line, "is declared here with its original parameters");
                } else if (r > 0) {
                        ds_ptx_pass_refuse(run, f, plan.line, "%s", plan.reason);
                } else if (!r) {
                        write_form(&forms, &plan, f);
                        ds_ptx_pass_done(run, f);
                }
        }
        return r < 0 ? ds_error_trace(r) : 0;
}

/* --- copies --- */

static bool ends_with(const char *name, const char *suffix)
{
        size_t n = strlen(name), m = strlen(suffix);

        return n >= m && strcmp(name + n - m, suffix) == 0;
}

/* A function whose name already ends with a form's suffix; NULL: there is none. */
static const struct ds_ptx_function *in_the_way(const struct ds_ptx_module *m)
{
        for (uint32_t i = 0; i < m->n_functions; i++)
                for (int form = DS_PTX_FORM_SLICED; form < _DS_PTX_FORM_MAX; form++)
                        if (ends_with(m->functions[i]->name, suffix_of((enum ds_ptx_form)form)))
                                return m->functions[i];
        return NULL;
}

/* Whether the variable is a literal that a compiler put beside a kernel: no code writes it, so another instance is
 * equal. */
static bool is_literal(const struct ds_ptx_var *var)
{
        return var->name[0] == '$' && var->data && (var->type == DS_PTX_TYPE_B8 || var->type == DS_PTX_TYPE_U8);
}

/* Whether the operand names a variable; read: the instruction can only read the variable or take its address. */
static bool names_variable(const struct ds_ptx_operand *o, bool read)
{
        const struct ds_ptx_var *var =
                o->kind == DS_PTX_OPERAND_ADDRESS || o->kind == DS_PTX_OPERAND_VAR ? o->var : NULL;

        if (var && (var->space == DS_PTX_IN_CONST || (var->space == DS_PTX_IN_GLOBAL && !(read && is_literal(var)))))
                return true;
        for (uint32_t i = 0; i < o->n_elements; i++)
                if (names_variable(&o->elements[i], read))
                        return true;
        return false;
}

static bool only_reads(const struct ds_ptx_instr *instr)
{
        switch (instr->op) {
        case DS_PTX_OP_LD:
        case DS_PTX_OP_LDU:
        case DS_PTX_OP_MOV:
        case DS_PTX_OP_CVTA:
                return true;
        default:
                return false;
        }
}

static bool uses_variables(const struct ds_ptx_form_plan *plan)
{
        for (uint32_t i = 0; i < plan->n_functions; i++) {
                const struct ds_ptx_function *f = plan->functions[i];

                for (uint32_t k = 0; k < f->n_instrs; k++)
                        for (uint32_t o = 0; o < f->instrs[k].n_operands; o++)
                                if (names_variable(&f->instrs[k].operands[o], only_reads(&f->instrs[k])))
                                        return true;
        }
        return false;
}

static void write_copy(struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan)
{
        const struct ds_ptx_function *f = plan->kernel, *copy;
        const char *suffix = suffix_of(plan->form);
        size_t size = strlen(f->name) + strlen(suffix) + 1;
        char *name = ds_arena_alloc(run->arena, size, 1);

        if (!name) {
                ds_ptx_edit_fail(run->edit);
                return;
        }
        snprintf(name, size, "%s%s", f->name, suffix);
        copy = ds_ptx_edit_clone(run->edit, f, name);
        if (copy)
                write_form(run, plan, copy);
}

static int judge_kernel(
        struct ds_ptx_form_run *run, const struct ds_ptx_function *f, bool write, struct ds_ptx_form_verdict *verdict)
{
        const struct ds_ptx_facts *facts = &run->facts[f->index];
        struct ds_ptx_form_plan plan;
        int r;

        verdict->forms[DS_PTX_FORM_NATIVE].made = true;
        verdict->waits = ds_ptx_fact(facts, DS_PTX_FACT_WAITS);
        for (int form = DS_PTX_FORM_SLICED; form < _DS_PTX_FORM_MAX; form++) {
                r = ds_ptx_form_check(run, f, (enum ds_ptx_form)form, &plan);
                if (r < 0)
                        return ds_error_trace(r);
                verdict->forms[form].made = !r;
                verdict->forms[form].line = plan.line;
                snprintf(verdict->forms[form].reason, sizeof(verdict->forms[form].reason), "%s", plan.reason);
                verdict->variables = ds_ptx_fact(facts, DS_PTX_FACT_INDIRECT) || uses_variables(&plan);
                if (!r && write)
                        write_copy(run, &plan);
        }
        return 0;
}

static void refuse_all(const struct ds_ptx_function *why, struct ds_ptx_form_verdict *verdict)
{
        for (int form = DS_PTX_FORM_SLICED; form < _DS_PTX_FORM_MAX; form++) {
                struct ds_ptx_form_fate *fate = &verdict->forms[form];

                *fate = (struct ds_ptx_form_fate){.line = why->line};
                snprintf(fate->reason, sizeof(fate->reason), "the module already has a function '%.80s'", why->name);
        }
}

/* Judges, and with an edit makes, all forms of all kernels. edit: NULL: verdicts only */
static int judge(const struct ds_ptx_module *module, ds_ptx_edit *edit, struct ds_ptx_form_verdict *verdicts)
{
        ds_cleanup(ds_freep) struct ds_ptx_facts *facts = ds_alloc0((size_t)module->n_functions + 1, sizeof(*facts));
        ds_cleanup(ds_arena_freep) ds_arena *arena = ds_arena_new(ARENA_LIMIT);
        const struct ds_ptx_function *why = in_the_way(module);
        struct ds_ptx_form_run run;
        int r = facts && arena ? ds_ptx_facts_find(module, facts) : -ENOMEM;

        if (!r)
                r = ds_ptx_form_begin(&run, module, facts, edit, arena);
        for (uint32_t i = 0; i < module->n_functions && !r; i++) {
                const struct ds_ptx_function *f = module->functions[i];

                verdicts[i] = (struct ds_ptx_form_verdict){0};
                if (f->is_entry && f->has_body)
                        r = judge_kernel(&run, f, edit && !why, &verdicts[i]);
                if (f->is_entry && f->has_body && why)
                        refuse_all(why, &verdicts[i]);
        }
        return r ? ds_error_trace(r) : 0;
}

int ds_ptx_forms_judge(const struct ds_ptx_module *module, struct ds_ptx_form_verdict *ret_verdicts)
{
        return judge(module, NULL, ret_verdicts);
}

int ds_ptx_forms_make(const struct ds_ptx_module *module, size_t limit, struct ds_ptx_diags *diags,
        struct ds_ptx_module **ret, struct ds_ptx_form_verdict *ret_verdicts)
{
        ds_cleanup(ds_ptx_edit_freep) ds_ptx_edit *edit = ds_ptx_edit_new(module, limit);
        int r = edit ? judge(module, edit, ret_verdicts) : -ENOMEM;

        *diags = (struct ds_ptx_diags){0};
        if (r)
                return ds_error_trace(r);
        r = ds_ptx_edit_apply(edit, limit, diags, ret);
        return r < 0 ? ds_error_trace(r) : r;
}
