/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on graph nodes other than kernel nodes, and calls on nodes of any kind
 */
#include <string.h>

#include "cuda/exec.h"
#include "cuda/graph.h"

/* --- memory copies --- */

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
        struct dcu_work *work = NULL;
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS)
                r = dcu_work_copy(copyParams, ctx, &work);
        return dcu_graph_add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r, work);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
        const struct dcu_work *work;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &work);

        if (r == CUDA_SUCCESS && !nodeParams)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *nodeParams = work->copy;
        return r;
}

/* *ret: work of a copy node with new parameters, in the node's old context. */
static CUresult other_copy(CUgraphNode node, const CUDA_MEMCPY3D *params, struct dcu_work **ret)
{
        const struct dcu_work *old;
        CUresult r = dcu_node_work(node, CU_GRAPH_NODE_TYPE_MEMCPY, &old);

        return r == CUDA_SUCCESS ? dcu_work_copy(params, old->context, ret) : r;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
        struct dcu_work *work = NULL;
        CUresult r = other_copy(hNode, nodeParams, &work);

        return dcu_node_set(hNode, r, work);
}

CUresult cuGraphExecMemcpyNodeSetParams(
        CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
        struct dcu_work *work = NULL;
        const struct dcu_work *old;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &old);

        if (r == CUDA_SUCCESS)
                r = dcu_work_copy(copyParams, ctx, &work);
        return dcu_exec_set(hGraphExec, hNode, r, work);
}

/* --- memory sets --- */

static CUresult memset_work(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx, struct dcu_work **ret)
{
        const CUDA_MEMSET_NODE_PARAMS_v2 params = {.ctx = ctx,
                .dst = p ? p->dst : 0,
                .pitch = p ? p->pitch : 0,
                .value = p ? p->value : 0,
                .elementSize = p ? p->elementSize : 0,
                .width = p ? p->width : 0,
                .height = p ? p->height : 0};

        return p ? dcu_work_memset(&params, ret) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
        struct dcu_work *work = NULL;
        CUresult r = dcu_enter_process();

        if (r == CUDA_SUCCESS)
                r = memset_work(memsetParams, ctx, &work);
        return dcu_graph_add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r, work);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
        const struct dcu_work *work;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_MEMSET, &work);

        if (r == CUDA_SUCCESS && !nodeParams)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *nodeParams = (CUDA_MEMSET_NODE_PARAMS){work->memset.dst, work->memset.pitch, work->memset.value,
                        work->memset.elementSize, work->memset.width, work->memset.height};
        return r;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
        const struct dcu_work *old;
        struct dcu_work *work = NULL;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_MEMSET, &old);

        if (r == CUDA_SUCCESS)
                r = memset_work(nodeParams, old->context, &work);
        return dcu_node_set(hNode, r, work);
}

CUresult cuGraphExecMemsetNodeSetParams(
        CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
        const struct dcu_work *old;
        struct dcu_work *work = NULL;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_MEMSET, &old);

        if (r == CUDA_SUCCESS)
                r = memset_work(memsetParams, ctx, &work);
        return dcu_exec_set(hGraphExec, hNode, r, work);
}

/* --- host functions --- */

static CUresult host_work(const CUDA_HOST_NODE_PARAMS *params, struct dcu_work **ret)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        return params ? dcu_work_host(params->fn, params->userData, ret) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
        struct dcu_work *work = NULL;
        CUresult r = host_work(nodeParams, &work);

        return dcu_graph_add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r, work);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
        const struct dcu_work *work;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_HOST, &work);

        if (r == CUDA_SUCCESS && !nodeParams)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *nodeParams = (CUDA_HOST_NODE_PARAMS){work->host.fn, work->host.userData};
        return r;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
        struct dcu_work *work = NULL;
        CUresult r = host_work(nodeParams, &work);

        return dcu_node_set(hNode, r, work);
}

CUresult cuGraphExecHostNodeSetParams(
        CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
        struct dcu_work *work = NULL;
        CUresult r = host_work(nodeParams, &work);

        return dcu_exec_set(hGraphExec, hNode, r, work);
}

/* --- events --- */

static CUresult get_event(CUgraphNode node, CUgraphNodeType type, CUevent *ret)
{
        const struct dcu_work *work;
        CUresult r = dcu_node_work(node, type, &work);

        if (r == CUDA_SUCCESS && !ret)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *ret = work->event;
        return r;
}

