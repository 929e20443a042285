/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/process.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "supervisor/poll.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/frame.h"
#include "util/log.h"
#include "util/macro.h"

#define CHILD_FD 3
/* size of the socket's buffers, bytes; a quarter of it holds about four small frames */
#define WINDOW_BYTES (16u << 10)
/* after a child has ended: consecutive reads that return no whole frame, before the supervisor stops reading */
#define LAST_READS 64
#define LAST_FRAMES 4096             /* most frames accepted after a child has ended */
#define READ_NS (100 * DS_NS_PER_US) /* longest time to read from one process before the loop serves other handles */

struct ds_process {
        uv_poll_t poll;
        uv_signal_t child;
        int handles; /* libuv handles that are not closed yet */
        ds_conn *conn;
        pid_t pid;
        int events;  /* events of the socket that the loop polls for */
        int awaited; /* 1: the loop waits until the child has read the messages in its socket */
        int broken;  /* 1: the child is being killed, and its further messages are ignored */
        int lost, ended;
        char name[32];
        const struct ds_process_ops *ops;
        void *user;
};

static void process_poll(ds_process *process);

/* Runs in the child between fork and exec, so it may call async-signal-safe functions only. */
static void child_exec(int fd, pid_t parent, const char *const *argv)
{
        sigset_t none;
        int null;

        for (int sig = 1; sig < 32; sig++)
                signal(sig, SIG_DFL);
        signal(SIGINT, SIG_IGN); /* a terminal sends SIGINT to parent and child; the parent decides what to do */
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(127);
        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0)
                _exit(127);
        if (fd == CHILD_FD ? fcntl(fd, F_SETFD, 0) < 0 : dup2(fd, CHILD_FD) < 0)
                _exit(127);
        if (close_range(CHILD_FD + 1, ~0U, 0) < 0)
                _exit(127);
        execv(argv[0], (char *const *)argv);
        _exit(127);
}

static int spawn(const char *const *argv, pid_t *ret_pid, int *ret_fd)
{
        ds_cleanup(ds_closep) int ours = -1, theirs = -1;
        pid_t parent = getpid(), pid;
        int fds[2];

        if (access(argv[0], X_OK) < 0)
                return ds_error_origin(-errno);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
                return ds_error_origin(-errno);
        ours = fds[0];
        theirs = fds[1];
        pid = fork();
        if (pid < 0)
                return ds_error_origin(-errno);
        if (pid == 0)
                child_exec(theirs, parent, argv);
        *ret_pid = pid;
        *ret_fd = DS_TAKE_FD(ours);
        return 0;
}

static void handle_closed(uv_handle_t *handle)
{
        ds_process *process = handle->data;

        if (--process->handles > 0)
                return;
        ds_conn_free(process->conn);
        ds_free(process);
}

static void close_handles(ds_process *process)
{
        uv_close((uv_handle_t *)&process->poll, handle_closed);
        uv_close((uv_handle_t *)&process->child, handle_closed);
}

static void set_lost(ds_process *process)
{
        if (process->lost)
                return;
        process->lost = 1;
        process->events = 0;
        uv_poll_stop(&process->poll);
        process->ops->lost(process->user);
}

/* Reads the socket once and handles the frames. Returns 0 to continue, 1: the connection has ended. *ret_n: number
 * of frames. */
static int read_some(ds_process *process, int *ret_n)
{
        const uint8_t *payload;
        size_t size;
        int r, n = 0;

        r = ds_conn_read(process->conn);
        if (r < 0)
                (void)ds_error_trace(r);
        while (!process->broken && (n = ds_conn_next(process->conn, &payload, &size)) == 1) {
                ++*ret_n;
                if (process->ops->frame(process->user, payload, size))
                        ds_process_kill(process, "it broke the protocol");
        }
        if (!process->broken && (n < 0 || (r && r != DS_CONN_E_CLOSED)))
                ds_process_kill(process, "it broke the framing");
        return r != 0 || process->broken;
}

/* Reads and handles frames until no data is left or READ_NS have passed: answers have precedence over further
 * requests of clients. Returns as read_some(). */
static int read_frames(ds_process *process)
{
        const uint64_t until = uv_hrtime() + READ_NS;
        int all = 0, before, r;

        do {
                before = all;
                r = read_some(process, &all);
        } while (!r && all > before && uv_hrtime() < until);
        return r;
}

/* Reads the frames that a child left in the socket when it ended. */
static void read_last_words(ds_process *process)
{
        int all = 0, before, still = 0;

        /* bounded, because a process that the child left behind may hold the socket and send half a frame, or
         * endless frames */
        while (!process->lost && still < LAST_READS && all < LAST_FRAMES) {
                before = all;
                if (read_some(process, &all))
                        return;
                if (all == before && !ds_conn_partial(process->conn))
                        return;
                still = all == before ? still + 1 : 0;
        }
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
        ds_process *process = poll->data;

        if (status < 0 || ((events & UV_WRITABLE) && ds_conn_flush(process->conn)))
                ds_process_kill(process, NULL);
        if (events & UV_WRITABLE)
                process->awaited = 0;
        if (((events & (UV_READABLE | UV_DISCONNECT)) && read_frames(process)) || process->broken) {
                /* another process may hold the socket open, so an end of file may never come: the child counts as
                 * lost now */
                kill(process->pid, SIGKILL);
                set_lost(process);
                return;
        }
        process_poll(process);
}

