/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images with requests for coloured forms of kernels
 *
 * A client with coloured tensors sends a struct ds_coloured_image (proto/wire.h) that contains the image. It lists the
 * kernels, their parameters, and the layout of its tensors. The image must have PTX. The loaded module is that text,
 * followed by the coloured forms (ptx/pass/colour.h). From there on it is a normal module: compiled, cached by its
 * text, and given other forms. If a kernel cannot be coloured the load fails, and the client gets the reason.
 *
 * All content is untrusted; sizes are checked before use.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "helper/check.h"
#include "proto/wire.h"

/* most bytes of PTX; this bounds the time, since other requests wait meanwhile */
#define DS_COLOURED_TEXT_MAX ((size_t)8 << 20)

/* Contents of an image with requests for coloured kernels; pointers into its bytes. */
struct ds_coloured {
        const struct ds_coloured_image *header; /* NULL: an image without such requests, and `image` is all of it */
        const struct ds_coloured_want *wants;
        const uint8_t *image;
        size_t size;
};

/* Finds the parts of an image. bytes: aligned as by malloc(), and immutable. Returns 0, or -1: the content is
 * invalid, and *result holds the error. */
int ds_coloured_open(const uint8_t *bytes, size_t size, struct ds_coloured *ret, struct ds_check_result *result);
/* Replaces *text (ds_free) by the same text followed by the coloured kernels. Returns 0, or -1: *result holds the
 * error. */
int ds_coloured_make(const struct ds_coloured *coloured, char **text, size_t *length, struct ds_check_result *result);
