/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-ptx pass NAME[,NAME...] FILE: transformations, one after the other
 *
 * Each pass's output is parsed and validated before the next one. Standard output gets PTX. Standard error gets each
 * kernel's result with -v, and refusals always.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/ir.h"
#include "ptx/pass/colour.h"
#include "ptx/pass/pass.h"
#include "ptx/tool/tool.h"
#include "util/alloc.h"
#include "util/macro.h"

struct options {
        struct ds_ptx_pass_options pass;
        struct ds_ptx_colour_layout layout;
        bool verbose, strict;
};

static int list_passes(void)
{
        for (const struct ds_ptx_pass *p = ds_ptx_passes; p->name; p++)
                printf("%-14s %s\n", p->name, p->summary);
        return ds_ptx_tool_flush();
}

/* Prints the pass's results for each kernel; returns the number of refused kernels. */
static int tell(const struct ds_ptx_pass *pass, const ds_ptx_module *before, const char *path,
        const struct ds_ptx_outcome *outcome, const struct options *options)
{
        static const char *const words[] = {"unchanged", "done", "refused"};
        int refused = 0;

        for (uint32_t i = 0; i < before->n_functions; i++) {
                const struct ds_ptx_function *f = before->functions[i];
                const struct ds_ptx_outcome *o = &outcome[i];
                char what[200];

                if (!f->has_body || (options->pass.only && strcmp(f->name, options->pass.only) != 0))
                        continue;
                if (o->verdict == DS_PTX_PASS_REFUSED) {
                        refused++;
                        snprintf(what, sizeof(what), "%s leaves %.100s unchanged", pass->name, f->name);
                        ds_ptx_tool_point(before, path, o->line, what, o->reason);
                } else if (options->verbose) {
                        fprintf(stderr, "%s: %s %s\n", pass->name, f->name, words[o->verdict]);
                }
        }
        return refused;
}

/* Runs one pass, and replaces *module by its result. Returns 0, the number of refused kernels, or a negative exit
 * code. */
static int apply(
        const struct ds_ptx_pass *pass, const char *path, ds_ptx_module **module, const struct options *options)
{
        ds_cleanup(ds_freep) struct ds_ptx_outcome *outcome =
                ds_alloc0((*module)->n_functions, sizeof(struct ds_ptx_outcome));
        static struct ds_ptx_diags diags;
        ds_ptx_module *after = NULL;
        int r = outcome ? ds_ptx_pass_apply_with(pass, *module, &options->pass, 0, outcome, &diags, &after) : -ENOMEM;

        if (r < 0) {
                fprintf(stderr, "detshare-ptx: %s: %s\n", path, strerror(-r));
                return -DS_PTX_TOOL_BAD;
        }
        if (r) {
                fprintf(stderr, "detshare-ptx: pass %s wrote invalid PTX for %s, which is a defect of the pass:\n",
                        pass->name, path);
                ds_ptx_tool_diags(&diags, pass->name);
                return -DS_PTX_TOOL_BAD;
        }
        r = tell(pass, *module, path, outcome, options);
        ds_ptx_module_free(*module);
        *module = after;
        return r;
}

/* Runs the passes in order. The line in a refusal refers to the pass's input, which after the first pass is no file. */
static int run_passes(const char *names, const char *path, const struct options *options)
{
        char name[300];
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        static struct ds_ptx_diags diags;
        int r, refused = 0;

        r = ds_ptx_tool_load(path, &diags, &module);
        for (const char *p = names; !r && *p; p += strcspn(p, ","), p += *p == ',') {
                if (p == names)
                        snprintf(name, sizeof(name), "%s", path);
                else
                        snprintf(name, sizeof(name), "%.200s after %.*s", path, (int)DS_MIN(p - names - 1, 80), names);
                r = apply(ds_ptx_pass_find(p, strcspn(p, ",")), name, &module, options);
                refused += DS_MAX(r, 0);
                r = r < 0 ? -r : 0;
        }
        if (r)
                return r;
        r = ds_ptx_tool_put(module);
        return r ? r : refused && options->strict ? DS_PTX_TOOL_UNSUPPORTED : 0;
}

