/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one implementation of all copies
 *
 * A copy is a box of bytes with a pitch on each side. Each side is located by its address and checked against the
 * allocation there. Then the transport is chosen: a device operation if the daemon reaches both sides, staging if one
 * side is pageable host memory, memcpy if both sides are the host's (once the stream has come that far).
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
        uint64_t address, pitch, slice; /* distance between rows and between slices, bytes */
        enum dcu_side_rule rule;
};

struct dcu_box {
        struct dcu_side dst, src;
        uint64_t width, height, depth; /* width in bytes, number of rows, number of slices */
};

/* Locates both sides; CUDA_ERROR_INVALID_VALUE for addresses that the program may not use. */
CUresult dcu_copy_places(const struct dcu_box *box, enum dcu_place *ret_dst, enum dcu_place *ret_src);
/* Checks a box as CUDA does. CUDA_ERROR_INVALID_VALUE also for an empty one. */
CUresult dcu_copy_box_of(const CUDA_MEMCPY3D *params, struct dcu_box *ret);
/* Merges slices, then rows, that are contiguous on both sides. */
void dcu_copy_join(struct dcu_box *box);
/* The daemon's kind of a copy between such places; neither is HOST. */
enum dsc_copy_kind dcu_copy_kind(enum dcu_place dst, enum dcu_place src);
/*
 * Copies in the stream. sync: returns when the copy has ended, as calls without Async do. Copies to pageable memory
 * have always ended on return. CUDA_ERROR_INVALID_VALUE for addresses that the program may not use.
 */
CUresult dcu_copy_box(struct dcu_context *context, CUstream stream, int sync, const struct dcu_box *box);
