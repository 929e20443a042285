/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's own structures and the functions its files offer each other
 *
 *   loop.c     turns: sockets, device, rings, clock            ring.c    records in, in order, once copied
 *   control.c  what the supervisor asks                        record.c  is a record or an argument valid? (record.h)
 *   call.c     life of a client's request: queue, park, reply  ops.c     stream operations and their ends
 *   calls*.c   one handler per request, the table in calls.c   stream.c  slots and sequence numbers
 *   session.c  open, close, reset, sticky error, settling      event.c   timed events
 *   memory.c   slabs, pinned memory, bounce buffers (heap.h)   modules.c modules, kernels and their ids
 *   clock.c    declared threads, sleepers, virtual time        message.c protobuf in and out
 *   quiesce.c  when calls may be made that stop the device     lost.c    the end of the device's context
 *   deadline.c kernels that do not end                         output.c  what kernels print
 *   vmm.c      memory that the client maps itself           stirs.c   when kernels have come to begin late
 *   pages.c    pinned memory's pages, made and freed by a thread
 *   user.c     what all sessions of a user have in work   graph.c   graphs that clients instantiated
 *   graph_piece.c  runs of their nodes that go as small graphs
 *   host.c     host functions of clients                       value.c   waiting for values in memory
 *   shared.c   events that sessions share                      observe.c what happens and happened, for people
 *   forms.c    other forms of kernels                          pool.c    memory whose channels are known (pool.h)
 *   turns.c    how much of a round each user gets
 *
 * How it fits together. Ring records and requests become struct dsw_op, which the scheduler owns until dsw_op_done.
 * dsw_op_done only notes what ended and puts the session on the worker's dirty list; dsw_settle() later does what
 * follows from it (wakes waiters, answers parked requests, finishes resets and closes). Nothing that can submit or free
 * runs inside the scheduler's callback.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "detshare.pb-c.h"
#include "device/device.h"
#include "internal.pb-c.h"
#include "proto/wire.h"
#include "sched/history.h"
#include "sched/sched.h"
#include "sched/trace.h"
#include "util/frame.h"
#include "util/log.h"
#include "util/macro.h"
#include "worker/heap.h"
#include "worker/pool.h"
#include "worker/record.h"
#include "worker/worker.h"

#define uthash_malloc(size) ds_alloc(size)
#define uthash_free(p, size) ds_free(p)
#define HASH_NONFATAL_OOM 1
#include "util/alloc.h"
#include <uthash.h>
#include <utlist.h>

/* What one client can make the worker hold; the supervisor has limits of its own. */
#define DSW_SESSION_OPS_MAX 8192u         /* operations not yet ended */
#define DSW_SESSION_PARAM_BYTES DS_MIB(4) /* of parameters too large for the operation itself */
#define DSW_USER_OPS_MAX 65536u           /* the same of all sessions of a user */
#define DSW_USER_PARAM_BYTES DS_MIB(32)
#define DSW_USER_STREAMS_MAX 1024u /* streams of a user that have work */
#define DSW_SESSION_GRAPHS_MAX 4096u
#define DSW_SESSION_GRAPH_BYTES DS_MIB(128) /* all that is kept of its graphs */
#define DSW_USER_GRAPH_BYTES DS_MIB(512)
#define DSW_SESSION_CALLS_MAX 64u /* unanswered requests */
#define DSW_SESSION_MODULES_MAX 4096u
#define DSW_SESSION_ALLOCS_MAX 65536u
#define DSW_SESSION_PHYSICAL_MAX 16384u /* pieces of memory without an address, and mappings: each is a file here */
#define DSW_SESSION_PINNED_MAX 4096u    /* each is a mapping of this process */
#define DSW_MODULE_KERNELS_MAX 65536u
#define DSW_KERNEL_NAME_MAX 16384u
#define DSW_DECLARED_MAX 1024u     /* threads */
#define DSW_BOUNCE_BYTES DS_MIB(1) /* Write and Read data on its way */
#define DSW_COPY_RPC_MAX 61440u    /* bytes of one Write or Read */
#define DSW_SLAB_BYTES DS_MIB(64)
#define DSW_ALLOC_ALIGN 512u
#define DSW_PAGE_ALIGN 4096u
#define DSW_SLEEP_MAX_NS (3600 * DS_NS_PER_S) /* a client must not drive the virtual clock to its end */
#define DSW_HOLD_MAX_NS (5 * DS_NS_PER_S)     /* real time that a silent declared thread may hold the virtual clock */
#define DSW_HOLD_USER_NS (5 * DS_NS_PER_S)    /* real time that one user may hold it while others wait */
#define DSW_HOLD_BACK 4u                      /* of which it gets one part back in so many parts of the time */
#define DSW_HOLD_ANEW_NS (50 * DS_NS_PER_MS)  /* and after having used it up is waited for from so much on */
#define DSW_RING_BATCH 256u                   /* records of one user and class before others have their turn */
#define DSW_SPIN_NS (50 * DS_NS_PER_US)       /* after the last sign of life of an LS session */
#define DSW_VALUE_BATCH 256u                  /* likewise looks at values that streams wait for */
#define DSW_TURNS_TIME_NS (2 * DS_NS_PER_MS)  /* real time that full rings may keep virtual time from passing */
#define DSW_MESSAGE_MAX 4096u
#define DSW_SUSPECTS_MAX 256u
#define DSW_SESSION_HANDLES_MAX 4u /* see dsw_pages_hold */
#define DSW_HANDLES_MAX 256u
#define DSW_ORPHAN_NS (10 * DS_NS_PER_S)  /* see deadline.c */
#define DSW_QUIESCE_NS (60 * DS_NS_PER_S) /* likewise */

#define DSW_SESSION_ID_END (UINT64_MAX - 15) /* ids from here on are the loop's own */
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
struct dsw_pieces;

enum dsw_stream_state {
        DSW_STREAM_FREE,
        DSW_STREAM_OPEN,
        DSW_STREAM_CLOSING, /* destroyed by its client, still running or waited for */
        _DSW_STREAM_STATE_MAX,
};

/* A slot keeps its numbers when its stream goes: the next stream in it counts on. */
struct dsw_stream {
        struct dsw_session *session;
        uint32_t slot;
        enum dsw_stream_state state;
        int32_t priority;
        int non_blocking;
        ds_coroutine *coroutine;
        uint64_t submitted, done;           /* as the client counts */
        uint64_t base;                      /* the client's number minus the coroutine's */
        uint64_t dropped;                   /* counted in submitted, never given to the scheduler, not yet ended */
        uint32_t live;                      /* with the scheduler */
        uint64_t stuck_done, stuck_wall_ns; /* deadline.c */
};

