/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters in the interpreter: compiled kernels, and hand-written ones that no compiler emits
 */
#include "tests/support/interp_harness.h"
#include "util/macro.h"

static void open_file(struct rig *r, uint32_t x, uint32_t y, uint32_t z, uint32_t seed)
{
        rig_file(r, "sm_90", "cluster");
        r->cluster[0] = x;
        r->cluster[1] = y;
        r->cluster[2] = z;
        r->seed = seed;
}

/* --- ranks and shapes --- */
static void check_where(const uint32_t *grid, const uint32_t *cluster, const uint32_t *out)
{
        uint32_t block = 0, b[3];

        for (b[2] = 0; b[2] < grid[2]; b[2]++)
                for (b[1] = 0; b[1] < grid[1]; b[1]++)
                        for (b[0] = 0; b[0] < grid[0]; b[0]++, block++, out += 16) {
                                uint32_t rank = 0;

                                for (int i = 2; i >= 0; i--) {
                                        cr_assert_eq(out[i], b[i] / cluster[i]);
                                        cr_assert_eq(out[3 + i], grid[i] / cluster[i]);
                                        cr_assert_eq(out[6 + i], b[i] % cluster[i]);
                                        cr_assert_eq(out[9 + i], cluster[i]);
                                        rank = rank * cluster[i] + b[i] % cluster[i];
                                }
                                cr_assert_eq(out[12], rank);
                                cr_assert_eq(out[13], cluster[0] * cluster[1] * cluster[2]);
                                cr_assert_eq(out[14], 1);
                                cr_assert_eq(out[15], block);
                        }
}

Test(interp_cluster, where)
{
        static const uint32_t shapes[][2][3] = {{{4, 1, 1}, {2, 1, 1}}, {{8, 6, 4}, {2, 3, 2}},
                {{16, 2, 1}, {16, 1, 1}}, {{3, 4, 16}, {1, 1, 16}}, {{5, 3, 2}, {1, 1, 1}}};

        for (size_t i = 0; i < DS_ARRAY_SIZE(shapes); i++) {
                const uint32_t *grid = shapes[i][0], *cluster = shapes[i][1];
                struct rig r;
                uint32_t *out;

                open_file(&r, cluster[0], cluster[1], cluster[2], i & 1 ? 99 : 0);
                out = rig_alloc(&r, (size_t)grid[0] * grid[1] * grid[2] * 64);
                rig_run(&r, "cluster_where", RIG_DIM3(grid[0], grid[1], grid[2]), RIG_DIM1(32), 0, RIG_ARGS(&out));
                check_where(grid, cluster, out);
                rig_close(&r);
        }
}

Test(interp_cluster, none)
{
        struct rig r;
        uint32_t *out;

        open_file(&r, 0, 0, 0, 0);
        out = rig_alloc(&r, 64 * 3);
        rig_run(&r, "cluster_where", RIG_DIM1(3), RIG_DIM1(16), 0, RIG_ARGS(&out));
        for (uint32_t b = 0; b < 3; b++) {
                cr_assert_eq(out[b * 16], b);
                cr_assert_eq(out[b * 16 + 3], 3);
                cr_assert_eq(out[b * 16 + 12], 0);
                cr_assert_eq(out[b * 16 + 13], 1);
                cr_assert_eq(out[b * 16 + 14], 0, "no cluster was asked for");
        }
        rig_close(&r);
}

/* --- compiled kernels --- */
Test(interp_cluster, reduce)
{
        for (uint32_t size = 1; size <= 16; size += size == 1 ? 1 : 2) {
                int n = 10000;
                uint32_t blocks = size * 3;
                int64_t want = 0, got = 0, *out;
                struct rig r;
                int *in;

                open_file(&r, size, 1, 1, size);
                in = rig_alloc(&r, (size_t)n * 4);
                out = rig_alloc(&r, (size_t)blocks * 8);
                for (int i = 0; i < n; i++)
                        want += in[i] = i * 7 - 3000;
                rig_run(&r, "cluster_reduce", RIG_DIM1(blocks), RIG_DIM1(128), 0, RIG_ARGS(&in, &n, &out));
                for (uint32_t i = 0; i < 3; i++)
                        got += out[i];
                cr_assert_eq(got, want);
                rig_close(&r);
        }
}

