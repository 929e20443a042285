/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code images: real ones of every kind that nvcc writes, and damaged ones
 *
 * Damaged images are made from real ones: cut at every byte, with bytes changed under a seed, with wrong sizes. None
 * may crash or be read past its end (the copies are heap blocks of exactly their size, so ASan notices one byte too
 * many), and every PTX that is returned must be a whole text.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/cubin.h"
#include "image/image.h"
#include "tests/unit/read_file.h"
#include "util/alloc.h"
#include "util/macro.h"

static uint8_t *load(const char *name, size_t *ret_size)
{
        return read_file_of(TEST_IMAGE_DIR, name, ret_size);
}

static char *ptx_of(const ds_image *image, size_t index, size_t *ret_length)
{
        char message[200] = "", *text = NULL;
        int r = ds_image_ptx(image, index, message, sizeof(message), &text, ret_length);

        cr_assert_eq(r, 0, "%s", message);
        cr_assert_eq(strlen(text), *ret_length);
        return text;
}

static void exercise_elf(const ds_image *image, size_t index)
{
        char message[200] = "", holds[40];
        struct ds_cubin cubin;
        void *elf = NULL;
        size_t size;
        int r;

        ds_image_describe(image, holds, sizeof(holds));
        cr_assert(holds[0] && strlen(holds) < sizeof(holds));
        r = ds_image_elf(image, index, message, sizeof(message), &elf, &size);
        cr_assert(r >= 0);
        if (r)
                cr_assert(!elf && message[0]);
        else
                (void)ds_cubin_read(elf, size, &cubin);
        ds_free(elf);
}

/* Opens the bytes as an image and reads every entry. Returns the number of texts. */
static int exercise(const uint8_t *bytes, size_t size)
{
        char message[200] = "", *text;
        size_t length, index;
        ds_image *image = NULL;
        int r, n = 0;

        r = ds_image_open(bytes, size, message, sizeof(message), &image);
        cr_assert(r >= 0);
        if (r) {
                cr_assert_null(image);
                cr_assert(message[0], "a refusal without words");
                return 0;
        }
        cr_assert(ds_image_count(image) <= DS_IMAGE_ENTRIES_MAX);
        ds_image_choose_ptx(image, 90, 1, &index);
        for (size_t i = 0; i < ds_image_count(image); i++) {
                text = NULL;
                exercise_elf(image, i);
                message[0] = 0;
                r = ds_image_ptx(image, i, message, sizeof(message), &text, &length);
                cr_assert(r >= 0);
                if (r) {
                        cr_assert_null(text);
                        cr_assert(message[0]);
                        continue;
                }
                cr_assert_eq(strlen(text), length);
                cr_assert(length <= DS_IMAGE_PTX_MAX);
                ds_free(text);
                n++;
        }
        ds_image_free(image);
        return n;
}

static void expect_refused(const void *bytes, size_t size, int code, const char *word)
{
        char message[200] = "";
        ds_image *image = NULL;
        uint8_t *copy = malloc(size ? size : 1);
        int r;

        memcpy(copy, bytes, size);
        r = ds_image_open(copy, size, message, sizeof(message), &image);
        cr_assert_eq(r, code, "%d: %s", r, message);
        cr_assert_null(image);
        cr_assert(strstr(message, word), "'%s' does not say '%s'", message, word);
        free(copy);
}

Test(image, same_text_from_every_compression)
{
        const char *archs[] = {"sm_75", "sm_90", "sm_90a"}, *modes[] = {"none", "balance", "speed", "size"};
        char name[64], *reference, *text;
        size_t size, length, reference_length, index;
        ds_image *image;
        uint8_t *bytes;

        for (size_t a = 0; a < DS_ARRAY_SIZE(archs); a++) {
                reference = NULL;
                for (size_t m = 0; m < DS_ARRAY_SIZE(modes); m++) {
                        snprintf(name, sizeof(name), "%s.%s.fatbin", archs[a], modes[m]);
                        bytes = load(name, &size);
                        cr_assert_eq(ds_image_open(bytes, size, NULL, 0, &image), 0, "%s", name);
                        cr_assert(ds_image_count(image) >= 2);
                        cr_assert_eq(ds_image_choose_ptx(image, 90, 0, &index), 0);
                        text = ptx_of(image, index, &length);
                        cr_assert(strstr(text, ".entry saxpy("), "%s", name);
                        cr_assert(strstr(text, ".entry reduce("), "%s", name);
                        if (!reference) {
                                reference = text;
                                reference_length = length;
                        } else {
                                cr_assert_eq(length, reference_length, "%s", name);
                                cr_assert_str_eq(text, reference, "%s", name);
                                ds_free(text);
                        }
                        ds_image_free(image);
                        free(bytes);
                }
                ds_free(reference);
        }
}

