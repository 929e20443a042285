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
 * - stream.c, event.c, module.c: one function per call. phase.c: the phase hint. coloured.h: tensors in some memory
 *   channels.
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
#define DSC__PHASES 3u       /* number of phases in detshare.h */

/* interval at which a thread that does not read the socket checks that the daemon still runs */
#define DSC__ALIVE_NS 50000000u
#define DSC__FDS_QUEUE 16u          /* most file descriptors that are received and not yet taken */
#define DSC__SPARE_BYTES (1u << 20) /* enough for any unpacked answer of the daemon */

struct dsc__rpc;

struct dsc__answer {
        Detshare__Reply *reply;
        struct dsc__rpc *lender;   /* owner of the spare memory that the reply lies in; NULL: the reply is malloc'ed */
        int fds[DS_FRAME_FDS_MAX]; /* -1: the descriptor did not arrive, because the process has none left */
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
        pthread_mutex_t lock; /* protects the open calls, `reading` and the counters */
        pthread_cond_t room;
        struct dsc__open_call *calls;
        bool reading, retired;
        unsigned n_open, n_slow, n_users;
        uint64_t next_id;

        pthread_mutex_t send_lock;  /* protects `out` and the order of requests */
        _Atomic uint64_t ring_tail; /* ring tail that requests carry; 0 while no ring is attached */
        uint8_t *out;

        uint8_t *in; /* in, in_size, in_fds, n_in_fds: used only by the thread that reads */
        size_t in_size;
        int in_fds[DSC__FDS_QUEUE];
        uint32_t n_in_fds;
        bool fds_missing; /* the kernel dropped descriptors, because this process has none left */

        uint8_t *spare;    /* memory for one answer when malloc fails; the thread that uses it counts in n_users */
        size_t spare_used; /* bytes used of spare, by the thread that has taken it */
        bool spare_taken;
};

struct dsc__submit {
        pthread_mutex_t lock; /* protects the producer side of the ring, and attaching */
        _Atomic bool attached;
        _Atomic int lost_error; /* error of operations that were lost with a worker; 0 after a reset of the session */
        bool kept;              /* 1: the last attachment continues with the previous attachment's ring */
        struct dsc__ring ring;
        _Atomic uint64_t tails[DS_STREAMS_MAX];
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
        uint64_t module; /* module of a range of kind GLOBAL */
};

struct dsc__arena;

#define DSC__RESERVED_MAX 64u /* most address ranges outside of the window; the daemon grants no more */

struct dsc__memory {
        pthread_rwlock_t use;      /* read lock: staging is in use; write lock: everything is freed (reset) */
        pthread_rwlock_t table;    /* protects the ranges */
        struct dsc__range *ranges; /* sorted by base */
        size_t n_ranges, n_space;
        pthread_mutex_t arena_lock;
        struct dsc__arena *arena;
        struct {
                uint64_t base, bytes;  /* bytes 0: unused entry */
        } reserved[DSC__RESERVED_MAX]; /* protected by `table` */
};

struct dsc__output {
        pthread_mutex_t lock;  /* held by the thread that reads output */
        _Atomic uint64_t read; /* bytes read, as page->output counts them */
};

#define DSC__HOST_BUCKETS 256u

struct dsc__function;

struct dsc__host {
        pthread_mutex_t lock; /* protects the table and the thread's life */
        pthread_cond_t cond;
        struct dsc__function *buckets[DSC__HOST_BUCKETS];
        struct dsc__function *first, *last; /* oldest and newest function */
        uint64_t next_id;
        bool started, ended;
        _Atomic uint32_t n, n_armed;
        _Atomic bool orphaned;     /* the session was reset: armed functions are not called any more */
        _Atomic uint64_t returned; /* as in the ring's header; changed with submit.lock held */
        uint64_t generation;       /* number of the attachment; changed with submit.lock held */
};

struct dsc__clock {
        _Atomic uint32_t n_declared; /* changed with submit.lock held */
        _Atomic uint32_t epoch;      /* changes when all declarations become void; no two sessions share a value */
        _Atomic uint64_t
                /* time of the last contact with the daemon, CLOCK_MONOTONIC, ns; kept while n_declared > 0 */
                contact_ns;
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
        uint32_t phase; /* phase that the daemon should know; changed with submit.lock held */
        char daemon_version[32];
        struct dsc_device device;
        struct ds_ring_header *ring_header; /* address range reserved at connect, mapped at attachment */
        struct ds_completion_page *page;
        struct dsc__submit submit;
        struct dsc__waiters waiters;
        struct dsc__memory memory;
        struct dsc__clock clock;
        struct dsc__output output;
        struct dsc__host host;
        struct {
                uint64_t wall_ns, device_ns; /* both clocks at the first attachment; wall_ns 0: before it */
                _Atomic bool over;           /* the note was printed, or a thread has read the device's clock */
        } note;
        _Atomic bool fault_told;        /* the fault's line was printed; until the session is reset */
        struct dsc__coloured *coloured; /* state of coloured.h; NULL until it is first used */
        dsc_session *next;              /* next in the list of retired sessions */
};

/* --- error.c --- */

