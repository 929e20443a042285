/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the demo's two programs share: error checks, files, seeded weights, a hash over outputs
 */
#pragma once

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                               \
        do {                                      \
                CUresult check_r = (call);        \
                if (check_r != CUDA_SUCCESS)      \
                        demo_die(#call, check_r); \
        } while (0)

static inline void demo_die(const char *what, CUresult error)
{
        const char *name = NULL;

        cuGetErrorName(error, &name);
        fprintf(stderr, "%s: %s\n", what, name ? name : "unknown error");
        exit(1);
}

/* A file's bytes with a NUL behind them. */
static inline char *demo_read_file(const char *path)
{
        FILE *f = fopen(path, "rb");
        size_t size = 0, room = 1 << 16;
        char *bytes = malloc(room + 1);

        if (!f || !bytes) {
                perror(path);
                exit(1);
        }
        for (size_t n; (n = fread(bytes + size, 1, room - size, f)) > 0;) {
                size += n;
                if (size == room && !(bytes = realloc(bytes, (room *= 2) + 1)))
                        exit(1);
        }
        bytes[size] = 0;
        fclose(f);
        return bytes;
}

/* xorshift32, in [-1, 1) */
static inline float demo_random(uint32_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 17;
        *state ^= *state << 5;
        return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* FNV-1a */
static inline uint64_t demo_hash(uint64_t hash, const void *bytes, size_t size)
{
        const uint8_t *p = bytes;

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ p[i]) * UINT64_C(1099511628211);
        return hash;
}

#define DEMO_HASH_START UINT64_C(14695981039346656037)

/* n random floats on the device, scaled */
static inline CUdeviceptr demo_weights(size_t n, float scale, uint32_t *seed)
{
        float *host = malloc(n * sizeof(float));
        CUdeviceptr p;

        if (!host)
                exit(1);
        for (size_t i = 0; i < n; i++)
                host[i] = demo_random(seed) * scale;
        CHECK(cuMemAlloc(&p, n * sizeof(float)));
        CHECK(cuMemcpyHtoD(p, host, n * sizeof(float)));
        free(host);
        return p;
}
