/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client core from the inside: the session and what its files share
 *
 * Who owns what:
 *  - rpc.c: the socket. Many threads may have a request open; one of them reads at a time, for all. answer.c: what they
 *    are told, with memory or without.
 *  - attach.c: ring and completion page. They stay at one address for life; a new attachment is mapped over the old
 *    one, so a thread that reads the page while another one re-attaches sees the old or the new page, never a hole.
 *  - wait.c: sleeping on the page. clock.c: threads that declared themselves to the device's clock.
 *  - host.c: the program's functions in streams, and the one thread that this library makes. shared.c, value.c: events
 *    of several processes, values in memory.
 *  - output.c: what kernels printed. limit.c: limits of the context.
 *  - session.c: which session is the process's. retire.c: one that is not any more; what belonged to it goes, the
 *    object stays, because a thread may be on its way in.
 *  - memory.c: what is allocated. copy.c: staging of pageable memory. graph.c: graphs.
 * stream.c, event.c, module.c: one function per call. phase.c: what the work is about. coloured.h: tensors in some
 * memory channels.
 *
 * Order of locks: session.c's, then coloured.c's, then memory.use, then submit.lock or output.lock, then rpc.*;
 * memory.table, memory.arena_lock, host.lock and events.lock are taken last and never held across a request. No lock
 * but submit.lock (attaching, declaring, resetting), output.lock and memory.use is held while waiting for the daemon,
 * and submit.lock never while waiting for the device.
 *
 * After fork() the child must not touch any lock (another thread of the parent may have held it): every entry point
 * asks dsc__usable() first.
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

#define DSC__SHARE_ALL 1000u /* of the GPU's time, in thousandths */
#define DSC__PHASES 3u       /* detshare.h's */

#define DSC__ALIVE_NS \
        50000000u          /* how often a thread that waits without the socket looks whether the daemon is there \
                            */
#define DSC__FDS_QUEUE 16u /* fds received and not yet taken */
#define DSC__SPARE_BYTES (1u << 20) /* what any answer of the daemon's needs, unpacked */

struct dsc__rpc;

struct dsc__answer {
        Detshare__Reply *reply;
        struct dsc__rpc *lender;   /* in whose spare place it lies; NULL: in memory of its own */
        int fds[DS_FRAME_FDS_MAX]; /* -1: did not arrive, the process is out of descriptors */
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
        pthread_mutex_t lock; /* the open calls, reading, the counters */
        pthread_cond_t room;
        struct dsc__open_call *calls;
        bool reading, retired;
        unsigned n_open, n_slow, n_users;
        uint64_t next_id;

        pthread_mutex_t send_lock;  /* out; what goes out first */
        _Atomic uint64_t ring_tail; /* what requests carry; 0 while no ring is attached */
        uint8_t *out;

        uint8_t *in; /* in..n_in_fds belong to the thread that reads */
        size_t in_size;
        int in_fds[DSC__FDS_QUEUE];
        uint32_t n_in_fds;
        bool fds_missing; /* the kernel dropped some: there was no room for them in this process */

        uint8_t *spare;    /* for an answer that there is no memory for; its user counts as one of n_users */
        size_t spare_used; /* by whoever has taken it */
        bool spare_taken;
};

struct dsc__submit {
        pthread_mutex_t lock; /* the ring's producer side, attaching */
        _Atomic bool attached;
        _Atomic int lost_error; /* operations of ours went with a worker; until the session is reset */
        bool kept;              /* the last attachment went on with the ring of the one before */
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
        uint64_t module; /* of a GLOBAL */
};

struct dsc__arena;

#define DSC__RESERVED_MAX 64u /* ranges of addresses beside the window; the daemon gives no more */

