/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's internal structures, and the functions that its files offer each other
 *
 *   loop.c     the main loop: sockets, device, rings, clock        ring.c    checks and copies records, in order, once
 *   control.c  messages of the supervisor                          record.c  checks records and arguments (record.h)
 *   call.c     a client's request: queue, park, reply              ops.c     stream operations and their completion
 *   calls*.c   one handler per request, the table in calls.c       stream.c  slots and sequence numbers
 *   session.c  open, close, reset, sticky error, dsw_settle()      event.c   timed events
 *   memory.c   slabs, pinned memory, bounce buffers (heap.h)       modules.c modules, kernels and their ids
 *   clock.c    declared threads, sleepers, virtual time            message.c protobuf messages in and out
 *   quiesce.c  schedules the calls that stop the device            lost.c    loss of the device's context
 *   stop_cost.c  LS requests that stops of the device may delay    quiesce.h  interface of quiesce.c
 *   deadline.c kernels that do not end                             output.c  printf output of kernels
 *   vmm.c      memory that the client maps itself                  stirs.c   requests a context switch of the GPU
 *   pages.c    threads that allocate and free pinned pages         user.c    limits shared by all sessions of a user
 *   graph.c    graphs that clients instantiated                    graph_piece.c  pieces of graphs sent as small graphs
 *   graph_change.c  changes of single nodes of graphs           repeat.c  launches that repeat (repeat.h)
 *   host.c     host functions of clients                           value.c   waiting for values in memory
 *   shared.c   events that sessions share                          observe.c activity, explanations, traces
 *   forms.c    transformed variants of kernels                     pool.c    memory whose channels are known (pool.h)
 *   turns.c    share of each user in a round of the loop           profile.c kernel profiles
 *
 * How it fits together. Ring records and requests become struct dsw_op, which the scheduler owns until dsw_op_done().
 * dsw_op_done() only notes which operation ended and puts the session on the worker's dirty list. dsw_settle() later
 * does the work that follows: it wakes waiters, answers parked requests, and finishes resets and closes. Nothing that
 * can submit or free runs inside the scheduler's callback.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "detshare.pb-c.h"
#include "device/device.h"
#include "internal.pb-c.h"
#include "proto/slo.h"
#include "proto/wire.h"
#include "sched/history.h"
#include "sched/sched.h"
#include "sched/trace.h"
#include "util/frame.h"
#include "util/log.h"
#include "util/macro.h"
#include "worker/heap.h"
#include "worker/pool.h"
#include "worker/quiesce.h"
#include "worker/record.h"
#include "worker/stirs.h"
#include "worker/worker.h"

#define uthash_malloc(size) ds_alloc(size)
#define uthash_free(p, size) ds_free(p)
#define HASH_NONFATAL_OOM 1
#include "util/alloc.h"
#include <uthash.h>
#include <utlist.h>

/* Bounds on the resources that the worker holds for one client. The supervisor has limits of its own. */
#define DSW_SESSION_OPS_MAX 8192u         /* operations not yet ended, per session */
#define DSW_SESSION_PARAM_BYTES DS_MIB(4) /* kernel parameters too large to be stored in the operation */
#define DSW_USER_OPS_MAX 65536u           /* operations of all sessions of a user, not yet ended */
#define DSW_USER_PARAM_BYTES DS_MIB(32)
#define DSW_USER_STREAMS_MAX 1024u /* streams of a user that have operations */
#define DSW_SESSION_GRAPHS_MAX 4096u
#define DSW_SESSION_GRAPH_BYTES DS_MIB(128) /* memory of everything kept for its graphs */
#define DSW_USER_GRAPH_BYTES DS_MIB(512)
#define DSW_SESSION_CALLS_MAX 64u /* unanswered requests of a session */
#define DSW_SESSION_MODULES_MAX 4096u
#define DSW_SESSION_ALLOCS_MAX 65536u
#define DSW_SESSION_PHYSICAL_MAX 16384u /* allocations without an address, and mappings; each a file descriptor here */
#define DSW_SESSION_PINNED_MAX 4096u    /* each is a mapping in this process */
#define DSW_MODULE_KERNELS_MAX 65536u
#define DSW_KERNEL_NAME_MAX 16384u
#define DSW_DECLARED_MAX 1024u     /* declared threads of a session */
#define DSW_BOUNCE_BYTES DS_MIB(1) /* staging buffer for the data of Write and Read */
#define DSW_COPY_RPC_MAX 61440u    /* most bytes of one Write or Read */
#define DSW_SLAB_BYTES DS_MIB(64)
#define DSW_ALLOC_ALIGN 512u
#define DSW_PAGE_ALIGN 4096u
#define DSW_PINNED_ALIGN DS_MIB(2)            /* alignment of pinned memory of at least this size */
#define DSW_SLEEP_MAX_NS (3600 * DS_NS_PER_S) /* bound of a sleep: no client may drive the virtual clock to its end */
#define DSW_HOLD_MAX_NS (5 * DS_NS_PER_S)     /* real time for which a silent session may hold the virtual clock */
#define DSW_HOLD_USER_NS (5 * DS_NS_PER_S)    /* real time for which a user may hold it while others wait */
#define DSW_HOLD_BACK 4u                      /* the user regains 1 ns of that time per 4 ns of real time */
#define DSW_HOLD_ANEW_NS (50 * DS_NS_PER_MS)  /* regained time from which a user that used all may hold it again */
#define DSW_RING_BATCH 256u                   /* records of one user and class per round of the loop */
#define DSW_SPIN_NS (50 * DS_NS_PER_US)       /* polling time of the loop after an LS session's last activity */
#define DSW_VALUE_BATCH 256u                  /* checks of awaited memory values, of one user and class per round */
#define DSW_TURNS_TIME_NS (2 * DS_NS_PER_MS)  /* processor time for which full rings may stop virtual time */
#define DSW_MESSAGE_MAX 4096u
#define DSW_SUSPECTS_MAX 256u
#define DSW_SESSION_HANDLES_MAX 4u /* duplicate file descriptors of pinned memory, see dsw_pages_hold() */
#define DSW_HANDLES_MAX 256u
#define DSW_ORPHAN_NS (10 * DS_NS_PER_S)  /* default of ds_worker.orphan_ns, see deadline.c */
#define DSW_QUIESCE_NS (60 * DS_NS_PER_S) /* default of ds_worker.quiesce_ns, see deadline.c */

#define DSW_SESSION_ID_END (UINT64_MAX - 15) /* end of the session ids; the loop uses the ids above */
#define DSW_ID_BASE_SHIFT 28                 /* see ds_worker_config.id_base */

#define DSW_PARAMS_INLINE 192u

struct dsw_session;
struct dsw_call;
struct dsw_file;
struct dsw_held;
struct dsw_pages;
struct dsw_shared;
struct dsw_opened;
struct dsw_call_row;
struct dsw_graph;
struct dsw_piece;
struct dsw_repeat;
struct dsw_pieces;

