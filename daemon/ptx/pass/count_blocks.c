/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count-blocks: each block that ends increments a counter of its kernel
 *
 * A block's first thread does so where it leaves the kernel: before each ret and exit, guarded or not, and at the end
 * of the body. Refused if the kernel may end inside a function that it calls, because the function does not know its
 * kernel's counter.
 */
#include <stdio.h>

#include "ptx/pass/pass.h"
#include "ptx/pass/use.h"
#include "util/macro.h"

#define VARIABLE "ds_blocks_ended"

static const char top_text[] = "\t.reg .pred #p;\n\t.reg .b32 #a, #b;";
static const char count_text[] = "\tmov.u32 #a, %tid.x;\n\tmov.u32 #b, %tid.y;\n\tor.b32 #a, #a, #b;\n"
                                 "\tmov.u32 #b, %tid.z;\n\tor.b32 #a, #a, #b;\n"
                                 "\tsetp.eq#and.u32 #p, #a, 0#comma#not#guard;\n"
                                 "\t@#p red.global.add.u64 [#counter], 1;";

/* An instruction `exit` in a function that is not a kernel; NULL: there is none. */
static const struct ds_ptx_instr *exits_elsewhere(const struct ds_ptx_module *m)
{
        for (uint32_t i = 0; i < m->n_functions; i++)
                for (uint32_t k = 0; !m->functions[i]->is_entry && k < m->functions[i]->n_instrs; k++)
                        if (m->functions[i]->instrs[k].op == DS_PTX_OP_EXIT)
                                return &m->functions[i]->instrs[k];
        return NULL;
}

static bool calls(const struct ds_ptx_function *f)
{
        for (uint32_t i = 0; i < f->n_instrs; i++)
                if (f->instrs[i].op == DS_PTX_OP_CALL)
                        return true;
        return false;
}

/* Notes code before instruction `at` that counts the block; names: the counters, the predicate and two number
 * registers. */
static void count_at(struct ds_ptx_pass_run *run, const struct ds_ptx_function *f, uint32_t at,
        char names[4][DS_PTX_NAME_MAX], uint32_t index)
{
        const struct ds_ptx_instr *instr = at < f->n_instrs ? &f->instrs[at] : NULL;
        bool guarded = instr && instr->guard != DS_PTX_NO_REG;
        char counter[DS_PTX_NAME_MAX + 16];
        const struct ds_ptx_binding bindings[] = {{"counter", counter}, {"p", names[1]}, {"a", names[2]},
                {"b", names[3]}, {"and", guarded ? ".and" : ""}, {"comma", guarded ? ", " : ""},
                {"not", guarded && instr->guard_negated ? "!" : ""},
                {"guard", guarded ? ds_ptx_edit_register(run->edit, f, instr->guard) : ""}};

        snprintf(counter, sizeof(counter), "%s+%u", names[0], index * 8);
        ds_ptx_edit_before(run->edit, f, at, count_text, bindings, DS_ARRAY_SIZE(bindings));
}

static void count_kernel(
        struct ds_ptx_pass_run *run, const struct ds_ptx_function *f, char names[4][DS_PTX_NAME_MAX], uint32_t index)
{
        const struct ds_ptx_binding registers[] = {{"p", names[1]}, {"a", names[2]}, {"b", names[3]}};

        ds_ptx_edit_top(run->edit, f, top_text, registers, DS_ARRAY_SIZE(registers));
        for (uint32_t i = 0; i < f->n_instrs; i++)
                if (f->instrs[i].op == DS_PTX_OP_RET || f->instrs[i].op == DS_PTX_OP_EXIT)
                        count_at(run, f, i, names, index);
        if (!f->n_instrs || ds_ptx_falls_through(&f->instrs[f->n_instrs - 1]))
                count_at(run, f, f->n_instrs, names, index);
        ds_ptx_pass_done(run, f);
}

int ds_ptx_pass_count_blocks(struct ds_ptx_pass_run *run)
{
        const struct ds_ptx_module *m = run->module;
        const struct ds_ptx_instr *elsewhere = exits_elsewhere(m);
        static const char *const stems[] = {VARIABLE, "%ds_p", "%ds_a", "%ds_b"};
        char names[4][DS_PTX_NAME_MAX], variable[DS_PTX_NAME_MAX + 80];
        uint32_t n = 0;

        for (int i = 0; i < 4; i++)
                ds_ptx_edit_fresh(run->edit, stems[i], names[i]);
        for (uint32_t i = 0; i < m->n_functions; i++) {
                const struct ds_ptx_function *f = m->functions[i];

                if (!f->is_entry || !f->has_body)
                        continue;
                n++; /* index of the kernel's counter; a kernel that stays unchanged has one, too */
                if (!ds_ptx_pass_wants(run, f))
                        continue;
                if (elsewhere && calls(f))
                        ds_ptx_pass_refuse(run, f, elsewhere->line, "a function that it may call exits");
                else if (!ds_ptx_pass_refuse_facts(run, f, 1u << DS_PTX_FACT_UNKNOWN))
                        count_kernel(run, f, names, n - 1);
        }
        snprintf(variable, sizeof(variable), ".visible .global .align 8 .u64 %s[%u];", names[0], n);
        if (n && !ds_ptx_edit_is_empty(run->edit))
                ds_ptx_edit_prologue(run->edit, variable, NULL, 0);
        return 0;
}
