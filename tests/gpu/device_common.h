/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test bodies for every device behind the vtable
 *
 * Each body takes the implementation and a specification, so that one function runs on the simulated GPU and on a real
 * one. The bodies assume nothing about time except that it moves; tests beside the simulator cover properties of its
 * model. The harness owns one device with one rung over all TPCs, one space, and a range of pinned host memory.
 *
 * A binary includes this file once; it defines static functions only.
 */
#pragma once

#ifdef DT_PLAIN
#include "tests/gpu/plain.h"
#else
#include <criterion/criterion.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/device.h"
#include "util/macro.h"

#define DT_SPACE 7
#define DT_DEVICE_VA UINT64_C(0x300000000000)
#define DT_HOST_VA UINT64_C(0x310000000000)
#ifndef DT_SLAB
#define DT_SLAB DS_MIB(64)
#endif
#ifndef DT_HOST
#define DT_HOST DS_MAX(DT_SLAB, DS_MIB(32))
#endif
#define DT_TOKENS 4096

struct dt {
        const struct ds_device_ops *ops;
        const char *spec;
        ds_device *device;
        uint32_t rung, stream;
        int slab, host;
        uint64_t next_token;
        uint32_t n_seen;
        struct ds_completion seen[DT_TOKENS]; /* completions by token */
        uint8_t came[DT_TOKENS];
};

/* --- harness ------------------------------------------------------------------------------------------------------ */

ds_unused static struct ds_tpc_mask dt_mask(uint32_t first, uint32_t n)
{
        struct ds_tpc_mask mask = {};

        for (uint32_t i = first; i < first + n; i++)
                mask.word[i / 64] |= UINT64_C(1) << i % 64;
        return mask;
}

