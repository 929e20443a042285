/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/interp/area.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "util/alloc.h"
#include "util/macro.h"

#define PAGE UINT64_C(65536) /* size of the area's pages, bytes; a multiple of the page size of every machine */

struct piece {
        uint64_t at, size; /* offset from the begin of the area, and size, both in bytes */
};

static struct {
        pthread_mutex_t lock;
        struct piece *free; /* sorted by address; adjacent pieces are merged */
        size_t n_free, capacity;
        uint64_t mapped; /* bytes mapped so far, from the area's begin */
} area = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *at_offset(uint64_t offset)
{
        return (void *)(uintptr_t)(DS_IX_AREA_BASE + offset);
}

/* --- free pieces; the caller holds the lock ----------------------------------------------------------------------- */

static void forget(size_t i)
{
        area.n_free--;
        memmove(area.free + i, area.free + i + 1, (area.n_free - i) * sizeof(*area.free));
}

/* Takes `size` bytes from the first free piece that is large enough; UINT64_MAX: none is. */
static uint64_t take_free(uint64_t size)
{
        for (size_t i = 0; i < area.n_free; i++) {
                struct piece *piece = &area.free[i];
                const uint64_t at = piece->at;

                if (piece->size < size)
                        continue;
                piece->at += size;
                piece->size -= size;
                if (!piece->size)
                        forget(i);
                return at;
        }
        return UINT64_MAX;
}

/* Adds a free piece to the list. If there is no memory for the record, the addresses are never reused. */
static void put_free(uint64_t at, uint64_t size)
{
        struct piece *pieces;
        size_t i = area.n_free;

        while (i && area.free[i - 1].at > at)
                i--;
        if (i && area.free[i - 1].at + area.free[i - 1].size == at) {
                area.free[i - 1].size += size;
                if (i < area.n_free && at + size == area.free[i].at) {
                        area.free[i - 1].size += area.free[i].size;
                        forget(i);
                }
                return;
        }
        if (i < area.n_free && at + size == area.free[i].at) {
                area.free[i].at = at;
                area.free[i].size += size;
                return;
        }
        if (area.n_free == area.capacity) {
                pieces = ds_realloc(area.free, 2 * area.capacity + 16, sizeof(*pieces));
                if (!pieces)
                        return;
                area.free = pieces;
                area.capacity = 2 * area.capacity + 16;
        }
        memmove(area.free + i + 1, area.free + i, (area.n_free - i) * sizeof(*area.free));
        area.free[i] = (struct piece){at, size};
        area.n_free++;
}

/* --- the mapping -------------------------------------------------------------------------------------------------- */

/* Extends the mapping, using a free piece at its end if there is one; UINT64_MAX: no memory. */
static uint64_t grow(uint64_t size)
{
        const struct piece *last = area.n_free ? &area.free[area.n_free - 1] : NULL;
        const uint64_t at = last && last->at + last->size == area.mapped ? last->at : area.mapped;
        const uint64_t more = at + size - area.mapped;
        void *want = at_offset(area.mapped), *p;

        if (size > DS_IX_AREA_BYTES - at)
                return UINT64_MAX;
        p = mmap(want, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (p == MAP_FAILED)
                return UINT64_MAX;
        if (p != want) { /* the operating system's kernel does not support MAP_FIXED_NOREPLACE */
                munmap(p, more);
                return UINT64_MAX;
        }
        if (at < area.mapped)
                area.n_free--;
        area.mapped += more;
        return at;
}

void *ds_ix_area_new(uint64_t size)
{
        uint64_t at;

        if (!size || size > DS_IX_AREA_BYTES || ds_alloc_fails())
                return NULL;
        size = DS_ALIGN_UP(size, PAGE);
        (void)pthread_mutex_lock(&area.lock);
        at = take_free(size);
        if (at == UINT64_MAX)
                at = grow(size);
        (void)pthread_mutex_unlock(&area.lock);
        return at == UINT64_MAX ? NULL : at_offset(at);
}

void *ds_ix_area_free(void *p, uint64_t size)
{
        const uint64_t at = (uintptr_t)p - DS_IX_AREA_BASE;

        if (!p)
                return NULL;
        size = DS_ALIGN_UP(size, PAGE);
        (void)pthread_mutex_lock(&area.lock);
        if (madvise(p, size, MADV_DONTNEED) < 0) /* frees the pages, which then read as zeros */
                memset(p, 0, size);
        put_free(at, size);
        (void)pthread_mutex_unlock(&area.lock);
        return NULL;
}
