/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/best_effort.h"

#include "policies/detshare/mean.h"

uint64_t be_runs_for(const struct detshare *d, const struct detshare_coroutine_view *coroutine)
{
        const struct ended *ended = &d->ended[coroutine->id % ENDED];
        uint64_t begin = coroutine->in_flight_since_ns;

        if (ended->coroutine == coroutine->id)
                begin = max_u64(begin, ended->ns);
        return coroutine->in_flight && d->now_ns > begin ? d->now_ns - begin : 0;
}

struct be *be_find(struct detshare *d, const struct detshare_session_view *view)
{
        struct be *oldest = &d->be[0], *last = &d->be[d->be_last];
        int crowd;

        /* the coroutines of a session follow each other in the snapshot, so the same session is usually looked up
         * again */
        if (last->seen && last->id == view->id)
                return last;
        for (uint32_t i = 0; i < BE_MAX; i++) {
                if (d->be[i].seen && d->be[i].id == view->id) {
                        d->be_last = i;
                        return &d->be[i];
                }
                if (d->be[i].seen < oldest->seen)
                        oldest = &d->be[i];
        }
        /* with more BE sessions than places in the table, sessions replace each other all the time; that is no
         * change of BE */
        crowd = oldest->seen && oldest->seen + 1 >= d->decision;
        *oldest = (struct be){.id = view->id, .uid = view->uid, .device_ns = view->device_ns};
        if (!crowd)
                d->be_since = d->decision;
        for (uint32_t i = 0; i < LS_MAX && !crowd; i++) {
                felt_forget(&d->ls[i].felt);
                sharing_forget(&d->ls[i].sharing);
                d->ls[i].mean_beside_ns = 0;
        }
        return oldest;
}

void be_complete(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        const struct detshare_session_view *view;

        if (snapshot->event != DETSHARE_EVENT_COMPLETE || snapshot->event_session >= snapshot->n_sessions)
                return;
        view = &snapshot->sessions[snapshot->event_session];
        for (uint32_t i = 0; i < BE_MAX && view->class_ == DETSHARE_CLASS_BE; i++)
                if (d->be[i].seen && d->be[i].id == view->id)
                        sketch_add(&d->be[i].kernels, &snapshot->event_op);
}

void be_look(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        uint64_t least = UINT64_MAX, runs_for;

        d->be_flying = d->flying = 0;
        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                const struct detshare_session_view *view = &snapshot->sessions[coroutine->session];
                struct be *be;

                d->flying += coroutine->in_flight != 0;
                if (coroutine->class_ == DETSHARE_CLASS_LS)
                        continue;
                d->be_flying += coroutine->in_flight;
                be = be_find(d, view);
                if (be->seen + 1 < d->decision)
                        be->virtual_ns = max_u64(be->virtual_ns, d->fair_ns);
                be->virtual_ns += view->device_ns - be->device_ns;
                be->device_ns = view->device_ns;
                be->seen = d->decision;
                runs_for = be_runs_for(d, coroutine);
                if (be->waits && be->waits + 1 == d->decision) {
                        be->virtual_ns = max_u64(be->virtual_ns, d->fair_ns);
                        continue;
                }
                if (!coroutine->ready || be->virtual_ns + runs_for >= least)
                        continue;
                least = be->virtual_ns + runs_for;
                d->fair_runs = coroutine->in_flight != 0;
        }
        if (least != UINT64_MAX)
                d->fair_ns = least;
}
