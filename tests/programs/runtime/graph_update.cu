/* SPDX-License-Identifier: Apache-2.0 */
/* Updates of instantiated graphs: parameters of single nodes, whole graphs of the same shape, disabled nodes */
#include "runtime.h"

static const int n = 500;

__global__ void affine(uint32_t *p, int n, uint32_t factor, uint32_t add)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] = p[i] * factor + add;
}

static uint32_t *device, *other, *host;
static cudaStream_t s;

static cudaGraph_t captured(uint32_t *p, uint32_t a, uint32_t b, int kernels)
{
        cudaGraph_t g = NULL;

        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
        OK(cudaMemsetAsync(p, 0, 4 * n, s));
        for (int i = 0; i < kernels; i++)
                affine<<<(n + 127) / 128, 128, 0, s>>>(p, n, a + i, b + i);
        OK(cudaMemcpyAsync(host, p, 4 * n, cudaMemcpyDeviceToHost, s));
        OK(cudaStreamEndCapture(s, &g));
        return g;
}

static bool gives(cudaGraphExec_t exec, uint32_t expected)
{
        bool good = true;

        memset(host, 0xff, 4 * n);
        OK(cudaGraphLaunch(exec, s));
        OK(cudaStreamSynchronize(s));
        for (int i = 0; i < n; i++)
                good = good && host[i] == expected;
        return good;
}

static void whole()
{
        cudaGraph_t g = captured(device, 3, 4, 2), same = captured(other, 10, 20, 2),
                    longer = captured(device, 1, 1, 3);
        cudaGraphExecUpdateResultInfo info = {};
        cudaGraphExec_t exec;

        MUST(cudaGraphInstantiate(&exec, g, 0));
        CHECK(gives(exec, 4 * 4 + 5));
        OK(cudaGraphExecUpdate(exec, same, &info));
        CHECK(info.result == cudaGraphExecUpdateSuccess);
        CHECK(gives(exec, 20 * 11 + 21));
        EXPECT(cudaErrorGraphExecUpdateFailure, cudaGraphExecUpdate(exec, longer, &info));
        CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
        EXPECT(cudaErrorGraphExecUpdateFailure, cudaGetLastError());
        /* the refused update has no effect */
        CHECK(gives(exec, 20 * 11 + 21));
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(g));
        OK(cudaGraphDestroy(same));
        OK(cudaGraphDestroy(longer));
}

static void single()
{
        cudaGraph_t g = captured(device, 3, 4, 1);
        cudaGraphNode_t nodes[3], fill = NULL, kernel = NULL, copy = NULL;
        uint32_t factor = 6, add = 7;
        int count = n;
        void *args[] = {&device, &count, &factor, &add};
        cudaKernelNodeParams k = {};
        cudaMemsetParams m = {};
        cudaGraphExec_t exec;
        size_t got = 3;

        MUST(cudaGraphInstantiate(&exec, g, 0));
        OK(cudaGraphGetNodes(g, nodes, &got));
        CHECK(got == 3);
        for (auto node : nodes) {
                cudaGraphNodeType type;

                OK(cudaGraphNodeGetType(node, &type));
                (type == cudaGraphNodeTypeKernel ? kernel : type == cudaGraphNodeTypeMemset ? fill : copy) = node;
        }
        OK(cudaGraphKernelNodeGetParams(kernel, &k));
        CHECK(k.func == (void *)affine);
        k.kernelParams = args;
        OK(cudaGraphExecKernelNodeSetParams(exec, kernel, &k));
        CHECK(gives(exec, 7));
        OK(cudaGraphMemsetNodeGetParams(fill, &m));
        m.value = 2;
        OK(cudaGraphExecMemsetNodeSetParams(exec, fill, &m));
        CHECK(gives(exec, 0x02020202u * 6 + 7));
        OK(cudaMemset(other, 5, 4 * n));
        OK(cudaGraphExecMemcpyNodeSetParams1D(exec, copy, host, other, 4 * n, cudaMemcpyDeviceToHost));
        CHECK(gives(exec, 0x05050505u));
        EXPECT(cudaErrorInvalidValue, cudaGraphExecKernelNodeSetParams(exec, copy, &k));
        EXPECT(cudaErrorInvalidValue,
                cudaGraphExecMemcpyNodeSetParams1D(exec, copy, other, host, 4 * n, cudaMemcpyHostToDevice));
        EXPECT(cudaErrorInvalidValue, cudaGetLastError());
        /* the graph, from which the instance was made, is unchanged */
        OK(cudaGraphExecDestroy(exec));
        MUST(cudaGraphInstantiate(&exec, g, 0));
        CHECK(gives(exec, 4));
        OK(cudaGraphKernelNodeSetParams(kernel, &k));
        OK(cudaGraphExecDestroy(exec));
        MUST(cudaGraphInstantiate(&exec, g, 0));
        CHECK(gives(exec, 7));
        OK(cudaGraphNodeSetEnabled(exec, kernel, 0));
        CHECK(gives(exec, 0));
        OK(cudaGraphNodeSetEnabled(exec, kernel, 1));
        CHECK(gives(exec, 7));
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(g));
}

int main()
{
        MUST(cudaStreamCreate(&s));
        MUST(cudaMalloc(&device, 4 * n));
        MUST(cudaMalloc(&other, 4 * n));
        MUST(cudaMallocHost(&host, 4 * n));
        whole();
        single();
        OK(cudaStreamDestroy(s));
        OK(cudaFree(device));
        OK(cudaFree(other));
        OK(cudaFreeHost(host));
        return program_end("graph_update");
}
