/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cuda device on the fake driver, before its first kernel
 *
 * Tested: the choice of the driver library and of the GPU, reported properties, limits, and memory. The fake driver's
 * calls stop the context, and its new memory is dirty. Checks that hold for every device are in test_cuda_device.c.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda/internal.h"
#include "device/sim/sim.h"
#include "tests/unit/rounds.h"
#include "util/alloc.h"

#define SPACE 3
#define VA UINT64_C(0x300000000000)
#define HOST_VA UINT64_C(0x310000000000)
#define SLAB DS_MIB(4)

static void setup(void)
{
        setenv("DETSHARE_LIBCUDA", TEST_FAKE_CUDA, 1);
}

/* Opens this library as the driver and captures what the device prints on standard error. */
static int load_and_listen(const char *candidate, char *said, size_t size)
{
        struct ds_cuda_driver driver;
        int fds[2], old = dup(2), r;
        ssize_t n;

        cr_assert(!pipe(fds) && old >= 0);
        dup2(fds[1], 2);
        r = ds_cuda_driver_load(&driver, candidate);
        dup2(old, 2);
        close(old);
        close(fds[1]);
        n = read(fds[0], said, size - 1);
        said[n > 0 ? n : 0] = '\0';
        close(fds[0]);
        if (!r)
                ds_cuda_driver_unload(&driver);
        return r;
}

/* --- choice of the library -------------------------------------------------------------------------------------- */

Test(cuda_driver, the_dropin_is_refused_unloaded)
{
        char said[2000];

        cr_assert_eq(access(TEST_DROPIN, R_OK), 0);
        cr_assert_eq(load_and_listen(TEST_DROPIN, said, sizeof(said)), -ENODEV);
        cr_assert(strstr(said, TEST_DROPIN) && strstr(said, "not NVIDIA's driver"), "%s", said);
        cr_assert_null(dlopen(TEST_DROPIN, RTLD_NOW | RTLD_NOLOAD), "it is in the process");
}

/* The drop-in is recognised under any file name. */
Test(cuda_driver, the_dropin_is_refused_by_another_name)
{
        char path[] = "/tmp/test-cuda-driver-XXXXXX", said[2000];
        int fd = mkstemp(path);

        cr_assert(fd >= 0 && !close(fd) && !unlink(path) && !symlink(TEST_DROPIN, path));
        cr_assert_eq(load_and_listen(path, said, sizeof(said)), -ENODEV);
        unlink(path);
        cr_assert(strstr(said, "not NVIDIA's driver"), "%s", said);
}

Test(cuda_driver, what_is_no_driver_is_refused)
{
        static const struct {
                const char *path, *words;
        } cases[] = {
                {"/nonexistent/libcuda.so.1", "No such file"},
                {"libcuda.so.1", "by its path"},
                {"/dev/null", "cannot load"},
                {"/proc/self/cmdline", "cannot load"},
        };
        char said[2000];

        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                cr_assert_eq(load_and_listen(cases[i].path, said, sizeof(said)), -ENODEV, "%s", cases[i].path);
                cr_assert(strstr(said, cases[i].words) && strstr(said, cases[i].path), "%s: %s", cases[i].path, said);
        }
}

Test(cuda_driver, missing_functions_are_named)
{
        char said[4000];
        Dl_info libc;

        cr_assert(dladdr(dlsym(RTLD_DEFAULT, "mmap"), &libc) && strchr(libc.dli_fname, '/'));
        cr_assert_eq(load_and_listen(libc.dli_fname, said, sizeof(said)), -ENODEV);
        cr_assert(strstr(said, "lacks") && strstr(said, " cuInit ") && strstr(said, "cuDeviceTotalMem_v2"), "%s", said);
}

Test(cuda_driver, the_environment_names_it, .init = setup)
{
        struct ds_cuda_driver driver;

        cr_assert_eq(ds_cuda_driver_load(&driver, NULL), 0);
        cr_assert_str_eq(driver.path, TEST_FAKE_CUDA);
        cr_assert_geq(driver.version, 13000);
#define X(name) cr_assert_not_null(driver.name##_fn, #name);
        DS_CUDA_FUNCTIONS(X)
#undef X
        cr_assert_str_eq(ds_cuda_driver_error(&driver, CUDA_ERROR_ILLEGAL_ADDRESS), "CUDA_ERROR_ILLEGAL_ADDRESS");
        ds_cuda_driver_unload(&driver);
        cr_assert_null(driver.handle);
        cr_assert_str_eq(ds_cuda_driver_error(&driver, CUDA_ERROR_ILLEGAL_ADDRESS), "CUDA error 700");
}

