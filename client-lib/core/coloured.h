/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of coloured tensors: coloured.c manages the session's part of the pool, coloured_copy.c copies bytes
 *
 * The session borrows slabs from the daemon's pool and allocates their sectors itself: the pool's file gives the colour
 * of each sector. All its tensors lie in one window of logical addresses. One table in device memory maps each logical
 * sector to a sector of the pool. So an allocation writes some entries of the table, and every launch of a coloured
 * kernel gets the same parameter.
 *
 * One lock, taken before all other locks of the core. It is held across requests (allocations are rare), but not while
 * waiting for the program's own work, which may wait for another thread that needs the lock.
 */
#pragma once

#include "core/internal.h"

/* logical addresses of tensors begin here: an address range that no GPU uses, so an untranslated access faults */
#define DSC__COLOURED_WINDOW (UINT64_C(1) << 52)

struct dsc__tensor {
        uint64_t first, n, bytes; /* first logical sector and number of sectors; requested size in bytes */
        uint32_t *sectors;        /* number in the pool of each of the n sectors */
};

enum dsc__coloured_kernel {
        DSC__COPY16,
        DSC__COPY1,
        DSC__FILL16,
        DSC__FILL1,
        _DSC__COLOURED_KERNELS,
};

#define DSC__COLOURED_MASKS 4 /* mask of the coloured parameters: 1 dst, 2 src, 3 both */

struct dsc__coloured {
        const struct ds_pool_file *facts; /* the mapped file of the pool */
        size_t file_bytes;
        /* table: device address of the table, 0: not allocated yet; n_logical: number of its entries */
        uint64_t table, n_logical;
        uint64_t word[2];
        uint32_t stream;                  /* stream that copies new entries to the table; 0: not created yet */
        uint8_t *taken;                   /* one byte per sector of the pool, 1: a tensor uses it */
        uint64_t slabs;                   /* bit mask of slabs that the session has borrowed */
        uint64_t used[DS_POOL_SLABS_MAX]; /* number of sectors in use, by slab */
        struct dsc__tensor *tensors;      /* sorted by first sector */
        size_t n_tensors, cap_tensors;
        uint64_t module; /* module of the copying kernels; 0: not loaded */
        uint64_t kernels[_DSC__COLOURED_KERNELS][DSC__COLOURED_MASKS];
};

/* dsc__coloured_lock() takes the lock and returns the session's state. NULL with *ret_error and without the lock:
 * there is no pool, or no session. dsc__coloured_unlock() releases the lock. */
struct dsc__coloured *dsc__coloured_lock(dsc_session **ret_session, int *ret_error);
void dsc__coloured_unlock(void);
/* Returns the tensor that contains all these bytes; NULL: no tensor does. */
const struct dsc__tensor *dsc__coloured_find(const struct dsc__coloured *c, uint64_t address, uint64_t bytes);
static inline bool dsc__coloured_is(const struct dsc__coloured *c, uint64_t address)
{
        return address >= DSC__COLOURED_WINDOW &&
               (address - DSC__COLOURED_WINDOW) >> c->facts->sector_bits < c->n_logical;
}
/* Makes a malloc'ed image that asks for the wanted forms of kernels in `image`. */
int dsc__coloured_pack(const struct dsc__coloured *c, const void *image, size_t size,
        const struct ds_coloured_want *wants, size_t n, void **ret, size_t *ret_size);
