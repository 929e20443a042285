// SPDX-License-Identifier: Apache-2.0
//
// The kernels of the demo: what a small image network (LS) and a batch job (BE) are made of
//
// Tensors are float, NCHW with N = 1. Every kernel computes each output in a fixed order, so its bits depend on its
// inputs only and not on which SMs it ran on or beside whom.

#include <stdint.h>

// 3x3 convolution, padding 1, one output element per thread; the filter of the block's output channel in shared memory.
extern "C" __global__ void conv3x3(const float *in, const float *weight, float *out, int c_in, int h, int w, int stride)
{
        extern __shared__ float filter[];
        int c_out = blockIdx.z, oh = h / stride, ow = w / stride;
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;

        for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < c_in * 9; i += blockDim.x * blockDim.y)
                filter[i] = weight[c_out * c_in * 9 + i];
        __syncthreads();
        if (x >= ow || y >= oh)
                return;
        float sum = 0;
        for (int c = 0; c < c_in; c++)
                for (int ky = 0; ky < 3; ky++)
                        for (int kx = 0; kx < 3; kx++) {
                                int iy = y * stride + ky - 1, ix = x * stride + kx - 1;
                                if (iy >= 0 && iy < h && ix >= 0 && ix < w)
                                        sum += in[(c * h + iy) * w + ix] * filter[(c * 3 + ky) * 3 + kx];
                        }
        out[(c_out * oh + y) * ow + x] = sum;
}

// Depthwise 3x3 convolution: channel c of the output sees only channel c of the input.
extern "C" __global__ void depthwise3x3(const float *in, const float *weight, float *out, int h, int w, int stride)
{
        __shared__ float filter[9];
        int c = blockIdx.z, oh = h / stride, ow = w / stride;
        int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
        int t = threadIdx.y * blockDim.x + threadIdx.x;

        if (t < 9)
                filter[t] = weight[c * 9 + t];
        __syncthreads();
        if (x >= ow || y >= oh)
                return;
        float sum = 0;
#pragma unroll
        for (int ky = 0; ky < 3; ky++)
#pragma unroll
                for (int kx = 0; kx < 3; kx++) {
                        int iy = y * stride + ky - 1, ix = x * stride + kx - 1;
                        if (iy >= 0 && iy < h && ix >= 0 && ix < w)
                                sum += in[(c * h + iy) * w + ix] * filter[ky * 3 + kx];
                }
        out[(c * oh + y) * ow + x] = sum;
}

#define TILE 16

// C[m][n] = A[m][k] B[k][n], tiles of 16 x 16 in shared memory
extern "C" __global__ void gemm(const float *a, const float *b, float *c, int m, int n, int k)
{
        __shared__ float ta[TILE][TILE], tb[TILE][TILE + 1];
        int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
        float sum = 0;

        for (int t = 0; t < k; t += TILE) {
                ta[ty][tx] = row < m && t + tx < k ? a[row * k + t + tx] : 0;
                tb[ty][tx] = col < n && t + ty < k ? b[(t + ty) * n + col] : 0;
                __syncthreads();
#pragma unroll
                for (int i = 0; i < TILE; i++)
                        sum += ta[ty][i] * tb[i][tx];
                __syncthreads();
        }
        if (row < m && col < n)
                c[row * n + col] = sum;
}

extern "C" __global__ void bias_relu(float *x, const float *bias, int channels, int plane)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < channels * plane) {
                float v = x[i] + bias[i / plane];
                x[i] = v > 0 ? v : 0;
        }
}

extern "C" __global__ void bias_gelu(float *x, const float *bias, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                float v = x[i] + bias[i];
                x[i] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
        }
}

static __device__ float block_sum(float v, float *scratch)
{
        int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;

        for (int d = 16; d; d >>= 1)
                v += __shfl_xor_sync(0xffffffffu, v, d);
        __syncthreads();
        if (lane == 0)
                scratch[warp] = v;
        __syncthreads();
        v = 0;
        for (int i = 0; i < (int)(blockDim.x >> 5); i++)
                v += scratch[i];
        return v;
}

// Mean of each channel's plane; one block per channel.
extern "C" __global__ void average_pool(const float *in, float *out, int plane)
{
        __shared__ float scratch[32];
        float sum = 0;

        for (int i = threadIdx.x; i < plane; i += blockDim.x)
                sum += in[blockIdx.x * plane + i];
        sum = block_sum(sum, scratch);
        if (threadIdx.x == 0)
                out[blockIdx.x] = sum / plane;
}

// Normalises each row of n values; one block per row.
extern "C" __global__ void layer_norm(float *x, const float *gain, const float *bias, int n)
{
        __shared__ float scratch[32];
        float *row = x + (size_t)blockIdx.x * n, sum = 0, square = 0;

        for (int i = threadIdx.x; i < n; i += blockDim.x)
                sum += row[i];
        float mean = block_sum(sum, scratch) / n;
        for (int i = threadIdx.x; i < n; i += blockDim.x)
                square += (row[i] - mean) * (row[i] - mean);
        float scale = rsqrtf(block_sum(square, scratch) / n + 1e-5f);
        for (int i = threadIdx.x; i < n; i += blockDim.x)
                row[i] = (row[i] - mean) * scale * gain[i] + bias[i];
}

extern "C" __global__ void softmax(float *x, int n)
{
        __shared__ float scratch[32];
        __shared__ float top;
        float *row = x + (size_t)blockIdx.x * n, sum = 0;

        if (threadIdx.x == 0) {
                float m = row[0];
                for (int i = 1; i < n; i++)
                        m = fmaxf(m, row[i]);
                top = m;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += blockDim.x)
                sum += expf(row[i] - top);
        sum = block_sum(sum, scratch);
        for (int i = threadIdx.x; i < n; i += blockDim.x)
                row[i] = expf(row[i] - top) / sum;
}

// BE: random walks over a graph. Every step is a load that depends on the one before; after every eighth step a walk
// reads the node's feature and counts the visit. The counts of a block take (nearly all of) an SM's shared memory: long
// blocks that hold an SM, as persistent library kernels do.
extern "C" __global__ void random_walk(const uint32_t *next, const float *feature, float *out, uint32_t nodes, int steps,
        int buckets)
{
        extern __shared__ uint32_t visits[];
        uint32_t node = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u % nodes;
        float sum = 0;

        for (int i = threadIdx.x; i < buckets; i += blockDim.x)
                visits[i] = 0;
        __syncthreads();
        for (int i = 0; i < steps; i += 8) {
#pragma unroll
                for (int k = 0; k < 8; k++)
                        node = next[node];
                sum = sum * 0.5f + feature[node];
                atomicAdd(&visits[node % buckets], 1u);
        }
        __syncthreads();
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum + visits[threadIdx.x % buckets];
}
