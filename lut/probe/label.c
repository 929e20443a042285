/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The granule size, the channels, and the labels of pages
 *
 * Channels are found line by line. A line is compared several times with a representative of each known channel; if it
 * contends with none, it belongs to a new channel. So many lines are examined that a missed channel is improbable.
 * Channels that were counted twice are found at the end by comparing all with each other. Then pairs that share a
 * channel and pairs that do not are known, and the threshold and the error rates are measured again with equal numbers
 * of both.
 */
#include "lut/probe/label.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "lut/probe/internal.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define FIRST_PAIRS 1000u /* random pairs for the first threshold; as few as one pair of fifty may share a channel */
#define AGAIN_PAIRS 1024u /* known pairs for the second threshold; half of them share a channel */
#define FIRST_PIECES 32u  /* blocks labelled in the first batch, before any counts exist */
#define ASKED_AT_ONCE 12u /* channels with which one batch compares a line of a known channel */
#define VOTES 5u          /* comparisons of a line with each channel while channels are searched */
#define MISSED 1e-4       /* accepted probability that a channel is missed */
#define LOOKS_MAX 8000u   /* maximum number of lines examined, enough for the largest number of channels */
#define TESTS_MAX 400u    /* maximum number of comparisons for one granule */
#define LINE_BITS 7u
#define GRANULE_BITS_MAX 16u /* limit of a granule's size, log2 of bytes, so that a page has many granules */
#define HALVES 32u           /* pieces of memory tested to decide whether the granule is at least twice as large */

uint64_t ds_probe_random(ds_probe *probe)
{
        uint64_t x = probe->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 (Steele et al.) */

        x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        return x ^ x >> 31;
}

uint64_t ds_probe_random_line(ds_probe *probe)
{
        uint64_t page = probe->pages[ds_probe_random(probe) % probe->n_pages];

        return page + (ds_probe_random(probe) % DS_PROBE_PAGE >> probe->granule_bits << probe->granule_bits);
}

uint64_t ds_probe_representative(const ds_probe *probe, uint32_t channel, uint32_t n)
{
        const struct channel *c = &probe->channels[channel];

        return c->lines[n % c->n];
}

void ds_probe_evidence(struct evidence *ret, double false_positive, double false_negative)
{
        *ret = (struct evidence){
                .positive = {false_positive, 1 - false_negative},
                .negative = {1 - false_positive, false_negative},
        };
}

int ds_probe_new(
        const struct ds_probe_meter *meter, const uint64_t *pages, size_t n_pages, uint64_t seed, ds_probe **ret)
{
        ds_cleanup(ds_probe_freep) ds_probe *probe = ds_alloc0(1, sizeof(*probe));

        if (!probe)
                return ds_error_origin(-ENOMEM);
        probe->seen = ds_alloc0(1, sizeof(*probe->seen));
        if (!probe->seen)
                return ds_error_origin(-ENOMEM);
        probe->meter = *meter;
        probe->pages = pages;
        probe->n_pages = n_pages;
        probe->random = seed;
        probe->granule_bits = LINE_BITS;
        *ret = DS_TAKE_PTR(probe);
        return 0;
}

ds_probe *ds_probe_free(ds_probe *probe)
{
        if (probe)
                ds_free(probe->seen);
        return ds_free(probe);
}

/* --- comparisons --- */

static int compare(ds_probe *probe, const struct ds_probe_pair *pairs, size_t n, uint32_t *ticks)
{
        probe->counts.pairs += n;
        return ds_error_trace(probe->meter.pairs(probe->meter.user, pairs, n, ticks));
}

/* Two lines that do not lie in the same KiB. */
static struct ds_probe_pair random_pair(ds_probe *probe)
{
        struct ds_probe_pair pair = {ds_probe_random_line(probe), 0};

        do
                pair.b = ds_probe_random_line(probe);
        while (pair.a >> 10 == pair.b >> 10);
        return pair;
}

