/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latencies, exactly
 *
 * A request's latency is from its arrival to its end: one that found every instance busy paid for the wait. Its service
 * is from where an instance took it. Every request is kept, up to SV_SAMPLES_MAX; then the oldest make room.
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
        size_t n, room, next; /* next: the oldest, once all room is used */
        uint64_t total;       /* that were ever added */
};

struct sv_times {
        uint64_t mean, p50, p95, p99, max; /* ns */
};

/* 0, or -1: memory is short. */
int sv_samples_add(struct sv_samples *samples, const struct sv_sample *sample);
int sv_samples_join(struct sv_samples *samples, const struct sv_samples *more);
void sv_samples_clear(struct sv_samples *samples);
/* By their arrivals. */
void sv_samples_sort(struct sv_samples *samples);
/*
 * A percentile is the smallest value that so many per cent do not exceed. All 0 when there are none. 0, or -1: memory
 * is short.
 */
int sv_samples_latency(const struct sv_samples *samples, struct sv_times *ret);
int sv_samples_service(const struct sv_samples *samples, struct sv_times *ret);
