/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JIT options: which of them are read, and what is written back
 *
 * Of the options that tune the compiler the most registers per thread and the level of optimisation reach it; the
 * others are accepted and have no effect. The log buffers, their sizes and the wall time are written, as programs print
 * them when their code does not compile.
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
        size_t info_room, error_room; /* of the buffers; their sizes are written over */
};

/* CUDA_ERROR_INVALID_VALUE for options that CUDA does not know. */
CUresult dcu_jit_begin(struct dcu_jit *jit, unsigned int count, const CUjit_option *options, void **values);
/* What the compiler is to be told, as in struct dsc_load. */
void dcu_jit_tuning(const struct dcu_jit *jit, uint32_t *ret_max_registers, uint32_t *ret_optimization);
int dcu_jit_wants_log(const struct dcu_jit *jit);
/* Write log (may be NULL) to the info buffer (ok) or the error buffer, and the sizes and times. */
void dcu_jit_finish(struct dcu_jit *jit, int ok, const char *log);
