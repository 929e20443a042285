/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instantiated graphs
 *
 * Instantiating clones the graph, orders its nodes so that they can run, flattens child graphs, and gives the daemon
 * one file of records (proto/wire.h), which the daemon replays for each launch. A launch is one operation of a stream.
 * Later changes change the clone. If only parameters of kernels, copies and memsets changed, the next launch takes the
 * changed records to the daemon. Otherwise the daemon gets a new file before the next launch, also after a reset of the
 * session, because kernels then have other ids.
 *
 * The daemon cannot do everything within a graph. An event that a node waits for is waited for before the whole graph.
 * An event that a node records counts as recorded when the whole graph has ended (its time is the node's). Copies of
 * pageable memory go through pinned memory, which a host function fills or empties at every launch.
 *
 * Launches of one instantiated graph never overlap. It may be destroyed while it runs: its resources are freed after
 * its last launch.
 *
 * Lock order: exec->lock, then dcu.lock.
 */
#pragma once

#include <pthread.h>

#include "cuda/graph.h"

struct dcu_exec_build; /* resources of the daemon's copy: host functions, pinned memory */

struct dcu_exec {
        struct dcu_object head;
        pthread_mutex_t lock; /* protects the members below */
        struct dcu_graph *graph;
        cuuint64_t flags;
        struct dcu_exec_build *build;
        int stale; /* 1: the clone was changed since `build` was made from it, and the daemon needs a new file */
        struct dcu_node **changed; /* nodes of which the next launch takes the new records to the daemon */
        uint32_t n_changed, changed_space;
        int launched;
        uint32_t slot, launch_epoch; /* slot and number of the last launch */
        uint64_t seq;
};

/* --- exec.c --- */

/* Brings the daemon's copy up to date with the clone. With exec->lock held. */
CUresult dcu_exec_refresh(struct dcu_exec *exec);
/* Replaces the work of the exec's node that corresponds to `node`, if CUDA allows that change. r and work: as for
 * dcu_graph_add(). */
CUresult dcu_exec_set(CUgraphExec exec, CUgraphNode node, CUresult r, struct dcu_work *work);

/* --- exec_update.c --- */

/* CU_GRAPH_EXEC_UPDATE_SUCCESS if CUDA allows the work of an instantiated node to change from `from` to `to`, else
 * the reason. */
CUgraphExecUpdateResult dcu_work_change(const struct dcu_work *from, const struct dcu_work *to);
/* Compares two graphs node by node, with their edges; returns what differs, and where. With dcu.lock held. */
CUgraphExecUpdateResult dcu_graph_compare(
        struct dcu_graph *from, const struct dcu_graph *to, CUgraphExecUpdateResultInfo *info);
/* Replaces the work of the nodes of `from`, a graph of the exec, by that of the nodes of `to`, after a successful
 * comparison. With exec->lock and dcu.lock held. */
CUresult dcu_graph_take_over(struct dcu_exec *exec, struct dcu_graph *from, const struct dcu_graph *to);

/* --- exec_change.c: with exec->lock held --- */

enum dcu_difference {
        DCU_SAME,
        DCU_SMALL, /* other parameters in the same record of the daemon's file */
        DCU_LARGE, /* the daemon needs a new file */
};

/* How the works differ, after a successful dcu_work_change(). */
enum dcu_difference dcu_work_difference(const struct dcu_work *from, const struct dcu_work *to);
/* Copies the parameters of a work with a SMALL difference. */
void dcu_work_adopt(struct dcu_work *work, const struct dcu_work *from);
/* Notes that the node's work has changed. */
void dcu_exec_changed(struct dcu_exec *exec, struct dcu_node *node, enum dcu_difference difference);
void dcu_exec_unchanged(struct dcu_exec *exec); /* forgets the changed nodes: the daemon has them */
/* Launches the graph, with the changes since the last launch. */
CUresult dcu_exec_launch(struct dcu_exec *exec, uint32_t slot, uint64_t *ret_seq);

/* --- exec_file.c: with exec->lock held, without dcu.lock --- */

struct dcu_exec_build {
        struct dcu_exec_build *next; /* next in the list of retired builds */
        uint32_t epoch;
        uint64_t id;                 /* id of the graph in the daemon */
        uint32_t n_nodes;            /* number of records in the file */
        struct dcu_exec_host *hosts; /* host functions and pinned memory for copies of pageable memory */
        CUevent *records, *waits;    /* events that nodes record or wait for */
        uint32_t n_records, records_space, n_waits, waits_space;
        struct dcu_graph *graph;     /* clone of a destroyed exec, freed with the build; else NULL */
        uint32_t slot, launch_epoch; /* slot and number of the last launch that uses the build */
        uint64_t seq;
};

/* Writes the graph as the daemon's file (malloc'ed), and makes a build without an id for it. */
CUresult dcu_exec_file(struct dcu_graph *graph, void **ret_file, size_t *ret_bytes, struct dcu_exec_build **ret_build);
/* Writes the changed nodes as changes of the daemon's file (malloc'ed). CUDA_ERROR_NOT_SUPPORTED: the daemon needs a
 * new file. */
CUresult dcu_exec_changes(const struct dcu_exec *exec, uint8_t **ret_changes, size_t *ret_bytes);
/* Frees the build's resources, except the graph in the daemon. dcu.lock may be held. */
void dcu_exec_build_free(struct dcu_exec_build *build);
