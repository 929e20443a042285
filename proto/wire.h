/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared-memory layout between a client and the worker
 *
 * Two memory files per attachment, created and sealed by the daemon, and one eventfd:
 *  - the submission ring: the client writes, the worker reads. The worker believes nothing in it: it copies each record
 * once and checks the copy.
 *  - the completion page: the worker (and, when the worker died, the supervisor) writes; the client can only read
 *    (F_SEAL_FUTURE_WRITE), so nothing a client does can forge progress.
 *  - the eventfd: the client writes to it after producing when the page says that the worker is asleep.
 * An attachment belongs to one worker process. When that dies the page says so (`dead`), and the client
 * attaches anew; memory and addresses stay.
 *
 * The ring is an array of 64-byte slots. A record is a header and its payload in consecutive slots; a record that would
 * cross the end of the array is preceded by a PAD record up to the end. `tail` (client) and `head` (worker) count slots
 * and only grow; slot = count & (slots - 1).
 *
 * Every stream operation, by ring or by RPC, gets the next sequence number of its stream, counted alike on both sides
 * from 1; stream_done[slot] in the completion page is the last one that ended (all before it ended too).
 */
#ifndef DETSHARE_WIRE_H
#define DETSHARE_WIRE_H

#include <stdatomic.h>
#include <stdint.h>

#define DS_WIRE_VERSION 6u

#define DS_FRAME_MAX (64u * 1024) /* control frame payload, bytes; see proto/detshare.proto */
#define DS_FRAME_FDS_MAX 4u       /* file descriptors beside one frame */
#define DS_POLICY_PARAMS_MAX 48u  /* of one policy: as many as it may have, see policies/detshare_policy.h */

#define DS_RING_SLOT 64u
#define DS_RING_SLOTS 4096u  /* power of two */
#define DS_RING_HEADER 4096u /* bytes before the first slot */
#define DS_RING_BYTES (DS_RING_HEADER + DS_RING_SLOT * DS_RING_SLOTS)
#define DS_RECORD_PARAMS_MAX 32764u /* CUDA's limit on kernel parameters */
#define DS_STREAMS_MAX 512u         /* stream slots per session; slot 0 is the legacy default stream */
#define DS_EVENTS_MAX 8192u         /* timed events per session */
#define DS_PAGE_BYTES 16384u
#define DS_EVENT_TIMES 256u        /* timed events whose times the page has; a power of two */
#define DS_HOST_CALLS 64u          /* host functions that may be due at once; a power of two */
#define DS_ARENA_BYTES (16u << 20) /* staging arena of a session (pinned memory, from PinnedAlloc) */

/* First page of the ring file: constants that the daemon wrote at creation, and the words that the client writes. */
struct ds_ring_header {
        uint32_t version; /* written by the daemon at creation */
        uint32_t bytes;
        uint32_t slots;
        uint32_t slot_bytes;
        _Alignas(64) _Atomic uint64_t tail;
        _Alignas(64) _Atomic uint32_t waiters;   /* threads of the client that sleep on page.wake */
        _Alignas(64) _Atomic uint64_t host_done; /* host functions that have returned: of page.host_calls, in that
                                                    order; the client writes the eventfd after it, as after tail */
        /*
         * page.accepted, as a thread of the client saw it when a wait, or a question that was answered with success,
         * had ended and nothing was left: head had reached tail, and page.completed was as much. So the client has the
         * results of all that it submitted. It means something while page.accepted still is this number; another one
         * than at the attachment's beginning. A hint: nothing is believed of it but that the client says so. The worker
         * looks at it when it looks at tail, also once more before it sleeps; a latency-sensitive client writes the
         * eventfd after it if the worker is asleep, others do not.
         */
        _Alignas(64) _Atomic uint64_t synchronised;
};

_Static_assert(sizeof(struct ds_ring_header) <= DS_RING_HEADER, "the ring's header has grown into its slots");

/* When a timed event was reached that was recorded as operation `seq` of `stream`; `turn` is odd while it is written.
 */
struct ds_event_time {
        _Atomic uint32_t turn;
        _Atomic uint32_t stream;
        _Atomic uint64_t event, seq, ns;
};

struct ds_completion_page {
        uint32_t version;
        uint32_t bytes;
        uint32_t streams;                   /* DS_STREAMS_MAX */
        uint32_t simulated;                 /* now_ns is virtual */
        _Alignas(64) _Atomic uint64_t head; /* slots consumed */
        _Atomic uint32_t asleep;            /* 1: write the eventfd after advancing tail */
        _Atomic uint32_t beside;            /* 1: sessions of the other class have work; 0 where nobody says */
        _Alignas(64) _Atomic uint32_t
                wake;          /* futex; grows whenever something below changed and a waiter was announced */
        _Atomic uint32_t dead; /* 1: this attachment will make no more progress */
        _Atomic int32_t error; /* sticky CUDA error of the session, 0 = none */
        _Atomic uint32_t error_count;
        _Atomic uint64_t now_ns;    /* device clock at the last change; exact while a declared client runs (sim) */
        _Atomic uint64_t accepted;  /* stream operations taken over by the worker, ring and RPC */
        _Atomic uint64_t completed; /* of those, ended */
        _Atomic uint64_t output;    /* bytes that its kernels have printed so far, under earlier workers too: what
                                       OutputRead can be asked for */
        _Alignas(64) _Atomic uint64_t host_calls; /* host functions that have become due so far */
        _Atomic uint64_t host_ids[DS_HOST_CALLS]; /* the n-th one's id is in [n % DS_HOST_CALLS] */
        _Alignas(64) _Atomic uint64_t stream_done[DS_STREAMS_MAX];
        struct ds_event_time times[DS_EVENT_TIMES]; /* of event n in [n % DS_EVENT_TIMES], until another takes it */
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
        _DS_RECORD_MAX,
};

