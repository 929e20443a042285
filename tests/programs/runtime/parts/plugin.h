/* SPDX-License-Identifier: Apache-2.0 */
/* A library with a kernel of its own, for `plugins`. BEGIN: initial value of its variable */
#pragma once

#include <cuda_runtime.h>

static __device__ int state = BEGIN;

static __global__ void step(int *out)
{
        *out = atomicAdd(&state, 1);
}

extern "C" int plugin_step(int *out)
{
        step<<<1, 1>>>(out);
        return (int)cudaGetLastError();
}
