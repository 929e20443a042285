/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the execution of a block to its duration
 *
 * A block is described by four values:
 *
 *  - its latency on an SM of its own: the instructions of its longest warp one after another, plus the stalls of memory
 *    and barriers;
 *  - how much of the SM's issue slots it uses in that time;
 *  - how much of that time it waits for memory;
 *  - the bytes that it moves through L2.
 *
 * The launch adds what happens to these bytes behind L2. share.c stretches the latency where SMs or the memory are
 * oversubscribed. The overlap inside a warp is part of the stall constants.
 *
 * A launch keeps one entry per run of equal blocks, at most SIM_RUNS_MAX. Beyond that neighbouring entries are averaged
 * in pairs. All arithmetic is in integers: the same launch has the same duration on every machine.
 */
#include <assert.h>
#include <string.h>

#include "device/sim/internal.h"
#include "util/alloc.h"

#define LATENCY_MAX (UINT64_C(1) << 42) /* ns, more than an hour; keeps every product below 64 bits */
#define BYTES_MAX (UINT64_C(1) << 50)
#define SECTOR 32

/* issue slots of an instruction beyond the one that each takes, from the units of an SM: 128 FP lanes, 32
 * load/store, 16 special */
#define SLOTS_MEMORY 3
#define SLOTS_SPECIAL 7
#define SLOTS_TENSOR 31

#define STATIC_SECTORS 4 /* sectors of 32 bytes per memory instruction of a warp: 32 adjacent lanes of 4 bytes */

static uint64_t cycles_to_ns(const struct sim_model *model, uint64_t cycles)
{
        return (uint64_t)((unsigned __int128)cycles * 1000000 / model->clock_khz);
}

static uint64_t saturate(unsigned __int128 value, uint64_t limit)
{
        return value > limit ? limit : (uint64_t)value;
}

void sim_cost_run(const struct sim_model *model, const struct ds_interp_cost *cost, struct sim_run *ret)
{
        const struct sim_timing *t = &model->timing;
        uint64_t instructions = cost->instructions ? cost->instructions : 1;
        unsigned __int128 slots, path, memory, barriers;
        uint64_t issue, latency, stall, port;

        slots = (unsigned __int128)cost->instructions +
                (unsigned __int128)SLOTS_MEMORY * (cost->memory_instructions + cost->shared_instructions) +
                (unsigned __int128)SLOTS_SPECIAL * cost->special_instructions +
                (unsigned __int128)SLOTS_TENSOR * cost->tensor_instructions;
        /* estimates the memory instructions and barriers of the longest warp: in proportion to its share of all
         * instructions */
        memory = (unsigned __int128)cost->memory_instructions * cost->critical_path / instructions;
        barriers = (unsigned __int128)cost->barriers * cost->critical_path / instructions;
        path = (unsigned __int128)cost->critical_path * t->alu_cycles + memory * t->memory_stall +
               barriers * t->barrier_stall;

        issue = cycles_to_ns(model, saturate(slots / t->issue_width, LATENCY_MAX));
        latency = cycles_to_ns(model, saturate(path, LATENCY_MAX));
        stall = cycles_to_ns(model, saturate(memory * t->memory_stall, LATENCY_MAX));
        *ret = (struct sim_run){
                .bytes = saturate((unsigned __int128)cost->sectors * SECTOR, BYTES_MAX),
                .n = 1,
        };
        /* time that the SM's port to L2 needs for the bytes; only the part beyond the latency costs time */
        port = saturate((unsigned __int128)ret->bytes * 1000 / t->sm_mbps, LATENCY_MAX);
        if (port > latency)
                latency = stall = port;
        if (issue > latency) {
                stall = (uint64_t)((unsigned __int128)stall * latency / issue);
                latency = issue;
        }
        ret->latency_ns = DS_MAX(DS_MIN(latency + t->block_ns, LATENCY_MAX), 1);
        ret->issue_ns = DS_MIN(issue, ret->latency_ns);
        ret->stall_ns = DS_MIN(stall, ret->latency_ns);
}

/*
 * Estimates the memory waits of a block with hints: a block that uses all of its part of the SM's L2 bandwidth waits
 * all the time, a block that uses a fraction of it waits for that fraction of its time.
 */
static uint64_t hinted_stall(const struct sim_model *model, const struct sim_run *run, uint64_t threads)
{
        unsigned __int128 most = (unsigned __int128)run->latency_ns * model->timing.sm_mbps * threads;

        return saturate((unsigned __int128)run->bytes * 1000 * model->sm_threads * run->latency_ns / DS_MAX(most, 1),
                run->latency_ns);
}

