/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies on the simulated GPU's timing model: they differ as they must
 *
 * An LS client sends one small kernel now and then. A BE client keeps the GPU full of blocks of 1,024 threads. The LS
 * kernel's delay depends on the policy: under fifo it waits for everything queued before it, under multistream for the
 * shortest running block, under static for nothing. The bounds are generous ones around figures that an H200 gave for
 * the same two kernels.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/sim/sim.h"
#include "sched/sched.h"
#include "util/macro.h"

#define US DS_NS_PER_US
#define MS DS_NS_PER_MS
#define LS_KERNELS 60
#define BE_QUEUE 16
#define BE_BLOCKS 2640 /* number of blocks of a BE kernel: ten times as many as the GPU holds at once */
#define BE_KEY 99      /* key of the kernel that has forms */

#define KERNEL(name) ".visible .entry " name "()\n{\n ret;\n}\n"
static const char ptx[] =
        ".version 8.0\n.target sm_75\n.address_size 64\n" KERNEL("ls") KERNEL("be20") KERNEL("be2000") KERNEL("short_")
                KERNEL("be500") ".visible .entry be500__ds_persistent(.param .align 8 .b8 v[40])\n{\n ret;\n}\n"
                                "// detshare-sim: be500 block_ns=500000\n"
                                "// detshare-sim: ls block_ns=1200\n// detshare-sim: be20 block_ns=20000\n"
                                "// detshare-sim: be2000 block_ns=2000000\n// detshare-sim: short_ block_ns=3000\n";

struct work {
        struct ds_op op;
        int busy, times, stream;
        uint64_t start_ns, end_ns;
};

struct rig {
        ds_device *device;
        ds_sched *sched;
        ds_device_module *module;
        ds_sched_session *ls_session, *be_session;
        ds_coroutine *ls, *be;
        uint64_t be_blocks;
        void (*on_done)(struct work *work);
};

static struct rig rig;

static void rig_done(void *user, struct ds_op *op, int status, uint64_t start_ns, uint64_t end_ns, const char *message)
{
        struct work *work = DS_CONTAINER_OF(op, struct work, op);

        cr_assert_eq(status, 0, "%d %s", status, message ? message : "");
        cr_assert_eq(work->busy, 1);
        work->busy = 0;
        work->times++;
        work->start_ns = start_ns;
        work->end_ns = end_ns;
        if (rig.on_done)
                rig.on_done(work);
}

static const char *build_path(const char *what)
{
        static char path[4096];
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 128);

        cr_assert_gt(n, 0);
        path[n] = 0;
        for (int i = 0; i < 3; i++)
                *strrchr(path, '/') = 0;
        strcat(path, "/");
        strcat(path, what);
        return path;
}

static void rig_open(const char *dir, const char *policy)
{
        struct ds_sched_config config = {.ops = &ds_sim_ops,
                .policy_dir = build_path(dir),
                .policy = policy,
                .nonsense_limit = UINT32_MAX,
                .done = rig_done};
        struct ds_sched_session_config ls = {.id = 1, .class_ = DETSHARE_CLASS_LS, .sm_percent = 100, .space = 1};
        struct ds_sched_session_config be = {.id = 2, .class_ = DETSHARE_CLASS_BE, .sm_percent = 100, .space = 1};
        char log[512] = "";

        memset(&rig, 0, sizeof(rig));
        cr_assert_eq(ds_sim_ops.open("h200+timing", &rig.device), 0);
        cr_assert_eq(ds_sim_ops.space_add(rig.device, 1), 0);
        cr_assert_eq(ds_sim_ops.module_load(rig.device, 1, ptx, sizeof(ptx) - 1, log, sizeof(log), &rig.module), 0,
                "%s", log);
        config.device = rig.device;
        cr_assert_eq(ds_sched_new(&config, &rig.sched), 0);
        cr_assert_eq(ds_sched_session_new(rig.sched, &ls, &rig.ls_session), 0);
        cr_assert_eq(ds_sched_session_new(rig.sched, &be, &rig.be_session), 0);
        cr_assert_eq(ds_coroutine_new(rig.ls_session, 0, 1, 0, &rig.ls), 0);
        cr_assert_eq(ds_coroutine_new(rig.be_session, 0, 1, 0, &rig.be), 0);
}

static void rig_close(void)
{
        struct ds_sched_stats stats;

        ds_sched_stats(rig.sched, &stats);
        cr_assert_eq(stats.in_flight, 0);
        cr_assert_eq(stats.queued, 0);
        cr_assert_eq(stats.fallbacks, 0);
        cr_assert_eq(stats.actions_ignored == 0 || !strcmp(stats.policy, "fifo"), 1);
        ds_sched_free(rig.sched);
        cr_assert_null(ds_sim_ops.module_unload(rig.device, rig.module));
        cr_assert_null(ds_sim_ops.close(rig.device));
}

