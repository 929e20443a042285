/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of entry points by base name, introduction version and default stream
 */
#pragma once

#include <stddef.h>

struct dcu_proc {
        const char *base;   /* base name, for example cuMemAlloc */
        const char *symbol; /* exported name, for example cuMemAlloc_v2 */
        void *function;
        int version;    /* CUDA version that introduced this ABI, for example 3020 */
        int per_thread; /* 1: the _ptds or _ptsz variant */
};

/* Sorted by base, then version, then per_thread; generated from the toolkit's headers. */
extern const struct dcu_proc dcu_procs[];
extern const size_t dcu_n_procs;
