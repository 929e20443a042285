/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core: one session of this process with the daemon
 *
 * What the faces (libcuda.so.1, detshare.h, detsharectl) stand on: the connection and its requests, the submission
 * ring, the completion page, memory. Exported from libdetshare-client.so under the version node DETSHARE_PRIVATE, for
 * the faces of the same build only.
 *
 * All functions return 0, a CUDA error number (positive, below 10000), or a daemon status (detshare.proto, from
 * 10000); dsc_cuda() folds the latter into the nearest CUDA error. They may be called from any thread, never exit and
 * never take a signal. After fork() a child gets DSC_NOT_INITIALIZED (3) from all of them. When the daemon is gone
 * every call returns within 100 ms: 999 (unknown) once connected, 100 (no device) when it never was. Memory that is
 * short costs the call (2), not the session.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct dsc_session dsc_session;

#pragma GCC visibility push(default)

#define DSC_PARAMS_MAX 4096
#define DSC_UUID_TEXT 41 /* GPU-, 32 digits and 4 dashes, NUL */

struct dsc_device {
        char name[64];
        char model[32];
        uint8_t uuid[16];
        uint64_t memory_bytes;
        uint32_t n_attributes;
        int32_t attributes[256];
        int simulated;
        uint32_t n_sms;
        uint32_t n_limits;
        uint64_t limits[8]; /* by CUlimit: what a context has before it asks for more */
};

struct dsc_param {
        uint32_t offset, size;
};

struct dsc_kernel {
        uint64_t id;
        char *name;
        uint32_t n_params;
        struct dsc_param *params;
        uint32_t params_size, max_threads, static_shared, local_bytes, const_bytes, registers, ptx_version,
                binary_version;
        uint32_t cluster[3]; /* blocks, that its code asks for; 0 = none */
        uint32_t cluster_max, cluster_explicit, blocks_are_clusters;
};

struct dsc_launch {
        uint64_t kernel;
        uint32_t grid[3], block[3];
        uint32_t cluster[3]; /* blocks; all 0: none but what the kernel asks for */
        uint32_t cooperative;
        uint32_t shared_bytes;
        const void *params; /* packed */
        uint32_t params_size;
};

enum dsc_copy_kind { DSC_HTOD, DSC_DTOH, DSC_DTOD, DSC_HTOH };

/* Both sides device or pinned addresses of this session; height rows of width bytes. */
struct dsc_copy {
        enum dsc_copy_kind kind;
        uint64_t dst, src, width, height, dst_pitch, src_pitch;
};

/* height rows of width elements of element_size (1, 2, 4) bytes; pitch in bytes. */
struct dsc_memset {
        uint64_t dst;
        uint32_t value, element_size;
        uint64_t width, height, pitch;
};

/*
 * The process's session, connecting on first use (environment: DETSHARE_SOCKET, DETSHARE_CLASS, DETSHARE_SLO_MS,
 * DETSHARE_MEM_LIMIT, DETSHARE_SM_PERCENT, DETSHARE_GPU_REQUEST, DETSHARE_GPU_LIMIT, DETSHARE_PHASE,
 * DETSHARE_NAME). NULL and *ret_error when that fails, with one line on
 * stderr the first time; it is tried again by the next call. DETSHARE_TRANSPORT=rpc makes a session that uses the
 * socket only (no ring, no shared arena).
 */
dsc_session *dsc_get(int *ret_error);
/* The daemon is gone, and the session with it for good. */
int dsc_lost(dsc_session *s);
/*
 * Another session for the process if its own is lost, else the one that it has. The lost one stays an object whose
 * calls fail; its addresses (device and pinned memory) are given back. path NULL: that of the last session, else the
 * environment's. NULL and *ret_error as dsc_get().
 */
dsc_session *dsc_renew(const char *path, int *ret_error);
/* 1 if the environment asks for DETSHARE_FALLBACK=native: a program that is not served runs natively. */
int dsc_fallback_native(void);
int dsc_cuda(int error);       /* any return value as a CUDA error number */
const char *dsc_message(void); /* the daemon's words on the calling thread's last error, "" if none */
int dsc_sticky_error(
        dsc_session *s); /* CUDA error of the session, 0 if none; also after a worker's death with work in flight */
