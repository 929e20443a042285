/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory latency that a kernel reads on its clock
 *
 * A kernel is executed before its time passes, so the clock that it reads cannot include the effect of other work. But
 * the effect of its own accesses on L2 and VRAM is known at once. Pointer chases, which measure caches and banks by the
 * time of single reads, see here the times of an otherwise idle GPU. Only launches of modules that read a clock come
 * here. Only %clock and %clock64 include the waits: a launch's cost does not.
 *
 * The L2 model is complete: each channel has its part of the sets, a line's set follows from its address, the least
 * recently used line is evicted. L2 is empty when the launch begins, and a line is fetched whole. Behind it a channel
 * has banks with rows of 2 KiB. A read right after one of another row of the same bank waits until that row is closed.
 * This wait, and the extra latency of VRAM over L2, are estimates. The model is for one warp: the waits of several are
 * added up as if they came one after the other.
 *
 * With +noise=N a read of VRAM has that wait in N of 100 cases whatever was before it, as if another user read.
 */
#include <string.h>

#include "device/sim/internal.h"
#include "util/alloc.h"

#define LINE_SECTOR_BITS 2
#define LINE_BYTES 128u
#define BANKS 16u
#define ROW_BYTES 2048u
#define JITTER 15u /* most random cycles added to a read, so that reads do not all take the same time */

struct sim_waits {
        const struct sim_model *model;
        /* n_sets: sets of L2 per channel; noise: percentage of VRAM reads that wait for another user's row */
        uint32_t n_sets, noise;
        uint64_t epoch; /* number of the launch; lines of earlier launches count as evicted */
        uint64_t random;
        uint32_t channel, bank; /* channel, bank and row of the last read of VRAM */
        uint64_t row;
        uint64_t waited;
        struct sim_way {
                uint64_t line, epoch;
        } ways[];
};

struct sim_waits *sim_waits_new(const struct sim_model *model)
{
        uint32_t n_sets = model->l2_bytes / LINE_BYTES / model->l2_ways / model->channels.n;
        size_t n = (size_t)n_sets * model->channels.n * model->l2_ways;
        struct sim_waits *waits = ds_alloc0(1, sizeof(*waits) + n * sizeof(waits->ways[0]));

        if (!waits)
                return NULL;
        waits->model = model;
        waits->n_sets = n_sets;
        return waits;
}

struct sim_waits *sim_waits_free(struct sim_waits *waits)
{
        return ds_free(waits);
}

const uint64_t *sim_waits_begin(struct sim_waits *waits, uint32_t noise, uint64_t seed)
{
        waits->epoch++;
        waits->noise = noise;
        waits->random = seed;
        waits->channel = UINT32_MAX;
        waits->waited = 0;
        return &waits->waited;
}

static uint64_t mix(uint64_t x)
{
        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9); /* multipliers of splitmix64, as in channel.c */
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

static uint32_t random_below(struct sim_waits *waits, uint32_t n)
{
        waits->random += UINT64_C(0x9e3779b97f4a7c15);
        return (uint32_t)((mix(waits->random) >> 32) * n >> 32);
}

/* Whether L2 holds the line. After the call L2 holds it in any case, as the most recently used one. */
static bool l2_has(struct sim_waits *waits, uint64_t line, uint32_t channel)
{
        uint32_t n_ways = waits->model->l2_ways, i;
        struct sim_way *ways = &waits->ways[(mix(line) % waits->n_sets + (uint64_t)channel * waits->n_sets) * n_ways];
        bool there = false;

        for (i = 0; i < n_ways - 1 && ways[i].epoch == waits->epoch; i++)
                if (ways[i].line == line)
                        break;
        there = ways[i].epoch == waits->epoch && ways[i].line == line;
        memmove(ways + 1, ways, i * sizeof(*ways));
        ways[0] = (struct sim_way){.line = line, .epoch = waits->epoch};
        return there;
}

/* Reads VRAM; returns the cycles beyond L2's latency. */
static uint64_t vram_read(struct sim_waits *waits, uint64_t address, uint32_t channel)
{
        uint32_t stall = waits->model->timing.memory_stall, bank;
        uint64_t row = address / ((uint64_t)waits->model->channels.n * ROW_BYTES);
        bool conflict;

        bank = (uint32_t)(mix(row * SIM_CHANNELS_MAX + channel) % BANKS);
        conflict = channel == waits->channel && bank == waits->bank && row != waits->row;
        waits->channel = channel;
        waits->bank = bank;
        waits->row = row;
        if (waits->noise && random_below(waits, 100) < waits->noise)
                conflict = true;
        return stall + (conflict ? stall : 0);
}

void sim_waits_memory(struct sim_waits *waits, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind)
{
        uint64_t line, last = UINT64_MAX, wait, longest = 0;
        uint32_t channel;

        for (uint32_t i = 0; i < n; i++) {
                line = sectors[i] >> LINE_SECTOR_BITS;
                if (line == last)
                        continue;
                last = line;
                channel = sim_channel_of(&waits->model->channels, line * LINE_BYTES);
                wait = l2_has(waits, line, channel) ? 0 : vram_read(waits, line * LINE_BYTES, channel);
                longest = DS_MAX(longest, wait);
        }
        if (kind != DS_INTERP_WRITE)
                waits->waited += waits->model->timing.memory_stall + longest + random_below(waits, JITTER + 1);
}
