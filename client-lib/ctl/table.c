/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables in boxes that fit the screen
 *
 * smartcols aligns the cells, spreads cells over several lines, hides columns, colours cells, and escapes control
 * characters in what clients call themselves. This file decides which columns to hide or to wrap, and draws the lines
 * around the cells, which smartcols does not do. On a terminal with UTF-8 these are box lines, otherwise + - |.
 */
#include <langinfo.h>
#include <libsmartcols/libsmartcols.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"

#define SEPARATOR '\x1f' /* separator between cells; smartcols escapes it within a cell */
#define COLUMNS_MAX 16

struct ctl_table {
        struct libscols_table *scols;
        struct libscols_line *row; /* row that was added last */
        size_t n;
        struct {
                size_t wrap; /* wrap, drop: see ctl_table_may() */
                int drop;
                bool hidden;
                size_t width; /* width of the widest cell, columns */
        } columns[COLUMNS_MAX];
};

struct box {
        const char *horizontal, *vertical;
        const char *corners[3][3]; /* corner characters: [top, middle, bottom][left, between columns, right] */
};

static const struct box lines = {"─", "│", {{"┌", "┬", "┐"}, {"├", "┼", "┤"}, {"└", "┴", "┘"}}};
static const struct box ascii = {"-", "|", {{"+", "+", "+"}, {"+", "+", "+"}, {"+", "+", "+"}}};

static const struct box *choose_box(void)
{
        return isatty(STDOUT_FILENO) && !strcmp(nl_langinfo(CODESET), "UTF-8") ? &lines : &ascii;
}

static int out_of_memory(void)
{
        ctl_complain("out of memory");
        return CTL_FAILED;
}

/* --- building ----------------------------------------------------------------------------------------------------- */

struct ctl_table *ctl_table_new(int headings)
{
        static const char separator[] = {' ', SEPARATOR, ' ', '\0'};
        struct ctl_table *table = calloc(1, sizeof(*table));
        if (!table)
                return NULL;
        table->scols = scols_new_table();
        if (!table->scols) {
                free(table);
                return NULL;
        }
        scols_table_enable_noheadings(table->scols, !headings);
        scols_table_set_column_separator(table->scols, separator);
        scols_table_set_termforce(table->scols, SCOLS_TERMFORCE_NEVER);
        scols_table_enable_maxout(table->scols, 0);
        scols_table_enable_colors(table->scols, ctl_has_colours(STDOUT_FILENO));
        return table;
}

void ctl_table_free(struct ctl_table *table)
{
        if (!table)
                return;
        scols_unref_table(table->scols);
        free(table);
}

void ctl_table_column(struct ctl_table *table, const char *name, int right)
{
        if (table->n < COLUMNS_MAX && scols_table_new_column(table->scols, name, 0, right ? SCOLS_FL_RIGHT : 0))
                table->n++;
}

void ctl_table_may(struct ctl_table *table, size_t wrap, int drop)
{
        if (!table->n)
                return;
        table->columns[table->n - 1].wrap = wrap;
        table->columns[table->n - 1].drop = drop;
}

void ctl_table_columns(struct ctl_table *table, const struct ctl_column *columns, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                ctl_table_column(table, columns[i].name, columns[i].right);
                ctl_table_may(table, columns[i].wrap, columns[i].drop);
        }
}

void ctl_table_rank(struct ctl_table *table, size_t column, int drop)
{
        table->columns[column].drop = drop;
}

int ctl_table_row(struct ctl_table *table, const char *const *cells)
{
        int r = -1;
        table->row = scols_table_new_line(table->scols, NULL);
        if (table->row)
                r = 0;
        for (size_t i = 0; i < scols_table_get_ncols(table->scols) && !r; i++)
                r = scols_line_set_data(table->row, i, cells[i]);
        return r ? out_of_memory() : 0;
}

