/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running means
 *
 * A policy learns from a stream of samples in bounded memory: each mean here is one number that moves towards every new
 * sample. How far it moves says how many of the last samples count.
 */
#pragma once

#include <stdint.h>

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
        return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
        return a > b ? a : b;
}

static inline uint64_t difference_u64(uint64_t a, uint64_t b)
{
        return a > b ? a - b : b - a;
}

/* Moves a mean towards a sample by one n-th of the difference. */
void learn_part(uint64_t *mean, uint64_t seen, uint32_t n);

/* Learns the n-th sample of a mean, and its distance from the mean before as one of the mean deviation. */
void learn_deviation(uint64_t *mean, uint64_t *deviation, uint64_t seen, uint32_t n);

/* Learns a value near the low end of the samples: the value falls at once by a quarter of the difference, and rises
 * slowly. */
void learn_low(uint64_t *value, uint64_t seen);

/* Learns a mean over the last few dozen samples. */
void learn_slowly(uint64_t *mean, uint64_t seen);

/* Learns a mean over the last eight samples or so, in 32 bits. */
void learn_mean(uint32_t *mean, uint64_t seen);
