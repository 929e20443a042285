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
#include "proto/slo.h"
#include "sched/ladder.h"

typedef struct ds_coroutine ds_coroutine;
typedef struct ds_sched ds_sched;
typedef struct ds_sched_session ds_sched_session;

/* Positive return codes of the scheduler's functions */
#define DS_SCHED_E_NO_POLICY 1 /* there is no policy of that name */
#define DS_SCHED_E_BAD_PARAM 2 /* unknown parameter or out of range; see the message */
#define DS_SCHED_E_REFUSED 3   /* the plug-in is not usable (ABI, ownership, init); see the message */
#define DS_SCHED_E_FULL 4      /* the queue of the coroutine or session is full, or there is no memory */
#define DS_SCHED_E_FAULTED 5   /* the session was cancelled, so it accepts no operation */

#define DS_SCHED_QUEUE_MAX 4096              /* operations per coroutine, including those on the device */
#define DS_SCHED_SESSION_QUEUE_MAX 65536     /* operations per session, of all its coroutines */
#define DS_SCHED_SESSION_COROUTINES_MAX 1024 /* coroutines of a session that are not freed yet */
#define DS_SCHED_IN_FLIGHT_MAX 4096          /* operations on the device at once */
/* operations in one stream of the device; a GPU's launch call blocks when a stream has about 1,000 */
#define DS_SCHED_STREAM_MAX 256

enum ds_op_kind {
        DS_OP_LAUNCH,
        DS_OP_COPY,
        DS_OP_MEMSET,
        /* no work: ends when everything before it in the coroutine has ended; its end is the time of an event */
        DS_OP_MARK,
        /* no work: ends when coroutine `wait_for` has ended operation `wait_seq`, or the last one submitted so far
         * if that is earlier */
        DS_OP_WAIT,
        DS_OP_GRAPH, /* many kernels, copies and memsets: see graph.h */
        /* no work: becomes due when everything before it in the coroutine has ended; its owner then ends it by
         * ds_sched_over() */
        DS_OP_OUTSIDE,
        _DS_OP_KIND_MAX,
};

/*
 * A graph's attributes for the scheduler. Owned by the caller; valid until the last operation that names it is done,
 * and constant meanwhile.
 */
struct ds_sched_graph {
        ds_device_graph *device; /* graph of the device; NULL: the graph's parts are always launched one by one */
        uint64_t key; /* identity in the statistics, not 0; ds_sched_graph_add() mixes each kernel's key into it */
        uint32_t n_kernels, n_works; /* n_works: kernels, copies and memsets */
        /* maxima over the graph's kernels, from ds_sched_graph_add(); a policy sees them while the graph is one
         * operation */
        uint32_t blocks, threads, blocks_per_sm, sms_needed, cluster_blocks;
        uint32_t all_resident;
        /* sum over the graph's kernels: waves of blocks, each of which fills the GPU or part of it */
        uint64_t waves;
        uint8_t piece;    /* 1: a piece, see ds_sched_graph_piece() */
        uint64_t away_ns; /* time for which LS must have been idle before the piece is launched as a whole, ns */
};

/* Other forms of a kernel (ptx/pass/forms.h); NULL: there is none. The caller owns them and keeps them valid as long
 * as operations name them. */
