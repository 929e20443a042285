/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated device from inside: what its files share
 *
 *   sim.c      open, close, rungs, the vtable
 *   space.c    slabs, mappings, what a space's work may touch
 *   module.c   images to kernels
 *   cost.c     what a block did, turned into time
 *   work.c     streams and jobs: submission, order, abort, ends
 *   kill.c     kernels that are killed and launched anew
 *   form.c     other forms of kernels: slices, workers that let go and go on
 *   exec.c     the threads that execute kernels and copies
 *   blocks.c   blocks on SMs
 *   cluster.c  blocks that must be on the SMs of one GPC together
 *   share.c    how fast they go beside each other
 *   probe.c    what a kernel that is executed asks of L2 and VRAM
 *   l2.c       what is in L2 when a kernel begins
 *   channel.c  the channel of an address
 *   wait.c     what a kernel's clock sees of memory
 *   profile.c, room.c  instead of those, durations from a profile
 *   copy.c     copies and memsets
 *   clock.c    events, the virtual clock, poll
 *   output.c   what kernels print
 *
 * A job lives twice. Its *effect* (the kernel's or copy's result in memory) is produced by an execution thread as soon
 * as everything before it in its stream, and behind its fences, has been executed; that costs real time and no virtual
 * time. Its *time* is played on the virtual clock: begin, blocks on SMs, end. The clock waits at a job's begin until
 * its effect is there, because only then its cost is known. All state belongs to the owner thread; an execution thread
 * touches the one job it was given, and hands it back through a locked list.
 *
 * Work that takes long to execute must not stop the clock for others: a client's endless loop would stop the daemon.
 * What runs beside a kernel depends on the kernel's cost from its first block on, so the clock cannot pass its begin
 * and put the blocks there later. Instead the begin itself moves: a job of more than SIM_PATIENCE units (warp
 * instructions mostly) begins one nanosecond later for each unit beyond, if another session has work on the device or
 * the owner has a time to keep. What it has executed so far is a lower bound of that, and up to there time passes. So
 *  - the rule knows the job's work and not the host's speed: the same submissions give the same times, whether the job
 *    was executed long before its begin or is still at it;
 *  - jobs of fewer units, and those that nobody waits beside, have the times that the model gives them;
 *  - a job's session pays for the length, in latency; others pay at most SIM_PATIENCE units of waiting for a job;
 *  - a job that was put off so is given up after SIM_BUDGET_SHARED units instead of SIM_BUDGET_INSTRUCTIONS. When such
 *    jobs have taken all the threads and another session waits for one, the longest goes, if it is beyond SIM_CROWD.
 *    Either ends with DS_CUDA_LAUNCH_TIMEOUT at the time when it would have begun.
 *
 * What the device does not model:
 *  - L1, banks, and what a warp overlaps with itself: that is in one set of constants per model (see cost.c);
 *  - what crosses the link to the host as a user of VRAM; clocks that rise and fall, power, heat;
 *  - time slices: blocks run to their end, as in one context of a GPU; what can be had at once is fewer of them
 * (bound);
 *  - blocks that wait for other blocks than those of their cluster, kernels that launch kernels, textures and surfaces;
 *  - kernels that talk while they run: each is executed as a whole, at one moment of the clock, so one that waits for
 *    another, for the host, or for a time on %globaltimer ends with its budget;
 *  - faults of the hardware, several GPUs and what connects them;
 *  - the client's CPU: what it does takes no virtual time, and its memory traffic slows nothing.
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
#define SIM_WIDTH 2   /* jobs under execution at once, those beyond SIM_PATIENCE not counted */
#define SIM_THREADS 6 /* those counted as well */
#define SIM_PARAMS_INLINE 256
#define SIM_PARAMS_MAX 32764
#define SIM_RUNS_MAX 4096              /* distinct block costs kept per launch */
#define SIM_BLOCKS_EXACT (1u << 20)    /* a launch of more blocks is timed in bundles of blocks */
#define SIM_COPY_INLINE DS_KIB(64)     /* smaller copies are done by the owner thread itself */
#define SIM_COPY_CHUNK DS_MIB(4)       /* between two looks at the abort flag */
#define SIM_ADVANCE_STEPS 4096         /* instants per advance() */
#define SIM_SM_APART (SIM_SMS_MAX - 1) /* an SM that no model has: of a copy on the device */
#define SIM_LOAD_ONE 1024              /* fixed point: one SM's issue slots, all of the memory's bandwidth */
#define SIM_GRANULES_MAX 512 /* of a launch: pieces of memory in which it is remembered that L2 may have them */
#define SIM_L2_ENTRIES 4096  /* of the device */

