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
 * It happens when nothing of that kind came during SETTLE_QUIET_MS, at the latest SETTLE_LATEST_MS after the first,
 * and never twice within SETTLE_APART_MS. Where code and memory go on coming the next one waits twice as long each
 * time, up to SETTLE_APART_LONG_MS, since each is felt by who is being served; SETTLE_CALM_MS without one end that.
 * Devices without contexts have nothing to settle.
 *
 * What it costs: some 500 MiB of the GPU's memory for 0.2 to 0.4 s. Where these are not there, no context is made; it
 * is tried again after twice as long each time, up to SETTLE_APART_MAX_MS, and then only for what comes anew. A try
 * that takes longer than SETTLE_TIME_MS has failed. But a program that asks for the last of the memory in just that
 * moment is told that there is none (`[gpu] settle = never` where that counts). A service that is served meanwhile has
 * a request that takes some 3 ms longer.
 */
#pragma once

#include "supervisor/deadline.h"
#include "supervisor/process.h"

struct ds_supervisor;

#define SETTLE_QUIET_MS 300u
#define SETTLE_LATEST_MS 10000u
#define SETTLE_APART_MS 1000u
#define SETTLE_APART_LONG_MS 16000u
#define SETTLE_CALM_MS 20000u
#define SETTLE_APART_MAX_MS 60000u /* after failures */
#define SETTLE_TIME_MS 10000u      /* a driver that takes so long is not helped by another one */

/* When the next one is made. Zero-initialised; all times are in ms of one clock that does not begin at 0. */
struct ds_settle_pace {
        uint64_t first_ms; /* since when there is something to settle, 0 = nothing */
        uint64_t begun_ms; /* the last one, 0 = none */
        uint64_t apart_ms; /* the next one begins no sooner after the last one; 0 = SETTLE_APART_MS */
        int soon;          /* the last one came soon after the one before */
};

void ds_settle_pace_stirred(struct ds_settle_pace *pace, uint64_t now_ms);
/* In how many ms it may begin; there must be something to settle. */
uint64_t ds_settle_pace_in(const struct ds_settle_pace *pace, uint64_t now_ms);
void ds_settle_pace_begun(struct ds_settle_pace *pace, uint64_t now_ms);
void ds_settle_pace_made(struct ds_settle_pace *pace);
/* It was not made. What it was for is still to settle, but for a failure that is one of many. */
void ds_settle_pace_failed(struct ds_settle_pace *pace, uint64_t now_ms);

struct ds_settle {
        struct ds_supervisor *supervisor;
        struct ds_deadline deadline; /* to begin, or while one runs: to give it up */
        ds_process *process;         /* NULL: none */
        struct ds_settle_pace pace;
        int broken;    /* who runs is ended for no fault of its own */
        int off, told; /* no more of it; somebody was told why not */
};

void ds_settle_init(struct ds_settle *settle, struct ds_supervisor *supervisor);
/* Code, graphs or memory came into the worker's context. */
void ds_settle_stirred(struct ds_settle *settle);
/* The worker is gone: one that runs must not be in the way of the next one's start. */
void ds_settle_break(struct ds_settle *settle);
/* No more; one that runs is killed, and its end is said by ds_supervisor_check_stop. */
void ds_settle_stop(struct ds_settle *settle);
/* After that: nobody waits for it any longer. */
void ds_settle_leave(struct ds_settle *settle);
int ds_settle_gone(const struct ds_settle *settle);
