/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared-memory layout between a client and the worker
 *
 * Two memory files per attachment, created and sealed by the daemon, and one eventfd:
 *  - the submission ring: the client writes, the worker reads. The worker does not trust its content: it copies each
 *    record once and checks the copy.
 *  - the completion page: the worker writes (the supervisor when the worker died); the client can only read it
 *    (F_SEAL_FUTURE_WRITE), so no client can forge progress.
 *  - the eventfd: the client writes to it after it has added records, if the page says that the worker is asleep.
 *
 * An attachment belongs to one worker process. When that dies the page says so (`dead`), and the client attaches again;
 * memory and addresses stay.
 *
 * The ring is an array of 64-byte slots. A record is a header and its payload in consecutive slots. A record that would
 * cross the end of the array is preceded by a PAD record up to the end. `tail` (client) and `head` (worker) count slots
 * and only grow; slot = count & (slots - 1).
 *
 * Every stream operation, by ring or by RPC, gets the next sequence number of its stream, from 1, counted in the same
 * way by client and worker. stream_done[slot] in the completion page is the last operation that ended; all earlier
 * ones of the stream have ended too.
 */
#ifndef DETSHARE_WIRE_H
#define DETSHARE_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#define DS_WIRE_VERSION 6u

#define DS_FRAME_MAX (64u * 1024) /* payload of a control frame, bytes; see proto/detshare.proto */
#define DS_FRAME_FDS_MAX 4u       /* file descriptors per frame */
#define DS_POLICY_PARAMS_MAX 48u  /* parameters of one policy, as in policies/detshare_policy.h */

#define DS_RING_SLOT 64u
#define DS_RING_SLOTS 4096u  /* power of two */
#define DS_RING_HEADER 4096u /* bytes before the first slot */
#define DS_RING_BYTES (DS_RING_HEADER + DS_RING_SLOT * DS_RING_SLOTS)
#define DS_RECORD_PARAMS_MAX 32764u /* CUDA's limit on kernel parameters */
#define DS_STREAMS_MAX 512u         /* stream slots per session; slot 0 is the legacy default stream */
#define DS_EVENTS_MAX 8192u         /* timed events per session */
#define DS_PAGE_BYTES 16384u
#define DS_EVENT_TIMES 256u /* timed events whose times fit in the page; a power of two */
#define DS_SPARES 8u        /* allocations that a client may offer at once */
#define DS_HOST_CALLS 64u   /* maximum number of host functions that are due at once; a power of two */
/* Position in a memory token of the offset and the size of the memory within its slab: two words of 8 bytes, which the
 * client that exports the memory may change */
#define DS_TOKEN_OFFSET 16u
#define DS_ARENA_BYTES (16u << 20) /* staging arena of a session (pinned memory, from PinnedAlloc) */

/* First page of the ring file: constants that the daemon writes at creation, and words that the client writes. */
struct ds_ring_header {
        uint32_t version; /* version and sizes are written by the daemon at creation */
        uint32_t bytes;
        uint32_t slots;
        uint32_t slot_bytes;
        _Alignas(64) _Atomic uint64_t tail;
        _Alignas(64) _Atomic uint32_t waiters; /* threads of the client that sleep on page.wake */
        /* number of host functions that have returned, in the order of page.host_calls. After a change the client
         * writes the eventfd, as after a change of tail */
        _Alignas(64) _Atomic uint64_t host_done;
        /*
         * Value of page.accepted when the client last had the results of all its work: a wait or successful query had
         * ended, head had reached tail, and page.completed equalled page.accepted. The value holds while page.accepted
         * is still that number, and must differ from the value at the attachment's beginning. It is a hint: the worker
         * takes it only as the client's own statement. The worker reads it when it reads tail, and once more before it
         * sleeps. After a change an LS client writes the eventfd if the worker is asleep; other clients do not.
         */
        _Alignas(64) _Atomic uint64_t synchronised;
        /* arrival of the client's next request on the device's clock, ns, as the client states it; 0: not stated */
        _Atomic uint64_t arrival_ns;
        /*
         * Addresses of device allocations that the client does not use, and that the worker may free when memory is
         * needed; 0: none. The client offers an allocation, and either side takes it by changing the word to 0.
         */
        _Alignas(64) _Atomic uint64_t spare[DS_SPARES];
};

_Static_assert(sizeof(struct ds_ring_header) <= DS_RING_HEADER, "the ring's header has grown into its slots");

/* Time at which a timed event, recorded as operation `seq` of `stream`, completed; `turn` is odd while it is
 * written. */
