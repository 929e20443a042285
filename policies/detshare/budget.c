/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/budget.h"

#include "policies/detshare/mean.h"

/* The part of the objective that the device may use, ns. */
static uint64_t budget_may(uint64_t slo_ns)
{
        return slo_ns - slo_ns / BUDGET_NOT_USED - min_u64(BUDGET_CLIENT_NS, slo_ns / BUDGET_CLIENT_PART);
}

int budget_is_spent(const struct budget *budget)
{
        return budget->debt > BUDGET_SPENT && !budget->retry;
}

int budget_is_rich(const struct budget *budget)
{
        return budget->left >= BUDGET_RICH;
}

int budget_risks(const struct budget *budget)
{
        return budget_is_rich(budget) && budget->waits.row <= 1;
}

/* Decides whether the objective is in reach, from a request that costs the budget `cost`. may: misses that the
 * objective permits, permille. */
static void budget_judge(struct budget *budget, int32_t cost, int32_t may)
{
        const int32_t lost = BUDGET_JUDGED * BUDGET_LOST * may * (BUDGET_MISS / 1000);

        if (!budget->debt)
                budget->retry = 0;
        else if (budget->retry)
                budget->retry--;
        if (!budget_is_spent(budget)) {
                budget->judged = 0;
                budget->lost = 0;
                return;
        }
        budget->lost += cost;
        if (++budget->judged < BUDGET_JUDGED && budget->lost <= lost)
                return;
        budget->retry = budget->lost > lost ? BUDGET_RETRY : 0;
        budget->judged = 0;
        budget->lost = 0;
}

/* Cost of the present request, which took ns, if it may take may_ns. A probable miss costs a part. */
static int32_t budget_cost(const struct budget *budget, uint64_t ns, uint64_t may_ns)
{
        const uint64_t missed = ns > may_ns ? WAITS_ONE : waits_over(&budget->waits, may_ns - ns);

        return (int32_t)(missed * BUDGET_MISS / WAITS_ONE);
}

static void budget_reset(struct budget *budget)
{
        budget->left = budget->debt = budget->judged = budget->lost = 0;
        budget->retry = 0;
}

void budget_begin(struct budget *budget, const struct waits_step *step, int counted, uint64_t slo_ns)
{
        if (counted) {
                waits_none(&budget->waits, slo_ns);
        } else {
                if (!waits_fit(budget->slo_ns, slo_ns))
                        budget_reset(budget);
                budget->slo_ns = slo_ns;
                waits_begin(&budget->waits, step, slo_ns);
        }
        if (budget->waits.row == 1)
                budget->before = budget->left;
}

/* Counts the present request, which took ns. attain_permille: share of requests that must meet the objective. */
static void budget_count(struct budget *budget, uint64_t ns, uint64_t slo_ns, uint32_t attain_permille)
{
        const int32_t may = (int32_t)(1000 - attain_permille);
        const int32_t cost = attain_permille ? budget_cost(budget, ns, budget_may(slo_ns)) : 0;
        const int32_t missed = attain_permille && ns > slo_ns ? BUDGET_MISS : 0;
        const int32_t left = budget->left + may * BUDGET_SHARE - cost;
        const int32_t debt = budget->debt + missed - may * (BUDGET_MISS / 1000);
        const int32_t one_miss = budget->before - BUDGET_MISS;
        const int32_t least = waits_are_endless(&budget->waits) && one_miss > BUDGET_LEAST ? one_miss : BUDGET_LEAST;

        budget->left = left > BUDGET_MOST ? BUDGET_MOST : left < least ? least : left;
        budget->debt = debt < 0 ? 0 : debt > BUDGET_DEBT_MOST ? BUDGET_DEBT_MOST : debt;
        budget_judge(budget, missed, may);
}

/*
 * Learns the length of a request that had no more BE beside it than without an objective. A much shorter one than the
 * others, such as a copy between two steps of a language model, says nothing about how long the others take. If all are
 * much shorter, the first ones were long for another reason: the mean is discarded and measured again.
 */
static void budget_learn(struct budget *budget, uint64_t ns)
{
        const int is_short = budget->samples >= BUDGET_KNOWN && ns < budget->mean_ns / BUDGET_SHORT_PART;

        budget->in_row = is_short ? budget->in_row + 1 : 0;
        if (is_short && budget->in_row < BUDGET_SHORT_ROW)
                return;
        if (is_short)
                budget->samples = budget->in_row = 0;
        budget->samples += budget->samples < BUDGET_SAMPLES;
        learn_deviation(&budget->mean_ns, &budget->deviation_ns, ns, budget->samples);
}

void budget_end(struct budget *budget, uint64_t ns, int bought, uint64_t slo_ns, uint32_t attain_permille)
{
        if (!bought)
                budget_learn(budget, ns);
        if (budget->waits.row) /* the objective may be newer than the request */
                budget_count(budget, ns, slo_ns, attain_permille);
}

uint64_t budget_until(const struct budget *budget, uint64_t slo_ns)
{
        const uint64_t need = budget->mean_ns + BUDGET_DEVIATIONS * budget->deviation_ns +
                              waits_quantile(&budget->waits, BUDGET_WAIT_PERCENT);
        const uint64_t may = budget_may(slo_ns);

        if (budget->samples < BUDGET_KNOWN || may <= need || budget->left < 0 ||
                (budget->waits.row > 1 && !budget_is_rich(budget)))
                return 0;
        return may - need;
}
