/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: nodes and edges, instances, user objects
 *
 * Handles, node types and results have the driver's values; edges have its members.
 */
#include "cudart/rt.h"

_Static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData), "the same members");
_Static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo), "the same members");

cudaError_t cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphCreate(pGraph, flags));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphDestroy(graph));
}

cudaError_t cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphClone(pGraphClone, originalGraph));
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphNodeFindInClone(pNode, originalNode, clonedGraph));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphNodeGetType(node, (CUgraphNodeType *)pType));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphGetNodes(graph, nodes, numNodes));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes));
}

cudaError_t cudaGraphGetEdges(
        cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edgeData, size_t *numEdges)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphGetEdges(graph, from, to, (CUgraphEdgeData *)edgeData, numEdges));
}

cudaError_t cudaGraphNodeGetDependencies(
        cudaGraphNode_t node, cudaGraphNode_t *pDependencies, cudaGraphEdgeData *edgeData, size_t *pNumDependencies)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuGraphNodeGetDependencies(
                           node, pDependencies, (CUgraphEdgeData *)edgeData, pNumDependencies));
}

cudaError_t cudaGraphNodeGetDependentNodes(
        cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes, cudaGraphEdgeData *edgeData, size_t *pNumDependentNodes)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuGraphNodeGetDependentNodes(
                           node, pDependentNodes, (CUgraphEdgeData *)edgeData, pNumDependentNodes));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
        const cudaGraphEdgeData *edgeData, size_t numDependencies)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(
                           cuGraphAddDependencies(graph, from, to, (const CUgraphEdgeData *)edgeData, numDependencies));
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
        const cudaGraphEdgeData *edgeData, size_t numDependencies)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuGraphRemoveDependencies(
                           graph, from, to, (const CUgraphEdgeData *)edgeData, numDependencies));
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphDestroyNode(node));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphInstantiate(pGraphExec, graph, flags));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph, unsigned long long flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphInstantiateWithFlags(pGraphExec, graph, flags));
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long *flags)
{
        cudaError_t e = rt_enter();
        cuuint64_t value = 0;

        if (e != cudaSuccess)
                return e;
        if (!flags)
                return rt_fail(cudaErrorInvalidValue);
        e = rt_error(cuGraphExecGetFlags(graphExec, &value));
        if (e == cudaSuccess)
                *flags = value;
        return e;
}

cudaError_t cudaGraphExecUpdate(
        cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphExecUpdateResultInfo *resultInfo)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphExecUpdate(hGraphExec, hGraph, (CUgraphExecUpdateResultInfo *)resultInfo));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphExecDestroy(graphExec));
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled));
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int *isEnabled)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled));
}

/* Prints with the runtime's types; the other flags have the driver's values. */
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphDebugDotPrint(graph, path, flags | CU_GRAPH_DEBUG_DOT_FLAGS_RUNTIME_TYPES));
}

cudaError_t cudaUserObjectCreate(
        cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy, unsigned int initialRefcount, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags));
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuUserObjectRetain(object, count));
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuUserObjectRelease(object, count));
}

cudaError_t cudaGraphRetainUserObject(
        cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphRetainUserObject(graph, object, count, flags));
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphReleaseUserObject(graph, object, count));
}
