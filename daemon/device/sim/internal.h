/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated device's internals: what its files share
 *
 *  sim.c      open, close, rungs, the vtable
 *  space.c    slabs, mappings, and the memory that a session's work may touch
 *  module.c   from images to kernels
 *  cost.c     from the execution of a block to its duration
 *  work.c     streams and jobs: submission, order, abort, completion
 *  kill.c     kernels that are killed and launched again
 *  form.c     forms of kernels: slices, and workers that let go and resume
 *  exec.c     the threads that execute kernels and copies
 *  blocks.c   placement of blocks on SMs
 *  cluster.c  placement of clusters on the SMs of one GPC
 *  share.c    speed of resident blocks beside each other
 *  probe.c    L2 and VRAM traffic of a kernel that is executed
 *  l2.c       contents of L2 when a kernel begins
 *  channel.c  the channel of an address
 *  wait.c     memory latency that a kernel reads on its clock
 *  profile.c, room.c  instead of those, durations from a profile
 *  copy.c     copies and memsets
 *  clock.c    events, the virtual clock, poll
 *  output.c   text that kernels print
 *
 * A job has two parts. Its *effect* is the kernel's or copy's result in memory. An execution thread produces it as soon
 * as everything before it in its stream, and behind its fences, has been executed; that costs real time and no virtual
 * time. Its *time* passes on the virtual clock: begin, blocks on SMs, end. The clock waits at a job's begin until its
 * effect is there, because only then its cost is known. All state belongs to the owner thread. An execution thread
 * touches only the job that the owner gave it, and returns the job through a locked list.
 *
 * Work that takes long to execute must not stop the clock for other sessions: otherwise an endless loop in a client's
 * kernel would stop the daemon. The other work on the device depends on a kernel's cost from its first block on. So the
 * clock cannot pass the kernel's begin and place the blocks later. Instead the begin itself moves. A job of more than
 * SIM_PATIENCE units (mostly warp instructions) begins one nanosecond later for each further unit, if another session
 * has work on the device or the owner has a time to keep. The units executed so far give a lower bound of that delay,
 * and up to that bound time may pass. The consequences:
 *
 *  - The rule depends on the job's work and not on the host's speed: the same submissions give the same times, whether
 *    the job was executed long before its begin or is still being executed.
 *  - Jobs of fewer units, and jobs beside which nobody waits, have the times that the model gives them.
 *  - A job's session pays for the length, in latency. Others wait at most SIM_PATIENCE units for a job.
 *  - A job that was put off is given up after SIM_BUDGET_SHARED units instead of SIM_BUDGET_INSTRUCTIONS. When such
 *    jobs have taken all the threads and another session waits for one, the longest job beyond SIM_CROWD is given up.
 *    Either ends with DS_CUDA_LAUNCH_TIMEOUT at the time when it would have begun.
 *
 * The device does not model:
 *
 *  - L1, banks, and overlap inside a warp: one set of constants per model stands for them (see cost.c);
 *  - use of VRAM by transfers over the host link; changes of clock rates, power, heat;
 *  - time slices: blocks run to their end, as in one context of a GPU; a limit can reduce the number of blocks at once;
 *  - blocks that wait for blocks outside their cluster, kernels that launch kernels, textures and surfaces;
 *  - kernels that communicate while they run. Each is executed as a whole, at one moment of the clock. A kernel that
 *    waits for another kernel, for the host, or for a time on %globaltimer ends with its budget;
 *  - hardware faults, several GPUs and their links;
 *  - the client's CPU: its work takes no virtual time, and its memory traffic slows nothing.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "device/device.h"
#include "device/sim/model.h"
#include "device/sim/profile.h"
#include "device/sim/room.h"
#include "ptx/interp/interp.h"
#include "util/macro.h"

#define SIM_GRANULARITY DS_MIB(2)
#define SIM_SM_WORDS (SIM_SMS_MAX / 64)
#define SIM_WIDTH 2   /* most jobs under execution at once, not counting those beyond SIM_PATIENCE */
#define SIM_THREADS 6 /* most jobs under execution at once, all counted */
#define SIM_PARAMS_INLINE 256
#define SIM_PARAMS_MAX 32764
#define SIM_RUNS_MAX 4096 /* distinct block costs kept per launch */
/* most blocks of a launch that are timed one by one; larger launches are timed in bundles of blocks */
#define SIM_BLOCKS_EXACT (1u << 20)
#define SIM_COPY_INLINE DS_KIB(64)     /* size below which the owner thread itself executes a copy */
#define SIM_COPY_CHUNK DS_MIB(4)       /* bytes that a copy moves between two checks of the abort flag */
#define SIM_ADVANCE_STEPS 4096         /* most instants of the clock that one advance() processes */
#define SIM_SM_APART (SIM_SMS_MAX - 1) /* number of an SM that no model has; a copy on the device is placed there */
/* 1.0 in fixed point: all issue slots of an SM, or all bandwidth of the memory */
#define SIM_LOAD_ONE 1024
/* pieces of memory recorded per launch: those that it touched and that L2 may hold */
#define SIM_GRANULES_MAX 512
#define SIM_L2_ENTRIES 4096 /* pieces of memory that the device remembers for L2 */

/*
 * Budget of a launch without a deadline, in warp instructions. With a deadline the budget is the lesser of this and
 * what one SM could issue in that time. Reaching it ends the launch with DS_CUDA_LAUNCH_TIMEOUT: a client's endless
 * kernel costs its session a minute or so of one CPU, not the device.
 *
 * A CPU of 2020 executes 30 to 400 million of them per second. So SIM_PATIENCE is a fraction of a second and
 * SIM_BUDGET_SHARED some ten seconds. Under a sanitizer all take ten times as long and mean the same.
 */
