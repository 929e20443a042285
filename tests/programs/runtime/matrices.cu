/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices: a transpose through padded tiles, and a tiled product that sums in the order of the reference */
#include "runtime.h"

#define TILE 16

__global__ void transpose(float *out, const float *in, int width, int height)
{
        __shared__ float tile[TILE][TILE + 1];
        int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;

        if (x < width && y < height)
                tile[threadIdx.y][threadIdx.x] = in[y * width + x];
        __syncthreads();
        x = blockIdx.y * TILE + threadIdx.x;
        y = blockIdx.x * TILE + threadIdx.y;
        if (x < height && y < width)
                out[y * height + x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void multiply(float *c, const float *a, const float *b, int n)
{
        __shared__ float ta[TILE][TILE], tb[TILE][TILE];
        int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
        float sum = 0;

        for (int k = 0; k < n; k += TILE) {
                ta[threadIdx.y][threadIdx.x] = y < n && k + threadIdx.x < n ? a[y * n + k + threadIdx.x] : 0;
                tb[threadIdx.y][threadIdx.x] = x < n && k + threadIdx.y < n ? b[(k + threadIdx.y) * n + x] : 0;
                __syncthreads();
                for (int i = 0; i < TILE; i++)
                        sum = fmaf(ta[threadIdx.y][i], tb[i][threadIdx.x], sum);
                __syncthreads();
        }
        if (x < n && y < n)
                c[y * n + x] = sum;
}

static std::vector<float> numbers(int n, uint32_t seed)
{
        std::vector<float> v(n);

        for (float &f : v)
                f = float(program_random(&seed)) / 1e6f - 8.0f;
        return v;
}

static void transposed(int width, int height)
{
        std::vector<float> in = numbers(width * height, 3), expected(in.size());
        float *din = program_upload(in), *dout;

        for (int y = 0; y < height; y++)
                for (int x = 0; x < width; x++)
                        expected[x * height + y] = in[y * width + x];
        MUST(cudaMalloc(&dout, in.size() * sizeof(float)));
        LAUNCHED(transpose<<<dim3((width + TILE - 1) / TILE, (height + TILE - 1) / TILE), dim3(TILE, TILE)>>>(dout, din, width, height));
        CHECK(program_download(dout, in.size()) == expected);
        OK(cudaFree(din));
        OK(cudaFree(dout));
}

static void product(int n)
{
        std::vector<float> a = numbers(n * n, 1), b = numbers(n * n, 2), expected(n * n);
        float *da = program_upload(a), *db = program_upload(b), *dc;
        int blocks = (n + TILE - 1) / TILE;

        for (int y = 0; y < n; y++)
                for (int x = 0; x < n; x++)
                        for (int k = 0; k < n; k++)
                                expected[y * n + x] = fmaf(a[y * n + k], b[k * n + x], expected[y * n + x]);
        MUST(cudaMalloc(&dc, n * n * sizeof(float)));
        LAUNCHED(multiply<<<dim3(blocks, blocks), dim3(TILE, TILE)>>>(dc, da, db, n));
        CHECK(program_download(dc, n * n) == expected);
        OK(cudaFree(da));
        OK(cudaFree(db));
        OK(cudaFree(dc));
}

int main()
{
        transposed(64, 64);
        transposed(100, 37);
        product(32);
        product(50);
        return program_end("matrices");
}
