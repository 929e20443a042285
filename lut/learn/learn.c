/* SPDX-License-Identifier: Apache-2.0 */
#include "lut/learn/learn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "lut/learn/build.h"
#include "lut/learn/congruence.h"
#include "lut/learn/cover.h"
#include "lut/learn/modulus.h"
#include "lut/learn/places.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define PROBES DS_LUT_PROBES_MAX /* maximum number of probes of a held-out page */
/* share of right labels by which the held-out pages may score worse than the training samples */
#define WORSE 0.02
/* least share of correct labels in the test; samples with more than one wrong label of ten are no measurement */
#define LEAST_RIGHT 0.85

struct learning {
        const struct ds_lut_samples *samples;
        const struct ds_learn_options *options;
        struct ds_learn_set all, train, held;
        struct ds_learn_draft draft;
        struct ds_lut *table;
        const char *method;
        double explained; /* share of the training labels that the table predicts */
        uint32_t asked, right, unmatched;
};

__attribute__((format(printf, 2, 3))) static void say(const struct learning *l, const char *format, ...)
{
        va_list args;

        if (!l->options->findings)
                return;
        va_start(args, format);
        vfprintf(l->options->findings, format, args);
        va_end(args);
        fputc('\n', l->options->findings);
}

/* A mask of granule number bits as text with address bits, "10^13^17". */
static const char *bits_text(const struct learning *l, uint32_t mask, char *text, size_t size)
{
        size_t n = 0;

        text[0] = '\0';
        for (unsigned bit = 0; bit < l->train.bits; bit++)
                if (mask >> bit & 1 && n + 4 < size)
                        n += (size_t)snprintf(text + n, size - n, "%s%u", n ? "^" : "", bit + l->train.granule_bits);
        return text;
}

/* --- test with held-out pages ----- */

/* Selects probes of a held-out page: the signature's granules whose labels are known, then other granules. */
static size_t probe_page(const struct learning *l, const uint8_t *label, struct ds_lut_probe *probes, bool *used)
{
        const uint32_t *offsets;
        size_t n_offsets = ds_lut_signature(l->table, &offsets), n = 0, want = DS_MIN(n_offsets, (size_t)PROBES);
        uint32_t x, mask = (1u << l->held.bits) - 1;

        memset(used, 0, (size_t)mask + 1);
        for (uint32_t i = 0; i < n_offsets + mask + 1 && n < want; i++) {
                x = i < n_offsets ? offsets[i] >> l->held.granule_bits
                                  : ds_lut_spread((uint32_t)(i - n_offsets), l->held.bits);
                if (label[x] == DS_LUT_UNKNOWN || used[x])
                        continue;
                used[x] = true;
                probes[n++] = (struct ds_lut_probe){x << l->held.granule_bits, label[x]};
        }
        return n;
}

static int judge(struct learning *l)
{
        uint32_t size = 1u << l->held.bits, pattern;
        ds_cleanup(ds_freep) bool *used = ds_alloc0(size, sizeof(*used));
        ds_cleanup(ds_freep) uint8_t *told = ds_alloc0(size, 1);
        struct ds_lut_probe probes[PROBES];
        size_t n;

        l->asked = l->right = l->unmatched = 0;
        if (!used || !told)
                return ds_error_origin(-ENOMEM);
        for (size_t page = 0; page < l->held.n_pages; page++) {
                const uint8_t *label = ds_learn_page(&l->held, page);
                bool matched;

                n = probe_page(l, label, probes, used);
                matched = n && ds_lut_match(l->table, probes, n, &pattern) == 0;
                if (matched)
                        ds_lut_page(l->table, pattern, told);
                l->unmatched += !matched;
                for (uint32_t x = 0; x < size; x++) {
                        if (label[x] == DS_LUT_UNKNOWN || used[x])
                                continue;
                        l->asked++;
                        l->right += matched && told[x] == label[x];
                }
        }
        return 0;
}

/* Sets the head's fields about pages. */
static void describe_draft(struct learning *l, const struct ds_learn_set *set)
{
        l->draft.head.page_bits = 21;
        l->draft.head.granule_bits = (uint8_t)l->all.granule_bits;
        l->draft.head.channels = l->all.channels;
        l->draft.head.source = (uint8_t)l->samples->about.source;
        l->draft.head.samples = set->n_known;
        l->draft.head.learnt_at = l->options->when;
        snprintf(l->draft.head.model, sizeof(l->draft.head.model), "%s", l->samples->about.device);
        snprintf(l->draft.head.driver, sizeof(l->draft.head.driver), "%s", l->samples->about.driver);
        snprintf(l->draft.head.learner, sizeof(l->draft.head.learner), "%s, %s", l->options->learner, l->method);
}