#define SIM_BUDGET_INSTRUCTIONS (UINT64_C(1) << 32)
#define SIM_BUDGET_SHARED (UINT64_C(1) << 30) /* budget of a job whose begin was put off because others waited, units */
/* fewest executed units of a job that may be given up when all threads are taken and others wait */
#define SIM_CROWD (UINT64_C(1) << 25)
#define SIM_PATIENCE (UINT64_C(1) << 24) /* units of a job for which the clock stops while other sessions wait */
#define SIM_PUT_OFF_NS 1                 /* delay of a job's begin per unit beyond SIM_PATIENCE, ns */
#define SIM_BUDGET_BLOCK 64              /* units that a block costs beside its instructions */
/* units of a copy or memset: one for each row, and one for each 256 bytes of it */
#define SIM_UNIT_BYTES 256
#define SIM_PRINT_UNITS 32 /* units that each printed text costs */
#define SIM_PRINT_BYTES 4  /* bytes of a printed text that cost one unit more */
/* units that an execution thread executes between two checks of the owner's requests */
#define SIM_TELL 16384

struct sim_job;
struct sim_stream;
struct sim_text;

/* --- memory ------------------------------------------------------------------------------------------------------- */

enum sim_region_kind {
        SIM_REGION_DEVICE,
        SIM_REGION_HOST,
        SIM_REGION_GLOBAL, /* a module's variable whose address the caller has requested */
};

/*
 * One mapping. It is unmapped when the last snapshot that lists it is gone. Another mapping may take its place before
 * that; then only the part that no other mapping has is unmapped.
 */
struct sim_region {
        uint32_t refs;
        enum sim_region_kind kind;
        uint64_t va, size;
        dev_t slab_dev;
        ino_t slab_ino;
        ds_device_module *module; /* GLOBAL: the module, referenced */
        /* space that the region was removed from, while a snapshot lists the region; else NULL */
        struct sim_space *going;
        struct sim_region *next_going;
};

/* Memory that a space may touch at one moment. An executing job holds a reference, so none of that memory is
 * unmapped during the execution. */
struct sim_snapshot {
        uint32_t refs;
        size_t n_regions, n_ranges;
        struct sim_region **regions;
        struct ds_interp_range *ranges; /* sorted by address, adjacent regions merged */
};

struct sim_space {
        uint32_t id;
        uint32_t in_flight;
        uint64_t n_launches;         /* number of launches in this space so far */
        uint32_t n_modules;          /* number of modules loaded in this space so far */
        _Atomic uint64_t text_bytes; /* bytes printed and not yet returned by sim_output */
        struct sim_region **regions; /* sorted by va */
        size_t n_regions;
        struct sim_region *going;
        struct sim_snapshot *snapshot; /* snapshot of the current regions; NULL after a change */
        struct sim_kept *kept;         /* results of killed kernels, see sim_kill */
        uint32_t n_kept;
        struct sim_evicted *evicted; /* kernels that were evicted, see form.c */
};

/* A slab. Its size counts against the device's memory from mem_create, or its first mem_map, to its last mem_unmap. */
struct sim_slab {
        dev_t dev;
        ino_t ino;
        uint64_t size;
        uint32_t mappings;
        int fd; /* the descriptor that mem_create returned; shows whether a slab was closed without ever being mapped */
};

/* --- cost and kernels --------------------------------------------------------------------------------------------- */

/* n consecutive blocks of equal cost */
struct sim_run {
        uint64_t latency_ns; /* duration of a block that has an SM to itself */
        uint64_t issue_ns;   /* part of latency_ns in which the block uses the SM's issue slots */
        uint64_t stall_ns;   /* part of latency_ns in which the block waits for memory */
        uint64_t bytes;      /* bytes that a block moves through L2 */
        uint64_t n;
};

/* A piece of memory (named by `key`) that a launch touched, and the number of bytes touched in the piece. */
struct sim_granule {
        uint64_t key, bytes;
};

/* Memory traffic of all blocks of a launch, per 1024 bytes that their instructions move. */
struct sim_traffic {
        /* bytes of each 1024 that miss L1. The next two values count per 1024 of those: */
        uint32_t pass;
        uint32_t fill; /* bytes that come from VRAM into L2, or remain in L2 as written */
        /* cost to VRAM, as the number of bytes that VRAM could read in the same time */
        uint32_t vram;
        /* true: the channels' shares are in shares[]; false: all channels have equal shares */
        bool uneven;
        uint16_t shares[SIM_CHANNELS_MAX]; /* share of each channel; the sum is SIM_LOAD_ONE */
        uint64_t touched;                  /* bytes that an empty L2 would have to fetch, all blocks together */
        uint32_t n_granules;
        struct sim_granule *granules; /* `&one`, an allocated array, or NULL */
        struct sim_granule one;
};

struct sim_costs {
        struct sim_run *runs; /* `&one` while there is only one run; else an allocated array */
        struct sim_run one;
        uint32_t n_runs, capacity;
        uint64_t n_blocks;
};

/* Result of a killed kernel's execution, kept until the kernel is launched again. */
struct sim_kept {
        struct sim_kept *next;
        uint64_t token, executed;
        struct sim_costs costs;
        struct sim_traffic traffic;
};

/* The rest of an evicted kernel, kept until it resumes or is dropped. */
struct sim_evicted {
        struct sim_evicted *next;
        uint64_t token;
        const struct ds_device_kernel *kernel; /* the evicted kernel, with a reference to its module */
        uint32_t grid[3], block[3];
        bool executed;        /* true: the kernel's effect is complete; false: it has not begun */
        uint32_t done, chunk; /* blocks done so far; blocks per chunk */
        uint64_t chunks;
        struct sim_costs costs; /* costs of the remaining chunks */
        struct sim_traffic traffic;
};

