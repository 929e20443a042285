/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/rate.h"

#include <assert.h>
#include <uv.h>

#include "util/macro.h"

static void rate_deadline(struct ds_deadline *deadline);

void ds_rate_init(struct ds_rate *rate)
{
        *rate = (struct ds_rate){.burst = 1};
        TAILQ_INIT(&rate->waiters);
}

void ds_rate_deinit(struct ds_rate *rate)
{
        assert(TAILQ_EMPTY(&rate->waiters));
        assert(!ds_deadline_armed(&rate->deadline));
}

/* Time until the next request is allowed, ns; 0: it is allowed now. */
static uint64_t wait_ns(const struct ds_rate *rate, uint64_t now_ns)
{
        uint64_t spent = rate->full_ns > now_ns ? rate->full_ns - now_ns : 0;
        uint64_t may_be_spent = (rate->burst - 1) * rate->interval_ns;

        return spent > may_be_spent ? spent - may_be_spent : 0;
}

static void spend(struct ds_rate *rate, uint64_t now_ns)
{
        rate->full_ns = DS_MAX(rate->full_ns, now_ns) + rate->interval_ns;
}

/* Arms the deadline for the first waiter. Rounds up to at least 1 ms, so that the loop can handle other events
 * meanwhile. */
static void arm(struct ds_rate *rate, uint64_t ns)
{
        ds_deadline_arm(rate->deadlines, &rate->deadline, 1 + ns / DS_NS_PER_MS, rate_deadline);
}

static void rate_deadline(struct ds_deadline *deadline)
{
        struct ds_rate *rate = DS_CONTAINER_OF(deadline, struct ds_rate, deadline);
        const uint64_t now = uv_hrtime();
        struct ds_rate_waiter *first;

        while ((first = TAILQ_FIRST(&rate->waiters)) && wait_ns(rate, now) == 0) {
                spend(rate, now);
                ds_rate_forget(rate, first);
                first->paid = 1;
                first->go(first);
        }
        if (first && !ds_deadline_armed(&rate->deadline))
                arm(rate, wait_ns(rate, now));
}

void ds_rate_set(struct ds_rate *rate, uint64_t per_second, uint64_t burst)
{
        assert(per_second > 0);
        rate->interval_ns = per_second == UINT64_MAX ? 0 : DS_NS_PER_S / per_second;
        rate->burst = burst ? burst : per_second == UINT64_MAX ? 1 : per_second;
        /* after a change of the rate, the user waits at most as long as an empty bucket of the new rate needs to
         * fill */
        rate->full_ns = DS_MIN(rate->full_ns, uv_hrtime() + rate->burst * rate->interval_ns);
        if (!TAILQ_EMPTY(&rate->waiters))
                arm(rate, 0);
}

int ds_rate_take(struct ds_rate *rate, struct ds_deadlines *deadlines, struct ds_rate_waiter *waiter, uint64_t now_ns)
{
        assert(!waiter->waiting);
        if (waiter->paid) {
                waiter->paid = 0;
                return 1;
        }
        if (rate->interval_ns == 0 && TAILQ_EMPTY(&rate->waiters))
                return 1;
        /* a new request queues behind those that wait */
        if (TAILQ_EMPTY(&rate->waiters) && wait_ns(rate, now_ns) == 0) {
                spend(rate, now_ns);
                return 1;
        }
        rate->deadlines = deadlines;
        waiter->waiting = 1;
        TAILQ_INSERT_TAIL(&rate->waiters, waiter, link);
        if (!ds_deadline_armed(&rate->deadline))
                arm(rate, wait_ns(rate, now_ns));
        return 0;
}

void ds_rate_forget(struct ds_rate *rate, struct ds_rate_waiter *waiter)
{
        if (!waiter->waiting)
                return;
        waiter->waiting = 0;
        TAILQ_REMOVE(&rate->waiters, waiter, link);
        if (TAILQ_EMPTY(&rate->waiters) && rate->deadlines)
                ds_deadline_disarm(rate->deadlines, &rate->deadline);
}
