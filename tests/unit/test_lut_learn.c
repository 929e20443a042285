/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning tables from at most 15,000 samples, some of them wrong; the tables must be right in regions without samples
 *
 * The hashes are those of the simulated models, and random ones of the family that real parts use. `make test` uses the
 * same few each time. DETSHARE_LUT_HASHES=N draws N hashes seeded by the clock, and prints the seeds that repeat them.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/sim/channel.h"
#include "lut/learn/build.h"
#include "lut/learn/lattice.h"
#include "lut/learn/learn.h"
#include "lut/learn/network.h"
#include "lut/learn/places.h"
#include "lut/table.h"
#include "tests/support/lut_hash.h"
#include "tests/unit/rounds.h"
#include "util/alloc.h"
#include "util/macro.h"

/* a sanitized short run leaves long computations to the plain run */
#define SANITIZED (ROUNDS_SANITIZED && !rounds_are_all())

#define PAGE (UINT64_C(1) << 21)
#define SAMPLED_PAGES 48
#define SAMPLED_BITS 13 /* samples lie in pages below 2^34, predictions in pages between 2^34 and 2^35 */
#define TOLD_PAGES 24

struct subject {
        uint32_t (*channel)(const void *hash, uint64_t address);
        const void *hash;
        unsigned granule_bits;
        uint32_t channels;
};

static uint32_t of_simulated(const void *hash, uint64_t address)
{
        return sim_channel_of(hash, address);
}

static uint32_t of_drawn(const void *hash, uint64_t address)
{
        return lut_hash_channel(hash, address);
}

static uint8_t label(const struct subject *subject, uint64_t address, uint64_t *state, uint32_t wrong_percent)
{
        if (ds_learn_random(state) % 100 < wrong_percent)
                return (uint8_t)(ds_learn_random(state) % subject->channels);
        return (uint8_t)subject->channel(subject->hash, address);
}

/* Labels whole pages of the lower region, as a probe does. */
static struct ds_lut_samples *sampled(const struct subject *subject, uint32_t wrong_percent, uint64_t *state)
{
        struct ds_lut_samples *samples = ds_alloc0(1, sizeof(*samples));
        uint32_t n = 1u << (21 - subject->granule_bits);

        samples->about = (struct ds_lut_about){
                .device = "sim:drawn", .source = DS_LUT_SIMULATED, .unit_bits = subject->granule_bits, .page_bits = 21};
        samples->n_blocks = SAMPLED_PAGES;
        samples->blocks = ds_alloc0(SAMPLED_PAGES, sizeof(*samples->blocks));
        for (size_t i = 0; i < SAMPLED_PAGES; i++) {
                struct ds_lut_block *block = &samples->blocks[i];

                block->address = ds_learn_random(state) % (1u << SAMPLED_BITS) * PAGE;
                block->n = n;
                block->samples = ds_alloc0(n, sizeof(*block->samples));
                for (uint32_t x = 0; x < n; x++)
                        block->samples[x] = (struct ds_lut_sample){
                                x, label(subject, block->address + ((uint64_t)x << subject->granule_bits), state,
                                           wrong_percent)};
        }
        return samples;
}

/* Predicts pages of the upper region by their signatures. Returns the share of granules with the right channel. */
static double told_right(
        const struct subject *subject, const struct ds_lut *lut, uint32_t wrong_percent, uint64_t *state)
{
        const struct ds_lut_facts *facts = ds_lut_facts(lut);
        struct ds_lut_probe probes[DS_LUT_PROBES_MAX];
        const uint32_t *offsets;
        size_t n = ds_lut_signature(lut, &offsets);
        uint64_t right = 0, all = 0, page;
        uint32_t pattern;
        bool matched;

        for (int i = 0; i < TOLD_PAGES; i++) {
                page = (ds_learn_random(state) % (1u << SAMPLED_BITS) + (1u << SAMPLED_BITS)) * PAGE;
                for (size_t k = 0; k < n; k++)
                        probes[k] = (struct ds_lut_probe){
                                offsets[k], label(subject, page + offsets[k], state, wrong_percent)};
                matched = ds_lut_match(lut, probes, n, &pattern) == 0;
                for (uint32_t at = 0; at < PAGE; at += 1u << facts->granule_bits) {
                        right += matched &&
                                 ds_lut_channel(lut, pattern, at) == subject->channel(subject->hash, page + at);
                        all++;
                }
        }
        return (double)right / (double)all;
}

