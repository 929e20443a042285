/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Criterion's assertions for a program without Criterion: a failed assertion ends the process
 *
 * With them fuzz targets use the same harnesses as the unit tests.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define CR_SHIM(condition, text)                                                                 \
        do {                                                                                     \
                if (!(condition)) {                                                              \
                        fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, text); \
                        abort();                                                                 \
                }                                                                                \
        } while (0)

#define cr_assert(condition, ...) CR_SHIM(condition, #condition)
#define cr_assert_eq(a, b, ...) CR_SHIM((a) == (b), #a " == " #b)
#define cr_assert_neq(a, b, ...) CR_SHIM((a) != (b), #a " != " #b)
#define cr_assert_lt(a, b, ...) CR_SHIM((a) < (b), #a " < " #b)
#define cr_assert_leq(a, b, ...) CR_SHIM((a) <= (b), #a " <= " #b)
#define cr_assert_gt(a, b, ...) CR_SHIM((a) > (b), #a " > " #b)
#define cr_assert_geq(a, b, ...) CR_SHIM((a) >= (b), #a " >= " #b)
#define cr_assert_null(p, ...) CR_SHIM((p) == NULL, #p " == NULL")
#define cr_assert_not_null(p, ...) CR_SHIM((p) != NULL, #p " != NULL")
#define cr_assert_str_eq(a, b, ...) CR_SHIM(!strcmp(a, b), #a " is " #b)
#define cr_assert_arr_eq(a, b, size, ...) CR_SHIM(!memcmp(a, b, size), #a " is " #b)
#define cr_assert_fail(...) CR_SHIM(0, "unreachable")
#define cr_expect(...) cr_assert(__VA_ARGS__)
#define cr_expect_eq(...) cr_assert_eq(__VA_ARGS__)
