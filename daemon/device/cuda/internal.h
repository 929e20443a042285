/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda device's own structures, and the functions that its files share
 *
 *  driver.c    the genuine libcuda, by path             cuda.c      open, close, the vtable
 *  topology.c  TPCs, the device's properties            gpcs.c      which TPCs share a GPC
 *  rung.c      green contexts and their streams         limit.c     the context's limits, local memory
 *  memory.c    slabs, pinned memory, spaces, clearing   address.c   addresses of mappings
 *  module.c    libraries, kernels, the image cache      work.c      launches, copies, memsets, fences
 *  hold.c      work that may not go to the GPU yet      poll.c      completions
 *  graph.c     graphs: many jobs in one
 *  counter.c   progress of the GPU in each stream       clock.c     the GPU's times
 *  output.c    printf and assert                        flush.c     the thread that waits for text
 *  fault.c     a lost context and its cause             staging.c   copies between two host buffers
 *  loader.c    the thread that reads libraries          kernel.c    their kernels
 *  form.c      slices, and workers that let go          launcher.c  threads that launch kernels
 *
 * Everything runs on one thread, except flush.c, loader.c and launcher.c. Nothing blocks except the calls marked [stops] in
 * device.h, and the work of open before serving. The laws of the shared context (docs/ARCHITECTURE.md): nothing is
 * submitted that waits for something not yet submitted; rungs, their streams and the pool of events exist before
 * serving; memory is VMM only.
 *
 * Isolation: all spaces share the one context, so a kernel that computes a wrong address can reach another session's
 * memory. The worker checks only the addresses in arguments of copies and memsets.
 */
#pragma once

#include <stdint.h>

#include "device/cuda/cuda.h"
#include "device/cuda/driver.h"
#include "util/log.h"
#include "util/macro.h"

#include "util/alloc.h"
#define uthash_malloc(size) ds_alloc(size)
#define uthash_free(p, size) ds_free(p)
#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

#define CUDA_STREAMS_PER_RUNG (DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG)
#define CUDA_CLEAR_EVENTS 32
#define CUDA_BLOCKS 128 /* most TiB pieces of a process's 47-bit address space */
#define CUDA_POOL_MAX 8

struct cuda_space;
struct cuda_stream;
struct cuda_held;
struct cuda_clock;
struct cuda_images;
struct cuda_output;
struct cuda_flush;
struct cuda_loader;
struct cuda_launcher;
struct cuda_staging;
struct cuda_instance;
struct cuda_form;
struct cuda_forms;

enum cuda_job_kind {
        CUDA_JOB_LAUNCH,
        CUDA_JOB_COPY,
        CUDA_JOB_MEMSET,
        CUDA_JOB_GRAPH,
        _CUDA_JOB_KIND_MAX,
};

/* One operation, from submission until poll has returned it. */
struct cuda_job {
        uint64_t token;
        enum cuda_job_kind kind;
        struct cuda_space *space;       /* referenced */
        const ds_device_kernel *kernel; /* kernel of a launch; its module is referenced */
        uint32_t grid[3], block[3];     /* launch sizes, for error messages */
        ds_device_graph *graph;         /* graph of a graph launch; referenced */
        struct cuda_form *form;         /* form of a persistent launch; referenced */
        CUevent event;                  /* event recorded behind the job; NULL: no event is needed */
        CUevent begun;                  /* event with a time, recorded before the job; NULL: not recorded */
        uint64_t number;                /* number of the job in its stream, from 1 */
        uint64_t space_number;          /* number of the job in its space, from 1 */
        uint64_t passed;                /* number of its call to the launcher, from 1; 0: not passed */
        int32_t status;                 /* 0: the GPU has the job; else the job ends with this status */
        uint32_t timed : 1;             /* `event` carries a time */
        uint32_t given : 1;             /* the GPU has received the job */
        uint32_t suspect : 1;           /* the job may have caused the loss of the context */
        uint32_t prints : 1;            /* the kernel may print, so output.c counts the job */
        uint32_t marked : 1;            /* the GPU reports the end of this job, not only that of later jobs */
        /* the GPU also reports the end of the stream's previous job, or there is none: the times are this job's
         * alone */
        uint32_t alone : 1;
        uint32_t entries; /* entries that the job takes in the stream's hardware queue */
        uint64_t submit_ns, deadline_ns;
        /* last fence before the job: it cannot start before `after_seq` jobs of the stream `after` have ended */
        const struct cuda_stream *after;
        uint64_t after_seq;
        struct cuda_job *next; /* next job of the stream, or next free job */
        struct cuda_job *space_prev, *space_next;
};

