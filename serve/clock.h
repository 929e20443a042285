/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock that latencies are read from
 *
 * CLOCK_MONOTONIC where the GPU is real, natively and under DetShare alike; on a simulated device its virtual clock
 * (detshare_now), which stands still while a thread that asked for the time runs. So a thread says with sv_clock_leave
 * that it is about to wait for something outside of DetShare.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sv_clock {
        bool simulated;
};

uint64_t sv_now(const struct sv_clock *clock);
/* Returns at once when that is past. The end of a real wait is spent looking at the clock. */
void sv_sleep_until(const struct sv_clock *clock, uint64_t ns);
void sv_clock_leave(const struct sv_clock *clock);
