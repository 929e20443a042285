/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda device's work on the fake driver: shared images, held work, owners of printed text, and culprits of faults
 *
 * The bodies for all devices run here too; on a GPU they are in tests/gpu/device_cuda.c.
 */
#define DT_SLAB DS_MIB(16) /* clearing a larger slab would take longer than most of these tests */
#include "tests/gpu/device_common.h"
#include "tests/unit/cuda_say.h"

#include <errno.h>

#include "device/cuda/internal.h"
#include "device/cuda/staging.h"
#include "util/alloc.h"

#define OTHER_SPACE 8
#define OTHER_VA (DT_DEVICE_VA + UINT64_C(0x10000000))

/* a kernel that calls assert(n) in file f.cu, line 7, function fn */
#define PTX_INSIST                                                                                                   \
        ".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n"   \
        ".global .align 1 .b8 $str[2] = {110, 0};\n.global .align 1 .b8 $str$1[5] = {102, 46, 99, 117, 0};\n"        \
        ".global .align 1 .b8 $str$2[3] = {102, 110, 0};\n"                                                          \
        ".visible .entry insist(.param .u32 n)\n"                                                                    \
        "{\n .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %rd<7>;\n ld.param.u32 %r1, [n];\n setp.ne.u32 %p, %r1, 0;\n" \
        " @%p bra DONE;\n mov.u64 %rd1, $str; cvta.global.u64 %rd2, %rd1;\n mov.u64 %rd3, $str$1;\n"                 \
        " cvta.global.u64 %rd4, %rd3; mov.u64 %rd5, $str$2; cvta.global.u64 %rd6, %rd5;\n"                           \
        " { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;\n"                            \
        " st.param.b64 [a], %rd2; st.param.b64 [b], %rd4; st.param.b32 [c], 7; st.param.b64 [d], %rd6;\n"            \
        " st.param.b64 [e], 1; call.uni __assertfail, (a, b, c, d, e); }\nDONE:\n ret;\n}\n"

/* --- harness --- */

static void fake(void)
{
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
}

static struct dt *open_two(void)
{
        struct dt *t;
        int slab;

        fake();
        t = dt_open(&ds_cuda_ops, "0");
        cr_assert_eq(t->ops->space_add(t->device, OTHER_SPACE), 0);
        cr_assert_eq(t->ops->mem_create(t->device, DT_SLAB, &slab), 0);
        cr_assert_eq(t->ops->mem_map(t->device, OTHER_SPACE, slab, OTHER_VA, DT_SLAB), 0);
        close(slab);
        return t;
}

static uint64_t poke_in(
        struct dt *t, ds_device_module *module, uint32_t space, uint32_t stream, uint64_t p, uint32_t value)
{
        struct dt_poke_params params = {.p = p, .value = value};
        struct ds_launch l = dt_launch_of(t, module, "poke", 1, 1);

        l.stream = stream;
        l.space = space;
        l.params = &params;
        l.params_size = 12;
        return dt_launch(t, &l);
}

static uint64_t say(struct dt *t, ds_device_module *module, uint32_t space, uint32_t stream, uint32_t n)
{
        struct say_params params = {.n = n, .p = space == DT_SPACE ? DT_DEVICE_VA : OTHER_VA};
        struct ds_launch l = dt_launch_of(t, module, "say", 1, 1);

        l.stream = stream;
        l.space = space;
        l.params = &params;
        l.params_size = sizeof(params);
        return dt_launch(t, &l);
}

static uint64_t spin(struct dt *t, ds_device_module *module, uint32_t space, uint32_t stream, uint64_t deadline_ns)
{
        struct ds_launch l = dt_launch_of(t, module, "spins", 1, 32);

        l.space = space;
        l.stream = stream;
        l.deadline_ns = deadline_ns;
        return dt_launch(t, &l);
}

/* Collects the text that each of two spaces has printed so far, as one string each. */
static void take_text(struct dt *t, char text[2][1000])
{
        struct ds_device_output o;

        while (t->ops->output(t->device, &o)) {
                char *to = text[o.space == OTHER_SPACE];
                size_t length = strlen(to);

                cr_assert(o.space == DT_SPACE || o.space == OTHER_SPACE);
                cr_assert(o.size && length + o.size < 1000);
                memcpy(to + length, o.text, o.size);
                to[length + o.size] = 0;
        }
}

/* --- the bodies of all devices --- */

#define BODY(name)                                 \
        Test(cuda_work, name)                      \
        {                                          \
                fake();                            \
                dt_test_##name(&ds_cuda_ops, "0"); \
        }
BODY(memory)
BODY(copy_2d)
BODY(memset)
BODY(memory_errors)
BODY(module)
BODY(launch_errors)
BODY(saxpy)
BODY(zero_copy)
BODY(stream_order)
BODY(fences)
BODY(globals)
BODY(clock)

/* --- GPUs without stream memory operations, where events report completions --- */

#define BODY_EVENTS(name)                           \
        Test(cuda_work_events, name)                \
        {                                           \
                setenv("FAKE_CUDA_MEMOPS", "0", 1); \
                fake();                             \
                dt_test_##name(&ds_cuda_ops, "0");  \
        }
BODY_EVENTS(copy_2d)
BODY_EVENTS(saxpy)
BODY_EVENTS(stream_order)
BODY_EVENTS(fences)
BODY_EVENTS(clock)

/* --- images --- */

