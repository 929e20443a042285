/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated GPU with forms of kernels: slices, and workers that stop and continue
 *
 * The bodies also run on a real GPU (tests/gpu/device_forms.h); then follow the model's times.
 */
#define DT_FORM_LOOPS 300u /* fewer than on a GPU, because each loop is interpreted */
#include "tests/gpu/device_forms.h"

#include "device/form.h"
#include "device/sim/internal.h"
#include "device/sim/sim.h"

#define SHARED(body, name)                    \
        Test(sim_forms, name, .timeout = 300) \
        {                                     \
                body(&ds_sim_ops, "h200");    \
        }

SHARED(dt_test_forms_equal, equal)
SHARED(dt_test_forms_refused, refused)
SHARED(dt_test_forms_evict, evict)
SHARED(dt_test_forms_evict_early_and_late, evict_early_and_late)
SHARED(dt_test_forms_many, many)
SHARED(dt_test_forms_session_goes, session_goes)
SHARED(dt_test_forms_made, made)
SHARED(dt_test_forms_without_memory, without_memory)

Test(sim_forms, another_order_of_workers, .timeout = 300)
{
        dt_test_forms_equal(&ds_sim_ops, "h200+order=7");
        dt_test_forms_evict(&ds_sim_ops, "a2000+order=9");
}

/* --- the simulator only ----------- */

/* A BE launch of many more long blocks than fit, and an LS launch of one short kernel with high priority in the
 * middle. */
static void rig(struct dt_forms *f, uint32_t blocks, struct ds_launch *be, struct ds_launch *ls)
{
        static struct dt_form_params params;

        *f = dt_forms_open(&ds_sim_ops, "h200", blocks);
        dt_form_clear(f, 2);
        *be = dt_form_launch(f, DS_PTX_FORM_PERSISTENT, 0);
        params = f->params;
        be->params = &params;
        *ls = dt_form_launch(f, DS_PTX_FORM_NATIVE, 1);
        ls->stream = ds_device_stream(f->rungs[0], 0, 0);
        ls->grid[0] = ls->grid[1] = ls->grid[2] = 1;
        /* shared memory such that an SM holds one block at a time */
        be->shared_bytes = (uint32_t)ds_sim_ops.info(f->t->device)->attributes[97] - 1024;
        ls->shared_bytes = be->shared_bytes;
}

/* LS's delay after its submission, ns; evict: BE gets the stop word at the moment of that submission. */
static uint64_t ls_waits(enum ds_ptx_form form, bool evict, uint64_t *ret_chunk_ns)
{
        uint64_t token, asked, urgent;
        const struct ds_completion *c;
        struct ds_launch be, ls;
        struct dt_forms f;

        rig(&f, 1200, &be, &ls);
        if (form == DS_PTX_FORM_NATIVE) {
                be.kernel = ls.kernel;
                be.form = form;
        }
        token = dt_launch(f.t, &be);
        dt_form_pass(f.t, 10000);
        asked = ds_sim_ops.now(f.t->device);
        urgent = dt_launch(f.t, &ls);
        if (evict)
                cr_assert_eq(ds_sim_ops.evict(f.t->device, token), 0);
        c = dt_wait(f.t, urgent);
        asked = c->start_ns - asked;
        *ret_chunk_ns = c->end_ns - c->start_ns;
        dt_close(f.t);
        return asked;
}

Test(sim_forms, workers_hold_their_places_until_they_let_go, .timeout = 300)
{
        uint64_t chunk, native = ls_waits(DS_PTX_FORM_NATIVE, false, &chunk);
        uint64_t held = ls_waits(DS_PTX_FORM_PERSISTENT, false, &chunk);
        uint64_t evicted = ls_waits(DS_PTX_FORM_PERSISTENT, true, &chunk);
        const struct sim_timing *t = &sim_model_find("h200", 4)->timing;

        printf("LS waits %.1f us beside native blocks, %.1f beside workers, %.1f when they let go; a block is %.1f\n",
                (double)native / 1e3, (double)held / 1e3, (double)evicted / 1e3, (double)chunk / 1e3);
        cr_assert(native < 2 * chunk + t->launch_ns + t->kernel_ns + t->beside_ns);
        cr_assert(held > 4 * chunk, "workers gave their SMs away");
        cr_assert(evicted < 2 * chunk + t->launch_ns + t->kernel_ns + t->beside_ns + t->bound_ns);
}

