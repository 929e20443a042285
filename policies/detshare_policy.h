/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy plug-in ABI of DetShare
 *
 * A policy decides which coroutine's work goes to the GPU next, on which rung (set of TPCs), with what priority and how
 * much of it at once. It is a shared object that exports one symbol, `detshare_policy`. The host calls decide() at
 * every submit, completion, change of sessions and timer, with a snapshot of all that matters; decide() writes
 * actions. A policy never calls the device, reads no clock, does not sleep and does not allocate in decide():
 * its memory is `state_size` bytes that the host gives it, zeroed. The same policy therefore runs live, on the virtual
 * clock and in a test, and gives the same decisions for the same snapshots.
 *
 * Structures that cross the boundary alone start with their version or size: fields are only ever added at their end,
 * so a plug-in built for a smaller one keeps working. Elements of arrays (views, actions, parameters) change only with
 * DETSHARE_POLICY_ABI. All times are nanoseconds of the device clock.
 *
 * The host keeps the GPU alive whatever a policy does: an action that makes no sense is ignored and counted; a policy
 * that returns an error, overruns its time again and again, answers nonsense again and again, or leaves ready work with
 * nothing in flight and no timer for a second is replaced by the built-in `fifo`. Sessions it had suspended are resumed
 * when it goes.
 */
#ifndef DETSHARE_POLICY_H
#define DETSHARE_POLICY_H

#include <stddef.h>
#include <stdint.h>

#define DETSHARE_POLICY_ABI 3u
#define DETSHARE_POLICY_PARAMS_MAX 48u
#define DETSHARE_AHEAD_MAX 16u  /* most entries of a coroutine's ahead[] */
#define DETSHARE_POINTS_MAX 24u /* most points of a kernel's profile */
#define DETSHARE_RUNG_NONE UINT32_MAX
/* detshare_op_view.forms: how a kernel can be launched; see daemon/ptx/pass/forms.h */
#define DETSHARE_FORM_NATIVE 1u     /* as its author wrote it */
#define DETSHARE_FORM_SLICED 2u     /* so many blocks at a time */
#define DETSHARE_FORM_PERSISTENT 4u /* by workers that let go at a block's end */
#define DETSHARE_PRIORITY_HIGH 0u
#define DETSHARE_PRIORITY_LOW 1u

enum detshare_class {
        DETSHARE_CLASS_BE = 0,
        DETSHARE_CLASS_LS = 1,
};

enum detshare_event {
        DETSHARE_EVENT_SWITCH = 0,        /* first call of this policy; work may be in flight already */
        DETSHARE_EVENT_SUBMIT = 1,        /* a coroutine that had nothing ready has work now */
        DETSHARE_EVENT_COMPLETE = 2,      /* an operation ended: see the event_ fields */
        DETSHARE_EVENT_TIMER = 3,         /* the time asked for by next_timer_ns */
        DETSHARE_EVENT_REQUEST_BEGIN = 4, /* an LS session began a request */
        DETSHARE_EVENT_REQUEST_END = 5,   /* its queues are empty and nothing of it is in flight */
        DETSHARE_EVENT_SESSION = 6,       /* a session came, went or changed */
        DETSHARE_EVENT_AGAIN = 7,         /* the last decision asked for another call; the event was told then */
        DETSHARE_EVENT_SYNCHRONISED = 8,  /* a client has waited for all that its session had submitted */
};

enum detshare_op_kind {
        DETSHARE_OP_KERNEL = 0,
        DETSHARE_OP_COPY = 1,
        DETSHARE_OP_MEMSET = 2,
};

enum detshare_kernel_bound {
        DETSHARE_BOUND_UNKNOWN = 0,
        DETSHARE_BOUND_COMPUTE = 1,
        DETSHARE_BOUND_MEMORY = 2,
};

/* What an LLM server is about, as its client said, or as the launch pattern looks to a policy. */
enum detshare_phase {
        DETSHARE_PHASE_NONE = 0,
        DETSHARE_PHASE_PREFILL = 1,
        DETSHARE_PHASE_DECODE = 2,
};

