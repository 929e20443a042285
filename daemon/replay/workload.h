/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads: the launches of one request or step of a session, in the text format of a profile
 *
 * A workload is a file in the profile format (device/sim/profile.h), a CSV table of kernels as profilers export them,
 * or a built-in one. The built-in ones represent jobs of which only a summary was measured on an H200: kernels per
 * step, quantiles of their durations, the median of their blocks. Their kernels are synthesised:
 *
 * - durations at evenly spaced quantiles of the log-normal distribution through the measured median and 99th
 *   percentile, the longest one as measured;
 * - blocks in proportion to the duration, so that both medians belong to one kernel;
 * - in an order from a fixed seed.
 *
 * They have no order of real kernels, no bytes and no stairs. The `source` line of such a profile says how it was made.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "device/sim/profile.h"

struct ds_replay_workload {
        char *text; /* text of the profile */
        size_t size;
        struct sim_profile *profile; /* the parsed profile */
};

#define DS_REPLAY_E_NO_WORKLOAD 1 /* the name is neither that of a built-in workload nor that of a file */
#define DS_REPLAY_E_BAD_FILE 2    /* the message names the file, and the line if there is one */

/* Open a workload: a built-in one by name, else a file by path. sms: SMs of the GPU on which a table was measured.
 * Returns the codes above with a message, or -ENOMEM. */
int ds_replay_workload_open(
        const char *name, uint32_t sms, char *message, size_t message_size, struct ds_replay_workload **ret);
struct ds_replay_workload *ds_replay_workload_free(struct ds_replay_workload *workload);
/* The n-th built-in workload: its name, and a line of description. NULL behind the last one. */
const char *ds_replay_builtin(size_t n, const char **ret_about);
/* The text of a built-in workload. NULL if there is none of that name (*ret_known is 0), or there is no memory. */
char *ds_replay_synthesise(const char *name, int *ret_known);
/*
 * Convert a CSV table of kernels into a profile. Its rows have the name, grid, block, registers, shared memory and
 * duration of each launch, in order, under the column names of NVIDIA's and similar tools (see detshare-replay(1)).
 * Returns the codes above with a message, or -ENOMEM.
 */
int ds_replay_convert(
        const char *path, const char *csv, size_t size, uint32_t sms, char *message, size_t message_size, char **ret);
/* Read a whole file, with a NUL at the end. Returns 0, -ENOMEM, or DS_REPLAY_E_BAD_FILE with a message. */
int ds_replay_read_file(const char *path, char *message, size_t message_size, char **ret, size_t *ret_size);
