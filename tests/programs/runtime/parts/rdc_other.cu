// SPDX-License-Identifier: Apache-2.0
/* A variable and a function for rdc.cu, compiled separately */
__device__ int state = 5;

static __device__ __noinline__ int same(int v)
{
        return v;
}

__device__ int other(int v)
{
        return same(v);
}
