/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-lut probe: measures which channel memory belongs to, and writes a file of samples
 *
 * The file grows by one block per page, so an interrupted run loses no complete page, and the same command continues.
 * On a simulated device a seed always gives the same pages, and pages that are in the file are not measured again; on a
 * GPU only their number counts.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lut/probe/bench.h"
#include "lut/probe/label.h"
#include "lut/probe/structure.h"
#include "lut/samples.h"
#include "lut/table.h"
#include "lut/tool/probe.h"
#include "lut/tool/tool.h"
#include "util/alloc.h"
#include "util/log.h"
#include "util/macro.h"

#define PAGES_DEFAULT 8u
#define PAGES_MAX 65536u
#define PAGES_AT_ONCE 8u /* pages measured before their blocks are written, if a comparison is cheap */
#define SPREAD_BITS 34u  /* number of address bits in the SGDRC paper's hashes */
#define REFERENCE_PAGES 8u
#define PIECE 16u    /* granules per sampled piece of a page */
#define BUS_WIDTH 37 /* CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH */
#define SAY_EVERY_S 10

struct job {
        const struct ds_lut_probe_options *options;
        ds_bench *bench;
        ds_probe *probe;
        struct ds_lut_writer *writer;
        ds_structure *structure;
        uint64_t *todo; /* addresses of the pages that are not measured yet */
        size_t n_todo, n_done;
        uint32_t granules, run; /* granules per page; number of this run */
        uint64_t labelled, doubtful;
        struct ds_probe_counts before; /* the probe's counts before the first label */
        double began;
        time_t said;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
        interrupted = number;
}

