/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap of a session's window: random allocations, frees and restores against a model
 *
 * The seed is printed; DETSHARE_TEST_SEED repeats a run.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "util/alloc.h"
#include "util/log.h"
#include "util/macro.h"
#include "worker/heap.h"

#define BASE DS_TIB(16)
#define SLAB DS_MIB(64)
#define LIVE_MAX 512

static uint64_t random_state;

static uint64_t random_next(void)
{
        random_state ^= random_state << 13;
        random_state ^= random_state >> 7;
        random_state ^= random_state << 17;
        return random_state;
}

static void random_seed(void)
{
        const char *given = getenv("DETSHARE_TEST_SEED");

        random_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 2654435761u + 1;
        fprintf(stderr, "seed %#" PRIx64 "\n", random_state);
}

struct model {
        uint64_t va[LIVE_MAX], bytes[LIVE_MAX];
        size_t n;
};

static void check_disjoint(const struct model *model, uint64_t va, uint64_t bytes)
{
        for (size_t i = 0; i < model->n; i++)
                cr_assert(va + bytes <= model->va[i] || model->va[i] + model->bytes[i] <= va);
}

static int heap_alloc_grow(struct dsw_heap *heap, uint64_t bytes, uint64_t *ret_va)
{
        uint64_t slab_bytes = DS_MAX(SLAB, DS_ALIGN_UP(bytes, DS_MIB(2))), va;
        int r = dsw_heap_alloc(heap, bytes, ret_va);

        if (r != DSW_HEAP_E_FULL)
                return r;
        r = dsw_heap_gap(heap, 0, slab_bytes, DS_MIB(2), &va);
        if (r)
                return r;
        cr_assert_eq(dsw_heap_add_slab(heap, va, slab_bytes), 0);
        return dsw_heap_alloc(heap, bytes, ret_va);
}

static void model_alloc(struct dsw_heap *heap, struct model *model)
{
        uint64_t bytes = 1 + random_next() % (random_next() % 8 ? DS_KIB(300) : DS_MIB(90)), va;
        int r;

        if (model->n == LIVE_MAX)
                return;
        r = heap_alloc_grow(heap, bytes, &va);
        if (r == DSW_HEAP_E_FULL)
                return;
        cr_assert_eq(r, 0);
        cr_assert_eq(va % 512, 0);
        cr_assert(va >= heap->base && va + bytes <= heap->end);
        check_disjoint(model, va, bytes);
        model->va[model->n] = va;
        model->bytes[model->n++] = bytes;
}

static void model_free(struct dsw_heap *heap, struct model *model)
{
        uint64_t empty, bytes, va;
        size_t i;

        if (!model->n)
                return;
        i = random_next() % model->n;
        va = model->va[i];
        if (model->bytes[i] > 512)
                cr_assert_eq(dsw_heap_free(heap, va + 512, &empty), DSW_HEAP_E_UNKNOWN);
        cr_assert_eq(dsw_heap_find(heap, va + model->bytes[i] - 1)->va, va);
        cr_assert_eq(dsw_heap_free(heap, va, &empty), 0);
        cr_assert_null(dsw_heap_find(heap, va));
        if (empty)
                cr_assert_eq(dsw_heap_remove_slab(heap, empty, &bytes), 0);
        model->n--;
        model->va[i] = model->va[model->n];
        model->bytes[i] = model->bytes[model->n];
}

/* Builds a second heap from the ledger as a new worker does: the same slabs and allocations give the same free
 * space. */
static void check_restore(const struct dsw_heap *heap)
{
        struct dsw_heap copy;
        uint64_t va, bytes;

        dsw_heap_init(&copy, heap->base, heap->end, heap->align);
        for (size_t i = 0; dsw_heap_slab_at(heap, i, &va, &bytes) == 0; i++)
                cr_assert_eq(dsw_heap_add_slab(&copy, va, bytes), 0);
        for (size_t i = heap->n_ranges; i > 0; i--) {
                const struct dsw_range *range = &heap->ranges[i - 1];

                cr_assert_eq(dsw_heap_place(&copy, range->va, range->bytes), 0);
                cr_assert_eq(dsw_heap_place(&copy, range->va, range->bytes), DSW_HEAP_E_OVERLAP);
        }
        cr_assert(dsw_heap_check(&copy));
        cr_assert_eq(copy.used, heap->used);
        cr_assert_eq(copy.slab_bytes, heap->slab_bytes);
        dsw_heap_deinit(&copy);
}

Test(worker_memory, random_allocations_keep_every_rule)
{
        struct model model = {.n = 0};
        struct dsw_heap heap;

        random_seed();
        dsw_heap_init(&heap, BASE, BASE + DS_GIB(2), 512);
        for (int i = 0; i < 20000; i++) {
                /* phases of 1,000 steps in which the heap mostly grows, or mostly shrinks */
                if (random_next() % 100 < ((i / 1000) % 2 ? 35 : 65))
                        model_alloc(&heap, &model);
                else
                        model_free(&heap, &model);
                if (i % 16 == 0)
                        cr_assert(dsw_heap_check(&heap), "step %d", i);
                if (i % 1000 == 0)
                        check_restore(&heap);
        }
        while (model.n)
                model_free(&heap, &model);
        cr_assert_eq(heap.used, 0);
        cr_assert_eq(heap.n_slabs, 0);
        cr_assert_eq(heap.slab_bytes, 0);
        dsw_heap_deinit(&heap);
}

