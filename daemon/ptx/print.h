/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printer internals: variables and parameters (print_var.c) for print.c
 */
#pragma once

#include <stdio.h>

#include "ptx/ir.h"

/* A declaration with its value, without the semicolon */
void ds_ptx_print_var(FILE *out, const struct ds_ptx_var *var);
/* (.param .u32 a, ...) */
void ds_ptx_print_params(FILE *out, struct ds_ptx_var *const *params, uint32_t n);
/* ".visible " with its blank, or "" */
const char *ds_ptx_linkage_text(enum ds_ptx_linkage linkage);
