/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accuracy of the simulated H200
 *
 * The program repeats on the simulated device every measurement of the reference that the model covers, one row each. A
 * row is one of
 * - given: it describes the experiment's kernel (the time of a block, the moved bytes), or equals one constant of the
 *   model, so the device cannot miss it
 * - fit: constants of the timing model may be chosen by it (`sim_fit --fit` does, by coordinate search)
 * - held: not used for choosing constants. Its error is what a new experiment may expect.
 *
 * Rows that are not given are fit and held alternately, in the order of the reference; this was decided before any
 * fitting. The last rows execute kernels, so that the device also finds the cost of a block: held. The output depends
 * only on this file and the model. Every figure is a simulator's.
 *
 * usage: sim_fit [--fit]: prints the table as in docs/simulator/accuracy.md, or the constants that it finds
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/sim/internal.h"
#include "device/sim/sim.h"
#include "util/macro.h"

/* Omitted fields of a row or a launch are 0. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define SPACE 1
#define US 1000.0
#define ops ds_sim_ops

static struct sim_model model; /* the simulated model, with the constants under trial */

/* --- a device for the experiments --- */

struct rig {
        ds_device *device;
        ds_device_module *module;
        uint64_t token, last; /* token of the last launch; token of the last launch that has ended */
        struct ds_completion completion;
};

static void fail(const char *what)
{
        fprintf(stderr, "sim_fit: %s\n", what);
        exit(1);
}

static struct rig rig_open(const char *spec, const char *ptx)
{
        struct rig rig = {};
        char log[1024] = "";

        if (ops.open(spec, &rig.device) || ops.space_add(rig.device, SPACE))
                fail("the device does not open");
        rig.device->model = &model;
        if (ops.module_load(rig.device, SPACE, ptx, strlen(ptx), log, sizeof(log), &rig.module))
                fail(log);
        return rig;
}

static void rig_close(struct rig *rig)
{
        ops.close(rig->device);
}

/* Creates a rung of n SMs, beginning with SM `first`, and its streams. */
static uint32_t rig_rung(struct rig *rig, uint32_t first, uint32_t n)
{
        struct ds_tpc_mask mask = {};
        uint32_t rung;

        for (uint32_t tpc = first / 2; tpc < (first + n) / 2; tpc++)
                mask.word[tpc / 64] |= UINT64_C(1) << tpc % 64;
        if (ops.rung_create(rig->device, &mask, &rung))
                fail("no rung");
        return rung;
}

static uint64_t rig_now(const struct rig *rig)
{
        return ops.now(rig->device);
}

struct shape {
        const char *kernel;
        uint32_t stream, grid, block, shared, bound;
};

static uint64_t rig_launch(struct rig *rig, const struct shape *s, const void *params, uint32_t params_size)
{
        struct ds_launch l = {
                .stream = s->stream,
                .space = SPACE,
                .kernel = ops.kernel_find(rig->module, s->kernel),
                .grid = {s->grid, 1, 1},
                .block = {s->block, 1, 1},
                .shared_bytes = s->shared,
                .params = params,
                .params_size = params_size,
                .max_resident_blocks = s->bound,
        };

        if (!l.kernel || ops.launch(rig->device, &l, ++rig->token))
                fail("no launch");
        return rig->token;
}

static uint64_t rig_run(struct rig *rig, struct shape s)
{
        return rig_launch(rig, &s, NULL, 0);
}

/* Waits until the launch with this token, or every launch, has ended. */
static void rig_wait(struct rig *rig, uint64_t token)
{
        while (rig->last != token) {
                if (ops.poll(rig->device, &rig->completion, 1)) {
                        rig->last = rig->completion.token;
                        if (rig->completion.status)
                                fail(rig->completion.message);
                } else if (ops.advance(rig->device, UINT64_MAX) == -ETIME) {
                        fail("nothing more happens");
                }
        }
}

static void rig_pass(struct rig *rig, uint64_t until)
{
        struct ds_completion c;

        while (ops.advance(rig->device, until) != -ETIME)
                while (ops.poll(rig->device, &c, 1))
                        rig->last = c.token;
}

/* Time from a launch's submission until its end is seen, us. */
static double rig_latency(struct rig *rig, struct shape s)
{
        uint64_t begin = rig_now(rig);

        rig_wait(rig, rig_run(rig, s));
        return (double)(rig_now(rig) - begin) / US;
}

