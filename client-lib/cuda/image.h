/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a code image is
 *
 * CUDA hands code over as a pointer without a length: PTX text, a cubin, a fatbin container, or the wrapper that nvcc
 * puts before one. The length is read off the image's own headers. They are the caller's own memory and are believed as
 * far as CUDA believes them; sizes are still checked for overflow and against DCU_IMAGE_MAX.
 */
#pragma once

#include <stddef.h>

#define DCU_IMAGE_MAX ((size_t)256 << 20)

/*
 * The bytes to send for an image at p: of a wrapper, those of the container that it points to. *ret_size does not count
 * the NUL that ends PTX text. prefer_part: of code that was linked from one part take the part, which has its PTX. 0
 * when it is no image.
 */
int dcu_image_measure(const void *p, int prefer_part, const void **ret_bytes, size_t *ret_size);
/* 1 if `size` bytes begin like something that CUDA loads: a cubin, a fatbin container, or PTX text's .version. */
int dcu_image_plausible(const void *bytes, size_t size);