/* Additional state of a persistent-form launch. The "blocks" of its job are chunks of the kernel's blocks. */
struct sim_workers {
        uint32_t n;            /* number of workers; 0: the launch has another form */
        uint32_t blocks, done; /* blocks of the whole kernel; blocks of it that earlier launches did */
        uint32_t chunk;
        uint32_t grid[3];    /* grid of the client's launch, in blocks */
        uint64_t chunks;     /* chunks of the whole kernel; 0: not counted yet */
        uint64_t left;       /* chunks that were not placed when the workers stopped */
        uint32_t fill, vram; /* values of traffic.fill and .vram for an empty L2 */
        bool let_go;         /* the workers must stop at the end of their chunks */
        bool never;          /* the launch was evicted before it began, so that it does no block */
        /* set when an eviction is requested: record in which the rest of the kernel is kept */
        struct sim_evicted *evicted;
};

/* Resources that a block takes on an SM */
struct sim_need {
        uint32_t threads, registers, shared;
};

struct ds_device_kernel {
        ds_device_module *module;
        const ds_interp_kernel *code;
        struct ds_kernel_info info;
        uint64_t static_instructions, static_memory, static_special;
        /* Values of a "+timing" device's hint, 0: no hint. module.c explains these fields and the next two lines. */
        uint64_t hint_block_ns, hint_bytes;
        uint64_t hint_issue_ns, hint_written, hint_reuse;
        uint32_t hint_channels[2];                /* first channel that the kernel uses, and one past the last */
        bool reads_clock;                         /* the kernel's effect depends on its start time */
        const struct sim_profile_kernel *profile; /* the kernel in its profile; NULL: the kernel comes from PTX */
        struct sim_shape shape;                   /* SM resources of the profile's kernel */
};

struct ds_device_module {
        ds_device *device;
        ds_device_module *next, *prev;
        bool loaded;            /* true until the caller unloads the module */
        uint32_t refs;          /* references of the caller, jobs and regions */
        uint32_t space, number; /* number: number of the module among the modules of its space */
        /* profile from which the module was made; NULL: it was made from PTX, and ptx and interp are set */
        struct sim_profile *profile;
        struct ds_ptx_module *ptx;
        ds_interp *interp;
        struct ds_device_kernel *kernels;
        const ds_device_kernel **by_name; /* all kernels, sorted by name */
        size_t n_kernels;
};

/* --- events ------------------------------------------------------------------------------------------------------- */

enum sim_event_kind {
        SIM_EVENT_BEGIN, /* the GPU's front end begins to process the job */
        SIM_EVENT_START, /* the kernel may place blocks, or the copy may move bytes */
        SIM_EVENT_END,   /* end of a copy, or of a job that took too long to execute */
        SIM_EVENT_DEADLINE,
        SIM_EVENT_GROUPS,   /* the blocks of some groups end */
        SIM_EVENT_BOUND,    /* a bound on resident blocks takes effect */
        SIM_EVENT_EVICT,    /* workers of an evicted launch see the request to stop */
        SIM_EVENT_ROOM_END, /* SIM_EVENT_ROOM_*: changes of a profile's kernel, see room.c */
        SIM_EVENT_ROOM_TAIL,
        SIM_EVENT_ROOM_YIELD,
};

struct sim_event {
        uint64_t time, seq;
        uint32_t index; /* index of the event in the heap, from 1; 0: not in the heap */
        enum sim_event_kind kind;
};

/* Blocks of one job that were placed on one SM at one time and cost the same: they end together. */
struct sim_group {
        /* end of the group; in the heap only for the first of all groups that end at the same time */
        struct sim_event event;
        struct sim_job *job;
        uint32_t sm, n;
        /* totals of n undisturbed blocks: share of the SM's issue slots; bytes per us through the SM's port, L2 and
         * VRAM */
        uint64_t sm_load, port, rate, vram_rate;
        uint64_t filled; /* bytes that the blocks leave in L2 */
        uint32_t stall;  /* 1024ths of the blocks' time in which they wait for memory */
        /* slowdown by other blocks, in 1024ths of the undisturbed time; 0: not computed yet */
        uint32_t stretch;
        uint64_t left_ns, since_ns;    /* undisturbed time left at since_ns; time of the last change */
        struct sim_group *next, *prev; /* groups that end at the same time */
        struct sim_group *job_next, *job_prev;
        struct sim_group *sm_next, *sm_prev;
};

/* --- jobs and streams --------------------------------------------------------------------------------------------- */

enum sim_job_kind {
        SIM_JOB_KERNEL,
        SIM_JOB_COPY,
        SIM_JOB_MEMSET,
        SIM_JOB_FENCE,
};

enum sim_job_state {
        SIM_JOB_QUEUED,
        SIM_JOB_ARMED, /* its BEGIN or START event is in the heap */
        /* start time reached; continues when the effects of all jobs that start at this instant are complete */
        SIM_JOB_WAITING,
        /* executed for too long, so the clock no longer waits for the job; or its START event is in the heap again */
        SIM_JOB_PUT_OFF,
        SIM_JOB_RUNNING, /* a kernel is on the ready list or has resident blocks; a copy moves bytes */
        SIM_JOB_ENDING,  /* given up; ends when no thread executes a job in this state */
        SIM_JOB_ENDED,
};

enum sim_effect {
        SIM_EFFECT_NONE,
        SIM_EFFECT_SUBMITTED, /* handed to the execution threads, not finished */
        SIM_EFFECT_DONE,
};

enum sim_abort {
        SIM_ABORT_NONE,
        SIM_ABORT_UNWANTED, /* the job's session has ended */
        SIM_ABORT_TOO_LONG, /* the job executed too many units while others waited */
};

