/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies as the runtime describes them, in the driver's words
 *
 * The runtime says the kind of a copy and the driver the kinds of both sides; cudaMemcpyDefault is the driver's
 * "unified": the addresses say it. Arrays are not offered, so a copy that names one is not supported. Shapes are judged
 * by the driver, but for rows that are longer than their pitch and slices that reach into the next: only the runtime
 * has a code for these.
 */
#pragma once

#include "cudart/rt.h"

cudaError_t rt_copy_1d(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, CUDA_MEMCPY3D *ret);
cudaError_t rt_copy_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
        enum cudaMemcpyKind kind, CUDA_MEMCPY2D *ret);
cudaError_t rt_copy_3d(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *ret);
/* The other way round, for programs that ask a node what it does. */
void rt_copy_told(const CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *ret);