int dsc_reset(dsc_session *s); /* free everything of the session in the daemon and clear the sticky error */

const struct dsc_device *dsc_device(dsc_session *s);                  /* fetched at connect; never NULL */
void dsc_uuid_text(const uint8_t uuid[16], char text[DSC_UUID_TEXT]); /* as CUDA_VISIBLE_DEVICES writes it */
size_t dsc_gpus_present(void); /* NVIDIA GPUs that this machine has device files for */
int dsc_mem_alloc(dsc_session *s, uint64_t bytes, uint64_t *ret_address);
int dsc_mem_free(dsc_session *s, uint64_t address);
int dsc_mem_info(dsc_session *s, uint64_t *ret_free, uint64_t *ret_total);
/* Pinned memory: a pointer that is the device address as well. Unavailable over DETSHARE_TRANSPORT=rpc: plain memory
 * then. */
int dsc_host_alloc(dsc_session *s, uint64_t bytes, void **ret);
int dsc_host_free(dsc_session *s, void *p);
/* What an address is: 0 unknown, 1 device, 2 pinned; fills base and size of its allocation. */
int dsc_lookup(dsc_session *s, uint64_t address, uint64_t *ret_base, uint64_t *ret_size);
/* Give device memory back without waiting for the work that may use it: its address is another's only after that. */
int dsc_mem_free_later(dsc_session *s, uint64_t address);

/*
 * Memory and addresses apart. Reserved ranges are this session's own beside its window, a power of two of bytes, and
 * reserved in this process too. What is created or imported has a handle; nothing may be mapped of it when it is
 * released. A token lets another session of the same user import the memory: of an allocation its whole slab comes
 * along, and offset and size say where in it the allocation is.
 */
#define DSC_TOKEN_BYTES 64
struct dsc_imported {
        uint64_t handle, bytes, offset, size;
};
int dsc_address_reserve(dsc_session *s, uint64_t bytes, uint64_t *ret_address, uint64_t *ret_bytes);
int dsc_address_free(dsc_session *s, uint64_t address, uint64_t bytes);
int dsc_mem_create(dsc_session *s, uint64_t bytes, uint64_t *ret_handle);
int dsc_mem_release(dsc_session *s, uint64_t handle);
int dsc_mem_map(dsc_session *s, uint64_t handle, uint64_t address, uint64_t bytes);
int dsc_mem_unmap(dsc_session *s, uint64_t address); /* after the session's work submitted so far */
int dsc_mem_export(dsc_session *s, uint64_t address, uint64_t handle, uint8_t ret_token[DSC_TOKEN_BYTES]);
int dsc_mem_import(dsc_session *s, const uint8_t token[DSC_TOKEN_BYTES], struct dsc_imported *ret);

/*
 * CUlimit 0 to 2 (stack size, printf FIFO size, malloc heap size): the device's default, 0 if it is not known; and
 * asking for a value. The context is everybody's: the largest value asked for is set. 215 when there is no such limit.
 */
uint64_t dsc_limit(dsc_session *s, uint32_t limit);
int dsc_limit_set(dsc_session *s, uint32_t limit, uint64_t value);
/* What kernels have printed goes to stdout, what assertions said to stderr: what ended before this call is out when it
 * returns. Launches, waits, copies from and to ordinary memory and modules' coming and going do this by themselves. */
void dsc_output(dsc_session *s);

/*
 * Code. log receives the compiler's words (NUL-terminated, may be NULL). The other two are for a compiler, if one has
 * to work, and 0 otherwise: registers per thread at most, and 1 + the level of optimisation.
 */