/* Learns a table from samples. Returns 0 and the table, or the learner's error. */
static int learn_table(const struct subject *subject, enum ds_learn_method method, uint32_t n, uint32_t wrong_percent,
        struct ds_lut **ret)
{
        struct ds_learn_options options = {.method = method, .samples = n, .seed = 1, .learner = "the test"};
        uint64_t state = 11;
        struct ds_lut_samples *samples = sampled(subject, wrong_percent, &state);
        uint8_t *bytes;
        char why[160];
        size_t size;
        int r = ds_learn(samples, &options, &bytes, &size);

        ds_lut_samples_free(samples);
        if (r)
                return r;
        cr_assert_eq(ds_lut_parse(bytes, size, "sim:drawn", ret, why, sizeof(why)), 0, "%s", why);
        ds_free(bytes);
        cr_assert_leq(ds_lut_facts(*ret)->samples, n);
        return 0;
}

/* Learns a table and predicts the upper region. Returns 0 and the share of right predictions, or the learner's
 * error. */
static int learn(
        const struct subject *subject, enum ds_learn_method method, uint32_t n, uint32_t wrong_percent, double *ret)
{
        uint64_t state = 12;
        struct ds_lut *lut;
        int r = learn_table(subject, method, n, wrong_percent, &lut);

        if (r)
                return r;
        *ret = told_right(subject, lut, wrong_percent, &state);
        ds_lut_free(lut);
        return 0;
}

static void learns(const struct subject *subject, uint32_t n, uint32_t wrong_percent, const char *what)
{
        double right = 0;
        int r = learn(subject, DS_LEARN_STRUCTURE, n, wrong_percent, &right);

        cr_assert_eq(r, 0, "%s: code %d", what, r);
        cr_assert_geq(right, 0.999, "%s: %.4f%% right", what, 100 * right);
}

/* Fewer than the permitted 15,000 samples, because the time of the test grows with their number. */
Test(lut_learn, p40)
{
        const struct sim_channels hash = {SIM_CHANNELS_GROUPS, 12, 4};

        learns(&(struct subject){of_simulated, &hash, 10, 12}, 9000, 4, "p40");
}

Test(lut_learn, a2000)
{
        const struct sim_channels hash = {SIM_CHANNELS_GROUPS, 6, 2};

        learns(&(struct subject){of_simulated, &hash, 10, 6}, 9000, 4, "a2000");
}

Test(lut_learn, gtx1080)
{
        const struct sim_channels hash = {SIM_CHANNELS_XOR, 8, 0};

        learns(&(struct subject){of_simulated, &hash, 10, 8}, 9000, 5, "gtx1080");
}

/* 47 channels in pairs of granules; needs all samples and some seconds */
Test(lut_learn, h200)
{
        const struct sim_channels hash = {SIM_CHANNELS_PAIRED, 47, 0};
        struct subject subject = {of_simulated, &hash, 8, 47};

        if (getenv("DETSHARE_LUT_HASHES"))
                learns(&subject, 15000, 3, "h200");
}

static void learn_drawn(uint64_t seed, bool shared, uint32_t n, uint32_t wrong_percent)
{
        struct lut_hash hash;
        char what[160], text[256];

        lut_hash_draw(&hash, seed, shared);
        lut_hash_describe(&hash, what, sizeof(what));
        snprintf(text, sizeof(text), "hash %llu%s (%s)", (unsigned long long)seed, shared ? " shared" : "", what);
        learns(&(struct subject){of_drawn, &hash, hash.granule_bits, hash.channels}, n, wrong_percent, text);
        if (getenv("DETSHARE_LUT_HASHES"))
                fprintf(stderr, "%s: learnt\n", text);
}

static void learn_places(uint64_t seed, uint32_t n, uint32_t wrong_percent)
{
        struct lut_hash hash;
        char what[160], text[256];

        lut_hash_draw_places(&hash, seed);
        lut_hash_describe(&hash, what, sizeof(what));
        snprintf(text, sizeof(text), "places %llu (%s)", (unsigned long long)seed, what);
        learns(&(struct subject){of_drawn, &hash, hash.granule_bits, hash.channels}, n, wrong_percent, text);
        if (getenv("DETSHARE_LUT_HASHES"))
                fprintf(stderr, "%s: learnt\n", text);
}

