/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proof of the sanitizer gate: a Criterion program that commits one deliberate error, chosen by its first argument
 *
 * The error is inside a passing Criterion test, where a gate can be blind: Criterion alone reports a leaking test as
 * passed. The assertions of tests/support/asserts.h are also among the errors: each kind must fail, with its text.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/asserts.h"

static char *volatile sink;

/* The argument reaches the test's own process by the environment. */
static const char *proof_error(void)
{
        const char *error = getenv("DETSHARE_PROOF");

        return error ? error : "clean";
}

Test(proof, deliberate_error)
{
        const char *error = proof_error();
        char *block = malloc(16);
        volatile int top = INT_MAX;

        cr_assert(block != NULL);
        if (!strcmp(error, "expectations")) {
                cr_expect(!block, "said of %s", "the first");
                cr_expect_eq(top, 1, "said of %s", "the second");
                cr_expect_null(block);
                cr_expect_lt(top, 1);
        }
        if (!strcmp(error, "assertion"))
                cr_assert_eq(top, 1, "said of %s", "an assertion");
        memset(block, 1, 16);
        sink = block;
        if (!strcmp(error, "overrun"))
                sink[16] = 1;
        if (!strcmp(error, "overflow"))
                sink[0] = (char)(top + 1);
        sink = NULL;
        if (strcmp(error, "leak") != 0)
                free(block);
        block = NULL;
}
