/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties of the GPU
 *
 * A TPC is the smallest group of SMs that the driver accepts for a green context: two on a GPU with clusters, more on
 * some older ones. All TPCs come from one split of the device's SMs, because only parts of one split can be combined.
 * The remaining SMs belong to no TPC; the rung over all TPCs has them too.
 *
 * Memory: sessions can have the GPU's memory minus the memory of the context and the rungs and a reserve for the
 * driver's later needs (code, local memory, the device heap). The context's memory is computed from the free memory
 * after its creation, but is taken to be at most CONTEXT_MAX. The supervisor holds slabs of an earlier worker, which
 * will be mapped again, so they must not count as taken; another program's memory is not counted either. So info is a
 * capacity, and mem_create finds out how much memory there really is. It shrinks with each rung, and stays constant
 * after the last.
 *
 * Attributes are the driver's own numbers. Attributes that promise features a program under DetShare cannot have are 0,
 * so that libraries choose another way.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/internal.h"
#include "util/error.h"

#define CONTEXT_MAX DS_GIB(1)
#define RUNG_MAX DS_MIB(256)
#define RESERVE DS_MIB(512)
#define GROUP_SMS 8u
/* value of info.mask_permille: services became slower by 95 (MobileNetV3) to 125 permille (BERT) on an H200; not
 * measured on other GPUs */
#define MASK_PERMILLE 110u
#define RESERVE_SHARE 16 /* the reserve takes at most 1 / this of all memory, which matters on small GPUs */

/* --- the name --------------------------------------------------------------------------------------------------- */

static int word_is(const char *word, size_t length, const char *other)
{
        return strlen(other) == length && !strncasecmp(word, other, length);
}

static int word_is_vendors(const char *word, size_t length)
{
        static const char *const words[] = {
                "nvidia", "tesla", "quadro", "geforce", "graphics", "device", "detshare", "sim"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(words); i++)
                if (word_is(word, length, words[i]))
                        return 1;
        return 0;
}

static void model_append(char *model, size_t size, const char *word, size_t length)
{
        size_t used = strlen(model);

        for (size_t i = 0; i < length && used + 1 < size; i++)
                model[used++] = (char)tolower((unsigned char)word[i]);
        model[used] = '\0';
}

/*
 * The first word with a digit names the model. If it begins with the digit, the word before it belongs to it ("GTX
 * 1080"); "Ti" and "SUPER" behind it make another model. A name without digits is taken whole.
 */
void cuda_model_name(const char *name, char *ret, size_t size)
{
        const char *word, *before = NULL;
        size_t length, before_length = 0;
        int found = 0;

        *ret = '\0';
        for (word = name; *word; word += length) {
                for (length = 0; isalnum((unsigned char)word[length]);)
                        length++;
                if (!length) {
                        length = 1;
                        continue;
                }
                if (found) {
                        if (!word_is(word, length, "ti") && !word_is(word, length, "super"))
                                break;
                        model_append(ret, size, word, length);
                } else if (!word_is_vendors(word, length)) {
                        found = strcspn(word, "0123456789") < length;
                        if (found && isdigit((unsigned char)*word) && before)
                                model_append(ret, size, before, before_length);
                        if (found)
                                model_append(ret, size, word, length);
                        before = word;
                        before_length = length;
                }
        }
        if (*ret)
                return;
        for (; *name; name++)
                if (isalnum((unsigned char)*name))
                        model_append(ret, size, name, 1);
}

/* --- attributes ------------------------------------------------------------------------------------------------- */

int cuda_attribute_offered(int attribute)
{
        /* the client library also hides some attributes (client-lib/cuda/device.c) */
        static const CUdevice_attribute not_offered[] = {
                /* the daemon makes all memory: none is managed, pageable, or shared with another process */
                CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
                CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
                CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
                CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
                CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
                CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
                /* the supervisor owns memory that is exported */
                CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
                CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
        };

        for (size_t i = 0; i < DS_ARRAY_SIZE(not_offered); i++)
                if ((int)not_offered[i] == attribute)
                        return 0;
        return 1;
}

static void topology_attributes(ds_device *device)
{
        int end = DS_MIN((int)CU_DEVICE_ATTRIBUTE_MAX, DS_DEVICE_ATTRIBUTES), value;

        for (int i = 1; i < end; i++) {
                value = 0;
                if (!cuda_attribute_offered(i) ||
                        CU(device, cuDeviceGetAttribute)(&value, (CUdevice_attribute)i, device->ordinal))
                        continue; /* attributes not offered, or unknown to this driver, stay 0 */
                device->info.attributes[i] = value;
        }
}