/* A launch that is stopped and resumed takes as long as an uninterrupted one, plus the launches and partial waves. */
Test(sim_forms, going_on_costs_the_launch, .timeout = 300)
{
        uint32_t done = 0, pieces = 1;
        const struct ds_completion *c;
        uint64_t alone, begin, token;
        struct ds_launch be, ls;
        struct dt_forms f;

        rig(&f, 1200, &be, &ls);
        c = dt_wait(f.t, dt_launch(f.t, &be));
        alone = c->end_ns - c->start_ns;

        dt_form_clear(&f, 2);
        begin = ds_sim_ops.now(f.t->device);
        for (;; pieces++) {
                token = dt_launch(f.t, &be);
                dt_form_pass(f.t, 20000);
                cr_assert_eq(ds_sim_ops.evict(f.t->device, token) && !f.t->came[token], 0);
                if (!dt_form_evicted(&f, token, &done))
                        break;
                be.resumes = token + 1;
        }
        cr_assert(pieces > 2 && ds_sim_ops.now(f.t->device) - begin < alone + pieces * 30000);
        dt_form_right(&f, 0);
        dt_close(f.t);
}

#define PTX_WRONG                                                                                             \
        ".version 7.0\n.target sm_70\n.address_size 64\n"                                                     \
        ".visible .entry wrong__ds_persistent(.param .align 8 .b8 v[40])\n{\n .reg .b32 %r<4>; .reg .b64 "    \
        "%rd<3>;\n ld.param.u64 %rd1, [v];\n ld.param.u32 %r1, [v+32];\n atom.global.add.u32 %r2, [%rd1+4], " \
        "%r1;\n ret;\n}\n"

/* Workers that write a wrong control block cause an error with a message; so do workers that fault. */
Test(sim_forms, a_control_block_left_wrong)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module = dt_load(t, PTX_WRONG);
        struct ds_launch l = dt_launch_of(t, module, "wrong__ds_persistent", 64, 32);
        const struct ds_completion *c;

        l.form = DS_PTX_FORM_PERSISTENT;
        c = dt_wait(t, dt_launch(t, &l));
        cr_assert_eq(c->status, DS_CUDA_LAUNCH_FAILED);
        cr_assert(
                strstr(c->message, "kernel wrong with workers: ") && strstr(c->message, "next=2048"), "%s", c->message);
        dt_close(t);
}

#define PTX_HINTED                                                                                   \
        ".version 7.0\n.target sm_70\n.address_size 64\n// detshare-sim: k block_ns=10000 bytes=0\n" \
        ".visible .entry k()\n{\n ret;\n}\n.visible .entry k__ds_persistent(.param .align 8 .b8 v[40])\n{\n ret;\n}\n"

/* On a timing-only device chunks cost as much as their blocks, and stopping works the same. */
Test(sim_forms, timing_only)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200+timing");
        ds_device_module *module = dt_load(t, PTX_HINTED);
        struct ds_launch l = dt_launch_of(t, module, "k__ds_persistent", 132 * 12, 1024);
        const struct ds_completion *c;
        uint64_t token;

        l.form = DS_PTX_FORM_PERSISTENT;
        l.workers = 132;
        l.chunk = 3;
        c = dt_wait(t, dt_launch(t, &l));
        cr_assert(c->end_ns - c->start_ns > 115000 && c->end_ns - c->start_ns < 130000, "12 blocks of 10 us: %llu",
                (unsigned long long)(c->end_ns - c->start_ns));
        token = dt_launch(t, &l);
        dt_form_pass(t, 45000);
        cr_assert_eq(ds_sim_ops.evict(t->device, token), 0);
        c = dt_wait(t, token);
        cr_assert(c->status == DS_DEVICE_EVICTED && c->blocks == 132 * 6, "%u blocks", c->blocks);
        l.resumes = token + 1;
        c = dt_wait(t, dt_launch(t, &l));
        cr_assert(!c->status && c->end_ns - c->start_ns > 55000 && c->end_ns - c->start_ns < 70000);
        dt_close(t);
}

