/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rungs: green contexts over sets of TPCs, each with its fixed streams
 *
 * Every rung is a green context, also the one over all TPCs: kernels of the primary context run on all SMs, those of
 * other rungs included. A set of all TPCs is made of the GPU's SMs as they are, undivided: so it has those that belong
 * to no TPC as well (some GPUs cannot be divided evenly), and takes clusters of any size. Of the others, which are put
 * together from TPCs, the driver refuses clusters that do not fit on one TPC, however many TPCs there are.
 *
 * Where the driver or the GPU knows no green contexts there is one TPC that is all of the GPU, and a rung is streams of
 * the primary context (topology.c has said so in the log).
 *
 * Building them is for the time before serving: it stops the context.
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

/* Which of the device's resources a mask names; info is filled. -EINVAL: none, or one that there is not. */
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

/* What nodes of graphs name it by. */
static int rung_context(ds_device *device, struct cuda_rung *rung)
{
        CUresult result;

        rung->context = device->primary;
        if (!rung->green)
                return 0;
        result = CU(device, cuCtxFromGreenCtx)(&rung->context, rung->green);
        return result ? ds_cuda_failed(device, result, "cuCtxFromGreenCtx") : 0;
}

static int rung_build(ds_device *device, struct cuda_rung *rung, CUdevResource *resources)
{
        int all = rung->info.n_tpcs == device->info.n_tpcs, r = 0;
        struct cuda_stream *stream;

        if (device->tpc && all)
                r = cuda_green_create(device, &device->all_sms, 1, &rung->green);
        else if (device->tpc)
                r = cuda_green_create(device, resources, rung->info.n_tpcs, &rung->green);
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

int cuda_rung_create(ds_device *device, const struct ds_tpc_mask *mask, uint32_t *ret_rung)
{
        CUdevResource resources[DS_DEVICE_TPCS_MAX];
        uint64_t before, after;
        struct cuda_rung *rung;
        int r;

        if (device->n_rungs == DS_DEVICE_RUNGS_MAX)
                return ds_error_origin(-ENOSPC);
        rung = ds_alloc0(1, sizeof(*rung));
        if (!rung)
                return ds_error_origin(-ENOMEM);
        r = rung_resources(device, mask, &rung->info, resources);
        before = cuda_memory_free(device);
        if (!r)
                r = rung_build(device, rung, resources);
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

/* --- all of them ------------------------------------------------------------------------------------------------ */

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
