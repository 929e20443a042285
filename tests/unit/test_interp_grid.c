/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cooperative launches in the interpreter: it runs all blocks in turn, and the grid's barrier counts in the workspace
 */
#include <inttypes.h>

#include "tests/support/interp_harness.h"
#include "util/macro.h"

/*
 * A kernel in which each block adds its index + 1 to its neighbour's cell and meets the others, `rounds` times. The
 * barrier is that of compiled code: a counter whose top bit flips when the last block arrives. Block `absent` never
 * arrives.
 */
static const char relay[] =
        ".version 8.0\n.target sm_90\n.address_size 64\n"
        ".visible .entry relay(.param .u64 cells, .param .u32 rounds, .param .u32 absent)\n{\n"
        ".reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %d<6>;\n"
        "mov.u32 %r1, %envreg2; mov.u32 %r2, %envreg1;\n"
        "mov.b64 %d1, {%r1, %r2};\n"
        "setp.ne.u64 %p1, %d1, 0;\n@%p1 bra VALID;\ntrap;\n"
        "VALID:\nld.param.u64 %d2, [cells]; ld.param.u32 %r3, [rounds]; ld.param.u32 %r4, [absent];\n"
        "mov.u32 %r5, %ctaid.x; mov.u32 %r6, %nctaid.x; mov.u32 %r7, %tid.x;\n"
        "setp.eq.u32 %p1, %r4, %r5;\n@%p1 ret;\n"
        "ROUND:\nsetp.ne.u32 %p2, %r7, 0;\n@%p2 bra MEET;\n"
        "add.u32 %r8, %r5, 1; rem.u32 %r9, %r8, %r6;\n"
        "mul.wide.u32 %d3, %r9, 4; add.u64 %d3, %d3, %d2;\n"
        "ld.global.u32 %r10, [%d3]; mad.lo.u32 %r10, %r10, 3, %r8; st.global.u32 [%d3], %r10;\n"
        "MEET:\nbarrier.sync 0;\n@%p2 bra MET;\n"
        "mov.u32 %r11, 1; setp.ne.u32 %p3, %r5, 0;\n@%p3 bra ADD;\n"
        "sub.u32 %r11, 0x80000001, %r6;\n"
        "ADD:\natom.add.release.gpu.u32 %r12, [%d1+4], %r11;\n"
        "SPIN:\nld.acquire.gpu.u32 %r13, [%d1+4];\nxor.b32 %r14, %r12, %r13;\n"
        "setp.ge.s32 %p3, %r14, 0;\n@%p3 bra SPIN;\n"
        "MET:\nbarrier.sync 0;\nsub.u32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0;\n@%p1 bra ROUND;\nret;\n}\n";

#define BLOCKS 37u

struct grid {
        struct rig rig;
        struct ds_interp_part part[BLOCKS];
        struct ds_interp_result result[BLOCKS];
        uint32_t *cells, *workspace;
        uint8_t params[64];
        uint64_t told;
};

static void told(void *user, uint64_t instructions)
{
        struct grid *g = user;

        cr_assert(instructions > g->told, "what is told goes up: %" PRIu64 " after %" PRIu64, instructions, g->told);
        g->told = instructions;
}

static void grid_open(struct grid *g, uint32_t rounds, uint32_t absent)
{
        struct ds_interp_launch launch = {
                .grid = {BLOCKS, 1, 1}, .block = {64, 1, 1}, .progress = told, .progress_user = g};

        memset(g, 0, sizeof(*g));
        rig_text(&g->rig, relay);
        g->cells = rig_alloc(&g->rig, BLOCKS * 4);
        g->workspace = rig_alloc(&g->rig, DS_INTERP_WORKSPACE);
        launch.kernel = ds_interp_find_kernel(g->rig.interp, "relay");
        launch.params = g->params;
        launch.params_size = ds_interp_kernel_info(launch.kernel)->params_size;
        rig_pack(ds_interp_kernel_info(launch.kernel), RIG_ARGS(&g->cells, &rounds, &absent), g->params);
        launch.ranges = g->rig.range;
        launch.n_ranges = g->rig.n_ranges;
        launch.workspace = (uintptr_t)g->workspace;
        for (uint32_t i = 0; i < BLOCKS; i++)
                g->part[i] = (struct ds_interp_part){
                        .work = ds_interp_block_new(), .launch = launch, .first = {i, 0, 0}, .results = &g->result[i]};
}

