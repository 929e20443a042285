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
 * sense is ignored and counted, and a policy that fails, overruns or stalls is replaced by the built-in one ("fifo").
 *
 * A session's share of the SMs (sm_percent) is the scheduler's business and no policy's: whatever rung an action names,
 * the work goes to one inside it with at most that share of the TPCs, or to the smallest one when all have more (see
 * ladder.h). Only a kernel that needs all its blocks resident and does not fit there goes where the policy said, or, as
 * without a share, to the whole GPU. A change holds for what is launched from then on.
 *
 * A kernel that has other forms (ds_op.forms, ptx/pass/forms.h) may be launched in one of them, so that it lets the GPU
 * go at the end of its blocks and goes on later, on any rung, from where it was: see forms.h for which is chosen and
 * let_go.h for what evicting means. It is one operation all the same, told once, at its end.
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
#define DS_SCHED_E_FULL 4      /* the coroutine's queue or the session's is full, or memory is short */
#define DS_SCHED_E_FAULTED 5   /* the session was cancelled */

#define DS_SCHED_QUEUE_MAX 4096              /* operations per coroutine, those on the device included */
#define DS_SCHED_SESSION_QUEUE_MAX 65536     /* operations per session */
#define DS_SCHED_SESSION_COROUTINES_MAX 1024 /* not yet freed, per session */
#define DS_SCHED_IN_FLIGHT_MAX 4096          /* operations on the device at once */
#define DS_SCHED_STREAM_MAX 256 /* of them in one stream of the device: launching into ~1,000 blocks on a GPU */

enum ds_op_kind {
        DS_OP_LAUNCH,
        DS_OP_COPY,
        DS_OP_MEMSET,
        DS_OP_MARK,    /* no work: ends when everything before it in the coroutine ended; its time is an event's time */
        DS_OP_WAIT,    /* no work: ends when `wait_for` has ended `wait_seq`, or all it had when this was submitted */
        DS_OP_GRAPH,   /* many kernels, copies and memsets: see graph.h */
        DS_OP_OUTSIDE, /* no work: when everything before it in the coroutine has ended it is due, and it ends when its
                          owner says so (ds_sched_over) */
        _DS_OP_KIND_MAX,
};

/*
 * A graph: what the scheduler must know of it. The caller's; lives until the last operation that names it is done, and
 * does not change meanwhile.
 */
struct ds_sched_graph {
        ds_device_graph *device; /* NULL: its parts are launched one by one, always */
        uint64_t key; /* identity for the statistics, not 0; ds_sched_graph_add mixes each kernel's into it */
        uint32_t n_kernels, n_works; /* works: kernels, copies, memsets */
        /* of its kernels, by ds_sched_graph_add; as a policy sees them while they are one operation */
        uint32_t blocks, threads, blocks_per_sm, sms_needed, cluster_blocks;
        uint32_t all_resident;
        uint64_t waves;    /* of blocks that fill the GPU, or some of it, of all of its kernels one after the other */
        uint8_t piece;     /* it is some of a graph's nodes, see ds_sched_graph_piece */
        uint64_t piece_ns; /* what these were expected to take */
};

/* Other forms of a kernel (ptx/pass/forms.h), each NULL where there is none. The caller's; lives as long as operations
 * that name it. */
struct ds_sched_forms {
        const ds_device_kernel *sliced, *persistent;
        /*
         * 1: its blocks may wait for other blocks. Forms are right where these have a lower index (decoupled
         * look-back); where one of a higher index is waited for, a launch that lets go would wait for ever. Nothing
         * shows which it is, so such forms are used only where everything is to be transformed (tests) and the grid is
         * larger than the whole GPU holds at once: there a grid's barrier cannot be what is waited for.
         */
        uint32_t waits;
        /* what the statistics know the native kernel by, if it is not ds_kernel_info.hash: the image that has the
         * forms, too, is another one than that which has none; 0 = it is that */
        uint64_t identity;
};

/*
 * An operation, embedded by the caller in what it belongs to or allocated alone; owned by the scheduler from submit
 * until the done callback, which may free it. The stream fields of launch/copy/memset are filled by the scheduler.
 */
