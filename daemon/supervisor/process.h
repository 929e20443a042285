/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of the daemon's own (worker, helper): started, spoken to, watched, buried
 *
 * The child gets one end of a socketpair as fd 3, nothing else that is open here, /dev/null as standard input, and dies
 * with its parent. `lost` comes as soon as the connection breaks, which is when others must be told; `ended` comes
 * when the child is reaped, which is when another may take its place. Nothing of this is called from inside
 * ds_process_send() or ds_process_kill(), so that callers need not expect the world to change under them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

typedef struct ds_process ds_process;

#define DS_PROCESS_FRAME_MAX (256u * 1024)

struct ds_process_ops {
        /* One frame; its fds are taken with ds_process_take_fds. Nonzero: it broke the protocol and is killed. */
        int (*frame)(void *user, const uint8_t *payload, size_t size);
        /* Nothing more comes, nothing can be sent. Once. */
        void (*lost)(void *user);
        /*
         * Reaped: "exited with status 1". killed: by SIGKILL, so not by its own fault. Once, after lost. The process
         * may be freed from here on.
         */
        void (*ended)(void *user, const char *how, int killed);
};

/* argv[0] is the program's path. out_max: bytes that may wait for it. 0 or -errno (also when it cannot be executed). */
int ds_process_spawn(uv_loop_t *loop, const char *const *argv, size_t out_max, const struct ds_process_ops *ops,
        void *user, ds_process **ret);
/* It must have ended. The memory goes when the loop has closed the handles. NULL is fine; returns NULL. */
ds_process *ds_process_free(ds_process *process);
/*
 * The same of one that may not have ended: SIGKILL, and nobody waits for what comes of it. Only for the last moments of
 * this process, whose children end with it and are reaped by others.
 */
ds_process *ds_process_leave(ds_process *process);
pid_t ds_process_pid(const ds_process *process);

/* 0, or nonzero: it is being killed (it does not read, or is gone already). */
int ds_process_send(ds_process *process, const void *payload, size_t size, const int *fds, size_t n_fds);
/* Whether something that was sent to it has not been read yet. */
int ds_process_is_unread(const ds_process *process);
/*
 * 1 while it has some requests to read already, so that more would only wait there, behind each other. Then the loop
 * turns as soon as it has read most of them.
 */
int ds_process_has_enough(ds_process *process);
/* 0 or nonzero when there are fewer. */
int ds_process_take_fds(ds_process *process, int *fds, size_t n);
/* From now on others hear of it. It must be lost; whether it has ended they will hear. */
void ds_process_hand_over(ds_process *process, const struct ds_process_ops *ops, void *user);
/* SIGKILL. why is logged, NULL = silently. */
void ds_process_kill(ds_process *process, const char *why);
/* It was killed, or is to be; its end may be still to come. */
int ds_process_dying(const ds_process *process);
/* End of file on its fd 3: the polite way to make it go. */
void ds_process_shutdown(ds_process *process);
