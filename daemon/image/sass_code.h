/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One function's machine code: properties of instructions (opcode, control flow, polling; sass.h has the encoding) and
 * of loops
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SASS_BYTES 16u /* bytes of one instruction */
#define SASS_BARRIERS 16u
#define SASS_REG_ZERO 255u

/* A section of code, with related data from other sections. */
struct sass_code {
        const uint8_t *text;
        uint32_t n;          /* number of instructions */
        uint32_t cc;         /* compute capability, such as 90 */
        const uint8_t *info; /* the .nv.info section about this code; NULL: none */
        size_t info_size;
        bool others_ask; /* 1: functions that this code calls in other sections or by address may poll */
};

struct sass_instr {
        uint64_t lo, hi;
};

enum sass_flow {
        SASS_ON,     /* execution continues at the next instruction */
        SASS_JUMP,   /* execution continues at the target */
        SASS_FORK,   /* execution continues at the target or at the next instruction */
        SASS_TABLE,  /* execution continues at a target of a jump table */
        SASS_ASTRAY, /* the next instruction is unknown */
        SASS_END,
        SASS_CALL, /* calls a function in this section, then execution continues at the next instruction */
        SASS_CALL_ELSEWHERE,
        /* execution continues at the next instruction; the target is the barrier's reconvergence point */
        SASS_BARRIER_SET,
        SASS_BARRIER_SYNC,
};

enum sass_ask {
        SASS_ASKS_NOT,
        SASS_ASKS,
        SASS_ASKS_BY_SWAP, /* compare-and-swap: polls unless it compares with the value that it found before */
        SASS_ASKS_BY_ADD,  /* atomic addition: polls if it adds zero */
};

/* Combined properties of all instructions of the code. */
struct sass_summary {
        bool asks, astray, tables, calls, calls_elsewhere, sees_shared;
};

struct sass_instr sass_at(const struct sass_code *code, uint32_t at);
/* Control flow after the instruction at `at`. A target outside the code gives SASS_ASTRAY or SASS_CALL_ELSEWHERE. */
enum sass_flow sass_flow(const struct sass_code *code, uint32_t at, uint32_t *ret_target);
bool sass_guarded(struct sass_instr instr);
uint32_t sass_barrier(struct sass_instr instr);
enum sass_ask sass_ask(const struct sass_code *code, struct sass_instr instr);
struct sass_summary sass_summary(const struct sass_code *code);
/* The targets of the table jump at `at`, as words in the code's info; false if there are none. */
bool sass_table(const struct sass_code *code, uint32_t at, const uint8_t **ret_words, uint32_t *ret_n);

/* Origin of a register's value, see sass_code.c. */
enum sass_def {
        SASS_DEF_NOT,     /* the instruction does not write the register */
        SASS_DEF_UNKNOWN, /* the instruction is unknown, so it may write the register */
        SASS_DEF_ZERO,
        SASS_DEF_FOUND, /* the instruction loads the register from memory */
        SASS_DEF_FROM,  /* the instruction computes the register from other registers */
};
/* How the instruction defines the register reg. SASS_DEF_FROM: from[0..*ret_n) are the registers that it uses, at
 * most three. */
enum sass_def sass_def(struct sass_instr instr, uint32_t reg, uint32_t from[3], uint32_t *ret_n);

/* Number of registers that the instruction loads; 0: it is not a load. */
uint32_t sass_loaded(struct sass_instr instr);

/* Use of a register's value by an instruction. */
enum sass_use {
        SASS_USE_NOT,
        SASS_USE_PASSES,  /* the instruction's result goes into other registers */
        SASS_USE_DECIDES, /* the instruction's result goes into a predicate or to other threads, or is unknown */
};
/* How the instruction uses the register reg. PASSES: its result is in *ret_n registers from *ret_first on. A value
 * written to the GPU's memory is not followed. */
enum sass_use sass_use(struct sass_instr instr, uint32_t reg, uint32_t *ret_first, uint32_t *ret_n);
/* Whether the instruction overwrites the register in any case, i.e. has no guard. */
bool sass_overwrites(struct sass_instr instr, uint32_t reg);

/* Whether a loop of the code polls memory for results of others: 1 or 0; -ENOMEM. */
int sass_loops_wait(const struct sass_code *code);
