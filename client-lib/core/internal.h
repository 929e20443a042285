/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the client core: the session, and what its files share
 *
 * Which file owns what:
 * - rpc.c: the socket. Many threads may have an open request; one thread at a time reads, for all. answer.c: unpacks
 *   answers, also when memory is used up.
 * - attach.c: ring and completion page. They keep their addresses; a new attachment is mapped over the old one,
 *   so a thread that reads the page during a re-attachment sees the old or the new page, never a hole.
 * - wait.c: sleeping on the page. clock.c: threads declared to the device's clock. clock_note.c: comparison of clocks.
 * - host.c: the program's functions in streams, and the only thread of this library. shared.c: events shared by
 *   processes. value.c: values in memory.
 * - output.c: text that kernels printed. fault.c: the line about a fault. limit.c: limits of the context.
 * - session.c: which session is the process's. retire.c: a lost session: its resources are freed, the object stays,
 *   because a thread may be about to use it.
 * - environment.c: DETSHARE_ variables. connect.c: the making of a session.
 * - memory.c: allocations. copy.c: staging of pageable memory. graph.c: graphs.
 * - object.c: streams and events without requests. stream.c, event.c, module.c: one function per call. phase.c: the
 *   phase hint. file.c: memory files that the daemon reads. coloured.h: tensors in some memory channels.
 *
 * Lock order: session.c's, then coloured.c's, then memory.use, then submit.lock or output.lock, then rpc.*. The locks
 * memory.table, memory.arena_lock, host.lock and events.lock are taken last and never held across a request. Only
 * submit.lock (while attaching, declaring, resetting), output.lock and memory.use are held while waiting for the
 * daemon; submit.lock is never held while waiting for the device.
 *
 * After fork() the child must not touch any lock, because another thread of the parent may have held it: every entry
 * point calls dsc__usable() first.
 */
#pragma once

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "core/ring.h"
#include "detshare.pb-c.h"
#include "proto/slo.h"
#include "proto/wire.h"

#define DSC__INVALID_VALUE 1
#define DSC__OUT_OF_MEMORY 2
#define DSC__NOT_INITIALIZED 3
#define DSC__NO_DEVICE 100
#define DSC__INVALID_HANDLE 400
#define DSC__NOT_READY 600
#define DSC__LAUNCH_FAILED 719
#define DSC__UNKNOWN 999

#define DSC__SHARE_ALL 1000u /* the whole GPU time, thousandths */
#define DSC__PHASES 3u       /* number of phases that detshare.h defines */

/* interval at which a thread that does not read the socket checks that the daemon still runs */
#define DSC__ALIVE_NS 50000000u
#define DSC__FDS_QUEUE 16u          /* most received file descriptors that wait for their answer */
#define DSC__MESSAGE_BYTES 4200u    /* size of the buffer behind dsc_message() */
#define DSC__SPARE_BYTES (1u << 20) /* size of the spare memory: enough for any unpacked answer of the daemon */

struct dsc__rpc;

struct dsc__answer {
        Detshare__Reply *reply;
        struct dsc__rpc *lender; /* connection whose spare memory holds the reply; NULL: the reply is malloc'ed */
        /* descriptors of the answer; -1: it did not arrive, because the process has none left */
        int fds[DS_FRAME_FDS_MAX];
        uint32_t n_fds;
};
#define DSC__ANSWER_NULL                                                           \
        (struct dsc__answer)                                                       \
        {                                                                          \
                .reply = NULL, .lender = NULL, .fds = {-1, -1, -1, -1}, .n_fds = 0 \
        }

struct dsc__open_call;

struct dsc__rpc {
        int fd;
        pthread_mutex_t lock; /* protects the list of open calls, `reading` and the counters */
        pthread_cond_t room;
        struct dsc__open_call *calls;
        bool reading, retired;
        unsigned n_open, n_slow, n_users;
        uint64_t next_id;

