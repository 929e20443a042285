/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Analysis of machine code: real kernels of every architecture, hand-made code, damaged files
 *
 * Damaged files are copies of exactly their size, so that the address sanitizer notices one byte too many.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "image/sass.h"
#include "image/sass_code.h"
#include "tests/unit/read_file.h"
#include "util/alloc.h"
#include "util/macro.h"

static uint8_t *load(const char *name, size_t *ret_size)
{
        return read_file_of(TEST_SASS_DIR, name, ret_size);
}

static bool begins(const char *name, const char *with)
{
        return !strncmp(name, with, strlen(with));
}

/* --- real code ---------------------------------------------------------------------------------------------------- */

/* Each kernel's name states the expected result (tests/data/image/waits.cu). */
static void expect_as_named(const char *file, size_t at_least)
{
        ds_cleanup(ds_sass_freep) ds_sass *sass = NULL;
        const char *name;
        size_t size, n;
        uint8_t *bytes = load(file, &size);

        cr_assert_eq(ds_sass_open(bytes, size, &sass), 0, "%s", file);
        for (n = 0; (name = ds_sass_kernel_name(sass, n)); n++) {
                struct ds_sass_kernel facts;

                cr_assert_eq(ds_sass_kernel(sass, name, &facts), 0);
                cr_expect_eq(facts.waits, begins(name, "wait_"), "%s: %s", file, name);
                cr_expect_eq(facts.sees_shared, begins(name, "size_"), "%s: %s", file, name);
        }
        cr_expect_geq(n, at_least, "%s: %zu kernels", file, n);
        sass = ds_sass_free(sass);
        free(bytes);
}

Test(sass, real_code_of_every_architecture)
{
        static const char *const files[] = {"sm_75.waits.cubin", "sm_80.waits.cubin", "sm_86.waits.cubin",
                "sm_89.waits.cubin", "sm_90.waits.cubin", "sm_90a.waits.cubin", "sm_90.slow.cubin"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(files); i++)
                expect_as_named(files[i], 34);
        expect_as_named("sm_90.linked.cubin", 2);
        expect_as_named("sm_90.asked.cubin", 2);
}

/* A kernel that is missing, and code of an architecture that is not analysed, count as waiting */
Test(sass, unknown_kernels_may_wait)
{
        ds_cleanup(ds_sass_freep) ds_sass *sass = NULL;
        struct ds_sass_kernel facts;
        size_t size;
        uint8_t *bytes = load("sm_100.waits.cubin", &size);

        cr_assert_eq(ds_sass_open(bytes, size, &sass), 0);
        cr_assert_eq(ds_sass_kernel(sass, "wait_volatile", &facts), 0);
        cr_expect(facts.waits);
        cr_assert_eq(ds_sass_kernel(sass, "run_last", &facts), 0); /* the kernel reads a flag once, outside of a loop */
        cr_expect(facts.waits);
        cr_assert_eq(ds_sass_kernel(sass, "run_sum", &facts), 0);
        cr_expect_not(facts.waits);
        cr_assert_eq(ds_sass_kernel(sass, "size_total", &facts), 0);
        cr_expect(facts.sees_shared);
        cr_assert_eq(ds_sass_kernel(sass, "nobody", &facts), 0);
        cr_expect(facts.waits && facts.sees_shared);
        sass = ds_sass_free(sass);
        cr_expect_eq(ds_sass_open(bytes, 100, &sass), DS_SASS_E_NOT);
        cr_expect_eq(ds_sass_open("text", 4, &sass), DS_SASS_E_NOT);
        free(bytes);
}

