/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printer internals: variables and parameters (print_var.c) for print.c, and the hooks of editing (pass/edit.c)
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "ptx/ir.h"

/* Prints a declaration with its initial value, without the semicolon. */
void ds_ptx_print_var(FILE *out, const struct ds_ptx_var *var);
/* Prints a parameter list: (.param .u32 a, ...) */
void ds_ptx_print_params(FILE *out, struct ds_ptx_var *const *params, uint32_t n);
/* Prints a parameter list with one more parameter at the end, given as text; NULL: none */
void ds_ptx_print_params_and(FILE *out, struct ds_ptx_var *const *params, uint32_t n, const char *more);
/* Prints guard, instruction, semicolon and line break */
void ds_ptx_print_instr(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_instr *instr);
/* Prints a declaration, a label or a brace, with its line break */
void ds_ptx_print_item(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_item *item);
void ds_ptx_print_operand(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_operand *operand);

/* Hooks of a caller that prints a module with changes; any may be NULL. A hook that returns true has printed the
 * item itself. */
struct ds_ptx_print_hooks {
        void *user;
        const char *target; /* operand of .target; NULL: unchanged */
        bool (*directive)(void *user, FILE *out, uint32_t index);
        /* returns the text of one more parameter, or NULL */
        const char *(*params)(void *user, const struct ds_ptx_function *f);
        void (*top)(void *user, FILE *out, const struct ds_ptx_function *f);
        bool (*item)(void *user, FILE *out, const struct ds_ptx_function *f, uint32_t index);
        /* called for each instruction, and once at the end with index n_instrs */
        bool (*instr)(void *user, FILE *out, const struct ds_ptx_function *f, uint32_t index);
        void (*end)(void *user, FILE *out);
};
int ds_ptx_print_with(const ds_ptx_module *module, const struct ds_ptx_print_hooks *hooks, FILE *out);
/* Prints one function, or its declaration if it has no body, with an empty line before it */
void ds_ptx_print_function(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_print_hooks *hooks);

/* Word of a linkage with a blank behind it, such as ".visible "; "": no word */
const char *ds_ptx_linkage_text(enum ds_ptx_linkage linkage);
