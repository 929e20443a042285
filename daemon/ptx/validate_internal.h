/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validator internals: validate.c checks operands, validate_mods.c combinations of modifiers, validate_target.c the
 * requirements on the target
 */
#pragma once

#include "ptx/ir.h"

#define DS_PTX_VALIDATE_MAX 1000 /* most errors before validation stops */
/* most targets of a module's indirect calls and jumps; each call counts its whole list */
#define DS_PTX_TARGETS_MAX (1u << 22)

struct ds_ptx_check {
        const struct ds_ptx_module *module;
        struct ds_ptx_diags *diags;
        const struct ds_ptx_function *function;
        const struct ds_ptx_instr *instr;
        uint32_t n_optional; /* number of optional operands that the instruction has */
        uint64_t n_targets;  /* number of targets of the module's indirect calls and jumps so far */
        /* by opcode: index of its first row in validate_target.c's table, plus 1; 0: no row */
        uint16_t first_need[_DS_PTX_OP_MAX];
        bool has_rows[_DS_PTX_OP_MAX]; /* by opcode: validate_mods.c has rows for it */
};

void ds_ptx_invalid(struct ds_ptx_check *c, uint32_t line, uint32_t column, const char *fmt, ...)
        __attribute__((__format__(__printf__, 4, 5)));
void ds_ptx_check_modifiers(struct ds_ptx_check *c);
void ds_ptx_index_modifiers(struct ds_ptx_check *c);
void ds_ptx_index_needs(struct ds_ptx_check *c);
void ds_ptx_check_target(struct ds_ptx_check *c);
/* Checks that the module's .target is at least sm_<target> and its .version at least <version>; reports an error
 * otherwise. */
void ds_ptx_check_least(struct ds_ptx_check *c, uint32_t target, uint32_t version);
void ds_ptx_check_matrix(struct ds_ptx_check *c);
void ds_ptx_check_async(struct ds_ptx_check *c);
void ds_ptx_check_video(struct ds_ptx_check *c);
