/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endless client work: the load under which tests kill daemons, workers and clients
 *
 * A process has one load. It opens the load (again after the daemon's death, in the same process) and steps it until a
 * step fails. A step is short: it waits only for the daemon's replies. Steps check their results.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/core.h"

enum load_kind {
        /* allocates, copies, launches, reads back; uses pinned memory, streams, modules and shared memory */
        LOAD_RING,
        LOAD_RPC,     /* the same work as LOAD_RING, over the socket alone */
        LOAD_WAIT,    /* a kernel that runs for a while; waits on the completion page */
        LOAD_SYNC,    /* the same kernel as LOAD_WAIT; waits by a request */
        LOAD_SLEEP,   /* a declared thread that sleeps on the device's clock */
        LOAD_PRINT,   /* kernels that print */
        LOAD_IDLE,    /* a client that holds many objects and does little */
        LOAD_IMAGES,  /* loads images, sent as file descriptors */
        LOAD_CONTROL, /* connects, requests the status, disconnects */
        LOAD_HALF,    /* sends frames in two halves */
        LOAD_THREADS, /* four threads, each as LOAD_RING */
        LOAD_CUDA,    /* the drop-in libcuda */
        LOAD_STEADY,  /* a bystander that always holds the same objects, and checks every result */
        LOAD_KINDS,
};

#define LOAD_E_WRONG (-2) /* error of a step: a result is wrong */
#define LOAD_E_STALE (-3) /* error of a step: a handle of a dead daemon was accepted */

struct load {
        enum load_kind kind;
        const char *build;
        uint64_t seed;
        const char *what; /* name of the call that failed or is in progress */
        dsc_session *s;
        uint64_t module, memory, more;
        void *pinned;
        struct dsc_kernel fill, spin, say;
        uint32_t streams[3], count;
        int fd;
        struct load_cuda *cuda;
};

const char *load_name(enum load_kind kind);
/* Prepares the load; called once per process, before any other call of the client library. */
void load_init(struct load *load, enum load_kind kind, const char *build, uint64_t seed);
/* Opens the load and forgets everything held before. Returns 0 or an error, for example if there is no daemon. */
int load_open(struct load *load);
int load_step(struct load *load);
/* 1 if the error of a step or of load_open means that there is no daemon. */
int load_daemon_gone(struct load *load, int error);
/* Releases everything after an error other than a dead daemon, such as a worker's death; then load_open may be
 * called again. */
void load_reset(struct load *load);

/* Functions of cuda.c. */
struct load_cuda *load_cuda_new(const char *build);
int load_cuda_open(struct load *load);
int load_cuda_step(struct load *load);
/* Uses handles of a dead daemon: every call must fail, none may crash. */
int load_cuda_stale(struct load *load);
