/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda device's own structures and the functions its files offer each other
 *
 *   driver.c    the genuine libcuda, by path             cuda.c      open, close, the vtable
 *   topology.c  TPCs, GPCs, what the device says of itself   rung.c  green contexts and their streams
 *   memory.c    slabs, pinned memory, spaces, clearing   limit.c     the context's limits, local memory
 *   module.c    libraries, kernels, the cache of images  work.c      launches, copies, memsets, fences
 *   poll.c      completions and their times              output.c    printf and assert
 *   fault.c     a lost context and who did it
 *
 * One thread. Nothing here blocks except the calls marked [stops] in device.h, and what open does before serving. The
 * laws of the shared context (docs/ARCHITECTURE.md): nothing is submitted that waits for something not yet submitted;
 * rungs, their streams and the pool of events exist before serving; memory is VMM only.
 *
 * Isolation: all spaces share the one context, so a kernel that computes a wrong address can reach another session's
 * memory; what the worker checks are the addresses in arguments of copies and memsets.
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

struct cuda_space;
struct cuda_stream;

enum cuda_job_kind {
        CUDA_JOB_LAUNCH,
        CUDA_JOB_COPY,
        CUDA_JOB_MEMSET,
        _CUDA_JOB_KIND_MAX,
};

/* One operation on the GPU, from submission until poll has given it back. */
struct cuda_job {
        uint64_t token;
        enum cuda_job_kind kind;
        uint32_t space;
        const ds_device_kernel *kernel; /* of a launch; its module counts its jobs */
        uint32_t grid[3], block[3];     /* for messages */
        CUevent event;                  /* recorded behind it */
        uint64_t submit_ns;
        struct cuda_job *next; /* in its stream, or in the free list */
};

/* A CUDA stream of a rung: jobs in order; the streams that have some are on the device's list. */
struct cuda_stream {
        CUstream stream;
        uint32_t id; /* ds_device_stream() */
        struct cuda_job *head, *tail;
        uint32_t n_jobs;
        uint64_t last_end_ns; /* of the job before head */
        uint64_t clear_seen;  /* see ds_device.clear_seq */
        struct cuda_stream *busy_prev, *busy_next;
};

struct cuda_rung {
        struct ds_rung_info info;
        CUgreenCtx green;
        struct cuda_stream streams[CUDA_STREAMS_PER_RUNG];
};

/* Device memory or pinned host memory of a space. */
struct cuda_mapping {
        uint64_t va, size;
        int host;
        uint64_t clear_seq; /* device: its clearing has this number, 0 = needed none */
        struct cuda_mapping *prev, *next;
};

struct cuda_space {
        uint32_t id;
        UT_hash_handle hh;
        struct cuda_mapping *mappings;
        uint32_t n_jobs; /* in flight */
};

/* A slab made here that has not been mapped yet: by the identity of its file. */
struct cuda_fresh;

struct ds_device {
        struct ds_cuda_driver driver;
        CUdevice ordinal;
        CUcontext primary;
        struct ds_device_info info;
        uint64_t start_ns;

        /* topology.c: one resource per TPC, all from one split of the device's SMs */
        CUdevResource *tpc; /* info.n_tpcs of them */

        /* rung.c */
        struct cuda_rung *rungs[DS_DEVICE_RUNGS_MAX];
        uint32_t n_rungs;
        int priority[DS_DEVICE_PRIORITIES]; /* CUDA's numbers */
        CUstream own_stream;                /* all SMs, high priority: clearing */

        /* memory.c */
        struct cuda_space *spaces; /* hash by id */
        struct cuda_fresh *fresh;
        /*
         * Clearings are numbered and run in order on own_stream. clear_event is recorded behind the last one; a stream
         * waits for it before its next job when its clear_seen is behind clear_seq. clear_done: found finished.
         */
        uint64_t clear_seq, clear_done;
        CUevent clear_event;

        /* module.c */
        ds_device_module *modules; /* all of them, in use or only cached */
        uint64_t cached_bytes;     /* images of those nobody uses */

        /* limit.c */
        uint64_t limits[_DS_LIMIT_MAX];

        /* work.c, poll.c */
        struct cuda_stream *busy; /* streams with jobs */
        struct cuda_job *free_jobs;
        CUevent *free_events;
        size_t n_free_events, n_events;
        uint32_t n_jobs;
        /* what poll found and had no room to give, fault's tokens among them; a ring buffer */
        struct ds_completion *ready;
        size_t ready_head, ready_n, ready_cap;

        /* output.c */
        struct cuda_output *output;

        /* fault.c */
        CUresult lost;
};

/* Log the call that failed and fold its result: OUT_OF_MEMORY is contract, a lost context is noted (fault.c). */
int ds_cuda_failed(ds_device *device, CUresult result, const char *what);