struct ds_op {
        enum ds_op_kind kind;
        uint64_t seq;  /* set by submit: 1, 2, ... per coroutine */
        uint64_t user; /* the caller's */
        union {
                struct ds_launch launch; /* params point to memory that lives until done */
                struct ds_copy copy;
                struct ds_memset memset;
                struct {
                        struct ds_graph_launch whole;
                        const struct ds_sched_graph *graph;
                        uint8_t parts_only;   /* the caller's: it never goes as a whole */
                        uint8_t in_parts;     /* the scheduler's from here on: it goes in parts */
                        uint8_t unfolded_all; /* there are no more */
                };
                struct {
                        ds_coroutine *wait_for; /* any session's; NULL = nothing to wait for; NULL again when done */
                        uint64_t wait_seq;
                };
                struct { /* the scheduler's */
                        uint8_t due, over;
                        uint64_t over_ns;
                } outside;
        };
        uint64_t kernel_key; /* launch: identity of kernel and shape for the statistics; 0 = hash it here */
        const struct ds_sched_forms *forms; /* launch: NULL = the native form alone; launch.kernel is the native one */
        /* scheduler's own, set by submit */
        struct ds_op *next;
        ds_coroutine *coroutine;
        uint64_t submitted_ns, launched_ns;
        uint64_t ready_ns; /* set by the launch: since when it could have been launched */
        uint64_t join_seq; /* what of the legacy default stream, or of those it joins, must have ended before */
        uint64_t start_ns, end_ns;
        char *message; /* the device's words when status is an error */
        int32_t status;
        uint32_t stat_row;
        uint32_t cluster_blocks; /* of a launch; 1 = no clusters */
        uint32_t phase;          /* enum detshare_phase */
        uint32_t slot;           /* on the device: see launch.h */
        uint8_t finished; /* ended, but not told yet: something before it in the coroutine has not; see coroutine.h */
        uint8_t killed;   /* it came back unfinished, to be launched anew; see launch.h */
        uint8_t part;     /* of a graph: made by unfold, has no sequence number; set by the scheduler */
        uint8_t form;     /* launch: enum ds_ptx_form that it is in; where some of it has run it stays so */
        uint8_t n_slices; /* on the device */
        uint32_t blocks_ran;   /* of an evicted kernel, by all of its pieces */
        uint32_t next_block;   /* sliced: the first that is not launched; blocks_ran when nothing is on the device */
        uint32_t slice, chunk; /* sliced: blocks at a time; persistent: of a worker */
        uint32_t evictions;    /* how often it has let go */
        uint64_t began_ns;     /* the first piece's start, where blocks_ran is not 0 */
        uint64_t ran_ns;       /* what its pieces took that are over */
};

#define DS_SCHED_EVICT_BOUND_NS 100000ULL

/*
 * status: CUDA error number; message is NULL, or the device's words about an error, good during the call. Called from
 * step, complete and cancel, in order per coroutine.
 */
typedef void (*ds_op_done_fn)(
        void *user, struct ds_op *op, int status, uint64_t start_ns, uint64_t end_ns, const char *message);

/*
 * The next part of a graph, a launch, copy, memset or mark in the caller's memory, told by the done callback as any
 * operation. 1 and *ret; 0: there are no more; -ENOMEM: the graph ends with OUT_OF_MEMORY. Must not call the scheduler.
 */
typedef int (*ds_op_unfold_fn)(void *user, struct ds_op *graph, struct ds_op **ret);
/* An operation DS_OP_OUTSIDE is due. 1: it is over already. Must not call the scheduler. */
typedef int (*ds_op_due_fn)(void *user, struct ds_op *op);

/* When forms of kernels (ds_op.forms) are used, as the daemon was told. */
enum ds_sched_transform {
        DS_SCHED_TRANSFORM_AUTO,   /* where they are worth it */
        DS_SCHED_TRANSFORM_ALWAYS, /* wherever there are any, whatever they cost: tests */
        DS_SCHED_TRANSFORM_NEVER,
};

struct ds_sched_config {
        const struct ds_device_ops *ops;
        ds_device *device;      /* outlives the scheduler; rungs are created by ds_sched_new */
        const char *policy_dir; /* "" = only built-in policies */
        int policy_dir_fd;      /* of it, stays the caller's and open; 0 = it is opened by name */
        const char *policy;     /* name at start */
        struct ds_ladder_options ladder;
        ds_op_done_fn done;
        ds_op_unfold_fn unfold; /* NULL: no graphs are submitted */
        ds_op_due_fn due;       /* NULL: no DS_OP_OUTSIDE is submitted */
        /*
         * The session is to get no device memory beyond so many bytes from now on; UINT64_MAX: its own limit alone.
         * Called from step and set_policy; must not call the scheduler. NULL: a policy cannot cap memory.
         */
        void (*memory_cap)(void *user, uint64_t session, uint64_t bytes);
        void *user;
        uint64_t (*wall_ns)(void); /* real time, to measure the policy's own decisions; NULL = do not */
        uint64_t (*cpu_ns)(void);  /* processor time of the calling thread, for a policy's budget; NULL = wall_ns */
        uint64_t policy_budget_ns; /* a decision longer than this is an overrun; 0 = 5 ms */
        int trust_any_owner;       /* tests: do not insist on a root-owned (or own) policy directory */
        uint32_t nonsense_limit;   /* 0 = DS_HOST_NONSENSE_LIMIT; UINT32_MAX (tests): a policy may answer anything */
        enum ds_sched_transform transform;
        uint64_t evict_bound_ns; /* AUTO: what an eviction is to take at most; 0 = DS_SCHED_EVICT_BOUND_NS */
};