/*
 * A CUDA stream of a rung. Jobs on the GPU are in order in head..tail, and the stream is then on the device's busy
 * list. Jobs and fences that may not go yet wait in `held` (hold.c), and the stream is then on the holding list.
 */
struct cuda_stream {
        CUstream stream;
        uint32_t id; /* ds_device_stream() */
        struct cuda_job *head, *tail;
        uint32_t n_entries;              /* entries of the stream's hardware queue in use */
        uint64_t entered, issued, ended; /* numbers of jobs: submitted by the owner, given to the GPU, completed */
        /* number of the last job whose end the GPU reports itself, or that the GPU never received */
        uint64_t marked;
        /* last job number that the GPU has to write into the stream's counter (counter.c) */
        uint64_t asked;
        uint64_t passed;      /* number of the stream's last call to the launcher; 0: none */
        uint64_t last_end_ns; /* end of the job before head */
        /* number of the last clearing that the stream waits for, see ds_device.clear_seq */
        uint64_t clear_seen;
        /* fence before the next job: the stream to wait for, and the number of its jobs that must have ended; NULL:
         * none */
        const struct cuda_stream *after;
        uint64_t after_seq;
        struct cuda_staging *staging; /* buffer of copies from host to host; NULL: not made yet */
        struct cuda_held *held, *held_tail;
        struct cuda_stream *busy_prev, *busy_next, *hold_prev, *hold_next;
};

/* Free events. The array has space for all events of its kind, so that returning one cannot fail. */
struct cuda_events {
        CUevent *free;
        size_t n_free, n;
};

struct cuda_rung {
        struct ds_rung_info info;
        CUgreenCtx green;
        CUcontext context; /* context of `green`, or the primary context if green contexts are not supported */
        struct cuda_stream streams[CUDA_STREAMS_PER_RUNG];
};

/* Device memory or pinned host memory, mapped for a space; or (memory.c) for a removed space until it can be
 * unmapped. */
struct cuda_mapping {
        uint64_t va, size;
        int host;
        /* device memory: number of the clearing after which it is clear; 0: it is clear already */
        uint64_t clear_seq;
        struct cuda_space *space; /* delayed unmapping: space whose work may still use the mapping; NULL: none */
        uint64_t last_use;        /* delayed unmapping: number of the last job of the space that may use the mapping */
        int own;                  /* 1: the mapping has a reservation of its own, see cuda_va_claim */
        int fd;                   /* device memory: a slab that the pool may take; else -1 */
        struct cuda_mapping *prev, *next;
};

struct cuda_space {
        uint32_t id;
        UT_hash_handle hh;
        struct cuda_mapping *mappings;
        uint64_t clear_seq;    /* number of the last clearing of one of its mappings */
        struct cuda_job *jobs; /* jobs in flight, in order of submission */
        uint64_t n_submitted;
};

/* A TiB of addresses: not tried, reserved as a whole, or used in part by something else. */
enum cuda_block {
        CUDA_BLOCK_UNKNOWN,
        CUDA_BLOCK_OURS,
        CUDA_BLOCK_REFUSED,
};

struct ds_device {
        struct ds_cuda_driver driver;
        CUdevice ordinal;
        CUcontext primary;
        struct ds_device_info info;
        uint64_t start_ns;

        /* topology.c: one resource of SMs per TPC, all from one split of the device's SMs */
        uint64_t memory_total;
        CUdevResource *tpc;    /* info.n_tpcs entries; NULL: this GPU cannot be divided and counts as one TPC */
        CUdevResource all_sms; /* including SMs that belong to no TPC */
        /* info.n_groups entries, one resource of SMs per group, all from another split than `tpc` */
        CUdevResource groups[DS_DEVICE_GROUPS_MAX];
        uint32_t n_sms_outside; /* number of SMs that belong to no TPC */

        /* rung.c */
        struct cuda_rung *rungs[DS_DEVICE_RUNGS_MAX];
        uint32_t n_rungs;
        int priority[DS_DEVICE_PRIORITIES]; /* CUDA's numbers for the high and the low priority */
        CUstream own_stream;                /* stream on all SMs with low priority, for clearing memory */

