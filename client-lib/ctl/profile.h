/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that the files of `detsharectl profile` share
 *
 *   cmd_profile.c   the subcommands         profile_show.c   tables, JSON, stairs
 *   profile_file.c  export and import       profile_run.c    measuring a program
 *   profile_pack.c  measuring a model pack
 */
#pragma once

#include "core/control_profile.h"
#include "ctl/ctl.h"

#define PROFILE_TOLERANCE 30 /* difference up to which two times count as equal, permille */
/* the same for short times, ns: two times are equal within the larger of both differences */
#define PROFILE_NOISE_NS 300

/* Returns the kernel's time on the most SMs; *ret_least: the fewest SMs that reach this time. 0: nothing was
 * measured. */
uint64_t profile_best(const struct dsc_profile *row, uint32_t *ret_least);
/* Writes a size such as "12.5 KiB" into the buffer, "" for 0. Returns the buffer. */
const char *profile_bytes(uint64_t bytes, char buffer[static 32]);
/* Writes a kernel's stairs, such as "132: 10.0 us, 66: 20.1 us": for each stair the fewest measured SMs and the
 * time. */
const char *profile_stairs(const struct dsc_profile *row, char *buffer, size_t size);

/* Append the profiles, sorted by name; measured: only those with measurements. 0, or CTL_FAILED after an error
 * message. */
int profile_list(struct dsc_profiles *profiles, int as_json, int measured, struct ctl_text *text);
int profile_details(const struct dsc_profiles *profiles, struct ctl_text *text);

/* Writes the profiles to a file; "-" = standard output. 0, or an exit code after an error message. */
int profile_export(const struct dsc_profiles *profiles, const char *path);
/* Reads profiles from a file; "-" = standard input. gpu: the daemon's GPU, for which the file must be. The caller
 * frees *ret. */
int profile_import(const char *path, const char *gpu, struct dsc_profile **ret, size_t *ret_n);

int profile_cmd_list(const struct ctl_args *args);
int profile_cmd_show(const struct ctl_args *args);
int profile_cmd_forget(const struct ctl_args *args);
int profile_cmd_export(const struct ctl_args *args);
int profile_cmd_import(const struct ctl_args *args);
int profile_run(const struct ctl_args *args);
int profile_pack(const struct ctl_args *args);
