/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparisons on a device: many per launch, or one launch each
 *
 * In each round of a launch all blocks synchronise, read their lines and add up their clocks. For a pair every other
 * block reads the other line. For listening each known line has a block of its own that reads it with few warps; all
 * other blocks read the tested line as hard as they can. A reader on the same channel is slowed several times.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "lut/probe/bench_internal.h"
#include "lut/probe/split.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/log.h"
#include "util/macro.h"

#define ONCE_THREADS 256u
#define IN_FLIGHT 64u /* maximum number of launches in flight */
#define ROUND_THREADS 512u
#define LISTEN_WARPS 2u
#define LISTEN_LOADS 32u
#define LISTEN_CYCLES 8000u
#define ROUNDS 4096u            /* maximum number of rounds per launch */
#define PATIENCE_NS 4000000000u /* time limit of blocks that wait for each other in a round, ns */
#define TUNE_PAIRS 768u
#define WIDE_MOST 1024u /* maximum bytes that a line may stand for: one sector per lane */
/* separation of the two kinds of times at which tuning stops; a lower one is accepted if no amount of work gives
 * more */
#define TUNE_SEPARATION 5.0
#define HAMMERS (UINT32_C(1) << 31)

/* offsets in the bench's data, bytes */
#define AT_ROLES 0u
#define AT_MEETING DS_KIB(64)
#define AT_SUMS DS_MIB(1)
#define AT_LINES DS_MIB(4)
#define LINES_MOST ((size_t)((DS_BENCH_DATA - AT_LINES) / 8)) /* lines of 8 bytes that fit behind AT_LINES */
#define SUMS_MOST ((size_t)((AT_LINES - AT_SUMS) / 4))

struct once_params {
        uint64_t line_a, line_b;
        uint32_t loads, apart;
};

struct rounds_params {
        uint64_t lines, roles, sums, meeting;
        uint32_t n_rounds, stride, loads, cycles;
        uint64_t patience;
};

static const char once_ptx[] = {
#include "probe_once.ptx.h"
};
static const unsigned char once_cubin[] = {
#include "probe_once.cubin.h"
};
static const char rounds_ptx[] = {
#include "probe_rounds.ptx.h"
};
static const unsigned char rounds_cubin[] = {
#include "probe_rounds.cubin.h"
};
static const struct ds_bench_code once_code = {
        "ds_probe_once", once_ptx, sizeof(once_ptx) - 1, once_cubin, sizeof(once_cubin) - 1};
static const struct ds_bench_code rounds_code = {
        "ds_probe_rounds", rounds_ptx, sizeof(rounds_ptx) - 1, rounds_cubin, sizeof(rounds_cubin) - 1};

/* --- one launch each -------------- */

static int once_submit(ds_bench *bench, const struct ds_probe_pair *pair, uint64_t token)
{
        struct once_params params = {pair->a, pair->b, bench->loads, bench->width / 32};
        struct ds_launch launch = {
                .stream = bench->stream,
                .space = bench->space,
                .kernel = bench->once,
                .grid = {bench->blocks, 1, 1},
                .block = {ONCE_THREADS, 1, 1},
                .params = &params,
                .params_size = bench->ops->kernel_info(bench->once)->params_size,
                .timed = 1,
                .tell = DS_TELL_EXACT,
        };

        return ds_bench_submit(bench, &launch, token);
}

static int pairs_by_launch(void *user, const struct ds_probe_pair *pairs, size_t n, uint32_t *ticks)
{
        ds_bench *bench = user;
        size_t batch;
        int r = 0;

        for (size_t at = 0; at < n && !r; at += batch) {
                batch = DS_MIN(n - at, IN_FLIGHT);
                for (size_t i = 0; i < batch && !r; i++)
                        r = once_submit(bench, &pairs[at + i], i);
                if (!r)
                        r = ds_bench_wait(bench, batch, ticks + at);
        }
        return r;
}

/* --- many per launch --- */

static int rounds_launch(ds_bench *bench, const struct rounds_params *params)
{
        struct ds_launch launch = {
                .stream = bench->stream,
                .space = bench->space,
                .kernel = bench->rounds,
                .grid = {bench->info->n_sms, 1, 1},
                .block = {ROUND_THREADS, 1, 1},
                .cooperative = 1,
                .params = params,
                .params_size = sizeof(*params),
        };
        uint32_t meeting[4];
        int r;

        r = ds_bench_zero(bench, AT_MEETING, sizeof(meeting));
        if (!r)
                r = ds_bench_zero(bench, AT_SUMS, (size_t)params->n_rounds * params->stride * 4);
        if (!r)
                r = ds_bench_submit(bench, &launch, 0);
        if (!r)
                r = ds_bench_wait(bench, 1, NULL);
        if (!r)
                r = ds_bench_read(bench, AT_MEETING, meeting, sizeof(meeting));
        if (r)
                return r;
        if (meeting[1]) {
                ds_log(DS_LOG_ERROR,
                        "%s: the blocks of a kernel cannot synchronise: does another program use this GPU?",
                        bench->spec);
                return ds_error_origin(-EBUSY);
        }
        if (meeting[2]) {
                ds_log(DS_LOG_ERROR, "%s: another program wrote to the measured memory", bench->spec);
                return ds_error_origin(-EBADMSG);
        }
        return 0;
}

