/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on graphs: nodes and edges, copies, queries
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/graph.h"

/* --- helpers of the calls that add and change nodes --- */

static int is_memory(const struct dcu_work *work)
{
        return work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || work->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

static CUresult add_locked(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *data,
        size_t n_deps, struct dcu_work *work)
{
        struct dcu_graph *g = dcu_graph_of(graph);
        struct dcu_edge *edges = NULL;
        struct dcu_node *node;
        CUresult r;

        if (!g)
                return CUDA_ERROR_INVALID_VALUE;
        /* a child graph may run more than once per launch, which CUDA does not allow for memory nodes */
        if (g->parent && is_memory(work))
                return CUDA_ERROR_NOT_SUPPORTED;
        r = dcu_edges_of(g, deps, data, n_deps, &edges);
        if (r == CUDA_SUCCESS)
                r = dcu_node_add(g, work, edges, n_deps, &node);
        if (r == CUDA_SUCCESS)
                *ret = dcu_handle(node);
        free(edges);
        return r;
}

CUresult dcu_graph_add(CUgraphNode *ret, CUgraph graph, const CUgraphNode *deps, const CUgraphEdgeData *data,
        size_t n_deps, CUresult r, struct dcu_work *work)
{
        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        r = ret ? add_locked(ret, graph, deps, data, n_deps, work) : CUDA_ERROR_INVALID_VALUE;
        if (r != CUDA_SUCCESS)
                dcu_work_drop(work);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult dcu_node_work(CUgraphNode node, CUgraphNodeType type, const struct dcu_work **ret)
{
        const struct dcu_node *n = dcu_node_of(node);
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!n || n->work->type != type)
                return CUDA_ERROR_INVALID_VALUE;
        *ret = n->work;
        return CUDA_SUCCESS;
}

CUresult dcu_node_set(CUgraphNode node, CUresult r, struct dcu_work *work)
{
        struct dcu_node *n;

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        n = dcu_node_of(node);
        if (n && n->work->type == work->type) {
                struct dcu_work *old = n->work;

                n->work = work;
                work = old;
        } else {
                r = CUDA_ERROR_INVALID_VALUE;
        }
        dcu_work_drop(work);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

/* --- graphs --- */

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
        struct dcu_graph *graph;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!phGraph || flags != 0)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        graph = dcu_graph_new();
        if (graph)
                *phGraph = dcu_handle(graph);
        pthread_mutex_unlock(&dcu.lock);
        return graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
        struct dcu_graph *graph;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        graph = dcu_graph_of(hGraph);
        if (!graph || graph->parent)
                r = CUDA_ERROR_INVALID_VALUE;
        else if (graph->capture)
                r = CUDA_ERROR_ILLEGAL_STATE;
        else
                dcu_graph_free(graph);
        dcu_graphs_unlock();
        return r;
}

static CUresult clone_locked(CUgraph original, CUgraph *ret)
{
        const struct dcu_graph *graph = dcu_graph_of(original);
        struct dcu_graph *clone;
        CUresult r;

        if (!graph)
                return CUDA_ERROR_INVALID_VALUE;
        if (graph->n_memory) /* one memory node belongs to one graph, so a graph with memory nodes cannot be cloned */
                return CUDA_ERROR_NOT_SUPPORTED;
        r = dcu_graph_clone(graph, &clone);
        if (r == CUDA_SUCCESS)
                *ret = dcu_handle(clone);
        return r;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!phGraphClone)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        r = clone_locked(originalGraph, phGraphClone);
        dcu_graphs_unlock();
        return r;
}

static struct dcu_node *find_in_clone(const struct dcu_graph *clone, CUgraphNode original)
{
        for (uint32_t i = 0; i < clone->n_nodes; i++) {
                struct dcu_node *node = clone->nodes[i], *inner = NULL;

                if (node->original == original)
                        return node;
                if (node->work->type == CU_GRAPH_NODE_TYPE_GRAPH)
                        inner = find_in_clone(node->work->child, original);
                if (inner)
                        return inner;
        }
        return NULL;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
        const struct dcu_graph *clone;
        struct dcu_node *node = NULL;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        clone = dcu_graph_of(hClonedGraph);
        if (phNode && clone && clone->original && dcu_node_of(hOriginalNode))
                node = find_in_clone(clone, hOriginalNode);
        if (node)
                *phNode = dcu_handle(node);
        pthread_mutex_unlock(&dcu.lock);
        return node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- nodes --- */

CUresult cuGraphAddEmptyNode(
        CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies)
{
        struct dcu_work *work = NULL;
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS)
                r = dcu_work_empty(&work);
        return dcu_graph_add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r, work);
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
        const struct dcu_node *node = dcu_node_of(hNode);
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!node || !type)
                return CUDA_ERROR_INVALID_VALUE;
        *type = node->work->type;
        return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
        struct dcu_node *node;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        node = dcu_node_of(hNode);
        if (!node)
                r = CUDA_ERROR_INVALID_VALUE;
        else if (node->graph->capture)
                r = CUDA_ERROR_ILLEGAL_STATE;
        else if (node->graph->n_memory)
                r = CUDA_ERROR_NOT_SUPPORTED;
        else
                dcu_node_remove(node);
        dcu_graphs_unlock();
        return r;
}

