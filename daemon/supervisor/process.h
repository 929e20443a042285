/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child process of the daemon (worker or helper): start, messages, supervision, end
 *
 * The child gets one end of a socketpair as fd 3, /dev/null as standard input and no other open file of the parent; it
 * is killed when its parent ends. `lost` is called as soon as the connection breaks; clients can then be informed.
 * `ended` is called when the child is reaped; then it can be replaced. No callback is called from inside
 * ds_process_send() or ds_process_kill(), so a caller's state does not change during these calls.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

typedef struct ds_process ds_process;

#define DS_PROCESS_FRAME_MAX (256u * 1024)

struct ds_process_ops {
        /* Handles one frame, whose fds are taken with ds_process_take_fds(). Nonzero: the frame violates the
         * protocol, and the process is killed. */
        int (*frame)(void *user, const uint8_t *payload, size_t size);
        /* The connection to the process has ended in both directions. Called once. */
        void (*lost)(void *user);
        /*
         * The process was reaped. how: text like "exited with status 1". killed: SIGKILL ended it, so not its own
         * fault. Called once, after `lost`. The process may be freed from now on.
         */
        void (*ended)(void *user, const char *how, int killed);
};

/* Starts the program argv[0], a path. out_max: most bytes that may be queued for it. Returns 0 or -errno (also if
 * the program cannot be executed). */
int ds_process_spawn(uv_loop_t *loop, const char *const *argv, size_t out_max, const struct ds_process_ops *ops,
        void *user, ds_process **ret);
/* Frees a process that has ended. The loop frees the memory when it has closed the handles. NULL is allowed; returns
 * NULL. */
ds_process *ds_process_free(ds_process *process);
/*
 * Frees a process that may not have ended: sends SIGKILL and does not wait. Only at the very end of this program; its
 * children end with it, and init reaps them.
 */
ds_process *ds_process_leave(ds_process *process);
pid_t ds_process_pid(const ds_process *process);

/* Sends a message. Returns 0; nonzero: the process is being killed, because it does not read or has ended. */
int ds_process_send(ds_process *process, const void *payload, size_t size, const int *fds, size_t n_fds);
/* Whether the process has not read all messages yet. */
int ds_process_is_unread(const ds_process *process);
/*
 * Whether the process has so many unread requests that further ones would only queue up there. If so, the loop is woken
 * as soon as it has read most of them.
 */
int ds_process_has_enough(ds_process *process);
/* Takes n fds of the current frame. Returns 0; nonzero: the frame has fewer. */
int ds_process_take_fds(ds_process *process, int *fds, size_t n);
/* Replaces the callbacks of a process that is lost. The new `ended` reports its end. */
void ds_process_hand_over(ds_process *process, const struct ds_process_ops *ops, void *user);
/* Sends SIGKILL. `why` is logged; NULL: no log line. */
void ds_process_kill(ds_process *process, const char *why);
/* Whether the process was killed, or will be; it may not have ended yet. */
int ds_process_dying(const ds_process *process);
/* Closes the connection, so that the child reads an end of file on fd 3 and exits. */
void ds_process_shutdown(ds_process *process);
