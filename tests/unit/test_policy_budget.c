/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of an objective (policies/detshare/budget.h): estimated waits against a real queue, and when BE may run
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policies/detshare/budget.h"
#include "policies/detshare/explain.h"
#include "policies/detshare/mean.h"
#include "policies/detshare/state.h"
#include "util/macro.h"

/* A request begins after one beside which the objective allowed no BE. */
static void begin(struct waits *waits, uint64_t since_ns, uint64_t gap_ns, uint64_t slo_ns)
{
        waits_begin(waits, &(struct waits_step){since_ns, gap_ns, 0}, slo_ns);
}

/* A client with random arrivals that answers one request after the other, as a policy sees it. */
struct client {
        unsigned seed;
        uint64_t arrival_ns, begin_ns, end_ns, interval_ns;
        uint64_t turn_ns, jitter_ns; /* time between two requests of its queue: at least, and on average more, ns */
        uint32_t together, n;        /* requests that arrive at once, and requests so far */
};

static uint64_t exponential(struct client *client, uint64_t mean_ns)
{
        return (uint64_t)(-log((rand_r(&client->seed) + 1.0) / (RAND_MAX + 2.0)) * (double)mean_ns);
}

/* The next request: returns its latency from its arrival on. *ret_since and *ret_gap: time since the begin and the end
 * of the request before it. */
static uint64_t serve(struct client *client, uint64_t ns, uint64_t *ret_since, uint64_t *ret_gap)
{
        uint64_t begin;

        if (client->n++ % client->together == 0)
                client->arrival_ns += exponential(client, client->interval_ns * client->together);
        begin = max_u64(client->arrival_ns, client->end_ns + client->turn_ns + exponential(client, client->jitter_ns));
        *ret_since = begin - client->begin_ns;
        *ret_gap = begin - client->end_ns;
        client->begin_ns = begin;
        client->end_ns = begin + ns;
        return client->end_ns - client->arrival_ns;
}

/* Serves n requests of 1 ms. Returns the estimated number of latencies above slo_ns; *ret_missed: the true one. */
static double estimate(struct client client, uint64_t slo_ns, uint32_t n, uint32_t *ret_missed)
{
        static struct waits waits;
        double estimated = 0;

        waits = (struct waits){0};
        *ret_missed = 0;
        for (uint32_t i = 0; i < n; i++) {
                uint64_t since, gap, latency = serve(&client, MS, &since, &gap);

                begin(&waits, since, gap, slo_ns);
                *ret_missed += latency > slo_ns;
                estimated += (double)waits_over(&waits, slo_ns - MS) / WAITS_ONE;
        }
        return estimated;
}

/*
 * At a high load a small error of the mean interval is a large one of the waits. Clients in C take the next request at
 * once, Python programs after up to 0.5 ms, and not always as soon.
 */
Test(policy_budget, estimates_the_latencies_of_a_queue_that_it_does_not_see)
{
        static const struct {
                uint32_t load_percent;
                uint64_t slo_ns;
        } cases[] = {{10, 3 * MS / 2}, {25, 2 * MS}, {50, 3 * MS}, {75, 6 * MS}};
        static const struct {
                uint64_t turn_ns, jitter_ns;
        } turns[] = {{40 * US, 0}, {150 * US, 0}, {100 * US, 50 * US}, {300 * US, 0}};

        for (size_t i = 0; i < 15; i++) { /* with the longest turn, 75 % of load would be all of the client's time */
                const uint32_t load = cases[i / 4].load_percent;
                const struct client client = {.seed = 1,
                        .interval_ns = 100 * MS / load,
                        .end_ns = 1,
                        .together = 1,
                        .turn_ns = turns[i % 4].turn_ns,
                        .jitter_ns = turns[i % 4].jitter_ns};
                uint32_t missed;
                const double estimated = estimate(client, cases[i / 4].slo_ns, 40000, &missed);

                cr_assert_gt(missed, 400);
                cr_assert(estimated > missed * 0.7 && estimated < missed * 1.6,
                        "load %u, turn %llu: %.0f instead of %u", load, (unsigned long long)client.turn_ns, estimated,
                        missed);
        }
}

/*
 * A client whose host is slow for a while takes ten times as long for a turn. Most misses of the objective come from
 * such times, so the estimate must not take all long turns for pauses: it finds a third of these misses, and one in 25
 * if the last gaps do not count.
 */
