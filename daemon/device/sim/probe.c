/* SPDX-License-Identifier: Apache-2.0 */
/*
 * L2 and VRAM traffic of a kernel that is executed
 *
 * The interpreter reports every access. A sample of them goes through a model of an L2 that is empty when the launch
 * begins: sets of lines of 128 bytes with four sectors, the oldest line is evicted. The sample is the lines whose hash
 * falls into one of 32 parts, so the sets kept here are a 32nd of the cache and stand for all of it. Until there are
 * enough sectors for a sample, all lines go through them. Every 32nd access is also counted by channel.
 *
 * The result is about the launch, not its blocks: the bytes that come from VRAM or must go there, their spread over
 * channels if uneven, and the pieces of memory that they were in. l2.c uses the pieces to find memory that an earlier
 * launch left in L2.
 *
 * Limits: blocks are executed one after another, but run concurrently. A launch that reads everything many times finds
 * less in this cache than on a GPU, where blocks read the same lines at the same time. An L1 comes before this L2, one
 * per block and empty when the block begins: each line has one place there, and it serves reads that may be cached in
 * L1. Each launch has an L2 of its own: concurrent launches take bandwidth from it (share.c) but no lines.
 */
#include <string.h>

#include "device/sim/internal.h"
#include "util/alloc.h"

#define SAMPLE_BITS 5
#define LINE_SECTOR_BITS 2
#define GRANULE_BITS 18 /* log2 of the bytes of a piece of memory, the unit that l2.c remembers */
#define GRANULE_SLOTS (SIM_GRANULES_MAX * 2)
#define L1_LINES 1024      /* lines of a block's L1, 128 KiB; on a GPU its size depends on the kernel's shared memory */
#define UNEVEN_SECTORS 256 /* sectors of a launch below which its use of channels counts as even */

/* A way of a cache set, in one word: the line's number in the high bits, four bits for the sectors present, four
 * bits for the sectors written. */
#define WAY_HAS 1u
#define WAY_DIRTY 16u
#define WAY_LINE_SHIFT 8

struct sim_probe {
        const struct sim_model *model;
        uint32_t n_sets, n_ways, clock;
        /* number of sectors up to which all lines go through the cache, not only the sample; half of the cache's
         * capacity */
        uint32_t exact;
        uint64_t told; /* sectors accessed since sim_probe_begin(), before L1 */
        /* sectors that missed L1 since sim_probe_begin(); those of them that went through the cache */
        uint64_t seen, sampled;
        uint64_t missed, dirtied; /* sectors of the sample that were fetched; that were written for the first time */
        uint64_t channel[SIM_CHANNELS_MAX], n_channel;
        uint32_t n_granules, last;
        struct sim_granule granules[GRANULE_SLOTS];
        struct {
                uint64_t line;
                uint32_t block, sectors; /* block that the entry belongs to; bits of the sectors present */
        } l1[L1_LINES];
        uint32_t block;
        uint64_t ways[];
};

struct sim_probe *sim_probe_new(const struct sim_model *model)
{
        uint32_t n_sets = model->l2_bytes / 128 / model->l2_ways >> SAMPLE_BITS;
        struct sim_probe *probe;

        probe = ds_alloc0(1, sizeof(*probe) + (size_t)n_sets * model->l2_ways * sizeof(*probe->ways));
        if (!probe)
                return NULL;
        probe->model = model;
        probe->n_sets = n_sets;
        probe->n_ways = model->l2_ways;
        probe->exact = n_sets * model->l2_ways / 2;
        return probe;
}

struct sim_probe *sim_probe_free(struct sim_probe *probe)
{
        return ds_free(probe);
}

static void ways_clear(struct sim_probe *probe)
{
        memset(probe->ways, 0, (size_t)probe->n_sets * probe->n_ways * sizeof(*probe->ways));
}

void sim_probe_begin(struct sim_probe *probe)
{
        if (probe->seen)
                ways_clear(probe);
        probe->told = probe->seen = probe->sampled = probe->missed = probe->dirtied = probe->n_channel = 0;
        probe->n_granules = probe->last = probe->clock = 0;
        memset(probe->channel, 0, sizeof(probe->channel));
        memset(probe->granules, 0, sizeof(probe->granules));
        sim_probe_block(probe);
}

