/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: everything that a session has in the worker, so that a new worker can restore it
 *
 * One per session. It is filled from the worker's answers and holds what outlives a worker: file descriptors of the
 * memory slabs, the allocated ranges in them, the checked module images, the files of graphs, the streams and the
 * progress of each. It also holds the charges for all of that, so freeing a ledger releases everything.
 *
 * A ledger also outlives the supervisor: its replay can be written to a file, from which the next supervisor restores
 * it.
 *
 * The worker's messages are checked. A slab outside its half of the window, overlapping slabs, allocations outside
 * slabs, and unknown or repeated ids are rejected, and the caller restarts the worker that sent them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "internal.pb-c.h"
#include "supervisor/charge.h"
#include "supervisor/forms.h"
#include "supervisor/share.h"
#include "supervisor/window.h"

struct ds_completion_page;

typedef struct ds_ledger ds_ledger;

/* Positive return codes of the functions below */
#define DS_LEDGER_E_PROTOCOL 1 /* the worker's message is invalid */
#define DS_LEDGER_E_UNKNOWN 2  /* the session has no such object */

#define DS_LEDGER_MODULES_MAX 4096
#define DS_LEDGER_GRAPHS_MAX 4096
#define DS_LEDGER_ALLOCS_MAX 65536
#define DS_LEDGER_PHYSICALS_MAX 16384 /* most handles, and most mappings, of a session */
#define DS_LEDGER_RANGES_MAX 4096     /* most allocations in one RestoreSlab message */

/* Descriptors and charges that belong to a ledger entry of the worker's answer. A function that consumes an fd sets
 * it to -1; a consumed charge is empty afterwards. */
struct ds_ledger_beside {
        int *slab_fd;  /* for slab_added and physical_added */
        int *image_fd; /* for module_added and graph_added */
        uint64_t image_bytes;
        struct ds_charge *module_charge, *image_charge, *variables_charge; /* may be NULL */
        ds_share *imported;              /* for physical_added; the ledger takes a reference of its own */
        struct ds_module_source *source; /* for module_added; may be NULL */
};

/*
 * Receives one message for a new worker. The ledger owns fd; -1: none. A negative return ends the replay and is
 * returned.
 */
typedef int (*ds_ledger_replay_fn)(void *user, Detshare__Internal__ToWorker *message, int fd);

struct ds_ledger_sums {
        uint64_t slab_bytes, alloc_bytes; /* sums over device memory only */
        uint32_t slabs, allocs, modules, graphs, streams, physicals, mappings;
        uint32_t lent;        /* number of the pool's slabs that the session has */
        int writable_globals; /* 1: at least one module has writable globals */
};

/* Creates a ledger. The first half of the window is for device memory, the second for pinned memory. */
int ds_ledger_new(const struct ds_window *window, ds_user *user, ds_ledger **ret);
/* Frees the ledger and releases all that it holds. NULL is allowed; returns NULL. */
ds_ledger *ds_ledger_free(ds_ledger *ledger);
/* Removes all entries. */
void ds_ledger_reset(ds_ledger *ledger);

/* Applies an entry of the worker. Returns 0, DS_LEDGER_E_PROTOCOL or -ENOMEM. */
int ds_ledger_apply(ds_ledger *ledger, const Detshare__Internal__Ledger *entry, const struct ds_ledger_beside *beside);
/* Saves the progress of each stream from the completion page of a dead worker; the replay passes it to the next
 * worker. */
int ds_ledger_save_progress(ds_ledger *ledger, const struct ds_completion_page *page);
/* The saved progress: DS_STREAMS_MAX numbers, also of destroyed streams. NULL: no worker of this session has died
 * yet. */
const uint64_t *ds_ledger_progress(const ds_ledger *ledger);
int ds_ledger_set_progress(ds_ledger *ledger, const uint64_t *progress, size_t n);
/* Passes RestoreSlab*, RestoreStream*, RestoreModule*, RestoreGraph* messages for this session to fn, which fills in
 * their ids. */
int ds_ledger_replay(ds_ledger *ledger, uint64_t session, ds_ledger_replay_fn fn, void *user);
/*
 * Each function applies one message of the replay of an earlier ledger with the same window. The message is checked
 * like a worker's, and charged without a limit. A consumed fd is set to -1. Returns 0, DS_LEDGER_E_PROTOCOL or -ENOMEM.
 */
int ds_ledger_restore_slab(
        ds_ledger *ledger, ds_shares *shares, const Detshare__Internal__RestoreSlab *restore, int *fd);
int ds_ledger_restore_physical(
        ds_ledger *ledger, ds_shares *shares, const Detshare__Internal__RestorePhysical *restore, int *fd);
int ds_ledger_restore_mapping(ds_ledger *ledger, const Detshare__Internal__RestoreMapping *restore);
int ds_ledger_restore_module(ds_ledger *ledger, const Detshare__Internal__RestoreModule *restore, int *fd);
int ds_ledger_restore_graph(ds_ledger *ledger, const Detshare__Internal__RestoreGraph *restore, int *fd);
int ds_ledger_restore_stream(ds_ledger *ledger, const Detshare__Internal__RestoreStream *restore);
/* Restores the slabs of the pool that the session has. The caller ensures that no other session has them. */
int ds_ledger_restore_lent(ds_ledger *ledger, const Detshare__Internal__RestoreLent *restore);
/*
 * Makes the memory of an allocation (handle 0) or of a handle sharable. The ledger owns *ret; the allocation begins at
 * *ret_offset in it and has *ret_size bytes. DS_LEDGER_E_UNKNOWN: this session owns no such memory.
 */
int ds_ledger_share(
        ds_ledger *ledger, uint64_t va, uint64_t handle, ds_share **ret, uint64_t *ret_offset, uint64_t *ret_size);
/* The forms of a module (owned by the ledger), and the descriptor and size of its image. NULL: the session has no
 * such module. */
struct ds_module_forms *ds_ledger_module(ds_ledger *ledger, uint64_t id, int *ret_fd, uint64_t *ret_bytes);
/* Whether a mapping of the session overlaps this range. */
int ds_ledger_is_mapped(const ds_ledger *ledger, uint64_t va, uint64_t bytes);
void ds_ledger_sums(const ds_ledger *ledger, struct ds_ledger_sums *ret);

static inline void ds_ledger_freep(ds_ledger **p)
{
        *p = ds_ledger_free(*p);
}