static void rig_submit(
        struct work *work, ds_coroutine *coroutine, const char *kernel, uint32_t blocks, uint32_t threads)
{
        cr_assert_eq(work->busy, 0);
        work->busy = 1;
        work->op.kind = DS_OP_LAUNCH;
        work->op.kernel_key = work->op.forms ? BE_KEY : 0;
        work->op.launch = (struct ds_launch){.space = 1,
                .kernel = ds_sim_ops.kernel_find(rig.module, kernel),
                .grid = {blocks, 1, 1},
                .block = {threads, 1, 1}};
        cr_assert_not_null(work->op.launch.kernel);
        cr_assert_eq(ds_sched_submit(coroutine, &work->op, ds_sim_ops.now(rig.device)), 0);
}

/* Runs everything up to until_ns; UINT64_MAX: until nothing is due. */
static void rig_run(uint64_t until_ns)
{
        struct ds_completion completions[32];
        size_t n;
        int r;

        for (;;) {
                uint64_t timer;

                while ((n = ds_sim_ops.poll(rig.device, completions, 32)))
                        ds_sched_complete(rig.sched, completions, n);
                cr_assert_eq(ds_sched_step(rig.sched, ds_sim_ops.now(rig.device)), 0);
                timer = ds_sched_next_timer(rig.sched);
                r = ds_sim_ops.advance(rig.device, DS_MIN(timer, until_ns));
                if (r == -ETIME && (timer >= until_ns || timer == UINT64_MAX))
                        return;
                if (r == -EAGAIN) {
                        struct pollfd fd = {.fd = ds_sim_ops.event_fd(rig.device), .events = POLLIN};

                        cr_assert_gt(poll(&fd, 1, 60000), 0);
                }
        }
}

/* --- LS beside BE ------------------------------------------------------------------------------------------------- */

static struct work ls_work[LS_KERNELS], be_work[BE_QUEUE];
static const char *be_kernel;
static int be_goes_on;

static void be_again(struct work *work)
{
        if (work < be_work || work >= be_work + BE_QUEUE)
                return;
        rig.be_blocks += work->op.launch.grid[0];
        if (be_goes_on)
                rig_submit(work, rig.be, be_kernel, BE_BLOCKS, 1024);
}

static int compare_u64(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return (x > y) - (x < y);
}

/*
 * Median time from submission to end of an LS kernel of 16 blocks beside this BE kernel (NULL: alone), ns. turn_ns:
 * some durations of the BE kernel, after which the next LS kernel comes.
 */
static uint64_t ls_latency(const char *policy, const char *beside, uint64_t turn_ns)
{
        uint64_t latencies[LS_KERNELS], t = turn_ns / 2;

        rig_open("policies", policy);
        memset(ls_work, 0, sizeof(ls_work));
        memset(be_work, 0, sizeof(be_work));
        be_kernel = beside;
        be_goes_on = beside != NULL;
        rig.on_done = be_again;
        for (int i = 0; beside && i < BE_QUEUE; i++)
                rig_submit(&be_work[i], rig.be, beside, BE_BLOCKS, 1024);
        for (int i = 0; i < LS_KERNELS; i++) {
                /* LS kernels arrive at varying phases of the BE kernels */
                t += turn_ns + turn_ns / 40000 * ((uint64_t)i * 1371 % 20000);
                rig_run(t);
                rig_submit(&ls_work[i], rig.ls, "ls", 16, 256);
        }
        rig_run(t + 5 * turn_ns);
        be_goes_on = 0;
        rig_run(UINT64_MAX);
        for (int i = 0; i < LS_KERNELS; i++) {
                cr_assert_eq(ls_work[i].times, 1);
                latencies[i] = ls_work[i].end_ns - ls_work[i].op.submitted_ns;
        }
        cr_assert(!beside || rig.be_blocks > 1000);
        rig_close();
        qsort(latencies, LS_KERNELS, sizeof(latencies[0]), compare_u64);
        printf("%-12s beside %-7s: LS kernel p50 %.1f us, max %.1f us (sim)\n", policy, beside ? beside : "nothing",
                (double)latencies[LS_KERNELS / 2] / 1000, (double)latencies[LS_KERNELS - 1] / 1000);
        fflush(stdout);
        return latencies[LS_KERNELS / 2];
}

