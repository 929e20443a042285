/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images of which coloured forms of kernels are wanted
 *
 * A client that has coloured tensors brings, instead of an image, one inside a struct ds_coloured_image (proto/wire.h):
 * which kernels with which parameters, and how its tensors lie. The image must have PTX, and what is loaded is that
 * text with the coloured forms behind it (ptx/pass/colour.h). From there on it is a module like others: compiled, known
 * again by its text, given other forms. A kernel that cannot be coloured is no module: the client is told why.
 *
 * Nothing in it is believed; sizes are looked at before they are used.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "helper/check.h"
#include "proto/wire.h"

#define DS_COLOURED_TEXT_MAX ((size_t)8 << 20) /* of PTX: what is made of it nobody else waits for long */

/* What lies in such an image; all of it is the image's. */
struct ds_coloured {
        const struct ds_coloured_image *header; /* NULL: it is an image like others, and it is all of it */
        const struct ds_coloured_want *wants;
        const uint8_t *image;
        size_t size;
};

/* 0, or -1 with the result filled: it makes no sense. bytes: aligned as malloc does, and nobody changes them. */
int ds_coloured_open(const uint8_t *bytes, size_t size, struct ds_coloured *ret, struct ds_check_result *result);
/* The text with the forms in place of *text (ds_free). 0, or -1 with the result filled. */
int ds_coloured_make(const struct ds_coloured *coloured, char **text, size_t *length, struct ds_check_result *result);
