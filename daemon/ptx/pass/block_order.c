/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block-order: an array decides each block's index
 *
 * If the variable ds_block_order holds the address of an array of .b32, a block takes the entry at its own linear index
 * as its linear index. If it holds 0, the block keeps its own. So a GPU runs blocks in a chosen order, and a kernel
 * that relies on the increasing order shows it. The pass is also the first half of making kernels preemptible: the
 * block index becomes a value instead of a hardware register.
 *
 * Refused: kernels whose functions read the index, where the value is not available, and clusters, whose blocks belong
 * together. A grid of more than 2^32 blocks cannot have such an array.
 */
#include <stdio.h>

#include "ptx/pass/pass.h"
#include "util/macro.h"

#define VARIABLE "ds_block_order"

static const char top_text[] = "\t.reg .b32 #x, #y, #z;\n"
                               "\t{\n"
                               "\t.reg .pred #p;\n\t.reg .b32 #a, #b;\n\t.reg .b64 #q, #o;\n"
                               "\tmov.u32 #x, %ctaid.x;\n\tmov.u32 #y, %ctaid.y;\n\tmov.u32 #z, %ctaid.z;\n"
                               "\tld.global.u64 #q, [#variable];\n"
                               "\tsetp.eq.u64 #p, #q, 0;\n"
                               "\t@#p bra #label;\n"
                               "\tmov.u32 #b, %nctaid.y;\n\tmad.lo.u32 #a, #z, #b, #y;\n"
                               "\tmov.u32 #b, %nctaid.x;\n\tmad.lo.u32 #a, #a, #b, #x;\n"
                               "\tmul.wide.u32 #o, #a, 4;\n\tadd.u64 #q, #q, #o;\n"
                               "\tcvta.to.global.u64 #q, #q;\n"
                               "\tld.global.u32 #a, [#q];\n"
                               "\trem.u32 #x, #a, #b;\n\tdiv.u32 #a, #a, #b;\n"
                               "\tmov.u32 #b, %nctaid.y;\n"
                               "\trem.u32 #y, #a, #b;\n\tdiv.u32 #z, #a, #b;\n"
                               "#label:\n"
                               "\t}";

enum name { X, Y, Z, P, A, B, Q, O, LABEL, VAR, _NAMES };
static const char *const stems[_NAMES] = {
        "%ds_x", "%ds_y", "%ds_z", "%ds_p", "%ds_a", "%ds_b", "%ds_q", "%ds_o", "$L_ds_own", VARIABLE};
static const char *const keys[_NAMES] = {"x", "y", "z", "p", "a", "b", "q", "o", "label", "variable"};

static bool reads_index(const struct ds_ptx_instr *instr)
{
        for (uint32_t i = 0; i < instr->n_operands; i++)
                if (instr->operands[i].kind == DS_PTX_OPERAND_SREG && instr->operands[i].sreg == DS_PTX_SREG_CTAID)
                        return true;
        return false;
}

/* Line of the first read of the block index in a function that is not a kernel; 0: there is none. */
static uint32_t used_elsewhere(const struct ds_ptx_module *m)
{
        for (uint32_t i = 0; i < m->n_functions; i++)
                for (uint32_t k = 0; !m->functions[i]->is_entry && k < m->functions[i]->n_instrs; k++)
                        if (reads_index(&m->functions[i]->instrs[k]))
                                return m->functions[i]->instrs[k].line;
        return 0;
}

static bool calls(const struct ds_ptx_function *f)
{
        for (uint32_t i = 0; i < f->n_instrs; i++)
                if (f->instrs[i].op == DS_PTX_OP_CALL)
                        return true;
        return false;
}

/* Size of an instruction that reads the block index: 1, 2, 3 for `mov d, %ctaid.c` of 16, 32, 64 bits; 0: any other
 * instruction. */