/*
 * Warp instructions that one launch may execute when it has no deadline; with a deadline, the lesser of this and what
 * one SM could issue in that time. Reaching it ends the launch with DS_CUDA_LAUNCH_TIMEOUT: an endless kernel of a
 * client costs its session a minute or so of one CPU, not the device.
 *
 * A CPU of 2020 executes 30 to 400 million of them per second: SIM_PATIENCE is a fraction of a second,
 * SIM_BUDGET_SHARED some ten seconds. Under a sanitizer all take ten times as long and mean the same.
 */
#define SIM_BUDGET_INSTRUCTIONS (UINT64_C(1) << 32)
#define SIM_BUDGET_SHARED (UINT64_C(1) << 30) /* of a job that was put off because others waited */
#define SIM_CROWD (UINT64_C(1) << 25)         /* of the longest job when all threads are taken and others wait */
#define SIM_PATIENCE (UINT64_C(1) << 24)      /* while the clock stands for others */
#define SIM_PUT_OFF_NS 1                      /* per unit beyond: what a job's begin is put off by */
#define SIM_BUDGET_BLOCK 64                   /* units that a block costs beside its instructions */
#define SIM_UNIT_BYTES 256                    /* a row of a copy or memset is a unit, and each so many bytes of it */
#define SIM_PRINT_UNITS 32                    /* units of what a thread prints at once, */
#define SIM_PRINT_BYTES 4                     /* and bytes of it that are one more */
#define SIM_TELL 16384                        /* units between two looks at the owner's wishes */

struct sim_job;
struct sim_stream;
struct sim_text;

/* --- memory ------------------------------------------------------------------------------------------------------- */

enum sim_region_kind {
        SIM_REGION_DEVICE,
        SIM_REGION_HOST,
        SIM_REGION_GLOBAL, /* a module's variable whose address was asked for */
};

/*
 * One mapping; unmapped when the last snapshot that lists it is gone. Another may take its place before: then only what
 * nobody else has is unmapped.
 */
struct sim_region {
        uint32_t refs;
        enum sim_region_kind kind;
        uint64_t va, size;
        dev_t slab_dev;
        ino_t slab_ino;
        ds_device_module *module; /* GLOBAL: held */
        struct sim_space *going;  /* removed from there, and still listed by a snapshot */
        struct sim_region *next_going;
};

/* What a space could touch at one moment; an executing job holds it, so that nothing is unmapped under it. */
struct sim_snapshot {
        uint32_t refs;
        size_t n_regions, n_ranges;
        struct sim_region **regions;
        struct ds_interp_range *ranges; /* sorted, touching regions merged */
};

struct sim_space {
        uint32_t id;
        uint32_t in_flight;
        uint64_t n_launches;         /* so far */
        uint32_t n_modules;          /* so far */
        _Atomic uint64_t text_bytes; /* printed, and not yet asked for */
        struct sim_region **regions; /* sorted by va */
        size_t n_regions;
        struct sim_region *going;
        struct sim_snapshot *snapshot; /* of the regions now, NULL when they changed */
        struct sim_kept *kept;         /* see sim_kill */
        uint32_t n_kept;
        struct sim_evicted *evicted; /* see form.c */
};

/* A slab counts against the device's memory from mem_create, or its first mem_map, to its last mem_unmap. */
struct sim_slab {
        dev_t dev;
        ino_t ino;
        uint64_t size;
        uint32_t mappings;
        int fd; /* the number given out by mem_create; tells a slab that was closed before it was ever mapped */
};

/* --- cost and kernels --------------------------------------------------------------------------------------------- */

/* n blocks in a row that cost the same */
struct sim_run {
        uint64_t latency_ns; /* of a block that has an SM to itself */
        uint64_t issue_ns;   /* of that, busy issue slots of the SM; <= latency_ns */
        uint64_t stall_ns;   /* of that, waiting for memory; <= latency_ns */
        uint64_t bytes;      /* moved through L2 */
        uint64_t n;
};

/* A piece of memory that a launch touched, and how many bytes of it. */
struct sim_granule {
        uint64_t key, bytes;
};

/* What all blocks of a launch ask of memory, for each 1024 bytes that they move through L2. */
struct sim_traffic {
        uint32_t pass; /* bytes, of each 1024 that its instructions move, that L1 does not have; of these again: */
        uint32_t fill; /* bytes that come from VRAM into L2, or stay there as written */
        uint32_t vram; /* bytes that VRAM could be read in the time that it takes */
        bool uneven;   /* shares[] counts, else all channels alike */
        uint16_t shares[SIM_CHANNELS_MAX]; /* adds up to SIM_LOAD_ONE */
        uint64_t touched;                  /* bytes, all blocks together, that an empty L2 had to bring in */
        uint32_t n_granules;
        struct sim_granule *granules; /* NULL or allocated, or == &one */
        struct sim_granule one;
};

