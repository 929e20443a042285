/* SPDX-License-Identifier: Apache-2.0 */
/* A failed assertion in a kernel: a line that names it, and a sticky error */
#include <cassert>
#include <unistd.h>

#include "runtime.h"

__global__ void check(int *p, int limit)
{
        assert(int(threadIdx.x) < limit);
        p[threadIdx.x] = 1;
}

int main()
{
        char text[4096] = "";
        FILE *file = tmpfile();
        int saved = dup(2), *p;
        size_t n;

        if (!file)
                return 1;
        MUST(cudaMalloc(&p, 32 * sizeof(int)));
        LAUNCHED(check<<<1, 32>>>(p, 32));
        OK(cudaDeviceSynchronize());
        fflush(stderr);
        dup2(fileno(file), 2);
        check<<<1, 32>>>(p, 31);
        cudaError_t waited = cudaDeviceSynchronize();
        fflush(stderr);
        dup2(saved, 2);
        rewind(file);
        n = fread(text, 1, sizeof(text) - 1, file);
        text[n] = '\0';
        EXPECT(cudaErrorAssert, waited);
        CHECK(strstr(text, "asserting.cu") && strstr(text, "thread: [31,0,0]") && strstr(text, "int(threadIdx.x) < limit"));
        EXPECT(cudaErrorAssert, cudaFree(p));
        EXPECT(cudaErrorAssert, cudaGetLastError());
        return program_end("asserting");
}
