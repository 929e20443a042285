/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock for latencies
 *
 * On a GPU it is CLOCK_MONOTONIC, natively and under DetShare. On a simulated device it is the virtual clock
 * (detshare_now), which stands still while a thread runs that has called sv_now. Such a thread calls sv_clock_leave
 * before it waits for anything outside of DetShare.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sv_clock {
        bool simulated;
};

uint64_t sv_now(const struct sv_clock *clock);
/* Returns at once if that time is past. Polls the clock for the last 100 us of a real wait. */
void sv_sleep_until(const struct sv_clock *clock, uint64_t ns);
void sv_clock_leave(const struct sv_clock *clock);