ds_unused static int dt_memfd(uint64_t size)
{
        int fd = memfd_create("test-host", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        cr_assert(fd >= 0 && !ftruncate(fd, (off_t)size) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
        return fd;
}

ds_unused static struct dt *dt_open(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = calloc(1, sizeof(*t));
        const struct ds_device_info *info;
        struct ds_tpc_mask all;

        t->ops = ops;
        t->spec = spec;
        cr_assert_eq(ops->open(spec, &t->device), 0, "%s:%s does not open", ops->name, spec);
        info = ops->info(t->device);
        all = dt_mask(0, info->n_tpcs);
        cr_assert_eq(ops->rung_create(t->device, &all, &t->rung), 0);
        cr_assert_eq(ops->space_add(t->device, DT_SPACE), 0);
        cr_assert_eq(ops->mem_create(t->device, DT_SLAB, &t->slab), 0);
        cr_assert_eq(ops->mem_map(t->device, DT_SPACE, t->slab, DT_DEVICE_VA, DT_SLAB), 0);
        t->host = dt_memfd(DT_HOST);
        cr_assert_eq(ops->host_map(t->device, DT_SPACE, t->host, DT_HOST_VA, DT_HOST), 0);
        t->stream = ds_device_stream(t->rung, 1, 0);
        t->next_token = 1;
        return t;
}

ds_unused static void dt_close(struct dt *t)
{
        t->device = t->ops->close(t->device);
        cr_assert_null(t->device);
        close(t->slab);
        close(t->host);
        free(t);
}

ds_unused static uint64_t dt_token(struct dt *t)
{
        cr_assert(t->next_token < DT_TOKENS);
        return t->next_token++;
}

/* Takes the ready completions; asserts that each token completes once. */
ds_unused static size_t dt_poll(struct dt *t)
{
        struct ds_completion c[16];
        size_t n = t->ops->poll(t->device, c, DS_ARRAY_SIZE(c));

        for (size_t i = 0; i < n; i++) {
                cr_assert(c[i].token && c[i].token < t->next_token, "completion of an unknown token: %llu",
                        (unsigned long long)c[i].token);
                cr_assert(!t->came[c[i].token], "token %llu completed twice", (unsigned long long)c[i].token);
                cr_assert(c[i].start_ns <= c[i].end_ns);
                t->came[c[i].token] = 1;
                t->seen[c[i].token] = c[i];
                t->n_seen++;
        }
        return n;
}

/* Does one step of waiting: polls, moves a virtual clock, or sleeps until the device signals an event. */
ds_unused static void dt_step(struct dt *t)
{
        struct pollfd p = {.fd = t->ops->event_fd(t->device), .events = POLLIN};
        int r = 0;

        if (dt_poll(t))
                return;
        if (t->ops->advance)
                r = t->ops->advance(t->device, UINT64_MAX);
        cr_assert_neq(r, -ETIME, "waits for an event that cannot happen");
        if (r == -EAGAIN || !t->ops->advance)
                cr_assert(
                        poll(&p, p.fd >= 0, p.fd >= 0 ? 120000 : 1) > 0 || p.fd < 0, "no event within the time limit");
}

ds_unused static const struct ds_completion *dt_wait(struct dt *t, uint64_t token)
{
        while (!t->came[token])
                dt_step(t);
        return &t->seen[token];
}

ds_unused static void dt_wait_all(struct dt *t)
{
        while (t->n_seen < t->next_token - 1)
                dt_step(t);
}

ds_unused static void dt_ok(struct dt *t, uint64_t token)
{
        const struct ds_completion *c = dt_wait(t, token);

        cr_assert_eq(c->status, 0, "status %d: %s", c->status, c->message);
}

/*
 * Makes the image for module_load: on a real GPU the cubin that the helper would make, with the ptxas that the helper
 * would find. malloc'ed.
 */
ds_unused static void *dt_image(struct dt *t, const char *ptx, size_t *ret_size)
{
        const struct ds_device_info *info = t->ops->info(t->device);
        char dir[] = "/tmp/detshare-image-XXXXXX", command[600];
        void *image = NULL;
        long size = -1;
        FILE *f;

        if (info->simulated) {
                *ret_size = strlen(ptx) + 1;
                return strdup(ptx);
        }
        cr_assert(mkdtemp(dir));
        (void)snprintf(command, sizeof(command),
                "cd %s && cat >in.ptx && PATH=$CUDA_HOME/bin:/usr/local/cuda/bin:$PATH ${PTXAS:-ptxas} -arch=sm_%u%u "
                "-o out.cubin in.ptx",
                dir, info->cc_major, info->cc_minor);
        f = popen(command, "w");
        cr_assert(f && fputs(ptx, f) >= 0 && pclose(f) == 0, "ptxas failed");
        (void)snprintf(command, sizeof(command), "%s/out.cubin", dir);
        f = fopen(command, "rb");
        cr_assert(f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) > 0 && (image = malloc((size_t)size)));
        rewind(f);
        cr_assert_eq(fread(image, 1, (size_t)size, f), (size_t)size);
        fclose(f);
        (void)snprintf(command, sizeof(command), "rm -r %s", dir);
        cr_assert_eq(system(command), 0);
        *ret_size = (size_t)size;
        return image;
}

ds_unused static ds_device_module *dt_load_in(struct dt *t, uint32_t space, const char *ptx)
{
        ds_device_module *module = NULL;
        char log[4096] = "";
        size_t size;
        void *image = dt_image(t, ptx, &size);
        int r = t->ops->module_load(t->device, space, image, size, log, sizeof(log), &module);

        cr_assert_eq(r, 0, "%d: %s", r, log);
        free(image);
        return module;
}

ds_unused static ds_device_module *dt_load(struct dt *t, const char *ptx)
{
        return dt_load_in(t, DT_SPACE, ptx);
}

ds_unused static struct ds_launch dt_launch_of(
        struct dt *t, ds_device_module *module, const char *name, uint32_t grid, uint32_t block)
{
        struct ds_launch l = {
                .stream = t->stream,
                .space = DT_SPACE,
                .kernel = t->ops->kernel_find(module, name),
                .grid = {grid, 1, 1},
                .block = {block, 1, 1},
        };

        cr_assert_not_null(l.kernel, "no kernel %s", name);
        return l;
}

ds_unused static uint64_t dt_launch(struct dt *t, const struct ds_launch *launch)
{
        uint64_t token = dt_token(t);
        int r = t->ops->launch(t->device, launch, token);

        cr_assert_eq(r, 0, "launch: %d", r);
        return token;
}

ds_unused static uint64_t dt_copy(
        struct dt *t, uint32_t stream, enum ds_copy_kind kind, uint64_t dst, uint64_t src, uint64_t size)
{
        struct ds_copy c = {
                .stream = stream, .space = DT_SPACE, .kind = kind, .dst = dst, .src = src, .width = size, .height = 1};
        uint64_t token = dt_token(t);

        cr_assert_eq(t->ops->copy(t->device, &c, token), 0);
        return token;
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

#define DT_PTX_HEADER ".version 7.0\n.target sm_60\n.address_size 64\n"

/* kernel saxpy: y[i] = a * x[i] + y[i] for i < n */
#define DT_PTX_SAXPY                                                                                                \
        ".visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)\n"                       \
        "{\n .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .b64 %rd<8>;\n"                               \
        " ld.param.u32 %r1, [n];\n ld.param.f32 %f1, [a];\n ld.param.u64 %rd1, [x];\n ld.param.u64 %rd2, [y];\n"    \
        " mov.u32 %r2, %ctaid.x;\n mov.u32 %r3, %ntid.x;\n mov.u32 %r4, %tid.x;\n mad.lo.s32 %r5, %r2, %r3, %r4;\n" \
        " setp.ge.s32 %p1, %r5, %r1;\n @%p1 bra DONE;\n cvta.to.global.u64 %rd3, %rd1;\n"                           \
        " cvta.to.global.u64 %rd4, %rd2;\n mul.wide.s32 %rd5, %r5, 4;\n add.s64 %rd6, %rd3, %rd5;\n"                \
        " add.s64 %rd7, %rd4, %rd5;\n ld.global.f32 %f2, [%rd6];\n ld.global.f32 %f3, [%rd7];\n"                    \
        " fma.rn.f32 %f4, %f1, %f2, %f3;\n st.global.f32 [%rd7], %f4;\nDONE:\n ret;\n}\n"

#define DT_PTX_NULL ".visible .entry null()\n{\n ret;\n}\n"
#define DT_PTX_TRAP ".visible .entry traps()\n{\n trap;\n ret;\n}\n"
#define DT_PTX_SPIN ".visible .entry spins()\n{\nAGAIN:\n bra AGAIN;\n}\n"

/* kernel poke: *p = value */
#define DT_PTX_POKE                                                                                       \
        ".visible .entry poke(.param .u64 p, .param .u32 value)\n"                                        \
        "{\n .reg .b32 %r<2>; .reg .b64 %rd<2>;\n ld.param.u64 %rd1, [p];\n ld.param.u32 %r1, [value];\n" \
        " st.u32 [%rd1], %r1;\n ret;\n}\n"

/* kernel step: *p = *p * 3 + add, by one thread; the result depends on the order of launches */
#define DT_PTX_STEP                                                                                     \
        ".visible .entry step(.param .u64 p, .param .u32 add)\n"                                        \
        "{\n .reg .b32 %r<4>; .reg .b64 %rd<2>;\n ld.param.u64 %rd1, [p];\n ld.param.u32 %r1, [add];\n" \
        " ld.global.u32 %r2, [%rd1];\n mad.lo.u32 %r3, %r2, 3, %r1;\n st.global.u32 [%rd1], %r3;\n ret;\n}\n"

/* kernel count: counter += 1, *out = counter */
#define DT_PTX_COUNT                                                                                           \
        ".visible .global .align 4 .u32 counter = 40;\n"                                                       \
        ".visible .entry count(.param .u64 out)\n"                                                             \
        "{\n .reg .b32 %r<3>; .reg .b64 %rd<2>;\n ld.param.u64 %rd1, [out];\n ld.global.u32 %r1, [counter];\n" \
        " add.u32 %r2, %r1, 1;\n st.global.u32 [counter], %r2;\n st.global.u32 [%rd1], %r2;\n ret;\n}\n"

/* kernel clock: *out = %globaltimer */
#define DT_PTX_CLOCK                                                                        \
        ".visible .entry clock(.param .u64 out)\n"                                          \
        "{\n .reg .b64 %rd<3>;\n ld.param.u64 %rd1, [out];\n mov.u64 %rd2, %globaltimer;\n" \
        " st.global.u64 [%rd1], %rd2;\n ret;\n}\n"

#define DT_PTX DT_PTX_HEADER DT_PTX_SAXPY DT_PTX_NULL DT_PTX_TRAP DT_PTX_SPIN DT_PTX_POKE DT_PTX_STEP

struct dt_poke_params {
        uint64_t p;
        uint32_t value;
};

ds_unused static uint64_t dt_poke(
        struct dt *t, ds_device_module *module, const char *name, uint32_t stream, uint64_t p, uint32_t value)
{
        struct dt_poke_params params = {.p = p, .value = value};
        struct ds_launch l = dt_launch_of(t, module, name, 1, 1);

        l.stream = stream;
        l.params = &params;
        l.params_size = 12;
        return dt_launch(t, &l);
}

/* --- information and rungs ---------------------------------------------------------------------------------------- */

ds_unused static void dt_test_info(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        const struct ds_device_info *info = ops->info(t->device);

        cr_assert_eq(ops->version, DS_DEVICE_OPS_VERSION);
        cr_assert(info->name[0] && info->model[0]);
        cr_assert(info->n_tpcs && info->n_tpcs <= DS_DEVICE_TPCS_MAX && info->n_sms >= info->n_tpcs);
        cr_assert(info->memory_bytes >= DS_MIB(128));
        cr_assert_eq(info->slab_granularity % 65536, 0);
        cr_assert_eq(info->attributes[16], (int32_t)info->n_sms);
        cr_assert_eq(info->attributes[75], (int32_t)info->cc_major);
        cr_assert_eq(info->attributes[76], (int32_t)info->cc_minor);
        cr_assert_eq(info->attributes[1], 1024);
        cr_assert_eq(info->attributes[10], 32);
        cr_assert_eq(info->attributes[41], 1, "unified addressing");
        cr_assert_eq(info->attributes[0], 0);
        dt_close(t);
}

ds_unused static void dt_test_rungs(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        const struct ds_device_info *info = ops->info(t->device);
        struct ds_tpc_mask mask = dt_mask(0, info->n_tpcs / 2), none = {};
        const struct ds_rung_info *rung;
        uint32_t id = 99;

        cr_assert_eq(ops->rung_create(t->device, &mask, &id), 0);
        cr_assert_eq(id, t->rung + 1, "rung ids are dense");
        rung = ops->rung_info(t->device, id);
        cr_assert_eq(rung->n_tpcs, info->n_tpcs / 2);
        cr_assert_eq(memcmp(&rung->mask, &mask, sizeof(mask)), 0);
        cr_assert_eq(rung->n_sms, info->n_tpcs / 2 * (info->n_sms / info->n_tpcs));
        cr_assert_null(ops->rung_info(t->device, id + 1));
        cr_assert(ops->rung_create(t->device, &none, &id) < 0);
        mask = dt_mask(info->n_tpcs, 1);
        if (info->n_tpcs < DS_DEVICE_TPCS_MAX)
                cr_assert(ops->rung_create(t->device, &mask, &id) < 0, "a TPC that does not exist");
        dt_close(t);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

ds_unused static void dt_test_spaces(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);

        cr_assert_eq(ops->space_add(t->device, DT_SPACE), -EEXIST);
        cr_assert_eq(ops->space_remove(t->device, 1234), -ENOENT);
        cr_assert_eq(ops->space_add(t->device, 1), 0);
        cr_assert_eq(ops->space_add(t->device, 4000000000u), 0);
        cr_assert_eq(ops->space_remove(t->device, 1), 0);
        cr_assert_eq(ops->space_add(t->device, 1), 0, "the id of a removed space can be used again");
        cr_assert_eq(ops->space_remove(t->device, 1), 0);
        cr_assert_eq(ops->space_remove(t->device, 4000000000u), 0);
        /* removing DT_SPACE unmaps its memory, and its addresses are free again */
        cr_assert_eq(ops->space_remove(t->device, DT_SPACE), 0);
        cr_assert_eq(ops->space_add(t->device, DT_SPACE), 0);
        cr_assert_eq(ops->mem_map(t->device, DT_SPACE, t->slab, DT_DEVICE_VA, DT_SLAB), 0);
        dt_close(t);
}

ds_unused static void dt_test_memory(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        uint8_t *host = (uint8_t *)DT_HOST_VA;
        uint64_t size = DS_MIB(5) + 12345;

        /* new slabs are zero */
        memset(host, 0xaa, size);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA + 1000, size));
        for (uint64_t i = 0; i < size; i++)
                cr_assert_eq(host[i], 0, "byte %llu of a new slab is not zero", (unsigned long long)i);
        for (uint64_t i = 0; i < size; i++)
                host[i] = (uint8_t)(i * 131 + i / 257);
        dt_copy(t, t->stream, DS_COPY_HTOD, DT_DEVICE_VA, DT_HOST_VA, size);
        dt_copy(t, t->stream, DS_COPY_DTOD, DT_DEVICE_VA + DS_MIB(8), DT_DEVICE_VA, size);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA + DS_MIB(16), DT_DEVICE_VA + DS_MIB(8), size));
        cr_assert_eq(memcmp(host, host + DS_MIB(16), size), 0);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_HTOH, DT_HOST_VA + DS_MIB(24), DT_HOST_VA, size));
        cr_assert_eq(memcmp(host, host + DS_MIB(24), size), 0);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_HTOH, DT_HOST_VA, DT_HOST_VA, 0));
        dt_close(t);
}

