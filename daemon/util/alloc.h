/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's allocator, with a hook for tests
 *
 * Every allocation of the daemon uses these functions. A test can therefore make the n-th one fail
 * (ds_alloc_fail_after) and show that nothing crashes, leaks or loses a charge. They return NULL on failure and never
 * abort. Sizes are checked for overflow.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

void *ds_alloc(size_t size);
/* returns zeroed memory; NULL if n * size overflows */
void *ds_alloc0(size_t n, size_t size);
/* works as realloc() with n * size checked; on failure the old block stays valid */
void *ds_realloc(void *p, size_t n, size_t size);
char *ds_strdup(const char *s);
char *ds_strndup(const char *s, size_t n);
/* Frees p (NULL is allowed) and returns NULL. */
void *ds_free(void *p);

/* Whether an allocation of memory that does not come from the C library must fail, for tests. Counts as one
 * allocation. */
int ds_alloc_fails(void);

/* For tests: makes the (n+1)-th allocation of this process from now on fail once. A negative n switches this off. */
void ds_alloc_fail_after(int64_t n);

static inline void ds_freep(void *pp)
{
        void **p = pp;

        *p = ds_free(*p);
}
