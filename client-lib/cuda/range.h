/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an address is
 *
 * CUDA decides by address: copies with unified types, pointer attributes, frees. All ranges that this process has from
 * the daemon (device memory, pinned memory, module globals) or has registered are kept in one sorted table. Lookups
 * copy the entry out under a shared lock, so an answer stays usable while others change the table.
 *
 * Addresses between DCU_WINDOWS_LOW and DCU_WINDOWS_HIGH are given out by the daemon only: one that lies there and in
 * no range is nobody's memory, and is refused instead of touched.
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
        DCU_RANGE_PINNED,     /* host memory that the device sees at the same address */
        DCU_RANGE_HOST,       /* cuMemHostAlloc's memory where the session has no shared memory: for the host only */
        DCU_RANGE_REGISTERED, /* cuMemHostRegister: bookkeeping, copied like any host memory */
        DCU_RANGE_GLOBAL,     /* a module's variable */
        DCU_RANGE_POOL,       /* device memory of a pool */
        DCU_RANGE_MANAGED,    /* cuMemAllocManaged: as PINNED */
        DCU_RANGE_MAPPED,     /* device memory that the program placed */
        DCU_RANGE_OPENED,     /* another process's device memory */
        DCU_RANGE_REPLACED,   /* registered memory where the device has it, see replace.h */
};

/* Of managed memory: the place that was said, type INVALID: none. */
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
        unsigned int flags; /* of cuMemHostAlloc or cuMemHostRegister; MAPPED: CUmemAccess_flags */
        int sync_memops;
        unsigned long long id;
        struct dcu_context *owner;
        const struct dcu_image *image; /* of a global */
        CUmemLocation advice[DCU_ADVICES];
        void *detail; /* a pool's: its block; mapped, opened: what; registered: the device's address if replaced */
};

/* How an address in a copy is reached. */
enum dcu_place {
        DCU_PLACE_BAD,    /* overruns a known range, or nobody's memory */
        DCU_PLACE_DEVICE, /* device memory or a global */
        DCU_PLACE_PINNED,
        DCU_PLACE_HOST, /* the program's own */
};

/* range->id is filled in. CUDA_ERROR_OUT_OF_MEMORY, or CUDA_ERROR_INVALID_VALUE if it overlaps another range. */
CUresult dcu_range_add(const struct dcu_range *range);
/* The range that holds address, copied. 1 if there is one. */
int dcu_range_find(uint64_t address, struct dcu_range *ret);
/* 1 if any range overlaps [address, address + size). */
int dcu_range_overlaps(uint64_t address, uint64_t size);
/* Take out the range that starts at base and is of one of the kinds of the mask (1 << kind). 1 if there was one. */
int dcu_range_remove(uint64_t base, unsigned int kinds, struct dcu_range *ret);
void dcu_range_set_sync_memops(uint64_t address, int value);
void dcu_range_advise(uint64_t address, enum dcu_advice advice, const CUmemLocation *location); /* NULL: none */
/* Another value for range->flags of what begins at base and is of that kind. 0: there is no such range. */
int dcu_range_set_flags(uint64_t base, enum dcu_range_kind kind, unsigned int flags);
/* Address and size of an image's global variable, which gets a range of its own. */
CUresult dcu_range_global(struct dcu_image *image, struct dcu_context *owner, const char *name, uint64_t *ret_address,
        uint64_t *ret_bytes);
/* Take out all ranges of an image. */
void dcu_range_remove_image(const struct dcu_image *image);
void dcu_range_set_detail(uint64_t base, void *detail);
/* hostmem.c: what else there is of registered memory, whose range has been taken out. */
void dcu_hostmem_unregister(const struct dcu_range *range, int in_daemon);
/* Take out all ranges of a kind. */
void dcu_range_remove_kind(enum dcu_range_kind kind);
/* Free everything that a context owns; in_daemon = 0 when the session's reset does that. */
void dcu_range_free_owned(struct dcu_context *owner, int in_daemon);

/* Where [address, address + extent) lies. extent >= 1. */
enum dcu_place dcu_place_of(uint64_t address, uint64_t extent);
/* Memory that a memset may name: height rows of width elements. memset.c */
CUresult dcu_memset_check(uint64_t dst, uint64_t pitch, uint32_t element, uint64_t width, uint64_t height);
