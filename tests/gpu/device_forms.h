/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test bodies for every device: forms of kernels, and persistent workers that are evicted and resumed
 *
 * The kernel adds to the memory it finds and counts its blocks, so a block that runs twice or never shows. One set of
 * forms is written by hand, to test the device without the passes; another set comes from the passes.
 */
#pragma once

#include <time.h>

#include "ptx/pass/forms_make.h"
#include "ptx/ptx.h"
#include "tests/gpu/device_common.h"
#include "util/alloc.h"

#ifndef DT_FORM_LOOPS
#define DT_FORM_LOOPS 1000u
#endif
#define DT_FORM_THREADS 32u
#define DT_FORM_COUNTS DT_DEVICE_VA /* address of the counts: a word per block */
/* address of copy i of the output: a word per thread */
#define DT_FORM_OUT(i) (DT_DEVICE_VA + DS_MIB(1) + (i)*DS_MIB(1))
#define DT_FORM_BYTES(blocks) ((blocks)*DT_FORM_THREADS * UINT64_C(4))

/* clang-format off */
#define DT_PTX_FORM_PARAMS ".param .u64 counts, .param .u64 out, .param .u32 loops"
#define DT_PTX_FORM_BEGIN \
        "{\n .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<12>;\n .shared .align 4 .b32 ticket;\n" \
        " ld.param.u64 %rd1, [counts];\n ld.param.u64 %rd2, [out];\n ld.param.u32 %r1, [loops];\n" \
        " mov.u32 %r2, %tid.x;\n mov.u32 %r3, %ntid.x;\n setp.eq.u32 %p1, %r2, 0;\n"
/* body of all forms, for block b = %r20: counts[b] += 1; out[b * ntid + tid] += a value that takes some time to
 * compute */
#define DT_PTX_FORM_BODY \
        " mul.wide.u32 %rd3, %r20, 4;\n add.u64 %rd3, %rd1, %rd3;\n @%p1 red.global.add.u32 [%rd3], 1;\n" \
        " mad.lo.u32 %r21, %r20, %r3, %r2;\n mul.wide.u32 %rd4, %r21, 4;\n add.u64 %rd4, %rd2, %rd4;\n" \
        " mov.u32 %r22, 0;\nAGAIN:\n mad.lo.u32 %r21, %r21, 1664525, 1013904223;\n add.u32 %r22, %r22, 1;\n" \
        " setp.lt.u32 %p2, %r22, %r1;\n @%p2 bra AGAIN;\n ld.global.u32 %r23, [%rd4];\n" \
        " add.u32 %r23, %r23, %r21;\n st.global.u32 [%rd4], %r23;\n"
#define DT_PTX_FORM_NATIVE \
        ".visible .entry work(" DT_PTX_FORM_PARAMS ")\n" DT_PTX_FORM_BEGIN \
        " mov.u32 %r4, %ctaid.z;\n mov.u32 %r5, %nctaid.y;\n mov.u32 %r6, %ctaid.y;\n mad.lo.u32 %r4, %r4, %r5, %r6;\n" \
        " mov.u32 %r5, %nctaid.x;\n mov.u32 %r6, %ctaid.x;\n mad.lo.u32 %r20, %r4, %r5, %r6;\n" \
        DT_PTX_FORM_BODY " ret;\n}\n"
#define DT_PTX_FORM_SLICED \
        ".visible .entry work__ds_sliced(" DT_PTX_FORM_PARAMS ", .param .align 8 .b8 v[40])\n" DT_PTX_FORM_BEGIN \
        " ld.param.u32 %r4, [v+24];\n mov.u32 %r5, %ctaid.x;\n add.u32 %r20, %r4, %r5;\n" DT_PTX_FORM_BODY " ret;\n}\n"
