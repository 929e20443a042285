/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core: this process's session with the daemon
 *
 * The basis of libcuda.so.1, detshare.h and detsharectl: the connection and its requests, the submission ring, the
 * completion page, memory. libdetshare-client.so exports it under the version node DETSHARE_PRIVATE, for libraries and
 * tools of the same build only.
 *
 * Functions return 0, a CUDA error number (positive, below 10000), or a daemon status (detshare.proto, from 10000);
 * dsc_cuda() maps the latter to the nearest CUDA error. Any thread may call them; none ends the process or takes a
 * signal. A child of fork() gets 3 (not initialised) from all of them. When the daemon is gone, calls return within 100
 * ms: 999 (unknown) if the process was connected, 100 (no device) if it never was. A call that runs out of memory
 * returns 2; the session continues.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct dsc_session dsc_session;

#pragma GCC visibility push(default)

#define DSC_PARAMS_MAX 4096
#define DSC_UUID_TEXT 41 /* "GPU-", 32 digits, 4 dashes, NUL */

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
        uint64_t limits[8]; /* values that a new context has, by CUlimit */
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
        uint32_t cluster[3]; /* cluster size in blocks that the kernel's code requires; 0 = none */
        uint32_t cluster_max, cluster_explicit, blocks_are_clusters;
};

struct dsc_launch {
        uint64_t kernel;
        uint32_t grid[3], block[3];
        /* cluster size in blocks; all 0: no cluster, or the size that the kernel's code requires */
        uint32_t cluster[3];
        uint32_t cooperative;
        uint32_t shared_bytes;
        const void *params; /* kernel parameters, packed */
        uint32_t params_size;
};

enum dsc_copy_kind { DSC_HTOD, DSC_DTOH, DSC_DTOD, DSC_HTOH };

/* A copy between device or pinned addresses of this session: `height` rows of `width` bytes. */
struct dsc_copy {
        enum dsc_copy_kind kind;
        uint64_t dst, src, width, height, dst_pitch, src_pitch;
};

/* A memset of `height` rows of `width` elements; element_size is 1, 2 or 4 bytes, pitch is in bytes. */
struct dsc_memset {
        uint64_t dst;
        uint32_t value, element_size;
        uint64_t width, height, pitch;
};

/*
 * Returns the process's session; the first call connects, with the options of the environment (variables.def). On
 * failure it returns NULL and *ret_error, and prints one line on standard error the first time; the next call tries
 * again. With DETSHARE_TRANSPORT=rpc the session uses the socket only (no ring, no shared arena).
 */
dsc_session *dsc_get(int *ret_error);
/* 1: the daemon of this session is gone; the session never recovers. */
int dsc_lost(dsc_session *s);
/*
 * Replaces the process's session if it is lost; else returns the one that it has. The lost session stays a valid object
 * whose calls fail; its address ranges (device and pinned memory) are unmapped. path NULL: the previous session's path,
 * else the environment's. Errors as dsc_get().
 */
dsc_session *dsc_renew(const char *path, int *ret_error);
/* 1: DETSHARE_FALLBACK=native, so a program without a daemon runs on the machine's own driver. */
int dsc_fallback_native(void);
int dsc_cuda(int error);       /* converts any return value to a CUDA error number */
const char *dsc_message(void); /* daemon's message about the calling thread's last error; "" if there is none */
/* Returns the session's sticky CUDA error, 0 if none. The death of a worker with work in flight also sets one. */
int dsc_sticky_error(dsc_session *s);
int dsc_reset(dsc_session *s); /* frees in the daemon everything that the session has, and clears its sticky error */

/* description of the device, fetched at connect; never NULL */
const struct dsc_device *dsc_device(dsc_session *s);
void dsc_uuid_text(const uint8_t uuid[16], char text[DSC_UUID_TEXT]); /* the UUID in the form of CUDA_VISIBLE_DEVICES */
size_t dsc_gpus_present(void); /* number of NVIDIA GPUs of this machine, counted without a driver */
int dsc_mem_alloc(dsc_session *s, uint64_t bytes, uint64_t *ret_address);
int dsc_mem_free(dsc_session *s, uint64_t address);
int dsc_mem_info(dsc_session *s, uint64_t *ret_free, uint64_t *ret_total);
/* Allocates pinned memory: host pointer and device address are the same. Over DETSHARE_TRANSPORT=rpc it allocates
 * plain host memory. */