Test(policy_budget, long_turns_of_a_client_that_is_slow_for_a_while_count_as_turns)
{
        struct client client = {.seed = 1, .interval_ns = 2 * MS, .end_ns = 1, .turn_ns = 80 * US, .together = 1};
        static struct waits waits;
        const uint64_t slo_ns = 8 * MS;
        double estimated = 0;
        uint32_t missed = 0;

        waits = (struct waits){0};
        for (uint32_t i = 0; i < 40000; i++) {
                uint64_t since, gap, latency;

                client.turn_ns = i % 500 < 40 ? 800 * US : 80 * US;
                latency = serve(&client, MS, &since, &gap);
                begin(&waits, since, gap, slo_ns);
                missed += latency > slo_ns;
                estimated += (double)waits_over(&waits, slo_ns - MS) / WAITS_ONE;
        }
        cr_assert_gt(missed, 400);
        cr_assert(estimated > missed * 0.3 && estimated < missed * 2, "%.0f instead of %u", estimated, missed);
}

/* A session whose requests never or seldom wait: each takes ns, 1.3 times that with BE beside it. */
struct quiet {
        const char *name;
        uint64_t ns, slo_ns;
        uint64_t interval_ns; /* mean time between random arrivals, or between fixed times; 0: closed loop */
        uint64_t jitter_ns;   /* jitter of fixed times, ns; 0: arrivals are random */
        uint64_t think_ns;    /* closed loop: from the answer to the next request, ns */
};

/* Part of the last half of the requests beside which the budget allows BE, percent. */
static uint32_t bought_percent(const struct quiet *quiet)
{
        struct client client = {.seed = 3};
        struct budget budget = {.left = 0};
        uint64_t begin_ns = 0, end_ns = 0, last_ns = 0;
        uint32_t n = 0;

        for (uint32_t i = 0; i < 20000; i++) {
                const int bought_before = i && end_ns - last_ns > quiet->ns;
                uint64_t at = end_ns + quiet->think_ns;
                int bought;

                if (quiet->interval_ns)
                        at = quiet->jitter_ns
                                     ? (i + 1) * quiet->interval_ns + (uint64_t)rand_r(&client.seed) % quiet->jitter_ns
                                     : client.arrival_ns + exponential(&client, quiet->interval_ns);
                client.arrival_ns = at;
                begin_ns = max_u64(at, end_ns + 40 * US);
                budget_begin(&budget, &(struct waits_step){begin_ns - last_ns, begin_ns - end_ns, bought_before}, 0,
                        quiet->slo_ns);
                bought = i % 64 && budget_until(&budget, quiet->slo_ns);
                n += i >= 10000 && bought;
                last_ns = begin_ns;
                end_ns = begin_ns + (bought ? quiet->ns * 13 / 10 : quiet->ns);
                budget_end(&budget, end_ns - begin_ns, bought, quiet->slo_ns, 990);
        }
        return n / 100;
}

/* Seldom used services, requests at fixed times, and clients that send the next request after the answer: no gap is
 * taken for a turn for good, so the objective buys time for BE. */
Test(policy_budget, requests_that_do_not_wait_are_not_taken_for_a_queue)
{
        static const struct quiet quiets[] = {
                {"load 0.1 %", MS, 4 * MS, 1000 * MS, 0, 0},
                {"load 1 %", MS, 4 * MS, 100 * MS, 0, 0},
                {"load 2 %", MS, 4 * MS, 50 * MS, 0, 0},
                {"short requests, load 1 %", MS / 10, MS / 2, 10 * MS, 0, 0},
                {"short requests, load 2 %", MS / 10, MS / 2, 5 * MS, 0, 0},
                {"every 33 ms", 5 * MS, 12 * MS, 33 * MS, MS, 0},
                {"every 2 ms", MS, 2 * MS, 2 * MS, MS / 20, 0},
                {"10 ms after the answer", MS, 4 * MS, 0, 0, 10 * MS},
                {"1 ms after the answer", 5 * MS, 12 * MS, 0, 0, MS},
                {"0.5 ms after the answer", 12 * MS, 18 * MS, 0, 0, MS / 2},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(quiets); i++)
                cr_expect_geq(bought_percent(&quiets[i]), 90, "%s: %u", quiets[i].name, bought_percent(&quiets[i]));
}