/* What an operation DS_OP_OUTSIDE waits for, and how far it is. */
enum dsw_outside { DSW_OUTSIDE_HOST, DSW_OUTSIDE_VALUE };
enum dsw_due {
        DSW_DUE_NOT,
        DSW_DUE_WAITING, /* in host.due or in values */
        DSW_DUE_CALLED,  /* in host.calls */
        DSW_DUE_GIVEN,   /* in host.given */
};

struct dsw_op {
        struct ds_op op; /* what the scheduler sees */
        struct dsw_session *session;
        struct dsw_stream *stream;
        struct dsw_op *prev, *next; /* the session's, in order of submission */
        uint64_t seq;               /* in its stream, as the client counts */
        uint64_t index;             /* in its session */
        uint64_t event;             /* MARK: id, 0 = none */
        struct dsw_call *call;      /* the Read that it answers */
        uint64_t bounce;            /* Write: given back when it ends */
        struct dsw_kernel *kernel;  /* LAUNCH; good as long as its module, which waits for launches */
        void *large_params;
        uint32_t large_size;
        int ls;                        /* counted in ls_live */
        struct dsw_graph *graph;       /* GRAPH: holds a reference */
        uint32_t graph_next;           /* GRAPH: its next node to become a part */
        const struct dsw_piece *piece; /* GRAPH: which nodes of it, NULL = all; the graph's */
        enum dsw_outside outside;
        enum dsw_due due;
        struct dsw_op *due_prev, *due_next;
        union {
                struct {
                        uint64_t host_id, host_number; /* the client's; by request: ours */
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
        uint64_t index; /* of the operation that records it last */
        uint64_t ns;
        int ended;
        UT_hash_handle hh;
};

struct dsw_kernel {
        const ds_device_kernel *device;
        const struct ds_kernel_info *info;
        struct dsw_module *module;
        struct ds_sched_forms sched;    /* those that may be used: filled when they come, also for what is queued */
        struct dsw_kernel_forms *forms; /* NULL: none are known; see forms.c */
        uint64_t key, launches;         /* ds_op.kernel_key of the last that ended, and how many have */
};

struct dsw_kernel_forms {
        uint8_t made_sliced, made_persistent, connected;
        const char *why_sliced, *why_persistent;
};

/* See forms.c. All zero but fd (-1): nothing is known. */
struct dsw_forms {
        int asked;                        /* the supervisor was told that they are wanted */
        int instead;                      /* the module has them itself */
        ds_device_module *second;         /* else this one has; NULL: none is loaded */
        struct dsw_kernel_forms *kernels; /* by kernel, once a report has come */
        uint64_t native;                  /* of the report: a hash of what its forms were made of */
        char *report, *why;               /* why: of all kernels, where there is no report */
        int fd;                           /* of the second's image while it waits to be loaded; -1: none does */
        uint64_t bytes, answer;
};

struct dsw_module {
        uint64_t id;
        ds_device_module *device;
        struct dsw_kernel *kernels;
        uint32_t n_kernels;
        struct dsw_forms forms;
        int closing;
        struct dsw_range *globals; /* those that the client knows */
        size_t n_globals, cap_globals;
};

struct dsw_physical { /* memory that the client maps where it likes */
        uint64_t id, bytes;
        int fd;
        int owned; /* 0: another session's, which pays for it */
        uint32_t n_mapped;
        UT_hash_handle hh;
};

struct dsw_mapped {
        uint64_t va, bytes;
        struct dsw_physical *physical;
        int going; /* its client gave it back */
};

struct dsw_memory {
        struct dsw_heap device, pinned, bounce;
        uint64_t bounce_va; /* 0 until the first Write or Read */
        uint64_t limit;     /* bytes of device memory, 0 = none */
        uint64_t cap;       /* the policy's, for what is still to come; UINT64_MAX = none */
        uint64_t peak;
        struct dsw_physical *physical; /* hash by id */
        struct dsw_mapped *mapped;     /* by address */
        size_t n_mapped, cap_mapped;
        uint64_t physical_id, physical_bytes; /* of what it owns */
        size_t n_pinned;                      /* n_gone included */
        size_t n_gone;                        /* given back, still registered: unmapping waits for a quiesce */
};

struct dsw_handle {  /* of a pinned file that was given out, see pages.c */
        uint64_t va; /* 0 = none */
        int fd;
};

/* What is left of a user's share of a round; see turns.c. */
struct dsw_turn {
        uint32_t records, looks;
};

#define _DSW_TURN_CLASSES (DETSHARE_CLASS_LS + 1)

struct dsw_user {
        uint32_t uid, refs;         /* of sessions */
        uint32_t n_live, n_streams; /* operations not yet ended, and streams that have some */
        uint64_t param_bytes, graph_bytes, piece_bytes;
        int waiting;                /* a session of its found no room */
        uint32_t n_sleeping;        /* requests that wait for a time on the device clock */
        uint64_t hold_ns;           /* real time that it held the clock while others waited, less what it got back */
        uint64_t hold_wall_ns;      /* when that was counted last */
        uint64_t hold_said_wall_ns; /* when the log said last that it has held it for too long, 0 = never */
        int hold_spent;             /* its declared threads are not waited for now */
        uint64_t answered;          /* of worker->n_answered, when one of its late requests was answered last */
        uint64_t turn_number;       /* the round that `turns` is of */
        struct dsw_turn turns[_DSW_TURN_CLASSES];
        uint64_t value_pass; /* its sessions with the same number have had their values looked at in this pass */
        int value_spent;     /* not all of its sessions had their turn in this round */
        UT_hash_handle hh;
};

/* See host.c. */
struct dsw_host {
        struct dsw_op *due;                  /* not called yet, in the order in which they became due */
        struct dsw_op *calls[DS_HOST_CALLS]; /* called by the page; NULL: dropped meanwhile, or ended */
        uint64_t called, ended;              /* as in page and header */
        struct dsw_op *given;                /* by request */
        uint64_t called_wall_ns;             /* the last one, either way */
        uint64_t number;
};

/* See value.c. */
struct dsw_probe {
        ds_coroutine *coroutine; /* NULL: none yet */
        struct dsw_op *op;       /* on its way to look */
        struct dsw_op *target;   /* for it; NULL: dropped meanwhile */
        uint64_t wall_ns, pause_ns, seen_completed;
};

enum dsw_session_state {
        DSW_SESSION_OPEN,
        DSW_SESSION_RESETTING, /* draining, then empty and open again */
        DSW_SESSION_FAULTED,   /* broke the rules; the supervisor will close it */
        DSW_SESSION_CLOSING,   /* draining, then gone */
        _DSW_SESSION_STATE_MAX,
};

/* How quickly an LS session's requests run on the device: those of as many kernels. stirs.c; all 0 at first. */
struct dsw_pace {
        uint64_t begin_ns;          /* of the work that goes on */
        uint32_t running;           /* its kernels so far */
        uint32_t kernels;           /* of the requests that are compared; 0: none yet */
        uint32_t n, others;         /* of them in this window; requests of other lengths since one of them */
        uint64_t least_ns, best_ns; /* the quickest of this window, and of a good one; 0: none */
        uint32_t good;              /* windows since the last slow one */
        uint64_t late_ns, apart_ns; /* not before that is it said again that they are slow; the time from then on */
};

struct dsw_session {
        ds_worker *worker;
        uint64_t id;
        UT_hash_handle hh;
        enum dsw_session_state state;
        uint32_t space, uid, sm_percent;
        uint32_t gpu_request, gpu_limit; /* thousandths, 0 = not said */
        uint32_t phase;                  /* enum detshare_phase, as its client said last */
        char name[64];                   /* for people */
        struct dsw_user *user;
        enum detshare_class class_;
        uint64_t slo_ns;

