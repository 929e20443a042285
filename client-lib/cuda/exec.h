/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instantiated graphs
 *
 * Instantiating clones the graph, puts its nodes into an order in which they can run, flattens child graphs, and hands
 * the daemon one file of records (proto/wire.h) that it replays for each launch: a launch is one operation of a stream.
 * What is changed afterwards changes the clone; the daemon gets the new file with the next launch, and also when the
 * session was reset since, because kernels have other ids then.
 *
 * What the daemon cannot do is done around it: an event that a node waits for is waited for before the whole graph, one
 * that a node records has been recorded when the whole graph has ended (its time is the node's). Copies of the
 * program's own memory go through pinned memory that a host function fills or empties, at every launch anew.
 *
 * Launches of one instantiated graph never overlap. It may be destroyed while it runs: what it needs goes when its last
 * launch has ended.
 *
 * Order of locks: exec->lock, then dcu.lock.
 */
#pragma once

#include <pthread.h>

#include "cuda/graph.h"

struct dcu_exec_build; /* what the daemon's copy stands on: host functions, pinned memory */

struct dcu_exec {
        struct dcu_object head;
        pthread_mutex_t lock; /* what follows */
        struct dcu_graph *graph;
        cuuint64_t flags;
        struct dcu_exec_build *build;
        int stale; /* the clone was changed since it was built */
        int launched;
        uint32_t slot, launch_epoch; /* of the last launch */
        uint64_t seq;
};

/* --- exec.c --- */

/* What the daemon has becomes what the clone says. exec->lock is held. */
CUresult dcu_exec_refresh(struct dcu_exec *exec);
/* Other work for the node that the exec has in the place of this one, if what changes may change. As dcu_graph_add().
 */
CUresult dcu_exec_set(CUgraphExec exec, CUgraphNode node, CUresult r, struct dcu_work *work);

/* --- exec_update.c --- */

/* May the work change like this while it is instantiated? */
CUgraphExecUpdateResult dcu_work_change(const struct dcu_work *from, const struct dcu_work *to);
/* The nodes of two graphs that correspond, with the same edges: what is different, and where. dcu.lock is held. */
CUgraphExecUpdateResult dcu_graph_compare(
        struct dcu_graph *from, const struct dcu_graph *to, CUgraphExecUpdateResultInfo *info);
/* Take over the work of `to`, which has been compared. dcu.lock is held. */
CUresult dcu_graph_take_over(struct dcu_graph *from, const struct dcu_graph *to);

/* --- exec_file.c: exec->lock is held, dcu.lock is not --- */

struct dcu_exec_build {
        struct dcu_exec_build *next; /* of those that wait for their last launch's end */
        uint32_t epoch;
        uint64_t id;                 /* the daemon's graph */
        uint32_t n_nodes;            /* of the file */
        struct dcu_exec_host *hosts; /* registered functions, pinned memory */
        CUevent *records, *waits;    /* events of nodes */
        uint32_t n_records, records_space, n_waits, waits_space;
        struct dcu_graph *graph;     /* that goes with it */
        uint32_t slot, launch_epoch; /* of the last launch that uses it */
        uint64_t seq;
};

/* The graph as a file: malloc'ed, and a build without an id. */
CUresult dcu_exec_file(struct dcu_graph *graph, void **ret_file, size_t *ret_bytes, struct dcu_exec_build **ret_build);
/* Everything but the daemon's graph. dcu.lock may be held. */
void dcu_exec_build_free(struct dcu_exec_build *build);
