/* SPDX-License-Identifier: Apache-2.0 */
/* Amount of memory: allocations reduce the free amount, frees restore it, and the total equals the device's property */
#include "runtime.h"

int main()
{
        const size_t big = 256 << 20, slack = 64 << 20;
        size_t free0, free1, free2, total, total1;
        cudaDeviceProp props;
        char *p;

        MUST(cudaGetDeviceProperties(&props, 0));
        OK(cudaMemGetInfo(&free0, &total));
        CHECK(free0 > 0 && free0 <= total);
        CHECK(total <= props.totalGlobalMem);
        MUST(cudaMalloc(&p, big));
        OK(cudaMemGetInfo(&free1, &total1));
        CHECK(total1 == total);
        CHECK(free1 <= free0 - big + slack && free1 + slack >= free0 - big);
        OK(cudaFree(p));
        OK(cudaMemGetInfo(&free2, NULL));
        CHECK(free2 + slack >= free0);
        OK(cudaMemGetInfo(NULL, &total1));
        CHECK(total1 == total);
        return program_end("memory_info");
}
