/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Harness of the end-to-end tests: a daemon on a private socket, raw protocol clients, and counted checks
 *
 * A test program starts one daemon, uses it as clients do (through the client core, the CUDA library, or raw frames to
 * misbehave), and prints `N passed, N failed` last. Every wait has a deadline. h_baseline() compares what the daemon
 * holds with what it held before: open descriptors, windows, charges, sessions, device memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "detshare.pb-c.h"

/* Counts one check and prints FAIL with the text if ok is 0. Returns ok. */
int h_check(int ok, const char *fmt, ...) __attribute__((__format__(__printf__, 2, 3)));
/* Number of failed checks so far; a child uses it as exit status. */
unsigned h_failures(void);
/* Prints the counts. Returns the exit status for main. */
int h_finish(void);

/*
 * Starts BUILD/detshared with `--socket`, `--device` and the arguments in extra up to NULL, and waits until it serves.
 * DETSHARE_TEST_DEVICE in the environment replaces `device`. One daemon at a time; another may be started after
 * h_daemon_stop.
 */
void h_daemon_start(const char *build, const char *device, const char *const *extra);
/* Kills the daemon with SIGKILL, so its socket file stays. */
void h_daemon_kill(void);
/* Starts another daemon at the same socket. Returns the milliseconds until it served. */
int h_daemon_again(const char *build, const char *device, const char *const *extra);
/* Returns DETSHARE_TEST_DEVICE if it is set, otherwise `device`. */
const char *h_device(const char *device);
/* Returns 1 if h_daemon_start would start a simulated device: checks of its model, clock or threads apply only then. */
int h_simulated(const char *device);
/* Prints that a part is skipped and what it needs; tests/run.sh lists and counts these lines. */
void h_skip(const char *part, const char *needs);
/* Returns 1 for root, since only root can become another user; otherwise prints that the part is skipped. */
int h_is_root(const char *part);
/* Returns 1 on a simulated device; otherwise prints that a part is skipped, and why. */
int h_needs_sim(const char *device, const char *what);
/* Only creates a private directory for h_socket(); another program starts the daemon. */
void h_place(void);
/* Sends SIGTERM to the daemon. Returns the milliseconds until its exit, or -1 if its status was not 0 or 10 s
 * passed. */
int h_daemon_stop(void);
pid_t h_daemon_pid(void);
const char *h_socket(void);

/* Opens a raw connection to the daemon. Returns its descriptor, or -1. */
int h_connect(void);
/* Sends one frame with any bytes. Returns 0 or -1. */
int h_send(int fd, const void *payload, size_t size, const int *fds, size_t n_fds);
/* The next frame's payload (malloc'ed) within ms, or NULL at EOF or timeout. fds: up to 4 received ones, the rest
 * -1. */
uint8_t *h_receive(int fd, int ms, size_t *ret_size, int fds[4]);
/* Sends a request and returns its reply (free with detshare__reply__free_unpacked(reply, NULL)), or NULL if the
 * connection ended. */
Detshare__Reply *h_call(int fd, Detshare__Request *request, int fds[4]);
/* Like h_call, with descriptors beside the request, and within ms. Closes descriptors that come with the reply. */
Detshare__Reply *h_ask(int fd, Detshare__Request *request, const int *fds, size_t n_fds, int ms);
/* Like h_ask, but returns only the reply's status, or -1 without a reply. */
int h_ask_status(int fd, Detshare__Request *request, const int *fds, size_t n_fds, int ms);
/* Declares a request `request` with a body of that type. */
#define H_REQUEST(type, TYPE, CASE, field)                   \
        Detshare__Request request = DETSHARE__REQUEST__INIT; \
        Detshare__##type body = DETSHARE__##TYPE##__INIT;    \
        request.id = 7;                                      \
        request.call_case = DETSHARE__REQUEST__CALL_##CASE;  \
        request.field = &body
/* Connects and sends Hello; fills session and window if not NULL. -1 on failure. */
int h_hello(int control_only, uint64_t *ret_session, uint64_t *ret_base);
/* Returns 1 if the peer closes the connection within ms. */
int h_closed(int fd, int ms);

struct h_status {
        uint32_t sessions, worker_pid, helper_pid, worker_restarts, open_fds, windows, modules, charges;
        uint64_t memory_slabs, memory_used, launches, completed;
        char worker_state[32], policy[32];
};
/* Reads the daemon's status. Returns 0, or -1 if the daemon does not answer. */
int h_status(struct h_status *status);
/* Waits up to ms until the daemon holds what `before` says (sessions, descriptors, windows, charges, memory). Counts
 * as one check. */
void h_baseline(const struct h_status *before, int ms, const char *what);
/* Waits until the daemon is idle. Returns its status, for later comparison. */
struct h_status h_quiet(void);

/*
 * Bound to use for a promise of ms milliseconds: ms itself under DETSHARE_SOAK, where nothing else runs on the machine;
 * otherwise so much more that only an event that never happens exceeds it.
 */
uint64_t h_patience(uint64_t ms);
uint64_t h_now_ms(void);
uint64_t h_now_us(void);
void h_sleep_ms(int ms);
/* Returns a file's bytes, malloc'ed, with a NUL appended */
char *h_read_file(const char *path, size_t *ret_size);
/* Returns "VmRSS" or another line of /proc/PID/status, KiB; -1: none */
long h_memory_kb(pid_t pid, const char *field);
/* Compares two uint32_t for qsort */
int h_by_value(const void *a, const void *b);
/* Changes the mode of the private directory so that other users reach the socket. */
void h_open_socket_directory(void);
/* Returns the next random number by xorshift64*; the seed (argv or time) is printed */
uint64_t h_random(uint64_t *state);

/* A child process that runs `run` with the ends of two pipes, to read from and to write to; its exit status is the
 * return value of `run`. */
struct h_child {
        pid_t pid;
        int to, from; /* the parent's ends */
};
/* Starts a child process; transport: its DETSHARE_TRANSPORT. Ends the test if the child cannot be created. */
struct h_child h_spawn(int (*run)(int in, int out), const char *transport);