/* --- lists --- */

/* Writes nodes to the program's array, by CUDA's convention: without an array, *ret_n becomes the number of nodes;
 * an array with more elements is filled up with NULLs. */
static CUresult give_nodes(struct dcu_node *const *nodes, size_t n, CUgraphNode *ret, size_t *ret_n)
{
        if (ret) {
                for (size_t i = 0; i < *ret_n; i++)
                        ret[i] = i < n ? dcu_handle(nodes[i]) : NULL;
        }
        if (!ret || *ret_n > n)
                *ret_n = n;
        return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
        const struct dcu_graph *graph;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!numNodes)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        graph = dcu_graph_of(hGraph);
        r = graph ? give_nodes(graph->nodes, graph->n_nodes, nodes, numNodes) : CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

static CUresult give_roots(const struct dcu_graph *graph, CUgraphNode *ret, size_t *ret_n)
{
        struct dcu_node **roots = malloc((graph->n_nodes + 1) * sizeof(struct dcu_node *));
        size_t n = 0;

        if (!roots)
                return CUDA_ERROR_OUT_OF_MEMORY;
        for (uint32_t i = 0; i < graph->n_nodes; i++) {
                if (graph->nodes[i]->n_deps == 0)
                        roots[n++] = graph->nodes[i];
        }
        give_nodes(roots, n, ret, ret_n);
        free(roots);
        return CUDA_SUCCESS;
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
        const struct dcu_graph *graph;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!numRootNodes)
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        graph = dcu_graph_of(hGraph);
        r = graph ? give_roots(graph, rootNodes, numRootNodes) : CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

static int is_plain(const CUgraphEdgeData *data)
{
        return !data->from_port && !data->type;
}

/* Writes edge i into the program's arrays, if they have `room` for it. 0: the edge has data, and the program passed
 * no array for data. */
static int give_edge(struct dcu_node *to, const struct dcu_edge *edge, size_t i, size_t room, CUgraphNode *ret_from,
        CUgraphNode *ret_to, CUgraphEdgeData *ret_data)
{
        if (i >= room)
                return 1;
        if (ret_from)
                ret_from[i] = dcu_handle(edge->node);
        if (ret_to)
                ret_to[i] = dcu_handle(to);
        if (ret_data)
                ret_data[i] = edge->data;
        return ret_data || (!ret_from && !ret_to) || is_plain(&edge->data);
}

/* Clears the elements of the program's arrays behind the last edge. */
static void give_rest(size_t n, size_t *ret_n, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data)
{
        for (size_t i = n; (from || to) && i < *ret_n; i++) {
                if (from)
                        from[i] = NULL;
                if (to)
                        to[i] = NULL;
                if (data)
                        data[i] = (CUgraphEdgeData){0};
        }
        if ((!from && !to) || *ret_n > n)
                *ret_n = n;
}

static CUresult give_edges(
        const struct dcu_graph *graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data, size_t *ret_n)
{
        size_t n = 0;

        for (uint32_t i = 0; i < graph->n_nodes; i++) {
                const struct dcu_node *node = graph->nodes[i];

                for (uint32_t k = 0; k < node->n_deps; k++) {
                        if (!give_edge(graph->nodes[i], &node->deps[k], n++, *ret_n, from, to, data))
                                return CUDA_ERROR_LOSSY_QUERY;
                }
        }
        give_rest(n, ret_n, from, to, data);
        return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(
        CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData, size_t *numEdges)
{
        const struct dcu_graph *graph;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!numEdges || !from != !to || (edgeData && !from))
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        graph = dcu_graph_of(hGraph);
        r = graph ? give_edges(graph, from, to, edgeData, numEdges) : CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
        return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

static CUresult give_deps(struct dcu_node *node, CUgraphNode *from, CUgraphEdgeData *data, size_t *ret_n)
{
        for (uint32_t k = 0; k < node->n_deps; k++) {
                if (!give_edge(node, &node->deps[k], k, *ret_n, from, NULL, data))
                        return CUDA_ERROR_LOSSY_QUERY;
        }
        give_rest(node->n_deps, ret_n, from, NULL, data);
        return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies_v2(
        CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData, size_t *numDependencies)
{
        struct dcu_node *node;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!numDependencies || (edgeData && !dependencies))
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        node = dcu_node_of(hNode);
        r = node ? give_deps(node, dependencies, edgeData, numDependencies) : CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies)
{
        return cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies);
}

static CUresult give_users(struct dcu_node *node, CUgraphNode *to, CUgraphEdgeData *data, size_t *ret_n)
{
        for (uint32_t k = 0; k < node->n_users; k++) {
                if (!give_edge(node->users[k], dcu_node_edge(node, node->users[k]), k, *ret_n, NULL, to, data))
                        return CUDA_ERROR_LOSSY_QUERY;
        }
        give_rest(node->n_users, ret_n, NULL, to, data);
        return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependentNodes_v2(
        CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
        struct dcu_node *node;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!numDependentNodes || (edgeData && !dependentNodes))
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        node = dcu_node_of(hNode);
        r = node ? give_users(node, dependentNodes, edgeData, numDependentNodes) : CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes)
{
        return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL, numDependentNodes);
}
