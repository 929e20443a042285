/* SPDX-License-Identifier: Apache-2.0 */
#include "supervisor/poll.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define FIRST_ENTRIES 256u /* initial size of the table in entries; a new loop's table is smaller */

/* Spare memory that replaces a failed reallocation of the table. */
static void *reserve;
static size_t reserve_bytes;

static void *uv_allocate(size_t size)
{
        return ds_alloc(size);
}

static void *uv_allocate_zeroed(size_t n, size_t size)
{
        return ds_alloc0(n, size);
}

static void uv_release(void *p)
{
        ds_free(p);
}

static void *uv_reallocate(void *p, size_t size)
{
        void *bigger = ds_realloc(p, size, 1);

        if (bigger || !reserve || size > reserve_bytes)
                return bigger;
        if (p)
                memcpy(reserve, p, DS_MIN(malloc_usable_size(p), size));
        ds_free(p);
        return DS_TAKE_PTR(reserve);
}

static int reserve_make(size_t bytes)
{
        assert(!reserve);
        reserve = ds_alloc(bytes);
        if (!reserve)
                return ds_error_origin(-ENOMEM);
        reserve_bytes = bytes;
        return 0;
}

int ds_poll_setup(void)
{
        int r;

        r = uv_replace_allocator(uv_allocate, uv_reallocate, uv_allocate_zeroed, uv_release);
        if (r < 0)
                return ds_error_origin(r);
        ds_poll_settled();
        return ds_error_trace(reserve_make(FIRST_ENTRIES * sizeof(void *)));
}

void ds_poll_settled(void)
{
        reserve = ds_free(reserve);
}

/* Size of the table for descriptor fd, as libuv computes it: entries rounded up to a power of two, including two for
 * libuv itself. */
static size_t table_bytes(unsigned fd)
{
        size_t entries = 1;

        while (entries < (size_t)fd + 3)
                entries *= 2;
        return entries * sizeof(void *);
}

int ds_poll_start(uv_poll_t *poll, int events, uv_poll_cb fn)
{
        uv_os_fd_t fd = -1;
        int r;

        r = uv_fileno((uv_handle_t *)poll, &fd);
        if (r < 0)
                return ds_error_origin(r);
        if ((unsigned)fd >= poll->loop->nwatchers) {
                ds_poll_settled();
                r = reserve_make(table_bytes((unsigned)fd));
                if (r)
                        return ds_error_trace(r);
        }
        r = uv_poll_start(poll, events, fn);
        ds_poll_settled();
        return r < 0 ? ds_error_origin(r) : 0;
}
