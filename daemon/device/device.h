/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device vtable: everything that the daemon may request of a GPU
 *
 * There are two complete implementations: `sim`, a GPU in software that executes PTX on the CPU under a virtual clock,
 * and `cuda`, a real GPU. All higher layers (scheduler, worker) and every device test run on both.
 *
 * Rules that hold for both:
 *  - All calls come from one thread, the owner. None blocks: work is submitted with a token and completes through
 *    poll().
 *  - A stream is an in-order queue of a rung. Rungs and their fixed pools of streams are built before serving
 *    (rung_create) and never afterwards.
 *  - Memory is allocated in slabs with an exportable file descriptor, mapped at an address that the caller chooses. So
 *    it can outlive this process, and the next process can map it at the same address.
 *  - Addresses, kernels and mappings belong to a `space` (one session's memory). Work runs in one space and may access
 *    only that.
 *  - Times are nanoseconds of the device's clock: real monotonic time on a GPU, the virtual clock on the sim.
 *
 * Status values in completions and positive return codes are CUDA's error numbers (CUresult), so that they can be
 * passed to the client unchanged. Negative results are fatal errno values.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ptx/pass/forms.h"

typedef struct ds_device ds_device;
typedef struct ds_device_kernel ds_device_kernel;
typedef struct ds_device_module ds_device_module;
typedef struct ds_device_graph ds_device_graph;

/* The CUresult values that the daemon itself uses, with CUDA's public numbers. */
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

#define DS_DEVICE_KILLED 100000 /* completion status: the kernel was stopped by kill(); not a CUDA error */
/* completion status: the kernel was evicted at a block's end, see evict(); not a CUDA error */
#define DS_DEVICE_EVICTED 100001
#define DS_DEVICE_ATTRIBUTES 160 /* size of attributes[], indexed by CUdevice_attribute; 0 = unknown */
#define DS_DEVICE_TPCS_MAX 128
#define DS_DEVICE_RUNGS_MAX 64
/* most groups of TPCs: each group is one bit of a 32-bit word (rung_create_coarse) */
#define DS_DEVICE_GROUPS_MAX 32
#define DS_DEVICE_STREAMS_PER_RUNG 8 /* streams of one priority in a rung */
#define DS_DEVICE_PRIORITIES 2       /* number of priorities of streams: 0 = high (LS), 1 = low (BE) */
#define DS_DEVICE_MESSAGE_MAX 400
#define DS_DEVICE_GPC_NONE 255u
#define DS_DEVICE_CLUSTER_MAX 16u     /* blocks of the largest cluster that any kernel may use */
#define DS_DEVICE_CLUSTER_ASKED 1024u /* largest cluster that clusters() accepts, in blocks; none that large can run */

struct ds_tpc_mask {
        uint64_t word[DS_DEVICE_TPCS_MAX / 64];
};

struct ds_device_info {
        char name[64];  /* the GPU's own name; of a simulated one: "DetShare sim:h200" */
        char model[32]; /* "h200" */
        uint8_t uuid[16];
        uint32_t simulated; /* 1: the device is simulated, so its times are not those of a GPU */
        uint32_t cc_major, cc_minor;
        uint32_t n_sms, n_tpcs;
        uint64_t memory_bytes;
        uint64_t slab_granularity;              /* slab sizes and mapping addresses are multiples of this, bytes */
        uint32_t stops;                         /* 1: some calls stop all work of the context, see QUIESCE below */
        uint32_t n_gpcs;                        /* 0 = unknown */
        uint8_t gpc_of_tpc[DS_DEVICE_TPCS_MAX]; /* DS_DEVICE_GPC_NONE: unknown, or in no GPC that runs clusters */
        uint64_t own_bytes; /* device memory of the context and rungs, bytes, as of the last rung_create */
        /*
         * Groups of TPCs, each inside one GPC, for rungs that can run large clusters (rung_create_coarse). The last one
         * may contain the remaining TPCs, of no GPC. 0 = none. group: their TPCs; empty if unknown.
         */
        uint32_t n_groups;
        uint32_t group_sms[DS_DEVICE_GROUPS_MAX];
        struct ds_tpc_mask group[DS_DEVICE_GROUPS_MAX];
        uint32_t group_clusters; /* blocks of the largest cluster that the groups of one GPC can run together */
        /* 1: max_resident_blocks of a launch is enforced on each SM, as a whole number of blocks and at least one;
         * 0: exactly, over the whole rung */
        uint32_t bound_per_sm;
        /*
         * Slowdown of requests of short kernels after kernels have run on part of the SMs, permille. It lasts until the
         * GPU has run another context (stirs() counts these events, too). 0: no such effect is known.
         */
        uint32_t mask_permille;
        int32_t attributes[DS_DEVICE_ATTRIBUTES];
};

struct ds_rung_info {
        struct ds_tpc_mask mask; /* TPCs of the rung; of a coarse rung only those whose number is known */
        uint32_t n_tpcs, n_sms;
        uint32_t cluster_max; /* blocks of the largest cluster that the rung can run; 1 = no clusters */
        uint32_t coarse;      /* 1: the rung is made of groups of TPCs (rung_create_coarse) */
};

struct ds_kernel_param {
        uint32_t offset, size; /* place of the parameter in the packed parameter block, bytes */
};

struct ds_kernel_info {
        const char *name; /* valid as long as the module */
        uint64_t hash;    /* hash of image and name, the same in every process; 0 = unknown */
        uint32_t n_params;
        const struct ds_kernel_param *params;
        uint32_t params_size;
        uint32_t max_threads;
        uint32_t static_shared, local_bytes, const_bytes, registers;
        uint32_t ptx_version, binary_version; /* for example 90, 90 */
        uint32_t cooperative;                 /* 1: the kernel needs all its blocks resident at the same time */
        uint32_t prints;                      /* 1: the kernel's module may print or assert */
        uint32_t cluster[3];                  /* cluster size that its code requires, blocks; 0 = none */
        uint32_t cluster_max;                 /* most blocks of a cluster of the kernel; 0 = the kernel sets no limit */
        uint32_t cluster_explicit;            /* 1: the kernel must be launched with clusters */
        /* 1: the grid of the kernel's launches counts clusters instead of blocks */
        uint32_t blocks_are_clusters;
        uint32_t waits;      /* 1: the kernel's blocks may wait for other blocks (image/sass.h, ptx/pass/facts.h) */
        uint32_t idempotent; /* 1: proven that a partial run followed by a full run has the effect of one run */
        /* 1: the kernel may read the size of its shared memory, so that padding could change its results */
        uint32_t sees_shared;
};

/* How promptly a device must report the end of an operation. Reports may cost the device time, so the caller
 * chooses. */
enum ds_tell {
        DS_TELL_SOON,  /* as soon as possible */
        DS_TELL_EXACT, /* as soon as possible, with start and end times of this operation alone */
        /* may be slightly later, in one report with later work of its stream and with times common to them */
        DS_TELL_LATE,
};

struct ds_launch {
        uint32_t stream;
        uint32_t space;
        const ds_device_kernel *kernel;
        uint32_t grid[3], block[3];
        uint32_t cluster[3];   /* blocks; all 0: the kernel's own size, if any */
        uint32_t cooperative;  /* 1: blocks of the launch may wait for each other, so all must be resident */
        uint32_t shared_bytes; /* dynamic shared memory */
        const void *params;    /* copied before launch() returns */
        uint32_t params_size;
        uint32_t max_resident_blocks; /* 0 = as many as fit; bounds interference, precision as in info.bound_per_sm */
        uint64_t deadline_ns;         /* device time after the start at which the kernel is given up; 0 = none */
        uint32_t timed; /* 1: end_ns must be exact; 0: a GPU may report the time at which it noticed the end */
        enum ds_tell tell;
        uint64_t replays; /* 1 + the token of the killed kernel that this launch repeats; 0: none */
        /*
         * Another form of the kernel (ptx/pass/forms.h): `kernel` is that form's entry, grid is the client's grid,
         * params are those of the native form. SLICED: runs only the blocks first .. first + n_blocks - 1. PERSISTENT:
         * uses this many workers (0: as many as the rung holds; never more than blocks), which take chunk blocks at a
         * time (0: 1). Errors: INVALID_VALUE with clusters, cooperative launches, or 2^31 blocks; OUT_OF_MEMORY or
         * NOT_SUPPORTED: the caller must use another form.
         */
        enum ds_ptx_form form;
        uint32_t first, n_blocks, workers, chunk;
        /* PERSISTENT: 1 + the token of the evicted launch that this one continues; 0: starts from the beginning */
        uint64_t resumes;
};

enum ds_copy_kind {
        DS_COPY_HTOD,
        DS_COPY_DTOH,
        DS_COPY_DTOD,
        DS_COPY_HTOH,
        _DS_COPY_MAX,
};

/* A copy of `height` rows of `width` bytes; 1-D copies have height 1. All addresses must be mapped in the space. */
struct ds_copy {
        uint32_t stream;
        uint32_t space;
        enum ds_copy_kind kind;
        uint64_t dst, src;
        uint64_t width, height;
        uint64_t dst_pitch, src_pitch;
        uint32_t timed; /* as in ds_launch */
};

/* A fill of `height` rows of `width` elements of element_size (1, 2, 4) bytes; or of one aligned element of 8 bytes,
 * stored as one word. */
struct ds_memset {
        uint32_t stream;
        uint32_t space;
        uint64_t dst;
        uint64_t value;
        uint32_t element_size;
        uint64_t width, height;
        uint64_t pitch; /* bytes from the start of a row to the start of the next */
        uint32_t timed; /* as in ds_launch */
};

/*
 * Arguments of a tensor map: cuTensorMapEncodeTiled, Im2col and Im2colWide, and the replacement of an existing map's
 * address. Enums are CUDA's numbers. IM2COL_WIDE uses lower[0] and upper[0], REPLACE only the address.
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
        /* bits of enum ds_tensor_array: arrays for which the caller passed a pointer that is not NULL */
        uint32_t given;
        uint64_t dims[DS_TENSOR_RANK_MAX], strides[DS_TENSOR_RANK_MAX];
        uint32_t box[DS_TENSOR_RANK_MAX], steps[DS_TENSOR_RANK_MAX];
        int32_t lower[DS_TENSOR_RANK_MAX], upper[DS_TENSOR_RANK_MAX];
        uint32_t channels, pixels;
        uint32_t interleave, mode, swizzle, promotion, fill;
};