static CUresult event_work(CUgraphNodeType type, CUevent event, struct dcu_work **ret)
{
        CUresult r = dcu_enter_process();

        return r == CUDA_SUCCESS ? dcu_work_event(type, event, ret) : r;
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUevent event)
{
        struct dcu_work *work = NULL;
        CUresult r = event_work(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work);

        return dcu_graph_add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r, work);
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
        return get_event(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event_out);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
        struct dcu_work *work = NULL;
        CUresult r = event_work(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work);

        return dcu_node_set(hNode, r, work);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
        struct dcu_work *work = NULL;
        CUresult r = event_work(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work);

        return dcu_exec_set(hGraphExec, hNode, r, work);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUevent event)
{
        struct dcu_work *work = NULL;
        CUresult r = event_work(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work);

        return dcu_graph_add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r, work);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
        return get_event(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event_out);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
        struct dcu_work *work = NULL;
        CUresult r = event_work(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work);

        return dcu_node_set(hNode, r, work);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
        struct dcu_work *work = NULL;
        CUresult r = event_work(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work);

        return dcu_exec_set(hGraphExec, hNode, r, work);
}

/* --- child graphs --- */

static CUresult child_work(CUgraph child, CUgraph into, struct dcu_work **ret)
{
        const struct dcu_graph *graph;
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        graph = dcu_graph_of(child);
        if (!graph || child == into)
                r = CUDA_ERROR_INVALID_VALUE;
        else if (graph->n_memory)
                r = CUDA_ERROR_NOT_SUPPORTED;
        else
                r = dcu_work_child(graph, ret);
        dcu_graphs_unlock();
        return r;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUgraph childGraph)
{
        struct dcu_work *work = NULL;
        CUresult r = child_work(childGraph, hGraph, &work);

        return dcu_graph_add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r, work);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
        const struct dcu_work *work;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_GRAPH, &work);

        if (r == CUDA_SUCCESS && !phGraph)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *phGraph = dcu_handle(work->child);
        return r;
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph)
{
        struct dcu_work *work = NULL;
        CUresult r = child_work(childGraph, NULL, &work);

        return dcu_exec_set(hGraphExec, hNode, r, work);
}

/* --- operations on memory words --- */

static CUresult memops_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct dcu_work **ret)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        return p ? dcu_work_memops(p->ctx, p->count, p->paramArray, p->flags, ret) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
        struct dcu_work *work = NULL;
        CUresult r = memops_work(nodeParams, &work);

        return dcu_graph_add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r, work);
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
        const struct dcu_work *work;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &work);

        if (r == CUDA_SUCCESS && !nodeParams_out)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *nodeParams_out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
                        work->memops.ctx, work->memops.count, work->memops.paramArray, work->memops.flags};
        return r;
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
        struct dcu_work *work = NULL;
        CUresult r = memops_work(nodeParams, &work);

        return dcu_node_set(hNode, r, work);
}

CUresult cuGraphExecBatchMemOpNodeSetParams(
        CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
        struct dcu_work *work = NULL;
        CUresult r = memops_work(nodeParams, &work);

        return dcu_exec_set(hGraphExec, hNode, r, work);
}

/* --- memory --- */

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
        CUDA_MEM_ALLOC_NODE_PARAMS_v2 params;
        struct dcu_work *work = NULL;
        CUresult r;

        if (!nodeParams)
                return CUDA_ERROR_INVALID_VALUE;
        params = (CUDA_MEM_ALLOC_NODE_PARAMS_v2){
                nodeParams->poolProps, nodeParams->accessDescs, nodeParams->accessDescCount, nodeParams->bytesize, 0};
        r = dcu_work_alloc(&params, &work);
        r = dcu_graph_add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r, work);
        nodeParams->dptr = r == CUDA_SUCCESS ? params.dptr : 0;
        return r;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
        const struct dcu_work *work;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &work);

        if (r == CUDA_SUCCESS && !params_out)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *params_out = (CUDA_MEM_ALLOC_NODE_PARAMS){
                        work->memory.params.poolProps, NULL, 0, work->memory.params.bytesize, work->memory.params.dptr};
        return r;
}

static CUresult free_work(CUdeviceptr address, struct dcu_work **ret)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        pthread_mutex_lock(&dcu.lock);
        r = dcu_work_free(address, ret);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUdeviceptr dptr)
{
        struct dcu_work *work = NULL;
        CUresult r = free_work(dptr, &work);

        return dcu_graph_add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r, work);
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
        const struct dcu_work *work;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, &work);

        if (r == CUDA_SUCCESS && !dptr_out)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                *dptr_out = work->memory.params.dptr;
        return r;
}

