/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The risk of stops and the budget for delayed requests (worker/stop_cost.h), with made-up services
 */
#include <criterion/criterion.h>

#include "worker/stop_cost.h"

#define MS DS_NS_PER_MS
#define CALL_NS (100 * DS_NS_PER_US)

static struct dsw_stop_cost cost;

static void setup(void)
{
        dsw_stop_cost_init(&cost);
}

TestSuite(stop_cost, .init = setup);

/* Learns n gaps of lengths from low_ns to high_ns, and calls of one kind of CALL_NS. */
static void learn(uint32_t n, uint64_t low_ns, uint64_t high_ns)
{
        for (uint32_t i = 0; i < n; i++)
                dsw_stop_cost_gap(&cost, low_ns + (high_ns - low_ns) * (i % DSW_STOP_GAPS) / DSW_STOP_GAPS);
        for (uint32_t i = 0; i < DSW_STOP_LENGTHS; i++)
                dsw_stop_cost_call(&cost, dsw_stop_class(DSW_STOP_MODULE, 0), CALL_NS);
}

static uint32_t risk(uint64_t idle_ns)
{
        return dsw_stop_cost_risk(&cost, dsw_stop_class(DSW_STOP_MODULE, 0), idle_ns);
}

Test(stop_cost, an_unknown_service_is_a_risk)
{
        learn(DSW_STOP_GAPS_MIN - 1, 2 * MS, 2 * MS);
        cr_assert_eq(risk(MS), 1000);
        cr_assert_eq(dsw_stop_cost_moment(&cost, dsw_stop_class(DSW_STOP_MODULE, 0), MS, 999), UINT64_MAX);
        for (int i = 0; i < 100; i++)
                dsw_stop_cost_gap(&cost, DSW_STOP_QUIET_NS - 1);
        cr_assert_eq(risk(MS), 1000, "a pause within a request is no gap");
        dsw_stop_cost_gap(&cost, 2 * MS);
        cr_assert_lt(risk(MS), 10);
}

Test(stop_cost, a_period_is_safe_until_shortly_before_its_end)
{
        learn(200, 2 * MS, 2 * MS);
        cr_assert_lt(risk(DSW_STOP_QUIET_NS), 5);
        cr_assert_lt(risk(2 * MS - CALL_NS - 1), 5);
        cr_assert_gt(risk(2 * MS - CALL_NS), 990);
        cr_assert_eq(dsw_stop_cost_moment(&cost, dsw_stop_class(DSW_STOP_MODULE, 0), MS, 10), MS);
        cr_assert_eq(dsw_stop_cost_moment(&cost, dsw_stop_class(DSW_STOP_MODULE, 0), 2 * MS - CALL_NS, 10), 2 * MS);
        cr_assert_gt(dsw_stop_cost_risk(&cost, dsw_stop_class(DSW_STOP_KERNEL, 0), 2 * MS - 4 * CALL_NS), 990,
                "a kind without calls");
}

/* Gaps of 0 to 4 ms: the risk is the length as a share of the time that is left. */
Test(stop_cost, risk_grows_towards_the_longest_gap)
{
        learn(200, 0, 4 * MS);
        cr_assert_lt(risk(MS), 60);
        cr_assert_gt(risk(MS), 15);
        cr_assert_gt(risk(3800 * DS_NS_PER_US), 300);
        cr_assert_lt(risk(40 * MS), 10, "LS idle for longer than ever");
}

/* One long call among short ones counts with its share. */
Test(stop_cost, the_risk_is_a_mean_over_lengths)
{
        learn(200, 2 * MS, 2 * MS);
        dsw_stop_cost_call(&cost, dsw_stop_class(DSW_STOP_MODULE, 0), 5 * MS);
        cr_assert_lt(risk(MS / 2), 1000 / DSW_STOP_LENGTHS + 10);
        cr_assert_geq(risk(MS / 2), 1000 / DSW_STOP_LENGTHS - 1);
}

/* Large objects take long, and that says nothing about small ones. */
Test(stop_cost, sizes_have_lengths_of_their_own)
{
        const unsigned small = dsw_stop_class(DSW_STOP_MODULE, DS_KIB(256)),
                       large = dsw_stop_class(DSW_STOP_MODULE, DS_MIB(7));

        cr_assert_eq(small, dsw_stop_class(DSW_STOP_MODULE, 0));
        cr_assert_neq(small, dsw_stop_class(DSW_STOP_MODULE, DS_KIB(256) + 1));
        cr_assert_eq(large, dsw_stop_class(DSW_STOP_MODULE, UINT64_MAX));
        cr_assert_neq(large, dsw_stop_class(DSW_STOP_KERNEL, 0));
        cr_assert_lt(dsw_stop_class(DSW_STOP_CHORE, UINT64_MAX), DSW_STOP_CLASSES);
        learn(DSW_STOP_GAPS, 2 * MS, 2 * MS);
        for (uint32_t i = 0; i < DSW_STOP_LENGTHS; i++)
                dsw_stop_cost_call(&cost, large, 3 * MS);
        cr_assert_lt(dsw_stop_cost_risk(&cost, small, DSW_STOP_QUIET_NS), 10);
        cr_assert_gt(dsw_stop_cost_risk(&cost, large, DSW_STOP_QUIET_NS), 990);
}

Test(stop_cost, requests_earn_hits_within_bounds)
{
        int least;

        learn(100000, 2 * MS, 2 * MS);
        cr_assert_eq(dsw_stop_cost_limit(&cost), 1000 * DSW_STOP_SAVED / DSW_STOP_RISK);
        dsw_stop_cost_hits(&cost, DSW_STOP_SAVED, 0);
        cr_assert_eq(dsw_stop_cost_limit(&cost), 1000 * DSW_STOP_SAVED / DSW_STOP_RISK, "LS pays nothing");
        dsw_stop_cost_hits(&cost, DSW_STOP_SAVED, 1);
        cr_assert_eq(dsw_stop_cost_limit(&cost), -1);
        cr_assert_eq(dsw_stop_cost_moment(&cost, dsw_stop_class(DSW_STOP_MODULE, 0), MS, dsw_stop_cost_limit(&cost)),
                UINT64_MAX);
        cr_assert_not(dsw_stop_cost_overdrawn(&cost));
        dsw_stop_cost_hits(&cost, 1000, 1);
        cr_assert(dsw_stop_cost_overdrawn(&cost));
        cr_assert_eq(cost.n_hits, 2 * DSW_STOP_SAVED + 1000);
        for (least = 0; dsw_stop_cost_limit(&cost) < 0; least++)
                dsw_stop_cost_gap(&cost, 2 * MS);
        cr_assert_eq(least, DSW_STOP_SAVED * DSW_STOP_SHARE + 1, "old hits are forgotten");
}
