/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated GPU through the device vtable: memory, modules, kernels, faults
 *
 * The bodies are those that run on a real GPU too (tests/gpu/device_common.h).
 */
#include "tests/gpu/device_common.h"
#include "tests/gpu/device_hopper.h"

#include "device/sim/sim.h"
#include "util/alloc.h"

#define SHARED(body, name)                     \
        Test(sim_device, name, .timeout = 300) \
        {                                      \
                body(&ds_sim_ops, "h200");     \
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
SHARED(dt_test_module_errors, module_errors)
SHARED(dt_test_launch_errors, launch_errors)
SHARED(dt_test_saxpy, saxpy)
SHARED(dt_test_zero_copy, zero_copy)
SHARED(dt_test_stream_order, stream_order)
SHARED(dt_test_fences, fences)
SHARED(dt_test_globals, globals)
SHARED(dt_test_clock, clock)
SHARED(dt_test_faults, faults)
SHARED(dt_test_isolation, isolation)
SHARED(dt_test_endless, endless)
SHARED(dt_test_abort, abort)
SHARED(dt_test_close_busy, close_busy)
SHARED(dt_test_unmap_under_work, unmap_under_work)
SHARED(dt_test_clusters, clusters)
SHARED(dt_test_tensor_maps, tensor_maps)

/* --- the simulator only ----------- */

/* Devices with one SM per TPC, other limits and less memory run the same programs. */
Test(sim_device, other_models, .timeout = 300)
{
        const char *models[] = {"a2000", "p40", "gtx1080"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(models); i++) {
                dt_test_info(&ds_sim_ops, models[i]);
                dt_test_rungs(&ds_sim_ops, models[i]);
                dt_test_saxpy(&ds_sim_ops, models[i]);
                dt_test_fences(&ds_sim_ops, models[i]);
                dt_test_launch_errors(&ds_sim_ops, models[i]);
        }
}

Test(sim_device, every_model_opens)
{
        const char *models[] = {"h200", "a2000", "p40", "gtx1080"};
        const uint32_t sms[] = {132, 26, 30, 20}, cc[] = {90, 86, 75, 75};
        const struct ds_device_info *info;
        ds_device *device;
        char name[64];

        for (size_t i = 0; i < DS_ARRAY_SIZE(models); i++) {
                cr_assert_eq(ds_sim_ops.open(models[i], &device), 0);
                info = ds_sim_ops.info(device);
                snprintf(name, sizeof(name), "DetShare sim:%s", models[i]);
                cr_assert_str_eq(info->name, name);
                cr_assert_str_eq(info->model, models[i]);
                cr_assert_eq(info->simulated, 1);
                cr_assert_eq(info->n_sms, sms[i]);
                cr_assert_eq(info->cc_major * 10 + info->cc_minor, cc[i]);
                cr_assert_eq(info->attributes[97], cc[i] == 90 ? 232448 : cc[i] == 86 ? 101376 : 49152);
                cr_assert_eq(info->attributes[8], 49152);
                cr_assert_eq(info->attributes[39], cc[i] == 86 ? 1536 : 2048);
                cr_assert_eq(info->attributes[120], cc[i] >= 90, "clusters");
                /* attributes of unsupported features */
                cr_assert_eq(info->attributes[83] + info->attributes[89], 0, "managed memory");
                cr_assert_eq(info->attributes[88] + info->attributes[91], 0, "pageable memory, registered pointers");
                cr_assert(info->uuid[0] && info->uuid[9]);
                cr_assert_null(ds_sim_ops.close(device));
        }
}

/* A kernel that reads the clock executes when its virtual time has come, and reads that time. */
Test(sim_device, clock_is_the_virtual_one)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module = dt_load(t, DT_PTX_HEADER DT_PTX_CLOCK);
        struct ds_launch l = dt_launch_of(t, module, "clock", 1, 1);
        uint64_t out = DT_HOST_VA, token;

        l.params = &out;
        l.params_size = 8;
        for (int i = 0; i < 3; i++) {
                cr_assert_eq(ds_sim_ops.advance(t->device, (uint64_t)(i + 1) * DS_NS_PER_S), -ETIME);
                token = dt_launch(t, &l);
                dt_ok(t, token);
                cr_assert(*(uint64_t *)DT_HOST_VA >= t->seen[token].start_ns);
                cr_assert(*(uint64_t *)DT_HOST_VA <= t->seen[token].end_ns);
        }
        dt_close(t);
}

