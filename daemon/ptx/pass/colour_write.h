/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The translation of a coloured kernel's accesses, as text (colour.h has the arithmetic)
 *
 * Each access gets a few instructions before it and an address of its own; nothing else of the kernel changes. They
 * use registers that are declared once and written right before they are read, so that none of them is alive between
 * two accesses. What they compute is unconditional, but for reading the table: where the access has a guard, or copies
 * nothing, its address may be anything, and so may the place in the table.
 */
#pragma once

#include "ptx/pass/colour.h"
#include "ptx/pass/colour_trace.h"
#include "ptx/pass/edit.h"

/* Note the edits in `to`: the kernel that was traced, without a reason against it, or a copy of it. */
void ds_ptx_colour_write(ds_ptx_edit *edit, const struct ds_ptx_colour_trace *trace, const struct ds_ptx_function *to,
        const struct ds_ptx_colour_layout *layout);
