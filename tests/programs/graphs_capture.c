/* SPDX-License-Identifier: Apache-2.0 */
/* Captured graphs: results of their launches, forks and joins, and other work during a capture */
#include "program.h"

#include <pthread.h>

#define N 256

static CUcontext context;
static CUfunction busy, add;
static CUdeviceptr a, b;
static CUstream s, side, other;
static CUevent fork_event, join_event;
static int host[N], called;

static void add_to(CUdeviceptr p, int n, int v, CUstream stream)
{
        void *params[] = {&p, &n, &v};

        OK(cuLaunchKernel(add, 1, 1, 1, (unsigned int)n, 1, 1, 0, stream, params, NULL));
}

/* Fills memory and waits for that, because the streams of this program do not wait for the legacy stream. */
static void fill(CUdeviceptr p, unsigned int v)
{
        OK(cuMemsetD32(p, v, N));
        OK(cuStreamSynchronize(NULL));
}

static CUgraph end(CUstream stream)
{
        CUgraph graph = NULL;

        OK(cuStreamEndCapture(stream, &graph));
        CHECK(graph != NULL);
        return graph;
}

static size_t count_nodes(CUgraph graph)
{
        size_t n = 0;

        OK(cuGraphGetNodes(graph, NULL, &n));
        return n;
}

static int value_at(CUdeviceptr p)
{
        int v = -1;

        OK(cuMemcpyDtoH(&v, p, sizeof(v)));
        return v;
}

/* Captured work does not run during the capture; it runs at each launch of the graph. */
static void check_chain(void)
{
        CUgraph graph;
        CUgraphExec exec;

        fill(a, 7);
        fill(b, 0);
        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cuMemsetD32Async(a, 5, N, s));
        add_to(a, N, 10, s);
        OK(cuMemcpyDtoDAsync(b, a, N * 4, s));
        add_to(b, N, 100, s);
        graph = end(s);
        CHECK(count_nodes(graph) == 4);
        CHECK(value_at(a) == 7 && value_at(b) == 0);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphDestroy(graph));
        for (int i = 0; i < 5; i++) {
                OK(cuMemsetD32Async(b, (unsigned int)i, N, s));
                OK(cuGraphLaunch(exec, s));
        }
        add_to(b, N, 1000, s);
        OK(cuStreamSynchronize(s));
        CHECK(value_at(a + 4 * (N - 1)) == 15);
        CHECK(value_at(b) == 1115 && value_at(b + 4 * (N - 1)) == 1115);
        OK(cuGraphLaunch(exec, NULL)); /* the graph is launched into another stream than it was captured from */
        OK(cuStreamSynchronize(NULL));
        CHECK(value_at(b) == 115);
        OK(cuGraphExecDestroy(exec));
}

/* Parameters are copied at capture; memory is read when the graph runs. */
static void check_copies_of_parameters(void)
{
        CUgraph graph;
        CUgraphExec exec;
        int n = N, v = 3;
        CUdeviceptr p = a;
        void *params[] = {&p, &n, &v};

        fill(a, 1);
        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        OK(cuLaunchKernel(add, 1, 1, 1, N, 1, 1, 0, s, params, NULL));
        v = 1000;
        p = 0;
        graph = end(s);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphDestroy(graph));
        OK(cuGraphLaunch(exec, s));
        OK(cuGraphLaunch(exec, s));
        OK(cuGraphExecDestroy(exec)); /* the instance is destroyed while the graph may still run */
        OK(cuStreamSynchronize(s));
        CHECK(value_at(a) == 7);
}

static void fork_and_join(void)
{
        OK(cuEventRecord(fork_event, s));
        OK(cuStreamWaitEvent(side, fork_event, 0));
        add_to(a, N, 1, s);
        add_to(b, N, 2, side);
        add_to(b, N, 3, side);
        OK(cuEventRecord(join_event, side));
        OK(cuStreamWaitEvent(s, join_event, 0));
}

static void check_fork(void)
{
        CUstreamCaptureStatus status;
        CUgraphNode nodes[8], from[8], to[8];
        CUgraph graph;
        CUgraphExec exec;
        size_t n = 8;

        fill(a, 0);
        fill(b, 0);
        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        add_to(a, N, 10, s);
        fork_and_join();
        OK(cuStreamIsCapturing(side, &status));
        CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
        OK(cuMemcpyDtoDAsync(b, a, 4, s));
        graph = end(s);
        OK(cuStreamIsCapturing(side, &status));
        CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
        OK(cuGraphGetNodes(graph, nodes, &n));
        CHECK(n == 5);
        n = 8;
        OK(cuGraphGetEdges(graph, from, to, NULL, &n));
        CHECK(n == 5);
        n = 8;
        OK(cuGraphGetRootNodes(graph, from, &n));
        CHECK(n == 1 && from[0] == nodes[0]);
        n = 8;
        OK(cuGraphNodeGetDependencies(nodes[4], from, NULL, &n));
        CHECK(n == 2);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, other));
        OK(cuGraphLaunch(exec, s)); /* this launch runs after the other launch of the same graph */
        OK(cuStreamSynchronize(s));
        CHECK(value_at(a) == 22 && value_at(b) == 22 && value_at(b + 4) == 10);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
}