/* A node of a graph. The streams, spaces and deadlines in its launch, copy or memset are ignored; addresses belong
 * to the graph's space. */
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
        /* indices of the nodes, all earlier than this one, that must have ended before this one begins */
        const uint32_t *deps;
        union {
                struct ds_launch launch; /* params must be valid as long as the node */
                struct ds_copy copy;
                struct ds_memset memset;
        };
};

/* Launch of a graph: runs all nodes in an order that respects their dependencies. */
struct ds_graph_launch {
        uint32_t stream;
        uint32_t space;
        ds_device_graph *graph;
        uint64_t deadline_ns; /* device time after the start at which the whole graph is given up; 0 = none */
        uint32_t timed;       /* as in ds_launch */
        /*
         * NULL: the nodes' own parameters. Otherwise the parameters of the graph's kernels, in the order of the nodes,
         * each from a multiple of 8 bytes on; read during the call. For graphs that are always launched like this.
         */
        const uint8_t *params;
};

struct ds_completion {
        uint64_t token;
        int32_t status; /* enum ds_cuda_error */
        uint64_t start_ns, end_ns;
        /* 1: reported together with other operations (DS_TELL_LATE); start_ns and end_ns are those of all of them */
        uint32_t shared;
        uint32_t blocks; /* EVICTED: blocks of the kernel run so far, by this launch and those that it continued */
        char message[DS_DEVICE_MESSAGE_MAX]; /* if status is an error: kernel, address, line */
};

