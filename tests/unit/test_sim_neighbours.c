/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real time that large copies and long printf loops of one session cost another session
 *
 * The host needs 100 times as long for a copy's effect as the copy takes on the clock, or more. A neighbour's short
 * kernel must complete after a part of the copy has been executed. No time on the clock may depend on which thread was
 * faster: the test repeats the work with everything executed before the clock moves.
 */
#include "tests/gpu/device_common.h"

#include "device/sim/internal.h"
#include "device/sim/sim.h"

#define LARGE_VA UINT64_C(0x320000000000)
#define LARGE DS_MIB(512)
#define NEIGHBOUR (DT_SPACE + 1)
#define KERNELS 4u

struct run {
        uint64_t start[2 * KERNELS + 4], end[2 * KERNELS + 4];
        uint32_t n;
        bool early; /* true: a kernel of the neighbour completed before the first copy was executed */
};

static void wait_executed(ds_device *device)
{
        struct sim_pool *pool = &device->pool;

        for (bool busy = true; busy; usleep(1000)) {
                (void)ds_sim_ops.poll(device, NULL, 0);
                pthread_mutex_lock(&pool->lock);
                busy = pool->needed.head || pool->queue.head || pool->running || pool->done;
                pthread_mutex_unlock(&pool->lock);
        }
}

/* Runs copies, memsets and kernels of one session beside kernels of another. */
static struct run run_beside(bool executed_first)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module;
        struct ds_launch l;
        struct ds_memset m = {.dst = LARGE_VA, .value = 3, .element_size = 4, .width = LARGE / 8, .height = 1};
        struct ds_copy c = {
                .dst = LARGE_VA + LARGE / 2, .src = LARGE_VA, .width = LARGE / 2, .height = 1, .kind = DS_COPY_DTOD};
        struct run run = {};
        const struct sim_job *head;
        uint64_t own[3];
        int fd;

        cr_assert_eq(ds_sim_ops.mem_create(t->device, LARGE, &fd), 0);
        cr_assert_eq(ds_sim_ops.mem_map(t->device, DT_SPACE, fd, LARGE_VA, LARGE), 0);
        cr_assert_eq(ds_sim_ops.space_add(t->device, NEIGHBOUR), 0);
        module = dt_load_in(t, NEIGHBOUR, DT_PTX);
        own[0] = dt_token(t);
        own[1] = dt_token(t);
        own[2] = dt_token(t);
        m.stream = c.stream = ds_device_stream(t->rung, 1, 1);
        m.space = c.space = DT_SPACE;
        cr_assert_eq(ds_sim_ops.memset(t->device, &m, own[0]), 0);
        cr_assert_eq(ds_sim_ops.copy(t->device, &c, own[1]), 0);
        m.dst = LARGE_VA + LARGE / 2;
        m.stream = ds_device_stream(t->rung, 1, 2);
        cr_assert_eq(ds_sim_ops.memset(t->device, &m, own[2]), 0);
        l = dt_launch_of(t, module, "null", 1, 32);
        l.space = NEIGHBOUR;
        for (uint32_t i = 0; i < KERNELS; i++) {
                uint64_t token = dt_launch(t, &l);

                if (executed_first)
                        wait_executed(t->device);
                dt_ok(t, token);
                head = sim_stream_find(t->device, c.stream)->head;
                run.early |= head && head->token == own[0] && head->effect != SIM_EFFECT_DONE;
        }
        dt_wait_all(t);
        for (uint64_t token = 1; token < t->next_token; token++) {
                cr_assert_eq(t->seen[token].status, 0);
                run.start[run.n] = t->seen[token].start_ns;
                run.end[run.n++] = t->seen[token].end_ns;
        }
        for (uint64_t i = 0; i < LARGE / 4; i += LARGE / 64 / 4)
                cr_assert_eq(((uint32_t *)LARGE_VA)[i], 3);
        dt_close(t);
        close(fd);
        return run;
}

Test(sim_neighbours, copies, .timeout = 300)
{
        struct run now, before = run_beside(true);
        bool early = false;

        cr_assert(!before.early);
        /* on a busy machine the copying thread may be faster than the neighbour, but not three times */
        for (int i = 0; i < 3; i++) {
                now = run_beside(false);
                early |= now.early;
                cr_expect_eq(now.n, before.n);
                cr_expect_arr_eq(now.start, before.start, sizeof(now.start));
                cr_expect_arr_eq(now.end, before.end, sizeof(now.end));
        }
        cr_expect(early, "kernels wait until the neighbour's copies have been executed");
}

static const char prints[] =
        ".version 7.0\n.target sm_60\n.address_size 64\n"
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
        ".visible .global .align 1 .b8 format[4] = {120,120,10,0};\n"
        ".visible .entry prints(.param .u32 n)\n{\n .reg .b64 %f, %a; .reg .b32 %n; .reg .pred %p;\n"
        " ld.param.u32 %n, [n]; mov.u64 %f, format; cvta.global.u64 %f, %f; mov.u64 %a, 0;\n"
        "L:\n { .param .b64 f; .param .b64 a; .param .b32 r; st.param.b64 [f], %f; st.param.b64 [a], %a;\n"
        "  call (r), vprintf, (f, a); }\n"
        " sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0;\n @%p bra L;\n ret;\n}\n";

/* Executed units bound how long others wait for a job: formatting text counts more units than the instructions
 * around it. */
Test(sim_neighbours, text_counts, .timeout = 300)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        struct ds_launch l = dt_launch_of(t, dt_load(t, prints), "prints", 1, 32);
        const uint32_t n = 1000;
        const struct sim_job *job;
        uint64_t token;

        l.params = &n;
        l.params_size = sizeof(n);
        token = dt_launch(t, &l);
        wait_executed(t->device);
        job = sim_stream_find(t->device, l.stream)->head;
        cr_assert(job && job->token == token);
        cr_expect_geq(job->executed, UINT64_C(32) * n * SIM_PRINT_UNITS);
        cr_expect_leq(job->executed, UINT64_C(64) * n * SIM_PRINT_UNITS);
        dt_ok(t, token);
        dt_close(t);
}

/* Aborts a session whose copies are in progress on the clock. */
Test(sim_neighbours, copies_are_aborted, .timeout = 300)
{
        for (uint64_t pause = 0; pause < 40; pause += 4) {
                struct dt *t = dt_open(&ds_sim_ops, "h200");
                struct ds_memset m = {.dst = LARGE_VA, .value = 3, .element_size = 1, .width = LARGE, .height = 1};
                int fd;

                cr_assert_eq(ds_sim_ops.mem_create(t->device, LARGE, &fd), 0);
                cr_assert_eq(ds_sim_ops.mem_map(t->device, DT_SPACE, fd, LARGE_VA, LARGE), 0);
                m.space = DT_SPACE;
                for (uint32_t i = 0; i < 4; i++) {
                        m.stream = ds_device_stream(t->rung, 1, i);
                        cr_assert_eq(ds_sim_ops.memset(t->device, &m, dt_token(t)), 0);
                }
                for (uint64_t i = 0; i < pause; i++) {
                        (void)ds_sim_ops.advance(t->device, UINT64_MAX);
                        usleep(500);
                }
                ds_sim_ops.abort(t->device, DT_SPACE);
                dt_wait_all(t);
                cr_assert_eq(ds_sim_ops.mem_unmap(t->device, DT_SPACE, LARGE_VA, LARGE), 0);
                dt_close(t);
                close(fd);
        }
}
