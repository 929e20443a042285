/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler: coroutines, their queues, the ladder of rungs, and the policy that moves work between them
 *
 * One owner, one thread. Everything that happens (a submitted operation, a completion, a timer, a new or closed
 * session) is a step function with the time as an argument. Nothing here reads a clock, sleeps or blocks. The scheduler
 * uses the device only through its vtable. It reports the end of an operation through one callback.
 *
 * A coroutine is one client stream: an in-order queue of operations. The scheduler, never the GPU, resolves the order
 * inside a coroutine, waits between coroutines (ds_op_wait) and the joins of the legacy default stream. The policy (a
 * plug-in, see policies/detshare_policy.h) sees a snapshot and returns actions. An invalid action is ignored and
 * counted. A policy that fails, overruns or stalls is replaced by the built-in one ("fifo").
 *
 * The scheduler enforces a session's share of the SMs (sm_percent), not the policy. Whatever rung an action names, the
 * work runs on a rung inside it with at most that share of the TPCs, or on the smallest one if all have more (see
 * ladder.h). Only a kernel that needs all its blocks resident and does not fit there runs on the named rung or, as
 * without a share, on the whole GPU. A change applies to later launches.
 *
 * A kernel with other forms (ds_op.forms, ptx/pass/forms.h) may be launched in one of them, so that it can be evicted
 * at the end of its blocks and later continue from there on any rung. forms.h chooses the form, let_go.h evicts. It
 * remains one operation, reported once, at its end.
 *
 * The done callback may submit to and release coroutines; it must not free sessions, switch the policy or step.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "policies/detshare_policy.h"
#include "sched/ladder.h"

typedef struct ds_coroutine ds_coroutine;
typedef struct ds_sched ds_sched;
typedef struct ds_sched_session ds_sched_session;

/* Contract codes */
#define DS_SCHED_E_NO_POLICY 1 /* no such policy */
#define DS_SCHED_E_BAD_PARAM 2 /* unknown parameter or out of range; see the message */
#define DS_SCHED_E_REFUSED 3   /* the plug-in is not usable (ABI, ownership, init); see the message */
#define DS_SCHED_E_FULL 4      /* the queue of the coroutine or session is full, or memory is short */
#define DS_SCHED_E_FAULTED 5   /* the session was cancelled */

#define DS_SCHED_QUEUE_MAX 4096              /* operations per coroutine, including those on the device */
#define DS_SCHED_SESSION_QUEUE_MAX 65536     /* operations per session */
#define DS_SCHED_SESSION_COROUTINES_MAX 1024 /* per session, not yet freed */
#define DS_SCHED_IN_FLIGHT_MAX 4096          /* operations on the device at once */
#define DS_SCHED_STREAM_MAX 256 /* operations in one stream of the device; a GPU's launch call blocks at about 1,000 */

enum ds_op_kind {
        DS_OP_LAUNCH,
        DS_OP_COPY,
        DS_OP_MEMSET,
        /* no work: ends when everything before it in the coroutine has ended; its time is an event's time */
        DS_OP_MARK,
        /* no work: ends when `wait_for` has ended `wait_seq`, reduced to the last number submitted by then */
        DS_OP_WAIT,
        DS_OP_GRAPH, /* many kernels, copies and memsets: see graph.h */
        /* no work: due when everything before it in the coroutine has ended; its owner ends it (ds_sched_over) */
        DS_OP_OUTSIDE,
        _DS_OP_KIND_MAX,
};

/*
 * A graph's attributes for the scheduler. Owned by the caller; valid until the last operation that names it is done,
 * and constant meanwhile.
 */
struct ds_sched_graph {
        ds_device_graph *device; /* NULL: its parts are always launched one by one */
        uint64_t key; /* identity for the statistics, not 0; ds_sched_graph_add() mixes each kernel's key into it */
        uint32_t n_kernels, n_works; /* works: kernels, copies, memsets */
        /* maxima over its kernels, from ds_sched_graph_add(): a policy's view of it while it is one operation */
        uint32_t blocks, threads, blocks_per_sm, sms_needed, cluster_blocks;
        uint32_t all_resident;
        uint64_t waves;    /* sum over its kernels of the waves of blocks that fill the GPU or part of it */
        uint8_t piece;     /* 1: a piece, see ds_sched_graph_piece() */
        uint64_t piece_ns; /* expected duration of a piece, ns */
};