static int calibrate(ds_probe *probe)
{
        ds_cleanup(ds_freep) struct ds_probe_pair *pairs = ds_alloc(FIRST_PAIRS * sizeof(*pairs));
        ds_cleanup(ds_freep) uint32_t *ticks = ds_alloc(FIRST_PAIRS * sizeof(*ticks));
        int r;

        if (!pairs || !ticks)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < FIRST_PAIRS; i++)
                pairs[i] = random_pair(probe);
        r = compare(probe, pairs, FIRST_PAIRS, ticks);
        if (r)
                return r;
        return ds_error_trace(ds_probe_split(ticks, FIRST_PAIRS, DS_PROBE_RATIO, &probe->quality.split));
}

/* --- granule size ----------------- */

/*
 * Tests whether pieces of 2^bits bytes belong to one channel if their halves do: compares the first lines of both
 * halves, in many places, three times each. A few wrong results are tolerated.
 */
static int halves_share(ds_probe *probe, uint32_t bits, bool *ret)
{
        struct ds_probe_pair pairs[HALVES * 3];
        uint32_t ticks[HALVES * 3], shared = 0;
        int r;

        for (uint32_t i = 0; i < HALVES; i++) {
                uint64_t a = ds_probe_random_line(probe) & ~((UINT64_C(1) << bits) - 1);

                pairs[3 * i] = pairs[3 * i + 1] = pairs[3 * i + 2] =
                        (struct ds_probe_pair){a, a + (UINT64_C(1) << (bits - 1))};
        }
        r = compare(probe, pairs, HALVES * 3, ticks);
        for (uint32_t i = 0; i < HALVES && !r; i++) {
                uint32_t votes = 0;

                for (uint32_t v = 0; v < 3; v++)
                        votes += ticks[3 * i + v] > probe->quality.split.threshold;
                shared += votes > 1;
        }
        *ret = shared >= HALVES - HALVES / 16;
        return r;
}

int ds_probe_calibrate(ds_probe *probe)
{
        uint32_t bits = LINE_BITS;
        bool share = true;
        int r;

        r = calibrate(probe);
        while (!r && share && bits <= GRANULE_BITS_MAX) {
                r = halves_share(probe, bits + 1, &share);
                bits += share;
        }
        if (r)
                return r;
        if (bits > GRANULE_BITS_MAX)
                return DS_PROBE_E_GRANULE;
        probe->granule_bits = bits;
        if (!probe->meter.widen || bits == LINE_BITS)
                return 0;
        r = ds_error_trace(probe->meter.widen(probe->meter.user, 1u << bits));
        return r ? r : calibrate(probe);
}

/* Compares the line `votes` times with each of the channels from..to-1; said[]: number of positive results per
 * channel. */
static int vote(ds_probe *probe, uint32_t from, uint32_t to, uint64_t line, uint32_t votes, uint32_t *said)
{
        struct ds_probe_pair pairs[DS_PROBE_CHANNELS_MAX * VOTES] = {};
        uint32_t ticks[DS_PROBE_CHANNELS_MAX * VOTES], n = 0;
        int r;

        for (uint32_t c = from; c < to; c++)
                for (uint32_t v = 0; v < votes; v++)
                        pairs[n++] = (struct ds_probe_pair){line, ds_probe_representative(probe, c, v)};
        r = compare(probe, pairs, n, ticks);
        for (uint32_t c = from; c < to && !r; c++) {
                said[c] = 0;
                for (uint32_t v = 0; v < votes; v++)
                        said[c] += ticks[(c - from) * votes + v] > probe->quality.split.threshold;
        }
        return r;
}

/* --- channels --- */

static bool is_known(const ds_probe *probe, uint64_t line)
{
        for (uint32_t c = 0; c < probe->n; c++)
                for (uint32_t i = 0; i < probe->channels[c].n; i++)
                        if (probe->channels[c].lines[i] >> 10 == line >> 10)
                                return true;
        return false;
}

