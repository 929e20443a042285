/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs built from nodes: kernels, memsets, copies, edges, and queries of nodes and edges */
#include <algorithm>

#include "runtime.h"

static const int n = 1000;

__global__ void affine(uint32_t *p, int n, uint32_t factor, uint32_t add)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] = p[i] * factor + add;
}

/* Parameters are copied when the node is made. */
static cudaGraphNode_t kernel_node(
        cudaGraph_t g, std::vector<cudaGraphNode_t> after, uint32_t *p, uint32_t factor, uint32_t add)
{
        int count = n;
        void *args[] = {&p, &count, &factor, &add};
        cudaKernelNodeParams k = {};
        cudaGraphNode_t node = NULL;

        k.func = (void *)affine;
        k.gridDim = dim3((n + 255) / 256);
        k.blockDim = dim3(256);
        k.kernelParams = args;
        OK(cudaGraphAddKernelNode(&node, g, after.data(), after.size(), &k));
        factor = add = 0;
        return node;
}

static void shape(cudaGraph_t g, const std::vector<cudaGraphNode_t> &made)
{
        cudaGraphNode_t nodes[10], from[10], to[10];
        size_t count = 10;
        cudaGraphNodeType type;

        OK(cudaGraphGetNodes(g, nodes, &count));
        CHECK(count == made.size());
        for (auto node : made)
                CHECK(std::find(nodes, nodes + count, node) != nodes + count);
        count = 10;
        OK(cudaGraphGetRootNodes(g, nodes, &count));
        CHECK(count == 2);
        count = 10;
        OK(cudaGraphGetEdges(g, from, to, NULL, &count));
        CHECK(count == 4);
        OK(cudaGraphNodeGetType(made[0], &type));
        CHECK(type == cudaGraphNodeTypeMemset);
        OK(cudaGraphNodeGetType(made[2], &type));
        CHECK(type == cudaGraphNodeTypeKernel);
        OK(cudaGraphNodeGetType(made[4], &type));
        CHECK(type == cudaGraphNodeTypeMemcpy);
        count = 10;
        OK(cudaGraphNodeGetDependencies(made[3], nodes, NULL, &count));
        CHECK(count == 2);
        count = 10;
        OK(cudaGraphNodeGetDependentNodes(made[3], nodes, NULL, &count));
        CHECK(count == 1 && nodes[0] == made[4]);
}

static void parameters(cudaGraphNode_t kernel, cudaGraphNode_t fill, cudaGraphNode_t copy, uint32_t *a, uint32_t *host)
{
        cudaKernelNodeParams k = {};
        cudaMemsetParams m = {};
        cudaMemcpy3DParms c = {};

        OK(cudaGraphKernelNodeGetParams(kernel, &k));
        CHECK(k.func == (void *)affine && k.gridDim.x == 4 && k.blockDim.x == 256 && k.sharedMemBytes == 0);
        CHECK(k.kernelParams && *(uint32_t **)k.kernelParams[0] == a && *(int *)k.kernelParams[1] == n);
        CHECK(*(uint32_t *)k.kernelParams[2] == 3 && *(uint32_t *)k.kernelParams[3] == 4);
        OK(cudaGraphMemsetNodeGetParams(fill, &m));
        CHECK(m.dst == a && m.value == 0x11223344 && m.elementSize == 4 && m.width == n && m.height == 1);
        OK(cudaGraphMemcpyNodeGetParams(copy, &c));
        CHECK(c.kind == cudaMemcpyDeviceToHost && c.srcPtr.ptr == a && c.dstPtr.ptr == host && c.extent.width == 4 * n);
        CHECK(c.extent.height == 1 && c.extent.depth == 1);
}

int main()
{
        uint32_t *a, *b, *host;
        cudaMemsetParams fill = {};
        cudaGraphNode_t f1, f2, k1, k2, copy;
        cudaGraphExec_t exec;
        cudaGraph_t g;
        bool good = true;

        MUST(cudaMalloc(&a, 4 * n));
        MUST(cudaMalloc(&b, 4 * n));
        MUST(cudaMallocHost(&host, 4 * n));
        MUST(cudaGraphCreate(&g, 0));
        fill.dst = a;
        fill.value = 0x11223344;
        fill.elementSize = 4;
        fill.width = n;
        fill.height = 1;
        OK(cudaGraphAddMemsetNode(&f1, g, NULL, 0, &fill));
        fill.dst = b;
        fill.value = 7;
        fill.elementSize = 1;
        fill.width = 4 * n;
        OK(cudaGraphAddMemsetNode(&f2, g, NULL, 0, &fill));
        k1 = kernel_node(g, {f1}, a, 3, 4);
        k2 = kernel_node(g, {k1, f2}, a, 5, 6);
        OK(cudaGraphAddMemcpyNode1D(&copy, g, &k2, 1, host, a, 4 * n, cudaMemcpyDeviceToHost));
        shape(g, {f1, f2, k1, k2, copy});
        parameters(k1, f1, copy, a, host);
        MUST(cudaGraphInstantiate(&exec, g, 0));
        for (int turn = 0; turn < 3; turn++) {
                memset(host, 0, 4 * n);
                OK(cudaGraphLaunch(exec, 0));
                OK(cudaStreamSynchronize(0));
                for (int i = 0; i < n; i++)
                        good = good && host[i] == (0x11223344u * 3 + 4) * 5 + 6;
                CHECK(good);
        }
        CHECK(program_download((uint8_t *)b, 4 * n) == std::vector<uint8_t>(4 * n, 7));
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(g));
        OK(cudaFree(a));
        OK(cudaFree(b));
        OK(cudaFreeHost(host));
        return program_end("graph_nodes");
}
