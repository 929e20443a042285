/* SPDX-License-Identifier: Apache-2.0 */
/* Instantiated graphs: updates of single nodes and whole graphs, disabled nodes, flags, memory nodes */
#include "graphs.h"

static CUfunction nothing;
static CUdeviceptr a, b;

static void check_set_params(void)
{
        int n = N, v = 30;
        CUdeviceptr p = a;
        void *params[] = {&p, &n, &v};
        CUDA_KERNEL_NODE_PARAMS k = {add, 1, 1, 1, N, 1, 1, 0, params, NULL, NULL, NULL};
        CUDA_MEMSET_NODE_PARAMS m = {.dst = a, .value = 2, .elementSize = 4, .width = N, .height = 1};
        CUDA_MEMCPY3D c = {.WidthInBytes = 4,
                .Height = 1,
                .Depth = 1,
                .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                .srcDevice = a,
                .dstDevice = b};
        CUgraphNode set, kernel, copy;
        CUgraph graph, unrelated;
        CUgraphExec exec;

        OK(cuGraphCreate(&graph, 0));
        set = add_memset(graph, NULL, 0, a, 1);
        kernel = add_kernel(graph, &set, 1, a, 10);
        OK(cuGraphAddMemcpyNode(&copy, graph, &kernel, 1, &c, context));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(a) == 11 && value_at(b) == 11);
        OK(cuGraphExecKernelNodeSetParams(exec, kernel, &k));
        v = 0; /* the instance has its own copy of the kernel's parameters */
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(a) == 31);
        OK(cuGraphExecMemsetNodeSetParams(exec, set, &m, context));
        c.dstDevice = b + 8;
        OK(cuGraphExecMemcpyNodeSetParams(exec, copy, &c, context));
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(a) == 32 && value_at(b) == 31 && value_at(b + 8) == 32);
        k.func = nothing;
        k.kernelParams = NULL;
        OK(cuGraphExecKernelNodeSetParams(exec, kernel, &k));
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(a) == 2);
        k.blockDimX = 0;
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecKernelNodeSetParams(exec, kernel, &k));
        OK(cuGraphCreate(&unrelated, 0));
        set = add_memset(unrelated, NULL, 0, a, 1);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecMemsetNodeSetParams(exec, set, &m, context));
        OK(cuGraphDestroy(unrelated));
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
}

static void check_enabled(void)
{
        CUgraphNode set, kernel, empty;
        CUgraph graph;
        CUgraphExec exec;
        unsigned int enabled = 9;

        OK(cuGraphCreate(&graph, 0));
        set = add_memset(graph, NULL, 0, a, 1);
        kernel = add_kernel(graph, &set, 1, a, 10);
        OK(cuGraphAddEmptyNode(&empty, graph, &kernel, 1));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphNodeGetEnabled(exec, kernel, &enabled));
        CHECK(enabled == 1);
        OK(cuGraphNodeSetEnabled(exec, kernel, 0));
        OK(cuGraphNodeGetEnabled(exec, kernel, &enabled));
        CHECK(enabled == 0);
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(a) == 1);
        OK(cuGraphNodeSetEnabled(exec, kernel, 1));
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(a) == 11);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(exec, empty, 0));
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
}

static CUgraph two_nodes(unsigned int value, int v, CUgraphNode *ret_last)
{
        CUgraphNode first;
        CUgraph graph;

        OK(cuGraphCreate(&graph, 0));
        first = add_memset(graph, NULL, 0, a, value);
        *ret_last = add_kernel(graph, &first, 1, a, v);
        return graph;
}

static void expect_refusal(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResult result, CUgraphNode node)
{
        CUgraphExecUpdateResultInfo info = {0};

        EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, graph, &info));
        CHECK(info.result == result);
        CHECK(info.errorNode == node);
        OK(cuGraphDestroy(graph));
}

static void check_whole_update(void)
{
        CUgraphExecUpdateResultInfo info;
        CUgraphNode node, first;
        CUgraph graph = two_nodes(1, 10, &node);
        CUgraphExec exec;

        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphDestroy(graph));
        for (int i = 0; i < 4; i++) {
                graph = two_nodes(100u * (unsigned int)i, i, &node);
                OK(cuGraphExecUpdate(exec, graph, &info));
                CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
                OK(cuGraphDestroy(graph));
                OK(cuGraphLaunch(exec, s));
                CHECK(value_at(a) == 101 * i);
        }
        OK(cuGraphCreate(&graph, 0));
        expect_refusal(exec, graph, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL);
        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphAddEmptyNode(&first, graph, NULL, 0));
        node = add_kernel(graph, &first, 1, a, 1);
        expect_refusal(exec, graph, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, first);
        OK(cuGraphLaunch(exec, s)); /* the refused update has not changed the instance */
        CHECK(value_at(a) == 303);
        OK(cuGraphExecDestroy(exec));
}

