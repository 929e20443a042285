/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges: what kind of memory an address is
 *
 * CUDA decides by address: unified copies, pointer attributes, frees. One sorted table holds all ranges that this
 * process has from the daemon (device memory, pinned memory, globals of modules) or has registered. A lookup copies the
 * entry under a shared lock, so the result stays usable while other threads change the table.
 *
 * Only the daemon gives out addresses between DCU_WINDOWS_LOW and DCU_WINDOWS_HIGH. An address there that lies in no
 * range is refused, not accessed.
 */
#pragma once

#include <stdint.h>

#include "cuda/api.h"

#define DCU_WINDOWS_LOW 0x100000000000ULL
#define DCU_WINDOWS_HIGH 0x500000000000ULL

struct dcu_context;
struct dcu_image;

enum dcu_range_kind {
        DCU_RANGE_DEVICE = 1,
        DCU_RANGE_PINNED,     /* pinned memory: host memory that the device sees at the same address */
        DCU_RANGE_HOST,       /* cuMemHostAlloc() in a session without shared memory: usable by the host only */
        DCU_RANGE_REGISTERED, /* cuMemHostRegister(): bookkeeping; copied like any host memory */
        DCU_RANGE_GLOBAL,     /* variable of a module */
        DCU_RANGE_POOL,       /* device memory from a pool */
        DCU_RANGE_MANAGED,    /* cuMemAllocManaged(): like PINNED */
        DCU_RANGE_MAPPED,     /* device memory mapped by cuMemMap() */
        DCU_RANGE_OPENED,     /* device memory of another process */
        DCU_RANGE_REPLACED,   /* registered memory that the device can access (see replace.h) */
};

/* Advice of the program about a range of managed memory, index of dcu_range.advice. */
enum dcu_advice {
        DCU_ADVICE_READ_MOSTLY,
        DCU_ADVICE_PREFERRED,
        DCU_ADVICE_ACCESSED,
        DCU_ADVICE_PREFETCHED,
        DCU_ADVICES,
};

struct dcu_range {
        uint64_t base, size;
        enum dcu_range_kind kind;
        /* flags of cuMemHostAlloc or cuMemHostRegister; for a MAPPED range its access flags (CUmemAccess_flags) */
        unsigned int flags;
        int sync_memops;
        unsigned long long id;
        struct dcu_context *owner;
        const struct dcu_image *image; /* image of a GLOBAL range; else NULL */
        CUmemLocation advice[DCU_ADVICES];
        /* POOL: block; DEVICE: block, NULL for an allocation of the daemon; MAPPED, OPENED: object; REGISTERED:
         * device's address of the replaced pages, NULL if not
         * replaced */
        void *detail;
};

/* Kind of memory at an address, as copies see it. */
enum dcu_place {
        DCU_PLACE_BAD,    /* the range is not all within one known range, or no known range is there */
        DCU_PLACE_DEVICE, /* device memory or a global */
        DCU_PLACE_PINNED,
        DCU_PLACE_HOST, /* pageable memory of the program */
};

/* Adds the range and fills in range->id. CUDA_ERROR_OUT_OF_MEMORY; CUDA_ERROR_INVALID_VALUE: it overlaps another
 * one. */
CUresult dcu_range_add(const struct dcu_range *range);
/* Copies the range that contains the address to *ret. 1: there is one. */
int dcu_range_find(uint64_t address, struct dcu_range *ret);
/* 1: some range overlaps [address, address + size). */
int dcu_range_overlaps(uint64_t address, uint64_t size);
/* Removes the range that begins at base and whose kind is in the mask (1 << kind), and copies it to *ret. 1: there
 * was one. */
int dcu_range_remove(uint64_t base, unsigned int kinds, struct dcu_range *ret);
void dcu_range_set_sync_memops(uint64_t address, int value);
/* Stores one kind of advice for the managed memory at the address. */
void dcu_range_advise(uint64_t address, enum dcu_advice advice, const CUmemLocation *location);
/* Sets range->flags of the range of that kind that begins at base. 0: there is none. */
int dcu_range_set_flags(uint64_t base, enum dcu_range_kind kind, unsigned int flags);
/* *ret_address, *ret_bytes: an image's global variable. Adds a range for the variable. */
CUresult dcu_range_global(struct dcu_image *image, struct dcu_context *owner, const char *name, uint64_t *ret_address,
        uint64_t *ret_bytes);
/* Removes all ranges of an image. */
void dcu_range_remove_image(const struct dcu_image *image);
void dcu_range_set_detail(uint64_t base, void *detail);
/* Frees the pages of registered memory whose range was removed (hostmem.c). */
void dcu_hostmem_unregister(const struct dcu_range *range, int in_daemon);
/* Removes all ranges of a kind. */
void dcu_range_remove_kind(enum dcu_range_kind kind);
/* Frees all memory that the context owns; in_daemon = 0: a reset of the session frees it in the daemon. */
void dcu_range_free_owned(struct dcu_context *owner, int in_daemon);

/* Returns the kind of memory at [address, address + extent), extent >= 1. */
enum dcu_place dcu_place_of(uint64_t address, uint64_t extent);
/* CUDA_SUCCESS if a memset of `height` rows of `width` elements at dst is valid (memset.c). */
CUresult dcu_memset_check(uint64_t dst, uint64_t pitch, uint32_t element, uint64_t width, uint64_t height);