Test(cuda_work, an_image_is_loaded_once_for_all)
{
        struct dt *t = open_two();
        ds_device_module *mine, *others = NULL;
        struct ds_launch l;
        size_t size;
        void *image = dt_image(t, DT_PTX, &size);
        char log[1000];

        cr_assert_eq(t->ops->module_cached(t->device, image, size), 0);
        mine = dt_load(t, DT_PTX);
        cr_assert_eq(t->ops->module_cached(t->device, image, size), 1);
        cr_assert_eq(t->ops->module_cached(t->device, image, size - 1), 0);
        ((char *)image)[size / 2] ^= 1;
        cr_assert_eq(t->ops->module_cached(t->device, image, size), 0, "other bytes");
        ((char *)image)[size / 2] ^= 1;
        cr_assert_eq(t->ops->module_load(t->device, OTHER_SPACE, image, size, log, sizeof(log), &others), 0);
        cr_assert_neq(t->ops->kernel_find(mine, "null"), t->ops->kernel_find(others, "null"));
        l = dt_launch_of(t, others, "null", 1, 1);
        cr_assert_eq(t->ops->launch(t->device, &l, 1), DS_CUDA_INVALID_HANDLE, "a kernel of another space");
        mine = t->ops->module_unload(t->device, mine);
        cr_assert_null(mine);
        dt_ok(t, poke_in(t, others, OTHER_SPACE, t->stream, OTHER_VA, 1));
        t->ops->module_unload(t->device, others);
        cr_assert_eq(t->ops->put_off(t->device), 0, "it is kept");
        cr_assert_eq(t->ops->module_cached(t->device, image, size), 1);
        free(image);
        dt_close(t);
}

/* A session that brings the file of a known image gets the image without another reading. */
Test(cuda_work, an_image_is_known_by_its_file)
{
        struct dt *t = open_two();
        ds_device_module *mine, *others = NULL;
        int file = memfd_create("image", MFD_CLOEXEC), same = memfd_create("image", MFD_CLOEXEC);
        size_t size;
        void *image = dt_image(t, DT_PTX, &size);

        cr_assert_eq(write(file, image, size), (ssize_t)size);
        cr_assert_eq(write(file, "a report behind it", 18), 18);
        cr_assert_eq(write(same, image, size), (ssize_t)size);
        mine = dt_load(t, DT_PTX);
        cr_assert_eq(t->ops->module_again(t->device, OTHER_SPACE, file, size, &others), -ENOENT);
        t->ops->module_lies_in(t->device, mine, file);
        cr_assert_eq(t->ops->module_again(t->device, OTHER_SPACE, same, size, &others), -ENOENT, "another file");
        cr_assert_eq(t->ops->module_again(t->device, OTHER_SPACE, file, size - 1, &others), -ENOENT);
        cr_assert_eq(t->ops->module_again(t->device, OTHER_SPACE, -1, size, &others), -ENOENT);
        cr_assert_eq(t->ops->module_again(t->device, 12345, file, size, &others), -ENOENT, "no such space");
        mine = t->ops->module_unload(t->device, mine);
        cr_assert_eq(t->ops->module_again(t->device, OTHER_SPACE, file, size, &others), 0, "it is kept");
        dt_ok(t, poke_in(t, others, OTHER_SPACE, t->stream, OTHER_VA, 1));
        cr_assert_eq(t->ops->module_cached(t->device, image, size), 1, "by its bytes, too");
        t->ops->module_unload(t->device, others);
        close(file);
        close(same);
        free(image);
        dt_close(t);
}

static CUresult little_memory(size_t *available, size_t *total)
{
        *available = *total = DS_GIB(1);
        return CUDA_SUCCESS;
}

/* A small image may need very much device memory: it is refused before anything is loaded. */
Test(cuda_work, variables_find_room_or_the_image_is_refused)
{
        struct dt *t = open_two();
        const uint64_t va = OTHER_VA + DS_MIB(256), standard = DS_MIB(64);
        size_t size;
        void *image = dt_image(t, DT_PTX_HEADER ".visible .global .b8 big[3221225472];\n" DT_PTX_NULL, &size);
        ds_device_module *module = NULL;
        char log[1000];
        int slab;

        cr_assert_eq(t->ops->mem_create(t->device, standard, &slab), 0);
        cr_assert_eq(t->ops->mem_map(t->device, DT_SPACE, slab, va, standard), 0);
        cr_assert_eq(t->ops->mem_unmap(t->device, DT_SPACE, va, standard), 0);
        close(slab);
        for (int i = 0; i < 5000 && !t->device->n_pool; i++) {
                usleep(1000);
                cuda_memory_sweep(t->device);
        }
        cr_assert_eq(t->device->n_pool, 1);
        t->device->driver.cuMemGetInfo_fn = little_memory;
        cr_assert_eq(t->ops->module_load(t->device, DT_SPACE, image, size, log, sizeof(log), &module),
                DS_CUDA_OUT_OF_MEMORY);
        cr_assert(strstr(log, "3221225472"), "%s", log);
        cr_assert_eq(t->device->n_pool, 0, "what is kept gives way");
        free(image);
        image = dt_image(t, DT_PTX, &size);
        cr_assert_eq(t->ops->module_load(t->device, DT_SPACE, image, size, log, sizeof(log), &module), 0, "%s", log);
        free(image);
        dt_close(t);
}

Test(cuda_work, kernels_are_numbered_by_name)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX);
        const char *before = "";
        size_t n;

        for (n = 0; t->ops->kernel_at(module, n); n++) {
                const struct ds_kernel_info *info = t->ops->kernel_info(t->ops->kernel_at(module, n));

                cr_assert(strcmp(before, info->name) < 0, "%s before %s", before, info->name);
                before = info->name;
                cr_assert_eq(info->prints, 0);
                cr_assert_eq(info->binary_version, 90);
        }
        cr_assert_eq(n, 6);
        cr_assert_eq(t->ops->kernel_info(t->ops->kernel_find(module, "poke"))->params_size, 12);
        dt_close(t);
}