#define DT_PTX_FORM_PERSISTENT \
        ".visible .entry work__ds_persistent(" DT_PTX_FORM_PARAMS ", .param .align 8 .b8 v[40])\n" DT_PTX_FORM_BEGIN \
        " ld.param.u64 %rd8, [v];\n ld.param.u32 %r4, [v+20];\n ld.param.u32 %r5, [v+28];\n" \
        " ld.param.u32 %r6, [v+32];\n ld.param.u32 %r7, [v+36];\n mov.u32 %r8, 0;\n" \
        "TAKE:\n bar.sync 0;\n @!%p1 bra TOLD;\n mov.u32 %r9, %r4;\n setp.ne.u32 %p3, %r7, 0;\n" \
        " setp.eq.and.u32 %p3, %r8, %r7, %p3;\n @%p3 bra TELL;\n ld.relaxed.gpu.global.u32 %r10, [%rd8];\n" \
        " setp.eq.u32 %p3, %r10, %r5;\n @%p3 bra TELL;\n atom.relaxed.gpu.global.add.u32 %r9, [%rd8+4], %r6;\n" \
        "TELL:\n st.shared.u32 [ticket], %r9;\nTOLD:\n bar.sync 0;\n ld.shared.u32 %r20, [ticket];\n" \
        " setp.ge.u32 %p3, %r20, %r4;\n @%p3 bra LEAVE;\n add.u32 %r8, %r8, 1;\n add.u32 %r11, %r20, %r6;\n" \
        " min.u32 %r11, %r11, %r4;\nBLOCK:\n" DT_PTX_FORM_BODY \
        " add.u32 %r20, %r20, 1;\n setp.lt.u32 %p4, %r20, %r11;\n @%p4 bra BLOCK;\n bra TAKE;\n" \
        "LEAVE:\n @!%p1 bra DONE;\n fence.acq_rel.gpu;\n atom.relaxed.gpu.global.add.u32 %r12, [%rd8+8], 1;\n" \
        " add.u32 %r12, %r12, 1;\n mov.u32 %r13, %nctaid.x;\n setp.ne.u32 %p5, %r12, %r13;\n @%p5 bra DONE;\n" \
        " fence.acq_rel.gpu;\n st.relaxed.gpu.global.u32 [%rd8+8], 0;\n ld.relaxed.gpu.global.u32 %r14, [%rd8+4];\n" \
        " setp.lt.u32 %p6, %r14, %r4;\n @%p6 bra DONE;\n st.relaxed.gpu.global.u32 [%rd8+4], 0;\n" \
        " st.relaxed.gpu.global.u32 [%rd8+12], %r5;\nDONE:\n ret;\n}\n"
/* clang-format on */
#define DT_PTX_FORMS                                                                                                   \
        ".version 7.0\n.target sm_70\n.address_size 64\n" DT_PTX_FORM_NATIVE DT_PTX_FORM_SLICED DT_PTX_FORM_PERSISTENT \
                DT_PTX_SPIN

struct dt_form_params {
        uint64_t counts, out;
        uint32_t loops;
};

struct dt_forms {
        struct dt *t;
        ds_device_module *module;
        uint32_t grid[3], blocks, loops;
        uint64_t seed;
        uint32_t rungs[3];
        struct dt_form_params params;
};

static inline uint32_t dt_form_random(struct dt_forms *f, uint32_t below)
{
        f->seed = f->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)(f->seed >> 33) % below;
}

/* Opens a device with three rungs: one over all TPCs, and two halves. ptx: text of the module */
static inline struct dt_forms dt_forms_of(
        const struct ds_device_ops *ops, const char *spec, uint32_t blocks, const char *ptx)
{
        struct dt_forms f = {.t = dt_open(ops, spec), .loops = DT_FORM_LOOPS, .seed = blocks};
        uint32_t half = DS_MAX(ops->info(f.t->device)->n_tpcs / 2, 1u);
        struct ds_tpc_mask low = dt_mask(0, half), high = dt_mask(half * 2 > half + 1 ? half : 0, half);

        f.rungs[0] = f.t->rung;
        cr_assert_eq(ops->rung_create(f.t->device, &low, &f.rungs[1]), 0);
        cr_assert_eq(ops->rung_create(f.t->device, &high, &f.rungs[2]), 0);
        f.module = dt_load(f.t, ptx);
        f.grid[0] = blocks / 6;
        f.grid[1] = 3;
        f.grid[2] = 2;
        f.blocks = f.grid[0] * 6;
        return f;
}

