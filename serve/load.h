/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests made here: one after the other, or as they arrive
 *
 * Each instance has a thread. In the closed loop an instance takes the next request when it has ended the one before;
 * with arrivals the first free instance takes the next one that has arrived, and none is begun before its time.
 * Requests go through the pack's cases in turn. After each, outside of what is measured, its output is compared with
 * the first one of its case.
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
        uint64_t requests;                  /* that a closed loop takes at most; 0: no limit */
        uint64_t ns;                        /* after which a closed loop takes no more requests; 0: no limit */
        uint64_t begin;                     /* ns of the clock; 0: now */
};

struct sv_result {
        struct sv_samples samples; /* by arrival */
        uint64_t ns;               /* from the beginning to the last end */
        uint64_t different;        /* outputs that were not their case's first */
};

/* What is asked to stop (SIGINT, SIGTERM) begins no more requests. */
void sv_load_stop(void);
/* Fails when a request does, or memory is short. The result is to be cleared then, too. */
int sv_load_run(const struct sv_load *load, struct sv_result *ret, struct sv_why *why);