enum dsw_stream_state {
        DSW_STREAM_FREE,
        DSW_STREAM_OPEN,
        DSW_STREAM_CLOSING, /* destroyed by its client, but still running or awaited */
        _DSW_STREAM_STATE_MAX,
};

/* A stream slot. Its sequence numbers continue when the next stream uses the slot. */
struct dsw_stream {
        struct dsw_session *session;
        uint32_t slot;
        enum dsw_stream_state state;
        int32_t priority;
        int non_blocking;
        ds_coroutine *coroutine;
        uint64_t submitted, done; /* sequence numbers as the client counts them */
        uint64_t base;            /* the client's number minus the coroutine's number */
        /* operations that count in `submitted` and have not ended, but never reached the scheduler */
        uint64_t dropped;
        uint32_t live;                      /* operations that the scheduler owns */
        uint64_t stuck_done, stuck_wall_ns; /* `done` at the last check; real time since which it is unchanged */
        struct dsw_repeat *repeat;          /* see repeat.h */
        uint32_t repeat_wait;               /* launches until the next attempt to take several at once */
        uint32_t repeat_pause;              /* the last such number after a look without result */
};

/* The external condition that an operation of kind DS_OP_OUTSIDE waits for, and how far it is. */
enum dsw_outside { DSW_OUTSIDE_HOST, DSW_OUTSIDE_VALUE };
enum dsw_due {
        DSW_DUE_NOT,
        DSW_DUE_WAITING, /* before it in its stream all has ended: in host.due or in values */
        DSW_DUE_CALLED,  /* the client was called through the page: in host.calls */
        DSW_DUE_GIVEN,   /* the client got it by request: in host.given */
};

struct dsw_op {
        struct ds_op op; /* first member: the part that the scheduler sees */
        struct dsw_session *session;
        struct dsw_stream *stream;
        struct dsw_op *prev, *next; /* links in the session's list `live`, in order of submission */
        uint64_t seq;               /* sequence number in its stream, as the client counts */
        uint64_t index;             /* sequence number in its session */
        uint64_t event;             /* MARK: id of the event to record, 0 = none */
        struct dsw_call *call;      /* the Read request that this operation answers */
        uint64_t bounce;            /* Write: bounce buffer, freed when the operation ends */
        struct dsw_kernel *kernel;  /* LAUNCH; its module stays loaded until its launches end */
        void *large_params;
        uint32_t large_size;
        int ls;                        /* 1: counted in ls_live */
        struct dsw_graph *graph;       /* GRAPH: the graph, with a reference */
        uint32_t graph_next;           /* GRAPH: index of the next node to be submitted */
        uint32_t graph_params;         /* GRAPH with parameters of its own: offset of that node's */
        const struct dsw_piece *piece; /* GRAPH: piece to run, owned by the graph; NULL = all nodes */
        enum dsw_outside outside;
        enum dsw_due due;
        struct dsw_op *due_prev, *due_next;
        union {
                struct {
                        /* the client's id and number of the function; if called by request, the worker's */
                        uint64_t host_id, host_number;
                };
                struct {
                        uint64_t address, value;
                        uint32_t value_kind, value_bytes;
                };
        };
        uint8_t params[DSW_PARAMS_INLINE];
};

struct dsw_event {
        uint64_t id;
        uint64_t index; /* index of the latest operation that records it */
        uint64_t ns;
        int ended;
        UT_hash_handle hh;
};

struct dsw_kernel {
        const ds_device_kernel *device;
        const struct ds_kernel_info *info;
        struct dsw_module *module;
        /* forms that the scheduler may choose; filled in when they arrive, also for queued launches */
        struct ds_sched_forms sched;
        struct dsw_kernel_forms *forms; /* NULL if no forms are known; see forms.c */
        uint64_t key, launches;         /* ds_op.kernel_key of the latest launch that ended; number of launches ended */
        int described;                  /* the client has the kernel's id and layout */
};

struct dsw_kernel_forms {
        uint8_t made_sliced, made_persistent, connected;
        const char *why_sliced, *why_persistent;
};

/* Forms (transformed variants) of a module's kernels; see forms.c. All zero and fd -1: nothing is known. */
struct dsw_forms {
        int asked;                        /* the worker has requested the forms */
        int no_ptx;                       /* there will be no forms: the image has no PTX */
        int instead;                      /* the module's own image contains the forms */
        ds_device_module *second;         /* otherwise the second module that contains them; NULL if none is loaded */
        struct dsw_kernel_forms *kernels; /* by kernel; NULL until the supervisor has sent a report */
        uint64_t native;                  /* from the report: hash of the native code that the forms were made from */
        char *report, *why;               /* why: reason for all kernels if there is no report */
        int fd;                           /* image of the second module until it is loaded; -1 if none waits */
        uint64_t bytes, answer;
};

struct dsw_module {
        uint64_t id;
        ds_device_module *device;
        struct dsw_kernel *kernels;
        uint32_t n_kernels;
        uint32_t n_ahead; /* number of further kernels to load at the next request for one that is not loaded */
        int sorted;       /* the kernels are in the order of their names */
        struct dsw_forms forms;
        int closing;
        struct dsw_range *globals; /* globals whose addresses the client has requested */
        size_t n_globals, cap_globals;
};

struct dsw_physical { /* memory that the client maps at addresses of its choice */
        uint64_t id, bytes;
        int fd;
        int owned; /* 0: another session owns the memory and is charged for it */
        uint32_t n_mapped;
        UT_hash_handle hh;
};

struct dsw_mapped {
        uint64_t va, bytes;
        struct dsw_physical *physical;
        int going; /* unmapped by its client; work in flight may still use it */
};

struct dsw_memory {
        struct dsw_heap device, pinned, bounce;
        uint64_t bounce_va; /* address of the bounce buffer; 0 until the first Write or Read */
        uint64_t limit;     /* bytes of device memory, 0 = no limit */
        uint64_t cap;       /* the policy's bound for future allocations, bytes; UINT64_MAX = none */
        uint64_t peak;
        struct dsw_physical *physical; /* memory without an address, hash by id */
        struct dsw_mapped *mapped;     /* mappings, sorted by address */
        size_t n_mapped, cap_mapped;
        uint64_t physical_id, physical_bytes; /* last id given; bytes of the memory that this session owns */
        size_t n_pinned;                      /* pinned allocations, n_gone included */
        size_t n_gone;                        /* freed, but registered until a quiesce unmaps them */
        uint64_t gone_bytes;
        struct dsw_later *later; /* allocations that are not registered yet, see later.h */
};

struct dsw_handle {  /* duplicate descriptor of a pinned file that a client has, see pages.c */
        uint64_t va; /* address of the file's mapping; 0 = unused */
        uint64_t bytes;
        int fd;
};

/* Remaining share of a user in this round of the loop, by class; see turns.c. */
struct dsw_turn {
        uint32_t records, looks;
};

#define _DSW_TURN_CLASSES (DETSHARE_CLASS_LS + 1)

