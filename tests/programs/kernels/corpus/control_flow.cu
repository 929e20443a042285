/* SPDX-License-Identifier: Apache-2.0 */
/* Corpus: calls, jump and function tables, virtual functions, recursion, stacks, bounds, pragmas. */
// targets: sm_75+debug sm_86 sm_90+rdc sm_90+debug
#include <cassert>
#include <cstdint>
#include <cstdio>

struct account {
        long long balance;
        char name[12];
        float rate;
        unsigned char flags : 3;
};

__device__ __noinline__ account earn(account a, double years)
{
        a.balance += (long long)(a.balance * a.rate * years);
        a.flags ^= 5;
        a.name[3] = 'x';
        return a;
}

extern "C" __global__ void flow_structs(account *accounts, double years)
{
        accounts[threadIdx.x] = earn(earn(accounts[threadIdx.x], years), 1);
}

extern "C" __global__ void flow_struct_parameter(
        const account a, const int3 d, char c, short s, bool b, long long w, float2 f, int *out)
{
        out[0] = (int)a.balance + d.y + c + s + b + (int)w + (int)f.y + a.name[threadIdx.x % 12];
}

extern "C" __global__ void flow_machine(const unsigned char *code, int n, long long *out)
{
        long long stack[16], top = 0;
        int at = 0;

        for (int pc = 0; pc < n; pc++) {
                switch (code[pc]) {
                case 0:
                        stack[++at & 15] = top;
                        top = code[++pc];
                        break;
                case 1:
                        top += stack[at-- & 15];
                        break;
                case 2:
                        top -= stack[at-- & 15];
                        break;
                case 3:
                        top *= stack[at-- & 15];
                        break;
                case 4:
                        top = top ? stack[at-- & 15] / top : 0;
                        break;
                case 5:
                        stack[++at & 15] = top;
                        break;
                case 6: {
                        long long t = stack[at & 15];

                        stack[at & 15] = top;
                        top = t;
                        break;
                }
                case 7:
                        if (top)
                                pc += (signed char)code[pc + 1];
                        pc++;
                        break;
                case 8:
                        top = -top;
                        break;
                case 9:
                        top = __popcll(top);
                        break;
                case 10:
                        out[threadIdx.x * 2 + 1] = top;
                        break;
                case 11:
                        top <<= stack[at-- & 15] & 63;
                        break;
                default:
                        n = 0;
                }
        }
        out[threadIdx.x * 2] = top;
}

__device__ __noinline__ int sparse_switch(int v)
{
        switch (v) {
        case -1000:
                return 1;
        case 7:
                return v * 3;
        case 100:
                return v / 9;
        case 65536:
                return v ^ 0x55;
        case 0x7fffffff:
                return 4;
        }
        return v % 5;
}

extern "C" __global__ void flow_sparse(const int *in, int *out)
{
        out[threadIdx.x] = sparse_switch(in[threadIdx.x]);
}

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n)
{
        if (m == 0)
                return n + 1;
        return ackermann(m - 1, n ? ackermann(m, n - 1) : 1);
}

extern "C" __global__ void flow_ackermann(unsigned *out)
{
        out[threadIdx.x] = ackermann(2, threadIdx.x & 3);
}

__device__ int even(int n);
__device__ __noinline__ int odd(int n)
{
        return n == 0 ? 0 : even(n - 1);
}
__device__ __noinline__ int even(int n)
{
        return n == 0 ? 1 : odd(n - 1);
}

extern "C" __global__ void flow_mutual(int *out)
{
        out[threadIdx.x] = even(threadIdx.x);
}

__device__ void quick_sort(int *a, int low, int high)
{
        while (low < high) {
                int pivot = a[(low + high) / 2], i = low, j = high;

                while (i <= j) {
                        while (a[i] < pivot)
                                i++;
                        while (a[j] > pivot)
                                j--;
                        if (i <= j) {
                                int t = a[i];

                                a[i++] = a[j];
                                a[j--] = t;
                        }
                }
                if (j - low < high - i) {
                        quick_sort(a, low, j);
                        low = i;
                } else {
                        quick_sort(a, i, high);
                        high = j;
                }
        }
}

extern "C" __global__ void flow_quick_sort(int *data, int each)
{
        quick_sort(data + threadIdx.x * each, 0, each - 1);
}

__device__ __noinline__ float twice(float x)
{
        return x * 2;
}
__device__ __noinline__ float square(float x)
{
        return x * x;
}
__device__ __noinline__ float reciprocal(float x)
{
        return 1 / x;
}
typedef float (*function)(float);
__device__ const function table[4] = {twice, square, reciprocal, twice};

extern "C" __global__ void flow_function_table(const int *which, float *data)
{
        data[threadIdx.x] = table[which[threadIdx.x] & 3](data[threadIdx.x]);
}

extern "C" __global__ void flow_function_choice(float *data, int n)
{
        function f = n > 3 ? twice : square;

        for (int i = 0; i < n; i++)
                data[threadIdx.x] = f(data[threadIdx.x]);
}

struct shape {
        __device__ virtual float area() const = 0;
        __device__ virtual int corners() const
        {
                return 0;
        }
};
struct disc : shape {
        float r;
        __device__ disc(float r) : r(r)
        {
        }
        __device__ float area() const override
        {
                return 3.14159f * r * r;
        }
};
struct box : shape {
        float w, h;
        __device__ box(float w, float h) : w(w), h(h)
        {
        }
        __device__ float area() const override
        {
                return w * h;
        }
        __device__ int corners() const override
        {
                return 4;
        }
};

