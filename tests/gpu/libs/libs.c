/* SPDX-License-Identifier: Apache-2.0 */
#include "libs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void libs_check(long result, const char *call, const char *file, int line)
{
        if (result == 0)
                return;
        printf("%s:%d: %s = %ld (CUDA's last error: %s)\n", file, line, call, result,
                cudaGetErrorName(cudaGetLastError()));
        exit(1);
}

/* Next random number, by Marsaglia's xorshift of 32 bits: multiples of 1/512 between -1 and 1, exact in every format
 * here. */
static double next(uint32_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 17;
        *state ^= *state << 5;
        return ((int)(*state >> 8 & 255) - 128) / 128.0;
}

static uint32_t first(unsigned int seed)
{
        return seed * 2654435761u + 12345;
}

static void *host_memory(size_t bytes)
{
        void *host = calloc(1, bytes ? bytes : 1);

        if (!host) {
                printf("out of memory\n");
                exit(1);
        }
        return host;
}

void *libs_bytes(size_t bytes)
{
        void *device = NULL;

        CHECK(cudaMalloc(&device, bytes ? bytes : 1));
        CHECK(cudaMemset(device, 0, bytes));
        return device;
}

void *libs_copy(const void *host, size_t bytes)
{
        void *device = libs_bytes(bytes);

        CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
        return device;
}

float *libs_floats(size_t n, unsigned int seed)
{
        float *host = host_memory(n * sizeof(*host)), *device;
        uint32_t state = first(seed);

        for (size_t i = 0; seed && i < n; i++)
                host[i] = (float)next(&state);
        device = libs_copy(host, n * sizeof(*host));
        free(host);
        return device;
}

double *libs_doubles(size_t n, unsigned int seed)
{
        double *host = host_memory(n * sizeof(*host)), *device;
        uint32_t state = first(seed);

        for (size_t i = 0; seed && i < n; i++)
                host[i] = next(&state);
        device = libs_copy(host, n * sizeof(*host));
        free(host);
        return device;
}

/* The bits of a multiple of 1/128 below 1 in magnitude, in bfloat16 or half precision. */
static uint16_t narrow(float value, int bfloat)
{
        uint32_t bits;

        memcpy(&bits, &value, sizeof(bits));
        if (bfloat)
                return (uint16_t)(bits >> 16);
        if (value == 0)
                return 0;
        return (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 0x3ff));
}

uint16_t *libs_halves(size_t n, unsigned int seed, int bfloat)
{
        uint16_t *host = host_memory(n * sizeof(*host)), *device;
        uint32_t state = first(seed);

        for (size_t i = 0; seed && i < n; i++)
                host[i] = narrow((float)next(&state), bfloat);
        device = libs_copy(host, n * sizeof(*host));
        free(host);
        return device;
}

/* Prints the 64-bit FNV-1a hash (Fowler, Noll, Vo) of the bytes. */
void libs_say_host(const char *name, const void *host, size_t bytes)
{
        const unsigned char *at = host;
        uint64_t hash = 0xcbf29ce484222325u;
        int any = 0;

        for (size_t i = 0; i < bytes; i++) {
                hash = (hash ^ at[i]) * 0x100000001b3u;
                any |= at[i];
        }
        printf("%s %016llx\n", name, (unsigned long long)hash);
        if (!any) {
                printf("%s: nothing but zeros\n", name);
                exit(1);
        }
}

static void *fetch(const void *device, size_t bytes)
{
        void *host = host_memory(bytes);

        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
        return host;
}

void libs_say(const char *name, const void *device, size_t bytes)
{
        void *host = fetch(device, bytes);

        libs_say_host(name, host, bytes);
        free(host);
}

static void no_number(const char *name, size_t at)
{
        printf("%s: element %zu is no number\n", name, at);
        exit(1);
}

void libs_say_floats(const char *name, const float *device, size_t n)
{
        float *host = fetch(device, n * sizeof(*host));

        for (size_t i = 0; i < n; i++)
                if (!isfinite(host[i]))
                        no_number(name, i);
        libs_say_host(name, host, n * sizeof(*host));
        free(host);
}

void libs_say_doubles(const char *name, const double *device, size_t n)
{
        double *host = fetch(device, n * sizeof(*host));

        for (size_t i = 0; i < n; i++)
                if (!isfinite(host[i]))
                        no_number(name, i);
        libs_say_host(name, host, n * sizeof(*host));
        free(host);
}