/* A coroutine's state, from where its work is; see daemon/sched/coroutine.h for how it changes. */
enum detshare_coroutine_state {
        DETSHARE_COROUTINE_IDLE = 0,
        DETSHARE_COROUTINE_READY = 1,
        DETSHARE_COROUTINE_RUNNING = 2,
        DETSHARE_COROUTINE_YIELDING = 3,
        DETSHARE_COROUTINE_SUSPENDED = 4,
        DETSHARE_COROUTINE_FAULTED = 5,
};

/* How long a kernel took on rungs of so many SMs, when nothing else was on the GPU. */
struct detshare_profile_point {
        uint32_t n_sms;
        uint32_t samples; /* that the mean rests on; those of a stored profile count, too */
        uint64_t mean_ns;
};

/* One queued operation. For copies and memsets only kind, expected_ns and bytes mean something. */
struct detshare_op_view {
        uint32_t kind;          /* enum detshare_op_kind */
        uint32_t bound;         /* enum detshare_kernel_bound */
        uint64_t kernel;        /* the same number for the same kernel and launch shape */
        uint32_t blocks;        /* grid size, saturating */
        uint32_t threads;       /* per block */
        uint32_t blocks_per_sm; /* resident at once on one SM */
        uint32_t sms_needed;    /* SMs that hold all blocks at once, at most n_sms */
        uint32_t samples;       /* completions that expected_ns rests on; 0 = a guess, expected_ns is 0 */
        uint32_t all_resident;  /* 1: runs only where all its blocks fit (cooperative) */
        uint64_t expected_ns;   /* running mean of its duration, any rung */
        uint64_t bytes;
        uint64_t submitted_ns; /* when its client submitted it */
        uint32_t phase;        /* enum detshare_phase: what its client had said when it submitted it */
        uint32_t idempotent;   /* 1: running it twice, or a part of it and then all of it, is proven to do no harm */
        uint32_t n_points;     /* entries of points[]; a profile holds time against SMs because kernels cost stairs */
        const struct detshare_profile_point *points; /* by n_sms, ascending; good during the call */
        uint32_t forms;             /* DETSHARE_FORM_ bits: those that the host may choose from when it is launched */
        uint32_t progress_permille; /* of its blocks that have run, before it was evicted */
        /* launched `evictable` on the whole GPU: how long EVICT takes until its SMs are free. 0: it does not let go */
        uint64_t evict_ns;
};

/* A coroutine with work queued or in flight. */
struct detshare_coroutine_view {
        uint64_t id;
        uint32_t session;               /* index into sessions[] */
        uint32_t class_;                /* enum detshare_class: the stream's, else the session's */
        int32_t priority;               /* the CUDA stream priority its client asked for: lower is more urgent */
        uint32_t queued;                /* operations waiting, ready or not; events and waits are the host's business */
        uint32_t ready;                 /* 1: the head may be launched now (dependencies met, session not suspended) */
        uint32_t in_flight;             /* operations on the device */
        uint32_t rung;                  /* where they are; DETSHARE_RUNG_NONE when none */
        uint32_t in_flight_sms;         /* sum of their sms_needed, at most n_sms */
        uint64_t in_flight_expected_ns; /* sum of their expected_ns */
        uint64_t in_flight_since_ns;    /* launch of the oldest of them, 0 when none */
        uint64_t head_since_ns;         /* when the head became the head and ready */
        uint32_t state;                 /* enum detshare_coroutine_state */
        uint32_t n_ahead;               /* entries of ahead[] */
        uint32_t evictable; /* 1: EVICT makes sense: what is in flight lets go, but for what ends by itself before it */
        uint32_t reserved;
        uint64_t evict_ns;                    /* then: how long that takes, as far as it is known */
        const struct detshare_op_view *ahead; /* the first operations of the queue; ahead[0] is the head */
};

