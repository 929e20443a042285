/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input of the simulated memory and its results: sectors of accesses, L2, channels of addresses
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/sim/internal.h"
#include "ptx/ptx.h"

#define VA UINT64_C(0x300000000000)

static const struct sim_model *model(const char *name)
{
        return sim_model_find(name, strlen(name));
}

static uint64_t next_random(uint64_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

/* --- channels --- */

static uint32_t channel(const char *name, uint64_t address)
{
        return sim_channel_of(&model(name)->channels, address);
}

/* Each channel has its share, of contiguous memory and of scattered pages. */
Test(sim_traffic, channels_are_even)
{
        const char *names[] = {"h200", "a2000", "p40", "gtx1080"};
        const uint32_t counts[] = {47, 6, 12, 8};
        uint64_t seen[2][SIM_CHANNELS_MAX], state = 1, page, n = 64 << 20 >> 8;

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                memset(seen, 0, sizeof(seen));
                cr_assert_eq(model(names[i])->channels.n, counts[i]);
                for (uint64_t at = 0; at < n; at++) {
                        if (at % 8192 == 0)
                                page = next_random(&state) % (1 << 20) << 21;
                        seen[0][channel(names[i], VA + at * 256)]++;
                        seen[1][channel(names[i], VA + page + at % 8192 * 256)]++;
                }
                for (uint32_t c = 0; c < SIM_CHANNELS_MAX; c++)
                        for (int k = 0; k < 2; k++)
                                cr_assert(c < counts[i]
                                                  ? llabs((long long)(seen[k][c] * counts[i] - n)) < (long long)n / 20
                                                  : !seen[k][c],
                                        "%s: channel %u has %llu of %llu", names[i], c, (unsigned long long)seen[k][c],
                                        (unsigned long long)n);
        }
}

/* Channels alternate a,b,a,b in each KiB. The pairs are those measured on an H200: 24 channels with 2 neighbours,
 * ... */
Test(sim_traffic, pairs_of_the_h200)
{
        bool pair[47][47] = {};
        uint32_t degrees[8] = {}, a, b, degree, differ = 0;

        for (uint64_t kib = 0; kib < 64 << 10; kib++) {
                a = channel("h200", VA + kib * 1024);
                b = channel("h200", VA + kib * 1024 + 256);
                cr_assert_neq(a, b);
                cr_assert_eq(channel("h200", VA + kib * 1024 + 512), a);
                cr_assert_eq(channel("h200", VA + kib * 1024 + 768 + 255), b);
                pair[a][b] = pair[b][a] = true;
                differ += kib < 2048 && a != channel("h200", VA + (UINT64_C(1) << 21) + kib * 1024);
        }
        for (a = 0; a < 47; a++) {
                degree = 0;
                for (b = 0; b < 47; b++)
                        degree += pair[a][b];
                cr_assert_lt(degree, 8);
                degrees[degree]++;
        }
        cr_assert_eq(degrees[2], 24);
        cr_assert_eq(degrees[3], 16);
        cr_assert_eq(degrees[4], 7);
        cr_assert_gt(differ, 1500, "another page has another pattern: %u of 2048", differ);
}

/* Channels in groups of `size`, 1 KiB per channel, in all orders that are XORs of each other, as in the paper's
 * figures. */
static void groups(const char *name, uint32_t size, uint32_t least_orders)
{
        uint32_t orders[256] = {}, n_orders = 0, order;
        uint64_t at;

        for (uint64_t group = 0; group < 16384; group++) {
                at = VA + group * size * 1024;
                order = 0;
                for (uint32_t i = 0; i < size; i++) {
                        cr_assert_eq(channel(name, at + i * 1024), channel(name, at + i * 1024 + 1023));
                        cr_assert_eq(channel(name, at + i * 1024) / size, channel(name, at) / size, "one group");
                        order = order * size + channel(name, at + i * 1024) % size;
                        for (uint32_t k = 0; k < i; k++)
                                cr_assert_neq(channel(name, at + i * 1024), channel(name, at + k * 1024));
                }
                n_orders += !orders[order]++;
        }
        cr_assert_geq(n_orders, least_orders, "%s: %u orders", name, n_orders);
}

Test(sim_traffic, groups_of_the_sgdrc_papers_parts)
{
        groups("p40", 4, 4);
        groups("a2000", 2, 2);
}

Test(sim_traffic, xor_of_the_gtx1080)
{
        uint64_t state = 7, a, b;

        for (int i = 0; i < 10000; i++) {
                a = next_random(&state) % (UINT64_C(1) << 40);
                b = next_random(&state) % (UINT64_C(1) << 40);
                cr_assert_eq(channel("gtx1080", a ^ b), (channel("gtx1080", a) ^ channel("gtx1080", b)), "linear");
                cr_assert_eq(channel("gtx1080", a), channel("gtx1080", a & ~UINT64_C(4095)), "of whole pages");
        }
}