struct ds_sched_forms {
        const ds_device_kernel *sliced, *persistent;
        /*
         * 1: blocks of the kernel may wait for other blocks. Its forms are correct if those have a lower index
         * (decoupled look-back). If a block waits for one of a higher index, an evicted launch would wait forever.
         * Nothing shows which case applies. So such forms are used only in mode "always" (tests), and only if the grid
         * is larger than the whole GPU holds at once: such a grid cannot contain a grid-wide barrier.
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
        uint64_t seq;  /* sequence number in its coroutine (1, 2, ...), set by submit; the last one of several */
        uint32_t more; /* further sequence numbers, before `seq`, that the operation takes: it stands for 1 + more */
        uint64_t user; /* value for the caller, which the scheduler does not use */
        union {
                struct ds_launch launch; /* params point to memory that is valid until done */
                struct ds_copy copy;
                struct ds_memset memset;
                struct {
                        struct ds_graph_launch whole;
                        const struct ds_sched_graph *graph;
                        uint8_t parts_only;   /* set by the caller: never launch it as a whole */
                        uint8_t in_parts;     /* set by the scheduler: it is launched in parts */
                        uint8_t unfolded_all; /* set by the scheduler: all parts are unfolded */
                };
                struct {
                        /* coroutine of any session; NULL = no wait, and after the operation has ended */
                        ds_coroutine *wait_for;
                        uint64_t wait_seq;
                };
                struct { /* state of a DS_OP_OUTSIDE, set by the scheduler */
                        uint8_t due, over;
                        uint64_t over_ns;
                } outside;
        };
        /* launch: identity of kernel and shape for the statistics; 0 = the scheduler computes it */
        uint64_t kernel_key;
        const struct ds_sched_forms *forms; /* launch: NULL = only the native form; launch.kernel is the native one */
        /* fields that only the scheduler uses */
        struct ds_op *next;
        ds_coroutine *coroutine;
        uint64_t submitted_ns, launched_ns;
        uint64_t ready_ns; /* earliest time at which the operation could have been launched; set by the launch */
        /* operations of the other side of the legacy default stream's join that must have ended first, see
         * coroutine.h */
        uint64_t join_seq;
        uint64_t start_ns, end_ns;
        char *message; /* the device's error message */
        int32_t status;
        uint32_t stat_row;
        uint32_t cluster_blocks; /* blocks per cluster of a launch; 1 = no clusters */
        uint32_t phase;          /* enum detshare_phase */
        uint32_t slot;           /* its slot while it is on the device: see launch.h */
        uint8_t finished;        /* enum ds_op_finished: ended, but not reported before the earlier operations */
        uint8_t killed;          /* 1: killed or evicted; returns unfinished and is launched again, see let_go.h */
        uint8_t part;        /* 1: part of a graph, made by unfold, without a sequence number; set by the scheduler */
        uint8_t form;        /* launch: enum ds_ptx_form; fixed once some of the kernel has run */
        uint8_t n_slices;    /* number of its slices on the device */
        uint32_t blocks_ran; /* blocks of an evicted kernel that have run, over all its launches */
        /* sliced: first block that is not launched; equals blocks_ran while nothing of the kernel is on the device */
        uint32_t next_block;
        uint32_t slice, chunk; /* slice: blocks per slice; chunk: blocks that a persistent worker takes at a time */
        uint32_t evictions;    /* number of times that it was evicted */
        uint64_t began_ns;     /* start of the kernel's first launch, ns, if blocks_ran is not 0 */
        uint64_t ran_ns;       /* total duration of its evicted launches, ns */
};

#define DS_SCHED_EVICT_BOUND_NS 100000ULL

/*
 * Callback that reports an operation's end. status: CUDA error; message: NULL, or the device's error message, valid
 * during the call. Called from step, complete and cancel, for each coroutine in order.
 */
typedef void (*ds_op_done_fn)(
        void *user, struct ds_op *op, int status, uint64_t start_ns, uint64_t end_ns, const char *message);

/*
 * Callback that supplies the next part of a graph: a launch, copy, memset or mark in the caller's memory. Its end is
 * reported by the done callback like that of any operation. Returns 1 and *ret; 0: no more parts; -ENOMEM: the graph
 * ends with OUT_OF_MEMORY. Must not call the scheduler.
 */
typedef int (*ds_op_unfold_fn)(void *user, struct ds_op *graph, struct ds_op **ret);
/* Callback for an operation of kind DS_OP_OUTSIDE that becomes due. Returns 1 if the operation has ended already.
 * Must not call the scheduler. */
typedef int (*ds_op_due_fn)(void *user, struct ds_op *op);

