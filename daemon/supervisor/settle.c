/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/settle.h"

#include <string.h>
#include <uv.h>

#include "supervisor/supervisor.h"
#include "util/macro.h"

#define SETTLE_APART_MS 1000u      /* pause after a failed process before the next one starts, ms */
#define SETTLE_APART_MAX_MS 60000u /* longest such pause, after repeated failures, ms */
/* Longest time for one context switch. A driver that takes longer would not do better with another process. It is
 * shorter than the time after which an idle process exits. */
#define SETTLE_TURN_MS 10000u
#define OUT_MAX (2 * DS_PROCESS_FRAME_MAX)

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

/* Callback for a message of the process. It never sends one, so any message is an error. */
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

static void settle_deadline(struct ds_deadline *deadline);

static void settle_arm(struct ds_settle *settle, uint64_t ms)
{
        ds_deadline_arm(&settle->supervisor->deadlines, &settle->deadline, ms, settle_deadline);
}

/* Schedules the next start of a process, which then makes the pending context switch. */
static void settle_wait(struct ds_settle *settle)
{
        const uint64_t now = now_ms();

        settle_arm(settle, settle->next_ms > now ? settle->next_ms - now : 0);
}

/* Handles a failure; how: the reason. Only the first failure is logged. */
static void settle_failed(struct ds_settle *settle, const char *how)
{
        settle->apart_ms = DS_MIN(2 * settle->apart_ms, (uint64_t)SETTLE_APART_MAX_MS);
        if (settle->told)
                return;
        settle->told = 1;
        ds_log(DS_LOG_INFO,
                "there is no second context: its process %s; kernels may start a little later "
                "than they could",
                how);
}

/* Handles the end of the process. Exit status 0 means that it was idle for long. If a context switch is still
 * pending then, it was requested while the process was exiting. */
static void settle_ended(void *user, const char *how, int killed)
{
        struct ds_settle *settle = user;
        int idle = !strcmp(how, "exited with status 0");

        (void)killed;
        settle->process = ds_process_free(settle->process);
        if (settle->off) {
                ds_supervisor_check_stop(settle->supervisor);
                return;
        }
        if (idle) {
                settle->apart_ms = SETTLE_APART_MS;
                ds_log(DS_LOG_DEBUG, "the second context was idle and has ended");
        }
        if (!settle->broken)
                settle->next_ms = now_ms() + settle->apart_ms;
        if (!settle->broken && !idle)
                settle_failed(settle, how);
        if (settle->owed)
                settle_wait(settle);
}

static const struct ds_process_ops settle_ops = {settle_frame, settle_lost, settle_ended};

static void settle_send(struct ds_settle *settle)
{
        static const uint8_t turn = 0;

        if (ds_process_send(settle->process, &turn, sizeof(turn), NULL, 0))
                /* if the message cannot be sent, the process is ending, and settle_ended() handles that */
                ds_deadline_disarm(&settle->supervisor->deadlines, &settle->deadline);
        else
                settle_arm(settle, SETTLE_TURN_MS);
}

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
        if (ds_process_spawn(&supervisor->loop, argv, OUT_MAX, &settle_ops, settle, &settle->process)) {
                settle->next_ms = now_ms() + settle->apart_ms;
                settle_failed(settle, "could not be started");
                settle_wait(settle);
                return;
        }
        ds_log(DS_LOG_DEBUG, "a second context is being created");
        settle_send(settle);
}

/* Callback of the deadline: starts a process, or checks whether the last context switch was made in time. */
static void settle_deadline(struct ds_deadline *deadline)
{
        struct ds_settle *settle = DS_CONTAINER_OF(deadline, struct ds_settle, deadline);

        if (!settle->process)
                settle_begin(settle);
        else if (ds_process_is_unread(settle->process))
                /* the process has not made the switch in time: its end counts as a failure */
                ds_process_kill(settle->process, NULL);
        else
                settle->owed = 0;
}

void ds_settle_turn(struct ds_settle *settle)
{
        if (settle->off)
                return;
        settle->owed = 1;
        if (!settle->process)
                settle_wait(settle);
        /* a message that the process has not read yet serves this request, too */
        else if (!ds_process_is_unread(settle->process))
                settle_send(settle);
}

void ds_settle_break(struct ds_settle *settle)
{
        settle->broken = 1;
        settle->owed = 0; /* a pending request is dropped, because the next worker sends its own requests */
        ds_deadline_disarm(&settle->supervisor->deadlines, &settle->deadline);
        if (settle->process)
                ds_process_kill(settle->process, NULL);
}

void ds_settle_stop(struct ds_settle *settle)
{
        settle->off = 1;
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