Test(interp_cluster, histogram)
{
        int n = 5000, per_block = 64;
        uint32_t *in, *bins, want[256] = {0};
        struct rig r;

        open_file(&r, 2, 2, 1, 7);
        in = rig_words(&r, (size_t)n, 3);
        bins = rig_alloc(&r, sizeof(want));
        for (int i = 0; i < n; i++)
                want[in[i] % 256]++;
        rig_run(&r, "cluster_histogram", RIG_DIM2(2, 2), RIG_DIM1(96), 64 * 4, RIG_ARGS(&in, &n, &bins, &per_block));
        cr_assert_neq(memcmp(bins, want, sizeof(want)), 0, "four blocks in y see the same values");
        for (int i = 0; i < 256; i++)
                cr_assert_eq(bins[i] % 2, 0);
        memset(bins, 0, sizeof(want));
        r.cluster[0] = 4;
        r.cluster[1] = 1;
        rig_run(&r, "cluster_histogram", RIG_DIM1(8), RIG_DIM1(96), 64 * 4, RIG_ARGS(&in, &n, &bins, &per_block));
        cr_assert_eq(memcmp(bins, want, sizeof(want)), 0);
        rig_close(&r);
}

Test(interp_cluster, ring)
{
        uint32_t *out;
        struct rig r;
        int rounds = 11;

        open_file(&r, 5, 1, 1, 0);
        out = rig_alloc(&r, 10 * 64 * 4);
        rig_run(&r, "cluster_ring", RIG_DIM1(10), RIG_DIM1(64), 0, RIG_ARGS(&out, &rounds));
        for (uint32_t b = 0; b < 10; b++)
                for (uint32_t t = 0; t < 64; t++)
                        cr_assert_eq(out[b * 64 + t], (b / 5 * 5 + (b % 5 + 50 - 11) % 5) * 1000 + t + 11);
        rig_close(&r);
}

Test(interp_cluster, addresses)
{
        uint32_t *out;
        struct rig r;

        open_file(&r, 4, 1, 1, 0);
        out = rig_alloc(&r, 8 * 32);
        rig_run(&r, "cluster_addresses", RIG_DIM1(8), RIG_DIM1(32), 0, RIG_ARGS(&out));
        for (uint32_t b = 0; b < 8; b++) {
                const uint32_t *o = out + (size_t)b * 8, other = 3 - b % 4;

                cr_assert_eq(o[0], other);
                cr_assert_eq(o[1], 100 + other);
                cr_assert_eq(o[2], 100 + other);
                cr_assert_eq(o[3], other);
                cr_assert_eq(o[4], 7);
                cr_assert_eq(o[5], 1);
                cr_assert_eq(o[6], b % 4);
        }
        rig_run(&r, "cluster_pointers", RIG_DIM1(8), RIG_DIM1(32), 0, RIG_ARGS(&out));
        for (uint32_t b = 0; b < 8; b++)
                cr_assert_eq(out[b], 7 + (b + 3) % 4);
        rig_close(&r);
}

Test(interp_cluster, leavers)
{
        uint32_t *out;
        struct rig r;

        open_file(&r, 8, 1, 1, 0);
        out = rig_alloc(&r, 16 * 4);
        rig_run(&r, "cluster_leavers", RIG_DIM1(16), RIG_DIM1(96), 0, RIG_ARGS(&out));
        for (uint32_t b = 0; b < 16; b++)
                cr_assert_eq(out[b], 3 * (32 - b % 8));
        rig_close(&r);
}

Test(interp_cluster, what_the_text_asks_for)
{
        const struct ds_interp_kernel_info *info;
        struct rig r;

        open_file(&r, 0, 0, 0, 0);
        info = ds_interp_kernel_info(ds_interp_find_kernel(r.interp, "cluster_fixed"));
        cr_assert(info->cluster[0] == 2 && info->cluster[1] == 1 && info->cluster[2] == 1);
        info = ds_interp_kernel_info(ds_interp_find_kernel(r.interp, "cluster_where"));
        cr_assert(info->cluster[0] == 0 && info->max_cluster == 0 && !info->explicit_cluster);
        rig_close(&r);
        rig_text(&r,
                ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k() .explicitcluster .maxclusterrank 4 "
                "{ ret; }\n.visible .entry b() .reqntid 32 .reqnctapercluster 2, 2 .blocksareclusters { ret; }\n");
        info = ds_interp_kernel_info(ds_interp_find_kernel(r.interp, "k"));
        cr_assert(info->explicit_cluster && info->max_cluster == 4 && !info->blocks_are_clusters);
        info = ds_interp_kernel_info(ds_interp_find_kernel(r.interp, "b"));
        cr_assert(info->blocks_are_clusters && info->cluster[0] == 2 && info->cluster[1] == 2 && info->cluster[2] == 1);
        rig_close(&r);
}

