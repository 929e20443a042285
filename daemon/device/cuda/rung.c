/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rungs: green contexts over sets of TPCs, each with its fixed streams
 *
 * Every rung is a green context, also the one over all TPCs: kernels of the primary context would run on all SMs,
 * including those of other rungs. A set of all TPCs is made of the GPU's SMs undivided. So it also has the SMs that
 * belong to no TPC (some GPUs cannot be divided evenly), and takes clusters of any size. Other sets are combined from
 * TPCs; for those the driver refuses clusters that do not fit on one TPC, however many TPCs there are. Larger clusters
 * run on sets of groups: unless told to ignore it, the driver makes each group of SMs of one GPC (8 SMs on an H200, and
 * one group of the remaining 12).
 *
 * Without support for green contexts there is one TPC that is all of the GPU, and a rung is a set of streams of the
 * primary context (topology.c logs this).
 *
 * Rungs are built before serving, because building stops the context.
 */
#include <string.h>

#include "device/cuda/internal.h"
#include "util/error.h"

int cuda_green_create(ds_device *device, CUdevResource *resources, unsigned n, CUgreenCtx *ret)
{
        CUdevResourceDesc descriptor;
        CUresult result;

        result = CU(device, cuDevResourceGenerateDesc)(&descriptor, resources, n);
        if (result)
                return ds_cuda_failed(device, result, "cuDevResourceGenerateDesc");
        result = CU(device, cuGreenCtxCreate)(ret, descriptor, device->ordinal, CU_GREEN_CTX_DEFAULT_STREAM);
        return result ? ds_cuda_failed(device, result, "cuGreenCtxCreate") : 0;
}

int cuda_stream_create(ds_device *device, CUgreenCtx green, int priority, CUstream *ret)
{
        CUresult result;

        if (green)
                result = CU(device, cuGreenCtxStreamCreate)(ret, green, CU_STREAM_NON_BLOCKING, priority);
        else
                result = CU(device, cuStreamCreateWithPriority)(ret, CU_STREAM_NON_BLOCKING, priority);
        return result ? ds_cuda_failed(device, result, "creating a stream") : 0;
}

int cuda_rungs_init(ds_device *device)
{
        int least = 0, greatest = 0;
        CUresult result = CU(device, cuCtxGetStreamPriorityRange)(&least, &greatest);

        if (result)
                return ds_cuda_failed(device, result, "cuCtxGetStreamPriorityRange");
        device->priority[0] = greatest;
        device->priority[1] = least;
        return cuda_stream_create(device, NULL, least, &device->own_stream);
}

/* --- one rung --------------------------------------------------------------------------------------------------- */

static void rung_free(ds_device *device, struct cuda_rung *rung)
{
        if (cuda_usable(device)) {
                for (size_t i = 0; i < DS_ARRAY_SIZE(rung->streams); i++)
                        if (rung->streams[i].stream)
                                CU(device, cuStreamDestroy)(rung->streams[i].stream);
                if (rung->green)
                        CU(device, cuGreenCtxDestroy)(rung->green);
        }
        ds_free(rung);
}

/* Resources of SMs of the TPCs in a mask; fills info. -EINVAL: the mask is empty or names a TPC that does not exist. */
static int rung_resources(
        ds_device *device, const struct ds_tpc_mask *mask, struct ds_rung_info *info, CUdevResource *resources)
{
        info->mask = *mask;
        for (uint32_t tpc = 0; tpc < DS_DEVICE_TPCS_MAX; tpc++) {
                if (!(mask->word[tpc / 64] >> tpc % 64 & 1))
                        continue;
                if (tpc >= device->info.n_tpcs)
                        return ds_error_origin(-EINVAL);
                if (device->tpc) {
                        resources[info->n_tpcs] = device->tpc[tpc];
                        info->n_sms += device->tpc[tpc].sm.smCount;
                }
                info->n_tpcs++;
        }
        if (!info->n_tpcs)
                return ds_error_origin(-EINVAL);
        info->cluster_max = device->tpc ? device->tpc[0].sm.smCount : 1;
        if (info->n_tpcs == device->info.n_tpcs) {
                info->n_sms = device->info.n_sms;
                info->cluster_max = DS_DEVICE_CLUSTER_MAX;
        }
        if (!device->info.attributes[CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH])
                info->cluster_max = 1;
        return 0;
}

/* Gets the rung's context, which nodes of graphs name so that they run on the rung. */
static int rung_context(ds_device *device, struct cuda_rung *rung)
{
        CUresult result;

        rung->context = device->primary;
        if (!rung->green)
                return 0;
        result = CU(device, cuCtxFromGreenCtx)(&rung->context, rung->green);
        return result ? ds_cuda_failed(device, result, "cuCtxFromGreenCtx") : 0;
}

/* Blocks of the largest cluster that a set of groups can run: as many as the set has SMs in one GPC. */
static uint32_t coarse_clusters(const ds_device *device, const struct ds_rung_info *rung, uint32_t groups)
{
        const struct ds_device_info *info = &device->info;
        uint32_t sms[UINT8_MAX + 1] = {0}, per_tpc = device->tpc[0].sm.smCount, most = 0, full = info->group_sms[0];

        for (uint32_t i = 0; i < info->n_tpcs; i++) {
                if (!(rung->mask.word[i / 64] >> i % 64 & 1) || info->gpc_of_tpc[i] == DS_DEVICE_GPC_NONE)
                        continue;
                sms[info->gpc_of_tpc[i]] += per_tpc;
                most = DS_MAX(most, sms[info->gpc_of_tpc[i]]);
        }
        if (most >= DS_DEVICE_CLUSTER_MAX && info->group_clusters >= DS_DEVICE_CLUSTER_MAX)
                return DS_DEVICE_CLUSTER_MAX;
        /* the last group consists of the remaining SMs and lies in no GPC */
        return groups & ((1u << (info->n_groups - 1)) - 1) ? DS_MIN(full, DS_DEVICE_CLUSTER_MAX / 2) : per_tpc;
}