struct sim_job {
        struct sim_job *next; /* next job of the stream; after the end, next ended job */
        /* links in the list of kernels with blocks to place, or of jobs that wait for effects */
        struct sim_job *ready_next, *ready_prev;
        struct sim_job *pool_next;
        struct sim_job *moving_next; /* next copy in the device list `moving` */
        struct sim_stream *stream;
        struct sim_space *space;
        struct sim_snapshot *snapshot; /* held from submission to the execution threads until the effect is done */
        enum sim_job_kind kind;
        enum sim_job_state state;
        enum sim_effect effect;
        /* true: the job is counted in n_blockers, so the clock stands until the job's effect is complete */
        bool blocking;
        bool cancelled; /* true: the job's session was aborted, or the job was killed, while it was queued */
        bool killed;
        bool executed_before; /* relaunch of a killed or evicted kernel whose effect is already complete */
        bool was_put_off;
        bool moving;      /* in the device's list `moving` */
        uint64_t move_ns; /* shortest time of a copy in `moving`, ns on the clock */
        int32_t verdict;  /* CUDA error with which the job was given up; overrides the status of its execution */
        uint64_t token, seq;
        uint64_t submit_ns, start_ns, end_ns, visible_ns;
        uint64_t clock_ns;   /* time that the kernel reads as its start */
        uint64_t put_off_ns; /* time at which the job would have begun without the delay */
        uint64_t lead_ns;    /* time from the kernel's begin to its first block, ns */
        struct sim_event event, deadline, bound;
        uint32_t bound_to; /* new value of max_resident when the event `bound` occurs; unused for SIM_EVENT_EVICT */

        union {
                struct {
                        const struct ds_device_kernel *kernel;
                        uint32_t grid[3], block[3], cluster[3];
                        /* dynamic shared memory, bytes; most resident blocks, UINT32_MAX: as many as fit */
                        uint32_t shared_bytes, max_resident;
                        uint32_t cooperative;
                        uint64_t deadline_ns;
                        uint64_t number; /* number of the launch in its space */
                        void *params;
                        uint32_t params_size;
                };
                struct ds_copy copy;
                struct ds_memset memset;
                struct {
                        struct sim_stream *from;
                        uint64_t from_seq;
                };
        };

        /* state of a kernel whose blocks are placed on SMs */
        struct sim_costs costs;
        struct sim_traffic traffic;
        struct sim_need need;
        uint64_t order, unplaced;
        uint32_t cluster_blocks; /* blocks per cluster; 1: no clusters */
        uint32_t run;            /* index in `costs` of the next blocks to place */
        uint64_t run_used;
        uint32_t resident;
        bool placed_any, fresh, claiming;
        struct sim_group *groups;
        struct sim_workers workers;

        /* state of a profile's kernel */
        struct sim_share share;
        struct sim_event tail, yield;

        /* shared by the owner and the execution thread */
        _Atomic uint32_t abort;    /* enum sim_abort */
        _Atomic uint64_t executed; /* units executed so far; their total once the effect is complete */
        _Atomic uint64_t limit;    /* units after which the job is given up */
        _Atomic uint64_t wake;     /* number of units at which the thread wakes the owner, once */

        /* written only by the execution thread */
        struct sim_text *text; /* text that the kernel printed; NULL: none so far */
        int32_t status;
        char message[DS_DEVICE_MESSAGE_MAX];

        uint8_t params_inline[SIM_PARAMS_INLINE];
        uint32_t room_of[SIM_ATOMS_MAX]; /* profile's kernel: room that it holds in each atom (room.h) */
};

/*
 * Kinds of work that a stream may have to do. There is one list for each, because effects arrive in the host's time and
 * must not change the order in which heads are armed.
 */
enum sim_todo {
        SIM_TODO_EFFECTS,
        SIM_TODO_HEAD,
        _SIM_TODO_MAX,
};

/* An in-order queue. Only the head has an event on the clock; effects may be ahead of it. */
struct sim_stream {
        uint32_t id, rung, priority;
        struct sim_job *head, *tail;
        struct sim_job *effect_next; /* first job whose effect is not done */
        bool effect_busy;
        /* sequence numbers of the last job that was submitted, whose effect is complete, and that ended */
        uint64_t submitted, effected, ended;
        uint64_t ended_ns;          /* clock's time of the last change of `ended` */
        uint64_t free_ns, issue_ns; /* earliest begin of the stream's next job; of its next kernel */
        /* lists of streams whose next fence waits for this stream: for its ends, and for its effects */
        struct sim_stream *end_waiters, *end_wait_next;
        struct sim_stream *effect_waiters, *effect_wait_next;
        bool end_waiting, effect_waiting;
        struct sim_stream *todo_next[_SIM_TODO_MAX];
        bool todo[_SIM_TODO_MAX];
};

struct sim_rung {
        struct ds_rung_info info;
        uint64_t sms[SIM_SM_WORDS];
        uint32_t resident; /* blocks resident on the rung */
        uint8_t atoms[SIM_ATOMS_MAX], n_atoms;
        struct sim_stream streams[DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG];
};

#define SIM_GPC_NONE UINT8_MAX

struct sim_sm {
        /* %smid of the SM; its index in the array is its place in the order of block assignment */
        uint32_t id;
        uint32_t threads, blocks, registers, shared; /* free resources */
        uint32_t resident;
        /* demand of the resident blocks: issue slots in SIM_LOAD_ONE; bytes per us through the port to L2 */
        uint64_t load, port;
        uint32_t stretch;       /* slowdown of the SM's groups by `load` and `port`, as of the last round */
        struct sim_group *head; /* first resident group; the groups are linked by sm_next */
        uint8_t gpc;            /* SIM_GPC_NONE: in no GPC that large clusters reach */
};

/* Memory demand of the resident blocks in bytes per us, as if none slowed another; see share.c. */
struct sim_memory {
        /* demand of all groups; the same, with each group weighted by its share of waiting */
        uint64_t total_rate, stall_rate;
        uint64_t rate, vram_rate; /* demand of the groups that use all channels alike, on L2 and on VRAM */
        /* demand of the other groups on each channel, on L2 and on VRAM */
        uint64_t channel_rate[SIM_CHANNELS_MAX], channel_vram[SIM_CHANNELS_MAX];
        /* number of groups that do not use all channels alike */
        uint32_t n_uneven;
        bool changed;
        /* slowdowns by L2, VRAM and backlog as of the last round, in 1024ths of the undisturbed time */
        uint32_t l2, vram, backlog;
        uint32_t stall; /* average share of waiting for memory of all groups, 1024ths */
};

