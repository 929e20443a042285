/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs built from nodes: every kind of node, edges, lists, copies of graphs, child graphs, user objects, wrong
 * arguments */
#include "graphs.h"

#include <unistd.h>

#define ROWS 5
#define PITCH 64
#define WIDTH 24

static CUdeviceptr a, b;
static CUstream other;
static int called;

static void run(CUgraph graph, int times)
{
        CUgraphExec exec;

        OK(cuGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < times; i++)
                OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        OK(cuGraphExecDestroy(exec));
}

static void count_call(void *p)
{
        __atomic_add_fetch((int *)p, 1, __ATOMIC_SEQ_CST);
}

/* Whether a node is in a list. The order of root nodes in a list is undefined. */
static int among(CUgraphNode node, const CUgraphNode *list, size_t count)
{
        size_t i = 0;

        while (i < count && list[i] != node)
                i++;
        return i < count;
}

static void check_all_kinds(void)
{
        CUDA_HOST_NODE_PARAMS h = {count_call, &called}, got_host;
        CUDA_MEMSET_NODE_PARAMS got_set;
        CUDA_KERNEL_NODE_PARAMS got;
        CUgraphNode n[6], list[8];
        CUgraphNodeType type;
        CUgraph graph, child;
        size_t count = 8;

        called = 0;
        OK(cuGraphCreate(&child, 0));
        n[0] = add_kernel(child, NULL, 0, a, 100);
        add_kernel(child, NULL, 0, b, 200);
        OK(cuGraphCreate(&graph, 0));
        n[0] = add_memset(graph, NULL, 0, a, 1);
        n[1] = add_memset(graph, NULL, 0, b, 2);
        OK(cuGraphAddEmptyNode(&n[2], graph, n, 2));
        OK(cuGraphAddChildGraphNode(&n[3], graph, &n[2], 1, child));
        OK(cuGraphDestroy(child)); /* the parent graph has its own copy of the child graph */
        OK(cuGraphAddHostNode(&n[4], graph, &n[3], 1, &h));
        n[5] = add_kernel(graph, &n[4], 1, a, 1000);
        run(graph, 3);
        CHECK(called == 3);
        CHECK(value_at(a) == 1101 && value_at(b) == 202);
        OK(cuGraphGetNodes(graph, list, &count));
        CHECK(count == 6 && memcmp(list, n, sizeof(n)) == 0 && list[6] == NULL);
        count = 2;
        OK(cuGraphGetRootNodes(graph, list, &count));
        CHECK(count == 2 && among(n[0], list, 2) && among(n[1], list, 2));
        OK(cuGraphNodeGetType(n[3], &type));
        CHECK(type == CU_GRAPH_NODE_TYPE_GRAPH);
        OK(cuGraphKernelNodeGetParams(n[5], &got));
        CHECK(got.func == add && got.blockDimX == N && got.gridDimZ == 1 && got.extra == NULL);
        CHECK(*(CUdeviceptr *)got.kernelParams[0] == a && *(int *)got.kernelParams[2] == 1000);
        OK(cuGraphMemsetNodeGetParams(n[1], &got_set));
        CHECK(got_set.dst == b && got_set.value == 2 && got_set.width == N && got_set.elementSize == 4);
        OK(cuGraphHostNodeGetParams(n[4], &got_host));
        CHECK(got_host.fn == count_call && got_host.userData == &called);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphHostNodeGetParams(n[5], &got_host));
        OK(cuGraphDestroyNode(n[4])); /* the node's edges are destroyed too: its successor becomes a root */
        count = 8;
        OK(cuGraphGetRootNodes(graph, list, &count));
        CHECK(count == 3 && among(n[0], list, 3) && among(n[1], list, 3) && among(n[5], list, 3));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeGetParams(n[0], &got));
        OK(cuGraphDestroy(graph));
}

