/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: many jobs in one
 *
 * An instance of a graph is built for a rung. Its nodes name the rung's green context, because a node runs on the SMs
 * of its own context and not of the stream that the graph is launched on. (Nodes of the primary context run on all SMs,
 * whatever the stream.) Building instantiates and uploads the instance, which may stop the context: on an H200 it
 * sometimes did, and at other times delayed others by only 0.1 ms. So it happens when the owner says that nothing is in
 * flight: for one rung when the graph is made, for another one after a launch there has requested it. Until then, and
 * for graphs that cannot be built, nodes are launched one by one.
 *
 * The objects that a launch names stay until it has completed: the graph counts launches, and instances that no launch
 * can use any more wait in a list for the next quiesce. New parameters are written into an instance in place, beside
 * running work; that stops nothing. CUDA promises that earlier launches keep the old parameters. Launches that are only
 * held here would not keep them, so while there are any the instance stays unchanged for them.
 *
 * Left to single launches: kernels that print, because only the order of launches shows whose text it is, and copies
 * between two host buffers, which need staging.c.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "device/cuda/internal.h"
#include "util/error.h"

/* most nodes of all graph instances together; the driver keeps device memory for each node */
#define GRAPH_NODES_BUILT (1u << 20)
/* entries of the hardware queue counted per graph launch; 400 graph launches behind a long kernel blocked no thread */
#define GRAPH_ENTRIES 8
/* dynamic shared memory that every kernel may use without a function attribute, bytes */
#define GRAPH_SHARED_SURE (48u << 10)
#define GRAPH_CLUSTER_SURE 8u /* cluster size that every kernel may use without a function attribute, blocks */
#define GRAPH_TEXT 200
/* most nodes built per call, some 0.3 ms; a caller with more time during the stop calls again */
#define GRAPH_BUILT_AT_ONCE 128u
#define GRAPH_DROPPED_AT_ONCE 16u /* most instances destroyed per call, which limits the time of a stop */

struct cuda_instance {
        CUgraph graph;
        CUgraphExec exec;
        CUgraphNode *nodes; /* the driver's nodes, in the order of the graph's nodes */
        uint8_t *params;    /* the kernels' parameters in the driver, as in ds_graph_launch; NULL: the nodes' own */
        uint32_t n;
        struct cuda_instance *next;
};

struct ds_device_graph {
        const struct ds_device_node *nodes; /* memory of the owner, valid until graph_free */
        uint32_t n, n_kernels;
        uint32_t params_bytes;            /* size of ds_graph_launch.params, bytes */
        const ds_device_kernel **kernels; /* kernels of its launches, with references to their modules */
        int asserts, owned;
        /* launches that have not completed; launches among them that the GPU has not received */
        uint32_t n_jobs, n_held;
        struct cuda_instance *at[DS_DEVICE_RUNGS_MAX];
        /* rungs on which an instance is requested; rungs on which an instance cannot be built; one bit per rung */
        uint64_t wanted, refused;
        ds_device_graph *prev, *next;
};

_Static_assert(DS_DEVICE_RUNGS_MAX <= 64, "rungs have no bits");

/* --- instances ---------------------------------------------------------------------------------------------------- */

static void instance_free(ds_device *device, struct cuda_instance *instance)
{
        if (cuda_usable(device)) {
                if (instance->exec)
                        CU(device, cuGraphExecDestroy)(instance->exec);
                if (instance->graph)
                        CU(device, cuGraphDestroy)(instance->graph);
        }
        device->graph_nodes -= instance->n;
        ds_free(instance->nodes);
        ds_free(instance->params);
        ds_free(instance);
}

/* Puts the instance on the list of those that the next quiesce destroys. */
static void instance_goes(ds_device *device, struct cuda_instance *instance)
{
        if (!instance)
                return;
        instance->next = device->instances_going;
        device->instances_going = instance;
        device->n_instances_going++;
}

/* --- nodes in the driver's form ----------------------------------------------------------------------------------- */

/* Memory for a kernel node's parameters in the driver's form. */
struct kernel_extra {
        size_t size;
        void *list[5];
};