ds_unused static void dt_test_copy_2d(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        uint8_t *host = (uint8_t *)DT_HOST_VA;
        struct ds_copy c = {.stream = t->stream,
                .space = DT_SPACE,
                .kind = DS_COPY_HTOD,
                .dst = DT_DEVICE_VA,
                .src = DT_HOST_VA,
                .width = 300,
                .height = 1000,
                .dst_pitch = 512,
                .src_pitch = 320};
        uint64_t token = dt_token(t);

        for (uint32_t i = 0; i < 320 * 1000; i++)
                host[i] = (uint8_t)(i * 7 + i / 320);
        memset(host + DS_MIB(1), 0x5a, 512 * 1000);
        cr_assert_eq(ops->copy(t->device, &c, token), 0);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA + DS_MIB(1), DT_DEVICE_VA, 512 * 999 + 300));
        for (uint32_t y = 0; y < 1000; y++) {
                cr_assert_eq(memcmp(host + y * 320, host + DS_MIB(1) + y * 512, 300), 0, "row %u", y);
                if (y < 999)
                        for (uint32_t x = 300; x < 512; x++)
                                cr_assert_eq(host[DS_MIB(1) + y * 512 + x], 0, "the copy wrote between rows");
        }
        dt_close(t);
}

ds_unused static void dt_test_memset(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        struct ds_memset m = {
                .stream = t->stream, .space = DT_SPACE, .dst = DT_DEVICE_VA + 64, .height = 3, .pitch = 262144};
        const uint8_t *host = (const uint8_t *)DT_HOST_VA;
        uint64_t want;

        for (uint32_t size = 1; size <= 4; size *= 2) {
                m.element_size = size;
                m.value = 0xa1b2c3d4;
                m.width = 60000 / size;
                cr_assert_eq(ops->memset(t->device, &m, dt_token(t)), 0);
                dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, DS_MIB(1)));
                for (uint32_t i = 0; i < DS_MIB(1); i++) {
                        uint32_t x = (i - 64) % 262144;

                        want = i >= 64 && i < 64 + 3 * 262144 && x < 60000 ? m.value >> (x % size * 8) & 0xff : 0;
                        cr_assert_eq(host[i], want, "element size %u, byte %u", size, i);
                }
        }
        dt_close(t);
}

