/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that stands where NVIDIA's driver stands on a machine that has one
 *
 * For the test that a program runs natively where it asked for that (tests/unit/test_cuda_fallback.c): a few functions
 * whose answers nothing else gives.
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