/* Limits that are emulated per client and set for the whole context; numbers are CUlimit's. */
enum ds_device_limit {
        DS_LIMIT_STACK_SIZE = 0,
        DS_LIMIT_PRINTF_FIFO_SIZE = 1,
        DS_LIMIT_MALLOC_HEAP_SIZE = 2,
        _DS_LIMIT_MAX,
};

/* A piece of the text that kernels printed. */
struct ds_device_output {
        uint32_t space;
        uint32_t to_stderr; /* 1: the text is an assertion's message; 0: it comes from printf */
        const char *text;   /* text of `size` bytes without a NUL; valid until the next call on the device */
        size_t size;
};

/*
 * QUIESCE. If info.stops is set, calls marked [stops] may stop all work of the context, or wait for all of it. The
 * owner must make them only when nothing is in flight. Otherwise they are allowed at any time.
 */
struct ds_device_ops {
        uint32_t version; /* DS_DEVICE_OPS_VERSION */
        const char *name; /* "sim", "cuda" */

        /* spec: the part after "sim:" or "cuda:". -ENODEV: no such device (a log line gives the reason). */
        int (*open)(const char *spec, ds_device **ret);
        /*
         * For a process that has not opened the device. Creates a context and makes the device work for it briefly
         * whenever fd receives something, because of the effect on other contexts (supervisor/settle.h). Returns 0 at
         * the end of fd, or after a minute without input; -ENODEV: no context, without a log line. NULL if the device
         * has no such effect.
         */
        int (*settle)(const char *spec, int fd);
        ds_device *(*close)(ds_device *device);
        const struct ds_device_info *(*info)(ds_device *device);

