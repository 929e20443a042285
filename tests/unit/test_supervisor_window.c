/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Address windows: in any order of taking and releasing they are aligned, inside the area and disjoint. An exhausted
 * area returns an error. After all releases the largest window is available again.
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

#define H200 DS_GIB(139)

Test(window, the_first_sessions_can_have_all_memory)
{
        static const struct {
                uint64_t memory, window;
        } rows[] = {
                {H200, DS_GIB(512)},
                {DS_GIB(204), DS_GIB(512)},
                {DS_GIB(205), DS_TIB(1)},
                {DS_GIB(288), DS_TIB(1)},
                {DS_GIB(24), DS_GIB(512)},
                {0, DS_GIB(512)},
                {UINT64_MAX, DS_WINDOW_MAX},
        };
        const unsigned full = DS_WINDOW_AREA_BYTES == DS_TIB(64) ? 24 : 12;
        ds_windows *w = area(DS_WINDOW_AREA_BYTES);
        struct ds_window held[30];

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++)
                cr_assert_eq(ds_windows_choose(w, rows[i].memory, 0), rows[i].window, "row %zu", i);
        for (unsigned i = 0; i < full; i++) {
                cr_assert_eq(ds_windows_choose(w, H200, 0), DS_GIB(512), "window %u", i);
                cr_assert_eq(ds_windows_take(w, DS_GIB(512), &held[i]), 0);
                cr_assert_eq(held[i].bytes, DS_GIB(512));
        }
        cr_assert_leq(ds_windows_choose(w, H200, 0), DS_GIB(128));
        /* a released window is available in full size */
        ds_windows_release(w, &held[3]);
        cr_assert_eq(ds_windows_choose(w, H200, 0), DS_GIB(512));
        for (unsigned i = 0; i < full; i++)
                ds_windows_release(w, &held[i]);
        ds_windows_free(w);
}

/* An obstacle at the window's first address does not shrink the window; a limited address space ends at the smallest
 * window. */
Test(window, refused_windows_shrink)
{
        static const uint64_t gib[] = {512, 512, 256, 128, 64, 32, 16, 8, 4, 4, 4};
        ds_windows *w = area(DS_WINDOW_AREA_BYTES);

        for (unsigned i = 0; i < DS_ARRAY_SIZE(gib); i++)
                cr_assert_eq(ds_windows_choose(w, H200, i), DS_GIB(gib[i]), "after %u", i);
        ds_windows_free(w);
}

static void all_of(uint64_t memory)
{
        const size_t fit = DS_WINDOW_AREA_BYTES == DS_TIB(64) ? 1700 : 1400;
        ds_windows *w = area(DS_WINDOW_AREA_BYTES);
        static struct ds_window held[20000];
        size_t n = 0;

        while (ds_windows_take(w, ds_windows_choose(w, memory, 0), &held[n]) == 0) {
                cr_assert_geq(held[n].bytes, DS_WINDOW_MIN);
                cr_assert_leq(held[n].bytes, DS_WINDOW_MAX);
                n++;
        }
        cr_log_info("%zu windows", n);
        cr_assert_geq(n, fit, "%zu windows", n);
        check_disjoint(held, n, DS_WINDOW_AREA_BYTES);
        while (n)
                ds_windows_release(w, &held[--n]);
        cr_assert_eq(ds_windows_unused(w), DS_WINDOW_AREA_BYTES);
        ds_windows_free(w);
}

Test(window, many_sessions_fit)
{
        all_of(H200);
        all_of(DS_GIB(288));
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
        ds_windows_release(w, &c); /* releasing an empty window has no effect */
        ds_windows_free(w);
}

