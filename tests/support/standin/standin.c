/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library in the place of NVIDIA's driver
 *
 * tests/unit/test_cuda_fallback.c checks that a program runs natively if it requests that. The functions here give
 * answers that no other library gives.
 */
#include <stddef.h>

int cuInit(unsigned int flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *count);
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
int cuStreamQuery(void *stream);
int cuStreamQuery_ptsz(void *stream);

static int initialised;

int cuInit(unsigned int flags)
{
        initialised = flags == 0;
        return flags ? 1 : 0;
}

int cuDriverGetVersion(int *version)
{
        *version = 13050;
        return 0;
}

int cuDeviceGetCount(int *count)
{
        *count = 7;
        return initialised ? 0 : 3;
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
        *free_bytes = 123;
        *total = 456;
        return 0;
}

int cuStreamQuery(void *stream)
{
        return stream ? 600 : 0;
}

int cuStreamQuery_ptsz(void *stream)
{
        return stream ? 601 : 602;
}
