/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of this folder share: each uses one of NVIDIA's libraries as a user would, through the runtime's
 * static library.
 *
 * A program prints a line `NAME DIGEST` for everything that it computed, digest of the raw bytes; tests/gpu/run.sh
 * (part libs) runs it natively and under DetShare, and the output must be the same. Inputs come from a generator of our
 * own. Whatever fails ends the program with status 1 and a line that says where. So does a result that is no number, or
 * nothing but zeros: it would be the same everywhere. Whether a library computes right is its own matter.
 */
#ifndef TESTS_GPU_LIBS_H
#define TESTS_GPU_LIBS_H

#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

/* Calls of any library whose success is 0. */
#define CHECK(call) libs_check((long)(call), #call, __FILE__, __LINE__)

void libs_check(long result, const char *call, const char *file, int line);

/* Memory of the device: `n` numbers from -1 to 1, or of zeros with seed 0. In halves each is the upper part of a float
 * that is exact in either half format. */
float *libs_floats(size_t n, unsigned int seed);
double *libs_doubles(size_t n, unsigned int seed);
uint16_t *libs_halves(size_t n, unsigned int seed, int bfloat);
void *libs_bytes(size_t bytes);
/* Memory of the device with what is there. */
void *libs_copy(const void *host, size_t bytes);

/* Prints the digest of what is on the device, once everything before it is done. */
void libs_say(const char *name, const void *device, size_t bytes);
void libs_say_floats(const char *name, const float *device, size_t n);
void libs_say_doubles(const char *name, const double *device, size_t n);
/* Of memory of the host. */
void libs_say_host(const char *name, const void *host, size_t bytes);

#endif