/* --- memory ----------------------------------------------------------------------------------------------------- */

uint64_t cuda_memory_free(ds_device *device)
{
        size_t available = 0, total = 0;

        return CU(device, cuMemGetInfo)(&available, &total) ? 0 : available;
}

static void memory_tell(ds_device *device)
{
        uint64_t taken = device->info.own_bytes + DS_MIN(RESERVE, device->memory_total / RESERVE_SHARE);

        device->info.memory_bytes = device->memory_total > taken ? device->memory_total - taken : 0;
        device->info.memory_bytes -= device->info.memory_bytes % device->info.slab_granularity;
}

void cuda_memory_own(ds_device *device, uint64_t bytes)
{
        device->info.own_bytes += DS_MIN(bytes, RUNG_MAX);
        memory_tell(device);
}

static int topology_memory(ds_device *device)
{
        const CUmemAllocationProp prop = cuda_slab_prop(device);
        size_t available = 0, total = 0, granularity = 0;
        CUresult result;

        result = CU(device, cuMemGetAllocationGranularity)(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
        if (!result)
                result = CU(device, cuMemGetInfo)(&available, &total);
        if (result)
                return ds_cuda_failed(device, result, "querying the GPU's memory");
        if (!granularity)
                return ds_error_origin(-EIO);
        device->info.slab_granularity = granularity;
        device->memory_total = total;
        device->info.own_bytes = DS_MIN(total - available, CONTEXT_MAX);
        memory_tell(device);
        return 0;
}

/* --- TPCs ------------------------------------------------------------------------------------------------------- */

/* Makes all of the GPU one TPC, and logs why. */
static int tpcs_none(ds_device *device, const char *what, CUresult result)
{
        ds_log(DS_LOG_WARNING, "this GPU cannot be divided (%s: %s): every kernel may use all of it", what,
                ds_cuda_driver_error(&device->driver, result));
        device->tpc = ds_free(device->tpc);
        device->info.n_tpcs = 1;
        return 0;
}

/* The split with the smallest groups whose number is not too large. */
static CUresult tpcs_split(ds_device *device, CUdevResource *ret, unsigned *ret_n)
{
        const unsigned flags = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING;
        CUresult result;
        unsigned n;

        for (unsigned least = 2; least <= device->info.n_sms; least *= 2) {
                n = 0;
                result = CU(device, cuDevSmResourceSplitByCount)(NULL, &n, &device->all_sms, NULL, flags, least);
                if (result)
                        return result;
                if (!n || n > DS_DEVICE_TPCS_MAX)
                        continue;
                result = CU(device, cuDevSmResourceSplitByCount)(ret, &n, &device->all_sms, NULL, flags, least);
                *ret_n = n;
                return !result && n ? CUDA_SUCCESS : result ? result : CUDA_ERROR_NOT_SUPPORTED;
        }
        return CUDA_ERROR_NOT_SUPPORTED;
}

/* 1: an earlier worker has discovered the GPCs and groups, and clients are waiting, so that this one must open fast. */
static int topology_again(void)
{
        const char *value = getenv("DETSHARE_RESTARTED");

        return value && !strcmp(value, "1");
}

/* Tests whether green contexts can be made from the split: some drivers accept a split but make no green context of
 * it. */
static CUresult tpcs_try(ds_device *device)
{
        CUdevResourceDesc descriptor;
        CUgreenCtx green;
        CUresult result = CU(device, cuDevResourceGenerateDesc)(&descriptor, device->tpc, 1);

        if (!result)
                result = CU(device, cuGreenCtxCreate)(&green, descriptor, device->ordinal, CU_GREEN_CTX_DEFAULT_STREAM);
        if (!result)
                CU(device, cuGreenCtxDestroy)(green);
        return result;
}

static int topology_tpcs(ds_device *device)
{
        uint32_t inside = 0;
        unsigned n = 0;
        CUresult result;

        result = CU(device, cuDeviceGetDevResource)(device->ordinal, &device->all_sms, CU_DEV_RESOURCE_TYPE_SM);
        if (result)
                return tpcs_none(device, "cuDeviceGetDevResource", result);
        device->tpc = ds_alloc0(DS_DEVICE_TPCS_MAX, sizeof(*device->tpc));
        if (!device->tpc)
                return ds_error_origin(-ENOMEM);
        result = tpcs_split(device, device->tpc, &n);
        if (result)
                return tpcs_none(device, "cuDevSmResourceSplitByCount", result);
        result = topology_again() ? CUDA_SUCCESS : tpcs_try(device);
        if (result)
                return tpcs_none(device, "cuGreenCtxCreate", result);
        for (unsigned i = 0; i < n; i++)
                inside += device->tpc[i].sm.smCount;
        device->info.n_tpcs = n;
        device->n_sms_outside = device->info.n_sms - DS_MIN(inside, device->info.n_sms);
        ds_log(DS_LOG_INFO, "%u SMs in %u groups that can be chosen, %u in none of them", device->info.n_sms, n,
                device->n_sms_outside);
        return 0;
}

/*
 * Groups of SMs that share a GPC, for rungs that take large clusters; the remaining SMs are the last group. They come
 * from another split than the TPCs, so the two cannot be combined; but they may overlap.
 */
static void topology_groups(ds_device *device)
{
        const uint32_t clusters = (uint32_t)device->info.attributes[CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH];
        CUdevResource rest = {0};
        unsigned n = DS_DEVICE_GROUPS_MAX - 1;
        CUresult result;

        if (!device->tpc || !clusters)
                return;
        result = CU(device, cuDevSmResourceSplitByCount)(device->groups, &n, &device->all_sms, &rest, 0, GROUP_SMS);
        if (result || !n || n >= DS_DEVICE_GROUPS_MAX) {
                ds_log(DS_LOG_WARNING,
                        "this GPU has no groups of SMs for large clusters (%s): a launch with such clusters borrows "
                        "all of it",
                        ds_cuda_driver_error(&device->driver, result));
                return;
        }
        if (rest.type == CU_DEV_RESOURCE_TYPE_SM && rest.sm.smCount)
                device->groups[n++] = rest;
        device->info.n_groups = n;
        for (unsigned i = 0; i < n; i++)
                device->info.group_sms[i] = device->groups[i].sm.smCount;
        device->info.group_clusters = DS_MIN(device->info.group_sms[0], DS_DEVICE_CLUSTER_MAX);
}

/* Reads GPCs and groups as an earlier worker wrote them; an invalid text counts as none. */
static void topology_told(ds_device *device)
{
        const char *text = getenv("DETSHARE_TOPOLOGY");

        if (text && ds_device_topology_read(&device->info, text))
                ds_log(DS_LOG_WARNING,
                        "the topology found by an earlier worker does not match this GPU: it is ignored");
}

/* --- discovery -------------------------------------------------------------------------------------------------- */

static int topology_identity(ds_device *device)
{
        struct ds_device_info *info = &device->info;
        CUuuid uuid;
        CUresult result;

        result = CU(device, cuDeviceGetName)(info->name, sizeof(info->name), device->ordinal);
        if (!result)
                result = CU(device, cuDeviceGetUuid)(&uuid, device->ordinal);
        if (result)
                return ds_cuda_failed(device, result, "querying the GPU's identity");
        memcpy(info->uuid, uuid.bytes, sizeof(info->uuid));
        cuda_model_name(info->name, info->model, sizeof(info->model));
        topology_attributes(device);
        info->cc_major = (uint32_t)info->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
        info->cc_minor = (uint32_t)info->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
        info->n_sms = (uint32_t)info->attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
        info->stops = 1;
        info->bound_per_sm = 1;
        info->mask_permille = MASK_PERMILLE;
        memset(info->gpc_of_tpc, DS_DEVICE_GPC_NONE, sizeof(info->gpc_of_tpc));
        return info->n_sms && info->cc_major ? 0 : ds_error_origin(-EIO);
}

int cuda_topology_discover(ds_device *device)
{
        int r = topology_identity(device);

        if (!r)
                r = topology_memory(device);
        if (!r)
                r = topology_tpcs(device);
        if (r)
                return ds_error_trace(r);
        topology_groups(device);
        if (topology_again())
                topology_told(device);
        else
                cuda_gpcs_discover(device);
        return 0;
}

void cuda_topology_free(ds_device *device)
{
        device->tpc = ds_free(device->tpc);
}