static void count_call(void *p)
{
        __atomic_add_fetch((int *)p, 1, __ATOMIC_SEQ_CST);
}

static void check_host_function(void)
{
        CUgraph graph;
        CUgraphExec exec;

        called = 0;
        fill(a, 0);
        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        add_to(a, N, 1, s);
        OK(cuLaunchHostFunc(s, count_call, &called));
        add_to(a, N, 1, s);
        graph = end(s);
        OK(cuGraphInstantiate(&exec, graph, 0));
        CHECK(called == 0);
        for (int i = 0; i < 20; i++)
                OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        CHECK(called == 20);
        CHECK(value_at(a) == 40);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
}

/* Pageable memory is read and written when the graph runs, not at capture. */
static void check_host_memory(void)
{
        int *pinned, out[N], can_map = 0;
        CUgraph graph;
        CUgraphExec exec;

        OK(cuDeviceGetAttribute(&can_map, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 0));
        if (!can_map) /* in a session without shared memory, graphs cannot copy pageable memory */
                return;
        MUST(cuMemAllocHost((void **)&pinned, sizeof(host)));
        memset(host, 0, sizeof(host));
        memset(out, 0, sizeof(out));
        memset(pinned, 0, sizeof(host));
        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cuMemcpyHtoDAsync(a, host, sizeof(host), s));
        OK(cuMemcpyHtoDAsync(b, pinned, sizeof(host), s));
        add_to(a, N, 1, s);
        add_to(b, N, 2, s);
        OK(cuMemcpyDtoHAsync(out, a, sizeof(out), s));
        OK(cuMemcpyDtoHAsync(pinned, b, sizeof(out), s));
        graph = end(s);
        OK(cuGraphInstantiate(&exec, graph, 0));
        for (int i = 1; i < 4; i++) {
                for (int k = 0; k < N; k++)
                        host[k] = i * 1000 + k;
                OK(cuGraphLaunch(exec, s));
                OK(cuStreamSynchronize(s));
                CHECK(out[0] == i * 1000 + 1 && out[N - 1] == i * 1000 + N);
                CHECK(pinned[0] == 2 * i && pinned[N - 1] == 2 * i);
        }
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        OK(cuMemFreeHost(pinned));
}

static void *work_beside(void *unused)
{
        CUdeviceptr p;
        CUmodule module;

        OK(cuCtxSetCurrent(context));
        MUST(cuMemAlloc(&p, N * 4));
        OK(cuMemsetD32Async(p, 4, N, other));
        module = program_module("prog_basic");
        add_to(p, N, 5, other);
        OK(cuStreamSynchronize(other));
        CHECK(value_at(p) == 9);
        OK(cuModuleUnload(module));
        OK(cuMemFree(p));
        return unused;
}

/* While one thread captures, other threads allocate, load and launch. In relaxed mode the capturing thread does too. */
static void check_beside(void)
{
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        pthread_t thread;
        CUdeviceptr p;
        CUgraph graph;
        CUgraphExec exec;

        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CHECK(pthread_create(&thread, NULL, work_beside, NULL) == 0);
        pthread_join(thread, NULL);
        OK(cuThreadExchangeStreamCaptureMode(&mode));
        CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
        MUST(cuMemAlloc(&p, N * 4));
        OK(cuThreadExchangeStreamCaptureMode(&mode));
        CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
        OK(cuMemsetD32Async(p, 3, N, s));
        add_to(p, N, 4, s);
        graph = end(s);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        CHECK(value_at(p) == 7);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        OK(cuMemFree(p));
}

/* Queries that PyTorch makes on a capturing stream, and its way to add nodes */
static void check_info(void)
{
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        const CUgraphNode *deps = NULL;
        CUgraphNode empty;
        CUgraph graph = NULL, captured;
        cuuint64_t id = 0, again = 0;
        size_t n = 0;

        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        add_to(a, N, 1, s);
        OK(cuStreamGetCaptureInfo(s, &status, &id, &graph, &deps, NULL, &n));
        CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0 && graph && n == 1 && deps);
        OK(cuGraphAddEmptyNode(&empty, graph, deps, n));
        OK(cuStreamUpdateCaptureDependencies(s, &empty, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
        add_to(a, N, 1, s);
        OK(cuStreamGetCaptureInfo(s, &status, &again, NULL, NULL, NULL, NULL));
        CHECK(again == id);
        captured = end(s);
        CHECK(captured == graph && count_nodes(graph) == 3);
        n = 1;
        OK(cuGraphNodeGetDependentNodes(empty, NULL, NULL, &n));
        CHECK(n == 1);
        OK(cuGraphDestroy(graph));
        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cuStreamGetCaptureInfo(s, &status, &again, NULL, NULL, NULL, NULL));
        CHECK(again != id);
        OK(cuStreamEndCapture(s, &graph));
        OK(cuGraphDestroy(graph));
}

