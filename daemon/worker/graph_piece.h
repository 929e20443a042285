/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces: runs of a graph's nodes that are launched as small graphs
 *
 * While an LS session is connected, a best-effort graph runs kernel by kernel. That costs the GPU some microseconds
 * between two kernels, which a whole graph would not. So the worker cuts the graph once the durations of all its nodes
 * are known: consecutive nodes in the client's order that take at most some length together become one graph of the
 * device. It is an operation of its own when the graph is unfolded (sched/graph.h says when it is launched as such).
 * Everything that may happen between two kernels (the policy's choice of rung, a time bound, other sessions' work) is
 * thus never delayed by more than the length of a piece.
 *
 * A graph is cut twice. Short pieces are for the pauses between requests. Long ones are for LS sessions that have been
 * idle for DSW_PIECE_LONG_AWAY_NS, because each piece costs the GPU 3 us (docs/gpu/measured.md). A long piece that may
 * not be launched is unfolded into the short pieces in it.
 *
 * Guarantees. Every node is in at most one piece of each length, and a short piece is within one long piece or outside
 * of all. Pieces and single nodes run one after another in the client's order,
 * and dependencies inside a piece hold, so the results are those of the graph. A node stays single if it takes longer
 * than a piece may, if all its blocks must be resident (it needs a place of its own), if it has forms that can be
 * evicted when the graph is cut, or if no device launches it (events, host functions, values). A graph is not cut if
 * some node has no known duration, if it was updated often, or if it has too many nodes. Device instances are made only
 * in a quiesce, after a launch has requested them.
 *
 * Pieces only improve speed, and clients do not control them. Their memory therefore has bounds of its own, separate
 * from those of the graphs. If there is no room, the worker frees pieces of the session's other graphs, least recently
 * launched first; those graphs run kernel by kernel until they are cut again.
 *
 * Not guaranteed: that a piece takes as long as its nodes took, or that its kernels still have no other forms.
 * Durations and forms are those at the time of cutting.
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
#define DSW_PIECE_LEAST_NS 1000u /* up to this length no graph is cut: administrators choose 1 us to have none */
#define DSW_PIECE_LONG_TIMES 4u  /* length of a long piece, in lengths of a short one */
#define DSW_PIECE_AWAY 4u        /* shortest idle time of LS before a piece is launched, in lengths of that piece */
#define DSW_PIECE_LONG_AWAY_NS DS_NS_PER_S
#define DSW_PIECE_NODES_MAX 4096u    /* largest graph that is cut, in nodes: the worker serves nobody during the cut */
#define DSW_SESSION_PIECES_MAX 1024u /* pieces of all graphs of a session */
#define DSW_SESSION_PIECE_BYTES DS_MIB(32)
#define DSW_USER_PIECE_BYTES DS_MIB(128)

enum dsw_piece_length { DSW_PIECE_SHORT, DSW_PIECE_LONG, _DSW_PIECE_LENGTHS };

struct dsw_piece {
        struct ds_sched_graph sched; /* the piece as a small graph; its device graph is never NULL */
        enum dsw_piece_length length;
        uint32_t first, end; /* the piece has nodes [first, end) of the graph */
        struct dsw_pieces *of;
};

/* --- functions of graph.c that describe its nodes to this file ---------------------------------------------------- */

enum dsw_node_class {
        DSW_NODE_EMPTY, /* node without work, which can be in any piece */
        DSW_NODE_WORK,  /* a launch, copy or memset that the device carries out */
        DSW_NODE_ODD,   /* node that only the worker can carry out (event, host function, value) */
};

uint32_t dsw_graph_n_nodes(const struct dsw_graph *graph);
enum dsw_node_class dsw_graph_node_class(const struct dsw_graph *graph, uint32_t index);
/* Fills in the node for the device; the pointers in it are valid as long as the graph. */
void dsw_graph_device_node(const struct dsw_graph *graph, uint32_t index, struct ds_device_node *ret);
/* The kernel of a launch node. */
const struct dsw_kernel *dsw_graph_node_kernel(const struct dsw_graph *graph, uint32_t index);

/* --- functions that graph.c calls --------------------------------------------------------------------------------- */

/* Cuts the graph and stores its pieces in *home, which must be NULL at first and live as long as the graph. *home
 * stays NULL if times, memory or pieces are lacking. It becomes NULL again when the pieces are freed to make room
 * for other graphs. */
void dsw_pieces_cut(struct dsw_session *session, const struct dsw_graph *graph, struct dsw_pieces **home);
/* NULL is allowed; no piece may be in use */
void dsw_pieces_free(struct dsw_session *session, struct dsw_pieces *pieces);
/* The longest piece that begins at this node, among those within the piece `around` if that is not NULL. NULL: there
 * is none. `pieces` may be NULL. */
const struct dsw_piece *dsw_pieces_at(const struct dsw_pieces *pieces, const struct dsw_piece *around, uint32_t node);
/* Marks a piece as used by an operation until dsw_piece_unuse(). Meanwhile no piece of the same graph is freed. */
void dsw_piece_use(struct dsw_session *session, const struct dsw_piece *piece);
void dsw_piece_unuse(const struct dsw_piece *piece);
