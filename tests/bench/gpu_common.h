/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of the benches on a GPU: checks, files, time, percentiles
 *
 * The benches are Driver API programs. LD_LIBRARY_PATH decides whether they run natively or under DetShare. Files of
 * kernels are beside the programs. BENCH_SCALE scales the number of repetitions (0.01 on an emulated GPU), never the
 * measured operation.
 */
#pragma once

#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call)                                                                                   \
        do {                                                                                          \
                CUresult check_r = (call);                                                            \
                if (check_r != CUDA_SUCCESS) {                                                        \
                        fprintf(stderr, "%s:%d: %s = %d\n", __FILE__, __LINE__, #call, (int)check_r); \
                        exit(1);                                                                      \
                }                                                                                     \
        } while (0)

static inline double bench_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static inline void bench_sleep_us(double us)
{
        nanosleep(&(struct timespec){.tv_sec = (time_t)(us / 1e6), .tv_nsec = (long)us % 1000000 * 1000}, NULL);
}

/* Number of repetitions: n times BENCH_SCALE, at least `least`. */
static inline unsigned bench_times(unsigned n, unsigned least)
{
        const char *scale = getenv("BENCH_SCALE");
        double scaled = (double)n * (scale ? strtod(scale, NULL) : 1.0);

        return scaled < (double)least ? least : (unsigned)scaled;
}

static inline int bench_by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double bench_percentile(double *values, unsigned n, double p)
{
        unsigned i = (unsigned)(p * (double)n);

        qsort(values, n, sizeof(*values), bench_by_value);
        return values[i < n ? i : n - 1];
}

/* Reads a file beside this program; a NUL is appended. */
static inline char *bench_file(const char *name, size_t *ret_size)
{
        char path[4096];
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 300);
        char *bytes, *slash;
        long size;
        FILE *f;

        path[n < 0 ? 0 : n] = 0;
        slash = strrchr(path, '/');
        snprintf(slash ? slash + 1 : path, 256, "%s", name);
        f = fopen(path, "rb");
        if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0 || !(bytes = malloc((size_t)size + 1))) {
                perror(path);
                exit(1);
        }
        rewind(f);
        if (fread(bytes, 1, (size_t)size, f) != (size_t)size)
                exit(1);
        bytes[size] = 0;
        fclose(f);
        if (ret_size)
                *ret_size = (size_t)size;
        return bytes;
}

static inline CUmodule bench_module(const char *name)
{
        char *image = bench_file(name, NULL);
        CUmodule module;

        CHECK(cuModuleLoadData(&module, image));
        free(image);
        return module;
}

static inline CUfunction bench_function(CUmodule module, const char *name)
{
        CUfunction function;

        CHECK(cuModuleGetFunction(&function, module, name));
        return function;
}

static inline CUdevice bench_start(void)
{
        CUcontext context;
        CUdevice device;

        CHECK(cuInit(0));
        CHECK(cuDeviceGet(&device, 0));
        CHECK(cuDevicePrimaryCtxRetain(&context, device));
        CHECK(cuCtxSetCurrent(context));
        return device;
}
