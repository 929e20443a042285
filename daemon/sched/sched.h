/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler: coroutines, their queues, the ladder of rungs, and the policy that moves work between them
 *
 * One owner, one thread. Everything that happens (an operation submitted, a completion, a timer, a session that comes
 * or goes) is a step function with the time as an argument; nothing here reads a clock, sleeps or blocks. The device is
 * reached through its vtable only. What an operation's end means to a client is told through one callback.
 *
 * A coroutine is one client stream: an in-order queue of operations. Order inside a coroutine, waits between
 * coroutines (ds_op_wait) and the legacy default stream's joins are resolved here, never on the GPU.
 * The policy (a plug-in, see policies/detshare_policy.h) sees a snapshot and returns actions; an action that makes no
 * sense is ignored and counted, and a policy that fails or overruns is replaced by the built-in one ("fifo").
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "policies/detshare_policy.h"

typedef struct ds_coroutine ds_coroutine;
typedef struct ds_sched ds_sched;
typedef struct ds_sched_session ds_sched_session;

/* Contract codes */
#define DS_SCHED_E_NO_POLICY 1  /* no such policy */
#define DS_SCHED_E_BAD_PARAM 2  /* unknown parameter or out of range; see the message */
#define DS_SCHED_E_REFUSED 3    /* the plug-in is not usable (ABI, ownership, init); see the message */
#define DS_SCHED_E_FULL 4       /* the coroutine's queue or the session's is full */

#define DS_SCHED_QUEUE_MAX 4096 /* operations per coroutine */

enum ds_op_kind {
        DS_OP_LAUNCH,
        DS_OP_COPY,
        DS_OP_MEMSET,
        DS_OP_MARK, /* no work: ends when everything before it in the coroutine ended; its time is an event's time */
        DS_OP_WAIT, /* no work: ends when coroutine `wait_for` has ended sequence number `wait_seq` */
        _DS_OP_KIND_MAX,
};

/*
 * An operation, embedded by the caller in what it belongs to or allocated alone; owned by the scheduler from submit
 * until the done callback, which may free it. The stream fields of launch/copy/memset are filled by the scheduler.
 */
struct ds_op {
        enum ds_op_kind kind;
        uint64_t seq;          /* set by submit: 1, 2, ... per coroutine */
        uint64_t user;         /* the caller's */
        union {
                struct ds_launch launch; /* params point to memory that lives until done */
                struct ds_copy copy;
                struct ds_memset memset;
                struct {
                        ds_coroutine *wait_for;
                        uint64_t wait_seq;
                };
        };
        uint64_t kernel_key;   /* launch: identity of kernel and shape for the statistics, 0 = let the scheduler hash it */
        /* scheduler's own */
        struct ds_op *next;
        ds_coroutine *coroutine;
        uint64_t submitted_ns, launched_ns;
};

/* status: CUDA error number; message is NULL unless status is an error. Called from step functions, in order per coroutine. */
typedef void (*ds_op_done_fn)(void *user, struct ds_op *op, int status, uint64_t start_ns, uint64_t end_ns,
        const char *message);

struct ds_sched_config {
        const struct ds_device_ops *ops;
        ds_device *device;             /* outlives the scheduler; rungs are created by ds_sched_new */
        const char *policy_dir;        /* "" = only built-in policies */
        const char *policy;            /* name at start */
        ds_op_done_fn done;
        void *user;
        uint64_t (*wall_ns)(void);     /* real time, to measure the policy's own decisions; NULL = do not */
        uint64_t policy_budget_ns;     /* a decision longer than this is an overrun; 0 = 5 ms */
        int trust_any_owner;           /* tests: do not insist on a root-owned (or own) policy directory */
};

struct ds_sched_session_config {
        uint64_t id;
        uint32_t uid;
        enum detshare_class class_;
        uint64_t slo_ns;
        uint32_t sm_percent;
        uint32_t space;
};

struct ds_sched_stats {
        uint64_t decisions, actions, actions_ignored, overruns, fallbacks, launches, migrations;
        uint32_t in_flight, queued, coroutines, sessions, n_rungs;
        char policy[32];
};

struct ds_sched_session_stats {
        uint64_t launches, completed, errors, requests;
        uint64_t device_ns;     /* sum of operations' device time */
        uint64_t wait_ns;       /* sum over operations of submit to start */
        uint32_t queued, in_flight, coroutines;
        uint32_t request_active;
};

/* Builds the ladder on the device and loads the policy. */
int ds_sched_new(const struct ds_sched_config *config, ds_sched **ret);
/* Nothing may be in flight; queued operations are not told. */
ds_sched *ds_sched_free(ds_sched *sched);

int ds_sched_session_new(ds_sched *sched, const struct ds_sched_session_config *config, ds_sched_session **ret);
void ds_sched_session_set(ds_sched_session *session, enum detshare_class class_, uint64_t slo_ns, uint32_t sm_percent,
        uint64_t now_ns);
/*
 * Drop everything queued (done is called with LAUNCH_FAILED) and ask the device to abort what runs. The session and its
 * coroutines are gone when ds_sched_session_idle() is true and ds_sched_session_free() was called.
 */
void ds_sched_session_cancel(ds_sched_session *session, int status, uint64_t now_ns);
int ds_sched_session_idle(const ds_sched_session *session); /* nothing queued, nothing in flight */
ds_sched_session *ds_sched_session_free(ds_sched_session *session); /* must be idle */
void ds_sched_session_stats(const ds_sched_session *session, struct ds_sched_session_stats *stats);

/* blocking: takes part in the legacy default stream's joins. legacy: is that default stream (one per session). */
int ds_coroutine_new(ds_sched_session *session, int32_t priority, int blocking, int legacy, ds_coroutine **ret);
/* Frees it once its queue has drained; submit no more. */
void ds_coroutine_release(ds_coroutine *coroutine);
uint64_t ds_coroutine_submitted(const ds_coroutine *coroutine); /* last sequence number given out */
uint64_t ds_coroutine_done(const ds_coroutine *coroutine);      /* all up to here have ended */

/* Queue an operation; sets op->seq. 0 or DS_SCHED_E_FULL (nothing queued). Nothing is launched before ds_sched_step. */
int ds_sched_submit(ds_coroutine *coroutine, struct ds_op *op, uint64_t now_ns);
size_t ds_coroutine_room(const ds_coroutine *coroutine); /* operations that submit would still take */

/* The device's completions, in the order poll gave them. */
void ds_sched_complete(ds_sched *sched, const struct ds_completion *completions, size_t n);
/* Ask the policy about everything that happened and launch what it says. Returns 0 or a fatal errno of the device. */
int ds_sched_step(ds_sched *sched, uint64_t now_ns);
/* The next time ds_sched_step wants to be called without anything else happening; UINT64_MAX = none. */
uint64_t ds_sched_next_timer(const ds_sched *sched);

/* Switch live. params: "key=value" strings. message explains a contract code. Work in flight goes on. */
int ds_sched_set_policy(ds_sched *sched, const char *name, const char *const *params, size_t n_params, uint64_t now_ns,
        char *message, size_t message_size);
/* The policies that could be loaded now, built-in first. Returns the count; fills up to n. */
struct ds_policy_listing {
        char name[32];
        char description[128];
        char params[512]; /* "ls_percent=50 [10..90]: ..." joined by newlines */
        int active;
};
size_t ds_sched_list_policies(ds_sched *sched, struct ds_policy_listing *list, size_t n);
void ds_sched_stats(const ds_sched *sched, struct ds_sched_stats *stats);