        pthread_mutex_t send_lock;  /* protects `out` and the order of requests */
        _Atomic uint64_t ring_tail; /* tail of the ring that requests carry; 0 while no ring is attached */
        uint8_t *out;

        uint8_t *in; /* received bytes; in, in_size, in_fds and n_in_fds belong to the thread that reads the socket */
        size_t in_size;
        int in_fds[DSC__FDS_QUEUE];
        uint32_t n_in_fds;
        bool fds_missing; /* the kernel dropped descriptors that the daemon sent, because this process has none left */

        uint8_t *spare;    /* memory for one answer when malloc fails; a thread that uses it counts in n_users */
        size_t spare_used; /* used bytes of `spare`; belongs to the thread that has taken it */
        bool spare_taken;
};

struct dsc__stream {
        bool used, non_blocking; /* used: the slot has a stream */
        int32_t priority;
        /* operation of stream 0 that ends before all work that this stream gets from now on; 0: none */
        uint64_t settled;
};

struct dsc__submit {
        pthread_mutex_t lock; /* protects attaching, and the ring as its producer */
        _Atomic bool attached;
        /* error of operations that were lost when a worker died; 0 after a reset of the session */
        _Atomic int lost_error;
        bool kept;            /* 1: the last attachment continues with the previous attachment's ring */
        _Atomic bool objects; /* true: the daemon accepts the ring's record OBJECT */
        struct dsc__stream streams[DS_STREAMS_MAX]; /* by slot; protected by `lock` */
        struct dsc__ring ring;
        _Atomic uint64_t tails[DS_STREAMS_MAX];
        /* operation of stream 0 that the program counts as ended, although it may not have: the work that non-blocking
         * streams get from now on runs after it, and no other work is left before it; 0: none */
        _Atomic uint64_t unsettled;
};

struct dsc__waiters {
        pthread_mutex_t lock;
        uint32_t n;
        uint64_t spin_ns;
};

enum dsc__range_kind { DSC__RANGE_DEVICE = 1, DSC__RANGE_PINNED = 2, DSC__RANGE_GLOBAL = 3, DSC__RANGE_PLAIN = 4 };

struct dsc__range {
        uint64_t base, size;
        uint32_t kind;
        uint64_t module; /* module of a GLOBAL range */
        bool exported;   /* true: other processes may use the memory, also when it is freed */
};

struct dsc__arena;

#define DSC__RESERVED_MAX 64u /* most address ranges outside of the window, the daemon's limit too */

struct dsc__memory {
        /* read lock: a thread uses the staging arena or maps memory; write lock: a reset or the end of the session
         * frees them */
        pthread_rwlock_t use;
        pthread_rwlock_t table;    /* protects the ranges */
        struct dsc__range *ranges; /* sorted by base */
        size_t n_ranges, n_space;
        /* allocations that the daemon may take, as in the ring's header; size 0: none; protected by submit.lock */
        struct dsc__range spares[DS_SPARES];
        uint64_t offers[DS_SPARES]; /* number of the offer in each word, from 1; protected by submit.lock */
        uint64_t n_offers;          /* number of offers so far; protected by submit.lock */
        uint64_t spare_bytes;       /* AttachReply.spare_bytes; protected by submit.lock */
        pthread_mutex_t arena_lock;
        struct dsc__arena *arena;
        struct {
                uint64_t base, bytes;  /* bytes 0: unused entry */
        } reserved[DSC__RESERVED_MAX]; /* the ranges outside of the window; protected by `table` */
};

struct dsc__output {
        pthread_mutex_t lock;  /* held by the thread that reads output */
        _Atomic uint64_t read; /* number of printed bytes that this process has read, as page->output counts them */
};

#define DSC__HOST_BUCKETS 256u

struct dsc__function;