/* Counter of bytes that came into L2, in all and by channel, and its value when each piece of memory was last in L2;
 * see l2.c. */
struct sim_l2 {
        uint64_t filled, channel_filled[SIM_CHANNELS_MAX];
        struct sim_l2_entry {
                uint64_t key, filled;
        } * entries;
};

struct sim_fifo {
        struct sim_job *head, *tail;
};

struct sim_pool {
        pthread_mutex_t lock;
        pthread_cond_t work;
        pthread_t threads[SIM_THREADS];
        uint32_t n_threads;
        bool closing, ready;
        struct sim_line {
                struct sim_job *head, *tail; /* linked by pool_next */
                /* needed: jobs that the clock waits for, which threads take first; queue: all other jobs */
        } needed, queue;
        _Atomic uint32_t n_needed; /* length of `needed`; changes under the lock */
        struct sim_job *running;   /* unordered list */
        /* number of jobs in `running`; most jobs in it, not counting those beyond SIM_PATIENCE */
        uint32_t n_running, width;
        _Atomic uint32_t n_long; /* running jobs beyond SIM_PATIENCE; changes under the lock */
        struct sim_job *done;
        /* number of times that a thread woke the owner since the owner last collected; changes under the lock */
        _Atomic uint32_t n_news;
};

struct ds_device {
        const struct sim_model *model;
        struct ds_device_info info;
        bool timing_only;
        bool channels_apart; /* true: requests that wait for a full channel delay no others (no backlog) */
        uint64_t order_seed; /* seed for the order in which a launch's blocks are executed; 0: increasing */
        uint32_t noise;      /* percentage of launches that the traffic of a simulated other user disturbs */
        int event_fd;
        uint64_t limits[_DS_LIMIT_MAX]; /* current limits, after increases by clients */
        /* the printf FIFO's limit, for the execution threads; the other limits have no effect */
        _Atomic uint64_t text_limit;
        struct sim_text *texts, *texts_tail; /* texts of jobs whose completion poll() has returned, oldest first */
        char *piece;                         /* text that sim_output returned last */

        struct sim_slab *slabs;
        size_t n_slabs;
        uint64_t charged;
        struct sim_space **spaces; /* sorted by id */
        size_t n_spaces;
        ds_device_module *modules;

        struct sim_rung *rungs[DS_DEVICE_RUNGS_MAX];
        uint32_t n_rungs;
        struct {
                struct sim_stream *head, *tail;
        } todo[_SIM_TODO_MAX]; /* streams with work to do, by kind of work */
        struct sim_job *free_jobs;

        uint64_t now, event_seq, order;
        struct sim_event **heap; /* 1-based; has space for every event that can exist */
        uint32_t n_heap, heap_capacity;
        /* jobs WAITING without their effect, and jobs ENDING under execution; the clock stands unless this is 0 */
        uint32_t n_blockers;
        uint32_t n_ending;       /* number of jobs ENDING under execution */
        struct sim_fifo waiting; /* jobs WAITING, in the order of their start on the clock, linked by ready_next */
        struct sim_fifo ending;  /* jobs ENDING, in the order in which they were given up, linked by ready_next */
        /* copies whose time passes before they have been executed, linked by moving_next, see copy.c */
        struct sim_job *moving;
        struct sim_fifo put_off; /* PUT_OFF jobs under execution, linked by ready_next */
        struct sim_fifo urgent, ended;
        uint64_t issue_ns;                /* earliest begin of the next kernel on the device */
        uint64_t engine_ns[_DS_COPY_MAX]; /* time at which each copy engine is free; not used for on-device copies: */
        struct sim_job *copying;          /* the one on-device transfer under way; NULL: none */
        struct sim_fifo copies;           /* queued on-device transfers, linked by ready_next */

        uint32_t n_sms;
        struct sim_sm sm[SIM_SMS_MAX];
        uint64_t sms_freed[SIM_SM_WORDS]; /* SMs on which resources became free since the last round */
        uint64_t sms_empty[SIM_SM_WORDS];
        uint64_t sms_changed[SIM_SM_WORDS]; /* SMs whose resident groups changed since the last round */
        struct sim_memory memory;
        struct sim_l2 l2;
        uint32_t resident; /* blocks resident on the device */
        /* kernels with blocks to place, linked by ready_next, ready_prev */
        struct sim_fifo ready[DS_DEVICE_PRIORITIES];
        bool round_due;
        struct sim_room room;
        struct sim_group *groups, *free_groups;

        struct sim_pool pool;
};

/* --- space.c --- */
struct sim_space *sim_space_find(const ds_device *device, uint32_t id);
int sim_space_add(ds_device *device, uint32_t id);
int sim_space_remove(ds_device *device, uint32_t id);
void sim_spaces_free(ds_device *device);
int sim_mem_create(ds_device *device, uint64_t size, int *ret_fd);
int sim_mem_map(ds_device *device, uint32_t space, int fd, uint64_t va, uint64_t size);
int sim_mem_unmap(ds_device *device, uint32_t space, uint64_t va, uint64_t size);
int sim_host_map(ds_device *device, uint32_t space, int fd, uint64_t va, uint64_t size);
int sim_host_move(ds_device *device, uint32_t space, int fd, void *mapped, uint64_t va, uint64_t size);
int sim_host_unmap(ds_device *device, uint32_t space, uint64_t va, uint64_t size);
/* Adds a module's variable to the memory of the space; a second call for the same variable changes nothing. */
int sim_space_add_global(struct sim_space *space, ds_device_module *module, uint64_t va, uint64_t size);
void sim_space_drop_globals(struct sim_space *space, const ds_device_module *module);
/* A reference to the memory that the space may touch now; NULL when out of memory. */
struct sim_snapshot *sim_snapshot_get(struct sim_space *space);
struct sim_snapshot *sim_snapshot_put(struct sim_snapshot *snapshot);
/* True when all size bytes at va lie in one range of the space. */
bool sim_space_covers(struct sim_space *space, uint64_t va, uint64_t size);
bool sim_snapshot_covers(const struct sim_snapshot *snapshot, uint64_t va, uint64_t size);

