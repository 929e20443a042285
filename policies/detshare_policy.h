/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy plug-in interface of DetShare
 *
 * A policy decides which coroutine's work goes to the GPU next, on which rung (a set of TPCs), at which priority and
 * how much of it at once. A coroutine is the queue of one client stream. A policy is a shared object that exports one
 * symbol, `detshare_policy`. The host calls decide() at every submission, completion, change of sessions and timer,
 * with a snapshot of the state; decide() writes actions.
 *
 * A policy never calls the device, reads no clock, does not sleep and does not allocate in decide(). Its memory is
 * `state_size` zeroed bytes from the host. So the same policy runs live, on the virtual clock and in a test, and makes
 * the same decisions for the same snapshots and notes.
 *
 * Structures that cross the interface alone start with their version or size. Fields are only added at their end, so a
 * plug-in built for a smaller structure keeps working. Elements of arrays (views, actions, parameters) change only with
 * DETSHARE_POLICY_ABI. All times are nanoseconds of the device clock.
 *
 * The host keeps the GPU alive whatever a policy does. It ignores and counts actions that make no sense. It replaces a
 * policy by the built-in `fifo` if the policy returns an error, overruns its time or returns nonsense repeatedly, or
 * leaves ready work with nothing in flight and no timer for a second. The host then resumes the sessions that the
 * policy had suspended.
 */
#ifndef DETSHARE_POLICY_H
#define DETSHARE_POLICY_H

#include <stddef.h>
#include <stdint.h>

#define DETSHARE_POLICY_ABI 4u
#define DETSHARE_POLICY_PARAMS_MAX 48u
#define DETSHARE_AHEAD_MAX 16u  /* maximum number of entries of a coroutine's ahead[] */
#define DETSHARE_POINTS_MAX 24u /* maximum number of points of a kernel's profile */
#define DETSHARE_RUNG_NONE UINT32_MAX
/* Bits of detshare_op_view.forms: the forms in which a kernel can be launched; see daemon/ptx/pass/forms.h */
#define DETSHARE_FORM_NATIVE 1u /* the kernel as its author compiled it */
#define DETSHARE_FORM_SLICED 2u /* several launches, each of a portion of the blocks */
/* persistent worker blocks that run the grid's blocks one after the other and can stop between two of them */
#define DETSHARE_FORM_PERSISTENT 4u
/* not a kernel but a graph of several: its number depends on which launches the host put together */
#define DETSHARE_FORM_GRAPH 8u
#define DETSHARE_PRIORITY_HIGH 0u
#define DETSHARE_PRIORITY_LOW 1u

enum detshare_class {
        DETSHARE_CLASS_BE = 0,
        DETSHARE_CLASS_LS = 1,
};

