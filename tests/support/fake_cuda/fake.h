/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 without a GPU: a test tool, never installed, never part of the product
 *
 * It exports the driver functions that the daemon's cuda device uses (DS_CUDA_FUNCTIONS) and carries them out on the
 * simulated device, so that `detshared --device cuda:0` and everything above it can be run, with real results, on a
 * machine that has no GPU. Nothing measured on it says anything about a GPU. The device calls itself "DetShare fake
 * H200", and whoever labels a figure looks for that word.
 *
 *   state.c    entering a call: the lock, injected errors, the log, what may not be called now
 *   device.c   the device, its primary context, limits
 *   green.c    SM resources, green contexts, streams
 *   queue.c    what is in flight, events, waiting, what kernels printed
 *   memory.c   reservations, VMM memory, registered host memory
 *   module.c   libraries and kernels
 *   work.c     launches, copies, memsets
 *   graph.c    graphs of these
 *   tensor.c   tensor maps: checked arguments, written down as they came
 *
 * Time: the sim's virtual clock follows the real one. Every call that asks lets it run up to now; it stands where a
 * kernel is still being executed by the CPU.
 *
 * Like a real context: one address space for everybody's kernels; the first fault ends it, and from then on every call
 * gives that error; calls that stop a real context wait here for all work too; new memory holds other people's bytes.
 *
 * Not like one: the legacy default stream, arrays, host functions; a wait for an event waits for
 * everything that was submitted to the event's stream up to the wait; memory that is only kept alive by an exported fd
 * is not counted.
 *
 * Environment, read by the first call:
 *   FAKE_CUDA_CLUSTERS 1: it says that it knows clusters
 *   FAKE_CUDA_FAIL    "cuMemCreate:3:2[,...]": the third cuMemCreate gives CUresult 2; n = 0: every call
 *   FAKE_CUDA_LOG     a file: one line per call, "NAME idle" or "NAME busy" (work of clients was in flight), or
 *                     "NAME refused"; other calls that only ask whether something is done are left out
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
#define FAKE_CONTEXT_BYTES DS_MIB(32) /* what cuMemGetInfo says that the primary context takes */
#define FAKE_GREEN_BYTES DS_MIB(4)    /* and each green one */

/* A stream is a slot of its rung's fixed pool; what was submitted to a slot before it was given out comes first. */
struct CUstream_st {
        uint32_t id; /* of the sim */
        bool in_use;
        int priority;
        uint64_t submitted, done; /* counts; the sim's token is id and count */
        uint64_t serious;         /* the last submission that counts as work of clients */
        uint64_t done_ns;         /* when `done` moved last */
        CUevent pending;          /* recorded and not reached, oldest first */
};

struct CUevent_st {
        bool timing, recorded, reached;
        CUstream stream;
        uint64_t count; /* reached when the stream has done so many */
        uint64_t time_ns;
        CUevent prev, next; /* in the stream's pending list */
        CUevent all_prev, all_next;
        uint64_t *write, value; /* nobody's event: value is written there when it is reached, */
        bool narrow;            /* or its lower half */
};

enum fake_rung_owner {
        FAKE_RUNG_FREE,
        FAKE_RUNG_PRIMARY,
        FAKE_RUNG_GREEN,
};

/* A rung of the sim, at the index that is its number there; a green context is one. Free ones are used again. */
struct CUgreenCtx_st {
        enum fake_rung_owner owner;
        struct CUstream_st streams[FAKE_SLOTS];
};

struct fake_range {
        uint64_t va, size;
        struct fake_handle *handle;  /* of a mapping */
        bool accessible;             /* of a mapping: known to the sim */
        ds_device_module *registrar; /* of registered host memory: an empty module that the sim's region belongs to */
        struct fake_range *prev, *next;
};

/* Memory made by cuMemCreate or imported: the sim's slab file. */
struct fake_handle {
        int fd;
        uint64_t size;
        uint32_t refs; /* the caller's, and mappings */
        bool released, exportable;
        struct fake_handle *prev, *next;
};

/* CUfunction is a pointer to one of these as well. */
struct CUkern_st {
        CUlibrary library;
        const ds_device_kernel *kernel;
        int max_dynamic;
        bool loaded; /* into the context: launching it stops nothing */
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
        CUevent events; /* of a lost context nobody destroys them */
        char *text[2];  /* printed by kernels, for stdout and stderr */
        size_t text_size[2];
};

extern struct fake_state fake;
extern const struct ds_device_ops *const fake_sim;

/* --- state.c --- */
enum fake_needs {
        FAKE_NOTHING,
        FAKE_INIT,    /* cuInit */
        FAKE_CONTEXT, /* a current context that is not lost */
        FAKE_ASKS,    /* the same, and is not logged */
        FAKE_STOPS,   /* the same, and the call waits for all work */
};
/* Takes the lock whatever it returns. */
CUresult fake_enter(const char *name, enum fake_needs needs);
/* Waits for all work, as the call of that name would in a real context; a crash where that is forbidden. */
CUresult fake_stop(const char *name);
void fake_unlock(void);
CUresult fake_result(int r); /* what an operation of the sim returned */
uint64_t fake_clock(void);

/* Opens every exported function. The call's unversioned name is what injections and the log speak of. */
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
/* The sim took (r == 0) or refused what was submitted with fake_token; serious: work of a client. */
CUresult fake_submitted(CUstream stream, int r, bool serious);
void fake_pump(void);                /* let the clock follow and take what has ended */
bool fake_busy(void);                /* some client's work is in flight */
CUresult fake_wait(CUstream stream); /* NULL: everything */
void fake_flush(void);               /* what kernels printed goes out */

/* --- memory.c --- */
void fake_memory_reset(void); /* the context goes: nothing is mapped any more */
bool fake_covers(uint64_t va, uint64_t size);
bool fake_is_device(uint64_t va);

/* --- work.c --- */
CUresult fake_launch(struct CUkern_st *kernel, CUstream stream, struct ds_launch *launch, void **params, void **extra);
/* host: which ends may be host memory that nobody registered */
CUresult fake_copy(CUstream stream, struct ds_copy *copy, bool dst_host, bool src_host);
CUresult fake_fill(CUstream stream, uint64_t dst, uint64_t pitch, uint64_t value, uint32_t element, uint64_t width,
        uint64_t height);

/* --- module.c --- */
void fake_libraries_free(void);
/* The kernel behind a CUfunction or CUkernel, NULL when it is neither. */
struct CUkern_st *fake_kernel(const void *handle);
