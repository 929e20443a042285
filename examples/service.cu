// SPDX-License-Identifier: Apache-2.0
//
// An ordinary CUDA service for the first five minutes with DetShare: it knows nothing about DetShare.
//
// A request is 24 small kernels that depend on each other, as the layers of a small network do. The service answers
// REQUESTS requests, one every few milliseconds, and prints the median and the 99th percentile of their latency.
// A latency is device time between two CUDA events: from before the first kernel to after the last one. So it
// contains the time that the kernels wait for other programs, on a GPU and on a simulated one alike. The first
// requests load the code and do not count.
//
// usage: service [REQUESTS]     (300 without an argument)
// build: nvcc -arch=sm_90 -cudart shared -o service service.cu
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
#include <vector>

#define CHECK(call)                                                                                     \
        do {                                                                                            \
                cudaError_t error_ = (call);                                                            \
                if (error_ != cudaSuccess) {                                                            \
                        fprintf(stderr, "service: %s: %s\n", #call, cudaGetErrorString(error_));        \
                        exit(1);                                                                        \
                }                                                                                       \
        } while (0)

static const int LAYERS = 24, WIDTH = 4096, WARM_UP = 5;

__global__ void layer(const float *in, float *out, int n, float weight)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = fmaxf(0.0f, weight * in[i] + 0.25f * in[(i + 1) % n] - 0.125f * in[(i + n - 1) % n]);
}

int main(int argc, char **argv)
{
        int requests = argc > 1 ? atoi(argv[1]) : 300;
        std::vector<float> answer(WIDTH), latency;
        float *a, *b, sum = 0;
        cudaEvent_t begin, end;

        if (requests < 1) {
                fprintf(stderr, "usage: service [REQUESTS], a number of at least 1\n");
                return 2;
        }
        CHECK(cudaMalloc(&a, WIDTH * sizeof(float)));
        CHECK(cudaMalloc(&b, WIDTH * sizeof(float)));
        CHECK(cudaEventCreate(&begin));
        CHECK(cudaEventCreate(&end));
        for (int r = -WARM_UP; r < requests; r++) {
                float ms;

                for (int i = 0; i < WIDTH; i++)
                        answer[i] = (float)((i * 31 + r + WARM_UP) % 97) / 97;
                CHECK(cudaMemcpy(a, answer.data(), WIDTH * sizeof(float), cudaMemcpyHostToDevice));
                CHECK(cudaEventRecord(begin));
                for (int l = 0; l < LAYERS; l++) {
                        layer<<<WIDTH / 128, 128>>>(a, b, WIDTH, 0.9f);
                        std::swap(a, b);
                }
                CHECK(cudaEventRecord(end));
                CHECK(cudaMemcpy(answer.data(), a, WIDTH * sizeof(float), cudaMemcpyDeviceToHost));
                CHECK(cudaEventElapsedTime(&ms, begin, end));
                if (r >= 0) {
                        latency.push_back(ms);
                        sum += answer[r % WIDTH];
                }
                usleep(3000);
        }
        std::sort(latency.begin(), latency.end());
        printf("service: %d requests, latency p50 %.3f ms, p99 %.3f ms, checksum %.6f\n", requests,
                latency[requests / 2], latency[requests * 99 / 100], sum);
        return 0;
}
