/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA Driver API as this library exports it
 *
 * The toolkit's cuda.h declares every ABI version of every function if __CUDA_API_VERSION_INTERNAL is defined;
 * otherwise the names of old versions are macros for new ones. All functions declared there are exported, so they have
 * default visibility here; the rest of the library is hidden.
 */
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop

#define DCU_DRIVER_VERSION 13000