/* Memory that a running kernel may use stays mapped for it after it is unmapped, while its address is used again,
 * wholly or in part, repeatedly. */
Test(sim_device, a_place_is_given_out_again_under_a_running_kernel)
{
        const struct ds_device_ops *ops = &ds_sim_ops;
        const uint64_t va = DT_DEVICE_VA + 2 * DT_SLAB, part = DT_SLAB / 2;
        struct dt *t = dt_open(ops, "h200");
        ds_device_module *module = dt_load(t, DT_PTX);
        struct ds_launch spin = dt_launch_of(t, module, "spins", 1, 32);
        volatile uint32_t *word = (volatile uint32_t *)(uintptr_t)va;
        uint64_t token;
        int fd;

        cr_assert_eq(ops->mem_create(t->device, DT_SLAB, &fd), 0);
        cr_assert_eq(ops->mem_map(t->device, DT_SPACE, fd, va, DT_SLAB), 0);
        *word = 1;
        token = dt_launch(t, &spin);
        usleep(20000);
        cr_assert_eq(ops->mem_unmap(t->device, DT_SPACE, va, DT_SLAB), 0);
        for (int i = 0; i < 3; i++) {
                cr_assert_eq(ops->mem_map(t->device, DT_SPACE, t->slab, va, i % 2 ? part : DT_SLAB), 0);
                *word = 7;
                cr_assert_eq(ops->mem_unmap(t->device, DT_SPACE, va, i % 2 ? part : DT_SLAB), 0);
        }
        cr_assert_eq(ops->mem_map(t->device, DT_SPACE, fd, va, part), 0);
        ops->abort(t->device, DT_SPACE);
        dt_wait_all(t);
        cr_assert_neq(t->seen[token].status, 0);
        cr_assert_eq(*word, 1, "what was mapped last is there, and stays when the kernel goes");
        cr_assert_eq(mmap((void *)(uintptr_t)(va + part), part, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                (void *)(uintptr_t)(va + part), "and nothing else");
        munmap((void *)(uintptr_t)(va + part), part);
        cr_assert_eq(ops->mem_unmap(t->device, DT_SPACE, va, part), 0);
        close(fd);
        dt_close(t);
}

Test(sim_device, specifications)
{
        ds_device *device = NULL;
        const char *rest = NULL;

        cr_assert_eq(ds_device_find("sim:h200", &rest), &ds_sim_ops);
        cr_assert_str_eq(rest, "h200");
        cr_assert_null(ds_device_find("simulator:h200", &rest));
        cr_assert_null(ds_device_find("h200", &rest));
        cr_assert_eq(ds_sim_ops.open("h300", &device), -ENODEV);
        cr_assert_eq(ds_sim_ops.open("", &device), -ENODEV);
        cr_assert_eq(ds_sim_ops.open("h200,h200", &device), -ENODEV);
        cr_assert_eq(ds_sim_ops.open("h200+fast", &device), -ENODEV);
        cr_assert_null(device);
        cr_assert_eq(ds_sim_ops.open("p40+timing", &device), 0);
        ds_sim_ops.close(device);
        cr_assert_null(ds_sim_ops.close(NULL));
}

static void *file_load(const char *name, size_t *ret_size)
{
        char path[256];
        void *bytes;
        FILE *f;

        snprintf(path, sizeof(path), "%s/%s", TEST_IMAGE_DIR, name);
        f = fopen(path, "rb");
        cr_assert_not_null(f, "%s is missing: build it with make", path);
        fseek(f, 0, SEEK_END);
        *ret_size = (size_t)ftell(f);
        rewind(f);
        bytes = malloc(*ret_size);
        cr_assert_eq(fread(bytes, 1, *ret_size, f), *ret_size);
        fclose(f);
        return bytes;
}

/* Runs nvcc's own output from fatbins of every compression: 3,000 threads add their values. */
Test(sim_device, fatbins_run, .timeout = 300)
{
        const char *names[] = {"sm_75.balance.fatbin", "sm_75.speed.fatbin", "sm_75.none.fatbin",
                "sm_90.balance.fatbin", "sm_90.speed.fatbin", "sm_90a.size.fatbin"};
        struct {
                int32_t n;
                uint64_t x, sum;
        } params = {.n = 3000, .x = DT_HOST_VA, .sum = DT_HOST_VA + DS_MIB(1)};
        float *x = (float *)DT_HOST_VA, *sum = (float *)(DT_HOST_VA + DS_MIB(1));
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module;
        struct ds_launch l;
        char log[4096];
        void *bytes;
        size_t size;
        int r;

        for (int i = 0; i < 3000; i++)
                x[i] = (float)(i % 100);
        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                bytes = file_load(names[i], &size);
                r = ds_sim_ops.module_load(t->device, DT_SPACE, bytes, size, log, sizeof(log), &module);
                cr_assert_eq(r, 0, "%s: %d: %s", names[i], r, log);
                free(bytes);
                *sum = 0;
                l = dt_launch_of(t, module, "reduce", 12, 256);
                cr_assert_eq(ds_sim_ops.kernel_info(l.kernel)->static_shared, 1024);
                l.params = &params;
                l.params_size = sizeof(params);
                dt_ok(t, dt_launch(t, &l));
                cr_assert_eq(*sum, 30 * 4950.0f, "%s: %f", names[i], (double)*sum);
                ds_sim_ops.module_unload(t->device, module);
        }
        dt_close(t);
}

