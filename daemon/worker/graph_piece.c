/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts graphs into pieces: where to cut, and the small graphs that result
 */
#include "worker/graph_piece.h"

#include <assert.h>

#include "sched/kstat.h"
#include "util/alloc.h"
#include "util/macro.h"
#include "worker/internal.h"

struct dsw_pieces {
        uint32_t n, n_used;
        struct dsw_pieces **home, *prev, *next; /* in the session's list, ordered by the latest launch of a piece */
        struct dsw_piece *at;                   /* array of the pieces, sorted by their first node */
        struct ds_device_node *nodes;           /* all nodes of the graph, by index */
        uint32_t *deps;                         /* dependencies of all nodes, one node after another */
        uint64_t charge;
};

/* A run of nodes that grows during the walk over the graph. */
struct cut {
        uint32_t first, end, n_works; /* end: index after its last node with work */
        uint64_t ns;
};

/* --- expected duration of a node, and whether it may be part of a piece ------------------------------------------- */

static uint64_t node_expected_ns(
        struct dsw_session *session, const struct ds_device_node *node, const struct dsw_kernel *kernel)
{
        struct ds_op op = {.kind = DS_OP_LAUNCH};

        switch (node->kind) {
        case DS_NODE_LAUNCH:
                op.launch = node->launch;
                op.forms = &kernel->sched;
                break;
        case DS_NODE_COPY:
                op.kind = DS_OP_COPY;
                op.copy = node->copy;
                break;
        case DS_NODE_MEMSET:
                op.kind = DS_OP_MEMSET;
                op.memset = node->memset;
                break;
        case DS_NODE_NOTHING:
        case _DS_DEVICE_NODE_KIND_MAX:
                return 0;
        }
        return ds_sched_expected_ns(session->worker->sched, &op);
}

static int node_is_alone(
        const ds_worker *worker, const struct ds_device_node *node, const struct dsw_kernel *kernel, uint64_t ns)
{
        if (ns > worker->piece_ns)
                return 1;
        if (node->kind != DS_NODE_LAUNCH)
                return 0;
        if (worker->transform != DS_SCHED_TRANSFORM_NEVER && (kernel->sched.sliced || kernel->sched.persistent))
                return 1;
        return ds_sched_all_resident(worker->sched, &node->launch);
}

/* --- pieces ------------------------------------------------------------------------------------------------------- */

/* Collects a node's dependencies on nodes of the same piece. Nodes outside the piece have ended before the piece
 * begins. */
static uint32_t piece_deps(const struct dsw_piece *piece, struct ds_device_node *node, uint32_t *deps)
{
        const uint32_t *all = node->deps;
        uint32_t n = 0;

        for (uint32_t i = 0; i < node->n_deps; i++)
                if (all[i] >= piece->first)
                        deps[n++] = all[i] - piece->first;
        node->n_deps = n;
        node->deps = deps;
        return n;
}

/* Frees the pieces of that graph of the session whose latest launch of a piece is oldest. 0: all pieces are in use. */
static int pieces_give_way(struct dsw_session *session)
{
        struct dsw_pieces *pieces;

        DL_FOREACH(session->pieces, pieces)
        {
                if (pieces->n_used)
                        continue;
                *pieces->home = NULL;
                dsw_pieces_free(session, pieces);
                return 1;
        }
        return 0;
}

static void piece_describe(struct dsw_session *session, struct dsw_pieces *pieces, struct dsw_piece *piece, uint64_t ns)
{
        piece->sched.key = 2; /* base of the keys of pieces, which must differ from the keys of whole graphs */
        for (uint32_t i = piece->first; i < piece->end; i++) {
                const struct ds_device_node *node = &pieces->nodes[i];

                piece->sched.n_works += node->kind != DS_NODE_NOTHING;
                if (node->kind == DS_NODE_LAUNCH)
                        ds_sched_graph_add(session->worker->sched, &piece->sched, &node->launch);
                else if (node->kind != DS_NODE_NOTHING)
                        piece->sched.key = ds_kstat_mix(piece->sched.key, node->kind);
        }
        ds_sched_graph_piece(session->worker->sched, &piece->sched, ns);
}

