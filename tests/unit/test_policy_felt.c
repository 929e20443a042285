/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choice of a regime from measured times of requests (policies/detshare/felt.h)
 */
#include "policies/detshare/felt.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

/* `requests` requests of n operations that take ebb_ns or held_ns, by regime. Returns the number of requests under
 * EBB. */
static uint32_t go(struct felt *felt, uint32_t requests, uint64_t ebb_ns, uint64_t held_ns, uint32_t noise_percent)
{
        uint32_t n_ebb = 0, random = 1;

        for (uint32_t i = 0; i < requests; i++) {
                const uint32_t regime = felt_choose(felt, 50, 1), n = 1 + i % 7;
                uint64_t ns = regime == FELT_EBB ? ebb_ns : held_ns;

                random = random * 1664525 + 1013904223;
                ns += ns * (random >> 16) / 65536 * noise_percent / 100;
                n_ebb += regime == FELT_EBB;
                felt_learn(felt, regime, ns * n, n);
        }
        return n_ebb;
}

Test(policy_felt, best_effort_within_the_slack_continues)
{
        struct felt felt = {0};

        cr_assert_geq(go(&felt, 1000, 1040, 1000, 0), 960);
        cr_assert_eq(felt.now, FELT_EBB);
}

Test(policy_felt, best_effort_beyond_the_slack_is_held_with_few_trials)
{
        struct felt felt = {0};

        cr_assert_leq(go(&felt, 20, 1500, 1000, 0), 16);
        cr_assert_eq(felt.now, FELT_HELD);
        cr_assert_leq(go(&felt, 2000, 1500, 1000, 0), 10);
}

Test(policy_felt, it_comes_back_when_it_keeps_the_slack_again)
{
        struct felt felt = {0};

        go(&felt, 100, 1500, 1000, 0);
        cr_assert_eq(felt.now, FELT_HELD);
        go(&felt, 12000, 1010, 1000, 0);
        cr_assert_eq(felt.now, FELT_EBB);
}

/* After BE has changed, a trial comes every FELT_SOON requests until its cost is known, which is sooner than
 * otherwise. */
Test(policy_felt, trials_come_sooner_after_best_effort_changed)
{
        struct felt felt = {0};

        go(&felt, 100, 1500, 1000, 0);
        felt_forget(&felt);
        go(&felt, FELT_SOON * (FELT_KNOWN + 1), 1010, 1000, 0);
        cr_assert_eq(felt.now, FELT_EBB);
}

Test(policy_felt, requests_that_vary_by_themselves_decide_nothing)
{
        struct felt felt = {0};

        go(&felt, 1000, 1100, 1000, 200);
        cr_assert_eq(felt.now, FELT_EBB);
        go(&felt, 3000, 4000, 1000, 200);
        cr_assert_eq(felt.now, FELT_HELD, "four times as long is more than they vary");
}

/* One LS request of 200 takes five times as long, independent of BE. */
Test(policy_felt, a_request_that_takes_far_longer_now_and_then_decides_nothing)
{
        struct felt felt = {0};
        uint32_t n_held = 0;

        for (uint32_t i = 1; i <= 20000; i++) {
                const uint32_t regime = felt_choose(&felt, 50, 1), often = i * 2654435769u >> 16;

                felt_learn(&felt, regime, often % 200 ? 1000 + often % 20 : 5000, 1);
                n_held += felt.now == FELT_HELD;
        }
        cr_assert_eq(n_held, 0);
}

/* A program alternates two kinds of requests: the policy must not try one regime with one kind only. */
Test(policy_felt, requests_of_two_kinds_in_turn_are_compared_with_both_kinds)
{
        for (uint32_t shift = 0; shift < 2; shift++) {
                struct felt felt = {0};
                uint32_t n_ebb = 0;

                for (uint32_t i = 0; i < 1000; i++) {
                        const uint32_t regime = felt_choose(&felt, 50, 1);

                        felt_learn(&felt, regime, (i + shift) % 2 ? 1000 : 1300, 1);
                        n_ebb += regime == FELT_EBB;
                }
                cr_assert_geq(n_ebb, 960, "%u", n_ebb);
                for (uint32_t i = 0; i < 2000; i++) {
                        const uint32_t regime = felt_choose(&felt, 50, 1), ns = (i + shift) % 2 ? 1000 : 1300;

                        felt_learn(&felt, regime, regime == FELT_EBB ? 2 * ns : ns, 1);
                }
                cr_assert_eq(felt.now, FELT_HELD);
        }
}