int dsc_host_alloc(dsc_session *s, uint64_t bytes, void **ret);
int dsc_host_free(dsc_session *s, void *p);
/* Like dsc_host_alloc(), but does not wait until the GPU can use the memory. Work that the session submits afterwards
 * waits for that; without host memory for it, the session gets a sticky error. */
int dsc_managed_alloc(dsc_session *s, uint64_t bytes, void **ret);
/* Returns the kind of memory at an address: 0 unknown, 1 device, 2 pinned; and base and size of its allocation. */
int dsc_lookup(dsc_session *s, uint64_t address, uint64_t *ret_base, uint64_t *ret_size);
/*
 * Memory that the program does not use. dsc_mem_offer() lets the daemon take the allocation for other sessions; the
 * allocation leaves the table of dsc_lookup(). Returns the offer's number. 0: it cannot be offered: too many are, or it
 * was exported. dsc_mem_withdraw() gets the allocation of an offer back, dsc_mem_offered() says if that would succeed.
 * 0: the daemon has taken it, and the address may be in use again, even in another offer. dsc_mem_offer_most(): most
 * bytes that should be offered, together; 0: one chunk.
 */
uint64_t dsc_mem_offer_most(dsc_session *s);
uint64_t dsc_mem_offer(dsc_session *s, uint64_t address);
int dsc_mem_offered(dsc_session *s, uint64_t offer);
int dsc_mem_withdraw(dsc_session *s, uint64_t offer);
/* Frees device memory without waiting for work that may use it. The daemon reuses the address only after that work. */
int dsc_mem_free_later(dsc_session *s, uint64_t address);

/*
 * Physical memory and addresses, managed separately. A reserved range lies outside of the session's window, is a power
 * of two of bytes, and is reserved in this process too. Created or imported memory has a handle; release it only when
 * nothing is mapped from it. A token lets another session of the same user import memory. Of an allocation it imports
 * the whole slab; offset and size say where the allocation lies in it.
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
/* the mapping ends after the work that the session has submitted so far */
int dsc_mem_unmap(dsc_session *s, uint64_t address);
int dsc_mem_export(dsc_session *s, uint64_t address, uint64_t handle, uint8_t ret_token[DSC_TOKEN_BYTES]);
/* Makes the token of an allocation name only `size` bytes of it, from `offset` on. The importer still maps the slab. */
void dsc_token_narrow(uint8_t token[DSC_TOKEN_BYTES], uint64_t offset, uint64_t size);
int dsc_mem_import(dsc_session *s, const uint8_t token[DSC_TOKEN_BYTES], struct dsc_imported *ret);

/*
 * CUlimit 0 to 2 (stack size, printf FIFO size, malloc heap size). dsc_limit() returns the device's default, 0 if
 * unknown. dsc_limit_set() requests a value; all sessions share one context, which gets the largest requested value.
 * 215: there is no such limit.
 */
uint64_t dsc_limit(dsc_session *s, uint32_t limit);
int dsc_limit_set(dsc_session *s, uint32_t limit, uint64_t value);
/* Writes text that kernels printed to stdout, and the text of assertions to stderr. On return, all text of kernels
 * that ended before the call is written. Launches, waits, copies with pageable memory, and module loading call this
 * themselves. */
void dsc_output(dsc_session *s);

/*
 * Code to load. log receives the compiler's messages (NUL-terminated, may be NULL). max_registers (per thread) and
 * optimization (1 + the level) go to a compiler, if one is needed; 0 = default.
 */