/* --- choice of the GPU ------------------------------------------------------------------------------------------ */

Test(cuda_driver, a_specification_is_a_number)
{
        static const char *const bad[] = {
                "", "a", "0x0", "00", "01", "+1", "-1", " 0", "0 ", "0,1", "256", "1000", "99999999999"};
        unsigned ordinal = 77;

        for (size_t i = 0; i < DS_ARRAY_SIZE(bad); i++)
                cr_assert_lt(cuda_spec_parse(bad[i], &ordinal), 0, "'%s'", bad[i]);
        cr_assert_eq(ordinal, 77);
        cr_assert(!cuda_spec_parse("0", &ordinal) && ordinal == 0);
        cr_assert(!cuda_spec_parse("10", &ordinal) && ordinal == 10);
        cr_assert(!cuda_spec_parse("255", &ordinal) && ordinal == 255);
}

Test(cuda_driver, what_there_is_not_does_not_open, .init = setup)
{
        ds_device *device = NULL;

        cr_assert_eq(ds_cuda_ops.open("7", &device), -ENODEV);
        cr_assert_eq(ds_cuda_ops.open("gpu", &device), -ENODEV);
        setenv("DETSHARE_LIBCUDA", TEST_DROPIN, 1);
        cr_assert_eq(ds_cuda_ops.open("0", &device), -ENODEV);
        cr_assert_null(device);
}

Test(cuda_driver, models_have_short_names)
{
        static const char *const names[][2] = {
                {"NVIDIA H200", "h200"},
                {"NVIDIA RTX A2000", "a2000"},
                {"NVIDIA RTX A2000 12GB", "a2000"},
                {"NVIDIA A100-SXM4-80GB", "a100"},
                {"NVIDIA H100 80GB HBM3", "h100"},
                {"NVIDIA GH200 480GB", "gh200"},
                {"Tesla P40", "p40"},
                {"Tesla V100-SXM2-16GB", "v100"},
                {"NVIDIA GeForce GTX 1080", "gtx1080"},
                {"NVIDIA GeForce GTX 1080 Ti", "gtx1080ti"},
                {"NVIDIA GeForce RTX 2080 SUPER", "rtx2080super"},
                {"NVIDIA RTX 6000 Ada Generation", "rtx6000"},
                {"NVIDIA TITAN V", "nvidiatitanv"},
                {"Quadro P5000", "p5000"},
                {"", ""},
        };
        char model[32], small[4];

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                cuda_model_name(names[i][0], model, sizeof(model));
                cr_assert_str_eq(model, names[i][1]);
        }
        cuda_model_name("NVIDIA H200", small, sizeof(small));
        cr_assert_str_eq(small, "h20");
}

