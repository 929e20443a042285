/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a daemon's facts about its pool with the known channels of a simulated device
 *
 * usage: truth MODEL FILE: FILE is the pool's file (struct ds_pool_file) of a daemon with that simulated device. The
 * daemon chooses its own names of channels. Checked: best effort's sectors lie in as many channels as the file says,
 * the other sectors lie in none of these, and no sector is lost unnecessarily.
 */
#include <stdio.h>
#include <string.h>

#include "device/sim/channel.h"
#include "proto/wire.h"
#include "util/alloc.h"
#include "util/macro.h"
#include "worker/pool.h"

static const struct {
        const char *name;
        struct sim_channels channels;
} models[] = {
        {"a2000", {SIM_CHANNELS_GROUPS, 6, 2}},
        {"p40", {SIM_CHANNELS_GROUPS, 12, 4}},
};

static const struct sim_channels *find_model(const char *name)
{
        for (size_t i = 0; i < DS_ARRAY_SIZE(models); i++)
                if (!strcmp(models[i].name, name))
                        return &models[i].channels;
        return NULL;
}

/* The channels that a sector touches, as a bitmap. */
static uint64_t channels_of(const struct sim_channels *channels, uint64_t address, uint64_t bytes)
{
        uint64_t set = 0;

        for (uint64_t at = 0; at < bytes; at += 256)
                set |= UINT64_C(1) << sim_channel_of(channels, address + at);
        return set;
}

static int judge(const struct sim_channels *channels, const struct ds_pool_file *facts, const uint8_t *classes)
{
        const uint64_t bytes = UINT64_C(1) << facts->sector_bits, n = facts->n_slabs * facts->slab_bytes / bytes;
        uint64_t sets[_DS_POOL_CLASS_MAX] = {0}, counts[_DS_POOL_CLASS_MAX] = {0};

        for (uint64_t i = 0; i < n; i++) {
                if (classes[i] >= _DS_POOL_CLASS_MAX)
                        return 1;
                sets[classes[i]] |= channels_of(channels, DSW_POOL_BASE + i * bytes, bytes);
                counts[classes[i]]++;
        }
        printf("%llu sectors: %llu in channels %#llx, %llu in %#llx, %llu in neither\n", (unsigned long long)n,
                (unsigned long long)counts[DS_POOL_BE], (unsigned long long)sets[DS_POOL_BE],
                (unsigned long long)counts[DS_POOL_LS], (unsigned long long)sets[DS_POOL_LS],
                (unsigned long long)counts[DS_POOL_NEITHER]);
        if (facts->n_channels != channels->n || (sets[DS_POOL_BE] & sets[DS_POOL_LS]))
                return 1;
        return (unsigned)__builtin_popcountll(sets[DS_POOL_BE]) != facts->n_be ||
               counts[DS_POOL_NEITHER] * 1000 > n * (facts->lost_permille + 1);
}

int main(int argc, char **argv)
{
        const struct sim_channels *channels = argc == 3 ? find_model(argv[1]) : NULL;
        FILE *file = channels ? fopen(argv[2], "rb") : NULL;
        ds_cleanup(ds_freep) uint8_t *classes = NULL;
        struct ds_pool_file facts;
        size_t n;

        if (!file || fread(&facts, sizeof(facts), 1, file) != 1 || facts.magic != DS_POOL_MAGIC) {
                fprintf(stderr, "usage: truth MODEL FILE\n");
                return 2;
        }
        n = (size_t)(facts.n_slabs * (facts.slab_bytes >> facts.sector_bits));
        classes = ds_alloc(n);
        n -= classes ? fread(classes, 1, n, file) : 0;
        fclose(file);
        return n || judge(channels, &facts, classes);
}
