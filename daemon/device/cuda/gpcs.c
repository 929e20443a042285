/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discovers which TPCs share a GPC
 *
 * The driver does not report this. But the blocks of a cluster never leave their GPC. So kernels with large clusters,
 * whose blocks record their SM, show which SMs are together. The SMs of each TPC are found by kernels in green
 * contexts: for every bit k, one context over all TPCs whose number has bit k and one over the others. An SM that
 * appears in exactly one of each pair has shown its TPC's number (14 contexts on an H200 instead of 66). The groups of
 * SMs that the driver makes for large clusters are identified in the same way (8 more contexts).
 *
 * SMs that no large cluster reaches stay unknown. After a failure the rest stays unknown, with a line in the log:
 * nothing else depends on it. All of it happens before serving, has one deadline, and takes some 30 ms. When the
 * deadline passes, a kernel that is still running keeps its memory: freeing the memory would wait for it.
 */
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "device/cuda/internal.h"
#include "util/error.h"

#define SMS_MAX 512
#define BLOCKS_MAX 4096
#define PLACE_NONE UINT32_MAX
#define DEADLINE_NS DS_NS_PER_S
#define WAVES 4 /* blocks launched per SM on one set of TPCs; more than one, so that each SM gets at least one */
#define CLUSTER_ROUNDS 8
#define GPC_TPCS_MIN 2 /* fewest TPCs that count as a GPC: two SMs seen together may merely share a TPC */
#define PAGE 4096

static const unsigned char gpcs_image[] = {
#include "cuda_gpcs.h"
};

/* A block's record of where it ran. */
struct gpcs_place {
        uint32_t sm, cluster;
};

struct gpcs {
        ds_device *device;
        CUlibrary library;
        CUfunction where;
        CUstream stream;           /* a stream of the whole GPU */
        struct gpcs_place *places; /* records of BLOCKS_MAX blocks, in pinned memory */
        uint32_t shared_bytes;     /* dynamic shared memory per block, so large that an SM holds only one block */
        uint64_t deadline_ns;
        bool stuck;             /* the deadline passed while a kernel was running */
        uint16_t root[SMS_MAX]; /* union-find forest over SMs: SMs with the same root share a GPC */
};

/* --- one kernel --------------------------------------------------------------------------------------------------- */

static int gpcs_wait(struct gpcs *g, CUstream stream)
{
        CUresult result;

        do {
                result = CU(g->device, cuStreamQuery)(stream);
                if (result != CUDA_ERROR_NOT_READY)
                        return result ? ds_cuda_failed(g->device, result, "the kernel that finds the SMs of each GPC")
                                      : 0;
        } while (cuda_now(g->device) < g->deadline_ns);
        g->stuck = true;
        return -ETIME;
}

/* Runs n blocks of one thread, in clusters of `cluster` blocks; afterwards places[0..n-1] say where the blocks ran. */
static int gpcs_launch(struct gpcs *g, CUstream stream, uint32_t n, uint32_t cluster)
{
        CUdeviceptr out = (uintptr_t)g->places;
        void *params[] = {&out};
        CUlaunchAttribute attribute = {
                .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {cluster, 1, 1}};
        CUlaunchConfig config = {
                .gridDimX = n,
                .gridDimY = 1,
                .gridDimZ = 1,
                .blockDimX = 1,
                .blockDimY = 1,
                .blockDimZ = 1,
                .sharedMemBytes = g->shared_bytes,
                .hStream = stream,
                .attrs = &attribute,
                .numAttrs = cluster > 1,
        };
        CUresult result;

        for (uint32_t i = 0; i < n; i++)
                g->places[i] = (struct gpcs_place){PLACE_NONE, PLACE_NONE};
        result = CU(g->device, cuLaunchKernelEx)(&config, g->where, params, NULL);
        if (result)
                return ds_cuda_failed(g->device, result, "launching the kernel that finds the SMs of each GPC");
        return gpcs_wait(g, stream);
}

/* --- SMs of each TPC or group ------------------------------------------------------------------------------------- */

/* Disjoint sets of SMs (TPCs or groups), all from one split of the device, and for each SM the index of its set. */
struct gpcs_parts {
        const CUdevResource *resources;
        uint32_t n;
        uint8_t of_sm[SMS_MAX];
        bool known[SMS_MAX];
};