/* A request of 1 ms that begins gap_ns after the end of the one before. Returns whether the budget allows BE beside it. */
static int next_request(struct budget *budget, uint64_t gap_ns, uint64_t slo_ns)
{
        int bought;

        budget_begin(budget, &(struct waits_step){MS + gap_ns, gap_ns, 0}, 0, slo_ns);
        bought = budget_until(budget, slo_ns) != 0;
        budget_end(budget, MS, 0, slo_ns, 990);
        return bought;
}

/*
 * A program that warms up in a closed loop, which looks like an overloaded queue: of the requests that follow at random
 * times most have BE beside them after 200 requests. If some gaps of the loop are longer, it looks like several queues,
 * and it takes 600 requests.
 */
Test(policy_budget, a_closed_loop_says_little_about_later_requests)
{
        for (uint32_t row = 20; row <= 800; row *= 2) {
                struct client client = {.seed = 5};
                struct budget budget = {.left = 0};
                const uint32_t from = row > 400 ? 200 : 600;
                uint32_t bought = 0;

                for (uint32_t i = 1; i <= 800; i++)
                        next_request(&budget, i % row ? 50 * US : 900 * US, 6 * MS);
                for (uint32_t i = 0; i < from + 400; i++) {
                        const int is = next_request(&budget, max_u64(exponential(&client, 3 * MS), 50 * US), 6 * MS);

                        bought += i >= from && is;
                }
                cr_expect_geq(bought, 300, "rows of %u: %u of 400", row, bought);
        }
}

/* Misses of an objective say nothing about another one. */
Test(policy_budget, a_changed_objective_starts_with_an_empty_budget)
{
        struct budget budget = {.left = 0};

        for (uint32_t i = 0; i < 50; i++)
                next_request(&budget, 10 * MS, MS / 2);
        cr_assert_gt(budget.debt, 0);
        next_request(&budget, 10 * MS, 6 * MS);
        cr_assert_eq(budget.debt, 0);
        cr_assert_eq(budget.left, 30);
        for (uint32_t i = 0; i < 400; i++)
                next_request(&budget, 10 * MS, 6 * MS - i % 2 * MS / 4);
        cr_assert_geq(
                budget.left, BUDGET_RICH, "a factor of what the session has alone changes a little: %d", budget.left);
}

/* Requests that arrive at once wait longer than random ones: the estimate must not be below the truth. */
Test(policy_budget, requests_that_arrive_together_count_as_waiting)
{
        for (uint32_t together = 2; together <= 8; together *= 2) {
                const struct client client = {
                        .seed = 1, .interval_ns = 4 * MS, .end_ns = 1, .together = together, .turn_ns = 40 * US};
                uint32_t missed;
                const double estimated = estimate(client, (together + 1) * MS, 40000, &missed);

                cr_assert_gt(missed, 400);
                cr_assert(estimated > missed * 0.9 && estimated < missed * 3, "%u at once: %.0f instead of %u",
                        together, estimated, missed);
        }
}

static struct budget known(uint64_t ns)
{
        struct budget budget = {.left = 0};

        for (int i = 0; i < 20; i++) {
                begin(&budget.waits, 10 * MS, 10 * MS - ns, 8 * MS);
                budget_end(&budget, ns, 0, 8 * MS, 990);
        }
        return budget;
}

/* BE leaves early enough for a whole request: 8 ms less a thirty-second, the client's time and the request. */
Test(policy_budget, lets_best_effort_run_until_the_request_needs_the_rest_of_its_objective)
{
        struct budget budget = known(MS);

        cr_assert_eq(budget_until(&budget, 8 * MS), 8 * MS - 250 * US - BUDGET_CLIENT_NS - MS);
        cr_assert_eq(budget_until(&budget, MS), 0);
        cr_assert_eq(budget_until(&(struct budget){0}, 8 * MS), 0, "how long a request takes is not known");
}

/* Short requests between the others do not change what is expected of those. */
Test(policy_budget, short_requests_do_not_count)
{
        struct budget budget = known(4 * MS);
        const uint64_t before = budget_until(&budget, 8 * MS);

        for (int i = 0; i < 20; i++) {
                begin(&budget.waits, 10 * MS, 6 * MS, 8 * MS);
                budget_end(&budget, i % 2 ? 20 * US : 4 * MS, 0, 8 * MS, 990);
        }
        cr_assert_eq(budget_until(&budget, 8 * MS), before);
}

