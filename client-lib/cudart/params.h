/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Translation of the runtime's copy descriptions into the driver's
 *
 * The runtime gives one kind per copy, the driver wants the memory type of both sides; cudaMemcpyDefault becomes the
 * driver's "unified": it decides by the addresses. Arrays are not supported. The driver checks shapes, except rows
 * longer than their pitch and slices that overlap the next one: only the runtime has error codes for these.
 */
#pragma once

#include "cudart/rt.h"

cudaError_t rt_copy_1d(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, CUDA_MEMCPY3D *ret);
cudaError_t rt_copy_2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
        enum cudaMemcpyKind kind, CUDA_MEMCPY2D *ret);
cudaError_t rt_copy_3d(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *ret);
/* Translates the driver's description of a copy node to the runtime's. */
void rt_copy_told(const CUDA_MEMCPY3D *copy, struct cudaMemcpy3DParms *ret);