struct sim_costs {
        struct sim_run *runs; /* == &one until the second run */
        struct sim_run one;
        uint32_t n_runs, capacity;
        uint64_t n_blocks;
};

/* What was executed of a kernel that was killed, until it is launched anew. */
struct sim_kept {
        struct sim_kept *next;
        uint64_t token, executed;
        struct sim_costs costs;
        struct sim_traffic traffic;
};

/* What is left of a kernel that was evicted, until it goes on or is dropped. */
struct sim_evicted {
        struct sim_evicted *next;
        uint64_t token;
        const struct ds_device_kernel *kernel; /* its module is held */
        uint32_t grid[3], block[3];
        bool executed;        /* its effect is there; else it never began */
        uint32_t done, chunk; /* blocks */
        uint64_t chunks;
        struct sim_costs costs; /* of the chunks that are left */
        struct sim_traffic traffic;
};

/* What a launch of the persistent form has beside others. Its "blocks" here are chunks of the kernel's blocks. */
struct sim_workers {
        uint32_t n;            /* 0: it is no such launch */
        uint32_t blocks, done; /* the kernel's; of them before this launch */
        uint32_t chunk;
        uint32_t grid[3];            /* the client's */
        uint64_t chunks;             /* of the whole kernel, 0 = not known yet */
        uint64_t left;               /* that were not placed when it let go */
        uint32_t fill, vram;         /* of its traffic, before what L2 had */
        bool let_go;                 /* it is to */
        bool never;                  /* before it begins */
        struct sim_evicted *evicted; /* it was asked to: room for what will be left of it */
};

/* What a block takes of an SM */
struct sim_need {
        uint32_t threads, registers, shared;
};

struct ds_device_kernel {
        ds_device_module *module;
        const ds_interp_kernel *code;
        struct ds_kernel_info info;
        uint64_t static_instructions, static_memory, static_special;
        uint64_t hint_block_ns, hint_bytes; /* "+timing" only, 0 = none; see module.c for these and the next */
        uint64_t hint_issue_ns, hint_written, hint_reuse;
        uint32_t hint_channels[2];                /* first, one past the last */
        bool reads_clock;                         /* its effect depends on when it runs */
        const struct sim_profile_kernel *profile; /* NULL: it is PTX */
        struct sim_shape shape;                   /* of the profile's */
};

struct ds_device_module {
        ds_device *device;
        ds_device_module *next, *prev;
        bool loaded;                 /* not given back by the caller yet */
        uint32_t refs;               /* the caller, jobs, regions */
        uint32_t space, number;      /* number: of those that the space had */
        struct sim_profile *profile; /* or ptx and interp */
        struct ds_ptx_module *ptx;
        ds_interp *interp;
        struct ds_device_kernel *kernels;
        const ds_device_kernel **by_name; /* all of them, sorted */
        size_t n_kernels;
};

/* --- events ------------------------------------------------------------------------------------------------------- */

enum sim_event_kind {
        SIM_EVENT_BEGIN, /* the front end takes the job */
        SIM_EVENT_START, /* the kernel may place blocks, the copy may move bytes */
        SIM_EVENT_END,   /* of a copy, or of what took too long to execute */
        SIM_EVENT_DEADLINE,
        SIM_EVENT_GROUPS,   /* blocks end */
        SIM_EVENT_BOUND,    /* a bound on resident blocks takes effect */
        SIM_EVENT_EVICT,    /* workers hear that they are to let go */
        SIM_EVENT_ROOM_END, /* of a profile's kernel, and what else concerns those: see room.c */
        SIM_EVENT_ROOM_TAIL,
        SIM_EVENT_ROOM_YIELD,
};

struct sim_event {
        uint64_t time, seq;
        uint32_t index; /* in the heap, from 1; 0 = not in it */
        enum sim_event_kind kind;
};

