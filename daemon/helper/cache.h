/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was compiled before
 *
 * A program that starts again and again brings the same PTX each time. What the compiler made of it is kept here, least
 * recently used out first, under a limit of bytes. All of it is of one user, whose process this is. An answer is given
 * only for the very same text: hashes find a row, they do not decide, since two programs of one user may come from
 * people who do not trust each other.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct ds_cache ds_cache;

#define DS_CACHE_OPTIONS_MAX 64

struct ds_cache_key {
        const char *text;
        size_t length;
        const char *options; /* of the compiler, shorter than DS_CACHE_OPTIONS_MAX */
        uint64_t compiler;
};

int ds_cache_new(size_t max_bytes, ds_cache **ret);
ds_cache *ds_cache_free(ds_cache *cache);
/* 1 with the bytes, which stay the cache's until its next call; else 0. */
int ds_cache_find(ds_cache *cache, const struct ds_cache_key *key, const void **ret_bytes, size_t *ret_size);
/* Copies both. What is large, or finds no memory, is not kept. */
void ds_cache_add(ds_cache *cache, const struct ds_cache_key *key, const void *bytes, size_t size);
size_t ds_cache_bytes(const ds_cache *cache);

static inline void ds_cache_freep(ds_cache **p)
{
        *p = ds_cache_free(*p);
}
