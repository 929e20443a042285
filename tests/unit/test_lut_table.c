/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of VRAM channels: reading back, refusals, patterns by probes, names by pages; files of samples
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lut/layout.h"
#include "lut/learn/build.h"
#include "lut/samples.h"
#include "util/alloc.h"
#include "util/log.h"
#include "util/macro.h"

#define GRANULE_BITS 12
#define GRANULES 512u

/* A table of 12 channels: 2 parities and a number modulo 3 of 6 digits */
static void draft_modulus(struct ds_learn_draft *draft)
{
        *draft = (struct ds_learn_draft){.head = {.source = DS_LUT_SIMULATED,
                                                 .form = DS_LUT_MODULUS,
                                                 .granule_bits = GRANULE_BITS,
                                                 .page_bits = 21,
                                                 .channels = 12,
                                                 .samples = 100,
                                                 .held_out = 50,
                                                 .held_right = 49,
                                                 .learnt_at = 1700000000,
                                                 .dims = 6,
                                                 .parities = 2,
                                                 .modulus = 3},
                .mask = {0x04, 0x88, 0x10, 0x120, 0x40, 0x80, 0x91, 0x62},
                .weight = {1, 2, 1, 2, 1, 2},
                .n_channel = 12};
        strcpy(draft->head.model, "sim:test");
        strcpy(draft->head.learner, "the test");
        draft->channel = ds_alloc(12);
        for (uint8_t i = 0; i < 12; i++)
                draft->channel[i] = (uint8_t)(i * 5 % 12);
}

/* A table of 7 channels with two maps, neither of which is an XOR of the other. */
static void draft_xor(struct ds_learn_draft *draft)
{
        uint64_t state = 7;

        draft_modulus(draft);
        draft->head.form = DS_LUT_XOR;
        draft->head.channels = 7;
        draft->head.dims = 7;
        draft->head.parities = draft->head.modulus = 0;
        draft->head.tables = 2;
        draft->n_channel = 256;
        ds_free(draft->channel);
        draft->channel = ds_alloc(256);
        for (size_t i = 0; i < 256; i++)
                draft->channel[i] = (uint8_t)(ds_learn_random(&state) % 7);
}

/* A table of 10 channels: 5 slots of two granules each */
static void draft_congruence(struct ds_learn_draft *draft)
{
        draft_modulus(draft);
        draft->head.form = DS_LUT_CONGRUENCE;
        draft->head.channels = 14;
        draft->head.dims = draft->head.parities = draft->head.modulus = 0;
        draft->head.period = 7;
        draft->head.slot_bits = 1;
        draft->n_channel = 14;
        ds_free(draft->channel);
        draft->channel = ds_alloc(14);
        for (uint8_t i = 0; i < 14; i++)
                draft->channel[i] = i;
}

static void (*const drafts[])(struct ds_learn_draft *draft) = {draft_modulus, draft_xor, draft_congruence};

static struct ds_lut *made(size_t i, struct ds_learn_draft *draft)
{
        struct ds_lut *lut;

        drafts[i](draft);
        cr_assert_eq(ds_learn_finish(draft, 1, &lut), 0);
        return lut;
}

static void bytes_of(size_t i, uint8_t **ret, size_t *ret_n)
{
        struct ds_learn_draft draft;
        struct ds_lut *lut = made(i, &draft);

        cr_assert_eq(ds_learn_bytes(&draft, lut, ret, ret_n), 0);
        ds_lut_free(lut);
        ds_free(draft.channel);
}

Test(lut_table, says_what_it_is)
{
        const struct ds_lut_facts *facts;
        struct ds_lut *lut;
        const uint32_t *offsets;
        uint8_t *bytes;
        char why[160];
        size_t n;

        bytes_of(0, &bytes, &n);
        cr_assert_lt(n, 1024, "small: %zu bytes", n);
        cr_assert_eq(ds_lut_parse(bytes, n, "sim:test", &lut, why, sizeof(why)), 0);
        facts = ds_lut_facts(lut);
        cr_assert_str_eq(facts->model, "sim:test");
        cr_assert_eq(facts->source, DS_LUT_SIMULATED);
        cr_assert_eq(facts->granule_bits, GRANULE_BITS);
        cr_assert_eq(facts->channels, 12);
        cr_assert_eq(facts->patterns, 3 << 8);
        cr_assert_eq(facts->held_right, 49);
        cr_assert_geq(ds_lut_signature(lut, &offsets), 12);
        ds_lut_free(lut);
        cr_assert_eq(ds_lut_parse(bytes, n, "sim:other", &lut, why, sizeof(why)), DS_LUT_E_REFUSED);
        cr_assert_str_eq(why, "it is for sim:test, not for sim:other");
        cr_assert_null(lut);
        ds_free(bytes);
}

