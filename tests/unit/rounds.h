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

/* Of so many, at least one */
static inline uint32_t rounds_of(uint32_t all)
{
        const char *text = getenv("DETSHARE_TEST_ROUNDS");
        int rounds = text ? atoi(text) : ROUNDS_ALL;

        if (rounds < 1 || rounds >= ROUNDS_ALL)
                return rounds < 1 ? 1 : all;
        return all * (uint32_t)rounds / ROUNDS_ALL ? all * (uint32_t)rounds / ROUNDS_ALL : 1;
}
