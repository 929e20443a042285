/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuFFT: powers of two, odd primes and batches; real and complex; one and two dimensions
 */
#include "libs.h"

#include <cufft.h>

static void complex_lines(const char *name, int size, int batch)
{
        size_t n = (size_t)size * (size_t)batch;
        float *x = libs_floats(2 * n, 1);
        cufftHandle plan;

        CHECK(cufftPlan1d(&plan, size, CUFFT_C2C, batch));
        CHECK(cufftExecC2C(plan, (cufftComplex *)x, (cufftComplex *)x, CUFFT_FORWARD));
        libs_say_floats(name, x, 2 * n);
        CHECK(cufftExecC2C(plan, (cufftComplex *)x, (cufftComplex *)x, CUFFT_INVERSE));
        libs_say_floats("and back", x, 2 * n);
        CHECK(cufftDestroy(plan));
        CHECK(cudaFree(x));
}

static void real_plane(int size)
{
        size_t n = (size_t)size * (size_t)size, half = (size_t)size * (size_t)(size / 2 + 1);
        float *x = libs_floats(n, 2), *y = libs_floats(2 * half, 0);
        cufftHandle plan;

        CHECK(cufftPlan2d(&plan, size, size, CUFFT_R2C));
        CHECK(cufftExecR2C(plan, x, (cufftComplex *)y));
        libs_say_floats("real, two dimensions", y, 2 * half);
        CHECK(cufftDestroy(plan));
        CHECK(cudaFree(x));
        CHECK(cudaFree(y));
}

static void doubles(void)
{
        enum { N = 1000 };
        double *x = libs_doubles(2 * N, 3);
        cufftHandle plan;

        CHECK(cufftPlan1d(&plan, N, CUFFT_Z2Z, 1));
        CHECK(cufftExecZ2Z(plan, (cufftDoubleComplex *)x, (cufftDoubleComplex *)x, CUFFT_FORWARD));
        libs_say_doubles("doubles", x, 2 * N);
        CHECK(cufftDestroy(plan));
        CHECK(cudaFree(x));
}

int main(void)
{
        complex_lines("1024", 1024, 1);
        complex_lines("4096, 50 at once", 4096, 50);
        complex_lines("997", 997, 3);
        complex_lines("1048576", 1 << 20, 1);
        real_plane(512);
        doubles();
        return 0;
}
