/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines, words and numbers of a manifest
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/pack.h"

int sv_wrong(struct sv_reader *reader, const char *format, ...)
{
        char text[SV_WHY_MAX];
        va_list args;

        va_start(args, format);
        (void)vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        return sv_fail(reader->why, "%s, line %u%s%s: %s", reader->name, reader->line, reader->n_words ? ", " : "",
                reader->n_words ? reader->words[0] : "", text);
}

/* Splits the line into words with exactly one space between them. */
static int split(struct sv_reader *reader)
{
        char *at = reader->buffer;

        for (;;) {
                char *space = strchr(at, ' ');

                if (space)
                        *space = 0;
                if (!*at)
                        return sv_wrong(reader, "words have exactly one space between, and none stands at an end");
                if (reader->n_words == SV_WORDS_MAX)
                        return sv_wrong(reader, "more than %u words", SV_WORDS_MAX);
                reader->words[reader->n_words++] = at;
                if (!space)
                        return 0;
                at = space + 1;
        }
}

/* 1, 0 at the end of the file, or -1. */
static int take_line(struct sv_reader *reader)
{
        const char *newline;
        size_t size;

        reader->n_words = 0;
        if (reader->at == reader->end)
                return 0;
        reader->line++;
        newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
        if (!newline)
                return sv_wrong(reader, "the line does not end");
        size = (size_t)(newline - reader->at);
        if (size > SV_LINE_MAX)
                return sv_wrong(reader, "a line has at most %u bytes", SV_LINE_MAX);
        for (size_t i = 0; i < size; i++) {
                if (reader->at[i] < ' ' || reader->at[i] > '~')
                        return sv_wrong(reader, "byte %zu is not printable ASCII", i + 1);
                reader->buffer[i] = reader->at[i];
        }
        reader->buffer[size] = 0;
        reader->at = newline + 1;
        return 1;
}

/* Whether a reader skips the line: empty lines, comments, and x- lines except those that this version knows. */
static bool says_nothing(const char *line)
{
        if (!strncmp(line, "x-writes ", 9) || !strncmp(line, "x-weight ", 9))
                return false;
        return !line[0] || line[0] == '#' || !strncmp(line, "x-", 2);
}

int sv_next_line(struct sv_reader *reader)
{
        for (;;) {
                int r = take_line(reader);

                if (r <= 0)
                        return r;
                /* the first line must be the version */
                if (reader->line > 1 && says_nothing(reader->buffer))
                        continue;
                return split(reader) < 0 ? -1 : 1;
        }
}

int sv_digits(const char *text, uint64_t most, uint64_t *ret)
{
        uint64_t value = 0;

        if (!*text)
                return -1;
        for (; *text; text++) {
                if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, 10, &value) ||
                        __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value) || value > most)
                        return -1;
        }
        *ret = value;
        return 0;
}

int sv_number(struct sv_reader *reader, uint32_t i, const char *field, uint64_t least, uint64_t most, uint64_t *ret)
{
        uint64_t value;

        if (sv_digits(reader->words[i], most, &value) || value < least)
                return sv_wrong(reader, "%s is a number from %llu to %llu, not %.64s", field, (unsigned long long)least,
                        (unsigned long long)most, reader->words[i]);
        *ret = value;
        return 0;
}

int sv_name(struct sv_reader *reader, uint32_t i, const char *field, char ret[static SV_NAME_MAX + 1])
{
        static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
        const char *word = reader->words[i];
        size_t size = strlen(word);

        if (size > SV_NAME_MAX || word[0] == '.' || strspn(word, good) != size)
                return sv_wrong(reader,
                        "%s is a name of at most %u of A-Z a-z 0-9 _ . - that begins with no ., not %.160s", field,
                        SV_NAME_MAX, word);
        memcpy(ret, word, size + 1);
        return 0;
}

int sv_fraction(struct sv_reader *reader, uint32_t i, const char *field, double *ret)
{
        const char *word = reader->words[i];
        size_t whole = strspn(word, "0123456789"), part = 0;

        if (word[whole] == '.')
                part = strspn(word + whole + 1, "0123456789");
        if (!whole || strlen(word) > 32 || word[whole + (part ? part + 1 : 0)])
                return sv_wrong(reader, "%s is a decimal fraction as 0.0125, not %.64s", field, word);
        *ret = strtod(word, NULL);
        return 0;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sv_hash(struct sv_reader *reader, uint32_t i, const char *field, uint8_t ret[static DS_SHA256_BYTES])
{
        const char *word = reader->words[i];

        if (strlen(word) != 2 * (size_t)DS_SHA256_BYTES || strspn(word, "0123456789abcdef") != strlen(word))
                return sv_wrong(reader, "%s is 64 lower-case hexadecimal digits, not %.80s", field, word);
        for (unsigned k = 0; k < DS_SHA256_BYTES; k++)
                ret[k] = (uint8_t)(hex_digit(word[2 * k]) << 4 | hex_digit(word[2 * k + 1]));
        return 0;
}
