/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common parts of the fuzz targets
 *
 * A target is one file, fuzz_NAME.c, with libFuzzer's function. libFuzzer (`make fuzz`), AFL++ (`make fuzz-afl`) and,
 * for the corpus in the tree, replay_main.c (`make test`) call it. A target guarantees: the same bytes have the same
 * effect; nothing outlives the call (memory, file descriptors, mappings); it never waits for real time.
 *
 * Stateful targets read their input as a program: they take bytes from the front, and zeros after the end, so every
 * input is valid.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "util/log.h"
#include "util/macro.h"

/* The fuzzer or the replay calls this for each input. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Aborts if the condition does not hold. */
#define FUZZ_CHECK(condition)                                                                          \
        do {                                                                                           \
                if (!(condition)) {                                                                    \
                        fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
                        abort();                                                                       \
                }                                                                                      \
        } while (0)

struct fuzz_input {
        const uint8_t *data;
        size_t size;
};

static inline uint8_t fuzz_u8(struct fuzz_input *in)
{
        if (!in->size)
                return 0;
        in->size--;
        return *in->data++;
}

/* Takes a number below n from the input; n is 1 to 256. */
static inline unsigned fuzz_below(struct fuzz_input *in, unsigned n)
{
        return fuzz_u8(in) % n;
}

static inline uint64_t fuzz_bytes(struct fuzz_input *in, unsigned n)
{
        uint64_t value = 0;

        for (unsigned i = 0; i < n; i++)
                value |= (uint64_t)fuzz_u8(in) << 8 * i;
        return value;
}

/* Takes at most n bytes from the input, fewer at its end; the memory stays the input's. */
static inline const uint8_t *fuzz_span(struct fuzz_input *in, size_t n, size_t *ret_size)
{
        const uint8_t *at = in->data;

        n = n < in->size ? n : in->size;
        in->data += n;
        in->size -= n;
        *ret_size = n;
        return at;
}

/* Makes a copy of exactly that size, so that a sanitizer sees a read behind its end; free() it. */
static inline void *fuzz_copy(const uint8_t *data, size_t size)
{
        void *copy = malloc(size ? size : 1);

        FUZZ_CHECK(copy);
        if (size)
                memcpy(copy, data, size);
        return copy;
}

static inline int fuzz_lowest_file(void)
{
        int fd = dup(STDERR_FILENO);

        FUZZ_CHECK(fd >= 0);
        close(fd);
        return fd;
}

ds_unused static int fuzz_files, fuzz_inputs;

/* Call before and after an input: the number of open files must be equal. The first input may open some permanently
 * (libuv's). */
static inline void fuzz_note_files(void)
{
        fuzz_files = fuzz_lowest_file();
}

static inline void fuzz_expect_files(void)
{
        FUZZ_CHECK(!fuzz_inputs++ || fuzz_lowest_file() == fuzz_files);
}

/* Silences the daemon's log, since a fuzzer causes each message thousands of times a second. Call this first. */
static inline void fuzz_quiet(void)
{
        fuzz_note_files();
        ds_log_setup("fuzz", DS_LOG_ERROR - 1);
}

/*
 * Memory for kernels: `bytes` at the address `at`, the same in every run, filled with a pattern, with FUZZ_GUARD
 * inaccessible bytes on either side. One such area per program.
 */
#define FUZZ_GUARD ((size_t)1 << 20)
static inline uint8_t *fuzz_memory(uintptr_t at, size_t bytes)
{
        static uint8_t *memory;
        uint8_t *area;

        if (!memory) {
                area = mmap((void *)(at - FUZZ_GUARD), bytes + 2 * FUZZ_GUARD, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
                FUZZ_CHECK(area != MAP_FAILED);
                memory = area + FUZZ_GUARD;
                FUZZ_CHECK(mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0);
        }
        for (size_t i = 0; i < bytes; i++)
                memory[i] = (uint8_t)(i * 37);
        return memory;
}