static CUDA_KERNEL_NODE_PARAMS kernel_params(
        const struct ds_launch *launch, CUcontext context, struct kernel_extra *extra)
{
        extra->size = cuda_kernel_info(launch->kernel)->params_size;
        extra->list[0] = CU_LAUNCH_PARAM_BUFFER_POINTER;
        extra->list[1] = (void *)(uintptr_t)launch->params;
        extra->list[2] = CU_LAUNCH_PARAM_BUFFER_SIZE;
        extra->list[3] = &extra->size;
        extra->list[4] = CU_LAUNCH_PARAM_END;
        return (CUDA_KERNEL_NODE_PARAMS){
                .kern = cuda_kernel_handle(launch->kernel),
                .ctx = context,
                .gridDimX = launch->grid[0],
                .gridDimY = launch->grid[1],
                .gridDimZ = launch->grid[2],
                .blockDimX = launch->block[0],
                .blockDimY = launch->block[1],
                .blockDimZ = launch->block[2],
                .sharedMemBytes = launch->shared_bytes,
                .extra = extra->size ? extra->list : NULL,
        };
}

static CUDA_MEMCPY3D copy_params(const struct ds_copy *copy)
{
        int to_host = copy->kind == DS_COPY_DTOH, from_host = copy->kind == DS_COPY_HTOD, rows = copy->height > 1;
        CUDA_MEMCPY3D params = {
                .srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                .dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                .srcPitch = rows ? copy->src_pitch : copy->width,
                .dstPitch = rows ? copy->dst_pitch : copy->width,
                .srcHeight = copy->height,
                .dstHeight = copy->height,
                .WidthInBytes = copy->width,
                .Height = copy->height,
                .Depth = 1,
        };

        if (from_host)
                params.srcHost = (const void *)(uintptr_t)copy->src;
        else
                params.srcDevice = copy->src;
        if (to_host)
                params.dstHost = (void *)(uintptr_t)copy->dst;
        else
                params.dstDevice = copy->dst;
        return params;
}

static CUDA_MEMSET_NODE_PARAMS memset_params(const struct ds_memset *memset)
{
        return (CUDA_MEMSET_NODE_PARAMS){
                .dst = memset->dst,
                .pitch = memset->height > 1 ? memset->pitch : 0,
                .value = memset->value,
                .elementSize = memset->element_size,
                .width = memset->width,
                .height = memset->height,
        };
}

static void graph_want(ds_device *device, ds_device_graph *graph, uint64_t rungs)
{
        device->n_graphs_wanted += (rungs != 0) - (graph->wanted != 0);
        graph->wanted = rungs;
}

/* --- building ----------------------------------------------------------------------------------------------------- */

/* Sets the kernel's attributes for all contexts of this GPU: at load they were set only for its function in the
 * primary context. */
static CUresult build_allow(ds_device *device, const struct ds_launch *launch, CUkernel kernel)
{
        uint32_t used = DS_MIN(cuda_kernel_info(launch->kernel)->static_shared, GRAPH_SHARED_SURE);
        CUresult result = CUDA_SUCCESS;

        if (launch->shared_bytes > GRAPH_SHARED_SURE - used)
                result = CU(device, cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                        (int)launch->shared_bytes, kernel, device->ordinal);
        if (!result && launch->cluster[0] * launch->cluster[1] * launch->cluster[2] > GRAPH_CLUSTER_SURE)
                result = CU(device, cuKernelSetAttribute)(
                        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1, kernel, device->ordinal);
        return result;
}

static CUresult build_launch(ds_device *device, CUgraph graph, const struct ds_launch *launch, CUcontext context,
        const CUgraphNode *deps, size_t n_deps, CUgraphNode *ret)
{
        struct kernel_extra extra;
        CUDA_KERNEL_NODE_PARAMS params = kernel_params(launch, context, &extra);
        const CUkernelNodeAttrValue clusters = {
                .clusterDim = {launch->cluster[0], launch->cluster[1], launch->cluster[2]}};
        const CUkernelNodeAttrValue cooperative = {.cooperative = 1};
        CUresult result = build_allow(device, launch, params.kern);

        if (!result)
                result = CU(device, cuGraphAddKernelNode)(ret, graph, deps, n_deps, &params);
        if (!result && launch->cluster[0])
                result = CU(device, cuGraphKernelNodeSetAttribute)(
                        *ret, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &clusters);
        if (!result && launch->cooperative)
                result = CU(device, cuGraphKernelNodeSetAttribute)(*ret, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative);
        return result;
}