/* The cuda device and the simulated device report the same unsupported attributes: programs see one kind of GPU. */
Test(cuda_driver, attributes_match_the_simulated_device, .init = setup)
{
        const struct ds_device_info *cuda, *sim;
        ds_device *a, *b;
        int n = 0;

        cr_assert_eq(ds_cuda_ops.open("0", &a), 0);
        cr_assert_eq(ds_sim_ops.open("h200", &b), 0);
        cuda = ds_cuda_ops.info(a);
        sim = ds_sim_ops.info(b);
        for (int i = 0; i < DS_DEVICE_ATTRIBUTES; i++) {
                if (cuda_attribute_offered(i))
                        continue;
                n++;
                cr_assert_eq(cuda->attributes[i], 0, "attribute %d", i);
                cr_assert_eq(sim->attributes[i], 0, "attribute %d of the sim", i);
        }
        cr_assert_gt(n, 10);
        cr_assert_eq(cuda_attribute_offered(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 1);
        cr_assert_eq(cuda->stops, 1);
        cr_assert_eq(cuda->simulated, 0);
        ds_cuda_ops.close(a);
        ds_sim_ops.close(b);
}

/* --- calls that fail -------------------------------------------------------------------------------------------- */

static ds_device *device_of(uint32_t *ret_rung)
{
        ds_device *device = NULL;
        struct ds_tpc_mask all = {};
        int r = ds_cuda_ops.open("0", &device);

        if (r)
                return NULL;
        for (uint32_t i = 0; i < ds_cuda_ops.info(device)->n_tpcs; i++)
                all.word[i / 64] |= UINT64_C(1) << i % 64;
        r = ds_cuda_ops.rung_create(device, &all, ret_rung);
        if (!r)
                r = ds_cuda_ops.space_add(device, SPACE);
        return r ? ds_cuda_ops.close(device) : device;
}

/* Opens, uses and closes a device. Returns 0, or the number of the first step that failed. */
static int life(void)
{
        ds_device *device = NULL;
        struct ds_tpc_mask one = {.word = {1}};
        ds_cleanup(ds_closep) int fd = -1, host = memfd_create("host", MFD_ALLOW_SEALING);
        uint32_t rung;
        int r;

        cr_assert(!ftruncate(host, DS_MIB(1)) && !fcntl(host, F_ADD_SEALS, F_SEAL_SHRINK));
        r = ds_cuda_ops.open("0", &device);
        if (r)
                return r;
        r = ds_cuda_ops.rung_create(device, &one, &rung);
        r = r ? r : ds_cuda_ops.space_add(device, SPACE);
        r = r ? r : ds_cuda_ops.mem_create(device, SLAB, &fd);
        r = r ? r : ds_cuda_ops.mem_map(device, SPACE, fd, VA, SLAB);
        r = r ? r : ds_cuda_ops.host_map(device, SPACE, host, HOST_VA, DS_MIB(1));
        r = r ? r : ds_cuda_ops.limit_raise(device, DS_LIMIT_STACK_SIZE, 2048);
        ds_cuda_ops.close(device);
        return r;
}

Test(cuda_driver, every_call_may_fail, .init = setup)
{
        static const char *const names[] = {"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxSetFlags",
                "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuDeviceGetName", "cuDeviceGetUuid",
                "cuMemGetAllocationGranularity", "cuMemGetInfo", "cuCtxGetLimit", "cuCtxGetStreamPriorityRange",
                "cuStreamCreateWithPriority", "cuEventCreate", "cuGreenCtxStreamCreate", "cuMemCreate",
                "cuMemExportToShareableHandle", "cuMemAddressReserve", "cuMemImportFromShareableHandle", "cuMemMap",
                "cuMemSetAccess", "cuMemsetD8Async", "cuEventRecord", "cuMemHostRegister", "cuMemHostGetDevicePointer"};
        char order[80];
        int status;

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                pid_t pid = fork();

                if (!pid) {
                        snprintf(order, sizeof(order), "%s:0:801", names[i]);
                        setenv("FAKE_CUDA_FAIL", order, 1);
                        alarm(30);
                        _exit(life() ? 0 : 1);
                }
                cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid);
                cr_assert_eq(status, 0, "%s: status %#x", names[i], status);
        }
        cr_assert_eq(life(), 0);
}

/* A driver without green contexts still gives a device, with one TPC. */
Test(cuda_driver, a_gpu_without_green_contexts_is_one_tpc, .init = setup)
{
        static const char *const orders[] = {
                "cuDeviceGetDevResource:0:801", "cuDevSmResourceSplitByCount:0:801", "cuGreenCtxCreate:0:801"};
        int status;

        for (size_t i = 0; i < DS_ARRAY_SIZE(orders); i++) {
                pid_t pid = fork();

                if (!pid) {
                        ds_device *device;
                        const struct ds_rung_info *rung;
                        uint32_t id;

                        setenv("FAKE_CUDA_FAIL", orders[i], 1);
                        device = device_of(&id);
                        if (!device || ds_cuda_ops.info(device)->n_tpcs != 1)
                                _exit(1);
                        rung = ds_cuda_ops.rung_info(device, id);
                        if (rung->n_sms != ds_cuda_ops.info(device)->n_sms || rung->n_tpcs != 1)
                                _exit(2);
                        ds_cuda_ops.close(device);
                        _exit(0);
                }
                cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid);
                cr_assert_eq(status, 0, "%s: status %#x", orders[i], status);
        }
}