struct dsc_load {
        const void *image;
        size_t size;
        char *log;
        size_t log_size;
        uint32_t max_registers, optimization;
};
/* Descriptions of kernels that came with an answer (struct ds_described of wire.h); free() them. NULL: none. */
struct dsc_described {
        struct dsc_described *next; /* for lists of the caller's */
        size_t size;                /* bytes */
        size_t at;                  /* position at which dsc_described_find() begins */
        size_t n_left;              /* descriptions that dsc_described_find() has not returned yet */
        _Alignas(8) uint8_t bytes[];
};
/* A loaded module, and descriptions of kernels of it. */
struct dsc_loaded {
        uint64_t module;
        struct dsc_described *described;
};
int dsc_module_open(dsc_session *s, const struct dsc_load *load, struct dsc_loaded *ret);
int dsc_module_load(dsc_session *s, const void *image, size_t size, char *log, size_t log_size, uint64_t *ret_module);
/* An input of a link. kind: enum ds_link_kind of wire.h. name may be NULL; messages contain it. */
struct dsc_link_input {
        const void *bytes;
        size_t size;
        uint32_t kind;
        const char *name;
};
/* Inputs to link, and options: flags as in struct ds_link_file, the others as in struct dsc_load. */
struct dsc_link {
        const struct dsc_link_input *inputs;
        size_t n_inputs;
        uint32_t flags, max_registers, optimization;
        char *log;
        size_t log_size;
};
/* Links the inputs. *ret: the linked image, malloc'ed, with a NUL behind its *ret_size bytes. */
int dsc_link(dsc_session *s, const struct dsc_link *link, void **ret, size_t *ret_size);
/* Checks the only input, PTX that may refer to names of other texts. */
int dsc_link_check(dsc_session *s, const struct dsc_link *link);
int dsc_module_unload(dsc_session *s, uint64_t module);
int dsc_kernel_get(dsc_session *s, uint64_t module, const char *name, struct dsc_kernel *ret);
/* The same; *ret_more: descriptions of further kernels of the module that the daemon sent with it, or NULL. */
int dsc_kernel_get_more(
        dsc_session *s, uint64_t module, const char *name, struct dsc_kernel *ret, struct dsc_described **ret_more);
/* Looks for the kernel among descriptions. It begins behind the last one found, because programs ask in the order of the
 * module. Returns 0, -1 if it is not described, or DSC__OUT_OF_MEMORY. */
int dsc_described_find(struct dsc_described *described, const char *name, struct dsc_kernel *ret);
void dsc_kernel_clear(struct dsc_kernel *kernel);
/* *ret_clusters: number of clusters of the kernel that fit on the device at once, with block_threads threads per
 * block. */
int dsc_kernel_clusters(dsc_session *s, uint64_t kernel, const uint32_t cluster[3], uint32_t block_threads,
        uint32_t shared_bytes, uint32_t *ret_clusters);
int dsc_global_get(dsc_session *s, uint64_t module, const char *name, uint64_t *ret_address, uint64_t *ret_bytes);
/* *ret_names: names of the module's kernels, each malloc'ed, in a malloc'ed array. */
int dsc_kernel_names(dsc_session *s, uint64_t module, char ***ret_names, size_t *ret_n);

/* Streams are slot numbers; 0 is the legacy default stream and always exists. */
int dsc_stream_create(dsc_session *s, int32_t priority, int non_blocking, uint32_t *ret_stream);
int dsc_stream_destroy(dsc_session *s, uint32_t stream);
/* Returns the sequence number of the stream's last operation, for dsc_wait() and dsc_query(). */
uint64_t dsc_stream_tail(dsc_session *s, uint32_t stream);
/*
 * For synchronous calls whose operations of stream 0 only later work can see. dsc_ahead_begin() before the operations:
 * 0: earlier work of stream 0 is left, other than operations that dsc_ahead_end() let go on. dsc_ahead_end() after them:
 * 1: the call may return; work that non-blocking streams get from now on runs after the operations. 0: other threads
 * have submitted work to stream 0 meanwhile.
 */
struct dsc_ahead {
        uint64_t tail, count; /* operations of stream 0 so far; number of operations of the calling thread */
};
int dsc_ahead_begin(dsc_session *s, struct dsc_ahead *ret);
int dsc_ahead_end(dsc_session *s, const struct dsc_ahead *begin);

