/* SPDX-License-Identifier: Apache-2.0 */
/* Round trip: calls of every kind, jump tables, recursion, stacks, bounds, printf and assert. */
#include <cassert>
#include <cstdint>
#include <cstdio>

struct big {
        int a[5];
        double d;
        char c;
};

struct shape {
        __device__ virtual float area(float x) const = 0;
        __device__ virtual ~shape()
        {
        }
};
struct square : shape {
        __device__ float area(float x) const override
        {
                return x * x;
        }
};
struct circle : shape {
        float r;
        __device__ float area(float x) const override
        {
                return r * x * 3.14f;
        }
};

__device__ __noinline__ big make_big(big in, int n)
{
        in.a[n & 3] += n;
        in.d *= 2;
        return in;
}

__device__ __noinline__ int fibonacci(int n)
{
        return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __noinline__ float scale(float x)
{
        return x * 2;
}

__device__ __noinline__ float shift(float x)
{
        return x + 1;
}

__device__ __noinline__ void nothing(void)
{
        asm volatile("");
}

__device__ __noinline__ float4 vector_result(float4 v, char small, short medium, long long wide)
{
        v.x += small + medium + (float)wide;
        return v;
}

typedef float (*unary)(float);
__device__ unary functions[2] = {scale, shift};

extern "C" __global__ void rt_calls(float *out, int n, big in)
{
        big b = make_big(in, n);
        float4 v = vector_result(make_float4(1, 2, 3, 4), (char)n, (short)n, n);

        nothing();
        out[0] = (float)(b.a[n & 3] + b.d) + (float)fibonacci(n) + functions[n & 1](3.0f) + v.x;
        printf("%d %f %s\n", n, out[0], "text");
}

extern "C" __global__ void __launch_bounds__(128, 4) rt_switch(const int *in, int *out)
{
        int i = threadIdx.x, v = in[i];

        switch (v) {
        case 0:
                out[i] = in[i + 1] / 3;
                break;
        case 1:
                out[i] = atomicAdd(out, 1);
                break;
        case 2:
                out[i] = clock();
                break;
        case 3:
                for (int k = 0; k < v * i; k++)
                        out[i] += in[k];
                break;
        case 4:
                out[i] = __popc(v + i);
                break;
        case 5:
                out[i] = in[i * 3];
                __syncthreads();
                break;
        case 7:
                out[i] = out[i + 1] * out[i + 2];
                break;
        default:
                out[i] = -1;
        }
}

extern "C" __global__ void __maxnreg__(40) rt_virtual(float *out, int n)
{
        square s;
        circle c;
        const shape *p = n & 1 ? (const shape *)&s : (const shape *)&c;

        c.r = out[0];
        out[threadIdx.x] = p->area(out[1]);
}

extern "C" __global__ void rt_local(int *out, int n)
{
        int stack[64];
        char *bytes = (char *)stack;

        for (int i = 0; i < 64; i++)
                stack[i] = i * n;
        for (int i = 0; i < n; i++)
                bytes[(i * 7) & 255] ^= (char)i;
        out[threadIdx.x] = stack[n & 63];
        assert(out[0] != 17);
        if (n == 1234567)
                __trap();
        if (n == 1234568)
                asm volatile("exit;");
        if (n == 1234569)
                __brkpt();
        if (n < 0)
                __builtin_unreachable();
}

extern "C" __global__ void rt_alloca(int *out, int n)
{
        int *p = (int *)__builtin_alloca(n * 4);

        for (int i = 0; i < n; i++)
                p[i] = out[i] + 1;
        out[0] = p[n / 2];
}

extern "C" __global__ void rt_loops(float *a, int n, int m)
{
#pragma unroll 1
        for (int i = 0; i < n; i++) {
#pragma unroll 3
                for (int j = 0; j < m; j++) {
                        if (a[j] < 0)
                                continue;
                        if (a[j] > 1000)
                                goto out;
                        a[i] += a[j];
                }
        }
out:
        a[n] = 1;
}
