/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printer internals: variables and parameters (print_var.c) for print.c, and what editing (pass/edit.c) hooks into
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "ptx/ir.h"

/* A declaration with its value, without the semicolon */
void ds_ptx_print_var(FILE *out, const struct ds_ptx_var *var);
/* (.param .u32 a, ...) */
void ds_ptx_print_params(FILE *out, struct ds_ptx_var *const *params, uint32_t n);
/* The same with one more at the end, written out; NULL: none */
void ds_ptx_print_params_and(FILE *out, struct ds_ptx_var *const *params, uint32_t n, const char *more);
/* With its guard, semicolon and line break */
void ds_ptx_print_instr(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_instr *instr);
/* A declaration, a label, a brace, with its line break */
void ds_ptx_print_item(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_item *item);
void ds_ptx_print_operand(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_operand *operand);

/* Who wants a module printed that differs from the IR; any may be NULL. Those that return bool: true = this is done. */
struct ds_ptx_print_hooks {
        void *user;
        const char *target; /* what stands behind .target, NULL: as it is */
        bool (*directive)(void *user, FILE *out, uint32_t index);
        const char *(*params)(void *user, const struct ds_ptx_function *f); /* one more parameter, or NULL */
        void (*top)(void *user, FILE *out, const struct ds_ptx_function *f);
        bool (*item)(void *user, FILE *out, const struct ds_ptx_function *f, uint32_t index);
        bool (*instr)(void *user, FILE *out, const struct ds_ptx_function *f, uint32_t index); /* also at the end */
        void (*end)(void *user, FILE *out);
};
int ds_ptx_print_with(const ds_ptx_module *module, const struct ds_ptx_print_hooks *hooks, FILE *out);
/* One function, or its declaration where it has no body, with an empty line before it */
void ds_ptx_print_function(FILE *out, const struct ds_ptx_function *f, const struct ds_ptx_print_hooks *hooks);

/* ".visible " with its blank, or "" */
const char *ds_ptx_linkage_text(enum ds_ptx_linkage linkage);
