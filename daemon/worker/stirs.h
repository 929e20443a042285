/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests a context switch of the GPU ("stir(s)" in names) when LS kernels begin later than they should
 *
 * Kernels begin later after code, graphs or memory have entered the context, or after kernels have run on part of the
 * SMs. The delay ends when the GPU has run another context for a moment (supervisor/settle.h arranges that). Only LS
 * sessions need this, so the worker requests it only while there are some. It waits until the cause is over and LS is
 * idle, because a request served during the switch loses 0.25 ms. If LS is never idle, the worker waits only
 * STIRS_LATE_NS, because every request loses time until then. When LS returns after an absence, changes made meanwhile
 * count from its return; otherwise the switch would interrupt its first request.
 *
 * Requests for a switch are at least STIRS_APART_NS apart: while kernels run on parts of the SMs all the time, the
 * delay returns at once.
 *
 * Some causes of the delay are unknown. The worker therefore times LS requests that look alike (the same number of
 * kernels without a pause between them). If the shortest of the last PACE_WINDOW requests takes longer than the
 * shortest ones of earlier windows, it requests a switch, too. Best-effort work hardly affects the shortest request.
 * Other causes, such as a cache, can slow down all requests, and then a switch does not help. So the interval between
 * such requests for a switch doubles, up to 1 s, and the best duration of a session that never reaches it again is
 * forgotten gradually.
 */
#pragma once

#include <stdint.h>

#include "worker/worker.h"

struct dsw_session;

/* How long requests of an LS session take on the device. Compares requests of equal kernel count. */
struct dsw_pace {
        uint64_t begin_ns;          /* device time at which the current request began */
        uint32_t running;           /* kernels of the current request so far */
        uint32_t kernels;           /* kernel count of the compared requests; 0: none yet */
        uint32_t n, others;         /* compared requests in this window; since the last one, requests of other counts */
        uint64_t least_ns, best_ns; /* shortest request of this window; shortest one of the good windows; 0: none */
        uint32_t good;              /* windows in a row that were not slow */
        uint64_t late_ns, apart_ns; /* earliest next report of slowness; minimum interval after that report */
};

/* State of the requests for context switches. All zero means that the worker's own start is a reason to switch. */
struct dsw_stirs {
        uint64_t seen, told;       /* reasons for a switch so far; value at the last request */
        uint64_t seen_ns, told_ns; /* device time of the last new reason; of the last request for a switch; 0: never */
        uint64_t alive_wall_ns;    /* real time of the last LS activity that stirs.c has seen; 0: none */
        uint64_t back_ns;          /* device time at which LS began or resumed activity */
        uint64_t n_slow;           /* number of times that LS requests were found slow */
};

/* An operation of an LS session with this many kernels ended. `last`: the session has no more operations. */
void dsw_stirs_ended(struct dsw_session *session, uint32_t kernels, uint64_t start_ns, uint64_t end_ns, int last);
void dsw_stirs_step(ds_worker *worker);
uint64_t dsw_stirs_wait_ns(ds_worker *worker); /* real time until the next step of the requests, ns */
