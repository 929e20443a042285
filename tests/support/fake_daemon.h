/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon inside the test: the server side of the client core's protocol, with knobs for every failure
 *
 * It listens on its own socket and serves each connection in a thread; another thread is the worker, which consumes the
 * ring. There is no GPU: a device address stands for a byte of a buffer, a launch is only counted, and the worker waits
 * for each host function before it consumes the next record. Default replies follow the protocol. A hook may handle
 * every request first: reply, drop it, or close the connection.
 *
 * It keeps one session at a time; each test is its own process.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "detshare.pb-c.h"
#include "proto/slo.h"
#include "proto/wire.h"

#define FAKE_WINDOW 0x200000000000u
#define FAKE_WINDOW_BYTES (1ull << 32)
#define FAKE_DEVICE_BYTES (64u << 20)

enum fake_verdict {
        FAKE_DEFAULT,  /* the hook leaves the request: continue as without a hook */
        FAKE_ANSWERED, /* the hook filled in the reply */
        FAKE_SILENT,   /* the hook sends no reply now, perhaps one later */
        FAKE_CLOSE,    /* close the connection */
};

struct fake;
typedef enum fake_verdict (*fake_hook)(struct fake *fake, const Detshare__Request *request, Detshare__Reply *reply);

struct fake {
        char path[108];
        int listen_fd;
        pthread_t acceptor, worker;
        pthread_mutex_t lock;        /* serialises replies */
        pthread_mutex_t attach_lock; /* protects the attachment */
        _Atomic int client_fd;
        fake_hook hook;
        void *user;

        /* settings by the test */
        uint64_t window;      /* address of the window, FAKE_WINDOW unless set before fake_start() */
        uint64_t windows[16]; /* windows that the daemon offers before `window`, one after the other */
        _Atomic int n_windows;
        _Atomic int restarting; /* number of requests that get the status RESTARTING */
        _Atomic bool dribble;   /* sends replies byte by byte */
        _Atomic bool paused;    /* the worker does not consume */
        _Atomic bool naps;      /* the worker sleeps on the eventfd whenever the ring is empty */
        _Atomic bool simulated;
        _Atomic bool objects;         /* the ring's record OBJECT is accepted */
        _Atomic uint64_t spare_bytes; /* AttachReply.spare_bytes */
        _Atomic bool kick_blocks;     /* 1: in the next attachment, writing to the eventfd blocks until it is read */
        _Atomic uint64_t clock_ns;
        void (*on_record)(struct fake *fake, const struct ds_record *record);

        /* observations for the test */
        _Atomic uint32_t requests[256]; /* number of requests by call case */
        _Atomic uint32_t records[16];   /* number of records by record type */
        _Atomic uint32_t connections, sleeps, declared;
        _Atomic uint64_t last_ring_tail;
        char hello_name[64];
        uint32_t hello_class;
        struct ds_slo hello_slo;
        uint64_t hello_limit;
        uint32_t hello_percent, hello_request, hello_share_limit;

        /* state of the session */
        struct ds_ring_header *ring;
        struct ds_completion_page *page;
        int event_fd;
        uint64_t head;
        _Atomic uint64_t synchronised; /* value of the ring header's `synchronised` when the worker last woke */
        _Atomic bool worker_runs, worker_stop;
        /* The worker's thread and its death write these two, and the thread that answers Query reads them. */
        _Atomic uint64_t done[DS_STREAMS_MAX]; /* last completed operation of each stream; a new worker goes on there */
        _Atomic int sticky;
        uint8_t *device;
        uint64_t device_used, pinned_used, event_id;
        uint32_t streams;
};

/* Starts listening and sets DETSHARE_SOCKET. */
void fake_start(struct fake *fake);
/* Closes the connection and everything else, as the kill of a daemon does. */
void fake_stop(struct fake *fake);
/* Replies to a request for which the hook returned FAKE_SILENT. */
void fake_reply(struct fake *fake, Detshare__Reply *reply, const int *fds, size_t n_fds);
/* Ends the worker and stores the error in the page; 0: the daemon has not noticed any loss. */
void fake_worker_dies(struct fake *fake, int error);
/* Publishes progress and wakes clients, as the worker does. */
void fake_flush(struct fake *fake);
uint64_t fake_now_ms(void);
