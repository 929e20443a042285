/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripts for the chase kernel: the reads and timings of the SGDRC paper's algorithms 1 to 3
 */
#include "lut/probe/paper.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "lut/probe/split.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/macro.h"

#define LINE UINT64_C(128)
#define LINES 8u /* lines per KiB */
#define PAGE DS_MIB(2)
#define L2_BYTES 38 /* CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE */
#define TIMED (UINT32_C(1) << 31)
/* least ratio of the times with and without a bank conflict; small, because a conflict's delay is short relative to
 * the rest */
#define RATIO 1.05
#define CALIBRATION 4096u /* random pairs to find the threshold; about one of some hundred shares a bank */
#define VOTES 4u          /* positive readings after which a KiB counts as part of the bank */
#define TESTS_MOST 4096u  /* maximum number of tests per launch */
#define HELD 8u           /* collected KiB that are held back: they do not fill L2, but show what was evicted */
#define COLLECT_FIRST 128u
#define POOL_PAGES 144u /* pages of the memory in which the KiB of a bank are searched */
#define MARK_LINES 3u   /* lines of a KiB that are timed, to see whether L2 still has the KiB */
#define MARK_AT_ONCE 64u
#define REFRESH_TIMES 5u /* a refresh of L2 reads memory of this many times half of L2's size */

/* offsets in the bench's data, bytes */
#define AT_SCRIPT 0u
#define AT_TIMES DS_MIB(1)
#define AT_LIST DS_MIB(2)
#define STEPS_MOST ((uint32_t)(DS_MIB(1) / 8))
#define LIST_MOST ((uint32_t)((DS_BENCH_DATA - AT_LIST) / 8))

struct step {
        uint32_t first, count;
};

struct params {
        uint64_t script, list, times;
        uint32_t n_steps;
};

struct ds_paper {
        ds_bench *bench;
        const ds_device_kernel *kernel;
        const uint64_t *pages; /* pages that the method uses for itself */
        size_t n_pages, n_refresh;
        uint64_t seed;
        double hit_below, conflict_above;
        struct ds_paper_found found;
        uint32_t n_steps, n_list;
        struct step *script; /* array of STEPS_MOST steps */
        uint64_t *list;      /* array of LIST_MOST addresses */
        uint32_t *times;     /* array of STEPS_MOST times */
};

static const char chase_ptx[] = {
#include "probe_chase.ptx.h"
};
static const unsigned char chase_cubin[] = {
#include "probe_chase.cubin.h"
};
static const struct ds_bench_code chase = {
        "ds_probe_chase", chase_ptx, sizeof(chase_ptx) - 1, chase_cubin, sizeof(chase_cubin) - 1};

/* --- scripts --- */

static void begin(ds_paper *paper)
{
        paper->n_steps = paper->n_list = 0;
}

static void put(ds_paper *paper, uint64_t address)
{
        if (paper->n_list < LIST_MOST)
                paper->list[paper->n_list++] = address;
}

/* Adds a step to the script: reads `count` addresses of the list from index `from` on. Returns the step's number. */
static uint32_t step(ds_paper *paper, uint32_t from, uint32_t count)
{
        if (paper->n_steps < STEPS_MOST)
                paper->script[paper->n_steps++] = (struct step){from, count};
        return paper->n_steps - 1;
}

static uint32_t time_one(ds_paper *paper, uint64_t a)
{
        put(paper, a);
        return step(paper, paper->n_list - 1, TIMED | 1);
}

static uint32_t time_two(ds_paper *paper, uint64_t a, uint64_t b)
{
        put(paper, a);
        put(paper, b);
        return step(paper, paper->n_list - 2, TIMED | 2);
}

/* Adds reads that evict everything read before from L2, if L2 contents survive a launch. */
static void refresh(ds_paper *paper)
{
        uint32_t from = paper->n_list;

        if (!paper->found.survives)
                return;
        for (size_t p = 0; p < paper->n_refresh; p++)
                for (uint64_t at = 0; at < PAGE; at += LINE)
                        put(paper, paper->pages[p] + at);
        step(paper, from, paper->n_list - from);
}