/* Windows of a previous daemon can be taken at their addresses in any order; no other address can. */
Test(window, take_at_a_used_window)
{
        for (unsigned seed = 1; seed <= 20; seed++) {
                unsigned state = seed;
                ds_windows *w = area(DS_TIB(1)), *next = area(DS_TIB(1));
                struct ds_window held[100];
                size_t n = 0;

                while (n < 100 && ds_windows_take(w, SMALLEST << rand_r(&state) % 5, &held[n]) == 0)
                        n++;
                for (size_t i = n; i-- > 0;) {
                        size_t j = (size_t)rand_r(&state) % (i + 1);
                        struct ds_window swap = held[i];

                        held[i] = held[j];
                        held[j] = swap;
                }
                for (size_t i = 0; i < n; i++)
                        cr_assert_eq(ds_windows_take_at(next, &held[i]), 0);
                check_disjoint(held, n, DS_TIB(1));
                cr_assert_eq(ds_windows_unused(next), ds_windows_unused(w));
                for (size_t i = 0; i < n; i++) {
                        struct ds_window inside = {.base = held[i].base, .bytes = SMALLEST};
                        struct ds_window around = {
                                .base = held[i].base & ~(2 * held[i].bytes - 1), .bytes = 2 * held[i].bytes};

                        cr_assert_eq(ds_windows_take_at(next, &held[i]), DS_WINDOWS_E_REFUSED);
                        cr_assert_eq(ds_windows_take_at(next, &inside), DS_WINDOWS_E_REFUSED);
                        cr_assert_eq(ds_windows_take_at(next, &around), DS_WINDOWS_E_REFUSED);
                }
                for (size_t i = 0; i < n; i++) {
                        struct ds_window copy = held[i];

                        ds_windows_release(w, &held[i]);
                        ds_windows_release(next, &copy);
                }
                ds_windows_free(w);
                ds_windows_free(next);
        }
}

Test(window, take_at_refuses_invalid_windows)
{
        static const struct ds_window wrong[] = {
                {DS_WINDOW_AREA_BASE, 0},
                {DS_WINDOW_AREA_BASE, SMALLEST / 2},
                {DS_WINDOW_AREA_BASE, SMALLEST * 3},
                {DS_WINDOW_AREA_BASE + SMALLEST, SMALLEST * 2},
                {DS_WINDOW_AREA_BASE + 4096, SMALLEST},
                {DS_WINDOW_AREA_BASE - SMALLEST, SMALLEST},
                {DS_WINDOW_AREA_BASE + DS_TIB(1), SMALLEST},
                {DS_WINDOW_AREA_BASE, DS_TIB(2)},
                {UINT64_MAX - SMALLEST + 1, SMALLEST},
                {0, SMALLEST},
        };
        ds_windows *w = area(DS_TIB(1));

        for (size_t i = 0; i < DS_ARRAY_SIZE(wrong); i++)
                cr_assert_eq(ds_windows_take_at(w, &wrong[i]), DS_WINDOWS_E_REFUSED, "row %zu", i);
        cr_assert_eq(ds_windows_count(w), 0);
        ds_windows_free(w);
}

/* Extra address space outside of windows has the requested size, is at most half of the area, and shrinks no window. */
Test(window, beside_windows)
{
        ds_windows *w = area(DS_WINDOW_AREA_BYTES);
        uint64_t memory = DS_GIB(139), full = ds_windows_choose(w, memory, 0), sum = 0;
        struct ds_window held[64], window, odd = {.base = DS_WINDOW_AREA_BASE + SMALLEST, .bytes = SMALLEST + 1};
        size_t n = 0;

        cr_assert_eq(ds_windows_take_extra(w, 0, &window), DS_WINDOWS_E_EXHAUSTED);
        cr_assert_eq(ds_windows_take_extra(w, DS_WINDOW_MAX + 1, &window), DS_WINDOWS_E_EXHAUSTED);
        cr_assert_eq(ds_windows_take_extra(w, 1, &window), 0);
        cr_assert_eq(window.bytes, SMALLEST);
        ds_windows_release_extra(w, &window);
        while (n < 64 && ds_windows_take_extra(w, DS_GIB(700), &held[n]) == 0)
                sum += held[n++].bytes;
        cr_assert_eq(sum, DS_WINDOW_AREA_BYTES / 2);
        check_disjoint(held, n, DS_WINDOW_AREA_BYTES);
        cr_assert_eq(ds_windows_choose(w, memory, 0), full);
        cr_assert_eq(ds_windows_take(w, full, &window), 0);
        cr_assert_eq(window.bytes, full);
        ds_windows_release(w, &window);
        cr_assert_eq(ds_windows_take_extra(w, 1, &window), DS_WINDOWS_E_EXHAUSTED);
        window = held[--n];
        ds_windows_release_extra(w, &held[n]);
        cr_assert_eq(ds_windows_take_extra_at(w, &odd), DS_WINDOWS_E_REFUSED);
        cr_assert_eq(ds_windows_take_extra_at(w, &window), 0);
        ds_windows_release_extra(w, &window);
        while (n > 0)
                ds_windows_release_extra(w, &held[--n]);
        cr_assert_eq(ds_windows_unused(w), DS_WINDOW_AREA_BYTES);
        ds_windows_free(w);
}
