/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the ledger's files share: its entries, and how one is added
 *
 *   ledger.c          the books: entries that come and go by what the worker says
 *   ledger_replay.c   all of them, in order, for the next worker
 *   ledger_restore.c  all of them, as an earlier daemon wrote them down
 *
 * Who adds believes nothing of what it was said: DS_LEDGER_E_PROTOCOL where it makes no sense, a negative errno without
 * memory; nothing is added then.
 */
#pragma once

#include "proto/wire.h"
#include "supervisor/hash.h"
#include "supervisor/ledger.h"

struct ds_ledger_slab {
        uint64_t va, bytes;
        int pinned, fd;
        uint32_t n_allocs; /* that lie in it */
        ds_share *share;   /* once it was exported */
        struct ds_charge slab_charge, bytes_charge;
        UT_hash_handle hh;
};

struct ds_ledger_physical {
        uint64_t id;
        ds_share *share;
        int imported;
        uint32_t n_mappings;
        struct ds_charge one, file; /* the worker's */
        UT_hash_handle hh;
};

struct ds_ledger_mapping {
        uint64_t va, bytes;
        struct ds_ledger_physical *physical;
        UT_hash_handle hh;
};

struct ds_ledger_alloc {
        uint64_t va, bytes;
        struct ds_ledger_slab *slab;
        struct ds_charge charge, one;
        UT_hash_handle hh;
};

struct ds_ledger_graph {
        uint64_t id, bytes;
        int fd;
        struct ds_charge object_charge, bytes_charge;
        UT_hash_handle hh;
};

struct ds_ledger_module {
        uint64_t id, bytes;
        int fd, writable;
        struct ds_charge module_charge, bytes_charge, variables_charge;
        struct ds_module_forms forms;
        UT_hash_handle hh;
};

struct ds_ledger_stream {
        uint32_t slot;
        int32_t priority;
        int non_blocking;
        UT_hash_handle hh;
};

struct ds_ledger {
        struct ds_window window;
        ds_user *user;
        struct ds_ledger_slab *slabs;
        struct ds_ledger_alloc *allocs;
        struct ds_ledger_physical *physicals;
        struct ds_ledger_mapping *mappings;
        uint64_t physical_bytes; /* of its own */
        struct ds_ledger_module *modules;
        struct ds_ledger_graph *graphs;
        struct ds_ledger_stream *streams;
        uint64_t slab_bytes, alloc_bytes; /* device memory */
        uint32_t n_writable;              /* modules with writable globals */
        uint64_t lent, lent_bytes;        /* slabs of the pool, a bit each; of one */
        struct ds_charge lent_charge;
        uint64_t *progress; /* DS_STREAMS_MAX sequence numbers once a worker has died, else NULL */
};

int ds_ledger_slab_add(ds_ledger *ledger, const Detshare__Internal__Slab *said, const struct ds_ledger_beside *beside);
/* The one in which all of this lies, or NULL. */
struct ds_ledger_slab *ds_ledger_slab_around(const ds_ledger *ledger, uint64_t va, uint64_t bytes);
int ds_ledger_alloc_add(ds_ledger *ledger, const Detshare__Internal__Range *said);
struct ds_ledger_physical *ds_ledger_physical_find(const ds_ledger *ledger, uint64_t id);
/* Takes the reference over. */
int ds_ledger_physical_enlist(ds_ledger *ledger, uint64_t id, int imported, ds_share *share);
int ds_ledger_mapping_add(ds_ledger *ledger, const Detshare__Internal__Mapping *said);
/* It becomes what other sessions can have, too. */
int ds_ledger_slab_share(ds_ledger *ledger, struct ds_ledger_slab *slab);
int ds_ledger_module_add(
        ds_ledger *ledger, const Detshare__Internal__Module *said, const struct ds_ledger_beside *beside);
struct ds_ledger_graph *ds_ledger_graph_find(ds_ledger *ledger, uint64_t id);
/* An updated one takes the place of the one before. */
int ds_ledger_graph_add(
        ds_ledger *ledger, const Detshare__Internal__Graph *said, const struct ds_ledger_beside *beside);
int ds_ledger_stream_add(ds_ledger *ledger, const Detshare__Internal__Stream *said);
/* added: 1, or 0 of slabs that were given back. */
int ds_ledger_lent_change(ds_ledger *ledger, const Detshare__Internal__Lent *said, int added);