        /* memory.c */
        struct cuda_space *spaces;  /* hash by id */
        struct cuda_mapping *going; /* mappings that are unmapped once no work can still use them */
        int pool[CUDA_POOL_MAX];    /* file descriptors of unmapped slabs that are kept for reuse */
        size_t n_pool;
        uint8_t blocks[CUDA_BLOCKS]; /* enum cuda_block of each TiB of addresses, see address.c */
        /*
         * Clearings are numbered and run in order on own_stream. The event of number n is clear_events[n % ...], so it
         * stands for n or a later one. Before its next job of a space, a stream waits for that event if its clear_seen
         * is below the space's clear_seq. clear_done: the last number known to have finished.
         */
        uint64_t clear_seq, clear_done;
        CUevent clear_events[CUDA_CLEAR_EVENTS];

        /* module.c */
        struct cuda_images *images; /* loaded images, used by modules or kept for later loads */
        int lazy;                   /* 1: cuLibraryLoadData only reads a library, and puts nothing on the GPU yet */
        struct cuda_loader *loader; /* the loader's thread; NULL: no module has been prepared yet */
        ds_device_module *modules;  /* all loaded modules */

        /* graph.c */
        struct cuda_instance *instances_going; /* instances to destroy in a quiesce */
        size_t n_instances_going, n_graphs_wanted;
        ds_device_graph *graphs; /* all graphs */
        uint32_t graph_nodes;    /* number of nodes in all instances */

        uint64_t n_stirs;   /* number of times that something was brought into the context, see stirs() in device.h */
        uint32_t n_divided; /* jobs on the device whose kernels run on a part of the SMs */

        /* limit.c */
        uint64_t limits[_DS_LIMIT_MAX];

        /* work.c, poll.c, hold.c */
        struct cuda_stream *busy;    /* streams with jobs on the GPU */
        struct cuda_stream *holding; /* streams that hold work back */
        struct cuda_job *free_jobs;
        struct cuda_events events[2]; /* free events: [0] without times, [1] with times */
        /* event that cuda_issue_fence() records in the stream that another stream must wait for */
        CUevent fence;
        uint32_t n_jobs; /* jobs on the GPU or held */
        struct cuda_clock *clock;
        struct cuda_launcher *launcher; /* launcher.c; NULL: the owner makes all calls itself */

        /* counter.c */
        uint64_t *counters; /* progress counters; NULL: the device uses events to notice completions */
        uint64_t asked_ns;  /* time of the last driver call that could report a fault */

        /* form.c: state of sliced and persistent forms; NULL: the persistent form is not available */
        struct cuda_forms *forms;

        /* output.c */
        struct cuda_output *output;

        /* fault.c */
        CUresult lost;

        struct ds_log_budget log; /* budget of the log lines that clients can cause */
};

/*
 * Handles a failed driver call: logs it, notes a lost context (fault.c), and converts its result. Positive: CUDA's
 * number, which may go to the client as it is (OUT_OF_MEMORY is logged as no warning). -EIO: the driver returned an
 * invalid number.
 */
int ds_cuda_failed(ds_device *device, CUresult result, const char *what);
/*
 * 1 when functions that free resources may call the driver. 0: the context is lost, or kernels are still running, and
 * calls would fail or wait for them; the end of the process frees the driver's resources.
 */
int cuda_usable(const ds_device *device);

/* cuda.c: "0" -> 0. -EINVAL: not the number of a GPU. */
int cuda_spec_parse(const char *spec, unsigned *ret_ordinal);

/* topology.c: fills info and device->tpc; the context is current. 0, -ENODEV with a line in the log, or an errno. */
int cuda_topology_discover(ds_device *device);
void cuda_topology_free(ds_device *device);
/* Free memory on the GPU, counting all processes; 0: the driver does not say. */
uint64_t cuda_memory_free(ds_device *device);
/* Adds bytes to info.own_bytes, the context's own memory, and subtracts them from the memory for sessions. */
void cuda_memory_own(ds_device *device, uint64_t bytes);
/* Short name of a GPU: "NVIDIA RTX A2000" -> "a2000". */
void cuda_model_name(const char *name, char *ret, size_t size);
/* 0: DetShare cannot give a program the feature that this attribute (a CUdevice_attribute) promises. */
int cuda_attribute_offered(int attribute);

/* gpcs.c: fills info.n_gpcs, gpc_of_tpc and the groups' TPCs as far as they can be discovered; leaves nothing on the
 * GPU */
void cuda_gpcs_discover(ds_device *device);