Test(cuda_work, instances_with_variables_are_unloaded)
{
        struct dt *t = open_two();
        ds_device_module *a = dt_load(t, DT_PTX_HEADER DT_PTX_COUNT), *b = dt_load(t, DT_PTX_HEADER DT_PTX_COUNT);
        uint64_t va, vb, size;

        cr_assert(t->ops->module_has_globals(a));
        cr_assert_eq(t->ops->global_find(a, "counter", &va, &size), 0);
        cr_assert_eq(t->ops->global_find(b, "counter", &vb, &size), 0);
        cr_assert_neq(va, vb);
        cr_assert_eq(t->ops->put_off(t->device), 0);
        t->ops->module_unload(t->device, a);
        cr_assert_eq(t->ops->put_off(t->device), 1);
        t->ops->module_unload(t->device, b);
        cr_assert_eq(t->ops->put_off(t->device), 2);
        t->ops->put_off_do(t->device);
        cr_assert_eq(t->ops->put_off(t->device), 0);
        a = dt_load(t, DT_PTX_HEADER DT_PTX_COUNT);
        t->ops->module_unload(t->device, a);
        b = dt_load(t, DT_PTX_HEADER DT_PTX_COUNT);
        cr_assert_eq(t->ops->put_off(t->device), 0, "a load stops everything anyway");
        dt_close(t);
}

Test(cuda_work, a_module_stays_while_its_kernels_run)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX_HEADER DT_PTX_COUNT);
        struct ds_launch l = dt_launch_of(t, module, "count", 1, 1);
        uint64_t out = DT_DEVICE_VA, tokens[20];

        l.params = &out;
        l.params_size = 8;
        for (int i = 0; i < 20; i++)
                tokens[i] = dt_launch(t, &l);
        t->ops->module_unload(t->device, module);
        cr_assert_eq(t->ops->put_off(t->device), 0);
        for (int i = 0; i < 20; i++)
                dt_ok(t, tokens[i]);
        cr_assert_eq(t->ops->put_off(t->device), 1);
        dt_close(t);
}

Test(cuda_work, the_cache_of_images_is_bounded)
{
        struct dt *t = open_two();
        size_t size;
        uint8_t *image = dt_image(t, DT_PTX_HEADER DT_PTX_NULL "//0000\n", &size), *digits;
        char log[1000], text[16];

        digits = memmem(image, size, "//0000", 6);
        cr_assert_not_null(digits);
        for (int i = 0; i < 4100; i++) {
                ds_device_module *module;

                snprintf(text, sizeof(text), "%04d", i);
                memcpy(digits + 2, text, 4);
                cr_assert_eq(t->ops->module_load(t->device, DT_SPACE, image, size, log, sizeof(log), &module), 0);
                t->ops->module_unload(t->device, module);
                cr_assert(t->ops->put_off(t->device) <= 1);
        }
        cr_assert_eq(t->ops->put_off(t->device), 1, "the 4097th");
        cr_assert_eq(t->ops->module_cached(t->device, image, size), 1);
        memcpy(digits + 2, "0000", 4);
        cr_assert_eq(t->ops->module_cached(t->device, image, size), 0, "the oldest went");
        free(image);
        dt_close(t);
}

/* --- text --- */

Test(cuda_work, text_belongs_to_its_kernels_session)
{
        struct dt *t = open_two();
        ds_device_module *mine = dt_load(t, DT_PTX_HEADER PTX_SAY),
                         *others = dt_load_in(t, OTHER_SPACE, DT_PTX_HEADER PTX_SAY);
        char text[2][1000] = {"", ""};
        uint64_t mine_at[10], others_at[10];

        cr_assert_eq(t->ops->kernel_info(t->ops->kernel_find(mine, "say"))->prints, 1);
        cr_assert_eq(t->ops->module_has_globals(mine), 0, "a string of the compiler's");
        for (uint32_t i = 0; i < 10; i++) {
                mine_at[i] = say(t, mine, DT_SPACE, ds_device_stream(t->rung, 1, 0), i);
                others_at[i] = say(t, others, OTHER_SPACE, ds_device_stream(t->rung, 1, 1), 100 + i);
        }
        for (uint32_t i = 0; i < 10; i++) {
                dt_ok(t, mine_at[i]);
                dt_ok(t, others_at[i]);
        }
        cr_assert(t->seen[mine_at[5]].end_ns < t->seen[others_at[9]].end_ns, "they do not take turns");
        cr_assert(t->seen[others_at[5]].end_ns < t->seen[mine_at[9]].end_ns, "they do not take turns");
        take_text(t, text);
        cr_assert_str_eq(text[0], "say 0\nsay 1\nsay 2\nsay 3\nsay 4\nsay 5\nsay 6\nsay 7\nsay 8\nsay 9\n");
        cr_assert_str_eq(
                text[1], "say 100\nsay 101\nsay 102\nsay 103\nsay 104\nsay 105\nsay 106\nsay 107\nsay 108\nsay 109\n");
        dt_close(t);
}

