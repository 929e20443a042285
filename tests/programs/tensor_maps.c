/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor maps have the same bytes on every driver; a device without tensor copies reports that
 *
 * The printed hash must be equal natively and under DetShare. On the fake driver (tests/support/fake_cuda) the bytes
 * are known. NVIDIA's driver crashes on some invalid arguments; natively the program only notes its reaction.
 */
#include "program.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT 0x7000000000
#define PLAIN                                                                                       \
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, \
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE

static const cuuint64_t dims[5] = {64, 128, 96, 8, 4},
                        strides[4] = {128, 128 * 128, 128 * 128 * 96, 128 * 128 * 96 * 8};
static const cuuint32_t box[5] = {64, 32, 2, 1, 1}, steps[5] = {1, 1, 2, 1, 1};
static const int lower[3] = {-1, -2, 0}, upper[3] = {1, -3, 5};
static uint64_t hash = 14695981039346656037ull;

/* FNV-1a, by Fowler, Noll and Vo */
static void add(const CUtensorMap *map)
{
        const unsigned char *bytes = (const unsigned char *)map;

        for (size_t i = 0; i < sizeof(*map); i++)
                hash = (hash ^ bytes[i]) * 1099511628211ull;
}

static CUresult tiled(CUtensorMap *map, cuuint32_t rank, CUdeviceptr at)
{
        return cuTensorMapEncodeTiled(
                map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, (void *)at, dims, strides, box, steps, PLAIN);
}

static CUresult im2col(CUtensorMap *map, cuuint32_t rank)
{
        return cuTensorMapEncodeIm2col(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, (void *)AT, dims, strides, lower,
                upper, 64, 32, steps, PLAIN);
}

static CUresult wide(CUtensorMap *map, cuuint32_t rank)
{
        return cuTensorMapEncodeIm2colWide(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, (void *)AT, dims, strides, -4, 7,
                64, 32, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W,
                CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/* Checks that every argument arrived: the fake driver writes the arguments that it received into the map. */
static void check_fake(const CUtensorMap *map, unsigned kind, unsigned rank, uint64_t address)
{
        uint64_t want[16] = {address, kind | (uint64_t)rank << 8 | CU_TENSOR_MAP_DATA_TYPE_FLOAT16 << 16 |
                                              (uint64_t)CU_TENSOR_MAP_SWIZZLE_128B << 32};
        uint32_t halves[10] = {0};

        memcpy(want + 2, dims, rank * sizeof(dims[0]));
        memcpy(want + 7, strides, (rank - 1) * sizeof(strides[0]));
        memcpy(halves, box, rank * sizeof(box[0]));
        memcpy(halves + 5, steps, rank * sizeof(steps[0]));
        if (kind != 1) {
                memset(halves, 0, 5 * sizeof(halves[0]));
                halves[3] = 64;
                halves[4] = 32;
                for (unsigned i = 0; kind == 2 && i < rank - 2; i++)
                        halves[i] = (uint32_t)(uint16_t)lower[i] << 16 | (uint16_t)upper[i];
                if (kind == 3)
                        halves[0] = 0xfffc0007;
        }
        memcpy(want + 11, halves, sizeof(halves));
        CHECK(memcmp(want, map, sizeof(want)) == 0);
}

/* --- invalid arguments -------------------------------------------------------------------------------------------- */

static struct {
        CUtensorMap first, second;
} maps;
static CUdeviceptr memory;
static sigjmp_buf crash;

static CUresult rank_9(CUtensorMap *map)
{
        return tiled(map, 9, memory);
}

static CUresult rank_6(CUtensorMap *map)
{
        return tiled(map, 6, memory);
}

static CUresult rank_0(CUtensorMap *map)
{
        return tiled(map, 0, memory);
}

static CUresult rank_endless(CUtensorMap *map)
{
        return tiled(map, UINT32_MAX, memory);
}

static CUresult address_between(CUtensorMap *map)
{
        return tiled(map, 2, memory + 4);
}

static CUresult im2col_6(CUtensorMap *map)
{
        return im2col(map, 6);
}

static CUresult im2col_2(CUtensorMap *map)
{
        return im2col(map, 2);
}

static CUresult wide_1(CUtensorMap *map)
{
        return wide(map, 1);
}

static CUresult no_such_type(CUtensorMap *map)
{
        return cuTensorMapEncodeTiled(
                map, (CUtensorMapDataType)99, 2, (void *)memory, dims, strides, box, steps, PLAIN);
}

static CUresult no_strides(CUtensorMap *map)
{
        return cuTensorMapEncodeTiled(
                map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)memory, dims, NULL, box, steps, PLAIN);
}

static CUresult map_between(CUtensorMap *map)
{
        return tiled((CUtensorMap *)((char *)map + 32), 2, memory);
}

static CUresult no_map(CUtensorMap *map)
{
        (void)map;
        return tiled(NULL, 2, memory);
}

static CUresult no_map_to_change(CUtensorMap *map)
{
        (void)map;
        return cuTensorMapReplaceAddress(NULL, (void *)memory);
}

/* A row of a table of invalid arguments; those that may crash a driver come last. */
#define WRONG(name)         \
        {                   \
#name, name \
        }
static const struct {
        const char *name;
        CUresult (*make)(CUtensorMap *map);
} wrongs[] = {WRONG(rank_9), WRONG(rank_6), WRONG(rank_0), WRONG(address_between), WRONG(im2col_6), WRONG(im2col_2),
        WRONG(wide_1), WRONG(no_such_type), WRONG(rank_endless), WRONG(no_strides), WRONG(map_between), WRONG(no_map),
        WRONG(no_map_to_change)};

static void crashed(int signal)
{
        siglongjmp(crash, signal);
}

/* Makes a map of invalid arguments: DetShare refuses them and does not change the map; NVIDIA's driver may do
 * anything. */
static void try_wrong(const char *name, CUresult (*make)(CUtensorMap *map), const CUtensorMap *old)
{
        CUresult r;

        if (program_is_shared()) {
                EXPECT(CUDA_ERROR_INVALID_VALUE, make(&maps.first));
                CHECK(memcmp(&maps.first, old, sizeof(*old)) == 0);
                return;
        }
        if (sigsetjmp(crash, 1)) {
                NOTE("tensor_maps: %s is a segmentation fault", name);
                return;
        }
        r = make(&maps.first);
        if (r != CUDA_ERROR_INVALID_VALUE)
                NOTE("tensor_maps: %s gives %d", name, (int)r);
        if (memcmp(&maps.first, old, sizeof(*old)) != 0)
                NOTE("tensor_maps: %s changes the map (result %d)", name, (int)r);
}

/* Runs in a process of its own: after a crash inside of a driver no further call is possible. */
static int refusals(void)
{
        CUtensorMap old;
        int has = 0;

        if (!program_is_shared()) {
                signal(SIGSEGV, crashed);
                alarm(20);
        }
        program_context();
        OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
        if (!has)
                return program_failures;
        MUST(cuMemAlloc(&memory, 256 * 128 * 2));
        memset(&maps, 0x5a, sizeof(maps));
        old = maps.first;
        for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
                try_wrong(wrongs[i].name, wrongs[i].make, &old);
                maps.first = old;
        }
        return program_failures;
}

