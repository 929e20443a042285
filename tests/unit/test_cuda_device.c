/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda device through the device vtable, on the fake driver
 *
 * The test bodies also run on a real GPU (tests/gpu/device_common.h). Then come cases that need a driver that can be
 * made to fail. The fake driver aborts if a call that stops the context is made while work is in flight.
 */
#define DT_SLAB DS_MIB(16) /* clearing a larger slab would take longer than most of these tests */
#include "tests/gpu/device_common.h"
#include "tests/gpu/device_hopper.h"
#include "tests/gpu/device_rungs.h"

#include <sys/socket.h>
#include <sys/wait.h>

#include "device/cuda/cuda.h"
#include "tests/support/fake_cuda/cubin.h"
#include "tests/unit/rounds.h"

static void setup(void)
{
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
        setenv("PTXAS", TEST_FAKE_PTXAS, 1);
}

#define SHARED(body, name)                                    \
        Test(cuda_device, name, .init = setup, .timeout = 60) \
        {                                                     \
                body(&ds_cuda_ops, "0");                      \
        }

SHARED(dt_test_info, info)
SHARED(dt_test_rungs, rungs)
SHARED(dt_test_spaces, spaces)
SHARED(dt_test_memory, memory)
SHARED(dt_test_copy_2d, copy_2d)
SHARED(dt_test_memset, memset)
SHARED(dt_test_memory_errors, memory_errors)
SHARED(dt_test_slab_survives, slab_survives)
SHARED(dt_test_module, module)
SHARED(dt_test_kernel_facts, kernel_facts)
SHARED(dt_test_kernel_hash, kernel_hash)
SHARED(dt_test_launch_errors, launch_errors)
SHARED(dt_test_saxpy, saxpy)
SHARED(dt_test_zero_copy, zero_copy)
SHARED(dt_test_stream_order, stream_order)
SHARED(dt_test_fences, fences)
SHARED(dt_test_globals, globals)
SHARED(dt_test_clock, clock)
SHARED(dt_test_unmap_under_work, unmap_under_work)
SHARED(dt_test_clusters, no_clusters)
SHARED(dt_test_tensor_maps, tensor_maps)
SHARED(dt_test_groups, no_groups)

static void setup_clusters(void)
{
        setup();
        setenv("FAKE_CUDA_CLUSTERS", "1", 1);
        setenv("DETSHARE_RESTARTED", "1", 1); /* skips the search for GPCs, which is slow on the fake driver */
}

Test(cuda_device, clusters, .init = setup_clusters, .timeout = 60)
{
        dt_test_clusters(&ds_cuda_ops, "0");
}

Test(cuda_device, groups, .init = setup_clusters, .timeout = 60)
{
        dt_test_groups(&ds_cuda_ops, "0");
}

Test(cuda_device, ladder, .init = setup_clusters, .timeout = 60)
{
        dt_test_ladder(&ds_cuda_ops, "0");
}

/* A replacement worker receives the list of GPCs that its predecessor found. The test passes it by hand, because the
 * fake driver's kernels cannot see on which SM they run. */
