/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/samples.h"

#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/macro.h"

static int make_room(struct sv_samples *samples)
{
        const size_t room = samples->room ? DS_MIN(2 * samples->room, SV_SAMPLES_MAX) : 1024;
        struct sv_sample *list = ds_realloc(samples->list, room, sizeof(*list));

        if (!list)
                return -1;
        samples->list = list;
        samples->room = room;
        return 0;
}

int sv_samples_add(struct sv_samples *samples, const struct sv_sample *sample)
{
        if (samples->n == samples->room && samples->room < SV_SAMPLES_MAX && make_room(samples))
                return -1;
        samples->total++;
        if (samples->n < samples->room) {
                samples->list[samples->n++] = *sample;
                return 0;
        }
        samples->list[samples->next] = *sample;
        samples->next = (samples->next + 1) % samples->room;
        return 0;
}

int sv_samples_join(struct sv_samples *samples, const struct sv_samples *more)
{
        for (size_t i = 0; i < more->n; i++)
                if (sv_samples_add(samples, &more->list[i]))
                        return -1;
        samples->total += more->total - more->n;
        return 0;
}

void sv_samples_clear(struct sv_samples *samples)
{
        ds_free(samples->list);
        *samples = (struct sv_samples){.n = 0};
}

static int by_arrival(const void *a, const void *b)
{
        const struct sv_sample *x = a, *y = b;

        return x->arrival != y->arrival ? (x->arrival < y->arrival ? -1 : 1) : 0;
}

void sv_samples_sort(struct sv_samples *samples)
{
        if (samples->n)
                qsort(samples->list, samples->n, sizeof(*samples->list), by_arrival);
        samples->next = 0;
}

static int by_value(const void *a, const void *b)
{
        const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x != y ? (x < y ? -1 : 1) : 0;
}

static uint64_t percentile(const uint64_t *sorted, size_t n, unsigned percent)
{
        return sorted[DS_DIV_UP(n * percent, 100) - 1];
}

static void summarise(uint64_t *values, size_t n, struct sv_times *ret)
{
        double sum = 0;

        *ret = (struct sv_times){.mean = 0};
        if (!n)
                return;
        qsort(values, n, sizeof(*values), by_value);
        for (size_t i = 0; i < n; i++)
                sum += (double)values[i];
        ret->mean = (uint64_t)(sum / (double)n + 0.5);
        ret->p50 = percentile(values, n, 50);
        ret->p95 = percentile(values, n, 95);
        ret->p99 = percentile(values, n, 99);
        ret->max = values[n - 1];
}

static int times_of(const struct sv_samples *samples, int service, struct sv_times *ret)
{
        ds_cleanup(ds_freep) uint64_t *values = ds_alloc0(samples->n, sizeof(*values));

        if (!values)
                return -1;
        for (size_t i = 0; i < samples->n; i++) {
                const struct sv_sample *s = &samples->list[i];

                values[i] = s->end - (service ? s->begin : s->arrival);
        }
        summarise(values, samples->n, ret);
        return 0;
}

int sv_samples_latency(const struct sv_samples *samples, struct sv_times *ret)
{
        return times_of(samples, 0, ret);
}

int sv_samples_service(const struct sv_samples *samples, struct sv_times *ret)
{
        return times_of(samples, 1, ret);
}
