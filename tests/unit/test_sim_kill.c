/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated GPU with kernels that are killed and launched again
 *
 * A killed kernel ends and its SMs go to others. Memory afterwards is as without the kill, even if following kernels
 * were executed before. Nothing is left behind.
 */
#include "tests/gpu/device_common.h"

#include <time.h>

#include "device/sim/internal.h"
#include "device/sim/sim.h"

#define A DT_DEVICE_VA
#define B (DT_DEVICE_VA + DS_MIB(1))
#define WORDS 64u
#define LOOPS 2000u

/* kernel map: to[i] = from[i] * 3 + 1, after a delay */
#define PTX                                                                                              \
        DT_PTX_HEADER DT_PTX_NULL DT_PTX_SPIN                                                            \
                ".visible .entry map(.param .u64 from, .param .u64 to, .param .u32 n)\n"                 \
                "{\n .reg .pred %p1; .reg .b32 %r<6>; .reg .b64 %rd<6>;\n"                               \
                " ld.param.u64 %rd1, [from];\n ld.param.u64 %rd2, [to];\n ld.param.u32 %r1, [n];\n"      \
                " mov.u32 %r2, %tid.x;\n mul.wide.u32 %rd3, %r2, 4;\n add.u64 %rd1, %rd1, %rd3;\n"       \
                " add.u64 %rd2, %rd2, %rd3;\n ld.global.u32 %r3, [%rd1];\n mad.lo.u32 %r4, %r3, 3, 1;\n" \
                " st.global.u32 [%rd2], %r4;\n mov.u32 %r5, 0;\nAGAIN:\n add.u32 %r5, %r5, 1;\n"         \
                " setp.lt.u32 %p1, %r5, %r1;\n @%p1 bra AGAIN;\n ret;\n}\n"

struct map_params {
        uint64_t from, to;
        uint32_t n;
};

struct rig {
        struct dt *t;
        ds_device_module *module;
};

static struct rig rig_open(const char *spec)
{
        struct rig rig = {.t = dt_open(&ds_sim_ops, spec)};

        rig.module = dt_load(rig.t, PTX);
        for (uint32_t i = 0; i < WORDS; i++) {
                ((uint32_t *)A)[i] = i;
                ((uint32_t *)B)[i] = 0;
        }
        return rig;
}

/* A launch that sets to[i] = from[i] * 3 + 1; replays: the token of the killed launch that it repeats; 0: none */
static uint64_t map(struct rig *rig, uint64_t from, uint64_t to, uint32_t n, uint64_t replays)
{
        struct ds_launch l = dt_launch_of(rig->t, rig->module, "map", 1, WORDS);
        struct map_params params = {from, to, n};

        l.params = &params;
        l.params_size = 20;
        l.replays = replays ? replays + 1 : 0;
        return dt_launch(rig->t, &l);
}

/* Waits until the threads have executed everything possible; the clock stands meanwhile. */
static void execute_ahead(struct rig *rig)
{
        struct sim_pool *pool = &rig->t->device->pool;
        bool busy = true;

        for (int i = 0; busy && i < 60000; i++) {
                cr_assert_eq(dt_poll(rig->t), 0);
                usleep(1000);
                pthread_mutex_lock(&pool->lock);
                busy = pool->needed.head || pool->queue.head || pool->running || pool->done;
                pthread_mutex_unlock(&pool->lock);
        }
        cr_assert(!busy);
}

static void clock_to(struct rig *rig, uint64_t ns)
{
        struct pollfd p = {.fd = ds_sim_ops.event_fd(rig->t->device), .events = POLLIN};
        int r;

        while ((r = ds_sim_ops.advance(rig->t->device, ns)) != -ETIME) {
                if (r == -EAGAIN)
                        cr_assert(poll(&p, 1, 60000) > 0);
                else
                        dt_poll(rig->t);
        }
        cr_assert_eq(ds_sim_ops.now(rig->t->device), ns);
}

static void kill_of(struct rig *rig, uint64_t token)
{
        cr_assert_eq(ds_sim_ops.kill(rig->t->device, token), 0);
}

static void expect_killed(struct rig *rig, uint64_t token, uint64_t end_ns)
{
        const struct ds_completion *c = dt_wait(rig->t, token);

        cr_assert_eq(c->status, DS_DEVICE_KILLED, "status %d: %s", c->status, c->message);
        cr_assert_eq(c->end_ns, end_ns);
}

static void expect_memory(void)
{
        for (uint32_t i = 0; i < WORDS; i++) {
                cr_assert_eq(((uint32_t *)B)[i], 3 * i + 1, "B[%u] is %u", i, ((uint32_t *)B)[i]);
                cr_assert_eq(((uint32_t *)A)[i], 9 * i + 4, "A[%u] is %u", i, ((uint32_t *)A)[i]);
        }
}

static uint64_t alone_ns(uint32_t n)
{
        struct rig rig = rig_open("h200");
        const struct ds_completion *c = dt_wait(rig.t, map(&rig, A, B, n, 0));
        uint64_t ns = c->end_ns - c->start_ns;

        dt_close(rig.t);
        return ns;
}

/*
 * Kernel one copies A to B, kernel two B to A. On the clock the first is half done when both are killed. Both may have
 * been executed already; then the first one, executed again, must not read the second one's output.
 */