        ds_sched_session *sched;            /* NULL only in a session that could not be reset, and is at fault for it */
        struct ds_sched_session_stats past; /* of the scheduler sessions before the last reset */
        struct dsw_memory memory;
        struct dsw_loan loan;        /* of the pool */
        struct dsw_stream **streams; /* by slot; entries may be NULL */
        uint32_t n_streams, n_closing;
        struct dsw_module **modules; /* by slot; entries may be NULL */
        uint32_t n_module_slots, n_modules;
        uint64_t module_generation;
        struct dsw_event *events; /* hash by id */
        uint64_t event_id;
        struct dsw_graph *graphs; /* hash by id */
        uint32_t n_graphs, n_pieces;
        uint64_t graph_id, graph_bytes;
        struct dsw_pieces *pieces; /* of its graphs, those first that were not launched for longest */
        uint64_t piece_bytes;
        size_t graph_cost; /* what launches of graphs took of the worker's time, in records of the ring */
        uint64_t n_taken;  /* times that memory, modules or events were given back: graphs are checked anew */

        struct dsw_op *live; /* with the scheduler, oldest first */
        uint32_t n_live;
        struct dsw_pace pace;
        uint64_t op_index; /* last given */
        uint64_t param_bytes;

        struct ds_completion_page *page;
        const struct ds_ring_header *ring; /* NULL until attached */
        int event_fd;
        uint64_t head, tail_seen;
        uint64_t synchronised_seen; /* ring.synchronised */
        int stalled;                /* the ring's next record has no room */
        int asleep;                 /* what page->asleep says */

        int error; /* sticky */
        char error_text[DS_DEVICE_MESSAGE_MAX];
        int cancel_due, cancelled;

        struct dsw_host host;
        struct dsw_op *values; /* waits for a value that are due */
        struct dsw_probe probe;
        struct dsw_opened *opened; /* hash by id: shared events */

        struct dsw_call *queue;  /* not started */
        struct dsw_call *parked; /* started, to be answered */
        uint32_t n_calls, n_queued_plain, n_blocked;
        int retry; /* something ended since the queue was last tried */
        struct dsw_call *reset_call;
        uint64_t close_id, close_wall_ns;
        uint32_t declared;
        uint32_t n_clearing; /* MemAllocs that wait for their slab to be clear */
        uint64_t active_wall_ns;
        uint64_t aborted_wall_ns; /* deadline.c */

        struct dsw_held *held; /* messages of the supervisor that had to wait, see control.c */
        struct dsw_file *file; /* for pinned memory: asked for, or ready; NULL = none */
        struct dsw_handle handles[DSW_SESSION_HANDLES_MAX];

