/* SPDX-License-Identifier: Apache-2.0 */
/* Event nodes: streams wait for events that a graph records, and a graph waits for events that streams record */
#include "runtime.h"

__global__ void affine(uint32_t *p, uint32_t factor, uint32_t add, int rounds)
{
        for (int i = 0; i < rounds; i++)
                *p = *p * factor + add;
}

static uint32_t *device;

static cudaGraphNode_t add(cudaGraph_t g, cudaGraphNode_t after, uint32_t factor, uint32_t add, int rounds)
{
        void *args[] = {&device, &factor, &add, &rounds};
        cudaKernelNodeParams k = {};
        cudaGraphNode_t node = NULL;

        k.func = (void *)affine;
        k.gridDim = k.blockDim = dim3(1);
        k.kernelParams = args;
        OK(cudaGraphAddKernelNode(&node, g, &after, 1, &k));
        return node;
}

int main()
{
        cudaGraphNode_t wait, kernel, record;
        cudaEvent_t before, after, seen;
        uint32_t got = 0, expected = 1;
        cudaGraphExec_t exec;
        cudaStream_t a, b;
        cudaGraph_t g;

        MUST(cudaMalloc(&device, 4));
        MUST(cudaMemcpy(device, &expected, 4, cudaMemcpyHostToDevice));
        OK(cudaDeviceSynchronize());
        MUST(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
        MUST(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
        MUST(cudaEventCreateWithFlags(&before, cudaEventDisableTiming));
        MUST(cudaEventCreateWithFlags(&after, cudaEventDisableTiming));
        MUST(cudaGraphCreate(&g, 0));
        OK(cudaGraphAddEventWaitNode(&wait, g, NULL, 0, before));
        kernel = add(g, wait, 3, 1, 30);
        OK(cudaGraphAddEventRecordNode(&record, g, &kernel, 1, after));
        OK(cudaGraphEventRecordNodeGetEvent(record, &seen));
        CHECK(seen == after);
        OK(cudaGraphEventWaitNodeGetEvent(wait, &seen));
        CHECK(seen == before);
        MUST(cudaGraphInstantiate(&exec, g, 0));
        for (int turn = 0; turn < 5; turn++) {
                affine<<<1, 1, 0, b>>>(device, 5, turn, 50);
                OK(cudaEventRecord(before, b));
                OK(cudaGraphLaunch(exec, a));
                OK(cudaStreamWaitEvent(b, after, 0));
                affine<<<1, 1, 0, b>>>(device, 7, turn, 5);
                for (int i = 0; i < 50; i++)
                        expected = expected * 5 + turn;
                for (int i = 0; i < 30; i++)
                        expected = expected * 3 + 1;
                for (int i = 0; i < 5; i++)
                        expected = expected * 7 + turn;
        }
        OK(cudaStreamSynchronize(b));
        OK(cudaEventQuery(after));
        OK(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost));
        CHECK(got == expected);
        OK(cudaGraphExecDestroy(exec));
        OK(cudaGraphDestroy(g));
        OK(cudaStreamDestroy(a));
        OK(cudaStreamDestroy(b));
        OK(cudaEventDestroy(before));
        OK(cudaEventDestroy(after));
        OK(cudaFree(device));
        return program_end("graph_events");
}
