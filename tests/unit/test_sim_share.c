/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concurrent kernels: shared SMs, L2, VRAM and channels, and blocks that are held back
 *
 * Kernels of timing-only devices state their demands (see module.c), so the effect of sharing can be computed by hand.
 * Speeds of memory are rounded to 1/128, which is the tolerance here.
 */
#include "tests/gpu/device_common.h"

#include "device/sim/internal.h"
#include "device/sim/sim.h"
#include "tests/unit/rounds.h"

#define US DS_NS_PER_US
#define MS DS_NS_PER_MS
#define KERNEL(name) ".visible .entry " name "()\n{\n ret;\n}\n"
#define HINT(name, what) "// detshare-sim: " name " " what "\n"

/* VRAM of the h200 row has 3,500 GB/s. 66 blocks of `half` demand 1,742 of them, so two such kernels demand all. */
#define PTX                                                                                                            \
        DT_PTX_HEADER KERNEL("spin") KERNEL("busy") KERNEL("half") KERNEL("more") KERNEL("some") KERNEL("few") KERNEL( \
                "other") KERNEL("reuse") HINT("spin", "block_ns=20000") HINT("busy", "block_ns=20000 issue_ns=20000")  \
                HINT("half", "block_ns=100000 bytes=2640000") HINT("more", "block_ns=100000 bytes=7920000")            \
                        HINT("some", "block_ns=100000 issue_ns=50000 bytes=100000")                                    \
                                HINT("few", "block_ns=100000 bytes=2640000 channels=0-9")                              \
                                        HINT("other", "block_ns=100000 bytes=264000 channels=20-29")                   \
                                                HINT("reuse", "block_ns=10000 bytes=400000 reuse=26400000")

struct ts {
        struct dt *t;
        ds_device_module *module;
        uint32_t left, right, all; /* streams of two rungs of 66 SMs, and of all SMs */
};

static struct ts ts_open(void)
{
        struct ts ts = {.t = dt_open(&ds_sim_ops, "h200+timing")};
        struct ds_tpc_mask left = dt_mask(0, 33), right = dt_mask(33, 33);
        uint32_t rung;

        cr_assert_eq(ds_sim_ops.rung_create(ts.t->device, &left, &rung), 0);
        ts.left = ds_device_stream(rung, 0, 0);
        cr_assert_eq(ds_sim_ops.rung_create(ts.t->device, &right, &rung), 0);
        ts.right = ds_device_stream(rung, 1, 0);
        ts.all = ts.t->stream;
        ts.module = dt_load(ts.t, PTX);
        return ts;
}

static uint64_t submit(struct ts *ts, const char *name, uint32_t stream, uint32_t grid, uint32_t bound)
{
        struct ds_launch l = dt_launch_of(ts->t, ts->module, name, grid, 1024);

        l.stream = stream;
        l.max_resident_blocks = bound;
        return dt_launch(ts->t, &l);
}

/* Time from the first block to the end. */
static uint64_t lasted(struct ts *ts, uint64_t token)
{
        const struct ds_completion *c = dt_wait(ts->t, token);

        cr_assert_eq(c->status, 0);
        return c->end_ns - c->start_ns - sim_model_find("h200", 4)->timing.kernel_ns;
}

static void about(uint64_t got, uint64_t want, const char *what)
{
        uint64_t slack = want / 64 + 2 * US;

        cr_assert(got + slack >= want && got <= want + slack, "%s: %llu ns instead of %llu", what,
                (unsigned long long)got, (unsigned long long)want);
}

static void pass(struct ts *ts, uint64_t ns)
{
        uint64_t until = ds_sim_ops.now(ts->t->device) + ns;

        do
                while (dt_poll(ts->t))
                        ;
        while (ds_sim_ops.advance(ts->t->device, until) != -ETIME);
}

/* --- issue slots --- */