static int run(ds_paper *paper)
{
        uint64_t data = ds_bench_data(paper->bench);
        struct params params = {data + AT_SCRIPT, data + AT_LIST, data + AT_TIMES, paper->n_steps};
        int r;

        if (paper->n_list == LIST_MOST || paper->n_steps == STEPS_MOST)
                return ds_error_origin(-ENOSPC);
        r = ds_bench_write(paper->bench, AT_SCRIPT, paper->script, paper->n_steps * sizeof(*paper->script));
        if (!r)
                r = ds_bench_write(paper->bench, AT_LIST, paper->list, paper->n_list * sizeof(*paper->list));
        if (!r)
                r = ds_bench_launch(paper->bench, paper->kernel, 1, 32, &params, sizeof(params), NULL);
        if (!r)
                r = ds_bench_read(paper->bench, AT_TIMES, paper->times, paper->n_steps * sizeof(*paper->times));
        for (uint32_t i = 0; i < paper->n_steps; i++)
                paper->found.readings += paper->script[i].count >> 31;
        return ds_error_trace(r);
}

/* --- memory --- */

static uint64_t pool_size(const ds_paper *paper)
{
        return (uint64_t)(paper->n_pages - paper->n_refresh) * (PAGE / DS_PAPER_KIB);
}

/* The n-th KiB of the pool, in a permuted order that visits each once. */
static uint64_t pool_at(const ds_paper *paper, uint64_t n)
{
        uint64_t kib = (n * UINT64_C(2654435761) + paper->seed) % pool_size(paper);

        return paper->pages[paper->n_refresh + kib / (PAGE / DS_PAPER_KIB)] +
               kib % (PAGE / DS_PAPER_KIB) * DS_PAPER_KIB;
}

/* --- thresholds --- */

/* Finds the threshold between hits and misses of L2: reads lines for the first time, then again. */
static int calibrate_l2(ds_paper *paper)
{
        enum { N = 512 };
        uint32_t ticks[2 * N], still = 0;
        struct ds_probe_split split;
        int r;

        begin(paper);
        for (uint32_t i = 0; i < 2 * N; i++)
                time_one(paper, pool_at(paper, i / 2));
        r = run(paper);
        if (r)
                return r;
        for (uint32_t i = 0; i < 2 * N; i++)
                ticks[i] = paper->times[i];
        r = ds_probe_split(ticks, 2 * N, RATIO, &split);
        if (r)
                return r < 0 ? r : DS_PAPER_E_BLIND;
        paper->hit_below = split.threshold;
        paper->found.hit = split.low;
        paper->found.miss = split.high;
        begin(paper);
        for (uint32_t i = 0; i < N; i++)
                time_one(paper, pool_at(paper, i));
        r = run(paper);
        for (uint32_t i = 0; i < N; i++)
                still += paper->times[i] < paper->hit_below;
        paper->found.survives = still > N / 4;
        return r;
}

/* Finds the threshold between reads of different banks and reads of one bank (algorithm 1), from random pairs. */
static int calibrate_banks(ds_paper *paper)
{
        struct ds_probe_split split;
        uint32_t from;
        int r;

        begin(paper);
        refresh(paper);
        from = paper->n_steps;
        for (uint32_t i = 0; i < CALIBRATION; i++)
                time_two(paper, pool_at(paper, 2 * i), pool_at(paper, 2 * i + 1) + LINE);
        r = run(paper);
        if (!r)
                r = ds_probe_split(paper->times + from, CALIBRATION, RATIO, &split);
        if (r)
                return r < 0 ? r : DS_PAPER_E_BLIND;
        paper->conflict_above = split.threshold;
        paper->found.apart = split.low;
        paper->found.conflict = split.high;
        return 0;
}

/* --- algorithm 1: KiB that share a bank with a given one --- */

struct collection {
        uint64_t *kib; /* KiB that share the bank; the first is the KiB for which the others are searched */
        uint32_t n, most;
        uint64_t looked; /* KiB of the pool examined so far */
        struct candidate {
                uint64_t kib;
                uint32_t votes;
        } * candidates; /* array of TESTS_MOST; candidates with votes come first */
        uint32_t n_candidates;
};

static void collection_free(struct collection *c)
{
        c->kib = ds_free(c->kib);
        c->candidates = ds_free(c->candidates);
}

static int collection_make(struct collection *c, uint64_t of, uint64_t most)
{
        c->most = (uint32_t)most;
        c->kib = ds_alloc(most * sizeof(*c->kib));
        c->candidates = ds_alloc0(TESTS_MOST, sizeof(*c->candidates));
        if (!c->kib || !c->candidates)
                return ds_error_origin(-ENOMEM);
        c->kib[c->n++] = of;
        return 0;
}

/* Adds candidates, as many as there are pairs of the bank's lines that are not in L2: each test uses up one pair. */
static void collect_fill(const ds_paper *paper, struct collection *c)
{
        uint32_t most = DS_MIN(c->n * LINES / 2, TESTS_MOST);

        while (c->n_candidates < most && c->looked < pool_size(paper))
                c->candidates[c->n_candidates++] = (struct candidate){.kib = pool_at(paper, c->looked++)};
        c->n_candidates = DS_MIN(c->n_candidates, most);
}

