/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of two translation units, each with its own image: equal names with different meanings, and a template
 * instance that both contain
 */
#include "runtime.h"
#include "parts/units.h"

static __device__ int state = 1;

static __global__ void step(int *out)
{
        *out = atomicAdd(&state, 1);
}

int units_here()
{
        int *p = program_upload(std::vector<int>(1)), v;

        LAUNCHED(step<<<1, 1>>>(p));
        v = program_download(p, 1)[0];
        OK(cudaFree(p));
        return v;
}

int main()
{
        int *p = program_upload(std::vector<int>(4, 3));
        int hundred = 100;

        CHECK(units_here() == 1);
        CHECK(units_other() == 1000);
        CHECK(units_here() == 2);
        CHECK(units_other() == 1001);
        OK(cudaMemcpyToSymbol(state, &hundred, sizeof(hundred)));
        CHECK(units_here() == 100);
        CHECK(units_other() == 1002);
        LAUNCHED(scale<int><<<1, 4>>>(p, 2));
        units_scale(p, 4, 5);
        CHECK(program_download(p, 4) == std::vector<int>(4, 30));
        OK(cudaFree(p));
        return program_end("units");
}
