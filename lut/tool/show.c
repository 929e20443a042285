/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-lut show: prints the content of a table or a file of samples
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lut/samples.h"
#include "lut/table.h"
#include "lut/tool/tool.h"
#include "util/alloc.h"
#include "util/macro.h"

#define PATTERNS_SHOWN 8
#define GRANULES_SHOWN 64

static const char *source_name(uint32_t source)
{
        return source == DS_LUT_SIMULATED ? "simulated" : source == DS_LUT_MEASURED ? "measured" : "unknown";
}

/* --- tables --- */

static void show_pattern(const struct ds_lut *lut, uint32_t pattern)
{
        const struct ds_lut_facts *facts = ds_lut_facts(lut);
        const uint32_t granules = 1u << (facts->page_bits - facts->granule_bits);

        printf("  %6" PRIu32 " ", pattern);
        for (uint32_t i = 0; i < DS_MIN(granules, (uint32_t)GRANULES_SHOWN); i++)
                printf(" %u", ds_lut_channel(lut, pattern, i << facts->granule_bits));
        printf("\n");
}

static void show_table(const struct ds_lut *lut, bool patterns)
{
        static const char *const forms[] = {[DS_LUT_XOR] = "xor",
                [DS_LUT_CONGRUENCE] = "congruence",
                [DS_LUT_MODULUS] = "modulus",
                [DS_LUT_PLACES] = "places"};
        const struct ds_lut_facts *facts = ds_lut_facts(lut);
        const uint32_t *signature;
        size_t n = ds_lut_signature(lut, &signature);
        time_t when = (time_t)facts->learnt_at;
        char date[32];

        strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", gmtime(&when));
        printf("table of VRAM channels, version %u\n", DS_LUT_VERSION);
        printf("model      %s\n", facts->model);
        printf("driver     %s\n", facts->driver[0] ? facts->driver : "none");
        printf("source     %s\n", source_name(facts->source));
        printf("learnt     %s by %s\n", date, facts->learner);
        printf("channels   %u\n", facts->channels);
        printf("granule    %u bytes\n", 1u << facts->granule_bits);
        printf("patterns   %" PRIu32 ", form %s\n", facts->patterns, forms[facts->form]);
        printf("samples    %" PRIu32 "\n", facts->samples);
        printf("held out   %" PRIu32 " of %" PRIu32 " right", facts->held_right, facts->held_out);
        if (facts->held_out)
                printf(" (%.3f%%)", 100. * facts->held_right / facts->held_out);
        printf("\nsignature  %zu probes:", n);
        for (size_t i = 0; i < n; i++)
                printf(" %#" PRIx32, signature[i]);
        printf("\n");
        if (patterns)
                printf("the first %d granules of the first %d patterns:\n", GRANULES_SHOWN, PATTERNS_SHOWN);
        for (uint32_t i = 0; patterns && i < DS_MIN(facts->patterns, (uint32_t)PATTERNS_SHOWN); i++)
                show_pattern(lut, i);
}

/* --- samples --- */

static void show_samples(const struct ds_lut_samples *samples)
{
        uint64_t count[256] = {0};
        uint32_t labels = 0;

        for (size_t i = 0; i < samples->n_blocks; i++)
                for (uint32_t k = 0; k < samples->blocks[i].n; k++)
                        count[samples->blocks[i].samples[k].label]++;
        for (uint32_t label = 0; label < DS_LUT_SAMPLE_UNKNOWN; label++)
                labels += count[label] > 0;
        printf("samples of VRAM channels, version %u\n", DS_LUT_SAMPLES_VERSION);
        printf("device     %s\n", samples->about.device);
        printf("driver     %s\n", samples->about.driver[0] ? samples->about.driver : "none");
        printf("source     %s\n", source_name(samples->about.source));
        printf("unit       %u bytes\n", 1u << samples->about.unit_bits);
        if (samples->about.bus_bits)
                printf("bus        %" PRIu32 " bits\n", samples->about.bus_bits);
        printf("blocks     %zu in %" PRIu32 " runs\n", samples->n_blocks, samples->next_run);
        printf("samples    %" PRIu64 ", %" PRIu64 " of them doubtful\n", samples->n_samples,
                count[DS_LUT_SAMPLE_UNKNOWN]);
        printf("labels     %" PRIu32 ":", labels);
        for (uint32_t label = 0; label < DS_LUT_SAMPLE_UNKNOWN; label++)
                if (count[label])
                        printf(" %" PRIu64, count[label]);
        printf("\n");
        if (samples->torn)
                printf("torn       %" PRIu64 " bytes at the end\n", samples->torn);
}

/* Whether the file begins like a file of samples. Any other file is opened as a table. */
static bool is_samples(const char *path)
{
        char magic[8] = "";
        FILE *file = fopen(path, "re");
        size_t n = file ? fread(magic, 1, sizeof(magic), file) : 0;

        if (file)
                fclose(file);
        return n == sizeof(magic) && memcmp(magic, DS_LUT_SAMPLES_MAGIC, sizeof(magic)) == 0;
}

int ds_lut_tool_show(int argc, char **argv)
{
        static const struct option options[] = {{"patterns", no_argument, NULL, 'p'}, {NULL, 0, NULL, 0}};
        struct ds_lut_samples *samples = NULL;
        struct ds_lut *lut = NULL;
        bool patterns = false;
        char why[160];
        int c, r;

        opterr = 0;
        while ((c = getopt_long(argc, argv, "p", options, NULL)) >= 0) {
                if (c != 'p')
                        return ds_lut_tool_usage("show: unknown option %s", argv[optind - 1]);
                patterns = true;
        }
        if (argc - optind != 1)
                return ds_lut_tool_usage("show takes one file");
        r = is_samples(argv[optind]) ? ds_lut_samples_read(argv[optind], &samples, why, sizeof(why))
                                     : ds_lut_open(argv[optind], NULL, &lut, why, sizeof(why));
        if (r)
                return ds_lut_tool_bad("%s: %s", argv[optind], r > 0 ? why : strerror(-r));
        if (samples)
                show_samples(samples);
        else
                show_table(lut, patterns);
        ds_lut_samples_free(samples);
        ds_lut_free(lut);
        return ds_lut_tool_flush();
}
