/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA Driver API as this library exports it
 *
 * cuda.h of the toolkit declares every ABI version of every function when __CUDA_API_VERSION_INTERNAL is defined;
 * without it the names of old versions are macros for new ones. All functions declared there are exported, so they get
 * default visibility here and everything else of the library stays hidden.
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