Test(sim_share, two_on_one_sm_take_turns)
{
        struct ts ts = ts_open();
        uint64_t first, second;

        about(lasted(&ts, submit(&ts, "busy", ts.all, 132, 0)), 20 * US, "one on each SM");
        about(lasted(&ts, submit(&ts, "busy", ts.all, 264, 0)), 40 * US, "two on each");
        about(lasted(&ts, submit(&ts, "spin", ts.all, 264, 0)), 20 * US, "two that only wait");
        /* the second kernel starts in the middle of the first, and both then run at half speed */
        first = submit(&ts, "busy", ts.all, 132, 0);
        pass(&ts, 10 * US);
        second = submit(&ts, "busy", ds_device_stream(ts.t->rung, 1, 1), 132, 0);
        about(lasted(&ts, first), 30 * US, "alone for 10 us, then at half speed for 20");
        about(lasted(&ts, second), 30 * US, "at half speed for 20 us, then alone for 10");
        dt_close(ts.t);
}

/* --- bandwidth --- */

Test(sim_share, bandwidth_comes_back)
{
        struct ts ts = ts_open();
        uint64_t long_, short_;

        about(lasted(&ts, submit(&ts, "half", ts.left, 66, 0)), 100 * US, "half of the bandwidth");
        /*
         * Together they demand 1.99 times the bandwidth. A block of `half` demands 26.4 of the 63.4 GB/s that half an
         * SM can take, so it waits for 0.417 of its time; one of `more` waits all of it. The average is 0.854, so
         * waiting takes 2.16 times as long: 1 + 0.417 * 1.16 and 2.16.
         */
        long_ = submit(&ts, "more", ts.left, 66, 0);
        pass(&ts, 10 * US);
        short_ = submit(&ts, "half", ts.right, 66, 0);
        about(lasted(&ts, short_), 148 * US, "beside one that asks for three times as much");
        /* `more` runs at a stretch of 1.493 alone for 11 us, at 2.16 beside `half` for 148 us, and at 1.493 for the
         * rest of its 100 us */
        about(lasted(&ts, long_), 195 * US, "the other");
        dt_close(ts.t);
}

/* A kernel that mostly computes is delayed little, however busy the memory is. */
Test(sim_share, compute_bound_kernels_are_delayed_little)
{
        struct ts ts = ts_open();
        uint64_t busy, alone = lasted(&ts, submit(&ts, "some", ts.left, 66, 0)), beside;

        about(alone, 100 * US, "alone");
        busy = submit(&ts, "more", ts.right, 66 * 10, 0);
        pass(&ts, 20 * US);
        beside = lasted(&ts, submit(&ts, "some", ts.left, 66, 0));
        cr_assert(beside > alone + 200 && beside < alone * 110 / 100, "%llu", (unsigned long long)beside);
        dt_wait(ts.t, busy);
        dt_close(ts.t);
}

/* --- channels --- */

Test(sim_share, few_channels_are_soon_full)
{
        struct ts ts = ts_open();
        uint64_t alone, beside, ten = lasted(&ts, submit(&ts, "few", ts.left, 66, 0)), be;

        /* `few` demands 1,742 GB/s on 10 channels, which have 745 GB/s together */
        about(ten, 100 * US * 1742 / 745, "ten channels");
        /* requests of other kernels wait behind the backlog of these ten channels, although they use none of them */
        alone = lasted(&ts, submit(&ts, "other", ts.left, 66, 0));
        be = submit(&ts, "few", ts.right, 132 * 8, 0);
        pass(&ts, 20 * US);
        beside = lasted(&ts, submit(&ts, "other", ts.left, 66, 0));
        cr_assert(beside > alone * 105 / 100, "the backlog is felt: %llu, alone %llu", (unsigned long long)beside,
                (unsigned long long)alone);
        dt_wait(ts.t, be);
        /* fewer blocks of `few` at once cause no backlog */
        be = submit(&ts, "few", ts.right, 33 * 8, 16);
        pass(&ts, 20 * US);
        beside = lasted(&ts, submit(&ts, "other", ts.left, 66, 0));
        about(beside, alone, "beside few blocks");
        dt_wait(ts.t, be);
        dt_close(ts.t);
}

/* --- L2 --- */

