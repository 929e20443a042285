/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coloured tensors, inside: coloured.c is what a session has of the pool, coloured_copy.c the bytes on their way
 *
 * The session borrows slabs of the daemon's pool and deals in their sectors itself: it knows the class of each from the
 * pool's file, and which are taken. All its tensors lie in one window of logical addresses, with one table in device
 * memory of its own that says for each logical sector which one it is. So an allocation is a write of some entries,
 * and every launch of a coloured kernel is given the same parameter.
 *
 * One lock, taken before all others of the core and held across requests (allocations are rare), but not where the
 * program's own work is waited for, which may wait for another thread that wants the lock.
 */
#pragma once

#include "core/internal.h"

#define DSC__COLOURED_WINDOW (UINT64_C(1) << 52) /* no GPU has an address there: who is not translated faults */

struct dsc__tensor {
        uint64_t first, n, bytes; /* logical sectors; bytes as asked for */
        uint32_t *sectors;        /* of the pool */
};

enum dsc__coloured_kernel {
        DSC__COPY16,
        DSC__COPY1,
        DSC__FILL16,
        DSC__FILL1,
        _DSC__COLOURED_KERNELS,
};

#define DSC__COLOURED_MASKS 4 /* 1: dst; 2: src; 3: both */

struct dsc__coloured {
        const struct ds_pool_file *facts; /* the mapped file */
        size_t file_bytes;
        uint64_t table, n_logical; /* its entries; table 0: there is none yet */
        uint64_t word[2];
        uint32_t stream;                  /* for entries of the table; 0: none yet */
        uint8_t *taken;                   /* of all sectors of the pool */
        uint64_t slabs;                   /* borrowed, a bit each */
        uint64_t used[DS_POOL_SLABS_MAX]; /* sectors taken, by slab */
        struct dsc__tensor *tensors;      /* by first */
        size_t n_tensors, cap_tensors;
        uint64_t module; /* of the kernels below; 0: not loaded */
        uint64_t kernels[_DSC__COLOURED_KERNELS][DSC__COLOURED_MASKS];
};

/* Held from the first to the second; NULL with *ret_error (then nothing is held): there is no pool, or no session. */
struct dsc__coloured *dsc__coloured_lock(dsc_session **ret_session, int *ret_error);
void dsc__coloured_unlock(void);
/* The tensor in which these bytes lie; NULL: there is none. */
const struct dsc__tensor *dsc__coloured_find(const struct dsc__coloured *c, uint64_t address, uint64_t bytes);
static inline bool dsc__coloured_is(const struct dsc__coloured *c, uint64_t address)
{
        return address >= DSC__COLOURED_WINDOW &&
               (address - DSC__COLOURED_WINDOW) >> c->facts->sector_bits < c->n_logical;
}
/* An image with what is wanted of it, malloc'ed. */
int dsc__coloured_pack(const struct dsc__coloured *c, const void *image, size_t size,
        const struct ds_coloured_want *wants, size_t n, void **ret, size_t *ret_size);