void sim_probe_block(struct sim_probe *probe)
{
        /* the block number wraps after 2^32 blocks; then an old line may wrongly count as this block's */
        probe->block++;
}

/* Copies to `to` those of the n sectors that L1 does not hold, and returns their number. */
static uint32_t l1_look(struct sim_probe *probe, const uint64_t *sectors, uint32_t n, uint64_t *to)
{
        uint32_t passed = 0, bit;
        uint64_t line;

        for (uint32_t i = 0; i < n; i++) {
                line = sectors[i] >> LINE_SECTOR_BITS;
                bit = 1u << (sectors[i] & 3);
                if (probe->l1[line % L1_LINES].line != line || probe->l1[line % L1_LINES].block != probe->block) {
                        probe->l1[line % L1_LINES].line = line;
                        probe->l1[line % L1_LINES].block = probe->block;
                        probe->l1[line % L1_LINES].sectors = 0;
                }
                if (!(probe->l1[line % L1_LINES].sectors & bit))
                        to[passed++] = sectors[i];
                probe->l1[line % L1_LINES].sectors |= bit;
        }
        return passed;
}

static uint64_t line_hash(uint64_t line)
{
        uint64_t hash = line * UINT64_C(0xd6e8feb86659fd93);

        return hash ^ hash >> 32;
}

static bool line_sampled(uint64_t hash)
{
        return !(hash & ((1u << SAMPLE_BITS) - 1));
}

/* Switches from counting all lines to counting the sample: removes the lines outside the sample from the cache. */
static void ways_thin(struct sim_probe *probe)
{
        for (uint32_t i = 0; i < probe->n_sets * probe->n_ways; i++)
                if (!line_sampled(line_hash(probe->ways[i] >> WAY_LINE_SHIFT)))
                        probe->ways[i] = 0;
}

/* Adds bytes that were fetched or written in this line to the piece of memory that contains it. */
static void granule_add(struct sim_probe *probe, uint64_t line, uint32_t bytes)
{
        uint64_t key = line >> (GRANULE_BITS - 7), at;
        struct sim_granule *granule = &probe->granules[probe->last];

        if (!granule->bytes || granule->key != key) {
                at = key * UINT64_C(0x9e3779b97f4a7c15) >> 32;
                for (;; at++) {
                        granule = &probe->granules[at % GRANULE_SLOTS];
                        if (!granule->bytes || granule->key == key)
                                break;
                }
                if (!granule->bytes && probe->n_granules == SIM_GRANULES_MAX)
                        return;
                probe->last = (uint32_t)(at % GRANULE_SLOTS);
        }
        probe->n_granules += !granule->bytes;
        granule->key = key;
        granule->bytes += bytes;
}

static void sector_look(struct sim_probe *probe, uint64_t sector, uint64_t hash, uint32_t weight, int written)
{
        uint64_t line = sector >> LINE_SECTOR_BITS, way = line << WAY_LINE_SHIFT, *ways;
        uint32_t bit = 1u << (sector & 3), i;

        ways = &probe->ways[(hash >> 32) % probe->n_sets * probe->n_ways];
        for (i = 0; i < probe->n_ways - 1; i++)
                if (ways[i] >> WAY_LINE_SHIFT == line && ways[i] & 15)
                        break;
        if (ways[i] >> WAY_LINE_SHIFT == line && ways[i] & 15)
                way = ways[i];
        memmove(ways + 1, ways, i * sizeof(*ways));
        probe->sampled += weight;
        if (written && !(way & bit * WAY_DIRTY)) {
                probe->dirtied += weight;
                granule_add(probe, line, weight << DS_INTERP_SECTOR_BITS);
        } else if (!written && !(way & bit)) {
                probe->missed += weight;
                granule_add(probe, line, weight << DS_INTERP_SECTOR_BITS);
        }
        ways[0] = way | bit * WAY_HAS | (written ? bit * WAY_DIRTY : 0);
}

