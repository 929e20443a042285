/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/pass/form.h"
#include "ptx/print.h"
#include "util/error.h"
#include "util/macro.h"

#define ROUNDS 64 /* most passes from callees to callers; beyond that all functions count as reading the block index */

const struct ds_ptx_function *ds_ptx_form_called(const struct ds_ptx_instr *instr)
{
        const struct ds_ptx_function *f = instr->op == DS_PTX_OP_CALL ? instr->operands[0].call->function : NULL;

        return f && f->definition ? f->definition : f;
}

static bool is_index(const struct ds_ptx_operand *o)
{
        return o->kind == DS_PTX_OPERAND_SREG && o->component < 3 &&
               (o->sreg == DS_PTX_SREG_CTAID || o->sreg == DS_PTX_SREG_CLUSTERID);
}

static bool is_grid(const struct ds_ptx_operand *o)
{
        return o->kind == DS_PTX_OPERAND_SREG && o->component < 3 &&
               (o->sreg == DS_PTX_SREG_NCTAID || o->sreg == DS_PTX_SREG_NCLUSTERID);
}

bool ds_ptx_form_asks(const struct ds_ptx_instr *instr)
{
        for (uint32_t i = 0; i < instr->n_operands; i++)
                if (is_index(&instr->operands[i]) || is_grid(&instr->operands[i]))
                        return true;
        return false;
}

bool ds_ptx_form_reads_index(const struct ds_ptx_function *function, uint32_t first)
{
        for (uint32_t i = first; i < function->n_instrs; i++)
                for (uint32_t k = 0; k < function->instrs[i].n_operands; k++)
                        if (is_index(&function->instrs[i].operands[k]))
                                return true;
        return false;
}

/* --- functions that read the index or the grid --- */

static bool hand_on(struct ds_ptx_form_run *run)
{
        bool changed = false;

        for (uint32_t i = 0; i < run->module->n_functions; i++) {
                const struct ds_ptx_function *f = run->module->functions[i];

                for (uint32_t k = 0; k < f->n_instrs && !run->asks[i]; k++) {
                        const struct ds_ptx_function *called = ds_ptx_form_called(&f->instrs[k]);

                        if (called && run->asks[called->index]) {
                                run->asks[i] = 1;
                                changed = true;
                        }
                }
        }
        return changed;
}

/* Makes a fresh name, unless there is no edit (verdicts only). */
static void fresh(struct ds_ptx_form_run *run, const char *stem, char name[DS_PTX_NAME_MAX])
{
        name[0] = '\0';
        if (run->edit)
                ds_ptx_edit_fresh(run->edit, stem, name);
}

int ds_ptx_form_begin(struct ds_ptx_form_run *run, const struct ds_ptx_module *module, const struct ds_ptx_facts *facts,
        ds_ptx_edit *edit, ds_arena *arena)
{
        uint32_t round = 0;

        *run = (struct ds_ptx_form_run){.module = module, .facts = facts, .edit = edit, .arena = arena};
        run->asks = ds_arena_alloc(arena, (size_t)module->n_functions + 1, 1);
        run->copy_done = ds_arena_alloc(arena, (size_t)module->n_functions + 1, 1);
        run->copy = ds_arena_alloc(arena, (size_t)module->n_functions + 1, sizeof(struct ds_ptx_function *));
        run->reached = ds_arena_alloc(arena, (size_t)module->n_functions + 1, 1);
        run->list = ds_arena_alloc(arena, (size_t)module->n_functions + 1, sizeof(*run->list));
        if (!run->asks || !run->copy || !run->copy_done || !run->reached || !run->list)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < module->n_functions; i++) {
                const struct ds_ptx_function *f = module->functions[i];

                for (uint32_t k = 0; k < f->n_instrs && !run->asks[i]; k++)
                        run->asks[i] = ds_ptx_form_asks(&f->instrs[k]);
        }
        fresh(run, "%ds_w", run->wide);
        while (hand_on(run) && round < ROUNDS)
                round++;
        if (round == ROUNDS)
                for (uint32_t i = 0; i < module->n_functions; i++)
                        run->asks[i] = module->functions[i]->has_body;
        return 0;
}

const char *ds_ptx_form_board(struct ds_ptx_form_run *run)
{
        char text[DS_PTX_NAME_MAX + 60];

        if (!run->has_board) {
                ds_ptx_edit_fresh(run->edit, "ds_board", run->board);
                snprintf(text, sizeof(text), ".shared .align 16 .b8 %s[%d];", run->board, DS_PTX_BOARD_BYTES);
                ds_ptx_edit_prologue(run->edit, text, NULL, 0);
        }
        run->has_board = true;
        return run->board;
}

void ds_ptx_form_align(struct ds_ptx_form_run *run)
{
        char name[DS_PTX_NAME_MAX], text[DS_PTX_NAME_MAX + 60];

        if (!run->aligned) {
                ds_ptx_edit_fresh(run->edit, "ds_aligned", name);
                snprintf(text, sizeof(text), ".extern .shared .align %d .b8 %s[];", DS_PTX_SHARED_ALIGN, name);
                ds_ptx_edit_prologue(run->edit, text, NULL, 0);
        }
        run->aligned = true;
}

void ds_ptx_form_parameter(struct ds_ptx_form_run *run, const struct ds_ptx_function *to, char name[DS_PTX_NAME_MAX])
{
        char text[DS_PTX_NAME_MAX + 60];

        ds_ptx_edit_fresh(run->edit, "ds_virtual", name);
        snprintf(text, sizeof(text), ".param .align 8 .b8 %s[%zu]", name, sizeof(struct ds_ptx_virtual));
        ds_ptx_edit_parameter(run->edit, to, text, NULL, 0);
}

