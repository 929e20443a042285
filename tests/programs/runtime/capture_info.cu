/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries and changes of a running capture: dependencies of a stream, other dependencies, capture into an existing
 * graph
 */
#include "runtime.h"

__global__ void affine(uint32_t *p, uint32_t factor, uint32_t add)
{
        *p = *p * factor + add;
}

static uint32_t *device;
static cudaStream_t s;

static uint32_t run(cudaGraph_t g, uint32_t start)
{
        cudaGraphExec_t exec;
        uint32_t got = 0;

        OK(cudaMemcpyAsync(device, &start, 4, cudaMemcpyHostToDevice, s));
        MUST(cudaGraphInstantiate(&exec, g, 0));
        OK(cudaGraphLaunch(exec, s));
        OK(cudaStreamSynchronize(s));
        OK(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost));
        OK(cudaGraphExecDestroy(exec));
        return got;
}

/* Adds a node by hand between two captured ones. */
static void between()
{
        cudaStreamCaptureStatus status;
        const cudaGraphNode_t *last;
        unsigned long long id = 0, id2 = 0;
        cudaGraph_t g, ended;
        cudaGraphNode_t node;
        size_t count = 99;
        uint32_t factor = 5, add = 6;
        void *args[] = {&device, &factor, &add};
        cudaKernelNodeParams k = {};

        OK(cudaStreamGetCaptureInfo(s, &status, &id, NULL, NULL, NULL, NULL));
        CHECK(status == cudaStreamCaptureStatusNone);
        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
        OK(cudaStreamGetCaptureInfo(s, &status, &id, &g, &last, NULL, &count));
        CHECK(status == cudaStreamCaptureStatusActive && id != 0 && count == 0);
        affine<<<1, 1, 0, s>>>(device, 3, 4);
        OK(cudaStreamGetCaptureInfo(s, &status, &id2, &g, &last, NULL, &count));
        CHECK(id2 == id && count == 1);
        k.func = (void *)affine;
        k.gridDim = k.blockDim = dim3(1);
        k.kernelParams = args;
        OK(cudaGraphAddKernelNode(&node, g, last, count, &k));
        OK(cudaStreamUpdateCaptureDependencies(s, &node, NULL, 1, cudaStreamSetCaptureDependencies));
        affine<<<1, 1, 0, s>>>(device, 7, 8);
        OK(cudaStreamEndCapture(s, &ended));
        CHECK(ended == g);
        OK(cudaGraphGetEdges(g, NULL, NULL, NULL, &count));
        CHECK(count == 2);
        CHECK(run(g, 1) == ((1 * 3 + 4) * 5 + 6) * 7 + 8);
        OK(cudaGraphDestroy(g));
}

static void into()
{
        cudaGraphNode_t root;
        cudaGraph_t g, ended = NULL;
        cudaMemsetParams m = {};
        size_t count = 0;

        MUST(cudaGraphCreate(&g, 0));
        m.dst = device;
        m.value = 9;
        m.elementSize = 4;
        m.width = m.height = 1;
        OK(cudaGraphAddMemsetNode(&root, g, NULL, 0, &m));
        OK(cudaStreamBeginCaptureToGraph(s, g, &root, NULL, 1, cudaStreamCaptureModeGlobal));
        affine<<<1, 1, 0, s>>>(device, 3, 4);
        affine<<<1, 1, 0, s>>>(device, 5, 6);
        OK(cudaStreamEndCapture(s, &ended));
        CHECK(ended == g);
        OK(cudaGraphGetNodes(g, NULL, &count));
        CHECK(count == 3);
        CHECK(run(g, 1) == (9 * 3 + 4) * 5 + 6);
        OK(cudaGraphDestroy(g));
}

/* A thread may declare that its calls do not affect captures. */
static void modes()
{
        cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        cudaGraph_t g;
        void *p;

        OK(cudaThreadExchangeStreamCaptureMode(&mode));
        CHECK(mode == cudaStreamCaptureModeGlobal);
        OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
        OK(cudaMalloc(&p, 64));
        affine<<<1, 1, 0, s>>>(device, 3, 4);
        OK(cudaStreamEndCapture(s, &g));
        OK(cudaThreadExchangeStreamCaptureMode(&mode));
        CHECK(mode == cudaStreamCaptureModeRelaxed);
        CHECK(run(g, 5) == 19);
        OK(cudaGraphDestroy(g));
        OK(cudaFree(p));
}

int main()
{
        MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        MUST(cudaMalloc(&device, 4));
        between();
        into();
        modes();
        OK(cudaStreamDestroy(s));
        OK(cudaFree(device));
        return program_end("capture_info");
}
