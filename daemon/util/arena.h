/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arena: many small objects, one owner, one free
 *
 * Used where a whole structure dies at once (a PTX module). Every arena has a byte limit, because what fills it is a
 * client's input: past the limit ds_arena_alloc returns NULL, as it does when memory is short.
 */
#pragma once

#include <stddef.h>

typedef struct ds_arena ds_arena;

/* limit: bytes the arena may take from the heap. NULL when out of memory. */
ds_arena *ds_arena_new(size_t limit);
/* Frees the arena and all it gave out; NULL is fine; returns NULL. */
ds_arena *ds_arena_free(ds_arena *arena);
/* Zeroed, aligned to 16 bytes; NULL past the limit. */
void *ds_arena_alloc(ds_arena *arena, size_t n, size_t size);
char *ds_arena_strndup(ds_arena *arena, const char *s, size_t n);
/* Doubles an array of `count` elements when it is full; returns the array (moved or not), NULL past the limit. */
void *ds_arena_grow(ds_arena *arena, void *array, size_t count, size_t *capacity, size_t size);

static inline void ds_arena_freep(ds_arena **p)
{
        *p = ds_arena_free(*p);
}
