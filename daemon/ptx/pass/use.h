/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which registers an instruction reads and writes, and where it may go
 *
 * What every analysis and transformation asks of an instruction, answered from its row of opcodes.def: nothing here
 * knows an opcode that the table describes. Where the table says "anything", a register counts as read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ptx/ir.h"

enum ds_ptx_use {
        DS_PTX_USE_READ = 1 << 0,
        DS_PTX_USE_WRITE = 1 << 1,
        DS_PTX_USE_GUARD = 1 << 2, /* the predicate of @p; read as well */
        DS_PTX_USE_PART = 1 << 3,  /* written in part: what was there is kept or read */
};

/* reg may be changed. Called for each place that names a register, in the order of the text, the guard first. */
typedef void (*ds_ptx_use_fn)(void *user, uint32_t *reg, unsigned use);
void ds_ptx_each_register(struct ds_ptx_instr *instr, ds_ptx_use_fn fn, void *user);

/* The role of operand `index` in its row: 'd', 's', 'm', 'l', 't', 'c', 'x'; 0 past the end */
char ds_ptx_operand_role(const struct ds_ptx_instr *instr, uint32_t index);

/* The instruction after it may be executed next. */
bool ds_ptx_falls_through(const struct ds_ptx_instr *instr);
/* The instructions that it may jump to: labels of the function. Returns how many; *ret is good while the module is. */
uint32_t ds_ptx_jumps(
        const struct ds_ptx_function *function, const struct ds_ptx_instr *instr, const uint32_t **ret_labels);
