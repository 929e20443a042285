/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formatting a kernel's text
 *
 * Each conversion is read into a small structure, checked, and given to the C library as a specification built here: no
 * byte of the kernel's format reaches the library. Widths and precisions are bounded, and strings are read only as far
 * as they are printed. Conversions that CUDA lacks are printed as written.
 */
#include "ptx/interp/format.h"

#include <stdio.h>
#include <string.h>

#include "util/macro.h"

#define WIDTH_MAX 4096
#define SPEC_MAX 32 /* most bytes of a conversion such as "%08.3f"; a longer text is not a conversion */

enum size { SIZE_INT, SIZE_CHAR, SIZE_SHORT, SIZE_LONG };

struct spec {
        char written[SPEC_MAX + 1];
        size_t length;
        char flags[8];
        size_t n_flags;
        int width, precision; /* field width and precision; -1: not given */
        int width_argument;   /* 1: the width is given as '*' */
        enum size size;
        char type;
};

struct state {
        struct ds_ix_format *f;
        uint64_t at;     /* address of the next byte of the format */
        uint64_t offset; /* offset of the next argument */
        uint32_t used;
        int failed;
};

static void put(struct state *s, const char *text, size_t size)
{
        size_t n = DS_MIN(size, DS_IX_TEXT_MAX - s->f->size);

        if (n)
                memcpy(s->f->text + s->f->size, text, n);
        s->f->size += n;
}

static void pad(struct state *s, int64_t n)
{
        for (; n > 0; n--)
                put(s, " ", 1);
}

/* The byte at an address; 0 if it cannot be read, which makes the call fail. */
static int byte_at(struct state *s, uint64_t address)
{
        int byte = s->f->byte(s->f->user, address);

        if (byte >= 0)
                return byte;
        s->failed = 1;
        s->f->bad = address;
        return 0;
}

/* Reads the next argument of `size` bytes, aligned to its size. */
static uint64_t argument(struct state *s, uint32_t size)
{
        uint64_t value = 0;

        s->offset = (s->offset + size - 1) / size * size;
        for (uint32_t i = 0; i < size && !s->failed; i++)
                value |= (uint64_t)byte_at(s, s->f->arguments + s->offset + i) << (8 * i);
        s->offset += size;
        s->used++;
        return value;
}

/* --- parsing a conversion --- */

static char take(struct state *s, struct spec *spec)
{
        int c = spec->length < SPEC_MAX ? byte_at(s, s->at) : 0;

        if (!c)
                return 0;
        s->at++;
        spec->written[spec->length++] = (char)c;
        return (char)c;
}

static char take_number(struct state *s, struct spec *spec, char c, int *value)
{
        *value = 0;
        for (; c >= '0' && c <= '9'; c = take(s, spec))
                *value = DS_MIN(*value * 10 + (c - '0'), WIDTH_MAX);
        return c;
}

static char take_size(struct state *s, struct spec *spec, char c)
{
        if (c == 'h') {
                spec->size = SIZE_SHORT;
                c = take(s, spec);
                if (c != 'h')
                        return c;
                spec->size = SIZE_CHAR;
                return take(s, spec);
        }
        if (c == 'l') {
                spec->size = SIZE_LONG;
                c = take(s, spec);
                return c == 'l' ? take(s, spec) : c;
        }
        if (c == 'z' || c == 'j' || c == 't') {
                spec->size = SIZE_LONG;
                return take(s, spec);
        }
        return c;
}

/* Parses the text behind a percent sign. Returns 0 if it is no conversion; then `written` is the text to print
 * instead. */
static int read_spec(struct state *s, struct spec *spec)
{
        char c;

        *spec = (struct spec){.written = "%", .length = 1, .width = -1, .precision = -1};
        c = take(s, spec);
        for (; c && strchr("-+ #0", c); c = take(s, spec)) {
                if (!memchr(spec->flags, c, spec->n_flags))
                        spec->flags[spec->n_flags++] = c;
        }
        if (c == '*') {
                spec->width_argument = 1;
                c = take(s, spec);
        } else if (c >= '1' && c <= '9') {
                c = take_number(s, spec, c, &spec->width);
        }
        if (c == '.')
                c = take_number(s, spec, take(s, spec), &spec->precision);
        spec->type = take_size(s, spec, c);
        return spec->type && strchr("diouxXcspfeEgGaAF%", spec->type) != NULL;
}

/* --- printing it --- */

static int is_left(const struct spec *spec)
{
        return memchr(spec->flags, '-', spec->n_flags) != NULL;
}

static void take_width(struct state *s, struct spec *spec)
{
        int32_t width;

        if (!spec->width_argument)
                return;
        width = (int32_t)argument(s, 4);
        if (width < 0 && !is_left(spec))
                spec->flags[spec->n_flags++] = '-';
        spec->width = width < -WIDTH_MAX || width > WIDTH_MAX ? WIDTH_MAX : width < 0 ? -width : width;
}