/* --- hand-written kernels --------- */
#define HEAD ".version 8.3\n.target sm_90\n.address_size 64\n"
/* Head of each kernel. %i: thread; %c: rank; %o: address of word tid + rank * ntid of the result; s: 64 words of
 * shared memory */
#define KERNEL(body)                                                                                                 \
        HEAD ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %o, %out, %d<8>;\n.reg .b32 %i, %c, %n, %r<16>;\n"    \
             ".reg .pred %p<4>;\n.shared .align 8 .b32 s[64];\nmov.u32 %i, %tid.x;\nmov.u32 %c, %cluster_ctarank;\n" \
             "mov.u32 %n, %ntid.x;\nmad.lo.u32 %n, %n, %c, %i;\nld.param.u64 %out, [out];\n"                         \
             "mad.wide.u32 %o, %n, 4, %out;\n" body "\nret;\n}\n"

static struct ds_interp_result launch(
        struct rig *r, const char *text, uint32_t blocks, uint32_t threads, uint32_t **ret)
{
        rig_text(r, text);
        r->cluster[0] = blocks;
        *ret = rig_alloc(r, 65536);
        return rig_launch(r, "k", RIG_DIM1(blocks), RIG_DIM1(threads), 0, RIG_ARGS(ret));
}

static void good(const char *text, uint32_t blocks, uint32_t threads, uint32_t (*want)(uint32_t rank, uint32_t thread))
{
        uint32_t *out;
        struct rig r;
        struct ds_interp_result f = launch(&r, text, blocks, threads, &out);

        cr_assert(f.fault == DS_INTERP_OK, "fault %d at line %u: %s", f.fault, f.line, f.message);
        for (uint32_t b = 0; b < blocks; b++)
                for (uint32_t t = 0; t < threads; t++)
                        cr_assert(out[b * threads + t] == want(b, t), "block %u thread %u: %u", b, t,
                                out[b * threads + t]);
        rig_close(&r);
}

static void faults(const char *text, uint32_t blocks, uint32_t threads, enum ds_interp_fault want)
{
        uint32_t *out;
        struct rig r;
        struct ds_interp_result f = launch(&r, text, blocks, threads, &out);

        cr_assert(f.fault == want, "fault %d at line %u (%s), not %d", f.fault, f.line, f.message, want);
        rig_close(&r);
}

/* Half of each warp arrives at the cluster barrier in one branch, half in the other; odd blocks wait twice as often. */
static uint32_t one_more(uint32_t rank, uint32_t thread)
{
        return 5 + rank;
}

Test(interp_cluster, divergent_arrivals)
{
        good(KERNEL("mov.u32 %r4, 0;\nL: and.b32 %r0, %i, 1;\nsetp.eq.u32 %p0, %r0, 0;\n@%p0 bra A;\n"
                    "barrier.cluster.arrive;\nbra B;\nA: barrier.cluster.arrive.relaxed;\nnanosleep.u32 10;\n"
                    "B: @%p0 barrier.cluster.wait;\n@!%p0 barrier.cluster.wait;\nadd.u32 %r4, %r4, 1;\n"
                    "setp.lt.u32 %p1, %r4, 5;\n@%p1 bra L;\nadd.u32 %r4, %r4, %c;\nst.global.u32 [%o], %r4;"),
                3, 70, one_more);
}

/* Lanes that are a round behind meet the others at one wait: the former wait there, the latter continue. */
static uint32_t rounds(uint32_t rank, uint32_t thread)
{
        return 3;
}

