/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: contexts, modules, libraries, functions, kernels, streams, events, graphs and what belongs to them
 *
 * A program may pass any pointer as a handle: a stale one, one of another kind (the runtime passes a CUkernel where the
 * prototype says CUfunction), garbage. So a handle is never followed before it is known. All objects are cells of one
 * reserved range of addresses that is never given back; a handle is the address of its cell with the cell's generation
 * in the low byte, and is valid if the cell's tag says that kind and that generation. That is one range check and one
 * load, without a lock. Cells are reused in the order they were freed, each time with the next generation.
 *
 * Not guarded against: using a handle in one thread while another destroys it, which CUDA forbids.
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
        DCU_NODE, /* of a graph */
        DCU_GRAPH_EXEC,
        DCU_USER_OBJECT,
        DCU_POOL,
        DCU_PHYSICAL, /* memory without an address */
        DCU_LINK,     /* state of the linker */
};

struct dcu_context;

/* The first member of every object. */
struct dcu_object {
        _Atomic uint32_t tag; /* kind << 8 | generation; 0: free */
        uint32_t generation;
        struct dcu_context *owner;
        struct dcu_object *next, *prev; /* the owner's list, or the free list */
};

extern uintptr_t dcu_cells;              /* first cell; 0 before cuInit */
extern _Atomic uintptr_t dcu_cells_used; /* bytes that have ever been handed out */

/* Reserve the range. 0 when the process cannot. Idempotent. */
int dcu_objects_start(void);
/*
 * A zeroed object of `size` <= DCU_CELL_BYTES bytes, on owner's list unless owner is NULL. NULL when out of memory.
 * Free takes it off the list. Both need dcu.lock to be held.
 */
void *dcu_object_new(enum dcu_kind kind, size_t size, struct dcu_context *owner);
void dcu_object_free(struct dcu_object *object);

static inline void *dcu_handle(const void *object)
{
        return (void *)((uintptr_t)object | ((const struct dcu_object *)object)->generation);
}

/* The object of a handle, NULL if it is no live one of that kind. */
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
