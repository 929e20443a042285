/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shorter versions of Criterion's assertions, included before every unit test (tests/tests.mk)
 *
 * The tests have seven thousand assertions. Criterion expands each to half a kilobyte of text, two formats and a record
 * on the stack, which dominates the compile time of a test. Here a failure is one call with the same effect: a report
 * with file, line, expression and message, then the end of the test if the assertion is fatal. Passed assertions are
 * counted as by Criterion. Rare assertions stay Criterion's own. Criterion's option to report passed assertions does
 * not see these.
 */
#pragma once

#include <criterion/criterion.h>
#include <stdio.h>

/*
 * A test, or a part of it, that this machine or user cannot run: prints the line that tests/run.sh counts as skipped.
 * `needs` says what is missing, for example "root". skip_test() ends the test.
 */
#define skip_part(needs) fprintf(stderr, "SKIP %s: needs %s\n", criterion_current_test->name, needs)
#define skip_test(needs)             \
        do {                         \
                skip_part(needs);    \
                cr_skip_test(needs); \
        } while (0)

/* Not inlined: one copy per file. Arguments are as for printf. */
__attribute__((noinline, cold, unused, format(printf, 4, 5))) static void assert_failed(
        const char *file, unsigned line, const char *expression, const char *format, ...)
{
        struct criterion_assert_stats stat = {.passed = false, .line = line, .file = file};
        char *message = NULL;
        va_list arguments;

        va_start(arguments, format);
        cr_vasprintf(&message, format, arguments);
        va_end(arguments);
        /* A message replaces the expression. The first character keeps empty formats valid. */
        if (!message || !message[1]) {
                cr_asprintf_free(message);
                message = NULL;
                cr_asprintf(&message, " The expression %s is false.", expression);
        }
        stat.message = message ? message + 1 : expression;
        criterion_send_assert(&stat);
        cr_asprintf_free(message);
}

#define ASSERT_SHORT(after, condition, text, ...)                                 \
        do {                                                                      \
                if (!!(condition)) {                                              \
                        cri_asserts_passed_incr();                                \
                } else {                                                          \
                        assert_failed(__FILE__, __LINE__, text, " " __VA_ARGS__); \
                        after();                                                  \
                }                                                                 \
        } while (0)
#define ASSERT_OP(after, op, a, b, ...) ASSERT_SHORT(after, (a)op(b), "(" #a ") " #op " (" #b ")", __VA_ARGS__)

#undef cr_assert
#undef cr_expect
#undef cr_assert_not
#undef cr_expect_not
#undef cr_assert_null
#undef cr_expect_null
#undef cr_assert_not_null
#undef cr_expect_not_null
#undef cr_assert_eq
#undef cr_expect_eq
#undef cr_assert_neq
#undef cr_expect_neq
#undef cr_assert_lt
#undef cr_expect_lt
#undef cr_assert_leq
#undef cr_expect_leq
#undef cr_assert_gt
#undef cr_expect_gt
#undef cr_assert_geq
#undef cr_expect_geq
#define cr_assert(a, ...) ASSERT_SHORT(criterion_abort_test, a, #a, __VA_ARGS__)
#define cr_expect(a, ...) ASSERT_SHORT(criterion_continue_test, a, #a, __VA_ARGS__)
#define cr_assert_not(a, ...) ASSERT_SHORT(criterion_abort_test, !(a), "!(" #a ")", __VA_ARGS__)
#define cr_expect_not(a, ...) ASSERT_SHORT(criterion_continue_test, !(a), "!(" #a ")", __VA_ARGS__)
#define cr_assert_null(a, ...) ASSERT_OP(criterion_abort_test, ==, a, NULL, __VA_ARGS__)
#define cr_expect_null(a, ...) ASSERT_OP(criterion_continue_test, ==, a, NULL, __VA_ARGS__)
#define cr_assert_not_null(a, ...) ASSERT_OP(criterion_abort_test, !=, a, NULL, __VA_ARGS__)
#define cr_expect_not_null(a, ...) ASSERT_OP(criterion_continue_test, !=, a, NULL, __VA_ARGS__)
#define cr_assert_eq(a, b, ...) ASSERT_OP(criterion_abort_test, ==, a, b, __VA_ARGS__)
#define cr_expect_eq(a, b, ...) ASSERT_OP(criterion_continue_test, ==, a, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) ASSERT_OP(criterion_abort_test, !=, a, b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) ASSERT_OP(criterion_continue_test, !=, a, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...) ASSERT_OP(criterion_abort_test, <, a, b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...) ASSERT_OP(criterion_continue_test, <, a, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) ASSERT_OP(criterion_abort_test, <=, a, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) ASSERT_OP(criterion_continue_test, <=, a, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...) ASSERT_OP(criterion_abort_test, >, a, b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...) ASSERT_OP(criterion_continue_test, >, a, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) ASSERT_OP(criterion_abort_test, >=, a, b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) ASSERT_OP(criterion_continue_test, >=, a, b, __VA_ARGS__)
