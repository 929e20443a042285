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
        /* One frame; its fds are taken with ds_process_take_fds(). Nonzero: a protocol error, and the process is
         * killed. */
        int (*frame)(void *user, const uint8_t *payload, size_t size);
        /* The connection has ended in both directions. Called once. */
        void (*lost)(void *user);
        /*
         * The process was reaped. how: like "exited with status 1". killed: it ended by SIGKILL, so not by its own
         * fault. Called once, after lost. The process may be freed from here on.
         */
        void (*ended)(void *user, const char *how, int killed);
};

/* argv[0] is the program's path. out_max: bytes that may be queued for it. 0 or -errno (also if it cannot be
 * executed). */
int ds_process_spawn(uv_loop_t *loop, const char *const *argv, size_t out_max, const struct ds_process_ops *ops,
        void *user, ds_process **ret);
/* It must have ended. The memory is freed when the loop has closed the handles. NULL is allowed; returns NULL. */
ds_process *ds_process_free(ds_process *process);
/*
 * As ds_process_free(), for a process that may not have ended: sends SIGKILL and does not wait. Only at the very end of
 * this process; its children end with it and are reaped by init.
 */
ds_process *ds_process_leave(ds_process *process);
pid_t ds_process_pid(const ds_process *process);

/* 0, or nonzero: the process is being killed (it does not read, or has ended). */
int ds_process_send(ds_process *process, const void *payload, size_t size, const int *fds, size_t n_fds);
/* 1: it has not read all messages yet. */
int ds_process_is_unread(const ds_process *process);
/*
 * 1: it has enough unread requests, so further ones would only queue there. The loop is then woken as soon as it has
 * read most of them.
 */
int ds_process_has_enough(ds_process *process);
/* 0, or nonzero: fewer than n are there. */
int ds_process_take_fds(ds_process *process, int *fds, size_t n);
/* Replaces the callbacks. The process must be lost; the new `ended` reports its end. */
void ds_process_hand_over(ds_process *process, const struct ds_process_ops *ops, void *user);
/* Sends SIGKILL. why is logged; NULL: no log line. */
void ds_process_kill(ds_process *process, const char *why);
/* 1: it was killed or will be, but may not have ended yet. */
int ds_process_dying(const ds_process *process);
/* Closes the connection, so that the child reads an end of file on fd 3 and exits in order. */
void ds_process_shutdown(ds_process *process);
