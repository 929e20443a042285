/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches of a pack that are memory-bound, as measured
 *
 * `detsharectl profile PACK --json` runs each kernel of a pack beside work that writes through all of L2, and reports
 * the kernels that this slows. This file reads that report. It identifies kernels by name and grid, so the report may
 * come from another GPU or an older pack; kernels that it does not list count as compute-bound. The word `all` instead
 * of a file makes every launch memory-bound, which needs the most memory and colours the most.
 */
#pragma once

#include <stdbool.h>

#include "serve/pack.h"

#define SV_BOUNDS_ALL "all"
#define SV_BOUNDS_MAX ((size_t)64 << 20) /* bytes of the file */

/* ret: one entry per launch. -1 with the reason: the file cannot be read, or names no kernel. */
int sv_bounds_read(const struct sv_pack *pack, const char *path, bool *ret, struct sv_why *why);