void sim_cost_static(const struct sim_model *model, const struct ds_device_kernel *kernel, const uint32_t *block,
        struct sim_run *ret)
{
        uint64_t warps = DS_DIV_UP((uint64_t)block[0] * block[1] * block[2], 32);
        struct ds_interp_cost cost = {
                .instructions = kernel->static_instructions * warps,
                .memory_instructions = kernel->static_memory * warps,
                .special_instructions = kernel->static_special * warps,
                .sectors = kernel->static_memory * warps * STATIC_SECTORS,
                .critical_path = kernel->static_instructions,
        };

        if (kernel->hint_block_ns) {
                *ret = (struct sim_run){
                        .latency_ns = DS_MIN(kernel->hint_block_ns, LATENCY_MAX),
                        .bytes = DS_MIN(kernel->hint_bytes, BYTES_MAX),
                        .n = 1,
                };
                ret->issue_ns = DS_MIN(kernel->hint_issue_ns, ret->latency_ns);
                ret->stall_ns = hinted_stall(model, ret, warps * 32);
                return;
        }
        sim_cost_run(model, &cost, ret);
}

void sim_cost_times(struct sim_run *run, uint64_t n)
{
        run->latency_ns = saturate((unsigned __int128)run->latency_ns * n, LATENCY_MAX);
        run->issue_ns = saturate((unsigned __int128)run->issue_ns * n, run->latency_ns);
        run->stall_ns = saturate((unsigned __int128)run->stall_ns * n, run->latency_ns);
        run->bytes = saturate((unsigned __int128)run->bytes * n, BYTES_MAX);
}

/* Gives the channels that a hint names equal shares of the traffic. */
static void hinted_channels(
        const struct sim_model *model, const struct ds_device_kernel *kernel, struct sim_traffic *ret)
{
        uint32_t first = kernel->hint_channels[0], end = DS_MIN(kernel->hint_channels[1], model->channels.n);

        if (first >= end || end - first == model->channels.n)
                return;
        ret->uneven = true;
        for (uint32_t c = first; c < end; c++)
                ret->shares[c] = (uint16_t)((c + 1 - first) * SIM_LOAD_ONE / (end - first) -
                                            (c - first) * SIM_LOAD_ONE / (end - first));
}

void sim_traffic_static(
        const struct sim_model *model, const struct ds_device_kernel *kernel, uint64_t bytes, struct sim_traffic *ret)
{
        /* initial value of the FNV-1a hash (Fowler, Noll, Vo) */
        uint64_t written = 0, hash = UINT64_C(0xcbf29ce484222325);

        if (kernel->hint_bytes)
                written = DS_MIN(kernel->hint_written, kernel->hint_bytes) * SIM_LOAD_ONE / kernel->hint_bytes;
        *ret = (struct sim_traffic){
                .pass = SIM_LOAD_ONE,
                .fill = SIM_LOAD_ONE,
                .vram = (uint32_t)(SIM_LOAD_ONE - written + written * model->timing.write_cost / SIM_LOAD_ONE),
        };
        hinted_channels(model, kernel, ret);
        if (!kernel->hint_reuse || !bytes)
                return;
        for (const char *c = kernel->info.name; *c; c++)
                hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
        ret->touched = DS_MIN(kernel->hint_reuse, bytes);
        ret->fill = (uint32_t)((unsigned __int128)ret->fill * ret->touched / bytes);
        ret->vram = (uint32_t)((unsigned __int128)ret->vram * ret->touched / bytes);
        ret->granules = &ret->one;
        ret->n_granules = 1;
        ret->one = (struct sim_granule){.key = hash | UINT64_C(1) << 63, .bytes = ret->touched};
}

void sim_traffic_deinit(struct sim_traffic *traffic)
{
        if (traffic->granules != &traffic->one)
                ds_free(traffic->granules);
        traffic->granules = NULL;
        traffic->n_granules = 0;
}

void sim_traffic_move(struct sim_traffic *to, struct sim_traffic *from)
{
        sim_traffic_deinit(to);
        *to = *from;
        if (from->granules == &from->one)
                to->granules = &to->one;
        from->granules = NULL;
        from->n_granules = 0;
}

void sim_costs_init(struct sim_costs *costs)
{
        *costs = (struct sim_costs){.runs = &costs->one, .capacity = 1};
}

void sim_costs_deinit(struct sim_costs *costs)
{
        if (costs->runs != &costs->one)
                ds_free(costs->runs);
        sim_costs_init(costs);
}

void sim_costs_move(struct sim_costs *to, struct sim_costs *from)
{
        sim_costs_deinit(to);
        *to = *from;
        if (from->runs == &from->one)
                to->runs = &to->one;
        sim_costs_init(from);
}

/* Sets *run to the weighted average of the blocks of *run and *more. */
static void run_merge(struct sim_run *run, const struct sim_run *more)
{
        unsigned __int128 n = (unsigned __int128)run->n + more->n;

#define AVERAGE(field) \
        (uint64_t)(((unsigned __int128)run->field * run->n + (unsigned __int128)more->field * more->n) / n)
        *run = (struct sim_run){
                .latency_ns = AVERAGE(latency_ns),
                .issue_ns = AVERAGE(issue_ns),
                .stall_ns = AVERAGE(stall_ns),
                .bytes = AVERAGE(bytes),
                .n = (uint64_t)n,
        };
#undef AVERAGE
        run->latency_ns = DS_MAX(run->latency_ns, 1);
        run->issue_ns = DS_MIN(run->issue_ns, run->latency_ns);
        run->stall_ns = DS_MIN(run->stall_ns, run->latency_ns);
}