/* Adds the line as a representative of the channel. If `channel` is the number of channels, adds a new channel. */
static int channel_take(ds_probe *probe, uint32_t channel, uint64_t line)
{
        struct channel *c = &probe->channels[channel];

        if (channel == DS_PROBE_CHANNELS_MAX)
                return DS_PROBE_E_CHANNELS;
        if (channel == probe->n) {
                c->n = 0;
                probe->n++;
        }
        if (c->n < DS_PROBE_LINES_MAX)
                c->lines[c->n++] = line;
        return 0;
}

/* Finds the channel among from..to-1 to which the line belongs; `to` if it belongs to none. One comparison with each
 * channel, more after a positive result. */
static int channel_among(ds_probe *probe, uint64_t line, uint32_t from, uint32_t to, uint32_t *ret)
{
        uint32_t once[DS_PROBE_CHANNELS_MAX], said[DS_PROBE_CHANNELS_MAX];
        int r;

        r = vote(probe, from, to, line, 1, once);
        for (*ret = from; *ret < to && !r; ++*ret) {
                if (!once[*ret])
                        continue;
                r = vote(probe, *ret, *ret + 1, line, VOTES, said);
                if (!r && said[*ret] > VOTES / 2)
                        break;
        }
        return r;
}

/* Finds the channel to which the line belongs; *ret is the number of channels if it belongs to none. */
static int channel_of(ds_probe *probe, uint64_t line, uint32_t *ret)
{
        uint32_t said[DS_PROBE_CHANNELS_MAX], to;
        int r = 0;

        for (uint32_t from = 0; from < probe->n && !r; from = to) {
                to = DS_MIN(from + ASKED_AT_ONCE, probe->n);
                r = channel_among(probe, line, from, to, ret);
                if (!r && *ret < to)
                        return 0;
        }
        if (!r)
                r = vote(probe, 0, probe->n, line, VOTES, said);
        *ret = 0;
        for (uint32_t c = 1; c < probe->n && !r; c++)
                *ret = said[c] > said[*ret] ? c : *ret;
        if (!r && (!probe->n || said[*ret] <= VOTES / 2))
                *ret = probe->n;
        return r;
}

/* Examines one more random line. *ret_new: 1 if the line belongs to a new channel. */
static int channel_look(ds_probe *probe, bool *ret_new)
{
        uint64_t line = ds_probe_random_line(probe);
        uint32_t channel;
        int r;

        *ret_new = false;
        if (is_known(probe, line))
                return 0;
        r = channel_of(probe, line, &channel);
        if (r)
                return r;
        *ret_new = channel == probe->n;
        return channel_take(probe, channel, line);
}

/* Merges channels that contend with each other; the later one is removed. */
static int channels_merge(ds_probe *probe)
{
        uint32_t said[DS_PROBE_CHANNELS_MAX];
        int r;

        for (uint32_t c = probe->n; c-- > 1;) {
                r = vote(probe, 0, c, probe->channels[c].lines[0], VOTES, said);
                if (r)
                        return r;
                for (uint32_t other = 0; other < c; other++) {
                        if (said[other] <= VOTES / 2)
                                continue;
                        probe->channels[c] = probe->channels[--probe->n];
                        break;
                }
        }
        return 0;
}

/* Number of lines in a row without a new channel after which the search ends, for n channels: (1 - 1/n)^lines is
 * MISSED / n. */
static uint32_t patience(uint32_t n)
{
        return (uint32_t)ceil(log((n + 1) / MISSED) / -log1p(-1.0 / (n + 1)));
}

/* A random pair of lines that share a channel, or that do not, by the channels found. */
static struct ds_probe_pair known_pair(ds_probe *probe, bool same)
{
        uint32_t a = (uint32_t)(ds_probe_random(probe) % probe->n), b = a, i, k;

        while (!same && b == a)
                b = (uint32_t)(ds_probe_random(probe) % probe->n);
        i = (uint32_t)(ds_probe_random(probe) % probe->channels[a].n);
        k = (uint32_t)(ds_probe_random(probe) % probe->channels[b].n);
        if (same && i == k)
                k = (i + 1) % probe->channels[a].n;
        return (struct ds_probe_pair){probe->channels[a].lines[i], probe->channels[b].lines[k]};
}