struct dsc__memory {
        pthread_rwlock_t use;      /* read: staging is in use; write: everything goes (reset) */
        pthread_rwlock_t table;    /* ranges */
        struct dsc__range *ranges; /* by base */
        size_t n_ranges, n_space;
        pthread_mutex_t arena_lock;
        struct dsc__arena *arena;
        struct {
                uint64_t base, bytes;  /* bytes 0: none */
        } reserved[DSC__RESERVED_MAX]; /* with table */
};

struct dsc__output {
        pthread_mutex_t lock;  /* whoever reads */
        _Atomic uint64_t read; /* of page->output */
};

#define DSC__HOST_BUCKETS 256u

struct dsc__function;

struct dsc__host {
        pthread_mutex_t lock; /* the table, the thread's life */
        pthread_cond_t cond;
        struct dsc__function *buckets[DSC__HOST_BUCKETS];
        struct dsc__function *first, *last; /* by age */
        uint64_t next_id;
        bool started, ended;
        _Atomic uint32_t n, n_armed;
        _Atomic bool orphaned;     /* the session was reset: what was armed is not called any more */
        _Atomic uint64_t returned; /* as in the ring's header; changed with submit.lock held */
        uint64_t generation;       /* of the attachment; with submit.lock held */
};

struct dsc__clock {
        _Atomic uint32_t n_declared; /* changed with submit.lock held */
        _Atomic uint32_t epoch;      /* another one when all declarations have become void; of no other session */
        _Atomic uint64_t
                contact_ns; /* when the daemon last heard of the session, CLOCK_MONOTONIC; kept while n_declared */
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
        uint32_t phase; /* that the daemon is told of; changed with submit.lock held */
        char daemon_version[32];
        struct dsc_device device;
        struct ds_ring_header *ring_header; /* reserved at connect, mapped when attached */
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
        struct dsc__coloured *coloured; /* coloured.h; NULL: nothing of it was asked for */
        dsc_session *next;              /* of those that are retired */
};

/* --- error.c --- */

void dsc__message_clear(void);
__attribute__((format(printf, 1, 2))) void dsc__message(const char *format, ...);
uint64_t dsc__now(void); /* CLOCK_MONOTONIC, ns */

/* --- public.c --- */

int dsc__fold(int error); /* as a DETSHARE_E_ code */

/* --- coloured.c --- */

void dsc__coloured_drop(dsc_session *s);

/* --- session.c --- */

extern _Atomic bool dsc__forked;

/* 0, or what every call must return now: 3 in a forked child, 999 when the daemon is gone. */
int dsc__usable(dsc_session *s);
/* As dsc_get(), with a path (NULL: the environment's) and with daemon statuses: DENIED when the socket may not be used.
 */
dsc_session *dsc__session(const char *path, int *ret_error);
dsc_session *dsc__session_peek(void); /* the session if there is one, else NULL */
/* The process has no session from now on; the next call that needs one makes it. */
void dsc__session_drop(void);

/* --- retire.c --- */

/*
 * Lose the session and give back what it holds in this process: addresses, mappings, descriptors, buffers. The object
 * stays for good and every call with it returns 999. Waits for the threads that copy; not with any lock but
 * session.c's.
 */
void dsc__retire(dsc_session *s);

/* --- environment.c --- */

struct dsc__options {
        const char *path;
        bool control_only, socket_only;
        uint32_t class_, sm_percent, gpu_request, gpu_limit, phase;
        uint64_t slo_ns, memory_limit;
        const char *bad_variable; /* of the environment: its value was not understood; connecting says so and fails */
        char name[64];
};

void dsc__options_from_environment(struct dsc__options *options);
void dsc__variable_refuse(const char *name); /* the variable's value is wrong: dsc_message() names what is accepted */
void dsc__variables_check(void);             /* once per process: warns about unknown variables */
/* May lines that are no errors go to standard error (DETSHARE_NOTES)? */
bool dsc__notes(void);

/* --- connect.c --- */

/*
 * The same file with a number above 2, the old number closed; -1 goes through. A program may have closed its standard
 * streams, and what it prints must not end in our socket.
 */
