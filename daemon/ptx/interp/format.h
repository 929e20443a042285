/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of one printf of a kernel
 *
 * Formats as CUDA's device printf does: arguments lie in a buffer, each aligned to its size, smaller integers and
 * floats promoted as C promotes them. Nothing is trusted: every byte of format, arguments and strings is read through a
 * callback, and the output of one call is bounded. The caller decides where the bytes are, and where the text goes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DS_IX_FORMAT_ARGUMENTS 32 /* further conversions are printed as written, CUDA's rule */
#define DS_IX_TEXT_MAX 16384u     /* bytes of one call; longer text is cut */

struct ds_ix_format {
        /* Returns the byte at an address of the kernel, or -1. */
        int (*byte)(void *user, uint64_t address);
        void *user;
        uint64_t arguments; /* address of the arguments; 0: none */
        uint64_t bad;       /* address that could not be read */
        char *text;         /* [DS_IX_TEXT_MAX], not terminated */
        size_t size;
};

#define DS_IX_FORMAT_E_ADDRESS 1
/* Returns 0 and the number of arguments used, or DS_IX_FORMAT_E_ADDRESS with format->bad set. */
int ds_ix_format(struct ds_ix_format *format, uint64_t address, uint32_t *ret_arguments);
