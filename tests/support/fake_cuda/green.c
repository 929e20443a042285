/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake driver: SM resources, green contexts, streams
 *
 * A resource keeps its TPCs in the padding that the headers leave to the driver. Splitting gives groups as on an H200:
 * pairs if co-scheduling is ignored, otherwise groups of eight from one GPC each, plus a remainder. Clusters of more
 * than two blocks run only on resources of the second kind, and on the whole device.
 *
 * A green context is a rung of the sim. The sim cannot remove rungs, so a destroyed one is kept and gets a new mask
 * when it is reused.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_cuda/fake.h"

#define SMS_PER_TPC 2u
#define COSCHEDULED 8u

struct CUdevResourceDesc_st {
        struct ds_tpc_mask mask;
        uint32_t n_tpcs;
        /* 1: all parts are from splits that keep the SMs of one GPC together, so large clusters run there */
        bool coarse;
        struct CUdevResourceDesc_st *next;
};

/* Contents of a resource's padding. */
struct share {
        struct ds_tpc_mask mask;
        bool whole;  /* the device's own resource, which may be split */
        bool coarse; /* made of groups that keep the SMs of one GPC together */
};
_Static_assert(sizeof(struct share) <= sizeof(((CUdevResource *)NULL)->_internal_padding), "no room");

static struct CUdevResourceDesc_st *descriptions; /* never freed, as in CUDA */

static uint32_t mask_count(const struct ds_tpc_mask *mask)
{
        uint32_t n = 0;

        for (size_t i = 0; i < DS_ARRAY_SIZE(mask->word); i++)
                n += (uint32_t)__builtin_popcountll(mask->word[i]);
        return n;
}

static void mask_set(struct ds_tpc_mask *mask, uint32_t tpc)
{
        mask->word[tpc / 64] |= UINT64_C(1) << tpc % 64;
}

static bool mask_has(const struct ds_tpc_mask *mask, uint32_t tpc)
{
        return mask->word[tpc / 64] >> tpc % 64 & 1;
}

static void resource_make(CUdevResource *resource, const struct ds_tpc_mask *mask, bool whole, uint32_t alignment)
{
        struct share share = {.mask = *mask, .whole = whole, .coarse = alignment == COSCHEDULED};

        memset(resource, 0, sizeof(*resource));
        resource->type = CU_DEV_RESOURCE_TYPE_SM;
        memcpy(resource->_internal_padding, &share, sizeof(share));
        resource->sm.smCount = mask_count(mask) * SMS_PER_TPC;
        resource->sm.minSmPartitionSize = alignment;
        resource->sm.smCoscheduledAlignment = alignment;
}

static struct share resource_share(const CUdevResource *resource)
{
        struct share share;

        memcpy(&share, resource->_internal_padding, sizeof(share));
        return share;
}

FAKE_API cuDeviceGetDevResource(CUdevice dev, CUdevResource *resource, CUdevResourceType type)
{
        struct ds_tpc_mask all = {};

        FAKE_ENTER(cuDeviceGetDevResource, CONTEXT);
        if (dev || type != CU_DEV_RESOURCE_TYPE_SM)
                return dev ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_RESOURCE_TYPE;
        for (uint32_t i = 0; i < fake_sim->info(fake.device)->n_tpcs; i++)
                mask_set(&all, i);
        resource_make(resource, &all, true, COSCHEDULED);
        return CUDA_SUCCESS;
}

/* Takes the next group of n TPCs from *left; all of them from one GPC if one_gpc. */
static bool group_take(struct ds_tpc_mask *left, uint32_t n, bool one_gpc, struct ds_tpc_mask *ret)
{
        const struct sim_model *model = fake.device->model;
        uint32_t n_tpcs = model->n_tpcs, gpc, rank, taken;

        for (uint32_t from = 0; from < SIM_GPCS_MAX; from++) {
                *ret = (struct ds_tpc_mask){};
                taken = 0;
                for (uint32_t i = 0; i < n_tpcs && taken < n; i++) {
                        sim_model_gpc(model, i, &gpc, &rank);
                        if (!mask_has(left, i) || (one_gpc && (gpc != from || gpc + 1 == model->gpc_alone)))
                                continue;
                        mask_set(ret, i);
                        taken++;
                }
                if (taken < n)
                        continue;
                for (size_t i = 0; i < DS_ARRAY_SIZE(left->word); i++)
                        left->word[i] &= ~ret->word[i];
                return true;
        }
        return false;
}

