// SPDX-License-Identifier: Apache-2.0
//
// An ordinary CUDA batch job for the first five minutes with DetShare: it knows nothing about DetShare.
//
// It multiplies matrices until SECONDS have passed or somebody ends it, and prints how many products it has made.
// Each kernel has enough blocks to fill a GPU, so that a program beside it waits unless something protects it.
//
// usage: job [SECONDS [N]]      (20 seconds and matrices of 2048 x 2048 without arguments; N is a multiple of 16)
// build: nvcc -arch=sm_90 -cudart shared -o job job.cu
#include <chrono>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                     \
        do {                                                                                            \
                cudaError_t error_ = (call);                                                            \
                if (error_ != cudaSuccess) {                                                            \
                        fprintf(stderr, "job: %s: %s\n", #call, cudaGetErrorString(error_));            \
                        exit(1);                                                                        \
                }                                                                                       \
        } while (0)

static const int TILE = 16;

__global__ void multiply(const float *a, const float *b, float *c, int n)
{
        __shared__ float left[TILE][TILE], right[TILE][TILE];
        int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
        float sum = 0;

        for (int k = 0; k < n; k += TILE) {
                left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
                right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
                __syncthreads();
                for (int i = 0; i < TILE; i++)
                        sum += left[threadIdx.y][i] * right[i][threadIdx.x];
                __syncthreads();
        }
        c[row * n + column] = sum;
}

int main(int argc, char **argv)
{
        double seconds = argc > 1 ? atof(argv[1]) : 20;
        cudaDeviceProp properties;
        float *a, *b, *c;
        long products = 0;
        int n;

        CHECK(cudaGetDeviceProperties(&properties, 0));
        n = argc > 2 ? atoi(argv[2]) : 2048; // a simulated GPU computes on the CPU, so pass 256 as N there
        if (seconds <= 0 || n < TILE || n % TILE) {
                fprintf(stderr, "usage: job [SECONDS [N]], N a multiple of %d\n", TILE);
                return 2;
        }
        CHECK(cudaMalloc(&a, sizeof(float) * n * n));
        CHECK(cudaMalloc(&b, sizeof(float) * n * n));
        CHECK(cudaMalloc(&c, sizeof(float) * n * n));
        CHECK(cudaMemset(a, 1, sizeof(float) * n * n));
        CHECK(cudaMemset(b, 2, sizeof(float) * n * n));
        auto begin = std::chrono::steady_clock::now();
        while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {
                for (int i = 0; i < 8; i++, products++)
                        multiply<<<dim3(n / TILE, n / TILE), dim3(TILE, TILE)>>>(a, b, c, n);
                CHECK(cudaDeviceSynchronize());
        }
        printf("job: %ld products of %d x %d on %s\n", products, n, n, properties.name);
        return 0;
}