/* --- module.c --- */
int sim_module_load(ds_device *device, uint32_t space, const void *image, size_t size, char *log, size_t log_size,
        ds_device_module **ret);
ds_device_module *sim_module_unload(ds_device *device, ds_device_module *module);
void sim_module_put(ds_device_module *module);
void sim_modules_free(ds_device *device);
const ds_device_kernel *sim_kernel_find(ds_device_module *module, const char *name);
const ds_device_kernel *sim_kernel_at(ds_device_module *module, size_t index);
const struct ds_kernel_info *sim_kernel_info(const ds_device_kernel *kernel);
int sim_global_find(ds_device_module *module, const char *name, uint64_t *ret_va, uint64_t *ret_size);
int sim_module_has_globals(ds_device_module *module);

/* --- cost.c --- */
void sim_cost_run(const struct sim_model *model, const struct ds_interp_cost *cost, struct sim_run *ret);
/* Cost of a block on a timing-only device: every warp executes each instruction of the kernel once. */
void sim_cost_static(const struct sim_model *model, const struct ds_device_kernel *kernel, const uint32_t *block,
        struct sim_run *ret);
/* Multiplies the cost of one block to that of n such blocks one after another. */
void sim_cost_times(struct sim_run *run, uint64_t n);
/* Traffic of a launch on a timing-only device; bytes: total of all blocks. */
void sim_traffic_static(
        const struct sim_model *model, const struct ds_device_kernel *kernel, uint64_t bytes, struct sim_traffic *ret);
void sim_traffic_deinit(struct sim_traffic *traffic);
void sim_traffic_move(struct sim_traffic *to, struct sim_traffic *from);
void sim_costs_init(struct sim_costs *costs);
void sim_costs_deinit(struct sim_costs *costs);
void sim_costs_move(struct sim_costs *to, struct sim_costs *from);
/* Adds a run of blocks. Never fails: when memory is short, the new run is averaged into the existing ones. */
void sim_costs_add(struct sim_costs *costs, const struct sim_run *run);
/* Removes the costs of the first n blocks; n is less than the number of blocks. */
void sim_costs_skip(struct sim_costs *costs, uint64_t n);
/* Doubles the bytes that all blocks move. */
void sim_costs_disturb(struct sim_costs *costs);
/* Bundles blocks so that at most `limit` (and at least one) are left to place. */
void sim_costs_finish(struct sim_costs *costs, uint64_t limit);
void sim_need_of(const struct sim_model *model, const struct ds_device_kernel *kernel, const uint32_t *block,
        uint32_t shared_bytes, struct sim_need *ret);

/* --- work.c --- */
void sim_streams_init(struct sim_rung *rung, uint32_t id);
struct sim_stream *sim_stream_find(ds_device *device, uint32_t id);
int sim_launch(ds_device *device, const struct ds_launch *launch, uint64_t token);
int sim_copy(ds_device *device, const struct ds_copy *copy, uint64_t token);
int sim_memset(ds_device *device, const struct ds_memset *memset, uint64_t token);
int sim_fence(ds_device *device, uint32_t from, uint32_t to);
int sim_bound(ds_device *device, uint64_t token, uint32_t max_resident_blocks);
void sim_abort(ds_device *device, uint32_t space);
/* Kernel in flight with this token; NULL: there is none. */
struct sim_job *sim_kernel_in_flight(ds_device *device, uint64_t token);
/* Ends the job, the head of its stream, before its time: as soon as no thread executes it. */
void sim_job_give_up(ds_device *device, struct sim_job *job, int32_t verdict);
/* Stops the pool and frees every job, finished or not. */
void sim_jobs_free(ds_device *device);
void sim_job_free(ds_device *device, struct sim_job *job);
/* Processes all consequences of a change: starts effects, arms heads. */
void sim_settle(ds_device *device);
void sim_stream_touch(ds_device *device, struct sim_stream *stream, enum sim_todo todo);
/* Called when the stream's `effected` has changed: streams that wait for it may continue. */
void sim_stream_effected(ds_device *device, struct sim_stream *stream);
/* Completes the job with its status; it must be its stream's head. */
void sim_job_end(ds_device *device, struct sim_job *job, bool urgent);
/* Takes the head of a stream off the clock and the SMs before its end, with the verdict as its status, and then
 * calls sim_job_end. */
void sim_job_withdraw(ds_device *device, struct sim_job *job, int32_t verdict);
/* Sets the job's status and message; the first call wins. */
void sim_job_fail(struct sim_job *job, int32_t status, const char *fmt, ...) ds_printf(3, 4);

/* --- kill.c --- */
int sim_kill(ds_device *device, uint64_t token);
/* Gives the job the effect and costs kept from the kernel killed under this token; false if nothing was kept. */
bool sim_kept_take(struct sim_space *space, uint64_t token, struct sim_job *job);
/* Frees the kept results of the space's killed kernels. */
void sim_kept_drop(struct sim_space *space);

