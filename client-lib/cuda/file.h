/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a code image from a file
 */
#pragma once

#include <stddef.h>

#include "cuda/api.h"

/*
 * The whole file, malloc'ed, with a NUL behind its last byte. CUDA_ERROR_FILE_NOT_FOUND if it cannot be opened,
 * CUDA_ERROR_OPERATING_SYSTEM if it cannot be read, CUDA_ERROR_INVALID_IMAGE if it is empty or larger than an image may
 * be.
 */
CUresult dcu_file_read(const char *path, void **ret_bytes, size_t *ret_size);
