/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/supervisor.h"

#include <assert.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "supervisor/announce.h"
#include "supervisor/client.h"
#include "supervisor/code_store.h"
#include "supervisor/handover.h"
#include "supervisor/helper_link.h"
#include "supervisor/listener.h"
#include "supervisor/notify.h"
#include "supervisor/policy.h"
#include "supervisor/poll.h"
#include "supervisor/profile_store.h"
#include "supervisor/profiles.h"
#include "supervisor/reload.h"
#include "supervisor/session.h"
#include "supervisor/worker_link.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define ADMIN_GROUP "detshare-admin"

static const char *const state_names[_DS_DAEMON_STATE_MAX] = {
        [DS_DAEMON_STARTING] = "starting",
        [DS_DAEMON_SERVING] = "serving",
        [DS_DAEMON_RESTARTING] = "restarting",
        [DS_DAEMON_STOPPING] = "stopping",
};

const char *ds_daemon_state_name(enum ds_daemon_state state)
{
        assert(state >= 0 && state < _DS_DAEMON_STATE_MAX);
        return state_names[state];
}

static void set_state(struct ds_supervisor *supervisor, enum ds_daemon_state state)
{
        ds_log(DS_LOG_DEBUG, "%s -> %s", ds_daemon_state_name(supervisor->state), ds_daemon_state_name(state));
        supervisor->state = state;
        ds_announce_state(supervisor);
}

int ds_supervisor_find_admins(struct ds_supervisor *supervisor)
{
        const struct group *admin;

        errno = 0;
        admin = getgrnam(ADMIN_GROUP);
        if (!admin && ds_lookup_failed(errno))
                return ds_error_origin(-errno);
        supervisor->have_admin_gid = admin != NULL;
        if (admin)
                supervisor->admin_gid = admin->gr_gid;
        return 0;
}

/* --- creation ----------------------------------------------------------------------------------------------------- */

static void on_signal(uv_signal_t *handle, int signum)
{
        if (signum == SIGHUP)
                ds_announce_reload(handle->data);
        else
                ds_supervisor_stop(handle->data);
}

static int start_signals(struct ds_supervisor *supervisor)
{
        const struct {
                uv_signal_t *handle;
                int signum;
        } signals[] = {{&supervisor->sigterm, SIGTERM}, {&supervisor->sigint, SIGINT}, {&supervisor->sighup, SIGHUP}};

        for (size_t i = 0; i < DS_ARRAY_SIZE(signals); i++) {
                int r = uv_signal_init(&supervisor->loop, signals[i].handle);

                signals[i].handle->data = supervisor;
                if (!r)
                        r = uv_signal_start(signals[i].handle, on_signal, signals[i].signum);
                if (r < 0)
                        return ds_error_origin(r);
        }
        return 0;
}

/* Whether clients may be served now. They wait while the worker has enough unread requests. */
static int may_serve(void *user)
{
        const struct ds_supervisor *supervisor = user;

        return !supervisor->worker || !ds_worker_busy(supervisor->worker);
}

static int supervisor_build(struct ds_supervisor *supervisor)
{
        char message[512] = "";
        int r;

        r = ds_supervisor_find_admins(supervisor);
        if (r)
                return ds_error_fold(r);
        ds_defaults_init(&supervisor->defaults, supervisor->config);
        ds_spin_set(&supervisor->turns.spin, supervisor->config->spin_us, supervisor->config->spin_never != 0);
        r = ds_users_new(&supervisor->defaults.limits, &supervisor->users);
        if (r)
                return ds_error_fold(r);
        r = ds_windows_new(DS_WINDOW_AREA_BASE, DS_WINDOW_AREA_BYTES, DS_WINDOW_MIN, &supervisor->windows);
        if (r)
                return ds_error_fold(r);
        r = ds_shares_new(&supervisor->shares);
        if (r)
                return ds_error_fold(r);
        r = ds_worker_link_new(supervisor, &supervisor->worker);
        if (r)
                return ds_error_fold(r);
        r = ds_policy_start(supervisor);
        if (r)
                return ds_error_fold(r);
        /* opens the store of compiled code unless the device is simulated and no forms of kernels are made: then
         * nothing is compiled */
        if (supervisor->config->state && (strncmp(supervisor->options->device, "sim:", strlen("sim:")) ||
                                                 supervisor->options->transform != DS_TRANSFORM_NEVER))
                r = ds_code_store_new(
                        supervisor->config->state, supervisor->config->compiled_code, &supervisor->code_store);
        if (r)
                return ds_error_fold(r);
        ds_calibration_open(&supervisor->calibration, supervisor->config->state);
        r = ds_profiles_start(supervisor);
        if (r)
                return ds_error_fold(r);
        r = ds_helper_new(supervisor, &supervisor->helper);
        if (r)
                return ds_error_fold(r);
        r = ds_handover_take(supervisor);
        if (r)
                return ds_error_fold(r);
        r = ds_listener_new(supervisor, supervisor->options->socket, message, sizeof(message), &supervisor->listener);
        if (r == DS_LISTENER_E_REFUSED) {
                ds_log(DS_LOG_ERROR, "%s", message);
                return r;
        }
        return ds_error_fold(r);
}

