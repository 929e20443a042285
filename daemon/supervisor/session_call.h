/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pending message about a session, sent to the worker, or to the helper before that
 *
 * The session owns it. When the session is freed, its pending calls are cancelled.
 */
#pragma once

#include "supervisor/helper_link.h"
#include "supervisor/session.h"
#include "supervisor/worker_link.h"

struct ds_session_call {
        struct ds_worker_call base;
        struct ds_session *session;
        TAILQ_ENTRY(ds_session_call) link;
        const struct ds_rpc *rpc; /* the request; NULL: a message of the supervisor itself */
        uint64_t request_id;      /* id of the client's request */
        /* ModuleLoad: tail of the ring in the request, while the module is with the helper */
        uint64_t ring_tail;
        uint32_t attachments;                 /* session->attachments when ring_tail was received */
        struct ds_charge objects, bytes, one; /* charges for objects that the call may create */
        struct ds_charge variables;           /* ModuleLoad: charge for the device memory of variables */
        struct ds_helper_job job;
        struct ds_module_source source; /* ModuleLoad: the client's file */
        uint64_t module;                /* request for forms: id of the module */
        struct ds_module_forms *forms;  /* the module's forms while this call is their `pending` */
        struct ds_ring ring;            /* Attach: the new ring */
        uint32_t limit;                 /* SetLimit: the limit and its new value */
        uint64_t limit_value;
        uint64_t map_va, map_bytes;        /* MemMap: the range of addresses */
        uint64_t share_offset, share_size; /* MemImport: offset and size in the token */
        uint64_t share_va, share_handle;   /* MemExport: address of the allocation, or handle */
        int event_fd;
};

typedef void (*ds_worker_done_fn)(struct ds_worker_call *call, const struct ds_worker_answer *answer);

/* Creates a call. rpc NULL: a message of the supervisor itself; otherwise the call counts as the client's. Returns
 * NULL if there is no memory. */
struct ds_session_call *ds_session_call_new(
        struct ds_session *session, const struct ds_rpc *rpc, uint64_t request_id, ds_worker_done_fn done);
/* Cancels the call and frees it; returns NULL. */
struct ds_session_call *ds_session_call_free(struct ds_session_call *call);
/* Answers the client with a status and a message, if it is still connected, and frees the call. */
void ds_session_call_fail(struct ds_session_call *call, int status, const char *fmt, ...) ds_printf(3, 4);
/* Answers the client of a call that was lost with a dying worker, and frees the call. */
void ds_session_call_lost(struct ds_session_call *call);

/* Whether the session's user must wait for the next worker, because it has ended the context too often (blame.h). If
 * so, the call has failed with a status that makes the client retry. */
int ds_session_must_wait(struct ds_session_call *call);

void ds_session_make_set(const struct ds_session *session, Detshare__Internal__SessionSet *set);
/* Attaches a kept ring in the worker. Must precede any later message about the session. Returns 0 or -errno. */
int ds_session_attach_kept(struct ds_session *session);
/* Opens the session in the current worker and restores its content. Returns 0 or -errno (then the worker is being
 * killed). */
int ds_session_open(struct ds_session *session);