static inline struct dt_forms dt_forms_open(const struct ds_device_ops *ops, const char *spec, uint32_t blocks)
{
        return dt_forms_of(ops, spec, blocks, DT_PTX_FORMS);
}

/* Returns the text that the passes make of the native kernel; malloc'ed. */
static inline char *dt_forms_made(const char *ptx)
{
        struct ds_ptx_form_verdict verdicts[8] = {};
        struct ds_ptx_diags diags = {};
        struct ds_ptx_module *module = NULL, *made = NULL;
        char *text = NULL;
        size_t size;
        FILE *f;

        cr_assert_eq(ds_ptx_parse(ptx, strlen(ptx), 0, &diags, &module), 0);
        cr_assert_leq(module->n_functions, DS_ARRAY_SIZE(verdicts));
        cr_assert_eq(ds_ptx_forms_make(module, 0, &diags, &made, verdicts), 0);
        for (int i = 0; i < _DS_PTX_FORM_MAX; i++)
                cr_assert(verdicts[0].forms[i].made, "%s: %s", ds_ptx_form_word((enum ds_ptx_form)i),
                        verdicts[0].forms[i].reason);
        f = open_memstream(&text, &size);
        cr_assert(f && !ds_ptx_print(made, f) && !fclose(f));
        ds_ptx_module_free(made);
        ds_ptx_module_free(module);
        return text;
}

/* Makes a launch of one form that writes copy i of the output. */
static inline struct ds_launch dt_form_launch(struct dt_forms *f, enum ds_ptx_form form, uint32_t i)
{
        static const char *const names[] = {"work", "work__ds_sliced", "work__ds_persistent"};
        struct ds_launch l = dt_launch_of(f->t, f->module, names[form], 1, DT_FORM_THREADS);

        memcpy(l.grid, f->grid, sizeof(l.grid));
        f->params = (struct dt_form_params){
                .counts = DT_FORM_COUNTS + i * DS_KIB(32), .out = DT_FORM_OUT(i), .loops = f->loops};
        l.params = &f->params;
        l.params_size = 20;
        l.form = form;
        return l;
}

static inline void dt_form_clear(struct dt_forms *f, uint32_t copies)
{
        struct ds_memset m = {.stream = f->t->stream,
                .space = DT_SPACE,
                .dst = DT_DEVICE_VA,
                .element_size = 4,
                .width = DS_MIB(1 + copies) / 4,
                .height = 1};
        uint64_t token = dt_token(f->t);

        cr_assert_eq(f->t->ops->memset(f->t->device, &m, token), 0);
        dt_ok(f->t, token);
}

/* Asserts that copy i is the native form's result from zeroes, and that each block ran once. */
static inline void dt_form_right(struct dt_forms *f, uint32_t i)
{
        const uint32_t *counts = (uint32_t *)DT_HOST_VA, *out = (uint32_t *)(DT_HOST_VA + DS_MIB(1));
        uint32_t x;

        dt_ok(f->t,
                dt_copy(f->t, f->t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_FORM_COUNTS + i * DS_KIB(32), f->blocks * 4));
        dt_ok(f->t, dt_copy(f->t, f->t->stream, DS_COPY_DTOH, DT_HOST_VA + DS_MIB(1), DT_FORM_OUT(i),
                            DT_FORM_BYTES(f->blocks)));
        for (uint32_t b = 0; b < f->blocks; b++)
                cr_assert_eq(counts[b], 1, "copy %u: block %u ran %u times", i, b, counts[b]);
        for (uint32_t k = 0; k < f->blocks * DT_FORM_THREADS; k += 7) {
                x = k;
                for (uint32_t n = 0; n < f->loops; n++)
                        x = x * 1664525 + 1013904223;
                cr_assert_eq(out[k], x, "copy %u: value of thread %u of the grid is %u, not %u", i, k, out[k], x);
        }
}

