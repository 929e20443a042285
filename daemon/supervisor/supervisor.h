/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor: shared definitions of its files, and its life cycle
 *
 * One loop, one thread. The supervisor accepts clients, checks their credentials and rights, assigns address windows,
 * and keeps the ledger of each session. It starts and supervises two other processes: the worker, which owns the
 * device, and the helper, which reads untrusted images. It never touches the device itself, so no client's kernel can
 * end it, and it survives the other two.
 *
 *   supervisor.c  life cycle         client.c      connections, frames      worker_link.c  the worker and calls to it
 *   listener.c    socket, accept     rpc_table.c   one row per request      helper_link.c  the helper and its queue
 *   session.c     sessions, calls    handlers.c    requests answered here   process.c      child processes
 *   ledger.c      session contents   status.c      status and lists         page.c         ring and completion page
 *   poll.c        libuv's memory     output.c      printed text             blame.c        users that end the context
 *   notify.c      service manager    announce.c    messages to it           reload.c       configuration reload
 *   config.c, config_files.c, rules.c: the configuration; defaults.c: default limits; policy.c: the configured policy
 *   handover.c, handover_save.c, handover_take.c: restart that keeps clients; saved.c: the state file
 *   profiles.c    profiles of kernels; profile_store.c, profile_db.c: their database
 *   rate.c        request rate per user             foreign.c     closing of descriptors that clients sent
 *   turns.c       round robin between users         settle.c      second context for context switches
 *   spin.c        polling after requests
 *   window.c, charge.c, deadline.c, unpack.c, message.c: as named
 */
#pragma once

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "internal.pb-c.h"
#include "supervisor/blame.h"
#include "supervisor/calibration.h"
#include "supervisor/charge.h"
#include "supervisor/config.h"
#include "supervisor/deadline.h"
#include "supervisor/defaults.h"
#include "supervisor/foreign.h"
#include "supervisor/pool.h"
#include "supervisor/settle.h"
#include "supervisor/share.h"
#include "supervisor/turns.h"
#include "supervisor/window.h"
#include "util/log.h"

struct ds_client;
struct ds_handover;
struct ds_notify;
struct ds_session;
typedef struct ds_helper ds_helper;
typedef struct ds_listener ds_listener;
typedef struct ds_worker_link ds_worker_link;

#define DS_SESSION_CALLS_MAX 64u     /* most unanswered requests per client */
#define DS_CLIENT_OUT_MAX (1u << 20) /* most bytes of replies that a client has not read */
#define DS_IMAGE_BYTES_MAX (256ull << 20)
/* Approximate bytes of the daemon's memory per byte of a loaded image: PTX is decoded, machine code is copied. */
#define DS_MODULE_COST_PTX 32u
#define DS_MODULE_COST_CUBIN 4u
#define DS_STOP_GRACE_MS 1000u /* time that running work has to end when the daemon stops */
#ifndef __SANITIZE_ADDRESS__
#define DS_STOP_MAX_MS 1600u /* time after which a stopping daemon kills all child processes */
#else
#define DS_STOP_MAX_MS 8000u /* longer with AddressSanitizer, because LeakSanitizer runs at a process's end */
#endif
/* time that running work has to end when its clients continue after a restart of the daemon */
#define DS_HANDOVER_GRACE_MS 5000u

enum ds_daemon_state {
        DS_DAEMON_STARTING,
        DS_DAEMON_SERVING,
        DS_DAEMON_RESTARTING, /* the worker is gone, and clients wait for the next one */
        DS_DAEMON_STOPPING,
        _DS_DAEMON_STATE_MAX,
        _DS_DAEMON_STATE_INVALID = -EINVAL,
};

#define DS_OPTIONS_POLICY_DIRS_MAX 8u

/* Options of the daemon. The caller owns the strings, which must stay valid until the supervisor is freed. */
struct ds_options {
        const char *device, *socket, *policy;
        int policy_given; /* 1: the policy was set by an option, so the configuration does not change it */
        int socket_given; /* 1: the socket was set by an option or the configuration */
        enum ds_transform transform;
        const struct ds_config *config;
        const char *config_path; /* file to read at a reload */
        int config_must_exist;
        struct ds_notify *notify; /* NULL: there is no service manager */
        /* directories given by options, searched in this order before policy_dir */
        const char *policy_dirs[DS_OPTIONS_POLICY_DIRS_MAX];
        size_t n_policy_dirs;
        char worker_path[PATH_MAX], helper_path[PATH_MAX], policy_dir[PATH_MAX], lut_dir[PATH_MAX];
};