Test(sched_sim, policies_differ_beside_long_blocks)
{
        uint64_t alone = ls_latency("multistream", NULL, 40 * MS);
        uint64_t fifo = ls_latency("fifo", "be2000", 40 * MS);
        uint64_t multistream = ls_latency("multistream", "be2000", 40 * MS);
        uint64_t split = ls_latency("static", "be2000", 40 * MS);

        cr_assert_lt(alone, 12 * US);
        cr_assert_gt(multistream, 300 * US, "priority does not take SMs back");
        cr_assert_lt(multistream, 2100 * US, "but it is first when they are free");
        cr_assert_gt(fifo, 4 * multistream, "fifo waits for all blocks of a kernel that came before");
        cr_assert_lt(split, alone + 3 * US / 2, "an SM of its own is free; 1.2 us more were measured on an H200");
}

Test(sched_sim, priority_is_enough_beside_short_blocks)
{
        uint64_t alone = ls_latency("static", NULL, 2 * MS);
        uint64_t multistream = ls_latency("multistream", "be20", 2 * MS);
        uint64_t split = ls_latency("static", "be20", 2 * MS);

        cr_assert_lt(multistream, alone + 25 * US);
        cr_assert_lt(split, alone + 3 * US / 2);
}

/* --- evictions ---------------------------------------------------------------------------------------------------- */

#define REQUESTS 24
#define REQUEST 20 /* kernels of 132 blocks, which need the whole GPU for a moment */

static struct work requests[REQUESTS][REQUEST];

struct felt {
        uint64_t p50_ns, worst_ns, be_blocks, evictions;
};

static void be_submit(struct work *work)
{
        static struct ds_sched_forms forms;

        forms = (struct ds_sched_forms){.persistent = ds_sim_ops.kernel_find(rig.module, "be500__ds_persistent")};
        cr_assert_not_null(forms.persistent);
        work->op.forms = &forms;
        rig_submit(work, rig.be, "be500", BE_BLOCKS, 1024);
}

static void be_evictable_again(struct work *work)
{
        if (work >= be_work && work < be_work + BE_QUEUE && be_goes_on)
                be_submit(work);
}

/* Requests of an LS client beside a known BE kernel of 10 waves of 0.5 ms, repeated without pause. */
static struct felt felt(const char *policy, const char *param)
{
        struct ds_sched_profile known = {
                .key = BE_KEY, .n_points = 2, .points = {{66, 100, 10 * MS}, {132, 100, 5 * MS}}};
        struct ds_sched_session_stats be;
        uint64_t latencies[REQUESTS], t = 20 * MS, begin;
        struct ds_sched_stats stats;
        struct felt ret;
        char message[128];

        rig_open("policies", "fifo");
        memset(requests, 0, sizeof(requests));
        memset(be_work, 0, sizeof(be_work));
        ds_sched_profile_put(rig.sched, &known);
        cr_assert_eq(ds_sched_set_policy(rig.sched, policy, &param, param != NULL, 0, message, sizeof(message)), 0,
                "%s", message);
        be_goes_on = 1;
        rig.on_done = be_evictable_again;
        rig_run(1 * MS);
        for (int i = 0; i < 4; i++)
                be_submit(&be_work[i]);
        begin = ds_sim_ops.now(rig.device);
        for (int i = 0; i < REQUESTS; i++) {
                t += 8 * MS + (uint64_t)i * 1371 * US % (4 * MS);
                rig_run(t);
                for (int k = 0; k < REQUEST; k++)
                        rig_submit(&requests[i][k], rig.ls, "ls", 132, 256);
                /* the client waits for the end of its request */
                rig_run(t + 4 * MS);
                ds_sched_session_synchronised(rig.ls_session, ds_sim_ops.now(rig.device));
        }
        ds_sched_session_stats(rig.be_session, &be);
        ret.be_blocks = be.blocks * 1000 * MS / (ds_sim_ops.now(rig.device) - begin);
        be_goes_on = 0;
        rig_run(UINT64_MAX);
        for (int i = 0; i < REQUESTS; i++) {
                cr_assert_eq(requests[i][REQUEST - 1].times, 1);
                latencies[i] = requests[i][REQUEST - 1].end_ns - requests[i][0].op.submitted_ns;
        }
        ds_sched_stats(rig.sched, &stats);
        ret.evictions = stats.evictions;
        ds_sched_session_stats(rig.be_session, &be);
        cr_assert_eq(be.blocks, (uint64_t)be.completed * BE_BLOCKS, "every block once");
        rig_close();
        qsort(latencies, REQUESTS, sizeof(latencies[0]), compare_u64);
        ret.p50_ns = latencies[REQUESTS / 2];
        ret.worst_ns = latencies[REQUESTS - 1];
        printf("%-12s %-10s: requests p50 %.1f us, worst %.1f us; %llu BE blocks a second; %llu evictions (sim)\n",
                policy, param ? param : "", (double)ret.p50_ns / 1000, (double)ret.worst_ns / 1000,
                (unsigned long long)ret.be_blocks, (unsigned long long)ret.evictions);
        fflush(stdout);
        return ret;
}

