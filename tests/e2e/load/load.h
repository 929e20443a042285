/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients do, without end: the load under which daemons, workers and clients are killed
 *
 * A process has one load. It is opened (again, in the same process, after the daemon was gone) and stepped until a step
 * fails. Steps are short: none waits for more than the daemon takes to answer. Results are checked.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/core.h"

enum load_kind {
        LOAD_RING,    /* allocate, copy, launch, read back; pinned memory, streams, modules; shared memory */
        LOAD_RPC,     /* the same over the socket alone */
        LOAD_WAIT,    /* a kernel that runs for a while, and waiting for it on the page */
        LOAD_SYNC,    /* the same by a request */
        LOAD_SLEEP,   /* a thread that declared itself and sleeps on the device's clock */
        LOAD_PRINT,   /* kernels that print */
        LOAD_IDLE,    /* holds much, does little */
        LOAD_IMAGES,  /* images, which travel as file descriptors */
        LOAD_CONTROL, /* comes, asks for the status, goes */
        LOAD_HALF,    /* frames in two halves */
        LOAD_THREADS, /* four threads, each as LOAD_RING */
        LOAD_CUDA,    /* the drop-in libcuda */
        LOAD_STEADY,  /* holds always the same, and checks every result: a bystander */
        LOAD_KINDS,
};

#define LOAD_E_WRONG (-2) /* a result was not what it must be */
#define LOAD_E_STALE (-3) /* a handle of a daemon that is gone was taken for good */

struct load {
        enum load_kind kind;
        const char *build;
        uint64_t seed;
        const char *what; /* the call that failed, or is under way */
        dsc_session *s;
        uint64_t module, memory, more;
        void *pinned;
        struct dsc_kernel fill, spin, say;
        uint32_t streams[3], count;
        int fd;
        struct load_cuda *cuda;
};

const char *load_name(enum load_kind kind);
/* Once per process, before anything else of the client library. */
void load_init(struct load *load, enum load_kind kind, const char *build, uint64_t seed);
/* 0, or an error: there may be no daemon. What was held of one before is forgotten. */
int load_open(struct load *load);
int load_step(struct load *load);
/* 1 when the error of a step or of opening means that there is no daemon. */
int load_daemon_gone(struct load *load, int error);
/* After another error, of a worker's death: give everything back before it is opened again. */
void load_reset(struct load *load);

/* cuda.c */
struct load_cuda *load_cuda_new(const char *build);
int load_cuda_open(struct load *load);
int load_cuda_step(struct load *load);
/* With handles of a daemon that is gone: every call fails, none crashes. */
int load_cuda_stale(struct load *load);