static CUresult build_node(ds_device *device, struct cuda_instance *instance, const struct ds_device_node *node,
        uint32_t index, CUcontext context, CUgraphNode *deps)
{
        CUgraphNode *ret = &instance->nodes[index];
        CUDA_MEMSET_NODE_PARAMS set;
        CUDA_MEMCPY3D copy;

        for (uint32_t i = 0; i < node->n_deps; i++)
                deps[i] = instance->nodes[node->deps[i]];
        switch (node->kind) {
        case DS_NODE_LAUNCH:
                return build_launch(device, instance->graph, &node->launch, context, deps, node->n_deps, ret);
        case DS_NODE_COPY:
                copy = copy_params(&node->copy);
                return CU(device, cuGraphAddMemcpyNode)(ret, instance->graph, deps, node->n_deps, &copy, context);
        case DS_NODE_MEMSET:
                set = memset_params(&node->memset);
                return CU(device, cuGraphAddMemsetNode)(ret, instance->graph, deps, node->n_deps, &set, context);
        case DS_NODE_NOTHING:
        case _DS_DEVICE_NODE_KIND_MAX:
                break;
        }
        return CU(device, cuGraphAddEmptyNode)(ret, instance->graph, deps, node->n_deps);
}

/* Logs the driver's refusal. Single launches of the nodes give the same results, so the refusal is no error. */
static void build_refused(const ds_device_graph *graph, uint32_t index, char text[static GRAPH_TEXT])
{
        const struct ds_device_node *node = &graph->nodes[index];
        char what[GRAPH_TEXT / 2] = "nothing";

        if (node->kind == DS_NODE_LAUNCH)
                snprintf(what, sizeof(what), "kernel %s", cuda_kernel_info(node->launch.kernel)->name);
        else if (node->kind == DS_NODE_COPY)
                snprintf(what, sizeof(what), "copy %d of %" PRIu64 " x %" PRIu64 " bytes, pitches %" PRIu64 " %" PRIu64,
                        (int)node->copy.kind, node->copy.width, node->copy.height, node->copy.src_pitch,
                        node->copy.dst_pitch);
        else if (node->kind == DS_NODE_MEMSET)
                snprintf(what, sizeof(what), "memset of %" PRIu64 " x %" PRIu64 " times %u bytes, pitch %" PRIu64,
                        node->memset.width, node->memset.height, node->memset.element_size, node->memset.pitch);
        snprintf(text, GRAPH_TEXT, "building a graph: node %u of %u, %s", index, graph->n, what);
}

/* Adds all nodes and instantiates the graph. After a failure `text` names the operation. */
static CUresult build_all(ds_device *device, const ds_device_graph *graph, uint32_t rung,
        struct cuda_instance *instance, CUgraphNode *deps, char text[static GRAPH_TEXT])
{
        CUresult result = CU(device, cuGraphCreate)(&instance->graph, 0);

        snprintf(text, GRAPH_TEXT, "building a graph of %u nodes", graph->n);
        for (uint32_t i = 0; !result && i < graph->n; i++) {
                result = build_node(device, instance, &graph->nodes[i], i, device->rungs[rung]->context, deps);
                if (result)
                        build_refused(graph, i, text);
        }
        if (!result)
                result = CU(device, cuGraphInstantiate)(&instance->exec, instance->graph, 0);
        device->n_stirs += instance->exec != NULL;
        if (!result)
                result = CU(device, cuGraphUpload)(instance->exec, device->rungs[rung]->streams[0].stream);
        return result;
}

static uint32_t graph_deps_max(const ds_device_graph *graph)
{
        uint32_t most = 1;

        for (uint32_t i = 0; i < graph->n; i++)
                most = DS_MAX(most, graph->nodes[i].n_deps);
        return most;
}