/* Makes a piece of the collected nodes if there are enough of them and the device accepts it. Otherwise these nodes
 * run singly. */
static void cut_close(struct dsw_session *session, struct dsw_pieces *pieces, struct cut *cut, uint32_t **deps)
{
        struct dsw_piece *piece = &pieces->at[pieces->n];
        ds_worker *worker = session->worker;
        uint32_t n_works = cut->n_works;

        cut->n_works = 0;
        if (n_works < 2)
                return;
        while (session->n_pieces >= DSW_SESSION_PIECES_MAX)
                if (!pieces_give_way(session))
                        return;
        *piece = (struct dsw_piece){.first = cut->first, .end = cut->end, .of = pieces};
        for (uint32_t i = piece->first; i < piece->end; i++)
                *deps += piece_deps(piece, &pieces->nodes[i], *deps);
        if (worker->ops->graph_new(worker->device, session->space, &pieces->nodes[piece->first],
                    piece->end - piece->first, &piece->sched.device))
                return;
        piece_describe(session, pieces, piece, cut->ns);
        pieces->n++;
        session->n_pieces++;
}

static void cut_add(struct cut *cut, uint32_t node, uint64_t ns)
{
        if (!cut->n_works) {
                cut->first = node;
                cut->ns = 0;
        }
        cut->n_works++;
        cut->end = node + 1;
        cut->ns += ns;
}

static void cut_all(struct dsw_session *session, const struct dsw_graph *graph, struct dsw_pieces *pieces,
        const uint64_t *expected_ns)
{
        const ds_worker *worker = session->worker;
        uint32_t *deps = pieces->deps;
        struct cut cut = {0};

        for (uint32_t i = 0; i < dsw_graph_n_nodes(graph); i++) {
                enum dsw_node_class class_ = dsw_graph_node_class(graph, i);
                int alone = class_ == DSW_NODE_ODD ||
                            (class_ == DSW_NODE_WORK && node_is_alone(worker, &pieces->nodes[i],
                                                                dsw_graph_node_kernel(graph, i), expected_ns[i]));

                if (class_ == DSW_NODE_EMPTY)
                        continue;
                if (alone || cut.ns + expected_ns[i] > worker->piece_ns)
                        cut_close(session, pieces, &cut, &deps);
                if (!alone)
                        cut_add(&cut, i, expected_ns[i]);
        }
        cut_close(session, pieces, &cut, &deps);
}

/* --- cutting a graph ---------------------------------------------------------------------------------------------- */

/* Whether the durations of all device work in the graph are known. */
static int graph_is_known(struct dsw_session *session, const struct dsw_graph *graph, struct ds_device_node *nodes,
        uint64_t *expected_ns, size_t *ret_deps)
{
        *ret_deps = 0;
        for (uint32_t i = 0; i < dsw_graph_n_nodes(graph); i++) {
                dsw_graph_device_node(graph, i, &nodes[i]);
                *ret_deps += nodes[i].n_deps;
                if (dsw_graph_node_class(graph, i) != DSW_NODE_WORK)
                        continue;
                expected_ns[i] = node_expected_ns(session, &nodes[i], dsw_graph_node_kernel(graph, i));
                if (!expected_ns[i])
                        return 0;
        }
        return 1;
}

/* Whether the bytes exceed a limit even if the session freed the pieces of all its other graphs. Then freeing them
 * would not help. */
static int pieces_never_fit(const struct dsw_session *session, uint64_t bytes)
{
        return bytes > DSW_SESSION_PIECE_BYTES ||
               session->user->piece_bytes - session->piece_bytes + bytes > DSW_USER_PIECE_BYTES;
}

/* Charges the bytes to the session. Frees pieces of its other graphs if necessary. Returns 1 if the bytes are
 * charged. */
