/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/tide.h"

#include "policies/detshare/mean.h"
#include "policies/detshare/requests.h"

#define ALONE_NS 1000000000ull /* time without LS work after which BE counts as alone, ns */
#define WINDOW 8u              /* operations at the head of an LS queue that decide the SMs reserved for it */
#define LS_LOOK 256u /* operations of all LS queues that one decision looks at for their SM needs, to bound its time */
#define TRIAL_TIMES 2u /* a trial of more BE ends once the request has taken this multiple of its usual time */

/* Updates for each LS session whether its queues have work, and how many SMs the first operations of its queues
 * need. */
static void ls_window(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        uint32_t left = LS_LOOK;

        for (uint32_t i = 0; i < snapshot->n_coroutines; i++) {
                const struct detshare_coroutine_view *coroutine = &snapshot->coroutines[i];
                struct ls *ls;

                if (coroutine->class_ != DETSHARE_CLASS_LS)
                        continue;
                ls = ls_find(d, snapshot->sessions[coroutine->session].id, 0);
                if (ls && (coroutine->in_flight || coroutine->ready))
                        ls->works_ns = d->now_ns;
                for (uint32_t k = 0; ls && k < coroutine->n_ahead && k < WINDOW && left; k++, left--) {
                        const struct detshare_op_view *op = &coroutine->ahead[k];
                        uint32_t need = 0;

                        if (op->kind == DETSHARE_OP_KERNEL && op->blocks > ls->need)
                                need = ls_need(d, op);
                        if (need > ls->need)
                                ls->need = need;
                }
        }
}

static void tide_session(struct detshare *d, const struct ls *ls)
{
        uint64_t slack = ls_slack(d, ls), gap = ls->mean_gap, delays = ls->mean_delays ? ls->mean_delays : 1;
        uint32_t need = needs_quantile(d, ls);
        const int expected = ls_is_expected(d, ls);

        if (ls->open) {
                d->wet = 1;
                d->harmless_ns = min_u64(d->harmless_ns, ls->length_ns ? gap + slack / delays : 0);
                d->reserve = (uint32_t)max_u64(d->reserve, max_u64(need, ls->need));
        }
        if (ls->open ? ls_buys(ls) : ls->bought && expected && ls_may_share(ls))
                d->way = (uint32_t)max_u64(d->way, ls->sharing.now);
        if (ls->open || expected) {
                const uint64_t mask = ls_mask_ns(d, ls);

                d->ls_recent++;
                if (mask && (!d->mask_ns || mask < d->mask_ns))
                        d->mask_ns = mask;
        }
        if (expected) {
                d->soon_slack_ns = min_u64(d->soon_slack_ns, slack);
                d->soon_sms = (uint32_t)max_u64(d->soon_sms, need);
                d->soon_harmless_ns = min_u64(d->soon_harmless_ns, gap + slack / delays);
                if (ls->idle_between_ns)
                        d->soon_ns = min_u64(d->soon_ns, ls->idle_between_ns);
                if (ls->mean_idle_ns)
                        d->busy_permille = (uint32_t)max_u64(
                                d->busy_permille, max_u64(ls->mean_length_ns, ls->mean_beside_ns) * 1000 /
                                                          (ls->mean_length_ns + ls->mean_idle_ns));
        }
}

