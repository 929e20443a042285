/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/bench_bare.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 4096u
#define RECORD 64

struct ring {
        _Alignas(64) _Atomic uint32_t head; /* number of records written */
        _Alignas(64) _Atomic uint32_t tail; /* number of records read */
        _Alignas(64) char slots[SLOTS][RECORD];
};

static double now_us(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void failed(const char *what)
{
        perror(what);
        exit(1);
}

static void ended(pid_t child)
{
        int status;

        if (waitpid(child, &status, 0) != child || status) {
                fprintf(stderr, "bench: the other process of a bare path failed\n");
                exit(1);
        }
}

static void ring_reader(struct ring *ring, unsigned records)
{
        char record[RECORD];
        uint32_t read = 0;

        while (read < records) {
                if (atomic_load_explicit(&ring->head, memory_order_acquire) == read) {
                        sched_yield();
                        continue;
                }
                memcpy(record, ring->slots[read++ % SLOTS], RECORD);
                atomic_store_explicit(&ring->tail, read, memory_order_release);
        }
}

double bench_bare_ring_us(unsigned records)
{
        struct ring *ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        char record[RECORD] = {1};
        double begin, us;
        pid_t child;

        if (ring == MAP_FAILED || (child = fork()) < 0)
                failed("bench: bare ring");
        if (!child) {
                ring_reader(ring, records);
                _exit(0);
        }
        begin = now_us();
        for (uint32_t written = 0; written < records;) {
                if (written - atomic_load_explicit(&ring->tail, memory_order_acquire) == SLOTS) {
                        sched_yield();
                        continue;
                }
                memcpy(ring->slots[written++ % SLOTS], record, RECORD);
                atomic_store_explicit(&ring->head, written, memory_order_release);
        }
        while (atomic_load_explicit(&ring->tail, memory_order_acquire) != records)
                sched_yield();
        us = (now_us() - begin) / records;
        ended(child);
        munmap(ring, sizeof(*ring));
        return us;
}

/* Waits in poll() and reads one record. Returns 0 at the end of the stream. */
static int pair_read(int fd, char record[static RECORD])
{
        struct pollfd pfd = {.fd = fd, .events = POLLIN};

        return poll(&pfd, 1, -1) == 1 && recv(fd, record, RECORD, MSG_WAITALL) == RECORD;
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

double bench_bare_pair_us(unsigned rounds)
{
        double *us = calloc(rounds, sizeof(*us)), median;
        char record[RECORD] = {1};
        pid_t child;
        int fds[2];

        if (!us || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 || (child = fork()) < 0)
                failed("bench: bare socket pair");
        if (!child) {
                close(fds[0]);
                while (pair_read(fds[1], record) && send(fds[1], record, RECORD, MSG_NOSIGNAL) == RECORD)
                        ;
                _exit(0);
        }
        close(fds[1]);
        for (unsigned i = 0; i < rounds; i++) {
                double begin = now_us();

                if (send(fds[0], record, RECORD, MSG_NOSIGNAL) != RECORD || !pair_read(fds[0], record))
                        failed("bench: bare socket pair");
                us[i] = now_us() - begin;
        }
        close(fds[0]);
        ended(child);
        qsort(us, rounds, sizeof(*us), by_value);
        median = us[rounds / 2];
        free(us);
        return median;
}