static void collect_judge(const ds_paper *paper, struct collection *c, uint32_t from)
{
        uint32_t left = 0;

        for (uint32_t i = 0; i < c->n_candidates; i++) {
                struct candidate *candidate = &c->candidates[i];

                if (candidate->kib == c->kib[0] || paper->times[from + 2 * i + 1] <= paper->conflict_above)
                        continue;
                if (++candidate->votes < VOTES)
                        c->candidates[left++] = *candidate;
                else if (c->n < c->most)
                        c->kib[c->n++] = candidate->kib;
        }
        c->n_candidates = left;
}

/*
 * Pads script and list. Scripts and lists are memory too, and reading a line of them would disturb a test. So the
 * entries of one candidate lie in one line of the script and in one of the list.
 */
static void align(ds_paper *paper)
{
        while (paper->n_list % 4)
                put(paper, 0);
        while (paper->n_steps % 2)
                step(paper, 0, 0);
}

/* Adds the test of a candidate: a first line of the bank opens its row, whatever was read before; then the next line
 * of the bank and the candidate are timed. */
static void time_candidate(ds_paper *paper, uint64_t bank, uint64_t candidate)
{
        put(paper, bank);
        step(paper, paper->n_list - 1, 1);
        time_two(paper, bank + LINE, candidate);
        put(paper, 0);
}

static int collect(ds_paper *paper, struct collection *c, uint32_t wanted)
{
        uint32_t from;
        int r;

        while (c->n < wanted) {
                collect_fill(paper, c);
                if (!c->n_candidates)
                        return DS_PAPER_E_MEMORY;
                begin(paper);
                refresh(paper);
                align(paper);
                from = paper->n_steps;
                for (uint32_t i = 0; i < c->n_candidates; i++)
                        time_candidate(paper, c->kib[i % c->n] + i / c->n * 2 * LINE,
                                c->candidates[i].kib + c->candidates[i].votes * LINE);
                r = run(paper);
                if (r)
                        return r;
                collect_judge(paper, c, from);
        }
        return 0;
}

/* --- algorithm 2: number of lines that fill the channel's part of L2 --- */

/* Adds reads of the first n lines of the collection, without the held-back KiB. */
static void put_filler(ds_paper *paper, const struct collection *c, uint32_t n)
{
        uint32_t from = paper->n_list;

        for (uint32_t i = 0; i < n; i++)
                put(paper, c->kib[HELD + i / LINES] + i % LINES * LINE);
        step(paper, from, n);
}

/* Counts the held-back lines that reading n lines evicts. */
static int thrown_out(ds_paper *paper, const struct collection *c, uint32_t n, uint32_t *ret)
{
        uint32_t from;
        int r;

        begin(paper);
        refresh(paper);
        from = paper->n_list;
        for (uint32_t i = 0; i < HELD * LINES; i++)
                put(paper, c->kib[i / LINES] + i % LINES * LINE);
        step(paper, from, HELD * LINES);
        put_filler(paper, c, n);
        from = paper->n_steps;
        for (uint32_t i = 0; i < HELD * LINES; i++)
                time_one(paper, c->kib[i / LINES] + i % LINES * LINE);
        r = run(paper);
        *ret = 0;
        for (uint32_t i = 0; i < HELD * LINES && !r; i++)
                *ret += paper->times[from + i] >= paper->hit_below;
        return r;
}

/* Finds the least number of lines that evicts all held-back lines but at most one, which may belong to another
 * channel. */
static int fill(ds_paper *paper, struct collection *c, uint32_t *ret)
{
        uint32_t wanted = COLLECT_FIRST, out = 0, low = 0, high, middle;
        int r = 0;

        for (; !r && out < HELD * LINES - LINES; wanted *= 2) {
                r = collect(paper, c, wanted);
                if (!r)
                        r = thrown_out(paper, c, (c->n - HELD) * LINES, &out);
        }
        for (high = (c->n - HELD) * LINES; !r && low < high;) {
                middle = (low + high) / 2;
                r = thrown_out(paper, c, middle, &out);
                if (out < HELD * LINES - LINES)
                        low = middle + 1;
                else
                        high = middle;
        }
        /* a quarter more, because sets of L2 without a held-back line may need more */
        *ret = DS_MIN(high + high / 4, (c->n - HELD) * LINES);
        paper->found.collected = c->n;
        paper->found.needed = high;
        return r;
}

/* --- algorithm 3: marks --- */