void tide_look(struct detshare *d, const struct detshare_snapshot *snapshot)
{
        uint32_t most = d->n_sms * number(d, P_RESERVE) / 100;

        for (uint32_t i = 0; i < snapshot->n_sessions; i++) {
                const struct detshare_session_view *view = &snapshot->sessions[i];

                if (view->class_ != DETSHARE_CLASS_LS)
                        continue;
                d->ls_seen_ns = d->now_ns + 1;
                ls_look(d, ls_find(d, view->id, 1), view);
        }
        for (uint32_t i = 0; i < LS_MAX; i++)
                if (d->ls[i].seen && d->ls[i].seen != d->decision)
                        ls_look(d, &d->ls[i], NULL);
        d->alone = !d->ls_seen_ns || d->now_ns - d->ls_seen_ns + 1 > ALONE_NS;
        d->wet = 0;
        d->harmless_ns = d->soon_slack_ns = d->soon_ns = d->soon_harmless_ns = UINT64_MAX;
        d->reserve = d->soon_sms = d->way = 0;
        d->mask_ns = 0;
        d->ls_recent = d->busy_permille = 0;
        ls_window(d, snapshot);
        for (uint32_t i = 0; i < LS_MAX; i++)
                if (d->ls[i].seen)
                        tide_session(d, &d->ls[i]);
        if (d->ls_recent > 1)
                d->way = 0;
        d->reserve = (uint32_t)min_u64(d->reserve, most);
        d->soon_sms = (uint32_t)min_u64(d->soon_sms, most);
}

/*
 * Whether the trial of a more generous regime on this request has lasted so long that the result is known. The trial
 * must end then: each of the request's hundreds of kernels may wait for a BE block, and the next request waits for all of
 * them. It ends earlier if the request needs the rest of its objective, unless the session nearly never pauses, nothing
 * waits behind the request, and the budget can pay for a miss.
 */
static int ls_trial_is_over(struct detshare *d, const struct ls *ls)
{
        const uint64_t objective = ls_until(ls);
        uint64_t until = ls->piece_ns + TRIAL_TIMES * max_u64(ls->length_ns, ls->mean_length_ns);

        if (!ls->bought && (ls->regime >= ls->felt.now || !ls->length_ns))
                return 0;
        if (ls->bought || (objective && objective < until && !(ls->never_pauses && budget_risks(&ls->budget))))
                until = objective;
        if (d->now_ns < until)
                wake_at(d, until);
        return d->now_ns >= until;
}

/*
 * The regime that this session requires now; FELT_EBB (no restriction) if no request runs or the request waits for its
 * own host. A regime that is stricter only for a measurement lasts at most `starve_ms`, because the request's end may
 * be far off. When a trial of a more generous regime has ended, the regime in force returns.
 */
static uint32_t ls_regime(struct detshare *d, const struct ls *ls)
{
        if (!ls->open || (ls->busy && ls_stalls(d, ls)))
                return FELT_EBB;
        if (ls->cut)
                return ls->felt.now;
        if (d->now_ns - ls->piece_ns < (uint64_t)d->p[P_STARVE] * MS)
                return ls->regime;
        return (uint32_t)min_u64(ls->regime, ls->felt.now);
}

void tide_regime(struct detshare *d)
{
        int trial = 0;

        for (uint32_t i = 0; i < LS_MAX; i++) {
                struct ls *ls = &d->ls[i];

                ls->cut |= ls->open && ls_trial_is_over(d, ls);
                if (ls->cut && !ls->cut_ns)
                        ls->cut_ns = d->now_ns;
                trial |= ls->open && !ls->cut && !ls->bought && ls->regime == FELT_EBB && ls->felt.now == FELT_HELD;
        }
        d->held = 0;
        for (uint32_t i = 0; i < LS_MAX; i++)
                if (!trial || !felt_is_ignorant(&d->ls[i].felt))
                        d->held |= ls_regime(d, &d->ls[i]) == FELT_HELD;
}

void tide_note(struct detshare *d)
{
        for (uint32_t i = 0; i < LS_MAX; i++) {
                struct ls *ls = &d->ls[i];

                if (!ls->open)
                        continue;
                ls->other_way |= ls_buys(ls) && d->way != ls->sharing.now;
                ls->mixed |= ((ls->cut ? ls->felt.now : ls->regime) == FELT_HELD) != d->held;
                ls->beside |= d->be_flying != 0;
                ls->accompanied |= d->be_flying != 0;
                if (d->be_flying && ls->free_ns)
                        ls->free_ns = CAME_BACK;
                else if (!d->be_flying && !ls->free_ns) {
                        ls->free_ns = d->now_ns;
                        ls->free_work_ns = d->be_work_ns;
                }
        }
}
