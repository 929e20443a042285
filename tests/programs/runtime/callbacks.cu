/* SPDX-License-Identifier: Apache-2.0 */
/* Stream callbacks: in order among copies, kernels and host functions, with the right stream and status */
#include "runtime.h"

struct note {
        cudaStream_t stream;
        cudaError_t status;
        int order, value;
        const int *read;
};

static int calls;

static void CUDART_CB called(cudaStream_t stream, cudaError_t status, void *arg)
{
        note *n = (note *)arg;

        n->stream = stream;
        n->status = status;
        n->order = calls++;
        n->value = *n->read;
}

static void called_plainly(void *arg)
{
        note *n = (note *)arg;

        n->order = calls++;
        n->value = *n->read;
}

__global__ void add(int *p, int v)
{
        *p += v;
}

static void run(cudaStream_t s)
{
        note notes[6];
        int *host, *device;

        calls = 0;
        MUST(cudaMallocHost(&host, sizeof(int)));
        MUST(cudaMalloc(&device, sizeof(int)));
        *host = -1;
        OK(cudaMemsetAsync(device, 0, sizeof(int), s));
        for (int i = 0; i < 6; i++) {
                notes[i] = {NULL, cudaErrorUnknown, -1, -1, host};
                LAUNCHED(add<<<1, 1, 0, s>>>(device, i + 1));
                OK(cudaMemcpyAsync(host, device, sizeof(int), cudaMemcpyDeviceToHost, s));
                if (i & 1)
                        OK(cudaLaunchHostFunc(s, called_plainly, &notes[i]));
                else
                        OK(cudaStreamAddCallback(s, called, &notes[i], 0));
        }
        OK(cudaStreamSynchronize(s));
        for (int i = 0; i < 6; i++) {
                CHECK(notes[i].order == i);
                CHECK(notes[i].value == (i + 1) * (i + 2) / 2);
                CHECK(i & 1 || notes[i].status == cudaSuccess);
                CHECK(i & 1 || notes[i].stream == s);
        }
        OK(cudaFree(device));
        OK(cudaFreeHost(host));
}

int main()
{
        cudaStream_t s;
        note n;

        run(0);
        MUST(cudaStreamCreate(&s));
        run(s);
        EXPECT(cudaErrorInvalidValue, cudaStreamAddCallback(s, called, &n, 1));
        EXPECT(cudaErrorInvalidValue, cudaStreamAddCallback(s, NULL, &n, 0));
        OK(cudaStreamDestroy(s));
        return program_end("callbacks");
}
