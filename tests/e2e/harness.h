/* SPDX-License-Identifier: Apache-2.0 */
/*
 * End-to-end tests: a real daemon on a private socket, raw protocol clients, and checks that are counted
 *
 * A test program starts one daemon, speaks to it as clients do (through the client core, the CUDA face, or raw frames
 * when it must misbehave), and ends with `N passed, N failed`. Every wait has a deadline. h_baseline() compares what
 * the daemon holds with what it held before: open fds, windows, charges, sessions, device memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "detshare.pb-c.h"

/* Count one check; prints FAIL with the text when it does not hold. Returns ok. */
int h_check(int ok, const char *fmt, ...) __attribute__((__format__(__printf__, 2, 3)));
/* Checks that did not hold so far, for the exit status of a child. */
unsigned h_failures(void);
/* Prints the count; the exit status of main. */
int h_finish(void);

/*
 * Start BUILD/detshared with `--socket` and `--device`, and extra arguments up to NULL; waits until it serves. What the
 * environment names in DETSHARE_TEST_DEVICE wins over `device`. One at a time; another may be started after
 * h_daemon_stop.
 */
void h_daemon_start(const char *build, const char *device, const char *const *extra);
/* SIGKILL: the socket stays where it was. */
void h_daemon_kill(void);
/* Start another one at the same socket; returns the milliseconds until it served. */
int h_daemon_again(const char *build, const char *device, const char *const *extra);
/* What DETSHARE_TEST_DEVICE names, else `device`. */
const char *h_device(const char *device);
/* 1 when h_daemon_start would start a simulated device: what is about its model, its clock or its threads is for it
 * only. */
int h_simulated(const char *device);
/* Print that a part is skipped, and what it needs; tests/run.sh lists and counts these lines. */
void h_skip(const char *part, const char *needs);
/* 1 for root, who can become another user; otherwise skips the part. */
int h_is_root(const char *part);
/* 1 on a simulated device; otherwise prints that a part is left out, and why. */
int h_needs_sim(const char *device, const char *what);
/* Only the place: h_socket() in a directory of its own, for a daemon that somebody else starts. */
void h_place(void);
/* SIGTERM; returns the milliseconds until exit, or -1 when the exit status was not 0 or 10 s passed. */
int h_daemon_stop(void);
pid_t h_daemon_pid(void);
const char *h_socket(void);

/* A raw connection: -1 on failure. */
int h_connect(void);
/* Send one frame (any bytes). 0 or -1. */
int h_send(int fd, const void *payload, size_t size, const int *fds, size_t n_fds);
/* The next frame's payload (malloc'ed) within ms; NULL at EOF or timeout. fds: up to 4 received, -1 filled. */
uint8_t *h_receive(int fd, int ms, size_t *ret_size, int fds[4]);
/* Request and its reply (free with detshare__reply__free_unpacked(reply, NULL)); NULL when the connection ended. */
Detshare__Reply *h_call(int fd, Detshare__Request *request, int fds[4]);
/* The same with fds beside the request, within ms; fds that come with the reply are closed. */
Detshare__Reply *h_ask(int fd, Detshare__Request *request, const int *fds, size_t n_fds, int ms);
/* Only the reply's status; -1 when there was none. */
int h_ask_status(int fd, Detshare__Request *request, const int *fds, size_t n_fds, int ms);
/* `Detshare__Request request` with a body of that type. */
#define H_REQUEST(type, TYPE, CASE, field)                   \
        Detshare__Request request = DETSHARE__REQUEST__INIT; \
        Detshare__##type body = DETSHARE__##TYPE##__INIT;    \
        request.id = 7;                                      \
        request.call_case = DETSHARE__REQUEST__CALL_##CASE;  \
        request.field = &body
/* Connect and say hello; fills session and window when not NULL. -1 on failure. */
int h_hello(int control_only, uint64_t *ret_session, uint64_t *ret_base);
/* 1 when the peer closes within ms. */
int h_closed(int fd, int ms);

struct h_status {
        uint32_t sessions, worker_pid, helper_pid, worker_restarts, open_fds, windows, modules, charges;
        uint64_t memory_slabs, memory_used, launches, completed;
        char worker_state[32], policy[32];
};
/* 0, or -1 when the daemon does not answer. */
int h_status(struct h_status *status);
/* Wait up to ms until the daemon holds what `before` says (sessions, fds, windows, charges, memory); counts as one
 * check. */
void h_baseline(const struct h_status *before, int ms, const char *what);
/* A status of a quiet daemon to compare with. */
struct h_status h_quiet(void);

/*
 * What a promise of so many milliseconds is held to: itself under DETSHARE_SOAK, where nothing else runs on the
 * machine; else so much more that only what never comes is missed.
 */
uint64_t h_patience(uint64_t ms);
uint64_t h_now_ms(void);
uint64_t h_now_us(void);
void h_sleep_ms(int ms);
/* a file's bytes, malloc'ed, NUL behind */
char *h_read_file(const char *path, size_t *ret_size);
/* "VmRSS" or another line of /proc/PID/status, -1 = none */
long h_memory_kb(pid_t pid, const char *field);
/* qsort's, for uint32_t */
int h_by_value(const void *a, const void *b);
/* Other users may reach the socket. */
void h_open_socket_directory(void);
/* xorshift64* with a printed seed: argv or time */
uint64_t h_random(uint64_t *state);

/* A process of its own that runs `run` with the ends of two pipes to read and to write; its status is what that
 * returns. */
struct h_child {
        pid_t pid;
        int to, from; /* our ends */
};
/* transport: its DETSHARE_TRANSPORT. Ends the test when there can be none. */
struct h_child h_spawn(int (*run)(int in, int out), const char *transport);
