/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuSPARSE: the product of a CSR matrix with a vector and with a matrix, and its dense form
 */
#include "libs.h"

#include <cusparse.h>
#include <stdlib.h>

enum { ROWS = 1000, COLUMNS = 800, EACH = 7, WIDTH = 24, ENTRIES = ROWS * EACH };

static cusparseSpMatDescr_t matrix(void)
{
        int *offsets = malloc((ROWS + 1) * sizeof(int)), *columns = malloc(ENTRIES * sizeof(int));
        cusparseSpMatDescr_t a;

        CHECK(!offsets || !columns);
        for (int i = 0; i <= ROWS; i++)
                offsets[i] = i * EACH;
        for (int i = 0; i < ENTRIES; i++)
                columns[i] = i % EACH * (COLUMNS / EACH) + i / EACH % (COLUMNS / EACH);
        CHECK(cusparseCreateCsr(&a, ROWS, COLUMNS, ENTRIES, libs_copy(offsets, (ROWS + 1) * sizeof(int)),
                libs_copy(columns, ENTRIES * sizeof(int)), libs_floats(ENTRIES, 1), CUSPARSE_INDEX_32I,
                CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
        free(offsets);
        free(columns);
        return a;
}

static void times_vector(cusparseHandle_t sparse, cusparseSpMatDescr_t a)
{
        float *x = libs_floats(COLUMNS, 2), *y = libs_floats(ROWS, 0), alpha = 1, beta = 0;
        cusparseDnVecDescr_t vx, vy;
        size_t bytes;

        CHECK(cusparseCreateDnVec(&vx, COLUMNS, x, CUDA_R_32F));
        CHECK(cusparseCreateDnVec(&vy, ROWS, y, CUDA_R_32F));
        CHECK(cusparseSpMV_bufferSize(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, a, vx, &beta, vy, CUDA_R_32F,
                CUSPARSE_SPMV_CSR_ALG2, &bytes));
        CHECK(cusparseSpMV(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, a, vx, &beta, vy, CUDA_R_32F,
                CUSPARSE_SPMV_CSR_ALG2, libs_bytes(bytes)));
        libs_say_floats("spmv", y, ROWS);
        CHECK(cusparseDestroyDnVec(vx));
        CHECK(cusparseDestroyDnVec(vy));
}

static void times_matrix(cusparseHandle_t sparse, cusparseSpMatDescr_t a)
{
        float *b = libs_floats(COLUMNS * WIDTH, 3), *c = libs_floats(ROWS * WIDTH, 0), alpha = 2, beta = 0;
        cusparseDnMatDescr_t mb, mc;
        size_t bytes;

        CHECK(cusparseCreateDnMat(&mb, COLUMNS, WIDTH, COLUMNS, b, CUDA_R_32F, CUSPARSE_ORDER_COL));
        CHECK(cusparseCreateDnMat(&mc, ROWS, WIDTH, ROWS, c, CUDA_R_32F, CUSPARSE_ORDER_COL));
        CHECK(cusparseSpMM_bufferSize(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE,
                &alpha, a, mb, &beta, mc, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG3, &bytes));
        CHECK(cusparseSpMM(sparse, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &alpha, a, mb,
                &beta, mc, CUDA_R_32F, CUSPARSE_SPMM_CSR_ALG3, libs_bytes(bytes)));
        libs_say_floats("spmm", c, (size_t)ROWS * WIDTH);
        CHECK(cusparseDestroyDnMat(mb));
        CHECK(cusparseDestroyDnMat(mc));
}

static void dense_form(cusparseHandle_t sparse, cusparseSpMatDescr_t a)
{
        float *out = libs_floats((size_t)ROWS * COLUMNS, 0);
        cusparseDnMatDescr_t dense;
        size_t bytes;

        CHECK(cusparseCreateDnMat(&dense, ROWS, COLUMNS, ROWS, out, CUDA_R_32F, CUSPARSE_ORDER_COL));
        CHECK(cusparseSparseToDense_bufferSize(sparse, a, dense, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, &bytes));
        CHECK(cusparseSparseToDense(sparse, a, dense, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, libs_bytes(bytes)));
        libs_say_floats("dense", out, (size_t)ROWS * COLUMNS);
        CHECK(cusparseDestroyDnMat(dense));
}

int main(void)
{
        cusparseSpMatDescr_t a = matrix();
        cusparseHandle_t sparse;

        CHECK(cusparseCreate(&sparse));
        times_vector(sparse, a);
        times_matrix(sparse, a);
        dense_form(sparse, a);
        CHECK(cusparseDestroySpMat(a));
        CHECK(cusparseDestroy(sparse));
        return 0;
}