int ds_supervisor_new(const struct ds_options *options, struct ds_supervisor **ret)
{
        struct ds_supervisor *supervisor = ds_alloc0(1, sizeof(*supervisor));
        int r;

        if (!supervisor)
                return ds_error_origin(-ENOMEM);
        ds_pool_init(&supervisor->pool);
        supervisor->options = options;
        supervisor->config = options->config;
        ds_settle_init(&supervisor->settle, supervisor);
        supervisor->notify = options->notify;
        supervisor->started_ns = uv_hrtime();
        TAILQ_INIT(&supervisor->clients);
        TAILQ_INIT(&supervisor->sessions);
        ds_foreign_init(&supervisor->foreign, &supervisor->deadlines);
        r = ds_poll_setup();
        if (!r)
                r = uv_loop_init(&supervisor->loop);
        if (r < 0) {
                ds_poll_settled();
                ds_free(supervisor);
                return ds_error_origin(r);
        }
        r = ds_deadlines_init(&supervisor->deadlines, &supervisor->loop);
        if (!r)
                r = ds_turns_init(&supervisor->turns, &supervisor->loop, &supervisor->deadlines, may_serve, supervisor);
        if (!r)
                r = start_signals(supervisor);
        ds_poll_settled();
        if (!r)
                r = supervisor_build(supervisor);
        if (r) {
                ds_supervisor_stop(supervisor);
                uv_run(&supervisor->loop, UV_RUN_DEFAULT);
                ds_supervisor_free(supervisor);
                return ds_error_trace(r);
        }
        *ret = supervisor;
        return 0;
}

struct ds_supervisor *ds_supervisor_free(struct ds_supervisor *supervisor)
{
        int r;

        if (!supervisor)
                return NULL;
        assert(TAILQ_EMPTY(&supervisor->clients));
        assert(TAILQ_EMPTY(&supervisor->sessions));
        assert(!supervisor->session_by_id);
        supervisor->helper = ds_helper_free(supervisor->helper);
        supervisor->code_store = ds_code_store_free(supervisor->code_store);
        supervisor->profiles = ds_profile_store_free(supervisor->profiles);
        supervisor->worker = ds_worker_link_free(supervisor->worker);
        ds_pool_deinit(&supervisor->pool);
        ds_calibration_close(&supervisor->calibration);
        r = uv_loop_close(&supervisor->loop);
        assert(r == 0);
        (void)r;
        ds_windows_free(supervisor->windows);
        ds_shares_free(supervisor->shares);
        ds_users_free(supervisor->users);
        ds_reload_deinit(supervisor);
        return ds_free(supervisor);
}

/* --- state of the worker ------------------------------------------------------------------------------------------ */

void ds_supervisor_worker_ready(struct ds_supervisor *supervisor)
{
        if (supervisor->state == DS_DAEMON_STARTING) {
                if (ds_listener_start(supervisor->listener)) {
                        supervisor->exit_status = 1;
                        ds_supervisor_stop(supervisor);
                        return;
                }
                printf("detshared: serving %s at %s (policy %s)\n", ds_worker_info(supervisor->worker)->name,
                        ds_listener_path(supervisor->listener), ds_worker_policy(supervisor->worker));
                fflush(stdout);
                ds_handover_resume(supervisor);
        }
        if (supervisor->state == DS_DAEMON_STOPPING)
                return;
        set_state(supervisor, DS_DAEMON_SERVING);
        ds_profiles_worker_ready(supervisor);
}

