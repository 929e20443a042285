/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver: graphs
 *
 * A graph's nodes run one after the other on the launching stream, in the order in which they were added. The fake
 * driver checks two rules that a real driver does not enforce: a node's context is the stream's, which keeps a kernel
 * on its SMs, and a node depends only on nodes of its graph. Instantiating, uploading and destroying wait for all work,
 * as in a real context.
 */
#include <string.h>

#include "tests/support/fake_cuda/fake.h"

struct CUgraphNode_st {
        CUgraph graph;
        uint32_t index;
};

/* The operation of a node: a launch, a copy or a memset. */
struct work {
        enum { WORK_NOTHING, WORK_LAUNCH, WORK_COPY, WORK_MEMSET } kind;
        struct ds_launch launch;
        struct CUkern_st *kernel;
        uint8_t *params;
        struct ds_copy copy;
        bool dst_host, src_host;
        struct ds_memset memset;
        CUcontext context;
};

struct CUgraph_st {
        struct work *works;
        CUgraphNode *nodes;
        uint32_t n;
        CUgraph prev, next;
};

struct CUgraphExec_st {
        struct work *works;
        uint32_t n;
        CUgraphExec prev, next;
};

/* List of all graphs and instances: after the loss of a context nothing else destroys them. */
static CUgraph graphs;
static CUgraphExec execs;

FAKE_API cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx green)
{
        FAKE_ENTER(cuCtxFromGreenCtx, CONTEXT);
        *context = (CUcontext)green;
        return CUDA_SUCCESS;
}

FAKE_API cuGraphCreate(CUgraph *graph, unsigned int flags)
{
        FAKE_ENTER(cuGraphCreate, CONTEXT);
        *graph = flags ? NULL : ds_alloc0(1, sizeof(**graph));
        if (flags)
                return CUDA_ERROR_INVALID_VALUE;
        if (!*graph)
                return CUDA_ERROR_OUT_OF_MEMORY;
        DL_APPEND(graphs, *graph);
        return CUDA_SUCCESS;
}

static void works_free(struct work *works, uint32_t n)
{
        for (uint32_t i = 0; i < n; i++)
                ds_free(works[i].params);
        ds_free(works);
}

FAKE_API cuGraphDestroy(CUgraph graph)
{
        FAKE_ENTER(cuGraphDestroy, CONTEXT);
        works_free(graph->works, graph->n);
        for (uint32_t i = 0; i < graph->n; i++)
                ds_free(graph->nodes[i]);
        ds_free(graph->nodes);
        DL_DELETE(graphs, graph);
        ds_free(graph);
        return CUDA_SUCCESS;
}

/* Takes ownership of work->params. */
static CUresult add(CUgraph graph, const CUgraphNode *deps, size_t n_deps, const struct work *work, CUgraphNode *ret)
{
        struct work *works = ds_realloc(graph->works, graph->n + 1, sizeof(*works));
        CUgraphNode *nodes, node;

        for (size_t i = 0; i < n_deps; i++)
                if (!deps[i] || deps[i]->graph != graph)
                        return CUDA_ERROR_INVALID_VALUE;
        if (works)
                graph->works = works;
        nodes = ds_realloc(graph->nodes, graph->n + 1, sizeof(CUgraphNode));
        if (nodes)
                graph->nodes = nodes;
        node = ds_alloc0(1, sizeof(*node));
        if (!works || !nodes || !node) {
                ds_free(node);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        node->graph = graph;
        node->index = graph->n;
        works[graph->n] = *work;
        *ret = nodes[graph->n++] = node;
        return CUDA_SUCCESS;
}

FAKE_API cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n_deps)
{
        const struct work work = {.kind = WORK_NOTHING};

        FAKE_ENTER(cuGraphAddEmptyNode, CONTEXT);
        return add(graph, deps, n_deps, &work, node);
}