Test(cuda_device, gpcs_from_the_previous_worker, .init = setup_clusters, .timeout = 60)
{
        char told[DS_DEVICE_TOPOLOGY_MAX], again[DS_DEVICE_TOPOLOGY_MAX];
        const char *rest;
        const struct ds_device_ops *sim = ds_device_find("sim:h200", &rest);
        const struct ds_device_info *is, *found;
        ds_device *model, *device;

        cr_assert_eq(sim->open(rest, &model), 0);
        is = sim->info(model);
        ds_device_topology_write(is, told);
        setenv("DETSHARE_TOPOLOGY", told, 1);
        cr_assert_eq(ds_cuda_ops.open("0", &device), 0);
        found = ds_cuda_ops.info(device);
        cr_assert(found->n_gpcs == 8 && found->n_groups == 16 && found->group_clusters == 16);
        cr_assert_arr_eq(found->gpc_of_tpc, is->gpc_of_tpc, is->n_tpcs);
        cr_assert_arr_eq(found->group, is->group, sizeof(is->group));
        cr_assert_arr_eq(found->group_sms, is->group_sms, sizeof(is->group_sms));
        ds_device_topology_write(found, again);
        cr_assert_str_eq(again, told);
        ds_cuda_ops.close(device);
        dt_test_groups(&ds_cuda_ops, "0");
        dt_test_ladder(&ds_cuda_ops, "0");
        /* the worker refuses a list of GPCs that belongs to another GPU or makes no sense */
        for (int i = 0; i < 3; i++) {
                static const char *const last[] = {"", "0g", "0000"};

                strcpy(again + strlen(told) - 2, last[i]);
                setenv("DETSHARE_TOPOLOGY", again, 1);
                cr_assert_eq(ds_cuda_ops.open("0", &device), 0);
                cr_assert_eq(ds_cuda_ops.info(device)->n_gpcs, 0);
                ds_cuda_ops.close(device);
        }
        sim->close(model);
}

/* --- the second context, of settle.h ----------------------------------------------------------------------------- */

static int calls_count(const char *path, const char *call)
{
        FILE *calls = fopen(path, "r");
        char line[100];
        int n = 0;

        while (calls && fgets(line, sizeof(line), calls))
                n += !strncmp(line, call, strlen(call));
        if (calls)
                fclose(calls);
        return n;
}

static int calls_await(const char *path, const char *call, int n)
{
        for (int i = 0; calls_count(path, call) < n && i < 20000; i++)
                usleep(1000);
        return calls_count(path, call);
}

/* Starts the settle process as the supervisor does, with `said` in its pipe. Returns its pid; its exit status is
 * positive and names its message. */
static pid_t settle_fork(const char *spec, const char *said, int *ret_fd)
{
        int fds[2];
        pid_t pid;

        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        cr_assert_eq(write(fds[0], said, strlen(said)), (ssize_t)strlen(said));
        pid = fork();
        if (!pid) {
                close(fds[0]);
                _exit(-ds_cuda_ops.settle(spec, fds[1]));
        }
        close(fds[1]);
        *ret_fd = fds[0];
        return pid;
}

