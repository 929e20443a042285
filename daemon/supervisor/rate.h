/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rate: so many requests of one user per second, and so many at once
 *
 * A request beyond the rate is no error: its connection waits, unread, until its turn comes. The connections of a user
 * stand in one line, so that none of them starves, and one deadline wakes the first; how many wait costs nothing.
 * Users do not wait for each other.
 *
 * Kept as the time at which the bucket would be full again: no count that needs to be refilled.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>

#include "supervisor/deadline.h"

/* Embedded in a connection; zero-initialised but for go. */
struct ds_rate_waiter {
        TAILQ_ENTRY(ds_rate_waiter) link;
        int waiting, paid;
        void (*go)(struct ds_rate_waiter *waiter); /* its turn has come: ds_rate_take says yes once more */
};

struct ds_rate {
        struct ds_deadlines *deadlines; /* NULL: nobody waits yet */
        struct ds_deadline deadline;    /* armed while somebody waits */
        uint64_t interval_ns;           /* 0: no bound */
        uint64_t burst;
        uint64_t full_ns; /* when the bucket is full again */
        TAILQ_HEAD(ds_rate_waiters, ds_rate_waiter) waiters;
};

void ds_rate_init(struct ds_rate *rate);
/* Asserts that nobody waits. */
void ds_rate_deinit(struct ds_rate *rate);
/* per_second UINT64_MAX: no bound. burst 0: what a second gives. Who waits goes on by the new numbers. */
void ds_rate_set(struct ds_rate *rate, uint64_t per_second, uint64_t burst);
/* 1: go on. 0: go is called later; until then the waiter's connection is not to be read. */
int ds_rate_take(struct ds_rate *rate, struct ds_deadlines *deadlines, struct ds_rate_waiter *waiter, uint64_t now_ns);
/* One that does not wait is fine. */
void ds_rate_forget(struct ds_rate *rate, struct ds_rate_waiter *waiter);
