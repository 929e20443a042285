/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Editing a module: notes of additions, removals and replacements, and the resulting module
 *
 * The IR of a parsed module is resolved: registers, labels and instructions refer to each other by index. So edits do
 * not change it. An edit is noted as PTX text at a place of the module, and ds_ptx_edit_apply prints the module with
 * all notes and parses the result. So the same front end checks a pass's output as any other input: names have their
 * meaning at that place (scopes, shadowing), every operand is checked, and labels and items are in valid places. A pass
 * that writes nonsense gets diagnostics instead of a broken module. The price is a print and a parse per round of
 * edits, some milliseconds for a large module.
 *
 * Places are those of the edited module, whatever else was noted: nothing shifts. At one place texts come in the order
 * of the notes. Text is a template: #NAME is replaced by the binding of that name, all else stays (without bindings,
 * everything). A snippet that needs registers of its own declares them between braces; names that must last longer come
 * from ds_ptx_edit_fresh.
 *
 * The first failure (no memory, limit exceeded) is kept and returned by apply; calls after it do nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ptx/ir.h"

typedef struct ds_ptx_edit ds_ptx_edit;

/* Replacement of #name in a template */
struct ds_ptx_binding {
        const char *name, *text;
};

#define DS_PTX_NAME_MAX 64 /* bytes of a name made by ds_ptx_edit_fresh, including its NUL */

/* Begins an edit of a module, which must outlive the edit, unchanged. limit: most bytes of notes, 0 for 64 MiB. */
ds_ptx_edit *ds_ptx_edit_new(const struct ds_ptx_module *module, size_t limit);
ds_ptx_edit *ds_ptx_edit_free(ds_ptx_edit *edit);

/*
 * Edits at an instruction of the function (index `at`, or n_instrs for the end of the body). n: number of bindings, at
 * most 32.
 *
 * before   adds text in front of the instruction, also executed after a jump to it
 * after    adds text behind it, executed when it does not jump: no jump can go there
 * replace  puts text in its place
 * remove   removes it; labels before it move to the next instruction
 */
void ds_ptx_edit_before(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at, const char *text,
        const struct ds_ptx_binding *bindings, size_t n);
void ds_ptx_edit_after(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at, const char *text,
        const struct ds_ptx_binding *bindings, size_t n);
void ds_ptx_edit_replace(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at, const char *text,
        const struct ds_ptx_binding *bindings, size_t n);
void ds_ptx_edit_remove(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at);
/* Adds text at the beginning of the body: declarations, and code that every thread runs first. */
void ds_ptx_edit_top(ds_ptx_edit *edit, const struct ds_ptx_function *function, const char *text,
        const struct ds_ptx_binding *bindings, size_t n);
/* Adds a parameter behind the others, such as ".param .u64 NAME". */
void ds_ptx_edit_parameter(ds_ptx_edit *edit, const struct ds_ptx_function *function, const char *text,
        const struct ds_ptx_binding *bindings, size_t n);
/* Replaces the operands of the directive .target. */
void ds_ptx_edit_target(ds_ptx_edit *edit, const char *text);
/*
 * Adds a function behind the last directive: a copy of `function` under another name (from ds_ptx_edit_fresh, or known
 * to be free). It can have edits of its own, like a function of the module. It is declared before the first directive
 * unless it is an entry; .loc is removed from it. NULL after a failure.
 */
const struct ds_ptx_function *ds_ptx_edit_clone(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, const char *name);
/* Replace or remove an item of a function (a declaration, a label, .loc), or remove a directive of the module. */
void ds_ptx_edit_replace_item(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t item, const char *text);
void ds_ptx_edit_remove_item(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t item);
void ds_ptx_edit_remove_directive(ds_ptx_edit *edit, uint32_t directive);
/* prologue: adds variables and declarations before the first directive. epilogue: adds functions behind the last
 * one. */
void ds_ptx_edit_prologue(ds_ptx_edit *edit, const char *text, const struct ds_ptx_binding *bindings, size_t n);
void ds_ptx_edit_epilogue(ds_ptx_edit *edit, const char *text, const struct ds_ptx_binding *bindings, size_t n);

/*
 * Makes a name that neither the module nor this edit has: stem, with a number if necessary. Returns buffer, which is
 * empty after a failure.
 */
const char *ds_ptx_edit_fresh(ds_ptx_edit *edit, const char *stem, char buffer[DS_PTX_NAME_MAX]);
/* Text of an operand or a register, for use in bindings. It lives as long as the edit; "" after a failure. */
const char *ds_ptx_edit_operand(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, const struct ds_ptx_operand *operand);
const char *ds_ptx_edit_register(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t reg);
/* Text of an instruction's guard with a blank, such as "@%p1 "; "": no guard. */
const char *ds_ptx_edit_guard(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, const struct ds_ptx_instr *instr);

/* Records that the caller had no memory for a text: apply then returns -ENOMEM. */
void ds_ptx_edit_fail(ds_ptx_edit *edit);
/* True if nothing was noted. */
bool ds_ptx_edit_is_empty(const ds_ptx_edit *edit);
/*
 * Makes the edited module, with an arena of its own of at most limit bytes. Returns 0, -ENOMEM, or DS_PTX_E_INVALID
 * with diagnostics that quote the generated text: then the edit is wrong.
 */
int ds_ptx_edit_apply(ds_ptx_edit *edit, size_t limit, struct ds_ptx_diags *diags, struct ds_ptx_module **ret);

static inline void ds_ptx_edit_freep(ds_ptx_edit **p)
{
        *p = ds_ptx_edit_free(*p);
}
