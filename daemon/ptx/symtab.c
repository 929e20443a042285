/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/symtab.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "util/seed.h"

#define FIRST_BUCKETS 256 /* initial number of hash chains, a power of two */

/* FNV-1a with a final mix, without a random key: only for DetShare's own words, since a client could make names that
 * collide. */
uint32_t ds_ptx_hash(const char *s, size_t n)
{
        uint32_t hash = 2166136261u;

        for (size_t i = 0; i < n; i++)
                hash = (hash ^ (uint8_t)s[i]) * 16777619u;
        hash ^= hash >> 15;
        hash *= 0x85ebca6bu;
        return hash ^ hash >> 13;
}

static uint32_t hash_of(const struct ds_ptx_symtab *table, const char *name, size_t length)
{
        return (uint32_t)XXH3_64bits_withSeed(name, length, table->seed);
}

int ds_ptx_symtab_init(struct ds_ptx_symtab *table, ds_arena *arena)
{
        *table = (struct ds_ptx_symtab){.arena = arena, .n_buckets = FIRST_BUCKETS};
        table->seed = ds_hash_seed(table);
        table->buckets = ds_arena_alloc(arena, FIRST_BUCKETS, sizeof(*table->buckets));
        return table->buckets ? 0 : -ENOMEM;
}

bool ds_ptx_symtab_open(struct ds_ptx_symtab *table)
{
        if (table->depth + 1 >= sizeof(table->scopes) / sizeof(table->scopes[0]))
                return false;
        table->scopes[++table->depth] = NULL;
        return true;
}

void ds_ptx_symtab_close(struct ds_ptx_symtab *table)
{
        assert(table->depth > 0);
        for (struct ds_ptx_symbol *symbol = table->scopes[table->depth]; symbol; symbol = symbol->scope_next) {
                struct ds_ptx_symbol **link = &table->buckets[symbol->hash & (table->n_buckets - 1)];

                while (*link != symbol)
                        link = &(*link)->bucket_next;
                *link = symbol->bucket_next;
                table->n--;
        }
        table->depth--;
}

static struct ds_ptx_symbol *find(
        const struct ds_ptx_symtab *table, const char *name, size_t length, bool range, uint32_t number)
{
        uint32_t hash = hash_of(table, name, length);
        struct ds_ptx_symbol *best = NULL;

        for (struct ds_ptx_symbol *s = table->buckets[hash & (table->n_buckets - 1)]; s; s = s->bucket_next) {
                if (s->hash != hash || s->length != length || (s->kind == DS_PTX_SYMBOL_RANGE) != range ||
                        memcmp(s->name, name, length) != 0 || (range && s->reg_decl && s->reg_decl->count <= number))
                        continue;
                if (!best || s->depth > best->depth)
                        best = s;
        }
        return best;
}

struct ds_ptx_symbol *ds_ptx_symtab_find(const struct ds_ptx_symtab *table, const char *name, size_t length)
{
        return find(table, name, length, false, 0);
}

struct ds_ptx_symbol *ds_ptx_symtab_find_range(
        const struct ds_ptx_symtab *table, const char *name, size_t length, uint32_t number)
{
        return find(table, name, length, true, number);
}

static void rehash(struct ds_ptx_symtab *table)
{
        size_t n = table->n_buckets * 4;
        struct ds_ptx_symbol **buckets = ds_arena_alloc(table->arena, n, sizeof(*buckets));

        if (!buckets) /* if the table cannot grow, its chains only become longer, which is no error */
                return;
        for (size_t i = 0; i < table->n_buckets; i++) {
                for (struct ds_ptx_symbol *next, *s = table->buckets[i]; s; s = next) {
                        next = s->bucket_next;
                        s->bucket_next = buckets[s->hash & (n - 1)];
                        buckets[s->hash & (n - 1)] = s;
                }
        }
        table->buckets = buckets;
        table->n_buckets = n;
}

struct ds_ptx_symbol *ds_ptx_symtab_add(
        struct ds_ptx_symtab *table, const char *name, size_t length, enum ds_ptx_symbol_kind kind, uint32_t depth)
{
        struct ds_ptx_symbol *symbol = ds_arena_alloc(table->arena, 1, sizeof(*symbol));
        struct ds_ptx_symbol **bucket;

        assert(depth <= table->depth);
        if (!symbol)
                return NULL;
        if (table->n >= table->n_buckets)
                rehash(table);
        *symbol = (struct ds_ptx_symbol){.name = name,
                .length = (uint32_t)length,
                .hash = hash_of(table, name, length),
                .kind = kind,
                .depth = (uint8_t)depth,
                .reg = DS_PTX_NO_REG,
                .scope_next = table->scopes[depth]};
        bucket = &table->buckets[symbol->hash & (table->n_buckets - 1)];
        symbol->bucket_next = *bucket;
        *bucket = symbol;
        table->scopes[depth] = symbol;
        table->n++;
        return symbol;
}