struct dsc__host {
        pthread_mutex_t lock; /* protects the table of functions, and start and end of the thread */
        pthread_cond_t cond;
        struct dsc__function *buckets[DSC__HOST_BUCKETS];
        struct dsc__function *first, *last; /* oldest and newest entry of the table */
        uint64_t next_id;
        bool started, ended;
        _Atomic uint32_t n, n_armed;
        _Atomic bool orphaned; /* true: the session was reset, so the daemon will not call armed functions */
        /* number of functions that have returned, as in the ring's header; changed with submit.lock held */
        _Atomic uint64_t returned;
        uint64_t generation; /* number of the current attachment; changed with submit.lock held */
};

struct dsc__clock {
        _Atomic uint32_t n_declared; /* number of declared threads; changed with submit.lock held */
        /* changes when all declarations become void; different in every session of the process */
        _Atomic uint32_t epoch;
        /* time of the last contact with the daemon, CLOCK_MONOTONIC, ns; kept while n_declared > 0 */
        _Atomic uint64_t contact_ns;
};

struct dsc_session {
        struct dsc__rpc rpc;
        _Atomic bool lost;
        bool socket_only; /* DETSHARE_TRANSPORT=rpc */
        bool control_only;
        char *path;
        uint64_t id;
        uint64_t window_base, window_bytes;
        bool simulated;
        _Atomic uint32_t granted_class;
        uint32_t phase; /* phase that the daemon must know; changed with submit.lock held */
        char daemon_version[32];
        struct dsc_device device;
        /* address of the ring, reserved at connect; each attachment is mapped there */
        struct ds_ring_header *ring_header;
        struct ds_completion_page *page;
        struct dsc__submit submit;
        struct dsc__waiters waiters;
        struct dsc__memory memory;
        struct dsc__clock clock;
        struct dsc__output output;
        struct dsc__host host;
        struct {
                /* times of both clocks at the first attachment; wall_ns 0: not attached yet */
                uint64_t wall_ns, device_ns;
                /* true: no note is needed any more, because it was printed or a thread has read the device's clock */
                _Atomic bool over;
        } note;
        _Atomic uint64_t event_id;  /* last id of an event that this session chose, without DS_EVENT_OF_CLIENT */
        _Atomic uint32_t n_events;  /* events with such ids */
        _Atomic bool graph_changes; /* true: the daemon accepts changes of graphs' nodes in the ring */
        /* true: the line about the fault was printed; false again after a reset of the session */
        _Atomic bool fault_told;
        struct dsc__coloured *coloured; /* state of coloured.h; NULL until it is first used */
        dsc_session *next;              /* next in the list of retired sessions */
};

/* --- error.c --- */

void dsc__message_clear(void);
__attribute__((format(printf, 1, 2))) void dsc__message(const char *format, ...);
uint64_t dsc__now(void); /* CLOCK_MONOTONIC, ns */

/* --- public.c --- */

int dsc__fold(int error); /* converts any return value to a DETSHARE_E_ code */

/* --- coloured.c --- */

void dsc__coloured_drop(dsc_session *s);

/* --- session.c --- */

extern _Atomic bool dsc__forked;

/* The check with which every call begins. Returns 0, or the error to return: 3 in a forked child, 999 when the
 * daemon is gone. */
int dsc__usable(dsc_session *s);
/* As dsc_get(), with a path (NULL: the environment's). *ret_error may be a daemon status: DENIED if this user may
 * not use the socket. */
dsc_session *dsc__session(const char *path, int *ret_error);
dsc_session *dsc__session_peek(void); /* the process's session; NULL: it has none */
/* Removes the process's session, so that the next call that needs one makes a new one. */
void dsc__session_drop(void);

/* --- retire.c --- */

/*
 * Marks the session as lost and frees its resources in this process: addresses, mappings, descriptors, buffers. The
 * object stays for ever, and every call with it returns 999. Waits for threads that copy. The caller may hold only
 * session.c's lock.
 */
void dsc__retire(dsc_session *s);

/* --- environment.c --- */

