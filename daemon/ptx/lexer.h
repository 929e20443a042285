/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lexer: PTX text to tokens, one at a time
 *
 * It never fails: a byte that cannot begin a token is reported to the caller's diagnostics and skipped. Comments are
 * white space. A dotted word (".global", ".L2::cache_hint") is one token, with its dot, because directives and
 * modifiers have this form in PTX. Tokens point into the text, which must outlive them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ds_ptx_diags;

enum ds_ptx_token_kind {
        DS_PTX_TOKEN_END,
        DS_PTX_TOKEN_IDENT,  /* identifier, or register such as %r1 */
        DS_PTX_TOKEN_DOT,    /* dotted word: .word */
        DS_PTX_TOKEN_INT,    /* integer; value in `bits` */
        DS_PTX_TOKEN_F32,    /* float; its pattern in `bits` */
        DS_PTX_TOKEN_F64,    /* double; its pattern in `bits` */
        DS_PTX_TOKEN_STRING, /* including its quotes */
        DS_PTX_TOKEN_PUNCT,  /* operator in `punct` */
};

/* Two-character operators as token.punct; single characters stand for themselves. */
enum ds_ptx_punct {
        DS_PTX_PUNCT_SHL = 256,
        DS_PTX_PUNCT_SHR,
        DS_PTX_PUNCT_LE,
        DS_PTX_PUNCT_GE,
        DS_PTX_PUNCT_EQ,
        DS_PTX_PUNCT_NE,
        DS_PTX_PUNCT_AND,
        DS_PTX_PUNCT_OR,
};

struct ds_ptx_token {
        uint8_t kind;
        bool is_unsigned; /* true for an integer with the suffix U, or too large for a signed one */
        uint16_t punct;
        uint32_t line, column;
        const char *start;
        uint32_t length;
        uint64_t bits;
};

struct ds_ptx_lexer {
        const char *text, *end;
        const char *pos;
        const char *line_start;
        uint32_t line;
        struct ds_ptx_diags *diags;
};

void ds_ptx_lexer_init(struct ds_ptx_lexer *lexer, const char *text, size_t length, struct ds_ptx_diags *diags);
void ds_ptx_lexer_next(struct ds_ptx_lexer *lexer, struct ds_ptx_token *token);
/* Finds the end of the line (without the newline) that contains `from`, a place already read; the lexer continues
 * behind the line. */
void ds_ptx_lexer_rest_of_line(struct ds_ptx_lexer *lexer, const char *from, const char **ret_end);
