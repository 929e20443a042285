/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small macros for every layer
 *
 * They express ownership by two idioms. `ds_cleanup(fn)` runs fn(&var) when the variable leaves its scope.
 * DS_TAKE_PTR/DS_TAKE_FD move the value out, so that the cleanup finds nothing. A constructor builds into a cleanup
 * variable and writes its result last, so an early return leaks nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#define ds_cleanup(fn) __attribute__((__cleanup__(fn)))
#define ds_printf(fmt, args) __attribute__((__format__(__printf__, fmt, args)))
#define ds_unused __attribute__((__unused__))

#define DS_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define DS_MIN(a, b) ((a) < (b) ? (a) : (b))
#define DS_MAX(a, b) ((a) > (b) ? (a) : (b))
#define DS_DIV_UP(n, d) (((n) + (d)-1) / (d))
/* align must be a power of two */
#define DS_ALIGN_UP(n, align) (((n) + (align)-1) & ~((__typeof__(n))(align)-1))
#define DS_CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define DS_KIB(n) ((uint64_t)(n) << 10)
#define DS_MIB(n) ((uint64_t)(n) << 20)
#define DS_GIB(n) ((uint64_t)(n) << 30)
#define DS_TIB(n) ((uint64_t)(n) << 40)
#define DS_NS_PER_US 1000ULL
#define DS_NS_PER_MS 1000000ULL
#define DS_NS_PER_S 1000000000ULL

#define DS_TAKE_PTR(p)                         \
        ({                                     \
                __typeof__(p) ds_take_p = (p); \
                (p) = NULL;                    \
                ds_take_p;                     \
        })

#define DS_TAKE_FD(fd)               \
        ({                           \
                int ds_take_fd = fd; \
                (fd) = -1;           \
                ds_take_fd;          \
        })

/* Closes fd if it is not negative; preserves errno. Returns -1, so that `fd = ds_close(fd)` also clears the
 * variable. */
int ds_close(int fd);

static inline void ds_closep(int *fdp)
{
        *fdp = ds_close(*fdp);
}
