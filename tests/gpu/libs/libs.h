/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the programs of this folder. Each uses one of NVIDIA's libraries as a user would, through the static
 * runtime.
 *
 * A program prints a line `NAME DIGEST` for every result, where DIGEST is of the raw bytes. tests/gpu/run.sh (part
 * libs) runs it natively and under DetShare, and the output must be equal. Inputs come from a generator in libs.c. Any
 * error ends the program with status 1 and a line with its place. So does a result that contains a NaN, or only zeros,
 * because such a result proves nothing. Whether the library computes correctly is not tested.
 */
#ifndef TESTS_GPU_LIBS_H
#define TESTS_GPU_LIBS_H

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

/* Checks the result of a call of any library whose success is 0. */
#define CHECK(call) libs_check((long)(call), #call, __FILE__, __LINE__)

void libs_check(long result, const char *call, const char *file, int line);

/* Allocates device memory with `n` numbers from -1 to 1; seed 0: zeros. In halves each number is the upper part of a
 * float that is exact in both half formats. */
float *libs_floats(size_t n, unsigned int seed);
double *libs_doubles(size_t n, unsigned int seed);
uint16_t *libs_halves(size_t n, unsigned int seed, int bfloat);
void *libs_bytes(size_t bytes);
/* Copies host memory to new device memory. */
void *libs_copy(const void *host, size_t bytes);

/* Waits for earlier work, then prints the digest of device memory. */
void libs_say(const char *name, const void *device, size_t bytes);
void libs_say_floats(const char *name, const float *device, size_t n);
void libs_say_doubles(const char *name, const double *device, size_t n);
/* Prints the digest of host memory. */
void libs_say_host(const char *name, const void *host, size_t bytes);

#endif