void dsc__message_clear(void);
__attribute__((format(printf, 1, 2))) void dsc__message(const char *format, ...);
uint64_t dsc__now(void); /* CLOCK_MONOTONIC, ns */

/* --- public.c --- */

int dsc__fold(int error); /* any return value as a DETSHARE_E_ code */

/* --- coloured.c --- */

void dsc__coloured_drop(dsc_session *s);

/* --- session.c --- */

extern _Atomic bool dsc__forked;

/* 0, or the error that every call must return now: 3 in a forked child, 999 when the daemon is gone. */
int dsc__usable(dsc_session *s);
/* As dsc_get(), with a path (NULL: the environment's), and with daemon statuses: DENIED if the socket may not be
 * used. */
dsc_session *dsc__session(const char *path, int *ret_error);
dsc_session *dsc__session_peek(void); /* the process's session; NULL: it has none */
/* Removes the process's session; the next call that needs one makes it. */
void dsc__session_drop(void);

/* --- retire.c --- */

/*
 * Marks the session lost and frees what it holds in this process: addresses, mappings, descriptors, buffers. The object
 * stays for ever; every call with it returns 999. Waits for threads that copy. The caller may hold session.c's lock
 * only.
 */
void dsc__retire(dsc_session *s);

/* --- environment.c --- */

struct dsc__options {
        const char *path;
        bool control_only, socket_only;
        uint32_t class_, sm_percent, gpu_request, gpu_limit, phase;
        uint64_t slo_ns, memory_limit;
        /* name of the variable whose value is wrong, NULL if none; connecting then fails with a message */
        const char *bad_variable;
        char name[64];
};

void dsc__options_from_environment(struct dsc__options *options);
void dsc__variable_refuse(const char *name); /* sets dsc_message() to what the variable accepts */
void dsc__variables_check(void);             /* warns about unknown variables; once per process */
/* 1: lines that are no errors may go to standard error (DETSHARE_NOTES) */
bool dsc__notes(void);

/* --- connect.c --- */

/*
 * Duplicates fd to a number above 2 and closes the old number; -1 stays -1. A program may have closed its standard
 * streams; its output must not end in our socket.
 */
int dsc__fd_above_standard(int fd);
int dsc__ask_device(dsc_session *s); /* fetches the device's description into s->device */
/* Makes a session. dsc__pending() registers it while it is incomplete. On failure dsc_message() has the reason. */
int dsc__connect(const struct dsc__options *options, dsc_session **ret);
void dsc__pending(dsc_session *s); /* in session.c: the incomplete session, which a forked child must close */
dsc_session *dsc__session_free(dsc_session *s);

/* --- rpc.c --- */

int dsc__rpc_init(struct dsc__rpc *rpc, int fd);
void dsc__rpc_deinit(struct dsc__rpc *rpc);
/* frees the connection when no thread uses it any more; the session is lost */
void dsc__rpc_retire(struct dsc__rpc *rpc);
/*
 * Sends one request and waits for its answer. fd is sent along (-1: none) and stays the caller's. expect: the kind of
 * answer, or NOT_SET; ret may then be NULL. Returns 0, a CUDA error or a daemon status; *ret is empty unless 0. While
 * the worker restarts, the call waits, 10 s at most.
 */
int dsc__call(dsc_session *s, Detshare__Request *request, int fd, Detshare__Reply__ResultCase expect,
        struct dsc__answer *ret);
/* Sends a request; whoever reads its answer drops it. */
void dsc__call_forget(dsc_session *s, Detshare__Request *request);
bool dsc__spare_take(struct dsc__rpc *rpc);
void dsc__spare_give(struct dsc__rpc *rpc);
void dsc__lose(dsc_session *s);
bool dsc__peer_gone(dsc_session *s); /* checks the socket; if the daemon is gone, marks the session lost */

#define DSC__REQUEST(kind, field, message)                                       \
        {                                                                        \
                .base = PROTOBUF_C_MESSAGE_INIT(&detshare__request__descriptor), \
                .call_case = DETSHARE__REQUEST__CALL_##kind, .field = (message)  \
        }

/* --- answer.c --- */

/*
 * Unpacks an answer; called by the thread that reads. 0; UNKNOWN: the bytes make no sense; OUT_OF_MEMORY: malloc failed
 * and the spare memory is in use, by another thread or by an earlier answer of this one: try again later.
 */
int dsc__answer_unpack(struct dsc__rpc *rpc, const uint8_t *bytes, size_t size, struct dsc__answer *ret);
void dsc__answer_clear(struct dsc__answer *answer);

/* --- mapped.c --- */

/*
 * Opens for reading the file that backs these bytes of the process, which must be mapped; *ret_offset: where in it they
 * lie. -1: no file does, or that is not certain.
 */
int dsc__mapped(const void *bytes, size_t size, uint64_t *ret_offset);

/* --- attach.c --- */

