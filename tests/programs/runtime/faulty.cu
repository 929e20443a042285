/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel with an illegal write: every call returns the error until the device is reset */
#include "runtime.h"

__global__ void write(int *p)
{
        *p = 1;
}

int main()
{
        int *p, *q, device = -1;

        MUST(cudaMalloc(&p, 4096));
        LAUNCHED(write<<<1, 1>>>(p));
        OK(cudaDeviceSynchronize());
        write<<<1, 1>>>((int *)16);
        OK(cudaGetLastError());
        EXPECT(cudaErrorIllegalAddress, cudaDeviceSynchronize());
        EXPECT(cudaErrorIllegalAddress, cudaGetLastError());
        EXPECT(cudaErrorIllegalAddress, cudaMalloc(&q, 4));
        EXPECT(cudaErrorIllegalAddress, cudaFree(p));
        write<<<1, 1>>>(p);
        EXPECT(cudaErrorIllegalAddress, cudaGetLastError());
        OK(cudaGetDevice(&device));
        CHECK(device == 0);
        return program_end("faulty");
}
