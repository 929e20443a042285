/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two sorted arrays (slabs, allocations) and one sorted array of holes per slab
 *
 * A slab's array of holes always has room for one hole more than it has allocations, which is the maximum. That lets a
 * free succeed when memory is short. `largest` is an upper bound of the slab's largest hole. It becomes exact whenever
 * a search through the slab fails, so later searches skip full slabs.
 */
#include "worker/heap.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

struct dsw_hole {
        uint64_t va, bytes;
};

struct dsw_slab {
        uint64_t va, bytes;
        uint64_t largest;
        size_t n_allocs;
        struct dsw_hole *holes; /* free ranges, sorted by address, never adjacent */
        size_t n_holes, cap_holes;
};

void dsw_heap_init(struct dsw_heap *heap, uint64_t base, uint64_t end, uint64_t align)
{
        assert(base <= end);
        assert(align && !(align & (align - 1)));
        *heap = (struct dsw_heap){.base = base, .end = end, .align = align};
}

static void heap_slab_free(struct dsw_slab *slab)
{
        ds_free(slab->holes);
        ds_free(slab);
}

void dsw_heap_deinit(struct dsw_heap *heap)
{
        for (size_t i = 0; i < heap->n_slabs; i++)
                heap_slab_free(heap->slabs[i]);
        ds_free(heap->slabs);
        ds_free(heap->ranges);
        *heap = (struct dsw_heap){.base = heap->base, .end = heap->end, .align = heap->align};
}

/* Grows an array to at least `need` elements. */
static int heap_reserve(void *array_p, size_t *cap, size_t need, size_t size)
{
        void **array = array_p;
        size_t wanted = DS_MAX(*cap ? *cap * 2 : 8, need);
        void *grown;

        if (need <= *cap)
                return 0;
        grown = ds_realloc(*array, wanted, size);
        if (!grown)
                return ds_error_origin(-ENOMEM);
        *array = grown;
        *cap = wanted;
        return 0;
}

