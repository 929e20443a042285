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
        DS_PTX_USE_GUARD = 1 << 2, /* the predicate of @p; also READ */
        DS_PTX_USE_PART = 1 << 3,  /* written in part: the old value is kept or read */
};

/* reg may be changed. Called for each register operand, in the order of the text, the guard first. */
typedef void (*ds_ptx_use_fn)(void *user, uint32_t *reg, unsigned use);
void ds_ptx_each_register(struct ds_ptx_instr *instr, ds_ptx_use_fn fn, void *user);

/* The role of operand `index` in its row: 'd', 's', 'm', 'l', 't', 'c', 'x'; 0 past the end */
char ds_ptx_operand_role(const struct ds_ptx_instr *instr, uint32_t index);

/* Whether the instruction after it may be executed next. */
bool ds_ptx_falls_through(const struct ds_ptx_instr *instr);
/* Labels that it may jump to. Returns their number; *ret is valid as long as the module. */
uint32_t ds_ptx_jumps(
        const struct ds_ptx_function *function, const struct ds_ptx_instr *instr, const uint32_t **ret_labels);
