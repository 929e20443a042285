/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JIT options: which of them are read, and what is written back
 *
 * The daemon compiles with its own settings, so options that tune the compiler are accepted and have no effect. The log
 * buffers, their sizes and the wall time are written, as programs print them when their code does not compile.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cuda/api.h"

#define DCU_JIT_LOG_BYTES 16384u

struct dcu_jit {
        unsigned int count;
        const CUjit_option *options;
        void **values;
        uint64_t start_ns;
};

/* CUDA_ERROR_INVALID_VALUE for options that CUDA does not know. */
CUresult dcu_jit_begin(struct dcu_jit *jit, unsigned int count, const CUjit_option *options, void **values);
int dcu_jit_wants_log(const struct dcu_jit *jit);
/* Write log (may be NULL) to the info buffer (ok) or the error buffer, and the sizes and times. */
void dcu_jit_finish(struct dcu_jit *jit, int ok, const char *log);
