/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/settle.h"

#include <string.h>
#include <uv.h>

#include "supervisor/supervisor.h"
#include "util/macro.h"

#define OUT_MAX (2 * DS_PROCESS_FRAME_MAX) /* nothing is said to it */

static void settle_deadline(struct ds_deadline *deadline);

/* --- when --------------------------------------------------------------------------------------------------------- */

static uint64_t pace_apart(const struct ds_settle_pace *pace)
{
        return pace->apart_ms ? pace->apart_ms : SETTLE_APART_MS;
}

void ds_settle_pace_stirred(struct ds_settle_pace *pace, uint64_t now_ms)
{
        if (!pace->first_ms)
                pace->first_ms = now_ms;
}

uint64_t ds_settle_pace_in(const struct ds_settle_pace *pace, uint64_t now_ms)
{
        const uint64_t latest = pace->first_ms + SETTLE_LATEST_MS;
        uint64_t in = latest > now_ms ? DS_MIN((uint64_t)SETTLE_QUIET_MS, latest - now_ms) : 0;

        if (pace->begun_ms && now_ms - pace->begun_ms < pace_apart(pace))
                in = DS_MAX(in, pace_apart(pace) - (now_ms - pace->begun_ms));
        return in;
}

void ds_settle_pace_begun(struct ds_settle_pace *pace, uint64_t now_ms)
{
        pace->first_ms = 0;
        pace->soon = pace->begun_ms && now_ms - pace->begun_ms < SETTLE_CALM_MS;
        pace->begun_ms = now_ms;
}

void ds_settle_pace_made(struct ds_settle_pace *pace)
{
        pace->apart_ms = pace->soon ? DS_MIN(2 * pace_apart(pace), (uint64_t)SETTLE_APART_LONG_MS) : SETTLE_APART_MS;
}

void ds_settle_pace_failed(struct ds_settle_pace *pace, uint64_t now_ms)
{
        if (pace_apart(pace) < SETTLE_APART_MAX_MS)
                ds_settle_pace_stirred(pace, now_ms);
        pace->apart_ms = DS_MIN(2 * pace_apart(pace), (uint64_t)SETTLE_APART_MAX_MS);
}

static uint64_t now_ms(void)
{
        return uv_hrtime() / DS_NS_PER_MS;
}

void ds_settle_init(struct ds_settle *settle, struct ds_supervisor *supervisor)
{
        const struct ds_options *options = supervisor->options;

        *settle = (struct ds_settle){.supervisor = supervisor};
        settle->off = options->config->settle_never || strncmp(options->device, "cuda:", strlen("cuda:"));
}

void ds_settle_stirred(struct ds_settle *settle)
{
        uint64_t now;

        if (settle->off)
                return;
        now = now_ms();
        ds_settle_pace_stirred(&settle->pace, now);
        /* while one runs the deadline is its own; what came meanwhile is seen at its end */
        if (!settle->process)
                ds_deadline_arm(&settle->supervisor->deadlines, &settle->deadline,
                        ds_settle_pace_in(&settle->pace, now), settle_deadline);
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
        ds_settle_pace_failed(&settle->pace, now_ms());
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
                ds_settle_pace_made(&settle->pace);
                ds_log(DS_LOG_DEBUG, "a context beside the worker's was there for %u ms",
                        (unsigned)(now_ms() - settle->pace.begun_ms));
        } else if (!settle->broken) {
                settle_failed(settle, how);
        }
        if (settle->off)
                ds_supervisor_check_stop(settle->supervisor);
        else if (settle->pace.first_ms)
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
        settle->broken = 0;
        ds_settle_pace_begun(&settle->pace, now_ms());
        if (!ds_process_spawn(&supervisor->loop, argv, OUT_MAX, &settle_ops, settle, &settle->process)) {
                ds_deadline_arm(&supervisor->deadlines, &settle->deadline, SETTLE_TIME_MS, settle_deadline);
                return;
        }
        settle_failed(settle, "could not be started");
        if (settle->pace.first_ms)
                ds_settle_stirred(settle);
}

static void settle_deadline(struct ds_deadline *deadline)
{
        struct ds_settle *settle = DS_CONTAINER_OF(deadline, struct ds_settle, deadline);

        if (settle->process) /* it has failed */
                ds_process_kill(settle->process, NULL);
        else if (settle->supervisor->state == DS_DAEMON_SERVING)
                settle_begin(settle);
        else
                settle->pace.first_ms = 0; /* the next worker begins anew, and what it is given back stirs again */
}

void ds_settle_break(struct ds_settle *settle)
{
        settle->broken = 1;
        if (settle->process)
                ds_process_kill(settle->process, NULL);
}

void ds_settle_stop(struct ds_settle *settle)
{
        settle->off = 1;
        ds_deadline_disarm(&settle->supervisor->deadlines, &settle->deadline);
        ds_settle_break(settle);
}

void ds_settle_leave(struct ds_settle *settle)
{
        settle->process = ds_process_leave(settle->process);
}

int ds_settle_gone(const struct ds_settle *settle)
{
        return !settle->process;
}
