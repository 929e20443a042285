/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of loading code on the fake driver, which aborts if a call that stops a GPU is made beside a kernel
 */
#define DT_SLAB DS_MIB(16) /* clearing a larger slab would take longer than most of these tests */
#define DT_HOST DS_MIB(8)  /* number of kernels: more than the device loads together with their module */
#include "tests/gpu/device_common.h"

#include <errno.h>

#include "device/cuda/internal.h"
#include "tests/unit/rounds.h"

#define MANY 40 /* kernels; more than load together with their module */

static struct dt *open_strict(const char *fail)
{
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_PTXAS, 1);
        setenv("FAKE_CUDA_STRICT", "1", 1);
        if (fail)
                setenv("FAKE_CUDA_FAIL", fail, 1);
        return dt_open(&ds_cuda_ops, "0");
}

static char *many_kernels(void)
{
        static char text[sizeof(DT_PTX_HEADER) + MANY * 200];
        size_t used = (size_t)snprintf(text, sizeof(text), "%s", DT_PTX_HEADER);

        for (int i = 0; i < MANY; i++)
                used += (size_t)snprintf(text + used, sizeof(text) - used,
                        ".visible .entry k%02d(.param .u64 p)\n{\n .reg .b64 %%rd; .reg .b32 %%r;\n"
                        " ld.param.u64 %%rd, [p]; mov.u32 %%r, %d; st.u32 [%%rd], %%r; ret;\n}\n",
                        i, i + 100);
        cr_assert_lt(used, sizeof(text));
        return text;
}

struct file {
        int fd;
        void *image;
        size_t size;
};

static struct file file_of(struct dt *t, const char *ptx)
{
        struct file file = {.fd = memfd_create("image", MFD_CLOEXEC)};

        file.image = dt_image(t, ptx, &file.size);
        cr_assert_eq(write(file.fd, file.image, file.size), (ssize_t)file.size);
        return file;
}

static void file_close(struct file *file)
{
        close(file->fd);
        free(file->image);
}

static ds_device_module *load(struct dt *t, const struct file *file)
{
        ds_device_module *module = NULL;
        char log[1000];

        cr_assert_eq(t->ops->module_load(t->device, DT_SPACE, file->image, file->size, log, sizeof(log), &module), 0,
                "%s", log);
        t->ops->module_lies_in(t->device, module, file->fd);
        return module;
}

/* Waits until the loader thread has prepared the file. */
static void prepare(struct dt *t, const struct file *file)
{
        uint64_t before = t->ops->module_prepared(t->device);

        cr_assert_eq(t->ops->module_prepare(t->device, file->fd, file->size), 0);
        for (int i = 0; i < 20000 && t->ops->module_prepared(t->device) == before; i++)
                usleep(500);
        cr_assert_eq(t->ops->module_prepared(t->device), before + 1);
        cr_assert_eq(t->ops->module_prepare(t->device, file->fd, file->size), 1);
}

static uint32_t run(struct dt *t, ds_device_module *module, const char *name)
{
        struct ds_launch l = dt_launch_of(t, module, name, 1, 1);
        uint64_t p = DT_DEVICE_VA;

        l.params = &p;
        l.params_size = 8;
        dt_ok(t, dt_launch(t, &l));
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 4));
        return *(const uint32_t *)(uintptr_t)DT_HOST_VA;
}

/* The loader thread reads an image while a kernel runs: reading does not stop the GPU and does not load code yet. */
Test(cuda_load, reading_runs_beside_kernels, .timeout = 60)
{
        struct dt *t = open_strict(NULL);
        struct file file = file_of(t, many_kernels()), same = file_of(t, many_kernels());
        ds_device_module *spins = dt_load(t, DT_PTX), *again = NULL;
        struct ds_launch l = dt_launch_of(t, spins, "spins", 1, 32);
        uint64_t token;

        l.deadline_ns = DS_NS_PER_S;
        token = dt_launch(t, &l);
        prepare(t, &file);
        cr_assert_eq(t->ops->module_cached(t->device, file.image, file.size), 0);
        cr_assert_eq(t->ops->module_again(t->device, DT_SPACE, file.fd, file.size, &again), -ENOENT);
        cr_assert_eq(t->ops->module_prepare(t->device, same.fd, same.size), 1, "the same bytes");
        cr_assert_neq(dt_wait(t, token)->status, 0, "it ran into its deadline");
        dt_close(t);
        file_close(&file);
        file_close(&same);
}

