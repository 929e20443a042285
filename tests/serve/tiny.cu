/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of the pack that detshare-serve's tests make (make_pack.py): a dense layer, its activation, and a second
 * output in half precision.
 */
#include <cuda_fp16.h>

extern "C" __global__ void dense(const float *x, const float *w, const float *b, float *y, int n_in, int n_out)
{
        int row = blockIdx.x * blockDim.x + threadIdx.x;
        float sum = 0;

        if (row >= n_out)
                return;
        for (int i = 0; i < n_in; i++)
                sum += w[row * n_in + i] * x[i];
        y[row] = sum + b[row];
}

extern "C" __global__ void leaky(const float *x, float *y, float slope, long long n)
{
        extern __shared__ float tile[];
        long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;

        tile[threadIdx.x] = i < n ? x[i] : 0;
        __syncthreads();
        if (i < n)
                y[i] = tile[threadIdx.x] > 0 ? tile[threadIdx.x] : slope * tile[threadIdx.x];
}

extern "C" __global__ void to_half(const float *x, __half *y, const float *unused, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                y[i] = __float2half(unused ? unused[i] : x[i]);
}
