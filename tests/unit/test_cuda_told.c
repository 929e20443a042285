/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda device on the fake driver reports every job, also a stream's last job that the GPU never gets or whose
 * completion may be reported late
 *
 * When a session ends, its held work is cancelled. It stays in its stream as a job that the GPU does not know. The next
 * job may be a launch whose completion may be reported late. If nothing follows that launch, the device must report it
 * all the same, because its session may be gone, or a caller may wait until the device is idle.
 */
#define DT_SLAB DS_MIB(16)
#define DT_HOST DS_MIB(8)
#include "tests/gpu/device_common.h"
#include "tests/unit/cuda_say.h"

#include <time.h>

#include "device/cuda/internal.h"

#define SPACES 3u
#define STREAMS 4u
#define ROUNDS 60u
#define SOON_ENOUGH_S 60 /* enough for the slowest machine; a lost completion would never arrive */

struct told {
        struct dt *t;
        ds_device_module *pokes[SPACES], *says[SPACES];
        uint64_t seed;
};

static uint64_t va_of(uint32_t space)
{
        return DT_DEVICE_VA + space * UINT64_C(0x10000000);
}

static uint32_t told_random(struct told *f, uint32_t below)
{
        f->seed = f->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t)(f->seed >> 33) % below;
}

static struct told told_open(void)
{
        struct told f = {.seed = 1};
        int slab;

        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
        f.t = dt_open(&ds_cuda_ops, "0");
        for (uint32_t i = 0; i < SPACES; i++) {
                if (i) {
                        cr_assert_eq(f.t->ops->space_add(f.t->device, DT_SPACE + i), 0);
                        cr_assert_eq(f.t->ops->mem_create(f.t->device, DT_SLAB, &slab), 0);
                        cr_assert_eq(f.t->ops->mem_map(f.t->device, DT_SPACE + i, slab, va_of(i), DT_SLAB), 0);
                        close(slab);
                }
                f.pokes[i] = dt_load_in(f.t, DT_SPACE + i, DT_PTX);
                f.says[i] = dt_load_in(f.t, DT_SPACE + i, DT_PTX_HEADER PTX_SAY);
        }
        return f;
}

static uint64_t poke(struct told *f, uint32_t space, uint32_t stream, enum ds_tell tell)
{
        struct dt_poke_params params = {.p = va_of(space), .value = 1};
        struct ds_launch l = dt_launch_of(f->t, f->pokes[space], "poke", 1, 1);

        l.space = DT_SPACE + space;
        l.stream = ds_device_stream(f->t->rung, 1, stream);
        l.params = &params;
        l.params_size = 12;
        l.tell = tell;
        l.timed = tell == DS_TELL_EXACT;
        return dt_launch(f->t, &l);
}

static uint64_t say(struct told *f, uint32_t space, uint32_t stream)
{
        struct say_params params = {.n = 1, .p = va_of(space)};
        struct ds_launch l = dt_launch_of(f->t, f->says[space], "say", 1, 1);

        l.space = DT_SPACE + space;
        l.stream = ds_device_stream(f->t->rung, 1, stream);
        l.params = &params;
        l.params_size = sizeof(params);
        return dt_launch(f->t, &l);
}

/* Waits until everything submitted has completed; submits nothing meanwhile. */
static void all_come(struct told *f)
{
        struct timespec now, nap = {.tv_nsec = 100000};
        struct ds_device_output text;
        time_t until;

        clock_gettime(CLOCK_MONOTONIC, &now);
        until = now.tv_sec + SOON_ENOUGH_S;
        while (f->t->n_seen < f->t->next_token - 1 && now.tv_sec < until) {
                if (!dt_poll(f->t))
                        nanosleep(&nap, NULL);
                while (f->t->ops->output(f->t->device, &text))
                        continue;
                clock_gettime(CLOCK_MONOTONIC, &now);
        }
        for (uint64_t token = 1; token < f->t->next_token; token++)
                cr_assert(f->t->came[token], "job %llu of %llu was never told of", (unsigned long long)token,
                        (unsigned long long)f->t->next_token - 1);
}

