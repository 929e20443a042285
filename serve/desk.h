/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the loop that speaks to clients and the threads of the instances
 *
 * The loop gives requests here. An instance takes the oldest request of the user who was served the longest ago, so a
 * user with many requests has no more turns than one with one. It runs the request from its connection's buffer into
 * the same buffer, and puts it back. What the threads share is behind one lock, in this file alone. When an instance
 * fails all of them end, after what they are at; what still waits then is the loop's to take out.
 *
 * A request that no instance has taken yet can be taken out again: its client is gone, or it has waited for too long.
 */
#pragma once

#include <pthread.h>

#include "serve/cases.h"
#include "serve/clock.h"
#include "serve/connection.h"
#include "serve/samples.h"

/* Users whose turns are remembered; when there are more, the one served the longest ago counts as never served. */
#define SV_DESK_USERS 64u

struct sv_desk_thread;

struct sv_desk_user {
        uid_t uid;
        uint64_t turn; /* of the last request that an instance took; 0: none */
};

struct sv_desk {
        const struct sv_clock *clock;
        uint64_t in, out; /* bytes of a request, of an answer */
        int event;        /* readable when there is something to be taken back, or a failure */
        unsigned n;
        struct sv_desk_thread *threads;

        pthread_mutex_t lock;
        pthread_cond_t work;
        struct sv_connections waiting, done; /* waiting: the oldest first */
        struct sv_desk_user users[SV_DESK_USERS];
        uint64_t turn;              /* requests that instances have taken */
        unsigned n_waiting, n_busy; /* requests; instances that have one */
        bool ends, failed;
        struct sv_why why; /* of the failure */
};

/* One thread for each of n instances. After a failure close it, too. */
int sv_desk_open(struct sv_desk *desk, const struct sv_clock *clock, const struct sv_subject *subject,
        struct sv_instance *instances, unsigned n, struct sv_why *why);
/* When the threads have ended. 0, or -1: one of them failed, or memory is short. Their samples are added to `samples`.
 */
int sv_desk_close(struct sv_desk *desk, struct sv_samples *samples, struct sv_why *why);

/* A connection in SV_WAITING. */
void sv_desk_give(struct sv_desk *desk, struct sv_connection *connection);
/* true: it is the caller's again, and no instance has seen it. */
bool sv_desk_take_out(struct sv_desk *desk, struct sv_connection *connection);
/*
 * The one that has waited the longest, if since `until_ms` at least: it is the caller's again. NULL: there is none;
 * *ret_since_ms is since when the next one waits, UINT64_MAX: nobody does.
 */
struct sv_connection *sv_desk_take_late(struct sv_desk *desk, uint64_t until_ms, uint64_t *ret_since_ms);
/* When it is to end: the last one that no instance is free for, the caller's again; NULL: there is none (any more). */
struct sv_connection *sv_desk_take_rest(struct sv_desk *desk);
/* Those that have been run. true: something failed, which *ret_why says, and they have no answer. */
bool sv_desk_take_back(struct sv_desk *desk, struct sv_connections *ret, struct sv_why *ret_why);
