/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/internal.h"

/* time without a further cause before a switch is requested: other causes may follow the last one */
#define STIRS_QUIET_NS (300 * DS_NS_PER_US)
/* time without LS work before a switch; the gaps inside one LS request are shorter */
#define STIRS_IDLE_NS (100 * DS_NS_PER_US)
#define STIRS_LATE_NS (5 * DS_NS_PER_MS) /* longest wait for LS to become idle */
#define STIRS_APART_NS (20 * DS_NS_PER_MS)
#define STIRS_LS_NS (60 * DS_NS_PER_S) /* LS counts as absent after this time without activity */
#define PACE_WINDOW 16u                /* requests that one window compares */
/* Minimum kernels of a request that is timed: shorter requests lose little by kernels that begin late. */
#define PACE_KERNELS 32u
#define PACE_OTHERS 64u   /* number of requests with other kernel counts after which the best duration is discarded */
#define PACE_GOOD 8u      /* good windows in a row after which the interval between reports halves */
#define PACE_SLOW 25u     /* a window is slow if its shortest request exceeds the best duration by more than 1/25 */
#define PACE_FORGET 1024u /* per slow window, the best duration grows by 1/1024 of the difference to that window */
#define PACE_APART_NS (50 * DS_NS_PER_MS)
#define PACE_APART_MAX_NS DS_NS_PER_S

/* Evaluates a complete window. Returns 1 if its requests were slow and a report is due. */
static int pace_is_slow(struct dsw_pace *pace, uint64_t now_ns)
{
        const uint64_t least = pace->least_ns;

        pace->n = 0;
        pace->least_ns = 0;
        if (!pace->best_ns || least <= pace->best_ns + pace->best_ns / PACE_SLOW) {
                pace->best_ns = pace->best_ns ? DS_MIN(pace->best_ns, least) : least;
                /* intermittent slowness does not reset the interval between reports at each good window */
                if (++pace->good % PACE_GOOD == 0)
                        pace->apart_ns = DS_MAX(pace->apart_ns / 2, PACE_APART_NS);
                return 0;
        }
        pace->good = 0;
        pace->best_ns += DS_MAX((least - pace->best_ns) / PACE_FORGET, (uint64_t)1);
        if (now_ns < pace->late_ns)
                return 0;
        pace->late_ns = now_ns + pace->apart_ns;
        pace->apart_ns = DS_MIN(2 * pace->apart_ns, PACE_APART_MAX_NS);
        return 1;
}

/* Records the duration of a request with this many kernels. Returns 1 if a report of slowness is due. */
static int pace_learn(struct dsw_pace *pace, uint32_t kernels, uint64_t ns, uint64_t now_ns)
{
        if (pace->kernels && kernels != pace->kernels && ++pace->others < PACE_OTHERS)
                return 0;
        if (kernels != pace->kernels)
                *pace = (struct dsw_pace){.kernels = kernels, .apart_ns = PACE_APART_NS};
        pace->others = 0;
        pace->least_ns = pace->n ? DS_MIN(pace->least_ns, ns) : ns;
        return ++pace->n == PACE_WINDOW && pace_is_slow(pace, now_ns);
}

void dsw_stirs_ended(struct dsw_session *session, uint32_t kernels, uint64_t start_ns, uint64_t end_ns, int last)
{
        struct dsw_pace *pace = &session->pace;
        ds_worker *worker = session->worker;

        if (!worker->ops->stirs)
                return;
        if (!pace->running && kernels)
                pace->begin_ns = start_ns;
        pace->running += kernels;
        if (!last)
                return;
        kernels = pace->running;
        pace->running = 0;
        if (kernels >= PACE_KERNELS && end_ns > pace->begin_ns)
                worker->stirs.n_slow += (uint64_t)pace_learn(pace, kernels, end_ns - pace->begin_ns, worker->now_ns);
}

/* Detects that LS returned after an absence, which it measures in real time: virtual time may pass arbitrarily while
 * LS is absent. */
static void stirs_look_for_ls(ds_worker *worker)
{
        struct dsw_stirs *stirs = &worker->stirs;

        if (!stirs->alive_wall_ns || worker->ls_active_wall_ns - stirs->alive_wall_ns >= STIRS_LS_NS)
                stirs->back_ns = worker->now_ns;
        stirs->alive_wall_ns = worker->ls_active_wall_ns;
}

/* Whether a reason for a switch has come since the last one, and nothing that would cancel the effect of a switch is
 * running. */
static int stirs_wanted(ds_worker *worker)
{
        struct dsw_stirs *stirs = &worker->stirs;
        uint32_t divided = 0;
        uint64_t n;

        if (!worker->ops->stirs)
                return 0;
        stirs_look_for_ls(worker);
        n = worker->ops->stirs(worker->device, &divided) + stirs->n_slow;
        if (n != stirs->seen)
                stirs->seen_ns = worker->now_ns;
        stirs->seen = n;
        return n != stirs->told && !divided && worker->ls_active_wall_ns &&
               worker->wall_ns() - worker->ls_active_wall_ns < STIRS_LS_NS;
}

/* Device time at which the next switch is due. */
static uint64_t stirs_due_ns(const ds_worker *worker)
{
        const struct dsw_stirs *stirs = &worker->stirs;
        uint64_t due = stirs->seen_ns + STIRS_QUIET_NS;
        uint32_t in_flight, all;

        ds_sched_load(worker->sched, DETSHARE_CLASS_LS, &in_flight, &all);
        if (all)
                due = DS_MAX(stirs->seen_ns, stirs->back_ns) + STIRS_LATE_NS;
        else
                due = DS_MAX(due, DS_MAX(worker->ls_active_ns, worker->ls_end_ns) + STIRS_IDLE_NS);
        return stirs->told_ns ? DS_MAX(due, stirs->told_ns + STIRS_APART_NS) : due;
}

void dsw_stirs_step(ds_worker *worker)
{
        Detshare__Internal__FromWorker message = DETSHARE__INTERNAL__FROM_WORKER__INIT;
        Detshare__Internal__Stirred stirred = DETSHARE__INTERNAL__STIRRED__INIT;

        if (!stirs_wanted(worker) || stirs_due_ns(worker) > worker->now_ns)
                return;
        worker->stirs.told = worker->stirs.seen;
        worker->stirs.told_ns = worker->now_ns;
        message.body_case = DETSHARE__INTERNAL__FROM_WORKER__BODY_STIRRED;
        message.stirred = &stirred;
        dsw_message_send(worker, &message, NULL, 0);
}

uint64_t dsw_stirs_wait_ns(ds_worker *worker)
{
        uint64_t due;

        if (!stirs_wanted(worker))
                return UINT64_MAX;
        due = stirs_due_ns(worker);
        return due > worker->now_ns ? due - worker->now_ns : 0;
}
