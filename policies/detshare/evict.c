/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/evict.h"

#include "policies/detshare/best_effort.h"
#include "policies/detshare/mean.h"

/* share of the time since its last eviction that BE must run before the next one, permille */
#define FLOOR_PERMILLE 50u

/*
 * Whether the coroutine has run for its guaranteed share of the time (FLOOR_PERMILLE) since its last eviction. If
 * not, it must not be evicted yet, and a timer causes a new decision when it has. So BE never starves.
 */
static int be_has_run(struct detshare *d, const struct detshare_coroutine_view *coroutine, uint64_t runs_for)
{
        const struct evicted *last = &d->evicted[coroutine->id % ENDED];
        uint64_t due;

        if (last->coroutine != coroutine->id)
                return 1;
        due = (d->now_ns - last->ns) / 1000 * FLOOR_PERMILLE;
        if (runs_for >= due)
                return 1;
        wake_at(d, d->now_ns + (due - runs_for) / (1000 - FLOOR_PERMILLE) * 1000 + 1000);
        return 0;
}

/*
 * Whether the coroutine's kernel holds SMs that LS needs, and would hold them for longer than an eviction takes. A
 * kernel that has run for longer than expected is expected to run as long again.
 */
static int be_to_be_evicted(
        struct detshare *d, const struct detshare_snapshot *snapshot, const struct detshare_coroutine_view *coroutine)
{
        const struct detshare_rung_view *rung = &snapshot->rungs[coroutine->rung];
        uint32_t left = rung->side == DETSHARE_SIDE_UPPER ? d->n_sms - rung->n_sms : 0;
        uint64_t runs_for = be_runs_for(d, coroutine), all = coroutine->in_flight_expected_ns;
        uint64_t rest = all > runs_for ? all - runs_for : runs_for - all;

        if (left >= (d->held ? d->n_sms : d->reserve))
                return 0;
        if (all && rest <= coroutine->evict_ns)
                return 0;
        return be_has_run(d, coroutine, runs_for);
}

/*
 * Whether to evict the coroutine's kernel so that it resumes on all SMs after the LS requests: if the gain exceeds
 * twice the cost. At most once per kernel, because the kernel may return to a part of the SMs for another reason.
 */
static int be_flows_back(
        struct detshare *d, const struct detshare_snapshot *snapshot, const struct detshare_coroutine_view *coroutine)
{
        const struct detshare_rung_view *rung = &snapshot->rungs[coroutine->rung];
        const struct evicted *last = &d->evicted[coroutine->id % ENDED];
        uint64_t runs_for = be_runs_for(d, coroutine), all = coroutine->in_flight_expected_ns;
        uint64_t gain = all > runs_for ? (all - runs_for) / d->n_sms * (d->n_sms - rung->n_sms) : 0;
        uint64_t cost = coroutine->evict_ns;

        return last->coroutine == coroutine->id && !last->back && gain > 2 * cost && d->soon_ns > cost;
}

int be_leaves(const struct detshare *d, const struct detshare_coroutine_view *coroutine)
{
        const struct evicted *last = &d->evicted[coroutine->id % ENDED];

        return last->coroutine == coroutine->id && last->ns == d->now_ns;
}

void be_evict_all(struct detshare *d, const struct detshare_snapshot *snapshot, struct detshare_decision *decision)
{
        for (uint32_t i = 0; i < snapshot->n_coroutines && d->p[P_EVICT]; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];

                if (coroutine->class_ == DETSHARE_CLASS_LS || !coroutine->evictable ||
                        !(d->wet ? be_to_be_evicted : be_flows_back)(d, snapshot, coroutine))
                        continue;
                if (decision->n == decision->capacity) {
                        decision->again = 1;
                        return;
                }
                decision->actions[decision->n++] =
                        (struct detshare_action){.kind = DETSHARE_ACTION_EVICT, .coroutine = coroutine->id};
                d->evicted[coroutine->id % ENDED] = (struct evicted){coroutine->id, d->now_ns, !d->wet};
        }
}
