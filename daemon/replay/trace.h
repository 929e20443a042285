/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace of a run: where each kernel was launched and when it ran
 *
 * The trace is a device that passes every call on to the simulated one, and writes down each launch. As text it has one
 * line per event, in the order in which the scheduler acted, with times in nanoseconds:
 *
 *     launch TIME SESSION KERNEL rung=N priority=N stream=N bound=N
 *     end TIME SESSION KERNEL start=TIME
 *
 * As JSON it has Chrome trace events, one per kernel, which Perfetto and chrome://tracing show.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "device/device.h"

typedef struct ds_replay_trace ds_replay_trace;

extern const struct ds_device_ops ds_replay_trace_ops;

/* Creates a trace that uses `device`, which belongs to it until the trace is freed. names[space - 1]: name of the
 * session. NULL: out of memory. */
ds_replay_trace *ds_replay_trace_new(const struct ds_device_ops *ops, ds_device *device, const char *const *names,
        uint32_t n_names, FILE *out, int json);
/* The device that the scheduler must use, with ds_replay_trace_ops. */
ds_device *ds_replay_trace_device(ds_replay_trace *trace);
void ds_replay_trace_ended(ds_replay_trace *trace, const struct ds_completion *completions, size_t n);
/* Completes the output and frees the trace. NULL is allowed. */
ds_replay_trace *ds_replay_trace_free(ds_replay_trace *trace);
