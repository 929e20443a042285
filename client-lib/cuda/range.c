/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of address ranges: a sorted array with binary search
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/code.h"
#include "cuda/context.h"
#include "cuda/pool.h"
#include "cuda/range.h"
#include "cuda/vmm.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct dcu_range *table;
static size_t count, capacity;
static unsigned long long next_id = 1;

/* Returns the index of the first range that begins after the address. */
static size_t upper(uint64_t address)
{
        size_t low = 0, high = count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (table[middle].base <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static struct dcu_range *holding(uint64_t address)
{
        size_t i = upper(address);

        return i > 0 && address - table[i - 1].base < table[i - 1].size ? &table[i - 1] : NULL;
}

static int overlaps(uint64_t address, uint64_t size)
{
        size_t i = upper(address);

        return holding(address) || (i < count && table[i].base - address < size);
}

static int reserve_one(void)
{
        size_t n = capacity ? capacity * 2 : 64;
        struct dcu_range *grown;

        if (count < capacity)
                return 1;
        grown = realloc(table, n * sizeof(*table));
        if (!grown)
                return 0;
        table = grown;
        capacity = n;
        return 1;
}

CUresult dcu_range_add(const struct dcu_range *range)
{
        CUresult r = CUDA_SUCCESS;

        pthread_rwlock_wrlock(&lock);
        if (overlaps(range->base, range->size)) {
                r = CUDA_ERROR_INVALID_VALUE;
        } else if (!reserve_one()) {
                r = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
                size_t i = upper(range->base);

                memmove(table + i + 1, table + i, (count - i) * sizeof(*table));
                table[i] = *range;
                table[i].id = next_id++;
                count++;
        }
        pthread_rwlock_unlock(&lock);
        return r;
}

int dcu_range_find(uint64_t address, struct dcu_range *ret)
{
        const struct dcu_range *found;

        pthread_rwlock_rdlock(&lock);
        found = holding(address);
        if (found)
                *ret = *found;
        pthread_rwlock_unlock(&lock);
        return found != NULL;
}

int dcu_range_overlaps(uint64_t address, uint64_t size)
{
        int yes;

        pthread_rwlock_rdlock(&lock);
        yes = overlaps(address, size);
        pthread_rwlock_unlock(&lock);
        return yes;
}

static void remove_at(size_t i)
{
        count--;
        memmove(table + i, table + i + 1, (count - i) * sizeof(*table));
}

int dcu_range_remove(uint64_t base, unsigned int kinds, struct dcu_range *ret)
{
        struct dcu_range *found;
        int ok;

        pthread_rwlock_wrlock(&lock);
        found = holding(base);
        ok = found && found->base == base && (kinds & 1u << found->kind);
        if (ok) {
                *ret = *found;
                remove_at((size_t)(found - table));
        }
        pthread_rwlock_unlock(&lock);
        return ok;
}

void dcu_range_set_sync_memops(uint64_t address, int value)
{
        struct dcu_range *found;

        pthread_rwlock_wrlock(&lock);
        found = holding(address);
        if (found)
                found->sync_memops = value;
        pthread_rwlock_unlock(&lock);
}

void dcu_range_advise(uint64_t address, enum dcu_advice advice, const CUmemLocation *location)
{
        static const CUmemLocation none;
        struct dcu_range *found;

        pthread_rwlock_wrlock(&lock);
        found = holding(address);
        if (found)
                found->advice[advice] = location ? *location : none;
        pthread_rwlock_unlock(&lock);
}

void dcu_range_set_detail(uint64_t base, void *detail)
{
        struct dcu_range *found;

        pthread_rwlock_wrlock(&lock);
        found = holding(base);
        if (found && found->base == base)
                found->detail = detail;
        pthread_rwlock_unlock(&lock);
}

int dcu_range_set_flags(uint64_t base, enum dcu_range_kind kind, unsigned int flags)
{
        struct dcu_range *found;
        int ok;

        pthread_rwlock_wrlock(&lock);
        found = holding(base);
        ok = found && found->base == base && found->kind == kind;
        if (ok)
                found->flags = flags;
        pthread_rwlock_unlock(&lock);
        return ok;
}

CUresult dcu_range_global(struct dcu_image *image, struct dcu_context *owner, const char *name, uint64_t *ret_address,
        uint64_t *ret_bytes)
{
        struct dcu_range known, range = {.kind = DCU_RANGE_GLOBAL, .owner = owner, .image = image};
        CUresult r = dcu_image_global(image, name, &range.base, &range.size);

        if (r != CUDA_SUCCESS)
                return r;
        if (range.size && !dcu_range_find(range.base, &known))
                r = dcu_range_add(&range);
        *ret_address = range.base;
        *ret_bytes = range.size;
        return r;
}

void dcu_range_remove_image(const struct dcu_image *image)
{
        pthread_rwlock_wrlock(&lock);
        for (size_t i = count; i-- > 0;) {
                if (table[i].image == image)
                        remove_at(i);
        }
        pthread_rwlock_unlock(&lock);
}

/* Takes one range of the owner out of the table and copies it to *ret. 1: there was one. */
static int take_owned(struct dcu_context *owner, struct dcu_range *ret)
{
        int found = 0;

        pthread_rwlock_wrlock(&lock);
        for (size_t i = count; i-- > 0 && !found;) {
                if (table[i].owner == owner && table[i].kind != DCU_RANGE_GLOBAL) {
                        *ret = table[i];
                        remove_at(i);
                        found = 1;
                }
        }
        pthread_rwlock_unlock(&lock);
        return found;
}

void dcu_range_remove_kind(enum dcu_range_kind kind)
{
        pthread_rwlock_wrlock(&lock);
        for (size_t i = count; i-- > 0;) {
                if (table[i].kind == kind)
                        remove_at(i);
        }
        pthread_rwlock_unlock(&lock);
}

void dcu_range_free_owned(struct dcu_context *owner, int in_daemon)
{
        struct dcu_range range;

        if (!in_daemon)
                /* also globals of libraries, which are loaded at other addresses after the reset */
                dcu_range_remove_kind(DCU_RANGE_GLOBAL);
        while (take_owned(owner, &range)) {
                if (range.kind == DCU_RANGE_DEVICE && in_daemon)
                        dcu_plain_free_removed(&range);
                else if (range.kind == DCU_RANGE_REGISTERED)
                        dcu_hostmem_unregister(&range, in_daemon);
                else if (range.kind == DCU_RANGE_OPENED && in_daemon)
                        dcu_ipc_free(range.detail);
                else if (range.kind == DCU_RANGE_HOST ||
                         ((range.kind == DCU_RANGE_PINNED || range.kind == DCU_RANGE_MANAGED) && in_daemon))
                        (void)dsc_host_free(dcu.session, (void *)(uintptr_t)range.base);
        }
}

/* 1: the whole range [address, address + extent) is mapped and accessible. Adjacent mappings count as one. */
static int all_mapped(uint64_t address, uint64_t extent)
{
        uint64_t end = address + (extent - 1);
        int yes = 1;

        pthread_rwlock_rdlock(&lock);
        while (yes) {
                const struct dcu_range *found = holding(address);

                yes = found && found->kind == DCU_RANGE_MAPPED && found->flags != 0;
                if (yes && end - found->base < found->size)
                        break;
                address = yes ? found->base + found->size : 0;
        }
        pthread_rwlock_unlock(&lock);
        return yes;
}

/* 1: memory of this kind is host memory that the device can access too. */
static int is_shared(enum dcu_range_kind kind)
{
        return kind == DCU_RANGE_PINNED || kind == DCU_RANGE_MANAGED || kind == DCU_RANGE_REPLACED;
}

enum dcu_place dcu_place_of(uint64_t address, uint64_t extent)
{
        struct dcu_range range;

        if (address == 0 || extent - 1 > UINT64_MAX - address)
                return DCU_PLACE_BAD;
        if (!dcu_range_find(address, &range))
                return address >= DCU_WINDOWS_LOW && address < DCU_WINDOWS_HIGH ? DCU_PLACE_BAD : DCU_PLACE_HOST;
        if (range.kind == DCU_RANGE_REGISTERED)
                return DCU_PLACE_HOST; /* a copy may extend beyond the registered part */
        if (range.kind == DCU_RANGE_MAPPED)
                return all_mapped(address, extent) ? DCU_PLACE_DEVICE : DCU_PLACE_BAD;
        if (extent > range.size - (address - range.base))
                return DCU_PLACE_BAD;
        if (range.kind == DCU_RANGE_HOST)
                return DCU_PLACE_HOST;
        return is_shared(range.kind) ? DCU_PLACE_PINNED : DCU_PLACE_DEVICE;
}
