/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker: the one process that owns the device
 *
 * It is told by the supervisor (a socket, internal.proto) which sessions there are, reads their submission rings,
 * checks every record, feeds the scheduler, and publishes what ended. One thread owns all of it. ds_worker_turn is the
 * whole loop body, so that a test drives a worker in its own process and on its own thread, over a socketpair, with a
 * simulated device and a clock of its choice; nothing in here reads real time except through config.wall_ns.
 *
 * Clients are hostile: a client's fault ends that client (a SessionFault to the supervisor) or sets its sticky
 * error. The supervisor is trusted; when it is gone or makes no sense the worker ends.
 */
#pragma once

#include <stdint.h>

typedef struct ds_worker ds_worker;
struct ds_device_ops;

/* Contract codes */
#define DS_WORKER_E_DONE 1    /* orderly end: the supervisor is gone, or a stop has been carried out */
#define DS_WORKER_E_LOST 3    /* the device's context is gone, all is said: end the process at once, free nothing */
#define DS_WORKER_E_REFUSED 2 /* the device or policy that was named cannot be used; a line in the log says why */

#define DS_WORKER_FRAME_MAX 262144u
#define DS_WORKER_GRACE_NS (1500 * 1000000ULL) /* what a SIGTERM leaves to running work */

#define DSW_POOL_FOR_MAX 8u

struct ds_worker_config {
        int fd;                    /* to the supervisor; taken over by ds_worker_new, also when that fails */
        int signal_fd;             /* readable = stop (a signalfd); -1 = none; stays the caller's */
        const char *device;        /* "sim:h200" */
        const char *policy;        /* at start */
        const char *policy_dir;    /* "" = only built-in policies */
        int policy_dir_fd;         /* of it, stays the caller's and open; 0 = it is opened by name */
        uint64_t (*wall_ns)(void); /* real time; NULL = CLOCK_MONOTONIC */
        /*
         * Grows from one worker process to the next (256ths of a second since the boot do), below 2^36. Ids that this
         * process gives out are above those of earlier ones, so that an old id is never taken for a new one.
         */
        uint64_t life;
        uint64_t spin_ns; /* without sleeping after a sign of life of LS; 0 = 50 us, or 20 ms beside a GPU with CPUs to
                             spare */
        uint64_t orphan_ns;              /* what work of a closing session gets; 0 = 10 s. See deadline.c */
        uint64_t kernel_ns;              /* what any kernel gets; 0 = no bound */
        uint64_t quiesce_ns;             /* what it gets while others wait for a quiesce; 0 = 60 s */
        uint64_t evict_bound_ns;         /* what an eviction is to take at most; 0 = as the scheduler has it */
        uint64_t piece_ns;               /* of a graph: see graph_piece.h; 0 = 150 us */
        uint32_t ladder_steps;           /* 0 = as the scheduler has it */
        uint32_t ladder_by_gpc;          /* 1: rungs take GPC by GPC */
        const struct ds_device_ops *ops; /* NULL = those of the device's name; else device is what open gets */
        uint32_t transform;              /* enum ds_sched_transform */
        uint64_t pool_bytes;             /* memory whose channels are to be known; 0 = none, or it is given */
        const char *pool_be;             /* best effort's share of them: "1/3", "15"; "auto": as pool_for says */
        uint32_t n_pool_for;
        const char
                *pool_for[DSW_POOL_FOR_MAX]; /* "GPU/SMS=15/47": of that GPU; where it is not there there is no pool */
        const char *lut_dir;                 /* tables of channels lie there; NULL = all of it is probed */
        int lut_dir_fd;                      /* of lut_dir; 0 = it is opened when it is wanted */
        int trust_any_owner;                 /* tests: policies need not be root's */
};

/* Opens the device, builds the scheduler and says Ready. Copies what it needs from config. 0, DS_WORKER_E_REFUSED,
 * errno. */
int ds_worker_new(const struct ds_worker_config *config, ds_worker **ret);
/* Ends everything; NULL is fine; returns NULL. */
ds_worker *ds_worker_free(ds_worker *worker);

/*
 * One turn: do all that can be done now, wait for something to happen, at most timeout_ms (negative = as long as
 * needed, 0 = not at all), and handle it. 0, DS_WORKER_E_DONE, DS_WORKER_E_LOST, or a fatal errno.
 */
int ds_worker_turn(ds_worker *worker, int timeout_ms);
/* Refuse new work and end when idle, at the latest after grace_ns of real time. */
void ds_worker_stop(ds_worker *worker, uint64_t grace_ns);
/* 1 when the end is the supervisor's: nobody will say any more what became of the clients' work. */
int ds_worker_orphaned(const ds_worker *worker);

static inline void ds_worker_freep(ds_worker **p)
{
        *p = ds_worker_free(*p);
}
