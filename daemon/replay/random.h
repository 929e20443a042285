/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers that are the same on every machine: splitmix64 by Steele, Lea and Flood, with Vigna's constants
 */
#pragma once

#include <stdint.h>

static inline uint64_t ds_replay_random(uint64_t *state)
{
        uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
        z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
        return z ^ z >> 31;
}