Test(image, compression_is_really_used)
{
        const char *names[] = {"sm_90.balance.fatbin", "sm_90.speed.fatbin", "sm_90.size.fatbin"};
        const struct ds_image_entry *e;
        size_t size, index;
        ds_image *image;
        uint8_t *bytes;

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                bytes = load(names[i], &size);
                cr_assert_eq(ds_image_open(bytes, size, NULL, 0, &image), 0);
                cr_assert_eq(ds_image_choose_ptx(image, 90, 0, &index), 0);
                e = ds_image_entry(image, index);
                cr_assert(e->unpacked_size > e->size + e->size / 4, "%s is not compressed", names[i]);
                ds_image_free(image);
                free(bytes);
        }
}

Test(image, entries_say_what_they_are)
{
        const struct ds_image_entry *e;
        int ptx = 0, elf = 0;
        ds_image *image;
        uint8_t *bytes;
        size_t size;

        bytes = load("sm_90a.balance.fatbin", &size);
        cr_assert_eq(ds_image_open(bytes, size, NULL, 0, &image), 0);
        for (size_t i = 0; i < ds_image_count(image); i++) {
                e = ds_image_entry(image, i);
                cr_assert_eq(e->sm, 90);
                ptx += e->kind == DS_IMAGE_PTX;
                elf += e->kind == DS_IMAGE_ELF;
                if (e->kind == DS_IMAGE_PTX)
                        cr_assert_eq(e->version_major, 9);
        }
        cr_assert(ptx >= 1 && elf == 1, "%d PTX and %d ELF entries", ptx, elf);
        cr_assert_null(ds_image_entry(image, ds_image_count(image)));
        ds_image_free(image);
        free(bytes);
}

Test(image, cubins)
{
        struct {
                const char *name;
                uint32_t sm;
        } cubins[] = {{"sm_75.cubin", 75}, {"sm_90.cubin", 90}};
        char message[200], *text;
        size_t size, index, length;
        ds_image *image;
        uint8_t *bytes;

        for (size_t i = 0; i < DS_ARRAY_SIZE(cubins); i++) {
                bytes = load(cubins[i].name, &size);
                cr_assert_eq(ds_image_open(bytes, size, message, sizeof(message), &image), 0, "%s", message);
                cr_assert_eq(ds_image_count(image), 1);
                cr_assert_eq(ds_image_entry(image, 0)->kind, DS_IMAGE_ELF);
                cr_assert_eq(ds_image_entry(image, 0)->sm, cubins[i].sm);
                cr_assert_eq(ds_image_choose_ptx(image, 90, 1, &index), -ENOENT);
                cr_assert_eq(ds_image_ptx(image, 0, message, sizeof(message), &text, &length), DS_IMAGE_E_UNSUPPORTED);
                ds_image_free(image);
                for (size_t cut = 0; cut < size; cut++) {
                        uint8_t *copy = malloc(cut ? cut : 1);

                        memcpy(copy, bytes, cut);
                        exercise(copy, cut);
                        free(copy);
                }
                free(bytes);
        }
}

Test(image, same_machine_code_from_every_compression)
{
        static const char *const modes[] = {"none", "balance", "speed", "size"};
        void *first = NULL, *elf;
        size_t first_size = 0, elf_size, index, size;

        for (size_t i = 0; i < DS_ARRAY_SIZE(modes); i++) {
                char name[64], message[200] = "";
                struct ds_cubin cubin;
                ds_image *image;
                uint8_t *bytes;

                snprintf(name, sizeof(name), "sm_90a.%s.fatbin", modes[i]);
                bytes = load(name, &size);
                cr_assert_eq(ds_image_open(bytes, size, NULL, 0, &image), 0);
                cr_assert_eq(ds_image_choose_elf(image, 100, &index), -ENOENT);
                cr_assert_eq(ds_image_choose_elf(image, 90, &index), 0);
                cr_assert_eq(ds_image_elf(image, index, message, sizeof(message), &elf, &elf_size), 0, "%s", message);
                cr_assert_eq(ds_cubin_read(elf, elf_size, &cubin), 0);
                cr_assert(cubin.cc == 90 && cubin.family && cubin.n_kernels == 2 && cubin.size <= elf_size);
                if (!first) {
                        first = DS_TAKE_PTR(elf);
                        first_size = elf_size;
                } else {
                        cr_assert(elf_size == first_size && !memcmp(elf, first, elf_size), "%s", modes[i]);
                }
                ds_free(elf);
                ds_image_free(image);
                free(bytes);
        }
        ds_free(first);
}

