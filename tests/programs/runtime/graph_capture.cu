/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured graphs: a fork over three streams and a join, with copies, memsets and host functions, launched many times
 */
#include "runtime.h"

static const int n = 2000;

__global__ void affine(uint32_t *p, int n, uint32_t factor, uint32_t add)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] = p[i] * factor + add;
}

__global__ void combine(uint32_t *out, const uint32_t *a, const uint32_t *b, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = out[i] * 5u + a[i] * 3u + b[i];
}

static const int blocks = (n + 127) / 128;

struct streams {
        cudaStream_t s[3];
        cudaEvent_t e[3];

        streams()
        {
                for (int i = 0; i < 3; i++) {
                        MUST(cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
                        MUST(cudaEventCreateWithFlags(&e[i], cudaEventDisableTiming));
                }
        }
        ~streams()
        {
                for (int i = 0; i < 3; i++) {
                        OK(cudaStreamDestroy(s[i]));
                        OK(cudaEventDestroy(e[i]));
                }
        }
};

/* Captures work on a and b in separate streams, then work that depends on both */
static void capture(streams &st, uint32_t *out, uint32_t *a, uint32_t *b, cudaGraph_t *ret)
{
        cudaStreamCaptureStatus status;

        OK(cudaStreamBeginCapture(st.s[0], cudaStreamCaptureModeGlobal));
        OK(cudaStreamIsCapturing(st.s[0], &status));
        CHECK(status == cudaStreamCaptureStatusActive);
        LAUNCHED(affine<<<blocks, 128, 0, st.s[0]>>>(out, n, 3, 1));
        OK(cudaEventRecord(st.e[0], st.s[0]));
        OK(cudaStreamWaitEvent(st.s[1], st.e[0], 0));
        OK(cudaStreamWaitEvent(st.s[2], st.e[0], 0));
        OK(cudaStreamIsCapturing(st.s[2], &status));
        CHECK(status == cudaStreamCaptureStatusActive);
        LAUNCHED(affine<<<blocks, 128, 0, st.s[1]>>>(a, n, 7, 2));
        LAUNCHED(affine<<<blocks, 128, 0, st.s[1]>>>(a, n, 1, 9));
        OK(cudaMemsetAsync(b, 1, 4 * n, st.s[2]));
        LAUNCHED(affine<<<blocks, 128, 0, st.s[2]>>>(b, n, 11, 3));
        OK(cudaEventRecord(st.e[1], st.s[1]));
        OK(cudaEventRecord(st.e[2], st.s[2]));
        OK(cudaStreamWaitEvent(st.s[0], st.e[1], 0));
        OK(cudaStreamWaitEvent(st.s[0], st.e[2], 0));
        LAUNCHED(combine<<<blocks, 128, 0, st.s[0]>>>(out, a, b, n));
        OK(cudaStreamEndCapture(st.s[0], ret));
        OK(cudaStreamIsCapturing(st.s[2], &status));
        CHECK(status == cudaStreamCaptureStatusNone);
}

static void forks()
{
        std::vector<uint32_t> start(n), zero(n, 0);
        uint32_t *out, *a, *b, va = 0, vb = 0;
        cudaGraph_t graph = NULL;
        cudaGraphExec_t exec;
        size_t nodes = 0, edges = 0;
        streams st;

        for (int i = 0; i < n; i++)
                start[i] = i;
        out = program_upload(start);
        a = program_upload(zero);
        b = program_upload(zero);
        OK(cudaDeviceSynchronize());
        capture(st, out, a, b, &graph);
        CHECK(program_download(out, n) == start);
        OK(cudaGraphGetNodes(graph, NULL, &nodes));
        OK(cudaGraphGetEdges(graph, NULL, NULL, NULL, &edges));
        CHECK(nodes == 6);
        /* a node depends on its stream's last node and on the nodes that the stream waited for */
        CHECK(edges == 7);
        MUST(cudaGraphInstantiate(&exec, graph, 0));
        OK(cudaGraphDestroy(graph));
        OK(cudaGraphUpload(exec, st.s[1]));
        for (int turn = 0; turn < 6; turn++) {
                /* a graph is one operation of the launch's stream, whatever streams it was captured from */
                OK(cudaGraphLaunch(exec, turn < 4 ? st.s[0] : 0));
                OK(cudaDeviceSynchronize());
                va = va * 7 + 2 + 9;
                vb = 0x01010101u * 11 + 3;
                for (auto &v : start)
                        v = (v * 3 + 1) * 5u + va * 3u + vb;
        }
        CHECK(program_download(out, n) == start);
        OK(cudaGraphExecDestroy(exec));
        OK(cudaFree(out));
        OK(cudaFree(a));
        OK(cudaFree(b));
}

static void bump(void *arg)
{
        ++*(int *)arg;
}

/* A graph of copies in and out with a host function between; two launches without a wait run one after the other. */
static void with_host()
{
        uint32_t *host, *device;
        cudaGraph_t graph = NULL;
        cudaGraphExec_t exec;
        streams st;
        int calls = 0;

        MUST(cudaMallocHost(&host, 4 * n));
        MUST(cudaMalloc(&device, 4 * n));
        for (int i = 0; i < n; i++)
                host[i] = i;
        OK(cudaStreamBeginCapture(st.s[0], cudaStreamCaptureModeThreadLocal));
        OK(cudaMemcpyAsync(device, host, 4 * n, cudaMemcpyHostToDevice, st.s[0]));
        LAUNCHED(affine<<<blocks, 128, 0, st.s[0]>>>(device, n, 3, 5));
        OK(cudaMemcpyAsync(host, device, 4 * n, cudaMemcpyDeviceToHost, st.s[0]));
        OK(cudaLaunchHostFunc(st.s[0], bump, &calls));
        OK(cudaStreamEndCapture(st.s[0], &graph));
        CHECK(calls == 0 && host[1] == 1);
        MUST(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < 3; i++)
                OK(cudaGraphLaunch(exec, st.s[1]));
        OK(cudaStreamSynchronize(st.s[1]));
        CHECK(calls == 3);
        bool good = true;
        for (int i = 0; i < n; i++)
                good = good && host[i] == ((i * 3u + 5) * 3u + 5) * 3u + 5;
        CHECK(good);
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(graph));
        OK(cudaFree(device));
        OK(cudaFreeHost(host));
}

int main()
{
        forks();
        with_host();
        return program_end("graph_capture");
}
