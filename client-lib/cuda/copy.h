/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one implementation of all copies
 *
 * A copy is a box of bytes with a pitch on each side. Each side is located by its address and checked against the
 * allocation there. The transport depends on the two sides: a device operation if the daemon reaches both, staging if
 * one is pageable host memory, memcpy in the calling thread if both are host memory (after the stream's earlier work).
 */
#pragma once

#include <stdint.h>

#include "core/core.h"
#include "cuda/context.h"
#include "cuda/range.h"

enum dcu_side_rule {
        DCU_SIDE_ANY,    /* host or device, decided by the address */
        DCU_SIDE_DEVICE, /* a CUdeviceptr: device or pinned memory */
};

struct dcu_side {
        uint64_t address, pitch, slice; /* pitch: distance between rows; slice: distance between slices, bytes */
        enum dcu_side_rule rule;
};

struct dcu_box {
        struct dcu_side dst, src;
        uint64_t width, height, depth; /* bytes per row, rows per slice, number of slices */
};

/* Locates both sides; CUDA_ERROR_INVALID_VALUE for addresses that the program may not use. */
CUresult dcu_copy_places(const struct dcu_box *box, enum dcu_place *ret_dst, enum dcu_place *ret_src);
/* Checks the program's parameters as CUDA does and converts them to a box. CUDA_ERROR_INVALID_VALUE if they are
 * invalid or the box is empty. */
CUresult dcu_copy_box_of(const CUDA_MEMCPY3D *params, struct dcu_box *ret);
/* Makes contiguous slices one slice and contiguous rows one row, if both sides allow it. */
void dcu_copy_join(struct dcu_box *box);
/* The daemon's copy kind for these two places, neither of which may be DCU_PLACE_HOST. */
enum dsc_copy_kind dcu_copy_kind(enum dcu_place dst, enum dcu_place src);
/*
 * Copies in the stream. sync: returns when the copy has ended, as calls without Async do. Copies to pageable memory
 * have always ended on return. CUDA_ERROR_INVALID_VALUE for addresses that the program may not use.
 */
CUresult dcu_copy_box(struct dcu_context *context, CUstream stream, int sync, const struct dcu_box *box);
/* Call before this process exports memory to other processes or imports theirs: waits for the copies that calls have not
 * waited for, and from now on every synchronous copy waits for its end. */
CUresult dcu_memory_share(void);