struct ds_event_time {
        _Atomic uint32_t turn;
        _Atomic uint32_t stream;
        _Atomic uint64_t event, seq, ns;
};

struct ds_completion_page {
        uint32_t version;
        uint32_t bytes;
        uint32_t streams;                   /* DS_STREAMS_MAX */
        uint32_t simulated;                 /* 1: the device is simulated, and now_ns is virtual */
        _Alignas(64) _Atomic uint64_t head; /* slots that the worker has consumed */
        /* 1: the worker sleeps, so the client must write the eventfd after it has advanced tail */
        _Atomic uint32_t asleep;
        /* 1: sessions of the other class have work; 0: they have none, or the worker does not know */
        _Atomic uint32_t beside;
        _Alignas(64) _Atomic uint32_t wake; /* futex; grows when a value below has changed while `waiters` is not 0 */
        _Atomic uint32_t dead;              /* 1: this attachment makes no more progress */
        _Atomic int32_t error;              /* sticky CUDA error of the session, 0 = none */
        _Atomic uint32_t error_count;
        /* device clock at the last change, ns; exact while a declared client thread runs on a simulated device */
        _Atomic uint64_t now_ns;
        _Atomic uint64_t accepted;  /* stream operations that the worker has accepted, by ring and by RPC */
        _Atomic uint64_t completed; /* accepted stream operations that have ended */
        /* bytes that the session's kernels have printed, also under earlier workers; the maximum of OutputRead's
         * `upto` */
        _Atomic uint64_t output;
        _Alignas(64) _Atomic uint64_t host_calls; /* number of host functions that have become due */
        _Atomic uint64_t host_ids[DS_HOST_CALLS]; /* id of the n-th due host function, at index n % DS_HOST_CALLS */
        _Alignas(64) _Atomic uint64_t stream_done[DS_STREAMS_MAX];
        /* times of event n at index n % DS_EVENT_TIMES, until another event overwrites them */
        struct ds_event_time times[DS_EVENT_TIMES];
};

_Static_assert(sizeof(struct ds_completion_page) <= DS_PAGE_BYTES, "the completion page has grown out of its file");

enum ds_record_type {
        DS_RECORD_PAD = 1,
        DS_RECORD_LAUNCH = 2,
        DS_RECORD_COPY = 3,
        DS_RECORD_MEMSET = 4,
        DS_RECORD_EVENT = 5,
        DS_RECORD_WAIT = 6,
        DS_RECORD_HOST = 7,
        DS_RECORD_GRAPH = 8,
        DS_RECORD_VALUE = 9,
        DS_RECORD_CHANGE = 10,
        DS_RECORD_OBJECT = 11,
        _DS_RECORD_MAX,
};

/* Header of a record. size: bytes of the record including this header, before rounding up to slots. */
struct ds_record {
        uint16_t type;
        uint16_t stream; /* slot number of the stream */
        uint32_t size;
};

/* Launches a kernel. params_size bytes of packed parameters follow. */
struct ds_record_launch {
        struct ds_record head;
        uint64_t kernel; /* id from GetKernel */
        uint32_t grid[3];
        uint32_t block[3];
        uint32_t shared_bytes;
        uint32_t params_size;
        uint16_t cluster[3];  /* cluster size, blocks; all 0: only the cluster size that the kernel requires */
        uint16_t cooperative; /* 1: the blocks may wait for each other, so all must be resident at once */
};

/* Copies width x height bytes; kind as enum ds_copy_kind of the daemon: 0 HtoD, 1 DtoH, 2 DtoD, 3 HtoH. Host
 * addresses are in pinned memory. */
struct ds_record_copy {
        struct ds_record head;
        uint32_t kind;
        uint32_t reserved;
        uint64_t dst, src, width, height, dst_pitch, src_pitch;
};

struct ds_record_memset {
        struct ds_record head;
        uint32_t value;
        uint32_t element_size;
        uint64_t dst, width, height, pitch;
};

/* Sets the event's time to the end of all earlier work of the stream. event: id from EventCreate, 0: untimed. */
struct ds_record_event {
        struct ds_record head;
        uint64_t event;
};

/* Makes later operations of the stream wait for operation `seq` of stream `other` (already submitted). With `shared`
 * 1 they wait for the shared event `seq`, as recorded last. */
struct ds_record_wait {
        struct ds_record head;
        uint32_t other;
        uint32_t shared;
        uint64_t seq;
};

enum ds_value_kind {
        DS_VALUE_WRITE, /* stores value in memory, after all earlier work of the stream */
        DS_VALUE_GEQ,   /* waits until memory - value is not negative */
        DS_VALUE_EQ,
        DS_VALUE_AND, /* waits until memory & value is not 0 */
        DS_VALUE_NOR, /* waits until ~(memory | value) is not 0 */
        _DS_VALUE_KIND_MAX,
};

