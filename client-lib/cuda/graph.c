/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: nodes and edges
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/graph.h"

static unsigned long long next_id;
static uint32_t walks;

uint32_t dcu_walk_new(void)
{
        return ++walks;
}

int dcu_array_grow(void *array, uint32_t *space, uint32_t n, size_t element)
{
        void **p = array;
        uint32_t more = *space ? *space * 2 : 4;
        void *larger;

        if (n < *space)
                return 1;
        larger = realloc(*p, more * element);
        if (!larger)
                return 0;
        *p = larger;
        *space = more;
        return 1;
}

struct dcu_graph *dcu_graph_new(void)
{
        struct dcu_graph *graph = dcu_object_new(DCU_GRAPH, sizeof(*graph), NULL);

        if (graph)
                graph->id = ++next_id;
        return graph;
}

void dcu_graphs_unlock(void)
{
        struct dcu_user_object *due = dcu_users_due();

        pthread_mutex_unlock(&dcu.lock);
        while (due) {
                dcu_users_destroy(due);
                pthread_mutex_lock(&dcu.lock);
                due = dcu_users_due();
                pthread_mutex_unlock(&dcu.lock);
        }
}

/* --- edges --- */

struct dcu_edge *dcu_node_edge(struct dcu_node *from, struct dcu_node *to)
{
        for (uint32_t i = 0; i < to->n_deps; i++) {
                if (to->deps[i].node == from)
                        return &to->deps[i];
        }
        return NULL;
}

CUresult dcu_node_connect(struct dcu_node *from, struct dcu_node *to, const CUgraphEdgeData *data)
{
        if (!dcu_array_grow(&to->deps, &to->deps_space, to->n_deps, sizeof(*to->deps)) ||
                !dcu_array_grow(&from->users, &from->users_space, from->n_users, sizeof(struct dcu_node *)))
                return CUDA_ERROR_OUT_OF_MEMORY;
        to->deps[to->n_deps++] = (struct dcu_edge){from, data ? *data : (CUgraphEdgeData){0}};
        from->users[from->n_users++] = to;
        return CUDA_SUCCESS;
}

static void forget_user(struct dcu_node *node, const struct dcu_node *user)
{
        for (uint32_t i = 0; i < node->n_users; i++) {
                if (node->users[i] == user) {
                        memmove(&node->users[i], &node->users[i + 1],
                                (--node->n_users - i) * sizeof(struct dcu_node *));
                        return;
                }
        }
}

int dcu_node_disconnect(struct dcu_node *from, struct dcu_node *to)
{
        struct dcu_edge *edge = dcu_node_edge(from, to);

        if (!edge)
                return 0;
        memmove(edge, edge + 1, (size_t)(&to->deps[to->n_deps] - (edge + 1)) * sizeof(*edge));
        to->n_deps--;
        forget_user(from, to);
        return 1;
}

static int edge_data_valid(const CUgraphEdgeData *data)
{
        static const CUgraphEdgeData none;

        return data->from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER && data->to_port == 0 &&
               data->type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
               memcmp(data->reserved, none.reserved, sizeof(none.reserved)) == 0;
}

CUresult dcu_edges_of(const struct dcu_graph *graph, const CUgraphNode *deps, const CUgraphEdgeData *data,
        size_t n_deps, struct dcu_edge **ret)
{
        uint32_t walk = dcu_walk_new();
        struct dcu_edge *edges;

        *ret = NULL;
        if (n_deps == 0)
                return CUDA_SUCCESS;
        if (!deps || n_deps > graph->n_nodes)
                return CUDA_ERROR_INVALID_VALUE;
        edges = calloc(n_deps, sizeof(*edges));
        if (!edges)
                return CUDA_ERROR_OUT_OF_MEMORY;
        for (size_t i = 0; i < n_deps; i++) {
                edges[i].node = dcu_node_of(deps[i]);
                if (data)
                        edges[i].data = data[i];
                if (!edges[i].node || edges[i].node->graph != graph || edges[i].node->seen == walk ||
                        !edge_data_valid(&edges[i].data)) {
                        free(edges);
                        return CUDA_ERROR_INVALID_VALUE;
                }
                edges[i].node->seen = walk;
        }
        *ret = edges;
        return CUDA_SUCCESS;
}