#define HEAD ".version 8.0\n.target sm_75\n.address_size 64\n"
#define KERNEL(name) ".visible .entry " name "()\n{\n ret;\n}\n"

ds_printf(1, 2) static const char *text(const char *fmt, ...)
{
        static char buffer[4096];
        va_list args;

        va_start(args, fmt);
        vsnprintf(buffer, sizeof(buffer), fmt, args);
        va_end(args);
        return buffer;
}

/* --- launches --- */

static double launch_sync(int unused, int unused2)
{
        struct rig rig = rig_open("h200+timing", HEAD KERNEL("null"));
        double r = rig_latency(&rig, (struct shape){"null", ds_device_stream(rig_rung(&rig, 0, 132), 0, 0), 1, 32});

        rig_close(&rig);
        return r;
}

/* Time per kernel of a chain that alternates over n_rungs rungs, us. */
static double chain(int n_rungs, int unused)
{
        struct rig rig = rig_open("h200+timing", HEAD KERNEL("null"));
        uint32_t streams[2];
        double r;

        for (int i = 0; i < 2; i++)
                streams[i] = ds_device_stream(rig_rung(&rig, 0, i ? 66 : 132), 0, 0);
        for (int i = 0; i < 1000; i++) {
                if (n_rungs > 1)
                        ops.fence(rig.device, streams[(i + 1) % 2], streams[i % 2]);
                rig_run(&rig, (struct shape){"null", streams[n_rungs > 1 ? i % 2 : 0], 1, 32});
        }
        rig_wait(&rig, rig.token);
        r = (double)rig_now(&rig) / US / 1000;
        rig_close(&rig);
        return r;
}

/* Measures launches per ms over n_streams streams. */
static double launch_rate(int n_streams, int unused)
{
        struct rig rig = rig_open("h200+timing", HEAD KERNEL("null"));
        uint32_t rung = rig_rung(&rig, 0, 132);
        uint64_t end;

        for (uint32_t i = 0; i < 4000; i++)
                rig_run(&rig, (struct shape){"null", ds_device_stream(rung, 0, i % (uint32_t)n_streams), 1, 32});
        rig_pass(&rig, 1000000000);
        end = rig.device->issue_ns;
        rig_close(&rig);
        return 4000.0 / ((double)end / 1e6);
}

static double copy_rate(int unused, int unused2)
{
        struct rig rig = rig_open("h200+timing", HEAD KERNEL("null"));
        uint32_t stream = ds_device_stream(rig_rung(&rig, 0, 132), 0, 0);
        struct ds_copy copy = {.stream = stream,
                .space = SPACE,
                .kind = DS_COPY_HTOD,
                .dst = UINT64_C(0x300000000000),
                .src = UINT64_C(0x310000000000),
                .width = 64 << 20,
                .height = 1};
        double r;
        int fd;

        for (uint64_t va = copy.dst; va <= copy.src; va += copy.src - copy.dst)
                if (ops.mem_create(rig.device, 64 << 20, &fd) || ops.mem_map(rig.device, SPACE, fd, va, 64 << 20))
                        fail("no memory");
        if (ops.copy(rig.device, &copy, ++rig.token))
                fail("no copy");
        while (!ops.poll(rig.device, &rig.completion, 1))
                ops.advance(rig.device, UINT64_MAX);
        r = (double)(64 << 20) / (double)rig_now(&rig);
        rig_close(&rig);
        return r;
}

/* --- a small kernel beside a big one --- */

enum mechanism { SAME_PRIORITY, PRIORITY, EVICTION, DISJOINT, OVERLAPPING, ALONE };

/*
 * LS: 16 blocks. BE: blocks of several lengths in us, 20 ms in total. LS arrives 361.6 us after BE, which follows from
 * its wait for blocks of 2,000 us. With eviction the host first writes a flag, which takes as long as a launch.
 */
#define START_NS 361600
#define FLAG_NS 2600