/* Configured use of kernels' other forms (ds_op.forms). */
enum ds_sched_transform {
        DS_SCHED_TRANSFORM_AUTO,   /* if forms.h decides that a form is worth its cost */
        DS_SCHED_TRANSFORM_ALWAYS, /* whenever a kernel has other forms, whatever they cost: for tests */
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
        ds_device *device;      /* must stay valid until the scheduler is freed; ds_sched_new() creates its rungs */
        const char *policy_dir; /* directory of policies; "" = only built-in policies */
        int policy_dir_fd;      /* open descriptor of policy_dir, which the caller keeps; 0 = open it by name */
        /* further policy directories, searched in this order after policy_dir; at most DS_POLICY_DIRS_MAX */
        const struct ds_policy_dir *more_dirs;
        size_t n_more_dirs;
        const char *policy; /* name of the initial policy */
        struct ds_ladder_options ladder;
        ds_op_done_fn done;
        ds_op_unfold_fn unfold; /* NULL: no graphs are submitted */
        ds_op_due_fn due;       /* NULL: no DS_OP_OUTSIDE is submitted */
        /*
         * Callback that caps a session's device memory at this many bytes from now on; UINT64_MAX: only the session's
         * own limit applies. Called from step and set_policy; must not call the scheduler. NULL: policies cannot cap
         * memory.
         */
        void (*memory_cap)(void *user, uint64_t session, uint64_t bytes);
        void *user;
        uint64_t (*wall_ns)(void); /* real time, to measure the policy's decisions; NULL = not measured */
        uint64_t (*cpu_ns)(void);  /* processor time of the calling thread, for a policy's budget; NULL = wall_ns */
        uint64_t policy_budget_ns; /* a longer decision is an overrun; 0 = 5 ms */
        int trust_any_owner;       /* for tests: the policy directory may belong to anybody */
        /* score of invalid actions beyond which the policy is replaced; 0 = DS_HOST_NONSENSE_LIMIT; UINT32_MAX
         * (tests): never */
        uint32_t nonsense_limit;
        enum ds_sched_transform transform;
        uint64_t evict_bound_ns; /* mode AUTO: longest eviction time of a chosen form; 0 = DS_SCHED_EVICT_BOUND_NS */
};

struct ds_sched_session_config {
        uint64_t id;
        uint32_t uid;
        char name[64]; /* name for display */
        enum detshare_class class_;
        struct ds_slo slo;
        uint32_t sm_percent; /* largest share of the SMs for its work, percent; 100 or more = no bound */
        uint32_t space;
        uint32_t gpu_request, gpu_limit; /* shares of the GPU's time for the policy, thousandths; 0 = not given */
        /* bytes of device memory, 0 = no limit; for the policy only: the worker enforces it */
        uint64_t memory_limit;
};

struct ds_sched_stats {
        uint64_t decisions, actions, actions_ignored, overruns, fallbacks, launches, migrations;
        /* launches that borrowed the whole GPU, because their blocks must be resident at once or their clusters need
         * it */
        uint64_t loans;
        uint64_t capped; /* launches moved to a smaller rung because of their session's sm_percent */
        /* decisions with an invalid action; the invalid actions count in actions_ignored */
        uint64_t nonsense;
        uint64_t kills;              /* kernels killed by a policy, to be launched again */
        uint64_t evictions;          /* kernels evicted, to continue later */
        uint64_t resumed;            /* launches that continue an evicted kernel */
        uint64_t sliced, persistent; /* launches in these forms; of a sliced kernel, each run of slices counts once */
        uint64_t form_refusals;      /* launches whose form the device refused; they ran in the native form */
        uint64_t stray_completions;  /* completions with an unknown token: always 0 */
        uint32_t in_flight, queued, coroutines, sessions, n_rungs;
        uint32_t n_coarse_rungs;          /* rungs of n_rungs that are made of groups of TPCs */
        uint64_t ladder_bytes, ladder_ns; /* device memory of all rungs, bytes; time to build them, ns */
        char policy[32];
        char fallback[224]; /* reason why the built-in policy replaced the configured one; "" if it did not */
};

