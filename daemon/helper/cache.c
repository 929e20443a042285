/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/cache.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <xxhash.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/seed.h"

/* A result larger than max_bytes / LARGE_PART is not cached, because it would evict most other rows. */
#define LARGE_PART 4

struct row {
        TAILQ_ENTRY(row) link;
        uint64_t hash, compiler;
        char options[DS_CACHE_OPTIONS_MAX];
        size_t length, size;
        uint8_t bytes[]; /* the text, followed by the compiler's output */
};

TAILQ_HEAD(row_list, row);

struct ds_cache {
        struct row_list rows; /* all rows, most recently used first */
        size_t max_bytes, bytes;
        uint64_t seed; /* random seed of the hash, so that nobody can construct collisions */
};

int ds_cache_new(size_t max_bytes, ds_cache **ret)
{
        ds_cache *cache = ds_alloc0(1, sizeof(*cache));

        if (!cache)
                return ds_error_origin(-ENOMEM);
        TAILQ_INIT(&cache->rows);
        cache->max_bytes = max_bytes;
        cache->seed = ds_hash_seed(cache);
        *ret = cache;
        return 0;
}

static size_t row_bytes(size_t length, size_t size)
{
        return sizeof(struct row) + length + size;
}

static void row_drop(ds_cache *cache, struct row *row)
{
        size_t bytes = row_bytes(row->length, row->size);

        assert(cache->bytes >= bytes);
        cache->bytes -= bytes;
        TAILQ_REMOVE(&cache->rows, row, link);
        ds_free(row);
}

ds_cache *ds_cache_free(ds_cache *cache)
{
        if (!cache)
                return NULL;
        while (!TAILQ_EMPTY(&cache->rows))
                row_drop(cache, TAILQ_FIRST(&cache->rows));
        assert(!cache->bytes);
        return ds_free(cache);
}

static struct row *row_find(ds_cache *cache, const struct ds_cache_key *key, uint64_t hash)
{
        struct row *row;

        TAILQ_FOREACH(row, &cache->rows, link)
        if (row->hash == hash && row->length == key->length && row->compiler == key->compiler &&
                !strcmp(row->options, key->options) && !memcmp(row->bytes, key->text, key->length))
                return row;
        return NULL;
}

int ds_cache_find(ds_cache *cache, const struct ds_cache_key *key, const void **ret_bytes, size_t *ret_size)
{
        struct row *row = row_find(cache, key, XXH3_64bits_withSeed(key->text, key->length, cache->seed));

        if (!row)
                return 0;
        TAILQ_REMOVE(&cache->rows, row, link);
        TAILQ_INSERT_HEAD(&cache->rows, row, link);
        *ret_bytes = row->bytes + row->length;
        *ret_size = row->size;
        return 1;
}

void ds_cache_add(ds_cache *cache, const struct ds_cache_key *key, const void *bytes, size_t size)
{
        uint64_t hash = XXH3_64bits_withSeed(key->text, key->length, cache->seed);
        size_t all = row_bytes(key->length, size);
        struct row *row;

        assert(strlen(key->options) < sizeof(row->options));
        if (all > cache->max_bytes / LARGE_PART || row_find(cache, key, hash))
                return;
        while (cache->bytes > cache->max_bytes - all)
                row_drop(cache, TAILQ_LAST(&cache->rows, row_list));
        row = ds_alloc(all);
        if (!row)
                return;
        row->hash = hash;
        row->compiler = key->compiler;
        snprintf(row->options, sizeof(row->options), "%s", key->options);
        row->length = key->length;
        row->size = size;
        memcpy(row->bytes, key->text, key->length);
        memcpy(row->bytes + key->length, bytes, size);
        TAILQ_INSERT_HEAD(&cache->rows, row, link);
        cache->bytes += all;
}

size_t ds_cache_bytes(const ds_cache *cache)
{
        return cache->bytes;
}
