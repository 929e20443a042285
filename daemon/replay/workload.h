/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads: what one request or step of a session launches, as a profile's text
 *
 * A workload is a file in the profile format (device/sim/profile.h), a CSV table of kernels as profilers export them,
 * or one that is built in. The built-in ones stand for jobs of which only a summary was measured on an H200: kernels
 * per step, quantiles of their durations, the median of their blocks. Their kernels are synthesised from that:
 * durations at evenly spaced quantiles of the log-normal distribution through the measured median and 99th percentile,
 * the longest one as measured; blocks in proportion to the duration, so that median meets median; all in an order from
 * a fixed seed. What that cannot say (which kernel follows which, bytes moved, stairs) it does not say, and the
 * profile's `source` line says how it came about.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "device/sim/profile.h"

struct ds_replay_workload {
        char *text; /* the profile */
        size_t size;
        struct sim_profile *profile; /* read */
};

#define DS_REPLAY_E_NO_WORKLOAD 1 /* neither built in nor a file */
#define DS_REPLAY_E_BAD_FILE 2    /* see the message: it names the file, and the line where there is one */

/* By name, else by path; sms: of the GPU that a table is taken to be about. Contract codes with a message; -ENOMEM. */
int ds_replay_workload_open(
        const char *name, uint32_t sms, char *message, size_t message_size, struct ds_replay_workload **ret);
struct ds_replay_workload *ds_replay_workload_free(struct ds_replay_workload *workload);
/* The n-th built-in one: its name and a line about it; NULL past the end. */
const char *ds_replay_builtin(size_t n, const char **ret_about);
/* The text of a built-in one; NULL when there is none of that name or memory is short (*ret_known says which). */
char *ds_replay_synthesise(const char *name, int *ret_known);
/*
 * A profile from a CSV table of kernels: name, grid, block, registers, shared memory and duration of each launch, in
 * order, under the column names of NVIDIA's and similar tools (see detshare-replay(1)). Contract codes as above.
 */
int ds_replay_convert(
        const char *path, const char *csv, size_t size, uint32_t sms, char *message, size_t message_size, char **ret);
/* A whole file; DS_REPLAY_E_BAD_FILE with a message. The text is terminated. */
int ds_replay_read_file(const char *path, char *message, size_t message_size, char **ret, size_t *ret_size);
