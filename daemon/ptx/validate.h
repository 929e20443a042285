/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validator: rules that the grammar cannot express
 *
 * It checks operand counts and kinds against the opcode's row, register types against instruction types, combinations
 * of modifiers, and arguments against the callee's parameters. It is about as strict as NVIDIA's assembler. So accepted
 * modules can be printed and assembled, and the interpreter meets no operand that it cannot read. It also refuses
 * instructions that the module's own .target or .version lacks. It does not check which GPU the module runs on.
 */
#pragma once

#include "ptx/ir.h"

/*
 * Validates a module as the parser returned it (names resolved, indices in range), and adds errors to diags. Converts
 * decimal constants to the width of their operand: afterwards an operand of .f32 has no 64-bit constant.
 */
void ds_ptx_validate(struct ds_ptx_module *module, struct ds_ptx_diags *diags);