void ds_supervisor_worker_failed(struct ds_supervisor *supervisor, const char *reason)
{
        const char *device = supervisor->options->device;

        ds_log(DS_LOG_ERROR, "the worker for %s could not start: %s%s", device, reason,
                strncmp(device, "cuda:", strlen("cuda:")) ? "" : "; --device sim:h200 needs no GPU");
        supervisor->exit_status = 1;
        ds_supervisor_stop(supervisor);
}

void ds_supervisor_worker_lost(struct ds_supervisor *supervisor)
{
        ds_settle_break(&supervisor->settle);
        if (supervisor->state != DS_DAEMON_STOPPING)
                set_state(supervisor, DS_DAEMON_RESTARTING);
}

int ds_supervisor_run(struct ds_supervisor *supervisor)
{
        if (ds_announce_start(supervisor) || ds_worker_start(supervisor->worker) ||
                ds_helper_start(supervisor->helper)) {
                ds_log(DS_LOG_ERROR, "%s or %s could not be started", supervisor->options->worker_path,
                        supervisor->options->helper_path);
                supervisor->exit_status = 1;
                ds_supervisor_stop(supervisor);
        }
        uv_run(&supervisor->loop, UV_RUN_DEFAULT);
        assert(supervisor->state == DS_DAEMON_STOPPING);
        return supervisor->exit_status;
}

/* --- stopping ----------------------------------------------------------------------------------------------------- */

/* Blocks signals: a second SIGTERM must not kill the daemon during its last steps, because that would change its
 * exit status. */
static void block_signals(void)
{
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGHUP);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void close_signal(uv_signal_t *signal)
{
        if (signal->loop && !uv_is_closing((uv_handle_t *)signal))
                uv_close((uv_handle_t *)signal, NULL);
}

void ds_supervisor_check_stop(struct ds_supervisor *supervisor)
{
        struct ds_client *client;

        if (supervisor->state != DS_DAEMON_STOPPING)
                return;
        if (supervisor->worker && !ds_worker_gone(supervisor->worker))
                return;
        if (supervisor->handing_over)
                ds_handover_save(supervisor);
        ds_handover_drop(supervisor);
        /* the remaining clients are closed, because their requests can no longer be answered */
        while ((client = TAILQ_FIRST(&supervisor->clients)))
                ds_client_close(client, NULL);
        if ((supervisor->helper && ds_helper_count(supervisor->helper)) || !ds_settle_gone(&supervisor->settle))
                return;
        ds_announce_end(supervisor);
        ds_turns_deinit(&supervisor->turns);
        ds_deadline_disarm(&supervisor->deadlines, &supervisor->stop_deadline);
        ds_foreign_deinit(&supervisor->foreign);
        if (supervisor->profiles)
                ds_profile_store_stop(supervisor->profiles);
        ds_deadlines_deinit(&supervisor->deadlines);
        block_signals();
        close_signal(&supervisor->sigterm);
        close_signal(&supervisor->sigint);
        close_signal(&supervisor->sighup);
}

static void stop_deadline(struct ds_deadline *deadline)
{
        struct ds_supervisor *supervisor = DS_CONTAINER_OF(deadline, struct ds_supervisor, stop_deadline);

        ds_worker_kill(supervisor->worker, "it does not stop");
        ds_helper_kill(supervisor->helper);
        /* the daemon does not wait for this process: a driver may delay the end even of a killed process */
        ds_settle_leave(&supervisor->settle);
        ds_supervisor_check_stop(supervisor);
}

void ds_supervisor_stop(struct ds_supervisor *supervisor)
{
        unsigned grace_ms = DS_STOP_GRACE_MS;

        if (supervisor->state == DS_DAEMON_STOPPING)
                return;
        if (ds_handover_begin(supervisor))
                grace_ms = DS_HANDOVER_GRACE_MS;
        set_state(supervisor, DS_DAEMON_STOPPING);
        supervisor->listener = ds_listener_free(supervisor->listener);
        if (supervisor->worker)
                ds_worker_stop(supervisor->worker, grace_ms);
        if (supervisor->helper)
                ds_helper_stop(supervisor->helper);
        ds_settle_stop(&supervisor->settle);
        ds_deadline_arm(&supervisor->deadlines, &supervisor->stop_deadline,
                DS_STOP_MAX_MS - DS_STOP_GRACE_MS + grace_ms, stop_deadline);
        ds_supervisor_check_stop(supervisor);
}
