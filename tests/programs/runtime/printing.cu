/* SPDX-License-Identifier: Apache-2.0 */
/* printf in kernels: the output appears at a synchronisation, after earlier output of the program */
#include <unistd.h>

#include "runtime.h"

__global__ void speak(const char *who, double d)
{
        if (threadIdx.x == 0)
                printf("block %d of %s: %5.2f %s %c %lld %#x%%\n", blockIdx.x, "kernel", d + blockIdx.x, who ? "yes" : "no",
                        'a' + blockIdx.x, 1ll << 40, 255);
}

int main()
{
        char expected[128], text[4096] = "";
        FILE *file = tmpfile();
        int saved = dup(1);
        size_t n;

        if (!file)
                return 1;
        fflush(stdout);
        dup2(fileno(file), 1);
        speak<<<3, 32>>>(nullptr, 1.5);
        cudaError_t launched = cudaGetLastError(), waited = cudaDeviceSynchronize();
        fflush(stdout);
        dup2(saved, 1);
        rewind(file);
        n = fread(text, 1, sizeof(text) - 1, file);
        text[n] = '\0';
        EXPECT(cudaSuccess, launched);
        EXPECT(cudaSuccess, waited);
        for (int b = 0; b < 3; b++) {
                snprintf(expected, sizeof(expected), "block %d of kernel: %5.2f no %c 1099511627776 0xff%%\n", b, 1.5 + b, 'a' + b);
                CHECK(strstr(text, expected) != nullptr);
        }
        CHECK(n == 3 * strlen(expected));
        return program_end("printing");
}