/* Operation on a word of 4 or 8 bytes in device memory or pinned memory. */
struct ds_record_value {
        struct ds_record head;
        uint32_t kind; /* enum ds_value_kind */
        uint32_t bytes;
        uint64_t address, value;
};

/* A host function of the client. It is due when all earlier work of the stream has ended, and ends when the client
 * reports its return. The client chooses the id; the worker only passes it on. */
struct ds_record_host {
        struct ds_record head;
        uint64_t id;
};

/*
 * GRAPH: launches all nodes of a graph (GraphCreate), as one operation of the stream. CHANGE: an operation that does
 * nothing. In both, changes of the graph's nodes (struct ds_graph_change) may follow, if GraphReply permits them. They
 * apply to launches of the graph that follow them in the ring, and to the launch of this record.
 */
struct ds_record_graph {
        struct ds_record head;
        uint64_t graph;
};

#define DS_GRAPH_CHANGES_MAX 32768u /* most bytes of the changes in one record */

/* New parameters of one node of a graph. A LAUNCH, COPY or MEMSET follows, of the same type and size as the node's
 * record, whose head.stream is ignored. */
struct ds_graph_change {
        uint32_t node; /* index of the node in the graph's file */
        uint32_t size; /* bytes of the change, including this header; a multiple of 8 */
};

enum ds_object_kind {
        DS_OBJECT_STREAM, /* creates stream head.stream, which must be free; stream 0 always exists */
        DS_OBJECT_STREAM_NON_BLOCKING,
        DS_OBJECT_STREAM_END, /* destroys stream head.stream when its work has ended */
        DS_OBJECT_EVENT_END,  /* destroys event `id`, which the client need not have recorded */
        DS_OBJECT_GRAPH_END,  /* destroys graph `id`, if it exists; launches submitted before continue */
        _DS_OBJECT_KIND_MAX,
};

/*
 * Creates or destroys a stream, or destroys a timed event or a graph (AttachReply says whether the daemon accepts
 * this record). It is no
 * operation: it has no sequence number. After the loss of a worker, a client creates its streams again, before other
 * records, because the new worker may not know the latest ones. An idle stream that exists gets the priority and kind
 * of
 * the record.
 */
struct ds_record_object {
        struct ds_record head;
        uint32_t kind; /* enum ds_object_kind */
        int32_t priority;
        uint64_t id;
};

/* Bit of the ids of events that the client chooses. Such an event is created by its first record. The client never
 * uses an id again. */
#define DS_EVENT_OF_CLIENT (UINT64_C(1) << 63)

/*
 * A graph: the memory file of GraphCreate and GraphUpdate. It has a header, then n_nodes nodes without gaps. A node is
 * a ds_graph_node, n_deps indices of earlier nodes (so the file's order is a valid order of execution), and at
 * record_offset a record as in the ring (LAUNCH with its parameters, COPY, MEMSET, EVENT, HOST; PAD: an empty node),
 * whose head.stream is ignored. Offsets count from the node's first byte; sizes are multiples of 8.
 */
struct ds_graph_file {
        uint32_t version; /* DS_WIRE_VERSION */
        uint32_t n_nodes; /* at most DS_GRAPH_NODES_MAX */
        uint64_t bytes;   /* size of the whole file, bytes; at most DS_GRAPH_BYTES_MAX */
};

struct ds_graph_node {
        uint32_t size; /* bytes of the node, including this header */
        uint32_t n_deps;
        uint32_t record_offset;
        uint32_t flags; /* DS_GRAPH_NODE_* */
};

#define DS_GRAPH_NODES_MAX 65536u
#define DS_GRAPH_BYTES_MAX (64u << 20)
#define DS_GRAPH_NODE_DISABLED 1u /* the node does nothing, like an empty node, but keeps its place in the order */

/*
 * Facts about the pool of memory with known channels: the sealed memory file of GetChannels' reply. It has a header,
 * then one byte per sector (enum ds_pool_class), slab after slab. Sector n of the pool lies n << sector_bits behind the
 * address that number 0 of a table stands for.
 */
enum ds_pool_class {
        DS_POOL_BE, /* entirely in BE's channels */
        DS_POOL_LS, /* entirely in the other channels */
        DS_POOL_NEITHER,
        _DS_POOL_CLASS_MAX,
};

#define DS_POOL_SLABS_MAX 64u
#define DS_POOL_MAGIC 0x4c504344u
#define DS_POOL_CHANNELS_MAX 256u