struct dsw_user {
        uint32_t uid, refs;         /* refs: number of sessions of this user */
        uint32_t n_live, n_streams; /* operations not yet ended; streams that have operations */
        uint64_t param_bytes, graph_bytes, piece_bytes;
        int waiting;                /* a session of this user waits for room in the user's limits */
        uint32_t n_sleeping;        /* requests that wait for a time on the device clock */
        uint64_t hold_ns;           /* real time that it held the clock while others waited, less the time regained */
        uint64_t hold_wall_ns;      /* real time of the last update of hold_ns */
        uint64_t hold_said_wall_ns; /* real time of the last log line about holding the clock too long, 0 = never */
        int hold_spent;             /* its declared threads do not hold the clock now */
        uint64_t answered;          /* value of worker->n_answered when a late request of this user was last answered */
        uint64_t turn_number;       /* the round for which `turns` is valid */
        struct dsw_turn turns[_DSW_TURN_CLASSES];
        uint64_t value_pass; /* number of the current pass over its sessions' awaited values */
        int value_spent;     /* some of its sessions' values were not checked in this round */
        UT_hash_handle hh;
};

/* Host functions of a session; see host.c. */
struct dsw_host {
        struct dsw_op *due;                  /* functions not called yet, in the order in which they became due */
        struct dsw_op *calls[DS_HOST_CALLS]; /* functions called through the page; NULL: free, or dropped */
        uint64_t called, ended;              /* total of functions called (page) and returned (ring header) */
        struct dsw_op *given;                /* functions that the client got by request */
        uint64_t called_wall_ns;             /* real time of the latest call, through the page or by request */
        uint64_t number;
};

/* Reads an awaited value through the device; see value.c. */
struct dsw_probe {
        ds_coroutine *coroutine; /* hidden coroutine of the probes; NULL until the first use */
        struct dsw_op *op;       /* the read in flight */
        struct dsw_op *target;   /* operation that waits for its result; NULL if it was dropped */
        uint64_t wall_ns, pause_ns, seen_completed;
};

enum dsw_session_state {
        DSW_SESSION_OPEN,
        DSW_SESSION_RESETTING, /* waits until nothing of it runs; then it is emptied and open again */
        DSW_SESSION_FAULTED,   /* violated the protocol; the supervisor will close it */
        DSW_SESSION_CLOSING,   /* waits until nothing of it runs; then it is freed */
        _DSW_SESSION_STATE_MAX,
};

struct dsw_session {
        ds_worker *worker;
        uint64_t id;
        UT_hash_handle hh;
        enum dsw_session_state state;
        uint32_t space, uid, sm_percent;
        uint32_t gpu_request, gpu_limit; /* thousandths of the GPU, 0 = not given */
        uint32_t phase;                  /* enum detshare_phase, as the client reported it last */
        char name[64];                   /* name for display */
        struct dsw_user *user;
        enum detshare_class class_;
        struct ds_slo slo;
        uint8_t judged; /* 1: a line in the log says that the session misses this objective even alone */

        ds_sched_session *sched;            /* NULL only in a faulted session that could not be reset */
        struct ds_sched_session_stats past; /* statistics of the scheduler sessions before the last reset */
        struct dsw_memory memory;
        struct dsw_loan loan;        /* memory borrowed from the pool */
        struct dsw_stream **streams; /* streams by slot; entries may be NULL */
        uint32_t n_streams, n_closing;
        struct dsw_module **modules; /* modules by slot; entries may be NULL */
        uint32_t n_module_slots, n_modules;
        uint64_t module_generation;
        struct dsw_event *events; /* events, hash by id */
        uint64_t event_id;
        struct dsw_graph *graphs; /* graphs, hash by id */
        uint32_t n_graphs, n_pieces;
        uint64_t graph_id, graph_bytes;
        struct dsw_repeat *repeats; /* see repeat.h */
        uint32_t n_repeats;
        uint32_t repeat_seen;      /* times that a repetition must be seen; 0: the least */
        struct dsw_pieces *pieces; /* pieces of its graphs, least recently launched first */
        uint64_t piece_bytes;
        size_t graph_cost; /* worker time spent on its graph launches, as a number of ring records */
        uint64_t n_taken;  /* counts frees of memory, modules and events: after a change, graphs are checked again */

        struct dsw_op *live; /* operations that the scheduler owns, oldest first */
        uint32_t n_live;
        struct dsw_pace pace;
        uint64_t op_index; /* index of the latest operation of the session */
        uint64_t param_bytes;

        struct ds_completion_page *page;
        const struct ds_ring_header *ring; /* NULL until a ring is attached */
        int event_fd;
        uint64_t head, tail_seen;
        uint64_t synchronised_seen; /* last value seen of ring.synchronised */
        uint64_t arrival_seen_ns;   /* last value seen of ring.arrival_ns, ns */
        int stalled;                /* there is no room for the ring's next record */
        int asleep;                 /* value last written to page->asleep */

        int error; /* sticky CUDA error, 0 = none */
        char error_text[DS_DEVICE_MESSAGE_MAX];
        int cancel_due, cancelled;

        struct dsw_host host;
        struct dsw_op *values; /* waits for values in memory whose turn in their stream has come */
        struct dsw_probe probe;
        struct dsw_opened *opened; /* shared events, hash by id */

        struct dsw_call *queue;  /* requests not started */
        struct dsw_call *parked; /* requests started, not yet answered */
        uint32_t n_calls, n_queued_plain, n_blocked;
        int retry; /* an operation or request has ended since the last attempt to start a queued request */
        struct dsw_call *reset_call;
        uint64_t close_id, close_wall_ns;
        uint32_t declared;
        uint32_t n_clearing; /* MemAlloc requests that wait for their slab to be cleared */
        uint64_t active_wall_ns;
        uint64_t aborted_wall_ns; /* see deadline.c */

        struct dsw_held *held; /* supervisor messages deferred to a quiesce, see control.c */
        struct dsw_file *file; /* file for pinned memory, ordered or ready; NULL = none */
        struct dsw_handle handles[DSW_SESSION_HANDLES_MAX];

        int is_active, is_dirty, is_declared; /* membership in the worker's lists */
        int is_late;
        uint64_t value_pass; /* the user's value_pass at the last check of this session's values */
        struct dsw_session *late_prev, *late_next;
        int load_waits, load_prepared; /* see modules.c */
        int forms_wait;                /* the session waits for a prepared load of forms.c */
        uint32_t n_forms;              /* modules whose second image waits to be loaded */
        int waits_stop;                /* in quiesce.waiting: the next quiesce serves it */
        unsigned stop_class;           /* class (stop_cost.h) of the call for which it waits */
        struct dsw_session *active_prev, *active_next;
        struct dsw_session *dirty_next;
        struct dsw_session *declared_prev, *declared_next;
        struct dsw_session *stop_prev, *stop_next;
};

