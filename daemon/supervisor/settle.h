/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second context, which the GPU turns to for a moment, so that the worker's kernels begin sooner again
 *
 * On an H200 the kernels of a context begin some 0.2 to 0.4 us later, each, after some of it have run on a part of the
 * SMs (a green context that has not all), or code, graphs or memory have come into it: a BERT request of a few hundred
 * kernels takes 1.16 ms instead of 1.03 (docs/gpu.md, "A context beside it"). That lasts until the GPU has worked for
 * another context, however little. Natively some other program is always there to be worked for. Here one process has
 * the only context, so another process has a second one. When the worker says so (worker/stirs.c has when), it writes
 * some bytes of the GPU's memory: the GPU turns to it and back, and who is served meanwhile has one request that takes
 * a quarter of a millisecond longer.
 *
 * The process is started when it is needed first, and ends by itself when it has not been for a minute. The worker
 * neither knows of it nor waits for it, and asks once: a turn that could not be had is owed, until the process has read
 * of one and lived on, or there is another worker. Making its context takes 0.2 to 0.4 s, which costs who is served
 * some 3 ms, each time that it is made. It holds some 500 MiB of the GPU's memory; where these are not there, the next
 * try waits a second, then twice as long each time, up to a minute. A program that asks for the last of the memory
 * meanwhile is told that there is none (`[gpu] settle = never` where that counts). Devices without contexts have none.
 */
#pragma once

#include "supervisor/deadline.h"
#include "supervisor/process.h"

struct ds_supervisor;

struct ds_settle {
        struct ds_supervisor *supervisor;
        struct ds_deadline deadline; /* to start one; while there is one: the turn that it was sent must be over */
        ds_process *process;         /* NULL: none */
        uint64_t next_ms;            /* none is started before */
        uint64_t apart_ms;           /* that the next failure takes from one to the next */
        int owed;                    /* a turn was asked for, and may not have been had */
        int broken;                  /* who runs is ended for no fault of its own */
        int off, told;               /* no more of it; somebody was told why not */
};

void ds_settle_init(struct ds_settle *settle, struct ds_supervisor *supervisor);
/* The worker's kernels begin late: the GPU is to turn to another context now. */
void ds_settle_turn(struct ds_settle *settle);
/* The worker is gone: one that runs must not be in the way of the next one's start. */
void ds_settle_break(struct ds_settle *settle);
/* No more; one that runs is killed, and its end is said by ds_supervisor_check_stop. */
void ds_settle_stop(struct ds_settle *settle);
/* After that: nobody waits for it any longer. */
void ds_settle_leave(struct ds_settle *settle);
int ds_settle_gone(const struct ds_settle *settle);
