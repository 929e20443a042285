/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, naive and tiled, of integers in floats: every order of summation gives the same bits */
#include "program.h"

enum { M = 48, N = 80, K = 64 };

static float a[M * K], b[K * N], expected[M * N], result[M * N];

static void run(CUfunction function, CUdeviceptr da, CUdeviceptr db, CUdeviceptr dc)
{
        int m = M, n = N, k = K;
        void *params[] = {&m, &n, &k, &da, &db, &dc};

        OK(cuMemsetD8(dc, 0xff, sizeof(result)));
        OK(cuLaunchKernel(function, (N + 15) / 16, (M + 15) / 16, 1, 16, 16, 1, 0, NULL, params, NULL));
        memset(result, 0, sizeof(result));
        OK(cuMemcpyDtoH(result, dc, sizeof(result)));
        SAME(result, expected, sizeof(result));
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUmodule module;
        CUdeviceptr da, db, dc;
        uint32_t seed = 1;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("gemm");
        for (int i = 0; i < M * K; i++)
                a[i] = (float)(program_random(&seed) % 64) - 32.0f;
        for (int i = 0; i < K * N; i++)
                b[i] = (float)(program_random(&seed) % 64) - 32.0f;
        for (int i = 0; i < M; i++) {
                for (int j = 0; j < N; j++) {
                        for (int k = 0; k < K; k++)
                                expected[i * N + j] += a[i * K + k] * b[k * N + j];
                }
        }
        MUST(cuMemAlloc(&da, sizeof(a)));
        MUST(cuMemAlloc(&db, sizeof(b)));
        MUST(cuMemAlloc(&dc, sizeof(result)));
        OK(cuMemcpyHtoD(da, a, sizeof(a)));
        OK(cuMemcpyHtoD(db, b, sizeof(b)));
        run(program_function(module, "gemm_naive"), da, db, dc);
        run(program_function(module, "gemm_tiled"), da, db, dc);
        OK(cuCtxDestroy(context)); /* destroying the context frees all remaining memory */
        return program_end("gemm");
}
