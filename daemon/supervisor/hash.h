/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uthash with the daemon's allocator, and without its exit() after a failed allocation. After HASH_ADD, ds_hash_added()
 * returns whether the element was added.
 */
#pragma once

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(size) ds_alloc(size)
#define uthash_free(ptr, size) ds_free(ptr)

#include <uthash.h>

#include "util/alloc.h"

#define ds_hash_added(element) ((element)->hh.tbl != NULL)
