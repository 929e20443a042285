/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Thread block clusters: ranks, distributed shared memory, barriers, refused launches, occupancy
 *
 * On a device without clusters, or with kernels built for an older device, the program checks only that there are none.
 */
#include "program.h"

#define BLOCKS_MAX 64

static CUmodule module;
static CUdeviceptr out;
static uint32_t result[BLOCKS_MAX * 64];

struct shape {
        unsigned int x, y, z;
};

static CUresult launch_with(CUfunction f, struct shape grid, unsigned int threads, const struct shape *cluster,
        const struct shape *preferred, unsigned int shared, void **params)
{
        CUlaunchAttribute attributes[2];
        CUlaunchConfig config = {.gridDimX = grid.x,
                .gridDimY = grid.y,
                .gridDimZ = grid.z,
                .blockDimX = threads,
                .blockDimY = 1,
                .blockDimZ = 1,
                .sharedMemBytes = shared,
                .attrs = attributes};

        memset(attributes, 0, sizeof(attributes));
        if (cluster) {
                attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
                attributes[config.numAttrs].value.clusterDim.x = cluster->x;
                attributes[config.numAttrs].value.clusterDim.y = cluster->y;
                attributes[config.numAttrs++].value.clusterDim.z = cluster->z;
        }
        if (preferred) {
                attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION;
                attributes[config.numAttrs].value.preferredClusterDim.x = preferred->x;
                attributes[config.numAttrs].value.preferredClusterDim.y = preferred->y;
                attributes[config.numAttrs++].value.preferredClusterDim.z = preferred->z;
        }
        return cuLaunchKernelEx(&config, f, params, NULL);
}

/* Launches with 32 threads a block; the kernel writes to `out`. */
static CUresult launch_x(CUfunction f, unsigned int grid, unsigned int cluster)
{
        const struct shape g = {grid, 1, 1}, c = {cluster, 1, 1};
        void *params[] = {&out};

        return launch_with(f, g, 32, &c, NULL, 0, params);
}

static void fetch(size_t words)
{
        OK(cuCtxSynchronize());
        OK(cuMemcpyDtoH(result, out, words * 4));
}

/* --- ranks --- */
static int where_good(const uint32_t *w, const unsigned int *b, const unsigned int *grid, const unsigned int *cluster)
{
        uint32_t rank = 0;
        int good = 1;

        for (int i = 2; i >= 0; i--) {
                good &= w[i] == b[i] / cluster[i] && w[3 + i] == grid[i] / cluster[i];
                good &= w[6 + i] == b[i] % cluster[i] && w[9 + i] == cluster[i];
                rank = rank * cluster[i] + b[i] % cluster[i];
        }
        return good && w[12] == rank && w[13] == cluster[0] * cluster[1] * cluster[2] && w[14] == 1;
}

static void check_where(CUfunction where, struct shape grid, struct shape cluster)
{
        const unsigned int g[3] = {grid.x, grid.y, grid.z}, c[3] = {cluster.x, cluster.y, cluster.z};
        const uint32_t *w = result;
        void *params[] = {&out};
        unsigned int b[3];
        int good = 1;

        OK(launch_with(where, grid, 32, &cluster, NULL, 0, params));
        fetch((size_t)grid.x * grid.y * grid.z * 16);
        for (b[2] = 0; b[2] < g[2]; b[2]++)
                for (b[1] = 0; b[1] < g[1]; b[1]++)
                        for (b[0] = 0; b[0] < g[0]; b[0]++, w += 16)
                                good &= where_good(w, b, g, c);
        CHECK(good);
}

static void check_ranks(CUfunction where)
{
        static const struct shape grids[] = {{4, 1, 1}, {8, 2, 4}, {2, 4, 4}, {6, 1, 1}, {3, 2, 1}};
        static const struct shape clusters[] = {{2, 1, 1}, {2, 2, 2}, {1, 1, 4}, {3, 1, 1}, {1, 1, 1}};

        for (size_t i = 0; i < sizeof(grids) / sizeof(grids[0]); i++)
                check_where(where, grids[i], clusters[i]);
        OK(launch_x(where, 4, 2));
        fetch(64);
        CHECK(result[16 + 12] == 1 && result[32 + 12] == 0 && result[13] == 2);
        OK(cuLaunchKernel(where, 4, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out}, NULL));
        fetch(64);
        CHECK(result[16] == 1 && result[13] == 1 && result[14] == 0);
}

