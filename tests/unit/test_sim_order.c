/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order in which the simulated GPU executes a launch's blocks
 */
#include "tests/gpu/device_common.h"

#include "device/sim/sim.h"
#include "ptx/interp/order.h"

/* kernel ticket: order[ticket++] = block, with an atomic ticket */
#define PTX_TICKET                                                                                                 \
        ".visible .entry ticket(.param .u64 p)\n"                                                                  \
        "{\n .reg .b32 %r<4>; .reg .b64 %rd<4>;\n ld.param.u64 %rd1, [p];\n atom.global.add.u32 %r1, [%rd1], 1;\n" \
        " mov.u32 %r2, %ctaid.x;\n mov.u32 %r3, %ctaid.y;\n mad.lo.u32 %r2, %r3, 7, %r2;\n"                        \
        " mul.wide.u32 %rd2, %r1, 4;\n add.u64 %rd3, %rd1, %rd2;\n st.global.u32 [%rd3+4], %r2;\n ret;\n}\n"

#define BLOCKS 700

static uint8_t hit[1 << 16];

static void is_permutation(uint64_t n, uint64_t seed, uint64_t launch)
{
        struct ds_interp_order order;
        uint64_t at, moved = 0;

        memset(hit, 0, sizeof(hit));
        ds_interp_order_init(&order, n, seed, launch);
        for (uint64_t i = 0; i < n; i++) {
                at = ds_interp_order_at(&order, i);
                cr_assert(at < n && !hit[at], "%llu of %llu", (unsigned long long)at, (unsigned long long)n);
                hit[at] = 1;
                moved += at != i;
        }
        if (n > 1)
                cr_assert_eq(
                        moved > 0, seed > 0, "%llu blocks, seed %llu", (unsigned long long)n, (unsigned long long)seed);
        if (seed && n > 100)
                cr_assert(moved > n * 9 / 10);
}

Test(sim_order, a_seed_is_a_permutation)
{
        for (uint64_t n = 1; n < 70; n++)
                for (uint64_t seed = 0; seed < 30; seed++)
                        is_permutation(n, seed, seed * 3);
        for (uint64_t seed = 0; seed < 3; seed++) {
                is_permutation(4096, seed, 1);
                is_permutation(4097, seed, 2);
                is_permutation(65535, UINT64_MAX - seed, 3);
        }
}

/* The permutation of very large grids is invertible, without a table and without overflow. */
Test(sim_order, grids_of_any_size)
{
        const uint64_t sizes[] = {
                (UINT64_C(1) << 63) - 1, UINT64_C(2147483647) * 65535 * 65535, (UINT64_C(1) << 33) + 1};
        struct ds_interp_order order;

        for (size_t k = 0; k < DS_ARRAY_SIZE(sizes); k++) {
                ds_interp_order_init(&order, sizes[k], 5, 0);
                for (uint64_t i = 0; i < 1000; i++) {
                        cr_assert(ds_interp_order_at(&order, i) < sizes[k]);
                        cr_assert(ds_interp_order_at(&order, sizes[k] - 1 - i) < sizes[k]);
                        cr_assert_neq(ds_interp_order_at(&order, i), ds_interp_order_at(&order, i + 1));
                }
        }
}

/* Runs two launches of 7 x 100 blocks and stores the orders of their blocks */
static void orders_of(const char *spec, uint32_t ret[2][BLOCKS])
{
        struct dt *t = dt_open(&ds_sim_ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX_HEADER PTX_TICKET);
        struct ds_launch l = dt_launch_of(t, module, "ticket", 7, 1);
        uint64_t p = DT_DEVICE_VA;
        void *memory = mmap(NULL, DT_SLAB, PROT_READ, MAP_SHARED, t->slab, 0);

        cr_assert_neq(memory, MAP_FAILED);
        l.grid[1] = BLOCKS / 7;
        l.params = &p;
        l.params_size = sizeof(p);
        for (int k = 0; k < 2; k++, p += 8192) {
                dt_ok(t, dt_launch(t, &l));
                memcpy(ret[k], (uint8_t *)memory + k * 8192 + 4, sizeof(ret[k]));
                memset(hit, 0, sizeof(hit));
                for (int i = 0; i < BLOCKS; i++) {
                        cr_assert(ret[k][i] < BLOCKS && !hit[ret[k][i]]++);
                }
        }
        munmap(memory, DT_SLAB);
        dt_close(t);
}

Test(sim_order, blocks_come_as_the_seed_says)
{
        static uint32_t plain[2][BLOCKS], one[2][BLOCKS], again[2][BLOCKS], other[2][BLOCKS];

        orders_of("h200", plain);
        for (uint32_t i = 0; i < BLOCKS; i++)
                cr_assert(plain[0][i] == i && plain[1][i] == i);
        orders_of("h200+order=1", one);
        orders_of("h200+order=1", again);
        orders_of("a2000+order=18446744073709551615", other);
        cr_assert(memcmp(one, again, sizeof(one)) == 0, "the same seed, another order");
        cr_assert(memcmp(one[0], one[1], sizeof(one[0])) != 0, "the second launch has the order of the first");
        cr_assert(memcmp(one[0], plain[0], sizeof(one[0])) != 0 && memcmp(one[0], other[0], sizeof(one[0])) != 0);
}

Test(sim_order, a_seed_is_a_number)
{
        static const char *const wrong[] = {"h200+order", "h200+order=", "h200+order=x", "h200+order=-1",
                "h200+order=1x", "h200+order=99999999999999999999", "h200+order=1+fast"};
        ds_device *device = NULL;

        for (size_t i = 0; i < DS_ARRAY_SIZE(wrong); i++)
                cr_assert_eq(ds_sim_ops.open(wrong[i], &device), -ENODEV, "%s", wrong[i]);
        cr_assert_eq(ds_sim_ops.open("h200+order=3+quiesce+timing", &device), 0);
        cr_assert_eq(ds_sim_ops.info(device)->stops, 1);
        ds_sim_ops.close(device);
}