/* Graphs with a copy of a box, and with a copy to pageable memory */
static void check_copies(void)
{
        int can_map = 0;
        unsigned char out[ROWS * WIDTH], in[ROWS * PITCH];
        CUDA_MEMCPY3D down = {.WidthInBytes = WIDTH,
                .Height = ROWS,
                .Depth = 1,
                .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                .srcDevice = b,
                .srcPitch = PITCH,
                .dstMemoryType = CU_MEMORYTYPE_HOST,
                .dstHost = out,
                .dstPitch = WIDTH};
        CUDA_MEMCPY3D across = {.WidthInBytes = WIDTH,
                .Height = ROWS,
                .Depth = 1,
                .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                .srcDevice = a,
                .srcPitch = PITCH,
                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                .dstDevice = b,
                .dstPitch = PITCH};
        CUDA_MEMCPY3D got;
        CUgraphNode node, last;
        CUgraph graph;

        for (size_t i = 0; i < sizeof(in); i++)
                in[i] = (unsigned char)(i * 7);
        memset(out, 0, sizeof(out));
        OK(cuMemcpyHtoD(a, in, sizeof(in)));
        OK(cuMemsetD8(b, 0, sizeof(in)));
        OK(cuStreamSynchronize(NULL));
        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &across, context));
        OK(cuGraphMemcpyNodeGetParams(node, &got));
        CHECK(got.srcDevice == a && got.dstDevice == b && got.WidthInBytes == WIDTH && got.Height == ROWS);
        OK(cuDeviceGetAttribute(&can_map, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 0));
        if (can_map) /* a session without shared memory cannot copy pageable memory in graphs */
                OK(cuGraphAddMemcpyNode(&last, graph, &node, 1, &down, context));
        run(graph, 2);
        if (!can_map) {
                CUDA_MEMCPY2D c = {.WidthInBytes = WIDTH,
                        .Height = ROWS,
                        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .srcDevice = b,
                        .srcPitch = PITCH,
                        .dstMemoryType = CU_MEMORYTYPE_HOST,
                        .dstHost = out,
                        .dstPitch = WIDTH};

                OK(cuMemcpy2D(&c));
        }
        for (int row = 0; row < ROWS; row++)
                SAME(out + row * WIDTH, in + row * PITCH, WIDTH);
        across.Height = 0;
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemcpyNode(&node, graph, NULL, 0, &across, context));
        OK(cuGraphDestroy(graph));
}

static void check_edges(void)
{
        CUgraphNode n[3], from[4], to[4], twice[2], foreign;
        CUgraph graph, second;
        size_t count;

        OK(cuGraphCreate(&graph, 0));
        for (int i = 0; i < 3; i++)
                OK(cuGraphAddEmptyNode(&n[i], graph, NULL, 0));
        OK(cuGraphAddDependencies(graph, &n[0], &n[1], NULL, 1));
        OK(cuGraphAddDependencies(graph, &n[1], &n[2], NULL, 1));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &n[0], &n[1], NULL, 1));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &n[0], &n[0], NULL, 1));
        count = 4;
        OK(cuGraphGetEdges(graph, from, to, NULL, &count));
        CHECK(count == 2 && from[0] == n[0] && to[0] == n[1] && from[1] == n[1] && to[1] == n[2]);
        count = 0;
        OK(cuGraphNodeGetDependencies(n[2], NULL, NULL, &count));
        CHECK(count == 1);
        OK(cuGraphNodeGetDependentNodes(n[0], to, NULL, &count));
        CHECK(count == 1 && to[0] == n[1]);
        OK(cuGraphRemoveDependencies(graph, &n[0], &n[1], NULL, 1));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &n[0], &n[1], NULL, 1));
        OK(cuGraphCreate(&second, 0));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&foreign, second, n, 1));
        twice[0] = twice[1] = n[0];
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&foreign, graph, twice, 2));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&foreign, graph, NULL, 1));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphGetEdges(graph, from, NULL, NULL, &count));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphCreate(&second, 1));
        OK(cuGraphDestroy(second));
        OK(cuGraphDestroy(graph));
}

static void check_clone(void)
{
        int n = N, v = 5000;
        CUdeviceptr p = a;
        void *params[] = {&p, &n, &v};
        CUDA_KERNEL_NODE_PARAMS k = {add, 1, 1, 1, N, 1, 1, 0, params, NULL, NULL, NULL};
        CUgraphNode set, kernel, same, child_node;
        CUgraph graph, clone, parent, inner;
        CUgraphExec exec;

        OK(cuGraphCreate(&graph, 0));
        set = add_memset(graph, NULL, 0, a, 3);
        kernel = add_kernel(graph, &set, 1, a, 4);
        OK(cuGraphClone(&clone, graph));
        OK(cuGraphKernelNodeSetParams(kernel, &k)); /* changes the original graph only, not its clone */
        OK(cuGraphNodeFindInClone(&same, kernel, clone));
        CHECK(same != kernel);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&same, kernel, graph));
        run(clone, 1);
        CHECK(value_at(a) == 7);
        run(graph, 1);
        CHECK(value_at(a) == 5003);

        OK(cuGraphCreate(&parent, 0));
        OK(cuGraphAddChildGraphNode(&child_node, parent, NULL, 0, clone));
        OK(cuGraphChildGraphNodeGetGraph(child_node, &inner));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(inner));
        OK(cuGraphInstantiate(&exec, parent, 0));
        OK(cuGraphExecChildGraphNodeSetParams(exec, child_node, graph));
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(a) == 5003);
        OK(cuGraphExecDestroy(exec));
        run(parent, 1);
        CHECK(value_at(a) == 7);
        OK(cuGraphDestroy(parent));
        OK(cuGraphDestroy(clone));
        OK(cuGraphDestroy(graph));
}