void ctl_table_colour(struct ctl_table *table, size_t column, enum ctl_colour colour)
{
        struct libscols_cell *cell = table->row ? scols_line_get_cell(table->row, column) : NULL;
        if (cell && colour != CTL_PLAIN && ctl_has_colours(STDOUT_FILENO))
                scols_cell_set_color(cell, ctl_colour(colour));
}

/* --- what smartcols prints, cell by cell -------------------------------------------------------------------------- */

/* *widths: width of each cell of a line, without the blanks around separators. Returns the number of cells. */
static size_t cell_widths(const char *line, size_t bytes, size_t *widths, size_t max)
{
        size_t n = 0;
        const char *end = line + bytes;
        while (n < max) {
                const char *separator = memchr(line, SEPARATOR, (size_t)(end - line));
                widths[n++] = ctl_display_width(line, (size_t)((separator ? separator - 1 : end) - line));
                if (!separator)
                        break;
                line = separator + 2;
        }
        return n;
}

/* *widths: width of the widest cell of each column. Returns the number of columns. */
static size_t widest(const char *printed, size_t widths[static COLUMNS_MAX])
{
        size_t n = 0;
        memset(widths, 0, COLUMNS_MAX * sizeof(*widths));
        for (const char *at = printed; *at; at += strcspn(at, "\n"), at += *at == '\n') {
                size_t line[COLUMNS_MAX];
                n = cell_widths(at, strcspn(at, "\n"), line, COLUMNS_MAX);
                for (size_t i = 0; i < n; i++)
                        widths[i] = line[i] > widths[i] ? line[i] : widths[i];
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

/* Draws a line of cells; pads the last one, which smartcols does not do. */
static void draw_line(FILE *file, const struct box *box, const char *line, size_t bytes, const size_t *widths, size_t n)
{
        const char *end = line + bytes;
        fprintf(file, "%s ", box->vertical);
        for (size_t i = 0; i < n; i++) {
                const char *separator = memchr(line, SEPARATOR, (size_t)(end - line));
                const size_t length = (size_t)((separator ? separator - 1 : end) - line);
                const size_t width = ctl_display_width(line, length);
                fprintf(file, "%.*s%*s %s%s", (int)length, line, (int)(width < widths[i] ? widths[i] - width : 0), "",
                        box->vertical, i + 1 < n ? " " : "\n");
                line = separator ? separator + 2 : end;
        }
}

static void draw_box(const struct ctl_table *table, const char *printed, FILE *file)
{
        const struct box *box = choose_box();
        const bool headings = !scols_table_is_noheadings(table->scols);
        size_t widths[COLUMNS_MAX];
        const size_t n = widest(printed, widths);
        bool first = true;
        draw_rule(file, box, 0, widths, n);
        for (const char *at = printed; *at; at += strcspn(at, "\n"), at += *at == '\n') {
                draw_line(file, box, at, strcspn(at, "\n"), widths, n);
                if (first && headings)
                        draw_rule(file, box, 1, widths, n);
                first = false;
        }
        draw_rule(file, box, 2, widths, n);
}

/* --- making it fit ------------------------------------------------------------------------------------------------ */

/* Returns the table's width in columns: with cells at their natural width, or (wrapped) as narrow as allowed. */
static size_t table_width(const struct ctl_table *table, bool wrapped)
{
        size_t width = 1;
        for (size_t i = 0; i < table->n; i++) {
                const size_t natural = table->columns[i].width, wrap = table->columns[i].wrap;
                if (!table->columns[i].hidden)
                        width += 3 + (wrapped && wrap && wrap < natural ? wrap : natural);
        }
        return width;
}

static void hide_columns(struct ctl_table *table, size_t room)
{
        while (table_width(table, true) > room) {
                size_t which = COLUMNS_MAX;
                for (size_t i = 0; i < table->n; i++)
                        if (!table->columns[i].hidden && table->columns[i].drop > 0 &&
                                (which == COLUMNS_MAX || table->columns[i].drop > table->columns[which].drop))
                                which = i;
                if (which == COLUMNS_MAX)
                        return;
                table->columns[which].hidden = true;
                struct libscols_column *column = scols_table_get_column(table->scols, which);
                scols_column_set_flags(column, scols_column_get_flags(column) | SCOLS_FL_HIDDEN);
        }
}

static int wrap_cells(struct ctl_table *table, size_t which, size_t width)
{
        struct libscols_column *column = scols_table_get_column(table->scols, which);
        struct libscols_iter *iter = scols_new_iter(SCOLS_ITER_FORWARD);
        struct libscols_line *line;
        int r = iter ? 0 : -1;
        while (!r && !scols_table_next_line(table->scols, iter, &line)) {
                struct libscols_cell *cell = scols_line_get_cell(line, which);
                const char *data = scols_cell_get_data(cell);
                char *wrapped = data ? ctl_wrapped(data, width) : NULL;
                if (data)
                        r = wrapped ? scols_cell_refer_data(cell, wrapped) : -1;
        }
        scols_free_iter(iter);
        if (!r)
                r = scols_column_set_wrapfunc(column, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL);
        if (!r)
                r = scols_column_set_safechars(column, "\n");
        if (!r)
                r = scols_column_set_flags(column, scols_column_get_flags(column) | SCOLS_FL_WRAP);
        return r;
}

/* Divides `room` among the columns that may be wrapped. A column that needs less than its share leaves the rest to
 * the other columns. */
static int wrap_columns(struct ctl_table *table, size_t room)
{
        size_t fixed = 1, n = 0;
        bool settled[COLUMNS_MAX] = {false};
        for (size_t i = 0; i < table->n; i++) {
                const bool flexible = !table->columns[i].hidden && table->columns[i].wrap;
                fixed += table->columns[i].hidden ? 0 : 3 + (flexible ? 0 : table->columns[i].width);
                settled[i] = !flexible;
                n += flexible;
        }
        size_t left = room > fixed ? room - fixed : 0;
        for (size_t i = 0; i < table->n; i++) {
                if (settled[i] || table->columns[i].width > left / n)
                        continue;
                settled[i] = true;
                left -= table->columns[i].width;
                n--;
                i = SIZE_MAX; /* begin again, because the shares of the other columns have changed */
        }
        for (size_t i = 0; i < table->n; i++) {
                if (settled[i])
                        continue;
                const size_t share = left / n > table->columns[i].wrap ? left / n : table->columns[i].wrap;
                if (wrap_cells(table, i, share))
                        return -1;
                left -= share < left ? share : left;
                n--;
        }
        return 0;
}

/* Print the names of the columns that do not fit. */
static void say_hidden(const struct ctl_table *table, FILE *file)
{
        char *names = NULL;
        size_t size = 0, n = 0;
        FILE *line = open_memstream(&names, &size);
        if (!line)
                return;
        for (size_t i = 0; i < table->n; i++)
                if (table->columns[i].hidden)
                        fprintf(line, "%s%s", n++ ? ", " : "columns that do not fit, see --wide: ",
                                scols_cell_get_data(scols_column_get_header(scols_table_get_column(table->scols, i))));
        if (!fclose(line) && n)
                ctl_wrap(file, names, 0, 0, ctl_width());
        free(names);
}

int ctl_table_draw(struct ctl_table *table, struct ctl_text *text)
{
        const size_t room = ctl_width();
        size_t widths[COLUMNS_MAX];
        char *printed = NULL;
        int r = scols_print_table_to_string(table->scols, &printed) < 0 || !printed ? -1 : 0;
        if (r)
                return out_of_memory();
        widest(printed, widths);
        for (size_t i = 0; i < table->n; i++)
                table->columns[i].width = widths[i];
        if (table_width(table, false) > room) {
                free(printed);
                printed = NULL;
                hide_columns(table, room);
                r = table_width(table, false) > room ? wrap_columns(table, room) : 0;
                if (!r)
                        r = scols_print_table_to_string(table->scols, &printed) < 0 || !printed ? -1 : 0;
        }
        if (r)
                return out_of_memory();
        draw_box(table, printed, text->file);
        say_hidden(table, text->file);
        free(printed);
        return 0;
}