static int graph_build(ds_device *device, ds_device_graph *graph, uint32_t rung)
{
        struct cuda_instance *instance;
        CUgraphNode *deps = NULL;
        char text[GRAPH_TEXT];
        CUresult result;

        if (device->graph_nodes + graph->n > GRAPH_NODES_BUILT)
                return DS_CUDA_OUT_OF_MEMORY;
        instance = ds_alloc0(1, sizeof(*instance));
        if (instance)
                instance->nodes = ds_alloc0(graph->n, sizeof(*instance->nodes));
        if (instance && instance->nodes)
                deps = ds_alloc0(graph_deps_max(graph), sizeof(*deps));
        if (!deps) {
                if (instance)
                        ds_free(instance->nodes);
                ds_free(instance);
                return ds_error_origin(-ENOMEM);
        }
        instance->n = graph->n;
        device->graph_nodes += graph->n;
        result = build_all(device, graph, rung, instance, deps, text);
        ds_free(deps);
        if (result) {
                instance_free(device, instance);
                return ds_cuda_failed(device, result, text);
        }
        graph->at[rung] = instance;
        return 0;
}

int cuda_graph_build(ds_device *device, ds_device_graph *graph, uint32_t rung)
{
        const uint64_t bit = UINT64_C(1) << rung;
        int r = 0;

        if (rung >= device->n_rungs)
                return ds_error_origin(-ENOENT);
        if (device->lost) {
                /* No launch can use the instance any more. The request is removed, so that callers that build all
                 * requested instances come to an end. */
                graph_want(device, graph, graph->wanted & ~bit);
                return DS_CUDA_LAUNCH_FAILED;
        }
        for (uint32_t i = 0; !r && i < graph->n; i++)
                if (graph->nodes[i].kind == DS_NODE_LAUNCH)
                        r = cuda_launch_check(device, &graph->nodes[i].launch, rung);
        if (!r && !graph->at[rung])
                r = graph_build(device, graph, rung);
        graph_want(device, graph, graph->wanted & ~bit);
        if (r)
                graph->refused |= bit;
        return r;
}

int cuda_graph_ready(ds_device *device, ds_device_graph *graph, uint32_t rung)
{
        if (rung >= device->n_rungs || device->lost)
                return 0;
        if (!graph->at[rung] && !(graph->refused >> rung & 1))
                graph_want(device, graph, graph->wanted | UINT64_C(1) << rung);
        return graph->at[rung] != NULL;
}

/* --- creation and destruction ------------------------------------------------------------------------------------- */

static int node_fits(ds_device *device, const struct cuda_space *space, const struct ds_device_node *node)
{
        struct ds_copy copy;
        int r;

        switch (node->kind) {
        case DS_NODE_LAUNCH:
                if (cuda_kernel_space(node->launch.kernel) != space->id)
                        return DS_CUDA_INVALID_HANDLE;
                r = cuda_launch_check(device, &node->launch, 0);
                if (!r && node->launch.form != DS_PTX_FORM_NATIVE)
                        r = DS_CUDA_NOT_SUPPORTED;
                return r ? r : cuda_kernel_prints(node->launch.kernel) ? DS_CUDA_NOT_SUPPORTED : 0;
        case DS_NODE_COPY:
                copy = node->copy;
                r = cuda_copy_check(device, space, &copy);
                return r ? r : copy.kind == DS_COPY_HTOH || copy.kind != node->copy.kind ? DS_CUDA_NOT_SUPPORTED : 0;
        case DS_NODE_MEMSET:
                return cuda_memset_check(device, space, &node->memset);
        case DS_NODE_NOTHING:
        case _DS_DEVICE_NODE_KIND_MAX:
                break;
        }
        return 0;
}

static void graph_release(ds_device *device, ds_device_graph *graph)
{
        assert(!graph->owned && !graph->n_jobs);
        for (uint32_t i = 0; i < DS_DEVICE_RUNGS_MAX; i++)
                instance_goes(device, graph->at[i]);
        for (uint32_t i = 0; i < graph->n_kernels; i++)
                cuda_kernel_put(device, graph->kernels[i]);
        DL_DELETE(device->graphs, graph);
        ds_free(graph->kernels);
        ds_free(graph);
}

