/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/settle.h"

#include <string.h>
#include <uv.h>

#include "supervisor/supervisor.h"
#include "util/macro.h"

#define SETTLE_APART_MS 1000u      /* after a failure */
#define SETTLE_APART_MAX_MS 60000u /* after many */
#define SETTLE_TURN_MS 10000u      /* a driver that takes so long for one is not helped by another one */
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
        settle->next_ms = now_ms() + settle->apart_ms;
        settle->apart_ms = DS_MIN(2 * settle->apart_ms, (uint64_t)SETTLE_APART_MAX_MS);
        if (settle->told)
                return;
        settle->told = 1;
        ds_log(DS_LOG_INFO,
                "there is no context beside the worker's: who was to make one %s; kernels may begin a little later "
                "than they could",
                how);
}

static void settle_ended(void *user, const char *how, int killed)
{
        struct ds_settle *settle = user;

        (void)killed;
        settle->process = ds_process_free(settle->process);
        if (!strcmp(how, "exited with status 0")) {
                settle->apart_ms = SETTLE_APART_MS;
                ds_log(DS_LOG_DEBUG, "the context beside the worker's was not needed for a while, and is gone");
        } else if (!settle->broken) {
                settle_failed(settle, how);
        }
        if (settle->off)
                ds_supervisor_check_stop(settle->supervisor);
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
        settle->turn_ms = now_ms();
        if (ds_process_spawn(&supervisor->loop, argv, OUT_MAX, &settle_ops, settle, &settle->process))
                settle_failed(settle, "could not be started");
        else
                ds_log(DS_LOG_DEBUG, "a context beside the worker's is being made");
}

/* That it is made is a turn, too. */
void ds_settle_turn(struct ds_settle *settle)
{
        static const uint8_t turn = 0;

        if (settle->off)
                return;
        if (!settle->process) {
                if (settle->supervisor->state == DS_DAEMON_SERVING && now_ms() >= settle->next_ms)
                        settle_begin(settle);
        } else if (!ds_process_is_unread(settle->process)) {
                settle->turn_ms = now_ms();
                ds_process_send(settle->process, &turn, sizeof(turn), NULL, 0);
        } else if (now_ms() - settle->turn_ms > SETTLE_TURN_MS) {
                ds_process_kill(settle->process, NULL); /* which is a failure */
        }
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
