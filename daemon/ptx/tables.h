/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instruction set's tables, prepared for lookup by the parser
 *
 * tables.c turns opcodes.def and modifiers.def into data and implements the queries of ir.h. A ds_ptx_index makes
 * lookups of mnemonics and dotted words fast. It is built once per parse (some microseconds), so that nothing is both
 * global and writable. ds_ptx_match finds the row of one instruction given as words ("ld", "global", "f32").
 */
#pragma once

#include <stdint.h>

#include "ptx/ir.h"

#define DS_PTX_MAX_WORDS 24 /* most dotted words of one instruction, including the mnemonic's own */
#define DS_PTX_SYNTAX_OPTIONAL 0x80

/* The slots of modifiers.def, in any order */
/* clang-format off */
#define DS_PTX_SLOTS(X)                                                                                               \
        X(ROUND) X(ROUND_INT) X(APPROX) X(FTZ) X(SAT) X(SATFINITE) X(RELU) X(OOB) X(NAN) X(XORSIGN) X(ABS)            \
        X(NOFTZ) X(MUL) X(HILO) X(CC) X(SHIFTAMT) X(CLAMP) X(FUNNEL) X(PRMT) X(CMP) X(BOOL) X(TESTP) X(SPACE)         \
        X(SPACE2) X(TO) X(SEM) X(SEM2) X(SCOPE) X(LEVEL) X(CACHE) X(NC) X(L1) X(L2) X(HINT) X(FETCH)                  \
        X(CACHE_LEVEL) X(PRIMARY) X(SECONDARY) X(VEC) X(ATOM) X(EXCH) X(CAS) X(REDUX) X(BARRED) X(SHFL)               \
        X(VOTE) X(MATCH) X(UNI) X(BAR_CTA) X(SYNC) X(ARRIVE) X(RED) X(ALIGNED) X(PROXY) X(ROW) X(COL) X(NUM)          \
        X(TRANS) X(BITOP) X(POPC) X(NOINC) X(NOCOMPLETE) X(EXPECT) X(PARITY) X(DIM) X(LOADMODE) X(COMPLETION)         \
        X(MULTICAST) X(BYTEMASK) X(READ) X(REGS) X(TENSORMAP) X(MASK) X(MERGE) X(PLUS_ONE) X(SCALE) X(GEOM)           \
        X(GATHER) X(MIPMAP) X(BOUNDS) X(QUERY) X(ACC) X(TMODE) X(TFIELD) X(B1024)
/* clang-format on */

enum ds_ptx_slot {
        DS_PTX_SLOT_NONE = 0,
        DS_PTX_SLOT_TYPE,
        DS_PTX_SLOT_SHAPE,
#define X(name) DS_PTX_SLOT_##name,
        DS_PTX_SLOTS(X)
#undef X
                _DS_PTX_SLOT_MAX,
};

struct ds_ptx_index {
        uint16_t op_head[512]; /* by hash of the mnemonic's first word: first opcode of the chain, plus 1 */
        uint16_t op_next[_DS_PTX_OP_MAX];
        /* first row of each slot in modifiers.def; the rows of a slot are adjacent */
        uint16_t slot_first[_DS_PTX_SLOT_MAX];
        uint16_t slot_end[_DS_PTX_SLOT_MAX];
};

/* A word of an instruction, without its dot. */
struct ds_ptx_word {
        const char *s;
        uint32_t n;
};

enum ds_ptx_match {
        DS_PTX_MATCH_OK,
        DS_PTX_MATCH_UNKNOWN, /* no instruction has this mnemonic */
        DS_PTX_MATCH_WORD,    /* the instruction does not accept word *ret_word there */
        DS_PTX_MATCH_MISSING, /* words are missing at the end */
};

void ds_ptx_index_init(struct ds_ptx_index *index);
/* Fills op, types, mods and shape of *instr. On a mismatch *ret_word is the furthest word that any row accepted. */
enum ds_ptx_match ds_ptx_match(const struct ds_ptx_index *index, const struct ds_ptx_word *words, uint32_t n_words,
        struct ds_ptx_instr *instr, uint32_t *ret_word);
/* Type of this word; NONE: unknown. The word comes without its dot. */
enum ds_ptx_type ds_ptx_type_find(const char *s, size_t n);
/* Special register of this name, with its percent sign; NONE: unknown. *ret_number: number of %envreg; else 0. */
enum ds_ptx_sreg ds_ptx_sreg_find(const char *s, size_t n, uint8_t *ret_number);
/* Number of components of a special register; 0: a scalar. */
uint32_t ds_ptx_sreg_components(enum ds_ptx_sreg sreg);