/* Bytes of a node in ds_graph_launch.params. */
static uint32_t params_room(const struct ds_device_node *node)
{
        return node->kind == DS_NODE_LAUNCH ? DS_ALIGN_UP(cuda_kernel_info(node->launch.kernel)->params_size, 8u) : 0;
}

static void graph_keep_kernels(ds_device_graph *graph)
{
        for (uint32_t i = 0; i < graph->n; i++) {
                const ds_device_kernel *kernel = graph->nodes[i].launch.kernel;

                if (graph->nodes[i].kind != DS_NODE_LAUNCH)
                        continue;
                cuda_kernel_get(kernel);
                graph->kernels[graph->n_kernels++] = kernel;
                graph->asserts |= cuda_kernel_asserts(kernel);
                graph->params_bytes += params_room(&graph->nodes[i]);
        }
}

int cuda_graph_new(
        ds_device *device, uint32_t id, const struct ds_device_node *nodes, uint32_t n, ds_device_graph **ret)
{
        struct cuda_space *space = cuda_space_find(device, id);
        ds_device_graph *graph;
        int r = 0;

        if (!space || !n)
                return ds_error_origin(-ENOENT);
        for (uint32_t i = 0; !r && i < n; i++)
                r = node_fits(device, space, &nodes[i]);
        if (r)
                return r;
        graph = ds_alloc0(1, sizeof(*graph));
        if (!graph)
                return ds_error_origin(-ENOMEM);
        graph->kernels = ds_alloc0(n, sizeof(*graph->kernels));
        if (!graph->kernels) {
                ds_free(graph);
                return ds_error_origin(-ENOMEM);
        }
        graph->nodes = nodes;
        graph->n = n;
        graph->owned = 1;
        graph_keep_kernels(graph);
        DL_APPEND(device->graphs, graph);
        *ret = graph;
        return 0;
}

ds_device_graph *cuda_graph_free(ds_device *device, ds_device_graph *graph)
{
        graph->owned = 0;
        graph->nodes = NULL;
        graph_want(device, graph, 0);
        if (!graph->n_jobs)
                graph_release(device, graph);
        return NULL;
}

void cuda_graph_get(ds_device_graph *graph, struct cuda_job *job)
{
        job->graph = graph;
        job->entries = DS_MIN(DS_MAX(graph->n, 1u), GRAPH_ENTRIES);
        graph->n_jobs++;
        graph->n_held++;
}

void cuda_graph_given(ds_device_graph *graph)
{
        assert(graph->n_held);
        graph->n_held--;
}

void cuda_graph_put(ds_device *device, ds_device_graph *graph, int given)
{
        assert(graph->n_jobs);
        graph->n_jobs--;
        if (!given)
                cuda_graph_given(graph);
        if (!graph->n_jobs && !graph->owned)
                graph_release(device, graph);
}

CUgraphExec cuda_graph_exec(const ds_device_graph *graph, uint32_t rung)
{
        return graph->at[rung] ? graph->at[rung]->exec : NULL;
}

int cuda_graph_asserts(const ds_device_graph *graph)
{
        return graph->asserts;
}

uint32_t cuda_graph_kernels(const ds_device_graph *graph)
{
        return graph->n_kernels;
}

/* --- new parameters ----------------------------------------------------------------------------------------------- */

static int launches_are_same(const struct ds_launch *a, const struct ds_launch *b)
{
        return a->kernel == b->kernel && !memcmp(a->grid, b->grid, sizeof(a->grid)) &&
               !memcmp(a->block, b->block, sizeof(a->block)) && a->shared_bytes == b->shared_bytes &&
               a->params_size == b->params_size && !memcmp(a->params, b->params, a->params_size);
}

static int nodes_are_same(const struct ds_device_node *a, const struct ds_device_node *b)
{
        switch (a->kind) {
        case DS_NODE_LAUNCH:
                return launches_are_same(&a->launch, &b->launch);
        case DS_NODE_COPY:
                return !memcmp(&a->copy, &b->copy, sizeof(a->copy));
        case DS_NODE_MEMSET:
                return !memcmp(&a->memset, &b->memset, sizeof(a->memset));
        case DS_NODE_NOTHING:
        case _DS_DEVICE_NODE_KIND_MAX:
                break;
        }
        return 1;
}