struct ds_sched_session_config {
        uint64_t id;
        uint32_t uid;
        char name[64]; /* for people */
        enum detshare_class class_;
        uint64_t slo_ns;
        uint32_t sm_percent; /* 1..100; 100 = no bound, and more counts as that */
        uint32_t space;
        uint32_t gpu_request, gpu_limit; /* shares of the GPU's time, thousandths; 0 = not said. For the policy */
        uint64_t memory_limit;           /* bytes, 0 = none; for the policy: others keep to it */
};

struct ds_sched_stats {
        uint64_t decisions, actions, actions_ignored, overruns, fallbacks, launches, migrations;
        uint64_t loans;     /* launches moved to the whole GPU because all their blocks must be resident, or for
                               their clusters */
        uint64_t capped;    /* launches moved to a smaller rung because of their session's sm_percent */
        uint64_t nonsense;  /* decisions with an action that makes no sense: of actions_ignored */
        uint64_t kills;     /* kernels that a policy had ended, to be launched anew */
        uint64_t evictions; /* kernels that let go, to go on later */
        uint64_t resumed;   /* launches of kernels that go on */
        uint64_t sliced, persistent; /* launches in these forms; of slices the first of each run */
        uint64_t form_refusals;      /* launches that the device would not have in another form: native then */
        uint64_t stray_completions;  /* tokens that the device gave back and nobody waits for: always 0 */
        uint32_t in_flight, queued, coroutines, sessions, n_rungs;
        uint32_t n_coarse_rungs;          /* of n_rungs: made of groups of TPCs */
        uint64_t ladder_bytes, ladder_ns; /* what the rungs take of the device's memory, and took to build */
        char policy[32];
};

struct ds_sched_session_stats {
        uint64_t launches;                    /* kernels given to the device */
        uint64_t completed, errors, requests; /* errors: of the completed kernels, copies and memsets */
        uint64_t device_ns;                   /* sum of operations' device time */
        uint64_t wait_ns;                     /* sum over operations of submit to start */
        uint64_t kills;                       /* kernels ended by the policy; launched anew, so counted again */
        uint64_t evictions;                   /* kernels that let go; likewise */
        uint64_t blocks;                      /* of kernels that have run, each once */
        uint32_t queued, in_flight, coroutines;
        uint32_t request_active;
};

/* Builds the ladder on the device and loads the policy; contract codes as ds_sched_set_policy (said in the log). */
int ds_sched_new(const struct ds_sched_config *config, ds_sched **ret);
/* Nothing may be in flight; queued operations are not told. */
ds_sched *ds_sched_free(ds_sched *sched);

/* Events are left that the policy is told of in the next step: time should not pass before. */
int ds_sched_behind(const ds_sched *sched);

int ds_sched_session_new(ds_sched *sched, const struct ds_sched_session_config *config, ds_sched_session **ret);
void ds_sched_session_set(
        ds_sched_session *session, enum detshare_class class_, uint64_t slo_ns, uint32_t sm_percent, uint64_t now_ns);
/* Its shares of the GPU's time, as in ds_sched_session_config. */
void ds_sched_session_share(ds_sched_session *session, uint32_t gpu_request, uint32_t gpu_limit, uint64_t now_ns);
/* enum detshare_phase: holds for what is submitted from then on. */
void ds_sched_session_phase(ds_sched_session *session, uint32_t phase, uint64_t now_ns);
/*
 * Its client has waited for all that it had submitted. The policy hears of it, and sees it until the next submit; when
 * something of the session is left after all, nothing happens.
 */
