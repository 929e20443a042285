/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address windows: whatever is taken and given back in whatever order, windows are aligned, inside the area and
 * disjoint; an exhausted area says so; and when all are back the largest can be had again.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "supervisor/window.h"
#include "util/macro.h"

#define SMALLEST DS_GIB(4)

static ds_windows *area(uint64_t bytes)
{
        ds_windows *w = NULL;

        cr_assert_eq(ds_windows_new(DS_WINDOW_AREA_BASE, bytes, SMALLEST, &w), 0);
        return w;
}

static int by_base(const void *a, const void *b)
{
        const struct ds_window *x = a, *y = b;

        return x->base < y->base ? -1 : x->base > y->base;
}

static void check_disjoint(const struct ds_window *held, size_t n, uint64_t area_bytes)
{
        struct ds_window *sorted = malloc(n * sizeof(*sorted) + 1);

        for (size_t i = 0; i < n; i++)
                sorted[i] = held[i];
        qsort(sorted, n, sizeof(*sorted), by_base);
        for (size_t i = 0; i < n; i++) {
                cr_assert_eq(sorted[i].bytes & (sorted[i].bytes - 1), 0);
                cr_assert_eq(sorted[i].base % sorted[i].bytes, 0);
                cr_assert_geq(sorted[i].base, DS_WINDOW_AREA_BASE);
                cr_assert_leq(sorted[i].base + sorted[i].bytes, DS_WINDOW_AREA_BASE + area_bytes);
                if (i)
                        cr_assert_leq(sorted[i - 1].base + sorted[i - 1].bytes, sorted[i].base);
        }
        free(sorted);
}

Test(window, random_takes_and_releases)
{
        for (unsigned seed = 1; seed <= 20; seed++) {
                unsigned state = seed;
                ds_windows *w = area(DS_TIB(1));
                struct ds_window held[300];
                uint64_t sum = 0;
                size_t n = 0;

                for (int step = 0; step < 3000; step++) {
                        if (n < 300 && rand_r(&state) % 5 < 3) {
                                uint64_t want = SMALLEST << rand_r(&state) % 6;
                                int r = ds_windows_take(w, want, &held[n]);

                                if (r == DS_WINDOWS_E_EXHAUSTED) {
                                        cr_assert_eq(sum, DS_TIB(1), "seed %u: refused with room left", seed);
                                        continue;
                                }
                                cr_assert_eq(r, 0);
                                cr_assert_leq(held[n].bytes, want);
                                sum += held[n++].bytes;
                        } else if (n) {
                                size_t i = (size_t)rand_r(&state) % n;

                                sum -= held[i].bytes;
                                ds_windows_release(w, &held[i]);
                                cr_assert_eq(held[i].bytes, 0);
                                held[i] = held[--n];
                        }
                        cr_assert_eq(ds_windows_count(w), n);
                        cr_assert_eq(ds_windows_unused(w), DS_TIB(1) - sum);
                        if (step % 100 == 0)
                                check_disjoint(held, n, DS_TIB(1));
                }
                while (n)
                        ds_windows_release(w, &held[--n]);
                cr_assert_eq(ds_windows_take(w, DS_TIB(1), &held[0]), 0);
                cr_assert_eq(held[0].bytes, DS_TIB(1), "seed %u: the area did not melt together", seed);
                ds_windows_release(w, &held[0]);
                ds_windows_free(w);
        }
}

Test(window, a_thousand_sessions_fit)
{
        ds_windows *w = area(DS_WINDOW_AREA_BYTES);
        static struct ds_window held[20000];
        size_t n = 0;

        cr_assert_eq(ds_windows_choose(w), DS_MIN(DS_WINDOW_MAX, DS_WINDOW_AREA_BYTES / 256));
        while (ds_windows_take(w, ds_windows_choose(w), &held[n]) == 0) {
                cr_assert_geq(held[n].bytes, DS_WINDOW_MIN);
                cr_assert_leq(held[n].bytes, DS_WINDOW_MAX);
                n++;
        }
        cr_assert_geq(n, 1024);
        check_disjoint(held, n, DS_WINDOW_AREA_BYTES);
        while (n)
                ds_windows_release(w, &held[--n]);
        cr_assert_eq(ds_windows_unused(w), DS_WINDOW_AREA_BYTES);
        ds_windows_free(w);
}

Test(window, a_smaller_one_when_the_size_is_gone)
{
        ds_windows *w = area(DS_GIB(16));
        struct ds_window a, b, c, d;

        cr_assert_eq(ds_windows_take(w, DS_GIB(8), &a), 0);
        cr_assert_eq(ds_windows_take(w, DS_GIB(4), &b), 0);
        cr_assert_eq(ds_windows_take(w, DS_GIB(8), &c), 0);
        cr_assert_eq(c.bytes, DS_GIB(4));
        cr_assert_eq(ds_windows_take(w, DS_GIB(4), &d), DS_WINDOWS_E_EXHAUSTED);
        ds_windows_release(w, &a);
        ds_windows_release(w, &b);
        ds_windows_release(w, &c);
        ds_windows_release(w, &c); /* empty: nothing happens */
        ds_windows_free(w);
}
