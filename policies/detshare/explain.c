/* SPDX-License-Identifier: Apache-2.0 */
#include "policies/detshare/explain.h"

#include <stdio.h>
#include <string.h>

#include "policies/detshare/mean.h"
#include "policies/detshare/requests.h"

static double speed(uint64_t value)
{
        return (double)value / SHARING_ONE;
}

/* Adds what the other ways that are measured achieve. */
static void explain_ways(const struct detshare *d, const struct ls *ls, uint32_t best, char *text, uint32_t size)
{
        for (uint32_t i = 0; i < ls_ways(d, ls); i++) {
                const struct sharing_way *way = &ls->sharing.way[i];
                const uint32_t length = (uint32_t)strlen(text);

                if (i != best && sharing_is_known(way))
                        snprintf(text + length, size - length, "; with best effort on %u SMs at %.2f and %.2f",
                                d->way_sms[i], speed(way->ls), speed(way->be));
        }
}

/* Adds where the measurement is from. */
static void explain_origin(const struct sharing *sharing, char *text, uint32_t size)
{
        const uint32_t length = (uint32_t)strlen(text);

        if (sharing->origin == SHARING_KEPT)
                snprintf(text + length, size - length,
                        "; measured in an earlier run, %u of %u requests have checked it so far",
                        sharing->way[sharing->best].checks, SHARING_CHECKS);
        else if (sharing->origin == SHARING_CONFIRMED)
                snprintf(text + length, size - length, "; measured in an earlier run and confirmed in this one");
        else if (sharing->origin == SHARING_REFUTED)
                snprintf(text + length, size - length,
                        "; measured again, because an earlier run's figures did not hold");
}

/* The sentence about a session whose objective is in reach. */
static void explain_objective(const struct detshare *d, const struct ls *ls, char *text, uint32_t size)
{
        const struct sharing *sharing = &ls->sharing;
        const uint64_t until_ns = budget_until(&ls->budget, ls->slo_ns);
        const uint32_t best = sharing->best;
        const struct sharing_way *way = &sharing->way[best];

        if (budget_is_spent(&ls->budget)) {
                snprintf(text, size, "held: more requests have missed the objective than may miss it");
                return;
        }
        if (!sharing_is_known(way)) {
                snprintf(text, size, "learns what requests and best effort achieve side by side");
                explain_origin(sharing, text, size);
                return;
        }
        if (!sharing_pays(sharing, best))
                snprintf(text, size,
                        "held: side by side requests run at %.2f of their speed alone and best effort at %.2f, "
                        "which gains best effort less than the longer requests cost it",
                        speed(way->ls), speed(way->be));
        else
                snprintf(text, size,
                        "shares: side by side with best effort on %u of %u SMs requests run at %.2f of their speed "
                        "alone and best effort at %.2f%s; the objective allows that for %.2f ms of a request of "
                        "%.2f ms",
                        d->way_sms[best], d->n_sms, speed(way->ls), speed(way->be),
                        ls_ways(d, ls) > 1 ? ", by which best effort gains most" : "",
                        (double)sharing_time(sharing, best, until_ns) / 1e6, (double)ls->length_ns / 1e6);
        explain_ways(d, ls, best, text, size);
        explain_origin(sharing, text, size);
}

/* The sentence about a session without an objective in reach. */
static void explain_cost(const struct detshare *d, const struct ls *ls, char *text, uint32_t size)
{
        const struct felt *felt = &ls->felt;
        const double allowed = (double)d->p[P_SLACK] / 10;

        if (felt->cost.n < FELT_KNOWN || !felt->cost.without)
                snprintf(text, size, "%s: what best effort costs a request is not known yet",
                        felt->now == FELT_HELD ? "held" : "shares");
        else
                snprintf(text, size,
                        "%s: best effort beside a request costs it %.1f %% of its time, %.1f %% is allowed",
                        felt->now == FELT_HELD ? "held" : "shares",
                        ((double)felt->cost.with / (double)felt->cost.without - 1) * 100, allowed);
}

void detshare_explain(const void *state, uint64_t session, char *text, uint32_t size)
{
        const struct detshare *d = state;

        text[0] = '\0';
        for (uint32_t i = 0; i < LS_MAX; i++) {
                const struct ls *ls = &d->ls[i];

                if (!ls->seen || ls->id != session || !ls->length_ns)
                        continue;
                if (ls->slo_ns > ls->length_ns && !ls->budget.retry)
                        explain_objective(d, ls, text, size);
                else
                        explain_cost(d, ls, text, size);
        }
}