/* --- nodes of any kind --- */

static CUresult kernel_of_params(const CUDA_KERNEL_NODE_PARAMS_v3 *k, const struct dcu_work *old, struct dcu_work **ret)
{
        const CUDA_KERNEL_NODE_PARAMS params = {k->func, k->gridDimX, k->gridDimY, k->gridDimZ, k->blockDimX,
                k->blockDimY, k->blockDimZ, k->sharedMemBytes, k->kernelParams, k->extra, k->kern, k->ctx};

        return dcu_work_kernel(&params, old, ret);
}

static CUresult graph_of_params(const CUDA_CHILD_GRAPH_NODE_PARAMS *params, CUgraph into, struct dcu_work **ret)
{
        if (params->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
                return CUDA_ERROR_NOT_SUPPORTED;
        return params->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE ? child_work(params->graph, into, ret)
                                                                         : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_of_params(const CUDA_MEMCPY_NODE_PARAMS *params, struct dcu_work **ret)
{
        return params->flags || params->reserved ? CUDA_ERROR_INVALID_VALUE
                                                 : dcu_work_copy(&params->copyParams, params->copyCtx, ret);
}

static CUresult work_of_params(CUgraphNodeParams *p, CUgraph into, const struct dcu_work *old, struct dcu_work **ret)
{
        switch ((unsigned int)p->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
                return kernel_of_params(&p->kernel, old, ret);
        case CU_GRAPH_NODE_TYPE_MEMCPY:
                return copy_of_params(&p->memcpy, ret);
        case CU_GRAPH_NODE_TYPE_MEMSET:
                return dcu_work_memset(&p->memset, ret);
        case CU_GRAPH_NODE_TYPE_HOST:
                return dcu_work_host(p->host.fn, p->host.userData, ret);
        case CU_GRAPH_NODE_TYPE_GRAPH:
                return graph_of_params(&p->graph, into, ret);
        case CU_GRAPH_NODE_TYPE_EMPTY:
                return dcu_work_empty(ret);
        case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
                return dcu_work_event(p->type, p->eventWait.event, ret);
        case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
                return dcu_work_event(p->type, p->eventRecord.event, ret);
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
                return dcu_work_memops(p->memOp.ctx, p->memOp.count, p->memOp.paramArray, p->memOp.flags, ret);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
                return old ? CUDA_ERROR_NOT_SUPPORTED : dcu_work_alloc(&p->alloc, ret);
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
                return old ? CUDA_ERROR_NOT_SUPPORTED : free_work(p->free.dptr, ret);
        case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        case CU_GRAPH_NODE_TYPE_CONDITIONAL:
                return CUDA_ERROR_NOT_SUPPORTED;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

static CUresult check_params(const CUgraphNodeParams *params)
{
        CUresult r = dcu_enter_process();

        if (r != CUDA_SUCCESS)
                return r;
        if (!params || params->reserved0[0] || params->reserved0[1] || params->reserved0[2] || params->reserved2)
                return CUDA_ERROR_INVALID_VALUE;
        return CUDA_SUCCESS;
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
        struct dcu_work *work = NULL;
        CUresult r = check_params(nodeParams);

        if (r == CUDA_SUCCESS)
                r = work_of_params(nodeParams, hGraph, NULL, &work);
        return dcu_graph_add(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, r, work);
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, CUgraphNodeParams *nodeParams)
{
        return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, nodeParams);
}

/* *ret: the new work of a node, made from the program's parameters. */
static CUresult other_work(CUgraphNode node, CUgraphNodeParams *params, struct dcu_work **ret)
{
        const struct dcu_work *old;
        CUresult r = check_params(params);

        if (r == CUDA_SUCCESS)
                r = dcu_node_work(node, params->type, &old);
        return r == CUDA_SUCCESS ? work_of_params(params, NULL, old, ret) : r;
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
        struct dcu_work *work = NULL;
        CUresult r = other_work(hNode, nodeParams, &work);

        /* the graph of a child node cannot be replaced; its nodes are changed one by one */
        if (r == CUDA_SUCCESS && work->type == CU_GRAPH_NODE_TYPE_GRAPH) {
                dcu_work_drop_unlocked(work);
                r = CUDA_ERROR_NOT_SUPPORTED;
        }
        return dcu_node_set(hNode, r, work);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
        struct dcu_work *work = NULL;
        CUresult r = other_work(hNode, nodeParams, &work);

        return dcu_exec_set(hGraphExec, hNode, r, work);
}
