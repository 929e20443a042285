/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code: one loaded image and the kernels that have been asked of it
 *
 * A module and a library both stand on an image. The image keeps its bytes where it may have to load them again (a
 * library outlives the contexts that use it), knows its number in the daemon and the epoch in which that number was
 * given, and has one entry per kernel, made when the kernel is first asked for. An entry holds everything that a launch
 * needs: the daemon's kernel id, the layout of the parameters, the limits, and what the program has set.
 *
 * Entries live as long as their image. Ids are refreshed when the session was reset since.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "cuda/api.h"

struct dcu_function;
struct dcu_kernel;
struct dcu_jit;

struct dcu_entry {
        struct dcu_entry *next;
        struct dcu_image *image;
        _Atomic uint32_t epoch; /* in which info.id is valid */
        struct dsc_kernel info;
        _Atomic int max_dynamic_shared;
        int carveout, non_portable_cluster, cluster_policy;
        int cluster[3];                /* that the program requires; its code's otherwise */
        struct dcu_function *function; /* the handles given out; dcu.lock */
        struct dcu_kernel *kernel;
};

struct dcu_image {
        pthread_mutex_t lock; /* loading, entries */
        void *copy;           /* malloc'ed bytes, NULL if the caller keeps them or nobody needs them again */
        const void *bytes;
        size_t size;
        uint32_t max_registers, optimization; /* for a compiler, as in struct dsc_load */
        uint32_t epoch;                       /* in which `module` is valid; 0: never loaded */
        uint64_t module;
        struct dcu_entry *entries;
};

/*
 * An image over bytes of the caller. keep: 0 the bytes are needed during this call's loading only, 1 they are copied,
 * 2 the caller keeps them in place for the image's life.
 */
struct dcu_image *dcu_image_new(const void *bytes, size_t size, int keep);
/* Unload (in_daemon) and free; the handles of its entries have been freed before. */
void dcu_image_free(struct dcu_image *image, int in_daemon);
/* Have it loaded in the daemon. jit may be NULL. */
CUresult dcu_image_load(struct dcu_image *image, struct dcu_jit *jit);
/* The kernel of that name; CUDA_ERROR_NOT_FOUND. */
CUresult dcu_image_entry(struct dcu_image *image, const char *name, struct dcu_entry **ret);
/* Address and size of a global variable. */
CUresult dcu_image_global(struct dcu_image *image, const char *name, uint64_t *ret_address, uint64_t *ret_bytes);
/* Entries for all kernels, in the image's order: a malloc'ed array of *ret_n. */
CUresult dcu_image_all_entries(struct dcu_image *image, struct dcu_entry ***ret, size_t *ret_n);
/* Refresh the entry after a reset of the session. */
CUresult dcu_entry_reload(struct dcu_entry *entry);