/* Compares the channels of each form of table with its formula, computed by hand. */
Test(lut_table, channels_are_the_formulas)
{
        struct ds_learn_draft draft;
        struct ds_lut *lut = made(0, &draft);
        uint32_t pattern = 2u << 8 | 0xa5, x = 0x1b3, digits = 0, parities = 0, sum = 2;

        for (uint32_t i = 0; i < 8; i++) {
                uint32_t bit = (uint32_t)__builtin_parity(draft.mask[i] & x) ^ (0xa5u >> i & 1);

                *(i < 6 ? &digits : &parities) |= bit << (i < 6 ? i : i - 6);
                sum += i < 6 && bit ? draft.weight[i] : 0;
        }
        cr_assert_eq(ds_lut_channel(lut, pattern, x << GRANULE_BITS), draft.channel[parities * 3 + sum % 3]);
        cr_assert_eq(ds_lut_channel(lut, pattern, (x << GRANULE_BITS) + 4095), draft.channel[parities * 3 + sum % 3]);
        ds_lut_free(lut);
        ds_free(draft.channel);
        lut = made(2, &draft);
        /* u = 3 is the third number prime to 7, v = 4; granule 9 is the second of slot 4 */
        cr_assert_eq(ds_lut_channel(lut, 2 * 7 + 4, 9 << GRANULE_BITS), ((3 * 4 + 4) % 7) * 2 + 1);
        ds_lut_free(lut);
        ds_free(draft.channel);
}

/* --- refusals --------------------- */

Test(lut_table, flipped_bits_are_refused)
{
        struct ds_lut *lut;
        uint8_t *bytes;
        char why[160];
        size_t n;

        for (size_t form = 0; form < DS_ARRAY_SIZE(drafts); form++) {
                bytes_of(form, &bytes, &n);
                for (size_t bit = 0; bit < n * 8; bit += form ? 37 : 1) {
                        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                        cr_assert_eq(
                                ds_lut_parse(bytes, n, NULL, &lut, why, sizeof(why)), DS_LUT_E_REFUSED, "bit %zu", bit);
                        cr_assert(why[0]);
                        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                }
                for (size_t length = 0; length < n; length++)
                        cr_assert_eq(ds_lut_parse(bytes, length, NULL, &lut, why, sizeof(why)), DS_LUT_E_REFUSED);
                ds_free(bytes);
        }
}

static void seal(uint8_t *bytes, size_t n)
{
        struct ds_sha256 sum;

        ds_sha256_begin(&sum);
        ds_sha256_add(&sum, bytes, n - DS_SHA256_BYTES);
        ds_sha256_end(&sum, bytes + n - DS_SHA256_BYTES);
}

/* A wrong table with a right checksum: every computed channel lies within the table's number of channels. */
Test(lut_table, lies_with_a_right_sum_do_no_harm)
{
        uint8_t *whole[3], *bytes = ds_alloc(DS_LUT_BYTES_MAX), *told = ds_alloc((size_t)1 << 16);
        uint32_t accepted = 0, refused = 0, at;
        uint64_t state = 3;
        struct ds_lut *lut;
        char why[160];
        size_t n[3], i;

        for (i = 0; i < 3; i++)
                bytes_of(i, &whole[i], &n[i]);
        for (i = 0; i < 3000; i++) {
                size_t size = n[i % 3];

                memcpy(bytes, whole[i % 3], size);
                for (size_t k = 0; k < 1 + i % 3; k++) {
                        at = (uint32_t)(ds_learn_random(&state) % (i % 2 ? size - 32 : sizeof(struct ds_lut_head)));
                        bytes[at] = (uint8_t)ds_learn_random(&state);
                }
                seal(bytes, size);
                if (ds_lut_parse(bytes, size, NULL, &lut, why, sizeof(why))) {
                        refused++;
                } else {
                        accepted++;
                        ds_lut_page(lut, (uint32_t)(ds_learn_random(&state) % lut->facts.patterns), told);
                        for (uint32_t x = 0; x < 1u << lut->bits; x++)
                                cr_assert(told[x] < lut->facts.channels || told[x] == DS_LUT_UNKNOWN);
                        ds_lut_free(lut);
                }
        }
        for (i = 0; i < 3; i++)
                ds_free(whole[i]);
        ds_free(bytes);
        ds_free(told);
        cr_assert_gt(accepted, 100);
        cr_assert_gt(refused, 100);
}