/* 26 MB that a kernel reads again are still in L2, unless others have read more in between than fits into L2. */
Test(sim_share, data_stays_in_l2_for_a_while)
{
        struct ts ts = ts_open();
        uint64_t cold, warm, again;

        cold = lasted(&ts, submit(&ts, "reuse", ts.left, 66, 0));
        submit(&ts, "more", ts.right, 66, 0);
        pass(&ts, 30 * US);
        again = lasted(&ts, submit(&ts, "reuse", ts.left, 66, 0));
        cr_assert(again > cold * 11 / 10, "%llu beside another, %llu alone", (unsigned long long)again,
                (unsigned long long)cold);
        dt_wait_all(ts.t);
        for (int i = 0; i < 2; i++)
                lasted(&ts, submit(&ts, "reuse", ts.left, 66, 0));
        submit(&ts, "half", ts.right, 66, 0);
        pass(&ts, 30 * US);
        warm = lasted(&ts, submit(&ts, "reuse", ts.left, 66, 0));
        about(warm, 10 * US, "all of it there: VRAM does not matter");
        dt_wait_all(ts.t);
        /* 174 MB of other kernels went through L2 meanwhile: the data comes from VRAM again, whose bandwidth is
         * shared */
        submit(&ts, "half", ts.right, 66 * 2, 66);
        pass(&ts, 130 * US);
        again = lasted(&ts, submit(&ts, "reuse", ts.left, 66, 0));
        cr_assert(again > warm * 11 / 10, "%llu after others, %llu before", (unsigned long long)again,
                (unsigned long long)warm);
        dt_close(ts.t);
}

/* --- blocks that are held back --- */

static uint32_t bound(struct ts *ts, uint64_t token, uint32_t blocks)
{
        return (uint32_t)ds_sim_ops.bound(ts->t->device, token, blocks);
}

Test(sim_share, a_kernel_pauses_and_continues)
{
        const uint64_t late = sim_model_find("h200", 4)->timing.bound_ns;
        struct ts ts = ts_open();
        uint64_t be = submit(&ts, "spin", ts.all, 264 * 100, 0), ls, begin;

        /* BE has 100 waves of 20 us; the clock stands in the middle of the 6th */
        pass(&ts, 4000 + 1150 + 110 * US);
        cr_assert_eq(bound(&ts, be, 0), 0);
        begin = ds_sim_ops.now(ts.t->device);
        pass(&ts, 11 * US);
        ls = submit(&ts, "busy", ds_device_stream(ts.t->rung, 1, 3), 132, 0);
        about(lasted(&ts, ls), 20 * US, "of the same priority, and has the SMs at once");
        pass(&ts, MS);
        cr_assert_eq(ts.t->came[be], 0, "paused");
        begin = ds_sim_ops.now(ts.t->device) - begin;
        cr_assert_eq(bound(&ts, be, UINT32_MAX), 0);
        /* 94 BE waves are left when the command to continue arrives; the pause began at the end of the 6th wave */
        about(lasted(&ts, be), 100 * 20 * US + begin - 10 * US + late, "all its blocks have run");
        cr_assert_eq(bound(&ts, be, 5), DS_CUDA_NOT_FOUND);
        dt_close(ts.t);
}

Test(sim_share, a_bound_changes_in_flight)
{
        struct ts ts = ts_open();
        uint64_t token = submit(&ts, "spin", ts.all, 264 * 10, 0), queued = submit(&ts, "spin", ts.all, 20, 0), late;

        cr_assert_eq(bound(&ts, queued, 10), 0, "also before it begins");
        pass(&ts, 4000 + 1150 + 90 * US);
        cr_assert_eq(bound(&ts, token, 7), 0);
        cr_assert_eq(bound(&ts, token, 132), 0, "the last counts");
        about(lasted(&ts, token), (5 + 10) * 20 * US, "5 waves of 264, 10 of 132");
        about(lasted(&ts, queued), 40 * US, "two waves of 10");
        token = submit(&ts, "spin", ts.all, 264 * 10, 1);
        pass(&ts, 4000 + 1150 + 10 * US);
        cr_assert_eq(bound(&ts, token, 264), 0);
        late = lasted(&ts, token);
        /* after the bound is raised the first block continues beside the others, so the last wave has one block */
        cr_assert(late > 200 * US && late < 225 * US, "a raised bound is used at once: %llu", (unsigned long long)late);
        dt_close(ts.t);
}