static double now(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- progress --- */

static void progress(struct job *job)
{
        enum { WIDTH = 40 };
        size_t done = job->n_done, all = job->n_todo, full = all ? done * WIDTH / all : WIDTH;
        char bar[WIDTH + 1], left[32] = "";

        if (isatty(STDERR_FILENO)) {
                memset(bar, '.', WIDTH);
                memset(bar, '#', full);
                bar[WIDTH] = 0;
                if (done > 0 && done < all)
                        snprintf(left, sizeof(left), ", %.0f s left",
                                (now() - job->began) * (double)(all - done) / (double)done);
                fprintf(stderr, "\r[%s] %zu of %zu pages%s\033[K%s", bar, done, all, left, done == all ? "\n" : "");
        } else if (time(NULL) >= job->said + SAY_EVERY_S) {
                job->said = time(NULL);
                fprintf(stderr, "detshare-lut: %zu of %zu pages\n", done, all);
        }
}

/* --- pages --- */

static bool file_has(const struct ds_lut_samples *samples, uint64_t address)
{
        for (size_t i = 0; samples && i < samples->n_blocks; i++)
                if (samples->blocks[i].address == address)
                        return true;
        return false;
}

/* Selects the pages that are not in the file yet. */
static int choose_pages(struct job *job, const struct ds_lut_samples *samples)
{
        const uint64_t *pages = ds_bench_pages(job->bench);
        uint32_t n = job->options->pages;
        size_t had = samples ? samples->n_blocks : 0;

        job->todo = ds_alloc0(n, sizeof(*job->todo));
        if (!job->todo)
                return ds_lut_tool_bad("out of memory");
        for (uint32_t i = 0; i < n; i++)
                if (ds_bench_info(job->bench)->simulated ? !file_has(samples, pages[i]) : i >= had)
                        job->todo[job->n_todo++] = pages[i];
        return 0;
}

uint8_t *ds_lut_probe_choose(uint32_t granules, uint32_t per_page, size_t n, uint64_t seed)
{
        uint32_t pieces = granules / PIECE, wanted = per_page ? DS_DIV_UP(per_page, PIECE) : pieces, left;
        uint8_t *bits = ds_alloc0(n * granules / 8, 1);

        for (size_t page = 0; bits && page < n; page++) {
                left = DS_MIN(wanted, pieces);
                for (uint32_t i = 0; i < pieces && left; i++) {
                        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                        if ((seed >> 33) % (pieces - i) >= left)
                                continue;
                        left--;
                        memset(bits + (page * granules + i * PIECE) / 8, 0xff, PIECE / 8);
                }
        }
        return bits;
}

static int write_page(struct job *job, uint64_t page, const uint8_t *labels, const uint8_t *chosen, size_t first)
{
        ds_cleanup(ds_freep) struct ds_lut_sample *samples = ds_alloc(job->granules * sizeof(*samples));
        struct ds_lut_block block = {.address = page, .run = job->run, .samples = samples};

        if (!samples)
                return ds_lut_tool_bad("out of memory");
        for (uint32_t g = 0; g < job->granules; g++) {
                if (!ds_lut_probe_chosen(chosen, first + g))
                        continue;
                samples[block.n++] = (struct ds_lut_sample){
                        .unit = g,
                        .label = labels[g] == DS_PROBE_NONE ? DS_LUT_SAMPLE_UNKNOWN : labels[g],
                };
                job->doubtful += labels[g] == DS_PROBE_NONE;
        }
        job->labelled += block.n;
        ds_structure_add(job->structure, labels, job->granules, DS_PROBE_NONE);
        if (ds_lut_writer_put(job->writer, &block))
                return ds_lut_tool_bad("%s: cannot write: %s", job->options->out, strerror(errno));
        return 0;
}

static int measure_pages(struct job *job, size_t n)
{
        const uint64_t *pages = job->todo + job->n_done;
        ds_cleanup(ds_freep) uint8_t *labels = ds_alloc(n * job->granules);
        ds_cleanup(ds_freep) uint8_t *chosen =
                ds_lut_probe_choose(job->granules, job->options->per_page, n, pages[0] ^ job->options->ask.seed);
        int r;

        if (!labels || !chosen)
                return ds_lut_tool_bad("out of memory");
        if (ds_probe_label(job->probe, pages, n, chosen, labels))
                return ds_lut_tool_bad("the device failed");
        for (size_t i = 0; i < n; i++) {
                r = write_page(job, pages[i], labels + i * job->granules, chosen, i * job->granules);
                if (r)
                        return r;
        }
        job->n_done += n;
        progress(job);
        return 0;
}

/* --- reports -------------------------------- */

static void say_found(const struct job *job)
{
        const struct ds_device_info *info = ds_bench_info(job->bench);
        const struct ds_probe_quality *q = ds_probe_quality(job->probe);
        uint32_t n = ds_probe_channels(job->probe), bus = (uint32_t)info->attributes[BUS_WIDTH];

        printf("device     %s%s\n", info->name, info->simulated ? " (sim: no figure is a GPU's)" : "");
        printf("times      %.0f and %.0f %s, %.1f spreads apart; %u reads per warp\n", q->split.low, q->split.high,
                info->simulated ? "ns of the simulated clock" : "clocks or ns", q->split.separation,
                ds_bench_loads(job->bench));
        printf("errors     of one comparison at most %.2f%% false positives, %.2f%% false negatives%s\n",
                q->false_positive * 100, q->false_negative * 100, q->listens ? "; all channels are heard at once" : "");
        printf("granule    %u bytes\n", 1u << ds_probe_granule_bits(job->probe));
        printf("channels   %u", n);
        if (bus && bus % n == 0)
                printf(", %u bits each of a bus of %u\n", bus / n, bus);
        else if (bus)
                printf(", and the bus has %u bits, which they do not divide: be careful with them\n", bus);
        else
                printf("\n");
}

static void say_result(const struct job *job)
{
        const struct ds_probe_counts *counts = ds_probe_counts(job->probe);
        bool simulated = ds_bench_info(job->bench)->simulated;
        double took = now() - job->began;

        printf("labelled   %" PRIu64 " granules of %zu pages, %" PRIu64 " of them doubtful, by %" PRIu64
               " comparisons of two and %" PRIu64 " of all; %" PRIu64 " had been made before\n",
                job->labelled, job->n_done, job->doubtful, counts->pairs - job->before.pairs,
                counts->listened - job->before.listened, job->before.pairs + job->before.listened);
        if (job->options->rate)
                printf("rate       %.0f granules/s%s\n", took > 0 ? (double)job->labelled / took : 0,
                        simulated ? " (sim: the speed of this machine's processor)" : "");
        if (job->options->structure)
                ds_structure_print(job->structure, stdout);
}

static void driver_version(char *ret, size_t size)
{
        FILE *f = fopen("/sys/module/nvidia/version", "re");

        ret[0] = 0;
        if (!f)
                return;
        if (fgets(ret, (int)size, f))
                ret[strcspn(ret, "\n")] = 0;
        fclose(f);
}

void ds_lut_probe_about(const struct ds_device_info *info, uint32_t unit_bits, struct ds_lut_about *ret)
{
        *ret = (struct ds_lut_about){
                .source = info->simulated ? DS_LUT_SIMULATED : DS_LUT_MEASURED,
                .unit_bits = unit_bits,
                .page_bits = DS_PROBE_PAGE_BITS,
                .bus_bits = (uint32_t)info->attributes[BUS_WIDTH],
        };
        if (info->simulated)
                snprintf(ret->device, sizeof(ret->device), "sim:%s", info->model);
        else
                snprintf(ret->device, sizeof(ret->device), "%s", info->name);
        if (!info->simulated)
                driver_version(ret->driver, sizeof(ret->driver));
}

/* --- the run --- */

static int find_out(struct job *job)
{
        struct ds_probe_meter meter;
        int r;

        r = ds_bench_tune(job->bench, job->options->ask.seed);
        ds_bench_meter(job->bench, &meter);
        if (!r)
                r = ds_probe_new(&meter, ds_bench_pages(job->bench), DS_MIN(job->options->pages, REFERENCE_PAGES),
                        job->options->ask.seed, &job->probe);
        if (!r)
                r = ds_probe_calibrate(job->probe);
        if (!r)
                r = ds_probe_find_channels(job->probe);
        switch (r) {
        case 0:
                return 0;
        case DS_PROBE_E_ONE_KIND:
                return ds_lut_tool_bad("there is only one kind of times: channels cannot be measured on this device");
        case DS_PROBE_E_CHANNELS:
                return ds_lut_tool_bad("found fewer than 2 channels, or more than %u", DS_PROBE_CHANNELS_MAX);
        case DS_PROBE_E_GRANULE:
                return ds_lut_tool_bad("contention covers a larger range than channels can cause");
        default:
                return ds_lut_tool_bad("the device failed: %s", strerror(-r));
        }
}

static int open_writer(struct job *job)
{
        struct ds_lut_about about;
        char why[160] = "";
        int r;

        ds_lut_probe_about(ds_bench_info(job->bench), ds_probe_granule_bits(job->probe), &about);
        r = ds_lut_writer_open(job->options->out, &about, &job->writer, why, sizeof(why));
        if (!r)
                return 0;
        return ds_lut_tool_bad("%s: %s", job->options->out, r > 0 ? why : strerror(-r));
}

static int measure_all(struct job *job)
{
        size_t at_once = ds_bench_info(job->bench)->simulated ? 1 : PAGES_AT_ONCE;
        int r = 0;

        job->began = now();
        job->before = *ds_probe_counts(job->probe);
        job->said = time(NULL);
        while (!r && job->n_done < job->n_todo && !interrupted)
                r = measure_pages(job, DS_MIN(at_once, job->n_todo - job->n_done));
        if (r)
                return r;
        say_result(job);
        if (job->n_done < job->n_todo) {
                fprintf(stderr, "\ndetshare-lut: ended with %zu of %zu pages; the same command does the others\n",
                        job->n_done, job->n_todo);
                return DS_LUT_TOOL_BAD;
        }
        return 0;
}

static int run_job(struct job *job, const struct ds_lut_samples *before)
{
        int r;

        r = choose_pages(job, before);
        if (r)
                return r;
        if (!job->n_todo) {
                printf("%s has %zu pages already\n", job->options->out, before->n_blocks);
                return 0;
        }
        r = find_out(job);
        if (r)
                return r;
        job->granules = (uint32_t)(DS_PROBE_PAGE >> ds_probe_granule_bits(job->probe));
        job->run = before ? before->next_run : 0;
        job->structure = ds_structure_new(ds_probe_granule_bits(job->probe));
        if (!job->structure)
                return ds_lut_tool_bad("out of memory");
        say_found(job);
        r = open_writer(job);
        return r ? r : measure_all(job);
}

int ds_lut_probe_before(const char *path, struct ds_lut_samples **ret)
{
        char why[160] = "";
        int r = 0;

        *ret = NULL;
        if (access(path, F_OK) == 0)
                r = ds_lut_samples_read(path, ret, why, sizeof(why));
        return r ? ds_lut_tool_bad("%s: %s", path, r > 0 ? why : strerror(-r)) : 0;
}

static int run(const struct ds_lut_probe_options *options)
{
        struct ds_lut_samples *before = NULL;
        struct job job = {.options = options};
        int r;

        r = ds_lut_probe_before(options->out, &before);
        if (r)
                return r;
        r = ds_bench_open(&options->ask, &job.bench);
        if (r)
                r = ds_lut_tool_bad("%s cannot be opened", options->ask.device);
        else
                r = run_job(&job, before);
        if (job.writer && ds_lut_writer_close(job.writer) && !r)
                r = ds_lut_tool_bad("%s: cannot write", options->out);
        ds_structure_free(job.structure);
        ds_free(job.todo);
        ds_probe_free(job.probe);
        ds_bench_close(job.bench);
        ds_lut_samples_free(before);
        return r ? r : ds_lut_tool_flush();
}

/* --- the command line --- */

static bool number(const char *text, uint64_t most, uint64_t *ret)
{
        char *end;

        errno = 0;
        *ret = strtoull(text, &end, 0);
        return !errno && end != text && !*end && *ret <= most && text[0] != '-';
}

enum {
        OPTION_METHOD = 255,
        OPTION_CHANNELS,
        OPTION_PER_PAGE,
        OPTION_SEED,
        OPTION_SPREAD,
        OPTION_BASE,
        OPTION_RATE,
        OPTION_STRUCTURE,
        OPTION_LAUNCHES
};

static bool take_number(struct ds_lut_probe_options *o, int option, const char *text)
{
        uint64_t n;

        switch (option) {
        case 'p':
                if (!number(text, PAGES_MAX, &n) || !n)
                        return false;
                o->pages = (uint32_t)n;
                return true;
        case OPTION_CHANNELS:
                if (!number(text, 64, &n) || !n)
                        return false;
                o->channels = (uint32_t)n;
                return true;
        case OPTION_PER_PAGE:
                if (!number(text, UINT32_MAX, &n))
                        return false;
                o->per_page = (uint32_t)n;
                return true;
        case OPTION_SEED:
                return number(text, UINT64_MAX, &o->ask.seed);
        case OPTION_SPREAD:
                if (!number(text, 44, &n) || (n && n < 22))
                        return false;
                o->ask.spread_bits = (uint32_t)n;
                return true;
        default:
                return number(text, UINT64_C(1) << 47, &o->ask.base) && !(o->ask.base & (DS_PROBE_PAGE - 1));
        }
}

/* Parses the command line. Returns 0, or an exit code. */
static int take_options(int argc, char **argv, struct ds_lut_probe_options *o)
{
        static const struct option options[] = {
                {"device", required_argument, NULL, 'd'},
                {"output", required_argument, NULL, 'o'},
                {"method", required_argument, NULL, OPTION_METHOD},
                {"channels", required_argument, NULL, OPTION_CHANNELS},
                {"pages", required_argument, NULL, 'p'},
                {"per-page", required_argument, NULL, OPTION_PER_PAGE},
                {"seed", required_argument, NULL, OPTION_SEED},
                {"spread", required_argument, NULL, OPTION_SPREAD},
                {"base", required_argument, NULL, OPTION_BASE},
                {"rate", no_argument, NULL, OPTION_RATE},
                {"structure", no_argument, NULL, OPTION_STRUCTURE},
                {"launches", no_argument, NULL, OPTION_LAUNCHES},
                {"verbose", no_argument, NULL, 'v'},
                {NULL, 0, NULL, 0},
        };
        int option;

        while ((option = getopt_long(argc, argv, "d:o:p:v", options, NULL)) != -1) {
                if (option == '?')
                        return ds_lut_tool_usage("unknown option");
                else if (option == 'd')
                        o->ask.device = optarg;
                else if (option == 'o')
                        o->out = optarg;
                else if (option == 'v')
                        ds_log_setup("detshare-lut", DS_LOG_DEBUG);
                else if (option == OPTION_RATE)
                        o->rate = true;
                else if (option == OPTION_STRUCTURE)
                        o->structure = true;
                else if (option == OPTION_LAUNCHES)
                        o->ask.launches = true;
                else if (option == OPTION_METHOD && !strcmp(optarg, "paper"))
                        o->paper = true;
                else if (option == OPTION_METHOD && strcmp(optarg, "contention") != 0)
                        return ds_lut_tool_usage(
                                "there is no method '%.40s'; contention and paper are accepted", optarg);
                else if (option != OPTION_METHOD && !take_number(o, option, optarg))
                        return ds_lut_tool_usage("'%.40s' is not an accepted number; see detshare-lut --help", optarg);
        }
        if (!o->ask.device || !o->out || optind < argc)
                return ds_lut_tool_usage("probe takes --device DEVICE and -o FILE");
        return 0;
}

int ds_lut_tool_probe(int argc, char **argv)
{
        struct ds_lut_probe_options o = {.ask = {.seed = 1, .spread_bits = SPREAD_BITS}, .pages = PAGES_DEFAULT};
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
        int r;

        r = take_options(argc, argv, &o);
        if (r)
                return r;
        o.ask.n_pages = o.pages;
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        return o.paper ? ds_lut_probe_paper(&o) : run(&o);
}
