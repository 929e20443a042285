/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/prices.h"

#include "policies/detshare/mean.h"
#include "policies/detshare/requests.h"

#define MEET_IN_TIME 500u /* the parameter meet_permille for sessions whose requests meet an objective with much room */
#define SHORT_NS (5 * US) /* blocks that last at most this long count as ended at once: as long as a launch takes, ns */

uint64_t be_rest(const struct detshare *d, const struct detshare_op_view *op)
{
        uint64_t block = stair_block(op, d->n_sms);

        if (!stair_fills(op, d->n_sms))
                return 0;
        if (!stair_known(op))
                return UINT64_MAX;
        return block <= SHORT_NS ? 0 : block / 2;
}

int be_may_divide(const struct detshare *d, const struct detshare_op_view *op)
{
        return !d->mask_ns || !stair_known(op) || stair_time(op, d->n_sms, d->n_sms) / 2 > d->mask_ns;
}

int be_may_borrow(const struct detshare *d, uint64_t ns)
{
        for (uint32_t i = 0; i < LS_MAX; i++) {
                const struct ls *ls = &d->ls[i];
                uint64_t rest, since = d->now_ns - ls->begin_ns;

                if (!ls->open)
                        continue;
                rest = ls->length_ns > since ? ls->length_ns - since : 0;
                if (ls_buys(ls) ? d->now_ns + rest + ns > ls->deadline_ns : ns > ls_slack(d, ls))
                        return 0;
        }
        return 1;
}

int be_may_evict(const struct detshare *d, const struct detshare_op_view *op)
{
        return d->p[P_EVICT] && op->evict_ns;
}

uint32_t be_blocks(const struct detshare *d, const struct detshare_op_view *op, uint32_t n_sms)
{
        uint32_t best = BLOCKS_MAX;

        if (op->bound == DETSHARE_BOUND_UNKNOWN || op->bound > DETSHARE_BOUND_MEMORY || op->all_resident)
                return 0;
        for (uint32_t i = 0; i < d->n_bounds; i++)
                if (d->bounds[i].n_sms >= n_sms && (best == BLOCKS_MAX || d->bounds[i].n_sms < d->bounds[best].n_sms))
                        best = i;
        return best == BLOCKS_MAX ? 0 : d->bounds[best].blocks[op->bound];
}

/* Share of the session's pauses that may end during a BE kernel, permille. */
static uint32_t be_may_meet(const struct detshare *d, const struct ls *ls)
{
        if (ls_is_spent(ls))
                return 1000 - number(d, P_ATTAIN);
        if (ls->slo_ns > 2 * ls->length_ns && !ls->budget.debt)
                return (uint32_t)max_u64(MEET_IN_TIME, number(d, P_MEET));
        return number(d, P_MEET);
}

int be_meets(struct detshare *d, uint64_t ns)
{
        int meets = 0;

        for (uint32_t i = 0; i < LS_MAX; i++) {
                const struct ls *ls = &d->ls[i];
                const uint64_t since = d->now_ns - ls->empty_ns;
                const uint32_t may = be_may_meet(d, ls);

                if (!ls->seen || ls->open || !ls_is_expected(d, ls) || (ls_bears(d, ls) && !ls_is_spent(ls)) ||
                        gaps_over_permille(&ls->between, since, ns) <= may)
                        continue;
                wake_at(d, ls->empty_ns + gaps_edge(since));
                meets = 1;
        }
        return meets;
}