/* --- an empty L2 --- */

/* Reads or writes n bytes at va, line by line, as a warp whose lanes access 4 bytes each. */
static void touch(struct sim_probe *probe, uint64_t va, uint64_t n, enum ds_interp_access kind)
{
        uint64_t sectors[4];

        for (uint64_t at = va; at < va + n; at += 128) {
                for (uint64_t i = 0; i < 4; i++)
                        sectors[i] = (at >> DS_INTERP_SECTOR_BITS) + i;
                sim_probe_memory(probe, sectors, 4, kind);
        }
}

static struct sim_traffic probed(struct sim_probe *probe)
{
        struct sim_traffic traffic;

        sim_probe_end(probe, &traffic);
        sim_probe_begin(probe);
        return traffic;
}

static void about(uint64_t got, uint64_t want, const char *what)
{
        cr_assert(got + want / 12 + 8 >= want && got <= want + want / 12 + 8, "%s: %llu instead of %llu", what,
                (unsigned long long)got, (unsigned long long)want);
}

Test(sim_traffic, fitting_data_is_fetched_once)
{
        struct sim_probe *probe = sim_probe_new(model("h200"));
        struct sim_traffic t;

        sim_probe_begin(probe);
        touch(probe, VA, 4096, DS_INTERP_READ);
        t = probed(probe);
        cr_assert_eq(t.fill, 1024, "a little, all of it new");
        cr_assert_eq(t.vram, 1024);
        cr_assert_eq(t.touched, 4096);
        sim_traffic_deinit(&t);
        for (int i = 0; i < 8; i++)
                touch(probe, VA, DS_MIB(1), DS_INTERP_READ_L2);
        t = probed(probe);
        about(t.fill, 1024 / 8, "1 MiB eight times");
        sim_traffic_deinit(&t);
        for (int i = 0; i < 2; i++)
                touch(probe, VA, DS_MIB(24), DS_INTERP_READ);
        t = probed(probe);
        about(t.fill, 512, "24 MiB twice");
        about(t.touched, DS_MIB(24), "24 MiB");
        sim_traffic_deinit(&t);
        for (int i = 0; i < 2; i++)
                touch(probe, VA, DS_MIB(200), DS_INTERP_READ);
        t = probed(probe);
        about(t.fill, 1024, "200 MiB twice, of 60");
        cr_assert(!t.uneven);
        cr_assert_leq(t.n_granules, SIM_GRANULES_MAX);
        sim_traffic_deinit(&t);
        sim_probe_free(probe);
}

/* Traffic to five of six channels: the sixth channel gets none, and the five have equal shares. */
Test(sim_traffic, channels_that_are_not_used)
{
        struct sim_probe *probe = sim_probe_new(model("a2000"));
        struct sim_traffic t;

        sim_probe_begin(probe);
        for (uint64_t at = 0; at < DS_MIB(16); at += 1024)
                if (channel("a2000", VA + at) != 2)
                        touch(probe, VA + at, 1024, DS_INTERP_READ);
        t = probed(probe);
        cr_assert(t.uneven);
        for (uint32_t c = 0; c < 6; c++)
                about(t.shares[c], c == 2 ? 0 : 1024 / 5, "five of six");
        sim_traffic_deinit(&t);
        sim_probe_free(probe);
}

Test(sim_traffic, repeated_reads_of_a_block_hit_l1)
{
        struct sim_probe *probe = sim_probe_new(model("h200"));
        struct sim_traffic t;

        sim_probe_begin(probe);
        for (int block = 0; block < 4; block++) {
                sim_probe_block(probe);
                for (int i = 0; i < 8; i++)
                        touch(probe, VA, 65536, DS_INTERP_READ);
        }
        t = probed(probe);
        cr_assert_eq(t.pass, 1024 / 8, "each block reads it once: %u", t.pass);
        about(t.fill, 1024 / 4, "one of four");
        sim_traffic_deinit(&t);
        for (int i = 0; i < 8; i++) {
                touch(probe, VA, 65536, DS_INTERP_READ_L2);
                touch(probe, VA, 65536, DS_INTERP_WRITE);
                touch(probe, VA, 65536, DS_INTERP_ATOMIC);
        }
        t = probed(probe);
        cr_assert_eq(t.pass, 1024, "these pass");
        sim_traffic_deinit(&t);
        for (int i = 0; i < 8; i++)
                touch(probe, VA, DS_MIB(1), DS_INTERP_READ);
        t = probed(probe);
        cr_assert_eq(t.pass, 1024, "more than L1 has");
        sim_traffic_deinit(&t);
        sim_probe_free(probe);
}