/* Other forms of a kernel (ptx/pass/forms.h), each NULL if there is none. Owned by the caller; valid as long as
 * operations that name it. */
struct ds_sched_forms {
        const ds_device_kernel *sliced, *persistent;
        /*
         * 1: its blocks may wait for other blocks. Forms are correct if those have a lower index (decoupled look-back).
         * If a block waits for one of a higher index, an evicted launch would wait forever. Nothing shows which case
         * applies, so such forms are used only in mode "always" (tests), and only if the grid is larger than the whole
         * GPU holds at once: such a grid cannot contain a grid-wide barrier.
         */
        uint32_t waits;
        /* identity of the native kernel in the statistics if it is not ds_kernel_info.hash, because the image with
         * forms differs from the one without; 0 = the hash */
        uint64_t identity;
};

/*
 * An operation. The caller allocates it, alone or embedded; the scheduler owns it from submit until the done callback,
 * which may free it. The scheduler fills in the stream fields of launch, copy and memset.
 */
struct ds_op {
        enum ds_op_kind kind;
        uint64_t seq;  /* set by submit: 1, 2, ... per coroutine */
        uint64_t user; /* for the caller */
        union {
                struct ds_launch launch; /* params point to memory that is valid until done */
                struct ds_copy copy;
                struct ds_memset memset;
                struct {
                        struct ds_graph_launch whole;
                        const struct ds_sched_graph *graph;
                        uint8_t parts_only;   /* set by the caller: never launch it as a whole */
                        uint8_t in_parts;     /* set by the scheduler: it is launched in parts */
                        uint8_t unfolded_all; /* there are no more parts */
                };
                struct {
                        ds_coroutine *wait_for; /* may be of any session; NULL = no wait; NULL again when done */
                        uint64_t wait_seq;
                };
                struct { /* set by the scheduler */
                        uint8_t due, over;
                        uint64_t over_ns;
                } outside;
        };
        /* launch: identity of kernel and shape for the statistics; 0 = the scheduler computes it */
        uint64_t kernel_key;
        const struct ds_sched_forms *forms; /* launch: NULL = only the native form; launch.kernel is the native one */
        /* internal to the scheduler, set by submit */
        struct ds_op *next;
        ds_coroutine *coroutine;
        uint64_t submitted_ns, launched_ns;
        uint64_t ready_ns; /* set by the launch: earliest time at which it could have been launched */
        uint64_t join_seq; /* required count of the other side of the legacy default stream's join, see coroutine.h */
        uint64_t start_ns, end_ns;
        char *message; /* the device's error message */
        int32_t status;
        uint32_t stat_row;
        uint32_t cluster_blocks; /* blocks per cluster of a launch; 1 = no clusters */
        uint32_t phase;          /* enum detshare_phase */
        uint32_t slot;           /* slot while on the device: see launch.h */
        uint8_t finished; /* enum ds_op_finished: ended, but not reported because of an earlier one; see coroutine.h */
        uint8_t killed;   /* returned unfinished, to be launched again; see let_go.h */
        uint8_t part;     /* part of a graph: made by unfold, has no sequence number; set by the scheduler */
        uint8_t form;     /* launch: enum ds_ptx_form; fixed once some of it has run */
        uint8_t n_slices; /* slices on the device */
        uint32_t blocks_ran;   /* blocks of an evicted kernel that have run, over all its launches */
        uint32_t next_block;   /* sliced: first block not launched; equals blocks_ran when nothing is on the device */
        uint32_t slice, chunk; /* slice: blocks per slice; chunk: blocks that a persistent worker takes at a time */
        uint32_t evictions;    /* number of evictions */
        uint64_t began_ns;     /* start of the first launch, if blocks_ran is not 0 */
        uint64_t ran_ns;       /* duration of its evicted launches */
};

#define DS_SCHED_EVICT_BOUND_NS 100000ULL

/*
 * Reports an operation's end. status: CUDA error; message: NULL, or the device's error message, valid during the call.
 * Called from step, complete and cancel, in order per coroutine.
 */
typedef void (*ds_op_done_fn)(
        void *user, struct ds_op *op, int status, uint64_t start_ns, uint64_t end_ns, const char *message);

/*
 * Supplies the next part of a graph: a launch, copy, memset or mark in the caller's memory, reported by the done
 * callback like any operation. Returns 1 and *ret; 0: no more; -ENOMEM: the graph ends with OUT_OF_MEMORY. Must not
 * call the scheduler.
 */
