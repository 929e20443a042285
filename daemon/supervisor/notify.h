/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface to the service manager
 *
 * systemd may start the daemon with a listening socket, with files that it stored before a restart, and with a
 * watchdog. The daemon reports that it is ready, its status, that it is alive, that it reloads, and that it stops.
 *
 * Without a service manager every function here does nothing. No failure here ends the daemon: it serves clients even
 * if the manager does not respond. Input is read with libsystemd. Messages are sent by this code, because libsystemd's
 * function blocks while the manager's queue is full, which the loop must not do.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "util/macro.h"

typedef struct ds_notify ds_notify;

/* Positive return codes of the functions below */
#define DS_NOTIFY_E_NO_STORE 1

#define DS_NOTIFY_SOCKET_NAME "detshared" /* name of the listening socket in the unit (FileDescriptorName=) */
#define DS_NOTIFY_STORED_MAX 200000u      /* most files accepted at start */

/* A file that the manager passed at the start; it is kept until it is taken. */
struct ds_given_file {
        char *name; /* its name in the store; "detshared" for the socket */
        int fd;     /* -1: the file was taken */
};

/*
 * Reads the environment (LISTEN_FDS, NOTIFY_SOCKET, WATCHDOG_USEC) and removes these variables, so that child processes
 * do not use them. Afterwards every file is close-on-exec. 0 or -errno.
 */
int ds_notify_new(ds_notify **ret);
/* Closes the files that were not taken. NULL is allowed; returns NULL. The watchdog must be stopped before. */
ds_notify *ds_notify_free(ds_notify *notify);

/* Takes the first file of that name, which the caller owns afterwards; -1: none left. */
int ds_notify_take(ds_notify *notify, const char *name);
/* All files that were not taken yet. The caller sets those that it takes to -1. */
struct ds_given_file *ds_notify_files(ds_notify *notify, size_t *ret_n);

/*
 * Sends a watchdog message three times per watchdog timeout while the loop runs and alive() returns nonzero (NULL:
 * always). Does nothing if the unit has no watchdog. The timer does not keep the loop running. 0 or -errno.
 */
int ds_notify_watchdog_start(ds_notify *notify, uv_loop_t *loop, int (*alive)(void *user), void *user);
/* Stops the watchdog messages. The loop must run once more. Allowed if they were not started. */
void ds_notify_watchdog_stop(ds_notify *notify);

void ds_notify_ready(ds_notify *notify);
void ds_notify_reloading(ds_notify *notify); /* the reload ends with ds_notify_ready() */
void ds_notify_stopping(ds_notify *notify);
/* Extends the timeout of the current start, reload or stop to this time from now, beyond the unit's limit. */
void ds_notify_extend(ds_notify *notify, uint32_t seconds);
/* Sets the status line of `systemctl status`; an unchanged line is not sent again. */
void ds_notify_status(ds_notify *notify, const char *fmt, ...) ds_printf(2, 3);

/*
 * Returns the number of files that the manager stores for the daemon, 0: none. The unit enables the store with
 * DETSHARE_FDSTORE=1 or a number in its environment. The manager's own number (FDSTORE, systemd 254 and later) has
 * precedence; at most DS_NOTIFY_STORED_MAX.
 */
size_t ds_notify_stores(const ds_notify *notify);
/*
 * Stores a file under a name of 1 to 255 characters without blank, ':', backslash, quote or control character. The
 * caller keeps its fd. Waits up to wait_ns, at least 1 ms, while the manager's queue is full. 0; DS_NOTIFY_E_NO_STORE;
 * -errno (-EAGAIN: the manager was busy all the time).
 */
int ds_notify_store(ds_notify *notify, const char *name, int fd, uint64_t wait_ns);
/* Waits until the manager has handled all earlier messages. 0, -EAGAIN: not in time, or -errno. */
int ds_notify_sync(ds_notify *notify, uint64_t wait_ns);
/* Removes all files stored under that name. 0, or -errno: they may still be stored. */
int ds_notify_unstore(ds_notify *notify, const char *name);

static inline void ds_notify_freep(ds_notify **p)
{
        *p = ds_notify_free(*p);
}