/* Work behind a held launch in its stream, or fenced behind it in another stream, is held with it. */
Test(cuda_work, order_holds_behind_held_work)
{
        struct dt *t = open_two();
        ds_device_module *mine = dt_load(t, DT_PTX_HEADER PTX_SAY),
                         *others = dt_load_in(t, OTHER_SPACE, DT_PTX_HEADER PTX_SAY),
                         *pokes = dt_load_in(t, OTHER_SPACE, DT_PTX);
        uint32_t a = ds_device_stream(t->rung, 1, 0), b = ds_device_stream(t->rung, 1, 1),
                 c = ds_device_stream(t->rung, 1, 2);
        char text[2][1000] = {"", ""};
        uint64_t first, held, behind, fenced;

        first = say(t, mine, DT_SPACE, a, 1);
        held = say(t, others, OTHER_SPACE, b, 2);
        behind = poke_in(t, pokes, OTHER_SPACE, b, OTHER_VA, 3);
        cr_assert_eq(t->ops->fence(t->device, b, c), 0);
        fenced = poke_in(t, pokes, OTHER_SPACE, c, OTHER_VA, 4);
        cr_assert(cuda_hold_must(cuda_stream_at(t->device, b)), "nothing was held");
        cr_assert(cuda_hold_must(cuda_stream_at(t->device, c)), "what is fenced was not held");
        cr_assert_eq(t->ops->space_remove(t->device, OTHER_SPACE), -EBUSY);
        dt_ok(t, fenced);
        dt_ok(t, held);
        dt_ok(t, behind);
        dt_ok(t, first);
        cr_assert(t->seen[first].end_ns <= t->seen[held].end_ns);
        cr_assert(t->seen[held].end_ns <= t->seen[behind].end_ns);
        cr_assert(t->seen[behind].end_ns <= t->seen[fenced].end_ns);
        take_text(t, text);
        cr_assert_str_eq(text[0], "say 1\n");
        cr_assert_str_eq(text[1], "say 2\n");
        dt_close(t);
}

Test(cuda_work, held_work_can_be_cancelled)
{
        struct dt *t = open_two();
        ds_device_module *mine = dt_load(t, DT_PTX_HEADER PTX_SAY DT_PTX_SPIN),
                         *others = dt_load_in(t, OTHER_SPACE, DT_PTX_HEADER PTX_SAY);
        uint64_t held;

        spin(t, mine, DT_SPACE, ds_device_stream(t->rung, 1, 0), 0);
        held = say(t, others, OTHER_SPACE, ds_device_stream(t->rung, 1, 1), 1);
        dt_poll(t);
        cr_assert(!t->came[held]);
        t->ops->abort(t->device, DT_SPACE);
        dt_poll(t);
        cr_assert(!t->came[held], "it was another's");
        t->ops->abort(t->device, OTHER_SPACE);
        while (!t->came[held])
                dt_poll(t);
        cr_assert_eq(t->seen[held].status, DS_CUDA_LAUNCH_FAILED);
        cr_assert(strstr(t->seen[held].message, "given up"), "%s", t->seen[held].message);
        cr_assert_eq(t->ops->space_remove(t->device, OTHER_SPACE), 0);
        dt_close(t);
}

/* --- the queue in hardware --- */

Test(cuda_work, a_stream_takes_as_much_as_wanted)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX);
        uint32_t other = ds_device_stream(t->rung, 1, 5);
        uint64_t tokens[1500], fenced;

        for (uint32_t i = 0; i < 1500; i++)
                tokens[i] = dt_poke(t, module, "step", t->stream, DT_DEVICE_VA, i);
        cr_assert(cuda_stream_at(t->device, t->stream)->n_entries < 1000, "the driver would have blocked");
        cr_assert_eq(t->ops->fence(t->device, t->stream, other), 0);
        fenced = dt_copy(t, other, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 4);
        dt_ok(t, fenced);
        for (uint32_t i = 0, want = 0; i < 1500; i++) {
                dt_ok(t, tokens[i]);
                want = want * 3 + i;
                if (i == 1499)
                        cr_assert_eq(*(uint32_t *)DT_HOST_VA, want);
        }
        dt_close(t);
}

/* --- times --- */

static void times_run(uint32_t timed)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX);
        struct dt_poke_params params = {.p = DT_DEVICE_VA, .value = 1};
        struct ds_launch l = dt_launch_of(t, module, "poke", 1, 1);
        uint64_t begin, end, last = 0;

        l.params = &params;
        l.params_size = 12;
        for (int i = 0; i < 300; i++) {
                uint64_t token;

                /* a job with a requested time may follow one without */
                l.timed = timed == 2 ? (uint32_t)i % 2 : timed;
                begin = t->ops->now(t->device);
                token = dt_launch(t, &l);
                dt_ok(t, token);
                end = t->ops->now(t->device);
                cr_assert(t->seen[token].start_ns >= begin && t->seen[token].end_ns <= end);
                cr_assert(t->seen[token].start_ns >= last);
                last = t->seen[token].end_ns;
                if (i % 100 == 0)
                        usleep(600000); /* long enough for the clock's base to be old */
        }
        dt_close(t);
}

Test(cuda_work, times_run_with_the_hosts_clock)
{
        times_run(0);
}

Test(cuda_work, requested_times_run_with_the_hosts_clock)
{
        times_run(2);
}

Test(cuda_work_events, times_run_with_the_hosts_clock)
{
        setenv("FAKE_CUDA_MEMOPS", "0", 1);
        times_run(2);
}

/*
 * Jobs whose reports may be late complete in order, each with a time not before its predecessor's. Jobs with exact
 * times have times of their own. The last job is reported although nothing follows it.
 */
Test(cuda_work, jobs_with_late_reports_complete)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX);
        struct dt_poke_params params = {.p = DT_DEVICE_VA, .value = 1};
        struct ds_launch l = dt_launch_of(t, module, "poke", 1, 1);
        uint64_t tokens[100], last = 0;
        unsigned shared = 0;

        l.params = &params;
        l.params_size = 12;
        for (size_t i = 0; i < DS_ARRAY_SIZE(tokens); i++) {
                l.tell = i % 25 == 24 ? DS_TELL_EXACT : DS_TELL_LATE;
                tokens[i] = dt_launch(t, &l);
        }
        for (size_t i = 0; i < DS_ARRAY_SIZE(tokens); i++) {
                dt_ok(t, tokens[i]);
                cr_assert(t->seen[tokens[i]].end_ns >= last);
                last = t->seen[tokens[i]].end_ns;
                shared += t->seen[tokens[i]].shared;
                if (i % 25 == 24)
                        cr_assert_not(t->seen[tokens[i]].shared, "%zu", i);
        }
        /* how many jobs share a report depends on the speed of the device */
        cr_assert(shared > 0);
        dt_close(t);
}

