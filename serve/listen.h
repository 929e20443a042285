/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over a Unix socket
 *
 * One thread serves all clients and never waits for one of them. Each instance has a thread of its own. Users are
 * served round robin; the requests of one user run in the order in which they became complete. The effect of a client
 * on others is bounded:
 *
 * - A connection has one request at a time, and one buffer as long as the model's input or output, allocated after a
 *   valid header. So memory is at most connections x that length.
 * - A connection ends if its request does not arrive within SV_REQUEST_MS from its first byte, or if its answer is not
 *   read in that time. An instance never waits for a client.
 * - A request that waits for an instance longer than `wait_ms` gets BUSY, because the running request may never end.
 * - The number of connections is limited, and one user has at most half of them. At a user's limit a new connection
 *   replaces one of the same user that was idle for SV_IDLE_MS; without such a connection it gets BUSY.
 * - When all connections are in use, a new one of another user replaces one of the user with the most, if that user has
 *   at least two more: an idle one, else the oldest in a request or answer, else one whose request waits.
 * - At most 16 connections are refused before connected clients are served again.
 *
 * The socket belongs to the user (mode 600); every process that may write to it is served.
 *
 * Latency is the time from the request's last byte to the end of its run. On a simulated device only the run counts,
 * because work outside of DetShare has no time on its clock.
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
        uint64_t wait_ms; /* longest wait of a request for an instance, ms */
};

struct sv_heard {
        struct sv_samples samples;
        uint64_t ns; /* duration of serving, ns */
        /* numbers of bad requests, slow connections, late requests, refusals with BUSY, and idle connections that
         * were replaced */
        uint64_t bad, slow, late, busy, dropped;
};

/* Serves until SIGINT or SIGTERM, which the caller has blocked in all threads. Prints a line when it begins to
 * serve. */
int sv_listen_run(const struct sv_listen *listen, struct sv_heard *ret, struct sv_why *why);
