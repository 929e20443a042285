/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placement of clusters on SMs
 *
 * All blocks of a cluster are placed at one time, on SMs of one GPC; several of them may share an SM. The rules
 * reproduce an H200, to the block, as its occupancy calls report it:
 *
 *  - A cluster of n blocks goes to a GPC that has at least n SMs.
 *  - A GPC holds as many clusters as it has room for their blocks, wherever those are in it. For that count an SM takes
 *    at most eight blocks of clusters.
 *  - SMs of TPCs that no large cluster reaches take clusters of a TPC's size.
 *  - A set of TPCs that is not the whole GPU takes no larger clusters, except a set of groups. A group is eight SMs of
 *    one GPC; groups are assigned to the GPCs in turn, and the last group has the remaining SMs (15 and 12 SMs on an
 *    H200, as its driver reports). A set of groups takes clusters of 8, or of 16 where it has so many SMs of one GPC.
 *
 * Clusters need compute capability 9.0 or above; the largest have 16 blocks.
 */
#include <assert.h>
#include <string.h>

#include "device/cluster.h"
#include "device/sim/internal.h"

#define BLOCKS_PER_SM 8
#define CC_CLUSTERS 9
#define GROUP_SMS 8

void sim_clusters_init(ds_device *device)
{
        const struct sim_model *model = device->model;
        uint32_t gpc, rank;

        for (uint32_t i = 0; i < device->n_sms; i++) {
                sim_model_gpc(model, device->sm[i].id / model->sms_per_tpc, &gpc, &rank);
                device->sm[i].gpc = gpc + 1 == model->gpc_alone ? SIM_GPC_NONE : (uint8_t)gpc;
        }
}

static void mask_set(struct ds_tpc_mask *mask, uint32_t tpc)
{
        mask->word[tpc / 64] |= UINT64_C(1) << tpc % 64;
}

/* TPCs of the GPC number `of` with the ranks first .. first + n - 1 in it; false if the GPC lacks one of them. */
static bool group_of(const struct sim_model *model, uint32_t of, uint32_t first, uint32_t n, struct ds_tpc_mask *ret)
{
        uint32_t gpc, rank;

        if (model->gpc_tpcs[of] < first + n || of + 1 == model->gpc_alone)
                return false;
        *ret = (struct ds_tpc_mask){};
        for (uint32_t tpc = 0; tpc < model->n_tpcs; tpc++) {
                sim_model_gpc(model, tpc, &gpc, &rank);
                if (gpc == of && rank >= first && rank < first + n)
                        mask_set(ret, tpc);
        }
        return true;
}

static void groups_add(struct ds_device_info *info, const struct ds_tpc_mask *mask, uint32_t n_sms)
{
        assert(info->n_groups < DS_DEVICE_GROUPS_MAX);
        info->group[info->n_groups] = *mask;
        info->group_sms[info->n_groups++] = n_sms;
}

void sim_model_groups(const struct sim_model *model, struct ds_device_info *info)
{
        const uint32_t n = GROUP_SMS / model->sms_per_tpc;
        struct ds_tpc_mask group, left = {};
        uint32_t n_left = 0;

        if (model->cc_major < CC_CLUSTERS)
                return;
        for (uint32_t i = 0; i < model->n_tpcs; i++)
                mask_set(&left, i);
        for (uint32_t first = 0; first < model->n_tpcs; first += n)
                for (uint32_t gpc = 0; gpc < SIM_GPCS_MAX; gpc++) {
                        if (!group_of(model, gpc, first, n, &group))
                                continue;
                        groups_add(info, &group, GROUP_SMS);
                        for (size_t i = 0; i < DS_ARRAY_SIZE(left.word); i++)
                                left.word[i] &= ~group.word[i];
                }
        for (size_t i = 0; i < DS_ARRAY_SIZE(left.word); i++)
                n_left += (uint32_t)__builtin_popcountll(left.word[i]);
        info->group_clusters = DS_DEVICE_CLUSTER_MAX;
        if (n_left && info->n_groups)
                groups_add(info, &left, n_left * model->sms_per_tpc);
}

/* Blocks of the largest cluster that a set of groups can run: the most SMs that the set has in one GPC. */
static uint32_t coarse_max(const ds_device *device, const struct ds_tpc_mask *mask)
{
        uint32_t sms[SIM_GPCS_MAX] = {}, most = 0;

        for (uint32_t i = 0; i < device->n_sms; i++) {
                uint32_t tpc = device->sm[i].id / device->model->sms_per_tpc;

                if (!(mask->word[tpc / 64] >> tpc % 64 & 1) || device->sm[i].gpc == SIM_GPC_NONE)
                        continue;
                sms[device->sm[i].gpc]++;
                most = DS_MAX(most, sms[device->sm[i].gpc]);
        }
        if (most >= DS_DEVICE_CLUSTER_MAX)
                return DS_DEVICE_CLUSTER_MAX;
        return most >= GROUP_SMS ? GROUP_SMS : device->model->sms_per_tpc;
}

uint32_t sim_clusters_max(const ds_device *device, const struct ds_rung_info *rung)
{
        if (device->model->cc_major < CC_CLUSTERS)
                return 1;
        if (rung->n_tpcs == device->model->n_tpcs)
                return DS_DEVICE_CLUSTER_MAX;
        return rung->coarse ? coarse_max(device, &rung->mask) : device->model->sms_per_tpc;
}