/* rung.c */
int cuda_rungs_init(ds_device *device); /* sets device->priority and device->own_stream */
int cuda_rung_create(ds_device *device, const struct ds_tpc_mask *mask, uint32_t *ret_rung);
int cuda_rung_create_coarse(ds_device *device, uint32_t groups, uint32_t *ret_rung);
const struct ds_rung_info *cuda_rung_info(ds_device *device, uint32_t rung);
/* cuda_green_create(): makes a green context over these SMs. cuda_stream_create(): makes a stream of a green
 * context, or of the whole GPU if green is NULL. Both return 0, or an error as ds_cuda_failed(). */
int cuda_green_create(ds_device *device, CUdevResource *resources, unsigned n, CUgreenCtx *ret);
int cuda_stream_create(ds_device *device, CUgreenCtx green, int priority, CUstream *ret);
/* stream by its id; NULL: there is no stream with this id */
struct cuda_stream *cuda_stream_at(ds_device *device, uint32_t id);
void cuda_rungs_free(ds_device *device);

/*
 * address.c: claims addresses for a mapping; the caller knows that the device has no mapping there. *ret_own: 1 if they
 * are not part of a larger reservation. -EEXIST: something else occupies these addresses.
 */
int cuda_va_claim(ds_device *device, uint64_t va, uint64_t size, int *ret_own);
void cuda_va_release(ds_device *device, uint64_t va, uint64_t size, int own);
/* Claims addresses and maps a file there into this process; or moves `mapped`, an existing mapping of the file (NULL =
 * none), which is consumed in any case. -EEXIST: something else occupies the addresses; or an error of mmap or mremap. */
int cuda_va_host_map(ds_device *device, int fd, void *mapped, uint64_t va, uint64_t size, int *ret_own);
void cuda_va_host_unmap(uint64_t va, uint64_t size, int own);
void cuda_va_free(ds_device *device);

/* memory.c */
struct cuda_space *cuda_space_find(ds_device *device, uint32_t id);
int cuda_space_add(ds_device *device, uint32_t id);
int cuda_space_remove(ds_device *device, uint32_t id);
int cuda_mem_create(ds_device *device, uint64_t size, int *ret_fd);
int cuda_mem_map(ds_device *device, uint32_t space, int fd, uint64_t va, uint64_t size);
int cuda_mem_unmap(ds_device *device, uint32_t space, uint64_t va, uint64_t size);
int cuda_mem_cleared(ds_device *device, uint32_t space, uint64_t va);
int cuda_mem_keep(ds_device *device, uint32_t space, uint64_t va);
int cuda_host_map(ds_device *device, uint32_t space, int fd, uint64_t va, uint64_t size);
int cuda_host_move(ds_device *device, uint32_t space, int fd, void *mapped, uint64_t va, uint64_t size);
int cuda_host_unmap(ds_device *device, uint32_t space, uint64_t va, uint64_t size);
/* Called before the next job of a space on a stream: makes the stream wait until the space's new memory is clear. 0
 * or as ds_cuda_failed. */
int cuda_memory_order(ds_device *device, struct cuda_stream *stream, const struct cuda_space *space);
/* Unmaps the mappings in `going` that no work can use any more. Cheap when there are none. */
void cuda_memory_sweep(ds_device *device);
/* Pinned memory of removed spaces, which only a [stops] call can unregister: the number of such mappings, and one
 * unregistration. */
size_t cuda_memory_put_off(ds_device *device);
void cuda_memory_put_off_do(ds_device *device);
/* Frees the slabs kept for reuse; returns how many there were. */
size_t cuda_memory_pool_drop(ds_device *device);
int cuda_memory_init(ds_device *device);
void cuda_spaces_free(ds_device *device);
CUmemAllocationProp cuda_slab_prop(const ds_device *device); /* properties of a slab for cuMemCreate */

/* limit.c */
int cuda_limits_init(ds_device *device);
int cuda_limit_raise(ds_device *device, enum ds_device_limit limit, uint64_t value);
uint64_t cuda_limit_get(ds_device *device, enum ds_device_limit limit);
/* Raises the context's local memory for a module whose kernels use this many bytes per thread, so that their
 * launches do not stop the context. 0, DS_CUDA_OUT_OF_MEMORY, or a negative errno. */
int cuda_limit_local(ds_device *device, uint64_t bytes_per_thread);

