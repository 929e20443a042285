/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLAS: vectors, matrices in four types, batches, scalars in device memory, and a user's stream
 */
#include "libs.h"

#include <cublas_v2.h>

static void vectors(cublasHandle_t blas)
{
        enum { N = 100003 };
        float *x = libs_floats(N, 1), *y = libs_floats(N, 2), *out = libs_floats(4, 0), alpha = 1.5f, host = 0;
        int at = 0;

        CHECK(cublasSaxpy(blas, N, &alpha, x, 1, y, 1));
        libs_say_floats("saxpy", y, N);
        CHECK(cublasSdot(blas, N, x, 1, y, 1, &host));
        libs_say_host("sdot", &host, sizeof(host));
        CHECK(cublasSnrm2(blas, N, x, 1, &host));
        libs_say_host("snrm2", &host, sizeof(host));
        CHECK(cublasIsamax(blas, N, y, 1, &at));
        libs_say_host("isamax", &at, sizeof(at));
        CHECK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE));
        CHECK(cublasSasum(blas, N, x, 1, out));
        CHECK(cublasSdot(blas, N, x, 1, y, 1, out + 1));
        CHECK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST));
        libs_say_floats("sasum, sdot on the device", out, 2);
}

static void gemm(cublasHandle_t blas, const char *name, int size)
{
        size_t n = (size_t)size * (size_t)size;
        float *a = libs_floats(n, 3), *b = libs_floats(n, 4), *c = libs_floats(n, 5), alpha = 0.5f, beta = 2;

        CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, size, size, size, &alpha, a, size, b, size, &beta, c, size));
        libs_say_floats(name, c, n);
        CHECK(cudaFree(a));
        CHECK(cudaFree(b));
        CHECK(cudaFree(c));
}

static void gemm_doubles(cublasHandle_t blas)
{
        enum { N = 300 };
        double *a = libs_doubles(N * N, 3), *b = libs_doubles(N * N, 4), *c = libs_doubles(N * N, 0), alpha = 1,
               beta = 0;

        CHECK(cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &alpha, a, N, b, N, &beta, c, N));
        libs_say_doubles("dgemm 300", c, N * N);
}

static void gemm_halves(cublasHandle_t blas, const char *name, int bfloat, int size)
{
        size_t n = (size_t)size * (size_t)size;
        uint16_t *a = libs_halves(n, 6, bfloat), *b = libs_halves(n, 7, bfloat), *c = libs_halves(n, 0, bfloat);
        cudaDataType_t type = bfloat ? CUDA_R_16BF : CUDA_R_16F;
        float alpha = 1, beta = 0;

        CHECK(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, size, size, size, &alpha, a, type, size, b, type, size,
                &beta, c, type, size, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        libs_say(name, c, n * sizeof(*c));
        CHECK(cudaFree(a));
        CHECK(cudaFree(b));
        CHECK(cudaFree(c));
}

static void batches(cublasHandle_t blas)
{
        enum { N = 64, BATCH = 20 };
        float *a = libs_floats(N * N * BATCH, 8), *b = libs_floats(N * N * BATCH, 9),
              *c = libs_floats(N * N * BATCH, 0);
        const float *at_a[BATCH], *at_b[BATCH];
        float *at_c[BATCH], alpha = 1, beta = 0;
        void *table[3];

        CHECK(cublasSgemmStridedBatched(
                blas, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &alpha, a, N, N * N, b, N, N * N, &beta, c, N, N * N, BATCH));
        libs_say_floats("sgemm strided batched", c, N * N * BATCH);
        for (int i = 0; i < BATCH; i++) {
                at_a[i] = a + (BATCH - 1 - i) * N * N;
                at_b[i] = b + i * N * N;
                at_c[i] = c + i * N * N;
        }
        table[0] = libs_copy(at_a, sizeof(at_a));
        table[1] = libs_copy(at_b, sizeof(at_b));
        table[2] = libs_copy(at_c, sizeof(at_c));
        CHECK(cublasSgemmBatched(
                blas, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &alpha, table[0], N, table[1], N, &beta, table[2], N, BATCH));
        libs_say_floats("sgemm batched", c, N * N * BATCH);
}

int main(void)
{
        cublasHandle_t blas;
        cudaStream_t stream;

        CHECK(cublasCreate(&blas));
        vectors(blas);
        gemm(blas, "sgemm 64", 64);
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cublasSetStream(blas, stream));
        gemm(blas, "sgemm 1000", 1000);
        CHECK(cublasSetMathMode(blas, CUBLAS_TF32_TENSOR_OP_MATH));
        gemm(blas, "sgemm 1024, TF32", 1024);
        gemm_doubles(blas);
        gemm_halves(blas, "gemmex fp16 512", 0, 512);
        gemm_halves(blas, "gemmex fp16 4096", 0, 4096);
        gemm_halves(blas, "gemmex bf16 512", 1, 512);
        gemm_halves(blas, "gemmex bf16 4096", 1, 4096);
        batches(blas);
        CHECK(cublasDestroy(blas));
        CHECK(cudaStreamDestroy(stream));
        return 0;
}
