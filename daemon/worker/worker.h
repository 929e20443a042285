/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker: the one process that owns the device
 *
 * The supervisor informs it of sessions over a socket (internal.proto). The worker reads the sessions' submission
 * rings, checks every record, passes the operations to the scheduler, and publishes completions. One thread owns all of
 * it. ds_worker_turn() is the whole loop body. A test can therefore run a worker in its own process and thread, over a
 * socketpair, with a simulated device and a clock of its choice. The code reads real time only through config.wall_ns.
 *
 * Clients are hostile: a client's fault ends that client (a SessionFault to the supervisor) or sets its sticky error.
 * The supervisor is trusted; if it disappears or violates the protocol, the worker ends.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "sched/sched.h"

typedef struct ds_worker ds_worker;
struct ds_device_ops;

/* Positive return codes of the functions below */
#define DS_WORKER_E_DONE 1    /* orderly end: the supervisor has gone, or a stop is complete */
#define DS_WORKER_E_LOST 3    /* the device's context is lost and reported: end the process at once, free nothing */
#define DS_WORKER_E_REFUSED 2 /* the named device or policy cannot be used; a log line gives the reason */

#define DS_WORKER_FRAME_MAX 262144u
#define DS_WORKER_GRACE_NS (1500 * 1000000ULL) /* time that running work has after a SIGTERM */

#define DSW_POOL_FOR_MAX 8u
#define DS_WORKER_SPIN_NEVER UINT64_MAX

struct ds_worker_config {
        int fd;                 /* socket to the supervisor; ds_worker_new() consumes it, also on failure */
        int signal_fd;          /* readable = stop (a signalfd); -1 = none; the caller keeps it */
        const char *device;     /* name of the device, for example "sim:h200" */
        const char *policy;     /* name of the initial policy */
        const char *policy_dir; /* directory of policies; "" = only built-in policies */
        int policy_dir_fd;      /* open descriptor of policy_dir, which the caller keeps; 0 = open it by name */
        /* further policy directories, searched in this order after policy_dir */
        struct ds_policy_dir more_dirs[DS_POLICY_DIRS_MAX];
        size_t n_more_dirs;
        uint64_t (*wall_ns)(void); /* real time; NULL = CLOCK_MONOTONIC */
        /*
         * Number of this worker process. It increases from one process to the next (it counts 1/256 s since the boot),
         * below 2^36. Ids that this process assigns are above those of earlier processes, so no id is used twice.
         */
        uint64_t life;
        /* time for which the loop polls after LS activity; 0 = 50 us, or 20 ms on a GPU with CPUs to spare;
         * DS_WORKER_SPIN_NEVER = none */
        uint64_t spin_ns;
        uint64_t orphan_ns;      /* time bound of a closing session's work; 0 = 10 s. See deadline.c */
        uint64_t kernel_ns;      /* time bound of any kernel; 0 = none */
        uint64_t quiesce_ns;     /* time bound of a kernel while a quiesce is pending; 0 = 60 s */
        uint64_t evict_bound_ns; /* time bound of an eviction; 0 = the scheduler's default */
        uint64_t piece_ns;       /* expected duration of a graph piece, see graph_piece.h; 0 = 150 us */
        uint32_t ladder_steps;   /* number of rungs of the ladder; 0 = the scheduler's default */
        uint32_t ladder_by_gpc;  /* 1: the ladder adds SMs to its rungs one GPC after another */
        /* device functions; NULL = found by the device's name. If set, `device` is the argument of their open() */
        const struct ds_device_ops *ops;
        uint32_t transform; /* enum ds_sched_transform */
        /* bytes of the pool, i.e. memory whose channels the worker finds out; 0 = no pool, or one passed on by an
         * earlier worker */
        uint64_t pool_bytes;
        /* share of the channels for best effort: "1/3", "15", or "auto": the entry for this GPU in pool_for */
        const char *pool_be;
        uint32_t n_pool_for;
        const char
                /* "GPU/SMS=15/47": share for that GPU model; without an entry there is no pool */
                *pool_for[DSW_POOL_FOR_MAX];
        const char *lut_dir; /* directory of channel tables; NULL = every channel is probed */
        int lut_dir_fd;      /* descriptor of lut_dir; 0 = open it when needed */
        int trust_any_owner; /* for tests: policies need not belong to root */
};

/* Opens the device, builds the scheduler and sends Ready. Copies what it needs from config. Returns 0,
 * DS_WORKER_E_REFUSED, or a negative errno. */
int ds_worker_new(const struct ds_worker_config *config, ds_worker **ret);
/* Ends and frees everything; NULL is allowed; returns NULL. */
ds_worker *ds_worker_free(ds_worker *worker);

/*
 * Runs one turn: does all possible work, waits for the next event for at most timeout_ms (negative = no bound, 0 = no
 * wait), and handles it. Returns 0, DS_WORKER_E_DONE, DS_WORKER_E_LOST, or a fatal errno.
 */
int ds_worker_turn(ds_worker *worker, int timeout_ms);
/* Refuses new work. The worker ends when it is idle, at the latest after grace_ns of real time. */
void ds_worker_stop(ds_worker *worker, uint64_t grace_ns);
/* 1 if the worker ends because the supervisor has gone, so that nobody reports the fate of the clients' work. */
int ds_worker_orphaned(const ds_worker *worker);

static inline void ds_worker_freep(ds_worker **p)
{
        *p = ds_worker_free(*p);
}
