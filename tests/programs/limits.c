/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a context: a query returns at least the value that was set, and the limit works
 */
#include "catch.h"

static size_t get(CUlimit limit)
{
        size_t value = 0;

        OK(cuCtxGetLimit(&value, limit));
        return value;
}

static void check_values(void)
{
        static const CUlimit limits[] = {CU_LIMIT_STACK_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE};
        static const size_t asked[] = {8 << 10, 2 << 20, 16 << 20};

        for (int i = 0; i < 3; i++) {
                CHECK(get(limits[i]) > 0);
                OK(cuCtxSetLimit(limits[i], asked[i]));
                CHECK(get(limits[i]) >= asked[i] && get(limits[i]) < asked[i] + (1 << 20));
        }
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, (size_t)1 << 30));
        CHECK(get(CU_LIMIT_STACK_SIZE) >= asked[0]);
}

/* Runs a recursion of 50 calls with 64 bytes each plus the frames, which needs more than the default stack. */
static void check_stack(CUmodule module)
{
        int depth = 50, result = 0, want = 3;
        CUdeviceptr p;
        void *params[] = {&p, &depth};

        for (int d = 1; d <= depth; d++)
                want += d + d % 16;
        MUST(cuMemAlloc(&p, sizeof(result)));
        OK(cuLaunchKernel(program_function(module, "recurse"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        OK(cuMemcpyDtoH(&result, p, sizeof(result)));
        CHECK(result == want);
        OK(cuMemFree(p));
}

static void check_fifo(CUmodule module)
{
        struct catch c = catch_begin(stdout);
        int n = 6000;
        void *params[] = {&n};
        char *text;

        OK(cuLaunchKernel(program_function(module, "print_much"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
        OK(cuCtxSynchronize());
        text = catch_end(&c);
        CHECK(strlen(text) == (size_t)n * 65);
        free(text);
}

int main(int argc, char **argv)
{
        CUcontext context, other;
        CUmodule module;
        size_t first;

        program_begin(argc, argv);
        context = program_context();
        first = get(CU_LIMIT_STACK_SIZE);
        check_values();
        module = program_module("prints");
        check_stack(module);
        check_fifo(module);
        OK(cuCtxCreate(&other, NULL, 0, 0));
        CHECK(get(CU_LIMIT_STACK_SIZE) == first);
        OK(cuCtxDestroy(other));
        OK(cuCtxDestroy(context));
        return program_end("limits");
}
