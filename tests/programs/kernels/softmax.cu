/* SPDX-License-Identifier: Apache-2.0 */
/* Row softmax: one block per row with shared-memory reductions, and one warp per row with shuffles. */

extern "C" __global__ void softmax_block(const float *in, float *out, int n)
{
        __shared__ float s[256];
        const float *row = in + (size_t)blockIdx.x * n;
        float top = -INFINITY, sum = 0;

        for (int i = threadIdx.x; i < n; i += blockDim.x)
                top = fmaxf(top, row[i]);
        s[threadIdx.x] = top;
        __syncthreads();
        for (int d = blockDim.x / 2; d > 0; d /= 2) {
                if (threadIdx.x < d)
                        s[threadIdx.x] = fmaxf(s[threadIdx.x], s[threadIdx.x + d]);
                __syncthreads();
        }
        top = s[0];
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += blockDim.x)
                sum += expf(row[i] - top);
        s[threadIdx.x] = sum;
        __syncthreads();
        for (int d = blockDim.x / 2; d > 0; d /= 2) {
                if (threadIdx.x < d)
                        s[threadIdx.x] += s[threadIdx.x + d];
                __syncthreads();
        }
        sum = s[0];
        for (int i = threadIdx.x; i < n; i += blockDim.x)
                out[(size_t)blockIdx.x * n + i] = expf(row[i] - top) / sum;
}

extern "C" __global__ void softmax_warp(const float *in, float *out, int rows, int n)
{
        int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;

        if (row >= rows)
                return;
        const float *p = in + (size_t)row * n;
        float top = -INFINITY, sum = 0;

        for (int i = lane; i < n; i += 32)
                top = fmaxf(top, p[i]);
        for (int d = 16; d > 0; d /= 2)
                top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, d));
        for (int i = lane; i < n; i += 32)
                sum += __expf(p[i] - top);
        for (int d = 16; d > 0; d /= 2)
                sum += __shfl_xor_sync(0xffffffff, sum, d);
        for (int i = lane; i < n; i += 32)
                out[(size_t)row * n + i] = __fdividef(__expf(p[i] - top), sum);
}
