/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cells of handles (see object.h for the reasons)
 *
 * 256 MiB of addresses are reserved, for a million objects; memory is used when cells are first touched. The cell that
 * was freed first is reused first, so that a stale handle stays detectable as long as possible.
 */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#include "cuda/context.h"
#include "cuda/object.h"

#define CELLS_BYTES ((uintptr_t)256 << 20)

uintptr_t dcu_cells;
_Atomic uintptr_t dcu_cells_used;

static struct dcu_object *free_first, *free_last;

int dcu_objects_start(void)
{
        void *p;

        if (dcu_cells)
                return 1;
        p = mmap(NULL, CELLS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
                return 0;
        dcu_cells = (uintptr_t)p; /* the range begins at a page, so each cell is aligned to its size */
        return 1;
}

static struct dcu_object *take_cell(void)
{
        struct dcu_object *object = free_first;
        uintptr_t used = atomic_load_explicit(&dcu_cells_used, memory_order_relaxed);

        if (object) {
                free_first = object->next;
                if (!free_first)
                        free_last = NULL;
                return object;
        }
        if (used == CELLS_BYTES)
                return NULL;
        atomic_store_explicit(&dcu_cells_used, used + DCU_CELL_BYTES, memory_order_release);
        return (struct dcu_object *)(dcu_cells + used);
}

void *dcu_object_new(enum dcu_kind kind, size_t size, struct dcu_context *owner)
{
        struct dcu_object *object = take_cell();
        uint32_t generation;

        assert(size <= DCU_CELL_BYTES);
        if (!object)
                return NULL;
        generation = object->generation;
        memset((char *)object + sizeof(*object), 0, size - sizeof(*object));
        object->generation = generation;
        object->owner = owner;
        object->prev = object->next = NULL;
        if (owner) {
                object->next = owner->objects;
                if (object->next)
                        object->next->prev = object;
                owner->objects = object;
        }
        atomic_store_explicit(&object->tag, (uint32_t)kind << 8 | generation, memory_order_release);
        return object;
}

void dcu_object_free(struct dcu_object *object)
{
        atomic_store_explicit(&object->tag, 0, memory_order_release);
        if (object->owner) {
                if (object->prev)
                        object->prev->next = object->next;
                else
                        object->owner->objects = object->next;
                if (object->next)
                        object->next->prev = object->prev;
        }
        object->generation = (object->generation + 1) % DCU_CELL_BYTES;
        object->owner = NULL;
        object->prev = object->next = NULL;
        if (free_last)
                free_last->next = object;
        else
                free_first = object;
        free_last = object;
}
