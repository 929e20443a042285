/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that this program makes: one after the other, or at the times of a trace
 *
 * Each instance has a thread. In a closed loop an instance takes the next request when it has ended the previous one.
 * With arrivals the first free instance takes the next request, not before its arrival. Requests use the pack's cases
 * in turn. After each request, outside of the measured time, its output is compared with the first one of its case.
 */
#pragma once

#include <stdbool.h>

#include "serve/arrivals.h"
#include "serve/cases.h"
#include "serve/clock.h"
#include "serve/samples.h"

struct sv_load {
        const struct sv_clock *clock;
        const struct sv_cases *cases;
        struct sv_instance *instances;
        unsigned n_instances;
        const struct sv_arrivals *arrivals; /* NULL: a closed loop */
        uint64_t requests;                  /* most requests of a closed loop; 0: no limit */
        uint64_t ns;                        /* time after which a closed loop takes no more requests; 0: no limit */
        uint64_t begin;                     /* begin, ns of the clock; 0: now */
};

struct sv_result {
        struct sv_samples samples; /* sorted by arrival */
        uint64_t ns;               /* from the begin to the last end */
        uint64_t different;        /* number of outputs that differ from the first one of their case */
};

/* Makes a running load begin no more requests (SIGINT, SIGTERM). */
void sv_load_stop(void);
/* Fails when a request fails or memory is short. The caller clears the result in every case. */
int sv_load_run(const struct sv_load *load, struct sv_result *ret, struct sv_why *why);
