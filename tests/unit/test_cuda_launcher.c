/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that a thread makes: order, refusals, a lost context, and when there is such a thread
 *
 * Here every launch is passed to the thread that may be passed (DETSHARE_LAUNCH_THREAD=always), on any machine.
 */
#define DT_SLAB DS_MIB(16)
#define DT_HOST DS_MIB(8)
#include "tests/gpu/device_common.h"

#include <sched.h>

#include "device/cuda/internal.h"

#define LAUNCHES 200u
#define TURNS 40u

static struct dt *open_with(const char *thread, const char *fail)
{
        struct dt *t;

        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
        setenv("DETSHARE_LAUNCH_THREAD", thread, 1);
        if (fail)
                setenv("FAKE_CUDA_FAIL", fail, 1);
        t = dt_open(&ds_cuda_ops, "0");
        unsetenv("FAKE_CUDA_FAIL");
        return t;
}

static uint64_t poke(struct dt *t, ds_device_module *module, uint32_t stream, uint64_t p, uint32_t value)
{
        struct dt_poke_params params = {.p = p, .value = value};
        struct ds_launch l = dt_launch_of(t, module, "poke", 1, 1);

        l.stream = stream;
        l.params = &params; /* on the stack: the parameters are copied */
        l.params_size = 12;
        l.tell = DS_TELL_LATE;
        return dt_launch(t, &l);
}

static uint32_t word_at(struct dt *t, uint32_t index)
{
        uint32_t *host = (void *)(uintptr_t)DT_HOST_VA;

        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA + index * 4, 4));
        return *host;
}

/* Launches, memsets and copies of one stream take effect in their order, although only launches are passed. */
Test(cuda_launcher, the_order_of_a_stream_stays)
{
        struct dt *t = open_with("always", NULL);
        ds_device_module *module = dt_load(t, DT_PTX);
        struct ds_memset set = {.space = DT_SPACE, .stream = t->stream, .element_size = 4, .width = 1, .height = 1};
        uint32_t *host = (void *)(uintptr_t)DT_HOST_VA;
        uint64_t token;

        cr_assert_not_null(t->device->launcher);
        for (uint32_t i = 0; i < TURNS; i++) {
                set.dst = DT_DEVICE_VA + 4;
                set.value = i;
                poke(t, module, t->stream, DT_DEVICE_VA, i);
                poke(t, module, t->stream, DT_DEVICE_VA + 4, 1000);
                token = dt_token(t);
                cr_assert_eq(t->ops->memset(t->device, &set, token), 0);
                poke(t, module, t->stream, DT_DEVICE_VA, i + 1);
                dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA + i * 8, DT_DEVICE_VA, 8);
                poke(t, module, t->stream, DT_DEVICE_VA, 0);
        }
        dt_wait_all(t);
        for (uint32_t i = 0; i < TURNS; i++) {
                cr_assert_eq(host[2 * i], i + 1, "turn %u: %u", i, host[2 * i]);
                cr_assert_eq(host[2 * i + 1], i, "turn %u: %u", i, host[2 * i + 1]);
        }
        dt_close(t);
}

/* More launches than the ring holds all complete, each once and in order. */
Test(cuda_launcher, a_full_ring_loses_nothing)
{
        struct dt *t = open_with("always", NULL);
        ds_device_module *module = dt_load(t, DT_PTX);
        uint64_t tokens[LAUNCHES], last = 0;

        for (uint32_t i = 0; i < LAUNCHES; i++)
                tokens[i] = poke(t, module, t->stream, DT_DEVICE_VA + i * 4, i);
        for (uint32_t i = 0; i < LAUNCHES; i++) {
                dt_ok(t, tokens[i]);
                cr_assert(t->seen[tokens[i]].end_ns >= last);
                last = t->seen[tokens[i]].end_ns;
        }
        for (uint32_t i = 0; i < LAUNCHES; i++)
                cr_assert_eq(word_at(t, i), i);
        dt_close(t);
}

/* The work of another stream that a stream waits for has been launched before. */
Test(cuda_launcher, fences_wait_for_passed_launches)
{
        struct dt *t = open_with("always", NULL);
        ds_device_module *module = dt_load(t, DT_PTX);
        uint32_t a = ds_device_stream(t->rung, 1, 0), b = ds_device_stream(t->rung, 1, 1);

        for (uint32_t i = 0; i < TURNS; i++) {
                poke(t, module, a, DT_DEVICE_VA, 2 * i);
                cr_assert_eq(t->ops->fence(t->device, a, b), 0);
                poke(t, module, b, DT_DEVICE_VA, 2 * i + 1);
                cr_assert_eq(t->ops->fence(t->device, b, a), 0);
        }
        dt_wait_all(t);
        cr_assert_eq(word_at(t, 0), 2 * TURNS - 1);
        dt_close(t);
}

