/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace of a run: what was launched where, and when it ran
 *
 * A device in front of the device: it passes everything on and writes down each launch. As text, one line per event:
 *      launch TIME SESSION KERNEL rung=N priority=N stream=N bound=N
 *      end TIME SESSION KERNEL start=TIME
 * times in nanoseconds, in the order in which the scheduler did it; or as Chrome trace events, one per kernel, which
 * Perfetto and chrome://tracing show.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "device/device.h"

typedef struct ds_replay_trace ds_replay_trace;

extern const struct ds_device_ops ds_replay_trace_ops;

/* Stays in front of `device` until it is freed. names[space - 1]: the session's. NULL when memory is short. */
ds_replay_trace *ds_replay_trace_new(const struct ds_device_ops *ops, ds_device *device, const char *const *names,
        uint32_t n_names, FILE *out, int json);
/* The device to give to the scheduler, with ds_replay_trace_ops. */
ds_device *ds_replay_trace_device(ds_replay_trace *trace);
void ds_replay_trace_ended(ds_replay_trace *trace, const struct ds_completion *completions, size_t n);
/* Ends what it writes; NULL is fine. */
ds_replay_trace *ds_replay_trace_free(ds_replay_trace *trace);
