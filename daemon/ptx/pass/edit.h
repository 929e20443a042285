/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Editing a module: what to add, leave out and replace, and then the module that it gives
 *
 * The IR of a parsed module is resolved: indices of registers, labels and instructions hold each other together. So an
 * edit is not done in it. It is noted, as PTX text beside a place in the module, and ds_ptx_edit_apply prints the
 * module with all that was noted and parses the result. What a pass writes is therefore read by the one front end
 * that reads everybody's: names mean what they mean at that place (scopes, shadowing), every operand is checked,
 * labels and items stand where they must, and a pass that writes nonsense gets diagnostics instead of a module that is
 * broken. The price is a print and a parse per round of edits, some milliseconds for a large module.
 *
 * Places are those of the module that is edited, whatever else was noted: nothing shifts. At one place texts come in
 * the order in which they were noted. Text is a template: #NAME is replaced by the binding of that name, all else
 * stands as it is (without bindings, all does). A snippet that needs registers of its own declares them between braces;
 * a name that must last longer is made by ds_ptx_edit_fresh.
 *
 * The first failure (no memory, past the limit) is kept and told by apply; calls after it do nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ptx/ir.h"

typedef struct ds_ptx_edit ds_ptx_edit;

/* What #name in a template stands for */
struct ds_ptx_binding {
        const char *name, *text;
};

#define DS_PTX_NAME_MAX 64 /* bytes of a name that ds_ptx_edit_fresh makes, its NUL included */

/* The module must outlive the edit and stay as it is. limit: bytes that the notes may take, 0 for 64 MiB. */
ds_ptx_edit *ds_ptx_edit_new(const struct ds_ptx_module *module, size_t limit);
ds_ptx_edit *ds_ptx_edit_free(ds_ptx_edit *edit);

/*
 * n bindings, at most 32. `at` is an instruction of the function, n_instrs for the end of the body.
 *  before   in front of it: executed also by who jumps there
 *  after    behind it, where it goes on when it does not jump: nobody can jump there
 *  replace  in its place
 *  remove   labels that stood before it stand before what follows
 */
void ds_ptx_edit_before(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at, const char *text,
        const struct ds_ptx_binding *bindings, size_t n);
void ds_ptx_edit_after(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at, const char *text,
        const struct ds_ptx_binding *bindings, size_t n);
void ds_ptx_edit_replace(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at, const char *text,
        const struct ds_ptx_binding *bindings, size_t n);
void ds_ptx_edit_remove(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t at);
/* At the beginning of the body: declarations, and what every thread does first */
void ds_ptx_edit_top(ds_ptx_edit *edit, const struct ds_ptx_function *function, const char *text,
        const struct ds_ptx_binding *bindings, size_t n);
/* One more parameter behind the others: ".param .u64 NAME" */
void ds_ptx_edit_parameter(ds_ptx_edit *edit, const struct ds_ptx_function *function, const char *text,
        const struct ds_ptx_binding *bindings, size_t n);
/* The directive .target with other words behind it */
void ds_ptx_edit_target(ds_ptx_edit *edit, const char *text);
/*
 * One more function behind the last directive: a copy of `function` under another name (one of ds_ptx_edit_fresh's, or
 * one that is known to be free), with places for edits of its own, as good as a function of the module here. It is
 * declared before the first directive unless it is an entry; .loc is left out of it. NULL after a failure.
 */
const struct ds_ptx_function *ds_ptx_edit_clone(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, const char *name);
/* An item (a declaration, a label, .loc) is left out or replaced; a directive of the module is left out. */
void ds_ptx_edit_replace_item(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t item, const char *text);
void ds_ptx_edit_remove_item(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t item);
void ds_ptx_edit_remove_directive(ds_ptx_edit *edit, uint32_t directive);
/* Variables and declarations before the first directive, and functions behind the last one */
void ds_ptx_edit_prologue(ds_ptx_edit *edit, const char *text, const struct ds_ptx_binding *bindings, size_t n);
void ds_ptx_edit_epilogue(ds_ptx_edit *edit, const char *text, const struct ds_ptx_binding *bindings, size_t n);

/*
 * A name that neither the module nor this edit has: stem, and a number if need be. Returns buffer, which is empty after
 * a failure.
 */
const char *ds_ptx_edit_fresh(ds_ptx_edit *edit, const char *stem, char buffer[DS_PTX_NAME_MAX]);
/* An operand or a register as the text has it, for bindings; lives as long as the edit; "" after a failure. */
const char *ds_ptx_edit_operand(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, const struct ds_ptx_operand *operand);
const char *ds_ptx_edit_register(ds_ptx_edit *edit, const struct ds_ptx_function *function, uint32_t reg);
/* The guard of an instruction with its blank, "@%p1 ", or "" */
const char *ds_ptx_edit_guard(
        ds_ptx_edit *edit, const struct ds_ptx_function *function, const struct ds_ptx_instr *instr);

/* For who writes a text and has no memory for it: apply tells -ENOMEM. */
void ds_ptx_edit_fail(ds_ptx_edit *edit);
/* Nothing was noted. */
bool ds_ptx_edit_is_empty(const ds_ptx_edit *edit);
/*
 * The edited module, with an arena of its own of at most limit bytes. Returns 0, -ENOMEM, or DS_PTX_E_INVALID with
 * diagnostics that quote the text as it was written: then whoever made the edit is wrong.
 */
int ds_ptx_edit_apply(ds_ptx_edit *edit, size_t limit, struct ds_ptx_diags *diags, struct ds_ptx_module **ret);

static inline void ds_ptx_edit_freep(ds_ptx_edit **p)
{
        *p = ds_ptx_edit_free(*p);
}
