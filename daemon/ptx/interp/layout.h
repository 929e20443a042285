/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of a module's variables (layout.c) and of its kernels (kernel.c)
 */
#pragma once

#include "ptx/interp/core.h"

#define DS_INTERP_MAX_GLOBALS (UINT64_C(1) << 32) /* most bytes of a module's variables in one space */
/* alignment of an area's begin, as the driver aligns variables, bytes */
#define DS_IX_AREA_ALIGN 256u

/* Assigns the offsets of the module's variables. Returns 0, -ENOMEM, or DS_INTERP_E_UNSUPPORTED with diagnostics. */
int ds_ix_layout_module(ds_interp *interp, struct ds_ptx_diags *diags);
/* Allocates memory for the variables, once all offsets are known: 0 or -ENOMEM */
int ds_ix_make_areas(ds_interp *interp);
void ds_ix_initialise_areas(ds_interp *interp);
/* Makes the module's kernels with their properties: shared memory, stack, registers. Returns as ds_ix_layout_module. */
int ds_ix_make_kernels(ds_interp *interp, struct ds_ptx_diags *diags);