/* Finishes the draft that was learnt from this set, and tests it with held-out pages. Returns 0 if it passed;
 * DS_LEARN_E_NONE if it failed. */
static int try_draft(struct learning *l, const struct ds_learn_set *from)
{
        double share;
        int r;

        describe_draft(l, from);
        r = ds_learn_finish(&l->draft, l->options->seed, &l->table);
        if (r) {
                if (r > 0)
                        say(l, "%s: more patterns than a page's probes can distinguish", l->method);
                return r > 0 ? DS_LEARN_E_NONE : r;
        }
        r = judge(l);
        if (r)
                return r;
        share = l->asked ? (double)l->right / l->asked : 0;
        say(l, "%s: explains %.2f%% of what it was learnt from, %" PRIu32 " patterns, signature of %" PRIu32 " probes",
                l->method, 100 * l->explained, l->table->facts.patterns, l->table->head.n_signature);
        say(l,
                "held out: %" PRIu32 " of %" PRIu32 " labels right (%.3f%%) in %zu pages, %" PRIu32
                " of them matched nothing",
                l->right, l->asked, 100 * share, l->held.n_pages, l->unmatched);
        if (share < LEAST_RIGHT || share < l->explained - WORSE) {
                say(l, "%s: fails the test with held-out pages", l->method);
                return DS_LEARN_E_NONE;
        }
        l->draft.head.held_out = l->asked;
        l->draft.head.held_right = l->right;
        return 0;
}

static void forget_draft(struct learning *l)
{
        l->draft.channel = ds_free(l->draft.channel);
        l->table = ds_lut_free(l->table);
        l->draft = (struct ds_learn_draft){.n_channel = 0};
}

/* --- parities and a modulus --- */

static int draft_modulus(struct learning *l, const struct ds_learn_modulus *found)
{
        const struct ds_learn_parities *parities = &found->parities;
        struct ds_lut_head *head = &l->draft.head;

        head->form = DS_LUT_MODULUS;
        head->dims = found->dims;
        head->parities = parities->n;
        head->modulus = found->modulus;
        memcpy(l->draft.mask, found->mask, found->dims * sizeof(*found->mask));
        memcpy(l->draft.mask + found->dims, parities->mask, parities->n * sizeof(*parities->mask));
        memcpy(l->draft.weight, found->weight, found->dims);
        l->draft.n_channel = (size_t)found->modulus << parities->n;
        l->draft.channel = ds_alloc(l->draft.n_channel);
        if (!l->draft.channel)
                return ds_error_origin(-ENOMEM);
        for (uint32_t c = 0; c < l->train.channels; c++)
                l->draft.channel[parities->side[c] * found->modulus + found->number[c]] = (uint8_t)c;
        l->explained = 0;
        for (size_t page = 0; page < l->train.n_pages; page++)
                l->explained += found->explained[page] / (double)l->train.n_pages;
        return 0;
}

static int try_modulus(struct learning *l)
{
        struct ds_learn_modulus found;
        struct ds_learn_parities parities;
        char text[128], why[128];
        int r;

        l->method = "parities and a modulus";
        r = ds_learn_find_parities(&l->train, &parities);
        if (r)
                return r;
        for (uint32_t i = 0; i < parities.n; i++)
                say(l, "parity of address bits %s: %.2f%% of labels on its sides",
                        bits_text(l, parities.mask[i], text, sizeof(text)), 100 * parities.share[i]);
        r = ds_learn_find_modulus(&l->train, &parities, &found, why, sizeof(why));
        if (r > 0)
                say(l, "%s: %s", l->method, why);
        for (uint32_t i = 0; !r && i < found.dims; i++)
                say(l, "digit of weight %u modulo %" PRIu32 ": address bits %s", found.weight[i], found.modulus,
                        bits_text(l, found.mask[i], text, sizeof(text)));
        if (!r)
                r = draft_modulus(l, &found);
        ds_learn_modulus_deinit(&found);
        return r ? r : try_draft(l, &l->train);
}

/* --- periodic sequences ----------- */

static int try_congruence(struct learning *l)
{
        struct ds_learn_congruence found;
        int r;

        l->method = "a periodic sequence";
        r = ds_learn_find_congruence(&l->train, &found);
        l->draft.channel = found.channel;
        if (r) {
                if (r > 0)
                        say(l, "%s: channels do not repeat with one period in all pages", l->method);
                return r;
        }
        say(l, "channels come again after %" PRIu32 " slots of %u granules, in steps of each page's own", found.period,
                1u << found.slot_bits);
        l->draft.head.form = DS_LUT_CONGRUENCE;
        l->draft.head.period = found.period;
        l->draft.head.slot_bits = found.slot_bits;
        l->draft.n_channel = (size_t)found.period << found.slot_bits;
        l->explained = found.explained;
        return try_draft(l, &l->train);
}