Test(image, code_only_has_no_ptx)
{
        ds_image *image;
        size_t size, index;
        uint8_t *bytes = load("code_only.fatbin", &size);

        cr_assert_eq(ds_image_open(bytes, size, NULL, 0, &image), 0);
        cr_assert(ds_image_count(image) >= 1);
        cr_assert_eq(ds_image_choose_ptx(image, 90, 1, &index), -ENOENT);
        ds_image_free(image);
        free(bytes);
}

Test(image, text)
{
        const char text[] = "// made by hand\n.version 8.3\n  .target sm_90a, debug\n.address_size 64\n";
        const struct ds_image_entry *e;
        size_t length, index;
        ds_image *image;
        char *copy;

        cr_assert_eq(ds_image_open(text, sizeof(text), NULL, 0, &image), 0);
        e = ds_image_entry(image, 0);
        cr_assert_eq(e->kind, DS_IMAGE_PTX);
        cr_assert_eq(e->sm, 90);
        cr_assert_eq(e->arch_specific, 1);
        cr_assert_eq(e->version_major, 8);
        cr_assert_eq(e->version_minor, 3);
        cr_assert_eq(ds_image_choose_ptx(image, 90, 0, &index), 0);
        cr_assert_eq(ds_image_choose_ptx(image, 100, 0, &index), -ENOENT, "sm_90a code runs on 9.0 only");
        cr_assert_eq(ds_image_choose_ptx(image, 61, 1, &index), 0);
        copy = ptx_of(image, 0, &length);
        cr_assert_str_eq(copy, text);
        ds_free(copy);
        ds_image_free(image);
}

/* Builds a container of stored PTX entries, one for each target in sms. */
static size_t container(uint8_t *p, const uint32_t *sms, size_t n, uint32_t flags, uint64_t unpacked)
{
        uint64_t step = 64 + 8, total = n * step;
        uint32_t magic = 0xBA55ED50, version = 0x00100001, kind = 0x01010001, header = 64;
        uint64_t payload = 8, f = flags;

        memcpy(p, &magic, 4);
        memcpy(p + 4, &version, 4);
        memcpy(p + 8, &total, 8);
        for (size_t i = 0; i < n; i++) {
                uint8_t *e = p + 16 + i * step;

                memset(e, 0, step);
                memcpy(e, &kind, 4);
                memcpy(e + 4, &header, 4);
                memcpy(e + 8, &payload, 8);
                memcpy(e + 28, &sms[i], 4);
                memcpy(e + 40, &f, 8);
                memcpy(e + 56, &unpacked, 8);
                memcpy(e + 64, "// ptx\n", 8);
        }
        return 16 + total;
}

Test(image, choice_of_target)
{
        const uint32_t sms[] = {80, 75, 90, 120};
        struct {
                uint32_t cc;
                int any, r;
                size_t index;
        } cases[] = {
                {90, 0, 0, 2},
                {89, 0, 0, 0},
                {75, 0, 0, 1},
                {121, 0, 0, 3},
                {61, 0, -ENOENT, 0},
                {61, 1, 0, 1},
        };
        uint8_t bytes[512];
        size_t size = container(bytes, sms, 4, 0, 0), index;
        ds_image *image;

        cr_assert_eq(ds_image_open(bytes, size, NULL, 0, &image), 0);
        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                index = 0;
                cr_assert_eq(ds_image_choose_ptx(image, cases[i].cc, cases[i].any, &index), cases[i].r);
                cr_assert_eq(index, cases[i].index, "case %zu chose %zu", i, index);
        }
        ds_image_free(image);
}

/* Machine code runs on GPUs of its major version from its minor version on; code for sm_NNa runs on exactly that
 * GPU. */