/* A launch with a late report follows directly after a cancelled one, with nothing behind it. */
Test(cuda_told, a_late_report_behind_a_cancelled_job, .timeout = 120)
{
        struct told f = told_open();
        uint64_t held, late;

        say(&f, 0, 0);
        held = say(&f, 1, 1);
        cr_assert(cuda_hold_must(cuda_stream_at(f.t->device, ds_device_stream(f.t->rung, 1, 1))), "it was not held");
        f.t->ops->abort(f.t->device, DT_SPACE + 1);
        while (!f.t->came[held])
                dt_poll(f.t);
        cr_assert_eq(f.t->seen[held].status, DS_CUDA_LAUNCH_FAILED);
        late = poke(&f, 2, 1, DS_TELL_LATE);
        all_come(&f);
        cr_assert_eq(f.t->seen[late].status, 0);
        dt_close(f.t);
}

static void round_of_work(struct told *f)
{
        uint32_t n = 4 + told_random(f, 30), space, stream, other;

        for (uint32_t i = 0; i < n; i++) {
                space = told_random(f, SPACES);
                stream = told_random(f, STREAMS);
                switch (told_random(f, 8)) {
                case 0:
                case 1:
                        say(f, space, stream);
                        break;
                case 2:
                        f->t->ops->abort(f->t->device, DT_SPACE + space);
                        break;
                case 3:
                        other = told_random(f, STREAMS);
                        cr_assert_eq(f->t->ops->fence(f->t->device, ds_device_stream(f->t->rung, 1, stream),
                                             ds_device_stream(f->t->rung, 1, other)),
                                0);
                        break;
                case 4:
                        dt_poll(f->t);
                        break;
                default:
                        poke(f, space, stream, told_random(f, 4) ? DS_TELL_LATE : (enum ds_tell)told_random(f, 2));
                        break;
                }
        }
        f->t->ops->abort(f->t->device, DT_SPACE + told_random(f, SPACES));
}

/* Sessions submit, hold, cancel and fence in random order: everything completes once they stop. */
Test(cuda_told, every_submitted_job_completes, .timeout = 240)
{
        struct told f = told_open();

        for (uint32_t i = 0; i < ROUNDS; i++) {
                round_of_work(&f);
                all_come(&f);
        }
        dt_close(f.t);
}

/* For work that does not end the log names the work, its place and its session. */
Test(cuda_told, endless_work_is_described, .timeout = 120)
{
        struct told f = told_open();
        struct ds_launch l = dt_launch_of(f.t, f.pokes[0], "spins", 1, 32);
        char text[900];

        f.t->ops->stuck(f.t->device, DT_SPACE, text, sizeof(text));
        cr_assert_str_empty(text);
        l.stream = ds_device_stream(f.t->rung, 1, 0);
        dt_launch(f.t, &l);
        for (int i = 0; i < 4; i++)
                poke(&f, 0, 0, DS_TELL_LATE);
        poke(&f, 1, 0, DS_TELL_LATE);
        f.t->ops->stuck(f.t->device, DT_SPACE, text, sizeof(text));
        cr_assert(strstr(text, "kernel spins, grid 1x1x1, block 32x1x1: given, first, "), "%s", text);
        cr_assert(strstr(text, "number 1, the GPU is at 0, asked to say 1, told of 1, has 6; kernel poke"), "%s", text);
        cr_assert(strstr(text, "; and 2 more"), "%s", text);
        f.t->ops->stuck(f.t->device, DT_SPACE + 1, text, sizeof(text));
        cr_assert(strstr(text, "number 6") && !strstr(text, "spins"), "%s", text);
        f.t->ops->stuck(f.t->device, DT_SPACE, text, 20);
        cr_assert_eq(strlen(text), 19);
        dt_close(f.t);
}
