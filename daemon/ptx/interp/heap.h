/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of a module's instance: see heap.c */
#pragma once

#include "ptx/interp/core.h"

ds_ix_heap *ds_ix_heap_new(void); /* NULL: no memory */
ds_ix_heap *ds_ix_heap_free(ds_ix_heap *heap);
/* Control operations; ext: the call */
const ds_ix_op *ds_ix_malloc(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_free(ds_ix_warp *w, const ds_ix_op *op);