Test(worker_memory, refuses_oversized_allocations)
{
        struct dsw_heap heap;
        uint64_t va, bytes;

        dsw_heap_init(&heap, BASE, BASE + DS_MIB(256), 512);
        cr_assert_eq(dsw_heap_alloc(&heap, 0, &va), DSW_HEAP_E_FULL);
        cr_assert_eq(dsw_heap_alloc(&heap, DS_TIB(1024), &va), DSW_HEAP_E_FULL);
        cr_assert_eq(dsw_heap_alloc(&heap, UINT64_MAX, &va), DSW_HEAP_E_FULL);
        cr_assert_eq(dsw_heap_gap(&heap, 0, DS_MIB(257), 1, &va), DSW_HEAP_E_FULL);
        cr_assert_eq(dsw_heap_add_slab(&heap, BASE - 512, SLAB), DSW_HEAP_E_OVERLAP);
        cr_assert_eq(dsw_heap_add_slab(&heap, BASE + DS_MIB(224), SLAB), DSW_HEAP_E_OVERLAP);
        cr_assert_eq(dsw_heap_add_slab(&heap, BASE + 1, SLAB), DSW_HEAP_E_OVERLAP);
        cr_assert_eq(dsw_heap_add_slab(&heap, UINT64_MAX - 511, SLAB), DSW_HEAP_E_OVERLAP);
        cr_assert_eq(dsw_heap_add_slab(&heap, BASE + SLAB, SLAB), 0);
        cr_assert_eq(dsw_heap_add_slab(&heap, BASE + SLAB / 2, SLAB), DSW_HEAP_E_OVERLAP);
        cr_assert_eq(dsw_heap_add_slab(&heap, BASE + SLAB, SLAB), DSW_HEAP_E_OVERLAP);
        cr_assert_eq(dsw_heap_place(&heap, BASE, 512), DSW_HEAP_E_OVERLAP);
        cr_assert_eq(dsw_heap_place(&heap, BASE + SLAB + 1, 512), DSW_HEAP_E_OVERLAP);
        cr_assert_eq(dsw_heap_place(&heap, BASE + 2 * SLAB - 512, 513), DSW_HEAP_E_OVERLAP);
        cr_assert_eq(dsw_heap_place(&heap, BASE + SLAB, UINT64_MAX), DSW_HEAP_E_OVERLAP);
        cr_assert_eq(dsw_heap_gap(&heap, 0, SLAB, SLAB, &va), 0);
        cr_assert_eq(va, BASE);
        cr_assert_eq(dsw_heap_gap(&heap, BASE + 1, SLAB, SLAB, &va), 0);
        cr_assert_eq(va, BASE + 2 * SLAB);
        cr_assert_eq(dsw_heap_gap(&heap, BASE + 3 * SLAB + 1, SLAB, SLAB, &va), DSW_HEAP_E_FULL);
        cr_assert_eq(dsw_heap_remove_slab(&heap, BASE, &bytes), DSW_HEAP_E_UNKNOWN);
        cr_assert(dsw_heap_check(&heap));
        dsw_heap_deinit(&heap);
}

Test(worker_memory, first_fit_is_lowest_first)
{
        struct dsw_heap heap;
        uint64_t a, b, c, d, empty;

        dsw_heap_init(&heap, BASE, BASE + DS_GIB(1), 512);
        cr_assert_eq(dsw_heap_add_slab(&heap, BASE, SLAB), 0);
        cr_assert_eq(dsw_heap_alloc(&heap, 1000, &a), 0);
        cr_assert_eq(dsw_heap_alloc(&heap, 4096, &b), 0);
        cr_assert_eq(dsw_heap_alloc(&heap, 1, &c), 0);
        cr_assert_eq(a, BASE);
        cr_assert_eq(b, BASE + 1024);
        cr_assert_eq(c, BASE + 1024 + 4096);
        cr_assert_eq(dsw_heap_free(&heap, b, &empty), 0);
        cr_assert_eq(empty, 0);
        cr_assert_eq(dsw_heap_alloc(&heap, 4097, &d), 0);
        cr_assert_gt(d, c);
        cr_assert_eq(dsw_heap_alloc(&heap, 4096, &d), 0);
        cr_assert_eq(d, b);
        dsw_heap_deinit(&heap);
}

/* Every allocation of the heap's own data can fail; then nothing changes, and freeing still works. */
Test(worker_memory, survives_short_memory)
{
        ds_log_setup("test", DS_LOG_ERROR - 1);
        for (int64_t n = 0; n < 40; n++) {
                struct dsw_heap heap;
                uint64_t va[64], empty, bytes;
                size_t live = 0;

                dsw_heap_init(&heap, BASE, BASE + DS_GIB(1), 512);
                ds_alloc_fail_after(n);
                if (dsw_heap_add_slab(&heap, BASE, SLAB) == 0) {
                        for (int i = 0; i < 64; i++) {
                                int r = dsw_heap_alloc(&heap, 2048, &va[live]);

                                cr_assert(r == 0 || r == -ENOMEM);
                                live += r == 0;
                                cr_assert(dsw_heap_check(&heap));
                        }
                }
                /* frees every second block, then the others, without memory for the heap's own data */
                for (size_t i = 0; i < live; i += 2)
                        cr_assert_eq(dsw_heap_free(&heap, va[i], &empty), 0);
                for (size_t i = 1; i < live; i += 2)
                        cr_assert_eq(dsw_heap_free(&heap, va[i], &empty), 0);
                ds_alloc_fail_after(-1);
                cr_assert(dsw_heap_check(&heap));
                cr_assert_eq(heap.used, 0);
                if (heap.n_slabs)
                        cr_assert_eq(dsw_heap_remove_slab(&heap, BASE, &bytes), 0);
                dsw_heap_deinit(&heap);
        }
}
