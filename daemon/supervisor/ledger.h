/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger: what a session has in the worker, so that a new worker can be given it again
 *
 * One per session. It is filled from the worker's answers and holds what outlives a worker: the memory slabs' file
 * descriptors, which ranges of them are allocated, the checked module images, the files of graphs, the streams and how
 * far each has come. It holds the charges for all of that, so dropping a ledger gives everything back.
 *
 * It also outlives the supervisor itself: the replay can be written to a file, and the next supervisor restores from
 * it.
 *
 * The worker's words are checked: a slab outside its half of the window, overlapping slabs, allocations outside
 * slabs, unknown or repeated ids are refused, and the caller restarts the worker that said them.
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

/* Contract codes */
#define DS_LEDGER_E_PROTOCOL 1 /* the worker said something that cannot be */
#define DS_LEDGER_E_UNKNOWN 2  /* the session has no such thing */

#define DS_LEDGER_MODULES_MAX 4096
#define DS_LEDGER_GRAPHS_MAX 4096
#define DS_LEDGER_ALLOCS_MAX 65536
#define DS_LEDGER_PHYSICALS_MAX 16384 /* and as many mappings */
#define DS_LEDGER_RANGES_MAX 4096     /* of one RestoreSlab */

/* What an answer's ledger entry comes with. Taken fds are set to -1, a taken charge is emptied. */
struct ds_ledger_beside {
        int *slab_fd;  /* for slab_added and physical_added */
        int *image_fd; /* for module_added and graph_added */
        uint64_t image_bytes;
        struct ds_charge *module_charge, *image_charge, *variables_charge; /* may be NULL */
        ds_share *imported;              /* for physical_added; the ledger gets a reference of its own */
        struct ds_module_source *source; /* for module_added; may be NULL */
};

/*
 * One message for a new worker. fd is the ledger's own, -1 = none. A negative return ends the replay and is passed on.
 */
typedef int (*ds_ledger_replay_fn)(void *user, Detshare__Internal__ToWorker *message, int fd);

struct ds_ledger_sums {
        uint64_t slab_bytes, alloc_bytes; /* device memory only */
        uint32_t slabs, allocs, modules, graphs, streams, physicals, mappings;
        uint32_t lent;        /* slabs of the pool */
        int writable_globals; /* some module has them */
};

/* window: device memory in its first half, pinned in its second. */
int ds_ledger_new(const struct ds_window *window, ds_user *user, ds_ledger **ret);
/* Closes and uncharges everything. NULL is fine; returns NULL. */
ds_ledger *ds_ledger_free(ds_ledger *ledger);
/* Forget everything, as at the beginning. */
void ds_ledger_reset(ds_ledger *ledger);

/* 0, PROTOCOL or -ENOMEM. */
int ds_ledger_apply(ds_ledger *ledger, const Detshare__Internal__Ledger *entry, const struct ds_ledger_beside *beside);
/* Remember how far each stream came, from the page of a dead worker; the replay says it to the next one. */
int ds_ledger_save_progress(ds_ledger *ledger, const struct ds_completion_page *page);
/* The numbers remembered, DS_STREAMS_MAX of them, also of streams that are gone; NULL: no worker has died yet. */
const uint64_t *ds_ledger_progress(const ds_ledger *ledger);
int ds_ledger_set_progress(ds_ledger *ledger, const uint64_t *progress, size_t n);
/* RestoreSlab*, RestoreStream*, RestoreModule*, RestoreGraph* for this session; ids are the caller's to fill in. */
int ds_ledger_replay(ds_ledger *ledger, uint64_t session, ds_ledger_replay_fn fn, void *user);
/*
 * One message of the replay of an earlier ledger with the same window: what it says is checked as a worker's words and
 * charged without a limit. A taken fd is set to -1. 0, PROTOCOL or -ENOMEM.
 */
int ds_ledger_restore_slab(
        ds_ledger *ledger, ds_shares *shares, const Detshare__Internal__RestoreSlab *restore, int *fd);
int ds_ledger_restore_physical(
        ds_ledger *ledger, ds_shares *shares, const Detshare__Internal__RestorePhysical *restore, int *fd);
int ds_ledger_restore_mapping(ds_ledger *ledger, const Detshare__Internal__RestoreMapping *restore);
int ds_ledger_restore_module(ds_ledger *ledger, const Detshare__Internal__RestoreModule *restore, int *fd);
int ds_ledger_restore_graph(ds_ledger *ledger, const Detshare__Internal__RestoreGraph *restore, int *fd);
int ds_ledger_restore_stream(ds_ledger *ledger, const Detshare__Internal__RestoreStream *restore);
/* A slab of the pool, which nobody else has. */
int ds_ledger_restore_lent(ds_ledger *ledger, const Detshare__Internal__RestoreLent *restore);
/*
 * The memory of an allocation (handle 0) or a handle, for others: *ret stays the ledger's, *ret_offset and *ret_size
 * say where in it the allocation lies. DS_LEDGER_E_UNKNOWN: there is no such memory of this session's own.
 */
int ds_ledger_share(
        ds_ledger *ledger, uint64_t va, uint64_t handle, ds_share **ret, uint64_t *ret_offset, uint64_t *ret_size);
/* What is kept of a module's forms, the ledger's; its image's descriptor and bytes. NULL: there is no such module. */
struct ds_module_forms *ds_ledger_module(ds_ledger *ledger, uint64_t id, int *ret_fd, uint64_t *ret_bytes);
/* Is something of it mapped there? */
int ds_ledger_is_mapped(const ds_ledger *ledger, uint64_t va, uint64_t bytes);
void ds_ledger_sums(const ds_ledger *ledger, struct ds_ledger_sums *ret);

static inline void ds_ledger_freep(ds_ledger **p)
{
        *p = ds_ledger_free(*p);
}
