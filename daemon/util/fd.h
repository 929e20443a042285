/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes all bytes to a file descriptor
 *
 * A write may be partial, or be interrupted before any byte. Not for non-blocking descriptors.
 */
#pragma once

#include <stddef.h>

/* Writes all bytes. Returns 0 or a negative errno; -EIO if the file accepts no more bytes. Bytes written before an
 * error remain. The caller traces the error. */
int ds_write_all(int fd, const void *bytes, size_t size);