Test(lut_learn, drawn)
{
        learn_drawn(14, false, 9000, 3);
}

Test(lut_learn, drawn_with_shared_bits)
{
        learn_drawn(16, true, 9000, 5);
}

/* Hashes to 33 channels by a number modulo 65: two values per channel, one channel with a single value. Then hashes
 * to fewer channels, one of them with a parity as well */
Test(lut_learn, drawn_with_places)
{
        learn_places(10, 6000, 3); /* a number with two values per channel */
}

/* The learner steps through samples by a prime; a number of samples equal to that prime must not make it visit only
 * one. */
Test(lut_learn, as_many_samples_as_the_step)
{
        struct lut_hash hash;
        struct subject subject = {of_drawn, &hash, 10, 0};
        struct ds_lut *lut;

        lut_hash_draw_places(&hash, 21);
        subject.channels = hash.channels;
        cr_assert_eq(learn_table(&subject, DS_LEARN_STRUCTURE, 7919, 0, &lut), 0);
        cr_expect_eq(ds_lut_facts(lut)->form, DS_LUT_PLACES);
        ds_lut_free(lut);
}

/* The learner compares all pairs of a page's granules; here a page has more granules than any probe produces. */
Test(lut_learn, granules_that_are_too_small_for_places)
{
        const struct ds_learn_set set = {
                .granule_bits = 5, .bits = 16, .channels = 47, .n_pages = 20, .n_known = 1u << 20};
        struct ds_learn_draft draft = {};
        double explained;

        cr_expect_eq(ds_learn_find_places(&set, &draft, &explained), DS_LEARN_E_NONE);
}

/* Two probes number the channels differently. Two partly measured pages determine the mapping between their numbers,
 * and it predicts a third page. */
Test(lut_learn, places_under_other_names)
{
        enum { PAGES = 3, GRANULES = 2048 };
        struct lut_hash hash;
        struct subject subject = {of_drawn, &hash, 10, 0};
        uint8_t pages[PAGES][GRANULES], name[64], names[DS_LUT_CHANNELS_MAX];
        struct ds_lut_probe probes[64];
        uint64_t state = 5, first;
        struct ds_lut *lut;
        uint32_t pattern, wrong = 0;

        lut_hash_draw_places(&hash, 21);
        subject.channels = hash.channels;
        cr_assert_eq(hash.granule_bits, 10);
        cr_assert_eq(learn_table(&subject, DS_LEARN_STRUCTURE, 6000, 0, &lut), 0);
        cr_assert_eq(ds_lut_facts(lut)->form, DS_LUT_PLACES);
        for (uint32_t c = 0; c < hash.channels; c++)
                name[c] = (uint8_t)(hash.channels - 1 - c);
        for (int page = 0; page < PAGES; page++) {
                first = ds_learn_random(&state) % (1u << SAMPLED_BITS) * PAGE;
                for (uint32_t x = 0; x < GRANULES; x++)
                        pages[page][x] = page == PAGES - 1 || ds_learn_random(&state) % 3 == 0
                                                 ? name[label(&subject, first + x * 1024, &state, 0)]
                                                 : DS_LUT_UNKNOWN;
        }
        cr_assert_eq(ds_lut_align(lut, (const uint8_t *const[]){pages[0], pages[1]}, 2, names), 0);
        for (uint32_t i = 0; i < DS_ARRAY_SIZE(probes); i++) {
                probes[i].offset = (uint32_t)(ds_learn_random(&state) % GRANULES) * 1024;
                probes[i].channel = names[pages[2][probes[i].offset / 1024]];
        }
        cr_assert_eq(ds_lut_match(lut, probes, DS_ARRAY_SIZE(probes), &pattern), 0);
        for (uint32_t x = 0; x < GRANULES; x++)
                wrong += ds_lut_channel(lut, pattern, x * 1024) != names[pages[2][x]];
        cr_assert_eq(wrong, 0, "%u granules", wrong);
        ds_lut_free(lut);
}

/* On an H200 some patterns differ from others in few granules only, up to the numbering of channels; the learner
 * must look at these granules too. */