Test(sim_device, machine_code_is_refused)
{
        const char *names[] = {"code_only.fatbin", "sm_90.cubin"};
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module = NULL;
        char log[4096];
        void *bytes;
        size_t size;

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                bytes = file_load(names[i], &size);
                cr_assert_eq(ds_sim_ops.module_load(t->device, DT_SPACE, bytes, size, log, sizeof(log), &module),
                        DS_CUDA_NO_BINARY_FOR_GPU);
                cr_assert(strstr(log, "PTX"), "%s", log);
                cr_assert_null(module);
                free(bytes);
        }
        dt_close(t);
}

/* Every allocation fails once, at every step of a session: nothing crashes or leaks, and the next attempt works. */
Test(sim_device, out_of_memory, .timeout = 300)
{
        const struct ds_device_ops *ops = &ds_sim_ops;
        struct ds_tpc_mask mask = dt_mask(0, 66);
        ds_device_module *module;
        struct ds_launch l = {.space = 1, .grid = {4, 1, 1}, .block = {64, 1, 1}};
        struct ds_completion c;
        char log[1000];
        ds_device *device;
        uint32_t rung;
        int r, fd;

        for (int64_t n = 0; n < 2000; n++) {
                device = NULL;
                module = NULL;
                fd = -1;
                ds_alloc_fail_after(n);
                r = ops->open("h200", &device);
                r = r ? r : ops->rung_create(device, &mask, &rung);
                r = r ? r : ops->space_add(device, 1);
                r = r ? r : ops->mem_create(device, DS_MIB(2), &fd);
                r = r ? r : ops->mem_map(device, 1, fd, DT_DEVICE_VA, DS_MIB(2));
                r = r ? r : ops->module_load(device, 1, DT_PTX, sizeof(DT_PTX), log, sizeof(log), &module);
                l.kernel = r ? NULL : ops->kernel_find(module, "null");
                r = r ? r : ops->launch(device, &l, 1);
                while (!r && !ops->poll(device, &c, 1))
                        if (ops->advance(device, UINT64_MAX) == -EAGAIN)
                                usleep(20);
                r = r ? r : c.status;
                ds_alloc_fail_after(-1);
                close(fd);
                ops->close(device);
                if (!r)
                        break;
                cr_assert(r == -ENOMEM || r == DS_CUDA_OUT_OF_MEMORY, "allocation %d: %d", (int)n, r);
        }
        cr_assert_eq(r, 0, "works once nothing fails");
}

