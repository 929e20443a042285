/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limit of one user's requests: a number per second, and a burst
 *
 * A request beyond the rate is not an error: its connection waits, unread, for its turn. All waiting connections of a
 * user form one queue, so none starves, and one deadline wakes the first; the cost does not depend on the length of the
 * queue. Users do not wait for each other.
 *
 * The state is the time at which the bucket will be full again, so no counter has to be refilled.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>

#include "supervisor/deadline.h"

/* A connection's place in the queue. Embed it in the connection; zero-initialise all fields but `go`. */
struct ds_rate_waiter {
        TAILQ_ENTRY(ds_rate_waiter) link;
        int waiting, paid;
        /* called when the request is allowed: the next ds_rate_take() returns 1 */
        void (*go)(struct ds_rate_waiter *waiter);
};

struct ds_rate {
        struct ds_deadlines *deadlines; /* NULL until the first connection waits */
        struct ds_deadline deadline;    /* armed while a connection waits */
        uint64_t interval_ns;           /* ns per request; 0: no limit */
        uint64_t burst;
        uint64_t full_ns; /* time when the bucket is full again */
        TAILQ_HEAD(ds_rate_waiters, ds_rate_waiter) waiters;
};

void ds_rate_init(struct ds_rate *rate);
/* Asserts that no connection waits. */
void ds_rate_deinit(struct ds_rate *rate);
/* Sets the limit, also for waiting connections. per_second UINT64_MAX: no limit. burst 0: the requests of one
 * second. */
void ds_rate_set(struct ds_rate *rate, uint64_t per_second, uint64_t burst);
/* Takes one request from the bucket. Returns 1: the request is allowed. 0: `go` is called later; until then the
 * connection must not be read. */
int ds_rate_take(struct ds_rate *rate, struct ds_deadlines *deadlines, struct ds_rate_waiter *waiter, uint64_t now_ns);
/* Removes a waiter from the queue. One that does not wait is allowed. */
void ds_rate_forget(struct ds_rate *rate, struct ds_rate_waiter *waiter);