/* Every code section of the file covers the whole file: analysing each would cost the square of the file's size. */
Test(sass, sections_that_share_bytes_are_not_looked_into)
{
        ds_cleanup(ds_sass_freep) ds_sass *sass = NULL;
        struct ds_sass_kernel facts;
        size_t size;
        uint8_t *bytes = load("sm_90.waits.cubin", &size);
        Elf64_Ehdr header;
        Elf64_Shdr section;

        memcpy(&header, bytes, sizeof(header));
        for (unsigned i = 1; i < header.e_shnum; i++) {
                memcpy(&section, bytes + header.e_shoff + i * sizeof(section), sizeof(section));
                if (section.sh_type != SHT_PROGBITS || !(section.sh_flags & SHF_EXECINSTR))
                        continue;
                section.sh_offset = 0;
                section.sh_size = size / SASS_BYTES * SASS_BYTES;
                memcpy(bytes + header.e_shoff + i * sizeof(section), &section, sizeof(section));
        }
        cr_assert_eq(ds_sass_open(bytes, size, &sass), 0);
        for (size_t i = 0; ds_sass_kernel_name(sass, i); i++) {
                cr_assert_eq(ds_sass_kernel(sass, ds_sass_kernel_name(sass, i), &facts), 0);
                cr_expect(facts.waits && facts.sees_shared);
        }
        sass = ds_sass_free(sass);
        free(bytes);
}

/* --- hand-made code: words as nvdisasm shows them for sm_90 ------------------------------------------------------- */

#define GUARD(p) ((uint64_t)(p) << 12)
#define ALWAYS GUARD(7)

static const struct sass_instr nothing = {0x918 | ALWAYS, 0x000fc00000000000};
static const struct sass_instr leave = {0x94d | ALWAYS, 0x000fea0003800000};
static const struct sass_instr load_plain = {0x0000000402007981, 0x000ea2000c1e1900};
static const struct sass_instr load_gpu = {0x0000000402007981, 0x000ea2000c1ef900};
static const struct sass_instr compare = {0x000000ff0000720c, 0x004fda0003f05270};   /* R0 with zero, into P0 */
static const struct sass_instr add = {0x0000000003037221, 0x004fc80000000000};       /* R3 += R0 */
static const struct sass_instr overwrite = {0x000000ffff007224, 0x000fe200078e00ff}; /* R0 = 0 */
static const struct sass_instr by_table = {0xfffffffc04d07949, 0x000fea000383ffff};

static struct sass_instr jump(uint32_t from, uint32_t to, unsigned guard)
{
        int64_t words = ((int64_t)to - from - 1) * 4, far = words >> 8;

        return (struct sass_instr){
                0x947 | GUARD(guard) | (uint64_t)(words & 0xff) << 16 | (uint64_t)far << 34,
                0x000fea0003800000 | ((uint64_t)far >> 30 & 0x3ffff),
        };
}

static struct sass_instr swap(unsigned result, unsigned compared)
{
        uint64_t registers = (uint64_t)result << 16 | (uint64_t)compared << 32;

        return (struct sass_instr){UINT64_C(0x00000000020073a9) | registers, 0x001ea400001ee105};
}

static struct sass_instr move(unsigned to, unsigned from)
{
        return (struct sass_instr){0x202 | ALWAYS | (uint64_t)to << 16 | (uint64_t)from << 32, 0x000fe20000000f00};
}

static int waits(const struct sass_instr *code, size_t n)
{
        struct sass_code c = {.text = (const uint8_t *)code, .n = (uint32_t)n, .cc = 90};

        return sass_loops_wait(&c);
}