Test(lut_learn, names_that_nearly_fit)
{
        enum { GRANULES = 8192, CHANNELS = 47 };
        const uint32_t patterns[] = {9001, 70000};
        static uint8_t pages[2][GRANULES];
        uint8_t names[DS_LUT_CHANNELS_MAX];
        uint32_t pattern, wrong = 0;
        struct ds_lut_probe probes[64];
        struct ds_lut *lut;
        uint64_t state = 8;
        char why[160];

        cr_assert_eq(ds_lut_open("lut/tables/h200.lut", "NVIDIA H200", &lut, why, sizeof(why)), 0, "%s", why);
        for (int page = 0; page < 2; page++) {
                ds_lut_page(lut, patterns[page], pages[page]);
                for (uint32_t x = 0; x < GRANULES; x++)
                        pages[page][x] =
                                ds_learn_random(&state) % 4 ? DS_LUT_UNKNOWN : (uint8_t)(CHANNELS - 1 - pages[page][x]);
        }
        cr_assert_eq(ds_lut_align(lut, (const uint8_t *const[]){pages[0], pages[1]}, 2, names), 0);
        ds_lut_page(lut, 50123, pages[0]);
        for (uint32_t i = 0; i < DS_ARRAY_SIZE(probes); i++) {
                probes[i].offset = (uint32_t)(ds_learn_random(&state) % GRANULES) << 8;
                probes[i].channel = names[CHANNELS - 1 - pages[0][probes[i].offset >> 8]];
        }
        cr_assert_eq(ds_lut_match(lut, probes, DS_ARRAY_SIZE(probes), &pattern), 0);
        for (uint32_t x = 0; x < GRANULES; x++)
                wrong += ds_lut_channel(lut, pattern, x << 8) != names[CHANNELS - 1 - pages[0][x]];
        cr_assert_eq(wrong, 0, "%u granules", wrong);
        ds_lut_free(lut);
}

/* A table whose 2^16 patterns all explain any page of two channels: the search ends although no other page agrees. */
Test(lut_learn, patterns_without_end)
{
        struct ds_learn_draft draft = {.head = {.model = "x",
                                               .learner = "the test",
                                               .source = DS_LUT_SIMULATED,
                                               .form = DS_LUT_MODULUS,
                                               .granule_bits = 8,
                                               .page_bits = 21,
                                               .channels = 2,
                                               .dims = 16,
                                               .modulus = 2}};
        uint8_t channels[] = {0, 1}, pages[2][8192], names[DS_LUT_CHANNELS_MAX];
        uint64_t state = 9;
        struct ds_lut *lut;

        if (SANITIZED)
                return;
        draft.channel = channels;
        draft.n_channel = sizeof(channels);
        for (int i = 0; i < 16; i++) {
                draft.mask[i] = 1u << i % 13;
                draft.weight[i] = i < 13;
        }
        cr_assert_eq(ds_learn_read(&draft, &lut), 0);
        memset(pages, DS_LUT_UNKNOWN, sizeof(pages));
        for (uint32_t i = 0; i < 16; i++) {
                uint32_t x = ds_lut_spread(i, 13);

                pages[0][x] = (uint8_t)__builtin_parity(x);
                pages[1][x] = (uint8_t)(ds_learn_random(&state) % 2);
        }
        cr_assert_eq(ds_lut_align(lut, (const uint8_t *const[]){pages[0], pages[1]}, 2, names), DS_LUT_E_NO_PATTERN);
        ds_lut_free(lut);
}

/* Tables of the maximal size whose patterns all explain the first page of two channels; trying all of them would
 * take an hour each. */