Test(sim_traffic, written_data_leaves_the_cache)
{
        struct sim_probe *probe = sim_probe_new(model("h200"));
        uint32_t cost = model("h200")->timing.write_cost;
        struct sim_traffic t;

        sim_probe_begin(probe);
        touch(probe, VA, DS_MIB(8), DS_INTERP_WRITE);
        t = probed(probe);
        about(t.fill, 1024, "written");
        about(t.vram, cost, "in VRAM's time");
        sim_traffic_deinit(&t);
        touch(probe, VA, DS_MIB(8), DS_INTERP_READ);
        touch(probe, VA + DS_MIB(32), DS_MIB(8), DS_INTERP_WRITE);
        touch(probe, VA, DS_MIB(8), DS_INTERP_READ);
        touch(probe, VA + DS_MIB(32), DS_MIB(8), DS_INTERP_ATOMIC);
        t = probed(probe);
        about(t.fill, 512, "half of it twice");
        about(t.vram, (1024 + cost) / 4, "a quarter read, a quarter written");
        sim_traffic_deinit(&t);
        sim_probe_free(probe);
}

Test(sim_traffic, channels_that_are_used)
{
        struct sim_probe *probe = sim_probe_new(model("h200"));
        uint64_t in = 0, out = 0, sector;
        struct sim_traffic t;

        sim_probe_begin(probe);
        /* reads granules of channels 0 to 14 only */
        for (uint64_t at = 0; at < DS_MIB(64); at += 256)
                if (channel("h200", VA + at) < 15)
                        touch(probe, VA + at, 256, DS_INTERP_READ);
        t = probed(probe);
        cr_assert(t.uneven);
        for (uint32_t c = 0; c < 47; c++)
                *(c < 15 ? &in : &out) += t.shares[c];
        cr_assert_eq(out, 0);
        cr_assert(in > 1000 && in <= 1024, "%llu", (unsigned long long)in);
        for (uint32_t c = 0; c < 15; c++)
                about(t.shares[c], 1024 / 15, "evenly over them");
        sim_traffic_deinit(&t);
        /* accesses one word very often */
        sector = VA >> DS_INTERP_SECTOR_BITS;
        for (int i = 0; i < 100000; i++)
                sim_probe_memory(probe, &sector, 1, DS_INTERP_READ_L2);
        t = probed(probe);
        cr_assert(t.uneven);
        cr_assert_eq(t.shares[channel("h200", VA)], 1024);
        cr_assert_lt(t.fill, 8);
        sim_traffic_deinit(&t);
        sim_probe_free(probe);
}

/* --- the interpreter's report ----- */

static const char ptx[] = ".version 8.0\n.target sm_75\n.address_size 64\n"
                          ".visible .entry k(.param .u64 a)\n{\n"
                          " .reg .b32 %r<8>;\n .reg .b64 %d<8>;\n .shared .align 4 .b8 s[128];\n"
                          " ld.param.u64 %d0, [a];\n mov.u32 %r0, %laneid;\n mul.wide.u32 %d1, %r0, 4;\n"
                          " add.s64 %d2, %d0, %d1;\n ld.global.u32 %r1, [%d2];\n" /* this load touches 4 sectors */
                          " mul.wide.u32 %d3, %r0, 64;\n add.s64 %d3, %d0, %d3;\n"
                          " st.global.u32 [%d3+128], %r1;\n"      /* this store touches 32 sectors */
                          " atom.global.add.u32 %r2, [%d0], 1;\n" /* this atomic touches 1 sector */
                          /* this load touches no sector: the generic address is in shared memory */
                          " mov.u64 %d4, s;\n cvta.shared.u64 %d4, %d4;\n ld.u32 %r3, [%d4];\n"
                          /* this load touches 4 sectors, by a generic address */
                          " ld.u32 %r4, [%d2];\n"
                          " ld.volatile.global.u32 %r5, [%d2];\n" /* this load touches 4 sectors, past L1 */
                          " ret;\n}\n";

struct told {
        uint64_t n[4], low, high;
};

static void tell(void *user, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind)
{
        struct told *told = user;

        cr_assert(n > 0 && n <= DS_INTERP_SECTORS_MAX);
        told->n[kind] += n;
        for (uint32_t i = 0; i < n; i++) {
                told->low = DS_MIN(told->low, sectors[i]);
                told->high = DS_MAX(told->high, sectors[i]);
                for (uint32_t k = 0; k < i; k++)
                        cr_assert_neq(sectors[k], sectors[i], "each once");
        }
}