/* A timed job ends at the GPU's time, however late that is noticed; any other job ends when it is noticed. */
Test(cuda_work, only_timed_jobs_have_gpu_times)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX);
        struct ds_launch l = dt_launch_of(t, module, "null", 1, 1);
        uint64_t exact, rough, looked;

        exact = dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, 1);
        dt_ok(t, exact);
        l.timed = 1;
        exact = dt_launch(t, &l);
        usleep(20000);
        looked = t->ops->now(t->device);
        dt_ok(t, exact);
        cr_assert(t->seen[exact].end_ns + 10 * DS_NS_PER_MS < looked, "%lu after", (unsigned long)looked);
        l.timed = 0;
        rough = dt_launch(t, &l);
        usleep(20000);
        looked = t->ops->now(t->device);
        dt_ok(t, rough);
        cr_assert(t->seen[rough].end_ns >= looked);
        dt_close(t);
}

/* A timed and exact job has the GPU's duration, although the device noticed its predecessor's end long after it. */
Test(cuda_work, an_exact_job_has_its_own_duration)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX);
        struct ds_launch l = dt_launch_of(t, module, "null", 1, 1);
        uint64_t before, exact, took = 0;

        /* ten jobs, because a single one may be too short for the clock's resolution */
        for (int i = 0; i < 10; i++) {
                l.timed = 0;
                l.tell = DS_TELL_SOON;
                before = dt_launch(t, &l);
                l.timed = 1;
                l.tell = DS_TELL_EXACT;
                exact = dt_launch(t, &l);
                usleep(10000);
                dt_ok(t, before);
                dt_ok(t, exact);
                took += t->seen[exact].end_ns - t->seen[exact].start_ns;
        }
        cr_assert(took > 0 && took < 10 * DS_NS_PER_MS, "%lu", (unsigned long)took);
        dt_close(t);
}

/* --- lost contexts --- */

static void expect(struct dt *t, uint64_t token, int32_t status, const char *word)
{
        cr_assert(t->came[token]);
        cr_assert_eq(t->seen[token].status, status, "%d: %s", t->seen[token].status, t->seen[token].message);
        cr_assert(strstr(t->seen[token].message, word), "'%s' does not say '%s'", t->seen[token].message, word);
}

static void expect_survived(struct dt *t, ds_device_module *module)
{
        struct ds_launch l = dt_launch_of(t, module, "null", 1, 1);

        cr_assert_eq(t->ops->launch(t->device, &l, 1), DS_CUDA_LAUNCH_FAILED);
        cr_assert_eq(t->ops->fence(t->device, t->stream, ds_device_stream(t->rung, 0, 0)), 0);
        t->ops->module_unload(t->device, module);
        t->ops->put_off_do(t->device);
        cr_assert_eq(t->ops->mem_unmap(t->device, DT_SPACE, DT_DEVICE_VA, DT_SLAB), 0);
        cr_assert_eq(t->ops->space_remove(t->device, OTHER_SPACE), 0);
        dt_close(t);
}

Test(cuda_work, a_fault_is_blamed_on_its_session_only)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX);
        uint64_t bad, behind;

        /* enough copies that both launches are submitted before the first launch begins */
        for (int i = 0; i < 5; i++)
                dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, DT_SLAB);
        bad = dt_poke(t, module, "poke", t->stream, 0x1000, 1);
        behind = dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, 1);
        dt_wait_all(t);
        expect(t, bad, DS_CUDA_ILLEGAL_ADDRESS, "kernel poke, grid 1x1x1, block 1x1x1");
        expect(t, behind, DS_CUDA_ILLEGAL_ADDRESS, "poke");
        cr_assert_eq(t->ops->lost(t->device), DS_CUDA_ILLEGAL_ADDRESS);
        expect_survived(t, module);
}

/* The test composes the work in flight itself, so the verdict does not depend on time. */
Test(cuda_work, suspects_are_launches_that_had_begun)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX), *others = dt_load_in(t, OTHER_SPACE, DT_PTX);
        uint32_t a = ds_device_stream(t->rung, 1, 0), b = ds_device_stream(t->rung, 1, 1),
                 c = ds_device_stream(t->rung, 1, 2), d = ds_device_stream(t->rung, 1, 3);
        uint64_t guilty, behind, fenced, late;

        guilty = spin(t, module, DT_SPACE, a, 0);
        behind = poke_in(t, module, DT_SPACE, a, DT_DEVICE_VA, 1);
        cr_assert_eq(t->ops->fence(t->device, a, b), 0);
        fenced = poke_in(t, others, OTHER_SPACE, b, OTHER_VA, 1);
        usleep(60000);
        late = spin(t, others, OTHER_SPACE, c, 0);
        cr_assert_eq(dt_poll(t), 0);
        cuda_fault_note(t->device, CUDA_ERROR_ILLEGAL_ADDRESS);
        dt_wait_all(t);
        expect(t, guilty, DS_CUDA_ILLEGAL_ADDRESS, "kernel spins");
        expect(t, behind, DS_CUDA_LAUNCH_FAILED, "poke");
        expect(t, fenced, DS_CUDA_LAUNCH_FAILED, "another kernel");
        expect(t, late, DS_CUDA_LAUNCH_FAILED, "another kernel");
        cr_assert_null(strstr(t->seen[fenced].message, "spins"), "one session's kernel told to another");
        (void)d;
        expect_survived(t, module);
}

/* Jobs that the GPU has counted as ended before the fault was reported have succeeded, whether or not the worker had
 * polled. */
