/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of graphs and child graphs: a clone changes independently; a child is a copy from the time it was added */
#include "runtime.h"

__global__ void affine(uint32_t *p, uint32_t factor, uint32_t add)
{
        *p = *p * factor + add;
}

static uint32_t *device;

static cudaGraphNode_t add(cudaGraph_t g, cudaGraphNode_t after, uint32_t factor, uint32_t add)
{
        void *args[] = {&device, &factor, &add};
        cudaKernelNodeParams k = {};
        cudaGraphNode_t node = NULL;

        k.func = (void *)affine;
        k.gridDim = k.blockDim = dim3(1);
        k.kernelParams = args;
        OK(cudaGraphAddKernelNode(&node, g, &after, after ? 1 : 0, &k));
        return node;
}

static uint32_t run(cudaGraph_t g, uint32_t start)
{
        cudaGraphExec_t exec;
        uint32_t got = 0;

        OK(cudaMemcpy(device, &start, 4, cudaMemcpyHostToDevice));
        MUST(cudaGraphInstantiate(&exec, g, 0));
        OK(cudaGraphLaunch(exec, 0));
        OK(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost));
        OK(cudaGraphExecDestroy(exec));
        return got;
}

static void clones()
{
        cudaGraph_t g, clone;
        cudaGraphNode_t a, b, theirs = NULL, none;
        size_t count = 0;

        MUST(cudaGraphCreate(&g, 0));
        a = add(g, NULL, 3, 1);
        b = add(g, a, 5, 2);
        MUST(cudaGraphClone(&clone, g));
        OK(cudaGraphNodeFindInClone(&theirs, b, clone));
        CHECK(theirs && theirs != b);
        EXPECT(cudaErrorInvalidValue, cudaGraphNodeFindInClone(&none, b, g));
        add(clone, theirs, 7, 3);
        add(g, b, 11, 4);
        OK(cudaGraphDestroyNode(a));
        OK(cudaGraphGetNodes(g, NULL, &count));
        CHECK(count == 2);
        CHECK(run(g, 10) == (10 * 5 + 2) * 11 + 4);
        OK(cudaGraphDestroy(g));
        CHECK(run(clone, 10) == ((10 * 3 + 1) * 5 + 2) * 7 + 3);
        OK(cudaGraphDestroy(clone));
}

static void children()
{
        cudaGraph_t inner, outer, seen;
        cudaGraphNode_t before, child, after, in;
        cudaGraphNodeType type;
        size_t count = 0;

        MUST(cudaGraphCreate(&inner, 0));
        in = add(inner, NULL, 3, 1);
        in = add(inner, in, 5, 2);
        MUST(cudaGraphCreate(&outer, 0));
        before = add(outer, NULL, 7, 3);
        OK(cudaGraphAddChildGraphNode(&child, outer, &before, 1, inner));
        after = add(outer, child, 11, 4);
        CHECK(after != NULL);
        /* later changes of the inner graph do not affect its copy */
        add(inner, in, 100, 100);
        OK(cudaGraphNodeGetType(child, &type));
        CHECK(type == cudaGraphNodeTypeGraph);
        OK(cudaGraphChildGraphNodeGetGraph(child, &seen));
        OK(cudaGraphGetNodes(seen, NULL, &count));
        CHECK(seen != inner && count == 2);
        CHECK(run(outer, 2) == (((2 * 7 + 3) * 3 + 1) * 5 + 2) * 11 + 4);
        OK(cudaGraphDestroy(inner));
        CHECK(run(outer, 3) == (((3 * 7 + 3) * 3 + 1) * 5 + 2) * 11 + 4);
        OK(cudaGraphDestroy(outer));
}

int main()
{
        MUST(cudaMalloc(&device, 4));
        clones();
        children();
        OK(cudaFree(device));
        return program_end("graph_clone");
}
