/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated GPU with work that takes long to execute
 *
 * One session's endless kernel must not stop the clock for another session. A job beyond the device's patience begins
 * later by its excess and by nothing else. The test compares exactly with the times of the same work without the long
 * job, with a fast and with a slow host.
 */
#include "tests/gpu/device_common.h"

#include <time.h>

#include "device/sim/internal.h"
#include "device/sim/sim.h"

#define OTHER 8 /* space of the second session */
#define CHAIN 40
#define MS DS_NS_PER_MS

/* loop(n) executes 3 n + 4 instructions of one warp; with the block's own cost this many units */
#define LOOP_UNITS(n) (3 * (uint64_t)(n) + 4 + SIM_BUDGET_BLOCK)
#define PTX                                                                                                 \
        DT_PTX_HEADER DT_PTX_NULL DT_PTX_SPIN                                                               \
                ".visible .entry loop(.param .u32 n)\n"                                                     \
                "{\n .reg .pred %p1; .reg .b32 %r<3>;\n ld.param.u32 %r1, [n];\n mov.u32 %r2, 0;\n"         \
                "AGAIN:\n add.u32 %r2, %r2, 1;\n setp.lt.u32 %p1, %r2, %r1;\n @%p1 bra AGAIN;\n bra OUT;\n" \
                "OUT:\n ret;\n}\n"
#define LONG_N 5900000u
#define EXCESS (LOOP_UNITS(LONG_N) - SIM_PATIENCE)

struct tl {
        struct dt *t;
        ds_device_module *mine, *theirs;
};

static struct tl tl_open(void)
{
        struct tl tl = {.t = dt_open(&ds_sim_ops, "h200")};
        char log[512] = "";

        cr_assert_eq(ds_sim_ops.space_add(tl.t->device, OTHER), 0);
        tl.mine = dt_load(tl.t, PTX);
        cr_assert_eq(ds_sim_ops.module_load(tl.t->device, OTHER, PTX, sizeof(PTX), log, sizeof(log), &tl.theirs), 0,
                "%s", log);
        return tl;
}

static uint64_t launch(struct tl *tl, uint32_t space, uint32_t stream, const char *name, uint32_t n)
{
        struct ds_launch l = dt_launch_of(tl->t, space == DT_SPACE ? tl->mine : tl->theirs, name, 1, 32);

        l.space = space;
        l.stream = stream;
        l.params = &n;
        l.params_size = sizeof(n);
        return dt_launch(tl->t, &l);
}

