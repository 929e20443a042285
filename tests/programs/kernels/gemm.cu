/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: naive, tiled through shared memory, and tiled with a register block per thread. Row-major. */

#define TILE 16

extern "C" __global__ void gemm_naive(int m, int n, int k, const float *a, const float *b, float *c)
{
        int row = blockIdx.y * blockDim.y + threadIdx.y;
        int col = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;

        if (row >= m || col >= n)
                return;
        for (int i = 0; i < k; i++)
                sum += a[row * k + i] * b[i * n + col];
        c[row * n + col] = sum;
}

extern "C" __global__ void gemm_tiled(int m, int n, int k, const float *a, const float *b, float *c)
{
        __shared__ float as[TILE][TILE], bs[TILE][TILE];
        int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
        float sum = 0;

        for (int t = 0; t < k; t += TILE) {
                as[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0;
                bs[threadIdx.y][threadIdx.x] = t + threadIdx.y < k && col < n ? b[(t + threadIdx.y) * n + col] : 0;
                __syncthreads();
                for (int i = 0; i < TILE; i++)
                        sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
                __syncthreads();
        }
        if (row < m && col < n)
                c[row * n + col] = sum;
}

/* 64 x 64 of C per block of 16 x 16 threads, 4 x 4 per thread; m, n multiples of 64, k of 16 */
extern "C" __global__ void __launch_bounds__(256) gemm_register(int m, int n, int k, const float *__restrict__ a,
                                                                 const float *__restrict__ b, float *__restrict__ c)
{
        __shared__ float as[TILE][64 + 4];
        __shared__ float bs[TILE][64];
        int tx = threadIdx.x, ty = threadIdx.y, tid = ty * TILE + tx;
        int row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
        float acc[4][4] = {};

        for (int t = 0; t < k; t += TILE) {
                for (int i = tid; i < 64 * TILE; i += 256) {
                        as[i % TILE][i / TILE] = a[(row0 + i / TILE) * k + t + i % TILE];
                        bs[i / 64][i % 64] = b[(t + i / 64) * n + col0 + i % 64];
                }
                __syncthreads();
#pragma unroll
                for (int i = 0; i < TILE; i++) {
                        float x[4], y[4];

#pragma unroll
                        for (int j = 0; j < 4; j++) {
                                x[j] = as[i][ty * 4 + j];
                                y[j] = bs[i][tx * 4 + j];
                        }
#pragma unroll
                        for (int r = 0; r < 4; r++)
#pragma unroll
                                for (int s = 0; s < 4; s++)
                                        acc[r][s] += x[r] * y[s];
                }
                __syncthreads();
        }
        for (int r = 0; r < 4; r++)
                for (int s = 0; s < 4; s++)
                        c[(row0 + ty * 4 + r) * n + col0 + tx * 4 + s] = acc[r][s];
}

extern "C" __global__ void gemv(int m, int n, const float *a, const float *x, float *y)
{
        int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
        float sum = 0;

        if (row >= m)
                return;
        for (int i = lane; i < n; i += 32)
                sum += a[(size_t)row * n + i] * x[i];
        for (int d = 16; d > 0; d /= 2)
                sum += __shfl_down_sync(0xffffffff, sum, d);
        if (lane == 0)
                y[row] = sum;
}
