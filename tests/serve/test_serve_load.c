/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrivals and latencies of detshare-serve: files, random times, percentiles, too many samples
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/arrivals.h"
#include "serve/samples.h"
#include "util/alloc.h"

static struct sv_arrivals arrivals;
static struct sv_why why;

static int parse(const char *text, double speed)
{
        sv_arrivals_clear(&arrivals);
        return sv_arrivals_parse(&arrivals, text, "file", speed, &why);
}

static void refused(const char *text, const char *words)
{
        cr_expect_lt(parse(text, 1), 0, "%s", text);
        cr_expect(strstr(why.text, words), "%s: said `%s`, not `%s`", text, why.text, words);
}

Test(arrivals, lines_are_times)
{
        cr_assert_eq(parse("0\n0.5\n\n 2 \n1e1", 1), 0, "%s", why.text);
        cr_assert_eq(arrivals.n, 4);
        cr_expect_eq(arrivals.ns[0], 0);
        cr_expect_eq(arrivals.ns[1], 500000000);
        cr_expect_eq(arrivals.ns[3], 10000000000);
        cr_assert_eq(parse("0.5\n1\n", 100), 0);
        cr_expect_eq(arrivals.ns[0], 5000000);
        cr_assert_eq(parse(" \n", 1), 0);
        cr_expect_eq(arrivals.n, 0);
        refused("1\n0.5\n", "file, number 2: it is before");
        refused("1\n-1\n", "number 2: this is no time");
        refused("1x\n", "this is no time");
        refused("nan", "this is no time");
        refused("1e300", "this is no time");
        sv_arrivals_clear(&arrivals);
}

Test(arrivals, a_list_is_of_gaps)
{
        cr_assert_eq(parse(" [0.5, 0, 1e0 ,2]\n", 2), 0, "%s", why.text);
        cr_assert_eq(arrivals.n, 4);
        cr_expect_eq(arrivals.ns[0], 250000000);
        cr_expect_eq(arrivals.ns[1], 250000000);
        cr_expect_eq(arrivals.ns[2], 750000000);
        cr_expect_eq(arrivals.ns[3], 1750000000);
        refused("[]", "no list");
        refused("[1", "neither , nor ]");
        refused("[1;2]", "neither , nor ]");
        refused("[1,]", "no list");
        refused("[-1]", "no list");
        refused("[1] 2", "something follows");
        sv_arrivals_clear(&arrivals);
}

Test(arrivals, random_times_are_a_seeds)
{
        struct sv_arrivals again, other;

        cr_assert_eq(sv_arrivals_random(&arrivals, 1000, 20, 7, &why), 0);
        cr_assert_eq(sv_arrivals_random(&again, 1000, 20, 7, &why), 0);
        cr_assert_eq(sv_arrivals_random(&other, 1000, 20, 8, &why), 0);
        /* expected number of arrivals: 20,000; standard deviation: 141 */
        cr_expect(arrivals.n > 19300 && arrivals.n < 20700, "%zu", arrivals.n);
        cr_expect(again.n == arrivals.n && !memcmp(again.ns, arrivals.ns, arrivals.n * sizeof(*arrivals.ns)));
        cr_expect(other.n != arrivals.n || memcmp(other.ns, arrivals.ns, arrivals.n * sizeof(*arrivals.ns)) != 0);
        cr_expect_leq(arrivals.ns[arrivals.n - 1], 20000000000);
        /* counts gaps below half of the mean: the share of exponential ones is 1 - exp(-0.5) = 39.3 % */
        size_t below = 0;
        for (size_t i = 1; i < arrivals.n; i++)
                below += arrivals.ns[i] - arrivals.ns[i - 1] < 500000;
        cr_expect(below * 1000 > arrivals.n * 373 && below * 1000 < arrivals.n * 413, "%zu", below);
        sv_arrivals_clear(&arrivals);
        sv_arrivals_clear(&again);
        sv_arrivals_clear(&other);
        cr_expect_lt(sv_arrivals_random(&arrivals, 0.001, 0.001, 1, &why), 0);
        cr_expect_lt(sv_arrivals_random(&arrivals, 1e6, 1000, 1, &why), 0);
        cr_expect(strstr(why.text, "there are more than"), "%s", why.text);
}

Test(arrivals, a_file_of_any_length)
{
        char path[] = "/tmp/ds-test-arrivals-XXXXXX";
        FILE *file = fdopen(mkstemp(path), "w");

        for (int i = 0; i < 40000; i++)
                fprintf(file, "%d.125\n", i);
        cr_assert_eq(fclose(file), 0);
        cr_assert_eq(sv_arrivals_read(&arrivals, path, 1, &why), 0, "%s", why.text);
        cr_expect_eq(arrivals.n, 40000);
        cr_expect_eq(arrivals.ns[39999], 39999125000000);
        sv_arrivals_clear(&arrivals);
        cr_assert_eq(unlink(path), 0);
        cr_expect_lt(sv_arrivals_read(&arrivals, path, 1, &why), 0);
        cr_expect(strstr(why.text, path), "%s", why.text);
}

static void add(struct sv_samples *samples, uint64_t arrival, uint64_t begin, uint64_t end)
{
        cr_assert_eq(sv_samples_add(samples, &(struct sv_sample){arrival, begin, end}), 0);
}

Test(samples, percentiles_are_values_that_there_were)
{
        struct sv_samples samples = {.n = 0};
        struct sv_times t;

        cr_assert_eq(sv_samples_latency(&samples, &t), 0);
        cr_expect(t.max == 0 && t.mean == 0);
        add(&samples, 100, 150, 400);
        cr_assert_eq(sv_samples_latency(&samples, &t), 0);
        cr_expect(t.p50 == 300 && t.p99 == 300 && t.max == 300);
        cr_assert_eq(sv_samples_service(&samples, &t), 0);
        cr_expect(t.p50 == 250 && t.mean == 250);
        sv_samples_clear(&samples);
        for (uint64_t i = 200; i > 0; i--)
                add(&samples, 1000 - i, 1000 - i, 1000);
        cr_assert_eq(sv_samples_latency(&samples, &t), 0);
        cr_expect(t.p50 == 100 && t.p95 == 190 && t.p99 == 198 && t.max == 200, "%llu", (unsigned long long)t.p50);
        cr_expect_eq(t.mean, 101);
        sv_samples_sort(&samples);
        cr_expect_eq(samples.list[0].arrival, 800);
        sv_samples_clear(&samples);
}

Test(samples, the_newest_are_kept)
{
        struct sv_samples samples = {.n = 0}, all = {.n = 0};
        struct sv_times t;

        for (uint64_t i = 0; i < SV_SAMPLES_MAX + 10; i++)
                add(&samples, i, i, i + (i < 10 ? 1000 : 1));
        cr_expect_eq(samples.n, SV_SAMPLES_MAX);
        cr_expect_eq(samples.total, SV_SAMPLES_MAX + 10);
        cr_assert_eq(sv_samples_join(&all, &samples), 0);
        cr_expect_eq(all.total, SV_SAMPLES_MAX + 10);
        cr_assert_eq(sv_samples_latency(&all, &t), 0);
        cr_expect_eq(t.max, 1);
        sv_samples_clear(&samples);
        sv_samples_clear(&all);
        ds_alloc_fail_after(0);
        cr_expect_lt(sv_samples_add(&samples, &(struct sv_sample){1, 1, 1}), 0);
        ds_alloc_fail_after(-1);
        cr_expect_eq(samples.total, 0);
}