/* Waits for ns nanoseconds of the device's time. */
static inline void dt_form_pass(struct dt *t, uint64_t ns)
{
        struct pollfd p = {.fd = t->ops->event_fd(t->device), .events = POLLIN};
        struct timespec nap = {.tv_nsec = 1000};
        uint64_t until = t->ops->now(t->device) + ns;

        if (!t->ops->advance) {
                while (t->ops->now(t->device) < until) {
                        dt_poll(t);
                        nanosleep(&nap, NULL);
                }
                return;
        }
        for (int r; (r = t->ops->advance(t->device, until)) != -ETIME;) {
                if (r == -EAGAIN)
                        cr_assert(poll(&p, 1, 120000) > 0);
                else
                        dt_poll(t);
        }
}

/* --- equal results of all forms ----------------------------------------------------------------------------------- */

static inline void dt_forms_equal(const struct ds_device_ops *ops, const char *spec, const char *ptx)
{
        static const uint32_t workers[] = {0, 1, 5, 1000}, chunks[] = {0, 1, 4, 1000000};
        struct dt_forms f = dt_forms_of(ops, spec, 300, ptx);
        struct ds_launch l;

        dt_form_clear(&f, 5);
        l = dt_form_launch(&f, DS_PTX_FORM_NATIVE, 0);
        dt_launch(f.t, &l);
        l = dt_form_launch(&f, DS_PTX_FORM_SLICED, 1);
        for (l.first = 0; l.first < f.blocks; l.first += l.n_blocks) {
                l.n_blocks = 1 + dt_form_random(&f, 90);
                l.n_blocks = DS_MIN(l.n_blocks, f.blocks - l.first);
                dt_launch(f.t, &l);
        }
        for (uint32_t i = 0; i < 2; i++)
                dt_form_right(&f, i);
        for (uint32_t round = 0; round < DS_ARRAY_SIZE(workers); round++) {
                dt_form_clear(&f, 5);
                for (uint32_t i = 0; i < DS_ARRAY_SIZE(chunks); i++) {
                        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, i);
                        l.workers = workers[round];
                        l.chunk = chunks[i];
                        l.stream = ds_device_stream(f.rungs[i % 3], 1, i);
                        dt_launch(f.t, &l);
                }
                dt_wait_all(f.t);
                for (uint32_t i = 0; i < DS_ARRAY_SIZE(chunks); i++)
                        dt_form_right(&f, i);
        }
        dt_close(f.t);
}

ds_unused static void dt_test_forms_equal(const struct ds_device_ops *ops, const char *spec)
{
        dt_forms_equal(ops, spec, DT_PTX_FORMS);
}

