/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matching of pages with patterns, and of measured names with channels
 *
 * A page's pattern is the one that the fewest probes contradict. The search depends on the form:
 *
 * - MODULUS: each parity's constant is the value that most probes have; for each constant of the digits, the sum's shift
 *   is the value that most probes have. Only the digits' constants are searched.
 * - PLACES: all constants are searched, since a channel may be at several places; each probe votes for some shifts.
 * - other forms: all patterns are searched; a pattern is given up as soon as it has more contradictions than the best
 *   two so far.
 *
 * Names are found by trying patterns on the first page: with the right pattern, each name falls on one channel. If
 * several patterns explain the page (the table may be symmetric), the other pages decide.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "lut/layout.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define NEAR_ENOUGH(n) ((n) / 4) /* maximum number of n probes that may contradict a pattern */

struct seen {
        uint32_t x;
        uint8_t channel;
};

/* The pattern with the fewest contradicting probes, and the two lowest counts of contradictions. */
struct nearest {
        uint32_t pattern, best, second;
};

static void consider(struct nearest *nearest, uint32_t pattern, uint32_t differ)
{
        if (differ < nearest->best) {
                nearest->second = nearest->best;
                nearest->best = differ;
                nearest->pattern = pattern;
        } else if (differ < nearest->second) {
                nearest->second = differ;
        }
}

static void match_all(const struct ds_lut *lut, const struct seen *seen, uint32_t n, struct nearest *nearest)
{
        uint32_t differ;
        uint8_t channel;

        for (uint32_t pattern = 0; pattern < lut->facts.patterns && nearest->second > 0; pattern++) {
                differ = 0;
                for (uint32_t i = 0; i < n && differ < nearest->second; i++) {
                        channel = ds_lut_at(lut, pattern, seen[i].x);
                        differ += channel != seen[i].channel && channel != DS_LUT_UNKNOWN;
                }
                consider(nearest, pattern, differ);
        }
}

/* The page's constant of each parity, by majority of the probes; returned as bits above the digits. */
static uint32_t match_parities(const struct ds_lut *lut, const struct seen *seen, uint32_t n)
{
        const struct ds_lut_head *head = &lut->head;
        uint32_t ones[DS_LUT_DIMS_MAX] = {0}, bits, constant = 0;

        for (uint32_t i = 0; i < n; i++) {
                bits = lut->image[seen[i].x] >> head->dims ^ lut->place[seen[i].channel] / head->modulus;
                for (uint32_t k = 0; k < head->parities; k++)
                        ones[k] += bits >> k & 1;
        }
        for (uint32_t k = 0; k < head->parities; k++)
                constant |= (uint32_t)(ones[k] * 2 > n) << k;
        return constant << head->dims;
}

static void match_modulus(const struct ds_lut *lut, struct seen *seen, uint32_t n, struct nearest *nearest)
{
        const struct ds_lut_head *head = &lut->head;
        uint32_t constant, digits = (1u << head->dims) - 1, m = head->modulus, known = 0, good = 0, difference;
        uint16_t by[DS_LUT_CHANNELS_MAX];

        for (uint32_t i = 0; i < n; i++)
                if (lut->place[seen[i].channel] != UINT16_MAX)
                        seen[known++] = seen[i];
        constant = match_parities(lut, seen, known);
        /* only probes that agree with the parities vote for digits and shift */
        for (uint32_t i = 0; i < known; i++) {
                uint32_t place = lut->place[seen[i].channel], y = lut->image[seen[i].x];

                if (((y ^ constant) >> head->dims) == place / m)
                        seen[good++] = (struct seen){y & digits, (uint8_t)(place % m)};
        }
        for (uint32_t flips = 0; flips <= digits; flips++) {
                memset(by, 0, m * sizeof(*by));
                for (uint32_t i = 0; i < good; i++) {
                        difference = seen[i].channel + m - lut->sum[seen[i].x ^ flips];
                        by[difference - (difference >= m ? m : 0)]++;
                }
                for (uint32_t shift = 0; shift < m; shift++)
                        consider(nearest, shift << (head->dims + head->parities) | constant | flips, n - by[shift]);
        }
}

