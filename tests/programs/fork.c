/* SPDX-License-Identifier: Apache-2.0 */
/* fork: a child made after cuInit cannot use CUDA, and its parent is not affected; a child made before cuInit can */
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static int child_after(CUdeviceptr p)
{
        CUcontext context;
        const char *name;
        int n = 0;

        program_failures = program_checks = 0;
        EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuInit(0));
        EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
        EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&context));
        EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc(&p, 4));
        EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxSynchronize());
        EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuMemFree(p));
        EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxCreate(&context, NULL, 0, 0));
        OK(cuDriverGetVersion(&n));
        OK(cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &name));
        return program_failures != 0;
}

static int child_before(void)
{
        CUcontext context = program_context();
        CUdeviceptr p;
        int value = 0;

        program_failures = program_checks = 0;
        OK(cuMemAlloc(&p, 64));
        OK(cuMemsetD32(p, 77, 16));
        OK(cuMemcpyDtoH(&value, p, sizeof(value)));
        CHECK(value == 77);
        OK(cuCtxDestroy(context));
        return program_failures != 0;
}

static int status_of(pid_t pid)
{
        int status = -1;

        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUdeviceptr p;
        CUfunction add;
        int n = 16, v = 1, value = 0;
        pid_t before, after;

        program_begin(argc, argv);
        before = fork();
        if (before == 0)
                exit(child_before());
        context = program_context();
        add = program_function(program_module("prog_basic"), "prog_add");
        MUST(cuMemAlloc(&p, 64));
        OK(cuMemsetD32(p, 5, 16));
        after = fork();
        if (after == 0)
                _exit(child_after(p)); /* the child cannot free memory of its parent */
        void *params[] = {&p, &n, &v};
        OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, params, NULL));
        CHECK(status_of(after) == 0);
        CHECK(status_of(before) == 0);
        OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, NULL, params, NULL));
        OK(cuMemcpyDtoH(&value, p, sizeof(value)));
        CHECK(value == 7);
        OK(cuCtxDestroy(context));
        return program_end("fork");
}