/* Measures threshold and error rates with known pairs. */
static int recalibrate(ds_probe *probe)
{
        ds_cleanup(ds_freep) struct ds_probe_pair *pairs = ds_alloc(AGAIN_PAIRS * sizeof(*pairs));
        ds_cleanup(ds_freep) uint32_t *ticks = ds_alloc(AGAIN_PAIRS * sizeof(*ticks));
        struct ds_probe_split *split = &probe->quality.split;
        uint32_t wrong[2] = {};
        int r;

        if (!pairs || !ticks)
                return ds_error_origin(-ENOMEM);
        for (uint32_t i = 0; i < AGAIN_PAIRS; i++)
                pairs[i] = known_pair(probe, i & 1);
        r = compare(probe, pairs, AGAIN_PAIRS, ticks);
        if (!r)
                r = ds_error_trace(ds_probe_split(ticks, AGAIN_PAIRS, DS_PROBE_RATIO, split));
        if (r)
                return r;
        for (uint32_t i = 0; i < AGAIN_PAIRS; i++)
                wrong[i & 1] += (i & 1) != (ticks[i] > split->threshold);
        probe->quality.false_positive = (wrong[0] + 1.0) / (AGAIN_PAIRS / 2 + 2);
        probe->quality.false_negative = (wrong[1] + 1.0) / (AGAIN_PAIRS / 2 + 2);
        ds_probe_evidence(&probe->by_pair, probe->quality.false_positive, probe->quality.false_negative);
        return 0;
}

/* Whether each channel has at least two lines, so that pairs within a channel exist. */
static bool channels_told(const ds_probe *probe)
{
        for (uint32_t c = 0; c < probe->n; c++)
                if (probe->channels[c].n < 2)
                        return false;
        return probe->n > 1;
}

/* Examines lines until a missed channel is improbable, or *looked reaches `most`. */
static int channels_look(ds_probe *probe, uint32_t *looked, uint32_t most)
{
        uint32_t quiet = 0;
        bool new;
        int r = 0;

        for (; !r && *looked < most && quiet < patience(DS_MAX(probe->n, 2u)); ++*looked) {
                r = channel_look(probe, &new);
                quiet = new ? 0 : quiet + 1;
        }
        return r;
}

/* Removes channels with a single line: it did not contend with many others, so its result was wrong. */
static void channels_drop_lonely(ds_probe *probe)
{
        for (uint32_t c = probe->n; c-- > 0;)
                if (probe->channels[c].n < 2)
                        probe->channels[c] = probe->channels[--probe->n];
}

static int try_listening(ds_probe *probe);

/*
 * The search does not wait for a second line of a channel that has only one. Such a line was usually misjudged.
 * Comparing all channels with each other mostly merges it into another channel; otherwise one more search removes it.
 */
int ds_probe_find_channels(ds_probe *probe)
{
        uint32_t looked = 0;
        bool told = false;
        int r = 0;

        for (uint32_t round = 0; round < 2 && !told && !r; round++) {
                r = channels_look(probe, &looked, LOOKS_MAX);
                if (!r)
                        r = channels_merge(probe);
                told = channels_told(probe);
        }
        if (!r && !told) {
                channels_drop_lonely(probe);
                r = channels_told(probe) ? 0 : DS_PROBE_E_CHANNELS;
        }
        if (!r)
                r = recalibrate(probe);
        if (!r && probe->meter.listen)
                r = try_listening(probe);
        return r;
}

/* --- listening: comparing with all representatives at once --- */

static int hear_ticks(ds_probe *probe, const uint64_t *lines, size_t n, uint32_t *ticks)
{
        uint64_t known[DS_PROBE_CHANNELS_MAX];

        for (uint32_t c = 0; c < probe->n; c++)
                known[c] = probe->channels[c].lines[0];
        probe->counts.listened += n;
        return ds_error_trace(probe->meter.listen(probe->meter.user, known, probe->n, lines, n, ticks));
}

