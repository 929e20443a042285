/* SPDX-License-Identifier: Apache-2.0 */
#include "util/arena.h"

#include <assert.h>
#include <string.h>

#include "util/alloc.h"
#include "util/macro.h"

#define ARENA_BLOCK ((size_t)64 << 10)
#define ARENA_ALIGN ((size_t)16)

struct arena_block {
        struct arena_block *next;
        size_t size;
        size_t used;
        _Alignas(16) char data[];
};

struct ds_arena {
        struct arena_block *head;
        size_t limit;
        size_t used; /* bytes allocated from the heap */
};

ds_arena *ds_arena_new(size_t limit)
{
        ds_arena *arena = ds_alloc0(1, sizeof(*arena));

        if (arena)
                arena->limit = limit;
        return arena;
}

ds_arena *ds_arena_free(ds_arena *arena)
{
        if (!arena)
                return NULL;
        while (arena->head) {
                struct arena_block *next = arena->head->next;

                ds_free(arena->head);
                arena->head = next;
        }
        return ds_free(arena);
}

static struct arena_block *arena_add_block(ds_arena *arena, size_t need)
{
        size_t size = DS_MAX(need, ARENA_BLOCK);
        struct arena_block *block;

        if (size > arena->limit || arena->used > arena->limit - size)
                return NULL;
        block = ds_alloc(sizeof(*block) + size);
        if (!block)
                return NULL;
        *block = (struct arena_block){.next = arena->head, .size = size};
        arena->head = block;
        arena->used += size;
        return block;
}

void *ds_arena_alloc(ds_arena *arena, size_t n, size_t size)
{
        struct arena_block *block = arena->head;
        size_t bytes;
        void *p;

        if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX - ARENA_ALIGN)
                return NULL;
        bytes = DS_ALIGN_UP(bytes ? bytes : 1, ARENA_ALIGN);
        if (!block || block->size - block->used < bytes)
                block = arena_add_block(arena, bytes);
        if (!block)
                return NULL;
        p = block->data + block->used;
        block->used += bytes;
        assert(block->used <= block->size);
        return memset(p, 0, bytes);
}

char *ds_arena_strndup(ds_arena *arena, const char *s, size_t n)
{
        char *copy = ds_arena_alloc(arena, n + 1, 1);

        if (copy)
                memcpy(copy, s, n);
        return copy;
}

void *ds_arena_grow(ds_arena *arena, void *array, size_t count, size_t *capacity, size_t size)
{
        size_t wanted;
        void *grown;

        assert(count <= *capacity);
        if (count < *capacity)
                return array;
        wanted = *capacity ? *capacity * 2 : 8;
        grown = ds_arena_alloc(arena, wanted, size);
        if (!grown)
                return NULL;
        if (count)
                memcpy(grown, array, count * size);
        *capacity = wanted;
        return grown;
}