Test(sim_share, a_paused_kernel_can_be_cancelled)
{
        struct ts ts = ts_open();
        uint64_t token = submit(&ts, "spin", ts.all, 264 * 10, 0);

        pass(&ts, 50 * US);
        cr_assert_eq(bound(&ts, token, 0), 0);
        pass(&ts, 50 * US);
        cr_assert_eq(ds_sim_ops.advance(ts.t->device, UINT64_MAX), -ETIME, "nothing can happen");
        ds_sim_ops.abort(ts.t->device, DT_SPACE);
        dt_expect_fault(ts.t, token, DS_CUDA_LAUNCH_FAILED, "aborted before its end");
        token = submit(&ts, "spin", ts.all, 264, 0);
        cr_assert_eq(bound(&ts, token, 0), 0, "on its way when the kernel begins");
        ds_sim_ops.abort(ts.t->device, DT_SPACE);
        dt_expect_fault(ts.t, token, DS_CUDA_LAUNCH_FAILED, "aborted before its end");
        about(lasted(&ts, submit(&ts, "busy", ts.all, 132, 0)), 20 * US, "the SMs are free");
        dt_close(ts.t);
}

/* --- copies on the device --- */

/* 34 MB at 1,700 GB/s: 20 us at the whole VRAM bandwidth. */
static uint64_t move(struct ts *ts, uint32_t stream)
{
        return dt_copy(ts->t, stream, DS_COPY_DTOD, DT_DEVICE_VA, DT_DEVICE_VA + DS_MIB(33), DS_MIB(31));
}

Test(sim_share, copies_on_the_device_share_vram)
{
        const uint64_t alone = 1200 + DS_MIB(31) * 10 / 17000;
        struct ts ts = ts_open();
        uint64_t first, second, kernel, took;

        first = move(&ts, ts.left);
        second = move(&ts, ts.right);
        dt_wait_all(ts.t);
        about(ts.t->seen[first].end_ns - ts.t->seen[first].start_ns, alone, "a copy");
        about(ts.t->seen[second].end_ns - ts.t->seen[second].start_ns, alone, "the next");
        cr_assert_geq(ts.t->seen[second].start_ns, ts.t->seen[first].end_ns, "one at a time");
        kernel = submit(&ts, "more", ts.left, 66, 0);
        pass(&ts, 50 * US);
        first = move(&ts, ts.right);
        took = lasted(&ts, kernel);
        dt_wait(ts.t, first);
        cr_assert(took > 100 * US * 15 / 10 + 10 * US, "a kernel beside it: %llu", (unsigned long long)took);
        took = ts.t->seen[first].end_ns - ts.t->seen[first].start_ns;
        cr_assert(took > alone * 2, "the copy beside it: %llu", (unsigned long long)took);
        /* cancelled copies, running and queued, leave nothing behind */
        first = move(&ts, ts.left);
        second = move(&ts, ts.right);
        pass(&ts, 10 * US);
        ds_sim_ops.abort(ts.t->device, DT_SPACE);
        dt_expect_fault(ts.t, first, DS_CUDA_LAUNCH_FAILED, "aborted before its end");
        dt_expect_fault(ts.t, second, DS_CUDA_LAUNCH_FAILED, "aborted before its end");
        first = move(&ts, ts.left);
        dt_wait_all(ts.t);
        about(ts.t->seen[first].end_ns - ts.t->seen[first].start_ns, alone, "afterwards");
        dt_close(ts.t);
}

/* --- balance of the books --------- */

