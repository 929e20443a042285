/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact latencies
 *
 * The latency of a request is the time from its arrival to its end, so it includes the wait for a free instance. Its
 * service time begins when an instance takes it. The list keeps every request, up to SV_SAMPLES_MAX; then new ones
 * replace the oldest.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SV_SAMPLES_MAX ((size_t)4 << 20)

struct sv_sample {
        uint64_t arrival, begin, end; /* ns */
};

struct sv_samples {
        struct sv_sample *list;
        size_t n, room, next; /* next: index of the oldest, once the list is full */
        uint64_t total;       /* number of all samples ever added */
};

struct sv_times {
        uint64_t mean, p50, p95, p99, max; /* ns */
};

/* 0, or -1: out of memory. */
int sv_samples_add(struct sv_samples *samples, const struct sv_sample *sample);
int sv_samples_join(struct sv_samples *samples, const struct sv_samples *more);
void sv_samples_clear(struct sv_samples *samples);
/* Sorts by arrival. */
void sv_samples_sort(struct sv_samples *samples);
/*
 * Percentile p is the smallest value that p per cent of the samples do not exceed. All values are 0 without samples. 0,
 * or -1: out of memory.
 */
int sv_samples_latency(const struct sv_samples *samples, struct sv_times *ret);
int sv_samples_service(const struct sv_samples *samples, struct sv_times *ret);
