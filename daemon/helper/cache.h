/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache of compiled code in memory
 *
 * A program that restarts brings the same PTX each time. The compiler's output is cached here, within a limit of bytes;
 * the least recently used rows are evicted. All rows belong to the one user whom this process serves. A hit requires
 * equal text, not only an equal hash: two programs of one user may come from people who do not trust each other.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_cache ds_cache;

#define DS_CACHE_OPTIONS_MAX 64

struct ds_cache_key {
        const char *text;
        size_t length;
        const char *options; /* options of the compiler, shorter than DS_CACHE_OPTIONS_MAX */
        uint64_t compiler;
};

int ds_cache_new(size_t max_bytes, ds_cache **ret);
ds_cache *ds_cache_free(ds_cache *cache);
/* Finds the output for this key. Returns 1 and the bytes, which are valid until the next call on the cache; else 0. */
int ds_cache_find(ds_cache *cache, const struct ds_cache_key *key, const void **ret_bytes, size_t *ret_size);
/* Stores copies of key and bytes. Does nothing if the result is large or there is no memory for it. */
void ds_cache_add(ds_cache *cache, const struct ds_cache_key *key, const void *bytes, size_t size);
size_t ds_cache_bytes(const ds_cache *cache);

static inline void ds_cache_freep(ds_cache **p)
{
        *p = ds_cache_free(*p);
}
