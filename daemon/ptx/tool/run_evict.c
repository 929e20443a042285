/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/tool/run_evict.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ptx/ir.h"
#include "ptx/pass/forms_make.h"
#include "ptx/tool/forms_run.h"
#include "ptx/tool/tool.h"
#include "util/alloc.h"
#include "util/macro.h"

/* EVERY_MIN + 0 .. EVERY_SPREAD: number of reads of the control block per stop request, on average */
#define EVERY_MIN 2u
#define EVERY_SPREAD 12u

/* The module with all forms, and the verdict about the kernel. */
struct formed {
        ds_ptx_module *module;
        ds_interp *interp;
        const ds_interp_kernel *kernel;
};

static void formed_close(struct formed *formed)
{
        ds_interp_free(formed->interp);
        ds_ptx_module_free(formed->module);
}

static int no_memory(void)
{
        fprintf(stderr, "detshare-ptx: out of memory\n");
        return DS_PTX_TOOL_BAD;
}

/* Prints why the kernel has no persistent form. Returns an exit code. */
static int no_form(const ds_ptx_module *module, const char *path, const char *name, const struct ds_ptx_form_fate *fate)
{
        char what[200];

        snprintf(what, sizeof(what), "%.100s has no persistent form", name);
        ds_ptx_tool_point(module, path, fate->line, what, fate->reason);
        return DS_PTX_TOOL_UNSUPPORTED;
}

/* Makes the forms and finds the kernel's. Returns an exit code; the caller closes `ret` in both cases. */
static int formed_open(const ds_ptx_module *module, const char *path, const char *name, struct formed *ret)
{
        ds_cleanup(ds_freep) struct ds_ptx_form_verdict *verdicts = NULL;
        static struct ds_ptx_diags diags;
        ds_cleanup(ds_freep) char *form = ds_alloc(strlen(name) + sizeof(DS_PTX_FORM_PERSISTENT_SUFFIX));
        int r;

        *ret = (struct formed){0};
        verdicts = ds_alloc0((size_t)module->n_functions + 1, sizeof(*verdicts));
        r = verdicts && form ? ds_ptx_forms_make(module, 0, &diags, &ret->module, verdicts) : -ENOMEM;
        for (uint32_t i = 0; !r && i < module->n_functions; i++) {
                const struct ds_ptx_form_fate *fate = &verdicts[i].forms[DS_PTX_FORM_PERSISTENT];

                if (!fate->made && fate->reason[0] && strcmp(module->functions[i]->name, name) == 0)
                        return no_form(module, path, name, fate);
        }
        if (!r)
                r = ds_interp_new(ret->module, &diags, &ret->interp);
        if (r < 0)
                return no_memory();
        if (r) {
                ds_ptx_tool_diags(&diags, "forms");
                return DS_PTX_TOOL_BAD;
        }
        strcpy(stpcpy(form, name), DS_PTX_FORM_PERSISTENT_SUFFIX);
        ret->kernel = ds_interp_find_kernel(ret->interp, form);
        return 0;
}

/* Name of a variable of the module that differs between two interpreters, except for addresses in it. NULL: none
 * differs. */
static const char *variable_differs(const ds_ptx_module *module, const ds_interp *a, const ds_interp *b)
{
        for (uint32_t i = 0; i < module->n_vars; i++) {
                const struct ds_ptx_var *v = module->vars[i];
                uint64_t va[2], size[2];

                if ((v->space != DS_PTX_IN_GLOBAL && v->space != DS_PTX_IN_CONST) || v->n_relocs ||
                        v->type >= DS_PTX_TYPE_TEXREF)
                        continue;
                if (ds_interp_find_global(a, v->name, &va[0], &size[0]) ||
                        ds_interp_find_global(b, v->name, &va[1], &size[1]))
                        continue;
                if (size[0] != size[1] ||
                        memcmp((const void *)(uintptr_t)va[0], (const void *)(uintptr_t)va[1], size[0]) != 0)
                        return v->name;
        }
        return NULL;
}

static int compare(const ds_ptx_module *module, const ds_interp *native, const struct formed *formed,
        const struct ds_run_args *args, const struct ds_forms_run *run)
{
        const char *variable = variable_differs(module, native, formed->interp);
        char what[160] = "";

        if (run->wrong[0])
                snprintf(what, sizeof(what), "its control block is wrong: %.100s", run->wrong);
        else if (!ds_run_args_differ(args, what, sizeof(what)) && variable)
                snprintf(what, sizeof(what), "variable %.100s differs", variable);
        fprintf(stderr,
                "persistent: %" PRIu32 " blocks in %" PRIu32 " launches, %" PRIu32 " evictions, %" PRIu64
                " warp instructions: %s\n",
                run->v.n_blocks, run->rounds, run->evictions, run->cost.instructions,
                what[0] ? what : "as the native kernel");
        return what[0] ? DS_PTX_TOOL_BAD : 0;
}

static int fault(const struct formed *formed, const struct ds_forms_run *run, const struct ds_interp_result *result)
{
        char message[300];

        snprintf(message, sizeof(message), "fault in launch %u, thread (%u, %u, %u): %s", run->rounds,
                result->thread[0], result->thread[1], result->thread[2], result->message);
        ds_ptx_tool_point(formed->module, "the persistent form", result->line, "error", message);
        return DS_PTX_TOOL_BAD;
}

int ds_run_evict(const ds_ptx_module *module, const char *path, const ds_interp *interp,
        const struct ds_interp_launch *native, const struct ds_run_args *args, uint64_t seed)
{
        struct ds_interp_result result = {.fault = DS_INTERP_OK};
        struct ds_forms_run run = {0};
        struct formed formed;
        int r = formed_open(module, path, ds_interp_kernel_info(native->kernel)->name, &formed);

        if (!r && ds_forms_run_open(&run, seed))
                r = no_memory();
        if (!r) {
                run.every = EVERY_MIN + ds_forms_run_random(&run, EVERY_SPREAD);
                run.in_turns = (int)ds_forms_run_random(&run, 2);
                if (ds_forms_run_persistent(&run, native, formed.kernel, &result))
                        r = no_memory();
                else
                        r = result.fault ? fault(&formed, &run, &result) : compare(module, interp, &formed, args, &run);
        }
        ds_forms_run_close(&run);
        formed_close(&formed);
        return r;
}