typedef int (*ds_op_unfold_fn)(void *user, struct ds_op *graph, struct ds_op **ret);
/* Called when an operation of kind DS_OP_OUTSIDE is due. Returns 1 if it has ended already. Must not call the
 * scheduler. */
typedef int (*ds_op_due_fn)(void *user, struct ds_op *op);

/* Configured use of other forms (ds_op.forms). */
enum ds_sched_transform {
        DS_SCHED_TRANSFORM_AUTO,   /* if forms.h finds them worth their cost */
        DS_SCHED_TRANSFORM_ALWAYS, /* whenever there are any, whatever they cost: for tests */
        DS_SCHED_TRANSFORM_NEVER,
};

#define DS_POLICY_DIRS_MAX 8u

/* A directory of policies. */
struct ds_policy_dir {
        const char *path;
        int fd; /* open descriptor of the directory, which the caller keeps; 0 = open it by name */
};

struct ds_sched_config {
        const struct ds_device_ops *ops;
        ds_device *device;      /* must outlive the scheduler; ds_sched_new() creates its rungs */
        const char *policy_dir; /* "" = only built-in policies */
        int policy_dir_fd;      /* open descriptor of policy_dir, which the caller keeps; 0 = open it by name */
        const struct ds_policy_dir *more_dirs; /* searched after policy_dir, in order; DS_POLICY_DIRS_MAX at most */
        size_t n_more_dirs;
        const char *policy; /* name of the initial policy */
        struct ds_ladder_options ladder;
        ds_op_done_fn done;
        ds_op_unfold_fn unfold; /* NULL: no graphs are submitted */
        ds_op_due_fn due;       /* NULL: no DS_OP_OUTSIDE is submitted */
        /*
         * Caps a session's device memory at this many bytes from now on; UINT64_MAX: only its own limit applies. Called
         * from step and set_policy; must not call the scheduler. NULL: policies cannot cap memory.
         */
        void (*memory_cap)(void *user, uint64_t session, uint64_t bytes);
        void *user;
        uint64_t (*wall_ns)(void); /* real time, to measure the policy's decisions; NULL = not measured */
        uint64_t (*cpu_ns)(void);  /* processor time of the calling thread, for a policy's budget; NULL = wall_ns */
        uint64_t policy_budget_ns; /* a longer decision is an overrun; 0 = 5 ms */
        int trust_any_owner;       /* for tests: the policy directory may belong to anybody */
        /* 0 = DS_HOST_NONSENSE_LIMIT; UINT32_MAX (tests): no number of invalid actions replaces the policy */
        uint32_t nonsense_limit;
        enum ds_sched_transform transform;
        uint64_t evict_bound_ns; /* AUTO: longest eviction time; 0 = DS_SCHED_EVICT_BOUND_NS */
};

struct ds_sched_session_config {
        uint64_t id;
        uint32_t uid;
        char name[64]; /* for display */
        enum detshare_class class_;
        uint64_t slo_ns;
        uint32_t sm_percent; /* 1..100; 100 or more = no bound */
        uint32_t space;
        uint32_t gpu_request, gpu_limit; /* shares of the GPU's time for the policy, thousandths; 0 = not given */
        uint64_t memory_limit;           /* bytes, 0 = none; for the policy only, enforced elsewhere */
};

struct ds_sched_stats {
        uint64_t decisions, actions, actions_ignored, overruns, fallbacks, launches, migrations;
        uint64_t loans;              /* launches moved to the whole GPU because of resident blocks or clusters */
        uint64_t capped;             /* launches moved to a smaller rung because of their session's sm_percent */
        uint64_t nonsense;           /* decisions with an invalid action; those actions count in actions_ignored */
        uint64_t kills;              /* kernels killed by a policy, to be launched again */
        uint64_t evictions;          /* kernels evicted, to continue later */
        uint64_t resumed;            /* launches that continue an evicted kernel */
        uint64_t sliced, persistent; /* launches in these forms; of slices, the first of each run */
        uint64_t form_refusals;      /* launches whose form the device refused; they ran in the native one */
        uint64_t stray_completions;  /* completions with an unknown token: always 0 */
        uint32_t in_flight, queued, coroutines, sessions, n_rungs;
        uint32_t n_coarse_rungs;          /* those of n_rungs that are made of groups of TPCs */
        uint64_t ladder_bytes, ladder_ns; /* device memory of the rungs, bytes, and their build time, ns */
        char policy[32];
        char fallback[224]; /* why the built-in policy replaced the one that was set; "" if it did not */
};

