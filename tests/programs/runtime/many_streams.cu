/* SPDX-License-Identifier: Apache-2.0 */
/* A large number of streams and events at once, each with its own memory: created, used, destroyed and created again */
#include "runtime.h"

static const int streams = 200;

__global__ void step(uint32_t *p, uint32_t k)
{
        *p = *p * 31u + k;
}

static void round_of(uint32_t *device, uint32_t *expected, unsigned int flags)
{
        std::vector<cudaStream_t> s(streams);
        std::vector<cudaEvent_t> e(streams);

        for (int i = 0; i < streams; i++) {
                MUST(cudaStreamCreateWithFlags(&s[i], flags));
                MUST(cudaEventCreateWithFlags(&e[i], cudaEventDisableTiming));
        }
        for (int k = 1; k <= 3; k++) {
                for (int i = 0; i < streams; i++) {
                        step<<<1, 1, 0, s[i]>>>(device + i, k * 1000 + i);
                        expected[i] = expected[i] * 31u + k * 1000 + i;
                }
        }
        OK(cudaGetLastError());
        for (int i = 0; i < streams; i++)
                OK(cudaEventRecord(e[i], s[i]));
        /* the last stream waits for all others */
        for (int i = 0; i < streams - 1; i++)
                OK(cudaStreamWaitEvent(s[streams - 1], e[i], 0));
        OK(cudaStreamSynchronize(s[streams - 1]));
        for (int i = 0; i < streams; i++) {
                OK(cudaEventQuery(e[i]));
                OK(cudaStreamDestroy(s[i]));
                OK(cudaEventDestroy(e[i]));
        }
}

int main()
{
        std::vector<uint32_t> expected(streams, 0);
        uint32_t *device;

        MUST(cudaMalloc(&device, streams * sizeof(uint32_t)));
        OK(cudaMemset(device, 0, streams * sizeof(uint32_t)));
        OK(cudaDeviceSynchronize());
        round_of(device, expected.data(), cudaStreamNonBlocking);
        round_of(device, expected.data(), cudaStreamDefault);
        CHECK(program_download(device, streams) == expected);
        OK(cudaFree(device));
        return program_end("many_streams");
}
