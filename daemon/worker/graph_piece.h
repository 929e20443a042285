/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces: runs of a graph's nodes that are launched as small graphs
 *
 * A best-effort graph that goes kernel by kernel, because a latency-sensitive session is connected, costs the GPU some
 * microseconds between any two kernels that it would not cost inside a graph. So once the times of all its nodes are
 * known it is cut: nodes that follow each other in the client's order and take at most `piece_ns` together become one
 * graph of the device, an operation of its own when the graph is unfolded (sched/graph.h has when it is launched as
 * that). What is to be found between two kernels (the policy's choice of rung, a bound, the turn of others) is so
 * never farther away than a piece is long.
 *
 * Guarantees. Every node is in one piece at most; pieces and single nodes run one after the other in the client's
 * order, and inside a piece its dependencies hold, so results are those of the graph. A node stays by itself that takes
 * longer than a piece may, whose blocks must all be resident (it needs a place of its own), that has forms which let
 * go when the graph is cut, or that no device launches (events, host functions, values). A graph whose nodes are not
 * all known yet is not cut, nor one that was updated often, nor one of too many nodes. Instances of the device are made
 * in a quiesce only, when a launch has asked for them.
 *
 * Pieces are for speed, and a client has no say in them: so what they take has bounds of its own, beside those of the
 * graphs, of which they take nothing. Where a graph that is to be cut finds no room, pieces of the session's other
 * graphs go, those first that were not launched for longest; their graphs go kernel by kernel until they are cut again.
 *
 * Not promised: that a piece takes what its nodes took, or that none of its kernels has other forms by now. Times and
 * forms are those of the moment of cutting.
 */
#pragma once

#include <stdint.h>

#include "device/device.h"
#include "sched/sched.h"

struct dsw_graph;
struct dsw_kernel;
struct dsw_session;
struct dsw_pieces;

#define DSW_PIECE_NS (150 * 1000ULL)
#define DSW_PIECE_NODES_MAX 4096u    /* of a graph that is cut: the worker does nothing else meanwhile */
#define DSW_SESSION_PIECES_MAX 1024u /* of all graphs of a session */
#define DSW_SESSION_PIECE_BYTES DS_MIB(32)
#define DSW_USER_PIECE_BYTES DS_MIB(128)

struct dsw_piece {
        struct ds_sched_graph sched; /* its device graph is never NULL */
        uint32_t first, end;         /* nodes of the graph */
        struct dsw_pieces *of;
};

/* --- graph.c says of its nodes --- */

enum dsw_node_class {
        DSW_NODE_EMPTY, /* nothing to launch: it may lie anywhere */
        DSW_NODE_WORK,  /* a launch, copy or memset of the device */
        DSW_NODE_ODD,   /* only the worker knows what to do */
};

uint32_t dsw_graph_n_nodes(const struct dsw_graph *graph);
enum dsw_node_class dsw_graph_node_class(const struct dsw_graph *graph, uint32_t index);
/* As the device is given it; what it points to lives as long as the graph. */
void dsw_graph_device_node(const struct dsw_graph *graph, uint32_t index, struct ds_device_node *ret);
const struct dsw_kernel *dsw_graph_node_kernel(const struct dsw_graph *graph, uint32_t index); /* of a launch */

/* --- what graph.c asks --- */

/* *home, which is NULL and lives as long as the graph, stays NULL where it cannot be cut now, for want of times, memory
 * or pieces; and becomes NULL again when the pieces go for others. */
void dsw_pieces_cut(struct dsw_session *session, const struct dsw_graph *graph, struct dsw_pieces **home);
void dsw_pieces_free(struct dsw_session *session, struct dsw_pieces *pieces); /* NULL is fine; none is in use */
/* The piece that begins with this node, or NULL; pieces may be NULL. */
const struct dsw_piece *dsw_pieces_at(const struct dsw_pieces *pieces, uint32_t node);
/* An operation is this piece, until it ends: the pieces of its graph stay. */
void dsw_piece_use(struct dsw_session *session, const struct dsw_piece *piece);
void dsw_piece_unuse(const struct dsw_piece *piece);