Test(lut_table, what_is_wrong_is_said)
{
        struct ds_lut *lut;
        uint8_t *bytes;
        char why[160];
        size_t n;

        bytes_of(0, &bytes, &n);
        bytes[8] = 2;
        cr_assert_eq(ds_lut_parse(bytes, n, NULL, &lut, why, sizeof(why)), DS_LUT_E_REFUSED);
        cr_assert_str_eq(why, "a table of version 2, this program reads version 1");
        bytes[8] = 1;
        cr_assert_eq(ds_lut_parse(bytes, n - 1, NULL, &lut, why, sizeof(why)), DS_LUT_E_REFUSED);
        cr_assert_str_eq(why, "truncated");
        bytes[n - 40] ^= 1;
        cr_assert_eq(ds_lut_parse(bytes, n, NULL, &lut, why, sizeof(why)), DS_LUT_E_REFUSED);
        cr_assert_str_eq(why, "damaged: the checksum is wrong");
        ds_free(bytes);
        cr_assert_eq(ds_lut_open("/nowhere/at/all", NULL, &lut, why, sizeof(why)), DS_LUT_E_REFUSED);
        cr_assert_str_eq(why, "No such file or directory");
        cr_assert_eq(ds_lut_open("/dev/null", NULL, &lut, why, sizeof(why)), DS_LUT_E_REFUSED);
}

/* --- patterns and names --- */

/* Every pattern of a table is found by its signature, also with two wrong probe results. */
Test(lut_table, patterns_by_probes)
{
        struct ds_learn_draft draft;
        struct ds_lut_probe probes[DS_LUT_PROBES_MAX];
        const uint32_t *offsets;
        uint32_t pattern, step;
        uint64_t state = 5;
        struct ds_lut *lut;
        size_t n;

        for (size_t form = 0; form < DS_ARRAY_SIZE(drafts); form++) {
                lut = made(form, &draft);
                n = ds_lut_signature(lut, &offsets);
                step = lut->facts.patterns > 100 ? 7 : 1;
                for (uint32_t want = 0; want < lut->facts.patterns; want += step) {
                        for (size_t i = 0; i < n; i++)
                                probes[i] = (struct ds_lut_probe){offsets[i], ds_lut_channel(lut, want, offsets[i])};
                        for (int k = 0; k < 2; k++)
                                probes[ds_learn_random(&state) % n].channel =
                                        (uint8_t)(ds_learn_random(&state) % lut->facts.channels);
                        cr_assert_eq(ds_lut_match(lut, probes, n, &pattern), 0, "form %zu pattern %u", form, want);
                        cr_assert_eq(pattern, want);
                }
                for (size_t i = 0; i < n; i++)
                        probes[i].channel = (uint8_t)(ds_learn_random(&state) % lut->facts.channels);
                cr_assert_eq(ds_lut_match(lut, probes, n, &pattern), DS_LUT_E_NO_PATTERN, "chance is no pattern");
                cr_assert_eq(ds_lut_match(lut, probes, 0, &pattern), DS_LUT_E_NO_PATTERN);
                ds_lut_free(lut);
                ds_free(draft.channel);
        }
}

/* Pages whose channels are numbered as in another run, with wrong labels and gaps: the mapping that is found
 * predicts all pages rightly. */