static void killed_half_way(int ahead, int times)
{
        uint64_t alone = alone_ns(LOOPS), first, second, now = 0;
        struct rig rig = rig_open("h200");

        first = map(&rig, A, B, LOOPS, 0);
        second = map(&rig, B, A, LOOPS, 0);
        for (int i = 0; i < times; i++) {
                if (ahead)
                        execute_ahead(&rig);
                now += rig.t->device->model->timing.launch_ns + rig.t->device->model->timing.kernel_ns + alone / 2;
                clock_to(&rig, now);
                kill_of(&rig, first);
                kill_of(&rig, second);
                expect_killed(&rig, first, now);
                expect_killed(&rig, second, now);
                now = ds_sim_ops.now(rig.t->device);
                first = map(&rig, A, B, LOOPS, first);
                second = map(&rig, B, A, LOOPS, second);
        }
        dt_ok(rig.t, first);
        cr_assert_eq(rig.t->seen[first].end_ns - rig.t->seen[first].start_ns, alone, "it has run from its beginning");
        dt_ok(rig.t, second);
        expect_memory();
        cr_assert_null(rig.t->device->spaces[0]->kept);
        dt_close(rig.t);
}

Test(sim_kill, executed_kernels_are_not_executed_again, .timeout = 60)
{
        killed_half_way(1, 1);
}

Test(sim_kill, again_and_again, .timeout = 60)
{
        killed_half_way(1, 5);
        killed_half_way(0, 5);
}

/* The first of two kernels ends, the second one is killed. */
Test(sim_kill, one_of_two, .timeout = 60)
{
        uint64_t ns = alone_ns(LOOPS), first, second;
        struct rig rig = rig_open("h200");

        first = map(&rig, A, B, LOOPS, 0);
        second = map(&rig, B, A, LOOPS, 0);
        dt_ok(rig.t, first);
        clock_to(&rig, ds_sim_ops.now(rig.t->device) + ns / 2);
        cr_assert_eq(ds_sim_ops.kill(rig.t->device, first), DS_CUDA_NOT_FOUND, "it has ended");
        cr_assert_eq(ds_sim_ops.kill(rig.t->device, 4000), DS_CUDA_NOT_FOUND);
        kill_of(&rig, second);
        kill_of(&rig, second);
        dt_wait(rig.t, second);
        dt_ok(rig.t, map(&rig, B, A, LOOPS, second));
        expect_memory();
        dt_close(rig.t);
}

/* A kernel behind an endless one is killed before it began on the clock and before it was executed. */
Test(sim_kill, one_that_waits_never_begins, .timeout = 60)
{
        struct rig rig = rig_open("h200");
        struct ds_launch spins = dt_launch_of(rig.t, rig.module, "spins", 1, 32);
        uint64_t endless = dt_launch(rig.t, &spins), waits = map(&rig, A, B, LOOPS, 0), after;

        after = map(&rig, A, B, LOOPS, 0);
        kill_of(&rig, waits);
        kill_of(&rig, endless);
        expect_killed(&rig, endless, 0);
        expect_killed(&rig, waits, 0);
        dt_ok(rig.t, after);
        dt_ok(rig.t, map(&rig, B, A, LOOPS, waits));
        expect_memory();
        dt_close(rig.t);
}

/* Other kernels get the SMs of a killed kernel at once. */
Test(sim_kill, its_place_is_free, .timeout = 60)
{
        static const char *const specs[] = {"h200", "h200+timing"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(specs); i++) {
                struct rig rig = rig_open(specs[i]);
                struct ds_launch l = dt_launch_of(rig.t, rig.module, "map", 132, WORDS);
                struct map_params params = {A, B, 100000};
                uint64_t large, small;

                l.params = &params;
                l.params_size = 20;
                l.shared_bytes = 200000;
                large = dt_launch(rig.t, &l);
                params.n = 1;
                l.stream = ds_device_stream(rig.t->rung, 1, 1);
                l.grid[0] = 1;
                small = dt_launch(rig.t, &l);
                clock_to(&rig, 5200);
                kill_of(&rig, large);
                expect_killed(&rig, large, 5200);
                dt_ok(rig.t, small);
                cr_assert_lt(rig.t->seen[small].start_ns, 5200 + 2000);
                dt_close(rig.t);
        }
}

/* The session ends with a kept kernel that is never launched again, and with a kill that is not reported yet. */
Test(sim_kill, nothing_is_left, .timeout = 60)
{
        struct rig rig = rig_open("h200");
        struct sim_space *space = rig.t->device->spaces[0];
        uint64_t first = map(&rig, A, B, LOOPS, 0), second;

        execute_ahead(&rig);
        kill_of(&rig, first);
        dt_wait(rig.t, first);
        cr_assert_not_null(space->kept);
        ds_sim_ops.abort(rig.t->device, DT_SPACE);
        cr_assert_null(space->kept);
        second = map(&rig, A, B, LOOPS, first);
        dt_ok(rig.t, second);
        second = map(&rig, B, A, LOOPS, 0);
        execute_ahead(&rig);
        kill_of(&rig, second);
        cr_assert_eq(dt_poll(rig.t), 0, "the clock stands");
        ds_sim_ops.abort(rig.t->device, DT_SPACE);
        dt_wait(rig.t, second);
        first = map(&rig, A, B, LOOPS, 0);
        execute_ahead(&rig);
        kill_of(&rig, first);
        dt_wait(rig.t, first);
        dt_close(rig.t);
}