/* Builds the specification for the C library: flags, width and precision, then `tail`. */
static void build(const struct spec *spec, const char *tail, char *out, size_t size)
{
        int n = snprintf(out, size, "%%%.*s", (int)spec->n_flags, spec->flags);

        if (spec->width >= 0)
                n += snprintf(out + n, size - (size_t)n, "%d", spec->width);
        if (spec->precision >= 0)
                n += snprintf(out + n, size - (size_t)n, ".%d", spec->precision);
        snprintf(out + n, size - (size_t)n, "%s", tail);
}

static void print_integer(struct state *s, const struct spec *spec)
{
        uint64_t value = argument(s, spec->size == SIZE_LONG ? 8 : 4);
        const char tail[4] = {'l', 'l', spec->type};
        char text[2 * WIDTH_MAX], how[48];
        int n;

        build(spec, tail, how, sizeof(how));
        if (spec->type == 'd' || spec->type == 'i')
                value = spec->size == SIZE_LONG    ? value
                        : spec->size == SIZE_SHORT ? (uint64_t)(int64_t)(int16_t)value
                        : spec->size == SIZE_CHAR  ? (uint64_t)(int64_t)(int8_t)value
                                                   : (uint64_t)(int64_t)(int32_t)value;
        else
                value = spec->size == SIZE_SHORT ? (uint16_t)value : spec->size == SIZE_CHAR ? (uint8_t)value : value;
        n = snprintf(text, sizeof(text), how, (unsigned long long)value);
        put(s, text, DS_MIN((size_t)DS_MAX(n, 0), sizeof(text) - 1));
}

static void print_double(struct state *s, const struct spec *spec)
{
        uint64_t bits = argument(s, 8);
        const char tail[2] = {spec->type};
        char text[2 * WIDTH_MAX], how[48];
        double value;
        int n;

        memcpy(&value, &bits, sizeof(value));
        build(spec, tail, how, sizeof(how));
        n = snprintf(text, sizeof(text), how, value);
        put(s, text, DS_MIN((size_t)DS_MAX(n, 0), sizeof(text) - 1));
}

static void print_pointer(struct state *s, const struct spec *spec)
{
        uint64_t value = argument(s, 8);
        char text[2 * WIDTH_MAX], how[48];
        int n;

        build(spec, "p", how, sizeof(how));
        n = snprintf(text, sizeof(text), how, (void *)(uintptr_t)value);
        put(s, text, DS_MIN((size_t)DS_MAX(n, 0), sizeof(text) - 1));
}

static void print_character(struct state *s, const struct spec *spec)
{
        char c = (char)argument(s, 4);

        if (!is_left(spec))
                pad(s, spec->width - 1);
        put(s, &c, 1);
        if (is_left(spec))
                pad(s, spec->width - 1);
}

static void print_string(struct state *s, const struct spec *spec)
{
        uint64_t address = argument(s, 8);
        size_t limit = spec->precision >= 0 ? (size_t)spec->precision : DS_IX_TEXT_MAX, n = 0, before;
        char c;

        if (!address) {
                pad(s, is_left(spec) ? 0 : spec->width - 6);
                put(s, "(null)", DS_MIN(limit, (size_t)6));
                pad(s, is_left(spec) ? spec->width - 6 : 0);
                return;
        }
        while (!s->failed && n < limit && byte_at(s, address + n))
                n++;
        if (s->failed)
                return;
        if (!is_left(spec))
                pad(s, (int64_t)spec->width - (int64_t)n);
        for (before = s->f->size; n > s->f->size - before && s->f->size < DS_IX_TEXT_MAX;) {
                c = (char)byte_at(s, address + (s->f->size - before));
                put(s, &c, 1);
        }
        if (is_left(spec))
                pad(s, (int64_t)spec->width - (int64_t)n);
}

static void print_spec(struct state *s, struct spec *spec)
{
        take_width(s, spec);
        switch (spec->type) {
        case '%':
                put(s, "%", 1);
                break;
        case 'c':
                print_character(s, spec);
                break;
        case 's':
                print_string(s, spec);
                break;
        case 'p':
                print_pointer(s, spec);
                break;
        case 'd':
        case 'i':
        case 'o':
        case 'u':
        case 'x':
        case 'X':
                print_integer(s, spec);
                break;
        default:
                print_double(s, spec);
                break;
        }
}

/* Whether enough arguments are left for the conversion; %% needs none. */
static int has_room(const struct state *s, const struct spec *spec)
{
        uint32_t needs = (spec->type != '%') + (uint32_t)spec->width_argument;

        return !needs || (s->f->arguments && s->used + needs <= DS_IX_FORMAT_ARGUMENTS);
}

int ds_ix_format(struct ds_ix_format *format, uint64_t address, uint32_t *ret_arguments)
{
        struct state s = {.f = format, .at = address};
        struct spec spec;
        char c;

        format->size = 0;
        while (!s.failed && format->size < DS_IX_TEXT_MAX && (c = (char)byte_at(&s, s.at))) {
                s.at++;
                if (c != '%')
                        put(&s, &c, 1);
                else if (read_spec(&s, &spec) && !s.failed && has_room(&s, &spec))
                        print_spec(&s, &spec);
                else
                        put(&s, spec.written, spec.length);
        }
        if (s.failed)
                return DS_IX_FORMAT_E_ADDRESS;
        *ret_arguments = s.used;
        return 0;
}