/* Objectives of a session; arrays by enum ds_slo_kind. */
struct ds_sched_objective {
        struct ds_slo stated;
        uint64_t ns[_DS_SLO_KINDS];       /* in force, ns; 0: none, or a factor of a latency that is not known yet */
        uint64_t alone_ns[_DS_SLO_KINDS]; /* p99 of requests that had the GPU to themselves, ns; 0: not known */
        /* requests that missed an objective although they had the GPU to themselves, permille; 0: at most one in a
         * hundred */
        uint32_t alone_missed_permille;
};

struct ds_sched_session_stats {
        uint64_t launches;                    /* kernels that the session has launched on the device */
        uint64_t completed, errors, requests; /* errors: failed kernels, copies and memsets among the completed ones */
        uint64_t device_ns;                   /* time of its operations on the device, summed, ns */
        uint64_t wait_ns;                     /* sum over operations of the time from submit to start */
        uint64_t kills;                       /* kernels killed by the policy; each later launch counts again */
        uint64_t evictions;                   /* kernels evicted; each later launch counts again */
        uint64_t blocks;                      /* blocks of kernels that have run, each counted once */
        uint32_t queued, in_flight, coroutines;
        uint32_t request_active;
};

/* Builds the ladder on the device and loads the policy. Returns the codes of ds_sched_set_policy(), after a log
 * line. */
int ds_sched_new(const struct ds_sched_config *config, ds_sched **ret);
/* Frees the scheduler. Nothing may be in flight; queued operations are not reported. */
ds_sched *ds_sched_free(ds_sched *sched);

/* Whether the next step has events for the policy: virtual time should not advance before that step. */
int ds_sched_behind(const ds_sched *sched);

int ds_sched_session_new(ds_sched *sched, const struct ds_sched_session_config *config, ds_sched_session **ret);
/* slo: NULL: no objectives */
void ds_sched_session_set(ds_sched_session *session, enum detshare_class class_, const struct ds_slo *slo,
        uint32_t sm_percent, uint64_t now_ns);
/* Sets the session's shares of the GPU's time, as in ds_sched_session_config. */
void ds_sched_session_share(ds_sched_session *session, uint32_t gpu_request, uint32_t gpu_limit, uint64_t now_ns);
/* Sets the enum detshare_phase of operations submitted from then on. */
void ds_sched_session_phase(ds_sched_session *session, uint32_t phase, uint64_t now_ns);
/* States that the session's next request arrived at arrival_ns, so that its objective counts from then. */
void ds_sched_session_arrival(ds_sched_session *session, uint64_t arrival_ns, uint64_t now_ns);
/* Writes a sentence of the policy about the session: what it does and why; "" if the policy says nothing. */
void ds_sched_session_explain(const ds_sched_session *session, char *text, uint32_t size);
/* The session's objectives and what it has alone. */
void ds_sched_session_objective(const ds_sched_session *session, struct ds_sched_objective *ret);
/*
 * Records that the session's client has waited for all that it submitted. The policy sees this until the next submit.
 * No effect if the session still has work.
 */
void ds_sched_session_synchronised(ds_sched_session *session, uint64_t now_ns);
/* Sets how many bytes of device memory the session uses, and its limit (0 = no limit of its own). */
void ds_sched_session_memory(ds_sched_session *session, uint64_t used, uint64_t limit, uint64_t now_ns);
/* Sets the device's total and free memory, bytes. */
void ds_sched_memory(ds_sched *sched, uint64_t total, uint64_t free);
/*
 * Drops all queued operations of the session and requests the device to abort running ones. The dropped ones are
 * reported with `status`, a CUDA error, after the operations in flight before them. Nothing can be submitted any more.
 * The session and its coroutines exist until ds_sched_session_idle() is true and the caller calls
 * ds_sched_session_free().
 */
