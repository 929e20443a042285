/* SPDX-License-Identifier: Apache-2.0 */
/* The second translation unit of `units` */
#include <cuda_runtime.h>

#include "units.h"

static __device__ int state = 1000;

static __global__ void step(int *out)
{
        *out = atomicAdd(&state, 1);
}

int units_other()
{
        int *p, v = -1;

        if (cudaMalloc(&p, sizeof(*p)) != cudaSuccess)
                return -1;
        step<<<1, 1>>>(p);
        cudaMemcpy(&v, p, sizeof(v), cudaMemcpyDeviceToHost);
        cudaFree(p);
        return v;
}

void units_scale(int *p, int n, int by)
{
        scale<int><<<1, n>>>(p, by);
}