Test(sched_sim, evicting_costs_a_request_one_block_and_best_effort_little)
{
        struct felt with = felt("detshare", "evict=1"), without = felt("detshare", "evict=0");
        struct felt stream = felt("multistream", NULL), sgdrc = felt("sgdrc", NULL);

        cr_assert_geq(with.evictions, REQUESTS / 2);
        cr_assert_eq(without.evictions, 0);
        cr_assert_lt(with.p50_ns, stream.p50_ns);
        cr_assert_geq(sgdrc.evictions, 1);
}

/* --- a share of the SMs ------------------------------------------------------------------------------------------- */

static struct work wave[2];

/* Duration, ns, of a kernel that fills the GPU once, in a session with this share. */
static uint64_t wave_ns(uint32_t percent)
{
        rig_open("policies", "multistream");
        memset(wave, 0, sizeof(wave));
        ds_sched_session_set(rig.be_session, DETSHARE_CLASS_BE, 0, percent, 0);
        rig_submit(&wave[0], rig.be, "be2000", 264, 1024);
        rig_run(UINT64_MAX);
        rig_close();
        return wave[0].end_ns - wave[0].start_ns;
}

Test(sched_sim, a_share_of_the_sms_holds)
{
        uint64_t whole = wave_ns(100);

        /* 66 TPCs; the rungs of one side have 62, 58, 54, 49, 45, 41, 37, 33, 29, 25, 21, 16, 12, 8 and 4 */
        cr_assert(whole >= 2 * MS && whole < 2 * MS + 100 * US, "%llu ns", (unsigned long long)whole);
        cr_assert_eq((wave_ns(50) + whole / 2) / whole, 2);
        /* a quarter of the TPCs is 16, which hold 64 of the kernel's 264 blocks */
        cr_assert_eq((wave_ns(25) + whole / 2) / whole, 5);
        cr_assert_eq((wave_ns(13) + whole / 2) / whole, 9);
        cr_assert_eq((wave_ns(1) + whole / 2) / whole, 17, "at least the smallest rung");
}

Test(sched_sim, shares_side_by_side_do_not_meet)
{
        rig_open("policies", "multistream");
        memset(wave, 0, sizeof(wave));
        ds_sched_session_set(rig.be_session, DETSHARE_CLASS_BE, 0, 50, 0);
        ds_sched_session_set(rig.ls_session, DETSHARE_CLASS_LS, 0, 50, 0);
        rig_submit(&wave[0], rig.be, "be2000", 132, 1024);
        rig_submit(&wave[1], rig.ls, "be2000", 132, 1024);
        rig_run(UINT64_MAX);
        for (int i = 0; i < 2; i++)
                cr_assert_lt(wave[i].end_ns - wave[i].start_ns, 2 * MS + 100 * US, "each has its half to itself");
        rig_close();
}

/* --- order under a policy with random decisions ------------------------------------------------------------------- */

#define STREAMS 4
#define PER_STREAM 200

static struct work chain[STREAMS][PER_STREAM];

Test(sched_sim, order_holds_under_migration)
{
        ds_coroutine *streams[STREAMS];
        struct ds_sched_stats stats;
        char message[128];

        rig_open("tests/policies", "chaos");
        for (int s = 0; s < STREAMS; s++) {
                cr_assert_eq(ds_coroutine_new(s % 2 ? rig.ls_session : rig.be_session, 0, 0, 0, &streams[s]), 0);
                for (int i = 0; i < PER_STREAM; i++)
                        rig_submit(&chain[s][i], streams[s], "short_", 1 + (uint32_t)(i * 37 % 300), 256);
        }
        rig_run(2 * MS);
        ds_sched_stats(rig.sched, &stats);
        cr_assert_gt(stats.migrations, 10);
        cr_assert_eq(
                ds_sched_set_policy(rig.sched, "fifo", NULL, 0, ds_sim_ops.now(rig.device), message, sizeof(message)),
                0);
        rig_run(UINT64_MAX);
        for (int s = 0; s < STREAMS; s++)
                for (int i = 0; i < PER_STREAM; i++) {
                        cr_assert_eq(chain[s][i].times, 1);
                        cr_assert(!i || chain[s][i].start_ns >= chain[s][i - 1].end_ns, "%d.%d", s, i);
                }
        rig_close();
}
