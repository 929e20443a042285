/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Number of rounds of randomised tests: DETSHARE_TEST_ROUNDS sixtieths of all rounds
 *
 * `make test` runs some of the rounds to be short; `make test-plain` and a test that is run by hand run all.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>

#define ROUNDS_ALL 60

/* 1 under a sanitizer: the plain run proves the results, and a sanitized round takes ten times as long */
#ifdef __SANITIZE_ADDRESS__
#define ROUNDS_SANITIZED 1
#else
#define ROUNDS_SANITIZED 0
#endif

/* The configured share of `all` rounds, at least 1. */
static inline uint32_t rounds_of(uint32_t all)
{
        const char *text = getenv("DETSHARE_TEST_ROUNDS");
        int rounds = text ? atoi(text) : ROUNDS_ALL;

        if (rounds < 1 || rounds >= ROUNDS_ALL)
                return rounds < 1 ? 1 : all;
        return all * (uint32_t)rounds / ROUNDS_ALL ? all * (uint32_t)rounds / ROUNDS_ALL : 1;
}

static inline int rounds_are_all(void)
{
        return rounds_of(ROUNDS_ALL) == ROUNDS_ALL;
}

/* Step between the cases that a test tries: a short run tries one case of so many, and other cases in each run. */
static inline int64_t rounds_step(int64_t of)
{
        return rounds_are_all() ? 1 : of;
}