Test(interp_cluster, lanes_in_different_rounds)
{
        good(KERNEL("setp.lt.u32 %p0, %i, 16;\nmov.u32 %r1, 0;\nL: barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
                    "add.u32 %r1, %r1, 1;\n@%p0 bra M;\nM: setp.lt.u32 %p1, %r1, 3;\n@%p1 bra L;\nst.global.u32 [%o], "
                    "%r1;"),
                2, 48, rounds);
}

/* Threads that arrive and exit without waiting, or exit without arriving: the others' barrier completes. */
static uint32_t stayed(uint32_t rank, uint32_t thread)
{
        return thread % 32 < 20 ? 0 : 77;
}

Test(interp_cluster, exits)
{
        good(KERNEL("and.b32 %r0, %i, 31;\nsetp.lt.u32 %p0, %r0, 10;\n@%p0 exit;\nbarrier.cluster.arrive;\n"
                    "setp.lt.u32 %p0, %r0, 20;\n@%p0 exit;\nbarrier.cluster.wait;\nbarrier.cluster.arrive;\n"
                    "barrier.cluster.wait;\nmov.u32 %r1, 77;\nst.global.u32 [%o], %r1;"),
                4, 64, stayed);
}

/* The second block's shared memory stays readable after that block has ended. */
static uint32_t left_behind(uint32_t rank, uint32_t thread)
{
        return rank ? 0 : 4711;
}

Test(interp_cluster, memory_outlives_its_block)
{
        good(KERNEL("setp.eq.u32 %p0, %c, 0;\n@%p0 bra A;\nmov.u32 %r1, 4711;\nst.shared.u32 [s], %r1;\n"
                    "barrier.cluster.arrive;\nexit;\nA: barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
                    "mov.u32 %r2, s;\nmapa.shared::cluster.u32 %r3, %r2, 1;\nld.shared::cluster.u32 %r4, [%r3];\n"
                    "st.global.u32 [%o], %r4;"),
                2, 32, left_behind);
}

static uint32_t from_all(uint32_t rank, uint32_t thread)
{
        return 3 * 64 + 100;
}

/* All blocks count in the last block's memory: 32-bit and generic addresses, atom and red, and a vector beside it. */
Test(interp_cluster, remote_atomics)
{
        good(KERNEL("mov.u32 %r2, 0;\nst.shared.u32 [s+4], %r2;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"
                    "mov.u32 %r2, s;\nmapa.shared::cluster.u32 %r3, %r2, 2;\n"
                    "setp.ge.u32 %p0, %i, 32;\n@%p0 bra A;\natom.shared::cluster.add.u32 %r5, [%r3+4], 1;\nbra B;\n"
                    "A: cvt.u64.u32 %d0, %r2;\ncvta.shared.u64 %d0, %d0;\nmapa.u64 %d1, %d0, 2;\n"
                    "red.add.u32 [%d1+4], 1;\n"
                    "B: setp.eq.u32 %p1, %n, 0;\n@%p1 red.relaxed.cluster.shared::cluster.add.u32 [%r3+4], 100;\n"
                    "barrier.cluster.arrive;\nbarrier.cluster.wait;\nld.shared::cluster.v2.u32 {%r6, %r7}, [%r3];\n"
                    "st.global.u32 [%o], %r7;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;"),
                3, 64, from_all);
}

/* Blocks poll a flag in another block's memory: the interpreter runs warps of all blocks in turn. */
Test(interp_cluster, polling)
{
        good(KERNEL("setp.eq.u32 %p0, %c, 1;\nmov.u32 %r2, s;\nmapa.shared::cluster.u32 %r3, %r2, 1;\n@%p0 bra B;\n"
                    "A: ld.volatile.shared::cluster.u32 %r4, [%r3];\nsetp.eq.u32 %p1, %r4, 0;\n@%p1 bra A;\n"
                    "st.global.u32 [%o], %r4;\nbra C;\nB: mov.u32 %r4, 4711;\nst.shared.u32 [s], %r4;\n"
                    "mov.u32 %r4, 0;\nst.global.u32 [%o], %r4;\nC: barrier.cluster.arrive;\nbarrier.cluster.wait;"),
                2, 32, left_behind);
}

/* An absolute shared::cta address is in the block itself, whatever the block's rank. */
static uint32_t own_rank(uint32_t rank, uint32_t thread)
{
        return rank;
}