Test(cuda_driver, every_allocation_may_fail, .init = setup)
{
        /* fails each of the first few allocations, then every step-th one */
        const int64_t step = rounds_step(6), turn = getpid() % step;
        int64_t n;
        int r = 1;

        for (n = 0; r && n < 5000; n += n < 24 ? 1 : n == 24 ? 1 + turn : step) {
                ds_alloc_fail_after(n);
                r = life();
        }
        ds_alloc_fail_after(-1);
        cr_assert_eq(r, 0);
        cr_assert_gt(n, 5, "nothing was allocated");
}

/* --- memory ----------------------------------------------------------------------------------------------------- */

static uint64_t run(ds_device *device, uint32_t rung, enum ds_copy_kind kind, uint64_t dst, uint64_t src, uint64_t size)
{
        static uint64_t token;
        struct ds_copy copy = {.stream = ds_device_stream(rung, 0, 0),
                .space = SPACE,
                .kind = kind,
                .dst = dst,
                .src = src,
                .width = size,
                .height = 1};
        struct ds_completion done;

        cr_assert_eq(ds_cuda_ops.copy(device, &copy, ++token), 0);
        for (int tries = 0; !ds_cuda_ops.poll(device, &done, 1); tries++) {
                cr_assert_lt(tries, 30000, "a copy does not end");
                poll(NULL, 0, 1);
        }
        cr_assert(done.token == token && !done.status, "%s", done.message);
        return token;
}

static int host_file(uint64_t size)
{
        int fd = memfd_create("host", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        cr_assert(fd >= 0 && !ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
        return fd;
}

/* The worker clears a slab when it first maps it, and never again, not even in the next worker. */
Test(cuda_driver, a_slab_is_cleared_once, .init = setup)
{
        uint32_t rung, *host = (uint32_t *)HOST_VA;
        ds_device *device = device_of(&rung);
        int slab = -1, file = host_file(SLAB), another;

        cr_assert_not_null(device);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE, file, HOST_VA, SLAB), 0);
        cr_assert_eq(ds_cuda_ops.mem_create(device, SLAB, &slab), 0);
        cr_assert_eq(ds_cuda_ops.mem_map(device, SPACE, slab, VA, SLAB), 0);
        memset(host, 0xa5, SLAB);
        run(device, rung, DS_COPY_DTOH, HOST_VA, VA, SLAB);
        for (size_t i = 0; i < SLAB / 4; i++)
                cr_assert_eq(host[i], 0, "word %zu", i);
        cr_assert_eq(ds_cuda_ops.mem_cleared(device, SPACE, VA), 1);
        memset(host, 0x3c, SLAB);
        run(device, rung, DS_COPY_HTOD, VA, HOST_VA, SLAB);
        cr_assert_eq(ds_cuda_ops.mem_unmap(device, SPACE, VA, SLAB), 0);
        another = dup(slab);
        cr_assert_eq(ds_cuda_ops.mem_map(device, SPACE, another, VA + SLAB, SLAB), 0);
        memset(host, 0, SLAB);
        run(device, rung, DS_COPY_DTOH, HOST_VA, VA + SLAB, SLAB);
        cr_assert_eq(host[0], 0x3c3c3c3c);
        ds_cuda_ops.close(device);
        device = device_of(&rung);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE, file, HOST_VA, SLAB), 0);
        cr_assert_eq(ds_cuda_ops.mem_map(device, SPACE, another, VA, SLAB), 0);
        memset(host, 0, SLAB);
        run(device, rung, DS_COPY_DTOH, HOST_VA, VA, SLAB);
        cr_assert_eq(host[SLAB / 4 - 1], 0x3c3c3c3c);
        ds_cuda_ops.close(device);
        close(slab);
        close(another);
        close(file);
}

