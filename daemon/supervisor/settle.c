/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/settle.h"

#include <string.h>
#include <uv.h>

#include "supervisor/supervisor.h"
#include "util/macro.h"

#define SETTLE_QUIET_MS 300u
#define SETTLE_LATEST_MS 10000u
#define SETTLE_APART_MS 1000u              /* each costs who is being served some 3 ms, once */
#define SETTLE_SOON_MS 10000u              /* the next one so soon after the last one: then twice as far apart */
#define SETTLE_APART_MAX_MS 60000u         /* after failures */
#define SETTLE_TIME_MS 10000u              /* a driver that takes so long is not helped by another one */
#define OUT_MAX (2 * DS_PROCESS_FRAME_MAX) /* nothing is said to it */

static void settle_deadline(struct ds_deadline *deadline);

static uint64_t now_ms(void)
{
        return uv_hrtime() / DS_NS_PER_MS;
}

void ds_settle_init(struct ds_settle *settle, struct ds_supervisor *supervisor)
{
        const struct ds_options *options = supervisor->options;

        *settle = (struct ds_settle){.supervisor = supervisor, .apart_ms = SETTLE_APART_MS};
        settle->off = options->config->settle_never || strncmp(options->device, "cuda:", strlen("cuda:"));
}

/* When the next one may begin, in ms from now. */
static uint64_t settle_in(const struct ds_settle *settle, uint64_t now)
{
        const uint64_t latest = settle->first_ms + SETTLE_LATEST_MS;
        uint64_t in = latest > now ? DS_MIN((uint64_t)SETTLE_QUIET_MS, latest - now) : 0;

        if (settle->begun_ms && now - settle->begun_ms < settle->apart_ms)
                in = DS_MAX(in, settle->apart_ms - (now - settle->begun_ms));
        return in;
}

void ds_settle_stirred(struct ds_settle *settle)
{
        uint64_t now;

        if (settle->off)
                return;
        now = now_ms();
        if (!settle->first_ms)
                settle->first_ms = now;
        /* while one runs the deadline is its own; what came meanwhile is seen at its end */
        if (!settle->process)
                ds_deadline_arm(
                        &settle->supervisor->deadlines, &settle->deadline, settle_in(settle, now), settle_deadline);
}

/* --- the process ------------------------------------------------------------------------------------------------- */

/* It says nothing. */
static int settle_frame(void *user, const uint8_t *payload, size_t size)
{
        (void)user;
        (void)payload;
        (void)size;
        return 1;
}

static void settle_lost(void *user)
{
        (void)user;
}

/* how: what the first of those that could not says to the log. */
static void settle_failed(struct ds_settle *settle, const char *how)
{
        settle->apart_ms = DS_MIN(2 * settle->apart_ms, (uint64_t)SETTLE_APART_MAX_MS);
        if (settle->told)
                return;
        settle->told = 1;
        ds_log(DS_LOG_INFO,
                "no context can be made beside the worker's: who made one %s; kernels may begin a little later than "
                "they could",
                how);
}

static void settle_ended(void *user, const char *how, int killed)
{
        struct ds_settle *settle = user;

        settle->process = ds_process_free(settle->process);
        ds_deadline_disarm(&settle->supervisor->deadlines, &settle->deadline);
        if (!strcmp(how, "exited with status 0")) {
                settle->apart_ms = settle->soon ? 2 * settle->apart_ms : SETTLE_APART_MS;
                ds_log(DS_LOG_DEBUG, "a context beside the worker's was there for %u ms",
                        (unsigned)(now_ms() - settle->begun_ms));
        } else if (!killed) {
                settle_failed(settle, how);
        }
        if (settle->off)
                ds_supervisor_check_stop(settle->supervisor);
        else if (settle->first_ms)
                ds_settle_stirred(settle);
}

static const struct ds_process_ops settle_ops = {settle_frame, settle_lost, settle_ended};

static void settle_begin(struct ds_settle *settle)
{
        struct ds_supervisor *supervisor = settle->supervisor;
        const char *argv[] = {supervisor->options->worker_path, "--settle", "--device", supervisor->options->device,
                NULL, NULL, NULL};

        if (supervisor->options->config->libcuda) {
                argv[4] = "--libcuda";
                argv[5] = supervisor->options->config->libcuda;
        }
        settle->first_ms = 0;
        settle->soon = settle->begun_ms && now_ms() - settle->begun_ms < SETTLE_SOON_MS;
        settle->begun_ms = now_ms();
        if (!ds_process_spawn(&supervisor->loop, argv, OUT_MAX, &settle_ops, settle, &settle->process))
                ds_deadline_arm(&supervisor->deadlines, &settle->deadline, SETTLE_TIME_MS, settle_deadline);
}

static void settle_deadline(struct ds_deadline *deadline)
{
        struct ds_settle *settle = DS_CONTAINER_OF(deadline, struct ds_settle, deadline);

        if (settle->process)
                ds_settle_break(settle);
        else if (settle->supervisor->state == DS_DAEMON_SERVING)
                settle_begin(settle);
        else
                settle->first_ms = 0; /* the next worker begins anew, and what it is given back stirs again */
}

void ds_settle_break(struct ds_settle *settle)
{
        if (settle->process)
                ds_process_kill(settle->process, NULL);
}

void ds_settle_stop(struct ds_settle *settle)
{
        settle->off = 1;
        ds_deadline_disarm(&settle->supervisor->deadlines, &settle->deadline);
        ds_settle_break(settle);
}

int ds_settle_gone(const struct ds_settle *settle)
{
        return !settle->process;
}
