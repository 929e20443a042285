/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's own driver library, beside this one in the process
 *
 * A machine with a GPU also has the genuine libcuda.so.1. It is loaded by its real path with RTLD_LOCAL, for three
 * purposes: the version that it reports; the tables that NVIDIA's runtime takes from the driver itself (export.c),
 * which need the genuine cuInit (it takes no device memory and makes no context); and running a program natively
 * (DETSHARE_FALLBACK=native).
 *
 * Places that are searched: DETSHARE_LIBCUDA only, if set; else the directories of distributions, NVIDIA's installer,
 * its container tools and WSL; then the rest of LD_LIBRARY_PATH. A file with this library's note (note.c) is skipped.
 * The library is never unloaded, because it has threads of its own.
 */
#pragma once

#include "cuda/api.h"

/* A function of the genuine library; NULL: no library, or no such function. */
void *dcu_genuine_symbol(const char *name);
/* The version of the genuine driver; 0: there is none. */
int dcu_genuine_version(void);
/*
 * Calls the genuine cuInit once, with the daemon's GPU (by UUID) as the only visible device. Returns the result of
 * cuInit; CUDA_ERROR_NOT_FOUND: there is no genuine library.
 */
CUresult dcu_genuine_start(const uint8_t uuid[16]);
