// SPDX-License-Identifier: Apache-2.0
// Kernels of the end-to-end tests: one writes, one runs for a given number of rounds.

extern "C" __global__ void fill(unsigned *p, unsigned n, unsigned value)
{
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                p[i] = value;
}

extern "C" __global__ void spin(volatile unsigned *p, unsigned n, unsigned rounds)
{
        for (unsigned i = 0; i < rounds; i++)
                p[threadIdx.x] = i;
}

// Runs for the given rounds, without memory accesses and with few issue slots.
extern "C" __global__ void wait(unsigned *p, unsigned n, unsigned rounds)
{
        for (unsigned i = 0; i < rounds; i++)
                __syncthreads();
}

extern "C" __global__ void bad_address(unsigned *p, unsigned n, unsigned value)
{
        *(unsigned *)(0xdead0000ull + value) = n;
}

extern "C" __device__ int printf(const char *, ...);
extern "C" __global__ void say(unsigned *p, unsigned n, unsigned value)
{
        if (threadIdx.x < 4)
                printf("%u says %u\n", threadIdx.x, value);
}