static void process_poll(ds_process *process)
{
        int writable = process->awaited || ds_conn_wants_write(process->conn);
        int events = UV_READABLE | UV_DISCONNECT | (writable ? UV_WRITABLE : 0);

        if (process->lost || events == process->events)
                return;
        process->events = events;
        if (ds_poll_start(&process->poll, events, poll_cb))
                ds_process_kill(process, "its socket cannot be polled");
}

static void child_cb(uv_signal_t *handle, int signum)
{
        ds_process *process = handle->data;
        char how[64];
        int status;

        if (process->ended || !process->pid || waitpid(process->pid, &status, WNOHANG) != process->pid)
                return;
        uv_signal_stop(&process->child);
        if (WIFSIGNALED(status))
                snprintf(how, sizeof(how), "was killed by signal %d", WTERMSIG(status));
        else
                snprintf(how, sizeof(how), "exited with status %d", WEXITSTATUS(status));
        read_last_words(process);
        process->ended = 1;
        set_lost(process);
        process->ops->ended(process->user, how, WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Watches for the child's end. Called before the fork: a child may end before fork() returns, and its SIGCHLD must
 * be handled. */
static int process_watch(ds_process *process, uv_loop_t *loop)
{
        int r = uv_signal_init(loop, &process->child);

        if (r < 0)
                return ds_error_origin(r);
        process->handles++;
        r = uv_signal_start(&process->child, child_cb, SIGCHLD);
        return r < 0 ? ds_error_origin(r) : 0;
}

static int process_open(ds_process *process, uv_loop_t *loop, int fd, size_t out_max)
{
        int r;

        r = ds_conn_new(fd, DS_PROCESS_FRAME_MAX, out_max, &process->conn);
        if (r)
                return ds_error_fold(r);
        ds_conn_set_window(process->conn, WINDOW_BYTES);
        r = uv_poll_init(loop, &process->poll, fd);
        if (r < 0)
                return ds_error_origin(r);
        process->handles++;
        process_poll(process);
        return 0;
}

/* Frees a process that could not be watched: kills it and closes its handles. */
static void process_abandon(ds_process *process)
{
        if (process->pid > 0) {
                kill(process->pid, SIGKILL);
                waitpid(process->pid, NULL, 0);
        }
        if (process->handles == 0) {
                ds_conn_free(process->conn);
                ds_free(process);
                return;
        }
        if (process->handles == 2)
                uv_close((uv_handle_t *)&process->poll, handle_closed);
        uv_close((uv_handle_t *)&process->child, handle_closed);
}

int ds_process_spawn(uv_loop_t *loop, const char *const *argv, size_t out_max, const struct ds_process_ops *ops,
        void *user, ds_process **ret)
{
        ds_process *process = ds_alloc0(1, sizeof(*process));
        const char *base = strrchr(argv[0], '/');
        int r, fd = -1;

        assert(ops->frame && ops->lost && ops->ended);
        if (!process)
                return ds_error_origin(-ENOMEM);
        process->ops = ops;
        process->user = user;
        process->poll.data = process;
        process->child.data = process;
        snprintf(process->name, sizeof(process->name), "%s", base ? base + 1 : argv[0]);
        r = process_watch(process, loop);
        if (!r)
                r = spawn(argv, &process->pid, &fd);
        if (!r)
                r = process_open(process, loop, fd, out_max);
        if (r) {
                process_abandon(process);
                return ds_error_trace(r);
        }
        *ret = process;
        return 0;
}

ds_process *ds_process_free(ds_process *process)
{
        if (!process)
                return NULL;
        assert(process->ended);
        assert(process->lost);
        close_handles(process);
        return NULL;
}

ds_process *ds_process_leave(ds_process *process)
{
        if (!process)
                return NULL;
        ds_process_kill(process, NULL);
        process->lost = process->ended = 1;
        return ds_process_free(process);
}

pid_t ds_process_pid(const ds_process *process)
{
        return process->pid;
}

int ds_process_send(ds_process *process, const void *payload, size_t size, const int *fds, size_t n_fds)
{
        int r;

        if (process->lost || process->broken)
                return -EPIPE;
        r = ds_conn_send(process->conn, payload, size, fds, n_fds);
        if (r) {
                ds_process_kill(process, r == DS_CONN_E_FULL ? "it does not read" : NULL);
                return -EPIPE;
        }
        process_poll(process);
        return 0;
}

int ds_process_is_unread(const ds_process *process)
{
        return ds_conn_is_unread(process->conn);
}

int ds_process_has_enough(ds_process *process)
{
        if (process->lost || process->broken || !ds_conn_window_full(process->conn))
                return 0;
        process->awaited = 1;
        process_poll(process);
        return 1;
}

int ds_process_take_fds(ds_process *process, int *fds, size_t n)
{
        return ds_conn_take_fds(process->conn, fds, n);
}

void ds_process_hand_over(ds_process *process, const struct ds_process_ops *ops, void *user)
{
        assert(process->lost);
        assert(ops->ended);
        process->ops = ops;
        process->user = user;
}

void ds_process_kill(ds_process *process, const char *why)
{
        if (process->ended)
                return;
        if (why && !process->broken)
                ds_log(DS_LOG_ERROR, "%s (pid %d) is being killed: %s", process->name, (int)process->pid, why);
        process->broken = 1;
        kill(process->pid, SIGKILL);
}

int ds_process_dying(const ds_process *process)
{
        return process->broken;
}

void ds_process_shutdown(ds_process *process)
{
        if (!process->lost)
                shutdown(ds_conn_fd(process->conn), SHUT_WR);
}