int dsc_launch(dsc_session *s, uint32_t stream, const struct dsc_launch *launch);
int dsc_copy(dsc_session *s, uint32_t stream, const struct dsc_copy *copy);
int dsc_memset(dsc_session *s, uint32_t stream, const struct dsc_memset *memset);
/* Copies `height` rows from pageable host memory in overlapped chunks through the staging arena. The caller may
 * reuse the host buffer when the call returns. */
int dsc_write(dsc_session *s, uint32_t stream, uint64_t dst, uint64_t dst_pitch, const void *src, size_t src_pitch,
        size_t width, size_t height);
/* Copies `height` rows to pageable host memory, like dsc_write(). The bytes are there when the call returns. */
int dsc_read(dsc_session *s, uint32_t stream, void *dst, size_t dst_pitch, uint64_t src, uint64_t src_pitch,
        size_t width, size_t height);

/* How dsc_write() and dsc_read() copy many bytes; the defaults are in copy.c. */
enum dsc_copy_method {
        DSC_COPY_CACHED,     /* memcpy() */
        DSC_COPY_UNCACHED,   /* stores that bypass the caches */
        DSC_COPY_PREFETCHED, /* such stores, and prefetches of the source */
};
struct dsc_copy_tuning {
        uint32_t piece_bytes; /* size of a part: 64 KiB to 12 MiB, a multiple of 4096 */
        uint32_t read_ahead;  /* parts of a read in flight, 1 to 16 */
        uint32_t write_method, read_method;
};
/* For benchmarks, while no copy runs or is in flight. 1: a value is outside of its range. */
int dsc_copy_tune(const struct dsc_copy_tuning *want);

/*
 * Graphs. file: struct ds_graph_file and its nodes (proto/wire.h); the call copies it. A launch is one operation of its
 * stream; a graph may be launched again before its previous launch has ended. An update must keep the number of nodes
 * and the dependencies, and affects later launches only. Destroying a graph does not stop its launches. A graph lives
 * until it is destroyed or the session is reset (its id then gives 400), also when the worker is replaced.
 */
int dsc_graph_create(dsc_session *s, const void *file, size_t bytes, uint64_t *ret_graph);
int dsc_graph_update(dsc_session *s, uint64_t graph, const void *file, size_t bytes);
int dsc_graph_destroy(dsc_session *s, uint64_t graph);
/* As dsc_graph_destroy(), but waits for no answer. The graph must exist. */
int dsc_graph_release(dsc_session *s, uint64_t graph);
int dsc_graph_launch(dsc_session *s, uint32_t stream, uint64_t graph, uint64_t *ret_seq);
/* Most bytes of changes per call of the next two functions; 0: the daemon or the transport does not support them. */
size_t dsc_graph_changes_max(dsc_session *s);
/* Changes nodes of a graph (struct ds_graph_change of proto/wire.h, in the order of the nodes) for later launches. It
 * counts as an operation of the stream, but waits for nothing. */
int dsc_graph_change(dsc_session *s, uint32_t stream, uint64_t graph, const void *changes, size_t bytes);
/* As dsc_graph_launch(), after changing nodes. */
int dsc_graph_change_launch(
        dsc_session *s, uint32_t stream, uint64_t graph, const void *changes, size_t bytes, uint64_t *ret_seq);

/*
 * Tensor maps (cuTensorMapEncodeTiled and others of cuda.h). The daemon's driver makes them from these arguments alone;
 * enums are CUDA's numbers. The call reads `rank` elements of dims, box and steps, rank - 1 of strides, and rank - 2 of
 * lower and upper (WIDE: one of each); none if the rank is impossible. map: output; for REPLACE also the input.
 */
