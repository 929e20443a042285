/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TGS: its control loop sample by sample with the published constants, and its effect on two clients
 */
#define DETSHARE_POLICY_SYMBOL policy_tgs
#include "policies/tgs.c"

#include "tests/unit/policy_harness.h"

/* --- sample by sample --------------------------------------------------------------------------------------------- */

#define RATE 1000000.0 /* blocks per 5 s of LS alone */

static struct tgs tgs;

static void feed(double rate)
{
        tgs.ls_blocks = rate * (double)tgs.interval_ns / (double)TGS_RATE_NS;
        sample(&tgs);
}

/* Puts the loop into its state at the first limit, with a known highest rate. */
static void setup(void)
{
        const int64_t values[] = {100, 50, 5000, 64, 0};
        const struct detshare_policy_config config = {.params = values};

        tgs = (struct tgs){0};
        tgs_init(&tgs, &config);
        sampling_begin(&tgs, 0);
        control_begin(&tgs, 0);
        cr_assert_eq(tgs.limit, 0, "nothing while LS is profiled");
        for (int i = 0; i < 5; i++)
                feed(RATE);
        cr_assert_eq(tgs.limit, 0);
        cr_assert(tgs.highest > 0.97 * RATE && tgs.highest <= RATE, "%f", tgs.highest);
        for (int i = 0; tgs.profiling && i < 3; i++)
                feed(RATE);
        feed(RATE);
        cr_assert_eq(tgs.samples, 1);
        cr_assert_eq(tgs.highest, RATE);
        cr_assert_eq(tgs.limit, 20000);
        cr_assert_eq(tgs.state, TGS_SLOW_START);
}

static void assert_limit(double expected)
{
        cr_assert(tgs.limit > expected - 0.01 && tgs.limit < expected + 0.01, "%f, not %f", tgs.limit, expected);
}

TestSuite(policy_tgs_loop, .init = setup);

Test(policy_tgs_loop, slow_start_grows_by_half)
{
        feed(RATE);
        assert_limit(30001);
        feed(RATE * 0.975);
        assert_limit(45002.5);
}

Test(policy_tgs_loop, slow_start_ends_where_ls_loses_3_percent)
{
        feed(RATE * 0.96);
        assert_limit(20000 / 1.5);
        cr_assert_eq(tgs.state, TGS_AVOIDANCE);
}

Test(policy_tgs_loop, slow_start_is_bounded)
{
        tgs.limit = 1e12;
        feed(RATE);
        assert_limit(1099511627776.0);
        tgs.current = 1e12;
        feed(RATE);
        assert_limit(1.5 * 1099511627776.0 + 1);
        feed(RATE);
        feed(RATE);
        assert_limit(3e12);
        tgs.current = 1e15;
        tgs.limit = 9e13;
        feed(RATE);
        assert_limit(1e14);
}

Test(policy_tgs_loop, avoidance_adds_a_little)
{
        tgs.state = TGS_AVOIDANCE;
        feed(RATE);
        assert_limit(21000); /* the limit rises by 1,000 blocks; 0.025% of the rate would be 250 only */
        tgs.highest = 8e6;
        for (int i = 0; i < TGS_WINDOW; i++)
                tgs.window[i] = 8e6;
        feed(8e6);
        assert_limit(23000);
        tgs.limit = 5e9;
        feed(8e6);
        assert_limit(4294967296.0);
}

Test(policy_tgs_loop, avoidance_takes_8_percent)
{
        tgs.state = TGS_AVOIDANCE;
        feed(RATE * 0.95);
        assert_limit(20000 * 0.92);
        tgs.limit = 5000;
        feed(RATE * 0.95);
        assert_limit(4000);
        tgs.limit = 500;
        feed(RATE * 0.95);
        assert_limit(0);
}

Test(policy_tgs_loop, avoidance_collapses_where_ls_loses_9_percent)
{
        tgs.state = TGS_AVOIDANCE;
        feed(RATE * 0.9);
        assert_limit(20000 * 0.92 / 10);
        cr_assert_eq(tgs.state, TGS_SLOW_START);
}

Test(policy_tgs_loop, a_rate_never_reached_again_is_given_up)
{
        for (int i = 0; i < 19; i++)
                feed(RATE * 0.87);
        cr_assert_eq(tgs.highest, RATE);
        feed(RATE * 0.87);
        cr_assert(tgs.highest > RATE * 0.79 && tgs.highest < RATE * 0.81, "%f", tgs.highest);
        cr_assert_eq(tgs.state, TGS_SLOW_START);
        for (int i = 0; i < 40; i++)
                feed(RATE * 0.87);
        cr_assert_gt(tgs.limit, 20000, "grows again from there");
}

