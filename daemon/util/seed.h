/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seeds of hash tables whose keys come from clients
 */
#pragma once

#include <stdint.h>
#include <sys/random.h>

/* A random seed, so that nobody can construct collisions. `own`: memory whose address is the seed if the system has no
 * random bytes yet. */
static inline uint64_t ds_hash_seed(const void *own)
{
        uint64_t seed;

        if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
                seed = (uintptr_t)own;
        return seed;
}
