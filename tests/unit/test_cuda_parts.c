/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the Driver API face that need no daemon: image lengths, JIT logs, visible devices, address ranges, handles
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/context.h"
#include "cuda/image.h"
#include "cuda/jit.h"
#include "cuda/object.h"
#include "cuda/range.h"
#include "cuda/state.h"
#include "cuda/tensor_cache.h"
#include "tests/support/fake_daemon.h"

/* --- images ------------------------------------------------------------------------------------------------------- */

static size_t measured(const void *image, const void **ret_bytes)
{
        const void *bytes = NULL;
        size_t size = 0;

        if (!dcu_image_measure(image, 0, &bytes, &size))
                return 0;
        if (ret_bytes)
                *ret_bytes = bytes;
        return size;
}

Test(image, ptx_is_as_long_as_its_text)
{
        static const char text[] = "\n// a comment\n.version 8.0\n";

        cr_expect_eq(measured(text, NULL), sizeof(text) - 1);
        cr_expect_eq(measured("", NULL), 0);
        cr_expect_eq(measured("a", NULL), 1);
}

struct container {
        uint32_t magic;
        uint16_t version, header_bytes;
        uint64_t entries_bytes;
        char entries[48];
};

struct wrapper {
        uint32_t magic, version;
        const void *data, *more;
};

Test(image, a_container_says_its_length)
{
        struct container c = {0xba55ed50, 1, 16, 48, {0}};
        struct wrapper w = {0x466243b1, 1, &c, NULL}, empty = {0x466243b1, 1, NULL, NULL},
                       wrong = {0x466243b1, 1, "text", NULL};
        const void *bytes = NULL;

        cr_expect_eq(measured(&c, &bytes), 64);
        cr_expect_eq(bytes, &c);
        cr_expect_eq(measured(&w, &bytes), 64);
        cr_expect_eq(bytes, &c, "a wrapper stands for what it points to");
        w.version = 2;
        cr_expect_eq(measured(&w, NULL), 64, "the linked container");
        cr_expect_eq(measured(&empty, NULL), 0);
        cr_expect_eq(measured(&wrong, NULL), 0);
        c.entries_bytes = UINT64_MAX;
        cr_expect_eq(measured(&c, NULL), 0);
        c.entries_bytes = 48;
        c.header_bytes = 4;
        cr_expect_eq(measured(&c, NULL), 0);
}

/* An image with relocatable code: the simulated device gets its single part rather than the linked code. */
Test(image, a_wrapper_of_parts)
{
        struct container linked = {0xba55ed50, 1, 16, 48, {0}}, part = {0xba55ed50, 1, 16, 32, {0}};
        const void *one[] = {&part, NULL}, *two[] = {&part, &part, NULL}, *none[] = {NULL};
        struct wrapper w = {0x466243b1, 2, &linked, one};
        const void *bytes = NULL;
        size_t size = 0;

        cr_expect(dcu_image_measure(&w, 1, &bytes, &size) && bytes == &part && size == 48);
        cr_expect(dcu_image_measure(&w, 0, &bytes, &size) && bytes == &linked && size == 64);
        w.more = two;
        cr_expect(dcu_image_measure(&w, 1, &bytes, &size) && bytes == &linked, "they would have to be linked");
        w.more = none;
        cr_expect(dcu_image_measure(&w, 1, &bytes, &size) && bytes == &linked);
        w.more = NULL;
        cr_expect(dcu_image_measure(&w, 1, &bytes, &size) && bytes == &linked);
        w.version = 1;
        w.more = "a file's name";
        cr_expect(dcu_image_measure(&w, 1, &bytes, &size) && bytes == &linked);
}

Test(image, a_cubin_ends_with_its_last_part)
{
        struct {
                Elf64_Ehdr header;
                Elf64_Shdr sections[2];
                char text[100];
        } elf = {.header = {.e_ident = ELFMAG}};

        elf.header.e_ident[EI_CLASS] = ELFCLASS64;
        elf.header.e_ident[EI_DATA] = ELFDATA2LSB;
        elf.header.e_shoff = sizeof(elf.header);
        elf.header.e_shnum = 2;
        elf.header.e_shentsize = sizeof(Elf64_Shdr);
        cr_expect_eq(measured(&elf, NULL), sizeof(elf.header) + sizeof(elf.sections));
        elf.sections[1] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_offset = sizeof(elf) - 100, .sh_size = 100};
        cr_expect_eq(measured(&elf, NULL), sizeof(elf));
        elf.sections[1].sh_type = SHT_NOBITS;
        elf.sections[1].sh_size = 1 << 20;
        cr_expect_eq(
                measured(&elf, NULL), sizeof(elf.header) + sizeof(elf.sections), "what has no bytes has no length");
        elf.sections[1] = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_offset = UINT64_MAX - 4, .sh_size = 100};
        cr_expect_eq(measured(&elf, NULL), 0);
        elf.header.e_shoff = UINT64_MAX;
        cr_expect_eq(measured(&elf, NULL), 0);
        elf.header.e_ident[EI_CLASS] = ELFCLASS32;
        cr_expect_eq(measured(&elf, NULL), 0);
}