/* A client's request, from its arrival to its only reply. */
struct dsw_call {
        struct dsw_session *session;
        const struct dsw_call_row *row;
        struct dsw_call *prev, *next; /* links in session->queue or session->parked */
        uint64_t id;                  /* id of the ToWorker message */
        uint64_t request_id;
        uint64_t ring_tail;
        uint64_t spin_ns; /* time for which the worker polls after the reply */
        enum { DSW_CALL_RUNNING, DSW_CALL_QUEUED, DSW_CALL_PARKED } state;
        uint8_t *raw; /* queued: copy of the frame */
        size_t raw_size;
        int fd;                                    /* fd that came with the request, -1 = none */
        int no_ptx;                                /* ModuleLoad: as in the Call message */
        int (*ready)(const struct dsw_call *call); /* parked: whether the reply can be sent now */
        void (*finish)(struct dsw_call *call);     /* parked: sends the reply */
        /* inputs of ready() and finish() */
        struct dsw_stream *stream;
        uint64_t target; /* sequence number or operation index */
        uint64_t address;
        uint32_t bytes;
        uint64_t bounce; /* Read: destination of the data, 0 = none */
        uint64_t wake_ns;
        struct { /* MemAlloc: the slab that the request created */
                uint64_t va, bytes;
                int clearing; /* 1: counted in n_clearing */
        } slab;
        size_t sleeper; /* index among the sleepers + 1, 0 = none */
        struct dsw_op *op;
        struct dsw_graph *graph; /* GraphCreate: the graph, made before the stop in which it is instantiated */
        int status;
        int shared; /* 1: counted in n_shared_syncs */
};

enum dsw_outcome {
        DSW_ANSWERED,
        DSW_PARKED,
        DSW_STALLED, /* no room; nothing was done, and the request starts again later */
};

struct dsw_call_row {
        Detshare__Request__CallCase call;
        const char *name;
        enum dsw_outcome (*handler)(struct dsw_call *call, const Detshare__Request *request);
        int blocks;  /* a declared thread with this request counts as waiting */
        int healthy; /* fails with the session's sticky error if there is one */
};

struct dsw_lost {
        int status; /* 0: the context works; otherwise the CUDA error of the loss */
        uint64_t suspects[DSW_SUSPECTS_MAX];
        size_t n_suspects;
        char message[DS_DEVICE_MESSAGE_MAX];
};

struct dsw_trace {
        int fd; /* memory file; set while a trace runs, as is `memory` */
        void *memory;
        size_t bytes;
};

struct dsw_profile {
        uint64_t asked_wall_ns, said_wall_ns;
};

struct dsw_totals {
        uint64_t launches, completed, errors;
};

struct ds_worker {
        uint64_t (*wall_ns)(void);
        uint64_t (*cpu_ns)(void); /* processor time of the worker's thread; wall_ns in tests that give no other clock */
        uint64_t id_base;
        const struct ds_device_ops *ops;
        ds_device *device;
        const struct ds_device_info *info;
        struct dsw_limits limits;
        ds_sched *sched;
        int sched_due;   /* an event occurred since the last ds_sched_step() */
        uint64_t now_ns; /* device clock at the beginning of this round of the loop */
        ds_conn *conn;
        int epoll_fd, device_fd, signal_fd;
        uint32_t conn_events; /* epoll events requested for the supervisor's socket; 0 before the first round */
        int frames_left;      /* frames read from the supervisor but not handled yet */
        int more;             /* 1: the last round of the loop made progress */
        uint64_t turn;        /* number of the current round of the loop */
        uint64_t busy_cpu_ns; /* cpu_ns since which every round made progress; 0: the last one did not */

        struct dsw_session *sessions; /* all sessions, hash by id */
        struct dsw_user *users;       /* all users, hash by uid */
        struct dsw_session *active;   /* sessions whose rings and queues the loop checks */
        struct dsw_session *dirty;
        struct dsw_session *declared; /* sessions with declared threads */
        /* sessions with requests that are ready but not answered, because the supervisor does not read */
        struct dsw_session *late;
        uint64_t n_answered; /* number of late requests answered so far */
        uint32_t next_space, n_modules;
        uint32_t n_transformed; /* modules with forms */
        enum ds_sched_transform transform;
        uint64_t live_ops, slab_bytes;
        struct dsw_pool pool;
        uint64_t ls_active_wall_ns; /* real time of the last activity of an LS session, 0 = never */
        uint64_t ls_active_ns;      /* device time of the last activity of an LS session */
        uint32_t at_work;           /* bit set of the classes that have work, as published in the pages */
        uint64_t active_wall_ns;    /* real time of the last activity of any session or completion */
        uint64_t waited_wall_ns;    /* real time of the last check of the sockets */
        int took;                   /* 1: records have been read from a ring since then */
        uint64_t spin_ns;           /* polling time of the loop after LS activity, 0 = the loop does not poll */
        uint64_t follow_wall_ns;    /* real time until which the loop polls for more requests */
        uint64_t orphan_ns, kernel_ns, quiesce_ns, deadline_wall_ns;
        struct dsw_stirs stirs;
        uint64_t piece_ns;           /* expected duration of a graph piece, see graph_piece.h */
        uint64_t repeat_ns;          /* longest expected duration of a repeat, see repeat.h */
        struct dsw_user *clock_user; /* user that holds the virtual clock while others wait; NULL: none */
        /* real time when a client was last seen to hold the virtual clock; while it does, no work ends */
        uint64_t clock_held_wall_ns;
        uint64_t spare_wall_ns;         /* wall clock when an allocation that a client offered was last freed */
        uint32_t n_closing, n_clearing; /* sessions that close; n_clearing of all sessions */
        uint64_t ls_live;               /* operations of LS sessions not yet ended */
        uint32_t n_due;                 /* operations that wait for a host function or a value */
        uint32_t n_values;              /* waits for values that are due, of all sessions */
        uint32_t n_shared_syncs;        /* requests that wait for a shared event */
        struct dsw_shared *shared;      /* shared events, hash by token */
        uint64_t shared_id;
        struct dsw_lost lost;
        struct dsw_pages *pages; /* NULL if no call stops the device */
        size_t n_gone;           /* n_gone of all sessions */
        uint64_t gone_bytes;     /* gone_bytes of all sessions */
        size_t n_preparing;      /* sessions that wait for a load being prepared */
        uint64_t n_prepared;     /* number of loads that the device has prepared, at the last look */
        uint64_t ls_end_ns;      /* device time at which the last LS operation ended */
        struct dsw_quiesce quiesce;
        struct dsw_call **sleepers; /* waiting requests, a heap by wake_ns */
        size_t n_sleepers, cap_sleepers;
        struct dsw_totals totals;
        struct dsw_profile profile;
        struct dsw_trace trace;
        struct dsw_op *free_ops;

