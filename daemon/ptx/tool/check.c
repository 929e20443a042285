/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "ptx/interp/interp.h"
#include "ptx/tool/tool.h"
#include "util/macro.h"

/* Checks one file. Returns an exit code. */
static int check_file(const char *path, bool sim)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        static struct ds_ptx_diags diags;
        int r = ds_ptx_tool_load(path, &diags, &module);

        if (r || !sim)
                return r;
        r = ds_interp_new(module, &diags, &interp);
        if (r < 0)
                fprintf(stderr, "detshare-ptx: %s: %s\n", path, strerror(-r));
        else if (r)
                ds_ptx_tool_diags(&diags, path);
        return r < 0 ? DS_PTX_TOOL_BAD : r ? DS_PTX_TOOL_UNSUPPORTED : 0;
}

int ds_ptx_tool_check(int argc, char **argv)
{
        static const struct option longs[] = {{"sim", no_argument, NULL, 's'}, {NULL, 0, NULL, 0}};
        int wrong = 0, refused = 0, c, r, n;
        bool sim = false;

        optind = 1;
        while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
                if (c != 's')
                        return ds_ptx_tool_usage("unknown option: check has only --sim");
                sim = true;
        }
        n = argc - optind;
        if (n < 1)
                return ds_ptx_tool_usage("check takes files");
        for (int i = optind; i < argc; i++) {
                r = check_file(argv[i], sim);
                wrong += r == DS_PTX_TOOL_BAD;
                refused += r == DS_PTX_TOOL_UNSUPPORTED;
        }
        if (n > 1)
                fprintf(stderr, "%d files: %d right, %d wrong", n, n - wrong - refused, wrong);
        if (n > 1 && sim)
                fprintf(stderr, ", %d not executed by the simulated device", refused);
        if (n > 1)
                fputc('\n', stderr);
        return wrong ? DS_PTX_TOOL_BAD : refused ? DS_PTX_TOOL_UNSUPPORTED : 0;
}
