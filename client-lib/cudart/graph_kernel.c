/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel nodes
 *
 * A program names a kernel by its host address, the driver's node by a function. Reading a node returns the host
 * address if there is one, else the function; programs may pass either to the runtime.
 */
#include "cudart/graph.h"

#include <string.h>

#include "cudart/register.h"

_Static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUlaunchAttributeValue), "the same members");

cudaError_t rt_node_kernel(const struct cudaKernelNodeParamsV2 *p, CUDA_KERNEL_NODE_PARAMS *ret)
{
        CUkernel kernel;
        CUfunction function;
        cudaError_t e = rt_kernel(p->func, &kernel);

        if (e == cudaErrorInvalidDeviceFunction)
                return rt_fail(cudaErrorInvalidResourceHandle);
        if (e != cudaSuccess)
                return e;
        /* pass on a kernel handle that has no function */
        if (cuKernelGetFunction(&function, kernel) != CUDA_SUCCESS)
                function = (CUfunction)kernel;
        *ret = (CUDA_KERNEL_NODE_PARAMS){
                .func = function,
                .gridDimX = p->gridDim.x,
                .gridDimY = p->gridDim.y,
                .gridDimZ = p->gridDim.z,
                .blockDimX = p->blockDim.x,
                .blockDimY = p->blockDim.y,
                .blockDimZ = p->blockDim.z,
                .sharedMemBytes = p->sharedMemBytes,
                .kernelParams = p->kernelParams,
                .extra = p->extra,
        };
        return cudaSuccess;
}

static cudaError_t described(const struct cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS *ret)
{
        struct cudaKernelNodeParamsV2 same;

        if (!p)
                return rt_fail(cudaErrorInvalidValue);
        same = (struct cudaKernelNodeParamsV2){
                .func = p->func,
                .gridDim = p->gridDim,
                .blockDim = p->blockDim,
                .sharedMemBytes = p->sharedMemBytes,
                .kernelParams = p->kernelParams,
                .extra = p->extra,
        };
        return rt_node_kernel(&same, ret);
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, const struct cudaKernelNodeParams *pNodeParams)
{
        CUDA_KERNEL_NODE_PARAMS params;
        cudaError_t e = rt_enter();

        if (e == cudaSuccess)
                e = described(pNodeParams, &params);
        return e ? e : rt_error(cuGraphAddKernelNode(pGraphNode, graph, pDependencies, numDependencies, &params));
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *pNodeParams)
{
        CUDA_KERNEL_NODE_PARAMS p;
        cudaError_t e = rt_enter();

        if (e != cudaSuccess)
                return e;
        if (!pNodeParams)
                return rt_fail(cudaErrorInvalidValue);
        memset(&p, 0, sizeof(p));
        e = rt_error(cuGraphKernelNodeGetParams(node, &p));
        if (e != cudaSuccess)
                return e;
        if (!p.func && p.kern && cuKernelGetFunction(&p.func, p.kern) != CUDA_SUCCESS)
                p.func = (CUfunction)p.kern;
        *pNodeParams = (struct cudaKernelNodeParams){
                .func = rt_function_host(p.func),
                .gridDim = {p.gridDimX, p.gridDimY, p.gridDimZ},
                .blockDim = {p.blockDimX, p.blockDimY, p.blockDimZ},
                .sharedMemBytes = p.sharedMemBytes,
                .kernelParams = p.kernelParams,
                .extra = p.extra,
        };
        return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const struct cudaKernelNodeParams *pNodeParams)
{
        CUDA_KERNEL_NODE_PARAMS params;
        cudaError_t e = rt_enter();

        if (e == cudaSuccess)
                e = described(pNodeParams, &params);
        return e ? e : rt_error(cuGraphKernelNodeSetParams(node, &params));
}

cudaError_t cudaGraphExecKernelNodeSetParams(
        cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const struct cudaKernelNodeParams *pNodeParams)
{
        CUDA_KERNEL_NODE_PARAMS params;
        cudaError_t e = rt_enter();

        if (e == cudaSuccess)
                e = described(pNodeParams, &params);
        return e ? e : rt_error(cuGraphExecKernelNodeSetParams(hGraphExec, node, &params));
}

cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hDst, cudaGraphNode_t hSrc)
{
        cudaError_t e = rt_enter();

        return e ? e : rt_error(cuGraphKernelNodeCopyAttributes(hDst, hSrc));
}

cudaError_t cudaGraphKernelNodeGetAttribute(
        cudaGraphNode_t hNode, cudaLaunchAttributeID attr, cudaLaunchAttributeValue *value_out)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuGraphKernelNodeGetAttribute(
                           hNode, (CUkernelNodeAttrID)attr, (CUkernelNodeAttrValue *)value_out));
}

cudaError_t cudaGraphKernelNodeSetAttribute(
        cudaGraphNode_t hNode, cudaLaunchAttributeID attr, const cudaLaunchAttributeValue *value)
{
        cudaError_t e = rt_enter();

        return e ? e
                 : rt_error(cuGraphKernelNodeSetAttribute(
                           hNode, (CUkernelNodeAttrID)attr, (const CUkernelNodeAttrValue *)value));
}
