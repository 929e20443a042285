/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second context: the GPU switches to it for a moment, so that the worker's kernels start faster again
 *
 * Problem. On an H200 each kernel of a context starts about 0.2 to 0.4 us later after kernels of that context have run
 * on a part of the SMs (a green context without all of them), or after code, graphs or memory were loaded into it. A
 * BERT request of a few hundred kernels then takes 1.16 ms instead of 1.03 (docs/gpu.md, "A context beside it"). This
 * lasts until the GPU has executed any work of another context. Without DetShare other programs provide that work; here
 * the worker has the only context.
 *
 * So a second process has a second context. At the worker's request (which decides when) it writes some bytes
 * of GPU memory: the GPU switches to its context and back. That delays one running request by a quarter of a
 * millisecond.
 *
 * The process is started at the first request, and exits after a minute without one. The worker neither knows it nor
 * waits for it, and asks only once. A request stays pending (`owed`) until the process has carried one out, or there is
 * a new worker.
 *
 * Creating the context takes 0.2 to 0.4 s each time and delays running requests by about 3 ms. It takes about 500 MiB
 * of GPU memory. If that memory is not available, the next attempt follows after a second, then after twice as long
 * each time, up to a minute. A program that allocates the last memory meanwhile gets an out-of-memory error; where that
 * matters, set `[gpu] settle = never`. Devices without contexts have no such process.
 */
#pragma once

#include "supervisor/deadline.h"
#include "supervisor/process.h"

struct ds_supervisor;

struct ds_settle {
        struct ds_supervisor *supervisor;
        /* time of the next start; while a process runs, time by which it must have made the context switch */
        struct ds_deadline deadline;
        ds_process *process; /* process with the second context; NULL: none runs */
        uint64_t next_ms;    /* earliest time of the next start */
        uint64_t apart_ms;   /* pause that follows the next failure, ms */
        int owed;            /* a context switch was requested and may not have happened */
        int broken;          /* 1: the supervisor itself ends the process, so its end is not a failure */
        int off, told;       /* off: no context switches are made; told: the reason was logged */
};

void ds_settle_init(struct ds_settle *settle, struct ds_supervisor *supervisor);
/* Requests a context switch, because the worker's kernels start late. */
void ds_settle_turn(struct ds_settle *settle);
/* Called when the worker is gone: ends the process, so that it does not disturb the start of the next worker. */
void ds_settle_break(struct ds_settle *settle);
/* Disables context switches for good and kills a running process, whose end is reported by
 * ds_supervisor_check_stop(). */
void ds_settle_stop(struct ds_settle *settle);
/* Called after ds_settle_stop(): the supervisor does not wait for the process any more. */
void ds_settle_leave(struct ds_settle *settle);
int ds_settle_gone(const struct ds_settle *settle);
