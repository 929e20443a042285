/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a trace into a timeline
 *
 * The output is JSON in the Trace Event Format (N. Duca and D. Sinclair), which ui.perfetto.dev and chrome://tracing
 * show.
 *
 * * Each client is a process with a thread per stream; kernels are slices.
 * * The device is a process with a thread per rung (a range of SMs); the same kernels are slices there.
 *   Kernels of one rung that overlap are in lanes of their own.
 * * Requests are asynchronous slices of their client.
 * * A stream that moves to another rung has a mark, and an arrow between the two kernels.
 * * Quiesces and changes of policy are events of the device.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ctl_timeline_figures {
        uint64_t operations, requests, sessions, lost;
        int simulated;
};

/* Writes the timeline of a trace. 0; -EINVAL: the trace is damaged; -ENOMEM. ferror(file) reports failed writes. */
int ctl_timeline_write(const void *trace, size_t bytes, FILE *file, struct ctl_timeline_figures *ret);