/* Captures into an existing graph, after one of its nodes. */
static void check_into_graph(void)
{
        CUDA_MEMSET_NODE_PARAMS set = {.dst = a, .value = 40, .elementSize = 4, .width = N, .height = 1};
        CUgraphNode first;
        CUgraph graph, same = NULL;
        CUgraphExec exec;

        OK(cuGraphCreate(&graph, 0));
        OK(cuGraphAddMemsetNode(&first, graph, NULL, 0, &set, context));
        OK(cuStreamBeginCaptureToGraph(s, graph, &first, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
        add_to(a, N, 2, s);
        OK(cuStreamEndCapture(s, &same));
        CHECK(same == graph && count_nodes(graph) == 2);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, s));
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        CHECK(value_at(a) == 42);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
}

/* A captured graph records events with times, for which other streams wait. */
static void check_external_events(void)
{
        CUevent before, after;
        CUdeviceptr scratch = b;
        unsigned int steps = 100000, seed = 3;
        void *params[] = {&scratch, &steps, &seed};
        float ms = -1;
        CUgraph graph;
        CUgraphExec exec;

        OK(cuEventCreate(&before, CU_EVENT_DEFAULT));
        OK(cuEventCreate(&after, CU_EVENT_DEFAULT));
        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cuEventRecordWithFlags(before, s, CU_EVENT_RECORD_EXTERNAL));
        OK(cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
        OK(cuEventRecordWithFlags(after, s, CU_EVENT_RECORD_EXTERNAL));
        graph = end(s);
        CHECK(count_nodes(graph) == 3);
        OK(cuGraphInstantiate(&exec, graph, 0));
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamWaitEvent(other, after, 0));
        OK(cuMemcpyDtoDAsync(a, b, 4, other));
        OK(cuEventSynchronize(after));
        OK(cuEventElapsedTime(&ms, before, after));
        CHECK(ms >= 0); /* two events that ended when the daemon looked have the same time, so 0 is possible */
        OK(cuStreamSynchronize(other));
        CHECK(value_at(a) == value_at(b));
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        OK(cuEventDestroy(before));
        OK(cuEventDestroy(after));
}

/* A value above 255 for one-byte elements: CUDA leaves open what is set; here it is the low byte. */
static void check_wide_byte(CUgraph set, CUdeviceptr p)
{
        CUDA_MEMSET_NODE_PARAMS wide = {.dst = p, .value = 0x12c, .elementSize = 1, .width = 4, .height = 1};
        CUgraphExec exec;
        CUgraphNode node;
        int v;

        fill(p, 0);
        OK(cuGraphAddMemsetNode(&node, set, NULL, 0, &wide, context));
        OK(cuGraphInstantiate(&exec, set, 0));
        OK(cuGraphLaunch(exec, s));
        OK(cuStreamSynchronize(s));
        v = value_at(p);
        if (program_is_shared())
                CHECK(v == 0x2c2c2c2c);
        else
                NOTE("graphs_capture: 4 bytes set to 0x12c are 0x%08x", (unsigned int)v);
        OK(cuGraphExecDestroy(exec));
}

/* Captured kernels keep the priority of their stream; captured events have no time; other graphs can be updated
 * during a capture. */
static void check_details(void)
{
        CUDA_MEMSET_NODE_PARAMS low = {.dst = a, .value = 0x2c, .elementSize = 1, .width = 4, .height = 1};
        CUgraphExecUpdateResultInfo info;
        CUkernelNodeAttrValue value;
        CUgraphNode node;
        CUgraphExec exec;
        CUgraph graph, set;
        size_t count = 1;
        CUstream first;
        float ms;

        OK(cuGraphCreate(&set, 0));
        OK(cuGraphAddMemsetNode(&node, set, NULL, 0, &low, context));
        OK(cuGraphInstantiate(&exec, set, 0));
        OK(cuStreamCreateWithPriority(&first, CU_STREAM_NON_BLOCKING, -3));
        OK(cuStreamBeginCapture(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
        add_to(a, N, 1, first);
        OK(cuEventRecord(fork_event, first));
        OK(cuGraphExecUpdate(exec, set, &info));
        CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
        graph = end(first);
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuEventElapsedTime(&ms, fork_event, fork_event));
        OK(cuGraphGetNodes(graph, &node, &count));
        OK(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
        CHECK(value.priority == -3);
        OK(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, &value));
        CHECK(value.deviceUpdatableKernelNode.deviceUpdatable == 0);
        OK(cuGraphLaunch(exec, first));
        OK(cuStreamSynchronize(first));
        CHECK(value_at(a) == 0x2c2c2c2c);
        check_wide_byte(set, b);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        OK(cuGraphDestroy(set));
        OK(cuStreamDestroy(first));
}

int main(int argc, char **argv)
{
        CUmodule module;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        busy = program_function(module, "prog_busy");
        add = program_function(module, "prog_add");
        MUST(cuMemAlloc(&a, N * 4));
        MUST(cuMemAlloc(&b, N * 4));
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
        OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        OK(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
        OK(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
        check_chain();
        check_copies_of_parameters();
        check_fork();
        check_host_function();
        check_host_memory();
        check_beside();
        check_info();
        check_into_graph();
        check_external_events();
        check_details();
        OK(cuCtxDestroy(context));
        return program_end("graphs_capture");
}