int dsc__fd_above_standard(int fd);
int dsc__ask_device(dsc_session *s); /* fills s->device */
/* Registers the half-made session by dsc__pending(). On failure dsc_message() says why. */
int dsc__connect(const struct dsc__options *options, dsc_session **ret);
void dsc__pending(dsc_session *s); /* session.c: what a forked child must drop */
dsc_session *dsc__session_free(dsc_session *s);

/* --- rpc.c --- */

int dsc__rpc_init(struct dsc__rpc *rpc, int fd);
void dsc__rpc_deinit(struct dsc__rpc *rpc);
void dsc__rpc_retire(struct dsc__rpc *rpc); /* deinit when nobody uses it any more; the session is lost */
/*
 * One request and its answer. fd goes beside the request (-1: none; stays the caller's). expect: the answer's result,
 * or NOT_SET; ret may then be NULL. 0, a CUDA error or a daemon status; the answer is empty unless 0. A restarting
 * worker is waited for, at most 10 s.
 */
int dsc__call(dsc_session *s, Detshare__Request *request, int fd, Detshare__Reply__ResultCase expect,
        struct dsc__answer *ret);
/* Send and let the answer be dropped by whoever reads it. */
void dsc__call_forget(dsc_session *s, Detshare__Request *request);
bool dsc__spare_take(struct dsc__rpc *rpc);
void dsc__spare_give(struct dsc__rpc *rpc);
void dsc__lose(dsc_session *s);
bool dsc__peer_gone(dsc_session *s); /* asks the socket; loses the session if so */

#define DSC__REQUEST(kind, field, message)                                       \
        {                                                                        \
                .base = PROTOBUF_C_MESSAGE_INIT(&detshare__request__descriptor), \
                .call_case = DETSHARE__REQUEST__CALL_##kind, .field = (message)  \
        }

/* --- answer.c --- */

/*
 * By the thread that reads. 0; UNKNOWN when it makes no sense; OUT_OF_MEMORY when there is none and the spare place is
 * taken, by another thread or by an answer that this one was given: later it will not be.
 */
int dsc__answer_unpack(struct dsc__rpc *rpc, const uint8_t *bytes, size_t size, struct dsc__answer *ret);
void dsc__answer_clear(struct dsc__answer *answer);

/* --- mapped.c --- */

/*
 * The file in which these bytes of the process lie, and where: opened for reading, the caller's. -1: in none, or it is
 * not sure. The bytes must be mapped.
 */
int dsc__mapped(const void *bytes, size_t size, uint64_t *ret_offset);

/* --- attach.c --- */

/* A memory file that has so many bytes for good: one that shrinks would end whoever looks at its mapping. */
bool dsc__keeps_bytes(int fd, uint64_t bytes);
/* With submit.lock held: a living attachment. 0 or an error. */
int dsc__attach_locked(dsc_session *s);
int dsc__attach(dsc_session *s);
static inline bool dsc__attached(dsc_session *s)
{
        return atomic_load_explicit(&s->submit.attached, memory_order_acquire);
}
int dsc__sticky(dsc_session *s); /* the session's error as far as it is known without asking */

/* --- wait.c --- */

typedef bool (*dsc__condition)(dsc_session *s, const void *arg);

void dsc__waiters_init(struct dsc__waiters *waiters);
/* Until condition (which must also hold when page->dead does): 0, or an error when the daemon went. Looks every nap_ns.
 */
int dsc__await(dsc_session *s, dsc__condition condition, const void *arg, uint32_t nap_ns);
bool dsc__ended(dsc_session *s, uint32_t stream, uint64_t seq);
/* For calls that only look at the page: a program that polls would otherwise never learn that the daemon was killed. 0,
 * or that it was. */