struct dsc_load {
        const void *image;
        size_t size;
        char *log;
        size_t log_size;
        uint32_t max_registers, optimization;
};
/* Of a module with few kernels all of them come at once, each for dsc_kernel_clear(), in a malloc'ed array. */
struct dsc_loaded {
        uint64_t module;
        struct dsc_kernel *kernels;
        size_t n_kernels;
};
int dsc_module_open(dsc_session *s, const struct dsc_load *load, struct dsc_loaded *ret);
int dsc_module_load(dsc_session *s, const void *image, size_t size, char *log, size_t log_size, uint64_t *ret_module);
int dsc_module_unload(dsc_session *s, uint64_t module);
int dsc_kernel_get(dsc_session *s, uint64_t module, const char *name, struct dsc_kernel *ret);
void dsc_kernel_clear(struct dsc_kernel *kernel);
/* How many clusters of the kernel can be on the device at once, with blocks of so many threads. */
int dsc_kernel_clusters(dsc_session *s, uint64_t kernel, const uint32_t cluster[3], uint32_t block_threads,
        uint32_t shared_bytes, uint32_t *ret_clusters);
int dsc_global_get(dsc_session *s, uint64_t module, const char *name, uint64_t *ret_address, uint64_t *ret_bytes);
/* Names, each malloc'ed, in a malloc'ed array. */
int dsc_kernel_names(dsc_session *s, uint64_t module, char ***ret_names, size_t *ret_n);

/* Streams are slots; 0 is the legacy default stream and always there. */
int dsc_stream_create(dsc_session *s, int32_t priority, int non_blocking, uint32_t *ret_stream);
int dsc_stream_destroy(dsc_session *s, uint32_t stream);
/* Sequence number of the stream's last operation; what dsc_wait and dsc_query take. */
uint64_t dsc_stream_tail(dsc_session *s, uint32_t stream);

int dsc_launch(dsc_session *s, uint32_t stream, const struct dsc_launch *launch);
int dsc_copy(dsc_session *s, uint32_t stream, const struct dsc_copy *copy);
int dsc_memset(dsc_session *s, uint32_t stream, const struct dsc_memset *memset);
/* Copies with pageable host memory, through the staging arena in overlapped chunks, height rows. The host buffer may be
 * reused on return. */
int dsc_write(dsc_session *s, uint32_t stream, uint64_t dst, uint64_t dst_pitch, const void *src, size_t src_pitch,
        size_t width, size_t height);
/* Complete on return. */
int dsc_read(dsc_session *s, uint32_t stream, void *dst, size_t dst_pitch, uint64_t src, uint64_t src_pitch,
        size_t width, size_t height);

/*
 * Graphs. file: struct ds_graph_file and its nodes (proto/wire.h), copied. A launch is one operation of its stream, and
 * the same graph may be launched again before it has ended. An update has as many nodes, with the same dependencies,
 * and holds for launches after it. destroy: launches that are under way go on. A graph lives until it is destroyed or
 * the session is reset (then its id is 400), through deaths of the worker too.
 */
int dsc_graph_create(dsc_session *s, const void *file, size_t bytes, uint64_t *ret_graph);
int dsc_graph_update(dsc_session *s, uint64_t graph, const void *file, size_t bytes);
int dsc_graph_destroy(dsc_session *s, uint64_t graph);
int dsc_graph_launch(dsc_session *s, uint32_t stream, uint64_t graph, uint64_t *ret_seq);

/*
 * Tensor maps (cuTensorMapEncodeTiled and others of cuda.h), made by the daemon's driver from these arguments alone;
 * enums are CUDA's numbers. Of dims, box and steps `rank` elements are read, of strides one fewer, of lower and upper
 * two fewer (WIDE: one of each); with a rank that there cannot be, none. map: the old one of REPLACE, else what it
 * becomes.
 */
#define DSC_TENSOR_RANK_MAX 5u
#define DSC_TENSOR_MAP_BYTES 128u
enum dsc_tensor_map_kind {
        DSC_TENSOR_MAP_TILED,
        DSC_TENSOR_MAP_IM2COL,
        DSC_TENSOR_MAP_IM2COL_WIDE,
        DSC_TENSOR_MAP_REPLACE, /* only the address is looked at */
};
struct dsc_tensor_map {
        enum dsc_tensor_map_kind kind;
        uint32_t data_type, rank;
        uint64_t address;
        const uint64_t *dims, *strides;
        const uint32_t *box, *steps;
        const int32_t *lower, *upper;
        uint32_t channels, pixels, interleave, mode, swizzle, promotion, fill;
};
int dsc_tensor_map(dsc_session *s, const struct dsc_tensor_map *ask, uint8_t map[DSC_TENSOR_MAP_BYTES]);