/* Runs n rounds of `stride` lines each in one launch; results in sums[round * stride + slot]. */
static int rounds_run(ds_bench *bench, const uint64_t *lines, size_t n, uint32_t stride, uint32_t cycles,
        uint32_t loads, uint32_t *sums)
{
        struct rounds_params params = {
                .lines = ds_bench_data(bench) + AT_LINES,
                .roles = ds_bench_data(bench) + AT_ROLES,
                .sums = ds_bench_data(bench) + AT_SUMS,
                .meeting = ds_bench_data(bench) + AT_MEETING,
                .n_rounds = (uint32_t)n,
                .stride = stride,
                .loads = loads,
                .cycles = cycles,
                .patience = PATIENCE_NS,
        };
        int r;

        r = ds_bench_write(bench, AT_LINES, lines, n * stride * sizeof(*lines));
        if (!r)
                r = rounds_launch(bench, &params);
        if (!r)
                r = ds_bench_read(bench, AT_SUMS, sums, n * stride * sizeof(*sums));
        return r;
}

static size_t rounds_most(uint32_t stride)
{
        return DS_MIN(DS_MIN(SUMS_MOST, LINES_MOST) / stride, ROUNDS);
}

static int write_roles(
        ds_bench *bench, uint32_t (*role)(const ds_bench *bench, uint32_t block, uint32_t arg), uint32_t arg)
{
        uint32_t roles[DS_DEVICE_TPCS_MAX * 4];

        if (bench->info->n_sms > DS_ARRAY_SIZE(roles))
                return ds_error_origin(-ENOSPC);
        for (uint32_t b = 0; b < bench->info->n_sms; b++)
                roles[b] = role(bench, b, arg);
        return ds_bench_write(bench, AT_ROLES, roles, bench->info->n_sms * sizeof(*roles));
}

static uint32_t role_pair(const ds_bench *bench, uint32_t block, uint32_t arg)
{
        return (block & 1) | ROUND_THREADS / 32 << 16;
}

static int pairs_by_round(void *user, const struct ds_probe_pair *pairs, size_t n, uint32_t *ticks)
{
        ds_bench *bench = user;
        size_t most = rounds_most(2), batch;
        ds_cleanup(ds_freep) uint32_t *sums = ds_alloc(most * 2 * sizeof(*sums));
        int r;

        if (!sums)
                return ds_error_origin(-ENOMEM);
        static_assert(sizeof(*pairs) == 16, "a pair is a round's two lines");
        r = write_roles(bench, role_pair, 0);
        for (size_t at = 0; at < n && !r; at += batch) {
                batch = DS_MIN(n - at, most);
                r = rounds_run(bench, &pairs[at].a, batch, 2, 0, bench->loads, sums);
                for (size_t i = 0; i < batch && !r; i++)
                        ticks[at + i] = (uint32_t)(((uint64_t)sums[2 * i] + sums[2 * i + 1]) / bench->info->n_sms);
        }
        return r;
}

/* Role of a block while listening. Slots from 1 on are the readers of the known lines, spread over the GPU. */
static uint32_t role_listen(const ds_bench *bench, uint32_t block, uint32_t n_known)
{
        uint32_t before = (uint32_t)((uint64_t)block * n_known / bench->info->n_sms),
                 with = (uint32_t)((uint64_t)(block + 1) * n_known / bench->info->n_sms);

        if (with > before)
                return (1 + before) | LISTEN_WARPS << 16;
        return HAMMERS | ROUND_THREADS / 32 << 16;
}