/* A session with such a coroutine, an active request, a suspension, or the one that the event is about. */
struct detshare_session_view {
        uint64_t id;
        uint32_t uid;
        uint32_t class_;
        uint64_t slo_ns;         /* 0 = none */
        uint32_t request_active; /* LS: between its first launch and idle */
        uint32_t suspended;
        uint64_t request_begin_ns;
        uint64_t deadline_ns; /* request_begin_ns + slo_ns when both are known, else UINT64_MAX */
        uint64_t device_ns;   /* device time of its operations so far, summed */
        uint32_t sm_percent;  /* the cap its user set, 100 = none; the host keeps to it, see LAUNCH */
        uint32_t in_flight;
        uint32_t synchronised; /* 1: its client has waited for all that it had submitted: it has the results */
        uint32_t phase;        /* enum detshare_phase: what its client said last */
        uint32_t gpu_request;  /* share of the GPU's time that it is to get at least, and ... */
        uint32_t gpu_limit;    /* ... at most, in thousandths; 0 = nothing was said */
        uint64_t memory_used, memory_limit; /* bytes of device memory; limit 0 = none of its own */
};

/* Where a rung lies: see the ladder in the documentation. */
enum detshare_rung_side {
        DETSHARE_SIDE_ALL = 0,   /* the whole GPU */
        DETSHARE_SIDE_LOWER = 1, /* from the first TPC on: where LS is */
        DETSHARE_SIDE_UPPER = 2, /* up to the last TPC: where BE is */
};

enum detshare_rung_family {
        DETSHARE_FAMILY_FINE = 0,   /* made of single TPCs: clusters of two blocks at most */
        DETSHARE_FAMILY_COARSE = 1, /* made of groups of TPCs that share a GPC: takes larger clusters */
};

struct detshare_rung_view {
        uint32_t id;
        uint32_t n_sms;
        uint32_t n_tpcs;
        uint32_t in_flight_ls, in_flight_be;
        uint32_t side;        /* enum detshare_rung_side */
        uint32_t family;      /* enum detshare_rung_family */
        uint32_t cluster_max; /* blocks of the largest cluster that runs there */
        uint64_t tpcs[2];     /* bit i = TPC i; those of a coarse rung as far as they are known */
};

struct detshare_snapshot {
        uint32_t size;  /* sizeof(struct detshare_snapshot) of the host */
        uint32_t event; /* enum detshare_event */
        uint64_t now_ns;
        uint32_t n_sms, n_tpcs;
        uint32_t n_coroutines, n_sessions, n_rungs;
        uint32_t event_session;                           /* index into sessions[], UINT32_MAX if it is gone or none */
        uint64_t event_coroutine;                         /* id, 0 if none */
        uint64_t event_start_ns, event_end_ns;            /* COMPLETE: when the operation ran */
        struct detshare_op_view event_op;                 /* COMPLETE: what it was */
        const struct detshare_coroutine_view *coroutines; /* by id, ascending */
        const struct detshare_session_view *sessions;
        const struct detshare_rung_view *rungs; /* rung 0 is the whole GPU; see DETSHARE ladder in the documentation */
        uint32_t can_kill;                      /* 1: the device can end a running kernel, see KILL */
        uint32_t can_evict;                     /* 1: there may be kernels that let go, see EVICT */
        uint64_t memory_total, memory_free;     /* bytes of device memory */
};

enum detshare_action_kind {
        /*
         * Send up to `count` operations from the head of `coroutine` to `rung`. The host takes a smaller rung inside it
         * when the session may not use that many SMs, and the whole GPU for a kernel whose blocks must all be resident
         * and do not fit; the coroutine's view says where they are.
         */
        DETSHARE_ACTION_LAUNCH = 0,
        DETSHARE_ACTION_SUSPEND = 1, /* stop launching anything of the coroutine's session until RESUME */
        DETSHARE_ACTION_RESUME = 2,
        /*
         * End what the coroutine has in flight, now, and put it back at the head of its queue, to be launched anew.
         * Makes sense where the device can (can_kill) and everything of it in flight is idempotent kernels, or lets go:
         * these are evicted instead. Until all of it is back the coroutine is not ready; then comes SUBMIT. No COMPLETE
         * comes of what was ended.
         */
        DETSHARE_ACTION_KILL = 3,
        /* From now on the coroutine's session gets no new device memory beyond `bytes`; UINT64_MAX = its own limit. */
        DETSHARE_ACTION_MEMORY_CAP = 4,
        /*
         * Have what the coroutine has in flight let go at the end of its blocks and put it back at the head of its
         * queue, to go on from there on whatever rung it is launched next: nothing that has run runs again. Makes sense
         * where the coroutine is `evictable`. Until all of it is back the coroutine is not ready; then comes SUBMIT. No
         * COMPLETE comes of what let go, but of what ended first.
         */
        DETSHARE_ACTION_EVICT = 5,
};