int dsc__look(dsc_session *s);
int dsc__await_room(dsc_session *s, uint64_t slots);
/* Something was waited for, or found to have ended: if nothing of the session's is left, the daemon may know that. */
void dsc__synchronised(dsc_session *s);
void dsc__waiters_publish(dsc_session *s); /* after a new ring was mapped */

/* --- output.c --- */

void dsc__output_init(struct dsc__output *output);
void dsc__output_new(dsc_session *s, bool wait); /* reads and writes it; wait: for another reader too */
/* An error is about to be returned: if it is a kernel's, what was printed comes first. Returns it. Not with
 * output.lock.
 */
int dsc__told(dsc_session *s, int error);
/* Has anything been printed that was not read? */
static inline bool dsc__output_waits(dsc_session *s)
{
        return dsc__attached(s) && __builtin_expect(atomic_load_explicit(&s->page->output, memory_order_relaxed) >
                                                            atomic_load_explicit(&s->output.read, memory_order_relaxed),
                                           0);
}

/* --- fault.c --- */

/* Prints one line on a fault, unless `error` is of another kind or the line was printed. Not with output.lock. */
void dsc__fault(dsc_session *s, int error);

/* --- clock_note.c --- */

void dsc__clock_note_begin(dsc_session *s); /* with the page just attached */
void dsc__clock_note(dsc_session *s);       /* compares the clocks; one line on standard error where they differ */

/* --- stream.c --- */

/* Put a record. ret_seq may be NULL. */
int dsc__submit(dsc_session *s, const struct ds_record *record, size_t size, const void *payload, size_t payload_size,
        uint64_t *ret_seq);
/* A request that counts one in its stream. ret_seq may be NULL. */
int dsc__submit_call(dsc_session *s, uint32_t stream, Detshare__Request *request, uint64_t *ret_seq);

/* --- phase.c --- */

int dsc__phase_set(dsc_session *s, uint32_t phase);
/* Once more, to a worker that does not know. */
void dsc__phase_tell_locked(dsc_session *s);

/* --- memory.c --- */

int dsc__memory_init(struct dsc__memory *memory);
void dsc__memory_deinit(struct dsc__memory *memory);
int dsc__pinned_map(dsc_session *s, uint64_t bytes, uint64_t *ret_address, uint64_t *ret_bytes);
void dsc__pinned_release(dsc_session *s, uint64_t address, uint64_t bytes); /* unmap and free in the daemon */
bool dsc__in_pinned_half(const dsc_session *s, uint64_t address, uint64_t bytes);
void dsc__pinned_unmap(dsc_session *s, uint64_t address, uint64_t bytes);
int dsc__table_add(dsc_session *s, const struct dsc__range *range);
void dsc__table_drop_module(dsc_session *s, uint64_t module);
void dsc__table_clear(dsc_session *s); /* and unmap pinned ranges */

/* --- vmm.c --- */

void dsc__reserved_drop(dsc_session *s, bool in_daemon); /* with memory.use held for writing */

/* --- copy.c --- */

void dsc__arena_drop(dsc_session *s); /* with memory.use held for writing */

/* --- host.c --- */

void dsc__host_init(struct dsc__host *host);
void dsc__host_detach_locked(dsc_session *s); /* an Attach is about to go out; with submit.lock held */
void dsc__host_attach_locked(dsc_session *s); /* its ring is in place */
/* Something has changed that its thread does not see by itself; orphaned: the session was reset. */
void dsc__host_wake(dsc_session *s, bool orphaned);

/* --- clock.c --- */

uint32_t dsc__clock_epoch(void);    /* one that no thread of the process has declared itself in */
bool dsc__declared(dsc_session *s); /* the calling thread */
void dsc__clock_contact(dsc_session *s);
int dsc__clock_rejoin_locked(dsc_session *s); /* tell a new worker what was declared */
int dsc__clock_now(dsc_session *s, uint64_t *ret_ns);
int dsc__clock_sleep(dsc_session *s, uint64_t ns);
int dsc__clock_leave(dsc_session *s);
