/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message on a session's behalf that waits for an answer (of the worker, or of the helper before it)
 *
 * Owned by its session: whatever is open when the session goes is cancelled with it.
 */
#pragma once

#include "supervisor/helper_link.h"
#include "supervisor/session.h"
#include "supervisor/worker_link.h"

struct ds_session_call {
        struct ds_worker_call base;
        struct ds_session *session;
        TAILQ_ENTRY(ds_session_call) link;
        const struct ds_rpc *rpc;             /* NULL: the supervisor's own message */
        uint64_t request_id;                  /* the client's */
        uint64_t ring_tail;                   /* ModuleLoad, while the helper has it */
        uint32_t attachments;                 /* of the session when ring_tail was said */
        struct ds_charge objects, bytes, one; /* what the client may come to hold by it */
        struct ds_charge variables;           /* ModuleLoad: device memory */
        struct ds_helper_job job;
        struct ds_module_source source; /* ModuleLoad */
        uint64_t module;                /* whose forms it is about */
        struct ds_module_forms *forms;  /* those, while it is their `pending` */
        struct ds_ring ring;            /* Attach */
        uint32_t limit;                 /* SetLimit */
        uint64_t limit_value;
        uint64_t map_va, map_bytes;        /* MemMap */
        uint64_t share_offset, share_size; /* MemImport: what its token says */
        uint64_t share_va, share_handle;   /* MemExport */
        int event_fd;
};

typedef void (*ds_worker_done_fn)(struct ds_worker_call *call, const struct ds_worker_answer *answer);

/* rpc NULL for the supervisor's own; others count as the client's. NULL: out of memory. */
struct ds_session_call *ds_session_call_new(
        struct ds_session *session, const struct ds_rpc *rpc, uint64_t request_id, ds_worker_done_fn done);
/* Cancels and frees; returns NULL. */
struct ds_session_call *ds_session_call_free(struct ds_session_call *call);
/* A sentence for the client, if it is still there, and the end of the call. */
void ds_session_call_fail(struct ds_session_call *call, int status, const char *fmt, ...) ds_printf(3, 4);
/* As above, for a call that a dying worker took with it. */
void ds_session_call_lost(struct ds_session_call *call);

/* Has the user ended the device's context so often that its sessions must wait for the next one? 1: the call has
 * failed, with the status that makes a client ask again. */
int ds_session_must_wait(struct ds_session_call *call);

void ds_session_make_set(const struct ds_session *session, Detshare__Internal__SessionSet *set);
/* A ring that was kept is the worker's again, before anything that comes later. 0 or -errno. */
int ds_session_attach_kept(struct ds_session *session);
/* Make the session known to the present worker and give it back what it had. 0 or -errno (the worker is being killed).
 */
int ds_session_open(struct ds_session *session);