int dsc_event_create(
        dsc_session *s, uint64_t *ret_event); /* timed events only; untimed ones need no object: use event 0 */
int dsc_event_destroy(dsc_session *s, uint64_t event);
int dsc_event_record(dsc_session *s, uint32_t stream, uint64_t event, uint64_t *ret_seq);
/* 1: when it was reached, recorded as this operation, by the device's clock. 0: not known here, ask
 * dsc_event_elapsed(). */
int dsc_event_time(dsc_session *s, uint64_t event, uint32_t stream, uint64_t seq, uint64_t *ret_ns);
int dsc_event_elapsed(dsc_session *s, uint64_t start, uint64_t end, int64_t *ret_ns); /* 600 when not both have ended */
int dsc_stream_wait(dsc_session *s, uint32_t stream, uint32_t other, uint64_t seq);

/*
 * Functions of the program that run when their turn in a stream has come, one after another, in a thread of this
 * library's. id: what a call names, also from a graph's HOST nodes. once: it runs once, and then its id is gone. fn
 * runs also when its call can never come any more (a sticky error, a daemon that is gone): it has to ask
 * dsc_sticky_error() if that matters; but not when the session is reset. One that is not `once` runs only when called.
 * fn must not call what waits for the device. unregister does not wait for one that runs.
 */
int dsc_host_register(dsc_session *s, void (*fn)(void *), void *arg, int once, uint64_t *ret_id);
void dsc_host_unregister(dsc_session *s, uint64_t id);
int dsc_host_call(dsc_session *s, uint32_t stream, uint64_t id, uint64_t *ret_seq); /* ret_seq may be NULL */

/* A word of 4 or 8 bytes at a device or pinned address: stored, or waited for as CUDA's conditions of these names say.
 */
enum dsc_value_kind { DSC_VALUE_WRITE, DSC_VALUE_GEQ, DSC_VALUE_EQ, DSC_VALUE_AND, DSC_VALUE_NOR };
int dsc_value(
        dsc_session *s, uint32_t stream, enum dsc_value_kind kind, uint32_t bytes, uint64_t address, uint64_t value);

/* Events that processes of one user share: made or opened by token, recorded behind an operation of a stream. */
#define DSC_SHARED_TOKEN 32
int dsc_shared_create(dsc_session *s, uint64_t *ret_event, uint8_t ret_token[DSC_SHARED_TOKEN]);
int dsc_shared_open(dsc_session *s, const uint8_t token[DSC_SHARED_TOKEN], uint64_t *ret_event);
int dsc_shared_close(dsc_session *s, uint64_t event);
int dsc_shared_record(dsc_session *s, uint64_t event, uint32_t stream, uint64_t seq);
int dsc_shared_query(dsc_session *s, uint64_t event); /* 0 or 600 */
int dsc_shared_wait(dsc_session *s, uint64_t event);
int dsc_shared_stream_wait(dsc_session *s, uint32_t stream, uint64_t event);

/* 0 ended, 600 not yet, or the sticky error. query: the program asked, and is told; peek: for our own ends. */
int dsc_query(dsc_session *s, uint32_t stream, uint64_t seq);
int dsc_peek(dsc_session *s, uint32_t stream, uint64_t seq);
int dsc_wait(dsc_session *s, uint32_t stream, uint64_t seq); /* 0 or the sticky error */
int dsc_wait_all(dsc_session *s);

/* Who knows what a CUstream is: the slot of one, 0, or an error as these functions have them. NULL: nobody does. */
typedef int (*dsc_stream_fn)(void *stream, uint32_t *ret_stream);
void dsc_streams(dsc_stream_fn fn);

#pragma GCC visibility pop
