/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on kernel nodes
 */
#include <string.h>

#include "cuda/exec.h"
#include "cuda/graph.h"
#include "cuda/launch.h"
#include "cuda/module.h"

static CUDA_KERNEL_NODE_PARAMS upgrade(const CUDA_KERNEL_NODE_PARAMS_v1 *old)
{
        return (CUDA_KERNEL_NODE_PARAMS){.func = old->func,
                .gridDimX = old->gridDimX,
                .gridDimY = old->gridDimY,
                .gridDimZ = old->gridDimZ,
                .blockDimX = old->blockDimX,
                .blockDimY = old->blockDimY,
                .blockDimZ = old->blockDimZ,
                .sharedMemBytes = old->sharedMemBytes,
                .kernelParams = old->kernelParams,
                .extra = old->extra};
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
        struct dcu_work *work = NULL;
        CUresult r = dcu_work_kernel(nodeParams, NULL, &work);

        return dcu_graph_add(phGraphNode, hGraph, dependencies, NULL, numDependencies, r, work);
}

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
        size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
        CUDA_KERNEL_NODE_PARAMS params;

        if (!nodeParams)
                return CUDA_ERROR_INVALID_VALUE;
        params = upgrade(nodeParams);
        return cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies, &params);
}

/*
 * Fills in the function, and also the kernel if there is one: programs read the function, NVIDIA's runtime searches for
 * the kernel handle that it knows.
 */
static CUresult name_kernel(const struct dcu_kernel_work *work, CUfunction *ret_function, CUkernel *ret_kernel)
{
        CUfunction given = work->function ? work->function : (CUfunction)work->kernel;
        struct dcu_context *owner;
        struct dcu_entry *entry = dcu_entry_of(given, &owner);

        *ret_function = work->function;
        *ret_kernel = work->kernel;
        if (!entry)
                return CUDA_SUCCESS; /* the code was unloaded: return the handles that the program passed */
        if (dcu_object_of(given, DCU_KERNEL)) {
                *ret_kernel = (CUkernel)given;
                return cuKernelGetFunction(ret_function, *ret_kernel);
        }
        pthread_mutex_lock(&dcu.lock);
        if (entry->kernel)
                *ret_kernel = dcu_handle(entry->kernel);
        pthread_mutex_unlock(&dcu.lock);
        return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
        const struct dcu_work *work;
        CUfunction function;
        CUkernel kernel;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &work);

        if (r != CUDA_SUCCESS)
                return r;
        if (!nodeParams)
                return CUDA_ERROR_INVALID_VALUE;
        r = name_kernel(&work->kernel, &function, &kernel);
        if (r != CUDA_SUCCESS)
                return r;
        *nodeParams = (CUDA_KERNEL_NODE_PARAMS){.func = function,
                .gridDimX = work->kernel.grid[0],
                .gridDimY = work->kernel.grid[1],
                .gridDimZ = work->kernel.grid[2],
                .blockDimX = work->kernel.block[0],
                .blockDimY = work->kernel.block[1],
                .blockDimZ = work->kernel.block[2],
                .sharedMemBytes = work->kernel.shared_bytes,
                .kernelParams = work->kernel.n_params ? work->kernel.pointers : NULL,
                .kern = kernel,
                .ctx = work->context};
        return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
        CUDA_KERNEL_NODE_PARAMS params;
        CUresult r = cuGraphKernelNodeGetParams_v2(hNode, &params);

        if (r != CUDA_SUCCESS)
                return r;
        if (!nodeParams)
                return CUDA_ERROR_INVALID_VALUE;
        *nodeParams = (CUDA_KERNEL_NODE_PARAMS_v1){params.func ? params.func : (CUfunction)params.kern, params.gridDimX,
                params.gridDimY, params.gridDimZ, params.blockDimX, params.blockDimY, params.blockDimZ,
                params.sharedMemBytes, params.kernelParams, params.extra};
        return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
        const struct dcu_work *old;
        struct dcu_work *work = NULL;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &old);

        if (r == CUDA_SUCCESS)
                r = dcu_work_kernel(nodeParams, old, &work);
        return dcu_node_set(hNode, r, work);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
        CUDA_KERNEL_NODE_PARAMS params;

        if (!nodeParams)
                return CUDA_ERROR_INVALID_VALUE;
        params = upgrade(nodeParams);
        return cuGraphKernelNodeSetParams_v2(hNode, &params);
}

