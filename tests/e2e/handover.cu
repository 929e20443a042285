// SPDX-License-Identifier: Apache-2.0
// Kernels of handover.c: their result depends on every launch, its count and its order.

extern "C" __device__ int printf(const char *, ...);

extern "C" __global__ void mix(unsigned *p, unsigned n, unsigned value)
{
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] = p[i] * 1664525u + value + i;
}

extern "C" __global__ void say(unsigned *p, unsigned n, unsigned value)
{
        if (threadIdx.x < 2)
                printf("line %u of %u\n", threadIdx.x, value);
}
