/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Instantiated graphs that change between launches, as frameworks change them for each token
 *
 * A graph sets a word, adds KERNELS numbers to it, and copies it to a place of its own per launch. Between launches
 * the program changes nodes at random, one by one or by whole graphs, and waits only now and then. Every launch must
 * have used the parameters of its time.
 */
#include <stdlib.h>

#include "graphs.h"

#define KERNELS 60
#define LAUNCHES 150
#define MANY 1500 /* more kernels than one record of the ring can change */

static CUdeviceptr a, out;

/* The parameters of the next launch. */
static struct {
        int set, added[KERNELS], on[KERNELS];
        uint32_t place;
} model;

static struct nodes {
        CUgraphNode set, kernel[KERNELS], copy;
} nodes;

static uint32_t chance_state = 7;

static uint32_t chance(uint32_t n)
{
        chance_state = chance_state * 1664525u + 1013904223u;
        return (chance_state >> 8) % n;
}

static CUDA_MEMCPY3D copy_to(uint32_t place)
{
        return (CUDA_MEMCPY3D){.WidthInBytes = 4,
                .Height = 1,
                .Depth = 1,
                .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                .srcDevice = a,
                .dstDevice = out + 4 * place};
}

static CUgraph make(struct nodes *ret)
{
        CUDA_MEMCPY3D c = copy_to(model.place);
        const CUgraphNode *last = &ret->set;
        CUgraph graph;

        OK(cuGraphCreate(&graph, 0));
        ret->set = add_memset(graph, NULL, 0, a, (unsigned int)model.set);
        for (int i = 0; i < KERNELS; i++) {
                ret->kernel[i] = add_kernel(graph, last, 1, a, model.added[i]);
                last = &ret->kernel[i];
        }
        OK(cuGraphAddMemcpyNode(&ret->copy, graph, last, 1, &c, context));
        return graph;
}

static void change_kernel(CUgraphExec exec, uint32_t i)
{
        int n = N, grid = 1 + (int)chance(2);
        void *params[] = {&a, &n, &model.added[i]};
        CUDA_KERNEL_NODE_PARAMS k = {add, (unsigned int)grid, 1, 1, N, 1, 1, 0, params, NULL, NULL, NULL};

        model.added[i] = (int)chance(100000);
        OK(cuGraphExecKernelNodeSetParams(exec, nodes.kernel[i], &k));
}

static void change_set(CUgraphExec exec)
{
        CUDA_MEMSET_NODE_PARAMS m = {.dst = a, .elementSize = 4, .width = N, .height = 1};

        model.set = (int)chance(100000);
        m.value = (unsigned int)model.set;
        OK(cuGraphExecMemsetNodeSetParams(exec, nodes.set, &m, context));
}

static void change_place(CUgraphExec exec, uint32_t place)
{
        CUDA_MEMCPY3D c = copy_to(place);

        model.place = place;
        OK(cuGraphExecMemcpyNodeSetParams(exec, nodes.copy, &c, context));
}

/* Updates by a whole graph with some other numbers; sometimes tries an update that CUDA refuses first. */
static void change_by_graph(CUgraphExec exec)
{
        CUgraphExecUpdateResultInfo info;
        struct nodes other;
        CUgraph graph;

        if (chance(2)) {
                OK(cuGraphCreate(&graph, 0));
                add_memset(graph, NULL, 0, a, 1);
                EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(exec, graph, &info));
                OK(cuGraphDestroy(graph));
        }
        for (uint32_t i = chance(5); i < KERNELS; i += 1 + chance(20))
                model.added[i] = (int)chance(100000);
        graph = make(&other);
        OK(cuGraphExecUpdate(exec, graph, &info));
        OK(cuGraphDestroy(graph));
}

static void toggle(CUgraphExec exec, uint32_t i)
{
        model.on[i] = !model.on[i];
        OK(cuGraphNodeSetEnabled(exec, nodes.kernel[i], (unsigned int)model.on[i]));
}

static int result(void)
{
        int sum = model.set;

        for (int i = 0; i < KERNELS; i++)
                sum += model.on[i] ? model.added[i] : 0;
        return sum;
}

static void change_some(CUgraphExec exec, uint32_t launch)
{
        for (uint32_t n = chance(4) ? chance(4) : KERNELS; n > 0; n--)
                change_kernel(exec, chance(KERNELS));
        if (chance(4) == 0)
                change_set(exec);
        if (chance(10) == 0)
                change_by_graph(exec);
        if (chance(10) == 0)
                toggle(exec, chance(KERNELS));
        change_place(exec, launch);
}

static CUgraph make_many(int first)
{
        CUgraphNode last, next;
        CUgraph graph;

        OK(cuGraphCreate(&graph, 0));
        last = add_memset(graph, NULL, 0, a, 0);
        for (int i = 0; i < MANY; i++, last = next)
                next = add_kernel(graph, &last, 1, a, first + i);
        return graph;
}

/* All nodes of a large graph change at once. */
static void check_many(void)
{
        CUgraphExecUpdateResultInfo info;
        CUgraph graph = make_many(0), other;
        CUgraphExec exec;

        OK(cuGraphInstantiate(&exec, graph, 0));
        for (int round = 1; round <= 3; round++) {
                other = make_many(round);
                OK(cuGraphExecUpdate(exec, other, &info));
                OK(cuGraphLaunch(exec, s));
                CHECK(value_at(a) == MANY * (MANY - 1) / 2 + round * MANY);
                OK(cuGraphDestroy(other));
        }
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
}

int main(int argc, char **argv)
{
        static int expected[LAUNCHES], got[LAUNCHES];
        CUgraphExec exec;
        CUmodule module;
        CUgraph graph;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("prog_basic");
        add = program_function(module, "prog_add");
        MUST(cuMemAlloc(&a, N * 4));
        MUST(cuMemAlloc(&out, LAUNCHES * 4));
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        for (int i = 0; i < KERNELS; i++)
                model.on[i] = 1;
        graph = make(&nodes);
        OK(cuGraphInstantiate(&exec, graph, 0));
        for (uint32_t i = 0; i < LAUNCHES; i++) {
                change_some(exec, i);
                expected[i] = result();
                OK(cuGraphLaunch(exec, s));
                if (chance(3) == 0)
                        OK(cuStreamSynchronize(s));
        }
        CHECK(value_at(a) == expected[LAUNCHES - 1]);
        OK(cuMemcpyDtoH(got, out, sizeof(got)));
        for (int i = 0; i < LAUNCHES; i++)
                CHECK(got[i] == expected[i]);
        OK(cuGraphExecDestroy(exec));
        OK(cuGraphDestroy(graph));
        check_many();
        OK(cuCtxDestroy(context));
        return program_end("graphs_change");
}
