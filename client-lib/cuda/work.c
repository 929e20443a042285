/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of graph nodes of all kinds except kernels
 *
 * Arguments are checked when a node is added or changed, as in CUDA.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/copy.h"
#include "cuda/event.h"
#include "cuda/graph.h"
#include "cuda/memop.h"

#define MEMOPS_MAX 256u

static struct dcu_work *work_new(CUgraphNodeType type, CUcontext context)
{
        struct dcu_work *work = calloc(1, sizeof(*work));

        if (work) {
                work->type = type;
                work->context = context;
        }
        return work;
}

static CUresult given(struct dcu_work *work, struct dcu_work **ret)
{
        *ret = work;
        return work ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult dcu_work_empty(struct dcu_work **ret)
{
        return given(work_new(CU_GRAPH_NODE_TYPE_EMPTY, NULL), ret);
}

/* *ret: the context that a node uses: `handle`, or the current one if it is NULL. */
static CUresult context_of(CUcontext handle, CUcontext *ret)
{
        struct dcu_context *context;
        CUresult r = handle ? dcu_context_check(handle, &context) : dcu_enter(&context);

        if (r == CUDA_SUCCESS)
                *ret = dcu_handle(context);
        return r;
}

CUresult dcu_work_copy(const CUDA_MEMCPY3D *params, CUcontext context, struct dcu_work **ret)
{
        enum dcu_place dst, src;
        struct dcu_box box;
        CUresult r;

        if (!params)
                return CUDA_ERROR_INVALID_VALUE;
        r = context_of(context, &context);
        if (r == CUDA_SUCCESS)
                r = dcu_copy_box_of(params, &box);
        if (r == CUDA_SUCCESS)
                r = dcu_copy_places(&box, &dst, &src);
        if (r != CUDA_SUCCESS)
                return r;
        r = given(work_new(CU_GRAPH_NODE_TYPE_MEMCPY, context), ret);
        if (r == CUDA_SUCCESS)
                (*ret)->copy = *params;
        return r;
}

static void describe_side(const struct dcu_side *side, const struct dcu_box *box, int host, CUmemorytype *type,
        CUdeviceptr *device, const void **address, size_t *pitch, size_t *height)
{
        *type = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        *device = host ? 0 : side->address;
        *address = host ? (const void *)(uintptr_t)side->address : NULL;
        /* pitch and height as the program gave them; 0 if they do not matter */
        *pitch = box->height > 1 || box->depth > 1 ? side->pitch : 0;
        *height = box->depth > 1 && side->pitch ? side->slice / side->pitch : 0;
}

void dcu_work_describe_box(const struct dcu_box *box, int dst_host, int src_host, CUDA_MEMCPY3D *ret)
{
        const void *dst;

        *ret = (CUDA_MEMCPY3D){.WidthInBytes = box->width, .Height = box->height, .Depth = box->depth};
        describe_side(&box->src, box, src_host, &ret->srcMemoryType, &ret->srcDevice, &ret->srcHost, &ret->srcPitch,
                &ret->srcHeight);
        describe_side(
                &box->dst, box, dst_host, &ret->dstMemoryType, &ret->dstDevice, &dst, &ret->dstPitch, &ret->dstHeight);
        ret->dstHost = (void *)(uintptr_t)dst;
}

CUresult dcu_work_memset(const CUDA_MEMSET_NODE_PARAMS_v2 *params, struct dcu_work **ret)
{
        uint32_t element = params->elementSize;
        CUcontext context;
        CUresult r = context_of(params->ctx, &context);

        if (r != CUDA_SUCCESS)
                return r;
        if ((element != 1 && element != 2 && element != 4) || params->width == 0 || params->height == 0)
                return CUDA_ERROR_INVALID_VALUE;
        r = dcu_memset_check(params->dst, params->pitch, element, params->width, params->height);
        if (r != CUDA_SUCCESS)
                return r;
        r = given(work_new(CU_GRAPH_NODE_TYPE_MEMSET, context), ret);
        if (r == CUDA_SUCCESS) {
                (*ret)->memset = *params;
                (*ret)->memset.ctx = context;
        }
        return r;
}

CUresult dcu_work_host(CUhostFn fn, void *argument, struct dcu_work **ret)
{
        CUresult r;

        if (!fn)
                return CUDA_ERROR_INVALID_VALUE;
        r = given(work_new(CU_GRAPH_NODE_TYPE_HOST, NULL), ret);
        if (r == CUDA_SUCCESS)
                (*ret)->host = (CUDA_HOST_NODE_PARAMS_v2){.fn = fn, .userData = argument};
        return r;
}

CUresult dcu_work_event(CUgraphNodeType type, CUevent event, struct dcu_work **ret)
{
        CUresult r;

        if (!event)
                return CUDA_ERROR_INVALID_VALUE;
        if (!dcu_object_of(event, DCU_EVENT))
                return CUDA_ERROR_INVALID_HANDLE;
        r = given(work_new(type, NULL), ret);
        if (r == CUDA_SUCCESS)
                (*ret)->event = event;
        return r;
}

CUresult dcu_work_memops(CUcontext context, unsigned int count, const CUstreamBatchMemOpParams *ops, unsigned int flags,
        struct dcu_work **ret)
{
        struct dcu_work *work;
        CUresult r = context_of(context, &context);

        if (r == CUDA_SUCCESS && (count == 0 || count > MEMOPS_MAX || !ops || flags != 0))
                r = CUDA_ERROR_INVALID_VALUE;
        for (unsigned int i = 0; i < count && r == CUDA_SUCCESS; i++)
                r = dcu_memop_check(&ops[i]);
        if (r != CUDA_SUCCESS)
                return r;
        work = work_new(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, context);
        if (!work)
                return CUDA_ERROR_OUT_OF_MEMORY;
        work->memops = (CUDA_BATCH_MEM_OP_NODE_PARAMS_v2){.ctx = context, .count = count, .flags = flags};
        work->memops.paramArray = malloc(count * sizeof(*ops));
        if (!work->memops.paramArray) {
                free(work);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memcpy(work->memops.paramArray, ops, count * sizeof(*ops));
        *ret = work;
        return CUDA_SUCCESS;
}

/* A graph cannot contain itself, and memory nodes cannot be in two graphs. */
CUresult dcu_work_child(const struct dcu_graph *graph, struct dcu_work **ret)
{
        struct dcu_graph *child = NULL;
        struct dcu_work *work;
        CUresult r;

        work = work_new(CU_GRAPH_NODE_TYPE_GRAPH, NULL);
        if (!work)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = dcu_graph_clone(graph, &child);
        if (r != CUDA_SUCCESS) {
                free(work);
                return r;
        }
        work->child = child;
        *ret = work;
        return CUDA_SUCCESS;
}

static CUresult clone_into(const struct dcu_work *from, struct dcu_work *to)
{
        size_t bytes;

        switch (from->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
                return dcu_work_kernel_clone(&from->kernel, &to->kernel);
        case CU_GRAPH_NODE_TYPE_GRAPH:
                return dcu_graph_clone(from->child, &to->child);
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
                if (to->memory.memory)
                        to->memory.memory->references++;
                return CUDA_SUCCESS;
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
                bytes = from->memops.count * sizeof(*from->memops.paramArray);
                to->memops.paramArray = malloc(bytes);
                if (!to->memops.paramArray)
                        return CUDA_ERROR_OUT_OF_MEMORY;
                memcpy(to->memops.paramArray, from->memops.paramArray, bytes);
                return CUDA_SUCCESS;
        default:
                return CUDA_SUCCESS;
        }
}

CUresult dcu_work_clone(const struct dcu_work *from, struct dcu_work **ret)
{
        struct dcu_work *to = malloc(sizeof(*to));
        CUresult r;

        if (!to)
                return CUDA_ERROR_OUT_OF_MEMORY;
        *to = *from;
        r = clone_into(from, to);
        if (r != CUDA_SUCCESS) {
                free(to);
                return r;
        }
        *ret = to;
        return CUDA_SUCCESS;
}

void dcu_work_drop(struct dcu_work *work)
{
        switch (work->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL:
                dcu_work_kernel_clear(&work->kernel);
                break;
        case CU_GRAPH_NODE_TYPE_GRAPH:
                dcu_graph_free(work->child);
                break;
        case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        case CU_GRAPH_NODE_TYPE_MEM_FREE:
                if (work->memory.memory)
                        dcu_graph_memory_drop(work->memory.memory);
                break;
        case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
                free(work->memops.paramArray);
                break;
        default:
                break;
        }
        free(work);
}

void dcu_work_drop_unlocked(struct dcu_work *work)
{
        pthread_mutex_lock(&dcu.lock);
        dcu_work_drop(work);
        pthread_mutex_unlock(&dcu.lock);
}
