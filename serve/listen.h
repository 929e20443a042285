/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over a Unix socket
 *
 * One thread speaks to all clients and never waits for one of them. Each instance has a thread of its own. Users take
 * turns at the instances; the requests of one user run in the order in which they became complete. What a client can do
 * to others is bounded:
 *
 *  - A connection has one request at a time, and a buffer as long as an input or output of the model is, made when a
 *    request's header is right. So memory is at most connections x that.
 *  - A request that does not come within SV_REQUEST_MS from its first byte, or an answer that is not read in that time,
 *    ends its connection. An instance never waits for a client.
 *  - A request that no instance has come to for `wait_ms` is told so (BUSY): who is in front of it may take forever.
 *  - There are so many connections, half of them for one user at most; where there are no more, one of the same user
 *    that has been idle for SV_IDLE_MS is ended for a new one, else the new one is told BUSY.
 *  - Where all connections are taken, a new one of another user takes one from the user with the most, if that user has
 *    at least two more: an idle one, else the oldest that is in a request or answer, else one whose request waits.
 *  - At most 16 connections are refused before the clients that are there are served again.
 *
 * The socket is the user's own (mode 600); whoever may write to it is served.
 *
 * Latencies: from the request's last byte to the end of its run. On a simulated device only the run counts, because
 * what goes on outside of DetShare has no place on its clock.
 */
#pragma once

#include "serve/cases.h"
#include "serve/clock.h"
#include "serve/samples.h"

#define SV_REQUEST_MS 10000u
#define SV_IDLE_MS 5000u
#define SV_CONNECTIONS_MAX 1024u

struct sv_listen {
        const char *path;
        const struct sv_clock *clock;
        struct sv_instance *instances;
        unsigned n_instances, n_connections;
        uint64_t wait_ms; /* of a request, until an instance takes it */
};

struct sv_heard {
        struct sv_samples samples;
        uint64_t ns;                             /* for which it was served */
        uint64_t bad, slow, late, busy, dropped; /* requests, connections; dropped: idle ones that made room */
};

/* Serves until SIGINT or SIGTERM, which the caller has blocked in all threads. Prints a line when it does. */
int sv_listen_run(const struct sv_listen *listen, struct sv_heard *ret, struct sv_why *why);