/* Workers that are killed while they stop, or after they continued; workers with a deadline; workers with a bound. */
Test(sim_forms, other_ends, .timeout = 300)
{
        struct ds_launch be, ls;
        struct dt_forms f;
        uint64_t token;

        rig(&f, 1200, &be, &ls);
        token = dt_launch(f.t, &be);
        dt_form_pass(f.t, 30000);
        cr_assert_eq(ds_sim_ops.evict(f.t->device, token), 0);
        cr_assert_eq(ds_sim_ops.bound(f.t->device, token, 1), 0);
        cr_assert_eq(ds_sim_ops.kill(f.t->device, token), 0);
        cr_assert_eq(dt_wait(f.t, token)->status, DS_DEVICE_KILLED);
        be.replays = token + 1;
        token = dt_launch(f.t, &be);
        be.replays = 0;
        dt_form_pass(f.t, 30000);
        cr_assert_eq(ds_sim_ops.bound(f.t->device, token, 5), 0);
        dt_form_pass(f.t, 100000);
        cr_assert_eq(ds_sim_ops.evict(f.t->device, token), 0);
        cr_assert_eq(dt_wait(f.t, token)->status, DS_DEVICE_EVICTED);
        be.resumes = token + 1;
        be.deadline_ns = 10;
        token = dt_launch(f.t, &be);
        cr_assert_eq(ds_sim_ops.kill(f.t->device, token), DS_CUDA_NOT_SUPPORTED);
        dt_form_pass(f.t, 5000);
        cr_assert_eq(ds_sim_ops.evict(f.t->device, token), 0);
        cr_assert_eq(dt_wait(f.t, token)->status, DS_CUDA_LAUNCH_TIMEOUT);
        dt_form_right(&f, 0);
        dt_close(f.t);
}

/* A kernel is killed during its execution and executes again; a persistent kernel behind it must not execute before
 * that. */
Test(sim_forms, nothing_of_it_is_executed_before_those_that_are_killed, .timeout = 300)
{
        struct ds_launch before, l;
        struct dt_forms f = dt_forms_open(&ds_sim_ops, "h200", 300);
        uint64_t killed, token;
        uint32_t done = 0;
        const uint32_t *counts = (const uint32_t *)DT_HOST_VA;

        dt_form_clear(&f, 2);
        f.loops = 20000;
        before = dt_form_launch(&f, DS_PTX_FORM_NATIVE, 0);
        killed = dt_launch(f.t, &before);
        f.loops = DT_FORM_LOOPS;
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 1);
        for (int i = 0; i < 3; i++) {
                token = dt_launch(f.t, &l);
                if (!i)
                        cr_assert_eq(ds_sim_ops.evict(f.t->device, token), 0);
                if (!i)
                        cr_assert_eq(ds_sim_ops.kill(f.t->device, killed), 0);
                if (!dt_form_evicted(&f, token, &done))
                        break;
                cr_assert_eq(done, 0);
                dt_ok(f.t, dt_copy(f.t, f.t->stream, DS_COPY_DTOH, DT_HOST_VA, f.params.counts, f.blocks * 4));
                for (uint32_t b = 0; b < f.blocks; b++)
                        cr_assert_eq(counts[b], 0, "block %u ran", b);
                l.resumes = token + 1;
        }
        cr_assert_eq(dt_wait(f.t, killed)->status, DS_DEVICE_KILLED);
        cr_assert(l.resumes);
        dt_form_right(&f, 1);
        dt_close(f.t);
}

/* The largest grid with the largest chunks: the workers' counter beyond its end must not overflow. */
Test(sim_forms, the_counter_does_not_wrap)
{
        static const uint32_t chunks[][2] = {{0, 1}, {1, 1}, {7, 7}, {UINT32_MAX, DS_FORM_CHUNK_MAX}};

        for (size_t i = 0; i < DS_ARRAY_SIZE(chunks); i++) {
                const struct ds_launch l = {
                        .form = DS_PTX_FORM_PERSISTENT, .grid = {DS_FORM_BLOCKS_MAX, 1, 1}, .chunk = chunks[i][0]};
                struct ds_ptx_virtual v = ds_device_form_virtual(&l, DS_FORM_BLOCKS_MAX);

                cr_expect_eq(v.chunk, chunks[i][1]);
                cr_expect_leq((uint64_t)v.n_blocks + (uint64_t)v.chunk * DS_FORM_WORKERS_MAX, UINT32_MAX);
        }
}