        /* Creates a rung, before serving only. Ids are dense from 0; its streams are rung_stream(id, priority,
         * 0..7). */
        int (*rung_create)(ds_device *device, const struct ds_tpc_mask *mask, uint32_t *ret_rung);
        /* Creates a rung from groups (bit i = group i of info). */
        int (*rung_create_coarse)(ds_device *device, uint32_t groups, uint32_t *ret_rung);
        const struct ds_rung_info *(*rung_info)(ds_device *device, uint32_t rung);

        /* Adds or removes a space: -EEXIST, -ENOENT. Removal unmaps its mappings; none of its work may be in flight. */
        int (*space_add)(ds_device *device, uint32_t space);
        int (*space_remove)(ds_device *device, uint32_t space);

        /*
         * Creates a slab: device memory with an fd that keeps it alive. DS_CUDA_OUT_OF_MEMORY is a contract code. It
         * counts towards memory_bytes until its last mapping here is removed, and again when it is mapped again.
         * mem_map() of a slab created here clears it, ordered before all work submitted later; mem_cleared() reports
         * the completion. Until then, no process that could map it after this one may get its fd.
         */
        int (*mem_create)(ds_device *device, uint64_t size, int *ret_fd);
        /*
         * Maps a slab (created by this worker or an earlier one) at va. The caller keeps the fd. An unmapping affects
         * work submitted later; while running work still uses the memory, mapping at that address may return -EEXIST.
         * Unmapping a slab that this device created gives it up, unless mem_keep() was called: mem_create() may reuse
         * its memory. So once mem_create() has been called, no other process may have such a slab mapped, or map it
         * later.
         */
        int (*mem_map)(ds_device *device, uint32_t space, int fd, uint64_t va, uint64_t size);
        int (*mem_unmap)(ds_device *device, uint32_t space, uint64_t va, uint64_t size);
        int (*mem_cleared)(ds_device *device, uint32_t space, uint64_t va); /* 1: the slab mapped at va is cleared */
        /*
         * Marks that the slab mapped at va may be mapped elsewhere or again: unmapping does not give it up. -ENOENT.
         */
        int (*mem_keep)(ds_device *device, uint32_t space, uint64_t va);
        /* Maps a memfd's host memory at va in this process and registers it with the GPU; host_unmap() undoes both.
         * Both calls [stops]. */
        int (*host_map)(ds_device *device, uint32_t space, int fd, uint64_t va, uint64_t size);
        /* Like host_map(), but moves the caller's mapping of the file to va, with its page tables. Consumes the mapping,
         * also on failure. [stops] */
        int (*host_move)(ds_device *device, uint32_t space, int fd, void *mapped, uint64_t va, uint64_t size);
        int (*host_unmap)(ds_device *device, uint32_t space, uint64_t va, uint64_t size);

