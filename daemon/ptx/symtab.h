/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in scopes
 *
 * A chained hash table. Each entry has the depth of its scope; closing a scope removes its names. Lookup finds the
 * innermost. Names of register ranges (%r of %r<6>) are separate from all others, because %r<6> does not define %r.
 * Entries are in the module's arena: the table frees nothing.
 *
 * The names are a client's, so the hash has a random key: no client can write a text whose names all share one chain.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx/ir.h"
#include "util/arena.h"

enum ds_ptx_symbol_kind {
        /* a register: reg_decl, and in `reg` its (first) dense index, DS_PTX_NO_REG until an instruction uses it */
        DS_PTX_SYMBOL_REG,
        DS_PTX_SYMBOL_RANGE,
        DS_PTX_SYMBOL_VAR,
        DS_PTX_SYMBOL_FUNCTION,
        DS_PTX_SYMBOL_LABEL,
        DS_PTX_SYMBOL_TARGETS,
        DS_PTX_SYMBOL_PROTOTYPE,
};

struct ds_ptx_symbol {
        const char *name;
        uint32_t length;
        uint32_t hash;
        uint8_t kind;
        uint8_t depth;
        uint32_t reg;    /* dense index of a register */
        uint32_t number; /* number of the register in its range */
        union {
                const struct ds_ptx_reg_decl *reg_decl;
                struct ds_ptx_var *var;
                struct ds_ptx_function *function;
                const struct ds_ptx_prototype *prototype;
                uint32_t index; /* index of a label or target list */
        };
        struct ds_ptx_symbol *bucket_next;
        struct ds_ptx_symbol *scope_next;
};

struct ds_ptx_symtab {
        ds_arena *arena;
        uint64_t seed; /* random key of the hash */
        struct ds_ptx_symbol **buckets;
        size_t n_buckets;
        size_t n;
        uint32_t depth;
        struct ds_ptx_symbol *scopes[DS_PTX_MAX_SCOPES + 4];
};

/* Prepares the table, at depth 0, the module's scope. 0 or -ENOMEM. */
int ds_ptx_symtab_init(struct ds_ptx_symtab *table, ds_arena *arena);
/* Opens a scope; false: scopes nest too deeply. */
bool ds_ptx_symtab_open(struct ds_ptx_symtab *table);
void ds_ptx_symtab_close(struct ds_ptx_symtab *table);
struct ds_ptx_symbol *ds_ptx_symtab_find(const struct ds_ptx_symtab *table, const char *name, size_t length);
/* The innermost register range with this stem that has the register `number`; NULL: there is none. */
struct ds_ptx_symbol *ds_ptx_symtab_find_range(
        const struct ds_ptx_symtab *table, const char *name, size_t length, uint32_t number);
/*
 * Adds a name to the scope of `depth` (at most the current one). The name must live as long as the table. The caller
 * has checked for duplicates. NULL: out of memory.
 */
struct ds_ptx_symbol *ds_ptx_symtab_add(
        struct ds_ptx_symtab *table, const char *name, size_t length, enum ds_ptx_symbol_kind kind, uint32_t depth);
/* Hash for DetShare's own words: it has no random key. */
uint32_t ds_ptx_hash(const char *s, size_t n);
