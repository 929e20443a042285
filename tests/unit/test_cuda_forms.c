/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda device with forms of kernels on the fake driver: slices, and workers that stop and continue
 *
 * The fake driver executes a persistent kernel's own code while the test writes the stop word to the control block, so
 * the workers read it at an arbitrary time. The bodies also run on a GPU (tests/gpu/device_forms.h); then come cases
 * that need a failing driver.
 */
#define DT_SLAB DS_MIB(16) /* clearing a larger slab would take longer than most of these tests */
#define DT_HOST DS_MIB(8)  /* making pages of a larger one would too */
#define DT_FORM_LOOPS 300u
#include "tests/gpu/device_forms_crowd.h"

#include "device/cuda/internal.h"

static void setup(void)
{
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
}

#define SHARED(body, name)                                    \
        Test(cuda_forms, name, .init = setup, .timeout = 300) \
        {                                                     \
                body(&ds_cuda_ops, "0");                      \
        }

SHARED(dt_test_forms_equal, equal)
SHARED(dt_test_forms_refused, refused)
SHARED(dt_test_forms_evict, evict)
SHARED(dt_test_forms_evict_early_and_late, evict_early_and_late)
SHARED(dt_test_forms_many, many)
SHARED(dt_test_forms_session_goes, session_goes)
SHARED(dt_test_forms_made, made)
SHARED(dt_test_forms_without_memory, without_memory)
SHARED(dt_test_forms_evict_behind, evict_behind)
SHARED(dt_test_forms_again_and_again, again_and_again)
SHARED(dt_test_forms_sessions_go, sessions_go)

/* --- calls that fail ---------------------------------------------------------------------------------------------- */

#define LONG 100000u /* number of loops of a kernel; its blocks then take milliseconds here */

static struct dt_forms forms_failing(const char *fail, uint32_t blocks, uint32_t loops)
{
        struct dt_forms f;

        setenv("FAKE_CUDA_FAIL", fail, 1);
        f = dt_forms_open(&ds_cuda_ops, "0", blocks);
        f.loops = loops;
        dt_form_clear(&f, 2);
        return f;
}

/* The write of the stop word fails: the launch continues, and a later request can stop it. */
Test(cuda_forms, the_stop_word_cannot_be_written, .init = setup, .timeout = 120)
{
        struct dt_forms f = forms_failing("cuStreamWriteValue32:1:2", 60, LONG);
        struct ds_launch l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        uint64_t token = dt_launch(f.t, &l);
        uint32_t done = 0;

        cr_assert_eq(ds_cuda_ops.evict(f.t->device, token), DS_CUDA_OUT_OF_MEMORY);
        cr_assert_eq(ds_cuda_ops.evict(f.t->device, token), 0);
        while (dt_form_evicted(&f, token, &done)) {
                l.resumes = token + 1;
                token = dt_launch(f.t, &l);
        }
        dt_form_right(&f, 0);
        dt_close(f.t);
}

/* The workers' progress cannot be read: that launch fails, others continue. */
Test(cuda_forms, progress_cannot_be_read, .init = setup, .timeout = 120)
{
        struct dt_forms f = forms_failing("cuMemcpyDtoHAsync:1:1", 60, LONG);
        struct ds_launch l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        uint64_t token = dt_launch(f.t, &l);

        cr_assert_eq(ds_cuda_ops.evict(f.t->device, token), 0);
        cr_assert_eq(dt_wait(f.t, token)->status, DS_CUDA_LAUNCH_FAILED);
        l.resumes = token + 1;
        cr_assert_eq(ds_cuda_ops.launch(f.t->device, &l, f.t->next_token), DS_CUDA_INVALID_VALUE);
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 1);
        dt_ok(f.t, dt_launch(f.t, &l));
        dt_form_right(&f, 1);
        dt_close(f.t);
}

/* The driver refuses to continue a stopped launch once: a later attempt succeeds. */
Test(cuda_forms, continuing_is_refused_once, .init = setup, .timeout = 120)
{
        struct dt_forms f = forms_failing("cuLaunchKernelEx:2:701", 60, LONG);
        struct ds_launch l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        uint64_t token = dt_launch(f.t, &l);
        uint32_t done = 0;

        cr_assert_eq(ds_cuda_ops.evict(f.t->device, token), 0);
        cr_assert_eq(dt_form_evicted(&f, token, &done), 1);
        l.resumes = token + 1;
        cr_assert_eq(ds_cuda_ops.launch(f.t->device, &l, f.t->next_token), DS_CUDA_LAUNCH_OUT_OF_RESOURCES);
        dt_ok(f.t, dt_launch(f.t, &l));
        dt_form_right(&f, 0);
        dt_close(f.t);
}