static double start_beside(int mechanism, int block_us)
{
        uint64_t block_ns = (uint64_t)block_us * 1000 + model.timing.block_ns, be;
        struct rig rig =
                rig_open("h200+timing", text(HEAD KERNEL("ls") KERNEL("be") "// detshare-sim: ls block_ns=1500\n"
                                                                            "// detshare-sim: be block_ns=%llu\n",
                                                (unsigned long long)block_ns));
        uint32_t all = rig_rung(&rig, 0, 132), few = rig_rung(&rig, 0, 16), most = rig_rung(&rig, 16, 116);
        uint32_t n = mechanism >= DISJOINT ? 116 : 132, priority = mechanism == SAME_PRIORITY;
        double r;

        if (mechanism != ALONE) {
                be = rig_run(&rig, (struct shape){"be", ds_device_stream(n == 132 ? all : most, 1, 0),
                                           n * 2 * (20000 / (uint32_t)block_us), 1024});
                rig_pass(&rig, START_NS);
                if (mechanism == EVICTION) {
                        ops.bound(rig.device, be, 0);
                        rig_pass(&rig, START_NS + FLAG_NS);
                }
        }
        r = rig_latency(
                &rig, (struct shape){"ls", ds_device_stream(mechanism == DISJOINT ? few : all, priority, 1), 16, 256});
        rig_close(&rig);
        return mechanism == EVICTION ? r + FLAG_NS / US : r;
}

/* Time from the host's write to a polling kernel until the host sees the kernel's end. */
static double told(int unused, int unused2)
{
        struct rig rig = rig_open("h200+timing", HEAD KERNEL("spin") "// detshare-sim: spin block_ns=100\n");
        struct shape s = {"spin", ds_device_stream(rig_rung(&rig, 0, 132), 0, 0), 1000000, 32};
        uint64_t token, begin = 10000, at = begin;

        token = rig_run(&rig, s);
        rig_pass(&rig, begin);
        ops.bound(rig.device, token, 0);
        while (rig.device->resident)
                rig_pass(&rig, at += 10);
        rig_close(&rig);
        return (double)(at - begin + model.timing.notify_ns) / US;
}

/* --- fewer SMs --- */

/* Parameters from the first row: time of one block, us, and number of blocks. */
static const struct {
        const char *what;
        double block_us;
        uint32_t grid, shared;
} confined_kernels[] = {
        {"bf16 GEMM 8192 (2,048 tiles)", (1238 - 7.4) / 16, 2048, 200 << 10},
        {"bf16 GEMM 2048 (128 tiles)", 29.7 - 7.4, 128, 200 << 10},
        {"5,280 short blocks", (103 - 7.4) / 40, 5280, 200 << 10},
        {"132 blocks of 1,024 threads", 102 - 7.4, 132, 0},
};

static double confined(int kernel, int n_sms)
{
        unsigned long long block_ns = (unsigned long long)(confined_kernels[kernel].block_us * 1000);
        struct rig rig = rig_open("h200+timing",
                text(HEAD KERNEL("k") "// detshare-sim: k block_ns=%llu issue_ns=%llu\n", block_ns, block_ns));
        double r = rig_latency(&rig, (struct shape){"k", ds_device_stream(rig_rung(&rig, 0, (uint32_t)n_sms), 1, 0),
                                             confined_kernels[kernel].grid, 1024, confined_kernels[kernel].shared});

        rig_close(&rig);
        return r;
}

/* --- memory --- */

enum be_kind { BE_NONE, BE_READ, BE_READ_SPLIT, BE_WRITE, BE_WRITE_SPLIT };

/* LS: 24 MiB on 66 SMs, 12.8 us alone. BE: a block requests 1/33 of the rate that 33 blocks get, 1,298 and 814 GB/s. */
#define LS_BLOCK_US (12.8 - 7.4)
#define LS_BYTES (24 << 20)
#define BE_BLOCK_US 10
#define LS_LAUNCHES 41

/* Number of blocks of the stream's first kernel that have ended. */
static uint64_t blocks_done(const struct rig *rig, uint32_t stream)
{
        const struct sim_job *job = sim_stream_find(rig->device, stream)->head;

        return job->costs.n_blocks - job->unplaced - job->resident;
}