Test(image, only_code_is_plausible)
{
        cr_expect(dcu_image_plausible(".version 8.0", 12));
        cr_expect(dcu_image_plausible(" \n// c\n/* c\n */ .version 8.0", 28));
        cr_expect(dcu_image_plausible("\177ELF....", 8));
        cr_expect_not(dcu_image_plausible("garbage", 7));
        cr_expect_not(dcu_image_plausible("/* no end", 9));
        cr_expect_not(dcu_image_plausible("// no end", 9));
        cr_expect_not(dcu_image_plausible(".vers", 5));
        cr_expect_not(dcu_image_plausible("", 0));
}

/* --- JIT options -------------------------------------------------------------------------------------------------- */

Test(jit, logs_are_cut_and_counted)
{
        char error[16], info[16] = "left over";
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
                CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_WALL_TIME};
        void *values[] = {error, (void *)sizeof(error), info, (void *)sizeof(info), NULL};
        struct dcu_jit jit;

        cr_assert_eq(dcu_jit_begin(&jit, 5, options, values), CUDA_SUCCESS);
        cr_expect(dcu_jit_wants_log(&jit));
        dcu_jit_finish(&jit, 0, "line 6: no such instruction");
        cr_expect_str_eq(error, "line 6: no such");
        cr_expect_eq((size_t)values[1], 16);
        cr_expect_str_eq(info, "");
        cr_expect_eq((size_t)values[3], 0);

        values[1] = values[3] = (void *)16;
        dcu_jit_finish(&jit, 1, "fine");
        cr_expect_str_eq(info, "fine");
        cr_expect_eq((size_t)values[3], 5);
        cr_expect_str_eq(error, "");
        cr_expect_eq((size_t)values[1], 0);
}