static uint64_t grid_run(struct grid *g)
{
        uint64_t sum = 0;

        cr_assert_eq(ds_interp_run_grid(g->part, BLOCKS), 0);
        for (uint32_t i = 0; i < BLOCKS; i++)
                sum += g->result[i].cost.instructions;
        cr_assert(g->told <= sum);
        return sum;
}

static void grid_close(struct grid *g)
{
        for (uint32_t i = 0; i < BLOCKS; i++)
                ds_interp_block_free(g->part[i].work);
        rig_close(&g->rig);
}

/* Asserts that the given block ended with this fault and the other blocks without one of their own. */
static void expect_fault(const struct grid *g, enum ds_interp_fault fault)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < BLOCKS; i++) {
                cr_assert(!g->result[i].fault || g->result[i].fault == fault, "block %u: %d", i, g->result[i].fault);
                n += g->result[i].fault == fault;
        }
        cr_assert_eq(n, 1);
}

Test(interp_grid, blocks_wait_for_each_other)
{
        uint64_t executed[2];

        for (int run = 0; run < 2; run++) {
                static struct grid g;
                uint32_t expected[BLOCKS] = {};

                grid_open(&g, 20, UINT32_MAX);
                executed[run] = grid_run(&g);
                for (int round = 0; round < 20; round++)
                        for (uint32_t i = 0; i < BLOCKS; i++)
                                expected[i] = expected[i] * 3 + (i ? i : BLOCKS);
                for (uint32_t i = 0; i < BLOCKS; i++) {
                        cr_assert_eq(g.result[i].fault, DS_INTERP_OK, "block %u: %s", i, g.result[i].message);
                        cr_assert_eq(g.cells[i], expected[i]);
                }
                grid_close(&g);
        }
        cr_assert_eq(executed[0], executed[1], "the turns are the same each time");
}

Test(interp_grid, one_that_never_comes)
{
        static struct grid g;

        grid_open(&g, 2, 5);
        for (uint32_t i = 0; i < BLOCKS; i++)
                g.part[i].launch.max_instructions = 200000;
        grid_run(&g);
        expect_fault(&g, DS_INTERP_FAULT_BUDGET);
        grid_close(&g);
}

Test(interp_grid, given_up)
{
        static const _Atomic uint32_t abort_flag = 1;
        static struct grid g;

        grid_open(&g, 2, 5);
        for (uint32_t i = 0; i < BLOCKS; i++)
                g.part[i].launch.abort = &abort_flag;
        grid_run(&g);
        expect_fault(&g, DS_INTERP_FAULT_ABORTED);
        grid_close(&g);
}

Test(interp_grid, a_fault_ends_all)
{
        static struct grid g;

        grid_open(&g, 3, UINT32_MAX);
        for (uint32_t i = 0; i < BLOCKS; i++)
                g.part[i].launch.n_ranges = 1;
        grid_run(&g);
        expect_fault(&g, DS_INTERP_FAULT_ADDRESS);
        grid_close(&g);
}

/* A kernel with a grid barrier has no workspace if its launch is not cooperative, and the error says so. */
Test(interp_grid, no_workspace)
{
        static struct grid g;
        uint32_t rounds = 1, absent = UINT32_MAX;
        struct ds_interp_result result;

        grid_open(&g, rounds, absent);
        result = rig_launch(&g.rig, "relay", RIG_DIM1(1), RIG_DIM1(32), 0, RIG_ARGS(&g.cells, &rounds, &absent));
        cr_assert_eq(result.fault, DS_INTERP_FAULT_TRAP);
        grid_close(&g);
}