/* Blocks of one job that were placed on one SM at one time and cost the same: they end together. */
struct sim_group {
        struct sim_event event; /* in the heap if this is the first of the groups that end at its time */
        struct sim_job *job;
        uint32_t sm, n;
        uint64_t sm_load, port, rate, vram_rate; /* of all n blocks: issue slots, bytes per us undisturbed */
        uint64_t filled;                         /* bytes that they leave in L2 */
        uint32_t stall;                          /* 1024ths of their time that are waiting for memory */
        uint32_t stretch;                        /* 1024ths: how long they take for what takes 1 undisturbed; 0 = new */
        uint64_t left_ns, since_ns;              /* undisturbed, at that moment */
        struct sim_group *next, *prev;           /* that end at the same time */
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
        SIM_JOB_ARMED,   /* its BEGIN or START event is in the heap */
        SIM_JOB_WAITING, /* started at this instant; goes on when the effects of all such jobs are there */
        SIM_JOB_PUT_OFF, /* under execution for too long: the clock goes on; or its START event is in the heap again */
        SIM_JOB_RUNNING, /* kernel: on the ready list or resident; copy: moving */
        SIM_JOB_ENDING,  /* given up; ends when no thread executes any such job */
        SIM_JOB_ENDED,
};

enum sim_effect {
        SIM_EFFECT_NONE,
        SIM_EFFECT_SUBMITTED, /* with the pool */
        SIM_EFFECT_DONE,
};

enum sim_abort {
        SIM_ABORT_NONE,
        SIM_ABORT_UNWANTED, /* its session is gone */
        SIM_ABORT_TOO_LONG, /* while others waited */
};

struct sim_job {
        struct sim_job *next;                    /* in the stream, then among the ended */
        struct sim_job *ready_next, *ready_prev; /* kernels with blocks to place; jobs that wait for effects */
        struct sim_job *pool_next;
        struct sim_job *moving_next; /* copies whose time passes before they have been executed */
        struct sim_stream *stream;
        struct sim_space *space;
        struct sim_snapshot *snapshot; /* while its effect is under way */
        enum sim_job_kind kind;
        enum sim_job_state state;
        enum sim_effect effect;
        bool blocking;  /* counted in n_blockers */
        bool cancelled; /* the session was aborted, or it was killed, while it was queued */
        bool killed;
        bool executed_before; /* it was killed or evicted, and its effect is there */
        bool was_put_off;
        bool moving;      /* on the device's list of those */
        uint64_t move_ns; /* shortest time of such a copy, ns on the clock */
        int32_t verdict;  /* why it was given up; overrides what its execution says */
        uint64_t token, seq;
        uint64_t submit_ns, start_ns, end_ns, visible_ns;
        uint64_t clock_ns;   /* what the kernel reads as time */
        uint64_t put_off_ns; /* when it would have begun */
        uint64_t lead_ns;    /* from its begin to its first block */
        struct sim_event event, deadline, bound;
        uint32_t bound_to; /* what max_resident becomes with `bound`, unless that is SIM_EVENT_EVICT */

        union {
                struct {
                        const struct ds_device_kernel *kernel;
                        uint32_t grid[3], block[3], cluster[3];
                        uint32_t shared_bytes, max_resident; /* UINT32_MAX: what fits */
                        uint32_t cooperative;
                        uint64_t deadline_ns;
                        uint64_t number; /* of the launch in its space */
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

        /* kernels on the SMs */
        struct sim_costs costs;
        struct sim_traffic traffic;
        struct sim_need need;
        uint64_t order, unplaced;
        uint32_t cluster_blocks; /* 1: no clusters */
        uint32_t run;            /* of costs, next to place */
        uint64_t run_used;
        uint32_t resident;
        bool placed_any, fresh, claiming;
        struct sim_group *groups;
        struct sim_workers workers;

        /* a profile's kernels */
        struct sim_share share;
        struct sim_event tail, yield;

        /* between the owner and the execution thread */
        _Atomic uint32_t abort;    /* enum sim_abort */
        _Atomic uint64_t executed; /* units so far; all of them once its effect is there */
        _Atomic uint64_t limit;    /* units after which it is given up */
        _Atomic uint64_t wake;     /* units after which the owner wants to hear of it, once */

        /* written by the execution thread */
        struct sim_text *text; /* NULL: it printed nothing so far */
        int32_t status;
        char message[DS_DEVICE_MESSAGE_MAX];