/* module.c; the operations are those of device.h */
int cuda_module_cached(ds_device *device, const void *image, size_t size);
int cuda_module_prepare(ds_device *device, int fd, size_t size);
uint64_t cuda_module_prepared(ds_device *device);
int cuda_module_load(ds_device *device, uint32_t space, const void *image, size_t size, char *log, size_t log_size,
        ds_device_module **ret);
int cuda_module_again(ds_device *device, uint32_t space, int fd, size_t size, ds_device_module **ret);
void cuda_module_lies_in(ds_device *device, ds_device_module *module, int fd);
ds_device_module *cuda_module_unload(ds_device *device, ds_device_module *module);
const ds_device_kernel *cuda_kernel_find(ds_device_module *module, const char *name);
const ds_device_kernel *cuda_kernel_at(ds_device_module *module, size_t index);
const struct ds_kernel_info *cuda_kernel_info(const ds_device_kernel *kernel);
int cuda_kernel_loaded(const ds_device_kernel *kernel);
int cuda_kernel_load(ds_device *device, const ds_device_kernel *kernel);
int cuda_global_find(ds_device_module *module, const char *name, uint64_t *ret_va, uint64_t *ret_size);
int cuda_module_has_globals(ds_device_module *module);
size_t cuda_put_off(ds_device *device);
void cuda_put_off_do(ds_device *device);
void cuda_modules_free(ds_device *device);
/* Adds a reference to the kernel's module; each get needs a put. */
void cuda_kernel_get(const ds_device_kernel *kernel);
void cuda_kernel_put(ds_device *device, const ds_device_kernel *kernel);
CUkernel cuda_kernel_handle(const ds_device_kernel *kernel); /* the driver's handle that is independent of a context */
CUfunction cuda_kernel_function(const ds_device_kernel *kernel);
/* Number of the kernel's blocks of this many threads and bytes of shared memory that fit on an SM, at least 1. */
uint32_t cuda_kernel_blocks_per_sm(
        ds_device *device, const ds_device_kernel *kernel, uint32_t threads, uint32_t shared_bytes);
uint32_t cuda_kernel_space(const ds_device_kernel *kernel);
int cuda_kernel_prints(const ds_device_kernel *kernel);  /* 1: the kernel's module uses printf */
int cuda_kernel_asserts(const ds_device_kernel *kernel); /* 1: the kernel's module uses assertions */
/* 1 when the bytes are part of a variable that global_find returned to this space. */
int cuda_modules_cover(ds_device *device, uint32_t space, uint64_t va, uint64_t size);

/* work.c */
int cuda_work_init(ds_device *device); /* makes the pool of events and the clock's first event */
void cuda_work_free(ds_device *device);
int cuda_launch(ds_device *device, const struct ds_launch *launch, uint64_t token);
int cuda_clusters(ds_device *device, const struct ds_launch *launch, uint32_t *ret_clusters);
int cuda_copy(ds_device *device, const struct ds_copy *copy, uint64_t token);
int cuda_memset(ds_device *device, const struct ds_memset *memset, uint64_t token);
int cuda_fence(ds_device *device, uint32_t from, uint32_t to);
void cuda_abort(ds_device *device, uint32_t space);
/* Gives the operation to the GPU now. 0, a CUDA error (the job was not submitted), or a negative errno. */
int cuda_issue_launch(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_launch *launch);
int cuda_issue_copy(ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_copy *copy);
int cuda_issue_memset(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_memset *memset);
int cuda_issue_fence(ds_device *device, struct cuda_stream *from, uint64_t from_seq, struct cuda_stream *to);
/* Queues a job that never goes to the GPU: it completes with this status, after the earlier jobs of its stream. */
void cuda_issue_nothing(ds_device *device, struct cuda_stream *stream, struct cuda_job *job, int32_t status);
void cuda_staging_free(ds_device *device);

int cuda_issue_graph(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_graph_launch *launch);
/* Checks a launch. 0: valid on a stream of this rung; else a CUDA error. */
int cuda_launch_check(const ds_device *device, const struct ds_launch *launch, uint32_t rung);
/* Checks that a copy's addresses belong to the space, and sets the copy's kind. 0 or INVALID_VALUE. */
int cuda_copy_check(ds_device *device, const struct cuda_space *space, struct ds_copy *copy);
int cuda_memset_check(ds_device *device, const struct cuda_space *space, const struct ds_memset *memset);

/*
 * The driver calls of a launch, in this order: the write of a number to the stream's counter, an event, the launch,
 * another event, another number. Values of 0 and NULL are left out.
 */
