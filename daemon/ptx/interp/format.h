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

/* most arguments of one call; conversions beyond them are printed as written, as in CUDA */
#define DS_IX_FORMAT_ARGUMENTS 32
#define DS_IX_TEXT_MAX 16384u /* most bytes of one call's text; longer text is cut */

struct ds_ix_format {
        /* Returns the byte at an address of the kernel, or -1. */
        int (*byte)(void *user, uint64_t address);
        void *user;
        uint64_t arguments; /* address of the arguments; 0: none */
        uint64_t bad;       /* address that could not be read, if DS_IX_FORMAT_E_ADDRESS is returned */
        char *text;         /* buffer of DS_IX_TEXT_MAX bytes; the text is not NUL-terminated */
        size_t size;
};

#define DS_IX_FORMAT_E_ADDRESS 1
/* Formats the text whose format string is at `address`. Returns 0 and the number of arguments used, or
 * DS_IX_FORMAT_E_ADDRESS with format->bad set. */
int ds_ix_format(struct ds_ix_format *format, uint64_t address, uint32_t *ret_arguments);