/* --- form.c --- */
/* Writes the kernel's name for messages: as its client knows it, with its form unless that is the native one. */
#define SIM_KERNEL_NAME 200 /* longest part of a kernel's name that a message quotes, bytes */
#define SIM_KERNEL_WORDS (SIM_KERNEL_NAME + 28)
const char *sim_form_words(const struct ds_device_kernel *kernel, char words[static SIM_KERNEL_WORDS]);
/* A launch of a form other than the native one, turned into a plain launch: its grid and its parameters. */
struct sim_form {
        struct ds_launch plain;
        struct sim_workers workers;
        /* kept state of the evicted kernel that this launch resumes; NULL: it starts from the beginning */
        struct sim_evicted *resumes;
        uint8_t params[SIM_PARAMS_MAX];
};
/* Checks a launch of a form other than the native one, and makes its plain launch. 0 or a CUDA error. */
int sim_form_make(struct sim_space *space, const struct ds_launch *launch, struct sim_form *ret);
/* Moves the form's workers, and the kept state that the launch resumes, into the job. */
void sim_form_take(ds_device *device, const struct sim_stream *stream, struct sim_job *job, struct sim_form *form);
/* The kernel that the hints of a timing-only device are about. */
const struct ds_device_kernel *sim_form_hinted(const struct ds_device_kernel *kernel);
/* Checks the control block after the execution; fails the job if its contents are wrong. */
void sim_form_executed(struct sim_job *job, const struct ds_ptx_control *control, uint32_t epoch);
/* Called when the job begins and its cost is known. True: the job ends without doing a block, because it was evicted
 * before. */
bool sim_form_begins(struct sim_job *job);
/* Called when the job ends. True: blocks of the kernel are left, and its state is kept for a launch that resumes it. */
bool sim_form_let_go(struct sim_job *job);
int sim_evict(ds_device *device, uint64_t token);
void sim_evict_due(ds_device *device, struct sim_job *job); /* handles SIM_EVENT_EVICT */
void sim_drop(ds_device *device, uint64_t token);
struct sim_evicted *sim_evicted_free(struct sim_evicted *evicted);
/* Frees the kept state of all evicted kernels of the space; none of them is resumed. */
void sim_evicted_drop(struct sim_space *space);

/* --- exec.c --- */
int sim_pool_start(ds_device *device);
void sim_pool_stop(ds_device *device);
void sim_pool_submit(ds_device *device, struct sim_job *job, bool needed);
/* Removes the job if no thread executes it yet. True: it was still queued. */
bool sim_pool_cancel(ds_device *device, struct sim_job *job);
void sim_pool_promote(ds_device *device, struct sim_job *job);
/* Takes finished jobs back from the threads. */
void sim_pool_collect(ds_device *device);
/* Makes event_fd readable until the next collect. */
void sim_pool_wake(ds_device *device);
/* When all threads execute jobs beyond SIM_PATIENCE: gives up the longest that keeps others waiting. */
void sim_pool_relieve(ds_device *device, uint64_t limit_ns);
/* Executes a copy or memset in the caller's thread. */
void sim_exec_transfer(ds_device *device, struct sim_job *job);

/* --- blocks.c --- */
int sim_blocks_init(ds_device *device);
void sim_blocks_deinit(ds_device *device);
/* Number of blocks with this need for which the SM has room, at most `want`. */
uint64_t sim_sm_room(const struct sim_sm *sm, const struct sim_need *need, uint64_t want);
bool sim_blocks_fit(const ds_device *device, const struct sim_need *need);
void sim_blocks_ready(ds_device *device, struct sim_job *job);
/* Takes the job's blocks off the SMs and off the ready list. */
void sim_blocks_kill(ds_device *device, struct sim_job *job);
/* Places all blocks that fit at this instant. */
void sim_blocks_round(ds_device *device);
/* Ends all blocks in the groups of this event. */
void sim_blocks_end(ds_device *device, struct sim_event *event);

/* Changes a running kernel's limit on resident blocks, effective at once. */
void sim_blocks_bound(ds_device *device, struct sim_job *job, uint32_t bound);

/* Stops a persistent launch: each worker finishes its current chunk, and no further chunks are placed. The job ends
 * after the last chunk, or at once if no worker has one. */
void sim_blocks_let_go(ds_device *device, struct sim_job *job);

/* Places a copy on the device as one block on an SM of its own; only share.c sees that block. */
void sim_blocks_apart(ds_device *device, struct sim_job *job, const struct sim_run *run);

/* --- copy.c --- */
/* sim_copy_begin() starts a copy or memset; sim_copy_done() ends it, on the event that sim_blocks_end received;
 * sim_copy_kill() removes it. */
void sim_copy_begin(ds_device *device, struct sim_job *job);
void sim_copy_done(ds_device *device, struct sim_job *job);
void sim_copy_kill(ds_device *device, struct sim_job *job);
/* True if the job's time may pass before its execution. */
bool sim_copy_is_early(const struct sim_job *job);
/* Whether the clock may advance to `time`. If not, event_fd becomes readable when it may. */
bool sim_copy_allow(ds_device *device, uint64_t time);
void sim_copy_forget(ds_device *device, struct sim_job *job);

/* --- share.c --- */
/* sim_share_add(): counts the demand of a group that becomes resident. sim_share_remove(): subtracts it again. */
void sim_share_add(ds_device *device, struct sim_group *group);
void sim_share_remove(ds_device *device, struct sim_group *group);
/* Computes when each group ends, after blocks came or went. */
void sim_share_settle(ds_device *device);
/* Removes a group from the list of groups that end at the same time. */
void sim_share_unlink(ds_device *device, struct sim_group *group);

/* --- l2.c --- */
int sim_l2_init(ds_device *device);
void sim_l2_deinit(ds_device *device);
/* Called when a kernel begins: reduces its VRAM traffic by the memory that L2 still holds. */
void sim_l2_begin(ds_device *device, struct sim_job *job);
/* Called when a kernel ends: records that L2 holds the memory that it touched. */
void sim_l2_end(ds_device *device, const struct sim_job *job);
/* Counts bytes that the job brought into L2. L2 loses older contents accordingly. */
void sim_l2_fill(ds_device *device, const struct sim_job *job, uint64_t bytes);

