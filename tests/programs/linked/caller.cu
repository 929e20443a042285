// SPDX-License-Identifier: Apache-2.0
/* A kernel that needs a function, a variable and a table of another file, and has names that the other file has too. */
struct pair {
        int first, second;
};

extern __device__ int linked_twice(int v);
extern __device__ int linked_pick(int which, int v);
extern __device__ int linked_state;
extern __constant__ pair linked_pair;

static __device__ int own = 100;

static __device__ __noinline__ int helper(int v)
{
        return v + own;
}

template <typename T>
__device__ __noinline__ T linked_common(T v)
{
        return v + 1;
}

extern "C" __global__ void linked_kernel(int *p, int n)
{
        extern __shared__ int scratch[];
        const int i = threadIdx.x;

        if (i >= n)
                return;
        scratch[i] = linked_twice(p[i]) + helper(i);
        p[i] = scratch[i] + linked_common(linked_state) + linked_pick(i & 1, linked_pair.second);
        if (i == 0)
                atomicAdd(&linked_state, 1);
}