static uint64_t wall_ms(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Waits until the device has executed everything possible; the virtual clock has not moved. */
static void host_is_fast(struct tl *tl)
{
        struct sim_pool *pool = &tl->t->device->pool;
        uint64_t end = wall_ms() + 120000;
        bool busy = true;

        while (busy && wall_ms() < end) {
                cr_assert_eq(dt_poll(tl->t), 0);
                usleep(1000);
                pthread_mutex_lock(&pool->lock);
                busy = pool->needed.head || pool->queue.head || pool->running || pool->done;
                pthread_mutex_unlock(&pool->lock);
        }
        cr_assert(!busy);
}

/* A chain of the other session: each kernel is launched after the completion of the previous one was seen. */
static void chain(struct tl *tl, uint64_t *first)
{
        *first = tl->t->next_token;
        for (int i = 0; i < CHAIN; i++)
                dt_ok(tl->t, launch(tl, OTHER, 15, "null", 0));
}

static void expect_same(const struct ds_completion *a, const struct ds_completion *b, const char *what)
{
        cr_assert_eq(a->start_ns, b->start_ns, "%s: starts %llu, %llu", what, (unsigned long long)a->start_ns,
                (unsigned long long)b->start_ns);
        cr_assert_eq(a->end_ns, b->end_ns, "%s: ends %llu, %llu", what, (unsigned long long)a->end_ns,
                (unsigned long long)b->end_ns);
        cr_assert_eq(a->status, b->status);
}

/* One device after the other, because both have the same addresses. */
static struct ds_completion seen_alone(uint32_t n)
{
        struct tl tl = tl_open();
        uint64_t token = launch(&tl, DT_SPACE, 0, "loop", n);
        struct ds_completion c;

        dt_ok(tl.t, token);
        c = tl.t->seen[token];
        dt_close(tl.t);
        return c;
}

Test(sim_long, one_that_is_alone_begins_in_time, .timeout = 300)
{
        cr_assert_eq(seen_alone(LONG_N).start_ns, seen_alone(1).start_ns);
}

/* Runs the chain beside a kernel of the first session; *ret is that kernel's completion. */
static void chain_beside(uint32_t n, int fast, struct ds_completion *seen, struct ds_completion *ret)
{
        struct tl tl = tl_open();
        uint64_t token = launch(&tl, DT_SPACE, 0, "loop", n), first;

        if (fast)
                host_is_fast(&tl);
        chain(&tl, &first);
        if (n == LONG_N)
                cr_assert(!tl.t->came[token]);
        memcpy(seen, &tl.t->seen[first], CHAIN * sizeof(*seen));
        dt_ok(tl.t, token);
        *ret = tl.t->seen[token];
        dt_close(tl.t);
}

Test(sim_long, others_have_the_times_they_have_beside_a_short_one, .timeout = 300)
{
        struct ds_completion want[CHAIN], got[CHAIN], shorter, longer;

        chain_beside(1, 0, want, &shorter);
        /* the kernel is executed while the clock waits for it, or before the clock is read */
        for (int fast = 0; fast < 2; fast++) {
                chain_beside(LONG_N, fast, got, &longer);
                for (int i = 0; i < CHAIN; i++)
                        expect_same(&got[i], &want[i], "the chain");
                cr_assert_eq(longer.start_ns, shorter.start_ns + EXCESS * SIM_PUT_OFF_NS, "%llu, %llu",
                        (unsigned long long)longer.start_ns, (unsigned long long)shorter.start_ns);
        }
}

/* Several sessions and streams with fences, and jobs shorter and longer than the device's patience. Their virtual
 * times are the same twice, whatever the host does. */
static void mixed_work(struct tl *tl)
{
        static const uint32_t sizes[] = {LONG_N, 10, LONG_N + 70000, 1000, 5000000, 5592382, 1};

        for (uint32_t i = 0; i < 10; i++) {
                launch(tl, i % 2 ? OTHER : DT_SPACE, i * 5 % 4, "loop", sizes[i % 7]);
                if (i % 5 == 4)
                        cr_assert_eq(ds_sim_ops.fence(tl->t->device, i % 4, (i + 1) % 4), 0);
        }
}

Test(sim_long, times_do_not_depend_on_the_host, .timeout = 300)
{
        struct ds_completion *first = calloc(DT_TOKENS, sizeof(*first));
        uint32_t late = 0;

        for (int round = 0; round < 3; round++) {
                struct tl tl = tl_open();

                mixed_work(&tl);
                if (round == 1)
                        host_is_fast(&tl);
                dt_wait_all(tl.t);
                for (uint64_t token = 1; token < tl.t->next_token; token++) {
                        if (!round)
                                first[token] = tl.t->seen[token];
                        expect_same(&tl.t->seen[token], &first[token], "mixed work");
                        late += tl.t->seen[token].start_ns > MS / 2;
                }
                dt_close(tl.t);
        }
        cr_assert_gt(late, 0);
        free(first);
}

Test(sim_long, a_deadline_counts_as_a_waiter, .timeout = 300)
{
        struct tl tl = tl_open();
        uint64_t token = launch(&tl, DT_SPACE, 0, "loop", LONG_N), limit = MS / 2;
        struct pollfd p = {.fd = ds_sim_ops.event_fd(tl.t->device), .events = POLLIN};
        int r;

        while ((r = ds_sim_ops.advance(tl.t->device, limit)) == -EAGAIN) {
                cr_assert_leq(ds_sim_ops.now(tl.t->device), limit);
                cr_assert_eq(poll(&p, 1, 120000), 1);
                cr_assert_eq(dt_poll(tl.t), 0);
        }
        cr_assert_eq(r, -ETIME);
        cr_assert_eq(ds_sim_ops.now(tl.t->device), limit);
        dt_ok(tl.t, token);
        cr_assert_gt(tl.t->seen[token].start_ns, EXCESS * SIM_PUT_OFF_NS);
        dt_close(tl.t);
}

Test(sim_long, an_endless_kernel_stops_nobody, .timeout = 300)
{
        struct tl tl = tl_open();
        uint64_t token = launch(&tl, DT_SPACE, 0, "spins", 0), first, begin;

        chain(&tl, &first);
        cr_assert(!tl.t->came[token]);
        begin = wall_ms();
        ds_sim_ops.abort(tl.t->device, DT_SPACE);
        cr_assert_eq(dt_wait(tl.t, token)->status, DS_CUDA_LAUNCH_FAILED);
        cr_assert_lt(wall_ms() - begin, 2000, "%d ms", (int)(wall_ms() - begin));
        /* the device works as before */
        chain(&tl, &first);
        dt_ok(tl.t, launch(&tl, DT_SPACE, 0, "loop", 10));
        dt_close(tl.t);
}

Test(sim_long, a_device_closes_with_one_under_way, .timeout = 300)
{
        for (int after = 0; after < 2; after++) {
                struct tl tl = tl_open();
                uint64_t first;

                launch(&tl, DT_SPACE, 0, "spins", 0);
                launch(&tl, DT_SPACE, 0, "null", 0);
                launch(&tl, DT_SPACE, 3, "loop", LONG_N);
                if (after)
                        chain(&tl, &first);
                dt_close(tl.t);
        }
}

/* A job that was postponed, executed, and only waits for its time on the clock can be cancelled too. */
Test(sim_long, one_that_waits_for_its_time_can_be_given_up, .timeout = 300)
{
        struct tl tl = tl_open();
        uint64_t token = launch(&tl, DT_SPACE, 0, "loop", LONG_N), behind = launch(&tl, DT_SPACE, 0, "null", 0), first;

        host_is_fast(&tl);
        chain(&tl, &first);
        cr_assert(!tl.t->came[token]);
        ds_sim_ops.abort(tl.t->device, DT_SPACE);
        cr_assert_eq(dt_wait(tl.t, token)->status, DS_CUDA_LAUNCH_FAILED);
        cr_assert_eq(dt_wait(tl.t, behind)->status, DS_CUDA_LAUNCH_FAILED);
        cr_assert_lt(ds_sim_ops.now(tl.t->device), EXCESS, "without waiting for that time");
        chain(&tl, &first);
        dt_close(tl.t);
}

#ifdef __SANITIZE_ADDRESS__ /* endless kernels would execute for a minute when sanitized */
#define TOO_LONG 1
#else
#define TOO_LONG 0
#endif

/* More endless kernels than threads: the device cancels one after another until the other session's kernel has a
 * thread. */
Test(sim_long, they_cannot_take_all_the_threads, .timeout = 300, .disabled = TOO_LONG)
{
        struct tl tl = tl_open();
        uint64_t spins[2 * SIM_THREADS], first;
        int given_up = 0;

        for (uint32_t i = 0; i < DS_ARRAY_SIZE(spins); i++)
                spins[i] = launch(&tl, DT_SPACE, i, "spins", 0);
        dt_ok(tl.t, launch(&tl, OTHER, 15, "loop", 100));
        for (uint32_t i = 0; i < DS_ARRAY_SIZE(spins); i++) {
                if (!tl.t->came[spins[i]])
                        continue;
                given_up++;
                cr_assert_eq(tl.t->seen[spins[i]].status, DS_CUDA_LAUNCH_TIMEOUT);
                cr_assert(strstr(tl.t->seen[spins[i]].message, "while other clients waited"), "%s",
                        tl.t->seen[spins[i]].message);
        }
        cr_assert_lt(given_up, 2 * SIM_THREADS);
        chain(&tl, &first);
        ds_sim_ops.abort(tl.t->device, DT_SPACE);
        dt_wait_all(tl.t);
        chain(&tl, &first);
        dt_close(tl.t);
}

/* A copy of very many rows is a job beyond the device's patience too. */
Test(sim_long, copies_of_many_rows, .timeout = 300)
{
        const uint64_t rows = DT_SLAB / 4;
        struct tl tl = tl_open();
        struct ds_copy copy = {.stream = 0,
                .space = DT_SPACE,
                .kind = DS_COPY_DTOD,
                .dst = DT_DEVICE_VA + 2,
                .src = DT_DEVICE_VA,
                .width = 1,
                .height = rows,
                .dst_pitch = 4,
                .src_pitch = 4};
        struct ds_memset set = {.stream = 2,
                .space = DT_SPACE,
                .dst = DT_DEVICE_VA + 1,
                .value = 7,
                .element_size = 1,
                .width = 1,
                .height = 2 * rows - 1,
                .pitch = 2};
        uint64_t a = dt_token(tl.t), b = dt_token(tl.t), first;

        cr_assert_eq(ds_sim_ops.copy(tl.t->device, &copy, a), 0);
        cr_assert_eq(ds_sim_ops.memset(tl.t->device, &set, b), 0);
        chain(&tl, &first);
        dt_ok(tl.t, a);
        dt_ok(tl.t, b);
        cr_assert_lt(tl.t->seen[a].start_ns, MS, "2^24 rows are within the patience");
        cr_assert_gt(tl.t->seen[b].start_ns, (set.height - SIM_PATIENCE) * SIM_PUT_OFF_NS);
        dt_close(tl.t);
}
