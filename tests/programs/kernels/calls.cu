/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are not inlined: parameters and results by value and by struct, in divergent code, recursion, pointers. */

struct pair {
        int a;
        double b;
};

static __device__ __noinline__ int calls_square_add(int x, int y)
{
        return x * x + y;
}

static __device__ __noinline__ struct pair calls_make(int a, float b)
{
        struct pair p = { a * 2, b * 0.5 };

        if (a & 1)
                p.a = -p.a;
        return p;
}

static __device__ __noinline__ int calls_early(int x)
{
        if (x < 4)
                return 1;
        for (int i = 0; i < x; i++)
                if (i * i > x)
                        return i;
        return -1;
}

static __device__ __noinline__ unsigned calls_fib(unsigned n)
{
        return n < 2 ? n : calls_fib(n - 1) + calls_fib(n - 2);
}

static __device__ __noinline__ void calls_fill(int *array, int n, int seed)
{
        for (int i = 0; i < n; i++)
                array[i] = seed * i + 1;
}

extern "C" __global__ void calls_simple(const int *in, int *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = calls_square_add(in[i], i) - calls_square_add(i, 3);
}

extern "C" __global__ void calls_struct(const int *in, double *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i >= n)
                return;
        struct pair p = calls_make(in[i], in[i] * 0.25f);

        out[i] = p.a + p.b;
}

extern "C" __global__ void calls_divergent(const int *in, int *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, r = 0;

        if (i >= n)
                return;
        if (in[i] % 3 == 0)
                r = calls_early(in[i]);
        else if (in[i] % 3 == 1)
                r = calls_early(in[i] * 2) + calls_square_add(in[i], 1);
        for (int k = 0; k < (i & 3); k++)
                r += calls_early(k * 10);
        out[i] = r;
}

extern "C" __global__ void calls_recursive(unsigned *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = calls_fib(i % 12);
}

extern "C" __global__ void calls_local(const int *index, int *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, array[16];

        if (i >= n)
                return;
        calls_fill(array, 16, i);
        out[i] = array[index[i] & 15] + array[(index[i] >> 4) & 15];
}

typedef int (*calls_op)(int, int);

static __device__ __noinline__ int calls_op_sub(int x, int y)
{
        return x - y;
}

static __device__ __noinline__ int calls_op_xor(int x, int y)
{
        return x ^ y;
}

__device__ calls_op calls_table[3] = { calls_square_add, calls_op_sub, calls_op_xor };

extern "C" __global__ void calls_indirect(const int *in, int *out, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x;

        if (i < n)
                out[i] = calls_table[in[i] % 3](in[i], i);
}