#define CUDA_CALL_ATTRIBUTES 2
#define CUDA_CALL_PARAMS 1024u /* most bytes of parameters of a call that the launcher takes */
struct cuda_call {
        uint64_t *counter;
        uint64_t before, behind;
        CUevent begun, ended;
        CUfunction function;
        CUlaunchConfig config;
        const void *params;
        size_t size; /* bytes that the kernel expects as parameters */
};
/* report: 1: the last number is written also if the driver refuses the launch. *ret_taken: 1 if the driver took the
 * launch. Returns the first error. */
CUresult cuda_call_make(const struct ds_cuda_driver *driver, const struct cuda_call *call, int report, int *ret_taken);

/* tensor.c */
int cuda_tensor_map(ds_device *device, const struct ds_tensor_map *ask, uint8_t map[DS_TENSOR_MAP_BYTES]);

/* graph.c; the operations are those of device.h */
int cuda_graph_new(
        ds_device *device, uint32_t space, const struct ds_device_node *nodes, uint32_t n, ds_device_graph **ret);
int cuda_graph_build(ds_device *device, ds_device_graph *graph, uint32_t rung);
int cuda_graph_ready(ds_device *device, ds_device_graph *graph, uint32_t rung);
int cuda_graph_launch(ds_device *device, const struct ds_graph_launch *launch, uint64_t token);
void cuda_graph_take(ds_device *device, ds_device_graph *from, ds_device_graph *to);
int cuda_graph_change(ds_device *device, uint32_t space, ds_device_graph *graph, const uint32_t *at,
        const struct ds_device_node *nodes, uint32_t n);
ds_device_graph *cuda_graph_free(ds_device *device, ds_device_graph *graph);
/* adds the job, a launch of the graph, to the graph's jobs in flight */
void cuda_graph_get(ds_device_graph *graph, struct cuda_job *job);
/* Size of ds_graph_launch.params of a launch of the graph, bytes. */
uint32_t cuda_graph_params_bytes(const ds_device_graph *graph);
/* Gives the instance on the rung these parameters, for later launches. On an error there is no instance any more. */
CUresult cuda_graph_set_params(ds_device *device, ds_device_graph *graph, uint32_t rung, const uint8_t *params);
/* instance of the graph for launches on this rung; NULL: none */
CUgraphExec cuda_graph_exec(const ds_device_graph *graph, uint32_t rung);
/* reports that a launch of the graph went to the GPU */
void cuda_graph_given(ds_device_graph *graph);
/* reports that a launch of the graph has completed; given: the GPU had received it */
void cuda_graph_put(ds_device *device, ds_device_graph *graph, int given);
int cuda_graph_asserts(const ds_device_graph *graph);
uint32_t cuda_graph_kernels(const ds_device_graph *graph);
/* Number of graph instances to build or destroy in a quiesce; cuda_graphs_put_off_do() does a part of that work. */
size_t cuda_graphs_put_off(const ds_device *device);
void cuda_graphs_put_off_do(ds_device *device);
void cuda_graphs_drop_going(ds_device *device); /* destroys all instances that no launch can use */
void cuda_graphs_free(ds_device *device);

/* hold.c: 1: the stream must hold its next operation back, because it already holds some or its hardware queue is
 * full */
int cuda_hold_must(const struct cuda_stream *stream);
/* Hold an operation of the stream. The operation's arguments are copied. 0, or -ENOMEM. */
int cuda_hold_launch(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_launch *launch);
int cuda_hold_copy(ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_copy *copy);
int cuda_hold_memset(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_memset *memset);
int cuda_hold_graph(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct ds_graph_launch *launch);
int cuda_hold_fence(ds_device *device, struct cuda_stream *from, uint64_t from_seq, struct cuda_stream *to);
/* Gives the GPU all held work that may go now. */
void cuda_hold_pump(ds_device *device);
/* Held work of this space (NULL: of all) completes with this status. */
void cuda_hold_cancel(ds_device *device, const struct cuda_space *space, int32_t status);
/* 1: the job was held and now completes with this status; 0: it is not held. */
int cuda_hold_cancel_job(ds_device *device, const struct cuda_job *job, int32_t status);
/* 1: a launch of another space that prints is held back. */
int cuda_hold_waits(const ds_device *device, uint32_t space);
void cuda_hold_free(ds_device *device);

/* poll.c */
size_t cuda_poll(ds_device *device, struct ds_completion *completions, size_t n);
uint64_t cuda_now(ds_device *device);
/* Makes the GPU report the end of all jobs of the stream, once it has made all reports requested before, unless more
 * jobs are certain to follow at once. */