/* Whether the driver can change node a of an instance into node b in place. */
static int node_can_become(const struct ds_device_node *a, const struct ds_device_node *b)
{
        if (a->kind != b->kind)
                return 0;
        if (a->kind == DS_NODE_LAUNCH) /* shared memory and cluster size are fixed when the instance is built */
                return a->launch.kernel == b->launch.kernel && b->launch.shared_bytes <= a->launch.shared_bytes &&
                       a->launch.cooperative == b->launch.cooperative &&
                       !memcmp(a->launch.cluster, b->launch.cluster, sizeof(a->launch.cluster));
        if (a->kind == DS_NODE_COPY)
                return a->copy.kind == b->copy.kind && a->copy.height == b->copy.height;
        if (a->kind == DS_NODE_MEMSET)
                return a->memset.height == b->memset.height && a->memset.element_size == b->memset.element_size;
        return 1;
}

static CUresult instance_set(ds_device *device, const struct cuda_instance *instance, uint32_t index,
        const struct ds_device_node *node, CUcontext context)
{
        CUgraphNode handle = instance->nodes[index];
        CUDA_KERNEL_NODE_PARAMS launch;
        CUDA_MEMSET_NODE_PARAMS set;
        struct kernel_extra extra;
        CUDA_MEMCPY3D copy;

        switch (node->kind) {
        case DS_NODE_LAUNCH:
                launch = kernel_params(&node->launch, context, &extra);
                return CU(device, cuGraphExecKernelNodeSetParams)(instance->exec, handle, &launch);
        case DS_NODE_COPY:
                copy = copy_params(&node->copy);
                return CU(device, cuGraphExecMemcpyNodeSetParams)(instance->exec, handle, &copy, context);
        case DS_NODE_MEMSET:
                set = memset_params(&node->memset);
                return CU(device, cuGraphExecMemsetNodeSetParams)(instance->exec, handle, &set, context);
        case DS_NODE_NOTHING:
        case _DS_DEVICE_NODE_KIND_MAX:
                break;
        }
        return CUDA_SUCCESS;
}

static int graph_can_become(const ds_device_graph *from, const ds_device_graph *to)
{
        if (from->n != to->n || from->n_held)
                return 0;
        for (uint32_t i = 0; i < from->n; i++)
                if (!node_can_become(&from->nodes[i], &to->nodes[i]))
                        return 0;
        return 1;
}

void cuda_graph_take(ds_device *device, ds_device_graph *from, ds_device_graph *to)
{
        /* in these cases `from` keeps its instances, for the launches that name it */
        if (device->lost || !graph_can_become(from, to))
                return;
        for (uint32_t rung = 0; rung < device->n_rungs; rung++) {
                struct cuda_instance *instance = DS_TAKE_PTR(from->at[rung]);
                CUresult result = CUDA_SUCCESS;

                /* from now on launches of `from` on this rung are launched node by node */
                from->refused |= UINT64_C(1) << rung;
                if (!instance)
                        continue;
                for (uint32_t i = 0; !result && i < to->n; i++)
                        if (!nodes_are_same(&from->nodes[i], &to->nodes[i]))
                                result = instance_set(device, instance, i, &to->nodes[i], device->rungs[rung]->context);
                if (result)
                        (void)ds_cuda_failed(device, result, "new parameters of a graph");
                if (result)
                        instance_goes(device, instance);
                else
                        to->at[rung] = instance;
        }
        graph_want(device, from, 0);
}

/* Sets the nodes in the instance of one rung. An instance that the driver does not change is dropped, so launches on
 * that rung are launched node by node until it is built again. */
static void instance_change(ds_device *device, ds_device_graph *graph, uint32_t rung, const uint32_t *at,
        const struct ds_device_node *nodes, uint32_t n)
{
        CUresult result = CUDA_SUCCESS;

        for (uint32_t i = 0; !result && i < n; i++)
                if (!nodes_are_same(&graph->nodes[at[i]], &nodes[i]))
                        result = instance_set(device, graph->at[rung], at[i], &nodes[i], device->rungs[rung]->context);
        if (!result)
                return;
        (void)ds_cuda_failed(device, result, "new parameters of a graph's nodes");
        instance_goes(device, DS_TAKE_PTR(graph->at[rung]));
}