Test(cuda_work, ended_work_is_no_suspect)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX), *others = dt_load_in(t, OTHER_SPACE, DT_PTX);
        struct cuda_stream *stream = cuda_stream_at(t->device, ds_device_stream(t->rung, 1, 1));
        uint64_t guilty, good, behind;

        cr_assert_not_null(t->device->counters, "the fake driver was told that it cannot write values");
        guilty = spin(t, module, DT_SPACE, ds_device_stream(t->rung, 1, 0), 0);
        good = poke_in(t, others, OTHER_SPACE, stream->id, OTHER_VA, 1);
        behind = spin(t, others, OTHER_SPACE, stream->id, 0);
        cuda_launcher_settle(t->device, stream);
        while (cuda_counter(t->device, stream) < 1)
                cr_assert_eq(t->device->driver.cuStreamQuery_fn(stream->stream), CUDA_ERROR_NOT_READY);
        cuda_fault_note(t->device, CUDA_ERROR_ILLEGAL_ADDRESS);
        dt_wait_all(t);
        cr_assert_eq(t->seen[good].status, 0);
        cr_assert_neq(t->seen[guilty].status, 0);
        cr_assert_neq(t->seen[behind].status, 0);
        expect_survived(t, module);
}

Test(cuda_work, all_suspects_get_the_error)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX), *others = dt_load_in(t, OTHER_SPACE, DT_PTX);
        uint64_t one, two, behind;

        one = spin(t, module, DT_SPACE, ds_device_stream(t->rung, 1, 0), 0);
        two = spin(t, others, OTHER_SPACE, ds_device_stream(t->rung, 1, 1), 0);
        behind = poke_in(t, others, OTHER_SPACE, ds_device_stream(t->rung, 1, 1), OTHER_VA, 1);
        usleep(60000);
        cuda_fault_note(t->device, CUDA_ERROR_MISALIGNED_ADDRESS);
        dt_wait_all(t);
        expect(t, one, DS_CUDA_MISALIGNED_ADDRESS, "spins");
        expect(t, two, DS_CUDA_MISALIGNED_ADDRESS, "spins");
        expect(t, behind, DS_CUDA_LAUNCH_FAILED, "poke");
        expect_survived(t, module);
}

Test(cuda_work, a_deadline_ends_the_context)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX), *others = dt_load_in(t, OTHER_SPACE, DT_PTX);
        uint64_t guilty, waits, other;

        guilty = spin(t, module, DT_SPACE, ds_device_stream(t->rung, 1, 0), 200 * DS_NS_PER_MS);
        cr_assert_eq(t->ops->fence(t->device, t->stream, ds_device_stream(t->rung, 1, 1)), 0);
        /* the deadline of this launch does not run while the launch waits for the other stream */
        waits = spin(t, others, OTHER_SPACE, ds_device_stream(t->rung, 1, 1), DS_NS_PER_MS);
        other = spin(t, others, OTHER_SPACE, ds_device_stream(t->rung, 1, 2), 0);
        dt_wait_all(t);
        expect(t, guilty, DS_CUDA_LAUNCH_TIMEOUT, "deadline");
        expect(t, waits, DS_CUDA_LAUNCH_FAILED, "another kernel");
        expect(t, other, DS_CUDA_LAUNCH_FAILED, "another kernel");
        cr_assert_eq(t->ops->lost(t->device), DS_CUDA_LAUNCH_TIMEOUT);
        expect_survived(t, module);
}

/* Another session's kernel has run as long, but it is no suspect: no kernel of its module can fail an assertion. */
Test(cuda_work, an_assertions_text_goes_to_its_session)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load_in(t, OTHER_SPACE, DT_PTX_HEADER PTX_INSIST), *mine = dt_load(t, DT_PTX);
        struct ds_launch l = dt_launch_of(t, module, "insist", 1, 1);
        struct ds_device_output o;
        uint64_t bystander, good, guilty;
        uint32_t n = 1;

        bystander = spin(t, mine, DT_SPACE, ds_device_stream(t->rung, 1, 0), 0);
        l.space = OTHER_SPACE;
        l.stream = ds_device_stream(t->rung, 1, 1);
        l.params = &n;
        l.params_size = 4;
        good = dt_launch(t, &l);
        dt_ok(t, good);
        cr_assert_eq(t->ops->output(t->device, &o), 0);
        n = 0;
        guilty = dt_launch(t, &l);
        dt_wait_all(t);
        expect(t, guilty, DS_CUDA_ASSERT, "kernel insist");
        expect(t, bystander, DS_CUDA_LAUNCH_FAILED, "another kernel");
        cr_assert_eq(t->ops->output(t->device, &o), 1);
        cr_assert_eq(o.space, OTHER_SPACE);
        cr_assert_eq(o.to_stderr, 1);
        cr_assert(memmem(o.text, o.size, "f.cu:7: fn: block: [0,0,0]", 26), "%.*s", (int)o.size, o.text);
        cr_assert_eq(t->ops->output(t->device, &o), 0);
        expect_survived(t, mine);
}

Test(cuda_work, held_work_is_lost_with_the_context)
{
        struct dt *t = open_two();
        ds_device_module *mine = dt_load(t, DT_PTX_HEADER PTX_SAY DT_PTX_SPIN DT_PTX_NULL),
                         *others = dt_load_in(t, OTHER_SPACE, DT_PTX_HEADER PTX_SAY);
        uint64_t guilty, held;

        guilty = spin(t, mine, DT_SPACE, ds_device_stream(t->rung, 1, 0), 0);
        held = say(t, others, OTHER_SPACE, ds_device_stream(t->rung, 1, 1), 1);
        usleep(60000);
        cuda_fault_note(t->device, CUDA_ERROR_ILLEGAL_ADDRESS);
        dt_wait_all(t);
        expect(t, guilty, DS_CUDA_ILLEGAL_ADDRESS, "spins");
        expect(t, held, DS_CUDA_LAUNCH_FAILED, "another kernel");
        expect_survived(t, mine);
}

