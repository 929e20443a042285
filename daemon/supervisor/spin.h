/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Polling after requests: for a moment the loop does not sleep
 *
 * Problem. A request wakes this process twice (request, answer) and the worker once. These wake-ups take longer than
 * most requests, and a program's start consists of hundreds of requests that follow each other.
 *
 * After a request or its answer the loop therefore polls its sockets without blocking, for at most DS_SPIN_NS. The
 * worker does the same for the time in the request's message (ToWorker.spin_ns), so this file decides for both. With
 * fewer than DS_SPIN_CPUS processors, or with `spin_us = 0`, neither polls.
 *
 * Each user has an account, so that a user who sends requests all the time cannot occupy a processor. Polling is charged
 * to the user of the last request. Time that this process works for a user's requests is credited, and so is 2% of the
 * elapsed time, up to 100 ms of polling. While an account is empty, its user's requests start no polling. In the long
 * run polling therefore costs at most as much as the requests themselves, and 2% of a processor per user, here and
 * again in the worker. An idle daemon does not poll.
 *
 * Polling is harmful if the program gets no processor meanwhile, and useless if it computes for longer between its
 * requests. So an account's polling pauses for DS_SPIN_PAUSE_NS if more than a third of the polling for a next request
 * ends without one.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "util/macro.h"

#define DS_SPIN_NS (50 * DS_NS_PER_US)        /* longest polling after a request or answer */
#define DS_SPIN_CPUS 4                        /* fewest usable processors with which the daemon polls */
#define DS_SPIN_ACCOUNTS 256u                 /* accounts, by uid modulo this number; they outlive connections */
#define DS_SPIN_SHARE 50u                     /* an account gets 1/DS_SPIN_SHARE of the elapsed time */
#define DS_SPIN_SAVED_NS (100 * DS_NS_PER_MS) /* most polling time that an account holds */
#define DS_SPIN_PAUSE_NS (100 * DS_NS_PER_MS)
#define DS_SPIN_VAIN_MAX 12 /* score at which an account's polling pauses */

struct ds_spin_account {
        uint64_t due_ns;    /* time from which there is no debt: each ns of polling moves it DS_SPIN_SHARE ns ahead */
        uint64_t paused_ns; /* time until which polling pauses */
        unsigned vain;      /* score: +2 for polling without a next request, -1 for polling with one, at least 0 */
};

/* Part of struct ds_turns. */
struct ds_spin {
        uv_idle_t idle;    /* active while the loop polls, so that it does not block */
        uint64_t limit_ns; /* polling time after a request or answer, 0: none */
        uid_t uid;         /* user to whom the polling is charged */
        int asked;         /* 1: the current request or answer has led to a request to the worker */
        int awaits;        /* 1: the loop polls for the worker's answer, 0: for the user's next request */
        uint64_t since_ns; /* end of the last request or answer: polling since then is not charged yet */
        uint64_t until_ns; /* end of polling if nothing comes */
        struct ds_spin_account accounts[DS_SPIN_ACCOUNTS];
};

/* Initialises the handle, with a limit of 0. Its memory must stay valid until the loop has closed it. Returns 0 or
 * -errno. */
int ds_spin_init(struct ds_spin *spin, uv_loop_t *loop);
/* Closes the handle. */
void ds_spin_deinit(struct ds_spin *spin);
/* Sets the polling time. spin_us: as configured, 0: not configured. never: the configuration turns polling off. */
void ds_spin_set(struct ds_spin *spin, uint64_t spin_us, int never);
/* Notes that this process has worked for `ns` until now for a request of the user or its answer. Polling begins, or
 * continues. */
void ds_spin_after(struct ds_spin *spin, uid_t uid, uint64_t now_ns, uint64_t ns);
/* Notes a request to the worker for the user. Returns the time for which the worker may poll afterwards, ns; 0: none. */
uint64_t ds_spin_ask(struct ds_spin *spin, uid_t uid, uint64_t now_ns);
