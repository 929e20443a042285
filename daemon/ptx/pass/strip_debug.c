/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strip-debug: removes .loc, .file, sections, DWARF lines and the target's option "debug"
 *
 * Only debuggers need these. Labels that only sections name stay, without any jump to them.
 */
#include <stdio.h>
#include <string.h>

#include "ptx/pass/pass.h"
#include "util/macro.h"

static bool is_debug(const char *text)
{
        static const char *const words[] = {".loc", ".file", ".section", "@@"};

        for (size_t i = 0; i < DS_ARRAY_SIZE(words); i++)
                if (strncmp(text, words[i], strlen(words[i])) == 0)
                        return true;
        return false;
}

static void strip_function(struct ds_ptx_pass_run *run, const struct ds_ptx_function *f)
{
        for (uint32_t i = 0; i < f->n_items; i++) {
                if (f->items[i].kind != DS_PTX_ITEM_TEXT || !is_debug(f->items[i].text))
                        continue;
                ds_ptx_edit_remove_item(run->edit, f, i);
                ds_ptx_pass_done(run, f);
        }
}

/* Removes the option "debug" of .target: "sm_75, debug" becomes "sm_75". false: there is no such option. */
static bool strip_target(struct ds_ptx_pass_run *run)
{
        const char *text = run->module->target_text, *at = text, *end;
        char kept[256] = "";
        size_t n = 0;
        bool found = false;

        for (; *at; at = *end ? end + 1 : end) {
                at += strspn(at, " \t\r\n");
                end = at + strcspn(at, ",");
                if (strncmp(at, "debug", 5) == 0 && strspn(at + 5, " \t\r\n") == (size_t)(end - at) - 5) {
                        found = true;
                        continue;
                }
                n += (size_t)snprintf(kept + n, sizeof(kept) - n, "%s%.*s", n ? ", " : "", (int)(end - at), at);
                if (n >= sizeof(kept)) /* longer than any compiler writes: left unchanged */
                        return false;
        }
        if (found)
                ds_ptx_edit_target(run->edit, kept);
        return found;
}

int ds_ptx_pass_strip_debug(struct ds_ptx_pass_run *run)
{
        const struct ds_ptx_module *m = run->module;
        bool any = false;

        /* removes debug directives only if all kernels are stripped, since .loc of the others refers to them */
        for (uint32_t i = 0; i < m->n_directives && !run->options.only; i++) {
                if (m->directives[i].kind != DS_PTX_DIRECTIVE_TEXT || !is_debug(m->directives[i].text))
                        continue;
                ds_ptx_edit_remove_directive(run->edit, i);
                any = true;
        }
        if (!run->options.only)
                any |= strip_target(run);
        for (uint32_t i = 0; i < m->n_functions; i++) {
                if (!ds_ptx_pass_wants(run, m->functions[i]))
                        continue;
                strip_function(run, m->functions[i]);
                if (any)
                        ds_ptx_pass_done(run, m->functions[i]);
        }
        return 0;
}