        uint8_t params_inline[SIM_PARAMS_INLINE];
        uint32_t room_of[SIM_ATOMS_MAX]; /* a profile's kernel: what it has, by atom */
};

/*
 * What a stream may have to do. Two lists, because effects come back in the host's time: they must not change the order
 * in which heads are armed.
 */
enum sim_todo {
        SIM_TODO_EFFECTS,
        SIM_TODO_HEAD,
        _SIM_TODO_MAX,
};

/* An in-order queue. Only the head has a place on the clock; effects may be ahead of it. */
struct sim_stream {
        uint32_t id, rung, priority;
        struct sim_job *head, *tail;
        struct sim_job *effect_next; /* the first whose effect is not done */
        bool effect_busy;
        uint64_t submitted, effected, ended; /* sequence numbers */
        uint64_t ended_ns;                   /* when `ended` moved last */
        uint64_t free_ns, issue_ns;          /* earliest begin of the next job, of the next kernel */
        /* streams whose next fence waits for this one, for its time and for its effects */
        struct sim_stream *end_waiters, *end_wait_next;
        struct sim_stream *effect_waiters, *effect_wait_next;
        bool end_waiting, effect_waiting;
        struct sim_stream *todo_next[_SIM_TODO_MAX];
        bool todo[_SIM_TODO_MAX];
};

struct sim_rung {
        struct ds_rung_info info;
        uint64_t sms[SIM_SM_WORDS];
        uint32_t resident; /* blocks */
        uint8_t atoms[SIM_ATOMS_MAX], n_atoms;
        struct sim_stream streams[DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG];
};

#define SIM_GPC_NONE UINT8_MAX

struct sim_sm {
        uint32_t id;                                 /* %smid; the array is in the order in which blocks are dealt */
        uint32_t threads, blocks, registers, shared; /* free */
        uint32_t resident;
        uint64_t load, port;    /* issue slots in SIM_LOAD_ONE, bytes per us */
        uint32_t stretch;       /* of its groups, by these two, as of the last round */
        struct sim_group *head; /* resident, linked by sm_next */
        uint8_t gpc;            /* SIM_GPC_NONE: in none that clusters reach */
};

/* What the resident blocks ask of the memory, in bytes per us as if nothing disturbed them; see share.c. */
struct sim_memory {
        uint64_t total_rate, stall_rate; /* of all; the same weighted by how much each waits for memory */
        uint64_t rate, vram_rate;        /* of those that use all channels alike */
        uint64_t channel_rate[SIM_CHANNELS_MAX], channel_vram[SIM_CHANNELS_MAX]; /* of the others */
        uint32_t n_uneven;                                                       /* groups of the others */
        bool changed;
        uint32_t l2, vram, backlog; /* 1024ths: how long each takes, as of the last round */
        uint32_t stall;             /* 1024ths: how much is waiting, on average */
};

/* What went into L2, in bytes, and when pieces of memory were last there; see l2.c. */
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
        } needed, queue;                     /* needed: that the clock waits for; they go first */
        _Atomic uint32_t n_needed;           /* in line; changes under the lock */
        struct sim_job *running;             /* in no order */
        uint32_t n_running, width;           /* width: how many of those that are not beyond SIM_PATIENCE */
        _Atomic uint32_t n_long;             /* those beyond; changes under the lock */
        struct sim_job *done;
        _Atomic uint32_t n_news; /* reasons to look here since the owner did; changes under the lock */
};

struct ds_device {
        const struct sim_model *model;
        struct ds_device_info info;
        bool timing_only;
        bool channels_apart; /* what waits for a full channel holds up nobody else: no backlog */
        uint64_t order_seed; /* of the blocks of a launch, 0: increasing */
        uint32_t noise;      /* so many of 100 launches meet somebody else's traffic */
        int event_fd;
        uint64_t limits[_DS_LIMIT_MAX]; /* that clients raised */
        _Atomic uint64_t text_limit;    /* of them the printf FIFO, for the execution threads; the rest has no effect */
        struct sim_text *texts, *texts_tail; /* of jobs whose completion was given out, oldest first */
        char *piece;                         /* what sim_output gave out last */

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
        } todo[_SIM_TODO_MAX]; /* streams with something to do */
        struct sim_job *free_jobs;

        uint64_t now, event_seq, order;
        struct sim_event **heap; /* from 1; room for every event that can exist */
        uint32_t n_heap, heap_capacity;
        uint32_t n_blockers; /* jobs WAITING whose effect is not there, jobs ENDING under execution: the clock stands */
        uint32_t n_ending;   /* the latter alone */
        struct sim_fifo waiting; /* jobs WAITING in the clock's order, linked by ready_next */
        struct sim_fifo ending;  /* jobs ENDING in the order they were given up, linked by ready_next */
        struct sim_job *moving;  /* see copy.c */
        struct sim_fifo put_off; /* jobs PUT_OFF whose effect is not there, linked by ready_next */
        struct sim_fifo urgent, ended;
        uint64_t issue_ns;                /* earliest next kernel begin of the device */
        uint64_t engine_ns[_DS_COPY_MAX]; /* when each copy engine is free, but for the next: */
        struct sim_job *copying;          /* what stays on the device, one at a time */
        struct sim_fifo copies;           /* those in line, linked by ready_next */

        uint32_t n_sms;
        struct sim_sm sm[SIM_SMS_MAX];
        uint64_t sms_freed[SIM_SM_WORDS]; /* that got room since the last round */
        uint64_t sms_empty[SIM_SM_WORDS];
        uint64_t sms_changed[SIM_SM_WORDS]; /* whose groups did, since the last round */
        struct sim_memory memory;
        struct sim_l2 l2;
        uint32_t resident;                           /* blocks */
        struct sim_fifo ready[DS_DEVICE_PRIORITIES]; /* linked by ready_next, ready_prev */
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
int sim_host_unmap(ds_device *device, uint32_t space, uint64_t va, uint64_t size);
/* A module's variable becomes memory of the space; asked for twice is fine. */
int sim_space_add_global(struct sim_space *space, ds_device_module *module, uint64_t va, uint64_t size);
void sim_space_drop_globals(struct sim_space *space, const ds_device_module *module);
/* A reference to what the space may touch now, NULL when out of memory. */
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
/* What a kernel of a timing-only device costs: its instructions once each, in every warp. */
void sim_cost_static(const struct sim_model *model, const struct ds_device_kernel *kernel, const uint32_t *block,
        struct sim_run *ret);