        /*
         * Loads a module from an image that the helper checked. Contract codes: DS_CUDA_INVALID_PTX, _INVALID_IMAGE,
         * _NO_BINARY_FOR_GPU, _OUT_OF_MEMORY, with a text in log (NUL-terminated). The image is copied. [stops], unless
         * module_cached() returned 1. Unloading never stops; the part that would is deferred (put_off).
         */
        /* 1: loading this image stops nothing */
        int (*module_cached)(ds_device *device, const void *image, size_t size);
        /*
         * Starts the part of loading this sealed file's image that stops nothing, in parallel to other work (NULL:
         * there is none). 0: begun; call again when module_prepared(), the number of finished preparations, has
         * changed. 1: done, or nothing to do; module_load() does the rest. The caller keeps the fd. A prepared image
         * that is never loaded is cached or evicted like other unused images.
         */
        int (*module_prepare)(ds_device *device, int fd, size_t size);
        uint64_t (*module_prepared)(ds_device *device);
        int (*module_load)(ds_device *device, uint32_t space, const void *image, size_t size, char *log,
                size_t log_size, ds_device_module **ret);
        /*
         * Reuse of an image in a sealed file. module_lies_in() states that the file's content is exactly the module's
         * image. module_again() creates a module from the image of such a file if it is still loaded, which stops
         * nothing (else -ENOENT). The caller keeps the fd. NULL if images are not shared.
         */
        int (*module_again)(ds_device *device, uint32_t space, int fd, size_t size, ds_device_module **ret);
        void (*module_lies_in)(ds_device *device, ds_device_module *module, int fd);
        ds_device_module *(*module_unload)(ds_device *device, ds_device_module *module);
        const ds_device_kernel *(*kernel_find)(ds_device_module *module, const char *name);
        /* kernel by its index; NULL past the end */
        const ds_device_kernel *(*kernel_at)(ds_device_module *module, size_t index);
        const struct ds_kernel_info *(*kernel_info)(const ds_device_kernel *kernel);
        /*
         * Kernels of large modules are loaded one by one (both NULL: all are loaded with their module). Of a kernel
         * that is not loaded only the name is known, and it cannot be launched. A loaded kernel stays loaded as long as
         * its module. kernel_load: [stops]; returns 0, a CUDA error, or a negative errno.
         */
        int (*kernel_loaded)(const ds_device_kernel *kernel);
        int (*kernel_load)(ds_device *device, const ds_device_kernel *kernel);
        int (*global_find)(
                /* -ENOENT: the module has no variable of this name */
                ds_device_module *module, const char *name, uint64_t *ret_va, uint64_t *ret_size);
        /* 1: the module has writable global variables, whose contents are lost with this process */
        int (*module_has_globals)(ds_device_module *module);

        /*
         * Deferred work that stops the context ("put off" in names): the number of pending pieces, and a call that does
         * some of them. The call takes a fraction of a millisecond unless a single piece takes longer [stops].
         */
        size_t (*put_off)(ds_device *device);
        void (*put_off_do)(ds_device *device);
        /*
         * Counter of events after which kernels begin later (supervisor/settle.h): code, graphs, memory or a higher
         * limit came into the context, or a kernel ended that had run on part of the SMs. ret_divided: number of
         * kernels running on part of the SMs now. NULL: the device has no such effect.
         */
        uint64_t (*stirs)(const ds_device *device, uint32_t *ret_divided);
        /*
         * Raises a limit of the whole context to at least value, never lowers it; limit_get: the current value. [stops]
         * DS_CUDA_INVALID_VALUE, DS_CUDA_OUT_OF_MEMORY (more than a context may have), _NOT_SUPPORTED.
         */
        int (*limit_raise)(ds_device *device, enum ds_device_limit limit, uint64_t value);
        uint64_t (*limit_get)(ds_device *device, enum ds_device_limit limit);