Test(image, choice_of_machine_code)
{
        static const struct {
                uint32_t cc;
                int r;
                size_t index;
        } cases[] = {{75, -ENOENT, 0}, {80, 0, 0}, {86, 0, 1}, {89, 0, 1}, {90, 0, 3}, {100, 0, 4}, {103, 0, 5},
                {120, -ENOENT, 0}};
        static const uint32_t sms[] = {80, 86, 90, 90, 100, 103, 120};
        uint8_t bytes[1024];
        size_t size = container(bytes, sms, DS_ARRAY_SIZE(sms), 0, 0), index;
        char holds[400];
        ds_image *image;

        for (size_t i = 0; i < DS_ARRAY_SIZE(sms); i++) {
                uint64_t family = 0x100000;

                bytes[16 + i * 72] = i == 6 ? 1 : 2; /* the last entry is PTX */
                if (i == 3 || i == 5)
                        memcpy(bytes + 16 + i * 72 + 40, &family, sizeof(family));
        }
        cr_assert_eq(ds_image_open(bytes, size, NULL, 0, &image), 0);
        for (size_t i = 0; i < DS_ARRAY_SIZE(cases); i++) {
                index = 0;
                cr_assert_eq(ds_image_choose_elf(image, cases[i].cc, &index), cases[i].r, "cc %u", cases[i].cc);
                cr_assert_eq(index, cases[i].index, "cc %u chose %zu", cases[i].cc, index);
        }
        ds_image_describe(image, holds, sizeof(holds));
        cr_assert_str_eq(holds,
                "machine code for sm_80, machine code for sm_86, machine code for sm_90, machine code for sm_90a, "
                "machine code for sm_100, machine code for sm_103a, PTX for sm_120");
        ds_image_free(image);
}

Test(image, refusals_have_words)
{
        const uint32_t sm = 90;
        uint8_t bytes[256];
        size_t size = container(bytes, &sm, 1, 0, 0);
        uint64_t big;

        expect_refused("", 0, DS_IMAGE_E_INVALID, "empty");
        expect_refused("\0\0\0\0", 4, DS_IMAGE_E_INVALID, "empty");
        expect_refused("ab\1", 3, DS_IMAGE_E_INVALID, "offset 2");
        expect_refused("\xb1\x43\x62\x46\1\0\0\0", 8, DS_IMAGE_E_UNSUPPORTED, "wrapper");
        expect_refused("\177ELF", 4, DS_IMAGE_E_INVALID, "cut off");
        expect_refused(bytes, 12, DS_IMAGE_E_INVALID, "cut off");
        expect_refused(bytes, size - 1, DS_IMAGE_E_INVALID, "only");

        bytes[4] = 2;
        expect_refused(bytes, size, DS_IMAGE_E_UNSUPPORTED, "version");
        bytes[4] = 1;
        big = UINT64_MAX;
        memcpy(bytes + 8, &big, 8);
        expect_refused(bytes, size, DS_IMAGE_E_INVALID, "claims");
        container(bytes, &sm, 1, 0, 0);
        memcpy(bytes + 16 + 8, &big, 8); /* a payload size that overflows when it is added */
        expect_refused(bytes, size, DS_IMAGE_E_INVALID, "does not fit");
        container(bytes, &sm, 1, 0, 0);
        memset(bytes + 16 + 4, 0, 4); /* a header of 0 bytes: reading would never reach the next entry */
        expect_refused(bytes, size, DS_IMAGE_E_INVALID, "does not fit");
        container(bytes, &sm, 1, 0, 0);
        bytes[16 + 16] = 9; /* this entry states more compressed bytes than its payload has */
        expect_refused(bytes, size, DS_IMAGE_E_INVALID, "does not fit");
}

Test(image, too_many_entries)
{
        uint32_t sms[DS_IMAGE_ENTRIES_MAX + 1] = {};
        uint8_t *bytes = malloc(16 + 72 * DS_ARRAY_SIZE(sms));
        ds_image *image;
        size_t size;

        size = container(bytes, sms, DS_IMAGE_ENTRIES_MAX, 0, 0);
        cr_assert_eq(ds_image_open(bytes, size, NULL, 0, &image), 0);
        cr_assert_eq(ds_image_count(image), DS_IMAGE_ENTRIES_MAX);
        ds_image_free(image);
        size = container(bytes, sms, DS_IMAGE_ENTRIES_MAX + 1, 0, 0);
        expect_refused(bytes, size, DS_IMAGE_E_TOO_LARGE, "256");
        free(bytes);
}

