/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two-means clustering of the logarithms of the times
 *
 * As few as one time of fifty may be of the second kind, and a few outliers may lie beyond that kind. So the search
 * starts from a low quantile and each of several high ones; if there is a second kind, one of the high quantiles lies
 * in it.
 */
#include "lut/probe/split.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define TIMES_MIN 64u
#define SECOND_MIN 8u /* least number of times of the second kind */
#define STEPS 64      /* iterations; the means converge long before */
/* least spread of a kind in the calculation, because clocks tick and equal times would have none */
#define SPREAD_MIN 0.002
#define SEPARATION_MAX 1000.0
/* share of the distance between the two kinds, on either side of the threshold, in which a time is doubtful */
#define DOUBT 0.15

static int compare(const void *a, const void *b)
{
        uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

        return (x > y) - (x < y);
}

static double at(const double *sorted, size_t n, double part)
{
        return sorted[DS_MIN((size_t)((double)n * part), n - 1)];
}

static double mean(const double *values, size_t n)
{
        double sum = 0;

        for (size_t i = 0; i < n; i++)
                sum += values[i];
        return sum / (double)n;
}

/* Number of the sorted values that are of the first kind; n if no second kind was found. */
static size_t two_means(const double *values, size_t n, double begin)
{
        double low = at(values, n, 0.05), high = at(values, n, begin), middle;
        size_t first = n, before;

        for (int step = 0; step < STEPS; step++) {
                before = first;
                middle = (low + high) / 2;
                for (first = 0; first < n && values[first] <= middle; first++)
                        ;
                if (first == before || !first || first == n)
                        break;
                low = mean(values, first);
                high = mean(values + first, n - first);
        }
        return first;
}

/* Half the range of the middle two thirds of the values: one standard deviation for a normal distribution. */
static double spread(const double *sorted, size_t n)
{
        return DS_MAX((at(sorted, n, 0.84) - at(sorted, n, 0.16)) / 2, SPREAD_MIN);
}

static void describe(const double *values, size_t n, size_t first, struct ds_probe_split *ret)
{
        double low = at(values, first, 0.5), high = at(values + first, n - first, 0.5), distance = high - low;
        double low_spread = spread(values, first), high_spread = spread(values + first, n - first);
        double part = DS_MIN(DS_MAX(low_spread / (low_spread + high_spread), 0.35), 0.65);

        ret->low = exp(low);
        ret->high = exp(high);
        ret->threshold = exp(low + distance * part);
        ret->doubt[0] = exp(low + distance * (part - DOUBT));
        ret->doubt[1] = exp(low + distance * (part + DOUBT));
        ret->separation = DS_MIN(distance / (low_spread + high_spread), SEPARATION_MAX);
        ret->share = (double)(n - first) / (double)n;
}

static bool is_good(const struct ds_probe_split *split, size_t n_second, double ratio)
{
        return n_second >= SECOND_MIN && split->share >= DS_PROBE_RARE && split->high >= ratio * split->low &&
               split->separation >= DS_PROBE_SEPARATION;
}

int ds_probe_split(const uint32_t *ticks, size_t n, double ratio, struct ds_probe_split *ret)
{
        static const double begins[] = {0.998, 0.99, 0.96, 0.9, 0.75};
        ds_cleanup(ds_freep) uint32_t *sorted = ds_alloc(DS_MAX(n, 1u) * sizeof(*sorted));
        ds_cleanup(ds_freep) double *values = ds_alloc(DS_MAX(n, 1u) * sizeof(*values));
        bool found = false;
        size_t first;

        *ret = (struct ds_probe_split){};
        if (!sorted || !values)
                return ds_error_origin(-ENOMEM);
        if (n < TIMES_MIN)
                return DS_PROBE_E_ONE_KIND;
        for (size_t i = 0; i < n; i++)
                sorted[i] = ticks[i];
        qsort(sorted, n, sizeof(*sorted), compare);
        for (size_t i = 0; i < n; i++)
                values[i] = log(DS_MAX(sorted[i], 1u));
        ret->low = ret->high = ret->threshold = exp(at(values, n, 0.5));
        for (size_t i = 0; i < DS_ARRAY_SIZE(begins); i++) {
                struct ds_probe_split split = {};

                first = two_means(values, n, begins[i]);
                if (!first || first == n)
                        continue;
                describe(values, n, first, &split);
                if (!found || (is_good(&split, n - first, ratio) && split.separation > ret->separation))
                        *ret = split;
                found = found || is_good(&split, n - first, ratio);
        }
        return found ? 0 : DS_PROBE_E_ONE_KIND;
}