        struct ds_log_budgets log;
        int stopping, cancelled_all, gone;
        int ending; /* 1: the worker ends and sends no more notifications */
        uint64_t stop_id, stop_wall_ns;
        int fatal; /* first fatal errno of a function that cannot return it */
        struct dsw_unpack *unpack;
        uint8_t *out;                       /* buffer for one message, DS_WORKER_FRAME_MAX bytes */
        struct ds_policy_listing *policies; /* result of the last search for policies, see control.c */
        size_t n_policies;
        uint64_t policies_wall_ns;
};

/* message.c: protobuf with a memory bound. An unpacked message is valid until the next unpack. */
int dsw_message_init(ds_worker *worker);
void dsw_message_deinit(ds_worker *worker);
Detshare__Internal__ToWorker *dsw_message_unpack(ds_worker *worker, const uint8_t *payload, size_t size);
/* Sends a message; the caller keeps the fds. A failure is stored in worker->fatal. */
void dsw_message_send(ds_worker *worker, Detshare__Internal__FromWorker *message, const int *fds, size_t n_fds);
/* 1 while the supervisor has left so many bytes unread that no request may be accepted, started or answered. */
int dsw_message_full(const ds_worker *worker);
/* Answers a ToWorker message that is not a Call with a status and one sentence; id 0 = no answer wanted. */
void dsw_message_answer(ds_worker *worker, uint64_t id, int status, const char *fmt, ...) ds_printf(4, 5);

/* control.c */
int dsw_control_frame(ds_worker *worker, const uint8_t *payload, size_t size);
void dsw_control_ready(ds_worker *worker);
void dsw_control_fault(struct dsw_session *session, const char *reason);
void dsw_control_resume(struct dsw_session *session); /* in a quiesce: handles the session's deferred messages */
void dsw_control_forget(struct dsw_session *session);

/* call.c */
void dsw_call_arrive(
        ds_worker *worker, const Detshare__Internal__ToWorker *message, const uint8_t *payload, size_t size, int fd);
/* Starts queued requests in order until one finds no room. Returns how many started. */
size_t dsw_call_start_queued(struct dsw_session *session);
enum dsw_outcome dsw_call_park(
        struct dsw_call *call, int (*ready)(const struct dsw_call *), void (*finish)(struct dsw_call *));
/* Answers the parked requests that are ready. */
void dsw_call_settle(struct dsw_session *session);
/* Answers ready requests while the supervisor reads, one of each user in turn. Returns how many. */
size_t dsw_call_settle_late(ds_worker *worker);
/* Answers all requests of the session with this status. */
void dsw_call_fail_all(struct dsw_session *session, int status, const char *why);
/* Sends the only reply and frees the call. reply and ledger may be NULL; the first n_kept fds go with the ledger. */
void dsw_call_reply(struct dsw_call *call, Detshare__Reply *reply, Detshare__Internal__Ledger *ledger, const int *fds,
        size_t n_fds, size_t n_kept);
/* Reply with a status and a sentence; with success; with the sticky error. All return DSW_ANSWERED. */
enum dsw_outcome dsw_call_fail(struct dsw_call *call, int status, const char *fmt, ...) ds_printf(3, 4);
enum dsw_outcome dsw_call_ok(struct dsw_call *call);
enum dsw_outcome dsw_call_sticky(struct dsw_call *call);
/* a `ready` function: whether every operation of the session up to call->target has ended */
int dsw_call_session_ended(const struct dsw_call *call);

/* calls.c */
const struct dsw_call_row *dsw_calls_find(Detshare__Request__CallCase call);