void ds_sched_session_synchronised(ds_sched_session *session, uint64_t now_ns);
/* Bytes of device memory that it has, and may have (0 = no limit of its own). */
void ds_sched_session_memory(ds_sched_session *session, uint64_t used, uint64_t limit, uint64_t now_ns);
/* Bytes of device memory that there are, and that nobody has. */
void ds_sched_memory(ds_sched *sched, uint64_t total, uint64_t free);
/*
 * Drop everything queued (done is called with `status`, a CUDA error, after what is still in flight before it) and ask
 * the device to abort what runs. Nothing can be submitted any more. The session and its coroutines are gone when
 * ds_sched_session_idle() is true and ds_sched_session_free() was called.
 */
void ds_sched_session_cancel(ds_sched_session *session, int status, uint64_t now_ns);
int ds_sched_session_idle(const ds_sched_session *session); /* nothing queued, nothing in flight */
/* Must be idle. Its coroutines go with it, except those that somebody holds a reference to (ds_coroutine_ref). */
ds_sched_session *ds_sched_session_free(ds_sched_session *session);
void ds_sched_session_stats(const ds_sched_session *session, struct ds_sched_session_stats *stats);

/*
 * Hold classes (bits 1 << enum detshare_class; 0 = none): nothing of their sessions is launched until they are let go,
 * whatever the policy says. It sees their work as not ready; an action for it that comes all the same is not counted.
 * Queues go on filling, what is in flight ends as always, waits and marks go on.
 */
void ds_sched_hold(ds_sched *sched, unsigned classes, uint64_t now_ns);
/* Operations of a class's sessions: on the device, and all that have not ended. */
void ds_sched_load(const ds_sched *sched, enum detshare_class class_, uint32_t *ret_in_flight, uint32_t *ret_all);

/*
 * blocking: takes part in the legacy default stream's joins. legacy: is that default stream (one per session, -EEXIST).
 * priority: the CUDA stream priority asked for. DS_SCHED_E_FULL past DS_SCHED_SESSION_COROUTINES_MAX.
 */
int ds_coroutine_new(ds_sched_session *session, int32_t priority, int blocking, int legacy, ds_coroutine **ret);
/* Frees it once its queue has drained; submit no more. */
void ds_coroutine_release(ds_coroutine *coroutine);
/*
 * Keep a released coroutine's sequence numbers readable (an event that outlives its stream): submitted, done and waits
 * for it go on working until the matching unref, even after its session is gone. Queued waits hold their own reference.
 */
ds_coroutine *ds_coroutine_ref(ds_coroutine *coroutine);
ds_coroutine *ds_coroutine_unref(ds_coroutine *coroutine);
uint64_t ds_coroutine_submitted(const ds_coroutine *coroutine); /* last sequence number given out */
uint32_t ds_coroutine_in_flight(const ds_coroutine *coroutine); /* of it on the device */
uint64_t ds_coroutine_done(const ds_coroutine *coroutine);      /* all up to here have ended */

/*
 * Queue an operation; sets op->seq. 0, DS_SCHED_E_FULL or DS_SCHED_E_FAULTED (nothing queued, the operation stays the
 * caller's). Nothing is launched and nobody is called back before ds_sched_step.
 */
int ds_sched_submit(ds_coroutine *coroutine, struct ds_op *op, uint64_t now_ns);
/* What an operation that is due waited for has come. It is told in the next step; nothing if it was dropped meanwhile.
 */
void ds_sched_over(struct ds_op *op, uint64_t now_ns);
size_t ds_coroutine_room(const ds_coroutine *coroutine); /* operations that submit would still take */

/* One more kernel of a graph whose operations are not submitted yet. */
void ds_sched_graph_add(ds_sched *sched, struct ds_sched_graph *graph, const struct ds_launch *launch);
/*
 * All kernels of it were added: it is not a whole graph but a piece, some of a graph's nodes, which together are
 * expected to take so long; made to be unfolded from one. See graph.h.
 */
void ds_sched_graph_piece(ds_sched *sched, struct ds_sched_graph *graph, uint64_t expected_ns);
/* What a launch, copy or memset took in the mean, with all that launching it costs the device; 0: nobody knows. */
uint64_t ds_sched_expected_ns(ds_sched *sched, const struct ds_op *op);
/* Must all blocks of the launch be resident at once? */
int ds_sched_all_resident(const ds_sched *sched, const struct ds_launch *launch);
/* Would the session's graphs go as a whole now? See graph.h. */
int ds_sched_graph_whole(const ds_sched_session *session);
/* [stops] Make the device ready for it where the session's work goes. As ds_device_ops.graph_build. */
int ds_sched_graph_build(ds_sched_session *session, const struct ds_sched_graph *graph);

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
        char params[4096]; /* "ls_percent=50 [10..90]: ..." joined by newlines */
        int active;
};
size_t ds_sched_list_policies(ds_sched *sched, struct ds_policy_listing *list, size_t n);
void ds_sched_stats(const ds_sched *sched, struct ds_sched_stats *stats);
/*
 * What was launched for the first time, or again after the statistics forgot it: for who keeps profiles. Up to n of
 * them, the oldest first; what finds no room while nobody asks is told of when it is launched again.
 */