Test(policy_felt, nothing_is_decided_before_both_are_known)
{
        struct felt felt = {0};

        for (uint32_t i = 0; i < 100; i++)
                felt_learn(&felt, FELT_EBB, 5000, 1);
        cr_assert_eq(felt_now(&felt, 50), FELT_EBB);
        for (uint32_t i = 0; i < FELT_KNOWN; i++)
                felt_learn(&felt, FELT_HELD, 1000, 1);
        cr_assert_eq(felt_now(&felt, 50), FELT_HELD);
        cr_assert_eq(felt_now(&felt, 4500), FELT_EBB, "an SLO that leaves room");
        cr_assert_eq(felt_now(&felt, UINT64_MAX / 16), FELT_EBB, "and one that is any number");
}

/* Time per operation under each regime, ns. */
struct costs {
        uint64_t ns[FELT_HELD + 1];
};

/* Runs requests that take these costs times `speed` permille. Returns the number of requests outside of the regime
 * in force. */
static uint32_t beside(struct felt *felt, const struct costs *costs, uint32_t requests, uint32_t speed)
{
        uint32_t n_other = 0;

        for (uint32_t i = 0; i < requests; i++) {
                const uint32_t regime = felt_choose(felt, 50, 1);

                felt_learn(felt, regime, costs->ns[regime] * speed, 1);
                n_other += regime != felt->now;
        }
        return n_other;
}

Test(policy_felt, trials_are_rare_once_the_cost_is_known)
{
        const struct costs much = {{1500, 1000}}, none = {{1010, 1000}};
        struct felt felt = {0};

        beside(&felt, &much, 8000, 1000);
        cr_assert_eq(felt.now, FELT_HELD, "%u", felt.now);
        cr_assert_leq(beside(&felt, &much, 2000, 1000), 2000 / FELT_TRIAL + 1);
        beside(&felt, &none, 100000, 1000);
        cr_assert_eq(felt.now, FELT_EBB, "%u", felt.now);
        cr_assert_leq(beside(&felt, &none, 2000, 1000), 2000 / FELT_RENEW + 2);
}

/* A service's speed changes by 13% every few seconds, independent of BE. */
Test(policy_felt, a_service_that_changes_by_itself_does_not_blame_best_effort)
{
        const struct costs none = {{1010, 1000}}, much = {{1500, 1000}};
        struct felt felt = {0}, other = {0};
        uint32_t n_held = 0, n_free = 0;

        for (uint32_t i = 0; i < 40; i++) {
                const uint32_t requests = 300 + i * 97 % 700;

                for (uint32_t k = 0; k < requests; k++) {
                        beside(&felt, &none, 1, i % 2 ? 1130 : 1000);
                        beside(&other, &much, 1, i % 2 ? 1130 : 1000);
                        n_held += felt.now != FELT_EBB;
                        n_free += i && other.now != FELT_HELD;
                }
        }
        cr_assert_eq(n_held, 0);
        cr_assert_eq(n_free, 0);
}

/* BE becomes harmful: that is found before the next regular pair, which would be 64 requests later. */
Test(policy_felt, best_effort_that_becomes_harmful_is_found_soon)
{
        const struct costs none = {{1010, 1000}}, much = {{1500, 1000}};
        struct felt felt = {0};

        beside(&felt, &none, 3000, 1000);
        cr_assert_eq(felt.now, FELT_EBB);
        beside(&felt, &much, 50, 1000);
        cr_assert_eq(felt.now, FELT_HELD, "%u", felt.now);
}

/* A session that starts with HELD shows the cost of BE in few requests, and the policy still finds that cost. */
Test(policy_felt, held_first)
{
        const struct costs none = {{1010, 1000}}, much = {{1500, 1000}};
        struct felt felt = {.first = FELT_HELD}, other = {.first = FELT_HELD};

        cr_assert_leq(beside(&felt, &much, 5000, 1000), 5000 / FELT_SOON + 1);
        cr_assert_eq(felt.now, FELT_HELD, "%u", felt.now);
        cr_assert_leq(beside(&other, &none, 3 * FELT_SOON, 1000), 3);
        cr_assert_eq(other.now, FELT_HELD, "%u: three say nothing", other.now);
        beside(&other, &none, 4 * FELT_SOON, 1000);
        cr_assert_eq(other.now, FELT_EBB, "%u", other.now);
        felt_forget(&other);
        cr_assert_eq(other.now, FELT_HELD, "beside another one anew");
        cr_assert_leq(beside(&other, &much, 5000, 1000), 5000 / FELT_SOON + 1);
}
