// SPDX-License-Identifier: Apache-2.0
// Kernels of tests/gpu/faults.c: one that computes a pattern, some that break the context, two long ones.

extern "C" __global__ void mix(unsigned *p, unsigned n, unsigned value)
{
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                p[i] = p[i] * 3 + value + i;
}

extern "C" __global__ void wild(unsigned *p, unsigned n, unsigned value)
{
        *(unsigned *)(0xdead0000ull + value) = n;
}

extern "C" __global__ void misaligned(unsigned *p, unsigned n, unsigned value)
{
        *(volatile unsigned *)((char *)p + 1 + 2 * (value & 1)) = n;
}

extern "C" __global__ void trap(unsigned *p, unsigned n, unsigned value)
{
        if (value != 0x7fffffffu)
                asm volatile("trap;");
        p[0] = n;
}

// Spins for `value` milliseconds of the GPU's clock.
extern "C" __global__ void spin(unsigned *p, unsigned n, unsigned value)
{
        unsigned long long begin, now;

        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
        do {
                asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        } while (now - begin < value * 1000000ull);
        p[0] = n;
}

// Spins until *p changes, which never happens.
extern "C" __global__ void endless(volatile unsigned *p, unsigned n, unsigned value)
{
        while (p[0] != 0x600dbeefu)
                p[1] = n;
}