#define DS_SCHED_SEEN_NAME 256
struct ds_sched_seen {
        uint64_t key; /* ds_op.kernel_key */
        uint32_t grid[3], block[3], shared_bytes;
        uint32_t n_kernels;            /* of a graph; 0: it is a kernel */
        char name[DS_SCHED_SEEN_NAME]; /* of the kernel, cut; as its image has it */
};
size_t ds_sched_seen(ds_sched *sched, struct ds_sched_seen *ret, size_t n);

/*
 * What is known about the kernels of a key: from a file when it is put, and better from what ran when it changed. A
 * point that rests on more samples stays. Points by n_sms, ascending; what is not well formed is left out.
 */
/* What a form costs: its time over the native one's on the same SMs. */
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
 * Up to n of those that have been refined since they were last given out here, returns how many. What is refined again
 * and again is so after 1, 2, 4, ... 64 samples of a point, then after 64 more each.
 */
size_t ds_sched_profiles_changed(ds_sched *sched, struct ds_sched_profile *ret, size_t n);
/*
 * Why the kernels of a key run in the form that they run in, as of their last launch that had a choice: for `explain`.
 * 0, or -ENOENT: there was none, or nothing is known any more. Times are of the SMs that it was launched on.
 */
enum ds_sched_form_reason {
        DS_SCHED_FORM_NONE,     /* there was no choice yet */
        DS_SCHED_FORM_NEVER,    /* nothing is transformed */
        DS_SCHED_FORM_MUST,     /* everything is */
        DS_SCHED_FORM_UNFIT,    /* its blocks wait for others, or it has clusters, is cooperative or too large */
        DS_SCHED_FORM_UNASKED,  /* LS, or the policy did not ask for what can be evicted */
        DS_SCHED_FORM_UNKNOWN,  /* how long it takes is not known well enough */
        DS_SCHED_FORM_SHORT,    /* its own end is near enough */
        DS_SCHED_FORM_TRIED,    /* to learn what the form costs */
        DS_SCHED_FORM_CHEAPEST, /* of those that let go within the bound */
        DS_SCHED_FORM_SOONEST,  /* none does so within the bound: this one is the first to */
        DS_SCHED_FORM_DEAR,     /* every form that would do costs too much, or lets go no sooner */
        DS_SCHED_FORM_REFUSED,  /* the device would not launch it in the form that was chosen, or in any */
        _DS_SCHED_FORM_REASONS,
};
struct ds_sched_form_choice {
        uint32_t form;   /* enum ds_ptx_form */
        uint32_t reason; /* enum ds_sched_form_reason */
        uint32_t n_sms;
        uint32_t chunk, slice; /* blocks */
        uint64_t native_ns;    /* the native form's time, 0 = not known */
        uint64_t block_ns;     /* a block's */
        uint64_t evict_ns;     /* how long an eviction takes, in the form that was chosen */
        struct ds_sched_form_cost costs[_DS_PTX_FORM_MAX];
};
int ds_sched_form_chosen(ds_sched *sched, uint64_t key, struct ds_sched_form_choice *ret);
/* What is said of a reason: "let go within the bound", ...; never NULL. */
const char *ds_sched_form_reason(uint32_t reason);
/* All profiles; what is launched from then on is seen for the first time. */
void ds_sched_profiles_forget(ds_sched *sched);
/*
 * The interference matrix that this GPU was calibrated to; copied. The policy in charge begins anew with it, with the
 * parameters that it has; work in flight goes on. -ENOMEM; DS_SCHED_E_REFUSED: it would not, and the built-in took
 * over.
 */
int ds_sched_set_interference(ds_sched *sched, const struct detshare_interference *matrix, uint32_t n, uint64_t now_ns);
/* What a profile says about the kernels of a key (see ds_op.kernel_key): the policy sees it. */
void ds_sched_set_bound(ds_sched *sched, uint64_t kernel_key, enum detshare_kernel_bound bound);