int cuda_graph_change(ds_device *device, uint32_t id, ds_device_graph *graph, const uint32_t *at,
        const struct ds_device_node *nodes, uint32_t n)
{
        struct cuda_space *space = cuda_space_find(device, id);
        int r = 0;

        if (!space || device->lost || graph->n_jobs)
                return DS_CUDA_NOT_SUPPORTED;
        for (uint32_t i = 0; !r && i < n; i++) {
                r = node_fits(device, space, &nodes[i]);
                if (!r && !node_can_become(&graph->nodes[at[i]], &nodes[i]))
                        r = DS_CUDA_NOT_SUPPORTED;
        }
        for (uint32_t rung = 0; !r && rung < device->n_rungs; rung++)
                if (graph->at[rung])
                        instance_change(device, graph, rung, at, nodes, n);
        return r;
}

/* The instance's copy of the parameters that the driver has; NULL: there is no memory. */
static uint8_t *instance_params(struct cuda_instance *instance, const ds_device_graph *graph)
{
        uint8_t *at;

        if (instance->params)
                return instance->params;
        at = instance->params = ds_alloc0(1, DS_MAX(graph->params_bytes, 1u));
        for (uint32_t i = 0; at && i < graph->n; i++) {
                const struct ds_device_node *node = &graph->nodes[i];

                if (node->kind == DS_NODE_LAUNCH && params_room(node))
                        memcpy(at, node->launch.params, cuda_kernel_info(node->launch.kernel)->params_size);
                at += params_room(node);
        }
        return instance->params;
}

uint32_t cuda_graph_params_bytes(const ds_device_graph *graph)
{
        return graph->params_bytes;
}

CUresult cuda_graph_set_params(ds_device *device, ds_device_graph *graph, uint32_t rung, const uint8_t *params)
{
        struct cuda_instance *instance = graph->at[rung];
        uint8_t *known = graph->nodes ? instance_params(instance, graph) : NULL;
        CUresult result = known ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

        for (uint32_t i = 0; !result && i < graph->n; i++) {
                const uint32_t room = params_room(&graph->nodes[i]);
                struct ds_device_node node;

                if (room && memcmp(known, params, room) != 0) {
                        node = graph->nodes[i];
                        node.launch.params = params;
                        result = instance_set(device, instance, i, &node, device->rungs[rung]->context);
                        memcpy(known, params, room);
                }
                known += room;
                params += room;
        }
        if (result) /* some nodes may have new parameters, and others none */
                instance_goes(device, DS_TAKE_PTR(graph->at[rung]));
        return result;
}

/* --- work for a quiesce ------------------------------------------------------------------------------------------- */

size_t cuda_graphs_put_off(const ds_device *device)
{
        return device->n_instances_going + device->n_graphs_wanted;
}

static void instances_drop_going(ds_device *device, size_t most)
{
        struct cuda_instance *instance;

        for (; most && (instance = device->instances_going); most--) {
                device->instances_going = instance->next;
                device->n_instances_going--;
                instance_free(device, instance);
        }
}

void cuda_graphs_put_off_do(ds_device *device)
{
        ds_device_graph *graph;
        uint32_t built = 0;

        instances_drop_going(device, GRAPH_DROPPED_AT_ONCE);
        if (device->n_instances_going || !device->n_graphs_wanted)
                return;
        DL_FOREACH(device->graphs, graph)
        {
                for (uint32_t rung = 0; graph->wanted && rung < device->n_rungs; rung++) {
                        if (built >= GRAPH_BUILT_AT_ONCE)
                                return;
                        if (!(graph->wanted >> rung & 1))
                                continue;
                        (void)cuda_graph_build(device, graph, rung);
                        built += graph->n;
                }
        }
}

void cuda_graphs_drop_going(ds_device *device)
{
        instances_drop_going(device, SIZE_MAX);
}

void cuda_graphs_free(ds_device *device)
{
        assert(!device->graphs);
        cuda_graphs_drop_going(device);
}