        int is_active, is_dirty, is_declared; /* on the worker's lists */
        int is_late;
        uint64_t value_pass; /* of the user, when its values were looked at last */
        struct dsw_session *late_prev, *late_next;
        int load_waits, load_prepared; /* see modules.c */
        int forms_wait;                /* likewise, for those of forms.c */
        uint32_t n_forms;              /* modules whose second image waits to be loaded */
        int waits_stop;                /* likewise: the next quiesce is for it too */
        struct dsw_session *active_prev, *active_next;
        struct dsw_session *dirty_next;
        struct dsw_session *declared_prev, *declared_next;
        struct dsw_session *stop_prev, *stop_next;
};

/* A client's request between its arrival and its one reply. */
struct dsw_call {
        struct dsw_session *session;
        const struct dsw_call_row *row;
        struct dsw_call *prev, *next; /* in queue or parked */
        uint64_t id;                  /* of the ToWorker */
        uint64_t request_id;
        uint64_t ring_tail;
        enum { DSW_CALL_RUNNING, DSW_CALL_QUEUED, DSW_CALL_PARKED } state;
        uint8_t *raw; /* queued: the frame */
        size_t raw_size;
        int fd;                                    /* that came with it, -1 = none */
        int (*ready)(const struct dsw_call *call); /* parked */
        void (*finish)(struct dsw_call *call);     /* parked: replies */
        /* what ready and finish look at */
        struct dsw_stream *stream;
        uint64_t target; /* sequence number or operation index */
        uint64_t address;
        uint32_t bytes;
        uint64_t bounce; /* Read: where the data lands, 0 = none */
        uint64_t wake_ns;
        struct { /* MemAlloc */
                uint64_t va, bytes;
                int clearing; /* counted in n_clearing */
        } slab;
        size_t sleeper; /* place among the sleepers + 1, 0 = none */
        struct dsw_op *op;
        int status;
        int shared; /* counted in n_shared_syncs */
};

enum dsw_outcome {
        DSW_ANSWERED,
        DSW_PARKED,
        DSW_STALLED, /* no room now: start it again later; nothing was done */
};

struct dsw_call_row {
        Detshare__Request__CallCase call;
        const char *name;
        enum dsw_outcome (*handler)(struct dsw_call *call, const Detshare__Request *request);
        int blocks;  /* a declared thread that waits for it counts as waiting */
        int healthy; /* refused with the session's sticky error */
};

enum dsw_quiesce_state {
        DSW_QUIESCE_OPEN,
        DSW_QUIESCE_DRAINING, /* BE is held and drains */
        DSW_QUIESCE_GAP,      /* BE has drained; LS goes on */
        DSW_QUIESCE_EMPTYING, /* all is held */
        _DSW_QUIESCE_STATE_MAX,
};

/* stirs.c. All 0 at first: what the worker made for itself is something, too. */
struct dsw_stirs {
        uint64_t seen, told;       /* of the device's stirs; those that the last turn was for */
        uint64_t seen_ns, told_ns; /* when they changed, and when it was asked for; 0: never */
        uint64_t alive_wall_ns;    /* LS's last sign of life that was seen, 0: none */
        uint64_t back_ns;          /* when LS came, or came back, on the device's clock */
        uint64_t n_slow;           /* how often LS's requests were seen to be slow: these count as stirs */
};

struct dsw_quiesce {
        enum dsw_quiesce_state state;
        int running;                 /* nothing is in flight: calls that stop the device may be made */
        int begun, beside_ls;        /* of the one running */
        uint64_t bound_ns;           /* real time for which BE's calls may make it last */
        uint64_t empty_ns, run_ns;   /* device time since which LS is held, and since which nothing runs */
        uint64_t pause_ns;           /* until the next for BE's sake, after the last one's end */
        struct dsw_session *waiting; /* sessions, first come first */
        uint64_t drained_ns;         /* device time */
        uint64_t last_ns;            /* device time of the last one's end */
        uint64_t held_wall_ns, run_wall_ns;
        uint64_t chores_wall_ns;  /* since when there is something that nobody waits for; 0 = nothing */
        int chores_go_on;         /* the last one had no time for all of it */
        uint64_t count, total_ns; /* real time from holding BE to letting it go */
};

struct dsw_lost {
        int status; /* 0 = all is well */
        uint64_t suspects[DSW_SUSPECTS_MAX];
        size_t n_suspects;
        char message[DS_DEVICE_MESSAGE_MAX];
};

struct dsw_trace {
        int fd; /* of memory; both as long as a trace goes on */
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
        uint64_t id_base;
        const struct ds_device_ops *ops;
        ds_device *device;
        const struct ds_device_info *info;
        struct dsw_limits limits;
        ds_sched *sched;
        int sched_due;   /* something happened since the last ds_sched_step */
        uint64_t now_ns; /* device clock, as of this step */
        ds_conn *conn;
        int epoll_fd, device_fd, signal_fd;
        uint32_t conn_events;  /* that the supervisor's socket is watched for; 0 before the first turn */
        int frames_left;       /* read from the supervisor and not handled yet */
        int more;              /* the last round moved something */
        uint64_t turn;         /* number of the round */
        uint64_t busy_wall_ns; /* since when each round was busy; 0 = the last one was not */

        struct dsw_session *sessions; /* hash by id */
        struct dsw_user *users;       /* hash by uid */
        struct dsw_session *active;   /* rings and queues to look at */
        struct dsw_session *dirty;
        struct dsw_session *declared; /* with declared threads */
        struct dsw_session *late;     /* with requests that could end, had the supervisor read more */
        uint64_t n_answered;          /* of those */
        uint32_t next_space, n_modules;
        uint32_t n_transformed; /* modules with forms */
        enum ds_sched_transform transform;
        uint64_t live_ops, slab_bytes;
        struct dsw_pool pool;
        uint64_t ls_active_wall_ns; /* last sign of life of an LS session, 0 = never */
        uint64_t ls_active_ns;      /* the same on the device clock */
        uint32_t at_work;           /* classes that have work, a bit each, as the pages say */
        uint64_t active_wall_ns;    /* likewise of any session, or a completion */
        uint64_t waited_wall_ns;    /* when the sockets were looked at last */
        uint64_t spin_ns;           /* see loop.c */
        uint64_t orphan_ns, kernel_ns, quiesce_ns, deadline_wall_ns;
        struct dsw_stirs stirs;
        uint64_t piece_ns;           /* of a graph that goes in parts: how long a piece of it may be expected to take */
        struct dsw_user *clock_user; /* who holds the virtual clock while others wait; NULL: no one */
        uint64_t clock_held_wall_ns; /* when a client was last seen to hold the virtual clock; nothing ends meanwhile */
        uint32_t n_closing, n_clearing; /* sessions; sum over sessions */
        uint64_t ls_live;               /* operations of LS sessions not yet ended */
        uint32_t n_due;                 /* operations that wait for a client or a value, see host.c */
        uint32_t n_values;              /* sum over sessions of those due */
        uint32_t n_shared_syncs;        /* requests that wait for a shared event */
        struct dsw_shared *shared;      /* hash by token */
        uint64_t shared_id;
        struct dsw_lost lost;
        struct dsw_pages *pages; /* NULL where nothing stops the device */
        size_t n_gone;           /* sum over sessions */
        size_t n_preparing;      /* sessions whose loads are being prepared */
        uint64_t n_prepared;     /* what the device said last of how many have been */
        uint64_t ls_end_ns;      /* device time when an operation of LS ended last */
        struct dsw_quiesce quiesce;
        struct dsw_call **sleepers; /* heap by wake_ns */
        size_t n_sleepers, cap_sleepers;
        struct dsw_totals totals;
        struct dsw_profile profile;
        struct dsw_trace trace;
        struct dsw_op *free_ops;

