/* SPDX-License-Identifier: Apache-2.0 */
#include "util/alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int64_t alloc_fail_after = -1;

int ds_alloc_fails(void)
{
        if (__builtin_expect(atomic_load_explicit(&alloc_fail_after, memory_order_relaxed) < 0, 1))
                return 0;
        return atomic_fetch_sub(&alloc_fail_after, 1) == 0;
}

void ds_alloc_fail_after(int64_t n)
{
        atomic_store(&alloc_fail_after, n);
}

void *ds_alloc(size_t size)
{
        if (ds_alloc_fails())
                return NULL;
        return malloc(size ? size : 1);
}

void *ds_alloc0(size_t n, size_t size)
{
        if (ds_alloc_fails())
                return NULL;
        return calloc(n ? n : 1, size ? size : 1);
}

void *ds_realloc(void *p, size_t n, size_t size)
{
        size_t bytes;

        if (__builtin_mul_overflow(n, size, &bytes) || ds_alloc_fails())
                return NULL;
        return realloc(p, bytes ? bytes : 1);
}

char *ds_strdup(const char *s)
{
        return ds_strndup(s, strlen(s));
}

char *ds_strndup(const char *s, size_t n)
{
        size_t len = strnlen(s, n);
        char *copy = ds_alloc(len + 1);

        if (!copy)
                return NULL;
        memcpy(copy, s, len);
        copy[len] = 0;
        return copy;
}

void *ds_free(void *p)
{
        free(p);
        return NULL;
}
