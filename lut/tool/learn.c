/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-lut learn: makes a table from samples
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lut/learn/learn.h"
#include "lut/table.h"
#include "lut/tool/tool.h"
#include "util/alloc.h"
#include "util/macro.h"

#define SAMPLES 15000

struct words {
        struct ds_learn_options options;
        const char *output, *input;
        bool quiet;
};

static bool parse_number(const char *text, uint64_t most, uint64_t *ret)
{
        char *end;

        errno = 0;
        *ret = strtoull(text, &end, 10);
        return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *ret <= most;
}

static bool parse_method(const char *text, enum ds_learn_method *ret)
{
        static const char *const names[] = {
                [DS_LEARN_AUTO] = "auto", [DS_LEARN_STRUCTURE] = "structure", [DS_LEARN_NETWORK] = "network"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(names); i++)
                if (strcmp(text, names[i]) == 0) {
                        *ret = (enum ds_learn_method)i;
                        return true;
                }
        return false;
}

/* Parses the command line. Returns -1 to continue, otherwise an exit code. */
static int parse_words(int argc, char **argv, struct words *words)
{
        static const struct option options[] = {{"output", required_argument, NULL, 'o'},
                {"samples", required_argument, NULL, 'n'}, {"method", required_argument, NULL, 'm'},
                {"seed", required_argument, NULL, 's'}, {"quiet", no_argument, NULL, 'q'}, {NULL, 0, NULL, 0}};
        uint64_t number;
        int c;

        opterr = 0;
        while ((c = getopt_long(argc, argv, ":o:q", options, NULL)) >= 0) {
                switch (c) {
                case 'o':
                        words->output = optarg;
                        break;
                case 'q':
                        words->quiet = true;
                        break;
                case 'n':
                        if (!parse_number(optarg, UINT32_MAX, &number) || !number)
                                return ds_lut_tool_usage("--samples takes a number, not %s", optarg);
                        words->options.samples = (uint32_t)number;
                        break;
                case 's':
                        if (!parse_number(optarg, UINT64_MAX, &words->options.seed))
                                return ds_lut_tool_usage("--seed takes a number, not %s", optarg);
                        break;
                case 'm':
                        if (!parse_method(optarg, &words->options.method))
                                return ds_lut_tool_usage("--method takes auto, structure or network");
                        break;
                default:
                        return ds_lut_tool_usage("learn: %s %s",
                                c == ':' ? "an argument is missing after" : "unknown option", argv[optind - 1]);
                }
        }
        if (argc - optind != 1 || !words->output)
                return ds_lut_tool_usage("learn takes one file of samples, and -o TABLE");
        words->input = argv[optind];
        return -1;
}

/* Writes a temporary file and renames it, so that the table is never incomplete. */
static int write_file(const char *path, const uint8_t *bytes, size_t n)
{
        char temporary[4096];
        size_t at = 0;
        ssize_t put;
        int fd;

        if ((size_t)snprintf(temporary, sizeof(temporary), "%s.new", path) >= sizeof(temporary))
                return ds_lut_tool_bad("%s: the name is too long", path);
        fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0)
                return ds_lut_tool_bad("%s: %s", temporary, strerror(errno));
        while (at < n) {
                put = write(fd, bytes + at, n - at);
                if (put < 0 && errno != EINTR)
                        break;
                at += put > 0 ? (size_t)put : 0;
        }
        if (at < n || fsync(fd) < 0 || rename(temporary, path) < 0) {
                ds_lut_tool_bad("%s: %s", path, strerror(errno));
                ds_close(fd);
                unlink(temporary);
                return DS_LUT_TOOL_BAD;
        }
        ds_close(fd);
        return DS_LUT_TOOL_OK;
}

/* Creation time of the table: SOURCE_DATE_EPOCH if set, so that the same samples give the same file; otherwise the
 * present time. */
static int64_t when(void)
{
        const char *set = getenv("SOURCE_DATE_EPOCH");
        uint64_t number;

        return set && parse_number(set, DS_LUT_LEARNT_MAX, &number) ? (int64_t)number : (int64_t)time(NULL);
}

static int complain(const char *path, int r)
{
        switch (r) {
        case DS_LEARN_E_FEW:
                return ds_lut_tool_bad(
                        "%s: too few samples: at least two pages with some hundred granules each are needed", path);
        case DS_LEARN_E_NO_TABLE:
                ds_lut_tool_bad("%s: no table describes these pages; they have to be probed in full", path);
                return DS_LUT_TOOL_UNSUPPORTED;
        }
        return ds_lut_tool_bad("%s: %s", path, strerror(-r));
}

int ds_lut_tool_learn(int argc, char **argv)
{
        struct words words = {.options = {.samples = SAMPLES, .seed = 1, .learner = "detshare-lut " DETSHARE_VERSION}};
        struct ds_lut_samples *samples;
        uint8_t *bytes;
        char why[160];
        size_t n;
        int r;

        r = parse_words(argc, argv, &words);
        if (r >= 0)
                return r;
        words.options.when = when();
        words.options.findings = words.quiet ? NULL : stdout;
        r = ds_lut_samples_read(words.input, &samples, why, sizeof(why));
        if (r)
                return ds_lut_tool_bad("%s: %s", words.input, r > 0 ? why : strerror(-r));
        r = ds_learn(samples, &words.options, &bytes, &n);
        ds_lut_samples_free(samples);
        if (r) {
                fflush(stdout);
                return complain(words.input, r);
        }
        r = write_file(words.output, bytes, n);
        ds_free(bytes);
        if (!r && !words.quiet)
                printf("%s: %zu bytes\n", words.output, n);
        return r ? r : ds_lut_tool_flush();
}