Test(interp_cluster, plain_offsets)
{
        good(KERNEL("mov.u32 %r1, 8;\nst.shared.u32 [%r1], %c;\nst.shared.u32 [s], %c;\nbarrier.cluster.arrive;\n"
                    "barrier.cluster.wait;\nld.shared.u32 %r2, [%r1];\nst.global.u32 [%o], %r2;"),
                3, 1, own_rank);
}

Test(interp_cluster, faults)
{
        static const struct {
                const char *body;
                enum ds_interp_fault want;
        } rows[] = {
                /* a rank that does not exist; beyond a block's memory; misaligned; another block's address used as
                 * one's own */
                {KERNEL("mov.u32 %r2, s;\nmapa.shared::cluster.u32 %r3, %r2, 2;\nld.shared::cluster.u32 %r4, [%r3];"),
                        DS_INTERP_FAULT_ADDRESS},
                {KERNEL("mov.u32 %r2, s;\nmapa.shared::cluster.u32 %r3, %r2, 257;\nld.shared::cluster.u32 %r4, [%r3];"),
                        DS_INTERP_FAULT_ADDRESS},
                {KERNEL("mov.u32 %r2, s;\nmapa.shared::cluster.u32 %r3, %r2, 1;\nst.shared::cluster.u32 [%r3+256], "
                        "%r2;"),
                        DS_INTERP_FAULT_ADDRESS},
                {KERNEL("mov.u32 %r2, s;\nmapa.shared::cluster.u32 %r3, %r2, 1;\nst.shared::cluster.u64 [%r3+252], "
                        "%o;"),
                        DS_INTERP_FAULT_MISALIGNED},
                {KERNEL("mov.u32 %r2, s;\nmapa.shared::cluster.u32 %r3, %r2, 1;\nst.shared::cluster.v2.u64 [%r3+240], "
                        "{%o, %o};\nst.shared::cluster.v4.u32 [%r3+248], {%r2, %r2, %r2, %r2};"),
                        DS_INTERP_FAULT_MISALIGNED},
                {KERNEL("mov.u32 %r2, 0xffffff00;\nld.shared::cluster.u32 %r3, [%r2];"), DS_INTERP_FAULT_ADDRESS},
                {KERNEL("mov.u32 %r2, s;\ncvt.u64.u32 %d0, %r2;\ncvta.shared.u64 %d0, %d0;\nmapa.u64 %d1, %d0, 9;\n"
                        "ld.u32 %r3, [%d1];"),
                        DS_INTERP_FAULT_ADDRESS},
                {KERNEL("mov.u64 %d1, 0x0100000001000100;\nst.u32 [%d1], %r2;"), DS_INTERP_FAULT_ADDRESS},
                {KERNEL("mov.u64 %d1, 0x01ffffff00000000;\nst.u32 [%d1], %r2;"), DS_INTERP_FAULT_ADDRESS},
                {KERNEL("mov.u64 %d1, 0x0000000100000000;\nld.shared::cluster.u32 %r2, [%d1];"),
                        DS_INTERP_FAULT_ADDRESS},
                {KERNEL("mov.u32 %r2, s;\nmapa.shared::cluster.u32 %r3, %r2, 1;\nsetp.eq.u32 %p0, %c, 0;\n"
                        "@%p0 ld.shared.u32 %r4, [%r3];"),
                        DS_INTERP_FAULT_ADDRESS},
                {KERNEL("barrier.cluster.arrive;\nbarrier.cluster.arrive;"), DS_INTERP_FAULT_ILLEGAL},
                {KERNEL("barrier.cluster.wait;"), DS_INTERP_FAULT_ILLEGAL},
                {KERNEL("barrier.cluster.arrive;\nbarrier.cluster.wait;\nbarrier.cluster.wait;"),
                        DS_INTERP_FAULT_ILLEGAL},
                /* one block waits for the cluster, the other for a thread of its own that never arrives */
                {KERNEL("setp.eq.u32 %p0, %c, 0;\n@%p0 bra A;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"
                        "A: setp.eq.u32 %p1, %i, 0;\n@%p1 bar.sync 1, 64;"),
                        DS_INTERP_FAULT_BARRIER},
                {KERNEL("setp.eq.u32 %p0, %n, 63;\n@%p0 trap;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;"),
                        DS_INTERP_FAULT_TRAP},
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++)
                faults(rows[i].body, 2, 32, rows[i].want);
}

