// SPDX-License-Identifier: Apache-2.0
// A module with variables of its own: each load of it is a new instance.

__device__ unsigned total = 1;
__device__ unsigned table[4096];

extern "C" __global__ void count(unsigned *out, unsigned n)
{
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n) {
                table[i & 4095] = i;
                out[i] = atomicAdd(&total, 1u);
        }
}
