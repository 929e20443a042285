/* SPDX-License-Identifier: Apache-2.0 */
/* fork: a child made before the first CUDA call can use CUDA; a later one gets an error; the parent is not affected */
#include <sys/wait.h>
#include <unistd.h>

#include "runtime.h"

__global__ void set(int *p, int v)
{
        *p = v;
}

static int works(int v)
{
        int *p, got = 0;

        if (cudaMalloc(&p, sizeof(*p)) != cudaSuccess)
                return 0;
        set<<<1, 1>>>(p, v);
        return cudaMemcpy(&got, p, sizeof(got), cudaMemcpyDeviceToHost) == cudaSuccess && got == v && cudaFree(p) == cudaSuccess;
}

static int status_of(pid_t child)
{
        int status = -1;

        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main()
{
        pid_t child = fork();

        if (child == 0)
                _exit(works(5) ? 0 : 1);
        CHECK(status_of(child) == 0);
        CHECK(works(6));
        child = fork();
        if (child == 0) {
                int *p = nullptr;
                cudaError_t allocated = cudaMalloc(&p, 4);

                _exit(allocated == cudaErrorInitializationError ? 0 : 100 + (int)allocated % 100);
        }
        CHECK(status_of(child) == 0);
        CHECK(works(7));
        return program_end("forked");
}