FAKE_API cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *n_groups, const CUdevResource *input,
        CUdevResource *remaining, unsigned int flags, unsigned int min_count)
{
        struct share share;
        struct ds_tpc_mask group;
        uint32_t unit, n = 0;
        bool one_gpc;

        FAKE_ENTER(cuDevSmResourceSplitByCount, CONTEXT);
        if (!n_groups || !input || flags & ~(unsigned int)CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING)
                return CUDA_ERROR_INVALID_VALUE;
        if (input->type != CU_DEV_RESOURCE_TYPE_SM)
                return CUDA_ERROR_INVALID_RESOURCE_TYPE;
        share = resource_share(input);
        if (!share.whole)
                return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        one_gpc = !(flags & CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING);
        unit = DS_MAX(DS_ALIGN_UP(min_count, one_gpc ? COSCHEDULED : SMS_PER_TPC), one_gpc ? COSCHEDULED : SMS_PER_TPC);
        if (unit > input->sm.smCount)
                return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        for (; (!result || n < *n_groups) && group_take(&share.mask, unit / SMS_PER_TPC, one_gpc, &group); n++)
                if (result)
                        resource_make(&result[n], &group, false, one_gpc ? COSCHEDULED : SMS_PER_TPC);
        *n_groups = n;
        if (remaining)
                resource_make(remaining, &share.mask, false, one_gpc ? COSCHEDULED : SMS_PER_TPC);
        return CUDA_SUCCESS;
}

FAKE_API cuDevResourceGenerateDesc(CUdevResourceDesc *desc, CUdevResource *resources, unsigned int n)
{
        struct CUdevResourceDesc_st *made;
        struct share share;

        FAKE_ENTER(cuDevResourceGenerateDesc, CONTEXT);
        if (!desc || !resources || !n)
                return CUDA_ERROR_INVALID_VALUE;
        made = ds_alloc0(1, sizeof(*made));
        if (!made)
                return CUDA_ERROR_OUT_OF_MEMORY;
        made->next = descriptions;
        made->coarse = true;
        descriptions = made;
        for (unsigned int i = 0; i < n; i++) {
                share = resource_share(&resources[i]);
                if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM)
                        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
                made->n_tpcs += mask_count(&share.mask);
                made->coarse &= share.coarse;
                for (size_t k = 0; k < DS_ARRAY_SIZE(share.mask.word); k++)
                        made->mask.word[k] |= share.mask.word[k];
        }
        /* a sum above the number of TPCs means that the resources overlap */
        if (!made->n_tpcs || made->n_tpcs != mask_count(&made->mask))
                return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        *desc = made;
        return CUDA_SUCCESS;
}

/* --- rungs --- */

static bool rung_idle(const struct CUgreenCtx_st *rung)
{
        for (size_t i = 0; i < FAKE_SLOTS; i++)
                if (rung->streams[i].done != rung->streams[i].submitted)
                        return false;
        return true;
}

/* Gives an unused rung of the sim another mask. */
static void rung_mask(uint32_t id, const struct ds_tpc_mask *mask, bool coarse)
{
        struct sim_rung *rung = fake.device->rungs[id];
        uint32_t per_tpc = fake.device->model->sms_per_tpc;

        rung->info.mask = *mask;
        rung->info.n_tpcs = mask_count(mask);
        rung->info.n_sms = rung->info.n_tpcs * per_tpc;
        rung->info.coarse = coarse;
        rung->info.cluster_max = sim_clusters_max(fake.device, &rung->info);
        memset(rung->sms, 0, sizeof(rung->sms));
        for (uint32_t i = 0; i < fake.device->n_sms; i++)
                if (mask_has(mask, fake.device->sm[i].id / per_tpc))
                        rung->sms[i / 64] |= UINT64_C(1) << i % 64;
}

CUresult fake_rung_take(const struct ds_tpc_mask *mask, bool coarse, enum fake_rung_owner owner, CUgreenCtx *ret)
{
        struct CUgreenCtx_st *rung;
        uint32_t id;
        int r;

        for (id = 0; id < fake.n_rungs; id++) {
                rung = fake.rungs[id];
                if (rung->owner != FAKE_RUNG_FREE || !rung_idle(rung))
                        continue;
                rung_mask(id, mask, coarse);
                rung->owner = owner;
                *ret = rung;
                return CUDA_SUCCESS;
        }
        rung = ds_alloc0(1, sizeof(*rung));
        if (!rung)
                return CUDA_ERROR_OUT_OF_MEMORY;
        r = fake_sim->rung_create(fake.device, mask, &id);
        if (r) {
                ds_free(rung);
                return fake_result(r);
        }
        rung_mask(id, mask, coarse);
        for (uint32_t i = 0; i < FAKE_SLOTS; i++)
                rung->streams[i].id = id * FAKE_SLOTS + i;
        rung->owner = owner;
        fake.rungs[fake.n_rungs++] = rung;
        *ret = rung;
        return CUDA_SUCCESS;
}

