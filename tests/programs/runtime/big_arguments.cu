/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments by value: structs with padding, more than 4 KiB of arguments, and launches inside of arguments of
 * launches */
#include "runtime.h"

template <int N>
struct Block {
        char tag;
        int values[N];
        double last;
};

template <int N>
__global__ void sum(Block<N> b, long long *out, short extra)
{
        long long s = b.tag + extra;

        for (int i = threadIdx.x; i < N; i += blockDim.x)
                s += b.values[i];
        atomicAdd((unsigned long long *)out, (unsigned long long)(s + (threadIdx.x ? -b.tag - extra : (long long)b.last)));
}

__global__ void set(int *p, int v)
{
        *p = v;
}

static int nested(int *p, int v)
{
        set<<<1, 1>>>(p, v);
        return program_download(p, 1)[0];
}

template <int N>
static void run()
{
        long long *out = program_upload(std::vector<long long>(1)), expected = 0;
        Block<N> b;

        b.tag = 3;
        b.last = 1000;
        for (int i = 0; i < N; i++)
                expected += b.values[i] = i * 7 - 100;
        LAUNCHED(sum<N><<<1, 64>>>(b, out, -20));
        CHECK(program_download(out, 1)[0] == expected + 3 - 20 + 1000);
        OK(cudaFree(out));
}

int main()
{
        int *p = program_upload(std::vector<int>(2));

        run<1>();
        run<900>();
        run<1100>();
        run<8000>();
        /* the arguments of the outer launch are evaluated between its configuration and its start */
        LAUNCHED(set<<<1, 1>>>(p, nested(p + 1, 20) + nested(p + 1, 3)));
        CHECK(program_download(p, 2) == std::vector<int>({23, 3}));
        OK(cudaFree(p));
        return program_end("big_arguments");
}