/* Runs a kernel on the sets whose index has (or lacks) the bit, and sets the flag in `seen` for each SM where a
 * block ran. */
static int gpcs_see(
        struct gpcs *g, const struct gpcs_parts *parts, uint32_t bit, bool with, uint8_t flag, uint8_t *seen)
{
        CUdevResource resources[DS_DEVICE_TPCS_MAX];
        ds_device *device = g->device;
        CUgreenCtx green = NULL;
        CUstream stream = NULL;
        uint32_t n = 0, sms = 0;
        int r;

        for (uint32_t i = 0; i < parts->n; i++) {
                if ((i >> bit & 1) != with)
                        continue;
                resources[n++] = parts->resources[i];
                sms += parts->resources[i].sm.smCount;
        }
        if (!n)
                return 0;
        sms = DS_MIN(sms * WAVES, BLOCKS_MAX);
        r = cuda_green_create(device, resources, n, &green);
        if (r)
                return r;
        r = cuda_stream_create(device, green, 0, &stream);
        if (!r)
                r = gpcs_launch(g, stream, sms, 1);
        for (uint32_t i = 0; !r && i < sms; i++)
                if (g->places[i].sm < SMS_MAX)
                        seen[g->places[i].sm] |= flag;
        if (g->stuck)
                return r;
        if (stream)
                CU(device, cuStreamDestroy)(stream);
        CU(device, cuGreenCtxDestroy)(green);
        return r;
}

static int gpcs_divide(struct gpcs *g, struct gpcs_parts *parts)
{
        uint8_t seen[SMS_MAX];
        int r;

        memset(parts->known, 1, sizeof(parts->known));
        for (uint32_t bit = 0; (parts->n - 1) >> bit; bit++) {
                memset(seen, 0, sizeof(seen));
                r = gpcs_see(g, parts, bit, true, 1, seen);
                if (!r)
                        r = gpcs_see(g, parts, bit, false, 2, seen);
                if (r)
                        return r;
                for (uint32_t sm = 0; sm < SMS_MAX; sm++) {
                        parts->known[sm] &= seen[sm] == 1 || seen[sm] == 2;
                        parts->of_sm[sm] |= (uint8_t)((seen[sm] & 1) << bit);
                }
        }
        return 0;
}

/* --- SMs of one GPC ----------------------------------------------------------------------------------------------- */

static uint16_t gpcs_root(struct gpcs *g, uint32_t sm)
{
        while (g->root[sm] != sm)
                sm = g->root[sm] = g->root[g->root[sm]];
        return (uint16_t)sm;
}

static void gpcs_join(struct gpcs *g, uint32_t n, uint32_t cluster)
{
        for (uint32_t i = 0; i < n; i++) {
                const struct gpcs_place *first = &g->places[i - i % cluster], *place = &g->places[i];

                if (place->sm < SMS_MAX && first->sm < SMS_MAX && place->cluster == first->cluster)
                        g->root[gpcs_root(g, place->sm)] = gpcs_root(g, first->sm);
        }
}

/* Launches clusters and joins the SMs of each. Clusters above 8 blocks need a function attribute; where they are
 * impossible, smaller ones are used. */