ds_unused static void dt_test_memory_errors(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        uint64_t granularity = ops->info(t->device)->slab_granularity;
        struct ds_copy c = {.stream = t->stream,
                .space = DT_SPACE,
                .kind = DS_COPY_DTOD,
                .dst = DT_DEVICE_VA,
                .src = DT_DEVICE_VA + DT_SLAB - 8,
                .width = 16,
                .height = 1};
        struct ds_memset m = {.stream = t->stream,
                .space = DT_SPACE,
                .dst = DT_DEVICE_VA,
                .element_size = 4,
                .width = 4,
                .height = 1};
        int fd = -1, r;

        cr_assert_eq(ops->mem_create(t->device, UINT64_C(1) << 50, &fd), DS_CUDA_OUT_OF_MEMORY);
        cr_assert(ops->mem_create(t->device, 0, &fd) < 0);
        cr_assert(ops->mem_create(t->device, granularity + 1, &fd) < 0);
        cr_assert_eq(fd, -1, "a failed call does not change its result");
        cr_assert(
                ops->mem_map(t->device, DT_SPACE, t->slab, DT_DEVICE_VA, DT_SLAB) < 0, "the address is already mapped");
        cr_assert(ops->mem_map(t->device, DT_SPACE, t->slab, DT_DEVICE_VA + DT_SLAB + 4096, granularity) < 0);
        r = ops->mem_map(t->device, DT_SPACE, t->slab, DT_DEVICE_VA + DT_SLAB, DT_SLAB * 2);
        cr_assert(r, "a range that is too large was mapped: %d", r);
        cr_assert_eq(ops->mem_map(t->device, 999, t->slab, DT_DEVICE_VA + DT_SLAB, DT_SLAB), -ENOENT);
        cr_assert(ops->mem_unmap(t->device, DT_SPACE, DT_DEVICE_VA, DT_SLAB / 2) < 0,
                "unmapped with another range than mapped");
        cr_assert(ops->mem_unmap(t->device, DT_SPACE, DT_HOST_VA, DT_HOST) < 0, "host memory was accepted as a slab");

        cr_assert_eq(ops->copy(t->device, &c, 1), DS_CUDA_INVALID_VALUE, "a range past the end was accepted");
        c.src = 0x1000;
        cr_assert_eq(ops->copy(t->device, &c, 1), DS_CUDA_INVALID_VALUE, "never mapped");
        c.src = DT_DEVICE_VA + 64;
        c.width = UINT64_MAX;
        cr_assert_eq(ops->copy(t->device, &c, 1), DS_CUDA_INVALID_VALUE);
        c.width = 16;
        c.height = UINT64_MAX / 2;
        c.src_pitch = c.dst_pitch = 16;
        cr_assert_eq(ops->copy(t->device, &c, 1), DS_CUDA_INVALID_VALUE);
        c.height = 2;
        c.src_pitch = 8;
        cr_assert_eq(ops->copy(t->device, &c, 1), DS_CUDA_INVALID_VALUE, "rows overlap");
        m.width = DT_SLAB / 4 + 1;
        cr_assert_eq(ops->memset(t->device, &m, 1), DS_CUDA_INVALID_VALUE);
        m.width = UINT64_MAX / 2;
        cr_assert_eq(ops->memset(t->device, &m, 1), DS_CUDA_INVALID_VALUE);
        m.width = 4;
        m.element_size = 3;
        cr_assert_eq(ops->memset(t->device, &m, 1), DS_CUDA_INVALID_VALUE);
        cr_assert_eq(dt_poll(t), 0, "a refused operation has no completion");

        cr_assert_eq(ops->mem_unmap(t->device, DT_SPACE, DT_DEVICE_VA, DT_SLAB), 0);
        c = (struct ds_copy){.stream = t->stream,
                .space = DT_SPACE,
                .kind = DS_COPY_HTOD,
                .dst = DT_DEVICE_VA,
                .src = DT_HOST_VA,
                .width = 4,
                .height = 1};
        cr_assert_eq(ops->copy(t->device, &c, 1), DS_CUDA_INVALID_VALUE, "unmapped");
        dt_close(t);
}