ds_unused static void dt_test_forms_refused(const struct ds_device_ops *ops, const char *spec)
{
        struct dt_forms f = dt_forms_open(ops, spec, 60);
        struct ds_launch good = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0), bad[12], l;
        struct dt_form_params params = f.params;
        size_t n = 0;

        good.params = &params;
        for (size_t i = 0; i < DS_ARRAY_SIZE(bad); i++)
                bad[i] = good;
        bad[n++].cooperative = 1;
        bad[n++].cluster[0] = 2;
        bad[n].cluster[0] = bad[n].cluster[1] = 1;
        bad[n++].cluster[2] = 1;
        bad[n++].params_size = 16;
        bad[n++].grid[1] = 0;
        bad[n].grid[0] = 1u << 30;
        bad[n++].grid[1] = 2;
        bad[n++].resumes = 77;
        bad[n++].form = _DS_PTX_FORM_MAX;
        bad[n++].kernel = ops->kernel_find(f.module, "work");
        l = dt_form_launch(&f, DS_PTX_FORM_SLICED, 0);
        bad[n] = l;
        bad[n++].n_blocks = 0;
        bad[n] = l;
        bad[n].first = f.blocks - 1;
        bad[n++].n_blocks = 2;
        bad[n] = l;
        bad[n].n_blocks = 1;
        bad[n++].first = f.blocks;
        cr_assert_eq(n, DS_ARRAY_SIZE(bad));
        for (size_t i = 0; i < n; i++)
                cr_assert_eq(ops->launch(f.t->device, &bad[i], f.t->next_token), DS_CUDA_INVALID_VALUE, "row %zu", i);
        cr_assert_eq(ops->evict(f.t->device, 4000), DS_CUDA_NOT_FOUND);
        ops->drop(f.t->device, 4000);
        dt_form_clear(&f, 1);
        dt_ok(f.t, dt_launch(f.t, &good));
        dt_form_right(&f, 0);
        dt_close(f.t);
}

/* --- eviction ----------------------------------------------------------------------------------------------------- */

/* Waits for an evicted launch. Returns 1 when blocks are left. *done: number of blocks that have ended, which never
 * shrinks. */
static inline int dt_form_evicted(struct dt_forms *f, uint64_t token, uint32_t *done)
{
        const struct ds_completion *c = dt_wait(f->t, token);

        cr_assert(!c->status || c->status == DS_DEVICE_EVICTED, "status %d: %s", c->status, c->message);
        if (!c->status)
                return 0;
        cr_assert(c->blocks >= *done && c->blocks < f->blocks, "%u blocks done, after %u, of %u", c->blocks, *done,
                f->blocks);
        *done = c->blocks;
        return 1;
}

/* Evicts and resumes one launch repeatedly, on other rungs and with other numbers of workers. */
static inline void dt_forms_evict(const struct ds_device_ops *ops, const char *spec, const char *ptx)
{
        struct dt_forms f = dt_forms_of(ops, spec, 1800, ptx);
        uint64_t begin = ops->now(f.t->device), alone, token;
        uint32_t evicted = 0, midway = 0, done;
        struct ds_launch l;

        dt_form_clear(&f, 1);
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        begin = ops->now(f.t->device);
        dt_ok(f.t, dt_launch(f.t, &l));
        alone = ops->now(f.t->device) - begin;
        for (uint32_t round = 0; round < 4; round++) {
                dt_form_clear(&f, 1);
                l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
                for (uint32_t i = done = 0;; i++) {
                        l.stream = ds_device_stream(f.rungs[dt_form_random(&f, 3)], dt_form_random(&f, 2), 1);
                        l.workers = dt_form_random(&f, 3) ? 1 + dt_form_random(&f, 300) : 0;
                        token = dt_launch(f.t, &l);
                        if (i < 12) {
                                dt_form_pass(f.t, dt_form_random(&f, (uint32_t)(alone / 2) + 1));
                                cr_assert(!ops->evict(f.t->device, token) || f.t->came[token]);
                        }
                        if (!dt_form_evicted(&f, token, &done))
                                break;
                        evicted++;
                        midway += done > 0;
                        l.resumes = token + 1;
                }
                dt_form_right(&f, 0);
        }
        printf("alone %.1f us, evicted %u times, %u of them midway\n", (double)alone / 1e3, evicted, midway);
        cr_assert(evicted > 0);
        dt_close(f.t);
}

ds_unused static void dt_test_forms_evict(const struct ds_device_ops *ops, const char *spec)
{
        dt_forms_evict(ops, spec, DT_PTX_FORMS);
}

