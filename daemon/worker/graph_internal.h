/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of graphs: the struct, and what graph.c and graph_change.c share
 */
#pragma once

#include "worker/graph.h"

/* The time that the worker needs for one ring record is also enough to check 4 nodes of a graph, or to visit 32
 * nodes. */
#define GRAPH_CHECKED_PER_RECORD 4u
#define GRAPH_SEEN_PER_RECORD 32u

struct graph_node {
        uint32_t offset;           /* offset of its struct ds_graph_node in file */
        uint8_t nothing;           /* the node is empty, disabled, or copies no bytes */
        struct dsw_kernel *kernel; /* LAUNCH; valid because its module is not unloaded before its launches end */
};

struct dsw_graph {
        uint64_t id;
        UT_hash_handle hh;
        uint32_t refs; /* held by the session's table and by every launch in flight */
        uint32_t n_nodes;
        uint64_t bytes; /* size of `file`, bytes */
        uint64_t charge;
        uint8_t *file; /* copy of the client's file */
        int fd;        /* the client's file, for changes of nodes */
        struct graph_node *nodes;
        struct ds_device_node *device_nodes; /* nodes as the device sees them; NULL if sched.device is NULL */
        uint64_t checked;                    /* value of session->n_taken at the last successful check */
        uint32_t n_odd;                      /* nodes that cannot be part of a device graph */
        uint32_t n_events;
        uint32_t n_launches, n_updates; /* n_launches counts only launches kernel by kernel */
        struct dsw_pieces *pieces;      /* NULL: the graph is not cut into pieces */
        struct ds_sched_graph sched;
};

static inline int graph_refuse(int status, const char **ret_why, const char *why)
{
        *ret_why = why;
        return status;
}

static inline int graph_bad(const char **ret_why, const char *why)
{
        return graph_refuse(DS_CUDA_INVALID_VALUE, ret_why, why);
}

static inline const struct ds_graph_node *node_at(const struct dsw_graph *graph, uint32_t index)
{
        return (const void *)(graph->file + graph->nodes[index].offset);
}

static inline const uint32_t *node_deps(const struct ds_graph_node *node)
{
        return (const void *)(node + 1);
}

static inline struct ds_record *node_record(const struct dsw_graph *graph, uint32_t index)
{
        const struct ds_graph_node *node = node_at(graph, index);

        return (void *)(graph->file + graph->nodes[index].offset + node->record_offset);
}

/* A change of a node, checked. */
struct dsw_change {
        uint32_t index;
        struct graph_node node;   /* the node after the change */
        struct ds_record *record; /* in the private copy of the client's changes */
};

/* The changes of one record of the ring, in the order of the nodes. */
struct dsw_changes {
        uint8_t *copy; /* private copy of the client's bytes */
        uint32_t n;
        struct dsw_change *at;
};

struct dsw_graph *dsw_graph_find(const struct dsw_session *session, uint64_t id);
/* Checks whether everything that the record of a node names (kernel, memory, event) exists, and its arguments. Sets
 * the kernel and `nothing` of the node. */
int dsw_graph_check_record(
        struct dsw_session *session, struct graph_node *node, struct ds_record *record, const char **ret_why);
/* The node as the device sees it, with the dependencies of `at` and the kernel and parameters of `node` and
 * `record`. */
void dsw_graph_device_node_of(const struct ds_graph_node *at, const struct graph_node *node,
        const struct ds_record *record, struct ds_device_node *ret);
/* Describes the graph to the scheduler again, after a change of its nodes. */
void dsw_graph_describe_again(struct dsw_session *session, struct dsw_graph *graph);
/* Makes a copy of the graph, with the changes. *ret has one reference, and no file. */
int dsw_graph_copy(struct dsw_session *session, const struct dsw_graph *old, const struct dsw_changes *changes,
        struct dsw_graph **ret, const char **ret_why);
/* Puts `graph` in the place of `old`, which has the same nodes, with the instances of the device. Takes the reference
 * to `graph`, also on failure. */
int dsw_graph_replace(
        struct dsw_session *session, struct dsw_graph *old, struct dsw_graph *graph, const char **ret_why);

/* --- graph_change.c --- */

/* Writes the changes into the graph's copy of the file. */
void dsw_graph_write(struct dsw_graph *graph, const struct dsw_changes *changes);