/* size: bytes of the record with this header, before rounding up to slots. */
struct ds_record {
        uint16_t type;
        uint16_t stream; /* slot number */
        uint32_t size;
};

/* params_size bytes of packed parameters follow. */
struct ds_record_launch {
        struct ds_record head;
        uint64_t kernel; /* id from GetKernel */
        uint32_t grid[3];
        uint32_t block[3];
        uint32_t shared_bytes;
        uint32_t params_size;
        uint16_t cluster[3];  /* blocks; all 0: none but what the kernel requires */
        uint16_t cooperative; /* 1: its blocks may wait for each other, so all must be on the device at once */
};

/* width x height bytes; kind as enum ds_copy_kind of the daemon: 0 HtoD, 1 DtoH, 2 DtoD, 3 HtoH. Host sides are pinned.
 */
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

/* The event's time becomes the time at which everything before it in the stream ended. event: id from EventCreate, 0 =
 * untimed. */
struct ds_record_event {
        struct ds_record head;
        uint64_t event;
};

/* Later operations of the stream wait for operation `seq` of stream `other` (already submitted); or, if `shared` is 1,
 * for what the shared event `seq` was recorded behind last. */
struct ds_record_wait {
        struct ds_record head;
        uint32_t other;
        uint32_t shared;
        uint64_t seq;
};

enum ds_value_kind {
        DS_VALUE_WRITE, /* store it, after everything before it in the stream */
        DS_VALUE_GEQ,   /* wait until the difference to what is there is not negative */
        DS_VALUE_EQ,
        DS_VALUE_AND, /* until they have a bit in common */
        DS_VALUE_NOR, /* until there is a bit that neither has */
        _DS_VALUE_KIND_MAX,
};

/* A word of 4 or 8 bytes in memory of the device or in pinned memory. */
struct ds_record_value {
        struct ds_record head;
        uint32_t kind; /* enum ds_value_kind */
        uint32_t bytes;
        uint64_t address, value;
};

/* A host function of the client: due when everything before it in the stream has ended; ends when the client says that
 * it returned. The id is the client's own and means nothing to the worker. */
struct ds_record_host {
        struct ds_record head;
        uint64_t id;
};

/* All nodes of a graph (GraphCreate), as one operation of the stream. */
struct ds_record_graph {
        struct ds_record head;
        uint64_t graph;
};

/*
 * What a graph consists of: the memory file beside GraphCreate and GraphUpdate. A header, then n_nodes nodes back to
 * back, each a ds_graph_node, n_deps indices of earlier nodes (so the order in the file is one in which they can run),
 * and at record_offset a record as the ring's (LAUNCH with its parameters, COPY, MEMSET, EVENT, HOST; PAD: an empty
 * node), whose head.stream means nothing. Offsets count from the node's first byte; sizes are multiples of 8.
 */
struct ds_graph_file {
        uint32_t version; /* DS_WIRE_VERSION */
        uint32_t n_nodes; /* at most DS_GRAPH_NODES_MAX */
        uint64_t bytes;   /* of the whole file, at most DS_GRAPH_BYTES_MAX */
};

struct ds_graph_node {
        uint32_t size; /* bytes, this header included */
        uint32_t n_deps;
        uint32_t record_offset;
        uint32_t flags; /* DS_GRAPH_NODE_* */
};

#define DS_GRAPH_NODES_MAX 65536u
#define DS_GRAPH_BYTES_MAX (64u << 20)
#define DS_GRAPH_NODE_DISABLED 1u /* does nothing, as an empty node */

/*
 * What is known of the pool of memory whose channels are known: the sealed memory file beside GetChannels' reply. A
 * header, then a byte for each sector of each slab, slabs one behind the other: enum ds_pool_class. Addresses: sector n
 * of all lies n << sector_bits behind the address that a table's number 0 stands for.
 */
enum ds_pool_class {
        DS_POOL_BE, /* it lies wholly in best effort's channels */
        DS_POOL_LS, /* wholly in the others */
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
        uint32_t be_permille, ls_permille, lost_permille; /* of all sectors */
        uint64_t be_set[DS_POOL_CHANNELS_MAX / 64];
        char provenance[128];
};

/*
 * An image of which coloured forms are wanted, as ModuleLoad may bring one: this header, n_wants of what is wanted, and
 * at image_offset the image itself, PTX text or a fatbin.
 */
#define DS_COLOURED_MAGIC 0x4f435344u
#define DS_COLOURED_WANTS_MAX 64u
#define DS_COLOURED_NAME_MAX 1008u

struct ds_coloured_image {
        uint32_t magic, version;                    /* DS_WIRE_VERSION */
        uint64_t bytes;                             /* of all of it */
        uint64_t image_offset;                      /* the image is the rest */
        uint32_t n_wants;                           /* 1 to DS_COLOURED_WANTS_MAX */
        uint8_t kind, sector_bits, shift, reserved; /* struct ds_ptx_colour_layout of the daemon */
};

struct ds_coloured_want {
        uint64_t mask;
        char name[DS_COLOURED_NAME_MAX]; /* NUL-terminated */
};

#endif
