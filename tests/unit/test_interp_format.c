/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formatting of a kernel's printf: compared with the C library's where both mean the same, and within its bounds
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/interp/format.h"

static uint64_t hole; /* an address that cannot be read */

static int host_byte(void *user, uint64_t address)
{
        return address == hole || address < 4096 ? -1 : *(const uint8_t *)(uintptr_t)address;
}

static char text[DS_IX_TEXT_MAX + 1];

struct made {
        int r;
        uint32_t arguments;
        size_t size;
        uint64_t bad;
};

static struct made make(const char *format, const void *arguments)
{
        struct ds_ix_format f = {.byte = host_byte, .arguments = (uintptr_t)arguments, .text = text};
        struct made m = {.arguments = 999};

        m.r = ds_ix_format(&f, (uintptr_t)format, &m.arguments);
        cr_assert(f.size <= DS_IX_TEXT_MAX);
        text[f.size] = 0;
        m.size = f.size;
        m.bad = f.bad;
        return m;
}

static void same(uint32_t n, const void *arguments, const char *format, ...)
{
        char want[8192];
        struct made m = make(format, arguments);
        va_list args;

        va_start(args, format);
        (void)vsnprintf(want, sizeof(want), format, args);
        va_end(args);
        cr_assert_eq(m.r, 0);
        cr_assert_str_eq(text, want, "%s: '%s', not '%s'", format, text, want);
        cr_assert_eq(m.arguments, n, "%s: %u arguments", format, m.arguments);
}

Test(format, integers)
{
        static const int ints[] = {0, 1, -1, 42, INT_MAX, INT_MIN};
        static const char *const formats[] = {"%d", "%i", "%u", "%x", "%X", "%o", "%5d", "%-5d|", "%05d", "%+d", "% d",
                "%.4d", "%8.4d", "%#x", "%#o", "%hd", "%hu", "%hhd", "%hhu", "%hx", "%c", "%5c|", "%-5c|", "%+08.3d"};
        static const char *const longs[] = {
                "%ld", "%lld", "%lu", "%llu", "%lx", "%#llX", "%20ld", "%-20ld|", "%zu", "%lo"};

        for (size_t k = 0; k < sizeof(formats) / sizeof(*formats); k++)
                for (size_t i = 0; i < sizeof(ints) / sizeof(*ints); i++)
                        same(1, &ints[i], formats[k], ints[i]);
        for (size_t k = 0; k < sizeof(longs) / sizeof(*longs); k++) {
                for (size_t i = 0; i < sizeof(ints) / sizeof(*ints); i++) {
                        long value = (long)ints[i] * 65537 * 3;

                        same(1, &value, longs[k], value);
                }
        }
}

Test(format, floats)
{
        static const double doubles[] = {0, -0.0, 1, 1.5, -2.25, 1e-300, 1e300, 3.14159265358979, HUGE_VAL, -HUGE_VAL};
        static const char *const formats[] = {"%f", "%e", "%g", "%a", "%F", "%E", "%G", "%A", "%10.3f", "%-10.3f|",
                "%+.0f", "%#.0f", "%010.2e", "%.15g", "% f"};

        for (size_t k = 0; k < sizeof(formats) / sizeof(*formats); k++)
                for (size_t i = 0; i < sizeof(doubles) / sizeof(*doubles); i++)
                        same(1, &doubles[i], formats[k], doubles[i]);
}

Test(format, arguments_are_aligned_to_their_size)
{
        const struct {
                int a;
                double b;
                int c, d;
                const char *s;
                int e;
                long f;
                void *p;
        } args = {1, 2.5, 3, 4, "five", 6, 7, (void *)0x1234};
        const struct {
                int width, value;
                int width2;
                int pad;
                const char *word;
        } stars = {7, 42, -9, 0, "left"};

        same(8, &args, "%d %f %d %d %s %d %ld %p\n", args.a, args.b, args.c, args.d, args.s, args.e, args.f, args.p);
        same(4, &stars, "[%*d] [%*s]", stars.width, stars.value, stars.width2, stars.word);
}