static void check_events(void)
{
        CUgraphNode kernel, record, wait;
        CUgraph graph, waiting;
        CUgraphExec exec;
        CUevent event, got = NULL;

        OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
        OK(cuGraphCreate(&graph, 0));
        kernel = add_memset(graph, NULL, 0, a, 8);
        OK(cuGraphAddEventRecordNode(&record, graph, &kernel, 1, event));
        OK(cuGraphEventRecordNodeGetEvent(record, &got));
        CHECK(got == event);
        OK(cuGraphCreate(&waiting, 0));
        OK(cuGraphAddEventWaitNode(&wait, waiting, NULL, 0, event));
        add_kernel(waiting, &wait, 1, a, 1);
        OK(cuGraphInstantiate(&exec, waiting, 0));
        run(graph, 1);
        EXPECT(CUDA_SUCCESS, cuEventQuery(event));
        OK(cuMemsetD32Async(b, 0, N, other));
        OK(cuGraphLaunch(exec, other));
        OK(cuStreamSynchronize(other));
        CHECK(value_at(a) == 9);
        OK(cuGraphExecDestroy(exec));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphEventWaitNodeGetEvent(record, &got));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        OK(cuEventDestroy(event));
        /* CUDA does not define a launch after the event's destruction; under DetShare the graph runs without the
         * event */
        if (program_is_shared())
                OK(cuGraphLaunch(exec, s));
        CHECK(value_at(a) == 8);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        OK(cuGraphDestroy(waiting));
}

static void check_words(void)
{
        CUstreamBatchMemOpParams ops[2];
        CUDA_BATCH_MEM_OP_NODE_PARAMS p = {context, 2, ops, 0}, got;
        CUgraphNode node;
        CUgraph graph;
        int served = 0;

        OK(cuDeviceGetAttribute(&served, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 0));
        if (!served)
                return;
        memset(ops, 0, sizeof(ops));
        ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        ops[0].writeValue.address = a;
        ops[0].writeValue.value = 123;
        ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
        ops[1].writeValue.address = a + 8;
        ops[1].writeValue.value64 = 0x500000004ull;
        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &p));
        memset(ops, 0xff, sizeof(ops)); /* the graph has its own copy of the operations */
        OK(cuGraphBatchMemOpNodeGetParams(node, &got));
        CHECK(got.count == 2 && got.paramArray[0].writeValue.value == 123);
        run(graph, 1);
        CHECK(value_at(a) == 123 && value_at(a + 8) == 4 && value_at(a + 12) == 5);
        OK(cuGraphDestroy(graph));
}

static void check_generic(void)
{
        CUgraphNodeParams p;
        CUgraphNode set, host;
        CUgraph graph;
        CUgraphExec exec;

        called = 0;
        OK(cuGraphCreate(&graph, 0));
        memset(&p, 0, sizeof(p));
        p.type = CU_GRAPH_NODE_TYPE_MEMSET;
        p.memset.dst = a;
        p.memset.value = 11;
        p.memset.elementSize = 4;
        p.memset.width = N;
        p.memset.height = 1;
        p.memset.ctx = context;
        OK(cuGraphAddNode(&set, graph, NULL, NULL, 0, &p));
        p.memset.value = 12;
        OK(cuGraphNodeSetParams(set, &p));
        memset(&p, 0, sizeof(p));
        p.type = CU_GRAPH_NODE_TYPE_HOST;
        p.host.fn = count_call;
        p.host.userData = &called;
        OK(cuGraphAddNode(&host, graph, &set, NULL, 1, &p));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, s));
        CHECK(value_at(a) == 12);
        CHECK(called == 1);
        OK(cuGraphExecNodeSetParams(exec, host, &p));
        /* parameters of a host node are refused for a node of another kind */
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecNodeSetParams(exec, set, &p));
        OK(cuGraphExecDestroy(exec));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&host, graph, NULL, NULL, 0, NULL));
        OK(cuGraphDestroy(graph));
}