static CUresult kernel_work(const CUDA_KERNEL_NODE_PARAMS *p, struct work *ret)
{
        const struct ds_kernel_info *info;
        struct CUkern_st *kernel = fake_kernel(p->func ? (const void *)p->func : (const void *)p->kern);
        size_t size = 0;

        if (!kernel || p->kernelParams)
                return CUDA_ERROR_INVALID_VALUE;
        info = fake_sim->kernel_info(kernel->kernel);
        if (p->extra)
                size = *(const size_t *)p->extra[3];
        if (size < info->params_size ||
                (size && (p->extra[0] != CU_LAUNCH_PARAM_BUFFER_POINTER || p->extra[2] != CU_LAUNCH_PARAM_BUFFER_SIZE)))
                return CUDA_ERROR_INVALID_VALUE;
        *ret = (struct work){
                .kind = WORK_LAUNCH,
                .kernel = kernel,
                .context = p->ctx,
                .launch = {.grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                        .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
                        .shared_bytes = p->sharedMemBytes,
                        .params_size = (uint32_t)size},
        };
        ret->params = ds_alloc(DS_MAX(size, (size_t)1));
        if (!ret->params)
                return CUDA_ERROR_OUT_OF_MEMORY;
        if (size)
                memcpy(ret->params, p->extra[1], size);
        return CUDA_SUCCESS;
}

FAKE_API cuGraphAddKernelNode(
        CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n_deps, const CUDA_KERNEL_NODE_PARAMS *params)
{
        struct work work;
        CUresult r;

        FAKE_ENTER(cuGraphAddKernelNode, CONTEXT);
        r = kernel_work(params, &work);
        if (r)
                return r;
        r = add(graph, deps, n_deps, &work, node);
        if (r)
                ds_free(work.params);
        return r;
}

FAKE_API cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id, const CUkernelNodeAttrValue *value)
{
        struct work *work;

        FAKE_ENTER(cuGraphKernelNodeSetAttribute, CONTEXT);
        work = &node->graph->works[node->index];
        if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && work->kind == WORK_LAUNCH) {
                work->launch.cooperative = (uint32_t)value->cooperative;
                return CUDA_SUCCESS;
        }
        if (id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION || work->kind != WORK_LAUNCH)
                return CUDA_ERROR_INVALID_VALUE;
        work->launch.cluster[0] = value->clusterDim.x;
        work->launch.cluster[1] = value->clusterDim.y;
        work->launch.cluster[2] = value->clusterDim.z;
        return CUDA_SUCCESS;
}

static CUresult copy_work(const CUDA_MEMCPY3D *c, CUcontext context, struct work *ret)
{
        if (c->Depth != 1 || !c->WidthInBytes || !c->Height)
                return CUDA_ERROR_INVALID_VALUE;
        *ret = (struct work){
                .kind = WORK_COPY,
                .context = context,
                .dst_host = c->dstMemoryType == CU_MEMORYTYPE_HOST,
                .src_host = c->srcMemoryType == CU_MEMORYTYPE_HOST,
                .copy = {.width = c->WidthInBytes,
                        .height = c->Height,
                        .dst_pitch = c->dstPitch,
                        .src_pitch = c->srcPitch},
        };
        ret->copy.dst = ret->dst_host ? (uintptr_t)c->dstHost : c->dstDevice;
        ret->copy.src = ret->src_host ? (uintptr_t)c->srcHost : c->srcDevice;
        return CUDA_SUCCESS;
}

FAKE_API cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n_deps,
        const CUDA_MEMCPY3D *params, CUcontext context)
{
        struct work work;
        CUresult r;

        FAKE_ENTER(cuGraphAddMemcpyNode, CONTEXT);
        r = copy_work(params, context, &work);
        return r ? r : add(graph, deps, n_deps, &work, node);
}

static CUresult memset_work(const CUDA_MEMSET_NODE_PARAMS *m, CUcontext context, struct work *ret)
{
        *ret = (struct work){
                .kind = WORK_MEMSET,
                .context = context,
                .memset = {.dst = m->dst,
                        .value = m->value,
                        .element_size = m->elementSize,
                        .width = m->width,
                        .height = m->height,
                        .pitch = m->pitch},
        };
        return m->width && m->height ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

FAKE_API cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *deps, size_t n_deps,
        const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
        struct work work;
        CUresult r;

        FAKE_ENTER(cuGraphAddMemsetNode, CONTEXT);
        r = memset_work(params, context, &work);
        return r ? r : add(graph, deps, n_deps, &work, node);
}

/* --- instances ---------------------------------------------------------------------------------------------------- */

static bool work_copy(struct work *to, const struct work *from)
{
        *to = *from;
        to->params = from->params ? ds_alloc(DS_MAX((size_t)from->launch.params_size, (size_t)1)) : NULL;
        if (from->params && !to->params)
                return false;
        if (from->launch.params_size)
                memcpy(to->params, from->params, from->launch.params_size);
        return true;
}