void ds_sched_session_cancel(ds_sched_session *session, int status, uint64_t now_ns);
/* whether the session has nothing queued and nothing in flight */
int ds_sched_session_idle(const ds_sched_session *session);
/* Frees a session, which must be idle. Frees its coroutines, too, except those with a reference (ds_coroutine_ref). */
ds_sched_session *ds_sched_session_free(ds_sched_session *session);
void ds_sched_session_stats(const ds_sched_session *session, struct ds_sched_session_stats *stats);

/*
 * Holds classes (bits 1 << enum detshare_class; 0 = none): no work of their sessions is launched until the classes are
 * released, whatever the policy decides. The policy sees this work as not ready; an action for it is not counted as
 * invalid. Queues still accept operations, work in flight ends normally, waits and marks proceed.
 */
void ds_sched_hold(ds_sched *sched, unsigned classes, uint64_t now_ns);
/* Returns the number of the class's operations on the device, and of all its operations that have not ended. */
void ds_sched_load(const ds_sched *sched, enum detshare_class class_, uint32_t *ret_in_flight, uint32_t *ret_all);

/*
 * Creates a coroutine. blocking: it takes part in the joins of the legacy default stream. legacy: it is that stream
 * (one per session, otherwise -EEXIST). priority: the CUDA stream priority that the client chose. Returns
 * DS_SCHED_E_FULL beyond DS_SCHED_SESSION_COROUTINES_MAX.
 */
int ds_coroutine_new(ds_sched_session *session, int32_t priority, int blocking, int legacy, ds_coroutine **ret);
/* Frees the coroutine when its queue has drained. Nothing may be submitted to it any more. */
void ds_coroutine_release(ds_coroutine *coroutine);
/*
 * Keeps a released coroutine's sequence numbers readable (for an event that outlives its stream). Until the matching
 * unref, ds_coroutine_submitted(), ds_coroutine_done() and waits for the coroutine work, even after its session has
 * gone. Queued waits hold a reference of their own.
 */
ds_coroutine *ds_coroutine_ref(ds_coroutine *coroutine);
ds_coroutine *ds_coroutine_unref(ds_coroutine *coroutine);
uint64_t ds_coroutine_submitted(const ds_coroutine *coroutine); /* sequence number assigned last */
uint32_t ds_coroutine_in_flight(const ds_coroutine *coroutine); /* number of the coroutine's operations on the device */
uint64_t ds_coroutine_done(const ds_coroutine *coroutine);      /* all operations up to this number have ended */

/*
 * Queues an operation; sets op->seq. Returns 0, DS_SCHED_E_FULL or DS_SCHED_E_FAULTED (nothing is queued and the caller
 * keeps the operation). Launches nothing and calls nobody before ds_sched_step().
 */
int ds_sched_submit(ds_coroutine *coroutine, struct ds_op *op, uint64_t now_ns);
/* Ends an operation of kind DS_OP_OUTSIDE that is due. The next step reports its end. No effect if the operation was
 * dropped meanwhile. */
void ds_sched_over(struct ds_op *op, uint64_t now_ns);
/* number of operations that ds_sched_submit() would still accept */
size_t ds_coroutine_room(const ds_coroutine *coroutine);

/* Adds a kernel to a graph whose operations are not submitted yet. */
void ds_sched_graph_add(ds_sched *sched, struct ds_sched_graph *graph, const struct ds_launch *launch);
/*
 * Makes the graph a piece: consecutive nodes of another graph that take expected_ns in total, to be unfolded from that
 * graph. It is launched as a whole only while LS has been idle for away_ns. Called after all kernels are added. See
 * graph.h.
 */
