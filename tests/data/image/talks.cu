/* SPDX-License-Identifier: Apache-2.0 */
/* For test_image_cubin.c: prints, asserts and allocates; its only variables are the compiler's strings. */
#include <assert.h>
#include <stdio.h>

extern "C" __global__ void says(const int *v)
{
        printf("%s: %d\n", __func__, *v);
}

extern "C" __global__ void asserts(const int *v)
{
        assert(*v == 3);
}

extern "C" __global__ void allocates(void **p)
{
        *p = malloc(16);
}
