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
 *
 * Not all that makes kernels late is known. So requests of LS that are all alike to look at (as many kernels without a
 * pause between them) are timed: where the quickest of the last few takes longer than the quickest few did, a turn is
 * asked for, too. The quickest is hardly one that best effort was in the way of, but where all are, by a cache, say, a
 * turn does not help: so the next such one comes twice as late, a second apart at most, and what is the best of a
 * session that never is as quick any more is forgotten after a while.
 */
#include "worker/internal.h"

#define STIRS_QUIET_NS (300 * DS_NS_PER_US) /* since the last one: others may follow */
#define STIRS_IDLE_NS (100 * DS_NS_PER_US)  /* since LS had something to do: within a request less */
#define STIRS_LATE_NS (5 * DS_NS_PER_MS)    /* LS has been busy for so long since */
#define STIRS_APART_NS (20 * DS_NS_PER_MS)
#define STIRS_LS_NS (60 * DS_NS_PER_S) /* LS has gone away when there has been no sign of life of it for so long */
#define PACE_WINDOW 16u                /* requests */
#define PACE_KERNELS 32u               /* of a request: of one with fewer a late beginning of each is little */
#define PACE_OTHERS 64u                /* requests of other lengths, and the session does something else now */
#define PACE_GOOD 8u                   /* windows in a row */
#define PACE_SLOW 25u                  /* slower by more than one part in so many */
#define PACE_FORGET 1024u              /* of the difference, per window */
#define PACE_APART_NS (50 * DS_NS_PER_MS)
#define PACE_APART_MAX_NS DS_NS_PER_S

/* A window is over. 1: its requests were slow, and it is time to say so. */
static int pace_is_slow(struct dsw_pace *pace, uint64_t now_ns)
{
        const uint64_t least = pace->least_ns;

        pace->n = 0;
        pace->least_ns = 0;
        if (!pace->best_ns || least <= pace->best_ns + pace->best_ns / PACE_SLOW) {
                pace->best_ns = pace->best_ns ? DS_MIN(pace->best_ns, least) : least;
                if (++pace->good % PACE_GOOD == 0) /* where slow ones come and go this does not begin anew each time */
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

/* A request of so many kernels took so long. */
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
        n = worker->ops->stirs(worker->device, &divided) + stirs->n_slow;
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