/* For each constant, every index of a probe's channel is a shift that explains the probe. */
static void match_places(const struct ds_lut *lut, const struct seen *seen, uint32_t n, struct nearest *nearest)
{
        const struct ds_lut_head *head = &lut->head;
        const uint32_t all = head->dims + head->parities, m = head->modulus;
        uint16_t by[DS_LUT_CHANNELS_MAX];

        for (uint32_t constant = 0; constant < 1u << all; constant++) {
                memset(by, 0, m * sizeof(*by));
                for (uint32_t i = 0; i < n; i++) {
                        const uint32_t y = lut->image[seen[i].x] ^ constant,
                                       sum = lut->sum[y & ((1u << head->dims) - 1)];
                        const uint16_t *from = lut->from + (y >> head->dims) * head->channels + seen[i].channel;

                        for (uint32_t k = from[0]; k < from[1]; k++)
                                by[lut->number[k] < sum ? lut->number[k] + m - sum : lut->number[k] - sum]++;
                }
                for (uint32_t shift = 0; shift < m; shift++)
                        consider(nearest, shift << all | constant, n - by[shift]);
        }
}

int ds_lut_match(const struct ds_lut *lut, const struct ds_lut_probe *probes, size_t n, uint32_t *ret_pattern)
{
        struct seen seen[DS_LUT_PROBES_MAX];
        struct nearest nearest;
        uint32_t n_seen = 0;

        assert(n <= DS_LUT_PROBES_MAX);
        for (size_t i = 0; i < n; i++) {
                assert(probes[i].offset >> lut->head.page_bits == 0);
                assert(probes[i].channel < lut->head.channels || probes[i].channel == DS_LUT_UNKNOWN);
                if (probes[i].channel != DS_LUT_UNKNOWN)
                        seen[n_seen++] = (struct seen){probes[i].offset >> lut->head.granule_bits, probes[i].channel};
        }
        nearest = (struct nearest){0, NEAR_ENOUGH(n_seen) + 1, NEAR_ENOUGH(n_seen) + 1};
        if (lut->head.form == DS_LUT_MODULUS)
                match_modulus(lut, seen, n_seen, &nearest);
        else if (lut->head.form == DS_LUT_PLACES)
                match_places(lut, seen, n_seen, &nearest);
        else
                match_all(lut, seen, n_seen, &nearest);
        if (!n_seen || nearest.best > NEAR_ENOUGH(n_seen) || nearest.second <= nearest.best)
                return DS_LUT_E_NO_PATTERN;
        *ret_pattern = nearest.pattern;
        return 0;
}

/* --- names --- */

#define QUICK_PER_CHANNEL 8
#define WITHOUT_NAME 32 /* granules that may contradict before the share of agreeing granules is tested */
/* least number of n granules that must agree to stop the search for better names */
#define MOST(n) ((n) - (n) / 10)
/* most examined pairs of a granule and a probe: one or two seconds; naming on an H200 examines 16 million */
#define WORK_MAX (INT64_C(1) << 28)
#define LEAST(n) ((n) - (n) / 4) /* least number of n granules that must agree for the page to fit this table */

struct naming {
        const struct ds_lut *lut;
        uint32_t n_names; /* number of names on the first page */
        uint32_t *count;  /* number of granules with this name (row) on this channel (column) */
        uint8_t *told;    /* channels of a page according to the table */
        uint8_t names[DS_LUT_CHANNELS_MAX];
        int64_t work; /* examinations of granules and probes left until WORK_MAX */
};

/* Whether at least half of the first n granules agree with the names that they suggest. A few granules suffice to
 * exclude a wrong pattern. */
