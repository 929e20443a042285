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
#include "proto/slo.h"
#include "supervisor/charge.h"
#include "supervisor/hash.h"
#include "supervisor/ledger.h"
#include "supervisor/output.h"
#include "supervisor/page.h"
#include "supervisor/window.h"

struct ds_client;
struct ds_rpc;
struct ds_supervisor;

/* Positive return codes of the functions below */
#define DS_SESSION_E_REFUSED 1

#define DS_SESSION_NAME_MAX 63
#define DS_SESSION_REFUSALS_MAX 8
#define DS_GPU_SHARE_ALL 1000u /* all of the GPU's time, permille */
/* most ranges of addresses outside of the window; proto/internal.proto has the same limit */
#define DS_SESSION_RESERVED_MAX 64
#define DS_SESSION_RESERVED_BYTES (UINT64_C(8) << 40)
#define DS_SESSION_FAULT_MAX 400
#define DS_SESSION_LIMITS 3 /* number of limits: CUlimit 0 to 2 */

/* State of the session in the current worker. */
enum ds_presence {
        DS_PRESENCE_ABSENT,
        /* SessionOpen was sent; later messages can follow at once, because the worker handles them in order */
        DS_PRESENCE_OPEN,
        DS_PRESENCE_CLOSING, /* SessionClose was sent */
        _DS_PRESENCE_MAX,
        _DS_PRESENCE_INVALID = -EINVAL,
};

/* Shares of the GPU's time, permille: requested minimum, and limit; 0: not set. The policy decides what they mean. */
struct ds_gpu_share {
        uint32_t request, limit;
};

TAILQ_HEAD(ds_session_call_list, ds_session_call);

/* The daemon's state of one client. session.c and attach.c change it, and handlers.c the fields of SetSession; other
 * files only read it. */
struct ds_session {
        uint64_t id;
        struct ds_supervisor *supervisor;
        struct ds_client *client; /* NULL: the client has disconnected */
        ds_user *user;
        pid_t pid;
        uint64_t connected_ns; /* time of the hello, as uv_hrtime(), ns */
        char name[DS_SESSION_NAME_MAX + 1];
        Detshare__Class class_;
        struct ds_slo slo; /* as stated, or from the configuration */
        uint64_t memory_limit;
        /* share of the SMs: granted, and requested by the client (0: as much as permitted), percent */
        uint32_t sm_percent, sm_asked;
        struct ds_gpu_share share, share_asked;
        int control_only;
        struct ds_window window, refused[DS_SESSION_REFUSALS_MAX];
        size_t n_refused;
        struct ds_charge charge, refused_charge[DS_SESSION_REFUSALS_MAX];
        struct ds_window reserved[DS_SESSION_RESERVED_MAX]; /* ranges outside of the window; bytes 0: unused */
        ds_ledger *ledger;                                  /* NULL for a control_only session */
        enum ds_presence presence;
        struct ds_page page;
        struct ds_ring ring;
        int attached, sealed; /* state in the current worker: the client is attached; the page is sealed */
        /* 1: the ring has records from before this worker started, which continues reading at ring_head */
        int ring_kept;
        uint64_t ring_head;
        int event_fd;         /* eventfd of a kept ring, open until the client has it; -1: none */
        uint32_t attachments; /* number of attachments so far; a tail of the ring is valid only for one attachment */
        int lost_work, lost_globals;
        int32_t sticky; /* CUDA error that the session has in a new worker, 0: none */
        /* how the session ended the context, as message for the next reply; "": it did not */
        char fault[DS_SESSION_FAULT_MAX];
        /* CUDA limits that the session has raised, and that a new worker must raise again; 0: not raised */
        uint64_t limits[DS_SESSION_LIMITS];
        struct ds_output output;
        struct ds_session_call_list calls;
        uint32_t n_calls; /* number of pending calls for the client's requests */
        TAILQ_ENTRY(ds_session) link;
        UT_hash_handle hh;
};

