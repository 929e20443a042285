/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/place.h"

#include "policies/detshare/explore.h"
#include "policies/detshare/mean.h"
#include "policies/detshare/prices.h"
#include "policies/detshare/requests.h"

/* pause below which the next request was already queued when the previous one ended, ns */
#define QUEUED_NS (50 * US)
#define LAUNCH_NS (5 * US) /* time from the decision until a kernel begins, ns */
/* times of a BE kernel this close count as one step of its stair, permille: they vary by as much from run to run */
#define BE_TOLERANCE 50u
/* busiest LS session beside which BE kernels that outlast its pauses run on a part of the SMs, permille of its time: a
 * busier one would never get through its queue */
#define BUSY_PERMILLE 800u

/* Index of the upper rung for a BE kernel beside LS: the coroutine's present rung if that is as good as the best
 * one. upper.n if no rung is small enough. */
static uint32_t be_masked(const struct detshare *d, const struct detshare_coroutine_view *coroutine,
        const struct detshare_op_view *op, uint32_t reserve)
{
        uint32_t may = d->n_sms - reserve;
        uint32_t at = stair_choose(&d->upper, op, may, d->n_sms, BE_TOLERANCE);

        if (at == d->upper.n)
                return d->upper.n ? 0 : at;
        for (uint32_t i = at; i < d->upper.n && d->upper.n_sms[i] <= may; i++)
                if (d->upper.rung[i] == coroutine->rung)
                        return i;
        return at;
}

/* Time until which the operation at the head of the coroutine's queue may wait for LS, ns. */
static uint64_t be_until(const struct detshare *d, const struct detshare_coroutine_view *coroutine)
{
        return coroutine->head_since_ns + (uint64_t)d->p[P_STARVE] * MS;
}

/* Whether a BE kernel belongs on the part of the SMs that BE has beside LS sessions that nearly never pause. Writes the
 * place then. */
static int be_shares(const struct detshare *d, const struct detshare_op_view *op, struct place *place)
{
        if (!d->way || op->all_resident)
                return 0;
        place->rung = d->way_rung[d->way];
        place->blocks = be_blocks(d, op, d->way_sms[d->way]);
        return 1;
}

/* Finds the place of a BE kernel while LS requests run. Returns 1 and the place; 0 if the kernel must wait. */
static int be_beside(struct detshare *d, const struct detshare_coroutine_view *coroutine,
        const struct detshare_op_view *op, uint64_t queue_ns, struct place *place)
{
        uint64_t until = be_until(d, coroutine);
        uint32_t at = be_masked(d, coroutine, op, d->reserve), n_sms = at < d->upper.n ? d->upper.n_sms[at] : d->n_sms;

        *place = (struct place){0};
        if (d->held && stair_known(op) && ls_all_gapped(d, queue_ns + stair_time(op, d->n_sms, d->n_sms) + LAUNCH_NS))
                return 1;
        if (d->held && d->now_ns < until) {
                wake_at(d, until);
                return 0;
        }
        if (op->all_resident && (uint64_t)op->blocks > (uint64_t)op->blocks_per_sm * n_sms) {
                if (d->now_ns >= until || be_may_borrow(d, stair_time(op, d->n_sms, d->n_sms)))
                        return 1;
                wake_at(d, until);
                return 0;
        }
        if (be_shares(d, op, place))
                return 1;
        if (be_rest(d, op) <= d->harmless_ns || !be_may_divide(d, op))
                n_sms = d->n_sms;
        else if (at < d->upper.n)
                place->rung = d->upper.rung[at];
        place->blocks = be_blocks(d, op, n_sms);
        return 1;
}

/*
 * Whether a kernel is launched in an evictable form. An evictable kernel may hold its SMs until it is evicted, so this
 * returns 0 where priority alone lets LS in soon enough.
 */
static uint32_t be_lets_go(const struct detshare *d, const struct detshare_op_view *op, const struct place *place)
{
        if (!be_may_evict(d, op))
                return 0;
        if (d->wet)
                return place->rung || be_rest(d, op) > d->harmless_ns;
        return be_rest(d, op) > d->soon_harmless_ns;
}

/*
 * Finds the place of a BE kernel while no request runs, behind queue_ns of work. Returns 1 and the place; 0 if the
 * kernel must wait. A kernel longer than the pauses gets the place that it would have beside a request.
 */
static int be_between(struct detshare *d, const struct detshare_coroutine_view *coroutine,
        const struct detshare_op_view *op, uint64_t queue_ns, struct place *place)
{
        const uint64_t until = be_until(d, coroutine);
        uint64_t ns = AHEAD_LEAST_NS;
        uint32_t at = d->upper.n;
        int meets, divides;

        if (be_shares(d, op, place))
                return 1;
        if (d->soon_slack_ns == UINT64_MAX || be_rest(d, op) <= d->soon_harmless_ns || be_may_evict(d, op))
                return 1;
        if (stair_known(op)) {
                ns = stair_time(op, d->n_sms, d->n_sms);
                at = be_masked(d, coroutine, op, d->soon_sms);
        }
        divides = at < d->upper.n && be_may_divide(d, op);
        /* a kernel that ends within the slack after the next request's begin does not count as met by it */
        meets = queue_ns + ns > d->soon_slack_ns && be_meets(d, queue_ns + ns - d->soon_slack_ns);
        if (meets && d->now_ns < until && (!divides || d->busy_permille > BUSY_PERMILLE || be_meets(d, QUEUED_NS))) {
                wake_at(d, until);
                return 0;
        }
        if (divides && (meets || ns > d->soon_ns))
                place->rung = d->upper.rung[at];
        return 1;
}

int be_place(struct detshare *d, const struct detshare_coroutine_view *coroutine, const struct detshare_op_view *op,
        uint64_t queue_ns, struct place *place)
{
        place->evictable = 0;
        if (op->kind != DETSHARE_OP_KERNEL) {
                if (coroutine->in_flight)
                        place->rung = coroutine->rung;
                return 1;
        }
        if (d->wet) {
                if (!be_beside(d, coroutine, op, queue_ns, place))
                        return 0;
                place->evictable = be_lets_go(d, op, place);
                return 1;
        }
        *place = (struct place){0};
        if (op->all_resident)
                return 1;
        if (!be_between(d, coroutine, op, queue_ns, place))
                return 0;
        if (!place->rung && d->p[P_EXPLORE])
                place->rung = be_explore(d, coroutine, op);
        place->evictable = be_lets_go(d, op, place);
        return 1;
}
