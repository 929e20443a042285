/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy nodes: of boxes, of rows, to and from variables of device code
 *
 * A row is a box of one row; a variable is copied by its address.
 */
#include <string.h>

#include "cudart/params.h"

/* The node that a description is for: one to add, one to change, or one of an instance to change. */
struct target {
        cudaGraphNode_t *add;
        cudaGraph_t graph;
        const cudaGraphNode_t *dependencies;
        size_t n_dependencies;
        cudaGraphExec_t exec;
        cudaGraphNode_t node;
        enum { ADD, SET, SET_EXEC } what;
};

static cudaError_t apply(const struct target *t, const CUDA_MEMCPY3D *box)
{
        CUcontext context;
        CUresult r;

        if (t->what == SET)
                return rt_error(cuGraphMemcpyNodeSetParams(t->node, box));
        r = cuCtxGetCurrent(&context);
        if (r == CUDA_SUCCESS && t->what == ADD)
                r = cuGraphAddMemcpyNode(t->add, t->graph, t->dependencies, t->n_dependencies, box, context);
        else if (r == CUDA_SUCCESS)
                r = cuGraphExecMemcpyNodeSetParams(t->exec, t->node, box, context);
        return rt_error(r);
}

static cudaError_t apply_box(const struct target *t, const struct cudaMemcpy3DParms *p)
{
        CUDA_MEMCPY3D box;
        cudaError_t e = rt_enter();

        if (e == cudaSuccess)
                e = rt_copy_3d(p, &box);
        return e ? e : apply(t, &box);
}

static cudaError_t apply_row(const struct target *t, void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
        CUDA_MEMCPY3D box;
        cudaError_t e = rt_enter();

        if (e == cudaSuccess)
                e = rt_copy_1d(dst, src, count, kind, &box);
        return e ? e : apply(t, &box);
}

/* *ret: address of `count` bytes at `offset` in a variable; an error if they exceed the variable. */
static cudaError_t part(const void *symbol, size_t count, size_t offset, void **ret)
{
        CUdeviceptr address;
        size_t bytes;
        cudaError_t e = rt_enter();

        if (e == cudaSuccess)
                e = rt_symbol(symbol, &address, &bytes);
        if (e != cudaSuccess)
                return e;
        if (offset > bytes || count > bytes - offset)
                return rt_fail(cudaErrorInvalidValue);
        *ret = (void *)(address + offset);
        return cudaSuccess;
}

static cudaError_t apply_to(const struct target *t, const void *symbol, const void *src, size_t count, size_t offset,
        enum cudaMemcpyKind kind)
{
        void *dst;
        cudaError_t e = part(symbol, count, offset, &dst);

        return e ? e : apply_row(t, dst, src, count, kind);
}

static cudaError_t apply_from(
        const struct target *t, void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
        void *src;
        cudaError_t e = part(symbol, count, offset, &src);

        return e ? e : apply_row(t, dst, src, count, kind);
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, const struct cudaMemcpy3DParms *pCopyParams)
{
        return apply_box(&(struct target){pGraphNode, graph, pDependencies, numDependencies, .what = ADD}, pCopyParams);
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
        const cudaGraphNode_t *pDependencies, size_t numDependencies, void *dst, const void *src, size_t count,
        enum cudaMemcpyKind kind)
{
        return apply_row(&(struct target){pGraphNode, graph, pDependencies, numDependencies, .what = ADD}, dst, src,
                count, kind);
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
        const cudaGraphNode_t *pDependencies, size_t numDependencies, const void *symbol, const void *src, size_t count,
        size_t offset, enum cudaMemcpyKind kind)
{
        return apply_to(&(struct target){pGraphNode, graph, pDependencies, numDependencies, .what = ADD}, symbol, src,
                count, offset, kind);
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
        const cudaGraphNode_t *pDependencies, size_t numDependencies, void *dst, const void *symbol, size_t count,
        size_t offset, enum cudaMemcpyKind kind)
{
        return apply_from(&(struct target){pGraphNode, graph, pDependencies, numDependencies, .what = ADD}, dst, symbol,
                count, offset, kind);
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, struct cudaMemcpy3DParms *pNodeParams)
{
        CUDA_MEMCPY3D box;
        cudaError_t e = rt_enter();

        if (e != cudaSuccess)
                return e;
        if (!pNodeParams)
                return rt_fail(cudaErrorInvalidValue);
        memset(&box, 0, sizeof(box));
        e = rt_error(cuGraphMemcpyNodeGetParams(node, &box));
        if (e == cudaSuccess)
                rt_copy_told(&box, pNodeParams);
        return e;
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node, const struct cudaMemcpy3DParms *pNodeParams)
{
        return apply_box(&(struct target){.node = node, .what = SET}, pNodeParams);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(
        cudaGraphNode_t node, void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
        return apply_row(&(struct target){.node = node, .what = SET}, dst, src, count, kind);
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol, const void *src,
        size_t count, size_t offset, enum cudaMemcpyKind kind)
{
        return apply_to(&(struct target){.node = node, .what = SET}, symbol, src, count, offset, kind);
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(
        cudaGraphNode_t node, void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
        return apply_from(&(struct target){.node = node, .what = SET}, dst, symbol, count, offset, kind);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(
        cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const struct cudaMemcpy3DParms *pNodeParams)
{
        return apply_box(&(struct target){.exec = hGraphExec, .node = node, .what = SET_EXEC}, pNodeParams);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void *dst,
        const void *src, size_t count, enum cudaMemcpyKind kind)
{
        return apply_row(&(struct target){.exec = hGraphExec, .node = node, .what = SET_EXEC}, dst, src, count, kind);
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
        const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
        return apply_to(
                &(struct target){.exec = hGraphExec, .node = node, .what = SET_EXEC}, symbol, src, count, offset, kind);
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, void *dst,
        const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind)
{
        return apply_from(
                &(struct target){.exec = hGraphExec, .node = node, .what = SET_EXEC}, dst, symbol, count, offset, kind);
}
