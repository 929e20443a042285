/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service manager: what it gives us at start, and what we tell it
 *
 * Under systemd the daemon is started with a listening socket (or none), with files that it stored there before it was
 * restarted, and with a watchdog; it says when it is ready, what it does, that it lives, that it reloads, that it stops.
 * Everything here does nothing where there is no service manager, and never fails the daemon: a manager that
 * does not listen is no reason to serve nobody. The library behind it is libsystemd; no other file names it for this.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "util/macro.h"

typedef struct ds_notify ds_notify;

#define DS_NOTIFY_SOCKET_NAME "detshared" /* FileDescriptorName= of the listening socket */
#define DS_NOTIFY_STORED_MAX 200000u      /* files taken over at start, at most */

/* What came at start; kept until it is taken. */
struct ds_given_file {
        char *name; /* of the store; "detshared" for the socket */
        int fd;     /* -1: taken */
};

/*
 * Takes over what the environment names (LISTEN_FDS, NOTIFY_SOCKET, WATCHDOG_USEC) and removes it from the environment,
 * so that children do not believe it to be theirs. Every file is close-on-exec afterwards. 0 or -errno.
 */
int ds_notify_new(ds_notify **ret);
/* Closes the files that nobody took. NULL is fine; returns NULL. The watchdog must have been stopped. */
ds_notify *ds_notify_free(ds_notify *notify);

/* The first file of that name, which is the caller's now; -1: none (any more). */
int ds_notify_take(ds_notify *notify, const char *name);
/* All files that are still here. Those taken are -1 then: the caller sets them so. */
struct ds_given_file *ds_notify_files(ds_notify *notify, size_t *ret_n);

/* Tell it off now and then, when it wants that. On this loop; 0 or -errno. */
int ds_notify_watchdog_start(ds_notify *notify, uv_loop_t *loop);
void ds_notify_watchdog_stop(ds_notify *notify);

void ds_notify_ready(ds_notify *notify);
void ds_notify_reloading(ds_notify *notify); /* ds_notify_ready ends it */
void ds_notify_stopping(ds_notify *notify);
/* One line for `systemctl status`. */
void ds_notify_status(ds_notify *notify, const char *fmt, ...) ds_printf(2, 3);

/* Is there a manager that keeps files (FDSTORE was promised by the unit: DETSHARE_FDSTORE=1 in its environment)? */
int ds_notify_stores(const ds_notify *notify);
/*
 * Give it a file to keep, under a name of at most 255 characters without ':' and control characters. The caller's fd stays
 * the caller's. 0; positive when there is no store; -errno.
 */
int ds_notify_store(ds_notify *notify, const char *name, int fd);
/* Forget all files stored under that name. */
void ds_notify_unstore(ds_notify *notify, const char *name);

static inline void ds_notify_freep(ds_notify **p)
{
        *p = ds_notify_free(*p);
}
