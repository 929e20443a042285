/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic operations: histograms in shared and global memory, and every operation whose result does not depend on
 * order */
#include "runtime.h"

__global__ void histogram(const unsigned char *in, int n, unsigned int *bins)
{
        __shared__ unsigned int mine[256];

        mine[threadIdx.x] = 0;
        __syncthreads();
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
                atomicAdd(&mine[in[i]], 1u);
        __syncthreads();
        atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

struct Cells {
        int sum, least, most, bits_and, bits_or, bits_xor, exchanged, wrapped_up, wrapped_down, cas_sum;
        unsigned long long wide, wide_most;
        float real;
        double real2;
};

__global__ void operate(Cells *c, int n)
{
        int i = blockIdx.x * blockDim.x + threadIdx.x, seen, assumed;

        if (i >= n)
                return;
        atomicAdd(&c->sum, i);
        atomicMin(&c->least, 500 - i);
        atomicMax(&c->most, i * 2);
        atomicAnd(&c->bits_and, ~(1 << i % 8));
        atomicOr(&c->bits_or, 1 << i % 16);
        atomicXor(&c->bits_xor, i);
        atomicExch(&c->exchanged, 77);
        atomicInc((unsigned int *)&c->wrapped_up, 9u);
        atomicDec((unsigned int *)&c->wrapped_down, 9u);
        atomicAdd(&c->wide, 1ull << 33);
        atomicMax(&c->wide_most, (unsigned long long)i << 40);
        atomicAdd(&c->real, 0.5f);
        atomicAdd(&c->real2, 0.25);
        seen = c->cas_sum;
        do {
                assumed = seen;
                seen = atomicCAS(&c->cas_sum, assumed, assumed + 3);
        } while (seen != assumed);
}

static void histograms()
{
        std::vector<unsigned int> expected(256);
        std::vector<unsigned char> in(30000);
        unsigned int *bins = program_upload(std::vector<unsigned int>(256));
        uint32_t seed = 5;
        unsigned char *p;

        for (unsigned char &v : in) {
                v = (unsigned char)(program_random(&seed) % 200);
                expected[v]++;
        }
        p = program_upload(in);
        LAUNCHED(histogram<<<9, 256>>>(p, int(in.size()), bins));
        CHECK(program_download(bins, 256) == expected);
        OK(cudaFree(p));
        OK(cudaFree(bins));
}

int main()
{
        std::vector<Cells> begin(1);
        Cells *p, c;
        int x = 0;

        histograms();
        begin[0] = Cells{};
        begin[0].bits_and = -1;
        p = program_upload(begin);
        LAUNCHED(operate<<<10, 100>>>(p, 1000));
        c = program_download(p, 1)[0];
        for (int i = 0; i < 1000; i++)
                x ^= i;
        CHECK(c.sum == 499500);
        CHECK(c.least == -499);
        CHECK(c.most == 1998);
        CHECK(c.bits_and == ~0xff);
        CHECK(c.bits_or == 0xffff);
        CHECK(c.bits_xor == x);
        CHECK(c.exchanged == 77);
        CHECK(c.wrapped_up == 0);
        CHECK(c.wrapped_down == 0);
        CHECK(c.wide == 1000ull << 33);
        CHECK(c.wide_most == 999ull << 40);
        CHECK(c.real == 500.0f);
        CHECK(c.real2 == 250.0);
        CHECK(c.cas_sum == 3000);
        OK(cudaFree(p));
        return program_end("atomics");
}