enum detshare_event {
        DETSHARE_EVENT_SWITCH = 0,        /* first call of this policy; work may be in flight already */
        DETSHARE_EVENT_SUBMIT = 1,        /* a coroutine without ready work has ready work now */
        DETSHARE_EVENT_COMPLETE = 2,      /* an operation ended: see the event_ fields */
        DETSHARE_EVENT_TIMER = 3,         /* the time in next_timer_ns has come */
        DETSHARE_EVENT_REQUEST_BEGIN = 4, /* an LS session began a request */
        /* an LS request ended: the session's queues are empty and none of its operations is in flight */
        DETSHARE_EVENT_REQUEST_END = 5,
        DETSHARE_EVENT_SESSION = 6, /* a session connected, disconnected or changed */
        /* the last decision set `again`; the event that caused it was in the previous call */
        DETSHARE_EVENT_AGAIN = 7,
        DETSHARE_EVENT_SYNCHRONISED = 8, /* a client has waited for everything that its session had submitted */
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

/* Phase of an LLM server's work, as its client or the launch pattern tells it. */
enum detshare_phase {
        DETSHARE_PHASE_NONE = 0,
        DETSHARE_PHASE_PREFILL = 1,
        DETSHARE_PHASE_DECODE = 2,
};

/* State of a coroutine, by the place of its work; daemon/sched/coroutine.h has the transitions. */
enum detshare_coroutine_state {
        DETSHARE_COROUTINE_IDLE = 0,
        DETSHARE_COROUTINE_READY = 1,
        DETSHARE_COROUTINE_RUNNING = 2,
        DETSHARE_COROUTINE_YIELDING = 3,
        DETSHARE_COROUTINE_SUSPENDED = 4,
        DETSHARE_COROUTINE_FAULTED = 5,
};

/* Mean time of a kernel on rungs of n_sms SMs, measured with nothing else on the GPU. */
struct detshare_profile_point {
        uint32_t n_sms;
        uint32_t samples; /* number of samples in the mean, those of a stored profile included */
        uint64_t mean_ns;
};

/* One queued operation. Copies and memsets have only kind, expected_ns and bytes. */
struct detshare_op_view {
        uint32_t kind;          /* enum detshare_op_kind */
        uint32_t bound;         /* enum detshare_kernel_bound */
        uint64_t kernel;        /* number of the kernel and launch shape */
        uint32_t blocks;        /* grid size in blocks, saturating */
        uint32_t threads;       /* threads per block */
        uint32_t blocks_per_sm; /* blocks that are resident on one SM at once */
        uint32_t sms_needed;    /* SMs that hold all blocks at once, at most n_sms */
        /* number of measured runs that expected_ns is the mean of; 0: unknown, and expected_ns is 0 */
        uint32_t samples;
        uint32_t all_resident; /* 1: cooperative: the kernel runs only where all its blocks are resident at once */
        uint64_t expected_ns;  /* running mean of the duration on any rung, ns */
        uint64_t bytes;
        uint64_t submitted_ns; /* time at which the client submitted the operation, ns */
        uint32_t phase;        /* enum detshare_phase at submission */
        uint32_t idempotent;   /* 1: the kernel is proven idempotent: running all or a part of it twice does no harm */
        uint32_t n_points;     /* number of points[]; time over SM count is a staircase, so one mean is not enough */
        const struct detshare_profile_point *points; /* points ascending by n_sms; valid during the call of decide() */
        uint32_t forms;                              /* DETSHARE_FORM_ bits that the host may choose from at launch */
        uint32_t progress_permille;                  /* share of its blocks that ran before an eviction, permille */
        /* time that EVICT takes to free the SMs of this kernel after an `evictable` launch on the whole GPU, ns; 0:
         * the kernel cannot be evicted */
        uint64_t evict_ns;
};

/* A coroutine with work queued or in flight. */
struct detshare_coroutine_view {
        uint64_t id;
        uint32_t session; /* index into sessions[] */
        /* enum detshare_class of the stream, or of the session where the stream has none */
        uint32_t class_;
        int32_t priority; /* CUDA stream priority from the client; lower is more urgent */
        /* operations in the queue, ready or not; the host itself handles events and waits */
        uint32_t queued;
        uint32_t ready;                 /* 1: the head may be launched now (dependencies met, session not suspended) */
        uint32_t in_flight;             /* operations on the device */
        uint32_t rung;                  /* rung of the operations in flight; DETSHARE_RUNG_NONE if none */
        uint32_t in_flight_sms;         /* sum of the sms_needed of operations in flight, at most n_sms */
        uint64_t in_flight_expected_ns; /* sum of the expected_ns of operations in flight */
        uint64_t in_flight_since_ns;    /* launch of the oldest operation in flight; 0 if none */
        uint64_t head_since_ns;         /* time since when the present head is at the head of the queue and ready, ns */
        uint32_t state;                 /* enum detshare_coroutine_state */
        uint32_t n_ahead;               /* entries of ahead[] */
        /* 1: EVICT has an effect: the kernels in flight can stop before their end */
        uint32_t evictable;
        uint32_t reserved;
        /* expected duration of an EVICT of the kernels in flight, ns; 0: unknown */
        uint64_t evict_ns;
        const struct detshare_op_view *ahead; /* first operations of the queue; ahead[0] is the head */
};

/* A session that has a coroutine in the snapshot, an active request or a suspension, or that the event names. */
struct detshare_session_view {
        uint64_t id;
        uint32_t uid;
        uint32_t class_;
        /* latency that the running or next request may have from its first launch on, ns; 0 = no objective */
        uint64_t slo_ns;
        uint32_t request_active; /* 1: an LS request runs: from its first launch until the session is idle */
        uint32_t suspended;
        uint64_t request_begin_ns;
        uint64_t deadline_ns; /* request_begin_ns + slo_ns if both are known, else UINT64_MAX */
        uint64_t device_ns;   /* device time of its operations so far, summed */
        uint32_t sm_percent;  /* SM limit of the user, percent, 100 = none; the host applies it, see LAUNCH */
        uint32_t in_flight;
        /* 1: the session's client has waited for everything it submitted, so it has the results */
        uint32_t synchronised;
        uint32_t phase;       /* enum detshare_phase that the client stated last */
        uint32_t gpu_request; /* share of the GPU's time that the session gets at least, permille; 0 = not set */
        uint32_t gpu_limit;   /* share of the GPU's time that the session gets at most, permille; 0 = not set */
        /* 1: slo_ns leaves out what the request waited in its client, because its arrival is known; 0: the request may
         * have waited there before its first launch */
        uint32_t counted;
        uint32_t unused; /* always zero */
        /* objectives of a language model's server in force: time to first token, time per output token, ns; 0 = none */
        uint64_t ttft_ns, tpot_ns;
        uint64_t memory_used, memory_limit; /* bytes of device memory; limit 0 = no limit of its own */
};

/* Side of a rung on the ladder; see daemon/sched/ladder.h. */
enum detshare_rung_side {
        DETSHARE_SIDE_ALL = 0,   /* the whole GPU */
        DETSHARE_SIDE_LOWER = 1, /* TPCs from the first one on, for LS */
        DETSHARE_SIDE_UPPER = 2, /* TPCs up to the last one, for BE */
};

enum detshare_rung_family {
        DETSHARE_FAMILY_FINE = 0,   /* rungs in steps of single TPCs: clusters of at most two blocks fit */
        DETSHARE_FAMILY_COARSE = 1, /* rungs in groups of TPCs that share a GPC: larger clusters fit */
};

struct detshare_rung_view {
        uint32_t id;
        uint32_t n_sms;
        uint32_t n_tpcs;
        uint32_t in_flight_ls, in_flight_be;
        uint32_t side;        /* enum detshare_rung_side */
        uint32_t family;      /* enum detshare_rung_family */
        uint32_t cluster_max; /* blocks of the largest cluster that fits on this rung */
        uint64_t tpcs[2];     /* bit i = TPC i; for a coarse rung only the TPCs that the host knows */
};

struct detshare_snapshot {
        uint32_t size;  /* sizeof(struct detshare_snapshot) of the host */
        uint32_t event; /* enum detshare_event */
        uint64_t now_ns;
        uint32_t n_sms, n_tpcs;
        uint32_t n_coroutines, n_sessions, n_rungs;
        uint32_t event_session;                           /* index into sessions[]; UINT32_MAX if none or gone */
        uint64_t event_coroutine;                         /* id, 0 if none */
        uint64_t event_start_ns, event_end_ns;            /* COMPLETE: begin and end of the operation */
        struct detshare_op_view event_op;                 /* COMPLETE: the operation */
        const struct detshare_coroutine_view *coroutines; /* by id, ascending */
        const struct detshare_session_view *sessions;
        const struct detshare_rung_view *rungs; /* rung 0 is the whole GPU; see daemon/sched/ladder.h */
        uint32_t can_kill;                      /* 1: the device can end a running kernel, see KILL */
        uint32_t can_evict;                     /* 1: some kernels can be evicted, see EVICT */
        uint64_t memory_total, memory_free;     /* bytes of device memory */
};

enum detshare_action_kind {
        /*
         * Sends up to `count` operations from the head of `coroutine` to `rung`. If the session may not use that many
         * SMs, the host takes a smaller rung inside `rung`. For a kernel whose blocks must all be resident and do not
         * fit, the host takes the whole GPU. The coroutine's view names the rung in use.
         */
        DETSHARE_ACTION_LAUNCH = 0,
        DETSHARE_ACTION_SUSPEND = 1, /* stops launches of the coroutine's session until RESUME */
        DETSHARE_ACTION_RESUME = 2,
        /*
         * Ends the coroutine's operations in flight at once and puts them back at the head of its queue, to be launched
         * again. Needs a device that can kill (can_kill), and only idempotent or evictable kernels in flight; the host
         * evicts the evictable ones. The coroutine is not ready until all are back; then SUBMIT follows. No COMPLETE
         * comes for the killed operations.
         */
        DETSHARE_ACTION_KILL = 3,
        /* Limits new device memory of the coroutine's session to `bytes` in all; UINT64_MAX = its own limit. */
        DETSHARE_ACTION_MEMORY_CAP = 4,
        /*
         * Stops the coroutine's kernels in flight at the end of their running blocks and puts them back at the head of
         * its queue. They resume from there on any rung; no block runs twice. Needs an `evictable` coroutine. The
         * coroutine is not ready until all are back; then SUBMIT follows. No COMPLETE comes for an evicted kernel, but
         * one comes for a kernel that ended first.
         */
        DETSHARE_ACTION_EVICT = 5,
};

struct detshare_action {
        uint32_t kind;
        uint32_t rung;
        uint64_t coroutine;
        uint32_t priority; /* DETSHARE_PRIORITY_HIGH or _LOW */
        /* number of operations, for launches; the host stops earlier at an operation that is not ready */
        uint32_t count;
        /* maximum number of the kernel's blocks that are resident at once; 0 = no bound */
        uint32_t max_resident_blocks;
        /*
         * LAUNCH: 1: use an evictable form, if there is one and the kernel's own end would take too long. Such a kernel
         * may hold its SMs until it is evicted, whatever the priority, so only policies that evict should set this.
         */
        uint32_t evictable;
        uint64_t bytes;    /* MEMORY_CAP: the limit, bytes */
        uint64_t reserved; /* for the policy's own use during the decision */
};

struct detshare_decision {
        uint32_t size;
        uint32_t capacity; /* number of entries in actions[] */
        uint32_t n;        /* number of actions that the policy has written */
        uint32_t again;    /* 1: call decide() again after applying the actions (the host bounds this) */
        /* absolute time of the next TIMER event, ns; UINT64_MAX = none (the host presets this); each decision
         * replaces the value */
        uint64_t next_timer_ns;
        struct detshare_action *actions;
};

struct detshare_policy_param {
        const char *name; /* "ls_percent" */
        const char *help;
        int64_t def, min, max;
};

/* Kinds of kernels that the calibration measures. */
enum detshare_load {
        DETSHARE_LOAD_COMPUTE = 0,
        DETSHARE_LOAD_READ = 1,
        DETSHARE_LOAD_WRITE = 2,
        DETSHARE_LOADS = 3,
};

/*
 * One cell of the interference matrix that `detsharectl calibrate` measured on this GPU: an LS kernel of one kind on
 * the other SMs, beside a BE kernel of one kind that may use `be_sms` SMs and have `be_blocks` resident blocks (0 = no
 * bound).
 */
struct detshare_interference {
        uint32_t ls_load, be_load; /* enum detshare_load */
        uint32_t be_sms, be_blocks;
        uint32_t ls_permille; /* LS kernel's time beside BE, permille of its time alone */
        uint32_t be_permille; /* rate of BE, permille of its rate alone on the whole GPU */
};

#define DETSHARE_NOTE_VALUES 40u /* maximum number of values of a note */
#define DETSHARE_NOTE_TEXT 192u  /* bytes of a note's text with its NUL */

/*
 * A note: a few numbers that a policy keeps beyond its own end and the daemon's, for example what it has measured about
 * two programs. Key and group must be the same after a restart: derive the key from numbers of kernels
 * (detshare_op_view.kernel) and the group from user ids, not from ids of sessions.
 *
 * The host keeps the 64 notes of each group that were used last. Only the same policy, on the same model of GPU and with
 * the same group, gets a note back. So a group that is made of the users concerned keeps a user from reading, changing or
 * displacing notes about others.
 *
 * Notes are in the profile database, and administrators may import them. So a policy must check the values as it would
 * check a file's, and should begin with a version of its own.
 */
struct detshare_note {
        uint32_t size; /* sizeof(struct detshare_note) of the caller */
        uint32_t n;    /* number of values, up to DETSHARE_NOTE_VALUES */
        uint64_t group, key;
        uint64_t values[DETSHARE_NOTE_VALUES];
        char text[DETSHARE_NOTE_TEXT]; /* text for `detsharectl profile`, printable ASCII: the note in words */
};

/* Functions of the host for notes. init(), decide() and explain() may call them; they neither wait nor fail. */
struct detshare_notes {
        uint32_t size;
        void *host;
        /*
         * Fills in n and values of the note with this group and key. n is 0 if there is none, or if the host has
         * yet to read it from the database: then ask again later.
         */
        void (*get)(void *host, struct detshare_note *note);
        /* Keeps a copy of the note, in place of an earlier one with the same group and key. */
        void (*put)(void *host, const struct detshare_note *note);
};

struct detshare_policy_config {
        uint32_t size;
        uint32_t n_sms, n_tpcs, n_rungs;
        const struct detshare_rung_view *rungs;
        uint32_t n_params;
        /*
         * slowdown of a request of short kernels after kernels ran on parts of this GPU, permille; 0: none known
         */
        uint32_t mask_permille;
        const int64_t *params;   /* one value per row of the policy's params, within min and max */
        uint32_t n_interference; /* 0: this GPU is not calibrated */
        const struct detshare_interference *interference;
        /* notes that outlast the policy; valid as long as its state; check `size` before, older hosts have none */
        const struct detshare_notes *notes;
};

struct detshare_policy {
        uint32_t abi;            /* DETSHARE_POLICY_ABI */
        uint32_t size;           /* sizeof(struct detshare_policy) of the plug-in */
        const char *name;        /* "multistream"; [a-z0-9-]{1,31} */
        const char *description; /* one line */
        const struct detshare_policy_param *params;
        uint32_t n_params;
        uint32_t state_size;
        /* Returns 0, or a negative errno: the host then keeps the previous policy */
        int (*init)(void *state, const struct detshare_policy_config *config);
        /* Returns 0; any other value makes the host use its built-in policy and log one line */
        int (*decide)(void *state, const struct detshare_snapshot *snapshot, struct detshare_decision *decision);
        /*
         * NULL, or writes one sentence for `detsharectl explain`: what the policy does about this session now, with the
         * figures that decide it. text: size bytes, ends with a NUL; "" if there is nothing to say. Changes nothing.
         */
        void (*explain)(const void *state, uint64_t session, char *text, uint32_t size);
};

/*
 * The one symbol that a plug-in exports. A plug-in defines `const struct detshare_policy DETSHARE_POLICY_SYMBOL`. With
 * the macro the host can compile a policy into itself under another name.
 */
#ifndef DETSHARE_POLICY_SYMBOL
#define DETSHARE_POLICY_SYMBOL detshare_policy
#endif
extern const struct detshare_policy DETSHARE_POLICY_SYMBOL __attribute__((__visibility__("default")));

#endif
