// SPDX-License-Identifier: Apache-2.0
/* The functions and variables that caller.cu needs, and names that both files have. */
#include <stdio.h>

struct pair {
        int first, second;
};

__device__ int linked_state = 5;
__constant__ pair linked_pair = {1, 7};

static __device__ int own = 2;

static __device__ __noinline__ int helper(int v)
{
        return v * own;
}

template <typename T>
__device__ __noinline__ T linked_common(T v)
{
        return v + 1;
}

static __device__ __noinline__ int plus(int v)
{
        return linked_common(v);
}

static __device__ __noinline__ int minus(int v)
{
        return v - 1;
}

typedef int (*function)(int);
static __device__ function functions[2] = {plus, minus};
static __device__ function *table = functions;

__device__ int linked_twice(int v)
{
        extern __shared__ double scratch[];

        if (v < -1000000)
                printf("%p\n", (void *)scratch);
        return helper(v);
}

__device__ int linked_pick(int which, int v)
{
        return table[which](v);
}