/* topology.c: fills info and device->tpc; the context is current. 0, -ENODEV with a line in the log, or an errno. */
int cuda_topology_discover(ds_device *device);

/* rung.c */
int cuda_rung_create(ds_device *device, const struct ds_tpc_mask *mask, uint32_t *ret_rung);
const struct ds_rung_info *cuda_rung_info(ds_device *device, uint32_t rung);
struct cuda_stream *cuda_stream_at(ds_device *device, uint32_t id); /* NULL: no such */
void cuda_rungs_free(ds_device *device);

/* memory.c */
struct cuda_space *cuda_space_find(ds_device *device, uint32_t id);
int cuda_space_add(ds_device *device, uint32_t id);
int cuda_space_remove(ds_device *device, uint32_t id);
int cuda_mem_create(ds_device *device, uint64_t size, int *ret_fd);
int cuda_mem_map(ds_device *device, uint32_t space, int fd, uint64_t va, uint64_t size);
int cuda_mem_unmap(ds_device *device, uint32_t space, uint64_t va, uint64_t size);
int cuda_mem_cleared(ds_device *device, uint32_t space, uint64_t va);
int cuda_host_map(ds_device *device, uint32_t space, int fd, uint64_t va, uint64_t size);
int cuda_host_unmap(ds_device *device, uint32_t space, uint64_t va, uint64_t size);
/* Before the next job on a stream: what was cleared must have been. 0 or as ds_cuda_failed. */
int cuda_memory_order(ds_device *device, struct cuda_stream *stream);
void cuda_spaces_free(ds_device *device);

/* limit.c */
int cuda_limits_init(ds_device *device);
int cuda_limit_raise(ds_device *device, enum ds_device_limit limit, uint64_t value);
uint64_t cuda_limit_get(ds_device *device, enum ds_device_limit limit);
/* A module whose kernels use this much local memory per thread is being loaded: let its launches not stop the context.
 * 0, DS_CUDA_OUT_OF_MEMORY, or a negative errno. */
int cuda_limit_local(ds_device *device, uint64_t bytes_per_thread);

/* module.c; the operations are those of device.h */
int cuda_module_cached(ds_device *device, const void *image, size_t size);
int cuda_module_load(ds_device *device, uint32_t space, const void *image, size_t size, char *log, size_t log_size,
        ds_device_module **ret);
ds_device_module *cuda_module_unload(ds_device *device, ds_device_module *module);
const ds_device_kernel *cuda_kernel_find(ds_device_module *module, const char *name);
const ds_device_kernel *cuda_kernel_at(ds_device_module *module, size_t index);
const struct ds_kernel_info *cuda_kernel_info(const ds_device_kernel *kernel);
int cuda_global_find(ds_device_module *module, const char *name, uint64_t *ret_va, uint64_t *ret_size);
int cuda_module_has_globals(ds_device_module *module);
size_t cuda_put_off(ds_device *device);
void cuda_put_off_do(ds_device *device);
void cuda_modules_free(ds_device *device);
CUfunction cuda_kernel_function(const ds_device_kernel *kernel);
int cuda_kernel_prints(const ds_device_kernel *kernel);

/* work.c */
int cuda_work_init(ds_device *device); /* the pool of events */
void cuda_work_free(ds_device *device);
int cuda_launch(ds_device *device, const struct ds_launch *launch, uint64_t token);
int cuda_copy(ds_device *device, const struct ds_copy *copy, uint64_t token);
int cuda_memset(ds_device *device, const struct ds_memset *memset, uint64_t token);
int cuda_fence(ds_device *device, uint32_t from, uint32_t to);
void cuda_abort(ds_device *device, uint32_t space);

/* poll.c */
size_t cuda_poll(ds_device *device, struct ds_completion *completions, size_t n);
uint64_t cuda_now(ds_device *device);
void cuda_job_free(ds_device *device, struct cuda_job *job); /* its event goes back to the pool */

/* output.c */
int cuda_output_init(ds_device *device);
void cuda_output_free(ds_device *device);
/* A launch that prints: 1 when it may go now (nothing of another space that prints is in flight). */
int cuda_output_may_launch(ds_device *device, uint32_t space);
void cuda_output_launched(ds_device *device, uint32_t space);
/* The job has ended: take what it printed, before its completion is given. */
void cuda_output_collect(ds_device *device, struct cuda_stream *stream, uint32_t space);
int cuda_output(ds_device *device, struct ds_device_output *ret);

/* fault.c */
int cuda_lost(ds_device *device);
/* The driver says that the context is gone: every job in flight becomes a completion. */
void cuda_fault_note(ds_device *device, CUresult result);