void ds_sched_graph_piece(ds_sched *sched, struct ds_sched_graph *graph, uint64_t expected_ns, uint64_t away_ns);
/* Mean duration of a launch, copy or memset, including the device's cost of launching it; 0: not known. */
uint64_t ds_sched_expected_ns(ds_sched *sched, const struct ds_op *op);
/* Whether all blocks of the launch must be resident at the same time. */
int ds_sched_all_resident(const ds_sched *sched, const struct ds_launch *launch);
/* Whether the session's graphs would be launched as a whole now. See graph.h. */
int ds_sched_graph_whole(const ds_sched_session *session);
/* Whether only sessions of this session's class exist. */
int ds_sched_class_alone(const ds_sched_session *session);
/* Whether the device could launch the graph as a whole on the rung of the session's work now. */
int ds_sched_graph_ready(const ds_sched_session *session, const struct ds_sched_graph *graph);
/* [stops] Makes the device instantiate the graph on the rung of the session's work. Returns as
 * ds_device_ops.graph_build. */
int ds_sched_graph_build(ds_sched_session *session, const struct ds_sched_graph *graph);

/* Handles completions of the device, in the order in which its poll returned them. */
void ds_sched_complete(ds_sched *sched, const struct ds_completion *completions, size_t n);
/* Passes all events to the policy and launches what it decides. Returns 0 or a fatal errno of the device. */
int ds_sched_step(ds_sched *sched, uint64_t now_ns);
/* Next time at which ds_sched_step() must be called even if no other event occurs; UINT64_MAX = none. */
uint64_t ds_sched_next_timer(const ds_sched *sched);

/* Switches the policy at run time. params: "key=value" strings. A positive return code (DS_SCHED_E_...) comes with a
 * message. Work in flight continues. */
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
/* Returns the current parameters of the policy in charge: "key=value" joined by newlines, truncated to size. */
void ds_sched_policy_values(const ds_sched *sched, char *ret, size_t size);
void ds_sched_stats(const ds_sched *sched, struct ds_sched_stats *stats);
/*
 * Lists kernels launched for the first time, or again after the statistics forgot them. The keeper of profiles uses the
 * list. Returns up to n, oldest first. A kernel for which the list has no room is reported at a later launch.
 */
#define DS_SCHED_SEEN_NAME 256
struct ds_sched_seen {
        uint64_t key; /* key of the kernel, as ds_op.kernel_key */
        uint32_t grid[3], block[3], shared_bytes;
        uint32_t n_kernels;            /* number of kernels of a graph; 0: the key is that of a kernel */
        char name[DS_SCHED_SEEN_NAME]; /* kernel's name in its image, truncated */
};
size_t ds_sched_seen(ds_sched *sched, struct ds_sched_seen *ret, size_t n);

/*
 * Profile of the kernels with one key. ds_sched_profile_put() stores one that comes from a file;
 * ds_sched_profiles_changed() returns those that samples have refined. A point with more samples is kept. Points are
 * sorted by n_sms, ascending; malformed values are ignored.
 */
/* Cost of a form: its duration relative to the native one on the same SMs. */
struct ds_sched_form_cost {
        uint32_t samples; /* number of measurements; 0: the cost is not known */
        uint32_t permille;
};
struct ds_sched_profile {
        uint64_t key;      /* key of the kernels, as ds_op.kernel_key */
        uint32_t bound;    /* enum detshare_kernel_bound */
        uint32_t n_points; /* number of points, up to DETSHARE_POINTS_MAX */
        struct detshare_profile_point points[DETSHARE_POINTS_MAX];
        struct ds_sched_form_cost forms[_DS_PTX_FORM_MAX]; /* costs by enum ds_ptx_form; the native form has none */
};
void ds_sched_profile_put(ds_sched *sched, const struct ds_sched_profile *profile);
/*
 * Returns up to n profiles refined since they were last returned here. A point counts as refined after 1, 2, 4, ... 64
 * samples, then after every 64.
 */
size_t ds_sched_profiles_changed(ds_sched *sched, struct ds_sched_profile *ret, size_t n);
/*
 * The reason why the kernels of a key ran in their form at their last launch that had a choice, for `detsharectl
 * explain`. Returns 0, or -ENOENT: there was no such launch, or the statistics forgot it. Times are for the SMs of that
 * launch.
 */