/* A prepared image is loaded once for all sessions. */
Test(cuda_load, a_prepared_image_is_loaded_once, .timeout = 60)
{
        struct dt *t = open_strict(NULL);
        struct file file = file_of(t, many_kernels());
        ds_device_module *module, *again = NULL;

        prepare(t, &file);
        module = load(t, &file);
        cr_assert_eq(t->ops->module_cached(t->device, file.image, file.size), 1);
        cr_assert_eq(t->ops->module_again(t->device, DT_SPACE, file.fd, file.size, &again), 0);
        cr_assert_eq(t->ops->kernel_load(t->device, t->ops->kernel_find(module, "k07")), 0);
        cr_assert(t->ops->kernel_loaded(t->ops->kernel_find(again, "k07")), "one image");
        cr_assert_eq(run(t, again, "k07"), 107);
        dt_close(t);
        file_close(&file);
}

/* Kernels of a large module are known by name only, until a program looks them up. */
Test(cuda_load, kernels_one_by_one, .timeout = 60)
{
        struct dt *t = open_strict(NULL);
        struct file file = file_of(t, many_kernels());
        ds_device_module *module = load(t, &file), *small = dt_load(t, DT_PTX);
        const ds_device_kernel *kernel;
        struct ds_launch l;
        size_t n;

        for (n = 0; (kernel = t->ops->kernel_at(module, n)); n++) {
                cr_assert(!t->ops->kernel_loaded(kernel));
                cr_assert_eq(strncmp(t->ops->kernel_info(kernel)->name, "k", 1), 0);
        }
        cr_assert_eq(n, MANY);
        cr_assert(t->ops->kernel_loaded(t->ops->kernel_find(small, "null")));
        kernel = t->ops->kernel_find(module, "k39");
        l = dt_launch_of(t, module, "k39", 1, 1);
        cr_assert_eq(t->ops->launch(t->device, &l, 1), DS_CUDA_INVALID_HANDLE, "not loaded");
        cr_assert_eq(t->ops->kernel_load(t->device, kernel), 0);
        cr_assert_eq(t->ops->kernel_load(t->device, kernel), 0, "a second time");
        cr_assert_eq(t->ops->kernel_info(kernel)->params_size, 8);
        cr_assert_eq(run(t, module, "k39"), 139);
        cr_assert(!t->ops->kernel_loaded(t->ops->kernel_find(module, "k38")));
        dt_close(t);
        file_close(&file);
}

/* A failure is reported to the session that loads, not to the one that prepared, and the next attempt reads again. */
Test(cuda_load, reading_fails, .timeout = 60)
{
        struct dt *t = open_strict("cuLibraryLoadData:2:2,cuKernelGetName:1:999");
        struct file file = file_of(t, many_kernels());
        ds_device_module *module;

        prepare(t, &file); /* fails when it reads the names (cuKernelGetName) */
        prepare(t, &file); /* fails for lack of memory (cuLibraryLoadData) */
        cr_assert_eq(t->ops->put_off(t->device), 2);
        module = load(t, &file);
        cr_assert_eq(t->ops->put_off(t->device), 0);
        cr_assert_eq(t->ops->kernel_load(t->device, t->ops->kernel_find(module, "k00")), 0);
        cr_assert_eq(run(t, module, "k00"), 100);
        dt_close(t);
        file_close(&file);
}