struct ds_sched_session_stats {
        uint64_t launches;                    /* kernels given to the device */
        uint64_t completed, errors, requests; /* errors: failed kernels, copies and memsets among the completed ones */
        uint64_t device_ns;                   /* sum of operations' device time */
        uint64_t wait_ns;                     /* sum over operations of the time from submit to start */
        uint64_t kills;                       /* kernels killed by the policy; each later launch counts again */
        uint64_t evictions;                   /* kernels evicted; each later launch counts again */
        uint64_t blocks;                      /* blocks of kernels that have run, each counted once */
        uint32_t queued, in_flight, coroutines;
        uint32_t request_active;
};

/* Builds the ladder on the device and loads the policy. Contract codes as ds_sched_set_policy(), with a log line. */
int ds_sched_new(const struct ds_sched_config *config, ds_sched **ret);
/* Nothing may be in flight; queued operations are not reported. */
ds_sched *ds_sched_free(ds_sched *sched);

/* Whether the policy has unseen events for the next step: virtual time should not advance before. */
int ds_sched_behind(const ds_sched *sched);

int ds_sched_session_new(ds_sched *sched, const struct ds_sched_session_config *config, ds_sched_session **ret);
void ds_sched_session_set(
        ds_sched_session *session, enum detshare_class class_, uint64_t slo_ns, uint32_t sm_percent, uint64_t now_ns);
/* Sets its shares of the GPU's time, as in ds_sched_session_config. */
void ds_sched_session_share(ds_sched_session *session, uint32_t gpu_request, uint32_t gpu_limit, uint64_t now_ns);
/* Sets the enum detshare_phase of operations submitted from then on. */
void ds_sched_session_phase(ds_sched_session *session, uint32_t phase, uint64_t now_ns);
/*
 * The session's client has waited for all that it submitted. The policy sees this until the next submit. No effect if
 * work of the session is left.
 */
void ds_sched_session_synchronised(ds_sched_session *session, uint64_t now_ns);
/* Sets its used bytes of device memory and its limit (0 = none of its own). */
void ds_sched_session_memory(ds_sched_session *session, uint64_t used, uint64_t limit, uint64_t now_ns);
/* Sets the device's total and free memory, bytes. */
void ds_sched_memory(ds_sched *sched, uint64_t total, uint64_t free);
/*
 * Drops all queued operations (reported with `status`, a CUDA error, after operations in flight before them) and
 * requests the device to abort running ones. Nothing can be submitted any more. The session and its coroutines exist
 * until ds_sched_session_idle() is true and ds_sched_session_free() was called.
 */
void ds_sched_session_cancel(ds_sched_session *session, int status, uint64_t now_ns);
int ds_sched_session_idle(const ds_sched_session *session); /* nothing queued, nothing in flight */
/* It must be idle. Frees its coroutines, too, except referenced ones (ds_coroutine_ref). */
ds_sched_session *ds_sched_session_free(ds_sched_session *session);
void ds_sched_session_stats(const ds_sched_session *session, struct ds_sched_session_stats *stats);

/*
 * Holds classes (bits 1 << enum detshare_class; 0 = none): nothing of their sessions is launched until they are
 * released, whatever the policy decides. The policy sees their work as not ready; an action for it is not counted.
 * Queues still accept operations, work in flight ends normally, waits and marks proceed.
 */
void ds_sched_hold(ds_sched *sched, unsigned classes, uint64_t now_ns);
/* Number of a class's operations on the device, and of all that have not ended. */
void ds_sched_load(const ds_sched *sched, enum detshare_class class_, uint32_t *ret_in_flight, uint32_t *ret_all);

/*
 * blocking: takes part in the joins of the legacy default stream. legacy: is that stream (one per session, -EEXIST).
 * priority: the requested CUDA stream priority. DS_SCHED_E_FULL past DS_SCHED_SESSION_COROUTINES_MAX.
 */