Test(policy_tgs_loop, idle_ls_limits_nothing)
{
        for (int i = 0; i < 15; i++)
                feed(RATE);
        feed(0);
        feed(999);
        assert_limit(20000); /* two low samples: LS may be returning */
        cr_assert_eq(tgs.state, TGS_SLOW_START);
        feed(0);
        assert_limit(4294967296.0);
}

Test(policy_tgs_loop, idle_is_not_known_before_15_samples)
{
        for (int i = 0; i < 3; i++)
                feed(0);
        cr_assert_lt(tgs.limit, 20000);
}

Test(policy_tgs_loop, ls_that_comes_back_is_profiled_anew)
{
        for (int i = 0; i < 15; i++)
                feed(RATE);
        for (int i = 0; i < 30; i++)
                feed(0);
        cr_assert_leq(tgs.highest, 2);
        cr_assert_eq(tgs.profiling, 0);
        for (int i = 0; i < 3; i++)
                feed(RATE);
        cr_assert_gt(tgs.profiling, 0);
        for (int i = 0; i < 9; i++)
                feed(RATE);
        cr_assert_eq(tgs.profiling, 0);
        cr_assert_eq(tgs.highest, RATE);
}

Test(policy_tgs_loop, the_highest_rate_is_measured_alone)
{
        control_end(&tgs);
        cr_assert_eq(tgs.highest, RATE * 0.8);
        for (int i = 0; i < 3; i++)
                feed(RATE);
        cr_assert_eq(tgs.highest, RATE);
        for (int i = 0; i < 8; i++)
                feed(RATE * 0.9);
        cr_assert_eq(tgs.highest, RATE);
        for (int i = 0; i < 8; i++)
                feed(RATE * 0.5);
        cr_assert_eq(tgs.highest, RATE * 0.5);
}

Test(policy_tgs_loop, a_small_change_only_raises_the_highest_rate)
{
        for (int i = 0; i < 3; i++)
                feed(RATE * 1.08);
        cr_assert_eq(tgs.highest, RATE * 1.08);
        cr_assert_eq(tgs.profiling, 0);
        for (int i = 0; i < 6; i++)
                feed(RATE);
        cr_assert_eq(tgs.highest, RATE * 1.08);
}

Test(policy_tgs_loop, a_change_by_more_than_a_fifth_is_profiled)
{
        double limit;

        for (int i = 0; i < 2; i++)
                feed(RATE * 2);
        limit = tgs.limit;
        feed(RATE * 2);
        cr_assert_geq(tgs.profiling, 1);
        cr_assert_eq(tgs.highest, RATE * 2 * 0.975);
        for (int i = 0; i < 3; i++)
                feed(RATE * 2);
        assert_limit(limit); /* the limit stays during profiling */
        for (int i = 0; i < 8; i++)
                feed(RATE * 2);
        cr_assert_eq(tgs.profiling, 0);
        cr_assert_eq(tgs.highest, RATE * 2);
        for (int i = 0; i < 8; i++)
                feed(RATE);
        cr_assert(tgs.highest >= RATE && tgs.highest <= RATE * 1.025, "%f", tgs.highest);
}

Test(policy_tgs_loop, a_rate_can_be_smoothed)
{
        tgs.smooth = 0.98;
        feed(RATE * 0.5);
        assert_limit(30001); /* the smoothed rate falls by 1% only, so the limit still rises */
        cr_assert(tgs.rate > RATE * 0.989 && tgs.rate < RATE * 0.991);
}

/* --- two clients -------------------------------------------------------------------------------------------------- */

static struct ph_kernel work = {.name = "work", .blocks = 16, .per_sm = 8, .block_ns = US * 100};
static struct ph_kernel batch = {.name = "batch", .blocks = 1000, .per_sm = 8, .block_ns = US * 125};
static struct ph_kernel one = {.name = "one", .blocks = 16, .per_sm = 8, .block_ns = US * 100};
static struct ph_client *ls, *be;

