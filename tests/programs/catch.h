/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Catches the output of one of the program's standard streams in a string
 */
#pragma once

#include <unistd.h>

#include "program.h"

struct catch
{
        FILE *stream, *file;
        int saved;
};

static inline struct catch catch_begin(FILE *stream)
{
        struct catch c = {stream, tmpfile(), -1};

        if (!c.file)
                exit(1);
        fflush(stream);
        c.saved = dup(fileno(stream));
        dup2(fileno(c.file), fileno(stream));
        return c;
}

/* Ends the catching. Returns the output, malloc'ed and terminated. */
static inline char *catch_end(struct catch *c)
{
        char *text;
        long size;

        fflush(c->stream);
        dup2(c->saved, fileno(c->stream));
        close(c->saved);
        fseek(c->file, 0, SEEK_END);
        size = ftell(c->file);
        rewind(c->file);
        text = calloc(1, (size_t)size + 1);
        if (!text || fread(text, 1, (size_t)size, c->file) != (size_t)size)
                exit(1);
        fclose(c->file);
        return text;
}

static inline int catch_compare(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts the lines of a text, because concurrent threads print in no defined order. Returns the number of lines. */
static inline size_t catch_sort(char *text, char **lines, size_t n)
{
        size_t used = 0;

        for (char *line = strtok(text, "\n"); line && used < n; line = strtok(NULL, "\n"))
                lines[used++] = line;
        qsort(lines, used, sizeof(*lines), catch_compare);
        return used;
}