/* The first requests of a session load code, so they are long. They do not make all others look short. */
Test(policy_budget, long_first_requests_are_forgotten)
{
        struct budget budget = {.left = 0};

        for (int i = 0; i < 40; i++) {
                begin(&budget.waits, 10 * MS, 9 * MS, 8 * MS);
                budget_end(&budget, i < 10 ? 30 * MS : MS, 0, 8 * MS, 990);
        }
        cr_assert_eq(budget.mean_ns, MS);
        budget.left = BUDGET_MOST;
        cr_assert_eq(budget_until(&budget, 8 * MS),
                budget_until(
                        &(struct budget){.waits = budget.waits, .mean_ns = MS, .samples = BUDGET_SAMPLES}, 8 * MS));
}

/* With 990 of 1000, and a reserve of a quarter, a miss costs the shares of 133 requests. */
Test(policy_budget, a_miss_holds_best_effort_until_enough_requests_have_met_the_objective)
{
        struct budget budget = known(MS);
        uint32_t n;

        budget.left = 0;
        begin(&budget.waits, 10 * MS, 9 * MS, 8 * MS);
        budget_end(&budget, 9 * MS, 1, 8 * MS, 990);
        for (n = 0; !budget_until(&budget, 8 * MS); n++) {
                begin(&budget.waits, 10 * MS, 9 * MS, 8 * MS);
                budget_end(&budget, MS, 1, 8 * MS, 990);
        }
        cr_assert_eq(n, 133);
}

/* Requests of a queue get BE only from a whole miss in reserve on, and less of it the longer they have waited. */
Test(policy_budget, holds_best_effort_beside_requests_that_waited)
{
        struct budget budget = known(MS);
        const uint64_t first = budget_until(&budget, 8 * MS);

        begin(&budget.waits, 10 * MS, 9 * MS, 8 * MS);
        begin(&budget.waits, 3 * MS, 20 * US, 8 * MS);
        budget.left = BUDGET_RICH - 1;
        cr_assert_eq(budget_until(&budget, 8 * MS), 0);
        budget.left = BUDGET_RICH;
        cr_assert_lt(budget_until(&budget, 8 * MS), first);
        cr_assert_gt(budget_until(&budget, 8 * MS), 0);
        begin(&budget.waits, 10 * MS, 9 * MS, 8 * MS);
        cr_assert_eq(waits_over(&budget.waits, US), 0, "after a pause nothing waits");
}

/* Ends n requests of which one in `of` misses the objective. */
static void go(struct budget *budget, uint32_t n, uint32_t of)
{
        for (uint32_t i = 1; i <= n; i++) {
                begin(&budget->waits, 20 * MS, 10 * MS, 8 * MS);
                budget_end(budget, i % of ? MS : 10 * MS, 1, 8 * MS, 990);
        }
}

/* Four misses more than may: BE must not delay requests, until the misses are made up for. */
Test(policy_budget, is_spent_after_a_few_misses)
{
        struct budget budget = known(MS);

        budget.left = 0;
        go(&budget, 1, 1);
        cr_assert_not(budget_is_spent(&budget));
        go(&budget, 1, 1);
        cr_assert(budget_is_spent(&budget));
        go(&budget, 90, 200);
        cr_assert(budget_is_spent(&budget));
        go(&budget, 200, 1000);
        cr_assert_not(budget_is_spent(&budget));
}

/* If requests miss the objective without any delay by BE, BE does not wait for nothing. After BUDGET_RETRY requests it
 * waits for a few of them, to see whether the objective is in reach again. */
Test(policy_budget, an_objective_out_of_reach_holds_nobody)
{
        struct budget budget = known(MS);
        uint32_t n = 0;

        go(&budget, 200, 10);
        cr_assert_not(budget_is_spent(&budget));
        for (uint32_t i = 0; i < 20000; i++) {
                go(&budget, 1, i % 10 ? 2 : 1);
                n += budget_is_spent(&budget);
        }
        cr_assert(n >= 4 && n <= 20000 / BUDGET_RETRY * BUDGET_JUDGED, "%u", n);
}