/* A slab whose clearing failed is not mapped and is cleared at the next attempt. */
Test(cuda_driver, a_slab_that_was_not_cleared_stays_dirty, .init = setup)
{
        uint32_t rung, *host = (uint32_t *)HOST_VA;
        int slab = -1, file = host_file(SLAB);
        ds_device *device;

        setenv("FAKE_CUDA_FAIL", "cuMemsetD8Async:1:801", 1);
        device = device_of(&rung);
        cr_assert_not_null(device);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE, file, HOST_VA, SLAB), 0);
        cr_assert_eq(ds_cuda_ops.mem_create(device, SLAB, &slab), 0);
        cr_assert_eq(ds_cuda_ops.mem_map(device, SPACE, slab, VA, SLAB), 801);
        cr_assert_lt(ds_cuda_ops.mem_unmap(device, SPACE, VA, SLAB), 0, "it is mapped");
        cr_assert_eq(ds_cuda_ops.mem_map(device, SPACE, slab, VA, SLAB), 0);
        memset(host, 0xa5, SLAB);
        run(device, rung, DS_COPY_DTOH, HOST_VA, VA, SLAB);
        for (size_t i = 0; i < SLAB / 4; i++)
                cr_assert_eq(host[i], 0, "word %zu", i);
        ds_cuda_ops.close(device);
        close(slab);
        close(file);
}

/* Slabs of the usual size are reused after clearing; when memory is short none is kept. */
Test(cuda_driver, slabs_are_used_again, .init = setup)
{
        uint32_t rung, *host = (uint32_t *)HOST_VA;
        const uint64_t size = DS_MIB(64);
        int slab = -1, small = -1, file = host_file(size);
        ds_device *device;

        /* the third cuMemCreate of the device fails; the first one is for control blocks */
        setenv("FAKE_CUDA_FAIL", "cuMemCreate:3:2", 1);
        device = device_of(&rung);
        cr_assert_not_null(device);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE, file, HOST_VA, size), 0);
        for (int i = 0; i < 3; i++) {
                cr_assert_eq(ds_cuda_ops.mem_create(device, size, &slab), 0);
                cr_assert_eq(device->n_pool, 0);
                cr_assert_eq(ds_cuda_ops.mem_map(device, SPACE, slab, VA, size), 0);
                close(slab);
                memset(host, 0xa5, size);
                run(device, rung, DS_COPY_DTOH, HOST_VA, VA, size);
                for (size_t w = 0; w < size / 4; w++)
                        cr_assert_eq(host[w], 0, "round %d, word %zu", i, w);
                memset(host, 0x5a, size);
                run(device, rung, DS_COPY_HTOD, VA, HOST_VA, size);
                cr_assert_eq(ds_cuda_ops.mem_unmap(device, SPACE, VA, size), 0);
                cr_assert_eq(device->n_pool, 1);
        }
        cr_assert_eq(ds_cuda_ops.mem_create(device, SLAB, &small), 0, "the driver said once that memory is short");
        cr_assert_eq(device->n_pool, 0);
        ds_cuda_ops.close(device);
        close(small);
        close(file);
}

/* A mapped address cannot be mapped again: inside a reservation the device's own records refuse it, outside the
 * driver. */
