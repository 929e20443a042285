/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl profile: what its files share
 *
 *   cmd_profile.c   the subcommands   profile_show.c   tables, JSON, stairs
 *   profile_file.c  export, import    profile_run.c    a program that is measured   profile_pack.c   a model pack that
 * is
 */
#pragma once

#include "core/control_profile.h"
#include "ctl/ctl.h"

#define PROFILE_TOLERANCE 30 /* permille: times that differ by no more are the same, */
#define PROFILE_NOISE_NS 300 /* nor by so little */

/* Time on the most SMs, and the fewest with the same. 0 when nothing was measured. */
uint64_t profile_best(const struct dsc_profile *row, uint32_t *ret_least);
/* "12.5 KiB"; 0: nothing. Returns the buffer. */
const char *profile_bytes(uint64_t bytes, char buffer[static 32]);
/* "132: 10.0 us, 66: 20.1 us": of each stair the fewest SMs that were measured on it. */
const char *profile_stairs(const struct dsc_profile *row, char *buffer, size_t size);

/* Sorted by name. A table of what was measured, or of all. 0, or CTL_FAILED after the words. */
int profile_list(struct dsc_profiles *profiles, int as_json, int measured, struct ctl_text *text);
int profile_details(const struct dsc_profiles *profiles, struct ctl_text *text);

/* To a file, "-" = standard output. */
int profile_export(const struct dsc_profiles *profiles, const char *path);
/* From a file, "-" = standard input. gpu: that of the daemon. Rows are malloc'ed. */
int profile_import(const char *path, const char *gpu, struct dsc_profile **ret, size_t *ret_n);

int profile_cmd_list(const struct ctl_args *args);
int profile_cmd_show(const struct ctl_args *args);
int profile_cmd_forget(const struct ctl_args *args);
int profile_cmd_export(const struct ctl_args *args);
int profile_cmd_import(const struct ctl_args *args);
int profile_run(const struct ctl_args *args);
int profile_pack(const struct ctl_args *args);
