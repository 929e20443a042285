/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the policy that measures profiles
 *
 * A kernel's duration falls in stairs with the number of SMs: each stair is one wave of blocks fewer. The policy finds the
 * SMs of every stair, with an error of at most one rung, with few measurements. No other kernel runs beside a measured
 * kernel.
 */
#include "tests/unit/policy_harness.h"

static struct ph_kernel wide = {.name = "wide", .blocks = 132, .block_ns = 10 * US};
static struct ph_kernel narrow = {.name = "narrow", .blocks = 9, .block_ns = 5 * US};
static struct ph_kernel together = {.name = "together", .blocks = 400, .block_ns = 7 * US, .all_resident = 1};

static uint64_t odd_time(const struct ph_kernel *kernel, uint32_t n_sms)
{
        return n_sms > 80 ? 20 * US : n_sms > 20 ? 21 * US + US / 2 : 60 * US;
}
static struct ph_kernel odd = {.name = "odd", .blocks = 500, .time = odd_time};

static struct ds_sched_profile rows[16];
static size_t n_rows;

static const struct ds_sched_profile *row_of(const struct ph_kernel *kernel)
{
        for (size_t i = 0; i < n_rows; i++)
                if (rows[i].key == ph_key(kernel))
                        return &rows[i];
        cr_assert(0, "nothing is known of %s", kernel->name);
        return NULL;
}

/* Whether the ladder has a rung with more than `low` and fewer than `high` SMs. */
static int step_between(uint32_t low, uint32_t high)
{
        for (uint32_t i = 0; i < ph.sched->ladder.n; i++)
                if (ph.sched->ladder.views[i].n_sms > low && ph.sched->ladder.views[i].n_sms < high)
                        return 1;
        return 0;
}

static uint32_t smallest(void)
{
        uint32_t n = UINT32_MAX;

        for (uint32_t i = 0; i < ph.sched->ladder.n; i++)
                n = DS_MIN(n, ph.sched->ladder.views[i].n_sms);
        return n;
}

/* Asserts that two neighbouring points of the kernel have equal times, or that the ladder has no rung between them. */
static void assert_bracketed(const struct ph_kernel *kernel)
{
        const struct ds_sched_profile *profile = row_of(kernel);

        cr_assert_eq(profile->points[profile->n_points - 1].n_sms, 132);
        for (uint32_t i = 0; i < profile->n_points; i++)
                cr_assert_eq(profile->points[i].mean_ns, ph_time(kernel, profile->points[i].n_sms), "%s", kernel->name);
        for (uint32_t i = 1; i < profile->n_points; i++) {
                const struct detshare_profile_point *a = &profile->points[i - 1], *b = &profile->points[i];

                cr_assert(a->mean_ns <= b->mean_ns * 1030 / 1000 || !step_between(a->n_sms, b->n_sms),
                        "%s: between %u and %u", kernel->name, a->n_sms, b->n_sms);
        }
}

static void assert_alone(void)
{
        for (uint32_t i = 1; i < ph.n_log; i++)
                cr_assert_geq(ph.log[i].launch_ns, ph.log[i - 1].end_ns, "launch %u", i);
}

Test(policy_profile, finds_every_stair)
{
        struct ph_client *a, *b;

        ph_open(66, "profile", NULL);
        a = ph_be();
        b = ph_ls(0);
        for (int i = 0; i < 600; i++) {
                ph_submit(a, 0, i % 3 ? &wide : &narrow, 0);
                ph_submit(b, 0, i % 2 ? &odd : &together, 0);
        }
        ph_run(UINT64_MAX);
        n_rows = ds_sched_profiles_changed(ph.sched, rows, DS_ARRAY_SIZE(rows));
        cr_assert_eq(n_rows, 4);
        assert_bracketed(&wide);
        assert_bracketed(&odd);
        assert_bracketed(&narrow);
        assert_bracketed(&together);
        cr_assert_eq(row_of(&wide)->points[0].n_sms, smallest());
        cr_assert_geq(row_of(&together)->points[0].n_sms, 50, "%u do not hold it", row_of(&together)->points[0].n_sms);
        cr_assert_leq(row_of(&narrow)->n_points, 8, "it has two stairs at most");
        /* a known kernel runs on all SMs */
        for (uint32_t i = ph.n_log - 20; i < ph.n_log; i++)
                cr_assert_eq(ph.log[i].n_sms, 132);
        ph_close();
}

Test(policy_profile, one_at_a_time_until_all_is_known)
{
        struct ph_client *a, *b;

        ph_open(66, "profile", "samples=2", NULL);
        a = ph_be();
        b = ph_be();
        for (int i = 0; i < 3; i++) {
                ph_submit(a, 0, &wide, 0);
                ph_submit(b, 0, &odd, 0);
        }
        ph_run(UINT64_MAX);
        assert_alone();
        ph_close();
}

/* Points that a file has given are not measured again. */
Test(policy_profile, continues_after_a_restart)
{
        struct ds_sched_profile known = {.n_points = 2};
        struct ph_client *a;

        ph_open(66, "profile", NULL);
        known.key = ph_key(&narrow);
        known.points[0] = (struct detshare_profile_point){.n_sms = smallest(), .samples = 9, .mean_ns = 5000};
        known.points[1] = (struct detshare_profile_point){.n_sms = 132, .samples = 9, .mean_ns = 5000};
        ds_sched_profile_put(ph.sched, &known);
        a = ph_be();
        for (int i = 0; i < 10; i++)
                ph_submit(a, 0, &narrow, 0);
        ph_run(UINT64_MAX);
        for (uint32_t i = 0; i < ph.n_log; i++)
                cr_assert_eq(ph.log[i].n_sms, 132);
        ph_close();
}