static uint64_t next_random(uint64_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

/* Asserts that nothing runs: no demand is left, and all speeds are as at the start. */
static void expect_idle(const ds_device *device)
{
        const struct sim_memory *m = &device->memory;

        cr_assert_eq(device->resident, 0);
        cr_assert(!device->copying && !device->copies.head && !device->sm[SIM_SM_APART].head);
        cr_assert_eq(m->total_rate + m->stall_rate + m->rate + m->vram_rate + m->n_uneven, 0);
        for (uint32_t c = 0; c < SIM_CHANNELS_MAX; c++)
                cr_assert_eq(m->channel_rate[c] + m->channel_vram[c], 0);
        for (uint32_t i = 0; i < device->n_sms; i++) {
                cr_assert_eq(device->sm[i].load + device->sm[i].port + device->sm[i].resident, 0);
                cr_assert_null(device->sm[i].head);
        }
        for (uint32_t i = 0; i < device->n_rungs; i++)
                cr_assert_eq(device->rungs[i]->resident, 0);
}

/* Runs a few hundred launches that disturb each other in every way. Returns the sum of their ends, ns. */
static uint64_t random_run(uint64_t seed)
{
        static const char *const names[] = {"spin", "busy", "half", "more", "some", "few", "other", "reuse"};
        struct ts ts = ts_open();
        const uint32_t streams[] = {ts.left, ts.right, ts.all, ts.left + 1, ts.right + 1, ts.all + 1};
        uint64_t state = seed, sum = 0, token = 0;

        for (int i = 0; i < 300; i++) {
                token = submit(&ts, names[next_random(&state) % DS_ARRAY_SIZE(names)],
                        streams[next_random(&state) % DS_ARRAY_SIZE(streams)],
                        1 + (uint32_t)(next_random(&state) % 600), (uint32_t)(next_random(&state) % 4) * 50);
                if (next_random(&state) % 4 == 0)
                        bound(&ts, 1 + next_random(&state) % token, 1 + (uint32_t)(next_random(&state) % 200));
                if (next_random(&state) % 8 == 0)
                        token = move(&ts, streams[next_random(&state) % DS_ARRAY_SIZE(streams)]);
                if (next_random(&state) % 50 == 0)
                        ds_sim_ops.abort(ts.t->device, DT_SPACE);
                pass(&ts, next_random(&state) % (100 * US));
        }
        dt_wait_all(ts.t);
        pass(&ts, US);
        expect_idle(ts.t->device);
        for (uint64_t i = 1; i <= token; i++)
                sum = sum * 31 + ts.t->seen[i].end_ns;
        dt_close(ts.t);
        return sum;
}

Test(sim_share, the_books_balance, .timeout = 120)
{
        for (uint64_t seed = 1; seed <= rounds_of(3); seed++)
                cr_assert_eq(
                        random_run(seed * 0x9e3779b97f4a7c15), random_run(seed * 0x9e3779b97f4a7c15), "the same twice");
}

/* --- executed kernels: the same times, whichever thread was faster --- */

/* Each thread adds 32 words, 8 KiB apart, and stores the sum. */
#define SUM_PTX                                                                                                      \
        DT_PTX_HEADER ".visible .entry sum(.param .u64 a)\n{\n .reg .pred %p<2>;\n .reg .b32 %r<8>;\n"               \
                      " .reg .b64 %d<4>;\n ld.param.u64 %d0, [a];\n mov.u32 %r0, %tid.x;\n mov.u32 %r1, %ctaid.x;\n" \
                      " mad.lo.u32 %r0, %r1, 256, %r0;\n mul.wide.u32 %d1, %r0, 4;\n add.s64 %d1, %d0, %d1;\n"       \
                      " mov.u64 %d2, %d1;\n mov.u32 %r2, 0;\n mov.u32 %r3, 0;\n"                                     \
                      "loop:\n ld.global.u32 %r4, [%d2];\n add.u32 %r3, %r3, %r4;\n add.s64 %d2, %d2, 8192;\n"       \
                      " add.u32 %r2, %r2, 1;\n setp.lt.u32 %p1, %r2, 32;\n @%p1 bra loop;\n"                         \
                      " st.global.u32 [%d1], %r3;\n ret;\n}\n"

static uint64_t executed_run(int slow)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module = dt_load(t, SUM_PTX);
        uint64_t at, sum = 0, tokens = 0;
        struct ds_launch l;

        for (uint32_t i = 0; i < 24; i++) {
                at = DT_DEVICE_VA + DS_MIB(2) * (i % 5);
                l = dt_launch_of(t, module, "sum", 4 + i * 37 % 300, 256);
                l.stream = ds_device_stream(t->rung, 1, i % 3);
                l.params = &at;
                l.params_size = sizeof(at);
                tokens = dt_launch(t, &l);
                if (slow && i % 4 == 0)
                        usleep(2000);
        }
        dt_wait_all(t);
        for (uint64_t i = 1; i <= tokens; i++) {
                cr_assert_eq(t->seen[i].status, 0, "%s", t->seen[i].message);
                sum = sum * 31 + t->seen[i].end_ns;
        }
        expect_idle(t->device);
        cr_assert_gt(t->device->l2.filled, 0, "VRAM was read");
        dt_close(t);
        return sum;
}

Test(sim_share, executed_kernels_have_the_same_times)
{
        uint64_t first = executed_run(0);

        for (int i = 0; i < 4; i++)
                cr_assert_eq(executed_run(i % 2), first);
}