CUresult cuGraphExecKernelNodeSetParams_v2(
        CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
        const struct dcu_work *old;
        struct dcu_work *work = NULL;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &old);

        if (r == CUDA_SUCCESS)
                r = dcu_work_kernel(nodeParams, old, &work);
        return dcu_exec_set(hGraphExec, hNode, r, work);
}

CUresult cuGraphExecKernelNodeSetParams(
        CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
        CUDA_KERNEL_NODE_PARAMS params;

        if (!nodeParams)
                return CUDA_ERROR_INVALID_VALUE;
        params = upgrade(nodeParams);
        return cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, &params);
}

/* --- attributes --- */

/* *ret: default of an attribute of kernel nodes. An error for attributes that cannot be read. */
static CUresult default_attribute(CUkernelNodeAttrID attr, CUkernelNodeAttrValue *ret)
{
        switch ((unsigned int)attr) {
        case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
        case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
        case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
                memset(ret, 0, sizeof(*ret));
                return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
                memset(ret, 0, sizeof(*ret));
                ret->memSyncDomainMap.remote = 1;
                return CUDA_SUCCESS;
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
                memset(ret, 0, sizeof(*ret));
                ret->sharedMemCarveout = (unsigned int)CU_SHAREDMEM_CARVEOUT_DEFAULT;
                return CUDA_SUCCESS;
        default:
                return CUDA_ERROR_INVALID_VALUE;
        }
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out)
{
        const struct dcu_work *work;
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &work);

        if (r == CUDA_SUCCESS && !value_out)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = default_attribute(attr, value_out);
        for (uint32_t i = 0; r == CUDA_SUCCESS && i < work->kernel.n_attributes; i++) {
                if (work->kernel.attributes[i].id == attr)
                        *value_out = work->kernel.attributes[i].value;
        }
        return r;
}

/* Sets attributes of a kernel node, if a launch with them is valid. */
static CUresult set_attributes(struct dcu_node *node, const CUlaunchAttribute *attributes, uint32_t n)
{
        struct dcu_work *work = NULL;
        struct dcu_launch launch;
        struct dcu_context *owner;
        struct dcu_entry *entry;
        CUresult r = dcu_work_clone(node->work, &work);

        if (r != CUDA_SUCCESS)
                return r;
        for (uint32_t i = 0; i < n && r == CUDA_SUCCESS; i++)
                r = dcu_work_kernel_attribute(&work->kernel, attributes[i].id, &attributes[i].value);
        if (r == CUDA_SUCCESS)
                r = dcu_work_kernel_launch(&work->kernel, &launch);
        if (r == CUDA_SUCCESS)
                r = dcu_launch_check(&launch, &entry, &owner);
        if (r == CUDA_SUCCESS) {
                struct dcu_work *old = node->work;

                node->work = work;
                work = old;
        }
        dcu_work_drop(work);
        return r;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue *value)
{
        const struct dcu_work *work;
        CUkernelNodeAttrValue known;
        CUlaunchAttribute attribute = {.id = attr};
        CUresult r = dcu_node_work(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &work);

        if (r == CUDA_SUCCESS && !value)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r == CUDA_SUCCESS)
                r = default_attribute(attr, &known);
        if (r != CUDA_SUCCESS)
                return r;
        attribute.value = *value;
        pthread_mutex_lock(&dcu.lock);
        r = set_attributes(dcu_node_of(hNode), &attribute, 1);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
        const struct dcu_work *to, *from;
        CUresult r = dcu_node_work(dst, CU_GRAPH_NODE_TYPE_KERNEL, &to);

        if (r == CUDA_SUCCESS)
                r = dcu_node_work(src, CU_GRAPH_NODE_TYPE_KERNEL, &from);
        if (r == CUDA_SUCCESS && to->context != from->context)
                r = CUDA_ERROR_INVALID_VALUE;
        if (r != CUDA_SUCCESS || to == from)
                return r;
        pthread_mutex_lock(&dcu.lock);
        r = set_attributes(dcu_node_of(dst), from->kernel.attributes, from->kernel.n_attributes);
        pthread_mutex_unlock(&dcu.lock);
        return r;
}
