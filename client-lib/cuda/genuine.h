/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's own driver library, beside this one in the process
 *
 * On a machine with a GPU the genuine libcuda.so.1 is there too. It is loaded by its real path into a namespace of
 * its own symbols (RTLD_LOCAL), for three things only: the version that it reports; the tables that NVIDIA's runtime
 * takes from the driver itself (export.c), which need cuInit of it, and that takes no device memory and makes no
 * context; and running a program natively where that was asked for (DETSHARE_FALLBACK=native).
 *
 * Where it is looked for: DETSHARE_LIBCUDA and nowhere else when that is set; else the folders where distributions,
 * NVIDIA's installer, its container tools and WSL put it; then the rest of LD_LIBRARY_PATH. A file that carries this
 * library's note (note.c) is passed over. The library stays loaded: it has threads of its own.
 */
#pragma once

#include "cuda/api.h"

/* A function of the genuine library, NULL where there is no library or none of that name. */
void *dcu_genuine_symbol(const char *name);
/* cuDriverGetVersion of it; 0 where there is none. */
int dcu_genuine_version(void);
/*
 * cuInit of it, once, with the daemon's GPU (its UUID) as the only visible device. CUDA_ERROR_NOT_FOUND without a
 * library, else what it said.
 */
CUresult dcu_genuine_start(const uint8_t uuid[16]);
