/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes into a file descriptor, all of them
 *
 * A write may take a part, or be interrupted before it took any. Descriptors that would block are not for this.
 */
#pragma once

#include <stddef.h>

/* 0, or a negative errno: -EIO where nothing more is taken. What was written before stays. Leaves no trace; the caller
 * does. */
int ds_write_all(int fd, const void *bytes, size_t size);