/* --- distributed shared memory --- */
static void check_reduce(unsigned int size)
{
        const struct shape grid = {size * 3, 1, 1}, cluster = {size, 1, 1};
        CUfunction reduce = program_function(module, "cluster_reduce");
        int n = 40000, values[4096];
        int64_t want = 0, sums[3] = {0};
        CUdeviceptr in;
        void *params[] = {&in, &n, &out};

        if (size > 8)
                OK(cuFuncSetAttribute(reduce, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
        MUST(cuMemAlloc(&in, (size_t)n * 4));
        for (int i = 0; i < 4096; i++)
                values[i] = (i * 37) % 1001 - 400;
        for (int i = 0; i < n; i += 4096)
                OK(cuMemcpyHtoD(in + (CUdeviceptr)i * 4, values, (size_t)(n - i < 4096 ? n - i : 4096) * 4));
        for (int i = 0; i < n; i++)
                want += values[i % 4096];
        OK(launch_with(reduce, grid, 256, &cluster, NULL, 0, params));
        OK(cuCtxSynchronize());
        OK(cuMemcpyDtoH(sums, out, sizeof(sums)));
        CHECK(sums[0] + sums[1] + sums[2] == want);
        OK(cuMemFree(in));
}

static void check_histogram(void)
{
        const struct shape grid = {16, 1, 1}, cluster = {4, 1, 1};
        CUfunction histogram = program_function(module, "cluster_histogram");
        static uint32_t values[20000], want[1024];
        int n = 20000, per_block = 256;
        uint32_t state = 5;
        CUdeviceptr in;
        void *params[] = {&in, &n, &out, &per_block};

        for (int i = 0; i < n; i++)
                want[(values[i] = program_random(&state)) % 1024]++;
        MUST(cuMemAlloc(&in, sizeof(values)));
        OK(cuMemcpyHtoD(in, values, sizeof(values)));
        OK(cuMemsetD32(out, 0, 1024));
        OK(launch_with(histogram, grid, 128, &cluster, NULL, (unsigned int)per_block * 4, params));
        fetch(1024);
        SAME(result, want, sizeof(want));
        OK(cuMemFree(in));
}

static void check_ring(void)
{
        const struct shape grid = {10, 1, 1}, cluster = {5, 1, 1};
        CUfunction ring = program_function(module, "cluster_ring");
        int rounds = 13, good = 1;
        void *params[] = {&out, &rounds};

        OK(launch_with(ring, grid, 64, &cluster, NULL, 0, params));
        fetch(10 * 64);
        for (unsigned int b = 0; b < 10; b++)
                for (unsigned int t = 0; t < 64; t++)
                        good &= result[b * 64 + t] == (b / 5 * 5 + (b % 5 + 65 - 13) % 5) * 1000 + t + 13;
        CHECK(good);
}

static void check_addresses(void)
{
        int good = 1;

        OK(launch_x(program_function(module, "cluster_addresses"), 8, 4));
        fetch(64);
        for (uint32_t b = 0; b < 8; b++) {
                const uint32_t *o = result + (size_t)b * 8, other = 3 - b % 4;

                good &= o[0] == other && o[1] == 100 + other && o[2] == 100 + other && o[3] == other;
                good &= o[4] == 7 && o[5] == 1 && o[6] == b % 4 && o[7] == 128;
        }
        CHECK(good);
        OK(launch_x(program_function(module, "cluster_pointers"), 8, 4));
        fetch(8);
        for (uint32_t b = 0; b < 8; b++)
                CHECK(result[b] == 7 + (b + 3) % 4);
}

static void check_leavers(void)
{
        const struct shape grid = {16, 1, 1}, cluster = {8, 1, 1};
        void *params[] = {&out};

        OK(launch_with(program_function(module, "cluster_leavers"), grid, 96, &cluster, NULL, 0, params));
        fetch(16);
        for (uint32_t b = 0; b < 16; b++)
                CHECK(result[b] == 3 * (32 - b % 8));
}

/* --- required cluster sizes ------- */
static int function_attribute(CUfunction f, CUfunction_attribute which)
{
        int value = -1;

        OK(cuFuncGetAttribute(&value, which, f));
        return value;
}

static void check_fixed(CUfunction fixed)
{
        CUfunction where = program_function(module, "cluster_where");

        CHECK(function_attribute(fixed, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET) == 1);
        CHECK(function_attribute(fixed, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) == 2);
        CHECK(function_attribute(fixed, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT) == 1);
        CHECK(function_attribute(fixed, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH) == 1);
        CHECK(function_attribute(where, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET) == 0);
        CHECK(function_attribute(where, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) == 0);
        OK(cuLaunchKernel(fixed, 4, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out}, NULL));
        fetch(4);
        CHECK(result[0] == 12 && result[1] == 2 && result[2] == 32 && result[3] == 22);
        OK(launch_x(fixed, 4, 2));
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch_x(fixed, 4, 4));
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch_x(fixed, 4, 1));
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                cuLaunchKernel(fixed, 3, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out}, NULL));
        OK(cuFuncSetAttribute(fixed, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(fixed, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(fixed, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, 1));
}

static void check_required(CUfunction where)
{
        OK(cuFuncSetAttribute(where, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4));
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                cuLaunchKernel(where, 8, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out}, NULL));
        OK(cuFuncSetAttribute(where, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 1));
        OK(cuFuncSetAttribute(where, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, 1));
        CHECK(function_attribute(where, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) == 4);
        OK(cuLaunchKernel(where, 8, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out}, NULL));
        fetch(8 * 16);
        CHECK(result[13] == 4 && result[14] == 1 && result[6 * 16 + 12] == 2);
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE,
                cuLaunchKernel(where, 6, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out}, NULL));
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch_x(where, 8, 2));
        OK(launch_x(where, 8, 4));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute(where, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, -1));
        for (int i = 0; i < 3; i++)
                OK(cuFuncSetAttribute(where, (CUfunction_attribute)(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i), 0));
        OK(cuLaunchKernel(where, 7, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&out}, NULL));
}

