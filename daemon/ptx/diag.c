/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <string.h>

#include "ptx/ptx.h"

#define EXCERPT_WINDOW 140 /* most columns of an excerpt; an error further right gets a window of its line */
#define WINDOW_CARET 60    /* column of the caret in such a window */

/* Copies the line's text to excerpt and replaces unprintable bytes: the text is a client's and goes to terminals. */
static void copy_excerpt(struct ds_ptx_diag *diag, const char *text, size_t length)
{
        const char *p = text, *end = text + length;
        size_t n = 0;

        for (uint32_t line = 1; line < diag->line && p; line++) {
                p = memchr(p, '\n', (size_t)(end - p));
                p = p ? p + 1 : NULL;
        }
        if (!p)
                return;
        if (diag->column > EXCERPT_WINDOW) {
                const char *nl = memchr(p, '\n', (size_t)(end - p));
                size_t skip = diag->column - 1 - WINDOW_CARET;

                p = skip < (size_t)((nl ? nl : end) - p) ? p + skip : end;
        }
        for (; p < end && *p != '\n' && *p != '\r' && n < sizeof(diag->excerpt) - 1; p++)
                diag->excerpt[n++] = (*p >= ' ' && *p <= '~') || *p == '\t' ? *p : '?';
        diag->excerpt[n] = '\0';
}

void ds_ptx_diag_add(struct ds_ptx_diags *diags, const char *text, size_t length, uint32_t line, uint32_t column,
        const char *fmt, ...)
{
        struct ds_ptx_diag *diag;
        va_list args;

        diags->total++;
        if (diags->n == DS_PTX_DIAGS_MAX)
                return;
        diag = &diags->diag[diags->n++];
        *diag = (struct ds_ptx_diag){.line = line, .column = column};
        va_start(args, fmt);
        vsnprintf(diag->message, sizeof(diag->message), fmt, args);
        va_end(args);
        if (text)
                copy_excerpt(diag, text, length);
}

struct writer {
        char *buffer;
        size_t size;
        size_t used; /* bytes that snprintf would have written; may exceed size */
};

static void __attribute__((__format__(__printf__, 2, 3))) put(struct writer *w, const char *fmt, ...)
{
        size_t at = w->used < w->size ? w->used : w->size;
        va_list args;
        int n;

        va_start(args, fmt);
        n = vsnprintf(at < w->size ? w->buffer + at : NULL, w->size - at, fmt, args);
        va_end(args);
        if (n > 0)
                w->used += (size_t)n;
}

static void put_caret(struct writer *w, const struct ds_ptx_diag *diag)
{
        size_t caret = diag->column > EXCERPT_WINDOW ? WINDOW_CARET : diag->column - 1;

        for (size_t i = 0; i < caret; i++)
                put(w, "%c", i < strlen(diag->excerpt) && diag->excerpt[i] == '\t' ? '\t' : ' ');
        put(w, "^\n");
}

size_t ds_ptx_diags_format(const struct ds_ptx_diags *diags, const char *name, char *buffer, size_t size)
{
        struct writer w = {buffer, size, 0};

        if (size)
                buffer[0] = '\0';
        for (size_t i = 0; i < diags->n; i++) {
                const struct ds_ptx_diag *diag = &diags->diag[i];

                put(&w, "%s:%u:%u: error: %s\n", name, diag->line, diag->column, diag->message);
                if (!diag->line || !diag->column || !diag->excerpt[0])
                        continue;
                put(&w, "%s\n", diag->excerpt);
                put_caret(&w, diag);
        }
        if (diags->total > diags->n)
                put(&w, "%s: %zu more errors\n", name, diags->total - diags->n);
        return w.used;
}
