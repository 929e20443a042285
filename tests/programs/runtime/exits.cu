/* SPDX-License-Identifier: Apache-2.0 */
/* Calls after main, from destructors and exit handlers: each returns a result, or an error that the runtime has
 * ended */
#include <unistd.h>

#include "runtime.h"

__global__ void nothing(int *)
{
}

static int finished;

static void over(const char *what, cudaError_t e)
{
        if (e != cudaSuccess && e != cudaErrorCudartUnloading) {
                printf("%s = %d\nFAIL\n", what, (int)e);
                fflush(stdout);
                _exit(1);
        }
}

struct Holder {
        int *p = nullptr;
        ~Holder()
        {
                nothing<<<1, 1>>>(p);
                over("cudaGetLastError after main", cudaGetLastError());
                over("cudaFree after main", cudaFree(p));
                over("cudaDeviceSynchronize after main", cudaDeviceSynchronize());
                finished++;
        }
};

static Holder holder;

static void handler()
{
        int *q = nullptr;

        over("cudaMalloc in a handler", cudaMalloc(&q, 16));
        finished++;
}

__attribute__((destructor)) static void last()
{
        int n;

        over("cudaGetDeviceCount in a destructor", cudaGetDeviceCount(&n));
        if (finished != 2) {
                printf("only %d of 2 ran\nFAIL\n", finished);
                fflush(stdout);
                _exit(1);
        }
}

int main()
{
        atexit(handler);
        MUST(cudaMalloc(&holder.p, 4096));
        LAUNCHED(nothing<<<1, 1>>>(holder.p));
        return program_end("exits");
}