int ds_coroutine_new(ds_sched_session *session, int32_t priority, int blocking, int legacy, ds_coroutine **ret);
/* Frees it once its queue has drained; nothing may be submitted any more. */
void ds_coroutine_release(ds_coroutine *coroutine);
/*
 * Keeps a released coroutine's sequence numbers readable (for an event that outlives its stream). submitted, done and
 * waits for it work until the matching unref, even after its session has gone. Queued waits hold a reference of their
 * own.
 */
ds_coroutine *ds_coroutine_ref(ds_coroutine *coroutine);
ds_coroutine *ds_coroutine_unref(ds_coroutine *coroutine);
uint64_t ds_coroutine_submitted(const ds_coroutine *coroutine); /* last sequence number assigned */
uint32_t ds_coroutine_in_flight(const ds_coroutine *coroutine); /* its operations on the device */
uint64_t ds_coroutine_done(const ds_coroutine *coroutine);      /* all operations up to this number have ended */

/*
 * Queues an operation; sets op->seq. Returns 0, DS_SCHED_E_FULL or DS_SCHED_E_FAULTED (nothing is queued and the caller
 * keeps the operation). Launches nothing and calls nobody before ds_sched_step().
 */
int ds_sched_submit(ds_coroutine *coroutine, struct ds_op *op, uint64_t now_ns);
/* Ends a due operation of kind DS_OP_OUTSIDE. The next step reports it; no effect if it was dropped meanwhile. */
void ds_sched_over(struct ds_op *op, uint64_t now_ns);
size_t ds_coroutine_room(const ds_coroutine *coroutine); /* number of operations that submit would still accept */

/* Adds a kernel to a graph whose operations are not submitted yet. */
void ds_sched_graph_add(ds_sched *sched, struct ds_sched_graph *graph, const struct ds_launch *launch);
/*
 * Called after all kernels were added: makes it a piece, consecutive nodes of a graph with this expected duration in
 * total, to be unfolded from that graph. See graph.h.
 */
void ds_sched_graph_piece(ds_sched *sched, struct ds_sched_graph *graph, uint64_t expected_ns);
/* Mean duration of a launch, copy or memset, including the device's cost of launching it; 0: not known. */
uint64_t ds_sched_expected_ns(ds_sched *sched, const struct ds_op *op);
/* Whether all blocks of the launch must be resident at once. */
int ds_sched_all_resident(const ds_sched *sched, const struct ds_launch *launch);
/* Whether the session's graphs would be launched as a whole now. See graph.h. */
int ds_sched_graph_whole(const ds_sched_session *session);
/* [stops] Makes the device instantiate it on the rung of the session's work. Returns as ds_device_ops.graph_build. */
int ds_sched_graph_build(ds_sched_session *session, const struct ds_sched_graph *graph);

/* Handles the device's completions, in the order of poll. */
void ds_sched_complete(ds_sched *sched, const struct ds_completion *completions, size_t n);
/* Passes all events to the policy and launches what it decides. Returns 0 or a fatal errno of the device. */
int ds_sched_step(ds_sched *sched, uint64_t now_ns);
/* Next time at which ds_sched_step() must be called without any other event; UINT64_MAX = none. */
uint64_t ds_sched_next_timer(const ds_sched *sched);

/* Switches the policy at run time. params: "key=value" strings. message explains a contract code. Work in flight
 * continues. */
int ds_sched_set_policy(ds_sched *sched, const char *name, const char *const *params, size_t n_params, uint64_t now_ns,
        char *message, size_t message_size);
/* Lists the policies that could be loaded now, built-in first. Returns their number; fills in up to n. */
struct ds_policy_listing {
        char name[32];
        char description[128];
        char params[4096]; /* "ls_percent=50 [10..90]: ..." lines */
        int active;
};
size_t ds_sched_list_policies(ds_sched *sched, struct ds_policy_listing *list, size_t n);
/* The parameters of the policy in force: "key=value" joined by newlines, cut to size. */
void ds_sched_policy_values(const ds_sched *sched, char *ret, size_t size);
void ds_sched_stats(const ds_sched *sched, struct ds_sched_stats *stats);
/*
 * Lists kernels launched for the first time, or again after the statistics forgot them, for the keeper of profiles.
 * Returns up to n, oldest first. If there is no room for one, it is reported at a later launch.
 */
#define DS_SCHED_SEEN_NAME 256
struct ds_sched_seen {
        uint64_t key; /* ds_op.kernel_key */
        uint32_t grid[3], block[3], shared_bytes;
        uint32_t n_kernels;            /* kernels of a graph; 0: it is a kernel */
        char name[DS_SCHED_SEEN_NAME]; /* kernel's name in its image, truncated */
};
size_t ds_sched_seen(ds_sched *sched, struct ds_sched_seen *ret, size_t n);

