/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests on their way between the loop that serves clients and the threads of the instances
 *
 * The loop hands requests over here. An instance takes the oldest request of the user served the longest ago, so many
 * requests do not give a user more turns. It runs the request from its connection's buffer into the same buffer, and
 * hands it back. One lock, used in this file alone, guards all shared state. When an instance fails, all instances end
 * after their current request; the loop takes out the requests that still wait.
 *
 * The loop can take out a request that no instance has yet: its client is gone, or it has waited for too long.
 */
#pragma once

#include <pthread.h>

#include "serve/cases.h"
#include "serve/clock.h"
#include "serve/connection.h"
#include "serve/samples.h"

/* Number of users whose turns are remembered. Beyond it, the user served the longest ago counts as never served. */
#define SV_DESK_USERS 64u

struct sv_desk_thread;

struct sv_desk_user {
        uid_t uid;
        uint64_t turn; /* number of the last request that an instance took; 0: none */
};

struct sv_desk {
        const struct sv_clock *clock;
        uint64_t in, out; /* bytes of a request, of an answer */
        int event;        /* readable when a request is done, or an instance has failed */
        unsigned n;
        struct sv_desk_thread *threads;

        pthread_mutex_t lock;
        pthread_cond_t work;
        struct sv_connections waiting, done; /* waiting requests, the oldest first */
        struct sv_desk_user users[SV_DESK_USERS];
        uint64_t turn;              /* requests that instances have taken */
        unsigned n_waiting, n_busy; /* requests; instances that have one */
        bool ends, failed;
        struct sv_why why; /* reason of the failure */
};

/* Starts one thread for each of n instances. The caller closes the desk also after a failure. */
int sv_desk_open(struct sv_desk *desk, const struct sv_clock *clock, const struct sv_subject *subject,
        struct sv_instance *instances, unsigned n, struct sv_why *why);
/* Waits for the end of the threads. 0, or -1: one of them failed, or memory is short. Adds their samples to
 * `samples`. */
int sv_desk_close(struct sv_desk *desk, struct sv_samples *samples, struct sv_why *why);

/* Hands over a connection in state SV_WAITING. */
void sv_desk_give(struct sv_desk *desk, struct sv_connection *connection);
/* true: no instance has taken it, and it is the caller's again. */
bool sv_desk_take_out(struct sv_desk *desk, struct sv_connection *connection);
/*
 * Takes out the request that has waited the longest, if it has waited since `until_ms` or before. NULL: there is none;
 * *ret_since_ms is then the time since which the next one waits, UINT64_MAX if none waits.
 */
struct sv_connection *sv_desk_take_late(struct sv_desk *desk, uint64_t until_ms, uint64_t *ret_since_ms);
/* At shutdown: takes out the last request for which no instance is free. NULL: there is none, or none any more. */
struct sv_connection *sv_desk_take_rest(struct sv_desk *desk);
/* The finished requests. true: an instance failed for the reason *ret_why, and they have no answer. */
bool sv_desk_take_back(struct sv_desk *desk, struct sv_connections *ret, struct sv_why *ret_why);
