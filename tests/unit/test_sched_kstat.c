/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times against SMs (daemon/sched/kstat.h): numbers of points and kernels that are kept, and adaptation to changed
 * times; test_sched_mechanisms.c tests the source of the samples
 */
#include "sched/kstat.h"

#include <criterion/criterion.h>

#define US 1000ULL

Test(sched_kstat, points_are_bounded_and_the_weakest_goes)
{
        ds_kstat *table;
        struct ds_kstat_row *row;
        const struct ds_kstat_points *points;

        cr_assert_eq(ds_kstat_new(64, &table), 0);
        row = ds_kstat_at(table, ds_kstat_touch(table, 1), 1);
        cr_assert_null(ds_kstat_points(table, row), "none until there is a sample");
        for (uint32_t i = 0; i < DETSHARE_POINTS_MAX; i++)
                for (uint32_t k = 0; k < (i == 5 || i == DETSHARE_POINTS_MAX - 1 ? 1 : 3); k++)
                        ds_kstat_point_sample(table, row, 200 - 2 * i, 1000 + i);
        points = ds_kstat_points(table, row);
        cr_assert_eq(points->n, DETSHARE_POINTS_MAX);
        for (uint32_t i = 1; i < points->n; i++)
                cr_assert_lt(points->at[i - 1].n_sms, points->at[i].n_sms);
        /* two points have the fewest samples: the first of them is evicted */
        ds_kstat_point_sample(table, row, 1, 5000);
        cr_assert_eq(points->n, DETSHARE_POINTS_MAX);
        cr_assert_eq(points->at[0].n_sms, 1);
        cr_assert_eq(points->at[1].n_sms, 200 - 2 * (DETSHARE_POINTS_MAX - 2));
        /* the point at all SMs of the GPU is never evicted, however few samples it has */
        for (uint32_t i = 0; i < 10; i++)
                ds_kstat_point_sample(table, row, 300 + i, 5000);
        cr_assert_eq(points->at[points->n - 1].n_sms, 309);
        cr_assert_eq(points->at[points->n - 1].samples, 1);
        table = ds_kstat_free(table);
}

/* A program first runs a kernel with little work and then with more: the old time must not stay. */
Test(sched_kstat, points_follow_a_kernel_that_has_other_arguments_now)
{
        const struct detshare_profile_point *point;
        struct ds_kstat_row *row;
        ds_kstat *table;

        cr_assert_eq(ds_kstat_new(256, &table), 0);
        row = ds_kstat_at(table, ds_kstat_touch(table, 1), 1);
        for (int i = 0; i < 100; i++) {
                ds_kstat_sample(row, 100 * US);
                ds_kstat_point_sample(table, row, 132, 100 * US);
        }
        point = ds_kstat_points(table, row)->at;
        for (int i = 0; i < 31; i++) {
                ds_kstat_sample(row, 2000 * US);
                cr_assert_not(ds_kstat_point_wanted(table, row, 132, 4));
        }
        ds_kstat_sample(row, 2000 * US);
        cr_assert(ds_kstat_point_wanted(table, row, 132, 4), "it takes longer, and nobody has looked for a while");
        ds_kstat_point_sample(table, row, 132, 2000 * US);
        cr_assert_leq(point->mean_ns, 160 * US, "once may be anything");
        cr_assert_not(ds_kstat_point_wanted(table, row, 132, 4));
        ds_kstat_point_sample(table, row, 132, 2000 * US);
        cr_assert_eq(point->mean_ns, 2000 * US);
        cr_assert_eq(point->samples, 102, "a profile that is stored takes it for better known");
        /* the point follows when the old time returns, but not after single deviating samples */
        for (int i = 0; i < 4; i++)
                ds_kstat_point_sample(table, row, 132, 100 * US);
        cr_assert_geq(point->mean_ns, 1500 * US);
        for (int i = 0; i < 100; i++)
                ds_kstat_sample(row, 100 * US);
        cr_assert(ds_kstat_point_wanted(table, row, 132, 4));
        ds_kstat_point_sample(table, row, 132, 100 * US);
        cr_assert_eq(point->mean_ns, 100 * US);
        ds_kstat_free(table);
}