Test(sim_traffic, the_interpreter_tells_of_global_memory)
{
        static _Alignas(4096) uint8_t memory[4096];
        static struct ds_ptx_diags diags;
        ds_cleanup(ds_ptx_module_freep) struct ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        ds_cleanup(ds_interp_block_freep) ds_interp_block *work = ds_interp_block_new();
        struct ds_interp_range range = {(uintptr_t)memory, sizeof(memory)};
        struct told told = {.low = UINT64_MAX};
        struct ds_interp_result result;
        uint64_t params = range.va;
        struct ds_interp_launch launch = {.grid = {1, 1, 1},
                .block = {32, 1, 1},
                .params = &params,
                .params_size = sizeof(params),
                .ranges = &range,
                .n_ranges = 1,
                .memory = tell,
                .memory_user = &told};

        cr_assert_eq(ds_ptx_parse(ptx, sizeof(ptx) - 1, 0, &diags, &module), 0);
        cr_assert_eq(ds_interp_new(module, &diags, &interp), 0);
        launch.kernel = ds_interp_find_kernel(interp, "k");
        cr_assert_eq(ds_interp_run_block(work, &launch, 0, 0, 0, &result), 0);
        cr_assert_eq(result.fault, DS_INTERP_OK, "%s", result.message);
        cr_assert_eq(told.n[DS_INTERP_READ], 8);
        cr_assert_eq(told.n[DS_INTERP_WRITE], 32);
        cr_assert_eq(told.n[DS_INTERP_ATOMIC], 1);
        cr_assert_eq(told.n[DS_INTERP_READ_L2], 4);
        cr_assert_eq(told.low, range.va >> DS_INTERP_SECTOR_BITS);
        cr_assert_eq(told.high, (range.va + 31 * 64 + 128) >> DS_INTERP_SECTOR_BITS);
        cr_assert_eq(result.cost.sectors, 45);
        launch.memory = NULL;
        cr_assert_eq(ds_interp_run_block(work, &launch, 0, 0, 0, &result), 0);
        cr_assert_eq(result.cost.sectors, 45, "nobody listens");
}

/* A module's own memory is reported at the launch's addresses, not at those of this process. */
Test(sim_traffic, a_modules_own_memory_lies_where_the_launch_says)
{
        static const char text[] = ".version 8.0\n.target sm_75\n.address_size 64\n.global .align 256 .b8 v[4096];\n"
                                   ".extern .func (.param .b64 r) malloc(.param .b64 n);\n.visible .entry k()\n{\n"
                                   " .reg .b32 %r<8>;\n .reg .b64 %d<8>;\n .param .b64 n, r;\n"
                                   " mov.u32 %r0, %laneid;\n mul.wide.u32 %d1, %r0, 128;\n mov.u64 %d2, v;\n"
                                   /* this store touches 32 sectors */
                                   " add.s64 %d2, %d2, %d1;\n st.global.u32 [%d2], %r0;\n"
                                   /* this load touches 1 sector */
                                   " ld.global.u32 %r1, [v+64];\n"
                                   " mov.u64 %d3, 64;\n st.param.b64 [n], %d3;\n call (r), malloc, (n);\n"
                                   " ld.param.b64 %d4, [r];\n atom.global.add.u32 %r2, [%d4], 1;\n ret;\n}\n";
        static struct ds_ptx_diags diags;
        ds_cleanup(ds_ptx_module_freep) struct ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        ds_cleanup(ds_interp_block_freep) ds_interp_block *work = ds_interp_block_new();
        struct told told = {.low = UINT64_MAX};
        struct ds_interp_result result;
        struct ds_interp_launch launch = {
                .grid = {1, 1, 1}, .block = {32, 1, 1}, .memory = tell, .memory_user = &told, .memory_base = VA};

        cr_assert_eq(ds_ptx_parse(text, sizeof(text) - 1, 0, &diags, &module), 0, "%s", diags.diag[0].message);
        cr_assert_eq(ds_interp_new(module, &diags, &interp), 0);
        launch.kernel = ds_interp_find_kernel(interp, "k");
        cr_assert_eq(ds_interp_run_block(work, &launch, 0, 0, 0, &result), 0);
        cr_assert_eq(result.fault, DS_INTERP_OK, "%s", result.message);
        cr_assert_eq(told.n[DS_INTERP_WRITE], 32);
        cr_assert_eq(told.n[DS_INTERP_READ], 1);
        cr_assert_eq(told.n[DS_INTERP_ATOMIC], 32);
        cr_assert_eq(told.low, VA >> DS_INTERP_SECTOR_BITS);
        cr_assert_lt(told.high, (VA + DS_INTERP_OWN_BYTES) >> DS_INTERP_SECTOR_BITS);
}