/* A client that can truncate host memory could kill the worker, so unsealed memory is refused. */
Test(sim_device, unsealed_memory_is_refused)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        cr_assert_eq(ftruncate(fd, (off_t)DS_MIB(2)), 0);
        cr_assert_eq(ds_sim_ops.host_map(t->device, DT_SPACE, fd, DT_HOST_VA + 2 * DT_HOST, DS_MIB(2)), -EPERM);
        cr_assert_eq(ds_sim_ops.mem_map(t->device, DT_SPACE, fd, DT_DEVICE_VA + 2 * DT_SLAB, DS_MIB(2)), -EPERM);
        cr_assert_eq(ftruncate(t->slab, 4096), -1, "a slab cannot shrink");
        cr_assert_eq(ds_sim_ops.host_unmap(t->device, DT_SPACE, DT_HOST_VA, DT_HOST), 0);
        close(fd);
        dt_close(t);
}

Test(sim_device, memory_is_accounted)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        uint64_t left = ds_sim_ops.info(t->device)->memory_bytes - DT_SLAB, va = DT_DEVICE_VA + DS_TIB(4);
        int fd, more = -1;

        for (int round = 0; round < 3; round++) {
                cr_assert_eq(ds_sim_ops.mem_create(t->device, left, &fd), 0);
                cr_assert_eq(ds_sim_ops.mem_create(t->device, DS_MIB(2), &more), DS_CUDA_OUT_OF_MEMORY);
                cr_assert_eq(ds_sim_ops.mem_map(t->device, DT_SPACE, fd, va, left), 0);
                close(fd);
                cr_assert_eq(ds_sim_ops.mem_create(t->device, DS_MIB(2), &more), DS_CUDA_OUT_OF_MEMORY);
                cr_assert_eq(ds_sim_ops.mem_unmap(t->device, DT_SPACE, va, left), 0);
                /* a slab that is closed without being mapped */
                cr_assert_eq(ds_sim_ops.mem_create(t->device, left, &fd), 0);
                close(fd);
        }
        cr_assert_eq(more, -1);
        dt_close(t);
}

/* Sixteen streams run chains of kernels concurrently: results stay exact. */
Test(sim_device, many_streams_at_once, .timeout = 300)
{
        struct dt *t = dt_open(&ds_sim_ops, "h200");
        ds_device_module *module = dt_load(t, DT_PTX);
        const uint32_t *host = (const uint32_t *)DT_HOST_VA;
        uint32_t want[16];

        for (uint32_t i = 0; i < 16; i++) {
                want[i] = i;
                dt_poke(t, module, "poke", i, DT_DEVICE_VA + i * 4, i);
        }
        for (uint32_t k = 0; k < 100; k++) {
                for (uint32_t i = 0; i < 16; i++) {
                        dt_poke(t, module, "step", i, DT_DEVICE_VA + i * 4, k + i);
                        want[i] = want[i] * 3 + k + i;
                }
        }
        for (uint32_t i = 0; i < 16; i++)
                cr_assert_eq(ds_sim_ops.fence(t->device, i, t->stream), 0);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 64));
        for (uint32_t i = 0; i < 16; i++)
                cr_assert_eq(host[i], want[i], "stream %u", i);
        dt_close(t);
}

/* The same work twice has the same virtual times, whatever the execution threads do. */
Test(sim_device, times_do_not_depend_on_the_host, .timeout = 300)
{
        struct ds_completion *first = calloc(DT_TOKENS, sizeof(*first));
        ds_device_module *module;
        struct dt *t;

        for (int round = 0; round < 4; round++) {
                t = dt_open(&ds_sim_ops, "h200");
                module = dt_load(t, DT_PTX);
                for (uint32_t i = 0; i < 300; i++) {
                        dt_poke(t, module, i % 3 ? "step" : "poke", i * 7 % 16, DT_DEVICE_VA + i % 16 * 4, i);
                        if (i % 10 == 9)
                                cr_assert_eq(ds_sim_ops.fence(t->device, i % 16, i * 3 % 16), 0);
                        if (i % 25 == 24)
                                dt_copy(t, i % 16, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 300000);
                        if (round % 2)
                                usleep(100);
                }
                dt_wait_all(t);
                for (uint64_t token = 1; token < t->next_token; token++) {
                        if (!round)
                                first[token] = t->seen[token];
                        cr_assert_eq(t->seen[token].start_ns, first[token].start_ns, "token %d of round %d", (int)token,
                                round);
                        cr_assert_eq(t->seen[token].end_ns, first[token].end_ns);
                        cr_assert_eq(t->seen[token].status, first[token].status);
                }
                dt_close(t);
        }
        free(first);
}