void cuda_stream_tell(ds_device *device, struct cuda_stream *stream, uint64_t now_ns);
CUevent cuda_event_take(ds_device *device, int timed); /* NULL: out of memory, or the driver made no event (logged) */
void cuda_event_give(ds_device *device, int timed, CUevent event);
void cuda_events_free(ds_device *device);
struct cuda_job *cuda_job_new(ds_device *device, enum cuda_job_kind kind, struct cuda_space *space, uint64_t token);
void cuda_job_free(ds_device *device, struct cuda_job *job); /* returns its event to the pool */
void cuda_stream_push(ds_device *device, struct cuda_stream *stream, struct cuda_job *job);
/* Earliest possible start of a job, ns; UINT64_MAX: it waits for another stream. The job must be the oldest of its
 * stream that has not ended. */
uint64_t cuda_job_start(const struct cuda_stream *stream, const struct cuda_job *job);

/* form.c */
#define CUDA_PARAMS_MAX 32764u
/* A launch of a form other than the native one, turned into a plain launch: its grid and its parameters. */
struct cuda_form_launch {
        struct ds_launch plain;
        struct cuda_form *form; /* the kernel in the persistent form; NULL in other forms */
        uint8_t params[CUDA_PARAMS_MAX];
};
size_t cuda_forms_host_bytes(void);
/* host: registered memory of cuda_forms_host_bytes(), zero; NULL where the GPU's streams cannot write values.
 * Returns 0, or an error as ds_cuda_failed(). */
int cuda_forms_init(ds_device *device, void *host);
void cuda_forms_free(ds_device *device);
/* Turns a launch of a sliced or persistent form into a plain launch. 0; a CUDA error: OUT_OF_MEMORY when there is no
 * control block; or a negative errno. */
int cuda_form_make(ds_device *device, const struct ds_launch *launch, uint32_t rung, struct cuda_form_launch *ret);
/* cuda_form_launched(): the kernel is in flight as this job, until cuda_form_ended(). cuda_form_refused(): its
 * launch failed. */
void cuda_form_launched(struct cuda_form *form, struct cuda_job *job);
void cuda_form_refused(ds_device *device, struct cuda_form *form, const struct ds_launch *launch);
/* Called when the GPU has done a job of the persistent form. 1: the completion may be returned, and job->status is
 * set. 0: call again later. */
int cuda_form_collect(ds_device *device, struct cuda_job *job);
/* number of blocks done so far by the kernel of an evicted launch */
uint32_t cuda_form_done(const struct cuda_job *job);
/* called when the job is freed: no job has the form's kernel in flight any more */
void cuda_form_ended(ds_device *device, struct cuda_job *job);
/* Writes the state of a persistent launch's workers as text, with their control block's contents if these arrive
 * within wait_ns. */
void cuda_form_say(ds_device *device, const struct cuda_form *form, uint64_t wait_ns, char *ret, size_t size);
int cuda_evict(ds_device *device, uint64_t token);
void cuda_drop(ds_device *device, uint64_t token);
/* requests that the space's persistent launches on the GPU stop early */
void cuda_forms_abort(ds_device *device, uint32_t space);
/* drops the space's kernels that were evicted and wait to be resumed */
void cuda_forms_drop(ds_device *device, uint32_t space);

/* counter.c */
/* the cuda_forms_host_bytes() bytes behind the counters in the same registration; NULL: no counters */
void *cuda_counters_more(const ds_device *device);
/* 0, also when this GPU's streams cannot write counters; or an error as ds_cuda_failed() */
int cuda_counters_init(ds_device *device);
void cuda_counters_free(ds_device *device);
/* Submits a write of `number` behind all work of the stream: when the GPU has reached it, cuda_counter() is at least
 * number. */
CUresult cuda_counter_submit(ds_device *device, struct cuda_stream *stream, uint64_t number);
/* number that the GPU wrote last for this stream; 0 without counters */
uint64_t cuda_counter(const ds_device *device, const struct cuda_stream *stream);
/* Queries the driver from time to time while there is work: a lost context writes no counters. */
void cuda_counters_tend(ds_device *device, uint64_t now_ns);

/* the counter's word in host memory */
uint64_t *cuda_counter_of(const ds_device *device, const struct cuda_stream *stream);

/*
 * launcher.c: threads that make driver calls of launches. The functions are the owner's.
 */
