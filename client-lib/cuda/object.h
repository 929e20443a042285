/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: contexts, modules, libraries, functions, kernels, streams, events, graphs and related objects
 *
 * A program may pass any pointer as a handle: a stale one, one of another kind (the runtime passes a CUkernel as a
 * CUfunction), or garbage. So a handle is validated before it is dereferenced. All objects are cells of one reserved
 * address range that is never unmapped. A handle is the address of its cell with the cell's generation in the low byte;
 * it is valid if the cell's tag has that kind and generation. The check is one comparison with the range and one load,
 * without a lock. Freed cells are reused in the order of their freeing, with the next generation.
 *
 * Not detected: one thread uses a handle while another destroys it, which CUDA forbids.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define DCU_CELL_BYTES 256u

enum dcu_kind {
        DCU_CONTEXT = 1,
        DCU_MODULE,
        DCU_LIBRARY,
        DCU_FUNCTION,
        DCU_KERNEL,
        DCU_STREAM,
        DCU_EVENT,
        DCU_GRAPH,
        DCU_NODE, /* node of a graph */
        DCU_GRAPH_EXEC,
        DCU_USER_OBJECT,
        DCU_POOL,
        DCU_PHYSICAL, /* physical memory (cuMemCreate) */
        DCU_LINK,     /* state of a linker */
};

struct dcu_context;

/* First member of every object. */
struct dcu_object {
        _Atomic uint32_t tag; /* kind << 8 | generation; 0: free */
        uint32_t generation;
        struct dcu_context *owner;
        struct dcu_object *next, *prev; /* links of the owner's list, or of the list of free cells */
};

extern uintptr_t dcu_cells;              /* address of the first cell; 0 before cuInit */
extern _Atomic uintptr_t dcu_cells_used; /* size of the part of the reserved range that was used so far, bytes */

/* Reserves the address range of the cells, the memory of objects. 0: the process cannot reserve it. Later calls do
 * nothing. */
int dcu_objects_start(void);
/*
 * dcu_object_new() returns a zeroed object of `size` <= DCU_CELL_BYTES bytes, on owner's list unless owner is NULL;
 * NULL: out of memory. dcu_object_free() removes the object from the list. Both with dcu.lock held.
 */
void *dcu_object_new(enum dcu_kind kind, size_t size, struct dcu_context *owner);
void dcu_object_free(struct dcu_object *object);

static inline void *dcu_handle(const void *object)
{
        return (void *)((uintptr_t)object | ((const struct dcu_object *)object)->generation);
}

/* Returns the object of a handle; NULL if the handle is no live object of that kind. */
static inline void *dcu_object_of(const void *handle, enum dcu_kind kind)
{
        uintptr_t h = (uintptr_t)handle, generation = h & (DCU_CELL_BYTES - 1), cell = h - generation;
        struct dcu_object *object = (struct dcu_object *)cell;

        if (cell - dcu_cells >= atomic_load_explicit(&dcu_cells_used, memory_order_acquire))
                return NULL;
        if (atomic_load_explicit(&object->tag, memory_order_acquire) != ((uint32_t)kind << 8 | (uint32_t)generation))
                return NULL;
        return object;
}
