/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc and free of kernels
 *
 * Every instance of a module has a heap of its own of 8 MiB, CUDA's default for a context. An allocation stays until a
 * kernel frees it or the module is unloaded. Accesses to the heap are checked like those to the module's variables: as
 * one piece. A kernel's writes into it cannot damage the allocator, whose records are elsewhere. Blocks on several
 * threads may call at once; their addresses then depend on the order of the calls, as on a GPU.
 *
 * The records are one size per unit at which a piece begins, zero for the others. An allocation walks through the
 * pieces from where the last one ended, merges adjacent free ones, and takes the first that is large enough. The walk
 * costs instructions.
 */
#pragma once

#include "ptx/interp/core.h"

ds_ix_heap *ds_ix_heap_new(void); /* makes a heap; NULL: out of memory */
ds_ix_heap *ds_ix_heap_free(ds_ix_heap *heap);
/* Handlers of calls of malloc and free, control operations; op's ext: the ds_ix_call. */
const ds_ix_op *ds_ix_malloc(ds_ix_warp *w, const ds_ix_op *op);
const ds_ix_op *ds_ix_free(ds_ix_warp *w, const ds_ix_op *op);