ds_unused static void dt_test_forms_made(const struct ds_device_ops *ops, const char *spec)
{
        char *ptx = dt_forms_made(".version 7.0\n.target sm_70\n.address_size 64\n" DT_PTX_FORM_NATIVE);

        dt_forms_equal(ops, spec, ptx);
        dt_forms_evict(ops, spec, ptx);
        free(ptx);
}

/* Evicts a launch that still waits for another one, a launch twice, one after its end, and one directly after it is
 * resumed. */
ds_unused static void dt_test_forms_evict_early_and_late(const struct ds_device_ops *ops, const char *spec)
{
        struct dt_forms f = dt_forms_open(ops, spec, 600);
        struct ds_launch l, second;
        uint64_t token, behind, after;
        uint32_t done = 0;

        dt_form_clear(&f, 3);
        l = dt_form_launch(&f, DS_PTX_FORM_NATIVE, 0);
        dt_launch(f.t, &l);
        second = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 1);
        behind = dt_launch(f.t, &second);
        cr_assert_eq(ops->evict(f.t->device, behind), 0);
        cr_assert_eq(ops->evict(f.t->device, behind), 0, "twice");
        l = dt_form_launch(&f, DS_PTX_FORM_NATIVE, 2);
        after = dt_launch(f.t, &l);
        cr_assert_eq(dt_form_evicted(&f, behind, &done), 1);
        cr_assert_eq(done, 0, "it ran blocks although it was evicted before its start: %u", done);
        dt_ok(f.t, after);
        cr_assert_eq(ops->evict(f.t->device, behind), DS_CUDA_NOT_FOUND);
        cr_assert_eq(ops->evict(f.t->device, after), DS_CUDA_NOT_FOUND);
        for (int i = 0; i < 5; i++) {
                second = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 1);
                second.resumes = behind + 1;
                behind = dt_launch(f.t, &second);
                if (i < 4)
                        cr_assert_eq(ops->evict(f.t->device, behind), 0);
                if (!dt_form_evicted(&f, behind, &done))
                        break;
        }
        second.resumes = behind + 1;
        cr_assert_eq(ops->launch(f.t->device, &second, f.t->next_token), DS_CUDA_INVALID_VALUE, "the launch has ended");
        for (uint32_t i = 0; i < 3; i++)
                dt_form_right(&f, i);
        /* a launch that has ended, but whose completion was not polled, ends normally when it is evicted */
        dt_form_clear(&f, 1);
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        token = dt_launch(f.t, &l);
        dt_ok(f.t, token);
        dt_form_right(&f, 0);
        dt_close(f.t);
}

/* Evicts each of many concurrent launches at some time; drops a few instead of resuming them. */
ds_unused static void dt_test_forms_many(const struct ds_device_ops *ops, const char *spec)
{
        enum { MANY = 8 };
        struct dt_forms f = dt_forms_open(ops, spec, 480);
        uint64_t token[MANY] = {};
        uint32_t done[MANY] = {}, left = MANY, dropped = 0;
        bool over[MANY] = {}, gone[MANY] = {};
        struct ds_launch l;

        dt_form_clear(&f, MANY);
        for (uint32_t round = 0; left; round++) {
                for (uint32_t i = 0; i < MANY; i++) {
                        if (over[i])
                                continue;
                        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, i);
                        l.stream = ds_device_stream(f.rungs[dt_form_random(&f, 3)], 1, i);
                        l.workers = 1 + dt_form_random(&f, 40);
                        l.chunk = round ? 0 : 1 + i % 3;
                        l.resumes = token[i] ? token[i] + 1 : 0;
                        token[i] = dt_launch(f.t, &l);
                }
                for (uint32_t i = 0; i < MANY && round < 6; i++) {
                        dt_form_pass(f.t, dt_form_random(&f, 20000));
                        if (!over[i])
                                cr_assert(!ops->evict(f.t->device, token[i]) || f.t->came[token[i]]);
                }
                for (uint32_t i = 0; i < MANY; i++) {
                        if (over[i])
                                continue;
                        over[i] = !dt_form_evicted(&f, token[i], &done[i]);
                        if (!over[i] && round == 3 && dropped < 2) {
                                ops->drop(f.t->device, token[i]);
                                ops->drop(f.t->device, token[i]);
                                over[i] = gone[i] = true;
                                dropped++;
                        }
                        left -= over[i];
                }
        }
        for (uint32_t i = 0; i < MANY; i++)
                if (!gone[i])
                        dt_form_right(&f, i);
        /* dropped launches leave no state that later launches see */
        dt_form_clear(&f, MANY);
        for (uint32_t i = 0; i < MANY; i++) {
                l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, i);
                dt_launch(f.t, &l);
        }
        dt_wait_all(f.t);
        for (uint32_t i = 0; i < MANY; i++)
                dt_form_right(&f, i);
        dt_close(f.t);
}