Test(sass, loops_made_by_hand)
{
        struct sass_instr poll[] = {load_gpu, compare, jump(2, 0, 0), leave};
        struct sass_instr plain[] = {load_plain, compare, jump(2, 0, 0), leave};
        struct sass_instr once[] = {load_gpu, compare, jump(2, 4, 0), nothing, leave};
        /* a loop whose parts are not contiguous: its backward jump is at the end, and it passes through three places */
        struct sass_instr apart[] = {
                nothing, jump(1, 4, 0), leave, nothing, load_gpu, compare, jump(6, 8, 0), leave, jump(8, 0, 7)};
        /* the load is before the loop, which does not contain it */
        struct sass_instr before[] = {load_gpu, compare, jump(2, 1, 0), leave};
        /* nested loops: the load is in the outer loop, and the inner loop has another entry */
        struct sass_instr around[] = {jump(0, 3, 0), nothing, load_gpu, compare, jump(4, 1, 0), jump(5, 0, 0), leave};
        struct sass_instr self[] = {leave, jump(1, 1, 7)};
        /* loops in which the loaded value is summed, is used in a later round, or is overwritten before its use */
        struct sass_instr sum[] = {load_gpu, add, jump(2, 0, 0), leave};
        struct sass_instr later[] = {compare, nothing, load_gpu, jump(3, 0, 0), leave};
        struct sass_instr given_up[] = {load_gpu, overwrite, compare, jump(3, 0, 0), leave};

        cr_expect_eq(waits(sum, DS_ARRAY_SIZE(sum)), 0);
        cr_expect_eq(waits(later, DS_ARRAY_SIZE(later)), 1);
        cr_expect_eq(waits(given_up, DS_ARRAY_SIZE(given_up)), 0);
        cr_expect_eq(waits(poll, DS_ARRAY_SIZE(poll)), 1);
        cr_expect_eq(waits(plain, DS_ARRAY_SIZE(plain)), 0);
        cr_expect_eq(waits(once, DS_ARRAY_SIZE(once)), 0);
        cr_expect_eq(waits(apart, DS_ARRAY_SIZE(apart)), 1);
        cr_expect_eq(waits(before, DS_ARRAY_SIZE(before)), 0);
        cr_expect_eq(waits(around, DS_ARRAY_SIZE(around)), 1);
        cr_expect_eq(waits(self, DS_ARRAY_SIZE(self)), 0);
}

Test(sass, swaps_made_by_hand)
{
        struct sass_instr again[] = {swap(0, 4), move(4, 0), jump(2, 0, 0), leave};
        struct sass_instr direct[] = {swap(4, 4), jump(1, 0, 0), leave};
        struct sass_instr lock[] = {swap(0, 255), jump(1, 0, 0), leave};
        struct sass_instr turn[] = {move(4, 9), swap(0, 4), jump(2, 1, 0), leave};
        struct sass_instr same[] = {move(4, 9), swap(0, 4), jump(2, 0, 0), leave};
        /* loops in which the loaded value is copied behind a jump, or on one path only */
        struct sass_instr some[] = {swap(0, 4), jump(1, 3, 1), move(4, 0), nothing, jump(4, 0, 0), leave};

        cr_expect_eq(waits(again, DS_ARRAY_SIZE(again)), 0);
        cr_expect_eq(waits(direct, DS_ARRAY_SIZE(direct)), 0);
        cr_expect_eq(waits(lock, DS_ARRAY_SIZE(lock)), 1);
        cr_expect_eq(waits(turn, DS_ARRAY_SIZE(turn)), 1);
        cr_expect_eq(waits(same, DS_ARRAY_SIZE(same)), 1);
        cr_expect_eq(waits(some, DS_ARRAY_SIZE(some)), 0);
}

/* A jump by a table has the table's targets; without a table it may go anywhere. */
Test(sass, jumps_by_tables)
{
        struct sass_instr code[] = {by_table, load_gpu, compare, leave, nothing, jump(5, 0, 7), leave};
        uint32_t info[] = {4 | 0x34 << 8 | 20 << 16, 0, 0, 2, 4 * SASS_BYTES, SASS_BYTES};
        struct sass_code c = {.text = (const uint8_t *)code, .n = DS_ARRAY_SIZE(code), .cc = 90};

        cr_expect_eq(sass_loops_wait(&c), 1);
        c.info = (const uint8_t *)info;
        c.info_size = sizeof(info);
        cr_expect_eq(sass_loops_wait(&c), 0); /* the load lies on the way out of the loop, so the loop does not wait */
        code[3] = jump(3, 0, 7);
        cr_expect_eq(sass_loops_wait(&c), 1);
        code[3] = leave;
        info[5] = 99 * SASS_BYTES;
        cr_expect_eq(sass_loops_wait(&c), 1);
        info[5] = SASS_BYTES;
        info[3] = 1000;
        cr_expect_eq(sass_loops_wait(&c), 1);
        code[1] = nothing; /* no load is left, so the loop does not wait */
        cr_expect_eq(sass_loops_wait(&c), 0);
}

