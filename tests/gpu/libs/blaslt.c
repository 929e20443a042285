/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt: products with an algorithm that its heuristics choose, a bias and an activation, in several types and
 * shapes
 */
#include "libs.h"

#include <cublasLt.h>
#include <stdio.h>

#define WORKSPACE ((size_t)32 << 20)

typedef struct {
        const char *name;
        cudaDataType_t type;
        cublasLtEpilogue_t epilogue;
        int m, n, k;
} product;

static void *input(cudaDataType_t type, size_t n, unsigned int seed)
{
        return type == CUDA_R_32F ? (void *)libs_floats(n, seed) : libs_halves(n, seed, type == CUDA_R_16BF);
}

static cublasLtMatmulDesc_t description(const product *p, const void *bias)
{
        cublasOperation_t transposed = CUBLAS_OP_T;
        cublasLtMatmulDesc_t d;

        CHECK(cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        CHECK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)));
        CHECK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, sizeof(p->epilogue)));
        if (p->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
                CHECK(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)));
        return d;
}

static void run(cublasLtHandle_t lt, const product *p, void *workspace, cudaStream_t stream)
{
        size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k, bytes = WORKSPACE;
        size_t width = p->type == CUDA_R_32F ? 4 : 2;
        void *a = input(p->type, m * k, 1), *b = input(p->type, k * n, 2), *c = libs_bytes(m * n * width);
        void *bias = input(p->type, m, 3);
        cublasLtMatmulDesc_t d = description(p, bias);
        cublasLtMatrixLayout_t la, lb, lc;
        cublasLtMatmulPreference_t preference;
        cublasLtMatmulHeuristicResult_t found[4];
        float alpha = 1, beta = 0;
        int n_found = 0;

        CHECK(cublasLtMatrixLayoutCreate(&la, p->type, k, m, p->k));
        CHECK(cublasLtMatrixLayoutCreate(&lb, p->type, k, n, p->k));
        CHECK(cublasLtMatrixLayoutCreate(&lc, p->type, m, n, p->m));
        CHECK(cublasLtMatmulPreferenceCreate(&preference));
        CHECK(cublasLtMatmulPreferenceSetAttribute(
                preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)));
        CHECK(cublasLtMatmulAlgoGetHeuristic(lt, d, la, lb, lc, lc, preference, 4, found, &n_found));
        printf("%s: %d algorithms, the first wants %zu bytes\n", p->name, n_found, found[0].workspaceSize);
        CHECK(n_found == 0);
        CHECK(cublasLtMatmul(
                lt, d, &alpha, a, la, b, lb, &beta, c, lc, c, lc, &found[0].algo, workspace, WORKSPACE, stream));
        libs_say(p->name, c, m * n * width);
        CHECK(cublasLtMatmulPreferenceDestroy(preference));
        CHECK(cublasLtMatrixLayoutDestroy(la));
        CHECK(cublasLtMatrixLayoutDestroy(lb));
        CHECK(cublasLtMatrixLayoutDestroy(lc));
        CHECK(cublasLtMatmulDescDestroy(d));
        CHECK(cudaFree(a));
        CHECK(cudaFree(b));
        CHECK(cudaFree(c));
        CHECK(cudaFree(bias));
}

int main(void)
{
        static const product products[] = {
                {"fp32 256x128x64", CUDA_R_32F, CUBLASLT_EPILOGUE_DEFAULT, 256, 128, 64},
                {"fp32 bias", CUDA_R_32F, CUBLASLT_EPILOGUE_BIAS, 512, 512, 512},
                {"fp16 8x8x4096", CUDA_R_16F, CUBLASLT_EPILOGUE_DEFAULT, 8, 8, 4096},
                {"fp16 bias relu", CUDA_R_16F, CUBLASLT_EPILOGUE_RELU_BIAS, 1024, 768, 512},
                {"fp16 bias gelu", CUDA_R_16F, CUBLASLT_EPILOGUE_GELU_BIAS, 768, 512, 3072},
                {"bf16 4096x256x1024", CUDA_R_16BF, CUBLASLT_EPILOGUE_DEFAULT, 4096, 256, 1024},
                {"bf16 bias", CUDA_R_16BF, CUBLASLT_EPILOGUE_BIAS, 2048, 2048, 2048},
        };
        void *workspace = libs_bytes(WORKSPACE);
        cublasLtHandle_t lt;
        cudaStream_t stream;

        CHECK(cudaStreamCreate(&stream));
        CHECK(cublasLtCreate(&lt));
        for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++)
                run(lt, &products[i], workspace, stream);
        CHECK(cublasLtDestroy(lt));
        CHECK(cudaStreamDestroy(stream));
        return 0;
}