/* The instruction budget is for the whole cluster, and so is the count of instructions that the caller gets. */
static void told(void *user, uint64_t instructions)
{
        uint64_t *last = user;

        cr_assert(instructions >= *last);
        *last = instructions;
}

Test(interp_cluster, budget_and_progress)
{
        struct ds_interp_result results[DS_INTERP_CLUSTER_MAX];
        uint64_t last = 0, total = 0;
        struct rig r;
        uint8_t params[8] = {0};
        struct ds_interp_launch l = {.grid = {16, 1, 1},
                .block = {32, 1, 1},
                .cluster = {16, 1, 1},
                .params = params,
                .params_size = 8,
                .max_instructions = 1000000,
                .progress = told,
                .progress_user = &last};
        int n_faults = 0;

        rig_text(&r, KERNEL("L: bra L;"));
        l.kernel = ds_interp_find_kernel(r.interp, "k");
        cr_assert_eq(ds_interp_run_cluster(r.work, &l, 0, 0, 0, results), 0);
        for (int i = 0; i < 16; i++) {
                total += results[i].cost.instructions;
                n_faults += results[i].fault == DS_INTERP_FAULT_BUDGET;
                cr_assert(results[i].fault == DS_INTERP_OK || results[i].fault == DS_INTERP_FAULT_BUDGET);
        }
        cr_assert(n_faults == 1 && total >= 1000000 && total < 1000000 + 16 * 16400, "%d faults, %llu", n_faults,
                (unsigned long long)total);
        cr_assert(last > 900000 && last <= total);
        rig_close(&r);
}

/* All blocks of a cluster together may have no more local memory than a single block may have. */
Test(interp_cluster, memory_bound)
{
        struct ds_interp_result results[DS_INTERP_CLUSTER_MAX];
        struct ds_interp_launch l = {.grid = {16, 1, 1}, .block = {1024, 1, 1}, .cluster = {16, 1, 1}};
        struct rig r;

        rig_text(&r, HEAD ".visible .entry k()\n{\n.local .b8 big[131072];\n.reg .b32 %r;\nmov.u32 %r, big;\n"
                          "st.local.u32 [big], %r;\nret;\n}\n");
        l.kernel = ds_interp_find_kernel(r.interp, "k");
        cr_assert_eq(ds_interp_run_cluster(r.work, &l, 0, 0, 0, results), -ENOMEM);
        l.cluster[0] = 2;
        cr_assert_eq(ds_interp_run_cluster(r.work, &l, 0, 0, 0, results), 0);
        cr_assert_eq(results[1].fault, DS_INTERP_OK);
        l.cluster[0] = 0;
        cr_assert_eq(ds_interp_run_block(r.work, &l, 3, 0, 0, results), 0);
        rig_close(&r);
}

/* The memory of a block contains nothing of an earlier cluster. */
static uint32_t zero(uint32_t rank, uint32_t thread)
{
        return 0;
}

Test(interp_cluster, memory_is_clear)
{
        const char *text =
                KERNEL("mov.u32 %r2, s;\nxor.b32 %r1, %c, 3;\nmapa.shared::cluster.u32 %r3, %r2, %r1;\n"
                       "ld.shared::cluster.u32 %r4, [%r3];\nst.global.u32 [%o], %r4;\nbarrier.cluster.arrive;\n"
                       "barrier.cluster.wait;\nmov.u32 %r5, 99;\nst.shared.u32 [s], %r5;");
        uint32_t *out;
        struct rig r;

        good(text, 4, 32, zero);
        (void)launch(&r, text, 4, 32, &out);
        for (int again = 0; again < 2; again++) {
                struct ds_interp_result f = rig_launch(&r, "k", RIG_DIM1(4), RIG_DIM1(32), 0, RIG_ARGS(&out));

                cr_assert_eq(f.fault, DS_INTERP_OK);
                for (int i = 0; i < 128; i++)
                        cr_assert_eq(out[i], 0);
        }
        rig_close(&r);
}