static int unpack_hand_made(uint32_t flags, uint64_t declared, char *message, size_t message_size)
{
        const uint32_t sm = 90;
        uint8_t bytes[256];
        size_t size = container(bytes, &sm, 1, flags, declared), length = 0;
        ds_image *image;
        char *text = NULL;
        int r;

        cr_assert_eq(ds_image_open(bytes, size, NULL, 0, &image), 0);
        r = ds_image_ptx(image, 0, message, message_size, &text, &length);
        cr_assert_eq(!r, !!text);
        ds_free(text);
        ds_image_free(image);
        return r;
}

Test(image, declared_sizes_are_capped)
{
        char message[200];

        cr_assert_eq(unpack_hand_made(0x2000, DS_IMAGE_PTX_MAX + 1, message, sizeof(message)), DS_IMAGE_E_TOO_LARGE);
        cr_assert_eq(unpack_hand_made(0x8000, UINT64_MAX, message, sizeof(message)), DS_IMAGE_E_TOO_LARGE);
        cr_assert(strstr(message, "64 MiB"));
        cr_assert_eq(unpack_hand_made(0x8000, 100, message, sizeof(message)), DS_IMAGE_E_INVALID);
        cr_assert_eq(unpack_hand_made(0x2000, 0, message, sizeof(message)), DS_IMAGE_E_INVALID);
        cr_assert_eq(unpack_hand_made(0xa000, 100, message, sizeof(message)), DS_IMAGE_E_UNSUPPORTED);
        cr_assert_eq(unpack_hand_made(0x10000, 0, message, sizeof(message)), DS_IMAGE_E_UNSUPPORTED);
        cr_assert_eq(unpack_hand_made(0, 0, message, sizeof(message)), 0);
}

/* A compressed entry from nvcc whose declared size is changed to one too large, one too small, or huge. */
Test(image, declared_sizes_that_lie)
{
        const char *names[] = {"sm_75.balance.fatbin", "sm_75.speed.fatbin"};
        const int64_t lies[] = {-1, 1, 1 << 20, -16};
        char message[200] = "", *text;
        size_t size, index, length, at;
        uint64_t value;
        ds_image *image;
        uint8_t *bytes;

        for (size_t i = 0; i < 2; i++) {
                bytes = load(names[i], &size);
                cr_assert_eq(ds_image_open(bytes, size, NULL, 0, &image), 0);
                cr_assert_eq(ds_image_choose_ptx(image, 75, 0, &index), 0);
                value = ds_image_entry(image, index)->unpacked_size;
                ds_image_free(image);
                for (at = 16; at + 8 <= size && memcmp(bytes + at, &value, 8); at++)
                        ;
                cr_assert(at + 8 <= size, "declared size not found");
                for (size_t l = 0; l < DS_ARRAY_SIZE(lies); l++) {
                        uint64_t lie = value + (uint64_t)lies[l];

                        memcpy(bytes + at, &lie, 8);
                        cr_assert_eq(ds_image_open(bytes, size, NULL, 0, &image), 0);
                        cr_assert_eq(ds_image_ptx(image, index, message, sizeof(message), &text, &length),
                                DS_IMAGE_E_INVALID, "%s: a lie of %lld went through", names[i], (long long)lies[l]);
                        ds_image_free(image);
                }
                free(bytes);
        }
}

Test(image, every_truncation)
{
        const char *names[] = {"sm_75.balance.fatbin", "sm_90.speed.fatbin", "sm_90.size.fatbin", "sm_75.none.fatbin"};
        uint8_t *bytes, *copy;
        size_t size;
        int r;

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                bytes = load(names[i], &size);
                cr_assert(exercise(bytes, size) >= 1);
                for (size_t cut = 0; cut < size; cut++) {
                        copy = malloc(cut ? cut : 1);
                        memcpy(copy, bytes, cut);
                        r = exercise(copy, cut);
                        /* fewer bytes than a magic number may be the beginning of a text */
                        cr_assert(!r || cut < 4, "%s cut at %zu gave a text", names[i], cut);
                        free(copy);
                }
                free(bytes);
        }
}

