/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/announce.h"

#include <stdio.h>

#include "supervisor/journal.h"
#include "supervisor/notify.h"
#include "supervisor/reload.h"
#include "supervisor/session.h"
#include "supervisor/supervisor.h"
#include "supervisor/worker_link.h"
#include "util/error.h"

#define LOOK_EVERY_MS 2000u
/* seconds by which each announcement extends the start timeout; repeated while the worker starts */
#define START_MORE_S 10u

struct counts {
        unsigned sessions, ls;
};

static struct counts count_sessions(const struct ds_supervisor *supervisor)
{
        const struct ds_session *session;
        struct counts counts = {0};

        TAILQ_FOREACH(session, &supervisor->sessions, link)
        {
                if (session->control_only || !session->client)
                        continue;
                counts.sessions++;
                counts.ls += session->class_ == DETSHARE__CLASS__LS;
        }
        return counts;
}

static void say_status(struct ds_supervisor *supervisor)
{
        const char *reload = supervisor->announced.reload;
        struct counts counts = count_sessions(supervisor);
        ds_notify *notify = supervisor->notify;

        switch (supervisor->state) {
        case DS_DAEMON_STARTING:
                ds_notify_status(notify, "starting the worker for %s", supervisor->options->device);
                break;
        case DS_DAEMON_SERVING:
                ds_notify_status(notify, "serving %s: %u session%s (%u latency-sensitive), policy %s%s%s",
                        ds_worker_info(supervisor->worker)->name, counts.sessions, counts.sessions == 1 ? "" : "s",
                        counts.ls, ds_worker_policy(supervisor->worker), reload[0] ? "; " : "", reload);
                break;
        case DS_DAEMON_RESTARTING:
                ds_notify_status(notify, "the worker ended and is being replaced; %u session%s wait%s", counts.sessions,
                        counts.sessions == 1 ? "" : "s", counts.sessions == 1 ? "s" : "");
                break;
        default:
                ds_notify_status(notify, "stopping");
        }
}

static void look(struct ds_deadline *deadline)
{
        struct ds_supervisor *supervisor = DS_CONTAINER_OF(deadline, struct ds_supervisor, announced.look);

        if (supervisor->state == DS_DAEMON_STARTING && ds_worker_watched(supervisor->worker))
                ds_notify_extend(supervisor->notify, START_MORE_S);
        say_status(supervisor);
        ds_deadline_arm(&supervisor->deadlines, deadline, LOOK_EVERY_MS, look);
}

static int is_alive(void *user)
{
        const struct ds_supervisor *supervisor = user;

        return supervisor->state == DS_DAEMON_STOPPING || ds_worker_watched(supervisor->worker);
}

int ds_announce_start(struct ds_supervisor *supervisor)
{
        int r;

        if (!supervisor->notify)
                return 0;
        r = ds_notify_watchdog_start(supervisor->notify, &supervisor->loop, is_alive, supervisor);
        if (r)
                return ds_error_trace(r);
        say_status(supervisor);
        ds_deadline_arm(&supervisor->deadlines, &supervisor->announced.look, LOOK_EVERY_MS, look);
        return 0;
}

void ds_announce_end(struct ds_supervisor *supervisor)
{
        ds_deadline_disarm(&supervisor->deadlines, &supervisor->announced.look);
        ds_notify_watchdog_stop(supervisor->notify);
}

/* Sets the GPU's name for the journal: the UUID form of nvidia-smi, or the configured name of a simulated device. */
static void name_gpu(const struct ds_supervisor *supervisor)
{
        const struct ds_worker_info *info = ds_worker_info(supervisor->worker);
        const uint8_t *u = info->uuid;
        char uuid[64];

        if (info->simulated) {
                ds_journal_set_gpu(supervisor->options->device);
                return;
        }
        snprintf(uuid, sizeof(uuid), "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0],
                u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
        ds_journal_set_gpu(uuid);
}

void ds_announce_state(struct ds_supervisor *supervisor)
{
        if (supervisor->state == DS_DAEMON_STOPPING)
                ds_notify_stopping(supervisor->notify);
        if (supervisor->state == DS_DAEMON_SERVING && !supervisor->announced.ready) {
                supervisor->announced.ready = 1;
                name_gpu(supervisor);
                ds_notify_ready(supervisor->notify);
        }
        say_status(supervisor);
}

void ds_announce_reload(struct ds_supervisor *supervisor)
{
        static const struct ds_log_about refused = {.event = DS_EVENT_CONFIG_REFUSED},
                                         was_read = {.event = DS_EVENT_CONFIG_READ};
        char *said = supervisor->announced.reload;
        char message[512] = "";
        int r;

        if (supervisor->state == DS_DAEMON_STARTING || supervisor->state == DS_DAEMON_STOPPING)
                return;
        ds_notify_reloading(supervisor->notify);
        r = ds_supervisor_reload(supervisor, message, sizeof(message));
        if (r)
                ds_log_about(&refused, DS_LOG_ERROR,
                        "the configuration was refused, the previous one stays in force: %s",
                        r == DS_RELOAD_E_REFUSED ? message : strerror(-r));
        else
                ds_log_about(&was_read, DS_LOG_INFO, "%s", message);
        snprintf(said, sizeof(supervisor->announced.reload), "%s%.400s", r ? "reload refused: " : "",
                r < 0 ? strerror(-r) : message);
        say_status(supervisor);
        ds_notify_ready(supervisor->notify);
}