/* A launch that the driver refuses ends with its error, in its place; the others run. */
Test(cuda_launcher, a_refusal_is_the_result_of_its_job)
{
        struct dt *t = open_with("always", "cuLaunchKernelEx:5:701");
        ds_device_module *module = dt_load(t, DT_PTX);
        uint64_t tokens[10];

        for (uint32_t i = 0; i < 10; i++)
                tokens[i] = poke(t, module, t->stream, DT_DEVICE_VA + i * 4, i + 1);
        dt_wait_all(t);
        for (uint32_t i = 0; i < 10; i++) {
                cr_assert_eq(t->seen[tokens[i]].status, i == 4 ? DS_CUDA_LAUNCH_OUT_OF_RESOURCES : 0, "%u: %d", i,
                        t->seen[tokens[i]].status);
                cr_assert(i == 0 || t->seen[tokens[i]].end_ns >= t->seen[tokens[i - 1]].end_ns);
                if (i != 4)
                        cr_assert_eq(word_at(t, i), i + 1);
        }
        cr_assert_eq(t->ops->lost(t->device), 0);
        dt_close(t);
}

/* A job's end is reported also if the driver refused the report that was requested first. */
Test(cuda_launcher, a_refused_report_is_requested_again, .timeout = 60)
{
        struct dt *t = open_with("always", "cuStreamWriteValue64:2:1");
        ds_device_module *module = dt_load(t, DT_PTX);
        uint64_t tokens[23];

        for (uint32_t i = 0; i < 23; i++) {
                tokens[i] = poke(t, module, t->stream, DT_DEVICE_VA + i * 4, i);
                usleep(20);
        }
        for (uint32_t i = 0; i < 23; i++)
                dt_ok(t, tokens[i]);
        for (uint32_t i = 0; i < 23; i++)
                cr_assert_eq(word_at(t, i), i);
        dt_close(t);
}

/* A launch that meets a lost context: everything in flight completes with an error, and the device says so. */
Test(cuda_launcher, a_lost_context_is_noticed)
{
        struct dt *t = open_with("always", "cuLaunchKernelEx:5:700");
        ds_device_module *module = dt_load(t, DT_PTX);
        struct dt_poke_params params = {.p = DT_DEVICE_VA, .value = 1};
        struct ds_launch l = dt_launch_of(t, module, "poke", 1, 1);
        uint32_t n = 0, bad = 0, before = 0, came = 0;

        l.params = &params;
        l.params_size = 12;
        l.tell = DS_TELL_LATE;
        for (uint32_t i = 0; i < DT_TOKENS; i++)
                before += t->came[i] != 0;
        for (; n < 40 && !t->ops->launch(t->device, &l, dt_token(t)); n++)
                ;
        while (!t->ops->lost(t->device))
                dt_poll(t);
        for (uint32_t i = 0; i < 1000; i++)
                dt_poll(t);
        for (uint32_t i = 0; i < DT_TOKENS; i++) {
                came += t->came[i] != 0;
                bad += t->came[i] && t->seen[i].status != 0;
        }
        cr_assert(n >= 5 && bad >= 1, "%u launches, %u failed", n, bad);
        cr_assert_eq(came - before, n, "%u launches, %u completions", n, came - before);
        cr_assert_eq(t->ops->lost(t->device), CUDA_ERROR_ILLEGAL_ADDRESS);
        dt_close(t);
}

/* With few processors, or with DETSHARE_LAUNCH_THREAD=never, the device has no thread. */
Test(cuda_launcher, there_is_a_thread_where_processors_are_left)
{
        cpu_set_t one;
        struct dt *t = open_with("never", NULL);

        cr_assert_null(t->device->launcher);
        dt_close(t);
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
        t = open_with("auto", NULL);
        cr_assert_null(t->device->launcher);
        dt_close(t);
        t = open_with("always", NULL);
        cr_assert_not_null(t->device->launcher);
        dt_close(t);
}

/* A pause longer than the thread polls: it sleeps and is woken, time and again. */
Test(cuda_launcher, a_sleeping_thread_is_woken)
{
        struct dt *t = open_with("always", NULL);
        ds_device_module *module = dt_load(t, DT_PTX);

        for (uint32_t i = 0; i < TURNS; i++) {
                dt_ok(t, poke(t, module, t->stream, DT_DEVICE_VA, i));
                cr_assert_eq(word_at(t, 0), i);
                usleep(i % 4 * 100);
        }
        dt_close(t);
}