/* The driver refuses the code or one of its kernels: a later attempt may succeed. */
Test(cuda_load, the_rest_fails, .timeout = 60)
{
        struct dt *t = open_strict("cuLibraryGetModule:1:2,cuKernelGetFunction:1:2");
        struct file file = file_of(t, many_kernels());
        ds_device_module *module = NULL;
        const ds_device_kernel *kernel;
        char log[1000];

        prepare(t, &file);
        cr_assert_eq(t->ops->module_load(t->device, DT_SPACE, file.image, file.size, log, sizeof(log), &module),
                DS_CUDA_OUT_OF_MEMORY);
        cr_assert(strstr(log, "code"), "%s", log);
        cr_assert_eq(t->ops->module_cached(t->device, file.image, file.size), 0);
        module = load(t, &file);
        kernel = t->ops->kernel_find(module, "k01");
        cr_assert_eq(t->ops->kernel_load(t->device, kernel), DS_CUDA_OUT_OF_MEMORY);
        cr_assert(!t->ops->kernel_loaded(kernel));
        cr_assert_eq(t->ops->kernel_load(t->device, kernel), 0);
        cr_assert_eq(run(t, module, "k01"), 101);
        dt_close(t);
        file_close(&file);
}

/* A module with variables belongs to its loader alone; a prepared one that nobody loads is evicted. */
Test(cuda_load, variables, .timeout = 60)
{
        struct dt *t = open_strict(NULL);
        struct file file = file_of(t, DT_PTX_HEADER DT_PTX_COUNT);
        ds_device_module *a, *b;
        uint64_t va, vb, size;

        prepare(t, &file);
        a = load(t, &file);
        prepare(t, &file); /* the first instance belongs to `a`, so the second loader needs another one */
        b = load(t, &file);
        cr_assert_eq(t->ops->module_cached(t->device, file.image, file.size), 0);
        cr_assert_eq(t->ops->global_find(a, "counter", &va, &size), 0);
        cr_assert_eq(t->ops->global_find(b, "counter", &vb, &size), 0);
        cr_assert_neq(va, vb);
        t->ops->module_unload(t->device, a);
        cr_assert_eq(t->ops->put_off(t->device), 1);
        file_close(&file);
        for (int i = 0; i < 70; i++) {
                char ptx[4096];

                snprintf(ptx, sizeof(ptx), "%s//%d\n", DT_PTX_HEADER DT_PTX_COUNT, i);
                file = file_of(t, ptx);
                prepare(t, &file);
                file_close(&file);
        }
        cr_assert_eq(t->ops->put_off(t->device), 1 + 70 - 64);
        dt_close(t);
}

/* Nothing is prepared for a file that is no image, and nothing if the driver loads kernels eagerly. */
Test(cuda_load, nothing_to_prepare, .timeout = 60)
{
        struct dt *t = open_strict(NULL);
        struct file file = file_of(t, DT_PTX);
        int text = memfd_create("text", MFD_CLOEXEC);

        cr_assert_eq(write(text, "text", 4), 4);
        cr_assert_eq(t->ops->module_prepare(t->device, text, 4), 1);
        cr_assert_eq(t->ops->module_prepare(t->device, text, 4096), 1, "a shorter file");
        cr_assert_eq(t->ops->module_prepare(t->device, -1, 4096), 1);
        cr_assert_eq(t->ops->module_prepared(t->device), 0);
        dt_close(t);
        setenv("CUDA_MODULE_LOADING", "EAGER", 1);
        t = open_strict(NULL);
        cr_assert_eq(t->ops->module_prepare(t->device, file.fd, file.size), 1);
        load(t, &file);
        dt_close(t);
        close(text);
        file_close(&file);
}

/* The device closes while the loader thread is at any step of its work; a short run tries one of three steps, and
 * other ones in each run. */
Test(cuda_load, closing, .timeout = 60)
{
        const int64_t step = rounds_step(3);

        for (int64_t i = getpid() % step; i < 20; i += step) {
                struct dt *t = open_strict(NULL);
                struct file files[3];

                for (int k = 0; k < 3; k++) {
                        char ptx[4096];

                        snprintf(ptx, sizeof(ptx), "%s//%d\n", DT_PTX, k);
                        files[k] = file_of(t, ptx);
                        cr_assert_eq(t->ops->module_prepare(t->device, files[k].fd, files[k].size), 0);
                        file_close(&files[k]);
                }
                usleep((useconds_t)i * 100);
                dt_close(t);
        }
}
