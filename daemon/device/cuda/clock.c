/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion of the GPU's times to those of now()
 *
 * The driver returns the time between two events as a float of milliseconds: exact to 0.1 us while they are less than a
 * second apart, to 60 us when they are ten minutes apart. And the clocks of GPU and host drift apart by many
 * microseconds per second. So all times count from a base event whose host time is known.
 *
 * When a caller needs a time and the base is older than CLOCK_BASE_NS, clock_of makes a new base: it records an event
 * on a stream of its own, on which nothing else ever runs, and queries it until it is done. That takes about 8 us, at
 * most CLOCK_WAIT_NS, and happens only while sessions that use times have work.
 *
 * A new base's host time lies between the moments before the event was recorded and after it was seen. The middle is
 * the best estimate, with an error of a few microseconds. The old base gives another such estimate, which counts too
 * while it lies between those moments. So the times of two completions do not jump against each other.
 */
#include <math.h>

#include "device/cuda/internal.h"
#include "util/error.h"

#define CLOCK_BASE_NS (20 * DS_NS_PER_MS)
#define CLOCK_WAIT_NS (30 * DS_NS_PER_US)
/* greatest useful age of a base event: the times that count from an older one are less exact than the host's clock */
#define CLOCK_TRUST_NS (2 * DS_NS_PER_S)
#define CLOCK_OPEN_NS (DS_NS_PER_S) /* most time for measuring the first base event, before serving */
#define CLOCK_TRIES 8

struct cuda_clock {
        CUstream stream;
        CUevent base, next;
        uint64_t base_ns;
        uint64_t tried_ns; /* time of the last attempt to make a new base */
};

/* Host time of an event that is done, ns. The event may be earlier than the base event. */
static uint64_t clock_at(ds_device *device, CUevent event)
{
        struct cuda_clock *clock = device->clock;
        float ms = 0;

        if (CU(device, cuEventElapsedTime)(&ms, clock->base, event) || !isfinite(ms))
                return clock->base_ns;
        return clock->base_ns + (uint64_t)llround((double)ms * 1e6);
}

/* Records the next base event and waits until it is done; *ret_before and *ret_after are host times, ns.
 * CUDA_ERROR_NOT_READY: it was not done within wait_ns. */
static CUresult clock_measure(ds_device *device, uint64_t wait_ns, uint64_t *ret_before, uint64_t *ret_after)
{
        struct cuda_clock *clock = device->clock;
        CUresult result;

        *ret_before = cuda_now(device);
        result = CU(device, cuEventRecord)(clock->next, clock->stream);
        if (result)
                return result;
        do {
                result = CU(device, cuEventQuery)(clock->next);
                *ret_after = cuda_now(device);
        } while (result == CUDA_ERROR_NOT_READY && *ret_after - *ret_before < wait_ns);
        return result;
}

static void clock_rebase(struct cuda_clock *clock, uint64_t base_ns)
{
        CUevent old = clock->base;

        clock->base = clock->next;
        clock->base_ns = base_ns;
        clock->next = old;
}

static void clock_refresh(ds_device *device, uint64_t now_ns)
{
        struct cuda_clock *clock = device->clock;
        uint64_t before, after, at, middle;
        CUresult result;

        if (device->lost || now_ns - clock->tried_ns < CLOCK_BASE_NS)
                return;
        clock->tried_ns = now_ns;
        result = clock_measure(device, CLOCK_WAIT_NS, &before, &after);
        if (result == CUDA_ERROR_NOT_READY)
                return;
        if (result) {
                (void)ds_cuda_failed(device, result, "the clock's event");
                return;
        }
        at = clock_at(device, clock->next);
        middle = before + (after - before) / 2;
        /* the mean of both estimates of the new base's time; only the middle if the old base's estimate lies outside */
        clock_rebase(clock, at >= before && at <= after ? at / 2 + middle / 2 : middle);
}

uint64_t cuda_clock_of(ds_device *device, CUevent event, uint64_t now_ns)
{
        struct cuda_clock *clock = device->clock;

        clock_refresh(device, now_ns);
        if (now_ns > clock->base_ns && now_ns - clock->base_ns > CLOCK_TRUST_NS)
                return now_ns;
        return DS_MIN(clock_at(device, event), now_ns);
}

/* Makes the first base event: of several, the one whose host time is known most exactly. Waits for the GPU, before
 * serving. */
static int clock_start(ds_device *device)
{
        struct cuda_clock *clock = device->clock;
        uint64_t best = UINT64_MAX, before, after;
        CUresult result;

        for (int i = 0; i < CLOCK_TRIES; i++) {
                result = clock_measure(device, CLOCK_OPEN_NS, &before, &after);
                if (result)
                        return ds_cuda_failed(device, result, "the clock's first event");
                if (after - before >= best)
                        continue;
                best = after - before;
                clock_rebase(clock, before + best / 2);
        }
        clock->tried_ns = cuda_now(device);
        return 0;
}

int cuda_clock_init(ds_device *device)
{
        struct cuda_clock *clock = ds_alloc0(1, sizeof(*clock));
        int r;

        if (!clock)
                return ds_error_origin(-ENOMEM);
        device->clock = clock;
        clock->base = cuda_event_take(device, 1);
        clock->next = cuda_event_take(device, 1);
        if (!clock->base || !clock->next)
                return ds_error_origin(-ENOMEM);
        r = cuda_stream_create(device, NULL, device->priority[0], &clock->stream);
        if (r)
                return ds_error_trace(r);
        return ds_error_trace(clock_start(device));
}

void cuda_clock_free(ds_device *device)
{
        struct cuda_clock *clock = DS_TAKE_PTR(device->clock);

        if (!clock)
                return;
        if (clock->base)
                cuda_event_give(device, 1, clock->base);
        if (clock->next)
                cuda_event_give(device, 1, clock->next);
        if (clock->stream && cuda_usable(device))
                CU(device, cuStreamDestroy)(clock->stream);
        ds_free(clock);
}
