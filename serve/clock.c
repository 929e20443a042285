/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/clock.h"

#include <detshare/detshare.h>
#include <time.h>

#include "util/macro.h"

/* timers are late by about 60 us: so much of a wait is not slept */
#define AHEAD_NS (100 * DS_NS_PER_US)

static uint64_t real_now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * DS_NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t sv_now(const struct sv_clock *clock)
{
        uint64_t ns = 0;

        if (!clock->simulated)
                return real_now();
        (void)detshare_now(&ns);
        return ns;
}

static void real_sleep_until(uint64_t ns)
{
        if (ns > real_now() + AHEAD_NS) {
                const uint64_t until = ns - AHEAD_NS;
                struct timespec t = {(time_t)(until / DS_NS_PER_S), (long)(until % DS_NS_PER_S)};

                (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        }
        while (real_now() < ns)
                ;
}

void sv_sleep_until(const struct sv_clock *clock, uint64_t ns)
{
        if (clock->simulated)
                (void)detshare_sleep_until(ns);
        else
                real_sleep_until(ns);
}

void sv_clock_leave(const struct sv_clock *clock)
{
        if (clock->simulated)
                (void)detshare_clock_leave();
}