static bool is_worth_counting(struct naming *naming, uint32_t pattern, const uint8_t *page, uint32_t n)
{
        uint8_t name_of[DS_LUT_CHANNELS_MAX], names[DS_LUT_CHANNELS_MAX];
        uint32_t differ = 0, seen = 0;

        memset(name_of, DS_LUT_UNKNOWN, sizeof(name_of));
        memset(names, DS_LUT_UNKNOWN, sizeof(names));
        for (uint32_t i = 0; i < 1u << naming->lut->bits && seen < n && differ * 2 <= seen + WITHOUT_NAME; i++) {
                uint32_t x = ds_lut_spread(i, naming->lut->bits);
                uint8_t channel = page[x] == DS_LUT_UNKNOWN ? DS_LUT_UNKNOWN : ds_lut_at(naming->lut, pattern, x);

                if (channel == DS_LUT_UNKNOWN)
                        continue;
                if (names[page[x]] == DS_LUT_UNKNOWN && name_of[channel] == DS_LUT_UNKNOWN) {
                        names[page[x]] = channel;
                        name_of[channel] = page[x];
                }
                differ += names[page[x]] != channel;
                seen++;
        }
        naming->work -= seen + DS_LUT_CHANNELS_MAX / 16;
        return differ * 2 <= seen + WITHOUT_NAME;
}

/* Gives each name the channel on which it falls most often, and returns how many of n granules, spread over the
 * page, then agree. *ret_n: the number examined. Names that would share a channel explain nothing. */
static uint32_t explained(struct naming *naming, uint32_t pattern, const uint8_t *page, uint32_t n, uint32_t *ret_n)
{
        uint32_t channels = naming->lut->head.channels, right = 0, at, *count;
        bool taken[DS_LUT_CHANNELS_MAX] = {false};

        memset(naming->count, 0, naming->n_names * channels * sizeof(*naming->count));
        naming->work -= n + naming->n_names * channels;
        *ret_n = 0;
        for (uint32_t i = 0; i < n; i++) {
                uint32_t x = ds_lut_spread(i, naming->lut->bits);
                uint8_t channel = page[x] == DS_LUT_UNKNOWN ? DS_LUT_UNKNOWN : ds_lut_at(naming->lut, pattern, x);

                if (channel != DS_LUT_UNKNOWN) {
                        naming->count[page[x] * channels + channel]++;
                        ++*ret_n;
                }
        }
        for (uint32_t name = 0; name < naming->n_names; name++) {
                count = naming->count + name * channels;
                at = 0;
                for (uint32_t c = 1; c < channels; c++)
                        at = count[c] > count[at] ? c : at;
                naming->names[name] = count[at] && !taken[at] ? (uint8_t)at : DS_LUT_UNKNOWN;
                right += taken[at] ? 0 : count[at];
                taken[at] = taken[at] || count[at];
        }
        return right;
}

/* Number of probe examinations that matching one page takes. */
static int64_t match_work(const struct ds_lut *lut, uint32_t n_probes)
{
        const struct ds_lut_head *head = &lut->head;
        const uint32_t constants = head->dims + head->parities;

        if (head->form == DS_LUT_MODULUS)
                return ((int64_t)n_probes + head->modulus) << head->dims;
        /* for PLACES each probe may vote for all numbers of its channel */
        if (head->form == DS_LUT_PLACES)
                return ((int64_t)n_probes * DS_MAX(head->modulus / head->channels, 1u) + head->modulus) << constants;
        return (int64_t)n_probes * lut->facts.patterns;
}

/* Whether the page fits the table with these names. Also counts the granules that agree. */
static bool agrees(struct naming *naming, const uint8_t *page, uint32_t *ret_right, uint32_t *ret_n)
{
        const struct ds_lut *lut = naming->lut;
        uint32_t n = 1u << lut->bits, pattern, n_probes = 0;
        struct ds_lut_probe probes[DS_LUT_PROBES_MAX];
        uint8_t name;

        for (uint32_t i = 0; i < n && n_probes < DS_LUT_PROBES_MAX; i++) {
                uint32_t x = ds_lut_spread(i, lut->bits);

                name = page[x] < DS_LUT_CHANNELS_MAX ? naming->names[page[x]] : DS_LUT_UNKNOWN;
                if (name != DS_LUT_UNKNOWN)
                        probes[n_probes++] = (struct ds_lut_probe){x << lut->head.granule_bits, name};
        }
        *ret_right = *ret_n = 0;
        naming->work -= match_work(lut, n_probes) + n;
        if (ds_lut_match(lut, probes, n_probes, &pattern))
                return false;
        ds_lut_page(lut, pattern, naming->told);
        for (uint32_t x = 0; x < n; x++) {
                if (page[x] >= DS_LUT_CHANNELS_MAX || naming->told[x] == DS_LUT_UNKNOWN)
                        continue;
                *ret_right += naming->names[page[x]] == naming->told[x];
                ++*ret_n;
        }
        return *ret_n && *ret_right >= LEAST(*ret_n);
}