static void costs_halve(struct sim_costs *costs)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < costs->n_runs; i += 2, n++) {
                costs->runs[n] = costs->runs[i];
                if (i + 1 < costs->n_runs)
                        run_merge(&costs->runs[n], &costs->runs[i + 1]);
        }
        costs->n_runs = n;
}

static bool costs_grow(struct sim_costs *costs)
{
        uint32_t capacity = costs->capacity * 4;
        struct sim_run *runs;

        runs = ds_realloc(costs->runs == &costs->one ? NULL : costs->runs, capacity, sizeof(*runs));
        if (!runs)
                return false;
        if (costs->runs == &costs->one)
                runs[0] = costs->one;
        costs->runs = runs;
        costs->capacity = capacity;
        return true;
}

void sim_costs_add(struct sim_costs *costs, const struct sim_run *run)
{
        struct sim_run *last = costs->n_runs ? &costs->runs[costs->n_runs - 1] : NULL;

        costs->n_blocks += run->n;
        if (last && last->latency_ns == run->latency_ns && last->issue_ns == run->issue_ns &&
                last->stall_ns == run->stall_ns && last->bytes == run->bytes) {
                last->n += run->n;
                return;
        }
        if (costs->n_runs == SIM_RUNS_MAX)
                costs_halve(costs);
        if (costs->n_runs == costs->capacity && !costs_grow(costs)) {
                run_merge(&costs->runs[costs->n_runs - 1], run);
                return;
        }
        costs->runs[costs->n_runs++] = *run;
}

void sim_costs_disturb(struct sim_costs *costs)
{
        for (uint32_t i = 0; i < costs->n_runs; i++)
                costs->runs[i].bytes = saturate((unsigned __int128)costs->runs[i].bytes * 2, BYTES_MAX);
}

void sim_costs_skip(struct sim_costs *costs, uint64_t n)
{
        uint32_t whole = 0;

        assert(n < costs->n_blocks);
        costs->n_blocks -= n;
        for (; n >= costs->runs[whole].n; whole++)
                n -= costs->runs[whole].n;
        costs->runs[whole].n -= n;
        costs->n_runs -= whole;
        memmove(costs->runs, costs->runs + whole, costs->n_runs * sizeof(*costs->runs));
}

void sim_costs_finish(struct sim_costs *costs, uint64_t limit)
{
        uint64_t factor, n;
        struct sim_run *run;

        if (!costs->n_runs) {
                costs->runs[costs->n_runs++] = (struct sim_run){.latency_ns = 1, .n = 1};
                costs->n_blocks = 1;
        }
        if (costs->n_blocks <= limit)
                return;
        factor = DS_DIV_UP(costs->n_blocks, limit);
        costs->n_blocks = 0;
        for (uint32_t i = 0; i < costs->n_runs; i++) {
                run = &costs->runs[i];
                /* A bundle runs its blocks one after another. The last bundle of a run may be smaller; the run's
                 * total is divided evenly among its bundles. */
                n = DS_DIV_UP(run->n, factor);
                run->latency_ns = DS_MAX(saturate((unsigned __int128)run->latency_ns * run->n / n, LATENCY_MAX), 1);
                run->issue_ns = saturate((unsigned __int128)run->issue_ns * run->n / n, run->latency_ns);
                run->stall_ns = saturate((unsigned __int128)run->stall_ns * run->n / n, run->latency_ns);
                run->bytes = saturate((unsigned __int128)run->bytes * run->n / n, BYTES_MAX);
                run->n = n;
                costs->n_blocks += n;
        }
}

void sim_need_of(const struct sim_model *model, const struct ds_device_kernel *kernel, const uint32_t *block,
        uint32_t shared_bytes, struct sim_need *ret)
{
        /* CUDA's public occupancy rules: registers per warp in units of 256, warps in multiples of four, shared
         * memory in `unit` bytes */
        uint32_t unit = model->cc_major >= 8 ? 128 : 256;
        uint32_t warps = DS_DIV_UP(block[0] * block[1] * block[2], 32);
        uint32_t shared = kernel->info.static_shared + shared_bytes;

        assert(block[0] * block[1] * block[2] <= 1024);
        *ret = (struct sim_need){
                .threads = warps * 32,
                .registers = DS_ALIGN_UP(kernel->info.registers * 32, 256) * DS_ALIGN_UP(warps, 4),
                .shared = DS_ALIGN_UP(shared + model->reserved_shared, unit),
        };
}