Test(jit, unknown_options_are_refused)
{
        CUjit_option options[] = {CU_JIT_MAX_REGISTERS, (CUjit_option)999};
        void *values[] = {(void *)32, NULL};
        struct dcu_jit jit;

        cr_expect_eq(dcu_jit_begin(&jit, 1, options, values), CUDA_SUCCESS);
        cr_expect_not(dcu_jit_wants_log(&jit));
        cr_expect_eq(dcu_jit_begin(&jit, 2, options, values), CUDA_ERROR_INVALID_VALUE);
        cr_expect_eq(dcu_jit_begin(&jit, 1, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

/* --- CUDA_VISIBLE_DEVICES ----------------------------------------------------------------------------------------- */

Test(devices, visible_devices_follow_the_variable)
{
        static const uint8_t uuid[16] = {0x12, 0x34, 0xab, 0xcd, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

        cr_expect_eq(dcu_visible_devices(NULL, uuid), 1);
        cr_expect_eq(dcu_visible_devices("0", uuid), 1);
        cr_expect_eq(dcu_visible_devices(" 0 ", uuid), 1);
        cr_expect_eq(dcu_visible_devices("0,1", uuid), 1);
        cr_expect_eq(dcu_visible_devices("0,nonsense", uuid), 1);
        cr_expect_eq(dcu_visible_devices("", uuid), 0);
        cr_expect_eq(dcu_visible_devices("-1", uuid), 0);
        cr_expect_eq(dcu_visible_devices("-1,0", uuid), 0);
        cr_expect_eq(dcu_visible_devices("1,0", uuid), 0);
        cr_expect_eq(dcu_visible_devices("7", uuid), 0);
        cr_expect_eq(dcu_visible_devices("0,0", uuid), -1);
        cr_expect_eq(dcu_visible_devices("0x", uuid), 0);
        cr_expect_eq(dcu_visible_devices("GPU-1234abcd-0001-0203-0405-060708090a0b", uuid), 1);
        cr_expect_eq(dcu_visible_devices("GPU-1234AB", uuid), 1);
        cr_expect_eq(dcu_visible_devices("GPU-1234ac", uuid), 0);
        cr_expect_eq(dcu_visible_devices("GPU-", uuid), 0);
        cr_expect_eq(dcu_visible_devices("MIG-1234", uuid), 0);
}

/* --- addresses ---------------------------------------------------------------------------------------------------- */

static CUresult add(uint64_t base, uint64_t size, enum dcu_range_kind kind)
{
        const struct dcu_range range = {.base = base, .size = size, .kind = kind};

        return dcu_range_add(&range);
}

Test(range, a_range_is_found_by_address)
{
        static char host[64];
        const uint64_t device = DCU_WINDOWS_LOW + (1 << 20), pinned = device + (1 << 20);

        cr_assert_eq(add(device, 4096, DCU_RANGE_DEVICE), CUDA_SUCCESS);
        cr_assert_eq(add(pinned, 4096, DCU_RANGE_PINNED), CUDA_SUCCESS);
        cr_assert_eq(add((uintptr_t)host, 16, DCU_RANGE_REGISTERED), CUDA_SUCCESS);
        cr_expect_eq(dcu_place_of(device, 4096), DCU_PLACE_DEVICE);
        cr_expect_eq(dcu_place_of(device + 4095, 1), DCU_PLACE_DEVICE);
        cr_expect_eq(dcu_place_of(device + 1, 4096), DCU_PLACE_BAD, "past the end");
        cr_expect_eq(dcu_place_of(device, UINT64_MAX), DCU_PLACE_BAD);
        cr_expect_eq(dcu_place_of(device - 1, 1), DCU_PLACE_BAD, "in a window, of nobody");
        cr_expect_eq(dcu_place_of(pinned + 8, 8), DCU_PLACE_PINNED);
        cr_expect_eq(dcu_place_of((uintptr_t)host, sizeof(host)), DCU_PLACE_HOST);
        cr_expect_eq(dcu_place_of((uintptr_t)&device, 8), DCU_PLACE_HOST);
        cr_expect_eq(dcu_place_of(0, 1), DCU_PLACE_BAD);
        cr_expect_eq(dcu_place_of(UINT64_MAX, 2), DCU_PLACE_BAD);
}

Test(range, neither_overlap_nor_get_lost)
{
        const uint64_t base = DCU_WINDOWS_LOW;
        struct dcu_range range;

        for (uint64_t i = 0; i < 1000; i++)
                cr_assert_eq(add(base + (i * 379 % 1000) * 0x1000, 0x800, DCU_RANGE_DEVICE), CUDA_SUCCESS);
        for (uint64_t i = 0; i < 1000; i++) {
                cr_assert(dcu_range_find(base + i * 0x1000 + 0x7ff, &range));
                cr_assert_eq(range.base, base + i * 0x1000);
                cr_assert_not(dcu_range_find(base + i * 0x1000 + 0x800, &range));
        }
        cr_expect_eq(add(base + 0x7ff, 1, DCU_RANGE_DEVICE), CUDA_ERROR_INVALID_VALUE);
        cr_expect_eq(add(base + 0x800, 0x801, DCU_RANGE_DEVICE), CUDA_ERROR_INVALID_VALUE);
        cr_expect_eq(add(base + 0x800, 0x800, DCU_RANGE_DEVICE), CUDA_SUCCESS);
        cr_expect_not(dcu_range_remove(base + 1, 1u << DCU_RANGE_DEVICE, &range), "not its beginning");
        cr_expect_not(dcu_range_remove(base, 1u << DCU_RANGE_PINNED, &range), "not of that kind");
        cr_expect(dcu_range_remove(base, 1u << DCU_RANGE_DEVICE, &range));
        cr_expect_not(dcu_range_remove(base, 1u << DCU_RANGE_DEVICE, &range), "twice");
        cr_expect(dcu_range_overlaps(base, 0x801));
        cr_expect_not(dcu_range_overlaps(base, 0x800));
}

/* --- handles ------------------------------------------------------------------------------------------------------ */

Test(object, a_handle_is_known_by_kind_and_generation)
{
        struct dcu_object *a, *b;
        void *handle;

        cr_expect_null(dcu_object_of((void *)0x1000, DCU_STREAM), "before there are any");
        cr_assert(dcu_objects_start());
        a = dcu_object_new(DCU_STREAM, sizeof(*a), NULL);
        b = dcu_object_new(DCU_EVENT, sizeof(*b), NULL);
        handle = dcu_handle(a);
        cr_expect_eq(dcu_object_of(handle, DCU_STREAM), a);
        cr_expect_null(dcu_object_of(handle, DCU_EVENT), "another kind");
        cr_expect_null(dcu_object_of((char *)handle + 1, DCU_STREAM));
        cr_expect_null(dcu_object_of((char *)handle + 64, DCU_STREAM));
        cr_expect_null(dcu_object_of(NULL, DCU_STREAM));
        cr_expect_null(dcu_object_of((void *)1, DCU_STREAM));
        cr_expect_null(dcu_object_of((void *)-1, DCU_STREAM));
        cr_expect_null(dcu_object_of(&handle, DCU_STREAM));
        cr_expect_null(dcu_object_of((char *)dcu_handle(b) + (64 << 20), DCU_STREAM), "never handed out");
        dcu_object_free(a);
        cr_expect_null(dcu_object_of(handle, DCU_STREAM), "stale");
}

Test(object, a_reused_cell_has_other_handles)
{
        void *seen[200];

        cr_assert(dcu_objects_start());
        for (unsigned int i = 0; i < 200; i++) {
                struct dcu_object *object = dcu_object_new(DCU_EVENT, sizeof(*object), NULL);

                seen[i] = dcu_handle(object);
                for (unsigned int k = 0; k < i; k++)
                        cr_assert_null(dcu_object_of(seen[k], DCU_EVENT));
                dcu_object_free(object);
        }
        cr_expect_eq(atomic_load(&dcu_cells_used), DCU_CELL_BYTES, "one cell served them all");
}

Test(object, owners_know_their_objects)
{
        struct dcu_context owner = {.active = 1};
        struct dcu_object *o[3];

        cr_assert(dcu_objects_start());
        for (int i = 0; i < 3; i++)
                o[i] = dcu_object_new(DCU_EVENT, sizeof(*o[i]), &owner);
        dcu_object_free(o[1]);
        cr_expect_eq(owner.objects, o[2]);
        cr_expect_eq(owner.objects->next, o[0]);
        dcu_object_free(o[2]);
        cr_expect_eq(owner.objects, o[0]);
        dcu_object_free(o[0]);
        cr_expect_null(owner.objects);
}

/* --- phases ------------------------------------------------------------------------------------------------------- */

Test(state, phases_decide_before_anything_else)
{
        CUdevice device;

        cr_expect_eq(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
        atomic_store(&dcu.phase, DCU_FORKED);
        cr_expect_eq(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
        cr_expect_eq(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
        atomic_store(&dcu.phase, DCU_EXITED);
        cr_expect_eq(cuDeviceGet(&device, 0), CUDA_ERROR_DEINITIALIZED);
        cr_expect_eq(cuInit(0), CUDA_ERROR_DEINITIALIZED);
        cr_expect_eq(cuMemFree_v2(0x1000), CUDA_ERROR_DEINITIALIZED);
}

/* --- the cache of tensor maps ------------------------------------------------------------------------------------- */

static const uint64_t dims[5] = {64, 128, 96, 8, 4}, strides[4] = {128, 16384, 1572864, 12582912};
static const uint32_t box[5] = {64, 32, 2, 1, 1}, steps[5] = {1, 1, 2, 1, 1};
static const int32_t lower[3] = {-1, -2, 0}, upper[3] = {1, -3, 5};

static struct dsc_tensor_map tensor(enum dsc_tensor_map_kind kind, uint32_t rank)
{
        return (struct dsc_tensor_map){.kind = kind,
                .data_type = 6,
                .rank = rank,
                .address = 0x7000000000,
                .dims = dims,
                .strides = strides,
                .box = kind == DSC_TENSOR_MAP_TILED ? box : NULL,
                .steps = steps,
                .lower = kind == DSC_TENSOR_MAP_TILED ? NULL : lower,
                .upper = kind == DSC_TENSOR_MAP_TILED ? NULL : upper,
                .swizzle = 3};
}

static const dsc_session *session_at(int i)
{
        static int sessions[3];

        return (const dsc_session *)&sessions[i];
}

/* Looks the request `ask` up in the cache of tensor maps. Returns the mark of the cached map; 0 if there is none,
 * and stores a map with `mark`. */
static int known(int session, const struct dsc_tensor_map *ask, const uint8_t *old, uint8_t mark)
{
        uint8_t map[DSC_TENSOR_MAP_BYTES] = {0};
        struct dcu_tensor_key key;

        cr_assert_eq(dcu_tensor_key(session_at(session), ask, old ? old : map, &key), 1);
        if (dcu_tensor_cache_find(&key, map))
                return map[DSC_TENSOR_MAP_BYTES - 1];
        map[DSC_TENSOR_MAP_BYTES - 1] = mark;
        dcu_tensor_cache_put(&key, map);
        dcu_tensor_cache_put(&key, map);
        return 0;
}

static void differs_by(const struct dsc_tensor_map *ask, int *mark)
{
        cr_assert_eq(known(0, ask, NULL, (uint8_t)++ * mark), 0, "question %d was taken for another", *mark);
        cr_assert_eq(known(0, ask, NULL, 0), *mark);
}

Test(tensor_cache, every_argument_is_compared)
{
        struct dsc_tensor_map ask = tensor(DSC_TENSOR_MAP_IM2COL, 5), other;
        int mark = 0;

        differs_by(&ask, &mark);
        for (size_t field = 0; field < 10; field++) {
                uint32_t *const at[] = {&other.data_type, &other.rank, &other.channels, &other.pixels,
                        &other.interleave, &other.mode, &other.swizzle, &other.promotion, &other.fill};

                other = ask;
                if (field < 9)
                        --*at[field];
                else
                        other.address += 16;
                if (other.rank <= DSC_TENSOR_RANK_MAX)
                        differs_by(&other, &mark);
        }
        for (size_t i = 0; i < 5 + 4 + 5 + 3 + 3; i++) {
                uint64_t d[5], s[4];
                uint32_t t[5];
                int32_t l[3], u[3];

                memcpy(d, dims, sizeof(d));
                memcpy(s, strides, sizeof(s));
                memcpy(t, steps, sizeof(t));
                memcpy(l, lower, sizeof(l));
                memcpy(u, upper, sizeof(u));
                other = ask;
                other.dims = d;
                other.strides = s;
                other.steps = t;
                other.lower = l;
                other.upper = u;
                cr_assert_eq(known(0, &other, NULL, 0), 1, "what counts is what is in the arrays");
                if (i < 5)
                        d[i]++;
                else if (i < 9)
                        s[i - 5]++;
                else if (i < 14)
                        t[i - 9]++;
                else if (i < 17)
                        l[i - 14]++;
                else
                        u[i - 17]++;
                differs_by(&other, &mark);
        }
        other = ask;
        other.upper = NULL;
        differs_by(&other, &mark);
        other = tensor(DSC_TENSOR_MAP_TILED, 5);
        differs_by(&other, &mark);
        other = tensor(DSC_TENSOR_MAP_IM2COL_WIDE, 5);
        differs_by(&other, &mark);
        other.lower = other.upper = (const int32_t[]){-1, 1};
        other.upper++;
        cr_assert_eq(known(0, &other, NULL, 0), mark, "a wide one has one corner");
}

Test(tensor_cache, sessions_and_old_maps_are_apart)
{
        struct dsc_tensor_map ask = tensor(DSC_TENSOR_MAP_TILED, 3), replace = {.kind = DSC_TENSOR_MAP_REPLACE};
        uint8_t old[DSC_TENSOR_MAP_BYTES] = {1};

        cr_assert_eq(known(0, &ask, NULL, 1), 0);
        cr_assert_eq(known(1, &ask, NULL, 2), 0);
        cr_assert_eq(known(0, &ask, NULL, 0), 1);
        cr_assert_eq(known(1, &ask, NULL, 0), 2);
        cr_assert_eq(known(0, &ask, old, 0), 1, "only one that replaces has an old map");
        cr_assert_eq(known(0, &replace, old, 3), 0);
        cr_assert_eq(known(0, &replace, old, 0), 3);
        old[DSC_TENSOR_MAP_BYTES - 1]++;
        cr_assert_eq(known(0, &replace, old, 4), 0);
}

Test(tensor_cache, impossible_maps_are_not_requested)
{
        struct dsc_tensor_map ask = tensor(DSC_TENSOR_MAP_TILED, 6);
        uint8_t map[DSC_TENSOR_MAP_BYTES] = {0};
        struct dcu_tensor_key key;

        cr_assert_eq(dcu_tensor_key(NULL, &ask, map, &key), 0);
        ask.rank = UINT32_MAX;
        cr_assert_eq(dcu_tensor_key(NULL, &ask, map, &key), 0);
        ask.rank = 0;
        cr_assert_eq(dcu_tensor_key(NULL, &ask, map, &key), 1);
}

Test(tensor_cache, the_oldest_makes_room)
{
        struct dsc_tensor_map ask = tensor(DSC_TENSOR_MAP_TILED, 2), first = ask;
        unsigned kept = 0;

        cr_assert_eq(known(0, &first, NULL, 1), 0);
        for (unsigned i = 1; i <= 16 * DCU_TENSOR_CACHE_SETS * DCU_TENSOR_CACHE_WAYS; i++) {
                ask.address = first.address + 64 * i;
                cr_assert_eq(known(0, &ask, NULL, 2), 0);
                cr_assert_eq(known(0, &first, NULL, 0), 1, "it was asked for all the time");
        }
        for (unsigned i = 1; i <= 16 * DCU_TENSOR_CACHE_SETS * DCU_TENSOR_CACHE_WAYS; i++) {
                struct dcu_tensor_key key;
                uint8_t map[DSC_TENSOR_MAP_BYTES];

                ask.address = first.address + 64 * i;
                cr_assert_eq(dcu_tensor_key(session_at(0), &ask, map, &key), 1);
                kept += (unsigned)dcu_tensor_cache_find(&key, map);
        }
        cr_assert_lt(kept, DCU_TENSOR_CACHE_SETS * DCU_TENSOR_CACHE_WAYS, "it is bounded");
        cr_assert_gt(kept, DCU_TENSOR_CACHE_SETS, "%u", kept);
}

/* Answers a request for a tensor map with a map that contains the number of maps requested before. */
static enum fake_verdict make_map(struct fake *fake, const Detshare__Request *request, Detshare__Reply *reply)
{
        static uint8_t map[DSC_TENSOR_MAP_BYTES];
        static Detshare__TensorMapReply made;

        if (request->call_case != DETSHARE__REQUEST__CALL_ENCODE_TENSOR_MAP)
                return FAKE_DEFAULT;
        made = (Detshare__TensorMapReply)DETSHARE__TENSOR_MAP_REPLY__INIT;
        map[0]++;
        made.map = (ProtobufCBinaryData){sizeof(map), map};
        reply->result_case = DETSHARE__REPLY__RESULT_ENCODE_TENSOR_MAP;
        reply->encode_tensor_map = &made;
        if (request->encode_tensor_map->rank != 1)
                return FAKE_ANSWERED;
        reply->result_case = DETSHARE__REPLY__RESULT__NOT_SET;
        reply->status = CUDA_ERROR_INVALID_VALUE;
        return FAKE_ANSWERED;
}

static CUresult encode(CUtensorMap *map, unsigned rank, uint64_t address)
{
        return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, (void *)(uintptr_t)address, dims,
                strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

Test(tensor_cache, a_map_is_requested_once, .timeout = 20)
{
        static struct fake fake;
        const _Atomic uint32_t *asked = &fake.requests[DETSHARE__REQUEST__CALL_ENCODE_TENSOR_MAP];
        CUcontext context;
        CUtensorMap map;

        fake.hook = make_map;
        fake_start(&fake);
        cr_assert_eq(cuInit(0), CUDA_SUCCESS);
        cr_assert_eq(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
        cr_assert_eq(cuCtxSetCurrent(context), CUDA_SUCCESS);
        for (int step = 0; step < 5; step++) {
                for (unsigned i = 1; i <= 3; i++) {
                        memset(&map, 0, sizeof(map));
                        cr_assert_eq(encode(&map, 2, 0x7000000000 + 64 * i), CUDA_SUCCESS);
                        cr_assert_eq(((const uint8_t *)&map)[0], i);
                }
                cr_assert_eq(*asked, 3, "%u requests", *asked);
        }
        for (unsigned i = 1; i <= 3; i++) {
                cr_assert_eq(encode(&map, 1, 0x7000000000), CUDA_ERROR_INVALID_VALUE);
                cr_assert_eq(*asked, 3 + i, "a refusal is not kept");
        }
        fake_stop(&fake);
        usleep(200000); /* calls fail within 100 ms of the daemon's end */
        cr_assert_neq(encode(&map, 2, 0x7000000000 + 64), CUDA_SUCCESS, "there is nobody any more");
}
