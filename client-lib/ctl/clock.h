/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's clocks in nanoseconds
 */
#pragma once

#include <stdint.h>
#include <time.h>

/* Returns the time on a clock such as CLOCK_MONOTONIC, ns. */
static inline uint64_t ctl_clock_ns(clockid_t clock)
{
        struct timespec t;
        clock_gettime(clock, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