        struct ds_log_budgets log;
        int stopping, cancelled_all, gone;
        int ending; /* nobody is told any more */
        uint64_t stop_id, stop_wall_ns;
        int fatal; /* first fatal errno found where it could not be returned */
        struct dsw_unpack *unpack;
        uint8_t *out;                       /* DS_WORKER_FRAME_MAX bytes, for one message */
        struct ds_policy_listing *policies; /* control.c: as they were looked at last */
        size_t n_policies;
        uint64_t policies_wall_ns;
};

/* message.c: protobuf under a budget. A message lives until the next unpack. */
int dsw_message_init(ds_worker *worker);
void dsw_message_deinit(ds_worker *worker);
Detshare__Internal__ToWorker *dsw_message_unpack(ds_worker *worker, const uint8_t *payload, size_t size);
/* Sends; the fds stay the caller's. A failure is noted in worker->fatal. */
void dsw_message_send(ds_worker *worker, Detshare__Internal__FromWorker *message, const int *fds, size_t n_fds);
/* 1 while so much waits for the supervisor to read that no request should be taken, started or ended. */
int dsw_message_full(const ds_worker *worker);
/* status and one sentence for a ToWorker that is not a Call; id 0 = no answer wanted */
void dsw_message_answer(ds_worker *worker, uint64_t id, int status, const char *fmt, ...) ds_printf(4, 5);

/* control.c */
int dsw_control_frame(ds_worker *worker, const uint8_t *payload, size_t size);
void dsw_control_ready(ds_worker *worker);
void dsw_control_fault(struct dsw_session *session, const char *reason);
void dsw_control_resume(struct dsw_session *session); /* in a quiesce: messages for it that had to wait */
void dsw_control_forget(struct dsw_session *session);

/* call.c */
void dsw_call_arrive(
        ds_worker *worker, const Detshare__Internal__ToWorker *message, const uint8_t *payload, size_t size, int fd);
/* Start what is queued, in order, as far as possible. Returns how many started. */
size_t dsw_call_start_queued(struct dsw_session *session);
enum dsw_outcome dsw_call_park(
        struct dsw_call *call, int (*ready)(const struct dsw_call *), void (*finish)(struct dsw_call *));
/* Answer what is ready. */
void dsw_call_settle(struct dsw_session *session);
/* Ends late requests as long as the supervisor reads, one of each user in turn. Returns how many. */
size_t dsw_call_settle_late(ds_worker *worker);
/* Answer everything with status. */
void dsw_call_fail_all(struct dsw_session *session, int status, const char *why);
/* The one reply; the call is gone afterwards. reply and ledger may be NULL; n_kept of the fds are the ledger's. */
void dsw_call_reply(struct dsw_call *call, Detshare__Reply *reply, Detshare__Internal__Ledger *ledger, const int *fds,
        size_t n_fds, size_t n_kept);
/* Status and a sentence. Both return DSW_ANSWERED. */
enum dsw_outcome dsw_call_fail(struct dsw_call *call, int status, const char *fmt, ...) ds_printf(3, 4);
enum dsw_outcome dsw_call_ok(struct dsw_call *call);
enum dsw_outcome dsw_call_sticky(struct dsw_call *call);
int dsw_call_session_ended(const struct dsw_call *call); /* ready: every operation up to target has ended */

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
/* page_fd stays the caller's. 0, a CUDA error or a daemon status, or a negative errno. */
int dsw_session_open(ds_worker *worker, const Detshare__Internal__SessionOpen *open, int page_fd);
/* Takes over event_fd, not ring_fd. 0 or a negative errno. */
int dsw_session_attach(struct dsw_session *session, int ring_fd, int event_fd, uint64_t head);
void dsw_session_set(struct dsw_session *session, const Detshare__Internal__SessionSet *set);
/* Drain it and then let it go; close_id is answered then. */
void dsw_session_close(struct dsw_session *session, uint64_t close_id);
/* The sticky error; the first one stays. */
void dsw_session_fail(struct dsw_session *session, int status, const char *text);
/* The client broke the ring's rules. */
void dsw_session_fault(struct dsw_session *session, const char *reason);
int dsw_session_error(struct dsw_session *session); /* also one that the supervisor wrote into the page */
void dsw_session_dirty(struct dsw_session *session);
void dsw_session_activate(struct dsw_session *session);
void dsw_session_deactivate(struct dsw_session *session);
void dsw_session_alive(struct dsw_session *session); /* a sign of life */
/* Do what follows from all that ended. */
int dsw_settle(ds_worker *worker); /* returns how many sessions had something */
void dsw_session_stats(const struct dsw_session *session, Detshare__StatsReply *stats);
void dsw_session_abandon(struct dsw_session *session); /* the worker ends: free it, whatever is in flight */

/* user.c */
int dsw_user_get(ds_worker *worker, uint32_t uid, struct dsw_user **ret); /* 0 or -ENOMEM */
void dsw_user_put(ds_worker *worker, struct dsw_user *user);              /* NULL is fine */
/* At the worker's end: those without sessions, of whom something was remembered. */
void dsw_users_free(ds_worker *worker);
/* May one of its sessions have one operation more? If not, its sessions are tried again when dsw_user_ended() says so.
 */
int dsw_user_room(struct dsw_user *user, uint32_t large_params, int new_stream);
void dsw_user_ended(ds_worker *worker, struct dsw_user *user); /* an operation of it has */

/* stream.c */
struct dsw_stream *dsw_stream_find(struct dsw_session *session, uint64_t slot); /* open ones only */
/* 0, DETSHARE__STATUS__QUOTA, or a negative errno. slot: UINT32_MAX = the lowest free one. */
int dsw_stream_open(
        struct dsw_session *session, uint32_t slot, int32_t priority, int non_blocking, struct dsw_stream **ret);
void dsw_stream_close(struct dsw_stream *stream);
/* Let go of closed streams that nothing needs any more. */
void dsw_stream_reap(struct dsw_session *session);
/* All coroutines are gone with the scheduler's session: forget them; keep_slots: the numbers stay. */
void dsw_stream_forget_all(struct dsw_session *session, int keep_slots);
/* Counts an operation that is not going to be run. */
uint64_t dsw_stream_drop(struct dsw_stream *stream);
void dsw_stream_ended(struct dsw_stream *stream, uint64_t seq);

/* ops.c */
int dsw_op_room(const struct dsw_session *session, const struct dsw_stream *stream, uint32_t params_size);
/* NULL when out of memory. */
struct dsw_op *dsw_op_new(struct dsw_session *session, enum ds_op_kind kind, uint32_t params_size);
void dsw_op_free(struct dsw_op *op);
void dsw_op_set_session(struct dsw_op *op); /* what the device must know of its session */
void dsw_op_set_value(struct dsw_op *op, const struct ds_record_value *value); /* work.c; a MEMSET or OUTSIDE */
/* Takes the operation over. 0 and its number, or DS_SCHED_E_FULL: the operation is freed, nothing was counted. */
int dsw_op_submit(struct dsw_stream *stream, struct dsw_op *op, uint64_t *ret_seq);
void dsw_op_done(void *user, struct ds_op *op, int status, uint64_t start_ns, uint64_t end_ns, const char *message);
int dsw_session_ended(const struct dsw_session *session, uint64_t index); /* all up to index */
void dsw_op_pool_free(ds_worker *worker);

/*
 * work.c: records and requests alike become operations here. The session has no sticky error and the stream is open. 0
 * and the operation's number, a CUDA error number with *ret_why (nothing was counted), or DSW_WORK_E_STALLED.
 */
#define DSW_WORK_E_STALLED 100000
int dsw_work_launch(struct dsw_stream *stream, const struct ds_record_launch *launch, const void *params,
        uint64_t *ret_seq, const char **ret_why);
int dsw_work_copy(
        struct dsw_stream *stream, const struct ds_record_copy *copy, uint64_t *ret_seq, const char **ret_why);
int dsw_work_memset(
        struct dsw_stream *stream, const struct ds_record_memset *memset, uint64_t *ret_seq, const char **ret_why);
int dsw_work_event(struct dsw_stream *stream, uint64_t event, uint64_t *ret_seq, const char **ret_why);
int dsw_work_wait(struct dsw_stream *stream, uint32_t other, uint64_t seq, uint64_t *ret_seq, const char **ret_why);

int dsw_work_graph(struct dsw_stream *stream, uint64_t graph, uint64_t *ret_seq, const char **ret_why);

/* graph.c */
/*
 * From a file of a client's, which is copied. id 0 = a new one. 0; a CUDA error or daemon status with *ret_why;
 * DSW_WORK_E_STALLED (not before the next quiesce), or a negative errno.
 */
int dsw_graph_create(
        struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, uint64_t *ret_id, const char **ret_why);
int dsw_graph_update(struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, const char **ret_why);
int dsw_graph_destroy(struct dsw_session *session, uint64_t id); /* 0 or -ENOENT */
void dsw_graph_destroy_all(struct dsw_session *session);
/* For a launch now: with a reference, and all that it names is there. 0 or an error with *ret_why. */
int dsw_graph_get(struct dsw_session *session, uint64_t id, struct dsw_graph **ret, const char **ret_why);
void dsw_graph_put(struct dsw_session *session, struct dsw_graph *graph); /* NULL is fine */
/* A launch of it: what the scheduler must know. */
void dsw_graph_prepare(struct dsw_session *session, struct dsw_graph *graph, struct ds_op *op);
void dsw_graph_record_events(struct dsw_session *session, const struct dsw_graph *graph); /* its launch was submitted */
int dsw_graph_unfold(void *user, struct ds_op *graph, struct ds_op **ret);                /* see ds_op_unfold_fn */
/* Something that a graph may name was given back. */
static inline void dsw_graph_taken(struct dsw_session *session)
{
        session->n_taken++;
}
/* Later work waits for a coroutine's number; NULL: for nothing. */
int dsw_work_wait_for(
        struct dsw_stream *stream, ds_coroutine *coroutine, uint64_t seq, uint64_t *ret_seq, const char **ret_why);
int dsw_work_host(struct dsw_stream *stream, uint64_t id, uint64_t *ret_seq, const char **ret_why);
int dsw_work_value(
        struct dsw_stream *stream, const struct ds_record_value *value, uint64_t *ret_seq, const char **ret_why);
/* Later work of the stream waits for what a shared event stands behind. */
int dsw_work_wait_shared(struct dsw_stream *stream, uint64_t event, uint64_t *ret_seq, const char **ret_why);

/* host.c */
int dsw_op_due(void *user, struct ds_op *scheduled);          /* for the scheduler */
void dsw_host_forget(struct dsw_op *op);                      /* it is told, or dropped */
void dsw_host_call(struct dsw_session *session);              /* what is due and has room; before the page is flushed */
size_t dsw_host_poll(struct dsw_session *session);            /* how many have returned */
int dsw_host_waits(const struct dsw_session *session);        /* dsw_host_poll has something to do */
void dsw_host_attach(struct dsw_session *session);            /* a ring is there */
uint32_t dsw_host_running(const struct dsw_session *session); /* functions that the client has been told to run */

/* value.c */
int dsw_value_due(struct dsw_op *op); /* 1: the value is there */
void dsw_value_forget(struct dsw_op *op);
void dsw_value_probed(struct dsw_op *op, int status); /* an operation without a stream has ended */
void dsw_value_reset(struct dsw_session *session);    /* its coroutines are going */
void dsw_value_serve(struct dsw_session *session);    /* in a quiesce: what stops the device may be done */
size_t dsw_value_step(ds_worker *worker);             /* look at what is waited for; how many have come */
uint64_t dsw_value_wait_ns(const ds_worker *worker);

/* shared.c */
size_t dsw_shared_step(ds_worker *worker); /* how many requests were answered */
void dsw_shared_close_all(struct dsw_session *session);

/* quiesce.c */
/*
 * May a call marked [stops] be made now for this session? If not, nothing has happened yet: what needs it is done again
 * in the next quiesce, where its queued requests are started anew and its end is looked at again.
 */
int dsw_quiesce_may(struct dsw_session *session);
int dsw_quiesce_runs(const ds_worker *worker); /* such calls may be made now; asks for nothing */
void dsw_quiesce_forget(struct dsw_session *session);
void dsw_quiesce_chore(ds_worker *worker);             /* something was put off: do it when it costs nobody anything */
int dsw_quiesce_step(ds_worker *worker);               /* 1 when something moved */
uint64_t dsw_quiesce_next_ns(const ds_worker *worker); /* device time of the next step by time alone */
uint64_t dsw_quiesce_wait_ns(const ds_worker *worker); /* likewise, real time from now */

/* lost.c */
/* After a poll that gave these: is the context lost? 1: all is told but dsw_lost_say. */
int dsw_lost_poll(ds_worker *worker, const struct ds_completion *completions, size_t n);
void dsw_lost_op(struct dsw_session *session, int status, const char *message); /* an operation has ended like that */
/* A session's work cannot be stopped: the context goes for it. */
void dsw_lost_give_up(struct dsw_session *session, int status, const char *message);
void dsw_lost_say(ds_worker *worker); /* the last words; worker->lost.status is set */

/* deadline.c */
void dsw_deadline_step(ds_worker *worker);
uint64_t dsw_deadline_wait_ns(const ds_worker *worker);

/* stirs.c */
/* Work of an LS session ended, of so many kernels; last: it has no more. */
void dsw_stirs_ended(struct dsw_session *session, uint32_t kernels, uint64_t start_ns, uint64_t end_ns, int last);
void dsw_stirs_step(ds_worker *worker);
uint64_t dsw_stirs_wait_ns(ds_worker *worker); /* real time from now */

/* observe.c: answers to the supervisor's questions; id: of the ToWorker */
void dsw_observe_activity(ds_worker *worker, uint64_t id, const Detshare__Internal__SessionActivity *ask);
void dsw_observe_explain(ds_worker *worker, uint64_t id, const Detshare__Explain *ask);
void dsw_observe_trace_start(ds_worker *worker, uint64_t id, const Detshare__TraceStart *ask);
void dsw_observe_trace_stop(ds_worker *worker, uint64_t id);
void dsw_observe_free(ds_worker *worker); /* the scheduler is gone */

/* profile.c: what the supervisor is told of kernels, and tells */
void dsw_profile_step(ds_worker *worker);
void dsw_profile_flush(ds_worker *worker); /* all at once */
uint64_t dsw_profile_wait_ns(const ds_worker *worker);
void dsw_profile_put(ds_worker *worker, const Detshare__Internal__ProfilePut *put);
int dsw_profile_calibration(ds_worker *worker, const Detshare__Internal__Calibration *calibration);

/* output.c: send what was printed; before completions are told */
void dsw_output_drain(ds_worker *worker);

/* pages.c: all of it does nothing in a worker without the thread */
int dsw_pages_new(ds_worker *worker);
void dsw_pages_free(ds_worker *worker);
int dsw_pages_fd(const ds_worker *worker);      /* readable when dsw_pages_step has something to do */
size_t dsw_pages_step(ds_worker *worker);       /* how many files are ready that were not */
int dsw_pages_awaited(const ds_worker *worker); /* a session waits for a file */
/*
 * A file for pinned memory of that size: 0 = dsw_pages_take() gives it, or -1 when a new one is as good; STALLED: the
 * session's queue is tried again when it is ready; OUT_OF_MEMORY, or a negative errno.
 */
int dsw_pages_ready(struct dsw_session *session, uint64_t bytes);
int dsw_pages_take(struct dsw_session *session);
void dsw_pages_forget(struct dsw_session *session);
void dsw_pages_drop(ds_worker *worker, int fd); /* close it, elsewhere */
/* Keep a handle of what is mapped at va, and let it go after the unmapping. */
void dsw_pages_hold(struct dsw_session *session, uint64_t va, uint64_t bytes, int fd);
void dsw_pages_release(struct dsw_session *session, uint64_t va);

/* event.c */
struct dsw_event *dsw_event_find(struct dsw_session *session, uint64_t id);
int dsw_event_create(struct dsw_session *session, uint64_t *ret_id); /* 0, QUOTA, -ENOMEM */
void dsw_event_destroy(struct dsw_session *session, struct dsw_event *event);
void dsw_event_destroy_all(struct dsw_session *session);

/* turns.c */
size_t dsw_turns_records(const struct dsw_session *session); /* that its user may still give in this round */
void dsw_turns_spend_records(struct dsw_session *session, size_t n);
size_t dsw_turns_looks(const struct dsw_session *session); /* at values, likewise */
void dsw_turns_spend_looks(struct dsw_session *session, size_t n);
/* A round begins: `pump` for each active session; the sum of what it returns. */
size_t dsw_turns_pump(ds_worker *worker, size_t (*pump)(struct dsw_session *session));
/* Whether virtual time stands still after a round; busy: it took records in, or the policy is not told everything. */
int dsw_turns_hold_time(ds_worker *worker, int busy);

/* ring.c: returns the number of records taken over, at most `budget` and what its user may still give */
size_t dsw_ring_consume(struct dsw_session *session, uint64_t limit, size_t budget);
uint64_t dsw_ring_tail(struct dsw_session *session); /* checked; faults the session when it makes no sense */
/* Its client says that it has the results of all, and did not before: 1, and the policy hears of it. */
int dsw_ring_synchronised(struct dsw_session *session);

/* memory.c: CUDA error numbers as positive codes; DSW_WORK_E_STALLED: not before the next quiesce */
struct dsw_slab_note { /* for the ledger; fd -1 = no new slab */
        uint64_t va, bytes;
        int fd;
};
void dsw_memory_init(struct dsw_session *session, uint64_t base, uint64_t bytes, uint64_t limit);
void dsw_memory_free_all(struct dsw_session *session);
void dsw_memory_free_device(struct dsw_session *session); /* the half of it that never stops the device */
int dsw_memory_has_pinned(const struct dsw_session *session);
int dsw_memory_host_file(uint64_t bytes, int *ret_fd); /* 0, OUT_OF_MEMORY, or a negative errno */
int dsw_memory_leave(struct dsw_session *session);     /* closing: all pinned memory is given back; 0: there is none */
int dsw_memory_sweep(struct dsw_session *session);     /* in a quiesce: unmap a piece that was given back; 0: none */
int dsw_memory_alloc(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va, struct dsw_slab_note *ret_slab);
void dsw_memory_publish(struct dsw_session *session, uint64_t va); /* the client is told of it; not known before */
void dsw_memory_free(struct dsw_session *session, uint64_t va, uint64_t *ret_slab_removed);
int dsw_memory_pinned_alloc(
        struct dsw_session *session, uint64_t bytes, uint64_t *ret_va, uint64_t *ret_bytes, int *ret_fd);
int dsw_memory_cleared(
        struct dsw_session *session, uint64_t va); /* the slab that holds the allocation at va is clear */
void dsw_memory_pinned_free(struct dsw_session *session, uint64_t va);
/* An allocation that begins at va and is not being freed; marks it as being freed. 0 or -ENOENT. */
int dsw_memory_begin_free(struct dsw_session *session, uint64_t va, int pinned);
int dsw_memory_restore_slab(struct dsw_session *session, uint64_t va, uint64_t bytes, int pinned, int fd);
int dsw_memory_restore_alloc(struct dsw_session *session, uint64_t va, uint64_t bytes, int pinned);
/* A place for Write and Read data, mapped here and on the device; DSW_HEAP_E_FULL when all of it is in use. */
int dsw_memory_bounce_alloc(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va);
void dsw_memory_bounce_free(struct dsw_session *session, uint64_t va);
void dsw_memory_info(const struct dsw_session *session, uint64_t *ret_free, uint64_t *ret_total);
void dsw_memory_tell(const struct dsw_session *session);           /* the scheduler */
void dsw_memory_cap(void *user, uint64_t session, uint64_t bytes); /* ds_sched_config.memory_cap; user: the worker */
uint64_t dsw_memory_used(const struct dsw_session *session);       /* device memory that the session's limit counts */
int dsw_memory_may(const struct dsw_session *session, uint64_t bytes); /* so many bytes more within the limit? */
int dsw_memory_keep(struct dsw_session *session, uint64_t va); /* the slab of the allocation at va is another's, too */
/* New memory at a place of the worker's own until it is clear, and then without one. fd: the file. */
int dsw_memory_scrub_begin(struct dsw_session *session, uint64_t bytes, uint64_t *ret_va, int *ret_fd);
void dsw_memory_scrub_end(struct dsw_session *session, uint64_t va);
/* The record checker's view of a session's addresses; see record.h. */
enum dsw_where dsw_memory_where(void *session, uint64_t va, uint64_t bytes);

/* vmm.c: memory without an address and where the client has it. Codes as memory.c's. */
struct dsw_physical *dsw_vmm_find(struct dsw_session *session, uint64_t id);
/* Takes over the fd, and what it holds counts from here. id 0 = a new one. */
int dsw_vmm_add(struct dsw_session *session, uint64_t id, uint64_t bytes, int *fd, int owned, uint64_t *ret_id);
int dsw_vmm_release(struct dsw_session *session, uint64_t id);
int dsw_vmm_map(struct dsw_session *session, uint64_t id, uint64_t va, uint64_t bytes);
int dsw_vmm_begin_unmap(struct dsw_session *session, uint64_t va); /* 0 or -ENOENT */
void dsw_vmm_unmap(struct dsw_session *session, uint64_t va);
int dsw_vmm_covers(const struct dsw_session *session, uint64_t va, uint64_t bytes);
void dsw_vmm_free_all(struct dsw_session *session);

/* modules.c */
struct dsw_module *dsw_module_find(struct dsw_session *session, uint64_t id);
struct dsw_module *dsw_module_find_closing(struct dsw_session *session, uint64_t id);
/* NULL: no such, or not loaded. */
struct dsw_kernel *dsw_module_kernel(struct dsw_session *session, uint64_t kernel_id);
int dsw_module_kernel_loaded(const ds_worker *worker, const struct dsw_kernel *kernel);
/* 0, STALLED, a CUDA error, or a negative errno. */
int dsw_module_kernel_load(struct dsw_session *session, struct dsw_kernel *kernel);
size_t dsw_module_step(ds_worker *worker);           /* how many sessions go on whose loads were being prepared */
void dsw_module_forget(struct dsw_session *session); /* it waits for no load */
uint64_t dsw_module_kernel_id(const struct dsw_module *module, uint32_t index);
/*
 * id 0 = a new one. A CUDA error or daemon status with words in log, DSW_WORK_E_STALLED (a new one, not before the next
 * quiesce), or a negative errno.
 */
int dsw_module_load(struct dsw_session *session, uint64_t id, int fd, uint64_t bytes, char *log, size_t log_size,
        struct dsw_module **ret);
void dsw_module_unload(struct dsw_session *session, struct dsw_module *module);
void dsw_module_unload_all(struct dsw_session *session);
int dsw_module_note_global(struct dsw_module *module, uint64_t va, uint64_t bytes);
int dsw_module_is_global(const struct dsw_session *session, uint64_t va, uint64_t bytes);

/* forms.c */
void dsw_forms_init(struct dsw_forms *forms);
/* The module's image has a report behind it: its forms are the module's own. Before its kernels are listed. 0, -ENOMEM
 */
int dsw_forms_instead(struct dsw_module *module, int fd, uint64_t bytes);
int dsw_forms_hides(const struct dsw_module *module, const char *name); /* it is no kernel of its author's */
int dsw_forms_connect(
        struct dsw_session *session, struct dsw_module *module);     /* its kernels are listed. 0 or -ENOMEM */
void dsw_forms_kernel(ds_worker *worker, struct dsw_kernel *kernel); /* it is loaded now */
void dsw_forms_free(struct dsw_session *session, struct dsw_module *module);
/* A launch of the kernel: with the forms that it may use. */
void dsw_forms_launch(struct dsw_session *session, struct dsw_kernel *kernel, struct dsw_op *op);
/* What the supervisor has for a module; takes the fd. answer: the message that is answered when it is loaded. */
void dsw_forms_come(struct dsw_session *session, const Detshare__Internal__ModuleForms *come, int *fd, uint64_t answer);
void dsw_forms_resume(struct dsw_session *session); /* what waits may go on */
void dsw_forms_list(ds_worker *worker, uint64_t id, const Detshare__Internal__SessionForms *ask);

/* page.c */
void dsw_page_flush(struct dsw_session *session); /* time, and wake who waits */
/* To all sessions, when it has changed: whether the other class has work. */
void dsw_page_tell_beside(ds_worker *worker);
/* An event was reached that operation seq of the stream records. */
void dsw_page_time(struct dsw_session *session, uint64_t event, uint32_t stream, uint64_t seq, uint64_t ns);
void dsw_page_sleeps(struct dsw_session *session, int asleep);

/* clock.c */
void dsw_clock_declare(struct dsw_session *session, int change);
int dsw_clock_sleep(struct dsw_call *call); /* 0 or -ENOMEM */
void dsw_clock_wake(struct dsw_call *call); /* take it from the sleepers */
int dsw_clock_fire(ds_worker *worker);      /* answer sleepers whose time has come; returns how many */
/* Let virtual time pass, if it may. 1 when something happened, 0 when not, or a fatal errno. */
int dsw_clock_advance(ds_worker *worker);
/* Counts what the user held of the clock until now; 1 while its declared threads are not waited for. */
int dsw_clock_user_spent(ds_worker *worker, struct dsw_user *user);
int dsw_clock_held(ds_worker *worker); /* virtual time stands still for a client */

/* loop.c */
/* What the configuration says of times, also while it works; 0 = nothing. See worker.h. */
void dsw_loop_limits(ds_worker *worker, uint64_t orphan_ns, uint64_t kernel_ns, uint64_t quiesce_ns, uint64_t spin_ns);
/* Nanoseconds of real time after which the loop must look at the clock again; UINT64_MAX = never. */
uint64_t dsw_clock_wait_ns(ds_worker *worker);
