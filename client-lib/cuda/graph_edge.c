/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that change the edges of a graph
 *
 * They may create a cycle, which is detected when the graph is instantiated.
 */
#include "cuda/graph.h"

/* *ret_from, *ret_to: the nodes of an edge. 0: they are not two different nodes of the graph. */
static int ends_of(const struct dcu_graph *graph, CUgraphNode from, CUgraphNode to, struct dcu_node **ret_from,
        struct dcu_node **ret_to)
{
        *ret_from = dcu_node_of(from);
        *ret_to = dcu_node_of(to);
        return *ret_from && *ret_to && *ret_from != *ret_to && (*ret_from)->graph == graph && (*ret_to)->graph == graph;
}

static CUresult add_edge(struct dcu_graph *graph, CUgraphNode from, CUgraphNode to, const CUgraphEdgeData *data)
{
        struct dcu_node *a, *b;

        if (!ends_of(graph, from, to, &a, &b) || dcu_node_edge(a, b))
                return CUDA_ERROR_INVALID_VALUE;
        return dcu_node_connect(a, b, data);
}

static CUresult remove_edge(struct dcu_graph *graph, CUgraphNode from, CUgraphNode to, const CUgraphEdgeData *data)
{
        const struct dcu_edge *edge;
        struct dcu_node *a, *b;

        if (!ends_of(graph, from, to, &a, &b))
                return CUDA_ERROR_INVALID_VALUE;
        edge = dcu_node_edge(a, b);
        if (!edge || (data && (data->from_port != edge->data.from_port || data->type != edge->data.type)))
                return CUDA_ERROR_INVALID_VALUE;
        dcu_node_disconnect(a, b);
        return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
        const CUgraphEdgeData *edgeData, size_t numDependencies)
{
        struct dcu_graph *graph;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (numDependencies && (!from || !to))
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        graph = dcu_graph_of(hGraph);
        r = graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        for (size_t i = 0; i < numDependencies && r == CUDA_SUCCESS; i++)
                r = add_edge(graph, from[i], to[i], edgeData ? &edgeData[i] : NULL);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
        return cuGraphAddDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
        const CUgraphEdgeData *edgeData, size_t numDependencies)
{
        struct dcu_graph *graph;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (numDependencies && (!from || !to))
                return CUDA_ERROR_INVALID_VALUE;
        pthread_mutex_lock(&dcu.lock);
        graph = dcu_graph_of(hGraph);
        r = graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        if (graph && graph->n_memory)
                r = CUDA_ERROR_NOT_SUPPORTED;
        for (size_t i = 0; i < numDependencies && r == CUDA_SUCCESS; i++)
                r = remove_edge(graph, from[i], to[i], edgeData ? &edgeData[i] : NULL);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult cuGraphRemoveDependencies(
        CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies)
{
        return cuGraphRemoveDependencies_v2(hGraph, from, to, NULL, numDependencies);
}