Test(cuda_driver, an_address_is_mapped_once, .init = setup)
{
        uint32_t rung;
        ds_device *device;
        int slab = -1, file = host_file(SLAB);
        void *stone = mmap((void *)(VA + DS_TIB(2) + DS_GIB(1)), 4096, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

        cr_assert_neq(stone, MAP_FAILED);
        device = device_of(&rung);
        cr_assert_not_null(device);
        cr_assert_eq(ds_cuda_ops.space_add(device, SPACE + 1), 0);
        cr_assert_eq(ds_cuda_ops.mem_create(device, SLAB, &slab), 0);
        for (uint64_t va = VA; va <= VA + DS_TIB(2); va += DS_TIB(2)) {
                cr_assert_eq(ds_cuda_ops.mem_map(device, SPACE, slab, va, SLAB), 0);
                cr_assert_eq(ds_cuda_ops.mem_map(device, SPACE + 1, slab, va, SLAB), -EEXIST);
                cr_assert_eq(ds_cuda_ops.mem_map(device, SPACE, slab, va - SLAB / 2, SLAB), -EEXIST);
                cr_assert_eq(ds_cuda_ops.host_map(device, SPACE + 1, file, va + SLAB - 4096, SLAB), -EEXIST);
                cr_assert_eq(ds_cuda_ops.host_map(device, SPACE + 1, file, va + SLAB, SLAB), 0);
                cr_assert_eq(ds_cuda_ops.mem_map(device, SPACE, slab, va + SLAB, SLAB), -EEXIST);
                cr_assert_eq(ds_cuda_ops.host_unmap(device, SPACE + 1, va + SLAB, SLAB), 0);
                cr_assert_eq(ds_cuda_ops.mem_map(device, SPACE, slab, va + SLAB, SLAB), 0);
        }
        cr_assert_lt(ds_cuda_ops.mem_map(device, SPACE, slab, VA + DS_TIB(2) + DS_GIB(1), SLAB), 0, "over a stone");
        cr_assert_eq(munmap(stone, 4096), 0);
        ds_cuda_ops.close(device);
        close(slab);
        close(file);
}

static bool readable(int file, uint64_t va)
{
        return pwrite(file, (const void *)(uintptr_t)va, 1, 0) == 1;
}

/* Pinned memory of a removed space is unregistered in a quiesce, and its addresses are released. */
Test(cuda_driver, pinned_memory_is_unregistered_in_a_quiesce, .init = setup)
{
        uint32_t rung;
        ds_device *device = device_of(&rung);
        int file = host_file(SLAB);
        int other = host_file(4096);

        cr_assert_not_null(device);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE, file, HOST_VA, SLAB), 0);
        cr_assert_eq(ds_cuda_ops.put_off(device), 0);
        cr_assert_eq(ds_cuda_ops.space_remove(device, SPACE), 0);
        cr_assert_eq(ds_cuda_ops.put_off(device), 1);
        cr_assert(readable(other, HOST_VA), "it went too early");
        ds_cuda_ops.put_off_do(device);
        cr_assert_eq(ds_cuda_ops.put_off(device), 0);
        cr_assert(!readable(other, HOST_VA), "it is still there");
        /* mapping new pinned memory releases the old mapping too */
        cr_assert_eq(ds_cuda_ops.space_add(device, SPACE), 0);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE, file, HOST_VA, SLAB), 0);
        cr_assert_eq(ds_cuda_ops.space_remove(device, SPACE), 0);
        cr_assert_eq(ds_cuda_ops.space_add(device, SPACE), 0);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE, file, HOST_VA, SLAB), 0);
        cr_assert_eq(ds_cuda_ops.host_unmap(device, SPACE, HOST_VA, SLAB), 0);
        ds_cuda_ops.close(device);
        close(file);
        close(other);
}

/* A mapping of the file at an address of the kernel's choice, with all pages. */
static void *mapped_file(int file, uint64_t size)
{
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);

        cr_assert_neq(p, MAP_FAILED);
        memset(p, 0x5e, size);
        return p;
}

static long page_faults(void)
{
        struct rusage usage;

        cr_assert_eq(getrusage(RUSAGE_SELF, &usage), 0);
        return usage.ru_minflt;
}

/* A mapping that the caller filled arrives with its page tables, inside a reservation and outside of one. It is
 * consumed also on failure. */