/* --- sums modulo m with any map to channels ------ */

static int try_places(struct learning *l)
{
        const struct ds_lut_head *head = &l->draft.head;
        struct ds_learn_set dense;
        char text[128];
        int r;

        l->method = "a sum with several numbers per channel";
        r = ds_learn_dense(&l->all, &l->train, l->options->samples, l->options->seed, &dense);
        if (r)
                return r;
        describe_draft(l, &dense);
        r = ds_learn_find_places(&dense, &l->draft, &l->explained);
        if (r > 0)
                say(l, "%s: no sum of digits leaves all channels unchanged", l->method);
        for (uint32_t i = 0; !r && i < head->parities; i++)
                say(l, "parity that exchanges channels: address bits %s",
                        bits_text(l, l->draft.mask[head->dims + i], text, sizeof(text)));
        for (uint32_t i = 0; !r && i < head->dims; i++)
                say(l, "digit of weight %u modulo %" PRIu32 ": address bits %s", l->draft.weight[i], head->modulus,
                        bits_text(l, l->draft.mask[i], text, sizeof(text)));
        if (!r)
                r = try_draft(l, &dense);
        ds_learn_set_deinit(&dense);
        return r;
}

/* --- overlaid pages, and a network ---------- */

static int try_cover(struct learning *l)
{
        struct ds_learn_parities parities;
        struct ds_learn_cover found;
        int r;

        l->method = "overlaid pages";
        r = ds_learn_find_parities(&l->train, &parities);
        if (r)
                return r;
        r = ds_learn_find_cover(&l->train, &parities, l->options->seed, &found);
        l->draft.channel = found.channel;
        if (r) {
                if (r > 0)
                        say(l, "%s: no page equals another one with its granule numbers XORed", l->method);
                return r;
        }
        if (found.network)
                l->method = "overlaid pages and a network";
        say(l, "%" PRIu32 " tables of %" PRIu32 " places; %s, %" PRIu32 " of them were in no sample", found.tables,
                1u << found.dims, found.network ? "a network was trained" : "votes sufficed", found.told);
        l->draft.head.form = DS_LUT_XOR;
        l->draft.head.dims = found.dims;
        l->draft.head.tables = found.tables;
        memcpy(l->draft.mask, found.mask, found.dims * sizeof(*found.mask));
        l->draft.n_channel = (size_t)found.tables << found.dims;
        l->explained = found.explained;
        return try_draft(l, &l->train);
}

/* --- all methods --- */

static int try_methods(struct learning *l)
{
        static const struct {
                int (*run)(struct learning *l);
                enum ds_learn_method method;
        } methods[] = {{try_modulus, DS_LEARN_STRUCTURE}, {try_congruence, DS_LEARN_STRUCTURE},
                {try_places, DS_LEARN_STRUCTURE}, {try_cover, DS_LEARN_NETWORK}};
        int r = DS_LEARN_E_NONE;

        for (size_t i = 0; i < DS_ARRAY_SIZE(methods) && r == DS_LEARN_E_NONE; i++) {
                if (l->options->method != DS_LEARN_AUTO && l->options->method != methods[i].method)
                        continue;
                forget_draft(l);
                r = methods[i].run(l);
        }
        return r == DS_LEARN_E_NONE ? DS_LEARN_E_NO_TABLE : r;
}

int ds_learn(const struct ds_lut_samples *samples, const struct ds_learn_options *options, uint8_t **ret, size_t *ret_n)
{
        struct learning l = {.samples = samples, .options = options};
        struct ds_learn_set *all = &l.all;
        int r;

        r = ds_learn_gather(samples, all);
        if (r)
                return r;
        r = ds_learn_split(all, options->samples, options->seed, &l.train, &l.held);
        if (!r) {
                say(&l,
                        "%" PRIu32 " channels, granules of %u bytes; %" PRIu32
                        " granules of %zu pages to learn from, %" PRIu32 " of %zu held out",
                        all->channels, 1u << all->granule_bits, l.train.n_known, l.train.n_pages, l.held.n_known,
                        l.held.n_pages);
                r = l.held.n_known ? try_methods(&l) : DS_LEARN_E_FEW;
                if (!r)
                        r = ds_learn_bytes(&l.draft, l.table, ret, ret_n);
                forget_draft(&l);
                ds_learn_set_deinit(&l.train);
                ds_learn_set_deinit(&l.held);
        }
        ds_learn_set_deinit(all);
        return r;
}