/* A memset node may get another target, also in pinned memory. */
static void check_other_memory(void)
{
        CUDA_MEMSET_NODE_PARAMS m = {.value = 6, .elementSize = 4, .width = 4, .height = 1};
        CUgraphNode node;
        CUgraphExec exec;
        CUgraph graph;
        int *pinned;

        MUST(cuMemAllocHost((void **)&pinned, 64));
        memset(pinned, 0, 64);
        OK(cuGraphCreate(&graph, 0));
        node = add_memset(graph, NULL, 0, a, 5);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, s));
        /* without shared memory, over the socket alone, pinned memory has no device address */
        if (!cuMemHostGetDevicePointer(&m.dst, pinned, 0)) {
                OK(cuGraphExecMemsetNodeSetParams(exec, node, &m, context));
                OK(cuGraphLaunch(exec, s));
                OK(cuStreamSynchronize(s));
                CHECK(pinned[0] == 6 && pinned[3] == 6 && pinned[4] == 0);
        }
        CHECK(value_at(a) == 5);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        OK(cuMemFreeHost(pinned));
}

static void check_flags(void)
{
        CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
        CUgraphNode n[2];
        CUgraph graph;
        CUgraphExec exec;
        cuuint64_t flags = 99;

        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphInstantiate(&exec, graph,
                CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY));
        OK(cuGraphExecGetFlags(exec, &flags));
        /* a driver may drop flags that have no effect on this graph */
        CHECK((flags & ~(cuuint64_t)(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                     CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)) == 0);
        OK(cuGraphUpload(exec, s));
        OK(cuGraphLaunch(exec, s)); /* launches an empty graph */
        OK(cuStreamSynchronize(s));
        OK(cuGraphExecDestroy(exec));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&exec, graph, 64));
        params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
        params.hUploadStream = s;
        OK(cuGraphInstantiateWithParams(&exec, graph, &params));
        CHECK(params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphAddEmptyNode(&n[0], graph, NULL, 0));
        OK(cuGraphAddEmptyNode(&n[1], graph, &n[0], 1));
        OK(cuGraphAddDependencies(graph, &n[1], &n[0], NULL, 1)); /* closes a cycle */
        params.flags = 0;
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&exec, graph, &params));
        CHECK(params.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE);
        OK(cuGraphDestroy(graph));
}

static CUgraph allocating(CUgraphNode *ret_node, CUdeviceptr *ret)
{
        CUDA_MEM_ALLOC_NODE_PARAMS p = {
                .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
                .bytesize = N * 4,
        };
        CUgraph graph;

        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphAddMemAllocNode(ret_node, graph, NULL, 0, &p));
        *ret = p.dptr;
        return graph;
}

/* A graph with nodes that allocate memory and free it again */
static void check_memory_within(void)
{
        CUdeviceptr p;
        CUgraphNode node, freed;
        CUgraph graph = allocating(&node, &p), other;
        CUgraphExec exec;

        node = add_memset(graph, &node, 1, p, 21);
        node = add_kernel(graph, &node, 1, p, 21);
        CUDA_MEMCPY3D c = {.WidthInBytes = 4,
                .Height = 1,
                .Depth = 1,
                .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                .srcDevice = p,
                .dstDevice = a};
        OK(cuGraphAddMemcpyNode(&node, graph, &node, 1, &c, context));
        OK(cuGraphAddMemFreeNode(&freed, graph, &node, 1, p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&freed, graph, &node, 1, p));
        EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&other, graph));
        EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(freed));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, s));
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(a) == 42);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
}

/* A graph that allocates memory which outlives its launch */
static void check_memory_beyond(void)
{
        CUdeviceptr p;
        CUgraphNode node;
        CUgraph graph = allocating(&node, &p);
        CUgraphExec exec;

        node = add_memset(graph, &node, 1, p, 77);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(p) == 77);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, s));
        OK(cuMemFree(p));
        OK(cuGraphLaunch(exec, s));
        OK(cuMemFreeAsync(p, s));
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(p) == 77);
        OK(cuMemFree(p));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree(p));
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphInstantiate(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
        OK(cuGraphLaunch(exec, s));
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
}

static void check_memory_captured(void)
{
        CUdeviceptr p = 0;
        CUgraph graph = NULL;
        CUgraphExec exec;
        size_t n = 0;

        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cuMemAllocAsync(&p, N * 4, s));
        OK(cuMemsetD32Async(p, 9, N, s));
        OK(cuMemcpyDtoDAsync(b, p, N * 4, s));
        OK(cuMemFreeAsync(p, s));
        OK(cuStreamEndCapture(s, &graph));
        OK(cuGraphGetNodes(graph, NULL, &n));
        CHECK(n == 4);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphDestroy(graph));
        OK(cuGraphLaunch(exec, s));
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(b + 4 * (N - 1)) == 9);
        OK(cuGraphExecDestroy(exec));
}

int main(int argc, char **argv)
{
        CUmodule module;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        add = program_function(module, "prog_add");
        nothing = program_function(module, "prog_nothing");
        MUST(cuMemAlloc(&a, N * 4));
        MUST(cuMemAlloc(&b, N * 4));
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        check_set_params();
        check_enabled();
        check_whole_update();
        check_other_memory();
        check_flags();
        check_memory_within();
        check_memory_beyond();
        check_memory_captured();
        OK(cuCtxDestroy(context));
        return program_end("graphs_update");
}