static uint64_t next_random(uint64_t *state)
{
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

Test(image, seeded_mutations)
{
        const char *names[] = {"sm_75.balance.fatbin", "sm_90.speed.fatbin", "sm_90a.size.fatbin", "sm_75.none.fatbin"};
        uint64_t seed = 0x5eed0001, state = seed;
        uint8_t *bytes, *copy;
        size_t size, at;

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++) {
                bytes = load(names[i], &size);
                copy = malloc(size);
                for (int round = 0; round < 3000; round++) {
                        memcpy(copy, bytes, size);
                        for (uint64_t n = 1 + next_random(&state) % 8; n; n--) {
                                at = next_random(&state) % (n & 1 ? size : 160);
                                copy[at] = (uint8_t)next_random(&state);
                        }
                        exercise(copy, size);
                }
                free(copy);
                free(bytes);
        }
}

Test(image, out_of_memory_is_said)
{
        size_t size, length, index;
        uint8_t *bytes = load("sm_75.balance.fatbin", &size);
        ds_image *image = NULL;
        char *text = NULL;
        int r;

        for (int n = 0;; n++) {
                ds_alloc_fail_after(n);
                r = ds_image_open(bytes, size, NULL, 0, &image);
                if (!r)
                        r = ds_image_choose_ptx(image, 75, 0, &index);
                if (!r)
                        r = ds_image_ptx(image, index, NULL, 0, &text, &length);
                ds_alloc_fail_after(-1);
                image = ds_image_free(image);
                if (!r)
                        break;
                cr_assert_eq(r, -ENOMEM);
                cr_assert_null(text);
                cr_assert(n < 10);
        }
        ds_free(text);
        free(bytes);
}

/* --- options ------------------------------------------------------------------------------------------------------ */

/* Reads the register limit from a container with one entry of stored PTX, whose header of 96 bytes has this record
 * of options. */
static uint32_t max_registers_of(const char *options, uint32_t record, uint32_t offset, uint32_t length)
{
        const char text[16] = ".version 9.0\n";
        struct {
                uint32_t magic;
                uint16_t version, header;
                uint64_t size;
                uint8_t entry[96];
                char text[16];
        } image = {.magic = 0xBA55ED50u, .version = 1, .header = 16, .size = 96 + sizeof(text)};
        const uint32_t kind = 1, header = 96, sm = 90;
        const uint64_t size = sizeof(text);
        uint32_t value;
        ds_image *opened;

        memcpy(image.entry, &kind, 2);
        memcpy(image.entry + 4, &header, 4);
        memcpy(image.entry + 8, &size, 8);
        memcpy(image.entry + 20, &record, 4);
        memcpy(image.entry + 28, &sm, 4);
        memcpy(image.entry + 64, &offset, 4);
        memcpy(image.entry + 68, &length, 4);
        memcpy(image.entry + 72, options, strnlen(options, 24));
        memcpy(image.text, text, sizeof(text));
        cr_assert_eq(ds_image_open(&image, sizeof(image), NULL, 0, &opened), 0);
        value = ds_image_entry(opened, 0)->max_registers;
        ds_image_free(opened);
        return value;
}

Test(image, registers_that_nvcc_was_told)
{
        cr_assert_eq(max_registers_of(" -maxrregcount=40 ", 64, 72, 18), 40);
        cr_assert_eq(max_registers_of(" -O1 --maxrregcount=32", 64, 72, 22), 32);
        cr_assert_eq(max_registers_of(" -maxrregcount=40 ", 64, 72, 16), 4, "cut off where the record ends");
        cr_assert_eq(max_registers_of(" -maxrregcount=40 ", 0, 72, 18), 0);
        cr_assert_eq(max_registers_of(" -g --dont-merge", 64, 72, 16), 0);
        cr_assert_eq(max_registers_of(" -maxrregcount=99999999", 64, 72, 23), 0);
        cr_assert_eq(max_registers_of(" -maxrregcount=40 ", 64, 72, 25), 0, "past the header");
        cr_assert_eq(max_registers_of(" -maxrregcount=40 ", 64, 4000000000u, 4000000000u), 0);
        cr_assert_eq(max_registers_of(" -maxrregcount=40 ", 93, 72, 18), 0);
        cr_assert_eq(max_registers_of(" -maxrregcount=40 ", 4000000000u, 72, 18), 0);
}
