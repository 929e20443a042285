/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker as the supervisor sees it: a process that is started, asked, watched and replaced
 *
 * Every question that wants an answer is a struct ds_worker_call, embedded in whatever asked; its done function runs
 * once, with the answer, or without one when the worker has died. A call may be cancelled; the request that it sent
 * stays the worker's work, and charged to its user, until it is answered. The worker is replaced at once when it dies
 * (with a growing pause when it dies right after starting), breaks the protocol, or does not answer a ping in time. A
 * worker that hung is given the built-in policy, since only a policy's code can make it hang; or the driver of a GPU,
 * where it takes two within ten minutes.
 *
 * The next one starts as soon as the connection to the last is over, or as that has said that its device's context is
 * lost: a process with a context takes 0.3 s to go, and what it had in flight cannot be awaited anyway. The last is
 * then killed and reaped beside.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "internal.pb-c.h"
#include "supervisor/charge.h"
#include "supervisor/forms.h"
#include "supervisor/hash.h"
#include "supervisor/share.h"

struct ds_supervisor;
struct ds_worker_call;

typedef struct ds_worker_link ds_worker_link;

enum ds_worker_state {
        DS_WORKER_DOWN, /* no process; a start may be scheduled */
        DS_WORKER_STARTING,
        DS_WORKER_READY,
        DS_WORKER_LOST, /* connection over, not yet reaped */
        _DS_WORKER_STATE_MAX,
        _DS_WORKER_STATE_INVALID = -EINVAL,
};

/* An answer; fds that the done function keeps are set to -1. */
struct ds_worker_answer {
        const Detshare__Internal__FromWorker *message;
        int *fds; /* those beside the answer that no ledger entry took */
        size_t n_fds;
};

/* Zero-initialised but for done, image_fd (-1) and charge. */
struct ds_worker_call {
        uint64_t id; /* 0 while it is not with the worker */
        /* For one more open request, of its user; empty in a call of the daemon's own. The link has it while the worker
         * has the request, also when the call was cancelled; otherwise its owner releases it. */
        struct ds_charge charge;
        /* answer NULL: the worker died. The call is the caller's again. */
        void (*done)(struct ds_worker_call *call, const struct ds_worker_answer *answer);
        /* What a module in the answer's ledger entry is made of; emptied when it was. */
        int image_fd;
        uint64_t image_bytes;
        struct ds_charge *module_charge, *image_charge, *variables_charge;
        ds_share *imported; /* MemImport: the call's reference */
        struct ds_module_source *source;
};

/* What the last READY said. */
struct ds_worker_info {
        char name[64], model[32];
        uint8_t uuid[16];
        uint64_t memory_bytes;
        size_t n_attributes;
        int32_t attributes[256];
        int simulated;
        uint32_t n_sms, n_tpcs, n_gpcs, n_rungs;
        uint64_t own_bytes;
        uint32_t n_coarse_rungs;
        uint64_t ladder_bytes, ladder_ns;
        char topology[520]; /* hexadecimal digits, "" = not known */
        size_t n_limits;
        uint64_t limits[8]; /* by CUlimit */
};

int ds_worker_link_new(struct ds_supervisor *supervisor, ds_worker_link **ret);
/* The process must have ended and no call be open. NULL is fine; returns NULL. */
ds_worker_link *ds_worker_link_free(ds_worker_link *link);
/* Start the first one. */
int ds_worker_start(ds_worker_link *link);
enum ds_worker_state ds_worker_state(const ds_worker_link *link);
/* Since it was first READY it is never without. */
const struct ds_worker_info *ds_worker_info(const ds_worker_link *link);
/* No process is left, not even one that is still to be reaped. */
int ds_worker_gone(const ds_worker_link *link);
/*
 * Is somebody sure to look after it? It answers, or has still time to, or waits for its next start, or is being killed.
 * For a watchdog: if not, this code is at fault.
 */
int ds_worker_watched(const ds_worker_link *link);
pid_t ds_worker_pid(const ds_worker_link *link); /* 0 = none */
uint32_t ds_worker_restarts(const ds_worker_link *link);

/*
 * Send message; its id and fds are filled in. call NULL: no answer is wanted. 0, or -EPIPE when there is no worker that
 * is ready (or it has just gone): done will not be called then.
 */
int ds_worker_send(ds_worker_link *link, Detshare__Internal__ToWorker *message, const int *fds, size_t n_fds,
        struct ds_worker_call *call);
/* 1 while it has enough to read: clients should wait, and the loop turns when it has read most of it. */
int ds_worker_busy(const ds_worker_link *link);
/* Forget an open call: its done is not called, its charge stays until the worker has answered. One that is not open is
 * fine. */
void ds_worker_cancel(ds_worker_link *link, struct ds_worker_call *call);

/* The policy that a new worker shall have; params as in SetPolicy. */
int ds_worker_set_policy(ds_worker_link *link, const char *name, char *const *params, size_t n_params);
/* The same with parameters that become the link's. */
void ds_worker_take_policy(ds_worker_link *link, const char *name, char **params, size_t n_params);
/* The worker has another for the time being: it gets this one again. */
void ds_worker_policy_again(ds_worker_link *link);
/* Active as far as known. */
const char *ds_worker_policy(const ds_worker_link *link);
void ds_worker_note_policy(ds_worker_link *link, const char *name);

/* The configuration's times have changed. */
void ds_worker_set_limits(ds_worker_link *link);
/* Drain and end; no new one is started. */
void ds_worker_stop(ds_worker_link *link, uint64_t grace_ms);
void ds_worker_kill(ds_worker_link *link, const char *why);
