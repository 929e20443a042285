/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls and allocations that fail, in a program that knows nothing of it
 *
 * faults.so is preloaded into the daemon; its processes map the page that DETSHARE_FAULTS names, where a test says
 * which call of which program fails next, how, and how often. Only what goes through the C library's functions is met,
 * which is all that the daemon and libuv do; what libc calls itself (mmap in malloc) is not.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define FAULT_CALLS(X)            \
        X(MALLOC, malloc)         \
        X(FORK, fork)             \
        X(ACCEPT, accept4)        \
        X(MEMFD, memfd_create)    \
        X(FTRUNCATE, ftruncate)   \
        X(MMAP, mmap)             \
        X(RECVMSG, recvmsg)       \
        X(SENDMSG, sendmsg)       \
        X(SOCKETPAIR, socketpair) \
        X(EVENTFD, eventfd)       \
        X(OPEN, open)             \
        X(EPOLL_WAIT, epoll_wait) \
        X(POLL, poll)             \
        X(READ, read)             \
        X(WRITE, write)           \
        X(FCNTL, fcntl)           \
        X(FSTAT, fstat)           \
        X(PREAD, pread)           \
        X(GETSOCKOPT, getsockopt)

enum fault_call {
        FAULT_NONE,
#define X(NAME, name) FAULT_##NAME,
        FAULT_CALLS(X)
#undef X
                _FAULT_MAX,
};

#define FAULT_SHORT (-1) /* instead of an errno: a read or a write of one byte */

struct faults {
        _Atomic int32_t call;  /* enum fault_call */
        _Atomic int32_t error; /* an errno, or FAULT_SHORT */
        _Atomic int64_t left;  /* calls until it begins; negative: it has */
        _Atomic int64_t times; /* how often then; 0: every time */
        _Atomic int64_t fired;
        _Atomic int64_t jump_s; /* CLOCK_REALTIME is off by that, for every program */
        char program[32];       /* as /proc/PID/comm has it, 15 characters */
};