/* --- nodes --- */

/* Adds (sign 1) or subtracts (sign -1) the node in the counts of its graph and of all enclosing graphs. */
static void count_node(struct dcu_graph *graph, const struct dcu_work *work, int sign)
{
        uint32_t total = 1, memory = 0;

        if (work->type == CU_GRAPH_NODE_TYPE_GRAPH) {
                total += work->child->n_total;
                memory = work->child->n_memory;
        } else if (work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || work->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
                memory = 1;
        }
        for (; graph; graph = graph->parent ? graph->parent->graph : NULL) {
                graph->n_total += sign > 0 ? total : -total;
                graph->n_memory += sign > 0 ? memory : -memory;
        }
}

static int is_full(const struct dcu_graph *graph, const struct dcu_work *work)
{
        uint32_t more = work->type == CU_GRAPH_NODE_TYPE_GRAPH ? work->child->n_total + 1 : 1;
        uint32_t depth = work->type == CU_GRAPH_NODE_TYPE_GRAPH ? work->child->depth + 1 : 0;

        for (; graph->parent; graph = graph->parent->graph)
                depth++;
        return graph->n_total + more > DCU_GRAPH_NODES_MAX || depth > DCU_GRAPH_DEPTH_MAX;
}

/* Puts a child graph into its node. */
static void adopt(struct dcu_node *node, struct dcu_graph *child)
{
        uint32_t depth = child->depth + 1;

        child->parent = node;
        for (struct dcu_graph *graph = node->graph; graph; graph = graph->parent ? graph->parent->graph : NULL) {
                if (graph->depth < depth)
                        graph->depth = depth;
                depth++;
        }
}

static void release_node(struct dcu_node *node)
{
        free(node->deps);
        free(node->users);
        dcu_object_free(&node->head);
}

static int frees(const struct dcu_graph *graph, const struct dcu_graph_memory *memory)
{
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
                const struct dcu_work *work = graph->nodes[i]->work;

                if (work->type == CU_GRAPH_NODE_TYPE_MEM_FREE && work->memory.memory == memory)
                        return 1;
        }
        return 0;
}

CUresult dcu_node_add(struct dcu_graph *graph, struct dcu_work *work, const struct dcu_edge *deps, size_t n_deps,
        struct dcu_node **ret)
{
        struct dcu_node *node;
        CUresult r = CUDA_SUCCESS;

        if (work->type == CU_GRAPH_NODE_TYPE_MEM_FREE && frees(graph, work->memory.memory))
                return CUDA_ERROR_INVALID_VALUE;
        if (is_full(graph, work) ||
                !dcu_array_grow(&graph->nodes, &graph->nodes_space, graph->n_nodes, sizeof(struct dcu_node *)))
                return CUDA_ERROR_OUT_OF_MEMORY;
        node = dcu_object_new(DCU_NODE, sizeof(*node), NULL);
        if (!node)
                return CUDA_ERROR_OUT_OF_MEMORY;
        node->graph = graph;
        for (size_t i = 0; i < n_deps && r == CUDA_SUCCESS; i++)
                r = dcu_node_connect(deps[i].node, node, &deps[i].data);
        if (r != CUDA_SUCCESS) {
                while (node->n_deps)
                        dcu_node_disconnect(node->deps[0].node, node);
                release_node(node);
                return r;
        }
        node->work = work;
        node->index = graph->n_nodes;
        graph->nodes[graph->n_nodes++] = node;
        if (work->type == CU_GRAPH_NODE_TYPE_GRAPH)
                adopt(node, work->child);
        count_node(graph, work, 1);
        *ret = node;
        return CUDA_SUCCESS;
}

