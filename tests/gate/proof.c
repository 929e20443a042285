/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proof of the sanitizer gate: a Criterion program that commits one deliberate error, chosen by its first argument
 *
 * The error sits inside a passing Criterion test, since that is where a gate can be blind: Criterion alone reports a
 * leaking test as passing.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

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
