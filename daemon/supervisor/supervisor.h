/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor: what its files share, and its life cycle
 *
 * One loop, one thread. It accepts clients, knows who they are and what they may, gives out address windows, keeps the
 * ledger of what every session holds, and starts and watches the two processes that do the rest: the worker, which
 * owns the device, and the helper, which reads untrusted images. It never touches the device itself, so nothing that
 * a client's kernel does can take it down, and it survives both others.
 *
 *   supervisor.c  life cycle         client.c      connections, frames      worker_link.c  the worker and calls to it
 *   listener.c    socket, accept     rpc_table.c   one row per request      helper_link.c  the helper and its queue
 *   session.c     sessions, calls    handlers.c    requests answered here   process.c      child processes
 *   ledger.c      what they hold     status.c      figures and lists        page.c         ring and completion page
 *   poll.c        libuv's memory
 *   output.c       printed text      blame.c        who ends the context    notify.c       the service manager
 *   announce.c    what it is told    reload.c       the configuration anew
 *   config.c, config_files.c, rules.c: what is configured; defaults.c: and what is not; policy.c: the policy of it
 *   handover.c, handover_save.c, handover_take.c: a restart under the clients; saved.c: the file that it leaves
 *   profiles.c    profiles of kernels      profile_store.c, profile_db.c: and their file
 *   rate.c        how fast users may ask            foreign.c     what clients sent and nobody wants
 *   turns.c       users are served in turn
 *   settle.c      a context beside the worker's
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

#define DS_SESSION_CALLS_MAX 64u     /* unanswered requests of a client */
#define DS_CLIENT_OUT_MAX (1u << 20) /* bytes of replies that a client has not read */
#define DS_IMAGE_BYTES_MAX (256ull << 20)
/* Bytes of the daemon's memory for a byte of a loaded image, about: PTX is decoded, machine code is copied. */
#define DS_MODULE_COST_PTX 32u
#define DS_MODULE_COST_CUBIN 4u
#define DS_STOP_GRACE_MS 1000u /* for work in flight */
#ifndef __SANITIZE_ADDRESS__
#define DS_STOP_MAX_MS 1600u /* then everything is killed */
#else
#define DS_STOP_MAX_MS 8000u /* a process that is searched for leaks takes its time */
#endif
#define DS_HANDOVER_GRACE_MS 5000u /* and for work in flight where its clients go on */

enum ds_daemon_state {
        DS_DAEMON_STARTING,
        DS_DAEMON_SERVING,
        DS_DAEMON_RESTARTING, /* the worker is gone, clients wait */
        DS_DAEMON_STOPPING,
        _DS_DAEMON_STATE_MAX,
        _DS_DAEMON_STATE_INVALID = -EINVAL,
};

/* Strings are the caller's and outlive the supervisor. */
struct ds_options {
        const char *device, *socket, *policy;
        int policy_given; /* by an option: the configuration does not change it */
        int socket_given; /* by an option or the configuration */
        enum ds_transform transform;
        const struct ds_config *config;
        const char *config_path; /* to read it again from */
        int config_must_exist;
        struct ds_notify *notify; /* NULL: no service manager */
        char worker_path[PATH_MAX], helper_path[PATH_MAX], policy_dir[PATH_MAX], lut_dir[PATH_MAX];
};

/* What the worker last said of itself. */
struct ds_worker_figures {
        uint64_t launches, completed, errors, device_now_ns, fallbacks, quiesces, quiesce_ns;
        uint64_t migrations, loans, kills, nonsense, evictions, resumed, sliced, persistent;
        uint32_t modules_transformed;
        uint32_t in_flight, queued;
};

/* What the service manager was told; announce.c */
struct ds_announced {
        struct ds_deadline look;
        int ready;
        char reload[640]; /* how the last one went, "" = there was none */
};

/* As they were counted last; status.c */
struct ds_open_fds {
        uint32_t n;
        uint64_t next_ns; /* before that they are not counted again */
};

TAILQ_HEAD(ds_client_list, ds_client);
TAILQ_HEAD(ds_session_list, ds_session);

struct ds_supervisor {
        uv_loop_t loop;
        const struct ds_options *options;
        struct ds_notify *notify; /* the service manager; may be NULL */
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
        struct ds_code_store *code_store; /* NULL: compiled code is not kept on disk */
        struct ds_profile_store *profiles;
        uint64_t profiling; /* the session whose profiling run it is, 0 = none */
        struct ds_client_list clients;
        struct ds_session_list sessions; /* ascending ids */
        struct ds_session *session_by_id;
        uint64_t next_session;
        uint32_t n_control_only;
        struct ds_worker_figures last_figures;
        struct ds_open_fds open_fds;
        uint64_t device_now_ns; /* of the last worker that is gone, as far as a client can know it */
        struct ds_blame blame;
        struct ds_pool pool;
        struct ds_settle settle;
        struct ds_calibration calibration;
        struct ds_foreign foreign;
        struct ds_turns turns;        /* clients that have something to say */
        struct ds_handover *handover; /* what came from the life before, until it goes on; NULL = nothing */
        int handing_over, drained;    /* stopping: another life follows; the worker has ended in order */
        gid_t admin_gid;
        int have_admin_gid;
        const struct ds_config *config; /* the options', or that of the last reload */
        struct ds_config *reloaded;
        int policy_refused; /* the policy is another than the configuration says */
        struct ds_defaults defaults;
};

/* Everything but the socket; the worker is being started. */
int ds_supervisor_new(const struct ds_options *options, struct ds_supervisor **ret);
/* Runs until it was told to stop. Returns the exit status. */
int ds_supervisor_run(struct ds_supervisor *supervisor);
/* Asserts that every handle is closed, every window back, every charge returned. NULL is fine; returns NULL. */
struct ds_supervisor *ds_supervisor_free(struct ds_supervisor *supervisor);
/* Begin to stop; ds_supervisor_run returns within 2 s, or 10 s where clients are handed over. Later calls do nothing.
 */
void ds_supervisor_stop(struct ds_supervisor *supervisor);
/* Who administers: look again. */
int ds_supervisor_find_admins(struct ds_supervisor *supervisor); /* 0, or -errno: they stay who they were */
const char *ds_daemon_state_name(enum ds_daemon_state state);

/* What the worker's life means for the others; called by worker_link.c. */
void ds_supervisor_worker_ready(struct ds_supervisor *supervisor);
/* reason: why the first worker could not start, one sentence. */
void ds_supervisor_worker_failed(struct ds_supervisor *supervisor, const char *reason);
void ds_supervisor_worker_lost(struct ds_supervisor *supervisor);
/* Worker or helper ended, a client or session went: is the stop complete? */
void ds_supervisor_check_stop(struct ds_supervisor *supervisor);

static inline void ds_supervisor_freep(struct ds_supervisor **p)
{
        *p = ds_supervisor_free(*p);
}
