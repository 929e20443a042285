/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes all bytes to a file descriptor
 *
 * A write may be partial, or be interrupted before any byte. Not for non-blocking descriptors.
 */
#pragma once

#include <stddef.h>

/* Returns 0 or a negative errno; -EIO if no more bytes are accepted. Bytes written before remain. The caller traces
 * the error. */
int ds_write_all(int fd, const void *bytes, size_t size);