/* An LS kernel takes 1.5 times as long if other kernels run when it starts. */
static uint64_t hurt(const struct ph_kernel *kernel, uint64_t alone_ns, uint32_t n_others)
{
        (void)kernel;
        return n_others ? alone_ns * 3 / 2 : alone_ns;
}

static void open_tgs(void)
{
        ph_open(8, "tgs", NULL);
        PH_KERNELS_ARE(&work, &batch, &one);
        ls = ph_ls(0);
        be = ph_be();
}

/* LS is profiled for 100 ms, in five intervals of two windows each. */
Test(policy_tgs, one_kernel_per_window_while_ls_is_profiled)
{
        open_tgs();
        ph_loop(ls, &work, 2);
        ph_loop(be, &batch, 2);
        ph_run(500 * MS);
        for (uint64_t at = 50 * MS; at < 500 * MS; at += 50 * MS)
                cr_assert_eq(ph_launches(be, at, at + 50 * MS), 1, "%lu ms", (unsigned long)(at / MS));
        ph_close();
}

/* 50 kernels of 1 ms fit into a window; the limit of 20000 blocks ends with the kernel that exceeds it. */
Test(policy_tgs, blocks_of_a_window_are_limited)
{
        uint64_t first = 0;

        open_tgs();
        ph_loop(ls, &work, 2);
        ph_loop(be, &batch, 2);
        ph_run(2000 * MS);
        for (uint64_t at = 0; at < 2000 * MS && !first; at += 50 * MS)
                if (ph_launches(be, at, at + 50 * MS) > 1)
                        first = at;
        cr_assert(first >= 500 * MS && first <= 900 * MS, "%lu", (unsigned long)(first / MS));
        cr_assert_eq(ph_launches(be, first, first + 50 * MS), 21);
        cr_assert_eq(ph_launches(be, first + 50 * MS, first + 100 * MS), 21);
        cr_assert_eq(ph_launches(be, first + 100 * MS, first + 150 * MS), 31, "slow start");
        cr_assert_geq(ph_launches(be, first + 200 * MS, first + 250 * MS), 45);
        cr_assert_geq(ph_busy(be, first + 500 * MS, 2000 * MS), 990, "LS loses nothing: BE gets everything");
        ph_close();
}

Test(policy_tgs, ls_keeps_its_rate_beside_be_that_hurts_it)
{
        uint32_t rate, alone;

        work.beside = hurt;
        open_tgs();
        ph_loop(ls, &work, 1);
        ph_run(5000 * MS);
        alone = ph_launches(ls, 4000 * MS, 5000 * MS);
        ph_loop(be, &batch, 2);
        ph_run(15000 * MS);
        rate = ph_launches(ls, 10000 * MS, 15000 * MS) / 5;
        cr_assert_geq(rate, alone * 90 / 100, "%u of %u", rate, alone);
        cr_assert_geq(ph_launches(be, 10000 * MS, 15000 * MS), 100, "one per window at least");
        cr_assert_leq(ph_busy(be, 10000 * MS, 15000 * MS), 250);
        ph_close();
}

Test(policy_tgs, nothing_is_limited_when_ls_is_gone)
{
        open_tgs();
        ph_loop(be, &batch, 2);
        ph_run(100 * MS);
        cr_assert_geq(ph_busy(be, 0, 100 * MS), 990, "there was none yet");
        ph_request(ls, &one, 1);
        ph_run(400 * MS);
        cr_assert_leq(ph_launches(be, 150 * MS, 400 * MS), 6);
        ph_run(6000 * MS);
        cr_assert_geq(ph_busy(be, 5200 * MS, 6000 * MS), 990);
        ph_close();
}

Test(policy_tgs, best_effort_that_comes_back_is_profiled_again)
{
        open_tgs();
        ph_loop(ls, &work, 2);
        ph_loop(be, &batch, 2);
        ph_run(2000 * MS);
        cr_assert_geq(ph_busy(be, 1900 * MS, 2000 * MS), 990);
        ph_loop(be, NULL, 0);
        ph_run(4000 * MS);
        ph_loop(be, &batch, 2);
        ph_run(4100 * MS);
        cr_assert_geq(ph_busy(be, 4000 * MS, 4100 * MS), 990, "it was not gone for long");
        ph_loop(be, NULL, 0);
        ph_run(9500 * MS);
        ph_loop(be, &batch, 2);
        ph_run(10000 * MS);
        cr_assert_leq(ph_launches(be, 9500 * MS, 10000 * MS), 11);
        ph_close();
}
