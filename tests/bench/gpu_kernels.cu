// SPDX-License-Identifier: Apache-2.0
// Kernels of the benches on a GPU.

extern "C" __global__ void nothing()
{
}

// Holds the SM of every block for ns nanoseconds of the GPU's clock.
extern "C" __global__ void hold(unsigned long long ns, unsigned *out)
{
        unsigned long long begin, now;

        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
        do {
                asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        } while (now - begin < ns);
        if (threadIdx.x == 0)
                out[blockIdx.x] = (unsigned)(now - begin);
}

// A short kernel, like one layer of a small network.
extern "C" __global__ void layer(float *x, unsigned n, float a)
{
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
                float v = x[i];
#pragma unroll 8
                for (int k = 0; k < 32; k++)
                        v = v * a + 0.25f;
                x[i] = v;
        }
}
