/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes for memsets, host functions, events, child graphs and memory
 *
 * Their descriptions have the driver's members; a memset also needs a context.
 */
#include "cudart/rt.h"

_Static_assert(sizeof(struct cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS), "the same members");
_Static_assert(sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS), "the same members");
_Static_assert(sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS), "the same members");

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, const struct cudaMemsetParams *pMemsetParams)
{
        cudaError_t e = rt_enter();
        CUcontext context;

        if (e == cudaSuccess)
                e = rt_error(cuCtxGetCurrent(&context));
        return e ? e
                 : rt_error(cuGraphAddMemsetNode(pGraphNode, graph, pDependencies, numDependencies,
                           (const CUDA_MEMSET_NODE_PARAMS *)pMemsetParams, context));
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *pNodeParams)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphMemsetNodeGetParams(node, (CUDA_MEMSET_NODE_PARAMS *)pNodeParams));
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const struct cudaMemsetParams *pNodeParams)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphMemsetNodeSetParams(node, (const CUDA_MEMSET_NODE_PARAMS *)pNodeParams));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(
        cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const struct cudaMemsetParams *pNodeParams)
{
        cudaError_t e = rt_enter();
        CUcontext context;

        if (e == cudaSuccess)
                e = rt_error(cuCtxGetCurrent(&context));
        return e ? e
                 : rt_error(cuGraphExecMemsetNodeSetParams(
                           hGraphExec, node, (const CUDA_MEMSET_NODE_PARAMS *)pNodeParams, context));
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, const struct cudaHostNodeParams *pNodeParams)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuGraphAddHostNode(pGraphNode, graph, pDependencies, numDependencies,
                           (const CUDA_HOST_NODE_PARAMS *)pNodeParams));
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *pNodeParams)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphHostNodeGetParams(node, (CUDA_HOST_NODE_PARAMS *)pNodeParams));
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const struct cudaHostNodeParams *pNodeParams)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphHostNodeSetParams(node, (const CUDA_HOST_NODE_PARAMS *)pNodeParams));
}

cudaError_t cudaGraphExecHostNodeSetParams(
        cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const struct cudaHostNodeParams *pNodeParams)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuGraphExecHostNodeSetParams(hGraphExec, node, (const CUDA_HOST_NODE_PARAMS *)pNodeParams));
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
        const cudaGraphNode_t *pDependencies, size_t numDependencies, cudaGraph_t childGraph)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuGraphAddChildGraphNode(pGraphNode, graph, pDependencies, numDependencies, childGraph));
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *pGraph)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphChildGraphNodeGetGraph(node, pGraph));
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(
        cudaGraphExec_t hGraphExec, cudaGraphNode_t node, cudaGraph_t childGraph)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphExecChildGraphNodeSetParams(hGraphExec, node, childGraph));
}

cudaError_t cudaGraphAddEmptyNode(
        cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphAddEmptyNode(pGraphNode, graph, pDependencies, numDependencies));
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
        const cudaGraphNode_t *pDependencies, size_t numDependencies, cudaEvent_t event)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphAddEventRecordNode(pGraphNode, graph, pDependencies, numDependencies, event));
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphEventRecordNodeGetEvent(node, event_out));
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphEventRecordNodeSetEvent(node, event));
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t event)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, event));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
        const cudaGraphNode_t *pDependencies, size_t numDependencies, cudaEvent_t event)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphAddEventWaitNode(pGraphNode, graph, pDependencies, numDependencies, event));
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphEventWaitNodeGetEvent(node, event_out));
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphEventWaitNodeSetEvent(node, event));
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, cudaEvent_t event)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphExecEventWaitNodeSetEvent(hGraphExec, hNode, event));
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
        const cudaGraphNode_t *pDependencies, size_t numDependencies, struct cudaMemAllocNodeParams *nodeParams)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuGraphAddMemAllocNode(pGraphNode, graph, pDependencies, numDependencies,
                           (CUDA_MEM_ALLOC_NODE_PARAMS *)nodeParams));
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, struct cudaMemAllocNodeParams *params_out)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphMemAllocNodeGetParams(node, (CUDA_MEM_ALLOC_NODE_PARAMS *)params_out));
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
        const cudaGraphNode_t *pDependencies, size_t numDependencies, void *dptr)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(
                           cuGraphAddMemFreeNode(pGraphNode, graph, pDependencies, numDependencies, (CUdeviceptr)dptr));
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *dptr_out)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphMemFreeNodeGetParams(node, (CUdeviceptr *)dptr_out));
}

cudaError_t cudaGraphConditionalHandleCreate(
        cudaGraphConditionalHandle *pHandle_out, cudaGraph_t graph, unsigned int defaultLaunchValue, unsigned int flags)
{
        cudaError_t e = rt_enter();
        CUgraphConditionalHandle handle = 0;
        CUcontext context;

        if (e == cudaSuccess)
                e = rt_error(cuCtxGetCurrent(&context));
        if (e != cudaSuccess)
                return e;
        if (!pHandle_out)
                return rt_fail(cudaErrorInvalidValue);
        e = rt_error(cuGraphConditionalHandleCreate(&handle, graph, context, defaultLaunchValue, flags));
        if (e == cudaSuccess)
                *pHandle_out = handle;
        return e;
}