/* n of it one after another. */
void sim_cost_times(struct sim_run *run, uint64_t n);
/* The same of its traffic: bytes is what all blocks move. */
void sim_traffic_static(
        const struct sim_model *model, const struct ds_device_kernel *kernel, uint64_t bytes, struct sim_traffic *ret);
void sim_traffic_deinit(struct sim_traffic *traffic);
void sim_traffic_move(struct sim_traffic *to, struct sim_traffic *from);
void sim_costs_init(struct sim_costs *costs);
void sim_costs_deinit(struct sim_costs *costs);
void sim_costs_move(struct sim_costs *to, struct sim_costs *from);
/* Never fails: when memory is short, what it adds is averaged into what is there. */
void sim_costs_add(struct sim_costs *costs, const struct sim_run *run);
/* Without the first n blocks, fewer than there are. */
void sim_costs_skip(struct sim_costs *costs, uint64_t n);
/* All blocks move twice as many bytes. */
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
/* NULL: no kernel with this token is in flight. */
struct sim_job *sim_kernel_in_flight(ds_device *device, uint64_t token);
/* The head ends now, before its end, as soon as no thread executes it. */
void sim_job_give_up(ds_device *device, struct sim_job *job, int32_t verdict);
/* Stops the pool and frees every job, finished or not. */
void sim_jobs_free(ds_device *device);
void sim_job_free(ds_device *device, struct sim_job *job);
/* Whatever follows from what changed: effects started, heads armed. */
void sim_settle(ds_device *device);
void sim_stream_touch(ds_device *device, struct sim_stream *stream, enum sim_todo todo);
/* The stream's `effected` moved: those that wait for it may go on. */
void sim_stream_effected(ds_device *device, struct sim_stream *stream);
/* The job's time is over, with this status; it must be its stream's head. */
void sim_job_end(ds_device *device, struct sim_job *job, bool urgent);
/* The head's time is over before its end, with the reason as its status: off the clock, off the SMs; then sim_job_end.
 */
void sim_job_withdraw(ds_device *device, struct sim_job *job, int32_t verdict);
/* The job's status and words; the first one stays. */
void sim_job_fail(struct sim_job *job, int32_t status, const char *fmt, ...) ds_printf(3, 4);

/* --- kill.c --- */
int sim_kill(ds_device *device, uint64_t token);
/* The job is the kernel that was killed under this token: whether it has its effect, and costs, from there. */
bool sim_kept_take(struct sim_space *space, uint64_t token, struct sim_job *job);
/* What was kept of kernels that were killed is not wanted any more. */
void sim_kept_drop(struct sim_space *space);

/* --- form.c --- */
/* The kernel as its client knows it, and its form where that is not the native one: for sentences */
#define SIM_KERNEL_WORDS 88
const char *sim_form_words(const struct ds_device_kernel *kernel, char words[static SIM_KERNEL_WORDS]);
/* A launch whose form is not the native one, as one that is: its grid and its parameters. */
struct sim_form {
        struct ds_launch plain;
        struct sim_workers workers;
        struct sim_evicted *resumes; /* NULL: it begins */
        uint8_t params[SIM_PARAMS_MAX];
};
/* 0, or a CUDA error. */
int sim_form_make(struct sim_space *space, const struct ds_launch *launch, struct sim_form *ret);
/* The job is that launch: its workers, and what it takes over. */
void sim_form_take(ds_device *device, const struct sim_stream *stream, struct sim_job *job, struct sim_form *form);
/* The kernel that hints of a timing-only device are about. */
const struct ds_device_kernel *sim_form_hinted(const struct ds_device_kernel *kernel);
/* What was executed left its control block as it must; else the job fails. */
void sim_form_executed(struct sim_job *job, const struct ds_ptx_control *control, uint32_t epoch);
/* Its cost is known, and it begins. True: it does not, since it was asked to let go. */
bool sim_form_begins(struct sim_job *job);
/* The job ends: whether something is left of it, which is kept then. */
bool sim_form_let_go(struct sim_job *job);
int sim_evict(ds_device *device, uint64_t token);
void sim_evict_due(ds_device *device, struct sim_job *job); /* the event */
void sim_drop(ds_device *device, uint64_t token);
struct sim_evicted *sim_evicted_free(struct sim_evicted *evicted);
/* Nothing that is left of kernels of the space goes on any more. */
void sim_evicted_drop(struct sim_space *space);

