/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers that an instruction reads and writes, and its possible successors
 *
 * The answers for every analysis and transformation come from the instruction's row of opcodes.def: no opcode has
 * special code if the table describes it. Where the table says "anything", a register counts as read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ptx/ir.h"

enum ds_ptx_use {
        DS_PTX_USE_READ = 1 << 0,
        DS_PTX_USE_WRITE = 1 << 1,
        DS_PTX_USE_GUARD = 1 << 2, /* the register is the predicate of @p; READ is set, too */
        DS_PTX_USE_PART = 1 << 3,  /* the register is written in part: the rest of its old value is kept or read */
};

/* Called for each register operand of an instruction, in the order of the text, the guard first. It may change reg. */
typedef void (*ds_ptx_use_fn)(void *user, uint32_t *reg, unsigned use);
void ds_ptx_each_register(struct ds_ptx_instr *instr, ds_ptx_use_fn fn, void *user);

/* Role letter of operand `index` in the instruction's row (opcodes.def): 'd', 's', 'm', 'l', 't', 'c', 'x'; 0 past
 * the end */
char ds_ptx_operand_role(const struct ds_ptx_instr *instr, uint32_t index);

/* Whether execution may continue with the instruction behind this one. */
bool ds_ptx_falls_through(const struct ds_ptx_instr *instr);
/* Finds the labels to which the instruction may jump. Returns their number; *ret_labels is valid as long as the
 * module. */
uint32_t ds_ptx_jumps(
        const struct ds_ptx_function *function, const struct ds_ptx_instr *instr, const uint32_t **ret_labels);
