/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Length of a code image
 *
 * CUDA passes code as a pointer without a length: PTX text, a cubin, a fatbin container, or the wrapper that nvcc puts
 * before one. The length comes from the image's own headers. They lie in the caller's memory and are trusted as far as
 * CUDA trusts them; sizes are checked for overflow and against DCU_IMAGE_MAX.
 */
#pragma once

#include <stddef.h>

#define DCU_IMAGE_MAX ((size_t)256 << 20)

/*
 * *ret_bytes: the bytes to send for the image at p (for a wrapper, those of its container). *ret_size does not count
 * the NUL after PTX text. prefer_part: takes the part, with its PTX, if the code was linked from one part. 0: p is no
 * image.
 */
int dcu_image_measure(const void *p, int prefer_part, const void **ret_bytes, size_t *ret_size);
/* 1: the `size` bytes begin like a cubin, a fatbin container, or PTX text (.version). */
int dcu_image_plausible(const void *bytes, size_t size);
