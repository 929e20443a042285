/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm (mean and variance by Welford over a warp, then the block) and RMS norm. */

static __device__ float block_sum(float v, float *s)
{
        for (int d = 16; d > 0; d /= 2)
                v += __shfl_xor_sync(0xffffffff, v, d);
        if ((threadIdx.x & 31) == 0)
                s[threadIdx.x / 32] = v;
        __syncthreads();
        v = 0;
        for (int i = 0; i < blockDim.x / 32; i++)
                v += s[i];
        __syncthreads();
        return v;
}

extern "C" __global__ void layernorm(const float *in, const float *gamma, const float *beta, float *out, int n, float eps)
{
        __shared__ float s[32];
        const float *row = in + (size_t)blockIdx.x * n;
        float sum = 0, square = 0;

        for (int i = threadIdx.x; i < n; i += blockDim.x)
                sum += row[i];
        float mean = block_sum(sum, s) / n;

        for (int i = threadIdx.x; i < n; i += blockDim.x)
                square += (row[i] - mean) * (row[i] - mean);
        float scale = rsqrtf(block_sum(square, s) / n + eps);

        for (int i = threadIdx.x; i < n; i += blockDim.x)
                out[(size_t)blockIdx.x * n + i] = (row[i] - mean) * scale * gamma[i] + beta[i];
}

extern "C" __global__ void rmsnorm(const float *in, const float *weight, float *out, int n, float eps)
{
        __shared__ float s[32];
        const float *row = in + (size_t)blockIdx.x * n;
        float square = 0;

        for (int i = threadIdx.x; i < n; i += blockDim.x)
                square += row[i] * row[i];
        float scale = 1.0f / sqrtf(block_sum(square, s) / n + eps);

        for (int i = threadIdx.x; i < n; i += blockDim.x)
                out[(size_t)blockIdx.x * n + i] = row[i] * scale * weight[i];
}