/* --- refusals --- */
static void check_refusals(CUfunction where)
{
        static const struct {
                unsigned int grid;
                struct shape cluster;
                CUresult want;
        } rows[] = {
                {4, {3, 1, 1}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                {4, {0, 1, 1}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                {4, {0, 0, 0}, CUDA_SUCCESS},
                {4, {2, 2, 1}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                {4, {1, 1, 2}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                {7, {7, 1, 1}, CUDA_SUCCESS},
                {16, {8, 1, 1}, CUDA_SUCCESS},
                {9, {9, 1, 1}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                {16, {16, 1, 1}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                {32, {32, 1, 1}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                {4, {0x10000, 0x10000, 1}, CUDA_ERROR_INVALID_CLUSTER_SIZE},
        };
        static const struct {
                unsigned int grid, cluster, preferred;
                CUresult want;
        } hints[] = {{8, 2, 4, CUDA_SUCCESS}, {8, 2, 3, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                {8, 2, 16, CUDA_ERROR_INVALID_CLUSTER_SIZE}, {8, 4, 2, CUDA_ERROR_INVALID_CLUSTER_SIZE},
                {12, 2, 8, CUDA_ERROR_INVALID_CLUSTER_SIZE}};
        void *params[] = {&out};

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                const struct shape grid = {rows[i].grid, 1, 1};

                EXPECT(rows[i].want, launch_with(where, grid, 32, &rows[i].cluster, NULL, 0, params));
        }
        for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
                const struct shape grid = {hints[i].grid, 1, 1}, c = {hints[i].cluster, 1, 1},
                                   p = {hints[i].preferred, 1, 1};

                EXPECT(hints[i].want, launch_with(where, grid, 32, &c, &p, 0, params));
        }
        OK(cuCtxSynchronize());
}

static void check_large(CUfunction where)
{
        OK(cuFuncSetAttribute(where, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
        CHECK(function_attribute(where, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) == 1);
        OK(launch_x(where, 32, 16));
        fetch(32 * 16);
        CHECK(result[31 * 16 + 12] == 15 && result[31 * 16] == 1 && result[13] == 16);
        OK(launch_x(where, 12, 12));
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch_x(where, 17, 17));
        OK(cuCtxSynchronize());
        check_reduce(16);
}

/* --- occupancy --- */
static int active(CUfunction f, unsigned int cluster, unsigned int threads, unsigned int shared)
{
        CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
        CUlaunchConfig config = {.gridDimX = cluster * 32,
                .gridDimY = 1,
                .gridDimZ = 1,
                .blockDimX = threads,
                .blockDimY = 1,
                .blockDimZ = 1,
                .sharedMemBytes = shared,
                .attrs = &a,
                .numAttrs = 1};
        int n = -1;

        a.value.clusterDim.x = cluster;
        a.value.clusterDim.y = a.value.clusterDim.z = 1;
        OK(cuOccupancyMaxActiveClusters(&n, f, &config));
        return n;
}

static void check_occupancy(CUfunction where)
{
        CUlaunchConfig config = {
                .gridDimX = 32, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1, .blockDimZ = 1};
        CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
        int n = -1, sms = 0, last;

        OK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
        OK(cuFuncSetAttribute(where, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 0));
        OK(cuOccupancyMaxPotentialClusterSize(&n, where, &config));
        CHECK(n == 8);
        OK(cuFuncSetAttribute(where, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
        OK(cuOccupancyMaxPotentialClusterSize(&n, where, &config));
        CHECK(n == 16);
        OK(cuOccupancyMaxActiveClusters(&n, where, &config));
        CHECK(n == 0); /* the launch has no clusters to count */
        OK(cuFuncSetAttribute(where, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024));
        CHECK(active(where, 1, 1024, 0) == sms * 2);
        CHECK(active(where, 2, 32, 200 * 1024) == sms / 2);
        last = sms;
        for (unsigned int size = 1; size <= 16; size++) {
                n = active(where, size, 64, 200 * 1024);
                CHECK(n >= 1 && n <= last && n * (int)size <= sms);
                CHECK(active(where, size, 1024, 0) >= n * 2);
                last = n;
        }
        /* sizes beyond the maximum are counted too: libraries probe the sizes of the GPU's groups of SMs in this way */
        for (unsigned int size = 17; size <= 32; size++) {
                n = active(where, size, 64, 200 * 1024);
                CHECK(n >= 0 && n <= last && n * (int)size <= sms);
                last = n;
        }
        CHECK(n == 0);
        config.attrs = &a;
        config.numAttrs = 1;
        a.value.clusterDim.x = 3;
        a.value.clusterDim.y = a.value.clusterDim.z = 1;
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuOccupancyMaxActiveClusters(&n, where, &config));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(&n, NULL, &config));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(NULL, where, &config));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(&n, where, NULL));
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxPotentialClusterSize(NULL, where, &config));
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUfunction where;
        int clusters = -1;

        program_begin(argc, argv);
        context = program_context();
        module = program_module("cluster");
        OK(cuDeviceGetAttribute(&clusters, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
        if (cuModuleGetFunction(&where, module, "cluster_where") != CUDA_SUCCESS || !clusters) {
                OK(cuCtxDestroy(context));
                return program_end("clusters (none here)");
        }
        MUST(cuMemAlloc(&out, sizeof(result)));
        check_ranks(where);
        check_reduce(1);
        check_reduce(2);
        check_reduce(8);
        check_histogram();
        check_ring();
        check_addresses();
        check_leavers();
        check_refusals(where);
        check_fixed(program_function(module, "cluster_fixed"));
        check_required(where);
        check_large(where);
        check_occupancy(where);
        OK(cuCtxDestroy(context));
        return program_end("clusters");
}