Test(lut_learn, large_tables_that_explain_anything, .timeout = 60)
{
        struct ds_learn_draft drafts[] = {
                {.head = {.form = DS_LUT_XOR, .dims = 16, .tables = 16}, .n_channel = 1u << 20},
                {.head = {.form = DS_LUT_CONGRUENCE, .period = 1021}, .n_channel = 1021},
                {.head = {.form = DS_LUT_PLACES, .dims = 15, .modulus = 32}, .n_channel = 32},
        };
        uint8_t *pages[2] = {malloc(1u << 16), malloc(1u << 16)}, names[DS_LUT_CHANNELS_MAX], *channels;
        uint64_t state = 9;

        for (uint32_t x = 0; x < 1u << 16; x++) {
                pages[0][x] = 0;
                pages[1][x] = (uint8_t)(ds_learn_random(&state) % 2);
        }
        for (size_t form = 0; form < DS_ARRAY_SIZE(drafts); form++) {
                struct ds_learn_draft *draft = &drafts[form];
                struct ds_lut *lut;

                if (SANITIZED && form != (size_t)getpid() % DS_ARRAY_SIZE(drafts))
                        continue;
                draft->head.source = DS_LUT_SIMULATED;
                draft->head.granule_bits = 5;
                draft->head.page_bits = 21;
                draft->head.channels = 2;
                strcpy(draft->head.model, "x");
                strcpy(draft->head.learner, "the test");
                draft->channel = channels = calloc(1, draft->n_channel);
                channels[0] = 1; /* nearly all granules of the table have one channel, as those of the page */
                for (uint32_t i = 0; i < 16; i++) {
                        draft->mask[i] = 1u << i;
                        draft->weight[i] = (uint8_t)(i % 2);
                }
                cr_assert_eq(ds_learn_read(draft, &lut), 0, "form %zu", form);
                cr_expect_eq(ds_lut_align(lut, (const uint8_t *const[]){pages[0], pages[1]}, 2, names),
                        DS_LUT_E_NO_PATTERN, "form %zu", form);
                ds_lut_free(lut);
                free(channels);
        }
        free(pages[0]);
        free(pages[1]);
}

/* Draws the requested number of hashes, seeded by the clock. */
Test(lut_learn, drawn_from_the_clock, .timeout = 3600)
{
        const char *asked = getenv("DETSHARE_LUT_HASHES"), *from = getenv("DETSHARE_LUT_SEED");
        uint64_t seed = from ? strtoull(from, NULL, 10) : (uint64_t)time(NULL) * 1000;
        int n = asked ? atoi(asked) : 0;

        for (int i = 0; i < n; i++) {
                learn_drawn(seed + (uint64_t)i, i % 2, 15000, (uint32_t)(i % 5 + 1));
                learn_places(seed + (uint64_t)i, 15000, (uint32_t)(i % 5 + 1));
        }
}

/* --- relations --- */

/* Adds random relations until only the modulus is left; then one that does not hold. */
Test(lut_learn, weights_from_relations)
{
        static const uint8_t weights[] = {3, 6, 12, 1, 2, 4, 24, 30}, modulus = 45;
        struct ds_lattice lattice = {.dims = 8};
        uint8_t found[8];
        int8_t relation[8];
        uint64_t state = 3;
        uint32_t unit = 0;

        for (int tries = 0; tries < 20000; tries++) {
                int sum = 0;

                for (int i = 0; i < 8; i++) {
                        relation[i] = (int8_t)(ds_learn_random(&state) % 3 - 1);
                        sum += relation[i] * weights[i];
                }
                if (sum % modulus == 0)
                        cr_assert(ds_lattice_add(&lattice, relation, 3));
        }
        cr_assert_eq(ds_lattice_index(&lattice), modulus);
        cr_assert(ds_lattice_weights(&lattice, found));
        /* the original weights times the unit that makes the generator 1 */
        while (unit < modulus && unit * weights[3] % modulus != found[3])
                unit++;
        for (int i = 0; i < 8; i++)
                cr_assert_eq(found[i], unit * weights[i] % modulus, "digit %d", i);
        cr_assert_not(ds_lattice_add(&lattice, (const int8_t[8]){0, 0, 0, 1}, 3));
        cr_assert_eq(ds_lattice_index(&lattice), modulus, "what was refused changed nothing");
}

/* 12 = 2 * 6 has no digit of which all others are multiples: there are no weights, and the search ends. */
Test(lut_learn, groups_that_no_number_counts)
{
        struct ds_lattice lattice = {.dims = 2};
        uint8_t found[2];

        cr_assert(ds_lattice_add(&lattice, (const int8_t[2]){2, 0}, 3));
        cr_assert_eq(ds_lattice_index(&lattice), 0);
        cr_assert(ds_lattice_add(&lattice, (const int8_t[2]){0, 6}, 3));
        cr_assert_eq(ds_lattice_index(&lattice), 12);
        cr_assert_not(ds_lattice_weights(&lattice, found));
}

