/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Medians with confidence intervals, and control of the simulated clock, for all parts of the calibration
 */
#include <stdlib.h>

#include "ctl/calibrate.h"
#include "detshare/detshare.h"

static int by_value(const void *a, const void *b)
{
        const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
        return x < y ? -1 : x > y;
}

struct calibrate_median calibrate_median_of(const struct calibrate_times *t, uint64_t from, uint64_t until)
{
        uint64_t *ns = calloc(t->n + 1, sizeof(*ns));
        struct calibrate_median m = {.n = 0};
        size_t off = 0;
        if (!ns)
                return m;
        for (size_t i = 0; i < t->n; i++)
                if (t->spans[i].start_ns >= from && t->spans[i].end_ns <= until)
                        ns[m.n++] = t->spans[i].end_ns - t->spans[i].start_ns;
        qsort(ns, m.n, sizeof(*ns), by_value);
        /* the 95 % interval ends 1.96 * sqrt(n) / 2 places from the middle of the sorted times */
        while (10000 * off * off < 9604 * m.n)
                off++;
        if (m.n) {
                const size_t mid = m.n / 2;
                m.mid = ns[mid];
                m.low = ns[mid > off ? mid - off : 0];
                m.high = ns[mid + off < m.n ? mid + off : m.n - 1];
        }
        free(ns);
        return m;
}

uint32_t calibrate_permille(uint64_t a, uint64_t b)
{
        const uint64_t r = b ? (a * 1000 + b / 2) / b : 0;
        return r < 1 ? 1 : r > 1000000 ? 1000000 : (uint32_t)r;
}

int calibrate_hold_clock(void)
{
        uint64_t now;
        if (!detshare_now(&now))
                return 0;
        ctl_complain("cannot calibrate: %s", detshare_last_error());
        return CTL_FAILED;
}