static int compare(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

/* results of LS beside BE: LS's median time, us; BE's rate, GB/s */
struct interference {
        double ls, be;
};

static struct interference beside_memory(
        struct rig *rig, const struct shape *ls, const struct shape *be, uint64_t bytes)
{
        uint64_t times[LS_LAUNCHES], begin, blocks = 0;
        struct interference r = {};

        if (be) {
                rig_run(rig, *be);
                rig_pass(rig, 100000);
                blocks = blocks_done(rig, be->stream);
        }
        begin = rig_now(rig);
        for (int i = 0; i < LS_LAUNCHES; i++) {
                times[i] = rig_now(rig);
                rig_wait(rig, rig_run(rig, *ls));
                times[i] = rig_now(rig) - times[i];
        }
        if (be)
                r.be = (double)((blocks_done(rig, be->stream) - blocks) * bytes) / (double)(rig_now(rig) - begin);
        qsort(times, LS_LAUNCHES, sizeof(*times), compare);
        r.ls = (double)times[LS_LAUNCHES / 2] / US;
        return r;
}

static struct interference interfere(int kind, int blocks)
{
        bool split = kind == BE_READ_SPLIT || kind == BE_WRITE_SPLIT, writes = kind >= BE_WRITE;
        uint64_t bytes = (uint64_t)((writes ? 814e3 : 1298e3) / 33 * BE_BLOCK_US);
        struct rig rig = rig_open("h200+timing",
                text(HEAD KERNEL("ls") KERNEL("be") "// detshare-sim: ls block_ns=%d bytes=%d reuse=%d channels=%s\n"
                                                    "// detshare-sim: be block_ns=%d bytes=%llu written=%llu "
                                                    "channels=%s\n",
                        (int)(LS_BLOCK_US * 1000), LS_BYTES / 132, LS_BYTES / 132 * 132, split ? "15-46" : "0-46",
                        BE_BLOCK_US * 1000, (unsigned long long)bytes, (unsigned long long)(writes ? bytes : 0),
                        split ? "0-14" : "0-46"));
        struct shape ls = {"ls", ds_device_stream(rig_rung(&rig, 0, 66), 0, 0), 132, 1024};
        struct shape be = {
                "be", ds_device_stream(rig_rung(&rig, 66, 66), 1, 0), 1000000, 1024, .bound = (uint32_t)blocks};
        struct interference r = beside_memory(&rig, &ls, kind == BE_NONE ? NULL : &be, bytes);

        rig_close(&rig);
        return r;
}

static double interference_ls(int kind, int blocks)
{
        return interfere(kind, blocks).ls;
}

static double interference_be(int kind, int blocks)
{
        return interfere(kind, blocks).be;
}

/* Rate of a kernel that reads and has the device to itself, GB/s. */
static double streaming(int unused, int unused2)
{
        struct rig rig = rig_open("h200+timing", HEAD KERNEL("k") "// detshare-sim: k block_ns=10000 bytes=400000\n");
        struct shape s = {"k", ds_device_stream(rig_rung(&rig, 0, 132), 1, 0), 264 * 20, 1024};
        double r;

        rig_wait(&rig, rig_run(&rig, s));
        r = 264.0 * 20 * 400000 / (double)(rig.completion.end_ns - rig.completion.start_ns);
        rig_close(&rig);
        return r;
}

/* --- channels: the kernel is executed, so the device finds the accessed memory itself --- */

/* Even blocks read the first word repeatedly, odd blocks the second. */
static const char probe_ptx[] =
        HEAD ".visible .entry probe(.param .u64 a, .param .u64 b)\n{\n"
             " .reg .pred %p<2>;\n .reg .b32 %r<8>;\n .reg .b64 %d<4>;\n"
             " ld.param.u64 %d0, [a];\n ld.param.u64 %d1, [b];\n"
             " mov.u32 %r0, %ctaid.x;\n and.b32 %r0, %r0, 1;\n setp.eq.u32 %p0, %r0, 0;\n"
             " selp.b64 %d2, %d0, %d1, %p0;\n mov.u32 %r1, 0;\n"
             "loop:\n ld.relaxed.gpu.global.u32 %r2, [%d2];\n add.u32 %r1, %r1, 1;\n setp.lt.u32 %p1, %r1, 64;\n"
             " @%p1 bra loop;\n ret;\n}\n";

#define PROBE_VA UINT64_C(0x300000000000)

static double probe_time(struct rig *rig, uint32_t stream, uint64_t a, uint64_t b)
{
        const uint64_t params[2] = {a, b};
        struct shape s = {"probe", stream, 264, 256};

        rig_launch(rig, &s, params, sizeof(params));
        while (!ops.poll(rig->device, &rig->completion, 1))
                ops.advance(rig->device, UINT64_MAX);
        if (rig->completion.status)
                fail(rig->completion.message);
        return (double)(rig->completion.end_ns - rig->completion.start_ns);
}

static double channel_ratio(int unused, int unused2)
{
        struct rig rig = rig_open("h200", probe_ptx);
        uint32_t stream = ds_device_stream(rig_rung(&rig, 0, 132), 1, 0), first, same = 0, other = 0;
        double r;
        int fd;

        if (ops.mem_create(rig.device, 64 << 20, &fd) || ops.mem_map(rig.device, SPACE, fd, PROBE_VA, 64 << 20))
                fail("no memory");
        first = sim_channel_of(&model.channels, PROBE_VA);
        for (uint32_t at = 1 << 20; !same || !other; at += 256)
                *(sim_channel_of(&model.channels, PROBE_VA + at) == first ? &same : &other) = at;
        r = probe_time(&rig, stream, PROBE_VA, PROBE_VA + same) / probe_time(&rig, stream, PROBE_VA, PROBE_VA + other);
        rig_close(&rig);
        return r;
}

/* --- an executed kernel: the device finds its cost, too ------------------------ */

/* All threads together sum n vectors of 16 bytes, side by side. */
static const char stream_ptx[] = HEAD
        ".visible .entry stream(.param .u64 a, .param .u32 n)\n{\n"
        " .reg .pred %p<2>;\n .reg .b32 %r<16>;\n .reg .b64 %d<4>;\n"
        " ld.param.u64 %d0, [a];\n ld.param.u32 %r9, [n];\n mov.u32 %r0, %tid.x;\n mov.u32 %r1, %ctaid.x;\n"
        " mov.u32 %r2, %ntid.x;\n mad.lo.u32 %r0, %r1, %r2, %r0;\n mov.u32 %r3, %nctaid.x;\n"
        " mul.lo.u32 %r3, %r3, %r2;\n mov.u32 %r8, 0;\n"
        "loop:\n setp.ge.u32 %p0, %r0, %r9;\n @%p0 bra done;\n mul.wide.u32 %d1, %r0, 16;\n add.s64 %d2, %d0, %d1;\n"
        " ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d2];\n add.u32 %r8, %r8, %r4;\n add.u32 %r8, %r8, %r5;\n"
        " add.u32 %r8, %r8, %r6;\n add.u32 %r8, %r8, %r7;\n add.u32 %r0, %r0, %r3;\n bra loop;\n"
        "done:\n setp.ne.u32 %p1, %r8, 12345;\n @%p1 bra end;\n st.global.u32 [%d0], %r8;\n"
        "end:\n ret;\n}\n";

/* Rate of a kernel of two blocks per SM that reads `mib` MiB a second time, GB/s; for a row without a rate the
 * host's time, us. */
static double executed(int mib, int n_sms)
{
        struct rig rig = rig_open("h200", stream_ptx);
        struct shape s = {
                "stream", ds_device_stream(rig_rung(&rig, 0, (uint32_t)n_sms), 1, 0), 2 * (uint32_t)n_sms, 1024};
        struct {
                uint64_t a;
                uint32_t n;
        } params = {PROBE_VA, (uint32_t)mib << 16};
        uint64_t begin = 0;
        int fd;

        if (ops.mem_create(rig.device, 256 << 20, &fd) || ops.mem_map(rig.device, SPACE, fd, PROBE_VA, 256 << 20))
                fail("no memory");
        for (int i = 0; i < 2; i++) {
                begin = rig_now(&rig);
                rig_launch(&rig, &s, &params, 12);
                while (!ops.poll(rig.device, &rig.completion, 1))
                        ops.advance(rig.device, UINT64_MAX);
                if (rig.completion.status)
                        fail(rig.completion.message);
        }
        begin = rig_now(&rig) - begin;
        rig_close(&rig);
        if (n_sms == 66)
                return (double)begin / US;
        return (double)mib * (1 << 20) / (double)(rig.completion.end_ns - rig.completion.start_ns);
}

/* --- the rows, in the order of the reference --- */

struct row {
        const char *what, *unit;
        double measured;
        double (*again)(int a, int b);
        int a, b;
        enum {
                TURN,  /* used for choosing constants (fit) or for judging them (held), by turns */
                GIVEN, /* the row describes its experiment, or equals a constant of the model */
                HELD,  /* the row takes too long to choose constants by it */
        } given;
        double sim;
        int held;
};

#define START(what, mechanism, us20, us200, us2000)                                                   \
        {"LS start beside BE: " what ", 20 us", "us", us20, start_beside, mechanism, 20},             \
                {"LS start beside BE: " what ", 200 us", "us", us200, start_beside, mechanism, 200},  \
        {                                                                                             \
                "LS start beside BE: " what ", 2,000 us", "us", us2000, start_beside, mechanism, 2000 \
        }
#define CONFINED(sms, k0, k1, k2, k3)                                                                 \
        {"GEMM 8192 on " #sms " SMs", "us", k0, confined, 0, sms, sms == 132},                        \
                {"GEMM 2048 on " #sms " SMs", "us", k1, confined, 1, sms, sms == 132},                \
                {"5,280 short blocks on " #sms " SMs", "us", k2, confined, 2, sms, sms == 132},       \
        {                                                                                             \
                "132 blocks of 1,024 threads on " #sms " SMs", "us", k3, confined, 3, sms, sms == 132 \
        }
#define INTERFERE(what, kind, blocks, ls, be, is_given)                                                \
        {"LS beside BE " what ", " #blocks " blocks", "us", ls, interference_ls, kind, blocks, 0},     \
        {                                                                                              \
                "BE " what ", " #blocks " blocks", "GB/s", be, interference_be, kind, blocks, is_given \
        }

static struct row rows[] = {
        {"launch and synchronise on a green stream", "us", 7.7, launch_sync},
        {"chain of kernels on one stream, each", "us", 2.72, chain, 1, 0, 1},
        {"chain that changes green context at each", "us", 3.43, chain, 2, 0, 1},
        {"LS of 16 blocks, alone", "us", 8.6, start_beside, ALONE, 20, 1},
        START("same priority", SAME_PRIORITY, 19847, 19667, 19650),
        {"LS start beside BE: priority, 20 us", "us", 14.7, start_beside, PRIORITY, 20},
        {"LS start beside BE: priority, 200 us", "us", 47, start_beside, PRIORITY, 200},
        {"LS start beside BE: priority, 2,000 us", "us", 1647, start_beside, PRIORITY, 2000, 1},
        START("priority and eviction", EVICTION, 18, 51, 1654),
        START("masks of 116 and 16 SMs", DISJOINT, 9.8, 9.6, 9.8),
        START("masks of 116 and 132 SMs", OVERLAPPING, 9.8, 9.7, 9.7),
        CONFINED(132, 1238, 29.7, 103, 102),
        CONFINED(124, 1426, 49.6, 110, 198),
        CONFINED(108, 1615, 50.1, 125, 198),
        CONFINED(84, 1991, 50.4, 160, 199),
        CONFINED(66, 2442, 50.5, 200, 198),
        CONFINED(32, 4963, 92.2, 407, 486),
        CONFINED(16, 9810, 174, 808, 870),
        {"LS reads 24 MiB on 66 SMs, alone", "us", 12.8, interference_ls, BE_NONE, 0, 1},
        INTERFERE("reading", BE_READ, 132, 24.1, 3087, 0),
        INTERFERE("reading 15 channels", BE_READ_SPLIT, 132, 24.4, 1316, 0),
        INTERFERE("reading", BE_READ, 66, 16.0, 2287, 0),
        INTERFERE("reading", BE_READ, 33, 13.9, 1298, 1),
        INTERFERE("writing", BE_WRITE, 132, 19.7, 1363, 0),
        INTERFERE("writing 15 channels", BE_WRITE_SPLIT, 132, 31.4, 560, 0),
        INTERFERE("writing", BE_WRITE, 33, 13.5, 814, 1),
        {"two lines of one channel against two", "times", 13000.0 / 6700, channel_ratio},
        {"null kernel: launch and synchronise", "us", 7.3, launch_sync},
        {"null kernels over 1 stream", "k/s", 362, launch_rate, 1},
        {"null kernels over 2 streams", "k/s", 634, launch_rate, 2},
        {"null kernels over 4 streams", "k/s", 877, launch_rate, 4},
        {"null kernels over 8 streams", "k/s", 1064, launch_rate, 8, 0, 1},
        {"64 MiB to the device, registered memory", "GB/s", 55, copy_rate, 0, 0, GIVEN},
        {"a host's word to a kernel that polls, end seen", "us", 4.0, told, 0, 0, GIVEN},
        {"a kernel that streams", "GB/s", 3500, streaming, 0, 0, GIVEN},
        {"executed: a kernel that streams 128 MiB", "GB/s", 3500, executed, 128, 132, HELD},
        {"executed: LS reads 24 MiB on 66 SMs, alone", "us", 12.8, executed, 24, 66, HELD},
};

static void rows_assign(void)
{
        int n = 0;

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++)
                rows[i].held = rows[i].given == HELD || (rows[i].given == TURN && n++ % 2);
}

static double row_error(const struct row *row)
{
        return (row->sim / row->measured - 1) * 100;
}

static int compare_double(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return x < y ? -1 : x > y;
}

static void print_summary(int held)
{
        double errors[DS_ARRAY_SIZE(rows)];
        size_t n = 0;

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++)
                if (rows[i].given != GIVEN && rows[i].held == held)
                        errors[n++] = fabs(row_error(&rows[i]));
        qsort(errors, n, sizeof(*errors), compare_double);
        printf("| %s | %zu | %.1f%% | %.1f%% | %.1f%% |\n", held ? "held" : "fit", n, errors[n / 2], errors[n * 9 / 10],
                errors[n - 1]);
}

static void print_rows(void)
{
        printf("| experiment | | measured | sim | error | half |\n|---|---|---|---|---|---|\n");
        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                rows[i].sim = rows[i].again(rows[i].a, rows[i].b);
                printf("| %s | %s | %.*f | %.*f | %+.1f%% | %s |\n", rows[i].what, rows[i].unit,
                        rows[i].measured < 100 ? 2 : 0, rows[i].measured, rows[i].measured < 100 ? 2 : 0, rows[i].sim,
                        row_error(&rows[i]),
                        rows[i].given == GIVEN ? "given"
                        : rows[i].held         ? "held"
                                               : "fit");
        }
        printf("\n| half | rows | median error | p90 | worst |\n|---|---|---|---|---|\n");
        print_summary(0);
        print_summary(1);
}

/* --- constants of the models and their sources -------- */

static const struct {
        const char *name, *unit;
        size_t offset;
        const char *source; /* source of the h200's value */
} sources[] = {
#define S(name, unit, source)                                          \
        {                                                              \
#name, unit, offsetof(struct sim_timing, name), source \
        }
        S(launch_ns, "ns", "estimated: of launch and synchronise, 7.3 to 7.7 us, what kernel_ns leaves"),
        S(kernel_ns, "ns", "fit"),
        S(block_ns, "ns", "estimated"),
        S(notify_ns, "ns", "estimated, see launch_ns"),
        S(gap_ns, "ns", "estimated"),
        S(fence_ns, "ns", "the chain that changes green context"),
        S(beside_ns, "ns", "fit"),
        S(bound_ns, "ns", "the word that a kernel polls"),
        S(issue_stream_ns, "ns", "a chain of kernels on one stream"),
        S(issue_device_ns, "ns", "kernels over 8 streams"),
        S(copy_ns, "ns", "estimated"),
        S(h2d_mbps, "MB/s", "64 MiB from registered memory"),
        S(d2h_mbps, "MB/s", "as h2d_mbps; not measured"),
        S(d2d_mbps, "MB/s", "estimated: reads and writes VRAM"),
        S(memset_mbps, "MB/s", "estimated"),
        S(h2h_mbps, "MB/s", "copies of pageable memory"),
        S(kernel_mbps, "MB/s", "a kernel that streams"),
        S(l2_mbps, "MB/s", "fit"),
        S(sm_mbps, "MB/s", "estimated: 64 bytes per cycle"),
        S(write_cost, "/1024", "fit"),
        S(backlog_cost, "/1024", "fit"),
        S(issue_width, "", "vendor's architecture papers: schedulers per SM"),
        S(alu_cycles, "cycles", "estimated"),
        S(memory_stall, "cycles", "estimated: 600 ns shared by four requests of a warp"),
        S(barrier_stall, "cycles", "estimated"),
#undef S
};

static void print_constants(void)
{
        const struct sim_model *m;

        printf("\n| constant | |");
        for (size_t k = 0; (m = sim_model_at(k)); k++)
                printf(" %s |", m->name);
        printf(" the h200's is from |\n|---|---|---|---|---|---|---|\n");
        for (size_t i = 0; i < DS_ARRAY_SIZE(sources); i++) {
                printf("| `%s` | %s |", sources[i].name, sources[i].unit);
                for (size_t k = 0; (m = sim_model_at(k)); k++)
                        printf(" %u |",
                                *(const uint32_t *)(const void *)((const char *)&m->timing + sources[i].offset));
                printf(" %s |\n", sources[i].source);
        }
}

/* --- results of the SGDRC paper for two other GPUs ---------- */

/* Smallest number of consecutive bytes in one channel. */
static uint32_t channel_granule(const struct sim_channels *channels)
{
        uint32_t least = UINT32_MAX, run = 0;

        for (uint64_t at = PROBE_VA; at < PROBE_VA + (16 << 20); at += 64, run += 64) {
                if (!run || sim_channel_of(channels, at) == sim_channel_of(channels, at - 64))
                        continue;
                least = DS_MIN(least, run);
                run = 0;
        }
        return least;
}

static void print_others(void)
{
        static const struct {
                const char *name;
                uint32_t channels, granule, group;
        } parts[] = {{"gtx1080", 8, 0, 0}, {"p40", 12, 1024, 4}, {"a2000", 6, 1024, 2}};
        const struct sim_model *m;

        printf("\n| model | found by the SGDRC paper | there | sim |\n|---|---|---|---|\n");
        for (size_t i = 0; i < DS_ARRAY_SIZE(parts); i++) {
                m = sim_model_find(parts[i].name, strlen(parts[i].name));
                printf("| %s | VRAM channels | %u | %u |\n", m->name, parts[i].channels, m->channels.n);
                if (!parts[i].granule)
                        continue;
                printf("| %s | bytes in one channel | %u | %u |\n", m->name, parts[i].granule,
                        channel_granule(&m->channels));
                printf("| %s | channels that follow each other | %u | %u |\n", m->name, parts[i].group,
                        m->channels.group);
                printf("| %s | cycles of two integer instructions | 8 | %u |\n", m->name, 2 * m->timing.alu_cycles);
        }
}

/* --- choosing the constants by the fit rows ---------------------- */

/*
 * Constants that no single row determines, and the start values of the search: every combination of these round
 * numbers, independent of the model's values. Only the sum of launch, kernel, block and notify is visible, so only one
 * of them is here.
 */
#define BEGINS 3

static const struct {
        const char *name;
        size_t offset;
        uint32_t begin[BEGINS];
} constants[] = {
#define C(name, ...)                                      \
        {                                                 \
#name, offsetof(struct sim_timing, name), \
                {                                         \
                        __VA_ARGS__                       \
                }                                         \
        }
        C(kernel_ns, 500),
        C(beside_ns, 500),
        C(l2_mbps, 4000000, 6000000, 8000000),
        C(write_cost, 1024, 2048, 3072),
        C(backlog_cost, 512, 1024, 2048),
#undef C
};

static uint32_t *constant(size_t i)
{
        return (uint32_t *)(void *)((char *)&model.timing + constants[i].offset);
}

/* Mean absolute logarithm of the ratio of simulated to measured values over the fit rows: twice the value and half
 * of it count the same. */
static double fit_error(void)
{
        double sum = 0;
        int n = 0;

        for (size_t i = 0; i < DS_ARRAY_SIZE(rows); i++) {
                if (rows[i].given || rows[i].held)
                        continue;
                sum += fabs(log(rows[i].again(rows[i].a, rows[i].b) / rows[i].measured));
                n++;
        }
        return sum / n;
}

static double fit_one(size_t i, double step, double best)
{
        uint32_t *value = constant(i), kept = *value;
        double error;

        for (int sign = -1; sign <= 1; sign += 2) {
                *value = (uint32_t)lround(kept * (1 + sign * step));
                error = fit_error();
                if (error < best - 1e-6)
                        return error;
        }
        *value = kept;
        return best;
}

/* Searches constants from the n-th combination by descent. Returns the final error. */
static double fit_from(uint32_t n)
{
        double best, before;

        for (size_t i = 0; i < DS_ARRAY_SIZE(constants); i++) {
                if (!constants[i].begin[1]) {
                        *constant(i) = constants[i].begin[0];
                        continue;
                }
                *constant(i) = constants[i].begin[n % BEGINS];
                n /= BEGINS;
        }
        best = fit_error();
        for (double step = 0.32; step > 0.015; step /= 2) {
                do {
                        before = best;
                        for (size_t i = 0; i < DS_ARRAY_SIZE(constants); i++)
                                best = fit_one(i, step, best);
                } while (best < before);
        }
        return best;
}

static void fit(void)
{
        double best = INFINITY, error;

        for (uint32_t n = 0; n < BEGINS * BEGINS * BEGINS; n++) {
                error = fit_from(n);
                if (error >= best)
                        continue;
                best = error;
                printf("error %.4f", error);
                for (size_t i = 0; i < DS_ARRAY_SIZE(constants); i++)
                        printf(", .%s = %u", constants[i].name, *constant(i));
                printf("\n");
        }
}

static void print_all(void)
{
        print_rows();
        print_constants();
        print_others();
}

int main(int argc, char **argv)
{
        model = *sim_model_find("h200", 4);
        rows_assign();
        if (argc > 1 && !strcmp(argv[1], "--fit"))
                fit();
        else
                print_all();
        return 0;
}
