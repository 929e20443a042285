/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: the daemon's state for a client after its hello
 *
 * A session owns an address window and a ledger. It is opened in the worker at its first request that the worker
 * answers, and again in every new worker; then the worker restores the ledger's content. A session outlives its
 * connection until the worker has closed it, so that none of its addresses and memory goes to another session too
 * early.
 *
 * A worker that ends in order leaves the ring at its last position, where the next daemon's worker reads on
 * (handover.h).
 *
 * If a worker dies while work of the session runs, or with module globals that cannot be restored, the session has a
 * sticky error until it is reset; its memory is kept.
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
#define DS_GPU_SHARE_ALL 1000u     /* permille */
#define DS_SESSION_RESERVED_MAX 64 /* most ranges outside of the window; the same in proto/internal.proto */
#define DS_SESSION_RESERVED_BYTES (UINT64_C(8) << 40)
#define DS_SESSION_FAULT_MAX 400
#define DS_SESSION_LIMITS 3 /* number of limits: CUlimit 0 to 2 */

/* State of the session in the current worker. */
enum ds_presence {
        DS_PRESENCE_ABSENT,
        DS_PRESENCE_OPEN,    /* SessionOpen was sent (messages are handled in order) */
        DS_PRESENCE_CLOSING, /* SessionClose was sent */
        _DS_PRESENCE_MAX,
        _DS_PRESENCE_INVALID = -EINVAL,
};

/* Shares of the GPU's time, permille: at least, and at most; 0: not set. The policy decides what they mean. */
struct ds_gpu_share {
        uint32_t request, limit;
};

TAILQ_HEAD(ds_session_call_list, ds_session_call);

/* Other files only read it; session.c and attach.c change it, and handlers.c the fields of SetSession. */
struct ds_session {
        uint64_t id;
        struct ds_supervisor *supervisor;
        struct ds_client *client; /* NULL: disconnected */
        ds_user *user;
        pid_t pid;
        uint64_t connected_ns; /* time of uv_hrtime() */
        char name[DS_SESSION_NAME_MAX + 1];
        Detshare__Class class_;
        uint64_t slo_ns, memory_limit;
        uint32_t sm_percent, sm_asked; /* granted; requested, 0: as many as permitted */
        struct ds_gpu_share share, share_asked;
        int control_only;
        struct ds_window window, refused[DS_SESSION_REFUSALS_MAX];
        size_t n_refused;
        struct ds_charge charge, refused_charge[DS_SESSION_REFUSALS_MAX];
        struct ds_window reserved[DS_SESSION_RESERVED_MAX]; /* ranges outside of the window; bytes 0: unused */
        ds_ledger *ledger;                                  /* NULL for control_only */
        enum ds_presence presence;
        struct ds_page page;
        struct ds_ring ring;
        int attached, sealed; /* in the current worker */
        int ring_kept;        /* the ring was written before this worker started, which reads on at ring_head */
        uint64_t ring_head;
        int event_fd;         /* for a kept ring, until the client has it; -1: none */
        uint32_t attachments; /* count; a ring's tail is valid only for one attachment */
        int lost_work, lost_globals;
        int32_t sticky;                   /* CUDA error to report to a new worker, 0: none */
        char fault[DS_SESSION_FAULT_MAX]; /* message for the next reply: how it ended the context; "": it did not */
        /* limits that the session raised, set again in a new worker; 0: not raised */
        uint64_t limits[DS_SESSION_LIMITS];
        struct ds_output output;
        struct ds_session_call_list calls;
        uint32_t n_calls; /* calls for the client */
        TAILQ_ENTRY(ds_session) link;
        UT_hash_handle hh;
};

/* The values of the client's hello, already checked. */
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
/* Requests a percentage of the SMs (0: all), granted up to `most`; call ds_session_changed() to inform the worker. */
void ds_session_ask_percent(struct ds_session *session, uint32_t percent, uint32_t most);
/* The same for shares of time. A session that requests no limit still gets one if it may not have all. */
void ds_session_ask_share(struct ds_session *session, struct ds_gpu_share asked, struct ds_gpu_share most);
/*
 * A session of the previous daemon, without the content of its ledger, ring and output. 0, DS_SESSION_E_REFUSED (the
 * saved values are invalid) or -errno.
 */
int ds_session_restore(struct ds_supervisor *supervisor, struct ds_client *client,
        const Detshare__Internal__SavedSession *saved, struct ds_session **ret);
/* Makes the name safe for terminals: control characters become '?'; cut at DS_SESSION_NAME_MAX bytes. */
void ds_session_set_name(struct ds_session *session, const char *name);
/* The client disconnected. The session is freed now, or when the worker has closed it. */
void ds_session_leave(struct ds_session *session);
/* NULL: there is none, or its client is gone. */
struct ds_session *ds_session_find(struct ds_supervisor *supervisor, uint64_t id);
/* Replaces the window, because the client cannot reserve its addresses. 0 or a Status with a message. */
int ds_session_refuse_window(struct ds_session *session, char *message, size_t message_size);
/* The client has reserved the window: earlier, refused windows may be assigned to others. */
void ds_session_accept_window(struct ds_session *session);

/* Reserves addresses at which the client maps memory. 0, or a Status with a message. */
int ds_session_reserve(
        struct ds_session *session, uint64_t bytes, char *message, size_t message_size, struct ds_window *ret);
int ds_session_unreserve(struct ds_session *session, uint64_t base, char *message, size_t message_size);
/* 1: the whole range lies in one range that the session has reserved. */
int ds_session_is_reserved(const struct ds_session *session, uint64_t base, uint64_t bytes);

/* Forwards a client's request to the worker (a module first to the helper). The client is answered now or later.
 * Consumed fds are set to -1. */
void ds_session_forward(struct ds_session *session, const struct ds_rpc *rpc, Detshare__Request *request, int *fds);
/* Gives ring, page and eventfd to the client. The request is answered now or later. */
void ds_session_attach(struct ds_session *session, uint64_t request_id);
/* Informs the worker of a changed class, SLO or limit. */
void ds_session_changed(struct ds_session *session);
/* Applies a ledger entry of the worker. As ds_ledger_apply(). */
int ds_session_apply(
        struct ds_session *session, const Detshare__Internal__Ledger *entry, const struct ds_ledger_beside *beside);

/* The worker reports that the client broke the rules of its ring. */
void ds_session_fault(struct ds_supervisor *supervisor, uint64_t id, const char *reason);
/*
 * The worker's context is lost, and work of these sessions may have caused it. The sessions get its error, their users
 * are blamed (blame.h), and the log gets a line.
 */
void ds_sessions_device_lost(struct ds_supervisor *supervisor, const Detshare__Internal__DeviceLost *lost);
/* The worker is gone: clients are informed through their pages. Pending calls are answered by their own done
 * functions. */
void ds_sessions_worker_lost(struct ds_supervisor *supervisor);
/* Frees the sessions that only waited for the worker to close them. */
void ds_sessions_bury(struct ds_supervisor *supervisor);
