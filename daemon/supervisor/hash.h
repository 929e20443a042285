/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthash as the daemon uses it: through the allocator seam, and without the exit() that it brings for a failed
 * allocation. After HASH_ADD the element was added if ds_hash_added() says so.
 */
#pragma once

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) ds_alloc(size)
#define uthash_free(ptr, size) ds_free(ptr)

#include <uthash.h>

#include "util/alloc.h"

#define ds_hash_added(element) ((element)->hh.tbl != NULL)
