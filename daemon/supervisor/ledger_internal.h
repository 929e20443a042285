/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the ledger's files: its entries, and the functions that add one
 *
 *   ledger.c          adds and removes entries by the worker's messages
 *   ledger_replay.c   sends all entries, in order, to the next worker
 *   ledger_restore.c  restores all entries that an earlier daemon wrote
 *
 * The functions that add entries do not trust their input. They return DS_LEDGER_E_PROTOCOL for invalid input and a
 * negative errno without memory; in both cases nothing is added.
 */
#pragma once

#include "proto/wire.h"
#include "supervisor/hash.h"
#include "supervisor/ledger.h"

struct ds_ledger_slab {
        uint64_t va, bytes;
        int pinned, fd;
        uint32_t n_allocs; /* number of allocations in the slab */
        ds_share *share;   /* the slab's memory as a sharable object; NULL until the slab is exported */
        struct ds_charge slab_charge, bytes_charge;
        UT_hash_handle hh;
};

struct ds_ledger_physical {
        uint64_t id;
        ds_share *share;
        int imported;
        uint32_t n_mappings;
        struct ds_charge one, file; /* charges for the handle, and for the file descriptor that the worker holds */
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
        uint64_t physical_bytes; /* bytes of the handles that this session created (not of imported ones) */
        struct ds_ledger_module *modules;
        struct ds_ledger_graph *graphs;
        struct ds_ledger_stream *streams;
        uint64_t slab_bytes, alloc_bytes; /* bytes of device memory */
        uint32_t n_writable;              /* number of modules with writable globals */
        uint64_t lent, lent_bytes;        /* slabs of the pool that the session has, as a bit set; bytes per slab */
        struct ds_charge lent_charge;
        uint64_t *progress; /* DS_STREAMS_MAX sequence numbers; NULL until a worker has died with this session */
};

int ds_ledger_slab_add(ds_ledger *ledger, const Detshare__Internal__Slab *said, const struct ds_ledger_beside *beside);
/* The slab that contains the whole range, or NULL. */
struct ds_ledger_slab *ds_ledger_slab_around(const ds_ledger *ledger, uint64_t va, uint64_t bytes);
int ds_ledger_alloc_add(ds_ledger *ledger, const Detshare__Internal__Range *said);
struct ds_ledger_physical *ds_ledger_physical_find(const ds_ledger *ledger, uint64_t id);
/* Adds a handle of the share's memory. Consumes the reference to the share. */
int ds_ledger_physical_enlist(ds_ledger *ledger, uint64_t id, int imported, ds_share *share);
int ds_ledger_mapping_add(ds_ledger *ledger, const Detshare__Internal__Mapping *said);
/* Makes the slab's memory sharable with other sessions. */
int ds_ledger_slab_share(ds_ledger *ledger, struct ds_ledger_slab *slab);
int ds_ledger_module_add(
        ds_ledger *ledger, const Detshare__Internal__Module *said, const struct ds_ledger_beside *beside);
struct ds_ledger_graph *ds_ledger_graph_find(ds_ledger *ledger, uint64_t id);
/* Adds a graph; an updated graph replaces its previous version. */
int ds_ledger_graph_add(
        ds_ledger *ledger, const Detshare__Internal__Graph *said, const struct ds_ledger_beside *beside);
int ds_ledger_stream_add(ds_ledger *ledger, const Detshare__Internal__Stream *said);
/* Records that slabs of the pool were lent to the session (added = 1) or returned by it (0). */
int ds_ledger_lent_change(ds_ledger *ledger, const Detshare__Internal__Lent *said, int added);