static int settle_end(pid_t pid, int fd)
{
        int status;

        close(fd);
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Each message to the settle process causes one switch of contexts; without messages there is no switch. */
Test(cuda_device, settle, .init = setup, .timeout = 60)
{
        char path[] = "/tmp/detshare-calls-XXXXXX";
        int fd, log = mkstemp(path);
        pid_t pid;

        cr_assert_geq(log, 0);
        close(log);
        setenv("FAKE_CUDA_LOG", path, 1);
        pid = settle_fork("0", "", &fd);
        cr_assert_eq(calls_await(path, "cuStreamCreateWithPriority ", 1), 1);
        for (int i = 1; i <= 3; i++) {
                cr_assert_eq(calls_count(path, "cuMemsetD32Async "), i - 1);
                cr_assert_eq(write(fd, "turn", 4), 4);
                cr_assert_eq(calls_await(path, "cuStreamSynchronize ", i), i);
                cr_assert_eq(calls_count(path, "cuMemsetD32Async "), i);
        }
        cr_assert_eq(settle_end(pid, fd), 0);
        cr_assert_eq(calls_count(path, "cuMemsetD32Async "), 3);
        cr_assert_eq(calls_count(path, "cuDevicePrimaryCtxRelease "), 1);
        unlink(path);
}

/* The settle process fails when the GPU has no memory for its context, or when there is no GPU. */
Test(cuda_device, settle_fails, .init = setup, .timeout = 60)
{
        static const char *const fails[] = {"cuInit:1:100", "cuDevicePrimaryCtxRetain:1:2",
                "cuStreamCreateWithPriority:1:2", "cuMemsetD32Async:1:700", "cuStreamSynchronize:1:700"};
        int fd;
        pid_t pid;

        for (size_t i = 0; i < DS_ARRAY_SIZE(fails); i++) {
                setenv("FAKE_CUDA_FAIL", fails[i], 1);
                pid = settle_fork("0", "turn", &fd);
                cr_assert_eq(settle_end(pid, fd), ENODEV, "%s", fails[i]);
        }
        unsetenv("FAKE_CUDA_FAIL");
        pid = settle_fork("7", "turn", &fd);
        cr_assert_eq(settle_end(pid, fd), ENODEV, "there is one GPU");
        pid = settle_fork("none", "turn", &fd);
        cr_assert_eq(settle_end(pid, fd), ENODEV);
}

/* --- calls that fail while work is submitted --------------------------------------------------------------------- */

#define ROUNDS 12
#define WAIT_MS 20000

struct work {
        ds_device *device;
        ds_device_module *module;
        uint32_t rung;
        uint64_t accepted, returned;
        uint8_t state[DT_TOKENS]; /* 1: accepted, 2: completed */
};

#define WORK_BYTES DS_MIB(4) /* small, because a hundred processes allocate it */

static int work_open(struct work *w, const void *image, size_t size)
{
        const struct ds_device_ops *ops = &ds_cuda_ops;
        struct ds_tpc_mask all;
        char log[1000];
        int slab = -1, host = memfd_create("host", MFD_ALLOW_SEALING);
        int r = ops->open("0", &w->device);

        if (r || host < 0 || ftruncate(host, WORK_BYTES) || fcntl(host, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
                return r ? r : -errno;
        all = dt_mask(0, ops->info(w->device)->n_tpcs);
        r = ops->rung_create(w->device, &all, &w->rung);
        r = r ? r : ops->space_add(w->device, DT_SPACE);
        r = r ? r : ops->mem_create(w->device, WORK_BYTES, &slab);
        r = r ? r : ops->mem_map(w->device, DT_SPACE, slab, DT_DEVICE_VA, WORK_BYTES);
        r = r ? r : ops->host_map(w->device, DT_SPACE, host, DT_HOST_VA, WORK_BYTES);
        r = r ? r : ops->module_load(w->device, DT_SPACE, image, size, log, sizeof(log), &w->module);
        close(slab);
        close(host);
        return r;
}

static void work_result(struct work *w, int r)
{
        if (!r)
                w->state[w->accepted + 1] = 1;
        w->accepted += r == 0;
}

/* Submits one operation. If the device accepts it, the operation has the next token. */
static void work_submit(struct work *w, uint32_t round)
{
        const struct ds_device_ops *ops = &ds_cuda_ops;
        uint32_t stream = ds_device_stream(w->rung, round % 2, round % 3), size = 1u << round % 3;
        struct dt_poke_params params = {.p = DT_DEVICE_VA, .value = round};
        struct ds_launch l = {.stream = stream, .space = DT_SPACE, .grid = {1, 1, 1}, .block = {1, 1, 1}};
        struct ds_copy c = {.stream = stream, .space = DT_SPACE, .width = 64, .height = 1 + round % 2};
        struct ds_memset m = {.stream = stream, .space = DT_SPACE, .dst = DT_DEVICE_VA + DS_MIB(1), .width = 64};

        l.kernel = ops->kernel_find(w->module, "step");
        l.timed = round % 2;
        l.params = &params;
        l.params_size = 12;
        work_result(w, ops->launch(w->device, &l, w->accepted + 1));
        c.kind = (enum ds_copy_kind)(round % _DS_COPY_MAX);
        c.dst = c.kind == DS_COPY_HTOD || c.kind == DS_COPY_DTOD ? DT_DEVICE_VA + DS_MIB(2) : DT_HOST_VA;
        c.src = c.kind == DS_COPY_DTOH || c.kind == DS_COPY_DTOD ? DT_DEVICE_VA + DS_MIB(3) : DT_HOST_VA + DS_MIB(3);
        c.dst_pitch = c.src_pitch = 128;
        work_result(w, ops->copy(w->device, &c, w->accepted + 1));
        m.element_size = size;
        m.height = 1 + round / 3 % 2;
        m.pitch = 512;
        work_result(w, ops->memset(w->device, &m, w->accepted + 1));
        ops->fence(w->device, stream, ds_device_stream(w->rung, round % 2, (round + 1) % 3));
}

/* Waits for all work and checks that every accepted operation completes exactly once. */
static int work_wait(struct work *w)
{
        struct ds_completion c[16];
        size_t n;

        for (uint32_t ms = 0; w->returned < w->accepted && ms < WAIT_MS; ms++) {
                n = ds_cuda_ops.poll(w->device, c, DS_ARRAY_SIZE(c));
                for (size_t i = 0; i < n; i++) {
                        if (c[i].token > w->accepted || w->state[c[i].token] != 1)
                                return 3;
                        w->state[c[i].token] = 2;
                        w->returned++;
                }
                if (!n)
                        usleep(1000);
        }
        return w->returned == w->accepted ? 0 : 4;
}

/* Runs a device's life with work in flight. Exits with 0 if everything holds, whichever driver call fails. */
static void work_life(const void *image, size_t size)
{
        struct work *w = calloc(1, sizeof(*w));
        int r;

        r = work_open(w, image, size);
        if (r) {
                ds_cuda_ops.close(w->device);
                _exit(0);
        }
        for (uint32_t round = 0; round < ROUNDS; round++)
                work_submit(w, round);
        r = work_wait(w);
        if (!r && w->accepted < ROUNDS && !ds_cuda_ops.lost(w->device))
                r = 5; /* one call failed once, so at least one submission must have been refused */
        ds_cuda_ops.close(w->device);
        _exit(r);
}

Test(cuda_device, calls_fail_under_work, .init = setup, .timeout = 120)
{
        static const char *const names[] = {"cuLaunchKernel", "cuLaunchKernelEx", "cuMemcpyAsync", "cuMemcpyHtoDAsync",
                "cuMemcpyDtoHAsync", "cuMemcpyDtoDAsync", "cuMemcpy2DAsync", "cuMemsetD8Async", "cuMemsetD16Async",
                "cuMemsetD32Async", "cuMemsetD2D8Async", "cuMemsetD2D16Async", "cuMemsetD2D32Async", "cuEventRecord",
                "cuStreamWriteValue64", "cuEventQuery", "cuEventElapsedTime", "cuStreamWaitEvent", "cuStreamQuery",
                "cuLibraryLoadData", "cuKernelGetFunction", "cuKernelGetParamInfo", "cuLibraryEnumerateKernels",
                "cuKernelGetName"};
        static const unsigned errors[] = {999, 719}, calls[] = {2, 6};
        const int64_t step = rounds_step(2), turn = getpid();
        char order[80];
        size_t size;
        void *image = gpu_test_cubin(DT_PTX, true, &size);
        int status;

        cr_assert_not_null(image);
        for (size_t i = 0; i < DS_ARRAY_SIZE(names) * 4; i++) {
                const char *name = names[i / 4];
                pid_t pid;

                /* a short run makes each call fail with each error under one of the two kinds of completions only */
                if (((int64_t)(i + i / 2) + turn) % step)
                        continue;
                pid = fork();
                if (!pid) {
                        snprintf(order, sizeof(order), "%s:%u:%u", name, calls[i % 2], errors[i % 2]);
                        setenv("FAKE_CUDA_FAIL", order, 1);
                        /* the two kinds of completions: by counters, and by events */
                        setenv("FAKE_CUDA_MEMOPS", i / 2 % 2 ? "0" : "1", 1);
                        alarm(30);
                        work_life(image, size);
                }
                cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid);
                cr_expect_eq(status, 0, "%s, call %u gives %u: status %#x", name, calls[i % 2], errors[i % 2], status);
        }
        free(image);
}
