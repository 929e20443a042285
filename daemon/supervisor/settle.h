/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second context, made and destroyed at once, after the worker's has taken up code or memory
 *
 * On an H200 the kernels of a context begin some 0.2 to 0.4 us later, each, from the moment when code was loaded or
 * memory mapped until the driver makes some other context on the same GPU; a BERT request of a few hundred kernels
 * takes 1.17 ms before and 1.03 ms afterwards (docs/gpu.md, "A context beside it"). Natively that happens whenever
 * another program starts. Here one process has the only context, so another one is started for it, as small as
 * possible: it makes a context, destroys it and ends. The worker neither knows of it nor waits for it.
 *
 * It happens when nothing of that kind was asked for during SETTLE_QUIET_MS, at the latest SETTLE_LATEST_MS after the
 * first, and never twice within a second; where code and memory go on coming the second one waits two seconds, the next
 * four and so on up to some ten, and then it begins anew. Devices without contexts have nothing to settle.
 *
 * What it costs: some 500 MiB of the GPU's memory for 0.2 to 0.4 s. Where these are not there, no context is made, and
 * after each failure the next try waits twice as long, up to a minute; but a program that asks for the last of the
 * memory in just that moment is told that there is none (`[gpu] settle = never` where that counts). A service that is
 * served meanwhile has a request that takes some 3 ms longer.
 */
#pragma once

#include "supervisor/deadline.h"
#include "supervisor/process.h"

struct ds_supervisor;

struct ds_settle {
        struct ds_supervisor *supervisor;
        struct ds_deadline deadline; /* to begin, or while one runs: to give it up */
        ds_process *process;         /* NULL: none */
        uint64_t first_ms;           /* since when there is something to settle, 0 = nothing */
        uint64_t begun_ms;           /* the last one, 0 = none */
        uint64_t apart_ms;           /* the next one begins no sooner after the last one */
        int soon;                    /* the last one came soon after the one before */
        int off, told;               /* no more of it; somebody was told why not */
};

void ds_settle_init(struct ds_settle *settle, struct ds_supervisor *supervisor);
/* The worker has taken up code or memory for somebody; also what it does by itself while all work is stopped (Stirred).
 */
void ds_settle_stirred(struct ds_settle *settle);
/* The worker is gone: one that runs must not be in the way of the next one's start. */
void ds_settle_break(struct ds_settle *settle);
/* No more; one that runs is killed, and its end is said by ds_supervisor_check_stop. */
void ds_settle_stop(struct ds_settle *settle);
int ds_settle_gone(const struct ds_settle *settle);
