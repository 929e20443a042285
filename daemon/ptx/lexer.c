/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/lexer.h"

#include <stdlib.h>
#include <string.h>

#include "ptx/ptx.h"

#define MAX_NUMBER 80 /* most characters of a number */

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

static bool is_follow(char c)
{
        return is_word(c) || c == '$';
}

static bool is_ident_start(char c)
{
        return (is_word(c) && !is_digit(c)) || c == '$' || c == '%';
}

static int hex_value(char c)
{
        if (is_digit(c))
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static char peek(const struct ds_ptx_lexer *lexer, size_t n)
{
        return (size_t)(lexer->end - lexer->pos) > n ? lexer->pos[n] : '\0';
}

static uint32_t column_of(const struct ds_ptx_lexer *lexer, const char *at)
{
        return (uint32_t)(at - lexer->line_start) + 1;
}

static void complain(struct ds_ptx_lexer *lexer, const char *at, const char *message)
{
        ds_ptx_diag_add(lexer->diags, lexer->text, (size_t)(lexer->end - lexer->text), lexer->line,
                column_of(lexer, at), "%s", message);
}

static void newline(struct ds_ptx_lexer *lexer)
{
        lexer->pos++;
        lexer->line++;
        lexer->line_start = lexer->pos;
}

static void skip_block_comment(struct ds_ptx_lexer *lexer)
{
        const char *start = lexer->pos;
        uint32_t column = column_of(lexer, start), line = lexer->line;

        lexer->pos += 2;
        while (lexer->pos < lexer->end) {
                if (*lexer->pos == '*' && peek(lexer, 1) == '/') {
                        lexer->pos += 2;
                        return;
                }
                if (*lexer->pos == '\n')
                        newline(lexer);
                else
                        lexer->pos++;
        }
        ds_ptx_diag_add(lexer->diags, lexer->text, (size_t)(lexer->end - lexer->text), line, column,
                "this comment does not end");
}

static void skip_space(struct ds_ptx_lexer *lexer)
{
        while (lexer->pos < lexer->end) {
                char c = *lexer->pos;

                if (c == '\n') {
                        newline(lexer);
                } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
                        lexer->pos++;
                } else if (c == '/' && peek(lexer, 1) == '/') {
                        const char *nl = memchr(lexer->pos, '\n', (size_t)(lexer->end - lexer->pos));

                        lexer->pos = nl ? nl : lexer->end;
                } else if (c == '/' && peek(lexer, 1) == '*') {
                        skip_block_comment(lexer);
                } else {
                        return;
                }
        }
}

static void lex_dot(struct ds_ptx_lexer *lexer, struct ds_ptx_token *token)
{
        token->kind = DS_PTX_TOKEN_DOT;
        lexer->pos++;
        while (lexer->pos < lexer->end) {
                if (is_word(*lexer->pos))
                        lexer->pos++;
                else if (*lexer->pos == ':' && peek(lexer, 1) == ':' && is_word(peek(lexer, 2)))
                        lexer->pos += 2;
                else
                        break;
        }
}

/* Reads the exact bits of a float: 0f and 8 digits, or 0d and 16 digits. */
static void lex_float_bits(struct ds_ptx_lexer *lexer, struct ds_ptx_token *token, int digits)
{
        int n = 0;

        token->kind = digits == 8 ? DS_PTX_TOKEN_F32 : DS_PTX_TOKEN_F64;
        lexer->pos += 2;
        for (; n < digits && hex_value(peek(lexer, 0)) >= 0; n++, lexer->pos++)
                token->bits = token->bits << 4 | (uint64_t)hex_value(*lexer->pos);
        if (n != digits)
                complain(lexer, token->start, digits == 8 ? "0f takes 8 digits" : "0d takes 16 digits");
}

/* Reads digits of this base; false: the value exceeds 64 bits, or there is no digit. */
static bool lex_digits(struct ds_ptx_lexer *lexer, struct ds_ptx_token *token, unsigned int base)
{
        const char *first = lexer->pos;
        bool fits = true;
        int digit;

        while ((digit = hex_value(peek(lexer, 0))) >= 0 && (unsigned int)digit < base) {
                if (__builtin_mul_overflow(token->bits, (uint64_t)base, &token->bits) ||
                        __builtin_add_overflow(token->bits, (uint64_t)digit, &token->bits))
                        fits = false;
                lexer->pos++;
        }
        return fits && lexer->pos > first;
}

static bool is_decimal_float(const struct ds_ptx_lexer *lexer)
{
        const char *p = lexer->pos;

        while (p < lexer->end && is_digit(*p))
                p++;
        if (p >= lexer->end)
                return false;
        return (*p == '.' && p + 1 < lexer->end && is_digit(p[1])) || *p == 'e' || *p == 'E' ||
               (*p == '.' && (p + 1 == lexer->end || !is_word(p[1])));
}

static void lex_decimal_float(struct ds_ptx_lexer *lexer, struct ds_ptx_token *token)
{
        char buffer[MAX_NUMBER + 1] = "";
        size_t n = 0;
        char *end;
        double value;

        token->kind = DS_PTX_TOKEN_F64;
        while (n < MAX_NUMBER) {
                char c = peek(lexer, n);

                if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' &&
                        !((c == '+' || c == '-') && n && (buffer[n - 1] | 0x20) == 'e'))
                        break;
                buffer[n++] = c;
        }
        buffer[n] = '\0';
        value = strtod(buffer, &end);
        if (*end || n == MAX_NUMBER)
                complain(lexer, token->start, "this is not a valid number");
        memcpy(&token->bits, &value, sizeof(value));
        lexer->pos += n;
}

