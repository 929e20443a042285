/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The screen: how wide it is, lines that fit it, colours
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

#include "ctl/ctl.h"

#define WIDTH 80 /* columns if neither the terminal nor COLUMNS gives a number */

/* --- width -------------------------------------------------------------------------------------------------------- */

static size_t columns_variable(void)
{
        const char *text = getenv("COLUMNS");
        char *end;
        const long n = text ? strtol(text, &end, 10) : 0;
        return n > 0 && n < 100000 && !*end ? (size_t)n : WIDTH;
}

size_t ctl_width(void)
{
        struct winsize window = {0};
        if (arg_wide)
                return SIZE_MAX;
        if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) && window.ws_col)
                return window.ws_col;
        return columns_variable();
}

/* Returns the length of a colour's escape sequence at the beginning of text, bytes; 0: there is none. */
static size_t colour_length(const char *text, size_t bytes)
{
        size_t n = 2;
        if (bytes < 3 || text[0] != '\033' || text[1] != '[')
                return 0;
        while (n < bytes && strchr("0123456789;", text[n]))
                n++;
        return n < bytes && text[n] == 'm' ? n + 1 : 0;
}

/* Returns the length of the first character, bytes; *ret_columns: columns that it takes. A byte that is not UTF-8
 * takes one. */
static size_t next_character(const char *text, size_t bytes, size_t *ret_columns)
{
        mbstate_t state = {0};
        wchar_t c;
        const size_t n = mbrtowc(&c, text, bytes, &state);
        *ret_columns = 1;
        if (n == 0 || n > bytes)
                return 1;
        const int columns = wcwidth(c);
        *ret_columns = columns < 0 ? 1 : (size_t)columns;
        return n;
}

size_t ctl_display_width(const char *text, size_t bytes)
{
        size_t at = 0, width = 0;
        while (at < bytes) {
                size_t columns = 0, n = colour_length(text + at, bytes - at);
                if (!n)
                        n = next_character(text + at, bytes - at, &columns);
                at += n;
                width += columns;
        }
        return width;
}

/* --- lines -------------------------------------------------------------------------------------------------------- */

/* Returns how many bytes of text fit into `room` columns: at least one character, up to the last blank if possible. */
static size_t line_length(const char *text, size_t bytes, size_t room)
{
        size_t at = 0, width = 0, blank = 0;
        while (at < bytes) {
                size_t columns = 0, n = colour_length(text + at, bytes - at);
                if (!n)
                        n = next_character(text + at, bytes - at, &columns);
                if (width + columns > room && at > 0)
                        return text[at] == ' ' ? at : blank ? blank : at;
                if (text[at] == ' ')
                        blank = at;
                width += columns;
                at += n;
        }
        return bytes;
}

static void put_harmless(FILE *file, const char *text, size_t bytes)
{
        for (size_t i = 0; i < bytes; i++) {
                const size_t n = colour_length(text + i, bytes - i);
                if (n) {
                        fwrite(text + i, 1, n, file);
                        i += n - 1;
                } else if (text[i] == CTL_HARD_BLANK[0]) {
                        fputc(' ', file);
                } else {
                        fputc((unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i], file);
                }
        }
}

void ctl_wrap(FILE *file, const char *text, size_t at, size_t indent, size_t width)
{
        do {
                const size_t bytes = strcspn(text, "\n");
                const size_t n = line_length(text, bytes, width > at ? width - at : 1);
                size_t shown = n;
                while (n < bytes && shown && text[shown - 1] == ' ')
                        shown--;
                put_harmless(file, text, shown);
                fputc('\n', file);
                text += n;
                if (n < bytes)
                        text += strspn(text, " ");
                else
                        text += *text == '\n';
                if (*text)
                        fprintf(file, "%*s", (int)indent, "");
                at = indent;
        } while (*text);
}

char *ctl_wrapped(const char *text, size_t width)
{
        char *ret = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&ret, &size);
        if (!file)
                return NULL;
        ctl_wrap(file, text, 0, 0, width);
        if (fclose(file))
                return NULL;
        ret[size - 1] = '\0'; /* replaces the last newline */
        return ret;
}

/* --- colours ------------------------------------------------------------------------------------------------------ */

int ctl_has_colours(int fd)
{
        const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
        return isatty(fd) && !(no && no[0]) && term && term[0] && strcmp(term, "dumb") != 0;
}

const char *ctl_colour(enum ctl_colour colour)
{
        static const char *const sequences[] = {
                [CTL_PLAIN] = "\033[0m",
                [CTL_BOLD] = "\033[1m",
                [CTL_GOOD] = "\033[32m",
                [CTL_WARN] = "\033[33m",
                [CTL_BAD] = "\033[31m",
                [CTL_LS] = "\033[36m",
                [CTL_FAINT] = "\033[2m",
        };
        return ctl_has_colours(STDOUT_FILENO) ? sequences[colour] : "";
}

enum ctl_colour ctl_class_colour(const char *class_name)
{
        return !strcmp(class_name, "ls") ? CTL_LS : !strcmp(class_name, "control") ? CTL_FAINT : CTL_PLAIN;
}
