/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: what a client is to the daemon after its hello
 *
 * A session owns an address window and a ledger. The worker hears of it only when it first asks for something that the
 * worker answers, in every worker's life anew: then it is opened there and given back what the ledger holds. A session
 * outlives its connection until the worker has let go of it, so that no address and no byte is given to
 * another session too early.
 *
 * A worker that was told to end and did so in order has left the ring where it had come to: the daemon's next life can
 * read on there (handover.h).
 *
 * When a worker dies with work of the session in flight, or with module globals that cannot be restored, the session
 * has a sticky error until it is reset; its memory stays.
 */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "detshare.pb-c.h"
#include "internal.pb-c.h"
#include "supervisor/charge.h"
#include "supervisor/hash.h"
#include "supervisor/ledger.h"
#include "supervisor/output.h"
#include "supervisor/page.h"
#include "supervisor/window.h"

struct ds_client;
struct ds_rpc;
struct ds_supervisor;

/* Contract codes */
#define DS_SESSION_E_REFUSED 1

#define DS_SESSION_NAME_MAX 63
#define DS_SESSION_REFUSALS_MAX 8
#define DS_GPU_SHARE_ALL 1000u     /* thousandths */
#define DS_SESSION_RESERVED_MAX 64 /* ranges beside the window; proto/internal.proto says so, too */
#define DS_SESSION_RESERVED_BYTES (UINT64_C(8) << 40)
#define DS_SESSION_FAULT_MAX 192
#define DS_SESSION_LIMITS 3 /* CUlimit 0 to 2 */

/* Where the session is, as the present worker sees it. */
enum ds_presence {
        DS_PRESENCE_ABSENT,
        DS_PRESENCE_OPEN,    /* SessionOpen was sent (messages are handled in order) */
        DS_PRESENCE_CLOSING, /* SessionClose was sent */
        _DS_PRESENCE_MAX,
        _DS_PRESENCE_INVALID = -EINVAL,
};

/* Shares of the GPU's time in thousandths: at least, and at most; 0 = nothing is said. What becomes of them is the
 * policy's. */
struct ds_gpu_share {
        uint32_t request, limit;
};

TAILQ_HEAD(ds_session_call_list, ds_session_call);

/* Other files read it; session.c and attach.c change it, handlers.c what SetSession sets. */
struct ds_session {
        uint64_t id;
        struct ds_supervisor *supervisor;
        struct ds_client *client; /* NULL: gone */
        ds_user *user;
        pid_t pid;
        uint64_t connected_ns; /* uv_hrtime */
        char name[DS_SESSION_NAME_MAX + 1];
        Detshare__Class class_;
        uint64_t slo_ns, memory_limit;
        uint32_t sm_percent, sm_asked; /* granted; asked for, 0 = as many as there may be */
        struct ds_gpu_share share, share_asked;
        int control_only;
        struct ds_window window, refused[DS_SESSION_REFUSALS_MAX];
        size_t n_refused;
        struct ds_charge charge, refused_charge[DS_SESSION_REFUSALS_MAX];
        struct ds_window reserved[DS_SESSION_RESERVED_MAX]; /* beside the window; bytes 0: none */
        ds_ledger *ledger;                                  /* NULL for control_only */
        enum ds_presence presence;
        struct ds_page page;
        struct ds_ring ring;
        int attached, sealed; /* in the present worker's life */
        int ring_kept;        /* the ring was written before this worker's life, which reads on at ring_head */
        uint64_t ring_head;
        int event_fd;         /* of a kept ring, until the client has it; -1 = none */
        uint32_t attachments; /* so far: a ring's tail means something in its own only */
        int lost_work, lost_globals;
        int32_t sticky;                     /* CUDA error that a new worker must be told of, 0 = none */
        char fault[DS_SESSION_FAULT_MAX];   /* what it did to the context, for the next reply; "" = nothing */
        uint64_t limits[DS_SESSION_LIMITS]; /* that it raised, 0 = not: a new worker is asked for them again */
        struct ds_output output;
        struct ds_session_call_list calls;
        uint32_t n_calls; /* of the client's */
        TAILQ_ENTRY(ds_session) link;
        UT_hash_handle hh;
};