/* Resources of SMs of a set of groups; fills info. */
static int coarse_resources(ds_device *device, uint32_t groups, struct ds_rung_info *info, CUdevResource *resources)
{
        uint32_t n = 0;

        info->coarse = 1;
        for (uint32_t i = 0; i < DS_DEVICE_GROUPS_MAX; i++) {
                if (!(groups >> i & 1))
                        continue;
                if (i >= device->info.n_groups)
                        return ds_error_origin(-EINVAL);
                resources[n++] = device->groups[i];
                info->n_sms += device->info.group_sms[i];
                for (size_t word = 0; word < DS_ARRAY_SIZE(info->mask.word); word++)
                        info->mask.word[word] |= device->info.group[i].word[word];
        }
        if (!n)
                return ds_error_origin(-EINVAL);
        info->n_tpcs = info->n_sms / device->tpc[0].sm.smCount;
        info->cluster_max = coarse_clusters(device, info, groups);
        return (int)n;
}

/* Makes the rung's green context and streams. n: number of resources; 0: all SMs of the device. */
static int rung_build(ds_device *device, struct cuda_rung *rung, CUdevResource *resources, uint32_t n)
{
        struct cuda_stream *stream;
        int r = 0;

        if (device->tpc && !n)
                r = cuda_green_create(device, &device->all_sms, 1, &rung->green);
        else if (device->tpc)
                r = cuda_green_create(device, resources, n, &rung->green);
        if (!r)
                r = rung_context(device, rung);
        for (uint32_t i = 0; !r && i < CUDA_STREAMS_PER_RUNG; i++) {
                stream = &rung->streams[i];
                stream->id = ds_device_stream(device->n_rungs, 0, i);
                r = cuda_stream_create(
                        device, rung->green, device->priority[i / DS_DEVICE_STREAMS_PER_RUNG], &stream->stream);
        }
        return r;
}

/* Builds the rung and adds it to the device. Consumes `rung`, also on failure. */
static int rung_add(ds_device *device, struct cuda_rung *rung, CUdevResource *resources, uint32_t n, uint32_t *ret_rung)
{
        uint64_t before = cuda_memory_free(device), after;
        int r = rung_build(device, rung, resources, n);

        if (r) {
                rung_free(device, rung);
                return ds_error_trace(r);
        }
        after = cuda_memory_free(device);
        cuda_memory_own(device, before > after ? before - after : 0);
        *ret_rung = device->n_rungs;
        device->rungs[device->n_rungs++] = rung;
        return 0;
}

int cuda_rung_create(ds_device *device, const struct ds_tpc_mask *mask, uint32_t *ret_rung)
{
        CUdevResource resources[DS_DEVICE_TPCS_MAX];
        struct cuda_rung *rung;
        uint32_t n;
        int r;

        if (device->n_rungs == DS_DEVICE_RUNGS_MAX)
                return ds_error_origin(-ENOSPC);
        rung = ds_alloc0(1, sizeof(*rung));
        if (!rung)
                return ds_error_origin(-ENOMEM);
        r = rung_resources(device, mask, &rung->info, resources);
        if (r) {
                ds_free(rung);
                return ds_error_trace(r);
        }
        n = rung->info.n_tpcs == device->info.n_tpcs ? 0 : rung->info.n_tpcs;
        return ds_error_trace(rung_add(device, rung, resources, n, ret_rung));
}

int cuda_rung_create_coarse(ds_device *device, uint32_t groups, uint32_t *ret_rung)
{
        CUdevResource resources[DS_DEVICE_GROUPS_MAX];
        struct cuda_rung *rung;
        int r;

        if (device->n_rungs == DS_DEVICE_RUNGS_MAX)
                return ds_error_origin(-ENOSPC);
        rung = ds_alloc0(1, sizeof(*rung));
        if (!rung)
                return ds_error_origin(-ENOMEM);
        r = coarse_resources(device, groups, &rung->info, resources);
        if (r < 0) {
                ds_free(rung);
                return ds_error_trace(r);
        }
        return ds_error_trace(rung_add(device, rung, resources, (uint32_t)r, ret_rung));
}

/* --- set of rungs ----------------------------------------------------------------------------------------------- */

const struct ds_rung_info *cuda_rung_info(ds_device *device, uint32_t rung)
{
        return rung < device->n_rungs ? &device->rungs[rung]->info : NULL;
}

struct cuda_stream *cuda_stream_at(ds_device *device, uint32_t id)
{
        uint32_t rung = id / CUDA_STREAMS_PER_RUNG;

        return rung < device->n_rungs ? &device->rungs[rung]->streams[id % CUDA_STREAMS_PER_RUNG] : NULL;
}

void cuda_rungs_free(ds_device *device)
{
        while (device->n_rungs)
                rung_free(device, device->rungs[--device->n_rungs]);
        if (device->own_stream && cuda_usable(device))
                CU(device, cuStreamDestroy)(device->own_stream);
        device->own_stream = NULL;
}
