/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of one printf of a kernel
 *
 * Formats as CUDA's device printf does: arguments lie in a buffer, each aligned to its size, smaller integers and
 * floats promoted as C promotes them. Nothing is trusted: every byte of format, arguments and strings is asked for, and
 * what one call can make is bounded. Not here: where the bytes are, and where the text goes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DS_IX_FORMAT_ARGUMENTS 32 /* conversions beyond are printed as they are written, CUDA's rule */
#define DS_IX_TEXT_MAX 16384u     /* bytes of one call; what is longer is cut */

struct ds_ix_format {
        /* The byte at an address of the kernel, or -1. */
        int (*byte)(void *user, uint64_t address);
        void *user;
        uint64_t arguments; /* address, 0: there are none */
        uint64_t bad;       /* the address that could not be read */
        char *text;         /* [DS_IX_TEXT_MAX], not terminated */
        size_t size;
};

#define DS_IX_FORMAT_E_ADDRESS 1
/* 0 and the number of arguments used, or DS_IX_FORMAT_E_ADDRESS and format->bad. */
int ds_ix_format(struct ds_ix_format *format, uint64_t address, uint32_t *ret_arguments);