int ds_probe_hear(ds_probe *probe, const uint64_t *lines, size_t n, uint8_t *bits)
{
        ds_cleanup(ds_freep) uint32_t *ticks = ds_alloc(DS_MAX(n, 1u) * probe->n * sizeof(*ticks));
        int r;

        if (!ticks)
                return ds_error_origin(-ENOMEM);
        r = hear_ticks(probe, lines, n, ticks);
        for (size_t i = 0; i < n * probe->n && !r; i++)
                bits[i] = ticks[i] > probe->heard[i % probe->n];
        return r;
}

/*
 * Lists labelled lines, all but the first of each channel. Repeats them so that each reader hears lines of its own
 * channel often enough.
 */
static size_t listening_lines(ds_probe *probe, uint64_t *lines, uint8_t *channel)
{
        uint32_t c, k;

        for (uint32_t i = 0; i < AGAIN_PAIRS; i++) {
                c = i % probe->n;
                k = 1 + (uint32_t)(ds_probe_random(probe) % (probe->channels[c].n - 1));
                lines[i] = probe->channels[c].lines[k];
                channel[i] = (uint8_t)c;
        }
        return AGAIN_PAIRS;
}

/* Finds the time threshold of one reader. Returns DS_PROBE_E_ONE_KIND if the reader cannot distinguish its own
 * channel from others. */
static int listening_split(ds_probe *probe, const uint32_t *ticks, size_t n, uint32_t c, uint32_t *column)
{
        struct ds_probe_split split;
        int r;

        for (size_t i = 0; i < n; i++)
                column[i] = ticks[i * probe->n + c];
        r = ds_probe_split(column, n, DS_PROBE_RATIO, &split);
        probe->heard[c] = split.threshold;
        return ds_error_trace(r);
}

/* Tests whether listening is as reliable as comparing, and measures its error rates. */
static int try_listening(ds_probe *probe)
{
        ds_cleanup(ds_freep) uint64_t *lines = ds_alloc(AGAIN_PAIRS * sizeof(*lines));
        ds_cleanup(ds_freep) uint8_t *channel = ds_alloc(AGAIN_PAIRS);
        ds_cleanup(ds_freep) uint32_t *ticks = ds_alloc((size_t)AGAIN_PAIRS * probe->n * sizeof(*ticks));
        ds_cleanup(ds_freep) uint32_t *column = ds_alloc(AGAIN_PAIRS * sizeof(*column));
        uint32_t wrong[2] = {}, of[2] = {};
        double false_positive, false_negative;
        size_t n;
        int r;

        if (!lines || !channel || !ticks || !column)
                return ds_error_origin(-ENOMEM);
        n = listening_lines(probe, lines, channel);
        r = hear_ticks(probe, lines, n, ticks);
        for (uint32_t c = 0; c < probe->n && !r; c++)
                r = listening_split(probe, ticks, n, c, column);
        if (r)
                return r == DS_PROBE_E_ONE_KIND ? 0 : r;
        for (size_t i = 0; i < n * probe->n; i++) {
                bool same = channel[i / probe->n] == i % probe->n;

                of[same]++;
                wrong[same] += same != (ticks[i] > probe->heard[i % probe->n]);
        }
        false_positive = (wrong[0] + 1.0) / (of[0] + 2);
        false_negative = (wrong[1] + 1.0) / (of[1] + 2);
        ds_probe_evidence(&probe->by_ear, false_positive, false_negative);
        probe->quality.listens = false_positive < 0.02 && false_negative < 0.02;
        return 0;
}

/* --- pages --- */

struct page_set {
        const uint64_t *pages;
        uint32_t granules; /* granules per page */
        const uint8_t *wanted;
        uint8_t *labels;
};

static bool is_wanted(const struct page_set *set, size_t at)
{
        return !set->wanted || set->wanted[at / 8] >> at % 8 & 1;
}

static uint64_t granule_line(const ds_probe *probe, const struct page_set *set, size_t at)
{
        return set->pages[at / set->granules] + ((uint64_t)(at % set->granules) << probe->granule_bits);
}

