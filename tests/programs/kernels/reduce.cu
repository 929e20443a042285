/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions: in shared memory, by shuffles, by atomics, by redux (sm_80 and later). */

extern "C" __global__ void reduce_shared(const float *in, float *out, int n)
{
        extern __shared__ float s[];
        int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;

        s[t] = i < n ? in[i] : 0.0f;
        __syncthreads();
        for (int d = blockDim.x / 2; d > 0; d >>= 1) {
                if (t < d)
                        s[t] += s[t + d];
                __syncthreads();
        }
        if (t == 0)
                out[blockIdx.x] = s[0];
}

extern "C" __global__ void reduce_shuffle(const float *in, float *out, int n)
{
        __shared__ float part[32];
        int t = threadIdx.x, lane = t & 31, warp = t >> 5;
        float v = 0.0f;

        for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
                v += in[i];
        for (int d = 16; d > 0; d >>= 1)
                v += __shfl_down_sync(0xffffffff, v, d);
        if (lane == 0)
                part[warp] = v;
        __syncthreads();
        if (warp == 0) {
                v = lane < (blockDim.x + 31) / 32 ? part[lane] : 0.0f;
                for (int d = 16; d > 0; d >>= 1)
                        v += __shfl_xor_sync(0xffffffff, v, d);
                if (lane == 0)
                        out[blockIdx.x] = v;
        }
}

extern "C" __global__ void reduce_minmax(const int *in, int *min_max, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        int lo = i < n ? in[i] : 0x7fffffff, hi = i < n ? in[i] : (int)0x80000000;

#if __CUDA_ARCH__ >= 800
        lo = __reduce_min_sync(0xffffffff, lo);
        hi = __reduce_max_sync(0xffffffff, hi);
#else
        for (int d = 16; d > 0; d >>= 1) {
                lo = min(lo, __shfl_xor_sync(0xffffffff, lo, d));
                hi = max(hi, __shfl_xor_sync(0xffffffff, hi, d));
        }
#endif
        if ((threadIdx.x & 31) == 0) {
                atomicMin(&min_max[0], lo);
                atomicMax(&min_max[1], hi);
        }
}

/* Writes the sum, and, or, xor of the warp's values, and the unsigned minimum and maximum; one warp per block */
extern "C" __global__ void reduce_redux(const unsigned *in, unsigned *out)
{
        unsigned v = in[blockIdx.x * 32 + threadIdx.x], r[6];

#if __CUDA_ARCH__ >= 800
        r[0] = __reduce_add_sync(0xffffffff, v);
        r[1] = __reduce_and_sync(0xffffffff, v);
        r[2] = __reduce_or_sync(0xffffffff, v);
        r[3] = __reduce_xor_sync(0xffffffff, v);
        r[4] = __reduce_min_sync(0xffffffff, v);
        r[5] = __reduce_max_sync(0xffffffff, v);
#else
        for (int k = 0; k < 6; k++)
                r[k] = v;
        for (int d = 16; d > 0; d >>= 1) {
                r[0] += __shfl_xor_sync(0xffffffff, r[0], d);
                r[1] &= __shfl_xor_sync(0xffffffff, r[1], d);
                r[2] |= __shfl_xor_sync(0xffffffff, r[2], d);
                r[3] ^= __shfl_xor_sync(0xffffffff, r[3], d);
                r[4] = min(r[4], __shfl_xor_sync(0xffffffff, r[4], d));
                r[5] = max(r[5], __shfl_xor_sync(0xffffffff, r[5], d));
        }
#endif
        if (threadIdx.x < 6)
                out[blockIdx.x * 6 + threadIdx.x] = r[threadIdx.x];
}

extern "C" __global__ void dot_double(const double *x, const double *y, double *out, int n)
{
        __shared__ double part[256];
        double v = 0;

        for (int i = threadIdx.x; i < n; i += blockDim.x)
                v += x[i] * y[i];
        part[threadIdx.x] = v;
        __syncthreads();
        for (int d = blockDim.x / 2; d > 0; d >>= 1) {
                if (threadIdx.x < d)
                        part[threadIdx.x] += part[threadIdx.x + d];
                __syncthreads();
        }
        if (threadIdx.x == 0)
                *out = part[0];
}
