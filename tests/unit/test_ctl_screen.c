/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines and tables that fit a width; parameters of policies
 */
#include <criterion/criterion.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"
#include "ctl/policy_text.h"

int arg_wide;

void ctl_complain(const char *format, ...)
{
}

static void check_wrap(const char *text, size_t width, const char *expected)
{
        char *wrapped = ctl_wrapped(text, width);
        cr_expect_str_eq(wrapped, expected);
        free(wrapped);
}

Test(ctl_screen, lines_break_at_blanks)
{
        check_wrap("one two three", 80, "one two three");
        check_wrap("one two three", 7, "one two\nthree");
        check_wrap("one two three", 8, "one two\nthree");
        check_wrap("one two three", 3, "one\ntwo\nthr\nee");
        check_wrap("abcdefgh", 3, "abc\ndef\ngh");
        check_wrap("one   two", 5, "one\ntwo");
        check_wrap("", 3, "");
        check_wrap("a" CTL_HARD_BLANK "b c", 3, "a b\nc");
}

Test(ctl_screen, what_a_terminal_would_obey_is_harmless)
{
        check_wrap("a\033]0;title\007b", 80, "a?]0;title?b");
        check_wrap("a\tb", 80, "a?b");
        check_wrap("\033[31mred\033[0m word", 4, "\033[31mred\033[0m\nword");
}

Test(ctl_screen, width_is_of_columns_not_of_bytes)
{
        if (!setlocale(LC_CTYPE, "C.UTF-8"))
                cr_skip_test("no UTF-8 here");
        cr_expect_eq(ctl_display_width("grün", 5), 4);
        cr_expect_eq(ctl_display_width("\033[31mrot\033[0m", 12), 3);
        cr_expect_eq(ctl_display_width("\xff\xfe", 2), 2);
        check_wrap("grün grün", 4, "grün\ngrün");
}

static size_t longest_line(const char *text)
{
        size_t longest = 0;
        for (; *text; text += *text == '\n') {
                const size_t n = strcspn(text, "\n");
                longest = n > longest ? n : longest;
                text += n;
        }
        return longest;
}

/* A table whose last column may be left out, the middle one wrapped. */
static char *drawn(const char *columns)
{
        static const char *const row[] = {"1", "a long text of many words that takes some room", "left out first"};
        struct ctl_text text = {.file = NULL};
        struct ctl_table *table = ctl_table_new(1);
        setenv("COLUMNS", columns, 1);
        text.file = open_memstream(&text.bytes, &text.size);
        ctl_table_column(table, "ID", 1);
        ctl_table_column(table, "TEXT", 0);
        ctl_table_may(table, 10, 0);
        ctl_table_column(table, "MORE", 0);
        ctl_table_may(table, 0, 1);
        cr_assert_eq(ctl_table_row(table, row), 0);
        cr_assert_eq(ctl_table_draw(table, &text), 0);
        ctl_table_free(table);
        fclose(text.file);
        return text.bytes;
}

Test(ctl_screen, tables_fit)
{
        for (int columns = 24; columns < 100; columns++) {
                char number[8];
                snprintf(number, sizeof(number), "%d", columns);
                char *table = drawn(number);
                cr_expect_leq(longest_line(table), (size_t)columns, "%s", table);
                cr_expect(strstr(table, "room"), "wrapped, nothing is lost: %s", table);
                cr_expect_eq(!strstr(table, "left out first"), columns < 36, "%d: %s", columns, table);
                cr_expect_eq(!!strstr(table, "--wide"), columns < 36, "%d: %s", columns, table);
                free(table);
        }
        arg_wide = 1;
        char *table = drawn("10");
        cr_expect_eq(longest_line(table), 72, "%s", table);
        free(table);
}

Test(ctl_policy_text, lines_are_read)
{
        const char *at =
                "depth=4 [1..64]: operations at once\nmask_permille=-1 [-1..1000]: what requests lose: -1 = unknown";
        struct ctl_param param;
        cr_assert_eq(ctl_next_param(&at, &param), 1);
        cr_expect_str_eq(param.name, "depth");
        cr_expect(param.def == 4 && param.min == 1 && param.max == 64);
        cr_expect_str_eq(param.help, "operations at once");
        cr_expect_str_eq(ctl_param_type(&param), "number");
        cr_assert_eq(ctl_next_param(&at, &param), 1);
        cr_expect(param.def == -1 && param.min == -1 && param.max == 1000);
        cr_expect_str_eq(param.help, "what requests lose: -1 = unknown");
        cr_expect_str_eq(ctl_param_type(&param), "permille");
        cr_expect_eq(ctl_next_param(&at, &param), 0);
        at = "nonsense\nevict=1 [0..1]: ";
        cr_expect_eq(ctl_next_param(&at, &param), -1);
        cr_assert_eq(ctl_next_param(&at, &param), 1);
        cr_expect_str_eq(param.help, "");
        cr_expect_str_eq(ctl_param_type(&param), "0 or 1");
}

Test(ctl_policy_text, values_in_force_are_found)
{
        long long value;
        cr_expect(ctl_param_in_force("ls=1\nls_depth=-7\nx=3", "ls_depth", &value));
        cr_expect_eq(value, -7);
        cr_expect_not(ctl_param_in_force("ls=1\nls_depth=7", "depth", &value));
        cr_expect_not(ctl_param_in_force("", "depth", &value));
}