int sim_clusters_check(const ds_device *device, const struct sim_rung *rung, const struct ds_launch *launch,
        uint32_t *ret_grid, uint32_t *ret_cluster)
{
        uint64_t grid[3];
        uint32_t blocks = 1;
        int r;

        r = ds_device_cluster(&launch->kernel->info, launch->grid, launch->cluster, ret_cluster, grid);
        if (r)
                return r;
        for (int i = 0; i < 3; i++) {
                /* attributes 5, 6 and 7: MAX_GRID_DIM_X, Y, Z */
                if (grid[i] > (uint64_t)device->info.attributes[5 + i])
                        return DS_CUDA_INVALID_VALUE;
                ret_grid[i] = (uint32_t)grid[i];
                blocks *= ret_cluster[i];
        }
        if (blocks > 1 && device->model->cc_major < CC_CLUSTERS)
                return DS_CUDA_NOT_SUPPORTED;
        if (blocks > rung->info.cluster_max)
                return DS_CUDA_INVALID_CLUSTER_SIZE;
        /* ret_cluster 0: without a cluster size of the launch or the kernel, %is_explicit_cluster reads 0 */
        if (blocks == 1 && !launch->kernel->info.cluster[0] && !launch->cluster[0])
                memset(ret_cluster, 0, 3 * sizeof(*ret_cluster));
        return 0;
}

/* --- placing --- */

struct gpcs {
        uint32_t sms[SIM_GPCS_MAX];  /* number of SMs that are candidates or full */
        uint64_t room[SIM_GPCS_MAX]; /* blocks that fit on the candidate SMs of each GPC */
};

/* GPC that counts this SM for clusters of n blocks; SIM_GPCS_MAX: none. */
static uint32_t gpc_of(const ds_device *device, uint32_t sm, uint32_t n)
{
        uint32_t gpc = device->sm[sm].gpc;

        if (gpc != SIM_GPC_NONE)
                return gpc;
        return n <= device->model->sms_per_tpc ? device->model->gpc_alone - 1u : SIM_GPCS_MAX;
}

static void gpcs_sms(const ds_device *device, uint32_t n, const uint64_t *mask, uint32_t *sms)
{
        for (uint32_t i = 0; i < device->n_sms; i++) {
                uint32_t gpc = mask[i / 64] >> i % 64 & 1 ? gpc_of(device, i, n) : SIM_GPCS_MAX;

                if (gpc < SIM_GPCS_MAX)
                        sms[gpc]++;
        }
}

/* Assigns one cluster of n blocks to SMs of the GPC, each block to the SM that is the emptiest at that point. */
static void deal_one(const ds_device *device, struct sim_candidates *c, uint32_t gpc, uint32_t n)
{
        for (; n; n--) {
                uint32_t best = UINT32_MAX, least = UINT32_MAX;

                for (uint32_t i = 0; i < c->n; i++) {
                        uint32_t resident = device->sm[c->sm[i]].resident + c->taken[i];

                        if (c->taken[i] == c->room[i] || gpc_of(device, c->sm[i], 1) != gpc || resident >= least)
                                continue;
                        best = i;
                        least = resident;
                }
                assert(best < c->n); /* the caller has checked that the GPC has room for the cluster */
                c->taken[best]++;
        }
}

uint64_t sim_clusters_deal(const ds_device *device, const struct sim_job *job, struct sim_candidates *c, uint64_t want)
{
        /* the last cluster of a bundled launch may be smaller */
        uint32_t n = (uint32_t)DS_MIN(job->cluster_blocks, want);
        struct gpcs gpcs = {};
        uint64_t dealt = 0;

        gpcs_sms(device, n, device->rungs[job->stream->rung]->sms, gpcs.sms);
        for (uint32_t i = 0; i < c->n; i++)
                if (gpc_of(device, c->sm[i], n) < SIM_GPCS_MAX)
                        gpcs.room[gpc_of(device, c->sm[i], n)] += c->room[i];
        for (; dealt + n <= want; dealt += n) {
                uint32_t best = SIM_GPCS_MAX;

                for (uint32_t gpc = 0; gpc < SIM_GPCS_MAX; gpc++)
                        if (gpcs.sms[gpc] >= n && gpcs.room[gpc] >= n &&
                                (best == SIM_GPCS_MAX || gpcs.room[gpc] > gpcs.room[best]))
                                best = gpc;
                if (best == SIM_GPCS_MAX)
                        break;
                deal_one(device, c, best, n);
                gpcs.room[best] -= n;
        }
        return dealt;
}

/* --- occupancy --- */

int sim_clusters(ds_device *device, const struct ds_launch *launch, uint32_t *ret_clusters)
{
        const struct sim_model *model = device->model;
        struct sim_sm empty = {.threads = model->sm_threads,
                .blocks = model->sm_blocks,
                .registers = model->sm_registers,
                .shared = model->sm_shared};
        uint64_t all[SIM_SM_WORDS], room;
        uint32_t cluster[3], sms[SIM_GPCS_MAX] = {}, n;
        struct sim_need need;
        uint64_t grid[3];
        int r;

        *ret_clusters = 0;
        r = ds_device_cluster_within(
                &launch->kernel->info, DS_DEVICE_CLUSTER_ASKED, launch->cluster, launch->cluster, cluster, grid);
        if (r)
                return r;
        n = cluster[0] * cluster[1] * cluster[2];
        if (n > 1 && model->cc_major < CC_CLUSTERS)
                return DS_CUDA_NOT_SUPPORTED;
        sim_need_of(model, launch->kernel, launch->block, launch->shared_bytes, &need);
        room = sim_sm_room(&empty, &need, BLOCKS_PER_SM);
        memset(all, 0xff, sizeof(all));
        gpcs_sms(device, n, all, sms);
        for (uint32_t gpc = 0; gpc < SIM_GPCS_MAX; gpc++)
                if (sms[gpc] >= n)
                        *ret_clusters += (uint32_t)(sms[gpc] * room / n);
        return 0;
}