/* 0, also where there is no thread; -ENOMEM */
int cuda_launcher_init(ds_device *device);
void cuda_launcher_free(ds_device *device);
/* 1: this call must or should be passed to a thread. followed: more work is queued behind the launch. */
int cuda_launcher_takes(
        ds_device *device, const struct cuda_stream *stream, const struct cuda_call *call, int followed);
/* Passes the call on. Waits while the ring is full. The driver's refusal becomes the job's status. */
void cuda_launcher_pass(
        ds_device *device, struct cuda_stream *stream, struct cuda_job *job, const struct cuda_call *call);
/* Waits until the threads have made all calls of the stream. Needed before any other driver call with the stream. */
void cuda_launcher_settle(ds_device *device, const struct cuda_stream *stream);
/* Takes the results of calls that the threads have made. */
void cuda_launcher_collect(ds_device *device);
/* 1: the stream's call of this number has not been collected; 0 also if number is 0. */
int cuda_launcher_has(const ds_device *device, const struct cuda_stream *stream, uint64_t number);

/* clock.c: converts the GPU's times to those of now() */
int cuda_clock_init(ds_device *device);
void cuda_clock_free(ds_device *device);
/* time of an event that is done, on the clock of now(); never later than now_ns */
uint64_t cuda_clock_of(ds_device *device, CUevent event, uint64_t now_ns);

/* output.c */
int cuda_output_init(ds_device *device);
void cuda_output_free(ds_device *device);
/* Called when a module that prints or asserts is loaded: from then on the driver's output to stdout (prints) or
 * stderr (asserts) is captured. 0 or a negative errno. */
int cuda_output_catch(ds_device *device, int prints, int asserts);
/* 1: a launch that prints may go to the GPU now, because no printing launch of another space is in flight or waits. */
int cuda_output_may_launch(ds_device *device, uint32_t space);
void cuda_output_launched(ds_device *device, uint32_t space);
/* Called when a job that prints has ended. 1: its text has arrived, so its completion may be returned. 0: call again
 * later. */
int cuda_output_collect(ds_device *device, struct cuda_job *job, uint64_t now_ns);
/* Called when an assertion has ended the context: assigns the assertion's text to this space. */
void cuda_output_asserted(ds_device *device, uint32_t space);
int cuda_output(ds_device *device, struct ds_device_output *ret);

/* flush.c: makes the driver write all text of kernels that have ended. 0, or a negative errno. */
int cuda_flush_new(ds_device *device, CUstream idle, struct cuda_flush **ret);
struct cuda_flush *cuda_flush_free(struct cuda_flush *flush);
void cuda_flush_ask(struct cuda_flush *flush); /* one request at a time */
/* 1, only once per request: the request has ended, with *ret; 0: not yet */
int cuda_flush_ended(struct cuda_flush *flush, CUresult *ret);

/*
 * loader.c: tasks on a thread of their own, one after the other. Between cuda_loader_ask() and cuda_loader_ended() only
 * the task's own code may access the task. Each task comes back once: from cuda_loader_ended(), or in the list that
 * cuda_loader_free() returns after it has ended the thread (without a task that a lost context keeps in the driver).
 * cuda_loader_ask() returns 0, or a negative errno: then the loader did not take the task.
 */
struct cuda_task {
        void (*work)(const struct ds_cuda_driver *driver, struct cuda_task *task);
        struct cuda_task *prev, *next;
};
int cuda_loader_ask(ds_device *device, struct cuda_task *task);
struct cuda_task *cuda_loader_ended(ds_device *device); /* next task that has ended; NULL: none */
struct cuda_task *cuda_loader_free(ds_device *device);

/* fault.c */
int cuda_lost(ds_device *device);
int cuda_fault_ends(CUresult result); /* 1: this result means that the context is lost */
/* The driver reports a lost context: every job in flight becomes a completion. */
void cuda_fault_note(ds_device *device, CUresult result);
/* Declares the context lost because of this job, the oldest of its stream: the job, or fetching its text, takes too
 * long, and only the end of the process ends it. */
void cuda_fault_timeout(ds_device *device, struct cuda_job *job);
/* Describes a space's jobs in flight, and their state, for the log. */
void cuda_stuck(ds_device *device, uint32_t space, char *ret, size_t size);
/* The message of a job's completion; status is not 0. */
void cuda_fault_message(const ds_device *device, const struct cuda_job *job, int32_t status, char *ret, size_t size);
