/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The translation of a coloured kernel's accesses, as text (colour.h has the arithmetic)
 *
 * Each access gets a few instructions before it and a new address; nothing else of the kernel changes. They use
 * registers that are declared once and written directly before they are read, so none of them is live between two
 * accesses. They are unconditional, except for reading the table: an access with a guard, or one that copies nothing,
 * may have any address, and so any index into the table.
 */
#pragma once

#include "ptx/pass/colour.h"
#include "ptx/pass/colour_trace.h"
#include "ptx/pass/edit.h"

/* Notes the translations in the edit. to: function to change, the traced kernel or a copy of it; the trace must have
 * no reason to refuse. */
void ds_ptx_colour_write(ds_ptx_edit *edit, const struct ds_ptx_colour_trace *trace, const struct ds_ptx_function *to,
        const struct ds_ptx_colour_layout *layout);
