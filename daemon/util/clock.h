/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monotonic clock, and processor time of the own process
 */
#pragma once

#include <stdint.h>
#include <time.h>

#include "util/macro.h"

/* CLOCK_MONOTONIC, ns. */
static inline uint64_t ds_monotonic_ns(void)
{
        struct timespec t = {0};

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * DS_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* User and system time of all threads since the process started, ns. */
static inline uint64_t ds_process_cpu_ns(void)
{
        struct timespec t = {0};

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return (uint64_t)t.tv_sec * DS_NS_PER_S + (uint64_t)t.tv_nsec;
}
