/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the GPU is to turn to another context for a moment
 *
 * Kernels begin later after code, graphs or memory have come into the context and after kernels have run on a part of
 * the SMs, until the GPU has worked for another context (supervisor/settle.h, which lets it). Only who measures its
 * latency cares, so it is asked for while there are LS sessions: when what made kernels late is over, and when LS has
 * nothing to do, since whoever is served meanwhile loses a quarter of a millisecond. LS that always has something to do
 * is not waited for for long: what it loses at each request soon is more. Where LS comes back after it was away, what
 * has come meanwhile counts from then: else its first request would have the turn in its midst.
 *
 * Turns are STIRS_APART_NS apart: where kernels run on parts of the SMs all the time, they come late again at once, and
 * the GPU has something better to do.
 */
#include "worker/internal.h"

#define STIRS_QUIET_NS (300 * DS_NS_PER_US) /* since the last one: others may follow */
#define STIRS_IDLE_NS (100 * DS_NS_PER_US)  /* since LS had something to do: within a request less */
#define STIRS_LATE_NS (5 * DS_NS_PER_MS)    /* LS has been busy for so long since */
#define STIRS_APART_NS (20 * DS_NS_PER_MS)
#define STIRS_LS_NS (60 * DS_NS_PER_S) /* LS has gone away when there has been no sign of life of it for so long */

/* By real time: what the device's clock did while LS was away is its own affair. */
static void stirs_look_for_ls(ds_worker *worker)
{
        struct dsw_stirs *stirs = &worker->stirs;

        if (!stirs->alive_wall_ns || worker->ls_active_wall_ns - stirs->alive_wall_ns >= STIRS_LS_NS)
                stirs->back_ns = worker->now_ns;
        stirs->alive_wall_ns = worker->ls_active_wall_ns;
}

/* Something came since the last turn, and nothing that would undo it goes on. */
static int stirs_wanted(ds_worker *worker)
{
        struct dsw_stirs *stirs = &worker->stirs;
        uint32_t divided = 0;
        uint64_t n;

        if (!worker->ops->stirs)
                return 0;
        stirs_look_for_ls(worker);
        n = worker->ops->stirs(worker->device, &divided);
        if (n != stirs->seen)
                stirs->seen_ns = worker->now_ns;
        stirs->seen = n;
        return n != stirs->told && !divided && worker->ls_active_wall_ns &&
               worker->wall_ns() - worker->ls_active_wall_ns < STIRS_LS_NS;
}

/* On the device's clock. */
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