static int pieces_charge(struct dsw_session *session, struct dsw_pieces *pieces, uint64_t bytes)
{
        if (pieces_never_fit(session, bytes))
                return 0;
        while (session->piece_bytes + bytes > DSW_SESSION_PIECE_BYTES ||
                session->user->piece_bytes + bytes > DSW_USER_PIECE_BYTES)
                if (!pieces_give_way(session))
                        return 0;
        pieces->charge = bytes;
        session->piece_bytes += bytes;
        session->user->piece_bytes += bytes;
        return 1;
}

/* Allocates arrays for the largest number of pieces that this many nodes can give. Returns 0; anything else: there
 * is no room. */
static int pieces_reserve(struct dsw_session *session, struct dsw_pieces *pieces, uint32_t n_nodes, size_t n_deps)
{
        uint32_t most = n_nodes / 2;

        if (!pieces_charge(session, pieces,
                    sizeof(*pieces) + most * sizeof(*pieces->at) + n_nodes * sizeof(*pieces->nodes) +
                            n_deps * sizeof(*pieces->deps)))
                return -1;
        pieces->at = ds_alloc0(DS_MAX(most, 1u), sizeof(*pieces->at));
        pieces->deps = ds_alloc0(DS_MAX(n_deps, (size_t)1), sizeof(*pieces->deps));
        return pieces->at && pieces->deps ? 0 : -1;
}

void dsw_pieces_cut(struct dsw_session *session, const struct dsw_graph *graph, struct dsw_pieces **home)
{
        uint32_t n = dsw_graph_n_nodes(graph);
        ds_cleanup(ds_freep) uint64_t *expected_ns = NULL;
        struct dsw_pieces *pieces;
        size_t n_deps;

        if (!session->worker->ops->graph_new || n < 2 || n > DSW_PIECE_NODES_MAX)
                return;
        expected_ns = ds_alloc0(n, sizeof(*expected_ns));
        pieces = ds_alloc0(1, sizeof(*pieces));
        if (!pieces)
                return;
        DL_APPEND(session->pieces, pieces);
        pieces->home = home;
        pieces->n_used = 1; /* marks these pieces as in use, so that making room for them does not free them */
        pieces->nodes = ds_alloc0(n, sizeof(*pieces->nodes));
        if (expected_ns && pieces->nodes && graph_is_known(session, graph, pieces->nodes, expected_ns, &n_deps) &&
                !pieces_reserve(session, pieces, n, n_deps))
                cut_all(session, graph, pieces, expected_ns);
        pieces->n_used = 0;
        if (pieces->n)
                *home = pieces;
        else
                dsw_pieces_free(session, pieces);
}

void dsw_pieces_free(struct dsw_session *session, struct dsw_pieces *pieces)
{
        ds_worker *worker = session->worker;

        if (!pieces)
                return;
        assert(!pieces->n_used);
        for (uint32_t i = 0; i < pieces->n; i++)
                worker->ops->graph_free(worker->device, pieces->at[i].sched.device);
        if (pieces->n)
                dsw_quiesce_chore(worker);
        DL_DELETE(session->pieces, pieces);
        session->n_pieces -= pieces->n;
        session->piece_bytes -= pieces->charge;
        session->user->piece_bytes -= pieces->charge;
        ds_free(pieces->at);
        ds_free(pieces->nodes);
        ds_free(pieces->deps);
        ds_free(pieces);
}

void dsw_piece_use(struct dsw_session *session, const struct dsw_piece *piece)
{
        piece->of->n_used++;
        DL_DELETE(session->pieces, piece->of);
        DL_APPEND(session->pieces, piece->of);
}

void dsw_piece_unuse(const struct dsw_piece *piece)
{
        assert(piece->of->n_used);
        piece->of->n_used--;
}

const struct dsw_piece *dsw_pieces_at(const struct dsw_pieces *pieces, uint32_t node)
{
        uint32_t low = 0, high = pieces ? pieces->n : 0;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (pieces->at[middle].first < node)
                        low = middle + 1;
                else
                        high = middle;
        }
        return pieces && low < pieces->n && pieces->at[low].first == node ? &pieces->at[low] : NULL;
}