/* Stores the decided labels. A granule that belongs to no known channel stays without a label. */
static void answers_take(
        ds_probe *probe, const struct page_set *set, const struct question *questions, const size_t *where, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                set->labels[where[i]] = questions[i].label;
                probe->counts.granules++;
                if (questions[i].label == DS_PROBE_NONE)
                        probe->counts.undecided++;
                else
                        ds_probe_remember(probe, set->labels, where[i]);
        }
}

static size_t wanted_at(const struct page_set *set, size_t from, size_t to, uint32_t place)
{
        size_t n = 0;

        for (size_t at = from * PLACES + place; at < to * PLACES; at += PLACES)
                n += is_wanted(set, at);
        return n;
}

/* Labels all wanted granules at one position in each block of a range of blocks. */
static int label_place(ds_probe *probe, const struct page_set *set, size_t from, size_t to, uint32_t place)
{
        const size_t most = wanted_at(set, from, to, place);
        ds_cleanup(ds_freep) struct question *questions = ds_alloc(most * sizeof(*questions));
        ds_cleanup(ds_freep) size_t *where = ds_alloc(most * sizeof(*where));
        ds_cleanup(ds_freep) double *odds = ds_alloc(most * (probe->n + 1) * sizeof(*odds));
        size_t n = 0;
        int r;

        if (!most)
                return 0;
        if (!questions || !where || !odds)
                return ds_error_origin(-ENOMEM);
        for (size_t at = from * PLACES + place; at < to * PLACES; at += PLACES) {
                if (!is_wanted(set, at))
                        continue;
                where[n] = at;
                questions[n] = (struct question){.line = granule_line(probe, set, at), .label = DS_PROBE_NONE};
                ds_probe_expect(probe, set->labels, at, &odds[n * (probe->n + 1)]);
                n++;
        }
        r = ds_probe_decide(probe, questions, odds, n, TESTS_MAX);
        if (!r)
                answers_take(probe, set, questions, where, n);
        return r;
}

/* End of the next batch of blocks. The first batches are small, later ones larger because counts exist. If few
 * granules are wanted, a batch has more blocks. */
static size_t batch_end(const ds_probe *probe, const struct page_set *set, size_t from, size_t pieces)
{
        const size_t enough = DS_MAX((size_t)FIRST_PIECES * PLACES, (size_t)probe->counts.granules);
        size_t n = 0;

        for (; from < pieces && n < enough; from++)
                for (size_t at = from * PLACES; at < (from + 1) * PLACES; at++)
                        n += is_wanted(set, at);
        return from;
}

int ds_probe_label(ds_probe *probe, const uint64_t *pages, size_t n, const uint8_t *wanted, uint8_t *labels)
{
        struct page_set set = {
                .pages = pages,
                .granules = (uint32_t)(DS_PROBE_PAGE >> probe->granule_bits),
                .wanted = wanted,
                .labels = labels,
        };
        size_t pieces = set.granules * n / PLACES, to;
        int r = 0;

        memset(labels, DS_PROBE_NONE, set.granules * n);
        for (size_t from = 0; from < pieces && !r; from = to) {
                to = batch_end(probe, &set, from, pieces);
                for (uint32_t place = 0; place < PLACES && !r; place++)
                        r = label_place(probe, &set, from, to, place);
        }
        return r;
}

/* --- results ---------------------- */

uint32_t ds_probe_channels(const ds_probe *probe)
{
        return probe->n;
}

uint32_t ds_probe_granule_bits(const ds_probe *probe)
{
        return probe->granule_bits;
}

const struct ds_probe_quality *ds_probe_quality(const ds_probe *probe)
{
        return &probe->quality;
}

const struct ds_probe_counts *ds_probe_counts(const ds_probe *probe)
{
        return &probe->counts;
}

uint32_t ds_probe_known(const ds_probe *probe, uint32_t channel, uint64_t lines[DS_PROBE_LINES_MAX])
{
        const struct channel *c = &probe->channels[channel];

        memcpy(lines, c->lines, c->n * sizeof(*lines));
        return c->n;
}
