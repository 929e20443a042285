/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device vtable: all that the daemon may ask of a GPU
 *
 * Two complete implementations stand behind it: `sim`, a GPU in software that executes PTX on the CPU under a virtual
 * clock, and `cuda`, a real GPU. Everything above (scheduler, worker) and every device test runs on both.
 *
 * Rules that hold for both:
 *  - All calls come from one thread, the owner. None blocks: work is submitted with a token and comes back from poll().
 *  - A stream is an in-order queue of a rung. Rungs and their fixed pools of streams are built before serving
 *    (rung_create) and never afterwards.
 *  - Memory is made in slabs with an exportable file descriptor, mapped at an address the caller chooses, so that it
 *    can outlive this process and be mapped at the same address by the next one.
 *  - Addresses, kernels and mappings belong to a `space` (one session's memory). Work runs in one space and may touch
 *    only that.
 *  - Times are nanoseconds of the device's clock: real monotonic time on a GPU, the virtual clock on the sim.
 *
 * Status values in completions and returned positive codes are CUDA's error numbers (CUresult), so that they can travel
 * to the client unread; negative returns are fatal errno values.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ptx/pass/forms.h"

typedef struct ds_device ds_device;
typedef struct ds_device_kernel ds_device_kernel;
typedef struct ds_device_module ds_device_module;
typedef struct ds_device_graph ds_device_graph;

/* The CUresult values that the daemon itself speaks; numbers are CUDA's public ones. */
enum ds_cuda_error {
        DS_CUDA_SUCCESS = 0,
        DS_CUDA_INVALID_VALUE = 1,
        DS_CUDA_OUT_OF_MEMORY = 2,
        DS_CUDA_NOT_INITIALIZED = 3,
        DS_CUDA_NO_DEVICE = 100,
        DS_CUDA_INVALID_IMAGE = 200,
        DS_CUDA_NO_BINARY_FOR_GPU = 209,
        DS_CUDA_INVALID_PTX = 218,
        DS_CUDA_INVALID_HANDLE = 400,
        DS_CUDA_NOT_FOUND = 500,
        DS_CUDA_NOT_READY = 600,
        DS_CUDA_ILLEGAL_ADDRESS = 700,
        DS_CUDA_LAUNCH_OUT_OF_RESOURCES = 701,
        DS_CUDA_LAUNCH_TIMEOUT = 702,
        DS_CUDA_ASSERT = 710,
        DS_CUDA_ILLEGAL_INSTRUCTION = 715,
        DS_CUDA_MISALIGNED_ADDRESS = 716,
        DS_CUDA_LAUNCH_FAILED = 719,
        DS_CUDA_NOT_SUPPORTED = 801,
        DS_CUDA_INVALID_CLUSTER_SIZE = 912,
        DS_CUDA_UNKNOWN = 999,
};

#define DS_DEVICE_KILLED 100000  /* status of a completion: the kernel was ended by kill(); no CUDA error */
#define DS_DEVICE_EVICTED 100001 /* ... : it let go at a block's end, see evict(); no CUDA error */
#define DS_DEVICE_ATTRIBUTES 160 /* attributes[id] for CUdevice_attribute id; 0 = unknown */
#define DS_DEVICE_TPCS_MAX 128
#define DS_DEVICE_RUNGS_MAX 64
#define DS_DEVICE_GROUPS_MAX 32      /* a bit each in a word */
#define DS_DEVICE_STREAMS_PER_RUNG 8 /* per priority level */
#define DS_DEVICE_PRIORITIES 2       /* 0 = high (LS), 1 = low (BE) */
#define DS_DEVICE_MESSAGE_MAX 200
#define DS_DEVICE_GPC_NONE 255u
#define DS_DEVICE_CLUSTER_MAX 16u /* blocks */
#define DS_DEVICE_CLUSTER_ASKED \
        1024u /* blocks of a cluster that clusters() may be asked for; none that large can run */

struct ds_tpc_mask {
        uint64_t word[DS_DEVICE_TPCS_MAX / 64];
};

struct ds_device_info {
        char name[64];  /* as the GPU's own name; simulated ones say so: "DetShare sim:h200" */
        char model[32]; /* "h200" */
        uint8_t uuid[16];
        uint32_t simulated; /* 1: no figure from it is a GPU's */
        uint32_t cc_major, cc_minor;
        uint32_t n_sms, n_tpcs;
        uint64_t memory_bytes;
        uint64_t slab_granularity;              /* slab sizes and mapping addresses are multiples of this, bytes */
        uint32_t stops;                         /* 1: some calls stop all work of the context, see QUIESCE below */
        uint32_t n_gpcs;                        /* 0 = unknown */
        uint8_t gpc_of_tpc[DS_DEVICE_TPCS_MAX]; /* DS_DEVICE_GPC_NONE: not known, or in none that clusters reach */
        uint64_t own_bytes; /* device memory that context and rungs take, as of the last rung_create */
        /*
         * Groups of TPCs, each inside one GPC, for rungs that take large clusters (rung_create_coarse); the last one
         * may be what is left over, of no GPC. 0 = there are none. group: their TPCs, empty where they are not known.
         */
        uint32_t n_groups;
        uint32_t group_sms[DS_DEVICE_GROUPS_MAX];
        struct ds_tpc_mask group[DS_DEVICE_GROUPS_MAX];
        uint32_t group_clusters; /* blocks of the largest cluster that groups of one GPC take together */
        /* 1: a bound on resident blocks is kept per SM, to a whole number of blocks and at least one; 0: exactly */
        uint32_t bound_per_sm;
        /*
         * By how many thousandths requests of short kernels are longer after kernels have run on a part of the SMs,
         * until the GPU has worked for another context (`stirs` counts that, too); 0: not known to be so.
         */
        uint32_t mask_permille;
        int32_t attributes[DS_DEVICE_ATTRIBUTES];
};

struct ds_rung_info {
        struct ds_tpc_mask mask; /* of a coarse rung: as far as it is known */
        uint32_t n_tpcs, n_sms;
        uint32_t cluster_max; /* blocks of the largest cluster that it may take; 1 = it knows no clusters */
        uint32_t coarse;      /* 1: it is made of groups */
};

struct ds_kernel_param {
        uint32_t offset, size; /* in the packed parameter block, bytes */
};

struct ds_kernel_info {
        const char *name; /* lives as long as the module */
        uint64_t hash;    /* of image and name: the same in every process; 0 = not known */
        uint32_t n_params;
        const struct ds_kernel_param *params;
        uint32_t params_size;
        uint32_t max_threads;
        uint32_t static_shared, local_bytes, const_bytes, registers;
        uint32_t ptx_version, binary_version; /* 90, 90 */
        uint32_t cooperative;                 /* needs all blocks resident */
        uint32_t prints;                      /* its module may print or assert */
        uint32_t cluster[3];                  /* blocks of the clusters that its code asks for; 0 = none */
        uint32_t cluster_max;                 /* blocks; 0 = no limit of its own */
        uint32_t cluster_explicit;            /* it must be launched with clusters */
        uint32_t blocks_are_clusters;         /* the grid of a launch counts clusters */
        uint32_t waits;       /* its blocks may wait for other blocks (image/sass.h, ptx/pass/facts.h) */
        uint32_t idempotent;  /* proven: run in part and then again in full it leaves what it leaves when run once */
        uint32_t sees_shared; /* it may look at the size of its shared memory: padding it could show */
};

/* When an implementation that pays for telling of an end may tell of it. */
enum ds_tell {
        DS_TELL_SOON,  /* as soon as it can */
        DS_TELL_EXACT, /* and so that its times are its own */
        DS_TELL_LATE,  /* with work that comes behind it in its stream: a little later than it ends, and with its times
                        */
};

struct ds_launch {
        uint32_t stream;
        uint32_t space;
        const ds_device_kernel *kernel;
        uint32_t grid[3], block[3];
        uint32_t cluster[3];   /* blocks; all 0: none but what the kernel asks for */
        uint32_t cooperative;  /* its blocks may wait for each other */
        uint32_t shared_bytes; /* dynamic */
        const void *params;    /* copied before launch() returns */
        uint32_t params_size;
        uint32_t max_resident_blocks; /* 0 = what fits; a bound on interference, kept as info.bound_per_sm says */
        uint64_t deadline_ns;         /* device time after start at which the kernel is given up; 0 = none */
        uint32_t timed; /* somebody may look at its end_ns: 0 lets a GPU say when it saw the end instead */
        enum ds_tell tell;
        uint64_t replays; /* 1 + the token of the kernel that was killed and is launched anew; 0: none */
        /*
         * Another form of the kernel (ptx/pass/forms.h): `kernel` is that form's entry, grid is the client's grid,
         * params are the native form's. SLICED: only the blocks first .. first + n_blocks - 1. PERSISTENT: so many
         * workers (0: as many as the rung holds, never more than blocks), which take chunk blocks at a time (0: 1).
         * INVALID_VALUE with clusters, cooperative, 2^31 blocks; OUT_OF_MEMORY, NOT_SUPPORTED: take another form.
         */
        enum ds_ptx_form form;
        uint32_t first, n_blocks, workers, chunk;
        uint64_t resumes; /* PERSISTENT: 1 + the token of the launch that was evicted and goes on; 0: it begins */
};

enum ds_copy_kind {
        DS_COPY_HTOD,
        DS_COPY_DTOH,
        DS_COPY_DTOD,
        DS_COPY_HTOH,
        _DS_COPY_MAX,
};

/* height rows of width bytes; 1-D copies have height 1. All addresses are mapped in the space. */
struct ds_copy {
        uint32_t stream;
        uint32_t space;
        enum ds_copy_kind kind;
        uint64_t dst, src;
        uint64_t width, height;
        uint64_t dst_pitch, src_pitch;
        uint32_t timed; /* as in ds_launch */
};

/* height rows of width elements of element_size (1, 2, 4) bytes; or one of 8, aligned, stored as one word. */
struct ds_memset {
        uint32_t stream;
        uint32_t space;
        uint64_t dst;
        uint64_t value;
        uint32_t element_size;
        uint64_t width, height;
        uint64_t pitch; /* bytes */
        uint32_t timed; /* as in ds_launch */
};

/*
 * What a tensor map is made from: cuTensorMapEncodeTiled, Im2col and Im2colWide, and another address in an old map;
 * enums are CUDA's numbers. IM2COL_WIDE looks at lower[0] and upper[0], REPLACE at the address only.
 */
enum ds_tensor_map_kind {
        DS_TENSOR_MAP_TILED,
        DS_TENSOR_MAP_IM2COL,
        DS_TENSOR_MAP_IM2COL_WIDE,
        DS_TENSOR_MAP_REPLACE,
        _DS_TENSOR_MAP_KIND_MAX,
};

enum ds_tensor_array {
        DS_TENSOR_DIMS = 1,
        DS_TENSOR_STRIDES = 2,
        DS_TENSOR_BOX = 4,
        DS_TENSOR_STEPS = 8,
        DS_TENSOR_LOWER = 16,
        DS_TENSOR_UPPER = 32,
};

#define DS_TENSOR_RANK_MAX 5u
#define DS_TENSOR_MAP_BYTES 128u

struct ds_tensor_map {
        enum ds_tensor_map_kind kind;
        uint32_t data_type, rank;
        uint64_t address;
        uint32_t given; /* enum ds_tensor_array: those that are not NULL */
        uint64_t dims[DS_TENSOR_RANK_MAX], strides[DS_TENSOR_RANK_MAX];
        uint32_t box[DS_TENSOR_RANK_MAX], steps[DS_TENSOR_RANK_MAX];
        int32_t lower[DS_TENSOR_RANK_MAX], upper[DS_TENSOR_RANK_MAX];
        uint32_t channels, pixels;
        uint32_t interleave, mode, swizzle, promotion, fill;
};

/* A node of a graph. Streams, spaces and deadlines of what it does mean nothing; addresses are those of the graph's
 * space.
 */
enum ds_device_node_kind {
        DS_NODE_NOTHING,
        DS_NODE_LAUNCH,
        DS_NODE_COPY,
        DS_NODE_MEMSET,
        _DS_DEVICE_NODE_KIND_MAX,
};

struct ds_device_node {
        enum ds_device_node_kind kind;
        uint32_t n_deps;
        const uint32_t *deps; /* earlier nodes */
        union {
                struct ds_launch launch; /* params live as long as the node */
                struct ds_copy copy;
                struct ds_memset memset;
        };
};

/* All nodes of a graph, as their dependencies have it. */
struct ds_graph_launch {
        uint32_t stream;
        uint32_t space;
        ds_device_graph *graph;
        uint64_t deadline_ns; /* as in ds_launch, for all of it */
        uint32_t timed;       /* as in ds_launch */
};

struct ds_completion {
        uint64_t token;
        int32_t status; /* enum ds_cuda_error */
        uint64_t start_ns, end_ns;
        uint32_t shared; /* 1: it was told of with others (DS_TELL_LATE), and the times are those of all */
        uint32_t blocks; /* EVICTED: of the kernel have run so far, by this launch and those that it resumed */
        char message[DS_DEVICE_MESSAGE_MAX]; /* when status is an error: which kernel, address, line */
};

/* What is emulated per client and set for the whole context; numbers are CUlimit's. */
enum ds_device_limit {
        DS_LIMIT_STACK_SIZE = 0,
        DS_LIMIT_PRINTF_FIFO_SIZE = 1,
        DS_LIMIT_MALLOC_HEAP_SIZE = 2,
        _DS_LIMIT_MAX,
};

/* A piece of what kernels printed. */
struct ds_device_output {
        uint32_t space;
        uint32_t to_stderr; /* an assertion's words; 0: printf */
        const char *text;   /* not terminated; good until the next call on the device */
        size_t size;
};

/*
 * QUIESCE. Where info.stops is set, calls marked [stops] may stop all work of the context, or wait for all of it, so
 * the owner makes them only when nothing is in flight. Everywhere else they may be made at any time.
 */
struct ds_device_ops {
        uint32_t version; /* DS_DEVICE_OPS_VERSION */
        const char *name; /* "sim", "cuda" */

        /* spec: what follows "sim:" or "cuda:". -ENODEV when there is no such device (it has said why). */
        int (*open)(const char *spec, ds_device **ret);
        /*
         * In a process that has not opened it: have a context, and the device work for it for a moment whenever
         * something comes in fd, for what that does to contexts of others (supervisor/settle.h). 0 at its end, or when
         * nothing has come for a minute; -ENODEV: it could not be made, and nothing is said. NULL where there is none.
         */
        int (*settle)(const char *spec, int fd);
        ds_device *(*close)(ds_device *device);
        const struct ds_device_info *(*info)(ds_device *device);

        /* Rungs, before serving only. The id is dense from 0; its streams are rung_stream(id, priority, 0..7). */
        int (*rung_create)(ds_device *device, const struct ds_tpc_mask *mask, uint32_t *ret_rung);
        /* A rung over groups (bit i = group i of info). */
        int (*rung_create_coarse)(ds_device *device, uint32_t groups, uint32_t *ret_rung);
        const struct ds_rung_info *(*rung_info)(ds_device *device, uint32_t rung);

        /* Spaces: -EEXIST, -ENOENT. Removing one unmaps what it maps; no work of it may be in flight. */
        int (*space_add)(ds_device *device, uint32_t space);
        int (*space_remove)(ds_device *device, uint32_t space);

        /*
         * A slab: device memory with an fd that keeps it alive. DS_CUDA_OUT_OF_MEMORY is contract. It counts against
         * memory_bytes until its last mapping here is gone, and again when it is mapped again. mem_map of a slab made
         * here clears it, ordered before all work submitted later: mem_cleared says when that has happened. Until then
         * its fd must not be given to anybody who could map it after this process.
         */
        int (*mem_create)(ds_device *device, uint64_t size, int *ret_fd);
        /*
         * Map a slab (made here or by an earlier worker) at va. The fd stays the caller's. Unmapping takes effect for
         * work submitted later; while executing work still sees the memory, mapping at that address may give -EEXIST.
         * A slab made here that is unmapped is given up: mem_create may give its memory out again, so nobody else may
         * have it mapped, or map it later, once mem_create has been called.
         */
        int (*mem_map)(ds_device *device, uint32_t space, int fd, uint64_t va, uint64_t size);
        int (*mem_unmap)(ds_device *device, uint32_t space, uint64_t va, uint64_t size);
        int (*mem_cleared)(ds_device *device, uint32_t space, uint64_t va); /* 1: the slab mapped at va is clear */
        /*
         * Somebody else may map the slab that is mapped at va, or it may be mapped again: unmapping it does not give it
         * up. -ENOENT.
         */
        int (*mem_keep)(ds_device *device, uint32_t space, uint64_t va);
        /* Host memory of a memfd, mapped at va in this process and made known to the GPU. Both [stops]. */
        int (*host_map)(ds_device *device, uint32_t space, int fd, uint64_t va, uint64_t size);
        int (*host_unmap)(ds_device *device, uint32_t space, uint64_t va, uint64_t size);

        /*
         * A module from an image that the helper checked. Contract: DS_CUDA_INVALID_PTX, _INVALID_IMAGE,
         * _NO_BINARY_FOR_GPU, _OUT_OF_MEMORY with a text in log (NUL-terminated). The image is copied. [stops], unless
         * module_cached said that it does not. Unloading never stops: what would is put off.
         */
        int (*module_cached)(ds_device *device, const void *image, size_t size); /* 1: loading it stops nothing */
        /*
         * What of loading the image in this sealed file stops nothing, where that is some of it (NULL: none), happens
         * beside everything else: 0: it is under way, ask again when module_prepared, the number of those that have
         * ended, has changed. 1: it is done, or there is nothing to do: module_load is the rest. The fd stays the
         * caller's. What nobody loads in the end is kept, or goes, as images that nobody uses.
         */
        int (*module_prepare)(ds_device *device, int fd, size_t size);
        uint64_t (*module_prepared)(ds_device *device);
        int (*module_load)(ds_device *device, uint32_t space, const void *image, size_t size, char *log,
                size_t log_size, ds_device_module **ret);
        /*
         * An image in a sealed file, and whoever comes with the same file again: module_lies_in says that all of the
         * module's image is that file's content, module_again makes a module over the image of such a file if it is
         * still loaded, which stops nothing (else -ENOENT). The fd stays the caller's. NULL where nothing is shared.
         */
        int (*module_again)(ds_device *device, uint32_t space, int fd, size_t size, ds_device_module **ret);
        void (*module_lies_in)(ds_device *device, ds_device_module *module, int fd);
        ds_device_module *(*module_unload)(ds_device *device, ds_device_module *module);
        const ds_device_kernel *(*kernel_find)(ds_device_module *module, const char *name);
        const ds_device_kernel *(*kernel_at)(ds_device_module *module, size_t index); /* NULL past the end */
        const struct ds_kernel_info *(*kernel_info)(const ds_device_kernel *kernel);
        /*
         * Kernels of large modules are loaded one by one (both NULL: all are loaded with their module). Of one that is
         * not nothing but its name is known, and it cannot be launched. Once loaded it stays so as long as its module.
         * kernel_load: [stops]; 0, a CUDA error, or a negative errno.
         */
        int (*kernel_loaded)(const ds_device_kernel *kernel);
        int (*kernel_load)(ds_device *device, const ds_device_kernel *kernel);
        int (*global_find)(
                ds_device_module *module, const char *name, uint64_t *ret_va, uint64_t *ret_size); /* -ENOENT */
        int (*module_has_globals)(ds_device_module *module); /* writable state that dies with this process */

        /*
         * What calls put off because it stops the context: pieces of it waiting, and doing some of it, which takes a
         * part of a millisecond where no single piece takes longer [stops].
         */
        size_t (*put_off)(ds_device *device);
        void (*put_off_do)(ds_device *device);
        /*
         * How often something has happened so far after which kernels begin later (supervisor/settle.h): code, graphs,
         * memory or a higher limit came into the context, or a kernel ended that had run on a part of the SMs.
         * ret_divided: how many of those are there now. NULL: kernels begin as they did.
         */
        uint64_t (*stirs)(const ds_device *device, uint32_t *ret_divided);
        /*
         * Raise a limit of the whole context to at least value, never lower it; limit_get: what it is now. [stops]
         * DS_CUDA_INVALID_VALUE, DS_CUDA_OUT_OF_MEMORY (more than a context may hold), _NOT_SUPPORTED.
         */
        int (*limit_raise)(ds_device *device, enum ds_device_limit limit, uint64_t value);
        uint64_t (*limit_get)(ds_device *device, enum ds_device_limit limit);

        /* Work. Returns 0 (token will come back once), a CUDA error (nothing was queued), or a negative errno. */
        int (*launch)(ds_device *device, const struct ds_launch *launch, uint64_t token);
        /* How many clusters of such a launch can be on the whole device at once; its stream, space, grid and parameters
         * are not looked at. 0 or a CUDA error. */
        int (*clusters)(ds_device *device, const struct ds_launch *launch, uint32_t *ret_clusters);
        /* A tensor map, from the arguments alone; map is the old one of REPLACE, and the new one when this is 0. Stops
         * nothing. 0 or a CUDA error: INVALID_VALUE, NOT_SUPPORTED. */
        int (*tensor_map)(ds_device *device, const struct ds_tensor_map *ask, uint8_t map[DS_TENSOR_MAP_BYTES]);
        int (*copy)(ds_device *device, const struct ds_copy *copy, uint64_t token);
        int (*memset)(ds_device *device, const struct ds_memset *memset, uint64_t token);

        /*
         * Graphs: all NULL where an implementation launches their nodes no faster than one by one.
         * graph_new makes nothing on the device yet; the nodes live, unchanged, until graph_free. 0;
         * DS_CUDA_NOT_SUPPORTED: these nodes must be launched one by one; another CUDA error, or a negative errno.
         */
        int (*graph_new)(ds_device *device, uint32_t space, const struct ds_device_node *nodes, uint32_t n,
                ds_device_graph **ret);
        /* What launching it on streams of a rung needs. [stops] 0, a CUDA error (it cannot be), or a negative errno. */
        int (*graph_build)(ds_device *device, ds_device_graph *graph, uint32_t rung);
        /* 1: it can be launched on streams of the rung. 0: not yet; that it was asked for is put off, see below. */
        int (*graph_ready)(ds_device *device, ds_device_graph *graph, uint32_t rung);
        int (*graph_launch)(ds_device *device, const struct ds_graph_launch *launch, uint64_t token); /* as launch */
        /* What was built for `from`, a graph of as many nodes with the same kinds and dependencies, becomes what was
         * built for `to` as far as that stops nothing; `from` is not ready any more where it was. Launches made are not
         * touched.
         */
        void (*graph_take)(ds_device *device, ds_device_graph *from, ds_device_graph *to);
        /* Never stops, and launches of it may be in flight: what would is put off. */
        ds_device_graph *(*graph_free)(ds_device *device, ds_device_graph *graph);

        /* Everything submitted to `to` from now on waits for everything submitted to `from` so far. */
        int (*fence)(ds_device *device, uint32_t from, uint32_t to);
        /* Ask running and queued work of a space to end early; its tokens come back with an error. May do nothing. */
        void (*abort)(ds_device *device, uint32_t space);
        /*
         * NULL where an implementation cannot. End a kernel at once, whether it runs or waits in its stream; one that
         * waits never begins. What it has written stays written. Its completion comes back with the status
         * DS_DEVICE_KILLED, unless it had ended before. What stands behind it in its stream goes on, unless it is
         * killed as well before any other call. Launched anew (launch.replays says of which) it has its effect as if
         * it had not been launched before, if it is idempotent. 0; DS_CUDA_NOT_FOUND: no kernel with this token is in
         * flight, or another CUDA error: it goes on; or a negative errno.
         */
        int (*kill)(ds_device *device, uint64_t token);

        /*
         * NULL where an implementation cannot. Another bound on how many blocks of a kernel in flight are resident (0:
         * none until it is raised; UINT32_MAX: what fits): blocks beyond it run to their end and no others are placed.
         * It takes effect a moment later; of two that are on their way the last counts. DS_CUDA_NOT_FOUND: no kernel
         * with this token is in flight.
         */
        int (*bound)(ds_device *device, uint64_t token, uint32_t max_resident_blocks);

        /*
         * Both NULL where an implementation cannot. Ask a launch of the persistent form, which runs or waits in its
         * stream, to let go: its workers finish the blocks that they have and take no more. Its completion comes with
         * the status DS_DEVICE_EVICTED and how many blocks have run, or as if nobody had asked when it came too late.
         * What stands behind it in its stream goes on: of several the last is asked first. It is launched again with
         * `resumes`, on any rung, or given up by drop, before its space goes. 0; DS_CUDA_NOT_FOUND; else it goes on.
         */
        int (*evict)(ds_device *device, uint64_t token);
        void (*drop)(ds_device *device, uint64_t token);

        /* Finished work, oldest first; returns how many were written. */
        size_t (*poll)(ds_device *device, struct ds_completion *completions, size_t n);
        /*
         * The next piece of what finished kernels printed, in order: 1 and *ret, or 0. What a kernel printed is here at
         * the latest when poll has given its completion.
         */
        int (*output)(ds_device *device, struct ds_device_output *ret);
        /*
         * 0, or the error (a CUresult) that ended the context for good: nothing can be submitted, poll gives back what
         * was in flight with errors, memory lives on in its fds, and this process must end.
         */
        int (*lost)(ds_device *device);
        /*
         * For the log, when what a space has in flight does not end: what that is, where it stands, and what the device
         * says of it, in at most size bytes. It may take 100 ms. NULL: nothing to say.
         */
        void (*stuck)(ds_device *device, uint32_t space, char *ret, size_t size);
        /* Becomes readable when poll may have something that it did not have before; -1 if it must be polled. */
        int (*event_fd)(ds_device *device);
        uint64_t (*now)(ds_device *device);
        /*
         * Virtual clocks only (NULL on a GPU): let time pass up to the next thing that happens on the device, at most
         * to limit_ns (UINT64_MAX = no limit). 0: completions are ready, or much happened and none is yet: call again;
         * -EAGAIN: the clock stands where a kernel is still being executed on the CPU, wait for event_fd; -ETIME:
         * nothing can happen on the device before limit_ns, and with a limit the clock now stands there.
         */
        int (*advance)(ds_device *device, uint64_t limit_ns);
};

#define DS_DEVICE_OPS_VERSION 9

/* stream ids are dense: rung, then priority, then index */
static inline uint32_t ds_device_stream(uint32_t rung, uint32_t priority, uint32_t index)
{
        return (rung * DS_DEVICE_PRIORITIES + priority) * DS_DEVICE_STREAMS_PER_RUNG + index;
}

/* "sim:h200" -> the sim's table and "h200"; NULL when no implementation has that name. */
const struct ds_device_ops *ds_device_find(const char *spec, const char **ret_rest);

/*
 * What of info takes time to find out (GPCs and groups), as a line of hexadecimal digits for the next process that has
 * the device: two for each TPC's GPC, for each one's group (ff: none), for the largest cluster of groups.
 */
#define DS_DEVICE_TOPOLOGY_MAX (2 * (2 * DS_DEVICE_TPCS_MAX + 1) + 1)
void ds_device_topology_write(const struct ds_device_info *info, char ret[DS_DEVICE_TOPOLOGY_MAX]);
/* Into info, whose TPCs and groups are counted already. -EINVAL: it is of no such device; info is as it was. */
int ds_device_topology_read(struct ds_device_info *info, const char *text);
