/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 without a GPU: a test tool, never installed, never part of the product
 *
 * It exports the driver functions that the daemon's cuda device uses (DS_CUDA_FUNCTIONS) and executes them on the
 * simulated device. So `detshared --device cuda:0` and everything above it runs, with real results, on a machine
 * without a GPU. Measurements on it say nothing about a GPU. The device calls itself "DetShare fake H200", and
 * everything that labels figures looks for that word.
 *
 *   state.c    entering a call: the lock, injected errors, the log, forbidden calls
 *   device.c   the device, its primary context, limits
 *   green.c    SM resources, green contexts, streams
 *   queue.c    work in flight, events, waiting, output of kernels
 *   memory.c   reservations, VMM memory, registered host memory
 *   module.c   libraries and kernels
 *   work.c     launches, copies, memsets
 *   graph.c    graphs of these
 *   tensor.c   tensor maps: checks arguments and stores them unchanged
 *
 * Time: the sim's virtual clock follows the real one. Every query lets it advance to the present; it stands still while
 * the CPU executes a kernel.
 *
 * Like a real context: one address space for all kernels; the first fault ends the context, and every later call
 * returns that error; calls that stop a real context wait for all work; new memory contains bytes of earlier owners.
 *
 * Unlike one: no legacy default stream, arrays or host functions; a wait for an event waits for everything submitted to
 * the event's stream before the wait; memory that only an exported fd keeps alive is not counted.
 *
 * Environment, read by the first call:
 *
 *   FAKE_CUDA_CLUSTERS 1: the device reports clusters
 *   FAKE_CUDA_FAIL    "cuMemCreate:3:2[,...]": the third cuMemCreate returns CUresult 2; n = 0: every call
 *   FAKE_CUDA_LOG     a file: one line per call, "NAME idle" or "NAME busy" (work of clients was in flight), or
 *                     "NAME refused"; no lines for calls that only query progress
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
#define FAKE_CONTEXT_BYTES DS_MIB(32) /* memory of the primary context in cuMemGetInfo, bytes */
#define FAKE_GREEN_BYTES DS_MIB(4)    /* memory of each green context, bytes */

/* A stream is a slot of its rung's fixed pool. Work submitted to the slot by its earlier owner comes first. */
struct CUstream_st {
        uint32_t id; /* stream number in the sim */
        bool in_use;
        int priority;
        uint64_t submitted, done; /* counts; the sim's token is id and count */
        uint64_t serious;         /* last submission that counts as work of clients */
        uint64_t done_ns;         /* time of the last change of `done` */
        CUevent pending;          /* events recorded and not reached, oldest first */
};

struct CUevent_st {
        bool timing, recorded, reached;
        CUstream stream;
        uint64_t count; /* value of the stream's `done` at which it is reached */
        uint64_t time_ns;
        CUevent prev, next; /* in the stream's pending list */
        CUevent all_prev, all_next;
        uint64_t *write, value; /* not an event: the value is written there when it is reached, */
        bool narrow;            /* or its lower half */
};

enum fake_rung_owner {
        FAKE_RUNG_FREE,
        FAKE_RUNG_PRIMARY,
        FAKE_RUNG_GREEN,
};

/* A rung of the sim; the index is its number there. A green context is one. Free entries are reused. */
struct CUgreenCtx_st {
        enum fake_rung_owner owner;
        struct CUstream_st streams[FAKE_SLOTS];
};

struct fake_range {
        uint64_t va, size;
        struct fake_handle *handle;  /* address of a mapping */
        bool accessible;             /* the sim knows this mapping */
        ds_device_module *registrar; /* registered host memory: the empty module to which the sim's region belongs */
        struct fake_range *prev, *next;
};

/* Memory made by cuMemCreate or imported: the sim's slab file. */
struct fake_handle {
        int fd;
        uint64_t size;
        uint32_t refs; /* references of the caller and of mappings */
        bool released, exportable;
        struct fake_handle *prev, *next;
};

/* CUfunction is a pointer to one of these as well. */
struct CUkern_st {
        CUlibrary library;
        const ds_device_kernel *kernel;
        int max_dynamic;
        bool loaded; /* load into the context: launching it stops nothing */
};

struct CUlib_st {
        ds_device_module *module;
        bool there; /* its code is in the context */
        struct CUkern_st *kernels;
        size_t n_kernels;
        CUlibrary prev, next;
};

struct fake_state {
        bool initialised, strict, eager;
        int log_fd;
        uint32_t retains;
        ds_device *device; /* while the primary context lives */
        uint64_t start_ns;
        CUresult lost;
        uint32_t n_greens;
        struct CUgreenCtx_st *rungs[DS_DEVICE_RUNGS_MAX];
        uint32_t n_rungs;
        uint64_t limits[CU_LIMIT_MAX];
        struct fake_range *reserved, *holes, *mapped, *registered;
        struct fake_handle *handles;
        CUlibrary libraries;
        CUevent events; /* objects of a lost context, which nobody destroys */
        char *text[2];  /* output of kernels, for stdout and stderr */
        size_t text_size[2];
};

extern struct fake_state fake;
extern const struct ds_device_ops *const fake_sim;

/* --- state.c --- */
enum fake_needs {
        FAKE_NOTHING,
        FAKE_INIT,    /* cuInit */
        FAKE_CONTEXT, /* a current context that is not lost */
        FAKE_ASKS,    /* the same, without a line in the log */
        FAKE_STOPS,   /* the same, and the call waits for all work */
};
/* Takes the lock whatever it returns. */
CUresult fake_enter(const char *name, enum fake_needs needs);
/* Waits for all work, as that call does in a real context; aborts if FAKE_CUDA_STRICT forbids it. */
CUresult fake_stop(const char *name);
void fake_unlock(void);
CUresult fake_result(int r); /* the CUresult for a result of the sim */
uint64_t fake_clock(void);

/* Opens every exported function. Injections and the log use the call's unversioned name. */
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
/* The sim took (r == 0) or refused the submission with fake_token; serious: work of a client. */
CUresult fake_submitted(CUstream stream, int r, bool serious);
void fake_pump(void);                /* Advances the clock and handles completions. */
bool fake_busy(void);                /* work of clients is in flight */
CUresult fake_wait(CUstream stream); /* NULL: everything */
void fake_flush(void);               /* writes the output of kernels */

/* --- memory.c --- */
void fake_memory_reset(void); /* the context ends: removes all mappings */
bool fake_covers(uint64_t va, uint64_t size);
bool fake_is_device(uint64_t va);

/* --- work.c --- */
CUresult fake_launch(struct CUkern_st *kernel, CUstream stream, struct ds_launch *launch, void **params, void **extra);
/* host: which ends may be unregistered host memory */
CUresult fake_copy(CUstream stream, struct ds_copy *copy, bool dst_host, bool src_host);
CUresult fake_fill(CUstream stream, uint64_t dst, uint64_t pitch, uint64_t value, uint32_t element, uint64_t width,
        uint64_t height);

/* --- module.c --- */
void fake_libraries_free(void);
/* The kernel of a CUfunction or CUkernel; NULL if it is neither. */
struct CUkern_st *fake_kernel(const void *handle);