/* --- text that is too much --- */

static int write_slowly;

static CUresult slow_synchronize(CUstream stream)
{
        while (__atomic_load_n(&write_slowly, __ATOMIC_ACQUIRE))
                usleep(1000);
        return CUDA_SUCCESS;
}

/* The test writes the driver's output itself: as much as the buffer allows, then no more. */
Test(cuda_work, text_is_bounded_where_it_is_written)
{
        const size_t most = DS_MIB(16);
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX_HEADER PTX_SAY);
        char *much = calloc(2, most), text[2][1000] = {};
        struct ds_device_output o;

        memset(much, 'x', 2 * most);
        for (int i = 0; i < 2; i++) {
                cr_assert_eq(write(STDOUT_FILENO, much, 2 * most), (ssize_t)most);
                cr_assert_lt(write(STDOUT_FILENO, much, 1), 0);
                cr_assert_eq(errno, EPERM);
                dt_ok(t, say(t, module, DT_SPACE, t->stream, 1));
                cr_assert_eq(t->ops->output(t->device, &o), 1);
                cr_assert_eq(o.size, most);
                cr_assert(!memcmp(o.text, much, most));
                cr_assert_eq(t->ops->output(t->device, &o), 0);
                dt_ok(t, say(t, module, DT_SPACE, t->stream, 2));
                take_text(t, text);
                cr_assert_str_eq(text[0], i ? "say 2\nsay 2\n" : "say 2\n");
        }
        free(much);
        dt_close(t);
}

/* Slow output delays the completion of the kernel that printed it and nothing else; output that takes too long costs
 * the context. */
Test(cuda_work, slow_text_delays_its_own_kernel_only)
{
        struct dt *t = open_two();
        ds_device_module *mine, *others = dt_load_in(t, OTHER_SPACE, DT_PTX);
        uint32_t a = ds_device_stream(t->rung, 1, 0), b = ds_device_stream(t->rung, 1, 1);
        uint64_t prints, second, begin;

        t->device->driver.cuStreamSynchronize_fn = slow_synchronize;
        mine = dt_load(t, DT_PTX_HEADER PTX_SAY DT_PTX_NULL);
        for (int i = 0; i < 2; i++) {
                write_slowly = 1;
                prints = say(t, mine, DT_SPACE, a, 1);
                second = say(t, mine, DT_SPACE, ds_device_stream(t->rung, 1, 2), 2);
                begin = t->ops->now(t->device);
                for (int k = 0; k < 20; k++)
                        dt_ok(t, poke_in(t, others, OTHER_SPACE, b, OTHER_VA, 1));
                cr_assert(t->ops->now(t->device) - begin < 5 * DS_NS_PER_S);
                cr_assert(!t->came[prints] && !t->came[second]);
                if (i)
                        break;
                __atomic_store_n(&write_slowly, 0, __ATOMIC_RELEASE);
                dt_ok(t, prints);
                dt_ok(t, second);
        }
        dt_wait_all(t);
        cr_assert_eq(t->ops->lost(t->device), DS_CUDA_LAUNCH_TIMEOUT);
        cr_assert(t->seen[prints].status == DS_CUDA_LAUNCH_TIMEOUT || t->seen[second].status == DS_CUDA_LAUNCH_TIMEOUT);
        expect_survived(t, mine);
        __atomic_store_n(&write_slowly, 0, __ATOMIC_RELEASE);
}

/* --- freed memory ----------------- */

/* A session that is never idle releases memory once the work submitted before the free has completed. */
Test(cuda_work, a_session_that_is_never_idle_gives_memory_back)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX);
        uint64_t early, va = OTHER_VA + DT_SLAB;
        int slab, r;

        cr_assert_eq(t->ops->mem_create(t->device, DT_SLAB, &slab), 0);
        cr_assert_eq(t->ops->mem_map(t->device, DT_SPACE, slab, va, DT_SLAB), 0);
        early = poke_in(t, module, DT_SPACE, t->stream, va, 1);
        cr_assert_eq(t->ops->mem_unmap(t->device, DT_SPACE, va, DT_SLAB), 0);
        cr_assert_eq(t->ops->mem_map(t->device, OTHER_SPACE, slab, va, DT_SLAB), -EEXIST, "it may be in use");
        spin(t, module, DT_SPACE, ds_device_stream(t->rung, 1, 1), 0);
        dt_ok(t, early);
        cr_assert_null(t->device->going);
        /* releasing an address waits for all work if the test runner's own mappings lie in this TiB */
        if (t->device->blocks[va / DS_TIB(1)] == CUDA_BLOCK_REFUSED)
                goto end;
        /* the fake driver may list ended work a moment longer */
        for (int i = 0; (r = t->ops->mem_map(t->device, DT_SPACE, slab, va, DT_SLAB)) != 0 && i < 5000; i++) {
                dt_poll(t);
                usleep(1000);
        }
        cr_assert_eq(r, 0);
        cr_assert_eq(t->ops->mem_unmap(t->device, DT_SPACE, va, DT_SLAB), 0);
        dt_poll(t);
        cr_assert_not_null(t->device->going, "what spins was there before");
end:
        cuda_fault_note(t->device, CUDA_ERROR_ILLEGAL_ADDRESS);
        dt_wait_all(t);
        close(slab);
        expect_survived(t, module);
}

/* --- copies between two host buffers --- */