        /* Submits work. Returns 0 (the token will complete once), a CUDA error (nothing was queued), or a negative
         * errno. */
        int (*launch)(ds_device *device, const struct ds_launch *launch, uint64_t token);
        /* Number of clusters of such a launch that can be on the whole device at once; its stream, space, grid and
         * parameters are ignored. Returns 0 or a CUDA error. */
        int (*clusters)(ds_device *device, const struct ds_launch *launch, uint32_t *ret_clusters);
        /* Encodes a tensor map from the arguments alone. map: for REPLACE the existing map; on 0 the new one. Stops
         * nothing. Returns 0 or a CUDA error: INVALID_VALUE, NOT_SUPPORTED. */
        int (*tensor_map)(ds_device *device, const struct ds_tensor_map *ask, uint8_t map[DS_TENSOR_MAP_BYTES]);
        int (*copy)(ds_device *device, const struct ds_copy *copy, uint64_t token);
        int (*memset)(ds_device *device, const struct ds_memset *memset, uint64_t token);

        /*
         * Graphs: all NULL if an implementation launches nodes no faster as a graph. graph_new() creates nothing on the
         * device yet; the nodes must exist, unchanged, until graph_free(). Returns 0; DS_CUDA_NOT_SUPPORTED: these
         * nodes must be launched one by one; another CUDA error, or a negative errno.
         */
        int (*graph_new)(ds_device *device, uint32_t space, const struct ds_device_node *nodes, uint32_t n,
                ds_device_graph **ret);
        /* Instantiates the graph for launches on streams of a rung. [stops] Returns 0; a CUDA error: the graph
         * cannot be instantiated; or a negative errno. */
        int (*graph_build)(ds_device *device, ds_device_graph *graph, uint32_t rung);
        /* 1: the graph can be launched on streams of the rung. 0: not yet; the device notes that as deferred work,
         * see put_off. */
        int (*graph_ready)(ds_device *device, ds_device_graph *graph, uint32_t rung);
        /* the return values are those of launch() */
        int (*graph_launch)(ds_device *device, const struct ds_graph_launch *launch, uint64_t token);
        /* Transfers the instances of `from` to `to`, a graph with the same number, kinds and dependencies of nodes.
         * Never stops the context: instances whose transfer would stop it are not transferred. After a transfer
         * `from` is no longer ready on any rung. Launches in flight are not affected. */
        void (*graph_take)(ds_device *device, ds_device_graph *from, ds_device_graph *to);
        /*
         * Changes n nodes of a graph in its instances: node at[i] becomes nodes[i], of the same kind and dependencies.
         * The new parameters are copied. No launch of the graph may be in flight. Returns 0, and the caller then changes
         * the nodes that it gave to graph_new() likewise; or an error (_NOT_SUPPORTED: these changes need a new graph),
         * and nothing has changed. Never stops the context.
         */
        int (*graph_change)(ds_device *device, uint32_t space, ds_device_graph *graph, const uint32_t *at,
                const struct ds_device_node *nodes, uint32_t n);
        /* Frees the graph. Never stops the context, even with launches in flight: the part that would is deferred. */
        ds_device_graph *(*graph_free)(ds_device *device, ds_device_graph *graph);

        /* Makes everything submitted to `to` from now on wait for everything submitted to `from` so far. */
        int (*fence)(ds_device *device, uint32_t from, uint32_t to);
        /* Requests an early end of a space's running and queued work, whose tokens then complete with an error. The
         * device may ignore it. */
        void (*abort)(ds_device *device, uint32_t space);
        /*
         * NULL if not supported. Stops a kernel at once, whether it runs or waits in its stream; a waiting kernel never
         * begins. Its writes so far remain. It completes with the status DS_DEVICE_KILLED, unless it had ended before.
         * Work behind it in its stream continues, unless that is killed too before any other call. If it is idempotent,
         * a new launch (with launch.replays) has the same effect as a single launch. Returns 0; DS_CUDA_NOT_FOUND: no
         * kernel with this token is in flight; another CUDA error: the kernel continues; or a negative errno.
         */
        int (*kill)(ds_device *device, uint64_t token);