/* Nested loops in hostile code: the analysis ends in time and counts them as waiting. */
Test(sass, hostile_code, .timeout = 60)
{
        uint32_t n = 200000;
        struct sass_instr *code = calloc(5 * n, sizeof(*code));

        cr_assert(code);
        for (uint32_t i = 0; i < n; i++)
                code[i] = jump(i, i / 3 * 2, 0);
        code[n - 1] = swap(0, 255);
        cr_expect_eq(waits(code, n), 1);
        for (uint32_t i = 0; i + 1 < n; i++)
                code[i] = i % 2 ? (struct sass_instr){0x945 | ALWAYS | (uint64_t)(i * 7 % 16) << 16 |
                                                              (uint64_t)(4 * (i % 9)) << 34,
                                          0x000fea0003800000}
                                : (struct sass_instr){0x941 | (uint64_t)(i * 5 % 16) << 16, 0x000fea0003800000};
        cr_expect_eq(waits(code, n), 1);
        for (uint32_t i = 0; i < 5 * n; i++)
                code[i] = nothing;
        code[0] = load_gpu;
        cr_expect_eq(waits(code, 5 * n), 1); /* code beyond the analysed size counts as waiting */
        cr_expect_eq(waits(code, n), 0);
        free(code);
}

/* --- damaged files ------------------------------------------------------------------------------------------------ */

/* Analyses arbitrary bytes as a file: this ends, and touches no memory outside of the bytes. */
static void look(const uint8_t *bytes, size_t size)
{
        ds_cleanup(ds_sass_freep) ds_sass *sass = NULL;
        struct ds_sass_kernel facts;
        const char *name;

        if (ds_sass_open(bytes, size, &sass))
                return;
        for (size_t i = 0; i < 64 && (name = ds_sass_kernel_name(sass, i)); i++)
                cr_assert_eq(ds_sass_kernel(sass, name, &facts), 0);
}

Test(sass, damaged_files, .timeout = 60)
{
        uint64_t random = 88172645463325252u;
        size_t size;
        uint8_t *bytes = load("sm_90.linked.cubin", &size), *copy;

        for (size_t cut = 0; cut < size; cut += 41) {
                copy = malloc(cut + 1);
                cr_assert(copy);
                memcpy(copy, bytes, cut);
                look(copy, cut);
                free(copy);
        }
        copy = malloc(size);
        cr_assert(copy);
        for (int i = 0; i < 3000; i++) {
                memcpy(copy, bytes, size);
                for (int k = 0; k < 4; k++) {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        copy[random % size] ^= (uint8_t)(1u << (random >> 40 & 7));
                }
                look(copy, size);
        }
        free(copy);
        free(bytes);
}

Test(sass, without_memory)
{
        size_t size;
        uint8_t *bytes = load("sm_90.waits.cubin", &size);
        int failed = 0;

        for (int n = 0, r = -ENOMEM; r; n++, failed++) {
                ds_cleanup(ds_sass_freep) ds_sass *sass = NULL;
                struct ds_sass_kernel facts;

                ds_alloc_fail_after(n);
                r = ds_sass_open(bytes, size, &sass);
                if (!r)
                        r = ds_sass_kernel(sass, "wait_turns", &facts);
                ds_alloc_fail_after(-1);
                cr_assert(r == 0 || r == -ENOMEM);
                cr_assert(r || facts.waits);
        }
        cr_expect_gt(failed, 10);
        free(bytes);
}
