/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as a timeline
 *
 * JSON of the Trace Event Format ("Trace Event Format", N. Duca and D. Sinclair), which ui.perfetto.dev and
 * chrome://tracing read. One process per client with a thread per stream, its kernels as slices; one process for the
 * device with a thread per range of SMs (a rung), the same kernels again. Kernels that ran beside each other on one
 * rung lie in lanes. Requests are asynchronous slices of their client; a stream that went to another rung has a mark
 * there and an arrow between the two kernels; quiesces and changes of policy are the device's.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct ctl_timeline_figures {
        uint64_t operations, requests, sessions, lost;
        int simulated;
};

/* 0; -EINVAL: the trace makes no sense; -ENOMEM. What could not be written, ferror tells. */
int ctl_timeline_write(const void *trace, size_t bytes, FILE *file, struct ctl_timeline_figures *ret);