#define DSC_TENSOR_RANK_MAX 5u
#define DSC_TENSOR_MAP_BYTES 128u
enum dsc_tensor_map_kind {
        DSC_TENSOR_MAP_TILED,
        DSC_TENSOR_MAP_IM2COL,
        DSC_TENSOR_MAP_IM2COL_WIDE,
        DSC_TENSOR_MAP_REPLACE, /* reads `address` only */
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

/* Creates a timed event. An untimed event needs no object: use event 0. */
int dsc_event_create(dsc_session *s, uint64_t *ret_event);
int dsc_event_destroy(dsc_session *s, uint64_t event);
int dsc_event_record(dsc_session *s, uint32_t stream, uint64_t event, uint64_t *ret_seq);
/* 1: *ret_ns is the time, by the device's clock, at which the stream reached operation `seq`, the event's recording.
 * 0: this process does not know it, call dsc_event_elapsed(). */
int dsc_event_time(dsc_session *s, uint64_t event, uint32_t stream, uint64_t seq, uint64_t *ret_ns);
/* *ret_ns: time from start to end. 600: one of the events has not ended. */
int dsc_event_elapsed(dsc_session *s, uint64_t start, uint64_t end, int64_t *ret_ns);
int dsc_stream_wait(dsc_session *s, uint32_t stream, uint32_t other, uint64_t seq);

/*
 * Functions of the program that a stream calls in order, one after another, on a thread of this library. id: the number
 * that calls and HOST nodes of graphs use. once: the function runs once, then the id is invalid. Such a function also
 * runs if its call can no longer be reached (sticky error, lost daemon): if that matters, it checks dsc_sticky_error().
 * It does not run if the session is reset. Without `once` a function runs only when called. fn must not call anything
 * that waits for the device. dsc_host_unregister() does not wait for a running function.
 */
int dsc_host_register(dsc_session *s, void (*fn)(void *), void *arg, int once, uint64_t *ret_id);
void dsc_host_unregister(dsc_session *s, uint64_t id);
/* ret_seq: number of the operation, may be NULL */
int dsc_host_call(dsc_session *s, uint32_t stream, uint64_t id, uint64_t *ret_seq);

/* Operations on a word of 4 or 8 bytes at a device or pinned address. WRITE stores the value; the others wait until
 * CUDA's condition of that name holds. */
enum dsc_value_kind { DSC_VALUE_WRITE, DSC_VALUE_GEQ, DSC_VALUE_EQ, DSC_VALUE_AND, DSC_VALUE_NOR };
int dsc_value(
        dsc_session *s, uint32_t stream, enum dsc_value_kind kind, uint32_t bytes, uint64_t address, uint64_t value);

/* Events that processes of one user share. A process creates one, or opens it by its token, and records it after an
 * operation of a stream. */
#define DSC_SHARED_TOKEN 32
int dsc_shared_create(dsc_session *s, uint64_t *ret_event, uint8_t ret_token[DSC_SHARED_TOKEN]);
int dsc_shared_open(dsc_session *s, const uint8_t token[DSC_SHARED_TOKEN], uint64_t *ret_event);
int dsc_shared_close(dsc_session *s, uint64_t event);
int dsc_shared_record(dsc_session *s, uint64_t event, uint32_t stream, uint64_t seq);
int dsc_shared_query(dsc_session *s, uint64_t event); /* 0: the event has ended; 600: not yet */
int dsc_shared_wait(dsc_session *s, uint64_t event);
int dsc_shared_stream_wait(dsc_session *s, uint32_t stream, uint64_t event);

/* 1: calls of this thread may return before work has ended. 0: without a ring, and in a thread that is declared to the
 * device's clock. */
int dsc_may_run_ahead(dsc_session *s);
/* 1: the operation has ended. Unlike dsc_peek(), it does not advance the clock of a declared thread. */
int dsc_ended(dsc_session *s, uint32_t stream, uint64_t seq);
/* 0: the operation has ended; 600: not yet; else the sticky error. dsc_query() is for queries by the program: if all
 * work has ended, it reports to the daemon that the program knows. dsc_peek() does not report it. */
int dsc_query(dsc_session *s, uint32_t stream, uint64_t seq);
int dsc_peek(dsc_session *s, uint32_t stream, uint64_t seq);
int dsc_wait(dsc_session *s, uint32_t stream, uint64_t seq); /* waits for the operation; 0 or the sticky error */
int dsc_wait_all(dsc_session *s);

/* Converts a CUstream to its slot; returns 0 or a CUDA error. dsc_streams(NULL): no conversion. */
typedef int (*dsc_stream_fn)(void *stream, uint32_t *ret_stream);
void dsc_streams(dsc_stream_fn fn);

#pragma GCC visibility pop