/* --- hashes without a known structure --- */

/* A hash that is an arbitrary function of seven parities, with six channels of unequal size: neither XOR nor a
 * modulus. */
static uint32_t of_parities(const void *hash, uint64_t address)
{
        uint64_t x = address >> 12, y = (x ^ x >> 5 ^ x >> 9) & 127, state = y;

        return (uint32_t)(ds_learn_random(&state) % 6);
}

Test(lut_learn, any_function_of_parities)
{
        struct subject subject = {of_parities, NULL, 12, 6};
        double right = 0;

        cr_assert_eq(learn(&subject, DS_LEARN_STRUCTURE, 2500, 2, &right), DS_LEARN_E_NO_TABLE);
        cr_assert_eq(learn(&subject, DS_LEARN_AUTO, 2500, 2, &right), 0);
        cr_assert_geq(right, 0.999, "%.3f%%", 100 * right);
}

/* A function that cannot be learned: every method refuses it. */
static uint32_t of_noise(const void *hash, uint64_t address)
{
        uint64_t state = address >> 12;

        return (uint32_t)(ds_learn_random(&state) % 6);
}

Test(lut_learn, noise_is_refused)
{
        struct subject subject = {of_noise, NULL, 12, 6};
        double right;

        cr_assert_eq(learn(&subject, DS_LEARN_AUTO, 4000, 0, &right), DS_LEARN_E_NO_TABLE);
}

/* A hash of parities and a modulus, with few values and few samples: the neural network decides where votes do not. */
static uint32_t of_few_places(const void *hash, uint64_t address)
{
        uint64_t x = address >> 14, y = x ^ x >> 6 ^ x >> 11;

        return (uint32_t)((y >> 1) % 3 * 2 + (y & 1));
}

Test(lut_learn, few_samples_by_the_network)
{
        struct subject subject = {of_few_places, NULL, 14, 6};
        double right = 0;

        if (ROUNDS_SANITIZED)
                return; /* ten times as slow when sanitized; the tests below cover the network */
        cr_assert_eq(learn(&subject, DS_LEARN_NETWORK, 1600, 2, &right), 0);
        cr_assert_geq(right, 0.97, "%.3f%%", 100 * right);
}

/* The network learns a hash without knowledge of its structure. */
Test(lut_learn, p40_by_the_network, .timeout = 600)
{
        const struct sim_channels hash = {SIM_CHANNELS_GROUPS, 12, 4};
        struct subject subject = {of_simulated, &hash, 10, 12};
        double right = 0;

        if (!getenv("DETSHARE_LUT_HASHES"))
                return;
        cr_assert_eq(learn(&subject, DS_LEARN_NETWORK, 15000, 3, &right), 0);
        fprintf(stderr, "p40 by the network: %.3f%%\n", 100 * right);
        cr_assert_geq(right, 0.96);
}

/* A function that no line separates, with a quarter of it missing from the samples. */
Test(lut_learn, network_predicts_missing_samples)
{
        struct ds_network *network = ds_network_new(6, 24, 3, 1);
        float inputs[64][6], logs[3];
        uint8_t classes[64];
        uint32_t n = 0, wrong = 0;

        for (uint32_t pass = 0; pass < 2; pass++) {
                for (uint32_t x = 0; x < 64; x++) {
                        uint32_t class = (x & 3) == 3 ? 2 : (x >> 2 & 1) ^ (x >> 4 & 1);
                        bool shown = x % 7 != 3;

                        for (uint32_t i = 0; i < 6; i++)
                                inputs[n][i] = x >> i & 1 ? -1.f : 1.f;
                        classes[n] = (uint8_t) class;
                        if (pass) {
                                ds_network_tell(network, inputs[n], logs);
                                for (uint32_t c = 0; c < 3; c++)
                                        wrong += c != class && logs[c] > logs[class];
                        } else if (shown) {
                                n++;
                        }
                }
                if (!pass)
                        cr_assert_eq(ds_network_train(network, &inputs[0][0], classes, n, 300, 2), 0);
                n = 0;
        }
        ds_network_free(network);
        cr_assert_leq(wrong, 1, "%u of 64", wrong);
}
