/* SPDX-License-Identifier: Apache-2.0 */
/* Sums and prefix sums over many blocks, through shared memory and warps, with several kernels in sequence */
#include "runtime.h"

__global__ void reduce(const int *in, long long *sums, int n)
{
        __shared__ long long tile[256];
        long long sum = 0;

        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                sum += in[i];
        tile[threadIdx.x] = sum;
        __syncthreads();
        for (int half = blockDim.x / 2; half > 0; half /= 2) {
                if (threadIdx.x < half)
                        tile[threadIdx.x] += tile[threadIdx.x + half];
                __syncthreads();
        }
        if (threadIdx.x == 0)
                sums[blockIdx.x] = tile[0];
}

__device__ int warp_scan(int v)
{
        for (int d = 1; d < 32; d *= 2) {
                int below = __shfl_up_sync(~0u, v, d);

                if (threadIdx.x % 32 >= d)
                        v += below;
        }
        return v;
}

__global__ void scan_blocks(const int *in, int *out, int *totals, int n)
{
        __shared__ int warps[8];
        int i = blockIdx.x * 256 + threadIdx.x, v = warp_scan(i < n ? in[i] : 0);

        if (threadIdx.x % 32 == 31)
                warps[threadIdx.x / 32] = v;
        __syncthreads();
        for (int w = 0; w < threadIdx.x / 32; w++)
                v += warps[w];
        if (i < n)
                out[i] = v;
        if (threadIdx.x == 255 && totals)
                totals[blockIdx.x] = v;
}

__global__ void add_totals(int *out, const int *totals, int n)
{
        int i = blockIdx.x * 256 + threadIdx.x;

        if (blockIdx.x > 0 && i < n)
                out[i] += totals[blockIdx.x - 1];
}

static void run(int n)
{
        int blocks = (n + 255) / 256, *din, *dout, *totals, *sums_of;
        std::vector<int> in(n), expected(n);
        long long *sums, total = 0;
        uint32_t seed = n;

        for (int i = 0; i < n; i++) {
                in[i] = int(program_random(&seed) % 2000) - 1000;
                total += in[i];
                expected[i] = int(total);
        }
        din = program_upload(in);
        MUST(cudaMalloc(&dout, n * sizeof(int)));
        MUST(cudaMalloc(&totals, blocks * sizeof(int)));
        MUST(cudaMalloc(&sums_of, blocks * sizeof(int)));
        MUST(cudaMalloc(&sums, 16 * sizeof(long long)));
        LAUNCHED(reduce<<<16, 256>>>(din, sums, n));
        long long sum = 0;
        for (long long s : program_download(sums, 16))
                sum += s;
        CHECK(sum == total);
        LAUNCHED(scan_blocks<<<blocks, 256>>>(din, dout, totals, n));
        LAUNCHED(scan_blocks<<<1, 256>>>(totals, sums_of, nullptr, blocks));
        LAUNCHED(add_totals<<<blocks, 256>>>(dout, sums_of, n));
        CHECK(program_download(dout, n) == expected);
        OK(cudaFree(din));
        OK(cudaFree(dout));
        OK(cudaFree(totals));
        OK(cudaFree(sums_of));
        OK(cudaFree(sums));
}

int main()
{
        run(1);
        run(256);
        run(5000);
        run(65536);
        return program_end("reduce_scan");
}