/* --- replacing reads --- */

/* Replaces a `mov` that reads the block index or the grid size, the only instruction that can: by a mov from
 * register `reg`, or by a load from memory. */
static void replace(struct ds_ptx_form_run *run, const struct ds_ptx_function *to, uint32_t at, const char *space,
        const char *base, uint32_t offset, const char *reg)
{
        const struct ds_ptx_instr *instr = &to->instrs[at];
        char address[DS_PTX_NAME_MAX + 16];
        const struct ds_ptx_binding bindings[] = {{"guard", ds_ptx_edit_guard(run->edit, to, instr)},
                {"dest", ds_ptx_edit_operand(run->edit, to, &instr->operands[0])}, {"space", space},
                {"address", address}, {"reg", reg ? reg : ""}, {"wide", run->wide}};
        static const char *const texts[2][2] = {
                {"\t{ .reg .b32 #wide; #guard ld.#space.u32 #wide, [#address]; #guard cvt.u16.u32 #dest, #wide; }",
                        "\t#guard ld.#space.u32 #dest, [#address];"},
                {"\t#guard cvt.u16.u32 #dest, #reg;", "\t#guard mov.u32 #dest, #reg;"}};
        uint32_t bits = ds_ptx_type_bits((enum ds_ptx_type)instr->types[0]);

        snprintf(address, sizeof(address), "%s+%u", base, offset);
        ds_ptx_edit_replace(run->edit, to, at,
                texts[reg != NULL][bits == 16   ? 0
                                   : bits == 32 ? 1
                                                : 2],
                bindings, DS_ARRAY_SIZE(bindings));
}

/* Replaces a call of a function by a call of the function's copy. */
static void replace_call(
        struct ds_ptx_form_run *run, const struct ds_ptx_function *to, uint32_t at, const struct ds_ptx_function *copy)
{
        struct ds_ptx_instr instr = to->instrs[at];
        struct ds_ptx_operand operand = instr.operands[0];
        struct ds_ptx_call call = *operand.call;
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);

        call.function = copy;
        operand.call = &call;
        instr.operands = &operand;
        if (out)
                ds_ptx_print_instr(out, to, &instr);
        if (out && !fclose(out))
                ds_ptx_edit_replace(run->edit, to, at, text, NULL, 0);
        else
                ds_ptx_edit_fail(run->edit);
        free(text);
}

/* The copy of a function that reads the board; made at the first call of it. */
static const struct ds_ptx_function *copy_of(struct ds_ptx_form_run *run, const struct ds_ptx_function *function)
{
        char name[DS_PTX_NAME_MAX];

        if (!run->copy[function->index]) {
                ds_ptx_edit_fresh(run->edit, "ds_virtual_function", name);
                run->copy[function->index] = ds_ptx_edit_clone(run->edit, function, name);
                run->copied = true;
        }
        return run->copy[function->index];
}

static void replace_calls(struct ds_ptx_form_run *run, const struct ds_ptx_function *to)
{
        for (uint32_t i = 0; i < to->n_instrs; i++) {
                const struct ds_ptx_function *called = ds_ptx_form_called(&to->instrs[i]), *copy;

                if (!called || !called->has_body || !run->asks[called->index])
                        continue;
                copy = copy_of(run, called);
                if (copy)
                        replace_call(run, to, i, copy);
        }
}

static void in_function(struct ds_ptx_form_run *run, const struct ds_ptx_function *to)
{
        const char *board = ds_ptx_form_board(run);

        for (uint32_t i = 0; i < to->n_instrs; i++) {
                const struct ds_ptx_instr *instr = &to->instrs[i];

                if (ds_ptx_form_asks(instr))
                        replace(run, to, i, "shared", board,
                                (is_grid(&instr->operands[1]) ? DS_PTX_BOARD_GRID : DS_PTX_BOARD_NOW) +
                                        4u * instr->operands[1].component,
                                NULL);
                if (instr->op == DS_PTX_OP_GRIDDEP_LAUNCH)
                        ds_ptx_edit_remove(run->edit, to, i);
        }
        replace_calls(run, to);
}

/* Edits all copies; that may make further copies. */
static void finish_copies(struct ds_ptx_form_run *run)
{
        while (run->copied) {
                run->copied = false;
                for (uint32_t i = 0; i < run->module->n_functions; i++)
                        if (run->copy[i] && !run->copy_done[i]) {
                                run->copy_done[i] = 1;
                                in_function(run, run->copy[i]);
                        }
        }
}

void ds_ptx_form_index(struct ds_ptx_form_run *run, const struct ds_ptx_form_plan *plan,
        const struct ds_ptx_function *to, const char *parameter, const char *const xyz[3], uint32_t leading)
{
        for (uint32_t i = 0; i < to->n_instrs; i++) {
                const struct ds_ptx_instr *instr = &to->instrs[i];
                uint32_t component = ds_ptx_form_asks(instr) ? instr->operands[1].component : 0;

                if (instr->op == DS_PTX_OP_GRIDDEP_LAUNCH)
                        ds_ptx_edit_remove(run->edit, to, i);
                if (!ds_ptx_form_asks(instr))
                        continue;
                if (is_grid(&instr->operands[1]))
                        replace(run, to, i, "param", parameter,
                                (uint32_t)offsetof(struct ds_ptx_virtual, grid) + 4 * component, NULL);
                else if (i < leading)
                        replace(run, to, i, "", "", 0, xyz[component]);
                else
                        replace(run, to, i, "shared", ds_ptx_form_board(run), DS_PTX_BOARD_NOW + 4 * component, NULL);
        }
        if (!plan->asks)
                return;
        replace_calls(run, to);
        finish_copies(run);
}