struct ds_pool_file {
        uint32_t magic, version; /* DS_WIRE_VERSION */
        uint64_t slab_bytes;     /* a multiple of 2 MiB */
        uint32_t n_slabs;        /* at most DS_POOL_SLABS_MAX */
        uint32_t sector_bits, granule_bits;
        uint32_t n_channels, n_be;
        /* shares of the sectors that are BE's, LS's, and of neither, permille */
        uint32_t be_permille, ls_permille, lost_permille;
        uint64_t be_set[DS_POOL_CHANNELS_MAX / 64];
        char provenance[128];
};

/*
 * An image with a request for coloured forms, as a ModuleLoad may contain: this header, n_wants requests, and at
 * image_offset the image itself, PTX text or a fatbin.
 */
#define DS_COLOURED_MAGIC 0x4f435344u
#define DS_COLOURED_WANTS_MAX 64u
#define DS_COLOURED_NAME_MAX 1008u

struct ds_coloured_image {
        uint32_t magic, version;                    /* DS_WIRE_VERSION */
        uint64_t bytes;                             /* size of the whole file */
        uint64_t image_offset;                      /* the image is the rest of the file */
        uint32_t n_wants;                           /* 1 to DS_COLOURED_WANTS_MAX */
        uint8_t kind, sector_bits, shift, reserved; /* fields of struct ds_ptx_colour_layout of the daemon */
};

struct ds_coloured_want {
        uint64_t mask;
        char name[DS_COLOURED_NAME_MAX]; /* NUL-terminated */
};

/*
 * The inputs of a ModuleLink: this header, n_inputs descriptions, and behind them the bytes of the inputs. All bytes of
 * the file are part of the key under which the daemon caches the result, so the client sets unused ones to 0.
 */
#define DS_LINK_MAGIC 0x4b4c5344u
#define DS_LINK_INPUTS_MAX 1024u
#define DS_LINK_BYTES_MAX (256u << 20) /* most bytes of the file */
#define DS_LINK_NAME_MAX 104u

enum ds_link_kind {
        DS_LINK_ANY = 0, /* the kind follows from the bytes */
        DS_LINK_CUBIN,
        DS_LINK_PTX,
        DS_LINK_FATBIN,
        DS_LINK_OBJECT,  /* host object with device code */
        DS_LINK_LIBRARY, /* archive of host objects */
        DS_LINK_LTO,     /* intermediate code for optimisation at link time */
        _DS_LINK_KIND_MAX,
};

enum ds_link_flag {
        DS_LINK_LINE_INFO = 1,
        DS_LINK_DEBUG = 2,
        DS_LINK_VERBOSE = 4,
        DS_LINK_FTZ = 8,
        DS_LINK_NO_PREC_DIV = 16,
        DS_LINK_NO_PREC_SQRT = 32,
        DS_LINK_NO_FMA = 64,
};

struct ds_link_file {
        uint32_t magic, version;              /* DS_WIRE_VERSION */
        uint64_t bytes;                       /* size of the whole file */
        uint32_t n_inputs;                    /* 1 to DS_LINK_INPUTS_MAX */
        uint32_t flags;                       /* enum ds_link_flag */
        uint32_t max_registers, optimization; /* as in ModuleLoad */
};

struct ds_link_input {
        uint64_t offset,
                size;  /* place of the input's bytes in the file, from its beginning; offset: a multiple of 16 */
        uint32_t kind; /* enum ds_link_kind */
        uint32_t reserved;
        char name[DS_LINK_NAME_MAX]; /* NUL-terminated, for messages */
};

/*
 * Descriptions of kernels, one behind another, in the fields `described` of Reply and ModuleReply. Each is this struct,
 * n_params struct ds_described_param, and the name with a NUL. The fields are those of KernelReply. Between worker and
 * client nobody parses them.
 */
#define DS_DESCRIBED_MAX (40u << 10) /* most bytes of the descriptions in one reply */

struct ds_described {
        uint64_t kernel;
        uint32_t bytes;      /* size of this struct with its parameters and name; a multiple of 8 */
        uint32_t name_bytes; /* length of the name without its NUL */
        uint32_t n_params, params_size, max_threads, static_shared, local_bytes, const_bytes, registers;
        uint32_t ptx_version, binary_version, cluster[3], cluster_max, cluster_explicit, blocks_are_clusters;
        uint32_t reserved;
};

struct ds_described_param {
        uint32_t offset, size;
};
_Static_assert(sizeof(struct ds_described) == 80 && sizeof(struct ds_described_param) == 8, "descriptions have gaps");

#endif
