/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 without a GPU: a test tool that is never installed
 *
 * It exports the driver functions that the daemon's cuda device uses (DS_CUDA_FUNCTIONS) and performs them on the
 * simulated device. So `detshared --device cuda:0` and everything above it runs with real results on a machine without
 * a GPU. Measurements on it say nothing about a GPU. The device's name is "DetShare fake H200"; code that labels
 * figures searches for that word.
 *
 *   state.c    entering a call: the lock, injected errors, the log, calls that are forbidden now
 *   device.c   the device, its primary context, limits
 *   green.c    SM resources, green contexts, streams
 *   queue.c    work in flight, events, waiting, output of kernels
 *   memory.c   reservations, VMM memory, registered host memory
 *   module.c   libraries and kernels
 *   work.c     launches, copies, memsets
 *   graph.c    graphs of these
 *   tensor.c   tensor maps: checked arguments, stored unchanged
 *
 * Time: the sim's virtual clock follows real time. Every call that queries progress advances it to now; it stops while
 * the CPU executes a kernel.
 *
 * Like a real context: all kernels share one address space; the first fault ends the context, and from then on every
 * call returns that error; calls that stop a real context wait for all work here, too; new memory contains data of
 * earlier owners.
 *
 * Unlike a real context: there is no legacy default stream, no arrays, no host functions; a wait for an event waits for
 * everything submitted to the event's stream before the wait; memory kept alive only by an exported descriptor is not
 * counted.
 *
 * Environment, read by the first call:
 *   FAKE_CUDA_CLUSTERS 1: the device reports support for clusters
 *   FAKE_CUDA_FAIL    "cuMemCreate:3:2[,...]": the third cuMemCreate returns CUresult 2; n = 0: every call
 *   FAKE_CUDA_LOG     a file: one line per call, "NAME idle" or "NAME busy" (clients' work was in flight), or
 *                     "NAME refused"; calls that only query progress are not logged
 *   FAKE_CUDA_MEMOPS  0: streams cannot write values
 *   FAKE_CUDA_STRICT  1: a call that stops a real context, made while work is in flight, aborts the process
 */
#pragma once

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/sim/internal.h"
#include "util/alloc.h"
#include "util/macro.h"

#include <utlist.h>

#define FAKE_API __attribute__((visibility("default"))) CUresult CUDAAPI

#define FAKE_SPACE 1u
#define FAKE_SLOTS (DS_DEVICE_PRIORITIES * DS_DEVICE_STREAMS_PER_RUNG)
#define FAKE_CONTEXT_BYTES DS_MIB(32) /* memory of the primary context in cuMemGetInfo */
#define FAKE_GREEN_BYTES DS_MIB(4)    /* memory of each green context */

/* A stream is a slot of its rung's fixed pool. Work that an earlier stream of this slot has submitted runs first. */
struct CUstream_st {
        uint32_t id; /* number of the stream in the sim */
        bool in_use;
        int priority;
        /* numbers of submissions and completions; the sim's token of a job is the stream's id and the number */
        uint64_t submitted, done;
        uint64_t serious; /* number of the last submission that counts as clients' work */
        uint64_t done_ns; /* time of the last change of `done` */
        CUevent pending;  /* recorded events that the stream has not reached, oldest first */
};

struct CUevent_st {
        bool timing, recorded, reached;
        CUstream stream;
        uint64_t count; /* the event is reached when the stream has completed this many submissions */
        uint64_t time_ns;
        CUevent prev, next; /* links in the stream's pending list */
        CUevent all_prev, all_next;
        /* internal event: the stream writes value to this address when it reaches the event */
        uint64_t *write, value;
        bool narrow; /* 1: the stream writes only the lower half of value */
};

enum fake_rung_owner {
        FAKE_RUNG_FREE,
        FAKE_RUNG_PRIMARY,
        FAKE_RUNG_GREEN,
};

/* A rung of the sim, at the index of its number. A green context is a rung. Free rungs are reused. */
struct CUgreenCtx_st {
        enum fake_rung_owner owner;
        struct CUstream_st streams[FAKE_SLOTS];
};

struct fake_range {
        uint64_t va, size;
        struct fake_handle *handle;  /* mapped memory; NULL for a reservation */
        bool accessible;             /* 1: the mapping is known to the sim, so kernels can access it */
        ds_device_module *registrar; /* for registered host memory: an empty module that owns the sim's region */
        struct fake_range *prev, *next;
};

/* Memory made by cuMemCreate or imported: the sim's slab file. */
struct fake_handle {
        int fd;
        uint64_t size;
        uint32_t refs; /* number of references: the caller's, and one per mapping */
        bool released, exportable;
        struct fake_handle *prev, *next;
};

/* CUfunction is a pointer to one of these as well. */
struct CUkern_st {
        CUlibrary library;
        const ds_device_kernel *kernel;
        int max_dynamic;
        bool loaded; /* 1: the kernel is loaded into the context, so a launch does not stop the context */
};

struct CUlib_st {
        ds_device_module *module;
        bool there; /* 1: the library's code is in the context */
        struct CUkern_st *kernels;
        size_t n_kernels;
        CUlibrary prev, next;
};

struct fake_state {
        bool initialised, strict, eager;
        int log_fd;
        uint32_t retains;
        ds_device *device; /* NULL without a primary context */
        uint64_t start_ns;
        CUresult lost;
        uint32_t n_greens;
        struct CUgreenCtx_st *rungs[DS_DEVICE_RUNGS_MAX];
        uint32_t n_rungs;
        uint64_t limits[CU_LIMIT_MAX];
        struct fake_range *reserved, *holes, *mapped, *registered;
        struct fake_handle *handles;
        CUlibrary libraries;
        CUevent events; /* kept after the loss of a context, since nothing destroys events then */
        char *text[2];  /* output of kernels for stdout and stderr */
        size_t text_size[2];
};

extern struct fake_state fake;
extern const struct ds_device_ops *const fake_sim;

/* --- state.c --- */
enum fake_needs {
        FAKE_NOTHING,
        FAKE_INIT,    /* the call needs an earlier cuInit */
        FAKE_CONTEXT, /* the call needs a current context that is not lost */
        FAKE_ASKS,    /* like FAKE_CONTEXT, but without a log line */
        FAKE_STOPS,   /* like FAKE_CONTEXT, and the call waits for all work */
};
/* Begins a call with these needs. Takes the lock, also on failure. */
CUresult fake_enter(const char *name, enum fake_needs needs);
/* Waits for all work, as this call would in a real context. Aborts under FAKE_CUDA_STRICT. */
CUresult fake_stop(const char *name);
void fake_unlock(void);
CUresult fake_result(int r); /* converts the result of an operation of the sim */
uint64_t fake_clock(void);

/* Begins every exported function. Injections and the log use the call's unversioned name. */
#define FAKE_ENTER(name, needs)                                  \
        ds_cleanup(fake_leave) ds_unused int fake_entered = 1;   \
        CUresult fake_refused = fake_enter(#name, FAKE_##needs); \
                                                                 \
        if (fake_refused)                                        \
        return fake_refused

static inline void fake_leave(int *entered)
{
        fake_unlock();
}

/* --- device.c --- */
extern __thread CUcontext fake_current;
uint64_t fake_memory(void);

/* --- green.c --- */
CUresult fake_rung_take(const struct ds_tpc_mask *mask, bool coarse, enum fake_rung_owner owner, CUgreenCtx *ret);
void fake_rungs_free(void);
CUresult fake_stream_take(CUgreenCtx rung, int priority, CUstream *ret);
bool fake_stream_ok(CUstream stream);

/* --- queue.c --- */
uint64_t fake_token(const struct CUstream_st *stream);
/* Handles the sim's acceptance (r == 0) or refusal of a submission with fake_token. serious: a client's work. */
CUresult fake_submitted(CUstream stream, int r, bool serious);
void fake_pump(void);                /* advances the clock and takes completions */
bool fake_busy(void);                /* 1: clients' work is in flight */
CUresult fake_wait(CUstream stream); /* waits for the stream's work; NULL: of all streams */
void fake_flush(void);               /* writes the output of kernels */

/* --- memory.c --- */
void fake_memory_reset(void); /* removes all mappings when the context ends */
bool fake_covers(uint64_t va, uint64_t size);
bool fake_is_device(uint64_t va);

/* --- work.c --- */
CUresult fake_launch(struct CUkern_st *kernel, CUstream stream, struct ds_launch *launch, void **params, void **extra);
/* dst_host, src_host: that end may be unregistered host memory */
CUresult fake_copy(CUstream stream, struct ds_copy *copy, bool dst_host, bool src_host);
CUresult fake_fill(CUstream stream, uint64_t dst, uint64_t pitch, uint64_t value, uint32_t element, uint64_t width,
        uint64_t height);

/* --- module.c --- */
void fake_libraries_free(void);
/* The kernel of a CUfunction or CUkernel, NULL if it is neither. */
struct CUkern_st *fake_kernel(const void *handle);