static void lex_number(struct ds_ptx_lexer *lexer, struct ds_ptx_token *token)
{
        char second = *lexer->pos == '0' ? peek(lexer, 1) : '\0';
        unsigned int base = 10;

        if (second == 'f' || second == 'F') {
                lex_float_bits(lexer, token, 8);
        } else if (second == 'd' || second == 'D') {
                lex_float_bits(lexer, token, 16);
        } else if (is_decimal_float(lexer)) {
                lex_decimal_float(lexer, token);
        } else {
                token->kind = DS_PTX_TOKEN_INT;
                if (second == 'x' || second == 'X')
                        base = 16;
                else if (second == 'b' || second == 'B')
                        base = 2;
                else if (is_digit(second))
                        base = 8;
                lexer->pos += base == 16 || base == 2 ? 2 : 0;
                if (!lex_digits(lexer, token, base))
                        complain(lexer, token->start, "this number does not fit 64 bits or has no digits");
                token->is_unsigned = token->bits > INT64_MAX;
                if (peek(lexer, 0) == 'U') {
                        token->is_unsigned = true;
                        lexer->pos++;
                }
        }
        if (is_follow(peek(lexer, 0))) {
                complain(lexer, lexer->pos, "a number is followed by a letter");
                while (is_follow(peek(lexer, 0)))
                        lexer->pos++;
        }
}

static void lex_string(struct ds_ptx_lexer *lexer, struct ds_ptx_token *token)
{
        token->kind = DS_PTX_TOKEN_STRING;
        lexer->pos++;
        while (lexer->pos < lexer->end && *lexer->pos != '"' && *lexer->pos != '\n')
                lexer->pos += *lexer->pos == '\\' && lexer->pos + 1 < lexer->end && lexer->pos[1] != '\n' ? 2 : 1;
        if (lexer->pos < lexer->end && *lexer->pos == '"')
                lexer->pos++;
        else
                complain(lexer, token->start, "this string does not end");
}

static void lex_punct(struct ds_ptx_lexer *lexer, struct ds_ptx_token *token)
{
        static const struct {
                char text[3];
                uint16_t punct;
        } pairs[] = {
                {"<<", DS_PTX_PUNCT_SHL},
                {">>", DS_PTX_PUNCT_SHR},
                {"<=", DS_PTX_PUNCT_LE},
                {">=", DS_PTX_PUNCT_GE},
                {"==", DS_PTX_PUNCT_EQ},
                {"!=", DS_PTX_PUNCT_NE},
                {"&&", DS_PTX_PUNCT_AND},
                {"||", DS_PTX_PUNCT_OR},
        };

        token->kind = DS_PTX_TOKEN_PUNCT;
        token->punct = (uint8_t)*lexer->pos;
        for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
                if (pairs[i].text[0] == *lexer->pos && pairs[i].text[1] == peek(lexer, 1)) {
                        token->punct = pairs[i].punct;
                        lexer->pos++;
                        break;
                }
        }
        lexer->pos++;
}

void ds_ptx_lexer_init(struct ds_ptx_lexer *lexer, const char *text, size_t length, struct ds_ptx_diags *diags)
{
        *lexer = (struct ds_ptx_lexer){
                .text = text, .end = text + length, .pos = text, .line_start = text, .line = 1, .diags = diags};
}

void ds_ptx_lexer_next(struct ds_ptx_lexer *lexer, struct ds_ptx_token *token)
{
        char c;

again:
        skip_space(lexer);
        *token = (struct ds_ptx_token){.kind = DS_PTX_TOKEN_END,
                .line = lexer->line,
                .column = column_of(lexer, lexer->pos),
                .start = lexer->pos};
        if (lexer->pos >= lexer->end)
                return;
        c = *lexer->pos;
        if (is_ident_start(c) && (c != '%' || is_follow(peek(lexer, 1)))) {
                token->kind = DS_PTX_TOKEN_IDENT;
                do
                        lexer->pos++;
                while (is_follow(peek(lexer, 0)));
        } else if (is_digit(c)) {
                lex_number(lexer, token);
        } else if (c == '.' && is_word(peek(lexer, 1))) {
                lex_dot(lexer, token);
        } else if (c == '"') {
                lex_string(lexer, token);
        } else if (c && strchr("{}[]()<>,;:@!+-*/%&|^~?=", c)) {
                lex_punct(lexer, token);
        } else {
                complain(lexer, lexer->pos, "this character is not allowed in PTX");
                lexer->pos++;
                goto again;
        }
        token->length = (uint32_t)(lexer->pos - token->start);
}

void ds_ptx_lexer_rest_of_line(struct ds_ptx_lexer *lexer, const char *from, const char **ret_end)
{
        const char *nl = memchr(from, '\n', (size_t)(lexer->end - from));

        lexer->pos = nl ? nl : lexer->end;
        *ret_end = lexer->pos > from && lexer->pos[-1] == '\r' ? lexer->pos - 1 : lexer->pos;
}