Test(lut_table, names_by_pages)
{
        static uint8_t pages[2][GRANULES], told[GRANULES];
        const uint8_t *both[] = {pages[0], pages[1]};
        struct ds_learn_draft draft;
        struct ds_lut_probe probes[64];
        uint8_t names[DS_LUT_CHANNELS_MAX];
        uint32_t pattern, right;
        uint64_t state = 9;
        struct ds_lut *lut;

        for (size_t form = 0; form < DS_ARRAY_SIZE(drafts); form++) {
                lut = made(form, &draft);
                for (size_t page = 0; page < 2; page++) {
                        ds_lut_page(lut, (uint32_t)(ds_learn_random(&state) % lut->facts.patterns), pages[page]);
                        for (uint32_t x = 0; x < GRANULES; x++) {
                                pages[page][x] = (uint8_t)((pages[page][x] + 3) % lut->facts.channels + 20);
                                if (ds_learn_random(&state) % 20 == 0)
                                        pages[page][x] = (uint8_t)(ds_learn_random(&state) % lut->facts.channels + 20);
                                if (ds_learn_random(&state) % 20 == 0)
                                        pages[page][x] = DS_LUT_UNKNOWN;
                        }
                }
                cr_assert_eq(ds_lut_align(lut, both, 2, names), 0, "form %zu", form);
                cr_assert_eq(names[0], DS_LUT_UNKNOWN);
                for (uint32_t i = 0; i < 64; i++) {
                        uint32_t x = ds_lut_spread(i, 9);

                        probes[i] = (struct ds_lut_probe){
                                x << GRANULE_BITS, pages[1][x] == DS_LUT_UNKNOWN ? DS_LUT_UNKNOWN : names[pages[1][x]]};
                }
                cr_assert_eq(ds_lut_match(lut, probes, 64, &pattern), 0);
                ds_lut_page(lut, pattern, told);
                right = 0;
                for (uint32_t x = 0; x < GRANULES; x++)
                        right += pages[1][x] != DS_LUT_UNKNOWN && names[pages[1][x]] == told[x];
                cr_assert_gt(right, GRANULES * 8 / 10);
                for (uint32_t x = 0; x < GRANULES; x++)
                        pages[1][x] = (uint8_t)(ds_learn_random(&state) % lut->facts.channels + 20);
                cr_assert_eq(ds_lut_align(lut, both, 2, names), DS_LUT_E_NO_PATTERN, "another board");
                ds_lut_free(lut);
                ds_free(draft.channel);
        }
}

/* --- files of samples --- */

static const struct ds_lut_about about = {
        .device = "sim:test", .source = DS_LUT_SIMULATED, .unit_bits = 10, .page_bits = 21, .bus_bits = 384};

static struct ds_lut_writer *writer_of(const char *path)
{
        struct ds_lut_writer *writer;
        char why[160];

        cr_assert_eq(ds_lut_writer_open(path, &about, &writer, why, sizeof(why)), 0, "%s", why);
        return writer;
}

static void put(struct ds_lut_writer *writer, uint64_t page, uint32_t run, uint32_t n)
{
        struct ds_lut_sample samples[64];

        for (uint32_t i = 0; i < n; i++)
                samples[i] = (struct ds_lut_sample){i * 3, (uint8_t)(i % 5)};
        cr_assert_eq(ds_lut_writer_put(writer, &(struct ds_lut_block){page << 21, run, n, samples}), 0);
}

/* A file of samples that is truncated at any byte keeps its whole blocks, and a run can continue it. */
Test(lut_samples, cut_off_at_any_byte)
{
        char path[] = "/tmp/lut_samples_XXXXXX", why[160];
        struct ds_lut_samples *samples;
        struct ds_lut_writer *writer;
        uint8_t bytes[4096];
        size_t whole[3];
        ssize_t size;
        struct stat st;
        int fd = mkstemp(path);

        for (uint32_t i = 0; i < 3; i++) {
                writer = writer_of(path);
                put(writer, i, i / 2, 10 + i);
                cr_assert_eq(ds_lut_writer_close(writer), 0);
                cr_assert_eq(stat(path, &st), 0);
                whole[i] = (size_t)st.st_size;
        }
        size = pread(fd, bytes, sizeof(bytes), 0);
        cr_assert_eq((size_t)size, whole[2]);
        for (size_t cut = 0; cut <= whole[2]; cut++) {
                /* every byte outside of samples, and some bytes of samples, because each case costs disk writes */
                if (cut > whole[0] - 4 && cut + 4 < whole[2] && cut % 7 && cut != whole[0] && cut != whole[1])
                        continue;
                size_t want = (cut >= whole[0]) + (cut >= whole[1]) + (cut >= whole[2]);

                cr_assert_eq(ftruncate(fd, 0), 0);
                cr_assert_eq(pwrite(fd, bytes, cut, 0), (ssize_t)cut);
                writer = writer_of(path);
                put(writer, 9, 5, 4);
                cr_assert_eq(ds_lut_writer_close(writer), 0);
                cr_assert_eq(ds_lut_samples_read(path, &samples, why, sizeof(why)), 0, "cut at %zu: %s", cut, why);
                cr_assert_eq(samples->n_blocks, want + 1, "cut at %zu", cut);
                cr_assert_eq(samples->torn, 0);
                cr_assert_eq(samples->next_run, 6);
                cr_assert_eq(samples->blocks[want].address, UINT64_C(9) << 21);
                cr_assert_eq(samples->blocks[want].samples[3].unit, 9);
                cr_assert_eq(samples->blocks[want].samples[3].label, 3);
                ds_lut_samples_free(samples);
        }
        close(fd);
        unlink(path);
}