/* What the client asked for in its hello; checked already. */
struct ds_session_config {
        pid_t pid;
        const char *name;
        Detshare__Class class_;
        uint64_t slo_ns, memory_limit;
        uint32_t sm_percent;
        int control_only;
};

/* 0, or a Status with a message (QUOTA, INTERNAL). */
int ds_session_new(struct ds_supervisor *supervisor, struct ds_client *client, ds_user *user,
        const struct ds_session_config *config, char *message, size_t message_size, struct ds_session **ret);
/* It asks for so many SMs (0: all) and gets no more than `most` per cent; tell the worker with ds_session_changed. */
void ds_session_ask_percent(struct ds_session *session, uint32_t percent, uint32_t most);
/* The same for shares of time. A limit is also given to who asks for none where not all may be had. */
void ds_session_ask_share(struct ds_session *session, struct ds_gpu_share asked, struct ds_gpu_share most);
/*
 * One of an earlier life of the daemon, as it was but for what its ledger, ring and output hold. 0,
 * DS_SESSION_E_REFUSED (it cannot have been) or -errno.
 */
int ds_session_restore(struct ds_supervisor *supervisor, struct ds_client *client,
        const Detshare__Internal__SavedSession *saved, struct ds_session **ret);
/* For people and terminals: control characters become '?'. Cut at DS_SESSION_NAME_MAX bytes. */
void ds_session_set_name(struct ds_session *session, const char *name);
/* The client is gone. The session goes now or when the worker has let go of it. */
void ds_session_leave(struct ds_session *session);
/* NULL when there is none, or its client is gone. */
struct ds_session *ds_session_find(struct ds_supervisor *supervisor, uint64_t id);
/* Another window instead of the present one, which the client cannot reserve. 0 or a Status with a message. */
int ds_session_refuse_window(struct ds_session *session, char *message, size_t message_size);
/* The window was taken: those refused before may go to others. */
void ds_session_accept_window(struct ds_session *session);

/* Addresses for the client to map memory at: 0, or a Status with a message. */
int ds_session_reserve(
        struct ds_session *session, uint64_t bytes, char *message, size_t message_size, struct ds_window *ret);
int ds_session_unreserve(struct ds_session *session, uint64_t base, char *message, size_t message_size);
/* Does all of it lie in one range that the session has reserved? */
int ds_session_is_reserved(const struct ds_session *session, uint64_t base, uint64_t bytes);

/* Hand a client's request to the worker (a module through the helper). The client is answered, now or later. Taken fds
 * are set to -1. */
void ds_session_forward(struct ds_session *session, const struct ds_rpc *rpc, Detshare__Request *request, int *fds);
/* Ring, page and eventfd for the client. It is answered, now or later. */
void ds_session_attach(struct ds_session *session, uint64_t request_id);
/* Class, SLO and limits have changed: tell the worker. */
void ds_session_changed(struct ds_session *session);
/* Book a ledger entry of the worker. As ds_ledger_apply. */
int ds_session_apply(
        struct ds_session *session, const Detshare__Internal__Ledger *entry, const struct ds_ledger_beside *beside);

/* The worker says that the client broke the rules of its ring. */
void ds_session_fault(struct ds_supervisor *supervisor, uint64_t id, const char *reason);
/*
 * The worker's context is gone, and these sessions' work may have done it: they get its error, their users the blame,
 * and the log a line.
 */
void ds_sessions_device_lost(struct ds_supervisor *supervisor, const Detshare__Internal__DeviceLost *lost);
/* The worker is gone: its clients are told through their pages. Answers are given by the calls' own done functions. */
void ds_sessions_worker_lost(struct ds_supervisor *supervisor);
/* Free the sessions that only waited for the worker to let go of them. */
void ds_sessions_bury(struct ds_supervisor *supervisor);
