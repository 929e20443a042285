/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arena: many small objects with one owner, freed together
 *
 * For structures that are freed as a whole (a PTX module). Every arena has a byte limit, because its contents come from
 * a client's input. Beyond the limit ds_arena_alloc() returns NULL, as it does when memory is short.
 */
#pragma once

#include <stddef.h>

typedef struct ds_arena ds_arena;

/* Creates an arena. limit: bytes that it may allocate from the heap. Returns NULL if there is no memory. */
ds_arena *ds_arena_new(size_t limit);
/* Frees the arena and all of its objects; NULL is allowed; returns NULL. */
ds_arena *ds_arena_free(ds_arena *arena);
/* Allocates zeroed memory, aligned to 16 bytes. Returns NULL beyond the limit. */
void *ds_arena_alloc(ds_arena *arena, size_t n, size_t size);
char *ds_arena_strndup(ds_arena *arena, const char *s, size_t n);
/* Doubles an array of `count` elements if it is full. Returns the array, which may have moved; NULL beyond the
 * limit. */
void *ds_arena_grow(ds_arena *arena, void *array, size_t count, size_t *capacity, size_t size);

static inline void ds_arena_freep(ds_arena **p)
{
        *p = ds_arena_free(*p);
}