/* Takes the names that the first page gets with this pattern, tries them on the other pages, and counts how many
 * granules of all pages agree. */
static bool try_names(struct naming *naming, uint32_t pattern, const uint8_t *const *pages, size_t n_pages,
        uint64_t *ret_right, uint64_t *ret_n)
{
        uint32_t right, n, all = 1u << naming->lut->bits;

        *ret_right = *ret_n = 0;
        right = explained(naming, pattern, pages[0], all, &n);
        if (!n || right < LEAST(n))
                return false;
        for (size_t i = 0; i < n_pages; i++) {
                if (!agrees(naming, pages[i], &right, &n))
                        return false;
                *ret_right += right;
                *ret_n += n;
        }
        return true;
}

static int find_names(struct naming *naming, const uint8_t *const *pages, size_t n_pages, uint8_t *ret_names)
{
        uint32_t all = 1u << naming->lut->bits, patterns = naming->lut->facts.patterns, quick, n, right;
        uint64_t good, of, best = 0;

        /* for MODULUS the other constants of the parities and shifts of the sum only rename the channels */
        if (naming->lut->head.form == DS_LUT_MODULUS)
                patterns = 1u << naming->lut->head.dims;

        quick = DS_MIN(all, DS_MAX(256u, QUICK_PER_CHANNEL * naming->lut->head.channels));
        for (uint32_t pattern = 0; pattern < patterns && naming->work > 0; pattern++) {
                if (!is_worth_counting(naming, pattern, pages[0], quick))
                        continue;
                right = explained(naming, pattern, pages[0], quick, &n);
                if (!n || right < LEAST(n))
                        continue;
                if (!try_names(naming, pattern, pages, n_pages, &good, &of) || good <= best)
                        continue;
                best = good;
                memcpy(ret_names, naming->names, sizeof(naming->names));
                /* PLACES needs full agreement, because two maps may differ in a few granules of one channel only */
                if (good == of || (good >= MOST(of) && naming->lut->head.form != DS_LUT_PLACES))
                        break;
        }
        return best ? 0 : DS_LUT_E_NO_PATTERN;
}

int ds_lut_align(const struct ds_lut *lut, const uint8_t *const *pages, size_t n_pages, uint8_t *ret_names)
{
        struct naming naming = {.lut = lut, .work = WORK_MAX};
        int r = -ENOMEM;

        memset(naming.names, DS_LUT_UNKNOWN, sizeof(naming.names));
        for (uint32_t x = 0; n_pages && x < 1u << lut->bits; x++) {
                assert(pages[0][x] == DS_LUT_UNKNOWN || pages[0][x] < DS_LUT_CHANNELS_MAX);
                if (pages[0][x] != DS_LUT_UNKNOWN)
                        naming.n_names = DS_MAX(naming.n_names, pages[0][x] + 1u);
        }
        if (!naming.n_names)
                return DS_LUT_E_NO_PATTERN;
        naming.count = ds_alloc0(DS_LUT_CHANNELS_MAX * DS_LUT_CHANNELS_MAX, sizeof(*naming.count));
        naming.told = ds_alloc((size_t)1 << lut->bits);
        if (naming.count && naming.told)
                r = find_names(&naming, pages, n_pages, ret_names);
        else
                r = ds_error_origin(r);
        ds_free(naming.count);
        ds_free(naming.told);
        return r;
}
