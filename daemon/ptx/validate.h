/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validator: what the grammar cannot say
 *
 * Operand counts and kinds against the opcode's row, register types against instruction types, combinations of
 * modifiers, arguments against the callee's parameters. It is about as strict as NVIDIA's assembler, so that what
 * passes can be printed and assembled, and the interpreter meets no operand it cannot read. An instruction that the
 * module's own .target or .version does not have is refused as well; which GPU the module runs on is not asked.
 */
#pragma once

#include "ptx/ir.h"

/*
 * Adds what is wrong to diags. The module is as the parser left it: names resolved, indices in range. Decimal constants
 * get the width of their place: afterwards an operand of .f32 has no 64-bit constant.
 */
void ds_ptx_validate(struct ds_ptx_module *module, struct ds_ptx_diags *diags);
