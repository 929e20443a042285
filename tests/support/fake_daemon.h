/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon inside the test: the other end of the client core's protocol, with a knob for each possible fault
 *
 * It listens on a socket of its own and serves each connection in a thread. One more thread is the worker, which
 * consumes the ring. It knows no GPU: a device address stands for a byte of a plain buffer, a launch only counts, and
 * the worker waits for a host function before it consumes anything else. By default it follows the protocol like the
 * real daemon. A hook can see every request first and answer it, drop it, or end the connection.
 *
 * It keeps one session at a time. Each test is a process of its own.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "detshare.pb-c.h"
#include "proto/wire.h"

#define FAKE_WINDOW 0x200000000000u
#define FAKE_WINDOW_BYTES (1ull << 32)
#define FAKE_DEVICE_BYTES (64u << 20)

enum fake_verdict {
        FAKE_DEFAULT,  /* continue as without a hook */
        FAKE_ANSWERED, /* the hook filled the reply */
        FAKE_SILENT,   /* no answer for now */
        FAKE_CLOSE,    /* end the connection */
};

struct fake;
typedef enum fake_verdict (*fake_hook)(struct fake *fake, const Detshare__Request *request, Detshare__Reply *reply);

struct fake {
        char path[108];
        int listen_fd;
        pthread_t acceptor, worker;
        pthread_mutex_t lock;        /* lock for sending */
        pthread_mutex_t attach_lock; /* the attachment */
        _Atomic int client_fd;
        fake_hook hook;
        void *user;

        /* knobs */
        uint64_t window;      /* FAKE_WINDOW unless set before fake_start() */
        uint64_t windows[16]; /* offered one after the other before the fake's own version */
        _Atomic int n_windows;
        _Atomic int restarting; /* number of requests that get the answer RESTARTING */
        _Atomic bool dribble;   /* replies leave byte by byte */
        _Atomic bool paused;    /* the worker does not consume */
        _Atomic bool naps;      /* the worker sleeps on the eventfd whenever the ring is empty */
        _Atomic bool simulated;
        _Atomic bool kick_blocks; /* for the next attachment: writing its eventfd blocks until it is read */
        _Atomic uint64_t clock_ns;
        void (*on_record)(struct fake *fake, const struct ds_record *record);

        /* counters */
        _Atomic uint32_t requests[256]; /* by call case */
        _Atomic uint32_t records[16];   /* by type */
        _Atomic uint32_t connections, sleeps, declared;
        _Atomic uint64_t last_ring_tail;
        char hello_name[64];
        uint32_t hello_class;
        uint64_t hello_slo_ns, hello_limit;
        uint32_t hello_percent, hello_request, hello_share_limit;

        /* the session */
        struct ds_ring_header *ring;
        struct ds_completion_page *page;
        int event_fd;
        uint64_t head;
        _Atomic uint64_t synchronised; /* tail in the ring's header at the worker's last wake-up */
        _Atomic bool worker_runs, worker_stop;
        uint64_t done[DS_STREAMS_MAX]; /* survives the worker */
        int sticky;
        uint8_t *device;
        uint64_t device_used, pinned_used, event_id;
        uint32_t streams;
};

/* Starts listening and sets DETSHARE_SOCKET. */
void fake_start(struct fake *fake);
/* Ends the connection and everything else, as a killed daemon does. */
void fake_stop(struct fake *fake);
/* Answer a request that the hook kept silent about. */
void fake_reply(struct fake *fake, Detshare__Reply *reply, const int *fds, size_t n_fds);
/* The worker dies: error goes into the page; 0 = the daemon has not noticed that anything was lost. */
void fake_worker_dies(struct fake *fake, int error);
/* Publish and wake as the worker does after progress. */
void fake_flush(struct fake *fake);
uint64_t fake_now_ms(void);