/* A slab lives as long as its file descriptor: a device that is opened later finds the bytes at the same address. */
ds_unused static void dt_test_slab_survives(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        uint32_t *host = (uint32_t *)DT_HOST_VA;
        int slab;

        for (uint32_t i = 0; i < DT_SLAB / 4; i++)
                host[i] = i * 2654435761u;
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_HTOD, DT_DEVICE_VA, DT_HOST_VA, DT_SLAB));
        slab = dup(t->slab);
        dt_close(t);

        t = dt_open(ops, spec);
        cr_assert_eq(ops->mem_map(t->device, DT_SPACE, slab, DT_DEVICE_VA + 2 * DT_SLAB, DT_SLAB), 0);
        cr_assert_eq(ops->mem_unmap(t->device, DT_SPACE, DT_DEVICE_VA, DT_SLAB), 0);
        cr_assert_eq(ops->mem_unmap(t->device, DT_SPACE, DT_DEVICE_VA + 2 * DT_SLAB, DT_SLAB), 0);
        cr_assert_eq(ops->mem_map(t->device, DT_SPACE, slab, DT_DEVICE_VA, DT_SLAB), 0);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, DT_SLAB));
        for (uint32_t i = 0; i < DT_SLAB / 4; i++)
                cr_assert_eq(host[i], i * 2654435761u, "word %u", i);
        close(slab);
        dt_close(t);
}

/* --- modules ------------------------------------------------------------------------------------------------------ */

ds_unused static void dt_test_module(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        const struct ds_kernel_info *info;
        size_t n = 0;

        while (ops->kernel_at(module, n))
                n++;
        cr_assert_eq(n, 6);
        cr_assert_null(ops->kernel_find(module, "nothing"));
        info = ops->kernel_info(ops->kernel_find(module, "saxpy"));
        cr_assert_str_eq(info->name, "saxpy");
        cr_assert_eq(info->n_params, 4);
        cr_assert_eq(info->params[0].offset, 0);
        cr_assert_eq(info->params[1].offset, 4);
        cr_assert_eq(info->params[2].offset, 8);
        cr_assert_eq(info->params[3].offset, 16);
        cr_assert_eq(info->params[3].size, 8);
        cr_assert_eq(info->params_size, 24);
        cr_assert_eq(info->max_threads, 1024);
        cr_assert(info->registers >= 1 && info->registers <= 255);
        cr_assert_eq(ops->module_has_globals(module), 0);
        cr_assert_null(ops->module_unload(t->device, module));
        dt_close(t);
}

/* Four kernels: one waits for other blocks, one is idempotent, one reads the size of its shared memory, one does
 * none of these */
#define DT_PTX_FACTS                                                                                 \
        ".visible .entry waits(.param .u64 p)\n{\n .reg .b64 %rd1; .reg .b32 %r1; .reg .pred %p1;\n" \
        " ld.param.u64 %rd1, [p];\nL:\n ld.volatile.global.u32 %r1, [%rd1];\n"                       \
        " setp.eq.u32 %p1, %r1, 0;\n @%p1 bra L;\n ret;\n}\n"                                        \
        ".visible .entry again(.param .u64 p)\n{\n .reg .b64 %rd1;\n ld.param.u64 %rd1, [p];\n"      \
        " st.global.u32 [%rd1], 7;\n ret;\n}\n"                                                      \
        ".visible .entry sees(.param .u64 p)\n{\n .reg .b64 %rd1; .reg .b32 %r<3>;\n"                \
        " ld.param.u64 %rd1, [p];\n mov.u32 %r1, %dynamic_smem_size;\n ld.global.u32 %r2, [%rd1];\n" \
        " add.u32 %r1, %r1, %r2;\n st.global.u32 [%rd1], %r1;\n ret;\n}\n"                           \
        ".visible .entry plain(.param .u64 p)\n{\n .reg .b64 %rd1; .reg .b32 %r1;\n"                 \
        " ld.param.u64 %rd1, [p];\n ld.global.u32 %r1, [%rd1];\n add.u32 %r1, %r1, 1;\n"             \
        " st.global.u32 [%rd1], %r1;\n ret;\n}\n"

/* Facts that the device reads from code; machine code does not show whether a kernel is idempotent. */
ds_unused static void dt_test_kernel_facts(const struct ds_device_ops *ops, const char *spec)
{
        static const struct {
                const char *name;
                uint32_t waits, idempotent, sees;
        } rows[] = {{"waits", 1, 0, 0}, {"again", 0, 1, 0}, {"sees", 0, 0, 1}, {"plain", 0, 0, 0}};
        struct dt *t = dt_open(ops, spec);
        ds_device_module *modules[] = {
                dt_load(t, DT_PTX_HEADER DT_PTX_FACTS), dt_load(t, DT_PTX_HEADER ".global .u32 kept;\n" DT_PTX_FACTS)};

        for (size_t i = 0; i < 2 * DS_ARRAY_SIZE(rows); i++) {
                ds_device_module *module = modules[i / DS_ARRAY_SIZE(rows)];
                size_t n = i % DS_ARRAY_SIZE(rows);
                const struct ds_kernel_info *info = ops->kernel_info(ops->kernel_find(module, rows[n].name));

                cr_expect_eq(info->waits, rows[n].waits, "%s", rows[n].name);
                cr_expect_eq(
                        info->idempotent, ops->info(t->device)->simulated && rows[n].idempotent, "%s", rows[n].name);
                cr_expect_eq(info->sees_shared, rows[n].sees, "%s", rows[n].name);
        }
        dt_close(t);
}