/* The values of the client's hello, already checked. */
struct ds_session_config {
        pid_t pid;
        const char *name;
        Detshare__Class class_;
        struct ds_slo slo;
        uint64_t memory_limit;
        uint32_t sm_percent;
        int control_only;
};

/* Creates a session after a client's hello. Returns 0, or a Status with a message (QUOTA, INTERNAL). */
int ds_session_new(struct ds_supervisor *supervisor, struct ds_client *client, ds_user *user,
        const struct ds_session_config *config, char *message, size_t message_size, struct ds_session **ret);
/* Sets the percentage of the SMs that the client wants (0: all). It gets at most `most`. ds_session_changed()
 * informs the worker. */
void ds_session_ask_percent(struct ds_session *session, uint32_t percent, uint32_t most);
/* Sets the shares of the GPU's time that the client wants. It gets at most `most`. A session that requests no limit
 * still gets one if it may not have all of the time. */
void ds_session_ask_share(struct ds_session *session, struct ds_gpu_share asked, struct ds_gpu_share most);
/*
 * Restores a session of the previous daemon, without the content of its ledger, ring and output. Returns 0,
 * DS_SESSION_E_REFUSED (the saved values are invalid) or -errno.
 */
int ds_session_restore(struct ds_supervisor *supervisor, struct ds_client *client,
        const Detshare__Internal__SavedSession *saved, struct ds_session **ret);
/* Sets the session's name, made safe for terminals: control characters become '?'. Truncated to DS_SESSION_NAME_MAX
 * bytes. */
void ds_session_set_name(struct ds_session *session, const char *name);
/* Called when the client has disconnected. Frees the session now, or when the worker has closed it. */
void ds_session_leave(struct ds_session *session);
/* The session with this id. NULL: there is none, or its client is gone. */
struct ds_session *ds_session_find(struct ds_supervisor *supervisor, uint64_t id);
/* Replaces the window, because the client cannot reserve its addresses. Returns 0 or a Status with a message. */
int ds_session_refuse_window(struct ds_session *session, char *message, size_t message_size);
/* Called when the client has reserved the window: the windows that it refused before may be assigned to others. */
void ds_session_accept_window(struct ds_session *session);

/* Reserves addresses at which the client maps memory. Returns 0, or a Status with a message. */
int ds_session_reserve(
        struct ds_session *session, uint64_t bytes, char *message, size_t message_size, struct ds_window *ret);
int ds_session_unreserve(struct ds_session *session, uint64_t base, char *message, size_t message_size);
/* Whether the range lies completely in one range that the session has reserved. */
int ds_session_is_reserved(const struct ds_session *session, uint64_t base, uint64_t bytes);

/* Forwards a client's request to the worker (a module first to the helper). The client is answered now or later.
 * Consumed fds are set to -1. */
void ds_session_forward(struct ds_session *session, const struct ds_rpc *rpc, Detshare__Request *request, int *fds);
/* Sends ring, page and eventfd to the client. The request is answered now or later. */
void ds_session_attach(struct ds_session *session, uint64_t request_id);
/* Informs the worker of a changed class, SLO or limit. */
void ds_session_changed(struct ds_session *session);
/* Applies a ledger entry of the worker. Returns as ds_ledger_apply(). */
int ds_session_apply(
        struct ds_session *session, const Detshare__Internal__Ledger *entry, const struct ds_ledger_beside *beside);

/* Closes the session's client, because the worker reports that it broke the rules of its ring. */
void ds_session_fault(struct ds_supervisor *supervisor, uint64_t id, const char *reason);
/*
 * Called when the worker's context is lost and work of these sessions may have caused that. The sessions get the error,
 * their users are blamed (blame.h), and the log gets a line.
 */
void ds_sessions_device_lost(struct ds_supervisor *supervisor, const Detshare__Internal__DeviceLost *lost);
/* Called when the worker is gone: informs the clients through their pages. Pending calls are answered by their own
 * done functions. */
void ds_sessions_worker_lost(struct ds_supervisor *supervisor);
/* Called when the worker is gone: frees the sessions that only waited for the worker to close them. */
void ds_sessions_bury(struct ds_supervisor *supervisor);