/* --- exec.c --- */
int sim_pool_start(ds_device *device);
void sim_pool_stop(ds_device *device);
void sim_pool_submit(ds_device *device, struct sim_job *job, bool needed);
/* True when the job was still queued and is not any more. */
bool sim_pool_cancel(ds_device *device, struct sim_job *job);
void sim_pool_promote(ds_device *device, struct sim_job *job);
/* Takes back what was finished. */
void sim_pool_collect(ds_device *device);
/* Makes event_fd readable until the next collect. */
void sim_pool_wake(ds_device *device);
/* When all threads execute jobs beyond SIM_PATIENCE: the longest one that keeps others waiting is given up. */
void sim_pool_relieve(ds_device *device, uint64_t limit_ns);
/* The effect of a copy or memset, here and now. */
void sim_exec_transfer(ds_device *device, struct sim_job *job);

/* --- blocks.c --- */
int sim_blocks_init(ds_device *device);
void sim_blocks_deinit(ds_device *device);
/* How many such blocks, up to `want`, an SM has room for. */
uint64_t sim_sm_room(const struct sim_sm *sm, const struct sim_need *need, uint64_t want);
bool sim_blocks_fit(const ds_device *device, const struct sim_need *need);
void sim_blocks_ready(ds_device *device, struct sim_job *job);
/* Takes the job's blocks off the SMs and off the ready list. */
void sim_blocks_kill(ds_device *device, struct sim_job *job);
/* Places what fits at this instant. */
void sim_blocks_round(ds_device *device);
/* The groups that end with this event. */
void sim_blocks_end(ds_device *device, struct sim_event *event);

/* A kernel's bound on resident blocks changes, at once. */
void sim_blocks_bound(ds_device *device, struct sim_job *job, uint32_t bound);

/* Workers that have a chunk finish it; what is not placed is left. The job ends then, at once if it has none. */
void sim_blocks_let_go(ds_device *device, struct sim_job *job);

/* The job is one block that nothing but share.c sees. */
void sim_blocks_apart(ds_device *device, struct sim_job *job, const struct sim_run *run);

/* --- copy.c --- */
/* A copy or memset begins, ends with the event that sim_blocks_end got, or is taken off. */
void sim_copy_begin(ds_device *device, struct sim_job *job);
void sim_copy_done(ds_device *device, struct sim_job *job);
void sim_copy_kill(ds_device *device, struct sim_job *job);
/* Its time may pass before it has been executed. */
bool sim_copy_is_early(const struct sim_job *job);
/* Whether time may pass up to here; else the device's event_fd will say when it may. */
bool sim_copy_allow(ds_device *device, uint64_t time);
void sim_copy_forget(ds_device *device, struct sim_job *job);

/* --- share.c --- */
/* The group counts among the resident ones, or not any more. */
void sim_share_add(ds_device *device, struct sim_group *group);
void sim_share_remove(ds_device *device, struct sim_group *group);
/* After blocks came or went: when each group ends, as things are now. */
void sim_share_settle(ds_device *device);
/* Takes a group out of those that end at its time. */
void sim_share_unlink(ds_device *device, struct sim_group *group);

/* --- l2.c --- */
int sim_l2_init(ds_device *device);
void sim_l2_deinit(ds_device *device);
/* A kernel begins: what is there of its memory need not be fetched. */
void sim_l2_begin(ds_device *device, struct sim_job *job);
/* A kernel has ended: what it touched is there. */
void sim_l2_end(ds_device *device, const struct sim_job *job);
/* The job brought so many bytes in. */
void sim_l2_fill(ds_device *device, const struct sim_job *job, uint64_t bytes);

