/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many of a test's rounds there are: DETSHARE_TEST_ROUNDS of 60
 *
 * `make test` has some of them, so that it is short; `make test-plain`, and who runs a test by hand, has all.
 */
#pragma once

#include <stdint.h>
#include <stdlib.h>

#define ROUNDS_ALL 60

/* Whether a sanitizer watches: what is computed is the plain run's to prove then, and takes ten times as long here */
#ifdef __SANITIZE_ADDRESS__
#define ROUNDS_SANITIZED 1
#else
#define ROUNDS_SANITIZED 0
#endif

/* Of so many, at least one */
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

/* Of things that are tried one by one, a short run tries one of so many, other ones each time: how far the next one is
 */
static inline int64_t rounds_step(int64_t of)
{
        return rounds_are_all() ? 1 : of;
}
