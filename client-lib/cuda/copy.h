/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One way to copy, under all of CUDA's copies
 *
 * A copy is a box of bytes with a pitch on both sides. Its sides are placed by address, checked against what is
 * allocated there, and the right transport is taken: a device operation where the daemon reaches both sides, staging
 * where one side is the program's own memory, memcpy where both are the host's (after the stream has come that far).
 */
#pragma once

#include <stdint.h>

#include "core/core.h"
#include "cuda/context.h"
#include "cuda/range.h"

enum dcu_side_rule {
        DCU_SIDE_ANY,    /* host or device, decided by address */
        DCU_SIDE_DEVICE, /* what a CUdeviceptr may name: device or pinned memory */
};

struct dcu_side {
        uint64_t address, pitch, slice; /* bytes between rows, between slices */
        enum dcu_side_rule rule;
};

struct dcu_box {
        struct dcu_side dst, src;
        uint64_t width, height, depth; /* bytes, rows, slices */
};

/* How both sides are reached; CUDA_ERROR_INVALID_VALUE for addresses that are not the program's to use. */
CUresult dcu_copy_places(const struct dcu_box *box, enum dcu_place *ret_dst, enum dcu_place *ret_src);
/* As CUDA describes a copy: the box. CUDA_ERROR_INVALID_VALUE also for one without bytes. */
CUresult dcu_copy_box_of(const CUDA_MEMCPY3D *params, struct dcu_box *ret);
/* Slices, then rows, that follow each other without a gap on both sides become one. */
void dcu_copy_join(struct dcu_box *box);
/* What the daemon calls a copy between such places, neither of them HOST. */
enum dsc_copy_kind dcu_copy_kind(enum dcu_place dst, enum dcu_place src);
/*
 * Copy in the stream. sync: return when the copy has ended, as the calls without Async do. Copies to the program's own
 * memory have always ended on return. CUDA_ERROR_INVALID_VALUE for addresses that are not the program's to use.
 */
CUresult dcu_copy_box(struct dcu_context *context, CUstream stream, int sync, const struct dcu_box *box);
