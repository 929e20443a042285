/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JIT options: reading them, and writing results back
 *
 * The compiler gets the most registers per thread and the level of optimisation; the linker also gets the options for
 * debug information and for arithmetic of LTO code. Other tuning options are accepted without effect. Log buffers,
 * their sizes and the wall time are written, because programs print them when their code does not compile.
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
        /* sizes of the log buffers, bytes: the options that carry them are overwritten with the written sizes */
        size_t info_room, error_room;
};

/* Reads the options of a call. CUDA_ERROR_INVALID_VALUE: an option is unknown, or an array is missing. */
CUresult dcu_jit_begin(struct dcu_jit *jit, unsigned int count, const CUjit_option *options, void **values);
/* The compiler's options, as in struct dsc_load. */
void dcu_jit_tuning(const struct dcu_jit *jit, uint32_t *ret_max_registers, uint32_t *ret_optimization);
/*
 * A comment before PTX that holds the compiler's options: the linker's result is text, and loading it compiles it with
 * the options of the link, whatever the options of the load are. Writes at most DCU_JIT_NOTE_BYTES, with the NUL, and
 * nothing for default options. Returns the length.
 */
#define DCU_JIT_NOTE_BYTES 80
size_t dcu_jit_note_write(uint32_t max_registers, uint32_t optimization, char note[DCU_JIT_NOTE_BYTES]);
/* Reads the options from the comment at the beginning of an image. Returns the length of the comment; 0: there is none,
 * and the options stay as they are. */
size_t dcu_jit_note_read(const void *bytes, size_t size, uint32_t *max_registers, uint32_t *optimization);
/* The linker's options, as enum ds_link_flag of wire.h. */
uint32_t dcu_jit_link_flags(const struct dcu_jit *jit);
int dcu_jit_wants_log(const struct dcu_jit *jit);
/* Writes log (may be NULL) to the info buffer (ok) or the error buffer, and sizes and times. */
void dcu_jit_finish(struct dcu_jit *jit, int ok, const char *log);
