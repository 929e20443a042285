/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of any type: one description that contains the type
 *
 * The driver describes only kernels, copies, memsets and conditions differently; the other members of the union are
 * equal.
 */
#include <string.h>

#include "cudart/graph.h"
#include "cudart/params.h"

_Static_assert(sizeof(struct cudaGraphNodeParams) == sizeof(CUgraphNodeParams), "the same members around the union");
_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == sizeof(CUDA_KERNEL_NODE_PARAMS_v3), "the same members");

/* *ret: the driver's description of a copy node. Refuses a description whose reserved words are not zero. */
static cudaError_t copy_params(const struct cudaMemcpyNodeParams *p, CUcontext context, CUDA_MEMCPY_NODE_PARAMS *ret)
{
        if (p->flags || p->reserved[0] || p->reserved[1] || p->reserved[2])
                return rt_fail(cudaErrorInvalidValue);
        ret->copyCtx = context;
        return rt_copy_3d(&p->copyParams, &ret->copyParams);
}

static cudaError_t convert(const struct cudaGraphNodeParams *p, CUgraphNodeParams *ret)
{
        CUDA_KERNEL_NODE_PARAMS kernel = {0};
        CUcontext context;
        cudaError_t e = rt_enter();

        if (e == cudaSuccess)
                e = rt_error(cuCtxGetCurrent(&context));
        if (e != cudaSuccess)
                return e;
        if (!p)
                return rt_fail(cudaErrorInvalidValue);
        memcpy(ret, p, sizeof(*ret));
        switch (p->type) {
        case cudaGraphNodeTypeKernel:
                memset(ret->reserved1, 0, sizeof(ret->reserved1));
                e = rt_node_kernel(&p->kernel, &kernel);
                memcpy(&ret->kernel, &kernel, sizeof(kernel));
                return e;
        case cudaGraphNodeTypeMemcpy:
                memset(ret->reserved1, 0, sizeof(ret->reserved1));
                return copy_params(&p->memcpy, context, &ret->memcpy);
        case cudaGraphNodeTypeMemset:
                ret->memset.ctx = context;
                return cudaSuccess;
        case cudaGraphNodeTypeConditional:
                ret->conditional.ctx = context;
                return cudaSuccess;
        default:
                return cudaSuccess;
        }
}

/* Copies members that the driver has written back to the program: the address of an allocation, the bodies of a
 * condition. */
static void tell(const CUgraphNodeParams *params, struct cudaGraphNodeParams *ret)
{
        if (ret->type == cudaGraphNodeTypeMemAlloc)
                ret->alloc.dptr = (void *)params->alloc.dptr;
        else if (ret->type == cudaGraphNodeTypeConditional)
                ret->conditional.phGraph_out = params->conditional.phGraph_out;
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        const cudaGraphEdgeData *dependencyData, size_t numDependencies, struct cudaGraphNodeParams *nodeParams)
{
        CUgraphNodeParams params;
        cudaError_t e = convert(nodeParams, &params);

        if (e != cudaSuccess)
                return e;
        e = rt_error(cuGraphAddNode(
                pGraphNode, graph, pDependencies, (const CUgraphEdgeData *)dependencyData, numDependencies, &params));
        if (e == cudaSuccess)
                tell(&params, nodeParams);
        return e;
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams)
{
        CUgraphNodeParams params;
        cudaError_t e = convert(nodeParams, &params);

        return e ? e : rt_error(cuGraphNodeSetParams(node, &params));
}

cudaError_t cudaGraphExecNodeSetParams(
        cudaGraphExec_t graphExec, cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams)
{
        CUgraphNodeParams params;
        cudaError_t e = convert(nodeParams, &params);

        return e ? e : rt_error(cuGraphExecNodeSetParams(graphExec, node, &params));
}