/* Damage followed by more than one block is no truncation: nothing is removed. */
Test(lut_samples, damaged_in_the_middle)
{
        char path[] = "/tmp/lut_samples_XXXXXX", why[160];
        struct ds_lut_writer *writer;
        int fd = mkstemp(path);
        off_t first;
        uint8_t byte;

        writer = writer_of(path);
        put(writer, 0, 0, 20);
        first = lseek(fd, 0, SEEK_END);
        for (uint64_t page = 1; page < 200; page++)
                put(writer, page, 0, 20);
        cr_assert_eq(ds_lut_writer_close(writer), 0);
        cr_assert_eq(pread(fd, &byte, 1, first + 40), 1);
        byte ^= 1;
        cr_assert_eq(pwrite(fd, &byte, 1, first + 40), 1);
        first = lseek(fd, 0, SEEK_END);
        cr_assert_eq(ds_lut_writer_open(path, &about, &writer, why, sizeof(why)), DS_LUT_SAMPLES_E_REFUSED);
        cr_assert_str_eq(why, "damaged in the middle, with more samples behind it");
        cr_assert_eq(lseek(fd, 0, SEEK_END), first);
        close(fd);
        unlink(path);
}

/* The greatest run number is reserved: no run gets it. */
Test(lut_samples, last_run)
{
        char path[] = "/tmp/lut_samples_XXXXXX";
        struct ds_lut_sample sample = {0, 0};
        struct ds_lut_writer *writer;
        int fd = mkstemp(path);

        close(fd);
        writer = writer_of(path);
        cr_assert_eq(ds_lut_writer_put(writer, &(struct ds_lut_block){0, UINT32_MAX, 1, &sample}), -EINVAL);
        put(writer, 1, UINT32_MAX - 1, 3);
        cr_assert_eq(ds_lut_writer_close(writer), 0);
        unlink(path);
}

Test(lut_samples, others_are_refused)
{
        char path[] = "/tmp/lut_samples_XXXXXX", why[160];
        struct ds_lut_about other = about;
        struct ds_lut_samples *samples;
        struct ds_lut_writer *writer, *second;
        int fd = mkstemp(path);

        writer = writer_of(path);
        cr_assert_eq(ds_lut_writer_open(path, &about, &second, why, sizeof(why)), DS_LUT_SAMPLES_E_REFUSED);
        cr_assert_str_eq(why, "another program is writing to it");
        ds_lut_writer_close(writer);
        strcpy(other.device, "sim:other");
        cr_assert_eq(ds_lut_writer_open(path, &other, &writer, why, sizeof(why)), DS_LUT_SAMPLES_E_REFUSED);
        cr_assert_str_eq(why, "its samples are of another device, driver or size");
        other.unit_bits = 40;
        cr_assert_eq(ds_lut_writer_open(path, &other, &writer, why, sizeof(why)), DS_LUT_SAMPLES_E_REFUSED);
        cr_assert_eq(pwrite(fd, "x", 1, 20), 1);
        cr_assert_eq(ds_lut_samples_read(path, &samples, why, sizeof(why)), DS_LUT_SAMPLES_E_REFUSED);
        cr_assert_str_eq(why, "its header is damaged");
        cr_assert_eq(ds_lut_writer_open(path, &about, &writer, why, sizeof(why)), DS_LUT_SAMPLES_E_REFUSED);
        close(fd);
        unlink(path);
}
