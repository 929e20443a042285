/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JIT options of cuModuleLoadDataEx and cuLibraryLoadData
 *
 * Values are passed in an array of pointers; an element is the value itself, or a pointer to a buffer. Sizes are
 * returned as bytes written, with the final NUL; 0 for an empty log.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cuda/jit.h"
#include "proto/wire.h"

static uint64_t now_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#define OPTIMIZATION_MAX 4

/* Reads an option's number, which is passed in the place of a pointer. */
static uint32_t number_of(void *const *value)
{
        return (uint32_t)(uintptr_t)*value;
}

static void **value_of(const struct dcu_jit *jit, CUjit_option option)
{
        for (unsigned int i = 0; i < jit->count; i++) {
                if (jit->options[i] == option)
                        return &jit->values[i];
        }
        return NULL;
}

static size_t room_of(const struct dcu_jit *jit, CUjit_option option)
{
        void *const *size = value_of(jit, option);

        return size ? (size_t)*size : 0;
}

CUresult dcu_jit_begin(struct dcu_jit *jit, unsigned int count, const CUjit_option *options, void **values)
{
        if (count && (!options || !values))
                return CUDA_ERROR_INVALID_VALUE;
        for (unsigned int i = 0; i < count; i++) {
                if ((unsigned int)options[i] >= CU_JIT_NUM_OPTIONS)
                        return CUDA_ERROR_INVALID_VALUE;
        }
        *jit = (struct dcu_jit){.count = count, .options = options, .values = values, .start_ns = now_ns()};
        jit->info_room = room_of(jit, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
        jit->error_room = room_of(jit, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
        return CUDA_SUCCESS;
}

void dcu_jit_tuning(const struct dcu_jit *jit, uint32_t *ret_max_registers, uint32_t *ret_optimization)
{
        void **registers = value_of(jit, CU_JIT_MAX_REGISTERS), **level = value_of(jit, CU_JIT_OPTIMIZATION_LEVEL);

        *ret_max_registers = registers ? number_of(registers) : 0;
        *ret_optimization = level && number_of(level) <= OPTIMIZATION_MAX ? 1 + number_of(level) : 0;
}

#define NOTE "// detshare-link maxrregcount=%u optimization=%u\n"

size_t dcu_jit_note_write(uint32_t max_registers, uint32_t optimization, char note[DCU_JIT_NOTE_BYTES])
{
        note[0] = '\0';
        if (!max_registers && !optimization)
                return 0;
        return (size_t)snprintf(note, DCU_JIT_NOTE_BYTES, NOTE, max_registers, optimization);
}

size_t dcu_jit_note_read(const void *bytes, size_t size, uint32_t *max_registers, uint32_t *optimization)
{
        char note[DCU_JIT_NOTE_BYTES] = "", again[DCU_JIT_NOTE_BYTES];
        unsigned int registers, level;
        const char *end;

        memcpy(note, bytes, size < sizeof(note) - 1 ? size : sizeof(note) - 1);
        end = strchr(note, '\n');
        if (!end || sscanf(note, NOTE, &registers, &level) != 2)
                return 0;
        /* exactly what the linker writes, and nothing like it */
        if (dcu_jit_note_write(registers, level, again) != (size_t)(end + 1 - note) ||
                memcmp(note, again, (size_t)(end + 1 - note)) != 0 || level > 1 + OPTIMIZATION_MAX)
                return 0;
        *max_registers = registers;
        *optimization = level;
        return (size_t)(end + 1 - note);
}

uint32_t dcu_jit_link_flags(const struct dcu_jit *jit)
{
        static const struct {
                CUjit_option option;
                uint32_t set, value; /* the flag, and whether it stands for a value other than 0 or for 0 */
        } rows[] = {
                {CU_JIT_GENERATE_LINE_INFO, DS_LINK_LINE_INFO, 1},
                {CU_JIT_GENERATE_DEBUG_INFO, DS_LINK_DEBUG, 1},
                {CU_JIT_LOG_VERBOSE, DS_LINK_VERBOSE, 1},
                {CU_JIT_FTZ, DS_LINK_FTZ, 1},
                {CU_JIT_PREC_DIV, DS_LINK_NO_PREC_DIV, 0},
                {CU_JIT_PREC_SQRT, DS_LINK_NO_PREC_SQRT, 0},
                {CU_JIT_FMA, DS_LINK_NO_FMA, 0},
        };
        uint32_t flags = 0;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                void *const *value = value_of(jit, rows[i].option);

                if (value && !number_of(value) == !rows[i].value)
                        flags |= rows[i].set;
        }
        return flags;
}

int dcu_jit_wants_log(const struct dcu_jit *jit)
{
        return value_of(jit, CU_JIT_ERROR_LOG_BUFFER) || value_of(jit, CU_JIT_INFO_LOG_BUFFER);
}

static void put_log(
        struct dcu_jit *jit, CUjit_option buffer_option, CUjit_option size_option, size_t room, const char *log)
{
        void **buffer = value_of(jit, buffer_option), **size = value_of(jit, size_option);
        size_t length = strlen(log);

        if (!buffer || !*buffer || room == 0) {
                if (size)
                        *size = NULL;
                return;
        }
        if (length >= room)
                length = room - 1;
        memcpy(*buffer, log, length);
        ((char *)*buffer)[length] = '\0';
        *size = (void *)(length ? length + 1 : 0);
}

void dcu_jit_finish(struct dcu_jit *jit, int ok, const char *log)
{
        void **wall = value_of(jit, CU_JIT_WALL_TIME);
        float ms = (float)((double)(now_ns() - jit->start_ns) * 1e-6);

        if (!log)
                log = "";
        put_log(jit, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, jit->info_room, ok ? log : "");
        put_log(jit, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, jit->error_room, ok ? "" : log);
        if (wall)
                memcpy(wall, &ms, sizeof(ms)); /* the option's result is stored in place of the pointer */
}