/* A kernel's hash depends on its image and its name only: it is the same after the device was opened again. */
ds_unused static void dt_test_kernel_hash(const struct ds_device_ops *ops, const char *spec)
{
        uint64_t saxpy[2], null[2], other;

        for (int i = 0; i < 2; i++) {
                struct dt *t = dt_open(ops, spec);
                ds_device_module *module = dt_load(t, DT_PTX), *different = dt_load(t, DT_PTX_HEADER DT_PTX_NULL);

                saxpy[i] = ops->kernel_info(ops->kernel_find(module, "saxpy"))->hash;
                null[i] = ops->kernel_info(ops->kernel_find(module, "null"))->hash;
                other = ops->kernel_info(ops->kernel_find(different, "null"))->hash;
                dt_close(t);
                cr_assert(saxpy[i] && null[i] && other);
                cr_assert_neq(saxpy[i], null[i]);
                cr_assert_neq(other, null[i], "another image's");
        }
        cr_assert_eq(saxpy[0], saxpy[1]);
        cr_assert_eq(null[0], null[1]);
}

ds_unused static void dt_test_module_errors(const struct ds_device_ops *ops, const char *spec)
{
        const char bad[] = DT_PTX_HEADER "\n.visible .entry k()\n{\n frobnicate.u32 %r1, %r2;\n ret;\n}\n";
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = NULL;
        char log[4096] = "";

        cr_assert_eq(ops->module_load(t->device, DT_SPACE, bad, sizeof(bad), log, sizeof(log), &module),
                DS_CUDA_INVALID_PTX);
        cr_assert(strstr(log, "7"), "the message lacks the line: %s", log);
        cr_assert(strstr(log, "frobnicate"), "the message lacks the instruction: %s", log);
        cr_assert_eq(
                ops->module_load(t->device, DT_SPACE, "\1\2\3\4", 4, log, sizeof(log), &module), DS_CUDA_INVALID_IMAGE);
        cr_assert(log[0]);
        cr_assert_eq(ops->module_load(t->device, DT_SPACE, "", 0, log, sizeof(log), &module), DS_CUDA_INVALID_IMAGE);
        cr_assert_eq(ops->module_load(t->device, 999, DT_PTX, sizeof(DT_PTX), log, sizeof(log), &module), -ENOENT);
        cr_assert_null(module);
        dt_close(t);
}

ds_unused static void dt_test_launch_errors(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        struct ds_launch good = dt_launch_of(t, module, "null", 1, 32), l;
        uint64_t p[3] = {};

        l = good;
        l.block[0] = 4096;
        cr_assert_eq(ops->launch(t->device, &l, 1), DS_CUDA_INVALID_VALUE, "4,096 threads");
        l = good;
        l.block[0] = l.block[1] = 64;
        cr_assert_eq(ops->launch(t->device, &l, 1), DS_CUDA_INVALID_VALUE, "64 x 64 threads");
        l = good;
        l.block[2] = 65;
        cr_assert_eq(ops->launch(t->device, &l, 1), DS_CUDA_INVALID_VALUE);
        l = good;
        l.grid[1] = 0;
        cr_assert_eq(ops->launch(t->device, &l, 1), DS_CUDA_INVALID_VALUE);
        l = good;
        l.grid[2] = 65536;
        cr_assert_eq(ops->launch(t->device, &l, 1), DS_CUDA_INVALID_VALUE);
        l = good;
        l.grid[0] = 0x80000000u;
        cr_assert_eq(ops->launch(t->device, &l, 1), DS_CUDA_INVALID_VALUE);
        l = good;
        l.shared_bytes = UINT32_MAX;
        cr_assert_eq(ops->launch(t->device, &l, 1), DS_CUDA_INVALID_VALUE);
        l = dt_launch_of(t, module, "saxpy", 1, 32);
        l.params = p;
        l.params_size = 8;
        cr_assert_eq(ops->launch(t->device, &l, 1), DS_CUDA_INVALID_VALUE, "parameters missing");
        l = good;
        l.kernel = NULL;
        cr_assert_eq(ops->launch(t->device, &l, 1), DS_CUDA_INVALID_HANDLE);
        cr_assert_eq(ops->space_add(t->device, 8), 0);
        l = good;
        l.space = 8;
        cr_assert_eq(ops->launch(t->device, &l, 1), DS_CUDA_INVALID_HANDLE, "a kernel ran for another session");
        l = good;
        l.stream = 1000000;
        cr_assert(ops->launch(t->device, &l, 1) < 0);
        cr_assert_eq(dt_poll(t), 0);
        dt_ok(t, dt_launch(t, &good));
        dt_close(t);
}

/* --- launches and copies ------------------------------------------------------------------------------------------ */

struct dt_saxpy_params {
        uint32_t n;
        float a;
        uint64_t x, y;
};

ds_unused static void dt_test_saxpy(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        const uint32_t n = 100003;
        struct dt_saxpy_params params = {.n = n, .a = 2.5f, .x = DT_DEVICE_VA, .y = DT_DEVICE_VA + DS_MIB(1)};
        struct ds_launch l = dt_launch_of(t, module, "saxpy", (n + 255) / 256, 256);
        float *x = (float *)DT_HOST_VA, *y = (float *)(DT_HOST_VA + DS_MIB(1)), *z = (float *)(DT_HOST_VA + DS_MIB(2));

        for (uint32_t i = 0; i < n + 100; i++) {
                x[i] = (float)i * 0.25f;
                y[i] = 1000.0f - (float)i;
        }
        dt_copy(t, t->stream, DS_COPY_HTOD, params.x, DT_HOST_VA, DS_MIB(1));
        dt_copy(t, t->stream, DS_COPY_HTOD, params.y, DT_HOST_VA + DS_MIB(1), DS_MIB(1));
        l.params = &params;
        l.params_size = sizeof(params);
        dt_launch(t, &l);
        memset(&params, 0xff, sizeof(params)); /* the device has copied the parameters by now */
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA + DS_MIB(2), DT_DEVICE_VA + DS_MIB(1), DS_MIB(1)));
        for (uint32_t i = 0; i < n + 100; i++)
                cr_assert_eq(z[i], i < n ? 2.5f * x[i] + y[i] : y[i], "element %u is %f", i, (double)z[i]);
        dt_close(t);
}

