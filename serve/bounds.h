/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which launches of a pack memory bounds, as it was measured
 *
 * `detsharectl profile PACK --json` runs each kernel of a pack beside work that writes through all of L2 and says which
 * ones that slows: a file with what it printed is read here. Kernels are known by name and grid, so the file may be
 * another GPU's or an older pack's; those that it does not name count as bound by computing. The word `all` instead of
 * a file: memory bounds every launch, which costs the most memory and colours the most.
 */
#pragma once

#include <stdbool.h>

#include "serve/pack.h"

#define SV_BOUNDS_ALL "all"
#define SV_BOUNDS_MAX ((size_t)64 << 20) /* of the file */

/* ret: an entry for each launch. -1 with the reason: the file cannot be read, or says nothing of any kernel. */
int sv_bounds_read(const struct sv_pack *pack, const char *path, bool *ret, struct sv_why *why);