/* Without stream memory operations there are slices but no persistent workers. */
Test(cuda_forms, streams_without_values, .init = setup, .timeout = 120)
{
        struct dt_forms f;
        struct ds_launch l;

        setenv("FAKE_CUDA_MEMOPS", "0", 1);
        f = dt_forms_open(&ds_cuda_ops, "0", 60);
        dt_form_clear(&f, 1);
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        cr_assert_eq(ds_cuda_ops.launch(f.t->device, &l, f.t->next_token), DS_CUDA_NOT_SUPPORTED);
        cr_assert_eq(ds_cuda_ops.evict(f.t->device, 1), DS_CUDA_NOT_FOUND);
        ds_cuda_ops.drop(f.t->device, 1);
        l = dt_form_launch(&f, DS_PTX_FORM_SLICED, 0);
        l.n_blocks = f.blocks;
        dt_ok(f.t, dt_launch(f.t, &l));
        dt_form_right(&f, 0);
        dt_close(f.t);
}

#define CONTROLS 4096u

/* So many stopped kernels exist that no control block is left: a launch is refused, and succeeds after some are
 * dropped. */
Test(cuda_forms, no_control_block_left, .init = setup, .timeout = 120)
{
        struct dt_forms f = dt_forms_open(&ds_cuda_ops, "0", 6);
        struct ds_launch l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        uint32_t n = 0, came = 0, evicted = 0;
        struct ds_completion c[64];
        size_t got;

        dt_form_clear(&f, 2);
        l = dt_form_launch(&f, DS_PTX_FORM_NATIVE, 1);
        f.params.loops = LONG;
        dt_launch(f.t, &l);
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        for (; n < CONTROLS; n++) {
                cr_assert_eq(ds_cuda_ops.launch(f.t->device, &l, 100000 + n), 0, "launch %u", n);
                cr_assert_eq(ds_cuda_ops.evict(f.t->device, 100000 + n), 0);
        }
        cr_assert_eq(ds_cuda_ops.launch(f.t->device, &l, 1), DS_CUDA_OUT_OF_MEMORY);
        while (came < CONTROLS + 1) {
                got = ds_cuda_ops.poll(f.t->device, c, DS_ARRAY_SIZE(c));
                for (size_t i = 0; i < got; i++)
                        evicted += c[i].status == DS_DEVICE_EVICTED && !c[i].blocks;
                came += (uint32_t)got;
        }
        cr_assert_eq(evicted, CONTROLS);
        cr_assert_eq(ds_cuda_ops.launch(f.t->device, &l, 1), DS_CUDA_OUT_OF_MEMORY);
        for (uint32_t i = 0; i < CONTROLS; i++)
                ds_cuda_ops.drop(f.t->device, 100000 + i);
        dt_form_pass(f.t, 1000000);
        f.t->n_seen++; /* the first completion was taken above, so the harness counts it as seen */
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        dt_ok(f.t, dt_launch(f.t, &l));
        dt_form_right(&f, 0);
        dt_close(f.t);
}

/* Aborting a session that has left stops its running workers at a block's end, with an error. */
Test(cuda_forms, a_session_that_goes_stops_its_workers, .init = setup, .timeout = 120)
{
        struct dt_forms f = dt_forms_open(&ds_cuda_ops, "0", 6000);
        const uint32_t *counts = (const uint32_t *)DT_HOST_VA;
        struct ds_launch l;
        uint64_t token;

        dt_form_clear(&f, 2);
        f.loops = LONG;
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        token = dt_launch(f.t, &l);
        ds_cuda_ops.abort(f.t->device, DT_SPACE);
        ds_cuda_ops.abort(f.t->device, DT_SPACE);
        cr_assert_eq(dt_wait(f.t, token)->status, DS_CUDA_LAUNCH_FAILED);
        dt_ok(f.t, dt_copy(f.t, f.t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_FORM_COUNTS, f.blocks * 4));
        cr_assert_eq(counts[f.blocks - 1], 0, "all of it ran");
        f.loops = DT_FORM_LOOPS;
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 1);
        l.grid[0] = 50;
        f.grid[0] = 50;
        f.blocks = 300;
        dt_ok(f.t, dt_launch(f.t, &l));
        dt_form_right(&f, 1);
        dt_close(f.t);
}

/* The log describes workers that do not stop. */
Test(cuda_forms, workers_are_described, .init = setup, .timeout = 120)
{
        struct dt_forms f = dt_forms_open(&ds_cuda_ops, "0", 60);
        struct ds_launch l;
        uint64_t token;
        char text[900];

        dt_form_clear(&f, 2);
        f.loops = LONG;
        l = dt_form_launch(&f, DS_PTX_FORM_PERSISTENT, 0);
        token = dt_launch(f.t, &l);
        ds_cuda_ops.stuck(f.t->device, DT_SPACE, text, sizeof(text));
        cr_assert(strstr(text, "kernel work__ds_persistent") &&
                          strstr(text, "not told to stop, 0 of 60 blocks known") && strstr(text, "epoch 1;"),
                "%s", text);
        ds_cuda_ops.abort(f.t->device, DT_SPACE);
        ds_cuda_ops.stuck(f.t->device, DT_SPACE, text, sizeof(text));
        cr_assert(strstr(text, " told to stop and aborted"), "%s", text);
        cr_assert_eq(dt_wait(f.t, token)->status, DS_CUDA_LAUNCH_FAILED);
        dt_close(f.t);
}
