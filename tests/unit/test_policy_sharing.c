/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to share (policies/detshare/sharing.h): which part of the SMs best effort has beside requests that never pause
 */
#include <criterion/criterion.h>

#include "policies/detshare/mean.h"
#include "policies/detshare/sharing.h"

#define MS 1000000ull

/* Speeds of requests and of BE side by side, per way, permille. */
struct speeds {
        uint64_t ls, be;
};

static struct sharing sharing;
static int absent;       /* 1: BE has no work */
static uint64_t work_ns; /* work of BE */
static uint64_t late_ns; /* time by which requests beside BE on all SMs take longer than usual, ns */

/* A request of 10 ms that may take slack_ns longer. Returns its way. */
static uint32_t next_request(const struct speeds *ways, uint32_t n_ways, uint64_t slack_ns)
{
        const struct speeds *speeds;
        uint64_t may_ns, length_ns;

        sharing_begin(&sharing, work_ns);
        sharing_choose(&sharing, n_ways, slack_ns, 10 * MS, 0);
        speeds = &ways[sharing.now];
        may_ns = min_u64(sharing_time(&sharing, sharing.now, slack_ns), 10 * MS * 1000 / speeds->ls);
        length_ns = may_ns + 10 * MS - may_ns * speeds->ls / 1000;
        length_ns += sharing.now ? 0 : late_ns;
        work_ns += may_ns * speeds->be / 1000;
        sharing_learn(&sharing, length_ns, may_ns, absent ? 0 : may_ns, 10 * MS, work_ns);
        return sharing.now;
}

/* Requests in each way, of 1,000 after the first 100. */
static void count(const struct speeds *ways, uint32_t n_ways, uint64_t slack_ns, uint32_t *ret)
{
        work_ns = 0;
        sharing = (struct sharing){.now = 0};
        for (uint32_t i = 0; i < 1100; i++) {
                const uint32_t way = next_request(ways, n_ways, slack_ns);

                ret[way] += i >= 100;
        }
}

/* With little slack BE achieves more on a part of the SMs, with much slack on all of them. */
Test(policy_sharing, the_best_way_depends_on_the_slack)
{
        static const struct speeds ways[] = {{550, 950}, {900, 500}, {950, 300}, {980, 150}};
        uint32_t little[SHARING_WAYS] = {0}, much[SHARING_WAYS] = {0};

        count(ways, SHARING_WAYS, 15 * MS / 10, little);
        cr_assert_geq(little[1], 980, "%u", little[1]);
        count(ways, SHARING_WAYS, 20 * MS, much);
        cr_assert_geq(much[0], 980, "%u", much[0]);
        for (uint32_t i = 1; i < SHARING_WAYS; i++)
                cr_assert_geq(much[i], 3, "way %u is measured again", i);
}

/* A session with pauses has one way. */
Test(policy_sharing, a_single_way_is_all_sms)
{
        static const struct speeds ways[] = {{550, 950}, {900, 500}};
        uint32_t n[SHARING_WAYS] = {0};

        count(ways, 1, 15 * MS / 10, n);
        cr_assert_eq(n[0], 1000);
        cr_assert_eq(sharing.best, 0);
}

/* Two ways by which BE gains nearly as much do not alternate, although each measurement differs a little. */
Test(policy_sharing, ways_do_not_alternate)
{
        struct speeds ways[] = {{550, 950}, {900, 500}, {900, 500}};
        uint32_t changes = 0, last = 0;

        work_ns = 0;
        sharing = (struct sharing){.now = 0};
        for (uint32_t i = 0; i < 2000; i++) {
                ways[1].be = 490 + i * 7 % 20;
                ways[2].be = 490 + i * 11 % 20;
                next_request(ways, 3, 15 * MS / 10);
                changes += i > 100 && sharing.best != last;
                last = sharing.best;
        }
        cr_assert_eq(changes, 0, "%u", changes);
}

/* A way that cannot be measured, because BE has no work meanwhile, does not keep the others from being used. */
Test(policy_sharing, ways_that_cannot_be_measured_are_left)
{
        static const struct speeds ways[] = {{550, 950}, {900, 500}};
        uint32_t n[SHARING_WAYS] = {0};

        work_ns = 0;
        sharing = (struct sharing){.now = 0};
        absent = 1;
        for (uint32_t i = 0; i < 400; i++)
                n[next_request(ways, 2, 15 * MS / 10)]++;
        absent = 0;
        cr_assert(!sharing_is_known(&sharing.way[1]));
        cr_assert_geq(n[0], 300, "%u", n[0]);
        cr_assert(n[1] >= 64 && n[1] <= 80, "%u", n[1]);
}

/* Requests whose slack is too short to measure a way use up none of its tries. */
Test(policy_sharing, a_short_slack_measures_nothing)
{
        static const struct speeds ways[] = {{550, 950}, {900, 500}};
        uint32_t n[SHARING_WAYS] = {0};

        work_ns = 0;
        sharing = (struct sharing){.now = 0};
        for (uint32_t i = 0; i < 400; i++)
                next_request(ways, 2, MS / 10);
        cr_assert(!sharing_is_known(&sharing.way[1]));
        for (uint32_t i = 0; i < 100; i++)
                n[next_request(ways, 2, 15 * MS / 10)]++;
        cr_assert(sharing_is_known(&sharing.way[1]));
        cr_assert_geq(n[1], 80, "%u", n[1]);
}

/* Ways are measured again although the caller passes over one request in 64, in step with the choices. */
Test(policy_sharing, ways_are_measured_again)
{
        static const struct speeds ways[] = {{550, 950}, {900, 500}, {950, 300}, {980, 150}};
        uint32_t n[SHARING_WAYS] = {0};

        work_ns = 0;
        sharing = (struct sharing){.now = 0};
        for (uint32_t i = 0; i < 20000; i++) {
                if (i % 64) {
                        n[next_request(ways, SHARING_WAYS, 15 * MS / 10)] += i > 1000;
                        continue;
                }
                sharing_begin(&sharing, work_ns);
                sharing_choose(&sharing, SHARING_WAYS, 15 * MS / 10, 10 * MS, 0);
        }
        for (uint32_t i = 0; i < SHARING_WAYS; i++)
                cr_assert_geq(n[i], 50, "way %u: %u", i, n[i]);
}

/* A way in which two requests take longer than the slack allows is not measured six times more. */
Test(policy_sharing, a_way_that_costs_the_objective_is_left)
{
        static const struct speeds ways[] = {{50, 950}, {900, 500}};
        uint32_t n[SHARING_WAYS] = {0};

        work_ns = 0;
        sharing = (struct sharing){.now = 0};
        late_ns = MS;
        for (uint32_t i = 0; i < 100; i++)
                n[next_request(ways, 2, 15 * MS / 10)]++;
        late_ns = 0;
        cr_assert_leq(n[0], 2, "%u", n[0]);
}

/* Another job: nothing is known of it. */
Test(policy_sharing, another_job_is_measured_anew)
{
        static const struct speeds ways[] = {{550, 950}, {900, 500}};
        uint32_t n[SHARING_WAYS] = {0};

        count(ways, 2, 15 * MS / 10, n);
        cr_assert_eq(sharing.best, 1);
        sharing_forget(&sharing);
        cr_assert_eq(sharing.best, 0);
        for (uint32_t i = 0; i < SHARING_WAYS; i++)
                cr_assert(!sharing_is_known(&sharing.way[i]), "way %u", i);
        cr_assert_eq(next_request(ways, 2, 15 * MS / 10), 1, "the part with the fewest SMs is measured first");
}