/* 1: the memory file has so many bytes and cannot shrink. A file that shrinks would end whoever reads its mapping. */
bool dsc__keeps_bytes(int fd, uint64_t bytes);
/* Attaches unless the attachment is alive. With submit.lock held. 0 or an error. */
int dsc__attach_locked(dsc_session *s);
int dsc__attach(dsc_session *s);
static inline bool dsc__attached(dsc_session *s)
{
        return atomic_load_explicit(&s->submit.attached, memory_order_acquire);
}
int dsc__sticky(dsc_session *s); /* the session's sticky error as far as the page shows it, 0 if none */

/* --- wait.c --- */

typedef bool (*dsc__condition)(dsc_session *s, const void *arg);

void dsc__waiters_init(struct dsc__waiters *waiters);
/* Waits until condition() holds, which must also hold when page->dead does. 0, or an error if the daemon is gone.
 * Checks every nap_ns. */
int dsc__await(dsc_session *s, dsc__condition condition, const void *arg, uint32_t nap_ns);
bool dsc__ended(dsc_session *s, uint32_t stream, uint64_t seq);
/* For calls that only read the page: checks now and then that the daemon still runs, which a polling program would
 * otherwise never notice. 0, or 999. */
int dsc__look(dsc_session *s);
int dsc__await_room(dsc_session *s, uint64_t slots);
/* A wait or query has succeeded: if none of the session's work is left, reports that to the daemon. */
void dsc__synchronised(dsc_session *s);
/* after a new ring was mapped: writes the number of waiters into its header */
void dsc__waiters_publish(dsc_session *s);

/* --- output.c --- */

void dsc__output_init(struct dsc__output *output);
/* reads printed text and writes it out; wait: also if another thread is reading */
void dsc__output_new(dsc_session *s, bool wait);
/* Call with an error that is about to be returned. A kernel's error first gets its printed text and its line out.
 * Returns the error. Not with output.lock. */
int dsc__told(dsc_session *s, int error);
/* 1: kernels have printed text that was not read */
static inline bool dsc__output_waits(dsc_session *s)
{
        return dsc__attached(s) && __builtin_expect(atomic_load_explicit(&s->page->output, memory_order_relaxed) >
                                                            atomic_load_explicit(&s->output.read, memory_order_relaxed),
                                           0);
}

/* --- fault.c --- */

/* Prints the line about a fault once; does nothing for other errors. Not with output.lock. */
void dsc__fault(dsc_session *s, int error);

/* --- clock_note.c --- */

void dsc__clock_note_begin(dsc_session *s); /* call when the page has been attached */
void dsc__clock_note(dsc_session *s);       /* compares the clocks; prints one line on standard error if they differ */

/* --- stream.c --- */

/* Puts a record into the ring. ret_seq may be NULL. */
int dsc__submit(dsc_session *s, const struct ds_record *record, size_t size, const void *payload, size_t payload_size,
        uint64_t *ret_seq);
/* Sends a request that counts as one operation of the stream. ret_seq may be NULL. */
int dsc__submit_call(dsc_session *s, uint32_t stream, Detshare__Request *request, uint64_t *ret_seq);

/* --- phase.c --- */

int dsc__phase_set(dsc_session *s, uint32_t phase);
/* Sends the phase to a new worker. */
void dsc__phase_tell_locked(dsc_session *s);

/* --- memory.c --- */

int dsc__memory_init(struct dsc__memory *memory);
void dsc__memory_deinit(struct dsc__memory *memory);
int dsc__pinned_map(dsc_session *s, uint64_t bytes, uint64_t *ret_address, uint64_t *ret_bytes);
void dsc__pinned_release(dsc_session *s, uint64_t address, uint64_t bytes); /* unmaps and frees it in the daemon */
bool dsc__in_pinned_half(const dsc_session *s, uint64_t address, uint64_t bytes);
void dsc__pinned_unmap(dsc_session *s, uint64_t address, uint64_t bytes);
int dsc__table_add(dsc_session *s, const struct dsc__range *range);
void dsc__table_drop_module(dsc_session *s, uint64_t module);
void dsc__table_clear(dsc_session *s); /* clears the table and unmaps pinned ranges */

/* --- vmm.c --- */

void dsc__reserved_drop(dsc_session *s, bool in_daemon); /* with memory.use held for writing */

/* --- copy.c --- */

void dsc__arena_drop(dsc_session *s); /* with memory.use held for writing */

/* --- host.c --- */

void dsc__host_init(struct dsc__host *host);
void dsc__host_detach_locked(dsc_session *s); /* call before an Attach; with submit.lock held */
void dsc__host_attach_locked(dsc_session *s); /* call when the new ring is in place; with submit.lock held */
/* Wakes the thread after a change that it does not see by itself; orphaned: the session was reset. */
void dsc__host_wake(dsc_session *s, bool orphaned);

/* --- clock.c --- */

uint32_t dsc__clock_epoch(void);    /* a number in which no thread of the process has declared itself */
bool dsc__declared(dsc_session *s); /* 1: the calling thread is declared */
void dsc__clock_contact(dsc_session *s);
int dsc__clock_rejoin_locked(dsc_session *s); /* repeats the declarations to a new worker */
int dsc__clock_now(dsc_session *s, uint64_t *ret_ns);
int dsc__clock_sleep(dsc_session *s, uint64_t ns);
int dsc__clock_leave(dsc_session *s);