struct dsc__options {
        const char *path;
        bool control_only, socket_only;
        uint32_t class_, sm_percent, gpu_request, gpu_limit, phase;
        uint64_t memory_limit;
        struct ds_slo slo;
        /* name of the variable with a wrong value; NULL if none. Connecting fails with a message about it */
        const char *bad_variable;
        char name[64];
};

void dsc__options_from_environment(struct dsc__options *options);
void dsc__variable_refuse(const char *name); /* sets dsc_message() to the values that the variable accepts */
void dsc__variables_check(void);             /* prints a warning about unknown variables, once per process */
/* 1: notes that report no error may be printed on standard error (DETSHARE_NOTES) */
bool dsc__notes(void);

/* --- connect.c --- */

/*
 * Duplicates fd to a number above 2 and closes the old number; -1 stays -1. A program may have closed its standard
 * streams, and its output must not go into this library's socket.
 */
int dsc__fd_above_standard(int fd);
int dsc__ask_device(dsc_session *s); /* requests the device's description and stores it in s->device */
/* Makes a session. dsc__pending() registers it while it is incomplete. On failure dsc_message() has the reason. */
int dsc__connect(const struct dsc__options *options, dsc_session **ret);
void dsc__pending(dsc_session *s); /* registers an incomplete session, so that a forked child closes it (session.c) */
dsc_session *dsc__session_free(dsc_session *s);

/* --- rpc.c --- */

int dsc__rpc_init(struct dsc__rpc *rpc, int fd);
void dsc__rpc_deinit(struct dsc__rpc *rpc);
/* Frees socket and buffers of a lost session when the last thread leaves them. */
void dsc__rpc_retire(struct dsc__rpc *rpc);
/*
 * Sends one request and waits for its answer. fd: descriptor to send along (-1: none); it stays open. expect: the kind
 * of answer, or NOT_SET, when ret may be NULL. Returns 0, a CUDA error or a daemon status; *ret is empty unless 0.
 * While the worker restarts, the call waits, at most 10 s.
 */
int dsc__call(dsc_session *s, Detshare__Request *request, int fd, Detshare__Reply__ResultCase expect,
        struct dsc__answer *ret);
/* Sends a request whose answer nobody needs; the thread that reads it drops it. */
void dsc__call_forget(dsc_session *s, Detshare__Request *request);
bool dsc__spare_take(struct dsc__rpc *rpc);
void dsc__spare_give(struct dsc__rpc *rpc);
void dsc__lose(dsc_session *s);
bool dsc__peer_gone(dsc_session *s); /* 1: the daemon is gone, and the session is now marked as lost */

#define DSC__REQUEST(kind, field, message)                                       \
        {                                                                        \
                .base = PROTOBUF_C_MESSAGE_INIT(&detshare__request__descriptor), \
                .call_case = DETSHARE__REQUEST__CALL_##kind, .field = (message)  \
        }

/* --- answer.c --- */

/*
 * Unpacks an answer; called by the thread that reads the socket. 0; UNKNOWN: the bytes are no answer; OUT_OF_MEMORY:
 * malloc failed and the spare memory is in use (by another thread, or an earlier answer of this thread): try again
 * later.
 */
int dsc__answer_unpack(struct dsc__rpc *rpc, const uint8_t *bytes, size_t size, struct dsc__answer *ret);
void dsc__answer_clear(struct dsc__answer *answer);
/* Copies the descriptions in an answer; NULL: there are none, or there is no memory: then kernels are requested one by
 * one. */
struct dsc_described *dsc__described(const ProtobufCBinaryData *from);

/* --- file.c --- */

/* Returns 0, or -1 if not all bytes could be written. */
int dsc__write_all(int fd, const void *bytes, size_t size);
/* Makes a memory file of these bytes, with these seals (F_SEAL_*). The caller closes *ret_fd. Returns 0 or
 * OUT_OF_MEMORY. */
int dsc__sealed_file(const char *name, const void *bytes, size_t size, int seals, int *ret_fd);

/* --- mapped.c --- */

