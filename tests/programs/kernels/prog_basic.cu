/* SPDX-License-Identifier: Apache-2.0 */
/* Small kernels for the programs of the Driver API: counters, time, parameters, limits, faults. */

struct prog_big {
        int head;
        int values[1200];
        int tail;
};

__device__ int prog_counter = 5;
__device__ int prog_table[8] = { 10, 20, 30, 40, 50, 60, 70, 80 };
__constant__ int prog_scale[4] = { 1, 2, 3, 4 };
__device__ double prog_zeroed[3];

extern "C" __global__ void prog_nothing(void)
{
}

extern "C" __global__ void prog_add(int *p, int n, int v)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] += v;
}

/* Takes some time: n dependent steps per thread, with a result that a compiler cannot predict. */
extern "C" __global__ void prog_busy(unsigned *out, unsigned n, unsigned seed)
{
        unsigned x = seed;

        for (unsigned i = 0; i < n; i++)
                x = x * 1664525u + 1013904223u + (x >> 13);
        out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

extern "C" __global__ void prog_globals(int *out)
{
        int i = threadIdx.x;

        out[i] = prog_table[i] * prog_scale[i & 3] + (prog_zeroed[i % 3] == 0.0 ? 1000 : 0);
        if (i == 0)
                prog_counter += 1;
}

extern "C" __global__ void prog_big_param(struct prog_big big, int *out)
{
        int sum = big.head;

        for (int i = threadIdx.x; i < 1200; i += blockDim.x)
                sum += big.values[i] * (i + 1);
        out[threadIdx.x] = sum + big.tail;
}

extern "C" __global__ void prog_params(char a, int b, short c, double d, float f, long long *out)
{
        out[0] = a;
        out[1] = b;
        out[2] = c;
        out[3] = (long long)(d * 8);
        out[4] = (long long)(f * 16);
}

extern "C" __global__ void prog_reverse(int *p)
{
        extern __shared__ int s[];

        s[threadIdx.x] = p[threadIdx.x];
        __syncthreads();
        p[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void prog_static_shared(int *p)
{
        __shared__ int s[4096];

        s[threadIdx.x] = p[threadIdx.x];
        __syncthreads();
        p[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(256) prog_bounds(int *p)
{
        p[threadIdx.x] = threadIdx.x;
}

extern "C" __global__ void prog_where(int *out)
{
        int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
        int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;

        out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 10000 + thread;
}

extern "C" __global__ void prog_wild(int *p)
{
        *(volatile int *)p = 1;
}

/* Uses more registers than a block of 1024 threads can have. */
extern "C" __global__ void prog_registers(float *p)
{
        float r[96];

#pragma unroll
        for (int i = 0; i < 96; i++)
                r[i] = p[i * blockDim.x + threadIdx.x];
        for (int k = 0; k < 10; k++) {
#pragma unroll
                for (int i = 0; i < 96; i++)
                        r[i] = r[i] * r[(i + 7) % 96] + r[(i + 13) % 96];
        }
#pragma unroll
        for (int i = 0; i < 96; i++)
                p[i * blockDim.x + threadIdx.x] = r[i];
}
