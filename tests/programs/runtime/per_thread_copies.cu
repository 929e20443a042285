/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled for per-thread default streams: while one thread's default stream is held, another thread's copies, memsets,
 * allocations, events, captures and launches continue. Host functions are left out, because they may wait for each
 * other.
 */
#include <atomic>
#include <thread>

#include "runtime.h"

static std::atomic<bool> opened, held;

static void hold(void *)
{
        held = true;
        while (!opened)
                ;
}

static void bump(void *arg)
{
        ++*(int *)arg;
}

__global__ void add(int *p, int n, int v)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] += v;
}

/* Memory of a thread, allocated before the threads start, because cudaFree would wait for all streams. */
struct memory {
        int *device, *pinned;
        cudaPitchedPtr box;
};

static void holder(const memory *m)
{
        cudaLaunchHostFunc(0, hold, NULL);
        add<<<1, 256>>>(m->device, 256, 1);
        /* only the main thread counts checks */
        while (!opened)
                std::this_thread::yield();
        cudaStreamSynchronize(0);
}

static void copies(const memory *m)
{
        std::vector<int> v(256, 7), got(256, 0);
        cudaMemcpy3DParms p = {};

        OK(cudaMemcpy(m->device, v.data(), 1024, cudaMemcpyHostToDevice));
        add<<<1, 256>>>(m->device, 256, 3);
        OK(cudaMemcpy(got.data(), m->device, 1024, cudaMemcpyDeviceToHost));
        CHECK(got == std::vector<int>(256, 10));
        OK(cudaMemset(m->device, 0, 1024));
        OK(cudaMemset2D(m->device, 64, 1, 32, 4));
        OK(cudaMemcpy2D(m->pinned, 64, m->device, 64, 64, 4, cudaMemcpyDeviceToHost));
        CHECK(m->pinned[0] == 0x01010101 && m->pinned[8] == 0 && m->pinned[48] == 0x01010101);
        OK(cudaMemset3D(m->box, 5, make_cudaExtent(16, 2, 2)));
        p.srcPtr = m->box;
        p.dstPtr = make_cudaPitchedPtr(m->pinned, 16, 16, 2);
        p.extent = make_cudaExtent(16, 2, 2);
        p.kind = cudaMemcpyDeviceToHost;
        OK(cudaMemcpy3D(&p));
        CHECK(m->pinned[0] == 0x05050505 && m->pinned[15] == 0x05050505);
        OK(cudaMemsetAsync(m->device, 0, 1024, 0));
        OK(cudaMemset2DAsync(m->device, 64, 2, 32, 4, 0));
        OK(cudaMemcpyAsync(m->pinned, m->device, 1024, cudaMemcpyDeviceToHost, 0));
        OK(cudaStreamSynchronize(0));
        CHECK(m->pinned[0] == 0x02020202 && m->pinned[8] == 0);
        OK(cudaStreamQuery(0));
}

static void streams(const memory *m, cudaEvent_t e)
{
        unsigned long long zero, own;
        cudaGraphExec_t exec;
        cudaGraph_t g;
        int *p;

        OK(cudaStreamGetId(0, &zero));
        OK(cudaStreamGetId(cudaStreamPerThread, &own));
        CHECK(zero == own);
        OK(cudaMallocAsync(&p, 1024, 0));
        OK(cudaMemsetAsync(p, 0, 1024, 0));
        OK(cudaEventRecord(e, 0));
        OK(cudaEventSynchronize(e));
        OK(cudaStreamWaitEvent(0, e, 0));
        OK(cudaFreeAsync(p, 0));
        OK(cudaMemset(m->device, 0, 1024));
        OK(cudaStreamBeginCapture(0, cudaStreamCaptureModeThreadLocal));
        add<<<1, 256>>>(m->device, 256, 4);
        OK(cudaMemcpyAsync(m->pinned, m->device, 1024, cudaMemcpyDeviceToHost, 0));
        OK(cudaStreamEndCapture(0, &g));
        MUST(cudaGraphInstantiate(&exec, g, 0));
        OK(cudaGraphLaunch(exec, 0));
        OK(cudaGraphLaunch(exec, 0));
        OK(cudaStreamSynchronize(0));
        CHECK(m->pinned[0] == 8 && m->pinned[255] == 8);
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(g));
}

static memory make()
{
        memory m;

        MUST(cudaMalloc(&m.device, 1024));
        MUST(cudaMallocHost(&m.pinned, 1024));
        MUST(cudaMalloc3D(&m.box, make_cudaExtent(16, 2, 2)));
        OK(cudaMemset(m.device, 0, 1024));
        add<<<1, 256>>>(m.device, 256, 0);
        OK(cudaStreamSynchronize(0));
        return m;
}

int main()
{
        memory a = make(), b = make();
        cudaEvent_t e;
        int calls = 0;

        MUST(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
        std::thread first([&] { holder(&a); });
        while (!held)
                ;
        copies(&b);
        streams(&b, e);
        opened = true;
        OK(cudaLaunchHostFunc(0, bump, &calls));
        OK(cudaStreamSynchronize(0));
        CHECK(calls == 1);
        first.join();
        OK(cudaDeviceSynchronize());
        std::vector<int> got = program_download(a.device, 256);
        CHECK(got[0] == 1 && got[255] == 1);
        OK(cudaEventDestroy(e));
        return program_end("per_thread_copies");
}