/*
 * Profile of the kernels of a key. A profile from a file is put; a profile refined by samples is read when it has
 * changed. A point with more samples is kept. Points are sorted by n_sms, ascending; malformed values are ignored.
 */
/* Cost of a form: its duration relative to the native one on the same SMs. */
struct ds_sched_form_cost {
        uint32_t samples; /* 0: not known */
        uint32_t permille;
};
struct ds_sched_profile {
        uint64_t key;      /* ds_op.kernel_key */
        uint32_t bound;    /* enum detshare_kernel_bound */
        uint32_t n_points; /* up to DETSHARE_POINTS_MAX */
        struct detshare_profile_point points[DETSHARE_POINTS_MAX];
        struct ds_sched_form_cost forms[_DS_PTX_FORM_MAX]; /* by enum ds_ptx_form; the native one has none */
};
void ds_sched_profile_put(ds_sched *sched, const struct ds_sched_profile *profile);
/*
 * Returns up to n profiles refined since they were last returned here. A point counts as refined after 1, 2, 4, ... 64
 * samples, then after every 64.
 */
size_t ds_sched_profiles_changed(ds_sched *sched, struct ds_sched_profile *ret, size_t n);
/*
 * The reason why the kernels of a key run in their form, as of their last launch that had a choice: for `detsharectl
 * explain`. Returns 0, or -ENOENT: there was none, or the statistics forgot it. Times are for the SMs of that launch.
 */
enum ds_sched_form_reason {
        DS_SCHED_FORM_NONE,     /* no choice yet */
        DS_SCHED_FORM_NEVER,    /* mode "never" */
        DS_SCHED_FORM_MUST,     /* mode "always" */
        DS_SCHED_FORM_UNFIT,    /* its blocks wait for others, or it has clusters, is cooperative or too large */
        DS_SCHED_FORM_UNASKED,  /* LS, or the policy did not request an evictable launch */
        DS_SCHED_FORM_UNKNOWN,  /* its duration is not known well enough */
        DS_SCHED_FORM_SHORT,    /* the kernel is shorter than the bound */
        DS_SCHED_FORM_TRIED,    /* a measurement of the form's cost */
        DS_SCHED_FORM_CHEAPEST, /* cheapest form with an eviction time within the bound */
        DS_SCHED_FORM_SOONEST,  /* no form is within the bound: shortest eviction time */
        DS_SCHED_FORM_DEAR,     /* every suitable form costs too much, or is evicted no sooner */
        DS_SCHED_FORM_REFUSED,  /* the device refused the chosen form, or all */
        _DS_SCHED_FORM_REASONS,
};
struct ds_sched_form_choice {
        uint32_t form;   /* enum ds_ptx_form */
        uint32_t reason; /* enum ds_sched_form_reason */
        uint32_t n_sms;
        uint32_t chunk, slice; /* blocks per chunk or slice */
        uint64_t native_ns;    /* duration of the native form, 0 = not known */
        uint64_t block_ns;     /* duration of a block */
        uint64_t evict_ns;     /* eviction time of the chosen form */
        struct ds_sched_form_cost costs[_DS_PTX_FORM_MAX];
};
int ds_sched_form_chosen(ds_sched *sched, uint64_t key, struct ds_sched_form_choice *ret);
/* Text of a reason: "the cheapest form that can be evicted within the bound", ...; never NULL. */
const char *ds_sched_form_reason(uint32_t reason);
/* Forgets all profiles; later launches count as first ones. */
void ds_sched_profiles_forget(ds_sched *sched);
/*
 * Sets a copy of this GPU's calibrated interference matrix. The policy in charge restarts with it and its current
 * parameters; work in flight continues. Returns 0; -ENOMEM; DS_SCHED_E_REFUSED: the policy refused, and the built-in
 * one took over.
 */
int ds_sched_set_interference(ds_sched *sched, const struct detshare_interference *matrix, uint32_t n, uint64_t now_ns);
/* Sets the bound of a key's kernels from a profile (see ds_op.kernel_key), for the policy. */
void ds_sched_set_bound(ds_sched *sched, uint64_t kernel_key, enum detshare_kernel_bound bound);
