/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "ptx/ir.h"
#include "ptx/pass/pass.h"
#include "ptx/tool/tool.h"
#include "util/alloc.h"
#include "util/macro.h"

static int print_stripped(const ds_ptx_module *module)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *stripped = NULL;
        ds_cleanup(ds_freep) struct ds_ptx_outcome *outcome = ds_alloc0(module->n_functions, sizeof(*outcome));
        static struct ds_ptx_diags diags;
        int r = outcome ? ds_ptx_pass_apply(ds_ptx_pass_find("strip-debug", strlen("strip-debug")), module, NULL, 0,
                                  outcome, &diags, &stripped)
                        : -ENOMEM;

        if (r < 0)
                fprintf(stderr, "detshare-ptx: %s\n", strerror(-r));
        else if (r)
                ds_ptx_tool_diags(&diags, "strip-debug");
        return r ? DS_PTX_TOOL_BAD : ds_ptx_tool_put(stripped);
}

int ds_ptx_tool_print(int argc, char **argv)
{
        static const struct option longs[] = {{"strip-debug", no_argument, NULL, 's'}, {NULL, 0, NULL, 0}};
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        static struct ds_ptx_diags diags;
        bool strip = false;
        int c, r;

        optind = 1;
        while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
                if (c != 's')
                        return ds_ptx_tool_usage("unknown option: print has only --strip-debug");
                strip = true;
        }
        if (argc - optind != 1)
                return ds_ptx_tool_usage("print takes one file");
        r = ds_ptx_tool_load(argv[optind], &diags, &module);
        if (r)
                return r;
        return strip ? print_stripped(module) : ds_ptx_tool_put(module);
}
