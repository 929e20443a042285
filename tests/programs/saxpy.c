/* SPDX-License-Identifier: Apache-2.0 */
/* Three vector kernels on odd sizes, as in every CUDA course; results equal the processor's bit by bit */
#include <math.h>

#include "program.h"

static void run(CUmodule module, int n, float a)
{
        CUfunction saxpy = program_function(module, "saxpy"), stride = program_function(module, "saxpy_stride");
        size_t bytes = (size_t)n * sizeof(float);
        float *x = malloc(bytes), *y = malloc(bytes), *expected = malloc(bytes), *result = malloc(bytes);
        CUdeviceptr dx, dy;
        uint32_t seed = (uint32_t)n;

        for (int i = 0; i < n; i++) {
                x[i] = (float)program_random(&seed) / 65536.0f;
                y[i] = (float)program_random(&seed) / 1024.0f;
                expected[i] = fmaf(a, x[i], fmaf(a, x[i], y[i]));
        }
        MUST(cuMemAlloc(&dx, bytes));
        MUST(cuMemAlloc(&dy, bytes));
        OK(cuMemcpyHtoD(dx, x, bytes));
        OK(cuMemcpyHtoD(dy, y, bytes));
        void *params[] = {&n, &a, &dx, &dy};
        OK(cuLaunchKernel(saxpy, (unsigned int)(n + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
        OK(cuLaunchKernel(stride, 3, 1, 1, 96, 1, 1, 0, NULL, params, NULL));
        OK(cuMemcpyDtoH(result, dy, bytes));
        SAME(result, expected, bytes);
        OK(cuMemFree(dx));
        OK(cuMemFree(dy));
        free(x);
        free(y);
        free(expected);
        free(result);
}

static void run_double(CUmodule module)
{
        CUfunction daxpy = program_function(module, "daxpy");
        enum { N = 777 };
        static double x[N], y[N], expected[N], result[N];
        double a = -1.0 / 3.0;
        CUdeviceptr dx, dy;
        int n = N;

        for (int i = 0; i < N; i++) {
                x[i] = i * 0.1;
                y[i] = 1.0 / (i + 1);
                expected[i] = fma(a, x[i], y[i]);
        }
        MUST(cuMemAlloc(&dx, sizeof(x)));
        MUST(cuMemAlloc(&dy, sizeof(y)));
        OK(cuMemcpyHtoD(dx, x, sizeof(x)));
        OK(cuMemcpyHtoD(dy, y, sizeof(y)));
        void *params[] = {&n, &a, &dx, &dy};
        OK(cuLaunchKernel(daxpy, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
        OK(cuCtxSynchronize());
        OK(cuMemcpyDtoH(result, dy, sizeof(result)));
        SAME(result, expected, sizeof(result));
        OK(cuMemFree(dx));
        OK(cuMemFree(dy));
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUmodule module;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("saxpy");
        run(module, 1, 2.0f);
        run(module, 1000, 0.3f);
        run(module, 65537, -1.7f);
        run_double(module);
        OK(cuModuleUnload(module));
        OK(cuCtxDestroy(context));
        return program_end("saxpy");
}
