/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of ptxas
 *
 * A child process reads a client's PTX and writes machine code. The compiler is a large program that was not written
 * for hostile input, so the child is restricted. It has no environment and no descriptors but the text, the output file
 * and the pipe for its messages. Its time, address space and output are limited, and it dies with the helper. No
 * function here blocks: the owner polls the two descriptors and calls ds_compile_step().
 */
#pragma once

#include <stdint.h>

#include "helper/check.h"

typedef struct ds_compile ds_compile;

#define DS_COMPILE_TIME_MS 30000u
#define DS_COMPILE_OPTIONS_MAX 64

/* Command-line options of the compiler for the text, like "-arch=sm_90a -maxrregcount=64 -O3". */
void ds_compile_options(const struct ds_check_text *text, char ret[static DS_COMPILE_OPTIONS_MAX]);

/* Starts the compiler. Copies the text. time_ms: time limit; 0: DS_COMPILE_TIME_MS. Returns 0 or a negative errno. */
int ds_compile_new(const char *ptxas, const struct ds_check_text *text, uint32_t time_ms, ds_compile **ret);
/* Kills the compiler if it still runs. NULL is allowed; returns NULL. */
ds_compile *ds_compile_free(ds_compile *compile);
int ds_compile_process_fd(const ds_compile *compile); /* readable when the compiler has ended */
/* Descriptor that is readable when the compiler has written a message; -1 after the last one. */
int ds_compile_words_fd(const ds_compile *compile);
/* Time limit of the compiler by CLOCK_MONOTONIC, ns. Call ds_compile_step() when it has passed. */
uint64_t ds_compile_deadline_ns(const ds_compile *compile);
/* Reads messages and checks the end, without blocking. Returns 0: the compiler still runs; 1: it has ended. */
int ds_compile_step(ds_compile *compile, uint64_t now_ns);
/* Fills in the result for a GPU of this cc, after a step that returned 1. *ret_code (ds_free) is set if the status
 * is 0. */
void ds_compile_result(
        const ds_compile *compile, uint32_t cc, struct ds_check_result *result, void **ret_code, size_t *ret_size);

static inline void ds_compile_freep(ds_compile **p)
{
        *p = ds_compile_free(*p);
}