/* Index of the first slab that ends above the address. */
static size_t heap_slab_index(const struct dsw_heap *heap, uint64_t address)
{
        size_t low = 0, high = heap->n_slabs;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (heap->slabs[mid]->va + heap->slabs[mid]->bytes <= address)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

/* Index of the first allocation that ends above the address. */
static size_t heap_range_index(const struct dsw_heap *heap, uint64_t address)
{
        size_t low = 0, high = heap->n_ranges;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (heap->ranges[mid].va + heap->ranges[mid].bytes <= address)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

struct dsw_range *dsw_heap_find(const struct dsw_heap *heap, uint64_t address)
{
        size_t i = heap_range_index(heap, address);

        if (i == heap->n_ranges || heap->ranges[i].va > address)
                return NULL;
        return &heap->ranges[i];
}

static struct dsw_slab *heap_slab_of(const struct dsw_heap *heap, uint64_t address)
{
        size_t i = heap_slab_index(heap, address);

        if (i == heap->n_slabs || heap->slabs[i]->va > address)
                return NULL;
        return heap->slabs[i];
}

/* Reserves room in the arrays for one more allocation, before any of them changes. */
static int heap_reserve_one(struct dsw_heap *heap, struct dsw_slab *slab)
{
        int r = heap_reserve(&heap->ranges, &heap->cap_ranges, heap->n_ranges + 1, sizeof(*heap->ranges));

        if (r < 0)
                return ds_error_trace(r);
        return ds_error_trace(heap_reserve(&slab->holes, &slab->cap_holes, slab->n_allocs + 2, sizeof(*slab->holes)));
}

/* Removes the range [va, va + bytes) from hole i, which contains it. */
static void heap_carve(struct dsw_slab *slab, size_t i, uint64_t va, uint64_t bytes)
{
        struct dsw_hole *hole = &slab->holes[i];
        uint64_t before = va - hole->va, after = hole->va + hole->bytes - va - bytes;

        assert(va >= hole->va);
        assert(before + bytes + after == hole->bytes);
        if (before && after) {
                assert(slab->n_holes < slab->cap_holes);
                memmove(hole + 1, hole, (slab->n_holes - i) * sizeof(*hole));
                slab->n_holes++;
                hole[0].bytes = before;
                hole[1] = (struct dsw_hole){va + bytes, after};
        } else if (before) {
                hole->bytes = before;
        } else if (after) {
                *hole = (struct dsw_hole){va + bytes, after};
        } else {
                memmove(hole, hole + 1, (slab->n_holes - i - 1) * sizeof(*hole));
                slab->n_holes--;
        }
}

static void heap_record(struct dsw_heap *heap, struct dsw_slab *slab, uint64_t va, uint64_t bytes)
{
        size_t i = heap_range_index(heap, va);

        assert(heap->n_ranges < heap->cap_ranges);
        memmove(&heap->ranges[i + 1], &heap->ranges[i], (heap->n_ranges - i) * sizeof(*heap->ranges));
        heap->ranges[i] = (struct dsw_range){.va = va, .bytes = bytes};
        heap->n_ranges++;
        heap->used += bytes;
        slab->n_allocs++;
}

/* Index of the slab's first hole of at least `bytes`; n_holes if there is none. */
static size_t heap_first_fit(struct dsw_slab *slab, uint64_t bytes)
{
        uint64_t largest = 0;

        if (slab->largest < bytes)
                return slab->n_holes;
        for (size_t i = 0; i < slab->n_holes; i++) {
                if (slab->holes[i].bytes >= bytes)
                        return i;
                largest = DS_MAX(largest, slab->holes[i].bytes);
        }
        slab->largest = largest;
        return slab->n_holes;
}

int dsw_heap_alloc(struct dsw_heap *heap, uint64_t bytes, uint64_t *ret_va)
{
        if (!bytes || bytes > heap->end - heap->base)
                return DSW_HEAP_E_FULL;
        bytes = DS_ALIGN_UP(bytes, heap->align);
        for (size_t s = 0; s < heap->n_slabs; s++) {
                struct dsw_slab *slab = heap->slabs[s];
                size_t i = heap_first_fit(slab, bytes);
                uint64_t va;
                int r;

                if (i == slab->n_holes)
                        continue;
                r = heap_reserve_one(heap, slab);
                if (r < 0)
                        return ds_error_trace(r);
                va = slab->holes[i].va;
                heap_carve(slab, i, va, bytes);
                heap_record(heap, slab, va, bytes);
                *ret_va = va;
                return 0;
        }
        return DSW_HEAP_E_FULL;
}

int dsw_heap_place(struct dsw_heap *heap, uint64_t va, uint64_t bytes)
{
        struct dsw_slab *slab = heap_slab_of(heap, va);
        int r;

        if (!slab || !bytes || bytes > slab->bytes || (va & (heap->align - 1)))
                return DSW_HEAP_E_OVERLAP;
        bytes = DS_ALIGN_UP(bytes, heap->align);
        for (size_t i = 0; i < slab->n_holes; i++) {
                struct dsw_hole *hole = &slab->holes[i];

                if (va < hole->va || va - hole->va > hole->bytes || bytes > hole->bytes - (va - hole->va))
                        continue;
                r = heap_reserve_one(heap, slab);
                if (r < 0)
                        return ds_error_trace(r);
                heap_carve(slab, i, va, bytes);
                heap_record(heap, slab, va, bytes);
                return 0;
        }
        return DSW_HEAP_E_OVERLAP;
}

/* Returns [va, va + bytes) to the slab's holes and merges it with its neighbours. */
static void heap_give_back(struct dsw_slab *slab, uint64_t va, uint64_t bytes)
{
        struct dsw_hole *holes = slab->holes;
        size_t low = 0, high = slab->n_holes;
        int joins_left, joins_right;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (holes[mid].va < va)
                        low = mid + 1;
                else
                        high = mid;
        }
        joins_left = low > 0 && holes[low - 1].va + holes[low - 1].bytes == va;
        joins_right = low < slab->n_holes && va + bytes == holes[low].va;
        if (joins_left && joins_right) {
                holes[low - 1].bytes += bytes + holes[low].bytes;
                memmove(&holes[low], &holes[low + 1], (slab->n_holes - low - 1) * sizeof(*holes));
                slab->n_holes--;
        } else if (joins_left) {
                holes[low - 1].bytes += bytes;
        } else if (joins_right) {
                holes[low].va = va;
                holes[low].bytes += bytes;
        } else {
                assert(slab->n_holes < slab->cap_holes);
                memmove(&holes[low + 1], &holes[low], (slab->n_holes - low) * sizeof(*holes));
                holes[low] = (struct dsw_hole){va, bytes};
                slab->n_holes++;
        }
        low -= joins_left ? 1 : 0;
        slab->largest = DS_MAX(slab->largest, holes[low].bytes);
}

int dsw_heap_free(struct dsw_heap *heap, uint64_t va, uint64_t *ret_empty_slab)
{
        struct dsw_range *range = dsw_heap_find(heap, va);
        struct dsw_slab *slab;
        uint64_t bytes;

        if (!range || range->va != va)
                return DSW_HEAP_E_UNKNOWN;
        slab = heap_slab_of(heap, va);
        assert(slab);
        bytes = range->bytes;
        heap_give_back(slab, va, bytes);
        memmove(range, range + 1, (size_t)(heap->ranges + heap->n_ranges - range - 1) * sizeof(*range));
        heap->n_ranges--;
        heap->used -= bytes;
        slab->n_allocs--;
        *ret_empty_slab = slab->n_allocs ? 0 : slab->va;
        return 0;
}

int dsw_heap_gap(const struct dsw_heap *heap, uint64_t from, uint64_t bytes, uint64_t align, uint64_t *ret_va)
{
        uint64_t at = DS_ALIGN_UP(DS_MAX(heap->base, from), align);

        assert(bytes);
        for (size_t i = 0; i <= heap->n_slabs; i++) {
                uint64_t limit = i < heap->n_slabs ? heap->slabs[i]->va : heap->end;

                if (at <= limit && bytes <= limit - at) {
                        *ret_va = at;
                        return 0;
                }
                if (i < heap->n_slabs)
                        at = DS_MAX(at, DS_ALIGN_UP(heap->slabs[i]->va + heap->slabs[i]->bytes, align));
        }
        return DSW_HEAP_E_FULL;
}

/* Creates a slab of one hole. Returns NULL when out of memory. */
static struct dsw_slab *heap_slab_new(uint64_t va, uint64_t bytes)
{
        struct dsw_slab *slab = ds_alloc0(1, sizeof(*slab));

        if (!slab)
                return NULL;
        slab->holes = ds_alloc0(2, sizeof(*slab->holes));
        if (!slab->holes)
                return ds_free(slab);
        slab->va = va;
        slab->bytes = bytes;
        slab->largest = bytes;
        slab->cap_holes = 2;
        slab->n_holes = 1;
        slab->holes[0] = (struct dsw_hole){va, bytes};
        return slab;
}

int dsw_heap_add_slab(struct dsw_heap *heap, uint64_t va, uint64_t bytes)
{
        size_t i = heap_slab_index(heap, va);
        struct dsw_slab *slab;
        int r;

        if (!bytes || va < heap->base || va > heap->end || bytes > heap->end - va)
                return DSW_HEAP_E_OVERLAP;
        if ((va | bytes) & (heap->align - 1))
                return DSW_HEAP_E_OVERLAP;
        if (i < heap->n_slabs && heap->slabs[i]->va < va + bytes)
                return DSW_HEAP_E_OVERLAP;
        r = heap_reserve(&heap->slabs, &heap->cap_slabs, heap->n_slabs + 1, sizeof(struct dsw_slab *));
        if (r < 0)
                return ds_error_trace(r);
        slab = heap_slab_new(va, bytes);
        if (!slab)
                return ds_error_origin(-ENOMEM);
        memmove(&heap->slabs[i + 1], &heap->slabs[i], (heap->n_slabs - i) * sizeof(struct dsw_slab *));
        heap->slabs[i] = slab;
        heap->n_slabs++;
        heap->slab_bytes += bytes;
        return 0;
}

int dsw_heap_remove_slab(struct dsw_heap *heap, uint64_t va, uint64_t *ret_bytes)
{
        size_t i = heap_slab_index(heap, va);
        struct dsw_slab *slab;

        if (i == heap->n_slabs || heap->slabs[i]->va != va)
                return DSW_HEAP_E_UNKNOWN;
        slab = heap->slabs[i];
        assert(!slab->n_allocs);
        *ret_bytes = slab->bytes;
        heap->slab_bytes -= slab->bytes;
        memmove(&heap->slabs[i], &heap->slabs[i + 1], (heap->n_slabs - i - 1) * sizeof(struct dsw_slab *));
        heap->n_slabs--;
        heap_slab_free(slab);
        return 0;
}

int dsw_heap_slab_at(const struct dsw_heap *heap, size_t i, uint64_t *ret_va, uint64_t *ret_bytes)
{
        if (i >= heap->n_slabs)
                return DSW_HEAP_E_UNKNOWN;
        *ret_va = heap->slabs[i]->va;
        *ret_bytes = heap->slabs[i]->bytes;
        return 0;
}

/* Checks that holes and allocations tile a slab; *range_i is an index into the heap's allocations. */
static int heap_check_slab(const struct dsw_heap *heap, const struct dsw_slab *slab, size_t *range_i)
{
        uint64_t at = slab->va, end = slab->va + slab->bytes;
        size_t hole = 0, allocs = 0;
        int after_hole = 0;

        while (at < end) {
                if (hole < slab->n_holes && slab->holes[hole].va == at) {
                        if (after_hole || !slab->holes[hole].bytes || slab->holes[hole].bytes > slab->largest)
                                return 0;
                        at += slab->holes[hole++].bytes;
                        after_hole = 1;
                } else if (*range_i < heap->n_ranges && heap->ranges[*range_i].va == at) {
                        at += heap->ranges[(*range_i)++].bytes;
                        allocs++;
                        after_hole = 0;
                } else {
                        return 0;
                }
        }
        return at == end && hole == slab->n_holes && allocs == slab->n_allocs && slab->cap_holes > allocs;
}

int dsw_heap_check(const struct dsw_heap *heap)
{
        uint64_t used = 0, slab_bytes = 0, last = heap->base;
        size_t range_i = 0;

        for (size_t i = 0; i < heap->n_ranges; i++)
                used += heap->ranges[i].bytes;
        for (size_t i = 0; i < heap->n_slabs; i++) {
                const struct dsw_slab *slab = heap->slabs[i];

                if (slab->va < last || slab->va + slab->bytes > heap->end || !heap_check_slab(heap, slab, &range_i))
                        return 0;
                last = slab->va + slab->bytes;
                slab_bytes += slab->bytes;
        }
        return range_i == heap->n_ranges && used == heap->used && slab_bytes == heap->slab_bytes;
}
