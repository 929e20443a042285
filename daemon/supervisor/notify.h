/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service manager: what it gives us at start, and what we tell it
 *
 * Under systemd the daemon is started with a listening socket (or none), with files that it stored there before it was
 * restarted, and with a watchdog; it says when it is ready, what it does, that it lives, that it reloads, that it
 * stops. Everything here does nothing where there is no service manager, and never fails the daemon: a manager that
 * does not listen is no reason to serve nobody. What comes is read with libsystemd; what we say is sent by ourselves,
 * since the library's call waits for as long as the manager's queue is full, which is not for our loop to wait for.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "util/macro.h"

typedef struct ds_notify ds_notify;

/* Contract codes */
#define DS_NOTIFY_E_NO_STORE 1

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

/*
 * From now on the manager hears that we live, three times in the time that it grants us, as long as this loop turns and
 * alive (NULL: always) returns nonzero. Nothing where it does not ask for it. The handle does not keep the loop
 * running. 0 or -errno.
 */
int ds_notify_watchdog_start(ds_notify *notify, uv_loop_t *loop, int (*alive)(void *user), void *user);
/* The loop must turn once more. Not started is fine. */
void ds_notify_watchdog_stop(ds_notify *notify);

void ds_notify_ready(ds_notify *notify);
void ds_notify_reloading(ds_notify *notify); /* ds_notify_ready ends it */
void ds_notify_stopping(ds_notify *notify);
/* What is under way (start, reload, stop) takes this long from now on, whatever the unit allows. */
void ds_notify_extend(ds_notify *notify, uint32_t seconds);
/* One line for `systemctl status`; the same line again costs nothing. */
void ds_notify_status(ds_notify *notify, const char *fmt, ...) ds_printf(2, 3);

/*
 * How many files the manager keeps for us, 0 = it keeps none. The unit promises that it does (DETSHARE_FDSTORE=1 in its
 * environment, or the number there); the number is the manager's own where it says one (FDSTORE, systemd 254 and
 * later), at most DS_NOTIFY_STORED_MAX.
 */
size_t ds_notify_stores(const ds_notify *notify);
/*
 * Give it a file to keep, under a name of 1 to 255 characters without blank, ':', backslash, quote or control. The
 * caller's fd stays the caller's. While the manager's queue is full this waits for wait_ns, at least 1 ms. 0;
 * DS_NOTIFY_E_NO_STORE; -errno (-EAGAIN: the manager was busy all the time).
 */
int ds_notify_store(ds_notify *notify, const char *name, int fd, uint64_t wait_ns);
/* Wait until the manager has handled what it was told before. 0, or -EAGAIN: not in time, or -errno. */
int ds_notify_sync(ds_notify *notify, uint64_t wait_ns);
/* Forget all files stored under that name. 0, or -errno: they may still be there. */
int ds_notify_unstore(ds_notify *notify, const char *name);

static inline void ds_notify_freep(ds_notify **p)
{
        *p = ds_notify_free(*p);
}
