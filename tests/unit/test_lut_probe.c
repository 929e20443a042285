/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channel probe on synthetic times: thresholds, channels, granules and labels, also with one wrong comparison in
 * twenty; truncated files
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lut/probe/label.h"
#include "lut/probe/structure.h"
#include "lut/samples.h"
#include "lut/table.h"
#include "util/alloc.h"
#include "util/macro.h"

#define PAGES 3u
#define LOW 6700.0
#define HIGH 13000.0

/* --- a synthetic memory ----------- */

struct fake {
        uint32_t granule_bits, n;
        uint32_t false_positive, false_negative; /* wrong comparisons per 1000 */
        bool paired, deaf;                       /* deaf: the probe's listening mode detects nothing */
        /* a line that contends with no other line from this comparison on, while it is being compared */
        uint64_t shy_from, shy;
        bool shy_stays; /* true: also at later comparisons */
        uint64_t random, asked;
        uint32_t width;
};

static uint64_t next(uint64_t *state)
{
        uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

/* True channel of a line: granules change channel one by one, or in pairs a,b,a,b in each four. */
static uint32_t truth(const struct fake *fake, uint64_t line)
{
        uint64_t granule = line >> fake->granule_bits, piece = granule >> 2, state = piece;

        if (!fake->paired)
                return (uint32_t)((granule * 5 + granule / fake->n * 3) % fake->n);
        return (uint32_t)((next(&state) + (granule & 1)) % fake->n);
}

static bool chance(struct fake *fake, uint32_t of_1000)
{
        return next(&fake->random) % 1000 < of_1000;
}

static uint32_t took(struct fake *fake, bool same)
{
        double base = (same ? !chance(fake, fake->false_negative) : chance(fake, fake->false_positive)) ? HIGH : LOW;

        return (uint32_t)(base * (0.97 + 0.06 * (double)(next(&fake->random) % 1000) / 1000));
}

/* Whether the pair contains the line that contends with no other. That state of the line ends at the first
 * comparison without the line, unless shy_stays is set. */
static bool is_shy(struct fake *fake, const struct ds_probe_pair *pair)
{
        const bool it = fake->shy && (pair->a == fake->shy || pair->b == fake->shy);

        if (fake->shy && !it && !fake->shy_stays)
                fake->shy = 1;
        return it;
}

static int fake_pairs(void *user, const struct ds_probe_pair *pairs, size_t n, uint32_t *ticks)
{
        struct fake *fake = user;

        fake->asked += n;
        if (fake->shy_from && fake->asked > fake->shy_from && !fake->shy)
                fake->shy = pairs[0].a;
        for (size_t i = 0; i < n; i++) {
                cr_assert_neq(pairs[i].a, pairs[i].b, "a line and itself");
                ticks[i] = took(fake, truth(fake, pairs[i].a) == truth(fake, pairs[i].b) && !is_shy(fake, &pairs[i]));
        }
        return 0;
}

static int fake_listen(
        void *user, const uint64_t *known, uint32_t n_known, const uint64_t *lines, size_t n, uint32_t *ticks)
{
        struct fake *fake = user;

        for (size_t i = 0; i < n; i++)
                for (uint32_t k = 0; k < n_known; k++)
                        ticks[i * n_known + k] =
                                took(fake, !fake->deaf && truth(fake, known[k]) == truth(fake, lines[i])) * (k + 3);
        return 0;
}

static int fake_widen(void *user, uint32_t bytes)
{
        struct fake *fake = user;

        fake->width = bytes;
        return 0;
}

/* Probes the whole memory and compares the labels with the true channels. */
static void all_of_it(struct fake *fake, bool listens, double wrong_most, double asked_most)
{
        struct ds_probe_meter meter = {
                .user = fake, .pairs = fake_pairs, .listen = listens ? fake_listen : NULL, .widen = fake_widen};
        uint64_t pages[PAGES] = {DS_PROBE_PAGE * 7, DS_PROBE_PAGE * 11, DS_PROBE_PAGE * 100}, lines[DS_PROBE_LINES_MAX];
        uint32_t granules = (uint32_t)(DS_PROBE_PAGE >> fake->granule_bits), name[DS_PROBE_CHANNELS_MAX], wrong = 0;
        uint8_t *labels = malloc((size_t)granules * PAGES);
        ds_cleanup(ds_probe_freep) ds_probe *probe = NULL;

        cr_assert_eq(ds_probe_new(&meter, pages, PAGES, 5, &probe), 0);
        cr_assert_eq(ds_probe_calibrate(probe), 0);
        cr_assert_eq(ds_probe_granule_bits(probe), fake->granule_bits);
        cr_assert_eq(fake->width, fake->granule_bits > 7 ? 1u << fake->granule_bits : 0);
        cr_assert_eq(ds_probe_find_channels(probe), 0);
        cr_assert_eq(ds_probe_channels(probe), fake->n, "%u channels", ds_probe_channels(probe));
        cr_assert_eq(ds_probe_quality(probe)->listens, listens && !fake->deaf);
        for (uint32_t c = 0; c < fake->n; c++) {
                cr_assert(ds_probe_known(probe, c, lines) > 1);
                name[c] = truth(fake, lines[0]);
        }
        fake->asked = 0;
        cr_assert_eq(ds_probe_label(probe, pages, PAGES, NULL, labels), 0);
        for (uint32_t i = 0; i < granules * PAGES; i++) {
                uint64_t line = pages[i / granules] + ((uint64_t)(i % granules) << fake->granule_bits);

                wrong += labels[i] == DS_PROBE_NONE || name[labels[i]] != truth(fake, line);
        }
        cr_assert(wrong <= wrong_most * granules * PAGES, "%u of %u", wrong, granules * PAGES);
        cr_assert(fake->asked <= asked_most * granules * PAGES, "%llu comparisons for %u granules",
                (unsigned long long)fake->asked, granules * PAGES);
        cr_assert_eq(ds_probe_counts(probe)->granules, granules * PAGES);
        free(labels);
}

Test(lut_probe, regular_memory_needs_little)
{
        all_of_it(&(struct fake){.granule_bits = 12, .n = 8, .random = 1}, false, 0, 4);
        all_of_it(&(struct fake){.granule_bits = 10, .n = 12, .random = 2}, false, 0, 3);
        all_of_it(&(struct fake){.granule_bits = 7, .n = 6, .random = 3}, false, 0, 2.5);
}

Test(lut_probe, one_of_twenty_is_wrong)
{
        for (uint32_t percent = 1; percent <= 5; percent += 2)
                all_of_it(
                        &(struct fake){.granule_bits = 10, .n = 12, .false_positive = 10 * percent, .random = percent},
                        false, 0.001, 12);
        all_of_it(&(struct fake){.granule_bits = 10, .n = 12, .false_positive = 30, .false_negative = 30, .random = 9},
                false, 0.001, 16);
}

Test(lut_probe, forty_seven_channels_in_pairs)
{
        all_of_it(&(struct fake){.granule_bits = 8, .n = 47, .paired = true, .random = 4}, false, 0.0005, 9);
}

Test(lut_probe, all_channels_at_once)
{
        all_of_it(&(struct fake){.granule_bits = 8, .n = 47, .paired = true, .random = 5}, true, 0.0005, 1);
        all_of_it(&(struct fake){.granule_bits = 8, .n = 47, .paired = true, .false_positive = 5, .random = 6}, true,
                0.001, 1.5);
        /* listening is not used where it detects nothing */
        all_of_it(&(struct fake){.granule_bits = 10, .n = 12, .deaf = true, .random = 7}, true, 0, 3);
}

/* Number of comparisons until all channels are found. */
static uint64_t found_by(struct fake *fake)
{
        struct ds_probe_meter meter = {.user = fake, .pairs = fake_pairs};
        uint64_t pages[PAGES] = {DS_PROBE_PAGE * 7, DS_PROBE_PAGE * 11, DS_PROBE_PAGE * 100};
        ds_cleanup(ds_probe_freep) ds_probe *probe = NULL;

        cr_assert_eq(ds_probe_new(&meter, pages, PAGES, 5, &probe), 0);
        cr_assert_eq(ds_probe_calibrate(probe), 0);
        fake->asked = 0;
        cr_assert_eq(ds_probe_find_channels(probe), 0);
        cr_assert_eq(ds_probe_channels(probe), fake->n, "%u channels", ds_probe_channels(probe));
        return fake->asked;
}

/* A misjudged line looks like a channel of its own. The probe soon gives up its search for a second line of that
 * channel. */
Test(lut_probe, a_line_that_was_misjudged_costs_little)
{
        struct fake plain = {.granule_bits = 10, .n = 12}, once = {.granule_bits = 10, .n = 12},
                    always = {.granule_bits = 10, .n = 12};
        uint64_t needed = found_by(&plain);

        once.shy_from = needed / 4;
        cr_assert(found_by(&once) < needed * 3 / 2);
        cr_assert(once.shy > 0);
        always.shy_from = needed / 4;
        always.shy_stays = true;
        cr_assert(found_by(&always) < needed * 3);
        cr_assert(always.shy > 1);
}

Test(lut_probe, only_what_is_wanted)
{
        struct fake fake = {.granule_bits = 10, .n = 12, .random = 8};
        struct ds_probe_meter meter = {.user = &fake, .pairs = fake_pairs};
        uint64_t page = DS_PROBE_PAGE * 3;
        ds_cleanup(ds_probe_freep) ds_probe *probe = NULL;
        uint8_t wanted[2048 / 8] = {[5] = 0xff, [100] = 0x21}, labels[2048];

        cr_assert_eq(ds_probe_new(&meter, &page, 1, 5, &probe), 0);
        cr_assert_eq(ds_probe_calibrate(probe), 0);
        cr_assert_eq(ds_probe_find_channels(probe), 0);
        cr_assert_eq(ds_probe_label(probe, &page, 1, wanted, labels), 0);
        for (uint32_t i = 0; i < 2048; i++)
                cr_assert_eq(labels[i] != DS_PROBE_NONE, wanted[i / 8] >> i % 8 & 1, "granule %u", i);
}

Test(lut_probe, memory_without_channels_is_refused)
{
        struct fake fake = {.granule_bits = 10, .n = 1, .random = 8};
        struct ds_probe_meter meter = {.user = &fake, .pairs = fake_pairs};
        uint64_t page = DS_PROBE_PAGE * 3;
        ds_cleanup(ds_probe_freep) ds_probe *probe = NULL;

        cr_assert_eq(ds_probe_new(&meter, &page, 1, 5, &probe), 0);
        cr_assert_eq(ds_probe_calibrate(probe), DS_PROBE_E_ONE_KIND);
}

/* --- thresholds --- */

static double normal(uint64_t *state)
{
        double sum = 0;

        for (int i = 0; i < 12; i++)
                sum += (double)(next(state) >> 11) / 9007199254740992.0;
        return sum - 6;
}

/* Splits n times: `second` of 1000 are around `high`, `astray` of 1000 far beyond, the rest low. */
static int split_of(uint32_t second, uint32_t astray, double high, double deviation, struct ds_probe_split *ret)
{
        enum { N = 3000 };
        static uint32_t ticks[N];
        uint64_t state = second + 7 * astray;

        for (uint32_t i = 0; i < N; i++) {
                double base = next(&state) % 1000 < second ? high : 1000;

                if (next(&state) % 1000 < astray)
                        base = 6000;
                ticks[i] = (uint32_t)(base * exp(deviation * normal(&state)));
        }
        return ds_probe_split(ticks, N, DS_PROBE_RATIO, ret);
}

Test(lut_probe, two_kinds_are_told_apart)
{
        static const uint32_t shares[] = {15, 21, 83, 167, 500, 900};
        struct ds_probe_split split;

        for (size_t i = 0; i < DS_ARRAY_SIZE(shares); i++) {
                for (uint32_t astray = 0; astray <= 2; astray += 2) {
                        cr_assert_eq(split_of(shares[i], astray, 1940, 0.05, &split), 0, "%u of 1000", shares[i]);
                        cr_assert(
                                split.threshold > 1150 && split.threshold < 1700, "%u: %f", shares[i], split.threshold);
                        cr_assert(fabs(split.share * 1000 - shares[i]) < 0.2 * shares[i] + 5, "%f", split.share);
                        cr_assert(split.low > 950 && split.low < 1050 && split.high > 1800 && split.high < 2050);
                        cr_assert(split.doubt[0] < split.threshold && split.threshold < split.doubt[1]);
                }
        }
}

Test(lut_probe, one_kind_is_not_two)
{
        struct ds_probe_split split;
        uint32_t few[10] = {1, 1, 1, 1, 1, 9, 9, 9, 9, 9}, ramp[1000];

        for (double deviation = 0.001; deviation < 1; deviation *= 3)
                cr_assert_eq(split_of(0, 0, 0, deviation, &split), DS_PROBE_E_ONE_KIND, "%f", deviation);
        cr_assert_eq(split_of(0, 2, 0, 0.05, &split), DS_PROBE_E_ONE_KIND, "what went astray is no kind");
        cr_assert_eq(split_of(100, 0, 1100, 0.01, &split), DS_PROBE_E_ONE_KIND, "too near");
        cr_assert_eq(split_of(300, 0, 1940, 0.3, &split), DS_PROBE_E_ONE_KIND, "they run into each other");
        cr_assert_eq(ds_probe_split(few, DS_ARRAY_SIZE(few), DS_PROBE_RATIO, &split), DS_PROBE_E_ONE_KIND);
        for (uint32_t i = 0; i < 1000; i++)
                ramp[i] = 1000 + i;
        cr_assert_eq(ds_probe_split(ramp, 1000, DS_PROBE_RATIO, &split), DS_PROBE_E_ONE_KIND);
}

/* --- structure --- */

Test(lut_probe, regular_structure_is_recognised)
{
        /* pairs a,b,a,b of a ring of five */
        ds_structure *s = ds_structure_new(8);
        struct ds_structure_size size;
        uint8_t labels[4000];
        uint64_t bits[4], state = 3;
        double least, most;

        for (uint32_t i = 0; i < 4000; i += 4) {
                uint8_t a = (uint8_t)(next(&state) % 5), b = (uint8_t)((a + 1) % 5);

                memcpy(labels + i, (uint8_t[]){a, b, a, b}, 4);
        }
        labels[17] = 200;
        ds_structure_add(s, labels, 4000, 200);
        cr_assert_eq(ds_structure_channels(s, &least, &most), 5);
        cr_assert(least > 0.15 && most < 0.25);
        ds_structure_size(s, 1, &size);
        cr_assert(size.granules == 4 && size.pieces == 999 && size.least == 2 && size.most == 2 && size.sets == 5);
        cr_assert(size.again == 1);
        for (uint32_t c = 0; c < 5; c++) {
                cr_assert_eq(ds_structure_neighbours(s, c, bits), 2);
                cr_assert_eq(bits[0], UINT64_C(1) << (c + 1) % 5 | UINT64_C(1) << (c + 4) % 5);
        }
        ds_structure_free(s);
}

/* --- files --- */

static const struct ds_lut_about about = {
        .device = "sim:p40", .source = DS_LUT_SIMULATED, .unit_bits = 10, .page_bits = 21, .bus_bits = 384};

static void append(const char *path, uint64_t page, uint32_t run)
{
        struct ds_lut_sample samples[3] = {{1, 2}, {5, 3}, {2047, DS_LUT_SAMPLE_UNKNOWN}};
        struct ds_lut_block block = {.address = page, .run = run, .n = 3, .samples = samples};
        struct ds_lut_writer *writer = NULL;
        char why[160] = "";

        cr_assert_eq(ds_lut_writer_open(path, &about, &writer, why, sizeof(why)), 0, "%s", why);
        cr_assert_eq(ds_lut_writer_put(writer, &block), 0);
        cr_assert_eq(ds_lut_writer_close(writer), 0);
}

/* After a truncation at any byte, the next run continues behind the last whole page. */
Test(lut_probe, a_file_that_was_cut_anywhere_goes_on)
{
        char path[] = "/tmp/lut-probe-XXXXXX", why[160];
        int fd = mkstemp(path);
        struct ds_lut_samples *samples = NULL;
        off_t one, all;

        cr_assert(fd >= 0 && !unlink(path));
        append(path, DS_PROBE_PAGE * 4, 0);
        close(fd);
        cr_assert_eq(ds_lut_samples_read(path, &samples, why, sizeof(why)), 0);
        ds_lut_samples_free(samples);
        fd = open(path, O_RDWR | O_CLOEXEC);
        one = lseek(fd, 0, SEEK_END);
        append(path, DS_PROBE_PAGE * 5, 0);
        all = lseek(fd, 0, SEEK_END);
        for (off_t cut = one; cut < all; cut++) {
                cr_assert_eq(ftruncate(fd, cut), 0);
                append(path, DS_PROBE_PAGE * 6, 1);
                cr_assert_eq(lseek(fd, 0, SEEK_END), all, "cut at %lld", (long long)cut);
                cr_assert_eq(ds_lut_samples_read(path, &samples, why, sizeof(why)), 0, "%s", why);
                cr_assert(samples->n_blocks == 2 && !samples->torn && samples->next_run == 2);
                cr_assert_eq(samples->blocks[0].address, DS_PROBE_PAGE * 4);
                cr_assert(samples->blocks[1].address == DS_PROBE_PAGE * 6 && samples->blocks[1].samples[1].label == 3);
                ds_lut_samples_free(samples);
        }
        close(fd);
        unlink(path);
}
