/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Criterion's assertions without Criterion: a failed assertion prints its place and reason, and ends the process
 *
 * For programs that run test bodies on machines without Criterion. Each body runs in a child process.
 */
#pragma once

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((__format__(__printf__, 4, 5), __noreturn__)) static void plain_fail(
        const char *file, int line, const char *what, const char *fmt, ...)
{
        va_list args;

        printf("%s:%d: does not hold: %s", file, line, what);
        va_start(args, fmt);
        vprintf(fmt, args);
        va_end(args);
        printf("\n");
        fflush(stdout);
        _exit(1);
}

#define PLAIN_CHECK(condition, what, ...)                                       \
        do {                                                                    \
                if (!(condition))                                               \
                        plain_fail(__FILE__, __LINE__, what, ": " __VA_ARGS__); \
        } while (0)

#define cr_assert(condition, ...) PLAIN_CHECK(condition, #condition, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) PLAIN_CHECK((a) == (b), #a " == " #b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) PLAIN_CHECK((a) != (b), #a " != " #b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) PLAIN_CHECK((a) <= (b), #a " <= " #b, __VA_ARGS__)
#define cr_expect_eq cr_assert_eq
#define cr_assert_null(p, ...) PLAIN_CHECK(!(p), #p " is NULL", __VA_ARGS__)
#define cr_assert_not_null(p, ...) PLAIN_CHECK((p), #p " is not NULL", __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) PLAIN_CHECK(!strcmp((a), (b)), #a " is " #b, __VA_ARGS__)