static int gpcs_clusters(struct gpcs *g)
{
        static const uint32_t sizes[] = {16, 8, 4};
        uint32_t n, done = 0;
        int r = 0;

        CU(g->device, cuFuncSetAttribute)(g->where, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
        for (uint32_t i = 0; i < DS_ARRAY_SIZE(sizes) && !g->stuck; i++) {
                n = DS_MIN(g->device->info.n_sms, BLOCKS_MAX) / sizes[i] * sizes[i];
                for (uint32_t round = 0; n && round < CLUSTER_ROUNDS; round++) {
                        r = gpcs_launch(g, g->stream, n, sizes[i]);
                        if (r)
                                break;
                        gpcs_join(g, n, sizes[i]);
                        done++;
                }
        }
        return done ? 0 : r;
}

/* --- result ------------------------------------------------------------------------------------------------------- */

static void gpcs_tell(struct gpcs *g, const struct gpcs_parts *tpcs)
{
        struct ds_device_info *info = &g->device->info;
        uint16_t root_of_tpc[DS_DEVICE_TPCS_MAX], n_of_root[SMS_MAX] = {0};
        uint8_t gpc_of_root[SMS_MAX];
        uint32_t sm, tpc;

        memset(root_of_tpc, 0xff, sizeof(root_of_tpc));
        memset(gpc_of_root, DS_DEVICE_GPC_NONE, sizeof(gpc_of_root));
        for (sm = 0; sm < SMS_MAX; sm++) {
                if (!tpcs->known[sm] || tpcs->of_sm[sm] >= info->n_tpcs || root_of_tpc[tpcs->of_sm[sm]] != UINT16_MAX)
                        continue;
                root_of_tpc[tpcs->of_sm[sm]] = gpcs_root(g, sm);
                n_of_root[gpcs_root(g, sm)]++;
        }
        for (tpc = 0; tpc < info->n_tpcs; tpc++) {
                uint16_t root = root_of_tpc[tpc];

                if (root == UINT16_MAX || n_of_root[root] < GPC_TPCS_MIN)
                        continue;
                if (gpc_of_root[root] == DS_DEVICE_GPC_NONE)
                        gpc_of_root[root] = (uint8_t)info->n_gpcs++;
                info->gpc_of_tpc[tpc] = gpc_of_root[root];
        }
}

/* Two groups that lie in one GPC, as two bits; 0 when no GPC has two groups. */
static uint32_t gpcs_pair(const struct ds_device_info *info)
{
        uint32_t last[UINT8_MAX + 1] = {0};

        for (uint32_t i = 0; i + 1 < info->n_groups; i++) {
                for (uint32_t tpc = 0; tpc < info->n_tpcs; tpc++) {
                        uint8_t gpc = info->gpc_of_tpc[tpc];

                        if (!(info->group[i].word[tpc / 64] >> tpc % 64 & 1) || gpc == DS_DEVICE_GPC_NONE)
                                continue;
                        if (last[gpc] && last[gpc] != i + 1)
                                return 1u << i | 1u << (last[gpc] - 1);
                        last[gpc] = i + 1;
                }
        }
        return 0;
}

/* Queries, without a launch, whether the driver lets groups of one GPC take a cluster larger than each group. */
static int gpcs_ask(struct gpcs *g, uint32_t pair)
{
        CUlaunchAttribute attribute = {
                .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {DS_DEVICE_CLUSTER_MAX, 1, 1}};
        CUlaunchConfig config = {.gridDimX = DS_DEVICE_CLUSTER_MAX,
                .gridDimY = 1,
                .gridDimZ = 1,
                .blockDimX = 1,
                .blockDimY = 1,
                .blockDimZ = 1,
                .sharedMemBytes = g->shared_bytes,
                .attrs = &attribute,
                .numAttrs = 1};
        CUdevResource resources[2];
        ds_device *device = g->device;
        CUgreenCtx green = NULL;
        uint32_t n = 0;
        int clusters = 0, r;

        for (uint32_t i = 0; i < device->info.n_groups && n < 2; i++)
                if (pair >> i & 1)
                        resources[n++] = device->groups[i];
        r = cuda_green_create(device, resources, n, &green);
        if (r)
                return r;
        r = cuda_stream_create(device, green, 0, &config.hStream);
        if (!r && !CU(device, cuOccupancyMaxActiveClusters)(&clusters, g->where, &config) && clusters > 0)
                device->info.group_clusters = DS_DEVICE_CLUSTER_MAX;
        if (config.hStream)
                CU(device, cuStreamDestroy)(config.hStream);
        CU(device, cuGreenCtxDestroy)(green);
        return r;
}

/* Finds the TPCs of each group. After a failure they stay unknown, and the masks of coarse rungs are empty. */
static void gpcs_groups(struct gpcs *g, const struct gpcs_parts *tpcs, struct gpcs_parts *groups)
{
        struct ds_device_info *info = &g->device->info;
        uint32_t pair;
        int r = 0;

        if (!groups->n)
                return;
        r = gpcs_divide(g, groups);
        for (uint32_t sm = 0; !r && sm < SMS_MAX; sm++)
                if (tpcs->known[sm] && groups->known[sm] && tpcs->of_sm[sm] < info->n_tpcs &&
                        groups->of_sm[sm] < info->n_groups)
                        info->group[groups->of_sm[sm]].word[tpcs->of_sm[sm] / 64] |= UINT64_C(1)
                                                                                     << tpcs->of_sm[sm] % 64;
        pair = r ? 0 : gpcs_pair(info);
        if (pair)
                r = gpcs_ask(g, pair);
        if (r)
                ds_log(DS_LOG_WARNING, "the TPCs of the groups for large clusters stay unknown");
}

/* --- begin and end ------------------------------------------------------------------------------------------------ */

static int gpcs_kernel(struct gpcs *g)
{
        ds_device *device = g->device;
        CUkernel kernel = NULL;
        int optin = device->info.attributes[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN];
        CUresult result;

        result = CU(device, cuLibraryLoadData)(&g->library, gpcs_image, NULL, NULL, 0, NULL, NULL, 0);
        if (!result)
                result = CU(device, cuLibraryEnumerateKernels)(&kernel, 1, g->library);
        if (!result)
                result = CU(device, cuKernelGetFunction)(&g->where, kernel);
        if (!result)
                result = CU(device, cuFuncSetAttribute)(
                        g->where, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, optin);
        g->shared_bytes = (uint32_t)DS_MAX(optin, 0);
        return result ? ds_cuda_failed(device, result, "loading the kernel that finds the SMs of each GPC") : 0;
}

static int gpcs_begin(struct gpcs *g)
{
        ds_device *device = g->device;
        size_t size = DS_ALIGN_UP(BLOCKS_MAX * sizeof(struct gpcs_place), PAGE);
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CUresult result;
        int r;

        if (p == MAP_FAILED)
                return ds_error_origin(-errno);
        result = CU(device, cuMemHostRegister)(p, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
        if (result) {
                munmap(p, size);
                return ds_cuda_failed(device, result, "cuMemHostRegister");
        }
        g->places = p;
        g->deadline_ns = cuda_now(device) + DEADLINE_NS;
        for (uint32_t i = 0; i < SMS_MAX; i++)
                g->root[i] = (uint16_t)i;
        r = gpcs_kernel(g);
        return r ? r : cuda_stream_create(device, NULL, 0, &g->stream);
}

static void gpcs_end(struct gpcs *g)
{
        ds_device *device = g->device;

        if (g->stuck || device->lost)
                return;
        if (g->stream)
                CU(device, cuStreamDestroy)(g->stream);
        if (g->library)
                CU(device, cuLibraryUnload)(g->library);
        if (g->places) {
                CU(device, cuMemHostUnregister)(g->places);
                munmap(g->places, DS_ALIGN_UP(BLOCKS_MAX * sizeof(struct gpcs_place), PAGE));
        }
}

/* Runs all steps in the order of their dependencies. */
static int gpcs_find(struct gpcs *g, struct gpcs_parts *tpcs, struct gpcs_parts *groups)
{
        int r = gpcs_begin(g);

        if (!r)
                r = gpcs_divide(g, tpcs);
        if (!r)
                r = gpcs_clusters(g);
        if (r)
                return r;
        gpcs_tell(g, tpcs);
        gpcs_groups(g, tpcs, groups);
        return 0;
}

void cuda_gpcs_discover(ds_device *device)
{
        struct ds_device_info *info = &device->info;
        struct gpcs_parts tpcs = {.resources = device->tpc, .n = info->n_tpcs};
        struct gpcs_parts groups = {.resources = device->groups, .n = info->n_groups};
        int clusters = 0, r;
        struct gpcs *g;

        if (CU(device, cuDeviceGetAttribute)(&clusters, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device->ordinal) ||
                !clusters || !device->tpc || info->n_tpcs < 2)
                return; /* the GPU has no clusters, or it is only one TPC */
        g = ds_alloc0(1, sizeof(*g));
        if (!g)
                return;
        g->device = device;
        r = gpcs_find(g, &tpcs, &groups);
        gpcs_end(g);
        if (r)
                ds_log(DS_LOG_WARNING, "the TPCs of each GPC stay unknown: %s",
                        r < 0 ? strerror(-r) : ds_cuda_driver_error(&device->driver, (CUresult)r));
        else
                ds_log(DS_LOG_INFO, "%u GPCs found", info->n_gpcs);
        ds_free(g);
}