/* Kernels access pinned host memory directly. */
ds_unused static void dt_test_zero_copy(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        volatile uint32_t *host = (uint32_t *)DT_HOST_VA;

        dt_ok(t, dt_poke(t, module, "poke", t->stream, DT_HOST_VA + 4096, 77));
        cr_assert_eq(host[1024], 77);
        dt_close(t);
}

ds_unused static void dt_test_stream_order(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        volatile uint32_t *host = (uint32_t *)DT_HOST_VA;
        uint64_t last = 0, previous = 0;
        uint32_t want = 1;

        dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, 1);
        for (uint32_t i = 0; i < 200; i++) {
                last = dt_poke(t, module, "step", t->stream, DT_DEVICE_VA, i);
                want = want * 3 + i;
        }
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 4));
        cr_assert_eq(host[0], want);
        for (uint64_t token = 1; token <= last; token++) {
                cr_assert(t->seen[token].end_ns >= previous, "ends out of order");
                previous = t->seen[token].end_ns;
        }
        dt_close(t);
}

/* Steps on one value run in eight streams, each fenced behind the previous one: only the fences keep the order. */
ds_unused static void dt_test_fences(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        volatile uint32_t *host = (uint32_t *)DT_HOST_VA;
        uint32_t stream = t->stream, next, want = 5;

        dt_poke(t, module, "poke", stream, DT_DEVICE_VA, 5);
        for (uint32_t i = 0; i < 100; i++) {
                next = ds_device_stream(t->rung, i % 3 == 0, (i * 5 + 3) % DS_DEVICE_STREAMS_PER_RUNG);
                cr_assert_eq(ops->fence(t->device, stream, next), 0);
                dt_poke(t, module, "step", next, DT_DEVICE_VA, i);
                want = want * 3 + i;
                stream = next;
        }
        dt_ok(t, dt_copy(t, stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 4));
        cr_assert_eq(host[0], want);
        cr_assert_eq(ops->fence(t->device, stream, stream), 0);
        cr_assert(ops->fence(t->device, stream, 1000000) < 0);
        dt_close(t);
}

ds_unused static void dt_test_globals(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *a = dt_load(t, DT_PTX_HEADER DT_PTX_COUNT), *b = dt_load(t, DT_PTX_HEADER DT_PTX_COUNT);
        volatile uint32_t *host = (uint32_t *)DT_HOST_VA;
        struct ds_launch l = dt_launch_of(t, a, "count", 1, 1);
        uint64_t out = DT_DEVICE_VA, va = 0, size = 0, vb = 0;

        cr_assert_eq(ops->module_has_globals(a), 1);
        cr_assert_eq(ops->global_find(a, "counter", &va, &size), 0);
        cr_assert_eq(size, 4);
        cr_assert_eq(ops->global_find(a, "counter", &va, &size), 0, "twice");
        cr_assert_eq(ops->global_find(b, "counter", &vb, &size), 0);
        cr_assert_neq(va, vb, "two instances of one module have their own variables");
        cr_assert_eq(ops->global_find(a, "nothing", &va, &size), -ENOENT);
        l.params = &out;
        l.params_size = 8;
        dt_launch(t, &l);
        dt_launch(t, &l);
        dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 4);
        dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA + 4, va, 4);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA + 8, vb, 4));
        cr_assert_eq(host[0], 42);
        cr_assert_eq(host[1], 42);
        cr_assert_eq(host[2], 40);
        host[3] = 7;
        dt_copy(t, t->stream, DS_COPY_HTOD, va, DT_HOST_VA + 12, 4);
        dt_ok(t, dt_launch(t, &l));
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, 4));
        cr_assert_eq(host[0], 8);
        /* a kernel of another module gets the address of this module's variable */
        dt_poke(t, dt_load(t, DT_PTX), "poke", t->stream, va, 99);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, va, 4));
        cr_assert_eq(host[0], 99);
        cr_assert_null(ops->module_unload(t->device, a));
        cr_assert_null(ops->module_unload(t->device, b));
        dt_close(t);
}

/* The clock that kernels read and the clock of completions agree. */
ds_unused static void dt_test_clock(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX_HEADER DT_PTX_CLOCK);
        const volatile uint64_t *host = (const uint64_t *)DT_HOST_VA;
        struct ds_launch l = dt_launch_of(t, module, "clock", 1, 1);
        uint64_t tokens[10], out;

        for (uint64_t i = 0; i < 10; i++) {
                out = DT_HOST_VA + i * 8;
                l.params = &out;
                l.params_size = 8;
                tokens[i] = dt_launch(t, &l);
        }
        dt_wait_all(t);
        for (uint64_t i = 1; i < 10; i++) {
                cr_assert_eq(t->seen[tokens[i]].status, 0);
                cr_assert(host[i] > host[i - 1], "the clock stood still between two kernels of a stream");
        }
        dt_close(t);
}

/* --- faults, limits, isolation ------------------------------------------------------------------------------------ */

ds_unused static void dt_expect_fault(struct dt *t, uint64_t token, int32_t status, const char *word)
{
        const struct ds_completion *c = dt_wait(t, token);

        cr_assert_eq(c->status, status, "status %d instead of %d: %s", c->status, status, c->message);
        cr_assert(strstr(c->message, word), "'%s' does not contain '%s'", c->message, word);
}