static void check_attributes(void)
{
        CUkernelNodeAttrValue value;
        CUgraphNode first, second;
        CUgraph graph;

        OK(cuGraphCreate(&graph, 0));
        first = add_kernel(graph, NULL, 0, a, 1);
        second = add_kernel(graph, NULL, 0, a, 1);
        memset(&value, 0, sizeof(value));
        value.priority = -1;
        OK(cuGraphKernelNodeSetAttribute(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
        OK(cuGraphKernelNodeCopyAttributes(second, first));
        memset(&value, 0, sizeof(value));
        OK(cuGraphKernelNodeGetAttribute(second, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
        CHECK(value.priority == -1);
        OK(cuGraphKernelNodeGetAttribute(second, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
        CHECK(value.cooperative == 0);
        run(graph, 1);
        OK(cuGraphDestroy(graph));
}

/* The destructor runs when neither the program nor a graph nor an instance refers to the object. */
static void check_user_objects(void)
{
        int *destroyed = calloc(1, sizeof(int));
        CUuserObject object;
        CUgraph graph;
        CUgraphExec exec;

        OK(cuUserObjectCreate(&object, destroyed, count_call, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
        EXPECT(CUDA_ERROR_INVALID_VALUE,
                cuUserObjectCreate(&object, destroyed, NULL, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
        add_kernel(graph, NULL, 0, a, 1);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphDestroy(graph));
        CHECK(__atomic_load_n(destroyed, __ATOMIC_SEQ_CST) == 0);
        OK(cuGraphLaunch(exec, s));
        OK(cuGraphExecDestroy(exec));
        OK(cuStreamSynchronize(s));
        for (int i = 0; i < 1000 && !__atomic_load_n(destroyed, __ATOMIC_SEQ_CST); i++)
                usleep(10000);
        CHECK(__atomic_load_n(destroyed, __ATOMIC_SEQ_CST) == 1);
        free(destroyed);
}

/* A context is destroyed while a destroyed graph with a user object runs. */
static void check_end_of_context(CUfunction busy)
{
        static int destroyed;
        unsigned int steps = 3000000, seed = 1;
        void *params[] = {&b, &steps, &seed};
        CUDA_KERNEL_NODE_PARAMS k = {busy, 1, 1, 1, 1, 1, 1, 0, params, NULL, NULL, NULL};
        CUuserObject object;
        CUgraphNode node;
        CUgraph graph;
        CUgraphExec exec;

        OK(cuUserObjectCreate(&object, &destroyed, count_call, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
        OK(cuGraphAddKernelNode(&node, graph, NULL, 0, &k));
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphDestroy(graph));
        OK(cuGraphLaunch(exec, s));
        OK(cuGraphExecDestroy(exec));
        OK(cuCtxDestroy(context));
        /* a thread of the driver runs the remaining destructors: that may need some time, and the process ends soon */
        for (int i = 0; i < 200 && !__atomic_load_n(&destroyed, __ATOMIC_SEQ_CST); i++)
                usleep(10000);
}

static void check_dot(void)
{
        char path[64], text[8192];
        CUgraphNode node;
        CUgraph graph;
        size_t n = 0;
        FILE *f;

        snprintf(path, sizeof(path), "/tmp/graphs_nodes.%d.dot", (int)getpid());
        OK(cuGraphCreate(&graph, 0));
        node = add_memset(graph, NULL, 0, a, 1);
        add_kernel(graph, &node, 1, a, 1);
        OK(cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
        f = fopen(path, "r");
        CHECK(f != NULL);
        if (f) {
                n = fread(text, 1, sizeof(text) - 1, f);
                fclose(f);
        }
        text[n] = 0;
        CHECK(strstr(text, "digraph") && strstr(text, "->") && strstr(text, "prog_add"));
        unlink(path);
        OK(cuGraphDestroy(graph));
}

int main(int argc, char **argv)
{
        CUmodule module;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        add = program_function(module, "prog_add");
        MUST(cuMemAlloc(&a, N * 4));
        MUST(cuMemAlloc(&b, N * 4));
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        check_all_kinds();
        check_copies();
        check_edges();
        check_clone();
        check_events();
        check_words();
        check_generic();
        check_attributes();
        check_user_objects();
        check_dot();
        check_end_of_context(program_function(module, "prog_busy"));
        return program_end("graphs_nodes");
}
