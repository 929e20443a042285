/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers, pipelines, bulk copies and the heap, in kernels that nvcc compiled from CUDA C++
 */
#include "tests/support/interp_harness.h"

#define TILE 64

static void ring(struct rig *r)
{
        static const int steps = 7;
        const uint32_t n = 96, blocks = 3;
        uint32_t *in = rig_words(r, n * blocks, 5), *out = rig_alloc(r, n * blocks * 4), cell[2][96];

        rig_run(r, "barrier_ring", RIG_DIM1(blocks), RIG_DIM1(n), 0, RIG_ARGS(&in, &out, &steps));
        for (uint32_t b = 0; b < blocks; b++) {
                memcpy(cell[0], in + (size_t)b * n, sizeof(cell[0]));
                for (int k = 0; k < steps; k++) {
                        for (uint32_t i = 0; i < n; i++)
                                cell[(k + 1) & 1][i] = cell[k & 1][(i + 1) % n] * 3 + (uint32_t)k;
                }
                for (uint32_t i = 0; i < n; i++)
                        cr_assert(out[b * n + i] == cell[steps & 1][i], "thread %u of %u", i, b);
        }
}

Test(interp_async_kernels, ring)
{
        rig_for_all("async_pipeline", ring);
}

static void drop(struct rig *r)
{
        const uint32_t n = 64;
        uint32_t *out = rig_alloc(r, n * 4);

        rig_run(r, "barrier_drop", RIG_DIM1(1), RIG_DIM1(n), 0, RIG_ARGS(&out));
        for (uint32_t i = 0; i < n; i++)
                cr_assert(out[i] == n - 1 - i, "step %u: %u", i, out[i]);
}

Test(interp_async_kernels, drop)
{
        rig_for_all("async_pipeline", drop);
}

static void sum(struct rig *r)
{
        static const int tiles = 9;
        uint32_t *in = rig_words(r, TILE * (size_t)tiles, 9), *out = rig_alloc(r, TILE * 4);

        rig_run(r, "pipeline_sum", RIG_DIM1(1), RIG_DIM1(TILE), 0, RIG_ARGS(&in, &out, &tiles));
        for (uint32_t i = 0; i < TILE; i++) {
                uint32_t want = 0;

                for (uint32_t k = 0; k < (uint32_t)tiles; k++)
                        want = want * 5 + in[k * TILE + (i + 7) % TILE];
                cr_assert(out[i] == want, "thread %u", i);
        }
}

Test(interp_async_kernels, sum)
{
        rig_for_all("async_pipeline", sum);
}

/* Runs a test body that needs sm_90 twice: with blocks in order, and in another order */
static void on_hopper(void (*body)(struct rig *))
{
        for (uint32_t seed = 0; seed < 2; seed++) {
                struct rig r;

                rig_file(&r, "sm_90", "async_pipeline");
                r.seed = seed * 54321;
                r.max_instructions = 1 << 22;
                body(&r);
                rig_close(&r);
        }
}

static void bulk_ring(struct rig *r)
{
        static const int tiles = 11;
        const uint32_t blocks = 4;
        uint32_t *in = rig_words(r, (size_t)TILE * (size_t)tiles * blocks, 77), *out = rig_alloc(r, TILE * 4);

        rig_run(r, "bulk_ring", RIG_DIM1(blocks), RIG_DIM1(TILE + 32), 0, RIG_ARGS(&in, &out, &tiles));
        for (uint32_t i = 0; i < TILE; i++) {
                uint32_t want = 0;

                for (uint32_t k = 0; k < (uint32_t)tiles * blocks; k++)
                        want += in[k * TILE + (i + 1) % TILE] * (k % (uint32_t)tiles + 1);
                cr_assert(out[i] == want, "word %u: %u, not %u", i, out[i], want);
        }
}

Test(interp_async_kernels, bulk_ring)
{
        on_hopper(bulk_ring);
}

static void bulk_reverse(struct rig *r)
{
        const uint32_t blocks = 5;
        uint32_t *in = rig_words(r, (size_t)256 * blocks, 3), *out = rig_alloc(r, (size_t)256 * blocks * 4);

        rig_run(r, "bulk_reverse", RIG_DIM1(blocks), RIG_DIM1(256), 0, RIG_ARGS(&in, &out));
        for (uint32_t i = 0; i < 256 * blocks; i++)
                cr_assert(out[i] == in[i / 256 * 256 + 255 - i % 256], "word %u", i);
}

Test(interp_async_kernels, bulk_reverse)
{
        on_hopper(bulk_reverse);
}

/* --- the heap of kernels ---------- */
static void heap(struct rig *r)
{
        static const int length = 20;
        const uint32_t n = 96;
        uint64_t *list = rig_alloc(r, n * 8), *out = rig_alloc(r, n * 8);

        for (int again = 0; again < 3; again++) {
                rig_run(r, "heap_build", RIG_DIM1(3), RIG_DIM1(32), 0, RIG_ARGS(&list, &length));
                rig_run(r, "heap_sum", RIG_DIM1(3), RIG_DIM1(32), 0, RIG_ARGS(&list, &out));
                for (uint32_t i = 0; i < n; i++) {
                        uint64_t want = 0;

                        for (int k = length - 1; k >= 0; k--)
                                want = want * 3 + (uint64_t)i * 1000 + (uint64_t)k;
                        cr_assert(out[i] == want, "thread %u: %llu", i, (unsigned long long)out[i]);
                }
        }
        rig_run(r, "heap_end", RIG_DIM1(1), RIG_DIM1(1), 0, RIG_ARGS(&out));
        cr_assert(out[0] == 1 && out[1] == 1 && out[2] == 1);
}

Test(interp_async_kernels, heap)
{
        rig_for_all("async_heap", heap);
}

/* Freeing an unknown pointer or freeing twice ends the kernel; a module that uses the heap counts as one with
 * variables. */
Test(interp_async_kernels, heap_that_is_misused)
{
        struct ds_interp_result f;
        struct rig r;
        uint64_t *out;

        if (RIG_ON_GPU)
                return;
        rig_file(&r, "sm_90", "async_heap");
        out = rig_alloc(&r, 64);
        f = rig_launch(&r, "heap_twice", RIG_DIM1(1), RIG_DIM1(1), 0, RIG_ARGS(&out));
        cr_assert(f.fault == DS_INTERP_FAULT_ADDRESS && f.address == out[0], "fault %d: %s", f.fault, f.message);
        cr_assert(ds_interp_has_globals(r.interp));
        rig_close(&r);
}