ds_unused static void dt_test_faults(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        struct ds_launch l = dt_launch_of(t, module, "traps", 1, 32);

        dt_expect_fault(t, dt_poke(t, module, "poke", t->stream, 0x1000, 1), DS_CUDA_ILLEGAL_ADDRESS, "0x1000");
        dt_expect_fault(t, dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA + DT_SLAB, 1), DS_CUDA_ILLEGAL_ADDRESS,
                "kernel poke");
        dt_expect_fault(t, dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA + DT_SLAB - 2, 1),
                DS_CUDA_MISALIGNED_ADDRESS, "line");
        dt_expect_fault(t, dt_poke(t, module, "poke", t->stream, (uint64_t)(uintptr_t)t, 1), DS_CUDA_ILLEGAL_ADDRESS,
                "kernel poke");
        dt_expect_fault(t, dt_launch(t, &l), DS_CUDA_LAUNCH_FAILED, "traps");
        dt_close(t);
}

ds_unused static void dt_test_isolation(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module;
        volatile uint32_t *host = (uint32_t *)DT_HOST_VA;
        uint64_t other = DT_DEVICE_VA + 4 * DT_SLAB;
        struct ds_copy c = {.stream = t->stream,
                .space = DT_SPACE,
                .kind = DS_COPY_DTOH,
                .dst = DT_HOST_VA,
                .src = other,
                .width = 4,
                .height = 1};
        int slab;

        module = dt_load(t, DT_PTX);
        cr_assert_eq(ops->space_add(t->device, 8), 0);
        cr_assert_eq(ops->mem_create(t->device, DT_SLAB, &slab), 0);
        cr_assert_eq(ops->mem_map(t->device, 8, slab, other, DT_SLAB), 0);
        dt_expect_fault(t, dt_poke(t, module, "poke", t->stream, other, 666), DS_CUDA_ILLEGAL_ADDRESS, "kernel poke");
        cr_assert_eq(ops->copy(t->device, &c, 1), DS_CUDA_INVALID_VALUE, "a copy read another session's memory");
        cr_assert_eq(ops->mem_unmap(t->device, DT_SPACE, other, DT_SLAB), -ENOENT);
        cr_assert_eq(ops->space_remove(t->device, 8), 0);
        cr_assert_eq(ops->mem_map(t->device, DT_SPACE, slab, other, DT_SLAB), 0);
        dt_ok(t, dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, other, 4));
        cr_assert_eq(host[0], 0, "the fault changed other memory");
        close(slab);
        dt_close(t);
}

ds_unused static void dt_test_endless(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        struct ds_launch l = dt_launch_of(t, module, "spins", 1, 32);

        l.deadline_ns = 100 * DS_NS_PER_US;
        dt_expect_fault(t, dt_launch(t, &l), DS_CUDA_LAUNCH_TIMEOUT, "spins");
        dt_ok(t, dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, 1));
        dt_close(t);
}

/* Aborting a session with an endless kernel and queued work affects that session only, not another one with work. */
ds_unused static void dt_test_abort(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX), *mine;
        struct ds_launch spin = dt_launch_of(t, module, "spins", 4, 32), l;
        uint64_t spinning, behind[8], other;

        cr_assert_eq(ops->space_add(t->device, 8), 0);
        mine = dt_load_in(t, 8, DT_PTX);
        l = dt_launch_of(t, mine, "null", 1, 32);
        l.space = 8;
        l.stream = ds_device_stream(t->rung, 0, 3);
        spinning = dt_launch(t, &spin);
        for (size_t i = 0; i < DS_ARRAY_SIZE(behind); i++)
                behind[i] = dt_poke(t, module, "poke", t->stream, DT_DEVICE_VA, 1);
        cr_assert_eq(ops->fence(t->device, t->stream, ds_device_stream(t->rung, 0, 4)), 0);
        other = dt_launch(t, &l);
        usleep(20000);
        cr_assert_eq(ops->space_remove(t->device, DT_SPACE), -EBUSY);
        ops->abort(t->device, DT_SPACE);
        ops->abort(t->device, 31337);
        dt_wait_all(t);
        cr_assert_neq(t->seen[spinning].status, 0);
        for (size_t i = 0; i < DS_ARRAY_SIZE(behind); i++)
                cr_assert_neq(t->seen[behind[i]].status, 0);
        cr_assert_eq(t->seen[other].status, 0);
        l.stream = ds_device_stream(t->rung, 0, 4);
        dt_ok(t, dt_launch(t, &l));
        ops->module_unload(t->device, module);
        cr_assert_eq(ops->space_remove(t->device, DT_SPACE), 0);
        dt_close(t);
}

/* Closing the device with work queued and running neither waits for an endless kernel nor leaks. */
ds_unused static void dt_test_close_busy(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        ds_device_module *module = dt_load(t, DT_PTX);
        struct ds_launch spin = dt_launch_of(t, module, "spins", 1, 32);

        for (uint32_t i = 0; i < 4; i++) {
                spin.stream = ds_device_stream(t->rung, 0, i);
                dt_launch(t, &spin);
                dt_poke(t, module, "poke", spin.stream, DT_DEVICE_VA, 1);
                cr_assert_eq(ops->fence(t->device, spin.stream, t->stream), 0);
        }
        dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, DT_SLAB);
        usleep(10000);
        dt_close(t);
}

/* Memory that is unmapped during a kernel stays accessible to it until its end. */
ds_unused static void dt_test_unmap_under_work(const struct ds_device_ops *ops, const char *spec)
{
        struct dt *t = dt_open(ops, spec);
        uint64_t token = dt_copy(t, t->stream, DS_COPY_DTOH, DT_HOST_VA, DT_DEVICE_VA, DT_SLAB);

        cr_assert_eq(ops->mem_unmap(t->device, DT_SPACE, DT_DEVICE_VA, DT_SLAB), 0);
        dt_wait(t, token);
        cr_assert(t->seen[token].status == 0 || t->seen[token].status == DS_CUDA_ILLEGAL_ADDRESS);
        cr_assert_eq(ops->mem_map(t->device, DT_SPACE, t->slab, DT_DEVICE_VA, DT_SLAB), 0);
        dt_close(t);
}