/* --- probe.c --- */
struct sim_probe *sim_probe_new(const struct sim_model *model);
struct sim_probe *sim_probe_free(struct sim_probe *probe);
void sim_probe_begin(struct sim_probe *probe);
/* Called when a block begins: its L1 is empty. */
void sim_probe_block(struct sim_probe *probe);
/* Callback `memory` of an interpreter launch: counts the accesses. */
void sim_probe_memory(void *probe, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind);
/* Returns the traffic since sim_probe_begin(). If memory is short the result has less detail. */
void sim_probe_end(struct sim_probe *probe, struct sim_traffic *ret);

/* --- wait.c --- */
/* Makes the model of memory latency; NULL: out of memory. */
struct sim_waits *sim_waits_new(const struct sim_model *model);
struct sim_waits *sim_waits_free(struct sim_waits *waits);
/* Begins a launch with an empty L2. Returns a pointer to the running total of cycles that the launch's accesses have
 * waited. */
const uint64_t *sim_waits_begin(struct sim_waits *waits, uint32_t noise, uint64_t seed);
void sim_waits_memory(struct sim_waits *waits, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind);

/* --- room.c --- */
/* Recomputes the atoms (sets of TPCs that no rung splits, room.h) after a rung was made; nothing may be in flight. */
void sim_room_rungs(ds_device *device);
/* SM resources of a profile's kernel; false when not even one block fits. */
bool sim_shape_of(const struct sim_model *model, const struct ds_device_kernel *kernel, struct sim_shape *ret);
/* Begins a profile's kernel. It ends by itself, with SIM_EVENT_ROOM_END. */
void sim_room_ready(ds_device *device, struct sim_job *job);
/* Takes the job off the SMs, as sim_blocks_kill() does. */
void sim_room_kill(ds_device *device, struct sim_job *job);
/* Handlers of SIM_EVENT_ROOM_END, _TAIL and _YIELD. */
void sim_room_end(ds_device *device, struct sim_job *job);
void sim_room_tail(ds_device *device, struct sim_job *job);
void sim_room_yield(ds_device *device, struct sim_job *job);

/* --- cluster.c --- */

/* SMs that have room for blocks of a job, and the number of blocks assigned to each. */
struct sim_candidates {
        uint16_t sm[SIM_SMS_MAX];
        uint16_t room[SIM_SMS_MAX];
        uint16_t taken[SIM_SMS_MAX];
        uint32_t n;
        uint64_t room_total;
        uint32_t level; /* resident blocks of the emptiest SM */
};

/* Sets the GPC and TPC of every SM. */
void sim_clusters_init(ds_device *device);
/* Stores the model's groups of TPCs for large clusters in info. */
void sim_model_groups(const struct sim_model *model, struct ds_device_info *info);
/* Blocks of the largest cluster that a rung takes. */
uint32_t sim_clusters_max(const ds_device *device, const struct ds_rung_info *rung);
/* Checks a launch's clusters: 0 with the blocks of its grid and of a cluster, or a CUDA error. */
int sim_clusters_check(const ds_device *device, const struct sim_rung *rung, const struct ds_launch *launch,
        uint32_t *ret_grid, uint32_t *ret_cluster);
/* Assigns whole clusters to SMs of the candidates, at most `want` blocks. Returns the number of blocks. */
uint64_t sim_clusters_deal(
        const ds_device *device, const struct sim_job *job, struct sim_candidates *candidates, uint64_t want);
int sim_clusters(ds_device *device, const struct ds_launch *launch, uint32_t *ret_clusters);

/* --- clock.c --- */
/* Reserves space for n more events; the only step of the clock that can fail. */
int sim_heap_reserve(ds_device *device, uint32_t n);
void sim_event_push(ds_device *device, struct sim_event *event, enum sim_event_kind kind, uint64_t time);
void sim_event_remove(ds_device *device, struct sim_event *event);
/* sim_job_block(): the clock must wait for the job's effect. sim_job_unblock(): it need not; may be called at any
 * time. */
void sim_job_block(ds_device *device, struct sim_job *job);
void sim_job_unblock(ds_device *device, struct sim_job *job);
/* Remove a WAITING or a PUT_OFF job from the device's list of such jobs. */
void sim_waiting_remove(ds_device *device, struct sim_job *job);
void sim_put_off_remove(ds_device *device, struct sim_job *job);
/* Called when the effect of a PUT_OFF job is complete. */
void sim_put_off_done(ds_device *device, struct sim_job *job);
/* Whether any session other than the job's own waits for the clock to advance. */
bool sim_others_wait(const ds_device *device, const struct sim_job *job, uint64_t limit_ns);
size_t sim_poll(ds_device *device, struct ds_completion *completions, size_t n);
int sim_advance(ds_device *device, uint64_t limit_ns);
uint64_t sim_now(ds_device *device);

/* --- output.c --- */
/* Called by the thread that executes the job: appends the text of one printf call. */
void sim_text_add(ds_device *device, struct sim_job *job, int to_stderr, const char *bytes, size_t size);
/* Called by the owner: makes the job's text the next for sim_output(), or drops it. */
void sim_text_publish(ds_device *device, struct sim_job *job);
void sim_text_drop(ds_device *device, struct sim_job *job);
int sim_output(ds_device *device, struct ds_device_output *ret);
void sim_texts_free(ds_device *device);

static inline void sim_fifo_push(struct sim_fifo *fifo, struct sim_job *job)
{
        job->next = NULL;
        if (fifo->tail)
                fifo->tail->next = job;
        else
                fifo->head = job;
        fifo->tail = job;
}

/* Appends the job to a list linked by ready_next; the job stays in its stream. */
static inline void sim_line_push(struct sim_fifo *line, struct sim_job *job)
{
        job->ready_next = NULL;
        if (line->tail)
                line->tail->ready_next = job;
        else
                line->head = job;
        line->tail = job;
}

static inline struct sim_job *sim_fifo_pop(struct sim_fifo *fifo)
{
        struct sim_job *job = fifo->head;

        if (job) {
                fifo->head = job->next;
                if (!fifo->head)
                        fifo->tail = NULL;
                job->next = NULL;
        }
        return job;
}
