/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts graphs into pieces: where to cut, and the small graphs that result
 */
#include "worker/graph_piece.h"

#include <assert.h>
#include <string.h>

#include "sched/kstat.h"
#include "util/alloc.h"
#include "util/macro.h"
#include "worker/internal.h"

/* Pieces of one length. */
struct layer {
        uint32_t n;
        struct dsw_piece *at;         /* array of the pieces, sorted by their first node */
        struct ds_device_node *nodes; /* all nodes of the graph, by index; the pieces need dependencies of their own */
        uint32_t *deps;               /* dependencies of all nodes, one node after another */
};

struct dsw_pieces {
        uint32_t n_used;
        struct dsw_pieces **home, *prev, *next; /* in the session's list, ordered by the latest launch of a piece */
        struct layer layers[_DSW_PIECE_LENGTHS];
        uint64_t charge;
};

/* A run of nodes that grows during the walk over the graph. */
struct cut {
        struct dsw_pieces *pieces;
        enum dsw_piece_length length;
        uint64_t least_ns, most_ns;   /* expected duration of a piece */
        uint32_t *deps;               /* room for dependencies of nodes of later pieces */
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

/* Whether a node with work can be in no piece, however long. */
static int node_is_alone(const ds_worker *worker, const struct ds_device_node *node, const struct dsw_kernel *kernel)
{
        if (node->kind != DS_NODE_LAUNCH)
                return 0;
        if (worker->transform != DS_SCHED_TRANSFORM_NEVER && (kernel->sched.sliced || kernel->sched.persistent))
                return 1;
        return ds_sched_all_resident(worker->sched, &node->launch);
}

/* --- pieces ------------------------------------------------------------------------------------------------------- */

static const struct dsw_piece *layer_at(const struct layer *layer, uint32_t node)
{
        uint32_t low = 0, high = layer->n;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (layer->at[middle].first < node)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < layer->n && layer->at[low].first == node ? &layer->at[low] : NULL;
}

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

static void piece_describe(struct dsw_session *session, struct dsw_piece *piece, const struct cut *cut)
{
        const struct ds_device_node *nodes = cut->pieces->layers[cut->length].nodes;
        const uint64_t away_ns = DSW_PIECE_AWAY * cut->ns;

        piece->sched.key = 2; /* base of the keys of pieces, which must differ from the keys of whole graphs */
        for (uint32_t i = piece->first; i < piece->end; i++) {
                const struct ds_device_node *node = &nodes[i];

                piece->sched.n_works += node->kind != DS_NODE_NOTHING;
                if (node->kind == DS_NODE_LAUNCH)
                        ds_sched_graph_add(session->worker->sched, &piece->sched, &node->launch);
                else if (node->kind != DS_NODE_NOTHING)
                        piece->sched.key = ds_kstat_mix(piece->sched.key, node->kind);
        }
        ds_sched_graph_piece(session->worker->sched, &piece->sched, cut->ns,
                cut->length == DSW_PIECE_LONG ? DS_MAX(away_ns, DSW_PIECE_LONG_AWAY_NS) : away_ns);
}

/* Makes a piece of the collected nodes if there are enough of them and the device accepts it. Otherwise these nodes
 * run singly. */
static void cut_close(struct dsw_session *session, struct cut *cut)
{
        struct layer *layer = &cut->pieces->layers[cut->length];
        struct dsw_piece *piece = &layer->at[layer->n];
        ds_worker *worker = session->worker;
        uint32_t n_works = cut->n_works;

        cut->n_works = 0;
        if (n_works < 2 || cut->ns < cut->least_ns)
                return;
        while (session->n_pieces >= DSW_SESSION_PIECES_MAX)
                if (!pieces_give_way(session))
                        return;
        *piece = (struct dsw_piece){.first = cut->first, .end = cut->end, .length = cut->length, .of = cut->pieces};
        for (uint32_t i = piece->first; i < piece->end; i++)
                cut->deps += piece_deps(piece, &layer->nodes[i], cut->deps);
        if (worker->ops->graph_new(worker->device, session->space, &layer->nodes[piece->first],
                    piece->end - piece->first, &piece->sched.device))
                return;
        piece_describe(session, piece, cut);
        layer->n++;
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

/* Whether no piece may cross the beginning of this node, because a longer piece begins or ends there. */
static int cut_is_bounded(const struct cut *cut, uint32_t node, const struct dsw_piece **around)
{
        const struct dsw_piece *begins = NULL;

        if (cut->length != DSW_PIECE_LONG)
                begins = layer_at(&cut->pieces->layers[DSW_PIECE_LONG], node);
        if (!begins && (!*around || node != (*around)->end))
                return 0;
        *around = begins;
        return 1;
}

static void cut_all(
        struct dsw_session *session, const struct dsw_graph *graph, struct cut *cut, const uint64_t *expected_ns)
{
        struct layer *layer = &cut->pieces->layers[cut->length];
        const struct dsw_piece *around = NULL;

        cut->deps = layer->deps;
        for (uint32_t i = 0; i < dsw_graph_n_nodes(graph); i++) {
                enum dsw_node_class class_ = dsw_graph_node_class(graph, i);
                int alone = class_ == DSW_NODE_ODD ||
                            (class_ == DSW_NODE_WORK &&
                                    (expected_ns[i] > cut->most_ns || node_is_alone(session->worker, &layer->nodes[i],
                                                                              dsw_graph_node_kernel(graph, i))));

                if (cut_is_bounded(cut, i, &around))
                        cut_close(session, cut);
                if (class_ == DSW_NODE_EMPTY)
                        continue;
                if (alone || cut->ns + expected_ns[i] > cut->most_ns)
                        cut_close(session, cut);
                if (!alone)
                        cut_add(cut, i, expected_ns[i]);
        }
        cut_close(session, cut);
}

/* Cuts into long pieces first: the short ones keep within them. */
static void cut_lengths(struct dsw_session *session, const struct dsw_graph *graph, struct dsw_pieces *pieces,
        const uint64_t *expected_ns)
{
        const uint64_t most_ns = session->worker->piece_ns;
        struct cut longer = {.pieces = pieces,
                .length = DSW_PIECE_LONG,
                .least_ns = most_ns + 1,
                .most_ns = DSW_PIECE_LONG_TIMES * most_ns};
        struct cut shorter = {.pieces = pieces, .length = DSW_PIECE_SHORT, .most_ns = most_ns};

        cut_all(session, graph, &longer, expected_ns);
        cut_all(session, graph, &shorter, expected_ns);
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
static int pieces_reserve(struct dsw_session *session, struct dsw_pieces *pieces, const struct ds_device_node *nodes,
        uint32_t n, size_t n_deps)
{
        const uint32_t most = n / 2;
        const size_t bytes = most * sizeof(*pieces->layers->at) + n * sizeof(*nodes) + n_deps * sizeof(uint32_t);

        if (!pieces_charge(session, pieces, sizeof(*pieces) + _DSW_PIECE_LENGTHS * bytes))
                return -1;
        for (size_t i = 0; i < _DSW_PIECE_LENGTHS; i++) {
                struct layer *layer = &pieces->layers[i];

                layer->at = ds_alloc0(DS_MAX(most, 1u), sizeof(*layer->at));
                layer->nodes = ds_alloc0(n, sizeof(*layer->nodes));
                layer->deps = ds_alloc0(DS_MAX(n_deps, (size_t)1), sizeof(*layer->deps));
                if (!layer->at || !layer->nodes || !layer->deps)
                        return -1;
                memcpy(layer->nodes, nodes, n * sizeof(*nodes));
        }
        return 0;
}

static uint32_t pieces_n(const struct dsw_pieces *pieces)
{
        return pieces->layers[DSW_PIECE_SHORT].n + pieces->layers[DSW_PIECE_LONG].n;
}

void dsw_pieces_cut(struct dsw_session *session, const struct dsw_graph *graph, struct dsw_pieces **home)
{
        uint32_t n = dsw_graph_n_nodes(graph);
        ds_cleanup(ds_freep) uint64_t *expected_ns = NULL;
        ds_cleanup(ds_freep) struct ds_device_node *nodes = NULL;
        struct dsw_pieces *pieces;
        size_t n_deps;

        if (!session->worker->ops->graph_new || n < 2 || n > DSW_PIECE_NODES_MAX ||
                session->worker->piece_ns <= DSW_PIECE_LEAST_NS)
                return;
        expected_ns = ds_alloc0(n, sizeof(*expected_ns));
        pieces = ds_alloc0(1, sizeof(*pieces));
        if (!pieces)
                return;
        DL_APPEND(session->pieces, pieces);
        pieces->home = home;
        pieces->n_used = 1; /* marks these pieces as in use, so that making room for them does not free them */
        nodes = ds_alloc0(n, sizeof(*nodes));
        if (expected_ns && nodes && graph_is_known(session, graph, nodes, expected_ns, &n_deps) &&
                !pieces_reserve(session, pieces, nodes, n, n_deps))
                cut_lengths(session, graph, pieces, expected_ns);
        pieces->n_used = 0;
        if (pieces_n(pieces))
                *home = pieces;
        else
                dsw_pieces_free(session, pieces);
}

void dsw_pieces_free(struct dsw_session *session, struct dsw_pieces *pieces)
{
        ds_worker *worker = session->worker;
        uint32_t n;

        if (!pieces)
                return;
        n = pieces_n(pieces);
        assert(!pieces->n_used);
        DL_DELETE(session->pieces, pieces);
        session->n_pieces -= n;
        session->piece_bytes -= pieces->charge;
        session->user->piece_bytes -= pieces->charge;
        for (size_t i = 0; i < _DSW_PIECE_LENGTHS; i++) {
                struct layer *layer = &pieces->layers[i];

                for (uint32_t k = 0; k < layer->n; k++)
                        worker->ops->graph_free(worker->device, layer->at[k].sched.device);
                ds_free(layer->at);
                ds_free(layer->nodes);
                ds_free(layer->deps);
        }
        if (n)
                dsw_quiesce_chore(worker);
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

const struct dsw_piece *dsw_pieces_at(const struct dsw_pieces *pieces, const struct dsw_piece *around, uint32_t node)
{
        const struct dsw_piece *piece = NULL;

        if (!pieces || (around && around->length == DSW_PIECE_SHORT))
                return NULL;
        if (!around)
                piece = layer_at(&pieces->layers[DSW_PIECE_LONG], node);
        return piece ? piece : layer_at(&pieces->layers[DSW_PIECE_SHORT], node);
}