FAKE_API cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
        CUgraphExec made;

        FAKE_ENTER(cuGraphInstantiate, STOPS);
        made = flags ? NULL : ds_alloc0(1, sizeof(*made));
        if (made)
                made->works = ds_alloc0(DS_MAX(graph->n, 1u), sizeof(*made->works));
        if (!made || !made->works) {
                ds_free(made);
                return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
        }
        for (; made->n < graph->n; made->n++) {
                if (work_copy(&made->works[made->n], &graph->works[made->n]))
                        continue;
                works_free(made->works, made->n);
                ds_free(made);
                return CUDA_ERROR_OUT_OF_MEMORY;
        }
        DL_APPEND(execs, made);
        *exec = made;
        return CUDA_SUCCESS;
}

FAKE_API cuGraphUpload(CUgraphExec exec, CUstream stream)
{
        FAKE_ENTER(cuGraphUpload, STOPS);
        return fake_stream_ok(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

FAKE_API cuGraphExecDestroy(CUgraphExec exec)
{
        FAKE_ENTER(cuGraphExecDestroy, STOPS);
        works_free(exec->works, exec->n);
        DL_DELETE(execs, exec);
        ds_free(exec);
        return CUDA_SUCCESS;
}

static CUresult run(struct work *work, CUstream stream)
{
        struct ds_launch launch = work->launch;
        struct ds_copy copy = work->copy;
        size_t size = launch.params_size;
        void *extra[] = {
                CU_LAUNCH_PARAM_BUFFER_POINTER, work->params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
        const struct ds_memset *m = &work->memset;

        switch (work->kind) {
        case WORK_LAUNCH:
                return fake_launch(work->kernel, stream, &launch, NULL, extra);
        case WORK_COPY:
                return fake_copy(stream, &copy, work->dst_host, work->src_host);
        case WORK_MEMSET:
                return fake_fill(stream, m->dst, m->pitch, m->value, m->element_size, m->width, m->height);
        default:
                return CUDA_SUCCESS;
        }
}

FAKE_API cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
        const struct CUgreenCtx_st *rung;
        CUresult r = CUDA_SUCCESS;

        FAKE_ENTER(cuGraphLaunch, CONTEXT);
        if (!fake_stream_ok(stream))
                return CUDA_ERROR_INVALID_HANDLE;
        rung = fake.rungs[stream->id / FAKE_SLOTS];
        for (uint32_t i = 0; i < exec->n; i++)
                if (exec->works[i].kind != WORK_NOTHING && rung->owner == FAKE_RUNG_GREEN &&
                        (const void *)exec->works[i].context != (const void *)rung)
                        return CUDA_ERROR_INVALID_CONTEXT;
        for (uint32_t i = 0; !r && i < exec->n; i++)
                r = run(&exec->works[i], stream);
        return r;
}

/* Takes ownership of work->params. */
static CUresult change(CUgraphExec exec, CUgraphNode node, struct work *work)
{
        struct work *old = node->index < exec->n ? &exec->works[node->index] : NULL;

        if (!old || old->kind != work->kind || old->context != work->context) {
                ds_free(work->params);
                return CUDA_ERROR_INVALID_VALUE;
        }
        memcpy(work->launch.cluster, old->launch.cluster, sizeof(old->launch.cluster));
        work->launch.cooperative = old->launch.cooperative;
        ds_free(old->params);
        *old = *work;
        return CUDA_SUCCESS;
}

FAKE_API cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *params)
{
        struct work work;
        CUresult r;

        FAKE_ENTER(cuGraphExecKernelNodeSetParams, CONTEXT);
        r = kernel_work(params, &work);
        return r ? r : change(exec, node, &work);
}

FAKE_API cuGraphExecMemcpyNodeSetParams(
        CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context)
{
        struct work work;
        CUresult r;

        FAKE_ENTER(cuGraphExecMemcpyNodeSetParams, CONTEXT);
        r = copy_work(params, context, &work);
        return r ? r : change(exec, node, &work);
}

FAKE_API cuGraphExecMemsetNodeSetParams(
        CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
        struct work work;
        CUresult r;

        FAKE_ENTER(cuGraphExecMemsetNodeSetParams, CONTEXT);
        r = memset_work(params, context, &work);
        return r ? r : change(exec, node, &work);
}
