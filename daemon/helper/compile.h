/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of ptxas
 *
 * A child process reads a client's PTX and writes machine code; the compiler is a large program that was not written
 * for hostile input, so the child is fenced: no environment, no descriptor but the text, the output and the pipe for
 * its words, limits on time, addresses and output, and it dies with the helper. Nothing of it is waited for here: its
 * owner polls the two descriptors and calls ds_compile_step.
 */
#pragma once

#include <stdint.h>

#include "helper/check.h"

typedef struct ds_compile ds_compile;

#define DS_COMPILE_TIME_MS 30000u
#define DS_COMPILE_OPTIONS_MAX 64

/* What it is told beside the text: "-arch=sm_90a -maxrregcount=64 -O3". */
void ds_compile_options(const struct ds_check_text *text, char ret[static DS_COMPILE_OPTIONS_MAX]);

/* time_ms: 0 for DS_COMPILE_TIME_MS. Copies what it needs of the text. Negative errno. */
int ds_compile_new(const char *ptxas, const struct ds_check_text *text, uint32_t time_ms, ds_compile **ret);
/* Kills it when it still runs. NULL is fine; returns NULL. */
ds_compile *ds_compile_free(ds_compile *compile);
int ds_compile_process_fd(const ds_compile *compile); /* readable: it has ended */
int ds_compile_words_fd(const ds_compile *compile);   /* readable: it has said something; -1 after its last word */
uint64_t ds_compile_deadline_ns(const ds_compile *compile); /* of CLOCK_MONOTONIC; step when it is over */
/* 0: it goes on; 1: it is over. Does not block. */
int ds_compile_step(ds_compile *compile, uint64_t now_ns);
/* After a step of 1: what came of it, for a GPU of this cc. *ret_code (ds_free) when status is 0. */
void ds_compile_result(
        const ds_compile *compile, uint32_t cc, struct ds_check_result *result, void **ret_code, size_t *ret_size);

static inline void ds_compile_freep(ds_compile **p)
{
        *p = ds_compile_free(*p);
}