enum ds_sched_form_reason {
        DS_SCHED_FORM_NONE,  /* no launch with a choice yet */
        DS_SCHED_FORM_NEVER, /* configured: mode "never" */
        DS_SCHED_FORM_MUST,  /* configured: mode "always" */
        /* the blocks wait for each other, or the launch has clusters, is cooperative or too large */
        DS_SCHED_FORM_UNFIT,
        DS_SCHED_FORM_UNASKED,  /* LS session, or the policy did not request an evictable launch */
        DS_SCHED_FORM_UNKNOWN,  /* its duration is not known well enough */
        DS_SCHED_FORM_SHORT,    /* the kernel is shorter than the bound */
        DS_SCHED_FORM_TRIED,    /* the launch measures the cost of the form */
        DS_SCHED_FORM_CHEAPEST, /* cheapest form with an eviction time within the bound */
        DS_SCHED_FORM_SOONEST,  /* no form meets the bound: the form with the shortest eviction time */
        /* every suitable form costs too much, or its eviction takes no less time than the kernel */
        DS_SCHED_FORM_DEAR,
        DS_SCHED_FORM_REFUSED, /* the device refused the chosen form, or all forms */
        _DS_SCHED_FORM_REASONS,
};
struct ds_sched_form_choice {
        uint32_t form;   /* enum ds_ptx_form */
        uint32_t reason; /* enum ds_sched_form_reason */
        uint32_t n_sms;
        uint32_t chunk, slice; /* blocks that a persistent worker takes at a time; blocks per slice */
        uint64_t native_ns;    /* duration of the native form, 0 = not known */
        uint64_t block_ns;     /* duration of one block, ns */
        uint64_t evict_ns;     /* eviction time of the chosen form */
        struct ds_sched_form_cost costs[_DS_PTX_FORM_MAX];
};
int ds_sched_form_chosen(ds_sched *sched, uint64_t key, struct ds_sched_form_choice *ret);
/* Text of a reason, for example "the cheapest form that can be evicted within the bound"; never NULL. */
const char *ds_sched_form_reason(uint32_t reason);
/*
 * Note of a policy (struct detshare_note) as its keeper sees it. ds_sched_notes_asked() returns up to n notes that a
 * policy wants to read: only key and group are filled in. ds_sched_note_put() brings such a note.
 * ds_sched_notes_changed() returns up to n notes that policies have written since. See notes.h.
 */
struct ds_sched_note {
        uint64_t key, group; /* the host's: hashes with the policy's name; the key includes the group */
        uint32_t n;          /* number of values; 0: the note is not known */
        uint64_t values[DETSHARE_NOTE_VALUES];
        char text[DETSHARE_NOTE_TEXT + 40]; /* the policy's name, a colon and the note's text */
};
size_t ds_sched_notes_asked(ds_sched *sched, struct ds_sched_note *ret, size_t n);
size_t ds_sched_notes_changed(ds_sched *sched, struct ds_sched_note *ret, size_t n);
void ds_sched_note_put(ds_sched *sched, const struct ds_sched_note *note);
/* Forgets all profiles and notes; the next launch of each kernel counts as its first. */
void ds_sched_profiles_forget(ds_sched *sched);
/*
 * Passes a copy of this GPU's calibrated interference matrix to the policy. The policy in charge restarts with it and
 * its current parameters; work in flight continues. Returns 0; -ENOMEM; or DS_SCHED_E_REFUSED: the policy refused, and
 * the built-in one took over.
 */
int ds_sched_set_interference(ds_sched *sched, const struct detshare_interference *matrix, uint32_t n, uint64_t now_ns);
/* Sets the bound (compute or memory, enum detshare_kernel_bound) of the kernels with this key, for the policy. */
void ds_sched_set_bound(ds_sched *sched, uint64_t kernel_key, enum detshare_kernel_bound bound);
