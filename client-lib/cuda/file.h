/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a code image from a file
 */
#pragma once

#include <stddef.h>

#include "cuda/api.h"

/*
 * Reads the whole file into malloc'ed memory, with a NUL after its last byte. CUDA_ERROR_FILE_NOT_FOUND: it cannot be
 * opened. CUDA_ERROR_OPERATING_SYSTEM: it cannot be read. CUDA_ERROR_INVALID_IMAGE: it is empty, or larger than an
 * image may be.
 */
CUresult dcu_file_read(const char *path, void **ret_bytes, size_t *ret_size);