/* Counters that the worker reported last. */
struct ds_worker_figures {
        uint64_t launches, completed, errors, device_now_ns, fallbacks, quiesces, quiesce_ns;
        uint64_t quiesce_stop_ns, quiesce_hits;
        uint64_t migrations, loans, kills, nonsense, evictions, resumed, sliced, persistent;
        uint64_t spin_ns, cpu_ns;
        uint32_t modules_transformed;
        uint32_t in_flight, queued;
        char fallback[224]; /* reason why the built-in policy replaced the configured one; "" if it did not */
};

/* State of the messages to the service manager; announce.c */
struct ds_announced {
        struct ds_deadline look;
        int ready;
        char reload[640]; /* result of the last reload; "": none */
};

/* Cached count of open descriptors; status.c */
struct ds_open_fds {
        uint32_t n;
        uint64_t next_ns; /* earliest time of the next count */
};

TAILQ_HEAD(ds_client_list, ds_client);
TAILQ_HEAD(ds_session_list, ds_session);

struct ds_supervisor {
        uv_loop_t loop;
        const struct ds_options *options;
        struct ds_notify *notify; /* NULL: there is no service manager */
        enum ds_daemon_state state;
        int exit_status;
        uint64_t started_ns;
        struct ds_announced announced;
        struct ds_deadlines deadlines;
        struct ds_deadline stop_deadline;
        uv_signal_t sigterm, sigint, sighup;
        ds_users *users;
        ds_windows *windows;
        ds_shares *shares;
        ds_listener *listener;
        ds_worker_link *worker;
        ds_helper *helper;
        struct ds_code_store *code_store; /* NULL: compiled code is not stored on disk */
        struct ds_profile_store *profiles;
        uint64_t profiling; /* session of the current profiling run, 0: none */
        struct ds_client_list clients;
        struct ds_session_list sessions; /* sorted by id, ascending */
        struct ds_session *session_by_id;
        uint64_t next_session;
        uint32_t n_control_only;
        struct ds_worker_figures last_figures;
        struct ds_open_fds open_fds;
        /* device time that the last worker reached, as far as known: the latest time that a client can have read */
        uint64_t device_now_ns;
        struct ds_blame blame;
        struct ds_pool pool;
        struct ds_settle settle;
        struct ds_calibration calibration;
        struct ds_foreign foreign;
        struct ds_turns turns;        /* clients that wait to be served */
        struct ds_handover *handover; /* state from the previous daemon until it is resumed; NULL: none */
        /* handing_over: the daemon stops, and the next daemon continues the sessions; drained: the worker has ended
         * in order */
        int handing_over, drained;
        gid_t admin_gid;
        int have_admin_gid;
        const struct ds_config *config; /* configuration of the options, or of the last reload */
        struct ds_config *reloaded;
        int policy_refused; /* 1: the worker refused the configured policy, so another one is active */
        struct ds_defaults defaults;
};

/* Creates all parts of the supervisor except the socket, and starts the worker. */
int ds_supervisor_new(const struct ds_options *options, struct ds_supervisor **ret);
/* Runs until ds_supervisor_stop(). Returns the exit status. */
int ds_supervisor_run(struct ds_supervisor *supervisor);
/* Asserts that every handle is closed and every window and charge is released. NULL is allowed; returns NULL. */
struct ds_supervisor *ds_supervisor_free(struct ds_supervisor *supervisor);
/* Begins to stop; ds_supervisor_run() returns within 2 s, or 10 s if clients are handed over. Idempotent. */
void ds_supervisor_stop(struct ds_supervisor *supervisor);
/* Looks the admin group up again, by its name. */
int ds_supervisor_find_admins(struct ds_supervisor *supervisor); /* returns 0, or -errno: the known group stays */
const char *ds_daemon_state_name(enum ds_daemon_state state);

/* Changes of the worker's state; called by worker_link.c. */
void ds_supervisor_worker_ready(struct ds_supervisor *supervisor);
/* reason: one sentence that says why the first worker could not start. */
void ds_supervisor_worker_failed(struct ds_supervisor *supervisor, const char *reason);
void ds_supervisor_worker_lost(struct ds_supervisor *supervisor);
/* Called after the end of a child process, client or session: ends the loop if the stop is complete. */
void ds_supervisor_check_stop(struct ds_supervisor *supervisor);

static inline void ds_supervisor_freep(struct ds_supervisor **p)
{
        *p = ds_supervisor_free(*p);
}
