/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated device's owner and its execution threads, under ThreadSanitizer
 *
 * The owner submits kernels and copies to many streams, fences them, repeatedly aborts one space while the other's
 * results must stay exact, reads kernels' output while others print, unmaps memory during work, lets time pass beside
 * endless kernels, and closes while work runs. TSan exits with an error if it finds a race; this program checks the
 * results.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/sim/sim.h"
#include "util/macro.h"

#define VA UINT64_C(0x004000000000) /* address at which ThreadSanitizer allows mappings */
#define OTHER (VA + DS_GIB(1))
#define SLAB DS_MIB(64)
#define ROUNDS 60

static const struct ds_device_ops *ops = &ds_sim_ops;

static const char ptx[] =
        ".version 7.0\n.target sm_60\n.address_size 64\n"
        ".visible .entry step(.param .u64 p, .param .u32 add)\n"
        "{\n .reg .b32 %r<4>; .reg .b64 %rd<2>;\n ld.param.u64 %rd1, [p];\n ld.param.u32 %r1, [add];\n"
        " ld.global.u32 %r2, [%rd1];\n mad.lo.u32 %r3, %r2, 3, %r1;\n st.global.u32 [%rd1], %r3;\n ret;\n}\n"
        ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
        ".global .b8 words[8] = {119, 111, 114, 100, 115, 33, 10, 0};\n"
        ".visible .entry says()\n"
        "{\n .reg .b64 %rd1; .reg .b32 %n; .reg .pred %p;\n .param .b64 f; .param .b64 a; .param .b32 r;\n"
        " mov.u64 %rd1, words;\n cvta.global.u64 %rd1, %rd1;\n mov.u32 %n, 0;\nMORE:\n"
        " st.param.b64 [f], %rd1;\n st.param.b64 [a], 0;\n call.uni (r), vprintf, (f, a);\n"
        " add.u32 %n, %n, 1;\n setp.lt.u32 %p, %n, 100;\n @%p bra MORE;\n ret;\n}\n"
        ".visible .entry spins()\n{\nAGAIN:\n bra AGAIN;\n}\n";

static size_t n_said; /* bytes that the good space printed */

#define CHECK(x)                                                                         \
        do {                                                                             \
                if (!(x)) {                                                              \
                        fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #x); \
                        exit(1);                                                         \
                }                                                                        \
        } while (0)

struct space {
        uint32_t id;
        uint64_t va;
        int fd;
        ds_device_module *module;
};

static void space_open(ds_device *device, struct space *s, uint32_t id, uint64_t va)
{
        char log[1000];

        *s = (struct space){.id = id, .va = va};
        CHECK(!ops->space_add(device, id));
        CHECK(!ops->mem_create(device, SLAB, &s->fd));
        CHECK(!ops->mem_map(device, id, s->fd, va, SLAB));
        CHECK(!ops->module_load(device, id, ptx, sizeof(ptx), log, sizeof(log), &s->module));
}

static void launch(
        ds_device *device, const struct space *s, const char *name, uint32_t stream, uint64_t p, uint32_t add)
{
        struct {
                uint64_t p;
                uint32_t add;
        } params = {p, add};
        struct ds_launch l = {
                .stream = stream,
                .space = s->id,
                .kernel = ops->kernel_find(s->module, name),
                .grid = {1, 1, 1},
                .block = {1, 1, 1},
                .params = &params,
                .params_size = 12,
        };

        CHECK(!ops->launch(device, &l, 1));
}

static void listen_to(ds_device *device, uint32_t space)
{
        struct ds_device_output o;

        while (ops->output(device, &o)) {
                CHECK(o.size % 7 == 0 && !memcmp(o.text, "words!\n", 7) && !o.to_stderr);
                n_said += o.space == space ? o.size : 0;
        }
}

/* Takes completions until n have arrived. */
static void drain(ds_device *device, size_t n)
{
        struct pollfd p = {.fd = ops->event_fd(device), .events = POLLIN};
        struct ds_completion c[16];
        size_t got;
        int r;

        while (n) {
                got = ops->poll(device, c, n < 16 ? n : 16);
                n -= got;
                listen_to(device, 1);
                if (got)
                        continue;
                r = ops->advance(device, UINT64_MAX);
                CHECK(r != -ETIME);
                if (r == -EAGAIN)
                        CHECK(poll(&p, 1, 60000) == 1);
        }
}

static void round_of_work(ds_device *device, const struct space *good, const struct space *bad, uint32_t *want)
{
        struct ds_copy copy = {.stream = 9,
                .space = good->id,
                .kind = DS_COPY_DTOD,
                .dst = good->va + DS_MIB(32),
                .src = good->va + DS_MIB(1),
                .width = DS_MIB(8),
                .height = 1};
        size_t n = 0;

        for (uint32_t i = 0; i < 40; i++, n++) {
                launch(device, good, "step", i % 8, good->va + i % 8 * 4, i);
                want[i % 8] = want[i % 8] * 3 + i;
                if (i % 10 == 0)
                        CHECK(!ops->fence(device, i % 8, (i + 3) % 8));
        }
        CHECK(!ops->copy(device, &copy, 1));
        launch(device, good, "says", 0, 0, 0);
        launch(device, good, "says", 1, 0, 0);
        launch(device, bad, "says", 10, 0, 0);
        launch(device, bad, "spins", 10, 0, 0);
        launch(device, bad, "step", 10, bad->va, 1);
        copy = (struct ds_copy){.stream = 11,
                .space = bad->id,
                .kind = DS_COPY_DTOD,
                .dst = bad->va + DS_MIB(32),
                .src = bad->va,
                .width = DS_MIB(32),
                .height = 1};
        CHECK(!ops->copy(device, &copy, 1));
        CHECK(!ops->mem_unmap(device, bad->id, bad->va, SLAB));
        ops->abort(device, bad->id);
        drain(device, n + 7);
        CHECK(!ops->mem_map(device, bad->id, bad->fd, bad->va, SLAB));
}

/* The owner reads the progress of kernels while execution threads update it. */
static void beside_endless_kernels(ds_device *device, const struct space *good, const struct space *bad, uint32_t *want)
{
        for (uint32_t i = 0; i < 3; i++)
                launch(device, bad, "spins", 10 + i, 0, 0);
        for (uint32_t i = 0; i < 40; i++) {
                launch(device, good, "step", i % 8, good->va + i % 8 * 4, i);
                want[i % 8] = want[i % 8] * 3 + i;
                drain(device, 1);
        }
        ops->abort(device, bad->id);
        drain(device, 3);
}

int main(void)
{
        struct ds_tpc_mask mask = {.word = {3}};
        struct space good, bad;
        uint32_t rung, want[8] = {};
        ds_device *device;

        CHECK(!ops->open("h200", &device));
        CHECK(!ops->rung_create(device, &mask, &rung));
        space_open(device, &good, 1, VA);
        space_open(device, &bad, 2, OTHER);
        for (int i = 0; i < ROUNDS; i++)
                round_of_work(device, &good, &bad, want);
        beside_endless_kernels(device, &good, &bad, want);
        for (uint32_t i = 0; i < 8; i++)
                CHECK(((const uint32_t *)VA)[i] == want[i]);
        CHECK(n_said == (size_t)ROUNDS * 2 * 100 * 7);
        launch(device, &bad, "says", 2, 0, 0);
        launch(device, &bad, "spins", 0, 0, 0);
        launch(device, &bad, "spins", 1, 0, 0);
        launch(device, &good, "step", 2, VA, 0);
        CHECK(!ops->close(device));
        close(good.fd);
        close(bad.fd);
        return 0;
}
