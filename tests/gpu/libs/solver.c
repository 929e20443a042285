/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuSOLVER: a system of equations by LU, a Cholesky factor, eigenvalues, singular values, QR
 */
#include "libs.h"

#include <cusolverDn.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 120 };

/* Makes a symmetric and diagonally dominant matrix, so that every factorisation exists. */
static double *matrix(void)
{
        double *host = malloc(sizeof(double) * N * N), *device;

        CHECK(!host);
        for (int i = 0; i < N; i++)
                for (int j = 0; j < N; j++)
                        host[i * N + j] = i == j ? N + i : ((i * j) % 17 - 8) / 8.0;
        device = libs_copy(host, sizeof(double) * N * N);
        free(host);
        return device;
}

static void good(const char *name, const int *info)
{
        int host = -1;

        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(&host, info, sizeof(host), cudaMemcpyDeviceToHost));
        if (host) {
                printf("%s: info %d\n", name, host);
                exit(1);
        }
}

static void lu(cusolverDnHandle_t solver, int *info)
{
        double *a = matrix(), *b = libs_doubles(N * 3, 4);
        int *pivots = libs_bytes(N * sizeof(int)), n;

        CHECK(cusolverDnDgetrf_bufferSize(solver, N, N, a, N, &n));
        CHECK(cusolverDnDgetrf(solver, N, N, a, N, libs_bytes((size_t)n * sizeof(double)), pivots, info));
        good("getrf", info);
        CHECK(cusolverDnDgetrs(solver, CUBLAS_OP_N, N, 3, a, N, pivots, b, N, info));
        good("getrs", info);
        libs_say_doubles("getrf", a, N * N);
        libs_say_doubles("getrs", b, N * 3);
}

static void cholesky(cusolverDnHandle_t solver, int *info)
{
        double *a = matrix();
        int n;

        CHECK(cusolverDnDpotrf_bufferSize(solver, CUBLAS_FILL_MODE_LOWER, N, a, N, &n));
        CHECK(cusolverDnDpotrf(
                solver, CUBLAS_FILL_MODE_LOWER, N, a, N, libs_bytes((size_t)n * sizeof(double)), n, info));
        good("potrf", info);
        libs_say_doubles("potrf", a, N * N);
}

static void eigenvalues(cusolverDnHandle_t solver, int *info)
{
        double *a = matrix(), *values = libs_doubles(N, 0);
        int n;

        CHECK(cusolverDnDsyevd_bufferSize(
                solver, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, N, a, N, values, &n));
        CHECK(cusolverDnDsyevd(solver, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, N, a, N, values,
                libs_bytes((size_t)n * sizeof(double)), n, info));
        good("syevd", info);
        libs_say_doubles("syevd values", values, N);
        libs_say_doubles("syevd vectors", a, N * N);
}

static void singular_values(cusolverDnHandle_t solver, int *info)
{
        double *a = libs_doubles(N * N, 5), *values = libs_doubles(N, 0), *u = libs_doubles(N * N, 0);
        double *v = libs_doubles(N * N, 0), *work;
        int n;

        CHECK(cusolverDnDgesvd_bufferSize(solver, N, N, &n));
        work = libs_bytes((size_t)n * sizeof(double));
        CHECK(cusolverDnDgesvd(solver, 'A', 'A', N, N, a, N, values, u, N, v, N, work, n, NULL, info));
        good("gesvd", info);
        libs_say_doubles("gesvd", values, N);
}

static void qr(cusolverDnHandle_t solver, int *info)
{
        double *a = libs_doubles(N * N, 6), *tau = libs_doubles(N, 0);
        int n;

        CHECK(cusolverDnDgeqrf_bufferSize(solver, N, N, a, N, &n));
        CHECK(cusolverDnDgeqrf(solver, N, N, a, N, tau, libs_bytes((size_t)n * sizeof(double)), n, info));
        good("geqrf", info);
        libs_say_doubles("geqrf", a, N * N);
}

int main(void)
{
        int *info = libs_bytes(sizeof(*info));
        cusolverDnHandle_t solver;

        CHECK(cusolverDnCreate(&solver));
        lu(solver, info);
        cholesky(solver, info);
        eigenvalues(solver, info);
        singular_values(solver, info);
        qr(solver, info);
        CHECK(cusolverDnDestroy(solver));
        return 0;
}
