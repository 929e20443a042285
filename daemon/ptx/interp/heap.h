/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc and free of kernels
 *
 * Every instance of a module has a heap of its own of 8 MiB, the size that CUDA gives a context unless it is told
 * otherwise. What a kernel allocates stays until a kernel frees it or the module is unloaded. Memory of the heap is
 * accessed and checked like the module's variables: as one piece. What a kernel writes into it cannot hurt the
 * allocator, whose notes are elsewhere. Blocks on several threads may call at once; which addresses they get then
 * depends on who came first, as on a GPU.
 *
 * The notes are a size for every unit at which a piece begins, zero for the others. An allocation walks through the
 * pieces from where the last one ended, makes neighbours that are free one, and takes the first that is large enough.
 * The walk costs instructions.
 */
#pragma once

#include "ptx/interp/core.h"

ds_ix_heap *ds_ix_heap_new(void); /* NULL: no memory */
ds_ix_heap *ds_ix_heap_free(ds_ix_heap *heap);
/* Control operations; ext: the call */
const ds_ix_op *ds_ix_malloc(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_free(ds_ix_warp *w, const ds_ix_op *op);