static int mark_some(
        ds_paper *paper, const struct collection *c, uint32_t filler, const uint64_t *kib, size_t n, uint8_t *marks)
{
        uint32_t from, at;
        int r;

        begin(paper);
        refresh(paper);
        from = paper->n_list;
        for (size_t i = 0; i < n * MARK_LINES; i++)
                put(paper, kib[i / MARK_LINES] + i % MARK_LINES * LINE);
        step(paper, from, (uint32_t)(n * MARK_LINES));
        put_filler(paper, c, filler);
        at = paper->n_steps;
        for (size_t i = 0; i < n * MARK_LINES; i++)
                time_one(paper, kib[i / MARK_LINES] + i % MARK_LINES * LINE);
        r = run(paper);
        for (size_t i = 0; i < n && !r; i++) {
                uint32_t out = 0;

                for (uint32_t k = 0; k < MARK_LINES; k++)
                        out += paper->times[at + i * MARK_LINES + k] >= paper->hit_below;
                /* one evicted line of three suffices, because the collected lines do not fill every set of L2 */
                marks[i] = out > 0;
        }
        return r;
}

int ds_paper_mark(ds_paper *paper, uint64_t of, const uint64_t *kib, size_t n, uint8_t *marks)
{
        ds_cleanup(collection_free) struct collection c = {};
        uint32_t filler = 0;
        int r;

        r = collection_make(&c, of, pool_size(paper));
        if (!r)
                r = fill(paper, &c, &filler);
        for (size_t i = 0; i < n && !r; i += MARK_AT_ONCE)
                r = mark_some(paper, &c, filler, kib + i, DS_MIN(n - i, MARK_AT_ONCE), marks + i);
        return r;
}

int ds_paper_label(
        ds_paper *paper, const uint64_t *kib, size_t n, uint32_t most, uint8_t *labels, uint32_t *ret_channels)
{
        ds_cleanup(ds_freep) uint8_t *marks = ds_alloc(DS_MAX(n, 1u));
        int r = 0;

        if (!marks)
                return ds_error_origin(-ENOMEM);
        memset(labels, DS_PAPER_NONE, n);
        *ret_channels = 0;
        for (size_t i = 0; i < n && !r && *ret_channels < most; i++) {
                if (labels[i] != DS_PAPER_NONE)
                        continue;
                r = ds_paper_mark(paper, kib[i], kib, n, marks);
                for (size_t k = 0; k < n && !r; k++)
                        if (k == i || (marks[k] && labels[k] == DS_PAPER_NONE))
                                labels[k] = (uint8_t)*ret_channels;
                ++*ret_channels;
        }
        return r;
}

/* --- open, close --- */

static size_t refresh_pages(const struct ds_device_info *info)
{
        return (size_t)DS_DIV_UP((uint64_t)info->attributes[L2_BYTES] * REFRESH_TIMES / 2, PAGE);
}

size_t ds_paper_pages(const struct ds_device_info *info)
{
        return refresh_pages(info) + POOL_PAGES;
}

int ds_paper_new(ds_bench *bench, size_t n_pages, size_t first, uint64_t seed, ds_paper **ret)
{
        ds_cleanup(ds_paper_freep) ds_paper *paper = ds_alloc0(1, sizeof(*paper));
        int r;

        if (!paper)
                return ds_error_origin(-ENOMEM);
        paper->bench = bench;
        paper->seed = seed % (UINT64_C(1) << 32);
        paper->pages = ds_bench_pages(bench) + first;
        paper->n_pages = n_pages - first;
        paper->n_refresh = refresh_pages(ds_bench_info(bench));
        paper->script = ds_alloc(STEPS_MOST * sizeof(*paper->script));
        paper->list = ds_alloc(LIST_MOST * sizeof(*paper->list));
        paper->times = ds_alloc(STEPS_MOST * sizeof(*paper->times));
        if (!paper->script || !paper->list || !paper->times)
                return ds_error_origin(-ENOMEM);
        if (n_pages < first + paper->n_refresh + 2)
                return ds_error_origin(-EINVAL);
        r = ds_bench_load(bench, &chase, &paper->kernel);
        if (!r)
                r = calibrate_l2(paper);
        if (!r)
                r = calibrate_banks(paper);
        if (!r)
                *ret = DS_TAKE_PTR(paper);
        return r;
}

ds_paper *ds_paper_free(ds_paper *paper)
{
        if (!paper)
                return NULL;
        ds_free(paper->script);
        ds_free(paper->list);
        ds_free(paper->times);
        return ds_free(paper);
}

const struct ds_paper_found *ds_paper_found(const ds_paper *paper)
{
        return &paper->found;
}