static uint32_t width_of(const struct ds_ptx_instr *instr)
{
        uint32_t bits = instr->n_types == 1 ? ds_ptx_type_bits((enum ds_ptx_type)instr->types[0]) : 0;

        if (instr->op != DS_PTX_OP_MOV || instr->operands[0].kind != DS_PTX_OPERAND_REG ||
                instr->operands[1].kind != DS_PTX_OPERAND_SREG)
                return 0;
        return bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3 : 0;
}

static void replace(
        struct ds_ptx_pass_run *run, const struct ds_ptx_function *f, uint32_t at, char names[_NAMES][DS_PTX_NAME_MAX])
{
        const struct ds_ptx_instr *instr = &f->instrs[at];
        uint32_t component = instr->operands[1].component;
        const char *const types[] = {"u16", "u32", "u64"};
        const struct ds_ptx_binding bindings[] = {{"guard", ds_ptx_edit_guard(run->edit, f, instr)},
                {"dest", ds_ptx_edit_operand(run->edit, f, &instr->operands[0])},
                {"index", component > 2 ? "0" : names[X + component]}, {"type", types[width_of(instr) - 1]}};

        ds_ptx_edit_replace(run->edit, f, at,
                width_of(instr) == 2 || component > 2 ? "\t#guard mov.#type #dest, #index;"
                                                      : "\t#guard cvt.#type.u32 #dest, #index;",
                bindings, DS_ARRAY_SIZE(bindings));
}

static bool can(struct ds_ptx_pass_run *run, const struct ds_ptx_function *f, uint32_t elsewhere)
{
        if (ds_ptx_pass_refuse_facts(
                    run, f, 1u << DS_PTX_FACT_CLUSTERS | 1u << DS_PTX_FACT_UNKNOWN | 1u << DS_PTX_FACT_INDIRECT))
                return false;
        if (elsewhere && calls(f)) {
                ds_ptx_pass_refuse(run, f, elsewhere, "a function that it may call reads the block's index");
                return false;
        }
        for (uint32_t i = 0; i < f->n_instrs; i++) {
                const struct ds_ptx_instr *instr = &f->instrs[i];

                if (reads_index(instr) && !width_of(instr)) {
                        ds_ptx_pass_refuse(run, f, instr->line,
                                "the block's index is read other than by a mov of 16, 32 or 64 bits");
                        return false;
                }
        }
        return true;
}

static bool order_kernel(
        struct ds_ptx_pass_run *run, const struct ds_ptx_function *f, char names[_NAMES][DS_PTX_NAME_MAX])
{
        struct ds_ptx_binding bindings[_NAMES];
        bool any = false;

        for (uint32_t i = 0; i < f->n_instrs; i++) {
                if (!reads_index(&f->instrs[i]))
                        continue;
                replace(run, f, i, names);
                any = true;
        }
        if (!any)
                return false;
        for (int i = 0; i < _NAMES; i++)
                bindings[i] = (struct ds_ptx_binding){keys[i], names[i]};
        ds_ptx_edit_top(run->edit, f, top_text, bindings, _NAMES);
        ds_ptx_pass_done(run, f);
        return true;
}

int ds_ptx_pass_block_order(struct ds_ptx_pass_run *run)
{
        const struct ds_ptx_module *m = run->module;
        uint32_t elsewhere = used_elsewhere(m);
        char names[_NAMES][DS_PTX_NAME_MAX], variable[DS_PTX_NAME_MAX + 80];
        bool any = false;

        for (int i = 0; i < _NAMES; i++)
                ds_ptx_edit_fresh(run->edit, stems[i], names[i]);
        for (uint32_t i = 0; i < m->n_functions; i++) {
                const struct ds_ptx_function *f = m->functions[i];

                if (f->is_entry && ds_ptx_pass_wants(run, f) && can(run, f, elsewhere))
                        any |= order_kernel(run, f, names);
        }
        snprintf(variable, sizeof(variable), ".visible .global .align 8 .u64 %s;", names[VAR]);
        if (any)
                ds_ptx_edit_prologue(run->edit, variable, NULL, 0);
        return 0;
}