static void check_refusals(pid_t child)
{
        int status = -1;

        CHECK(waitpid(child, &status, 0) == child);
        if (!program_is_shared() && WIFSIGNALED(status))
                NOTE("tensor_maps: what was asked after a crash ended by signal %d", WTERMSIG(status));
        else
                CHECK(status == 0);
}

/* --- maps --------------------------------------------------------------------------------------------------------- */

static void check_maps(CUdeviceptr p)
{
        char name[100] = "";
        CUtensorMap map, again;
        int fake;

        OK(cuDeviceGetName(name, sizeof(name), 0));
        fake = strstr(name, "fake") != NULL;
        for (unsigned rank = 1; rank <= 5; rank++) {
                OK(tiled(&map, rank, AT));
                add(&map);
                if (fake)
                        check_fake(&map, 1, rank, AT);
        }
        for (unsigned rank = 3; rank <= 5; rank++) {
                OK(im2col(&map, rank));
                add(&map);
                if (fake)
                        check_fake(&map, 2, rank, AT);
        }
        if (wide(&map, 4) == CUDA_SUCCESS) { /* wide im2col is a mode that only some GPUs have */
                add(&map);
                if (fake)
                        check_fake(&map, 3, 4, AT);
        } else {
                CHECK(!fake);
        }
        printf("maps %llx\n", (unsigned long long)hash);
        OK(tiled(&again, 4, p));
        OK(tiled(&map, 4, AT));
        CHECK(memcmp(&map, &again, sizeof(map)) != 0);
        OK(cuTensorMapReplaceAddress(&map, (void *)p));
        CHECK(memcmp(&map, &again, sizeof(map)) == 0);
}

int main(int argc, char **argv)
{
        CUcontext context;
        CUtensorMap map;
        CUdeviceptr p;
        pid_t child;
        int has = 0;

        program_begin(argc, argv);
        child = fork();
        if (!child)
                _exit(refusals() != 0);
        context = program_context();
        MUST(cuMemAlloc(&p, 256 * 128 * 2));
        OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, 0));
        if (has) {
                check_maps(p);
        } else {
                EXPECT(CUDA_ERROR_NOT_SUPPORTED, tiled(&map, 2, AT));
                EXPECT(CUDA_ERROR_NOT_SUPPORTED, im2col(&map, 4));
        }
        OK(cuMemFree(p));
        OK(cuCtxDestroy(context));
        EXPECT(CUDA_ERROR_INVALID_CONTEXT, tiled(&map, 2, AT));
        check_refusals(child);
        return program_end("tensor_maps");
}