/* --- probe.c --- */
struct sim_probe *sim_probe_new(const struct sim_model *model);
struct sim_probe *sim_probe_free(struct sim_probe *probe);
void sim_probe_begin(struct sim_probe *probe);
/* Another block: its L1 is empty. */
void sim_probe_block(struct sim_probe *probe);
/* A launch's `memory`. */
void sim_probe_memory(void *probe, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind);
/* What was seen since begin. Short of memory it says less. */
void sim_probe_end(struct sim_probe *probe, struct sim_traffic *ret);

/* --- wait.c --- */
/* NULL when out of memory. */
struct sim_waits *sim_waits_new(const struct sim_model *model);
struct sim_waits *sim_waits_free(struct sim_waits *waits);
/* A launch begins: L2 is empty. The cycles that its accesses have waited, from now on. */
const uint64_t *sim_waits_begin(struct sim_waits *waits, uint32_t noise, uint64_t seed);
void sim_waits_memory(struct sim_waits *waits, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind);

/* --- room.c --- */
/* The atoms of all rungs; nothing may be in flight. */
void sim_room_rungs(ds_device *device);
/* What a profile's kernel takes of an SM; false when not even one block fits. */
bool sim_shape_of(const struct sim_model *model, const struct ds_device_kernel *kernel, struct sim_shape *ret);
/* The job begins. It ends by itself: SIM_EVENT_ROOM_END. */
void sim_room_ready(ds_device *device, struct sim_job *job);
/* Takes it off the SMs, as sim_blocks_kill(). */
void sim_room_kill(ds_device *device, struct sim_job *job);
/* The events. */
void sim_room_end(ds_device *device, struct sim_job *job);
void sim_room_tail(ds_device *device, struct sim_job *job);
void sim_room_yield(ds_device *device, struct sim_job *job);

/* --- cluster.c --- */

/* SMs that have room for blocks of a job, and how many of them each is given. */
struct sim_candidates {
        uint16_t sm[SIM_SMS_MAX];
        uint16_t room[SIM_SMS_MAX];
        uint16_t taken[SIM_SMS_MAX];
        uint32_t n;
        uint64_t room_total;
        uint32_t level; /* resident blocks of the emptiest */
};

/* The GPC and TPC of every SM are known from here on. */
void sim_clusters_init(ds_device *device);
/* The model's groups of TPCs for large clusters, into info. */
void sim_model_groups(const struct sim_model *model, struct ds_device_info *info);
/* Blocks of the largest cluster that a rung takes. */
uint32_t sim_clusters_max(const ds_device *device, const struct ds_rung_info *rung);
/* The clusters of a launch: 0 with the blocks of its grid and of a cluster, or a CUDA error. */
int sim_clusters_check(const ds_device *device, const struct sim_rung *rung, const struct ds_launch *launch,
        uint32_t *ret_grid, uint32_t *ret_cluster);
/* Gives SMs of the candidates whole clusters, at most `want` blocks of them. Returns how many blocks. */
uint64_t sim_clusters_deal(
        const ds_device *device, const struct sim_job *job, struct sim_candidates *candidates, uint64_t want);
int sim_clusters(ds_device *device, const struct ds_launch *launch, uint32_t *ret_clusters);

/* --- clock.c --- */
/* Makes room for n more events; the only step of the clock that can fail. */
int sim_heap_reserve(ds_device *device, uint32_t n);
void sim_event_push(ds_device *device, struct sim_event *event, enum sim_event_kind kind, uint64_t time);
void sim_event_remove(ds_device *device, struct sim_event *event);
/* The clock waits for the job's effect; not any more. The second may be called at any time. */
void sim_job_block(ds_device *device, struct sim_job *job);
void sim_job_unblock(ds_device *device, struct sim_job *job);
/* Takes a WAITING or PUT_OFF job out of its line. */
void sim_waiting_remove(ds_device *device, struct sim_job *job);
void sim_put_off_remove(ds_device *device, struct sim_job *job);
/* The effect of a PUT_OFF job is there. */
void sim_put_off_done(ds_device *device, struct sim_job *job);
/* Whether anybody but the job's own session waits for the clock to pass. */
bool sim_others_wait(const ds_device *device, const struct sim_job *job, uint64_t limit_ns);
size_t sim_poll(ds_device *device, struct ds_completion *completions, size_t n);
int sim_advance(ds_device *device, uint64_t limit_ns);
uint64_t sim_now(ds_device *device);

/* --- output.c --- */
/* By the thread that executes the job: one call's text. */
void sim_text_add(ds_device *device, struct sim_job *job, int to_stderr, const char *bytes, size_t size);
/* By the owner: the job's text is the next to be given out; or nobody wants it. */
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

/* The same, linked by ready_next: the job stays in its stream. */
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