struct detshare_action {
        uint32_t kind;
        uint32_t rung;
        uint64_t coroutine;
        uint32_t priority;            /* DETSHARE_PRIORITY_HIGH or _LOW */
        uint32_t count;               /* launches only; the host stops earlier at an operation that is not ready */
        uint32_t max_resident_blocks; /* 0 = no bound */
        /*
         * LAUNCH: 1: in a form that lets go, where there is one and waiting for the kernel's own end would be too long.
         * Such a kernel may hold its SMs until it is evicted, priority or not: only who evicts should ask for it.
         */
        uint32_t evictable;
        uint64_t bytes;    /* MEMORY_CAP */
        uint64_t reserved; /* the policy's own while it decides */
};

struct detshare_decision {
        uint32_t size;
        uint32_t capacity;      /* of actions[] */
        uint32_t n;             /* written by the policy */
        uint32_t again;         /* 1: call decide() once more after applying (bounded by the host) */
        uint64_t next_timer_ns; /* absolute; UINT64_MAX = none, and preset. The latest decision's value holds */
        struct detshare_action *actions;
};

struct detshare_policy_param {
        const char *name; /* "ls_percent" */
        const char *help;
        int64_t def, min, max;
};

/* What a kernel of either kind does: the classes of the calibration. */
enum detshare_load {
        DETSHARE_LOAD_COMPUTE = 0,
        DETSHARE_LOAD_READ = 1,
        DETSHARE_LOAD_WRITE = 2,
        DETSHARE_LOADS = 3,
};

/*
 * One cell of the interference matrix that `detsharectl calibrate` measured on this GPU: an LS kernel of one kind on
 * the other SMs beside a BE kernel of one kind that may use `be_sms` SMs and have `be_blocks` blocks resident (0 = no
 * bound).
 */
struct detshare_interference {
        uint32_t ls_load, be_load; /* enum detshare_load */
        uint32_t be_sms, be_blocks;
        uint32_t ls_permille; /* LS time, alone = 1000 */
        uint32_t be_permille; /* BE rate, alone on the whole GPU = 1000 */
};

struct detshare_policy_config {
        uint32_t size;
        uint32_t n_sms, n_tpcs, n_rungs;
        const struct detshare_rung_view *rungs;
        uint32_t n_params;
        /*
         * By how many thousandths of its length alone a request of short kernels is longer after kernels have run on
         * parts of this GPU; 0: by nothing that is known.
         */
        uint32_t mask_permille;
        const int64_t *params;   /* one per row of the policy's params, checked against min and max */
        uint32_t n_interference; /* 0: this GPU was not calibrated */
        const struct detshare_interference *interference;
};

struct detshare_policy {
        uint32_t abi;            /* DETSHARE_POLICY_ABI */
        uint32_t size;           /* sizeof(struct detshare_policy) of the plug-in */
        const char *name;        /* "multistream"; [a-z0-9-]{1,31} */
        const char *description; /* one line */
        const struct detshare_policy_param *params;
        uint32_t n_params;
        uint32_t state_size;
        /* 0 or a negative errno: the host then keeps the policy it had */
        int (*init)(void *state, const struct detshare_policy_config *config);
        /* 0; anything else makes the host fall back to its built-in policy, with one log line */
        int (*decide)(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);
};

/*
 * The one symbol that a plug-in exports. A plug-in defines `const struct detshare_policy DETSHARE_POLICY_SYMBOL`; the
 * macro exists so that the host can compile one of the policies in under another name.
 */
#ifndef DETSHARE_POLICY_SYMBOL
#define DETSHARE_POLICY_SYMBOL detshare_policy
#endif
extern const struct detshare_policy DETSHARE_POLICY_SYMBOL __attribute__((__visibility__("default")));

#endif