/*
 * *ret: descriptor for reading of the file that the process has mapped at these bytes; *ret_offset: position of the
 * bytes in it. -1: no file is mapped there, or that is not certain.
 */
int dsc__mapped(const void *bytes, size_t size, uint64_t *ret_offset);

/* --- attach.c --- */

/* 1: the memory file has so many bytes and cannot shrink. Reading a mapping beyond the end of its file kills the
 * process. */
bool dsc__keeps_bytes(int fd, uint64_t bytes);
/* Attaches to the worker, unless the session is attached to a living one. With submit.lock held. Returns 0 or an
 * error. */
int dsc__attach_locked(dsc_session *s);
int dsc__attach(dsc_session *s);
static inline bool dsc__attached(dsc_session *s)
{
        return atomic_load_explicit(&s->submit.attached, memory_order_acquire);
}
int dsc__sticky(dsc_session *s); /* session's sticky error as the page shows it, 0 if none; makes no request */

/* --- wait.c --- */

typedef bool (*dsc__condition)(dsc_session *s, const void *arg);

void dsc__waiters_init(struct dsc__waiters *waiters);
/* Waits until condition() holds; checks every nap_ns at least. condition() must also hold when page->dead is set.
 * Returns 0, or an error if the daemon is gone. */
int dsc__await(dsc_session *s, dsc__condition condition, const void *arg, uint32_t nap_ns);
bool dsc__ended(dsc_session *s, uint32_t stream, uint64_t seq);
/* 1: the operation has ended, or will not: its worker is dead, or the session has an error. */
bool dsc__ended_or_over(dsc_session *s, uint32_t stream, uint64_t seq);
/* For calls that only read the page: checks from time to time whether the daemon still runs, which a program that
 * polls would otherwise never learn. Returns 0, or 999. */
int dsc__look(dsc_session *s);
int dsc__await_room(dsc_session *s, uint64_t slots);
/* Call after a successful wait or query: if none of the session's work is left, reports to the daemon that the
 * program knows. */
void dsc__synchronised(dsc_session *s);
/* Writes the number of waiting threads into the header of a newly mapped ring. */
void dsc__waiters_publish(dsc_session *s);

/* --- output.c --- */

void dsc__output_init(struct dsc__output *output);
/* Reads the text that kernels printed and writes it out. wait: if another thread is reading, waits for it. */
void dsc__output_new(dsc_session *s, bool wait);
/* Call with an error that the caller returns to the program. For a kernel's error, first writes out the printed text
 * and the line about the fault. Returns the error. The caller must not hold output.lock. */
int dsc__told(dsc_session *s, int error);
/* 1: the page counts printed text that this process has not read */
static inline bool dsc__output_waits(dsc_session *s)
{
        return dsc__attached(s) && __builtin_expect(atomic_load_explicit(&s->page->output, memory_order_relaxed) >
                                                            atomic_load_explicit(&s->output.read, memory_order_relaxed),
                                           0);
}

/* --- fault.c --- */

/* Prints the line about a kernel's fault once; does nothing for other errors. The caller must not hold output.lock. */
void dsc__fault(dsc_session *s, int error);

/* --- clock_note.c --- */

void dsc__clock_note_begin(dsc_session *s); /* call when a page has been attached for the first time */
void dsc__clock_note(dsc_session *s);       /* compares the clocks; prints one line on standard error if they differ */

/* --- stream.c --- */

/* Puts a record into the ring. ret_seq may be NULL. */
int dsc__submit(dsc_session *s, const struct ds_record *record, size_t size, const void *payload, size_t payload_size,
        uint64_t *ret_seq);
/* All operations of stream 0 so far have ended, or were lost. With submit.lock held. */
void dsc__settle_forget_locked(dsc_session *s);
/* Sends a request that the daemon counts as one operation of the stream. ret_seq may be NULL. */
int dsc__submit_call(dsc_session *s, uint32_t stream, Detshare__Request *request, uint64_t *ret_seq);

/* --- object.c --- */