/* calls_memory.c, calls_module.c, calls_stream.c, calls_work.c, calls_session.c */
enum dsw_outcome dsw_calls_mem_alloc(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_mem_free(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_mem_info(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_pinned_alloc(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_pinned_free(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_mem_create(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_mem_release(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_mem_map(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_mem_unmap(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_mem_export(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_mem_import(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_module_load(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_module_unload(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_get_kernel(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_get_global(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_list_kernels(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_count_clusters(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_encode_tensor_map(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_stream_create(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_stream_destroy(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_event_create(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_event_destroy(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_event_elapsed(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_sync(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_query(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_launch(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_copy(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_write(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_read(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_memset(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_event_record(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_stream_wait(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_graph_create(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_graph_update(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_graph_destroy(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_graph_launch(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_host_call(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_host_next(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_value(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_shared_event(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_clock_join(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_clock_leave(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_sleep_until(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_hint_phase(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_get_stats(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_set_limit(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_reset_session(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_get_channels(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_borrow_slab(struct dsw_call *call, const Detshare__Request *request);
enum dsw_outcome dsw_calls_return_slab(struct dsw_call *call, const Detshare__Request *request);

/* session.c */
struct dsw_session *dsw_session_find(ds_worker *worker, uint64_t id);
/* Opens a session; the caller keeps page_fd. Returns 0, a CUDA error, a daemon status, or a negative errno. */
int dsw_session_open(ds_worker *worker, const Detshare__Internal__SessionOpen *open, int page_fd);
/* Consumes event_fd, but not ring_fd. Returns 0 or a negative errno. */
int dsw_session_attach(struct dsw_session *session, int ring_fd, int event_fd, uint64_t head);
void dsw_session_set(struct dsw_session *session, const Detshare__Internal__SessionSet *set);
/* Drains the session, frees it, and then answers the message close_id. */
void dsw_session_close(struct dsw_session *session, uint64_t close_id);
/* Sets the sticky error; the first one is kept. */
void dsw_session_fail(struct dsw_session *session, int status, const char *text);
/* Marks the session as faulted: its client violated the rules of the ring. */
void dsw_session_fault(struct dsw_session *session, const char *reason);
/* The sticky error, 0 = none; also one that the supervisor wrote into the page. */
int dsw_session_error(struct dsw_session *session);
void dsw_session_dirty(struct dsw_session *session);
void dsw_session_activate(struct dsw_session *session);
void dsw_session_deactivate(struct dsw_session *session);
void dsw_session_alive(struct dsw_session *session); /* records that the client shows activity */
/* Does the work that follows from ended operations: wakes waiters, answers requests, finishes resets and closes. */
int dsw_settle(ds_worker *worker); /* returns the number of sessions with such work */
/* Logs, once per objective, that the session misses it even without other sessions. */
void dsw_session_judge(struct dsw_session *session);
void dsw_session_stats(const struct dsw_session *session, Detshare__StatsReply *stats);
/* at the end of the worker: frees a session even with operations in flight */
void dsw_session_abandon(struct dsw_session *session);

/* user.c */
int dsw_user_get(ds_worker *worker, uint32_t uid, struct dsw_user **ret); /* returns 0 or -ENOMEM */
void dsw_user_put(ds_worker *worker, struct dsw_user *user);              /* NULL is allowed */
/* At the worker's end: frees the users without sessions that are still kept. */
void dsw_users_free(ds_worker *worker);
/* Whether a user's sessions may have one more operation. If not, dsw_user_ended() makes its sessions try again. */
int dsw_user_room(struct dsw_user *user, uint32_t large_params, int new_stream);
void dsw_user_ended(ds_worker *worker, struct dsw_user *user); /* reports that an operation of the user has ended */

/* stream.c */
struct dsw_stream *dsw_stream_find(struct dsw_session *session, uint64_t slot); /* finds open streams only */
/* Returns 0, DETSHARE__STATUS__QUOTA, or a negative errno. slot UINT32_MAX = the lowest free one. */
int dsw_stream_open(
        struct dsw_session *session, uint32_t slot, int32_t priority, int non_blocking, struct dsw_stream **ret);
/* Creates or destroys a stream or an event for a checked record of the ring. Returns 0 or an error with *ret_why. */
int dsw_stream_object(struct dsw_session *session, const struct ds_record_object *record, const char **ret_why);
void dsw_stream_close(struct dsw_stream *stream);
void dsw_stream_reap(struct dsw_session *session); /* frees closed streams that no operation or request refers to */
/* Forgets all coroutines after the scheduler has freed its session; keep_slots: sequence numbers continue. */
void dsw_stream_forget_all(struct dsw_session *session, int keep_slots);
/* Assigns a number to an operation that is dropped because the session has failed. Returns the number. */
uint64_t dsw_stream_drop(struct dsw_stream *stream);
void dsw_stream_ended(struct dsw_stream *stream, uint64_t seq);

/* ops.c */
int dsw_op_room(const struct dsw_session *session, const struct dsw_stream *stream, uint32_t params_size);
/* NULL when out of memory. */
struct dsw_op *dsw_op_new(struct dsw_session *session, enum ds_op_kind kind, uint32_t params_size);
void dsw_op_free(struct dsw_op *op);
void dsw_op_set_session(struct dsw_op *op); /* copies the session's attributes that the device needs */
/* makes the operation a MEMSET or OUTSIDE; see work.c */
void dsw_op_set_value(struct dsw_op *op, const struct ds_record_value *value);
/* Consumes the operation. Returns 0 and its number, or DS_SCHED_E_FULL: the operation is freed and has no number. */
int dsw_op_submit(struct dsw_stream *stream, struct dsw_op *op, uint64_t *ret_seq);
void dsw_op_done(void *user, struct ds_op *op, int status, uint64_t start_ns, uint64_t end_ns, const char *message);
/* whether all operations of the session up to index have ended */
int dsw_session_ended(const struct dsw_session *session, uint64_t index);
/* 1: no work of the session is left, and none of its allocations waits for cleared memory. */
int dsw_session_idle(const struct dsw_session *session);
void dsw_op_pool_free(ds_worker *worker);

/* work.c: turns records and requests into operations. The session must have no sticky error and the stream must be
 * open. Returns 0 and the operation's number; a CUDA error with *ret_why, without a number; or DSW_WORK_E_STALLED. */
#define DSW_WORK_E_STALLED 100000
int dsw_work_launch(struct dsw_stream *stream, const struct ds_record_launch *launch, const void *params,
        uint64_t *ret_seq, const char **ret_why);
int dsw_work_copy(
        struct dsw_stream *stream, const struct ds_record_copy *copy, uint64_t *ret_seq, const char **ret_why);
int dsw_work_memset(
        struct dsw_stream *stream, const struct ds_record_memset *memset, uint64_t *ret_seq, const char **ret_why);
int dsw_work_event(struct dsw_stream *stream, uint64_t event, uint64_t *ret_seq, const char **ret_why);
int dsw_work_wait(struct dsw_stream *stream, uint32_t other, uint64_t seq, uint64_t *ret_seq, const char **ret_why);

/* changes: what follows `record` in the client's memory */
int dsw_work_graph(struct dsw_stream *stream, const struct ds_record_graph *record, const void *changes,
        uint64_t *ret_seq, const char **ret_why);
int dsw_work_change(struct dsw_stream *stream, const struct ds_record_graph *record, const void *changes,
        uint64_t *ret_seq, const char **ret_why);

/* graph.h has the other functions of graph.c */
/* Reports that memory, a module or an event was freed: graphs that may name it must be checked again. */
static inline void dsw_graph_taken(struct dsw_session *session)
{
        session->n_taken++;
}
/* Makes later operations of the stream wait for operation seq of the coroutine; coroutine NULL: no wait. */
int dsw_work_wait_for(
        struct dsw_stream *stream, ds_coroutine *coroutine, uint64_t seq, uint64_t *ret_seq, const char **ret_why);
int dsw_work_host(struct dsw_stream *stream, uint64_t id, uint64_t *ret_seq, const char **ret_why);
int dsw_work_value(
        struct dsw_stream *stream, const struct ds_record_value *value, uint64_t *ret_seq, const char **ret_why);
/* Makes later operations of the stream wait for the work that a shared event recorded. */
int dsw_work_wait_shared(struct dsw_stream *stream, uint64_t event, uint64_t *ret_seq, const char **ret_why);

/* host.c */
int dsw_op_due(void *user, struct ds_op *scheduled); /* callback of the scheduler */
void dsw_host_forget(struct dsw_op *op);             /* removes an operation that ended or was dropped */
/* calls functions that are due while there is room; must precede dsw_page_flush() */
void dsw_host_call(struct dsw_session *session);
size_t dsw_host_poll(struct dsw_session *session);            /* number of functions returned since the last poll */
int dsw_host_waits(const struct dsw_session *session);        /* whether dsw_host_poll() has something to do */
void dsw_host_attach(struct dsw_session *session);            /* to be called after a ring is attached */
uint32_t dsw_host_running(const struct dsw_session *session); /* functions that the client runs now */

/* value.c */
int dsw_value_due(struct dsw_op *op); /* 1: the value has the awaited state */
void dsw_value_forget(struct dsw_op *op);
void dsw_value_probed(struct dsw_op *op, int status); /* for the probe's operation, when it has ended */
void dsw_value_reset(struct dsw_session *session);    /* must precede the freeing of the session's coroutines */
void dsw_value_serve(struct dsw_session *session);    /* in a quiesce: checks values, which may stop the device */
size_t dsw_value_step(ds_worker *worker);             /* checks awaited values; number of waits that ended */
uint64_t dsw_value_wait_ns(const ds_worker *worker);

/* shared.c */
size_t dsw_shared_step(ds_worker *worker); /* returns the number of answered requests */
void dsw_shared_close_all(struct dsw_session *session);

/* lost.c */
/* Returns 1 if the context is lost, after handling these and all further completions: now call dsw_lost_say(). */
int dsw_lost_poll(ds_worker *worker, const struct ds_completion *completions, size_t n);
void dsw_lost_op(struct dsw_session *session, int status, const char *message); /* an operation ended with this error */
/* Gives up the context because a session's kernel cannot be stopped. */
void dsw_lost_give_up(struct dsw_session *session, int status, const char *message);
void dsw_lost_say(ds_worker *worker); /* sends the final messages; worker->lost.status is set */

/* deadline.c */
void dsw_deadline_step(ds_worker *worker);
uint64_t dsw_deadline_wait_ns(const ds_worker *worker);

/* observe.c: answers to queries of the supervisor; id is that of the ToWorker message */
void dsw_observe_activity(ds_worker *worker, uint64_t id, const Detshare__Internal__SessionActivity *ask);
void dsw_observe_explain(ds_worker *worker, uint64_t id, const Detshare__Explain *ask);
void dsw_observe_trace_start(ds_worker *worker, uint64_t id, const Detshare__TraceStart *ask);
void dsw_observe_trace_stop(ds_worker *worker, uint64_t id);
void dsw_observe_free(ds_worker *worker); /* to be called after the scheduler is freed */

/* profile.c: exchanges kernel profiles with the supervisor */
void dsw_profile_step(ds_worker *worker);
void dsw_profile_flush(ds_worker *worker); /* sends all refined profiles now */
uint64_t dsw_profile_wait_ns(const ds_worker *worker);
void dsw_profile_put(ds_worker *worker, const Detshare__Internal__ProfilePut *put);
int dsw_profile_calibration(ds_worker *worker, const Detshare__Internal__Calibration *calibration);

/* output.c: sends the text that kernels printed; to be called before their completions are reported */
void dsw_output_drain(ds_worker *worker);

/* pages.c: in a worker without the threads for pinned pages, these functions do nothing */
int dsw_pages_new(ds_worker *worker, uint32_t n_fillers); /* n_fillers: threads that fill files; 0 = by CPUs */
void dsw_pages_free(ds_worker *worker);
int dsw_pages_fd(const ds_worker *worker);      /* readable when dsw_pages_step() has something to do */
size_t dsw_pages_step(ds_worker *worker);       /* returns the number of files that became ready */
int dsw_pages_awaited(const ds_worker *worker); /* whether a session waits for a file */
/* Orders a zeroed file for pinned memory. Returns 0: dsw_pages_take() returns the file, or -1 if a new one is as
 * good; STALLED: the session's queue is tried again once the file is ready; OUT_OF_MEMORY; or a negative errno. */
int dsw_pages_ready(struct dsw_session *session, struct dsw_file **file, uint64_t bytes);
/* *ret_mapped: mapping of the file with all its pages, for host_move() of the device; NULL = none */
int dsw_pages_take(struct dsw_session *session, struct dsw_file **file, void **ret_mapped);
void dsw_pages_forget(struct dsw_session *session, struct dsw_file **file);
int dsw_pages_file_fd(const struct dsw_file *file); /* the file's descriptor, which stays the file's */
int dsw_pages_keep_bytes(const ds_worker *worker);  /* 1: a file may be written to while threads prepare it */
/* Closes a file's descriptor (-1 = none), and unmaps `mapped` (NULL = nothing), in a thread. */
void dsw_pages_drop(ds_worker *worker, int fd, void *mapped, uint64_t bytes);
/* Keeps a duplicate descriptor of the file mapped at va, to be closed in a thread after the unmapping. */
void dsw_pages_hold(struct dsw_session *session, uint64_t va, uint64_t bytes, int fd);
void dsw_pages_release(struct dsw_session *session, uint64_t va);

/* event.c */
struct dsw_event *dsw_event_find(struct dsw_session *session, uint64_t id);
struct dsw_event *dsw_event_known(struct dsw_session *session, uint64_t id); /* never creates the event */
int dsw_event_create(struct dsw_session *session, uint64_t *ret_id);         /* returns 0, QUOTA or -ENOMEM */
void dsw_event_destroy(struct dsw_session *session, struct dsw_event *event);
void dsw_event_destroy_all(struct dsw_session *session);

/* turns.c */
/* records that the session's user may still submit in this round */
size_t dsw_turns_records(const struct dsw_session *session);
void dsw_turns_spend_records(struct dsw_session *session, size_t n);
/* checks of values that the session's user may still make in this round */
size_t dsw_turns_looks(const struct dsw_session *session);
void dsw_turns_spend_looks(struct dsw_session *session, size_t n);
/* Begins a round: calls `pump` for each active session and returns the sum of its results. */
size_t dsw_turns_pump(ds_worker *worker, size_t (*pump)(struct dsw_session *session));
/* Whether virtual time stands still after a round; busy: the round took in records, or the policy has unseen events. */
int dsw_turns_hold_time(ds_worker *worker, int busy);

/* ring.h has the functions of ring.c */

/* memory.c: these functions return CUDA errors as positive codes, and DSW_WORK_E_STALLED: retry in the next quiesce */
struct dsw_slab_note { /* a new slab for the supervisor's ledger; fd -1 = no new slab */
        uint64_t va, bytes;
        int fd;
};
void dsw_memory_init(struct dsw_session *session, uint64_t base, uint64_t bytes, uint64_t limit);
void dsw_memory_free_all(struct dsw_session *session);
void dsw_memory_free_device(struct dsw_session *session); /* frees the device memory that can be freed without a stop */
int dsw_memory_has_pinned(const struct dsw_session *session);
int dsw_memory_host_file(uint64_t bytes, int *ret_fd); /* returns 0, OUT_OF_MEMORY, or a negative errno */
int dsw_memory_leave(struct dsw_session *session);     /* on close: marks all pinned memory as freed; 0: none */
int dsw_memory_sweep(struct dsw_session *session);     /* in a quiesce: unmaps one freed allocation; 0: none left */
int dsw_memory_alloc(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va, struct dsw_slab_note *ret_slab);
/* records that the client learns the address and may use the allocation from now on */
void dsw_memory_publish(struct dsw_session *session, uint64_t va);
void dsw_memory_free(struct dsw_session *session, uint64_t va, uint64_t *ret_slab_removed);
int dsw_memory_pinned_alloc(/* later: 1 = it may be registered later, see later.h */
        struct dsw_session *session, uint64_t bytes, int later, uint64_t *ret_va, uint64_t *ret_bytes, int *ret_fd);
/* Whether the slab that contains the allocation at va is cleared. */
int dsw_memory_cleared(struct dsw_session *session, uint64_t va);
void dsw_memory_pinned_free(struct dsw_session *session, uint64_t va);
/* Marks the allocation that begins at va as being freed. 0; -ENOENT: there is none, or it is already marked. */
int dsw_memory_begin_free(struct dsw_session *session, uint64_t va, int pinned);
int dsw_memory_restore_slab(struct dsw_session *session, uint64_t va, uint64_t bytes, int pinned, int fd);
int dsw_memory_restore_alloc(struct dsw_session *session, uint64_t va, uint64_t bytes, int pinned);
/* Allocates part of the bounce buffer for a Write or Read. DSW_HEAP_E_FULL if all of the buffer is in use. */
int dsw_memory_bounce_alloc(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va);
void dsw_memory_bounce_free(struct dsw_session *session, uint64_t va);
void dsw_memory_info(const struct dsw_session *session, Detshare__MemInfoReply *ret);
void dsw_memory_tell(const struct dsw_session *session); /* reports to the scheduler how much memory the session uses */
/* the callback ds_sched_config.memory_cap; user: the worker */
void dsw_memory_cap(void *user, uint64_t session, uint64_t bytes);
uint64_t dsw_memory_used(const struct dsw_session *session); /* bytes of device memory that count towards its limit */
/* whether the session's limit allows this many more bytes */
int dsw_memory_may(const struct dsw_session *session, uint64_t bytes);
/* marks the slab of the allocation at va as used by another session too */
int dsw_memory_keep(struct dsw_session *session, uint64_t va);
/* Creates memory at an address that no client knows, to be cleared; scrub_end unmaps it. *ret_fd: its file. */
int dsw_memory_scrub_begin(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va, int *ret_fd);
void dsw_memory_scrub_end(struct dsw_session *session, uint64_t va);
/* Classifies an address range for the record checker; see record.h. */
enum dsw_where dsw_memory_where(void *session, uint64_t va, uint64_t bytes);

/* vmm.c: memory without an address, and the mappings that the client chooses for it. Return codes as in memory.c. */
struct dsw_physical *dsw_vmm_find(struct dsw_session *session, uint64_t id);
/* Adds memory to the session, consumes its fd and charges the session. id 0 = assign a new one. */
int dsw_vmm_add(struct dsw_session *session, uint64_t id, uint64_t bytes, int *fd, int owned, uint64_t *ret_id);
int dsw_vmm_release(struct dsw_session *session, uint64_t id);
int dsw_vmm_map(struct dsw_session *session, uint64_t id, uint64_t va, uint64_t bytes);
int dsw_vmm_begin_unmap(struct dsw_session *session, uint64_t va); /* returns 0 or -ENOENT */
void dsw_vmm_unmap(struct dsw_session *session, uint64_t va);
int dsw_vmm_covers(const struct dsw_session *session, uint64_t va, uint64_t bytes);
void dsw_vmm_free_all(struct dsw_session *session);

/* modules.c */
struct dsw_module *dsw_module_find(struct dsw_session *session, uint64_t id);
struct dsw_module *dsw_module_find_closing(struct dsw_session *session, uint64_t id);
/* The kernel with this id. NULL: there is no such kernel, or it is not loaded. */
struct dsw_kernel *dsw_module_kernel(struct dsw_session *session, uint64_t kernel_id);
/* Finds a kernel, loaded or not, by its name. Returns 0 or -ENOENT. */
int dsw_module_kernel_named(const struct dsw_module *module, const char *name, uint32_t *ret_index);
int dsw_module_kernel_loaded(const ds_worker *worker, const struct dsw_kernel *kernel);
/* Loads a kernel. Returns 0, STALLED, a CUDA error, or a negative errno. */
int dsw_module_kernel_load(struct dsw_session *session, struct dsw_kernel *kernel);
size_t dsw_module_step(ds_worker *worker); /* returns the number of sessions whose prepared loads can continue */
void dsw_module_forget(struct dsw_session *session); /* the session no longer waits for a load */
uint64_t dsw_module_kernel_id(const struct dsw_module *module, uint32_t index);
/* Loads a module; id 0 = assign a new one. Returns a CUDA error or daemon status with a text in log; DSW_WORK_E_STALLED
 * (new modules: retry in the next quiesce); or a negative errno. */
int dsw_module_load(struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, char *log, size_t log_size,
        struct dsw_module **ret);
void dsw_module_unload(struct dsw_session *session, struct dsw_module *module);
void dsw_module_unload_all(struct dsw_session *session);
int dsw_module_note_global(struct dsw_module *module, uint64_t va, uint64_t bytes);
int dsw_module_is_global(const struct dsw_session *session, uint64_t va, uint64_t bytes);

/* forms.c */
void dsw_forms_init(struct dsw_forms *forms);
/* Reads the report appended to an image with forms, if any; before the kernels are listed. Returns 0 or -ENOMEM. */
int dsw_forms_instead(struct dsw_module *module, int fd, uint64_t bytes);
int dsw_forms_hides(const struct dsw_module *module, const char *name); /* whether the name is a form's */
/* Connects a module's kernels with their forms, after the kernels are listed. Returns 0 or -ENOMEM. */
int dsw_forms_connect(struct dsw_session *session, struct dsw_module *module);
void dsw_forms_kernel(ds_worker *worker, struct dsw_kernel *kernel); /* connects a loaded kernel with its forms */
void dsw_forms_free(struct dsw_session *session, struct dsw_module *module);
/* Adds to a launch the forms that it may use. */
void dsw_forms_launch(struct dsw_session *session, struct dsw_kernel *kernel, struct dsw_op *op);
/* Loads a module's forms that the supervisor sent; takes the fd. answer: id of the message to answer when done. */
void dsw_forms_come(struct dsw_session *session, const Detshare__Internal__ModuleForms *come, int *fd, uint64_t answer);
void dsw_forms_resume(struct dsw_session *session); /* continues the loads of forms that wait for a quiesce */
void dsw_forms_list(ds_worker *worker, uint64_t id, const Detshare__Internal__SessionForms *ask);

/* page.c */
void dsw_page_flush(struct dsw_session *session); /* publishes completions and wakes the client's threads */
/* Publishes in all pages whether the other class has work, if that has changed. */
void dsw_page_tell_beside(ds_worker *worker);
/* Publishes the time of an event that operation seq of the stream recorded. */
void dsw_page_time(struct dsw_session *session, uint64_t event, uint32_t stream, uint64_t seq, uint64_t ns);
void dsw_page_sleeps(struct dsw_session *session, int asleep);

/* clock.c */
void dsw_clock_declare(struct dsw_session *session, int change);
int dsw_clock_sleep(struct dsw_call *call); /* adds a request to the sleepers; returns 0 or -ENOMEM */
void dsw_clock_wake(struct dsw_call *call); /* removes a request from the sleepers */
int dsw_clock_fire(ds_worker *worker);      /* answers sleepers whose time has come; returns their number */
/* Advances virtual time if no client holds it. Returns 1 if something happened, 0 if not, or a fatal errno. */
int dsw_clock_advance(ds_worker *worker);
/* Updates the time for which the user held the virtual clock. Returns 1 while its declared threads may not hold it. */
int dsw_clock_user_spent(ds_worker *worker, struct dsw_user *user);
int dsw_clock_held(ds_worker *worker); /* whether a client stops virtual time */

/* loop.c */
int dsw_loop_awaits(const ds_worker *worker); /* whether a session waits for one of the worker's threads */
/* Sets the time bounds of worker.h, also at run time; 0 = none. */
void dsw_loop_limits(ds_worker *worker, uint64_t orphan_ns, uint64_t kernel_ns, uint64_t quiesce_ns, uint64_t spin_ns);
/* Polls for more requests for `ns` from now; 0 = does nothing. */
void dsw_loop_follow(ds_worker *worker, uint64_t ns);
/* Nanoseconds of real time after which the loop must check the clock again; UINT64_MAX = never. */
uint64_t dsw_clock_wait_ns(ds_worker *worker);