/* Only two deviating samples in a row at one SM count, with no usual one between them, change a point. */
Test(sched_kstat, points_ignore_rare_deviations)
{
        const struct ds_kstat_points *points;
        struct ds_kstat_row *row;
        ds_kstat *table;

        cr_assert_eq(ds_kstat_new(256, &table), 0);
        row = ds_kstat_at(table, ds_kstat_touch(table, 1), 1);
        for (uint32_t n_sms = 66; n_sms <= 132; n_sms += 66)
                for (int i = 0; i < 50; i++)
                        ds_kstat_point_sample(table, row, n_sms, 100 * US);
        points = ds_kstat_points(table, row);
        for (int i = 0; i < 50; i++)
                ds_kstat_sample(row, 2000 * US);
        for (int i = 0; i < 4; i++) {
                ds_kstat_point_sample(table, row, 132, 400 * US);
                ds_kstat_point_sample(table, row, 132, 110 * US);
        }
        cr_assert_leq(points->at[1].mean_ns, 150 * US, "usual ones between");
        ds_kstat_point_sample(table, row, 132, 400 * US);
        ds_kstat_point_sample(table, row, 66, 400 * US);
        cr_assert_leq(points->at[0].mean_ns, 120 * US, "one each");
        ds_kstat_point_sample(table, row, 132, 400 * US);
        cr_assert_leq(points->at[1].mean_ns, 180 * US);
        ds_kstat_point_sample(table, row, 66, 100 * US);
        ds_kstat_point_sample(table, row, 132, 400 * US);
        cr_assert_eq(points->at[1].mean_ns, 400 * US, "what others take is nothing to it");
        /* a kernel that is long in four of five launches: two short samples in a row do not change its point */
        for (int i = 0; i < 50; i++)
                ds_kstat_sample(row, i % 5 ? 400 * US : 50 * US);
        for (int i = 0; i < 2; i++)
                ds_kstat_point_sample(table, row, 132, 50 * US);
        cr_assert_geq(points->at[1].mean_ns, 350 * US, "%llu", (unsigned long long)points->at[1].mean_ns);
        ds_kstat_free(table);
}

Test(sched_kstat, a_cold_first_launch_does_not_count)
{
        struct ds_kstat_row *row;
        ds_kstat *table;

        cr_assert_eq(ds_kstat_new(256, &table), 0);
        row = ds_kstat_at(table, ds_kstat_touch(table, 1), 1);
        ds_kstat_point_sample(table, row, 132, 9000000);
        ds_kstat_point_sample(table, row, 132, 3000);
        ds_kstat_point_sample(table, row, 132, 5000);
        cr_assert_eq(ds_kstat_points(table, row)->at[0].samples, 2);
        cr_assert_eq(ds_kstat_points(table, row)->at[0].mean_ns, 4000);
        ds_kstat_point_sample(table, row, 132, 1);
        cr_assert_eq(ds_kstat_points(table, row)->at[0].samples, 3, "a later one does");
        ds_kstat_free(table);
}

Test(sched_kstat, points_of_few_kernels_are_kept)
{
        ds_kstat *table;
        struct ds_kstat_row *row;
        uint64_t taken;
        uint32_t kept = 0;

        cr_assert_eq(ds_kstat_new(DS_KSTAT_ROWS_MAX, &table), 0);
        for (uint64_t key = 1; key <= 2 * DS_KSTAT_POINTS_MAX; key++) {
                row = ds_kstat_at(table, ds_kstat_touch(table, key), key);
                ds_kstat_point_sample(table, row, 10, key);
                /* the kernel with key 1 is in constant use, so its row stays */
                ds_kstat_point_sample(table, ds_kstat_at(table, ds_kstat_touch(table, 1), 1), 10, 1);
        }
        taken = ds_kstat_taken(table);
        cr_assert(taken >= DS_KSTAT_POINTS_MAX && taken <= DS_KSTAT_POINTS_MAX + 1);
        for (uint64_t key = 1; key <= 2 * DS_KSTAT_POINTS_MAX; key++) {
                row = ds_kstat_at(table, ds_kstat_touch(table, key), key);
                if (!ds_kstat_points(table, row))
                        continue;
                cr_assert_eq(ds_kstat_points(table, row)->n, 1);
                cr_assert_eq(ds_kstat_points(table, row)->at[0].mean_ns, key, "its own, not another one's");
                kept++;
        }
        cr_assert_eq(kept, DS_KSTAT_POINTS_MAX);
        row = ds_kstat_at(table, ds_kstat_touch(table, 1), 1);
        cr_assert_not_null(ds_kstat_points(table, row));
        /* evicting a row frees its points */
        for (uint64_t key = 1000000; key < 1000000 + DS_KSTAT_ROWS_MAX; key++)
                ds_kstat_touch(table, key);
        cr_assert_eq(ds_kstat_taken(table), taken + kept);
        table = ds_kstat_free(table);
}
