/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the demo's two programs: error checks, files, seeded weights, a hash over outputs, a common start
 *
 * Common start (-s). Programs begin their measured work at one time of the device clock, so that a run can be repeated.
 *
 *      standard output            standard input
 *      {"ready": {}}              loaded and warm; the device clock does not wait for this program
 *                                 hold
 *      {"held": {"now_ns": N}}    the virtual clock stands still until this program has its next line
 *                                 at NS [NS]: begin and end of the measured work on the device clock
 *      ...                        what the program prints without -s
 *
 * `detshare-serve --orders` follows the same exchange, except for its last order.
 */
#pragma once

#include <cuda.h>
#include <detshare/detshare.h>
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

/* Reads a whole file; a NUL follows its bytes. */
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

/* Next random number in [-1, 1), by xorshift32 */
static inline float demo_random(uint32_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 17;
        *state ^= *state << 5;
        return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

/* Continues the FNV-1a hash with these bytes. */
static inline uint64_t demo_hash(uint64_t hash, const void *bytes, size_t size)
{
        const uint8_t *p = bytes;

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ p[i]) * UINT64_C(1099511628211);
        return hash;
}

#define DEMO_HASH_START UINT64_C(14695981039346656037)

/* Allocates n random floats, times `scale`, on the device. */
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

static inline uint64_t demo_now(void)
{
        uint64_t ns;

        if (detshare_now(&ns) < 0) {
                fprintf(stderr, "detshare_now: %s\n", detshare_last_error());
                exit(1);
        }
        return ns;
}

/* Returns 1 if the first argument is -s, and removes that argument; otherwise 0. */
static inline int demo_flag(int *argc, char ***argv)
{
        if (*argc < 2 || strcmp((*argv)[1], "-s"))
                return 0;
        *argc -= 1;
        *argv += 1;
        return 1;
}

/* Reads the next line of standard input, which must begin with the word; returns the rest of the line. */
static inline const char *demo_order(const char *word)
{
        static char line[256];

        fflush(stdout);
        if (!fgets(line, sizeof(line), stdin) || strncmp(line, word, strlen(word))) {
                fprintf(stderr, "standard input: expected the line `%s`\n", word);
                exit(1);
        }
        return line + strlen(word);
}

/* Waits for the common start. *ret_end: UINT64_MAX if the orders name none. */
static inline void demo_start(uint64_t *ret_begin, uint64_t *ret_end)
{
        unsigned long long begin, end = UINT64_MAX;

        (void)detshare_clock_leave();
        printf("{\"ready\": {}}\n");
        (void)demo_order("hold");
        printf("{\"held\": {\"now_ns\": %llu}}\n", (unsigned long long)demo_now());
        if (sscanf(demo_order("at "), "%llu %llu", &begin, &end) < 1) {
                fprintf(stderr, "standard input: `at` needs a time in ns of the device clock\n");
                exit(1);
        }
        *ret_begin = begin;
        *ret_end = end;
        (void)detshare_sleep_until(begin);
}