Test(format, strings)
{
        const char *word = "printed", *empty = "", *null = NULL;

        same(1, &word, "%s", word);
        same(1, &word, "[%10s] ", word);
        same(1, &word, "[%-10s] ", word);
        same(1, &word, "[%.3s]", word);
        same(1, &word, "[%10.3s]", word);
        same(1, &word, "[%-10.3s]", word);
        same(1, &empty, "[%s] [", empty);
        make("%s|", &null);
        cr_assert_str_eq(text, "(null)|");
        hole = (uintptr_t)word + 3; /* only the printed part is readable */
        same(1, &word, "[%.3s]", word);
        cr_assert_eq(make("%s", &word).r, DS_IX_FORMAT_E_ADDRESS);
        cr_assert_eq(make("%s", &word).bad, hole);
}

Test(format, what_is_no_conversion_is_text)
{
        const int v[2] = {5, 6};

        same(0, v, "100%%, no argument\n");
        make("%y %n %k and %", v);
        cr_assert_str_eq(text, "%y %n %k and %");
        make("%d and %1$d", v);
        cr_assert_str_eq(text, "5 and %1$d");
        make("%d %s", NULL); /* no argument left */
        cr_assert_str_eq(text, "%d %s");
        make("%----------------------------------------d", v);
        cr_assert_eq(text[0], '%', "too long for a conversion");
}

Test(format, no_more_than_32_arguments)
{
        char format[40 * 3 + 1] = "";
        int v[40];

        for (int i = 0; i < 40; i++) {
                v[i] = i % 10;
                strcat(format, "%d ");
        }
        cr_assert_eq(make(format, v).arguments, DS_IX_FORMAT_ARGUMENTS);
        cr_assert(strstr(text, "0 1 %d %d %d %d %d %d %d %d "), "%s", text);
        cr_assert_str_eq(strchr(text, '%'), "%d %d %d %d %d %d %d %d ");
}

Test(format, bounds)
{
        static char endless[3 * DS_IX_TEXT_MAX];
        const char *word = endless;
        const struct {
                int width, value;
        } wide = {INT_MAX, 1}, left = {INT_MIN, 1};

        memset(endless, 'e', sizeof(endless) - 1);
        cr_assert_eq(make(endless, NULL).size, DS_IX_TEXT_MAX);
        cr_assert_eq(make("%s", &word).size, DS_IX_TEXT_MAX);
        cr_assert_eq(make("%*d", &wide).size, 4096);
        cr_assert_eq(make("%*d", &left).size, 4096);
        cr_assert_eq(make("%99999999999d", &wide.value).size, 4096);
        cr_assert_eq(make("%.99999999999d", &wide.value).size, 4096);
        hole = (uintptr_t)endless + 5;
        cr_assert_eq(make(endless, NULL).r, DS_IX_FORMAT_E_ADDRESS);
        cr_assert_eq(make("%d", (void *)8).r, DS_IX_FORMAT_E_ADDRESS);
}

/* No format makes it read beyond its input, or write beyond its buffer. */
Test(format, random_formats)
{
        static const char some[] = "%%%%%%diouxXcspfeEgGaAhlzjt*.-+ #0123456789 yn\n";
        uint32_t state = 7;
        uint64_t args[40];
        char format[64];

        for (int round = 0; round < 200000; round++) {
                for (size_t i = 0; i < sizeof(format) - 1; i++) {
                        state = state * 1664525u + 1013904223u;
                        format[i] = some[(state >> 8) % (sizeof(some) - 1)];
                }
                format[sizeof(format) - 1] = 0;
                for (size_t i = 0; i < 40; i++)
                        args[i] =
                                round & 1 ? (uintptr_t)format : (uint64_t)state * 0x9e3779b97f4a7c15u * (i + 1) % 4096;
                (void)make(format, args);
        }
}