/* A copy behind a client's endless kernel delays only its own stream. */
Test(cuda_work, host_copies_wait_for_their_own_stream_only)
{
        struct dt *t = open_two();
        ds_device_module *module = dt_load(t, DT_PTX);
        uint32_t stuck = ds_device_stream(t->rung, 1, 0), other = ds_device_stream(t->rung, 1, 1);
        uint8_t *host = (uint8_t *)(uintptr_t)DT_HOST_VA;
        uint64_t spins, behind;

        memset(host, 7, 4096);
        spins = spin(t, module, DT_SPACE, stuck, 0);
        behind = dt_copy(t, stuck, DS_COPY_HTOH, DT_HOST_VA + 8192, DT_HOST_VA, 4096);
        dt_ok(t, dt_copy(t, other, DS_COPY_HTOH, DT_HOST_VA + 4096, DT_HOST_VA, 4096));
        cr_assert_eq(memcmp(host, host + 4096, 4096), 0);
        cr_assert(!t->seen[spins].end_ns && !t->seen[behind].end_ns);
        cuda_fault_note(t->device, CUDA_ERROR_ILLEGAL_ADDRESS);
        dt_wait_all(t);
        expect_survived(t, module);
}

/* A copy in very many pieces is not given to the driver behind work that may never end. */
Test(cuda_work, long_host_copies_wait_for_an_empty_stream)
{
        struct ds_copy copy = {.kind = DS_COPY_HTOH, .width = DS_GIB(2), .height = 1};

        cr_assert(!cuda_staging_is_long(&copy));
        copy.width = DS_GIB(3);
        cr_assert(cuda_staging_is_long(&copy));
        copy.kind = DS_COPY_HTOD;
        cr_assert(!cuda_staging_is_long(&copy), "one entry");
        copy = (struct ds_copy){.kind = DS_COPY_HTOH, .width = DS_MIB(16) + 1, .height = 100};
        copy.dst_pitch = copy.src_pitch = DS_MIB(17);
        cr_assert(cuda_staging_is_long(&copy), "two pieces a row");
        copy.width = 1;
        cr_assert(!cuda_staging_is_long(&copy));
        copy.height = 0;
        cr_assert(!cuda_staging_is_long(&copy));
}

/* --- failing allocations of the host ---- */

Test(cuda_work, every_allocation_may_fail)
{
        struct dt *t = open_two();
        size_t size;
        void *image = dt_image(t, DT_PTX_HEADER DT_PTX_COUNT, &size);
        ds_device_module *module = NULL, *first;
        struct ds_copy copy = {.stream = t->stream,
                .space = DT_SPACE,
                .kind = DS_COPY_HTOH,
                .dst = DT_HOST_VA,
                .src = DT_HOST_VA + 4096,
                .width = 4096,
                .height = 1};
        int r = -1, n;
        char log[1000];

        /* the first load allocates memory that stays */
        first = dt_load(t, DT_PTX_HEADER DT_PTX_COUNT);
        for (n = 0; r; n++) {
                ds_alloc_fail_after(n);
                r = t->ops->module_load(t->device, DT_SPACE, image, size, log, sizeof(log), &module);
                ds_alloc_fail_after(-1);
                cr_assert(!r || r == DS_CUDA_OUT_OF_MEMORY, "%d", r);
                cr_assert(!r == !!module);
        }
        cr_assert(n > 5, "only %d allocations", n);
        for (r = -1, n = 0; r; n++) {
                ds_alloc_fail_after(n);
                r = t->ops->copy(t->device, &copy, t->next_token);
                ds_alloc_fail_after(-1);
                cr_assert(!r || r == -ENOMEM || r == DS_CUDA_OUT_OF_MEMORY, "%d", r);
        }
        cr_assert(n > 1);
        dt_ok(t, dt_token(t));
        t->ops->module_unload(t->device, module);
        t->ops->module_unload(t->device, first);
        cr_assert_eq(t->ops->put_off(t->device), 2);
        free(image);
        dt_close(t);
}

/* --- a bound on resident blocks: unused shared memory of the kernel -------------- */

static __typeof__(cuLaunchKernelEx) *driver_launch;
static uint32_t asked_shared;

static CUresult note_launch(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
        asked_shared = config->sharedMemBytes;
        return driver_launch(config, f, params, extra);
}

Test(cuda_work, a_bound_on_blocks)
{
        static const struct {
                /* per_sm: expected resident blocks per SM; 0: the launch keeps the kernel's own shared memory */
                uint32_t bound, shared, cooperative, sees, per_sm;
        } rows[] = {
                {0, 0, 0, 0, 0},
                {1, 0, 0, 0, 1},
                {33, 0, 0, 0, 1},
                {132, 100, 0, 0, 1},
                {264, 0, 0, 0, 2},
                {1000, 0, 0, 0, 7},
                {132 * 16, 0, 0, 0, 16},
                {132, 120000, 0, 0, 0},
                {264, 100000, 0, 0, 0},
                {132, 0, 1, 0, 0},
                {132, 0, 0, 1, 0},
        };
        struct ds_launch l;
        struct dt *t;

        fake();
        t = dt_open(&ds_cuda_ops, "0");
        driver_launch = t->device->driver.cuLaunchKernelEx_fn;
        t->device->driver.cuLaunchKernelEx_fn = note_launch;
        l = dt_launch_of(t, dt_load(t, DT_PTX), "null", 1, 32);
        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                ((struct ds_kernel_info *)(uintptr_t)cuda_kernel_info(l.kernel))->sees_shared = rows[i].sees;
                l.max_resident_blocks = rows[i].bound;
                l.shared_bytes = rows[i].shared;
                l.cooperative = rows[i].cooperative;
                dt_ok(t, dt_launch(t, &l));
                if (rows[i].per_sm)
                        cr_assert_eq(233472 / (asked_shared + 1024), rows[i].per_sm, "row %zu: %u", i, asked_shared);
                else
                        cr_assert_eq(asked_shared, rows[i].shared, "row %zu: %u", i, asked_shared);
        }
        dt_close(t);
}
