/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new context after a fault works like the first one
 *
 * NVIDIA's driver refuses a new context until the process ends, so this program runs only under DetShare. If
 * RECOVERY_FOREIGN is set, it works until a fault comes from outside: the test kills the process that owns the GPU.
 */
#include <stdatomic.h>
#include <time.h>

#include "program.h"

static CUcontext context;
static CUfunction add, wild, busy;
static CUdeviceptr memory;

static void begin(void)
{
        CUmodule module;

        MUST(cuCtxCreate(&context, NULL, 0, 0));
        module = program_module("prog_basic");
        add = program_function(module, "prog_add");
        wild = program_function(module, "prog_wild");
        busy = program_function(module, "prog_busy");
        MUST(cuMemAlloc(&memory, 4096));
}

static void work(void)
{
        int n = 16, v = 2, value = 0;
        void *params[] = {&memory, &n, &v};
        CUstream stream;

        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemsetD32Async(memory, 40, 16, stream));
        OK(cuLaunchKernel(add, 1, 1, 1, 16, 1, 1, 0, stream, params, NULL));
        OK(cuMemcpyDtoHAsync(&value, memory, sizeof(value), stream));
        OK(cuStreamSynchronize(stream));
        CHECK(value == 42);
        OK(cuStreamDestroy(stream));
}

static _Atomic int told, called;
static CUresult what;

static void CUDA_CB tell(CUstream stream, CUresult status, void *arg)
{
        what = status;
        atomic_fetch_add(&told, 1);
}

static void CUDA_CB call(void *arg)
{
        atomic_fetch_add(&called, 1);
}

/* Causes a fault: afterwards a callback receives the error, and a host function is not called. */
static CUresult own_fault(void)
{
        const struct timespec nap = {.tv_nsec = 1000000};
        CUdeviceptr nowhere = 0x10;
        void *params[] = {&nowhere};
        int tellings = atomic_load(&told);
        CUresult r, added;

        OK(cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        (void)cuLaunchHostFunc(NULL, call, NULL);
        added = cuStreamAddCallback(NULL, tell, NULL, 0);
        r = cuCtxSynchronize();
        for (int i = 0; i < 10000 && added == CUDA_SUCCESS && atomic_load(&told) == tellings; i++)
                nanosleep(&nap, NULL);
        CHECK(added != CUDA_SUCCESS || (atomic_load(&told) == tellings + 1 && what == r));
        CHECK(atomic_load(&called) == 0);
        return r;
}

static CUresult foreign_fault(void)
{
        unsigned int steps = 1000000, seed = 1;
        void *params[] = {&memory, &steps, &seed};
        time_t end = time(NULL) + 30;
        CUresult r = CUDA_SUCCESS;

        printf("READY\n");
        while (r == CUDA_SUCCESS && time(NULL) < end) {
                r = cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL);
                if (r == CUDA_SUCCESS)
                        r = cuCtxSynchronize();
        }
        return r;
}

int main(int argc, char **argv)
{
        program_begin(argc, argv);
        MUST(cuInit(0));
        for (int i = 0; i < 3; i++) {
                begin();
                work();
                if (getenv("RECOVERY_FOREIGN"))
                        EXPECT(CUDA_ERROR_LAUNCH_FAILED, foreign_fault());
                else
                        EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, own_fault());
                CHECK(cuMemAlloc(&memory, 16) != CUDA_SUCCESS);
                OK(cuCtxDestroy(context));
        }
        begin();
        work();
        OK(cuCtxDestroy(context));
        return program_end("recovery");
}
