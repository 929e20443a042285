/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU's times in those of now()
 *
 * The driver tells the time between two events as a float of milliseconds: exact to 0.1 us while they are less than a
 * second apart, to 60 us when they are ten minutes apart. So times are told from a base event of which the host's time
 * is known, and a new base is recorded every half second in which there is work, on a stream of our own.
 *
 * A new base's time is that of the old one plus the GPU's time between them, so that differences between two
 * completions stay the GPU's own. The two clocks drift apart by microseconds per second: where that sum lies before the
 * moment the base was recorded or after the one it was seen, it is moved there. Nothing here waits once the device is
 * open.
 */
#include <math.h>

#include "device/cuda/internal.h"
#include "util/error.h"

#define CLOCK_BASE_NS (DS_NS_PER_S / 2)
#define CLOCK_TRUST_NS (20 * DS_NS_PER_S) /* an older base is worse than the host's clock */
#define CLOCK_TRIES 8

struct cuda_clock {
        CUevent base, next;
        uint64_t base_ns; /* 0: there is none to trust */
        uint64_t next_ns; /* recorded then; 0: none is under way */
};

/* The time of an event that is done; the base is a little later when it was replaced since the event. */
static uint64_t clock_at(ds_device *device, CUevent event)
{
        struct cuda_clock *clock = device->clock;
        float ms = 0;

        if (CU(device, cuEventElapsedTime)(&ms, clock->base, event) || !isfinite(ms))
                return clock->base_ns;
        return clock->base_ns + (uint64_t)llround((double)ms * 1e6);
}

static void clock_record(ds_device *device, uint64_t now_ns)
{
        CUresult result = CU(device, cuEventRecord)(device->clock->next, device->own_stream);

        if (result)
                (void)ds_cuda_failed(device, result, "cuEventRecord of the clock's base");
        else
                device->clock->next_ns = now_ns;
}

/* The event that was recorded is done, and seen now. */
static void clock_rebase(ds_device *device, uint64_t now_ns)
{
        struct cuda_clock *clock = device->clock;
        CUevent old = clock->base;
        uint64_t at = 0;

        if (clock->base_ns)
                at = clock_at(device, clock->next);
        clock->base_ns = DS_MIN(DS_MAX(at, clock->next_ns), now_ns);
        clock->base = clock->next;
        clock->next = old;
        clock->next_ns = 0;
}

void cuda_clock_tend(ds_device *device, uint64_t now_ns)
{
        struct cuda_clock *clock = device->clock;
        CUresult result;

        if (!clock->next_ns) {
                if (now_ns - clock->base_ns > CLOCK_BASE_NS && !device->lost)
                        clock_record(device, now_ns);
                return;
        }
        if (device->lost)
                return;
        result = CU(device, cuEventQuery)(clock->next);
        if (result == CUDA_SUCCESS)
                clock_rebase(device, cuda_now(device));
        else if (result != CUDA_ERROR_NOT_READY)
                cuda_fault_note(device, result);
}

uint64_t cuda_clock_of(ds_device *device, CUevent event, uint64_t now_ns)
{
        struct cuda_clock *clock = device->clock;

        if (now_ns - clock->base_ns > CLOCK_TRUST_NS)
                return now_ns;
        return DS_MIN(clock_at(device, event), now_ns);
}

/* The first base: of several, the one whose time is known best. Waits for the GPU, before serving. */
static int clock_start(ds_device *device)
{
        struct cuda_clock *clock = device->clock;
        uint64_t best = UINT64_MAX, before, after;
        CUevent swap;
        CUresult result;

        for (int i = 0; i < CLOCK_TRIES; i++) {
                before = cuda_now(device);
                result = CU(device, cuEventRecord)(clock->next, device->own_stream);
                if (!result)
                        result = CU(device, cuEventSynchronize)(clock->next);
                if (result)
                        return ds_cuda_failed(device, result, "the clock's first event");
                after = cuda_now(device);
                if (after - before >= best)
                        continue;
                best = after - before;
                clock->base_ns = before + best / 2;
                swap = clock->base;
                clock->base = clock->next;
                clock->next = swap;
        }
        return 0;
}

int cuda_clock_init(ds_device *device)
{
        device->clock = ds_alloc0(1, sizeof(*device->clock));
        if (!device->clock)
                return ds_error_origin(-ENOMEM);
        device->clock->base = cuda_event_take(device, 1);
        device->clock->next = cuda_event_take(device, 1);
        if (!device->clock->base || !device->clock->next)
                return ds_error_origin(-ENOMEM);
        return ds_error_trace(clock_start(device));
}

void cuda_clock_free(ds_device *device)
{
        if (!device->clock)
                return;
        if (device->clock->base)
                cuda_event_give(device, 1, device->clock->base);
        if (device->clock->next)
                cuda_event_give(device, 1, device->clock->next);
        device->clock = ds_free(device->clock);
}