        /*
         * NULL if not supported. Changes the bound on resident blocks of a kernel in flight (0: none until it is
         * raised; UINT32_MAX: as many as fit). Blocks beyond it run to their end, and no others are placed. It takes
         * effect with a delay; of two pending changes the last counts. DS_CUDA_NOT_FOUND: no kernel with this token is
         * in flight.
         */
        int (*bound)(ds_device *device, uint64_t token, uint32_t max_resident_blocks);

        /*
         * Both NULL if not supported. Evicts a launch of the persistent form that runs or waits in its stream: its
         * workers finish their current blocks and take no more. It completes with the status DS_DEVICE_EVICTED and the
         * number of blocks run; or normally, if the request came too late. Work behind it in its stream continues, so
         * of several launches the last must be evicted first. The launch is continued with `resumes`, on any rung, or
         * given up by drop(), before its space is removed. Returns 0; DS_CUDA_NOT_FOUND; another error: it continues.
         */
        int (*evict)(ds_device *device, uint64_t token);
        void (*drop)(ds_device *device, uint64_t token);

        /* Returns completions, oldest first, and their number. */
        size_t (*poll)(ds_device *device, struct ds_completion *completions, size_t n);
        /*
         * The next piece of text printed by kernels, in order: returns 1 and *ret, or 0. A kernel's text is available
         * when poll() has returned its completion, or earlier.
         */
        int (*output)(ds_device *device, struct ds_device_output *ret);
        /*
         * 0, or the error (a CUresult) that ended the context permanently. Then nothing can be submitted, poll()
         * completes the work in flight with errors, memory survives in its fds, and this process must end.
         */
        int (*lost)(ds_device *device);
        /*
         * For the log, if a space's work does not end: describes that work, its position, and the device's state, in at
         * most size bytes. May take 100 ms. NULL: not supported.
         */
        void (*stuck)(ds_device *device, uint32_t space, char *ret, size_t size);
        /* Becomes readable when poll() may return something new; -1 if the device must be polled. */
        int (*event_fd)(ds_device *device);
        uint64_t (*now)(ds_device *device);
        /*
         * For virtual clocks (NULL on a GPU): advances the time to the next event on the device, at most to limit_ns
         * (UINT64_MAX = no limit). Returns 0: completions are ready, or many events occurred without one: call again.
         * -EAGAIN: the clock waits for a kernel that the CPU still executes: wait for event_fd. -ETIME: no event before
         * limit_ns; with a limit, the clock is there now.
         */
        int (*advance)(ds_device *device, uint64_t limit_ns);
};

#define DS_DEVICE_OPS_VERSION 9

/* Stream ids are dense: rung, then priority, then index. */
static inline uint32_t ds_device_stream(uint32_t rung, uint32_t priority, uint32_t index)
{
        return (rung * DS_DEVICE_PRIORITIES + priority) * DS_DEVICE_STREAMS_PER_RUNG + index;
}

/* "sim:h200" -> the sim's table and "h200"; NULL if no implementation has that name. */
const struct ds_device_ops *ds_device_find(const char *spec, const char **ret_rest);

/*
 * Writes the parts of info that take time to determine (GPCs and groups) as a line of hexadecimal digits, for the next
 * process that opens the device: two digits for each TPC's GPC, for each TPC's group (ff: none), and for the largest
 * cluster of groups.
 */
#define DS_DEVICE_TOPOLOGY_MAX (2 * (2 * DS_DEVICE_TPCS_MAX + 1) + 1)
void ds_device_topology_write(const struct ds_device_info *info, char ret[DS_DEVICE_TOPOLOGY_MAX]);
/* Reads such a line into info, whose counts of TPCs and groups must be set. -EINVAL: the line is of another device;
 * info is unchanged. */
int ds_device_topology_read(struct ds_device_info *info, const char *text);