static void l2_look(struct sim_probe *probe, const uint64_t *sectors, uint32_t n, bool exact, int written)
{
        uint64_t hash, last = UINT64_MAX;

        for (uint32_t i = 0; i < n; i++) {
                if (!exact && sectors[i] >> LINE_SECTOR_BITS == last)
                        continue; /* the same line as the last sector, which is outside the sample */
                hash = line_hash(sectors[i] >> LINE_SECTOR_BITS);
                last = sectors[i] >> LINE_SECTOR_BITS;
                if (!exact && !line_sampled(hash))
                        continue;
                last = UINT64_MAX;
                sector_look(
                        probe, sectors[i], hash * UINT64_C(0xd6e8feb86659fd93), exact ? 1 : 1u << SAMPLE_BITS, written);
        }
}

void sim_probe_memory(void *user, const uint64_t *sectors, uint32_t n, enum ds_interp_access kind)
{
        uint64_t passed[DS_INTERP_SECTORS_MAX];
        struct sim_probe *probe = user;
        bool exact = probe->seen < probe->exact;

        probe->told += n;
        if (kind == DS_INTERP_READ) {
                n = l1_look(probe, sectors, n, passed);
                sectors = passed;
        }
        l2_look(probe, sectors, n, exact, kind == DS_INTERP_WRITE || kind == DS_INTERP_ATOMIC);
        if (exact || !(++probe->clock % (1u << SAMPLE_BITS))) {
                for (uint32_t i = 0; i < n; i++)
                        probe->channel[sim_channel_of(&probe->model->channels, sectors[i] << DS_INTERP_SECTOR_BITS)]++;
                probe->n_channel += n;
        }
        probe->seen += n;
        if (exact && probe->seen >= probe->exact)
                ways_thin(probe);
}

/*
 * Whether the fullest channel has more than twice its share, or the emptiest less than an eighth, by more than chance
 * explains (four deviations). A launch that avoids a few channels does not wait for work that fills these.
 */
static bool channels_uneven(const struct sim_probe *probe)
{
        uint64_t n = probe->model->channels.n, most = 0, least = UINT64_MAX, mean = probe->n_channel / n;

        for (uint32_t c = 0; c < n; c++) {
                most = DS_MAX(most, probe->channel[c]);
                least = DS_MIN(least, probe->channel[c]);
        }
        if (probe->n_channel < UNEVEN_SECTORS)
                return false;
        return (most > 2 * mean && (most - mean) * (most - mean) > 16 * mean) ||
               (8 * least < mean && (mean - least) * (mean - least) > 16 * mean);
}

static void granules_give(const struct sim_probe *probe, struct sim_traffic *ret)
{
        ret->granules = probe->n_granules ? ds_alloc((size_t)probe->n_granules * sizeof(*ret->granules)) : NULL;
        if (!ret->granules)
                return;
        for (uint32_t i = 0; i < GRANULE_SLOTS; i++)
                if (probe->granules[i].bytes)
                        ret->granules[ret->n_granules++] = probe->granules[i];
}

void sim_probe_end(struct sim_probe *probe, struct sim_traffic *ret)
{
        uint64_t n = DS_MAX(probe->sampled, 1), cost = probe->model->timing.write_cost;

        *ret = (struct sim_traffic){
                .pass = probe->told ? (uint32_t)(probe->seen * SIM_LOAD_ONE / probe->told) : SIM_LOAD_ONE,
                .fill = (uint32_t)DS_MIN((probe->missed + probe->dirtied) * SIM_LOAD_ONE / n, SIM_LOAD_ONE),
                .vram = (uint32_t)((probe->missed * SIM_LOAD_ONE + probe->dirtied * cost) / n),
                .uneven = channels_uneven(probe),
                .touched = (probe->missed + probe->dirtied) << DS_INTERP_SECTOR_BITS,
        };
        for (uint32_t c = 0; ret->uneven && c < probe->model->channels.n; c++)
                ret->shares[c] = (uint16_t)(probe->channel[c] * SIM_LOAD_ONE / probe->n_channel);
        granules_give(probe, ret);
}