/* Frees all rungs when the context ends. Remaining handles of streams and green contexts become invalid. */
void fake_rungs_free(void)
{
        struct CUdevResourceDesc_st *desc;

        while (fake.n_rungs)
                ds_free(fake.rungs[--fake.n_rungs]);
        fake.n_greens = 0;
        while ((desc = descriptions)) {
                descriptions = desc->next;
                ds_free(desc);
        }
}

static bool green_ok(CUgreenCtx green)
{
        for (uint32_t i = 0; i < fake.n_rungs; i++)
                if (fake.rungs[i] == green)
                        return green->owner == FAKE_RUNG_GREEN;
        return false;
}

FAKE_API cuGreenCtxCreate(CUgreenCtx *green, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
        CUresult r;

        FAKE_ENTER(cuGreenCtxCreate, STOPS);
        if (dev)
                return CUDA_ERROR_INVALID_DEVICE;
        if (!desc || flags != CU_GREEN_CTX_DEFAULT_STREAM)
                return CUDA_ERROR_INVALID_VALUE;
        r = fake_rung_take(&desc->mask, desc->coarse, FAKE_RUNG_GREEN, green);
        if (!r)
                fake.n_greens++;
        return r;
}

FAKE_API cuGreenCtxDestroy(CUgreenCtx green)
{
        FAKE_ENTER(cuGreenCtxDestroy, STOPS);
        if (!green_ok(green))
                return CUDA_ERROR_INVALID_HANDLE;
        for (size_t i = 0; i < FAKE_SLOTS; i++)
                green->streams[i].in_use = false;
        green->owner = FAKE_RUNG_FREE;
        fake.n_greens--;
        return CUDA_SUCCESS;
}

/* --- streams --- */

bool fake_stream_ok(CUstream stream)
{
        for (uint32_t i = 0; i < fake.n_rungs; i++)
                for (uint32_t k = 0; k < FAKE_SLOTS; k++)
                        if (&fake.rungs[i]->streams[k] == stream)
                                return stream->in_use;
        return false;
}

CUresult fake_stream_take(CUgreenCtx rung, int priority, CUstream *ret)
{
        uint32_t first = priority < 0 ? 0 : DS_DEVICE_STREAMS_PER_RUNG;

        for (uint32_t i = first; i < first + DS_DEVICE_STREAMS_PER_RUNG; i++) {
                if (rung->streams[i].in_use)
                        continue;
                rung->streams[i].in_use = true;
                rung->streams[i].priority = priority;
                *ret = &rung->streams[i];
                return CUDA_SUCCESS;
        }
        return CUDA_ERROR_OUT_OF_MEMORY;
}

FAKE_API cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx green, unsigned int flags, int priority)
{
        FAKE_ENTER(cuGreenCtxStreamCreate, CONTEXT);
        if (!green_ok(green))
                return CUDA_ERROR_INVALID_HANDLE;
        if (flags != CU_STREAM_NON_BLOCKING)
                return CUDA_ERROR_INVALID_VALUE;
        return fake_stream_take(green, priority, stream);
}

FAKE_API cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
        struct ds_tpc_mask all = {};
        CUgreenCtx rung;
        CUresult r;

        FAKE_ENTER(cuStreamCreateWithPriority, CONTEXT);
        if (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING)
                return CUDA_ERROR_INVALID_VALUE;
        for (uint32_t i = 0; i < fake.n_rungs; i++) {
                if (fake.rungs[i]->owner != FAKE_RUNG_PRIMARY)
                        continue;
                all = fake_sim->rung_info(fake.device, i)->mask;
                if (fake_stream_take(fake.rungs[i], priority, stream) == CUDA_SUCCESS)
                        return CUDA_SUCCESS;
        }
        /* the primary context may have any number of streams, so this adds another rung of all SMs */
        r = fake_rung_take(&all, false, FAKE_RUNG_PRIMARY, &rung);
        return r ? r : fake_stream_take(rung, priority, stream);
}

FAKE_API cuStreamDestroy(CUstream stream)
{
        FAKE_ENTER(cuStreamDestroy, CONTEXT);
        if (!fake_stream_ok(stream))
                return CUDA_ERROR_INVALID_HANDLE;
        stream->in_use = false;
        return CUDA_SUCCESS;
}