static int listen_by_round(
        void *user, const uint64_t *known, uint32_t n_known, const uint64_t *lines, size_t n, uint32_t *ticks)
{
        ds_bench *bench = user;
        uint32_t stride = n_known + 1;
        size_t most = rounds_most(stride), batch;
        ds_cleanup(ds_freep) uint64_t *table = ds_alloc(most * stride * sizeof(*table));
        ds_cleanup(ds_freep) uint32_t *sums = ds_alloc(most * stride * sizeof(*sums));
        int r;

        if (!table || !sums)
                return ds_error_origin(-ENOMEM);
        r = write_roles(bench, role_listen, n_known);
        for (size_t at = 0; at < n && !r; at += batch) {
                batch = DS_MIN(n - at, most);
                for (size_t i = 0; i < batch; i++) {
                        table[i * stride] = lines[at + i];
                        memcpy(&table[i * stride + 1], known, n_known * sizeof(*known));
                }
                r = rounds_run(bench, table, batch, stride, LISTEN_CYCLES, LISTEN_LOADS, sums);
                for (size_t i = 0; i < batch && !r; i++)
                        memcpy(&ticks[(at + i) * n_known], &sums[i * stride + 1], n_known * sizeof(*ticks));
        }
        return r;
}

/* --- the meter --- */

/*
 * Amounts of work per comparison, ascending. A simulation that executes reads takes longer for more of them, but their
 * effect must exceed a launch's overhead.
 */
static const struct work {
        uint32_t blocks, loads;
} works[] = {{6, 4}, {12, 4}, {24, 4}, {48, 4}, {48, 8}, {64, 16}, {96, 32}, {128, 64}, {256, 128}};
#define NARROW_LEVEL 3u /* first level of works[] that is tried with a line that stands for itself only */

static void work_take(ds_bench *bench, uint32_t level)
{
        uint32_t blocks = bench->info->simulated ? works[level].blocks : bench->info->n_sms;

        bench->loads = bench->by_launch ? works[level].loads : 4u << level;
        bench->blocks = blocks & ~1u;
}

int ds_bench_meter_init(ds_bench *bench, bool launches)
{
        bench->by_launch = launches || bench->info->simulated;
        bench->width = 128;
        work_take(bench, 0);
        if (bench->by_launch)
                return ds_bench_load(bench, &once_code, &bench->once);
        return ds_bench_load(bench, &rounds_code, &bench->rounds);
}

static int widen(void *user, uint32_t bytes)
{
        ds_bench *bench = user;

        bench->width = DS_MIN(bytes, WIDE_MOST);
        return ds_bench_tune(bench, bytes);
}

void ds_bench_meter(ds_bench *bench, struct ds_probe_meter *ret)
{
        *ret = (struct ds_probe_meter){
                .user = bench,
                .pairs = bench->by_launch ? pairs_by_launch : pairs_by_round,
                .widen = bench->info->simulated ? widen : NULL,
                .listen = bench->by_launch ? NULL : listen_by_round,
        };
}

uint32_t ds_bench_loads(const ds_bench *bench)
{
        return bench->loads;
}

static int tune_measure(ds_bench *bench, const struct ds_probe_pair *pairs, uint32_t *ticks, struct ds_probe_split *ret)
{
        struct ds_probe_meter meter;
        int r;

        ds_bench_meter(bench, &meter);
        r = meter.pairs(bench, pairs, TUNE_PAIRS, ticks);
        return r ? r : ds_probe_split(ticks, TUNE_PAIRS, DS_PROBE_RATIO, ret);
}

int ds_bench_tune(ds_bench *bench, uint64_t seed)
{
        ds_cleanup(ds_freep) struct ds_probe_pair *pairs = ds_alloc(TUNE_PAIRS * sizeof(*pairs));
        ds_cleanup(ds_freep) uint32_t *ticks = ds_alloc(TUNE_PAIRS * sizeof(*ticks));
        struct ds_probe_split split;
        uint32_t level, best_level = 0;
        double best = 0;
        int r;

        if (!pairs || !ticks)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < TUNE_PAIRS; i++)
                pairs[i] = (struct ds_probe_pair){ds_bench_line(bench, &seed), ds_bench_line(bench, &seed)};
        level = bench->by_launch && bench->width == 128 ? NARROW_LEVEL : 0;
        for (; level < DS_ARRAY_SIZE(works) && best < TUNE_SEPARATION; level++) {
                work_take(bench, level);
                r = tune_measure(bench, pairs, ticks, &split);
                if (r < 0)
                        return ds_error_trace(r);
                ds_log(DS_LOG_DEBUG, "%u blocks, %u loads: %.0f and %.0f ticks, %.1f apart, %.1f%%%s", bench->blocks,
                        bench->loads, split.low, split.high, split.separation, split.share * 100,
                        r ? ": only one kind of times" : "");
                if (r || split.separation <= best)
                        continue;
                best = split.separation;
                best_level = level;
        }
        work_take(bench, best_level);
        return best > 0 ? 0 : DS_PROBE_E_ONE_KIND;
}
