/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/probe/structure.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "util/alloc.h"
#include "util/macro.h"

struct set {
        uint64_t bits[4];
};

struct size {
        uint64_t pieces, channels, compared, same;
        uint32_t least, most, n_sets;
        struct set *sets; /* hash table of DS_STRUCTURE_SETS */
};

struct ds_structure {
        uint32_t granule_bits;
        uint64_t count[DS_STRUCTURE_CHANNELS];
        struct size sizes[DS_STRUCTURE_SIZES];
};

ds_structure *ds_structure_new(uint32_t granule_bits)
{
        ds_structure *structure = ds_alloc0(1, sizeof(*structure));

        for (uint32_t i = 0; structure && i < DS_STRUCTURE_SIZES; i++) {
                structure->sizes[i].least = UINT32_MAX;
                structure->sizes[i].sets = ds_alloc0(2 * DS_STRUCTURE_SETS, sizeof(struct set));
                if (!structure->sizes[i].sets)
                        return ds_structure_free(structure);
        }
        if (structure)
                structure->granule_bits = granule_bits;
        return structure;
}

ds_structure *ds_structure_free(ds_structure *structure)
{
        for (uint32_t i = 0; structure && i < DS_STRUCTURE_SIZES; i++)
                ds_free(structure->sizes[i].sets);
        return ds_free(structure);
}

static bool set_is_empty(const struct set *set)
{
        return !(set->bits[0] | set->bits[1] | set->bits[2] | set->bits[3]);
}

/* Counts one piece of memory that has this set of channels. */
static void set_add(struct size *size, const struct set *set)
{
        uint64_t at = 0;

        for (uint32_t i = 0; i < 4; i++)
                at = (at ^ set->bits[i]) * UINT64_C(0x9e3779b97f4a7c15);
        for (at >>= 32;; at++) {
                struct set *there = &size->sets[at % (2 * DS_STRUCTURE_SETS)];

                if (!set_is_empty(there) && memcmp(there, set, sizeof(*set)) != 0)
                        continue;
                if (set_is_empty(there) && size->n_sets < DS_STRUCTURE_SETS) {
                        *there = *set;
                        size->n_sets++;
                }
                return;
        }
}

static void piece_add(struct size *size, const uint8_t *labels, uint32_t n, uint8_t none)
{
        struct set set = {};
        uint32_t channels = 0, half = n / 2;

        for (uint32_t i = half; i < n; i++) {
                if (labels[i] == none || labels[i - half] == none)
                        continue;
                size->compared++;
                size->same += labels[i] == labels[i - half];
        }
        for (uint32_t i = 0; i < n; i++) {
                if (labels[i] == none)
                        return;
                set.bits[labels[i] / 64] |= UINT64_C(1) << labels[i] % 64;
        }
        for (uint32_t i = 0; i < 4; i++)
                channels += (uint32_t)__builtin_popcountll(set.bits[i]);
        size->pieces++;
        size->channels += channels;
        size->least = DS_MIN(size->least, channels);
        size->most = DS_MAX(size->most, channels);
        set_add(size, &set);
}

void ds_structure_add(ds_structure *structure, const uint8_t *labels, uint32_t n, uint8_t none)
{
        for (uint32_t i = 0; i < n; i++)
                structure->count[labels[i]] += labels[i] != none;
        for (uint32_t s = 0; s < DS_STRUCTURE_SIZES; s++)
                for (uint32_t i = 0; i + (2u << s) <= n; i += 2u << s)
                        piece_add(&structure->sizes[s], labels + i, 2u << s, none);
}

void ds_structure_size(const ds_structure *structure, uint32_t i, struct ds_structure_size *ret)
{
        const struct size *size = &structure->sizes[i];

        *ret = (struct ds_structure_size){
                .granules = 2u << i,
                .pieces = size->pieces,
                .least = size->pieces ? size->least : 0,
                .most = size->most,
                .mean = size->pieces ? (double)size->channels / (double)size->pieces : 0,
                .sets = size->n_sets,
                .again = size->compared ? (double)size->same / (double)size->compared : 0,
        };
}

uint32_t ds_structure_neighbours(const ds_structure *structure, uint32_t channel, uint64_t ret[4])
{
        const struct size *size = &structure->sizes[0];
        uint32_t n = 0;

        memset(ret, 0, 4 * sizeof(*ret));
        for (uint32_t i = 0; i < 2 * DS_STRUCTURE_SETS; i++) {
                const struct set *set = &size->sets[i];

                for (uint32_t k = 0; k < 4 && set->bits[channel / 64] >> channel % 64 & 1; k++)
                        ret[k] |= set->bits[k];
        }
        ret[channel / 64] &= ~(UINT64_C(1) << channel % 64);
        for (uint32_t k = 0; k < 4; k++)
                n += (uint32_t)__builtin_popcountll(ret[k]);
        return n;
}

uint32_t ds_structure_channels(const ds_structure *structure, double *ret_least, double *ret_most)
{
        uint64_t least = UINT64_MAX, most = 0, all = 0;
        uint32_t n = 0;

        for (uint32_t c = 0; c < DS_STRUCTURE_CHANNELS; c++) {
                if (!structure->count[c])
                        continue;
                n++;
                all += structure->count[c];
                least = DS_MIN(least, structure->count[c]);
                most = DS_MAX(most, structure->count[c]);
        }
        *ret_least = all ? (double)least / (double)all : 0;
        *ret_most = all ? (double)most / (double)all : 0;
        return n;
}

static void print_neighbours(const ds_structure *structure, FILE *to)
{
        uint32_t of_degree[DS_STRUCTURE_CHANNELS] = {}, n;
        uint64_t bits[4];

        fprintf(to, "neighbours in aligned pieces of two granules:\n");
        for (uint32_t c = 0; c < DS_STRUCTURE_CHANNELS; c++) {
                if (!structure->count[c])
                        continue;
                n = ds_structure_neighbours(structure, c, bits);
                of_degree[n]++;
                fprintf(to, "  %3" PRIu32 ":", c);
                for (uint32_t k = 0; k < DS_STRUCTURE_CHANNELS; k++)
                        if (bits[k / 64] >> k % 64 & 1)
                                fprintf(to, " %" PRIu32, k);
                fprintf(to, "\n");
        }
        for (n = 0; n < DS_STRUCTURE_CHANNELS; n++)
                if (of_degree[n])
                        fprintf(to, "  %" PRIu32 " channels have %" PRIu32 " neighbours\n", of_degree[n], n);
}

void ds_structure_print(const ds_structure *structure, FILE *to)
{
        struct ds_structure_size size;
        double least, most;
        uint32_t n = ds_structure_channels(structure, &least, &most);

        fprintf(to, "%" PRIu32 " channels, the least frequent has %.2f%% of the granules, the most frequent %.2f%%\n",
                n, least * 100, most * 100);
        fprintf(to, "granules  bytes   pieces    channels in one       sets   as half a piece before\n");
        for (uint32_t i = 0; i < DS_STRUCTURE_SIZES; i++) {
                ds_structure_size(structure, i, &size);
                fprintf(to,
                        "%8" PRIu32 " %6" PRIu64 " %8" PRIu64 "   %2" PRIu32 " to %2" PRIu32 ", mean %5.2f  %s%5" PRIu32
                        "   %5.1f%%\n",
                        size.granules, (uint64_t)size.granules << structure->granule_bits, size.pieces, size.least,
                        size.most, size.mean, size.sets == DS_STRUCTURE_SETS ? ">=" : "  ", size.sets,
                        size.again * 100);
        }
        print_neighbours(structure, to);
}
