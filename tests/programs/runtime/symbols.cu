/* SPDX-License-Identifier: Apache-2.0 */
/* Device variables by name: constants, globals, structs, arrays; copies from and to them and parts of them */
#include "runtime.h"

struct Setup {
        int n;
        float scale;
        double bias;
};

__constant__ float weights[64];
__constant__ Setup setup;
__device__ int counter = 100;
__device__ float table[4][16] = {{1, 2, 3}};
__device__ double *indirect;
static __device__ unsigned long long hidden = 0x123456789abcdefull;
static int ordinary;

__global__ void weigh(float *out)
{
        int i = threadIdx.x;

        out[i] = weights[i] * setup.scale + float(setup.bias) + table[i / 16][i % 16];
        if (i < setup.n)
                atomicAdd(&counter, i);
        if (i == 0 && indirect)
                *indirect = 2.5;
}

static void constants()
{
        std::vector<float> w(64), expected(64);
        Setup s = {10, 0.25f, 3.0};
        float row[16], *out;
        int n = 0;

        for (int i = 0; i < 64; i++)
                w[i] = float(i) * 4;
        for (int i = 0; i < 16; i++)
                row[i] = float(100 + i);
        MUST(cudaMalloc(&out, 64 * sizeof(float)));
        MUST(cudaMemcpyToSymbol(weights, w.data(), 64 * sizeof(float)));
        MUST(cudaMemcpyToSymbol(setup, &s, sizeof(s)));
        OK(cudaMemcpyToSymbol(table, row, sizeof(row), 3 * sizeof(row)));
        LAUNCHED(weigh<<<1, 64>>>(out));
        for (int i = 0; i < 64; i++)
                expected[i] = float(i) + 3.0f + (i < 3 ? float(i + 1) : i >= 48 ? float(100 + i - 48) : 0.0f);
        CHECK(program_download(out, 64) == expected);
        OK(cudaMemcpyFromSymbol(&n, counter, sizeof(n)));
        CHECK(n == 145);
        /* changes one element of a constant after the last launch, for the next launch */
        w[5] = -1;
        OK(cudaMemcpyToSymbolAsync(weights, &w[5], sizeof(float), 5 * sizeof(float), cudaMemcpyHostToDevice, 0));
        LAUNCHED(weigh<<<1, 64>>>(out));
        expected[5] = 2.75f;
        CHECK(program_download(out, 64) == expected);
        OK(cudaFree(out));
}

static void addresses()
{
        void *address = nullptr, *other = nullptr;
        unsigned long long value = 0;
        size_t bytes = 0;
        double *cell, result = 0;
        float *out;

        OK(cudaGetSymbolSize(&bytes, table));
        CHECK(bytes == sizeof(float) * 64);
        OK(cudaGetSymbolSize(&bytes, hidden));
        CHECK(bytes == 8);
        OK(cudaGetSymbolAddress(&address, hidden));
        OK(cudaMemcpy(&value, address, sizeof(value), cudaMemcpyDeviceToHost));
        CHECK(value == 0x123456789abcdefull);
        OK(cudaGetSymbolAddress(&other, hidden));
        CHECK(address == other && address);
        /* writes through a pointer that a variable holds */
        MUST(cudaMalloc(&cell, sizeof(double)));
        MUST(cudaMalloc(&out, 64 * sizeof(float)));
        OK(cudaMemcpyToSymbol(indirect, &cell, sizeof(cell)));
        LAUNCHED(weigh<<<1, 64>>>(out));
        OK(cudaMemcpy(&result, cell, sizeof(result), cudaMemcpyDeviceToHost));
        CHECK(result == 2.5);
        /* copies from one variable to another */
        OK(cudaGetSymbolAddress(&other, table));
        OK(cudaMemcpyToSymbol(counter, other, sizeof(int), 0, cudaMemcpyDeviceToDevice));
        OK(cudaMemcpyFromSymbol(&result, counter, sizeof(float)));
        float first = 1;
        SAME(&result, &first, sizeof(first));
        OK(cudaFree(cell));
        OK(cudaFree(out));
}

static void wrong()
{
        size_t bytes;
        void *address;
        int x = 1;

        cudaGetLastError();
        EXPECT(cudaErrorInvalidSymbol, cudaMemcpyToSymbol(&ordinary, &x, sizeof(x)));
        EXPECT(cudaErrorInvalidSymbol, cudaGetLastError());
        EXPECT(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, &ordinary));
        EXPECT(cudaErrorInvalidSymbol, cudaGetSymbolSize(&bytes, &ordinary));
        EXPECT(cudaErrorInvalidValue, cudaMemcpyToSymbol(counter, &x, sizeof(x), 1));
        EXPECT(cudaErrorInvalidValue, cudaMemcpyFromSymbol(&x, counter, sizeof(x), 4));
        EXPECT(cudaErrorInvalidMemcpyDirection, cudaMemcpyToSymbol(counter, &x, sizeof(x), 0, cudaMemcpyDeviceToHost));
        EXPECT(cudaErrorInvalidMemcpyDirection, cudaMemcpyFromSymbol(&x, counter, sizeof(x), 0, cudaMemcpyHostToDevice));
        EXPECT(cudaErrorInvalidMemcpyDirection, cudaGetLastError());
        OK(cudaGetLastError());
}

int main()
{
        constants();
        addresses();
        wrong();
        return program_end("symbols");
}