void dcu_node_remove(struct dcu_node *node)
{
        struct dcu_graph *graph = node->graph;

        while (node->n_deps)
                dcu_node_disconnect(node->deps[0].node, node);
        while (node->n_users)
                dcu_node_disconnect(node, node->users[0]);
        count_node(graph, node->work, -1);
        graph->n_nodes--;
        for (uint32_t i = node->index; i < graph->n_nodes; i++) {
                graph->nodes[i] = graph->nodes[i + 1];
                graph->nodes[i]->index = i;
        }
        dcu_work_drop(node->work);
        release_node(node);
}

void dcu_graph_free(struct dcu_graph *graph)
{
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
                dcu_work_drop(graph->nodes[i]->work);
                release_node(graph->nodes[i]);
        }
        dcu_users_drop(graph);
        free(graph->nodes);
        free(graph->users);
        dcu_object_free(&graph->head);
}

/* --- whole graphs --- */

static CUresult clone_nodes(const struct dcu_graph *from, struct dcu_graph *to)
{
        for (uint32_t i = 0; i < from->n_nodes; i++) {
                struct dcu_work *work = NULL;
                struct dcu_node *node;
                CUresult r = dcu_work_clone(from->nodes[i]->work, &work);

                if (r == CUDA_SUCCESS)
                        r = dcu_node_add(to, work, NULL, 0, &node);
                if (r != CUDA_SUCCESS) {
                        if (work)
                                dcu_work_drop(work);
                        return r;
                }
                node->original = dcu_handle(from->nodes[i]);
                node->disabled = from->nodes[i]->disabled;
        }
        return CUDA_SUCCESS;
}

static CUresult clone_edges(const struct dcu_graph *from, struct dcu_graph *to)
{
        CUresult r = CUDA_SUCCESS;

        for (uint32_t i = 0; i < from->n_nodes; i++) {
                const struct dcu_node *node = from->nodes[i];

                for (uint32_t k = 0; k < node->n_deps && r == CUDA_SUCCESS; k++)
                        r = dcu_node_connect(to->nodes[node->deps[k].node->index], to->nodes[i], &node->deps[k].data);
        }
        return r;
}

CUresult dcu_graph_clone(const struct dcu_graph *graph, struct dcu_graph **ret)
{
        struct dcu_graph *clone = dcu_graph_new();
        CUresult r;

        if (!clone)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = clone_nodes(graph, clone);
        if (r == CUDA_SUCCESS)
                r = clone_edges(graph, clone);
        if (r == CUDA_SUCCESS)
                r = dcu_users_copy(graph, clone);
        if (r != CUDA_SUCCESS) {
                dcu_graph_free(clone);
                return r;
        }
        clone->original = dcu_handle(graph);
        *ret = clone;
        return CUDA_SUCCESS;
}

/* Uses Kahn's algorithm. If several nodes are ready, the one that became ready first comes first. */
CUresult dcu_graph_order(const struct dcu_graph *graph, struct dcu_node ***ret)
{
        struct dcu_node **order = malloc((graph->n_nodes + 1) * sizeof(struct dcu_node *));
        uint32_t n = 0;

        if (!order)
                return CUDA_ERROR_OUT_OF_MEMORY;
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
                graph->nodes[i]->count = graph->nodes[i]->n_deps;
                if (graph->nodes[i]->n_deps == 0)
                        order[n++] = graph->nodes[i];
        }
        for (uint32_t i = 0; i < n; i++) {
                for (uint32_t k = 0; k < order[i]->n_users; k++) {
                        if (--order[i]->users[k]->count == 0)
                                order[n++] = order[i]->users[k];
                }
        }
        if (n != graph->n_nodes) {
                free(order);
                return CUDA_ERROR_INVALID_VALUE;
        }
        *ret = order;
        return CUDA_SUCCESS;
}