/* log2 of the number at *text; -1: it is no power of two, or the character behind it is not `end`. */
static int power_of(const char **text, char end)
{
        char *behind;
        unsigned long value = strtoul(*text, &behind, 10);

        if (behind == *text || *behind != end || !value || (value & (value - 1)))
                return -1;
        *text = behind + (end != 0);
        return __builtin_ctzl(value);
}

/* Parses a layout: regular:BYTES:EVERY or table:BYTES */
static bool read_layout(const char *text, struct options *options)
{
        static const char regular[] = "regular:", table[] = "table:";
        bool is_regular = strncmp(text, regular, strlen(regular)) == 0;
        int bits, shift = 0;

        if (!is_regular && strncmp(text, table, strlen(table)) != 0)
                return false;
        text += strlen(is_regular ? regular : table);
        bits = power_of(&text, is_regular ? ':' : '\0');
        if (is_regular && bits >= 0)
                shift = power_of(&text, '\0');
        if (bits < 0 || shift < 0)
                return false;
        options->layout = (struct ds_ptx_colour_layout){
                is_regular ? DS_PTX_COLOUR_REGULAR : DS_PTX_COLOUR_TABLE, (uint8_t)bits, (uint8_t)shift};
        options->pass.layout = &options->layout;
        return ds_ptx_colour_layout_is_good(&options->layout);
}

static bool read_mask(const char *text, struct options *options)
{
        char *end;

        errno = 0;
        options->pass.mask = strtoull(text, &end, 16);
        return end != text && !*end && !errno && options->pass.mask;
}

/* Returns -1 if the options are valid, else an exit code. */
static int read_options(int argc, char **argv, struct options *options)
{
        static const struct option longs[] = {{"list", no_argument, NULL, 'l'}, {"only", required_argument, NULL, 'o'},
                {"strict", no_argument, NULL, 's'}, {"verbose", no_argument, NULL, 'v'},
                {"mask", required_argument, NULL, 'm'}, {"layout", required_argument, NULL, 'y'}, {NULL, 0, NULL, 0}};
        int c;

        optind = 1;
        while ((c = getopt_long(argc, argv, "lm:o:svy:", longs, NULL)) != -1) {
                switch (c) {
                case 'l':
                        return list_passes();
                case 'o':
                        options->pass.only = optarg;
                        break;
                case 's':
                        options->strict = true;
                        break;
                case 'v':
                        options->verbose = true;
                        break;
                case 'm':
                        if (!read_mask(optarg, options))
                                return ds_ptx_tool_usage("--mask takes hexadecimal digits, not all 0");
                        break;
                case 'y':
                        if (!read_layout(optarg, options))
                                return ds_ptx_tool_usage("--layout takes regular:BYTES:EVERY or table:BYTES, powers of "
                                                         "two: sectors of 256 bytes to 2 MiB, every 1st to 256th");
                        break;
                default:
                        return ds_ptx_tool_usage("pass has the options --list, --only KERNEL, --strict, --verbose, "
                                                 "--mask MASK and --layout LAYOUT");
                }
        }
        return -1;
}

int ds_ptx_tool_pass(int argc, char **argv)
{
        struct options options = {0};
        int r = read_options(argc, argv, &options);

        if (r >= 0)
                return r;
        if (argc - optind != 2)
                return ds_ptx_tool_usage("pass takes names of passes and a file");
        for (const char *p = argv[optind]; *p; p += strcspn(p, ","), p += *p == ',')
                if (!ds_ptx_pass_find(p, strcspn(p, ",")))
                        return ds_ptx_tool_usage("there is no such pass; 'detshare-ptx pass --list' names them");
        return run_passes(argv[optind], argv[optind + 1], &options);
}
