/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One function's machine code: what an instruction is, where it goes on, what it asks (sass.h has the encoding), and
 * what its loops do
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SASS_BYTES 16u /* of an instruction */
#define SASS_BARRIERS 16u
#define SASS_REG_ZERO 255u

/* A section of code, with what other sections say of it. */
struct sass_code {
        const uint8_t *text;
        uint32_t n;          /* instructions */
        uint32_t cc;         /* 90 */
        const uint8_t *info; /* its .nv.info, NULL: none */
        size_t info_size;
        bool others_ask; /* what it calls elsewhere, or by an address, may ask */
};

struct sass_instr {
        uint64_t lo, hi;
};

enum sass_flow {
        SASS_ON,     /* to the next */
        SASS_JUMP,   /* to the target */
        SASS_FORK,   /* to the target or the next */
        SASS_TABLE,  /* to one of a table */
        SASS_ASTRAY, /* nobody knows */
        SASS_END,
        SASS_CALL, /* a function of this section, and then to the next */
        SASS_CALL_ELSEWHERE,
        SASS_BARRIER_SET, /* to the next; the target is where the barrier leads */
        SASS_BARRIER_SYNC,
};

enum sass_ask {
        SASS_ASKS_NOT,
        SASS_ASKS,
        SASS_ASKS_BY_SWAP, /* unless it compares with what it found */
        SASS_ASKS_BY_ADD,  /* if it adds nothing */
};

/* What a look at every instruction tells. */
struct sass_summary {
        bool asks, astray, tables, calls, calls_elsewhere, sees_shared;
};

struct sass_instr sass_at(const struct sass_code *code, uint32_t at);
/* Where it goes on; a target outside of the code is SASS_ASTRAY or SASS_CALL_ELSEWHERE. */
enum sass_flow sass_flow(const struct sass_code *code, uint32_t at, uint32_t *ret_target);
bool sass_guarded(struct sass_instr instr);
uint32_t sass_barrier(struct sass_instr instr);
enum sass_ask sass_ask(const struct sass_code *code, struct sass_instr instr);
struct sass_summary sass_summary(const struct sass_code *code);
/* The targets of the table jump at `at`: its words in the code's info, false where there are none. */
bool sass_table(const struct sass_code *code, uint32_t at, const uint8_t **ret_words, uint32_t *ret_n);

/* What a register had before, see sass_code.c. */
enum sass_def {
        SASS_DEF_NOT,     /* this one does not write it */
        SASS_DEF_UNKNOWN, /* nothing is known of what this one does */
        SASS_DEF_ZERO,
        SASS_DEF_FOUND, /* from memory */
        SASS_DEF_FROM,  /* from other registers */
};
/* How the instruction writes the register; SASS_DEF_FROM: from up to three others. */
enum sass_def sass_def(struct sass_instr instr, uint32_t reg, uint32_t from[3], uint32_t *ret_n);

/* How many registers a load fills; 0: it is none. */
uint32_t sass_loaded(struct sass_instr instr);

/* What an instruction does with what a register holds. */
enum sass_use {
        SASS_USE_NOT,
        SASS_USE_PASSES,  /* into other registers */
        SASS_USE_DECIDES, /* into a predicate, to other threads, or nobody knows */
};
/* PASSES: into *ret_n registers from *ret_first on. A value that is written to the GPU's memory is not followed. */
enum sass_use sass_use(struct sass_instr instr, uint32_t reg, uint32_t *ret_first, uint32_t *ret_n);
/* Whether the instruction, not guarded, gives the register another value. */
bool sass_overwrites(struct sass_instr instr, uint32_t reg);

/* 1 when a loop of the code asks others, 0 when none does; -ENOMEM. */
int sass_loops_wait(const struct sass_code *code);