/* While its objective is out of reach, a session is treated as one without, and `explain` says what that means. */
Test(policy_budget, explain_leaves_out_an_objective_out_of_reach)
{
        static struct detshare state = {.ls = {{.id = 1, .seen = 1, .length_ns = MS, .slo_ns = 2 * MS}}};
        char text[256];

        detshare_explain(&state, 1, text, sizeof(text));
        cr_assert(strstr(text, "side by side"), "%s", text);
        state.ls[0].budget.retry = 1;
        detshare_explain(&state, 1, text, sizeof(text));
        cr_assert(strstr(text, "costs a request"), "%s", text);
}

/* An objective may come while a request runs: that request does not count. */
Test(policy_budget, an_objective_may_be_newer_than_the_request)
{
        struct budget budget = {.left = 0};

        budget_end(&budget, 9 * MS, 0, 8 * MS, 990);
        cr_assert_eq(budget.left, 0);
        cr_assert_eq(budget_until(&budget, 8 * MS), 0);
        cr_assert_eq(waits_over(&budget.waits, MS), 0);
}

/* If all requests may miss the objective, BE may always run. */
Test(policy_budget, with_a_share_of_0_misses_cost_nothing)
{
        struct budget budget = known(MS);

        for (int i = 0; i < 10; i++) {
                begin(&budget.waits, 20 * MS, 10 * MS, 8 * MS);
                budget_end(&budget, 10 * MS, 1, 8 * MS, 0);
        }
        cr_assert_eq(budget.left, BUDGET_MOST);
}

/* Any times and objectives: nothing overflows, and probabilities stay probabilities. */
Test(policy_budget, bears_any_times)
{
        struct budget budget = {.left = 0};
        unsigned seed = 7;

        for (int i = 0; i < 20000; i++) {
                const uint64_t slo = 1ull << (rand_r(&seed) % 64), ns = (uint64_t)rand_r(&seed) << (rand_r(&seed) % 33);
                const uint64_t gap = (uint64_t)rand_r(&seed) >> (rand_r(&seed) % 31);

                begin(&budget.waits, ns + gap, gap, slo);
                budget_end(&budget, ns, i % 2, rand_r(&seed) % 8 ? slo : 2 * slo, 990);
                cr_assert_leq(waits_over(&budget.waits, 0), WAITS_ONE + WAITS);
                cr_assert(budget.left >= BUDGET_LEAST && budget.left <= BUDGET_MOST);
                cr_assert_leq(budget_until(&budget, slo), slo);
        }
}

/* One long pause, such as that of a client that restarts, does not make the mean interval look longer. A lower load does. */
Test(policy_budget, one_long_pause_is_not_a_lower_load)
{
        struct waits waits = {0};
        uint64_t interval_ns;

        for (uint32_t i = 0; i < 400; i++)
                begin(&waits, 3 * MS, 2 * MS, 8 * MS);
        interval_ns = waits.interval_ns;
        begin(&waits, 1000 * MS, 999 * MS, 8 * MS);
        for (uint32_t i = 0; i < 50; i++)
                begin(&waits, 3 * MS, 2 * MS, 8 * MS);
        cr_assert_leq(waits.interval_ns, interval_ns * 11 / 10, "%llu", (unsigned long long)waits.interval_ns);
        for (uint32_t i = 0; i < 100; i++)
                begin(&waits, 100 * MS, 99 * MS, 8 * MS);
        cr_assert_geq(waits.interval_ns, 50 * MS, "%llu", (unsigned long long)waits.interval_ns);
}

/* A client that states when some of its requests arrived does not clear the debt of the others by that. */
Test(policy_budget, stated_arrivals_do_not_clear_the_debt)
{
        struct budget budget = {.left = 0};
        const struct waits_step step = {20 * MS, 10 * MS, 0};

        for (uint32_t i = 0; i < 20; i++) {
                budget_begin(&budget, &step, 0, 8 * MS);
                budget_end(&budget, 10 * MS, 0, 8 * MS, 990);
        }
        cr_assert_gt(budget.debt, 10 * BUDGET_MISS);
        budget_begin(&budget, &step, 1, MS);
        budget_end(&budget, MS / 2, 0, MS, 990);
        budget_begin(&budget, &step, 0, 8 * MS);
        cr_assert_gt(budget.debt, 10 * BUDGET_MISS);
        budget_begin(&budget, &step, 0, 80 * MS);
        cr_assert_eq(budget.debt, 0, "another objective begins without debt");
}
