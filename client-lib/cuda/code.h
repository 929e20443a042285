/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code: a loaded image and its kernels
 *
 * Modules and libraries both use an image. The image keeps its bytes if it may have to be loaded again (a library
 * outlives contexts). It knows its number in the daemon and the epoch of that number, and has one entry per kernel
 * that the program requested. An entry holds all that a launch needs: the daemon's kernel id, the layout of parameters,
 * limits, and attributes that the program set. Kernels that the daemon described with others get their entry when the
 * program requests them, without a request to the daemon.
 *
 * Entries live as long as their image. Ids are refreshed after a reset of the session.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "cuda/api.h"

/* A failed insertion leaves the entry's hh.tbl NULL; by default uthash would end the host program. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct dcu_function;
struct dcu_kernel;
struct dcu_jit;

struct dcu_entry {
        UT_hash_handle hh; /* in the image's table, by name */
        struct dcu_image *image;
        _Atomic uint32_t epoch; /* epoch of the session (dcu.epoch) in which info.id is valid */
        struct dsc_kernel info;
        _Atomic int max_dynamic_shared;
        int carveout, non_portable_cluster, cluster_policy;
        int cluster[3];                /* cluster size that the program set as required, else the size in the code */
        struct dcu_function *function; /* handles of the kernel; protected by dcu.lock */
        struct dcu_kernel *kernel;
};

struct dcu_image {
        pthread_mutex_t lock; /* protects loading and the list of entries */
        /* malloc'ed copy of the image; NULL if the caller keeps the bytes, or nothing loads the image again */
        void *copy;
        const void *bytes;
        size_t size;
        uint32_t max_registers, optimization; /* compiler options, as in struct dsc_load */
        /* epoch of the session (dcu.epoch) in which `module` is valid; 0: never loaded */
        uint32_t epoch;
        uint64_t module;
        struct dcu_entry *entries;       /* hash by name, in the order in which the entries were made */
        struct dsc_described *described; /* kernels described by the daemon in this epoch that have no entry yet */
};

/*
 * Makes an image from the caller's bytes. keep says how long the bytes are valid:
 *  - 0: until the image is loaded for the first time;
 *  - 1: until this call returns, so the image copies them;
 *  - 2: as long as the image lives, because the caller keeps them in place.
 */
struct dcu_image *dcu_image_new(const void *bytes, size_t size, int keep);
/* Unloads the image from the daemon (if in_daemon) and frees it. The caller has freed the handles of its entries
 * before. */
void dcu_image_free(struct dcu_image *image, int in_daemon);
/* Loads the image in the daemon. jit may be NULL. */
CUresult dcu_image_load(struct dcu_image *image, struct dcu_jit *jit);
/* Returns the entry of the kernel with that name. CUDA_ERROR_NOT_FOUND: the image has no such kernel. */
CUresult dcu_image_entry(struct dcu_image *image, const char *name, struct dcu_entry **ret);
/* Address and size of a global variable. */
CUresult dcu_image_global(struct dcu_image *image, const char *name, uint64_t *ret_address, uint64_t *ret_bytes);
/* Makes entries for all kernels of the image. *ret: a malloc'ed array of *ret_n, in the image's order. */
CUresult dcu_image_all_entries(struct dcu_image *image, struct dcu_entry ***ret, size_t *ret_n);
/* Requests the kernel's new id after a reset of the session. */
CUresult dcu_entry_reload(struct dcu_entry *entry);
