/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures of system calls and allocations, for a program that is unaware of them
 *
 * faults.so is preloaded into the daemon. Its processes map the page that DETSHARE_FAULTS names. In this page a test
 * states which call of which program fails next, how, and how often. Only calls through the C library's functions can
 * fail, which is every call of the daemon and libuv; calls inside libc (mmap in malloc) cannot.
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

#define FAULT_SHORT (-1) /* instead of an errno: the read or write transfers one byte */

struct faults {
        _Atomic int32_t call;  /* enum fault_call */
        _Atomic int32_t error; /* an errno, or FAULT_SHORT */
        _Atomic int64_t left;  /* calls until the first failure; negative: calls fail now */
        _Atomic int64_t times; /* number of failures; 0: every call */
        _Atomic int64_t fired;
        _Atomic int64_t jump_s; /* seconds added to CLOCK_REALTIME in every program */
        char program[32];       /* name in /proc/PID/comm, 15 characters */
};
