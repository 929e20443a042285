/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's link to the worker process: start, calls, supervision, replacement
 *
 * Every request that needs an answer is a struct ds_worker_call, embedded in the requesting object. Its done function
 * is called once, with the answer, or without one if the worker died. A call may be cancelled; the worker still carries
 * out the request, which stays charged to its user until it is answered.
 *
 * The worker is replaced at once when it dies (after a growing pause when it dies soon after its start), breaks the
 * protocol, or does not answer a ping in time. The successor of a worker that hung gets the built-in policy, because
 * only a policy's code can make a worker hang. On a GPU the driver can too, so there the policy is replaced only at the
 * second hang within ten minutes.
 *
 * The next worker starts as soon as the connection of the last one ends, or the last one reports that its context is
 * lost. It does not wait for the end of the process, which takes 0.3 s with a context and cannot save running work. The
 * old process is then killed and reaped in parallel.
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
        DS_WORKER_DOWN, /* there is no worker process; a start may be scheduled */
        DS_WORKER_STARTING,
        DS_WORKER_READY,
        DS_WORKER_LOST, /* the worker's connection has ended, but its process is not reaped yet */
        _DS_WORKER_STATE_MAX,
        _DS_WORKER_STATE_INVALID = -EINVAL,
};

/* An answer of the worker. The done function sets fds that it keeps to -1. */
struct ds_worker_answer {
        const Detshare__Internal__FromWorker *message;
        int *fds; /* descriptors that no ledger entry consumed */
        size_t n_fds;
};

/* A request to the worker that needs an answer. Zero-initialise all fields but done, image_fd (-1) and charge. */
struct ds_worker_call {
        uint64_t id; /* id of the message; 0 while the worker does not have the request */
        /* Charge for one open request of the user; empty for a call of the daemon itself. The link holds it while
         * the worker has the request, also after a cancel; otherwise the call's owner releases it. */
        struct ds_charge charge;
        /* Called with the answer; NULL: the worker died. The caller owns the call again. */
        void (*done)(struct ds_worker_call *call, const struct ds_worker_answer *answer);
        /* File and charges of the module in the answer's ledger entry; emptied when the ledger takes them. */
        int image_fd;
        uint64_t image_bytes;
        struct ds_charge *module_charge, *image_charge, *variables_charge;
        ds_share *imported; /* MemImport: reference that the call holds */
        struct ds_module_source *source;
};

/* The device and its limits, from the last Ready message. */
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
        char topology[520]; /* hexadecimal digits; "": not known */
        size_t n_limits;
        uint64_t limits[8]; /* limits of the context, indexed by CUlimit */
};

int ds_worker_link_new(struct ds_supervisor *supervisor, ds_worker_link **ret);
/* Frees the link. The worker's process must have ended and no call may be open. NULL is allowed; returns NULL. */
ds_worker_link *ds_worker_link_free(ds_worker_link *link);
/* Starts the first worker. */
int ds_worker_start(ds_worker_link *link);
enum ds_worker_state ds_worker_state(const ds_worker_link *link);
/* Zero until the first Ready, valid from then on. */
const struct ds_worker_info *ds_worker_info(const ds_worker_link *link);
/* Whether no worker process is left, not even one to be reaped. */
int ds_worker_gone(const ds_worker_link *link);
/*
 * Whether the worker is supervised, for the watchdog: it answers, still has time to answer, waits for its next start,
 * or is being killed. 0 means an error in this code.
 */
int ds_worker_watched(const ds_worker_link *link);
pid_t ds_worker_pid(const ds_worker_link *link); /* 0: there is no worker process */
uint32_t ds_worker_restarts(const ds_worker_link *link);

/*
 * Sends a message and fills in its id and fds. call NULL: no answer is needed. Returns 0, or -EPIPE: no worker is
 * ready, and done will not be called.
 */
int ds_worker_send(ds_worker_link *link, Detshare__Internal__ToWorker *message, const int *fds, size_t n_fds,
        struct ds_worker_call *call);
/* Whether the worker has enough unread requests, so that clients should wait. The loop wakes when the worker has
 * read most of them. */
int ds_worker_busy(const ds_worker_link *link);
/* Cancels an open call: its done function is not called, its charge stays until the worker has answered. A call that
 * is not open is allowed. */
void ds_worker_cancel(ds_worker_link *link, struct ds_worker_call *call);

/* Sets the policy of the next worker; params as in SetPolicy. */
int ds_worker_set_policy(ds_worker_link *link, const char *name, char *const *params, size_t n_params);
/* Sets the policy of the next worker like ds_worker_set_policy(), but takes over params. */
void ds_worker_take_policy(ds_worker_link *link, const char *name, char **params, size_t n_params);
/* Restores the policy that was set before a temporary one. */
void ds_worker_policy_again(ds_worker_link *link);
/* The policy that is active, as far as the supervisor knows. */
const char *ds_worker_policy(const ds_worker_link *link);
/* Reason why the supervisor started the worker with the built-in policy instead of the one that was set; "" if it
 * did not. */
const char *ds_worker_fallback(const ds_worker_link *link);
void ds_worker_note_policy(ds_worker_link *link, const char *name);

/* Sends the worker the times of the configuration that changed. */
void ds_worker_set_limits(ds_worker_link *link);
/* Lets the worker finish its work and end. No further worker is started. */
void ds_worker_stop(ds_worker_link *link, uint64_t grace_ms);
void ds_worker_kill(ds_worker_link *link, const char *why);
