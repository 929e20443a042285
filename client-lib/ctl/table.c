/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables in boxes
 *
 * smartcols aligns the cells and makes what clients call themselves harmless to a terminal; the lines around them are
 * drawn here, because it draws none. On a terminal that speaks UTF-8 they are lines, otherwise + - |.
 */
#include <langinfo.h>
#include <libsmartcols/libsmartcols.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "ctl/ctl.h"

#define SEPARATOR '\x1f' /* between cells while smartcols has them; it would escape it within one */

struct box {
        const char *horizontal, *vertical;
        const char *corners[3][3]; /* top, middle, bottom; left, between columns, right */
};

static const struct box lines = {"─", "│", {{"┌", "┬", "┐"}, {"├", "┼", "┤"}, {"└", "┴", "┘"}}};
static const struct box ascii = {"-", "|", {{"+", "+", "+"}, {"+", "+", "+"}, {"+", "+", "+"}}};

static const struct box *choose_box(void)
{
        return isatty(STDOUT_FILENO) && !strcmp(nl_langinfo(CODESET), "UTF-8") ? &lines : &ascii;
}

struct libscols_table *ctl_table_new(int headings)
{
        static const char separator[] = {' ', SEPARATOR, ' ', '\0'};
        struct libscols_table *table = scols_new_table();
        if (!table)
                return NULL;
        scols_table_enable_noheadings(table, !headings);
        scols_table_set_column_separator(table, separator);
        scols_table_set_termforce(table, SCOLS_TERMFORCE_NEVER);
        scols_table_enable_maxout(table, 0);
        return table;
}

void ctl_table_free(struct libscols_table *table)
{
        scols_unref_table(table);
}

void ctl_table_column(struct libscols_table *table, const char *name, int right)
{
        scols_table_new_column(table, name, 0, right ? SCOLS_FL_RIGHT : 0);
}

int ctl_table_row(struct libscols_table *table, const char *const *cells)
{
        struct libscols_line *line = scols_table_new_line(table, NULL);
        int r = line ? 0 : -1;
        for (size_t i = 0; i < scols_table_get_ncols(table) && !r; i++)
                r = scols_line_set_data(line, i, cells[i]);
        if (!r)
                return 0;
        ctl_complain("out of memory");
        return CTL_FAILED;
}

static size_t display_width(const char *text, size_t bytes)
{
        wchar_t wide[512];
        char copy[2048];
        if (bytes >= sizeof(copy))
                return bytes;
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
        const size_t n = mbstowcs(wide, copy, 512);
        const int width = n < 512 ? wcswidth(wide, n) : -1;
        return width < 0 ? bytes : (size_t)width;
}

/* Width of each cell of a line, without the blanks around the separators. */
static size_t cell_widths(const char *line, size_t bytes, size_t *widths, size_t max)
{
        size_t n = 0;
        const char *end = line + bytes;
        while (n < max) {
                const char *separator = memchr(line, SEPARATOR, (size_t)(end - line));
                widths[n++] = display_width(line, (size_t)((separator ? separator - 1 : end) - line));
                if (!separator)
                        break;
                line = separator + 2;
        }
        return n;
}

static void draw_rule(FILE *file, const struct box *box, int which, const size_t *widths, size_t n)
{
        fputs(box->corners[which][0], file);
        for (size_t i = 0; i < n; i++) {
                for (size_t k = 0; k < widths[i] + 2; k++)
                        fputs(box->horizontal, file);
                fputs(box->corners[which][i + 1 < n ? 1 : 2], file);
        }
        fputc('\n', file);
}

/* The last column is as wide as its widest cell: smartcols does not pad it. */
static void draw_line(FILE *file, const struct box *box, const char *line, size_t bytes, const size_t *widths, size_t n)
{
        const char *end = line + bytes;
        fprintf(file, "%s ", box->vertical);
        for (size_t i = 0; i < n; i++) {
                const char *separator = memchr(line, SEPARATOR, (size_t)(end - line));
                const size_t length = (size_t)((separator ? separator - 1 : end) - line);
                const size_t width = display_width(line, length);
                fprintf(file, "%.*s%*s %s%s", (int)length, line, (int)(width < widths[i] ? widths[i] - width : 0), "",
                        box->vertical, i + 1 < n ? " " : "\n");
                line = separator ? separator + 2 : end;
        }
}

int ctl_table_draw(struct libscols_table *table, struct ctl_text *text)
{
        const struct box *box = choose_box();
        const bool headings = !scols_table_is_noheadings(table);
        size_t widths[32] = {0}, n = 0;
        char *drawn = NULL;
        if (scols_print_table_to_string(table, &drawn) < 0 || !drawn) {
                ctl_complain("out of memory");
                return CTL_FAILED;
        }
        for (const char *at = drawn; *at; at += strcspn(at, "\n"), at += *at == '\n') {
                size_t line[32];
                n = cell_widths(at, strcspn(at, "\n"), line, 32);
                for (size_t i = 0; i < n; i++)
                        widths[i] = line[i] > widths[i] ? line[i] : widths[i];
        }
        draw_rule(text->file, box, 0, widths, n);
        bool first = true;
        for (const char *at = drawn; *at; at += strcspn(at, "\n"), at += *at == '\n') {
                draw_line(text->file, box, at, strcspn(at, "\n"), widths, n);
                if (first && headings)
                        draw_rule(text->file, box, 1, widths, n);
                first = false;
        }
        draw_rule(text->file, box, 2, widths, n);
        free(drawn);
        return 0;
}