Test(cuda_driver, a_mapping_is_moved_with_its_pages, .init = setup)
{
        const uint64_t places[] = {HOST_VA, HOST_VA + DS_TIB(2)};
        uint32_t rung;
        int file = host_file(SLAB), other = host_file(4096);
        void *mapped, *stone = mmap((void *)(HOST_VA + DS_TIB(2) + DS_GIB(1)), 4096, PROT_READ,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        ds_device *device = device_of(&rung);
        long before;

        cr_assert_not_null(device);
        cr_assert_neq(stone, MAP_FAILED);
        for (size_t i = 0; i < DS_ARRAY_SIZE(places); i++) {
                const volatile uint8_t *at = (const volatile uint8_t *)places[i];

                mapped = mapped_file(file, SLAB);
                cr_assert_eq(ds_cuda_ops.host_move(device, SPACE, file, mapped, places[i], SLAB), 0);
                cr_assert(!readable(other, (uintptr_t)mapped), "it is still at its old place");
                before = page_faults();
                for (uint64_t k = 0; k < SLAB; k += 4096)
                        cr_assert(at[k] == 0x5e);
                cr_assert_lt(page_faults() - before, (long)(SLAB / 4096 / 8));
                cr_assert_eq(ds_cuda_ops.host_unmap(device, SPACE, places[i], SLAB), 0);
                cr_assert(!readable(other, places[i]), "it is still there");
        }
        mapped = mapped_file(file, SLAB);
        cr_assert_lt(ds_cuda_ops.host_move(device, SPACE, file, mapped, HOST_VA + DS_TIB(2) + DS_GIB(1), SLAB), 0);
        cr_assert(!readable(other, (uintptr_t)mapped), "a failure leaves it");
        cr_assert(readable(other, (uintptr_t)stone), "a failure took somebody else's memory");
        mapped = mapped_file(file, SLAB);
        cr_assert_eq(ds_cuda_ops.host_move(device, SPACE + 1, file, mapped, HOST_VA, SLAB), -ENOENT);
        cr_assert(!readable(other, (uintptr_t)mapped), "a failure leaves it");
        cr_assert_eq(munmap(stone, 4096), 0);
        ds_cuda_ops.close(device);
        close(file);
        close(other);
}

/* A client that can truncate the file could make the worker fault, so an unsealed file is refused. */
Test(cuda_driver, pinned_memory_must_be_sealed, .init = setup)
{
        uint32_t rung;
        ds_device *device = device_of(&rung);
        int open_file = memfd_create("open", MFD_ALLOW_SEALING), file = host_file(4096);

        cr_assert_not_null(device);
        cr_assert_eq(ftruncate(open_file, DS_MIB(1)), 0);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE, open_file, HOST_VA, DS_MIB(1)), -EPERM);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE, file, HOST_VA, 8192), -EINVAL);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE, file, HOST_VA + 1, 4096), -EINVAL);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE, 999, HOST_VA, 4096), -EBADF);
        cr_assert_eq(ds_cuda_ops.host_map(device, SPACE + 1, file, HOST_VA, 4096), -ENOENT);
        cr_assert_eq(ds_cuda_ops.host_unmap(device, SPACE, HOST_VA, 4096), -ENOENT);
        ds_cuda_ops.close(device);
        close(open_file);
        close(file);
}

/* --- limits ----------------------------------------------------------------------------------------------------- */

Test(cuda_driver, limits_only_rise, .init = setup)
{
        uint32_t rung;
        ds_device *device = device_of(&rung);
        uint64_t stack;

        cr_assert_not_null(device);
        stack = ds_cuda_ops.limit_get(device, DS_LIMIT_STACK_SIZE);
        cr_assert_geq(stack, 1024);
        cr_assert_eq(ds_cuda_ops.limit_raise(device, DS_LIMIT_STACK_SIZE, stack * 2), 0);
        cr_assert_geq(ds_cuda_ops.limit_get(device, DS_LIMIT_STACK_SIZE), stack * 2);
        cr_assert_eq(ds_cuda_ops.limit_raise(device, DS_LIMIT_STACK_SIZE, 16), 0);
        cr_assert_geq(ds_cuda_ops.limit_get(device, DS_LIMIT_STACK_SIZE), stack * 2);
        cr_assert_eq(ds_cuda_ops.limit_raise(device, DS_LIMIT_STACK_SIZE, DS_MIB(512)), DS_CUDA_OUT_OF_MEMORY);
        cr_assert_eq(ds_cuda_ops.limit_raise(device, DS_LIMIT_PRINTF_FIFO_SIZE, DS_TIB(1)), DS_CUDA_OUT_OF_MEMORY);
        cr_assert_eq(ds_cuda_ops.limit_raise(device, DS_LIMIT_MALLOC_HEAP_SIZE, DS_TIB(1)), DS_CUDA_OUT_OF_MEMORY);
        cr_assert_eq(ds_cuda_ops.limit_raise(device, _DS_LIMIT_MAX, 1), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(ds_cuda_ops.limit_get(device, _DS_LIMIT_MAX), 0);
        cr_assert_eq(cuda_limit_local(device, 100), 0);
        cr_assert_eq(cuda_limit_local(device, stack * 2 + 1), 0);
        cr_assert_gt(ds_cuda_ops.limit_get(device, DS_LIMIT_STACK_SIZE), stack * 2);
        cr_assert_eq(cuda_limit_local(device, DS_MIB(512)), DS_CUDA_OUT_OF_MEMORY);
        ds_cuda_ops.close(device);
}