/* A session is removed while it has an evicted launch that was not dropped, and a launch in flight. */
ds_unused static void dt_test_forms_session_goes(const struct ds_device_ops *ops, const char *spec)
{
        struct dt_forms f = dt_forms_open(ops, spec, 600);
        struct ds_launch l;
        uint64_t first, second, third;

        dt_form_clear(&f, 3);
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        first = dt_launch(f.t, &l);
        cr_assert_eq(ops->evict(f.t->device, first), 0);
        dt_wait(f.t, first);
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 1);
        second = dt_launch(f.t, &l);
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 2);
        third = dt_launch(f.t, &l);
        cr_assert_eq(ops->evict(f.t->device, third), 0);
        cr_assert_eq(ops->space_remove(f.t->device, DT_SPACE), -EBUSY);
        ops->abort(f.t->device, DT_SPACE);
        dt_wait(f.t, second);
        dt_wait(f.t, third);
        ops->module_unload(f.t->device, f.module);
        cr_assert_eq(ops->space_remove(f.t->device, DT_SPACE), 0);
        ops->drop(f.t->device, first);
        ops->drop(f.t->device, third);
        dt_close(f.t);
}

/* Each allocation of the calls fails once: a refused call has no effect, an accepted launch completes and can be
 * resumed. */
ds_unused static void dt_test_forms_without_memory(const struct ds_device_ops *ops, const char *spec)
{
        struct dt_forms f = dt_forms_open(ops, spec, 120);
        uint32_t refused = 0, failed = 0, whole = 0, done;
        struct ds_launch l;
        uint64_t token;
        int r;

        for (int n = 0; n < 24; n++) {
                dt_form_clear(&f, 1);
                l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
                token = dt_token(f.t);
                ds_alloc_fail_after(n);
                r = ops->launch(f.t->device, &l, token);
                if (r) {
                        ds_alloc_fail_after(-1);
                        cr_assert(r == -ENOMEM || r == DS_CUDA_OUT_OF_MEMORY, "%d", r);
                        f.t->next_token--;
                        refused++;
                        continue;
                }
                (void)ops->evict(f.t->device, token);
                dt_form_pass(f.t, 1000);
                (void)ops->evict(f.t->device, token);
                dt_wait(f.t, token);
                ds_alloc_fail_after(-1);
                for (done = 0; f.t->seen[token].status == DS_DEVICE_EVICTED; dt_wait(f.t, token)) {
                        cr_assert_eq(dt_form_evicted(&f, token, &done), 1);
                        l.resumes = token + 1;
                        token = dt_launch(f.t, &l);
                }
                if (!f.t->seen[token].status)
                        dt_form_right(&f, 0);
                failed += f.t->seen[token].status != 0;
                whole += !f.t->seen[token].status;
        }
        printf("%u calls refused, %u launches failed, %u complete\n", refused, failed, whole);
        cr_assert(refused + failed > 0 && whole > 0);
        dt_close(f.t);
}
