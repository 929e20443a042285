/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A forked child of the helper that works on one job, until it ends or its time is over
 *
 * The owner forks it, watches the process descriptor in its loop, and calls ds_child_step() when that is readable and at
 * the deadline. A late child is killed. The child leaves its result in a file that the owner has made.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Embed it in the job. The owner sets pid to what fork() returned. */
struct ds_child {
        pid_t pid;
        int process_fd;
        uint64_t deadline_ns;   /* CLOCK_MONOTONIC */
        int over, status, late; /* status: that of waitpid(), once the child is over */
};

/* Prepares a child whose time is over ms milliseconds from now. */
void ds_child_init(struct ds_child *child, uint64_t ms);
/* After the fork: opens the process descriptor. Returns 0 or a negative errno. */
int ds_child_watch(struct ds_child *child);
/* Returns 1 if the child has ended, else 0. Kills it if its time is over. */
int ds_child_step(struct ds_child *child, uint64_t now_ns);
/* Kills a child that still runs, and closes the descriptor. */
void ds_child_end(struct ds_child *child);