/* 1: streams and events can be created and destroyed in the ring. Attaches if the session is not attached. */
bool dsc__objects(dsc_session *s);
int dsc__stream_create(dsc_session *s, int32_t priority, bool non_blocking, uint32_t *ret_stream);
int dsc__stream_destroy(dsc_session *s, uint32_t stream); /* waits for the stream's work first */
/* Notes a stream that a request has created or destroyed. */
void dsc__stream_note(dsc_session *s, uint32_t stream, const struct dsc__stream *as);
/* Creates the session's streams again in a new worker. With submit.lock held, right after attaching. */
void dsc__streams_renew_locked(dsc_session *s);
void dsc__streams_forget_locked(dsc_session *s); /* the session was reset; with submit.lock held */
int dsc__event_create(dsc_session *s, uint64_t *ret_event);
int dsc__event_destroy(dsc_session *s, uint64_t event); /* an event of dsc__event_create() */

/* --- phase.c --- */

int dsc__phase_set(dsc_session *s, uint32_t phase);
/* Sends the session's phase to a new worker. With submit.lock held. */
void dsc__phase_tell_locked(dsc_session *s);

/* --- memory.c --- */

int dsc__memory_init(struct dsc__memory *memory);
void dsc__memory_deinit(struct dsc__memory *memory);
int dsc__pinned_map(dsc_session *s, uint64_t bytes, uint64_t *ret_address, uint64_t *ret_bytes);
/* unmaps pinned memory and frees it in the daemon */
void dsc__pinned_release(dsc_session *s, uint64_t address, uint64_t bytes);
bool dsc__in_pinned_half(const dsc_session *s, uint64_t address, uint64_t bytes);
void dsc__pinned_unmap(dsc_session *s, uint64_t address, uint64_t bytes);
int dsc__table_add(dsc_session *s, const struct dsc__range *range);
void dsc__table_drop_module(dsc_session *s, uint64_t module);
void dsc__table_export(dsc_session *s, uint64_t base); /* marks the allocation at base as exported */
/*
 * 1: an allocation that failed with this error may succeed now, because the daemon has taken memory back that programs
 * keep without using it. *nap_ns: 0 at first; each call sleeps longer, and the last one returns 0.
 */
bool dsc__memory_comes(dsc_session *s, int error, uint64_t bytes, uint32_t *nap_ns);
/* The addresses in the ring header's `spare` move from an old ring to a new one. With submit.lock held. */
void dsc__spare_leave_locked(dsc_session *s, uint64_t ret[DS_SPARES]);
void dsc__table_clear(dsc_session *s); /* removes all ranges from the table and unmaps the pinned ones */

/* --- vmm.c --- */

/* forgets the reserved ranges; with memory.use held for writing */
void dsc__reserved_drop(dsc_session *s, bool in_daemon);

/* --- copy.c --- */

void dsc__arena_drop(dsc_session *s); /* frees the staging arena; with memory.use held for writing */

/* --- host.c --- */

void dsc__host_init(struct dsc__host *host);
void dsc__host_detach_locked(dsc_session *s); /* call before an Attach; with submit.lock held */
void dsc__host_attach_locked(dsc_session *s); /* call when the new ring is in place; with submit.lock held */
/* Wakes the thread of host functions for a change that it does not see by itself. orphaned: the session was reset. */
void dsc__host_wake(dsc_session *s, bool orphaned);

/* --- clock.c --- */

uint32_t dsc__clock_epoch(void);    /* returns an epoch that no declaration of this process has used */
bool dsc__declared(dsc_session *s); /* 1: the calling thread is declared */
void dsc__clock_contact(dsc_session *s);
int dsc__clock_rejoin_locked(dsc_session *s); /* repeats the declarations of all threads to a new worker */
int dsc__clock_now(dsc_session *s, uint64_t *ret_ns);
int dsc__clock_sleep(dsc_session *s, uint64_t ns);
int dsc__clock_leave(dsc_session *s);
