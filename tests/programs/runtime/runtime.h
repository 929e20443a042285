/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the programs of the Runtime API: counted checks
 *
 * A program prints each check that fails, and ends with PASS or FAIL and its name; its exit status says the same. The
 * programs use only the public CUDA Runtime API. So they run unchanged on a GPU with NVIDIA's driver and either of
 * NVIDIA's runtimes, which confirmed their expectations.
 */
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

static int program_failures, program_checks;

#define CHECK(condition)                                                                      \
        do {                                                                                  \
                program_checks++;                                                             \
                if (!(condition)) {                                                           \
                        program_failures++;                                                   \
                        printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
                }                                                                             \
        } while (0)

#define EXPECT(code, ...)                                                                                         \
        do {                                                                                                      \
                cudaError_t program_r = (__VA_ARGS__);                                                            \
                program_checks++;                                                                                 \
                if (program_r != (code)) {                                                                        \
                        program_failures++;                                                                       \
                        printf("%s:%d: %s = %d (%s), not %d\n", __FILE__, __LINE__, #__VA_ARGS__, (int)program_r, \
                                cudaGetErrorName(program_r), (int)(code));                                        \
                }                                                                                                 \
        } while (0)

#define OK(...) EXPECT(cudaSuccess, __VA_ARGS__)

/* Like OK, for calls that the rest of the program depends on: an error ends the program. */
#define MUST(...)                                                                                               \
        do {                                                                                                    \
                cudaError_t program_r = (__VA_ARGS__);                                                          \
                program_checks++;                                                                               \
                if (program_r != cudaSuccess) {                                                                 \
                        printf("%s:%d: %s = %d (%s)\nFAIL\n", __FILE__, __LINE__, #__VA_ARGS__, (int)program_r, \
                                cudaGetErrorName(program_r));                                                   \
                        exit(1);                                                                                \
                }                                                                                               \
        } while (0)

/* Checks a launch that must succeed: LAUNCHED(kernel<<<1, 32>>>(p)); */
#define LAUNCHED(...)                   \
        do {                            \
                __VA_ARGS__;            \
                OK(cudaGetLastError()); \
        } while (0)

#define SAME(a, b, bytes) CHECK(memcmp((a), (b), (bytes)) == 0)

static inline int program_end(const char *name)
{
        printf("%s %s (%d checks)\n", program_failures ? "FAIL" : "PASS", name, program_checks);
        return program_failures != 0;
}

/* Next number of a small random generator with the same sequence everywhere. */
static inline uint32_t program_random(uint32_t *state)
{
        *state = *state * 1664525u + 1013904223u;
        return *state >> 8;
}

/* Copies a host vector to new device memory; program_download copies back. */
template <typename T> static inline T *program_upload(const std::vector<T> &v)
{
        T *p;

        MUST(cudaMalloc(&p, v.size() * sizeof(T)));
        MUST(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
        return p;
}

template <typename T> static inline std::vector<T> program_download(const T *p, size_t n)
{
        std::vector<T> v(n);

        MUST(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
}
