/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-ptx forms FILE: prints the module with all forms of its kernels, as a daemon loads it
 *
 * Standard error names each missing form, with the reason.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "ptx/ir.h"
#include "ptx/pass/forms_make.h"
#include "ptx/tool/tool.h"
#include "util/alloc.h"
#include "util/macro.h"

static void tell(const ds_ptx_module *module, const char *path, const struct ds_ptx_form_verdict *verdicts)
{
        char what[200];

        for (uint32_t i = 0; i < module->n_functions; i++)
                for (int form = DS_PTX_FORM_SLICED; form < _DS_PTX_FORM_MAX; form++) {
                        const struct ds_ptx_form_fate *fate = &verdicts[i].forms[form];

                        if (!verdicts[i].forms[DS_PTX_FORM_NATIVE].made || fate->made)
                                continue;
                        snprintf(what, sizeof(what), "%.100s has no %s form", module->functions[i]->name,
                                ds_ptx_form_word((enum ds_ptx_form)form));
                        ds_ptx_tool_point(module, path, fate->line, what, fate->reason);
                }
}

int ds_ptx_tool_forms(int argc, char **argv)
{
        static const struct option longs[] = {{NULL, 0, NULL, 0}};
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *made = NULL;
        ds_cleanup(ds_freep) struct ds_ptx_form_verdict *verdicts = NULL;
        static struct ds_ptx_diags diags;
        int r;

        optind = 1;
        if (getopt_long(argc, argv, "", longs, NULL) != -1 || argc - optind != 1)
                return ds_ptx_tool_usage("forms takes one file");
        r = ds_ptx_tool_load(argv[optind], &diags, &module);
        if (r)
                return r;
        verdicts = ds_alloc0((size_t)module->n_functions + 1, sizeof(*verdicts));
        r = verdicts ? ds_ptx_forms_make(module, 0, &diags, &made, verdicts) : -ENOMEM;
        if (r < 0)
                fprintf(stderr, "detshare-ptx: %s: %s\n", argv[optind], strerror(-r));
        else if (r)
                ds_ptx_tool_diags(&diags, "forms");
        if (r)
                return DS_PTX_TOOL_BAD;
        tell(module, argv[optind], verdicts);
        return ds_ptx_tool_put(made);
}