extern "C" __global__ void flow_virtual(const float *in, float *out, int n)
{
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
                disc d(in[i]);
                box b(in[i], 2);
                const shape *s = in[i] > 1 ? (const shape *)&d : (const shape *)&b;

                out[i] = s->area() + s->corners();
        }
}

template <class F> __device__ float integrate(F f, float from, float to, int steps)
{
        float sum = 0, h = (to - from) / steps;

        for (int i = 0; i < steps; i++)
                sum += f(from + (i + 0.5f) * h);
        return sum * h;
}

extern "C" __global__ void flow_lambdas(float *out, float a, int steps)
{
        out[0] = integrate([=](float x) { return a * x * x; }, 0, 1, steps);
        out[1] = integrate([](float x) { return x < 0.5f ? x : 1 - x; }, 0, 1, steps);
}

extern "C" __global__ void flow_goto(const int *next, int *out, int n)
{
        int i = threadIdx.x, steps = 0;

again:
        if (i < 0 || i >= n)
                goto done;
        steps++;
        i = next[i];
        if (steps < 100)
                goto again;
done:
        out[threadIdx.x] = steps;
}

extern "C" __global__ void flow_nested(const int *a, int *out, int n, int m, int l)
{
        int sum = 0;

        for (int i = 0; i < n; i++) {
                if (a[i] == 0)
                        continue;
#pragma unroll 1
                for (int j = i; j < m; j++) {
                        if (a[j] < 0)
                                break;
                        int k = 0;

                        while (true) {
                                if (k++ >= l)
                                        break;
                                if ((a[j] >> k & 1) && sum > 1000)
                                        return;
                                sum += a[k] ? a[j] : -1;
                        }
                        do
                                sum ^= k;
                        while (--k > j);
                }
        }
        out[threadIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(256, 2) flow_spilled(const float *in, float *out)
{
        float a[96];

#pragma unroll
        for (int i = 0; i < 96; i++)
                a[i] = in[i * 256 + threadIdx.x];
#pragma unroll
        for (int round = 0; round < 3; round++)
#pragma unroll
                for (int i = 0; i < 96; i++)
                        a[i] = a[i] * a[(i * 7 + 1) % 96] + a[(i + 31) % 96];
#pragma unroll
        for (int i = 0; i < 96; i++)
                out[i * 256 + threadIdx.x] = a[i];
}

extern "C" __global__ void __maxnreg__(32) flow_maxnreg(const double *in, double *out)
{
        double a[20];

#pragma unroll
        for (int i = 0; i < 20; i++)
                a[i] = in[i * 32 + threadIdx.x];
#pragma unroll
        for (int i = 0; i < 20; i++)
                out[i * 32 + threadIdx.x] = a[i] * a[(i + 9) % 20] + a[(3 * i + 1) % 20];
}

extern "C" __global__ void flow_local_array(const int *index, int *out, int n)
{
        int bins[33] = {};

        for (int i = 0; i < n; i++)
                bins[index[i] & 31]++;
        for (int i = 0; i < 32; i++)
                out[i] = bins[index[i] & 31] + bins[32];
}

extern "C" __global__ void flow_predicates(const int *a, const float *b, int *out)
{
        int i = threadIdx.x;
        bool p = a[i] > 3, q = b[i] < 0.5f, r = (a[i] & 4) != 0, s = !(b[i] >= 2);

        out[i] = (p && q) || (r != s) ? (p ^ q ? 1 : 2) : (q || !r) ? 3 : (p & s) + 4;
        if (p && (q || (r && !s)))
                out[i] += b[i] != b[i] ? 100 : 200;
}

/* In relocatable code ptxas names a function's shared variable by its PTX line, so this variable is the module's */
extern __shared__ int barrier_words[];

extern "C" __global__ void flow_divergent_barrier(int *data)
{
        int *s = barrier_words;

        for (int i = 0; i < 4; i++) {
                s[threadIdx.x] = data[threadIdx.x] + i;
                if (threadIdx.x < 32)
                        asm volatile("bar.sync 1, 32;");
                else
                        asm volatile("bar.sync 2, 32;");
                data[threadIdx.x] = s[threadIdx.x ^ 1];
                if (__syncthreads_or(data[threadIdx.x] > 1000))
                        break;
                if (__syncthreads_and(data[threadIdx.x] < 0))
                        return;
        }
}

extern "C" __global__ void flow_assume(const int *p, int *out, int n)
{
        __builtin_assume(n % 4 == 0 && n > 0);
        const int4 *q = (const int4 *)__builtin_assume_aligned(p, 16);
        int sum = 0;

        for (int i = 0; i < n / 4; i++)
                sum += q[i].x + q[i].w;
        if (__builtin_expect(sum == 77, 0))
                __trap();
        assert(sum != 78);
        out[0] = sum;
        if (sum == 79)
                printf("%d %s %f\n", sum, "seventy-nine", 0.79);
}

extern "C" __global__ void flow_alloca(int *out, int n)
{
        char *text = (char *)__builtin_alloca(n);

        for (int i = 0; i < n; i++)
                text[i] = (char)(i * 3);
        out[threadIdx.x] = text[threadIdx.x % n];
}
