/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl profile: list, delete, export and import the daemon's profiles of kernels
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/demangle.h"
#include "ctl/profile.h"

static void keep(struct dsc_profiles *profiles, const char *filter)
{
        size_t n = 0;
        for (size_t i = 0; i < profiles->n; i++)
                if (ctl_kernel_contains(profiles->rows[i].kernel, filter))
                        profiles->rows[n++] = profiles->rows[i];
        profiles->n = n;
}

static int fetch(const char *filter, struct dsc_profiles *ret)
{
        dsc_session *s = NULL;
        int code = ctl_open(&s);
        if (code)
                return code;
        /* fetch all profiles: the daemon compares only mangled names; this program also compares demangled ones */
        const int r = dsc_control_profiles(s, "", 0, ret);
        if (r)
                code = ctl_fail(r, "cannot list the profiles");
        else
                keep(ret, filter);
        dsc_control_close(s);
        return code;
}

int profile_cmd_list(const struct ctl_args *args)
{
        struct dsc_profiles profiles;
        struct ctl_text text;
        const int as_json = ctl_given(args, "json");
        int code = fetch(args->argc ? args->argv[0] : "", &profiles);
        if (code)
                return code;
        code = ctl_text_open(&text);
        if (!code)
                code = ctl_text_close(&text, profile_list(&profiles, as_json, 0, &text));
        free(profiles.rows);
        return code;
}

int profile_cmd_show(const struct ctl_args *args)
{
        struct dsc_profiles profiles;
        struct ctl_text text;
        int code = fetch(args->argv[0], &profiles);
        if (code)
                return code;
        if (!profiles.n) {
                ctl_complain("the daemon has seen no kernel whose name contains %s", args->argv[0]);
                code = CTL_NO_SUCH;
        }
        if (!code)
                code = ctl_text_open(&text);
        if (!code)
                code = ctl_text_close(&text, profile_details(&profiles, &text));
        free(profiles.rows);
        return code;
}

int profile_cmd_forget(const struct ctl_args *args)
{
        dsc_session *s = NULL;
        uint64_t count = 0;
        const int all = ctl_given(args, "all");
        if (all == (args->argc > 0))
                return ctl_usage("profile forget: an argument is missing: either NAME or --all");
        const char *filter = all ? "" : args->argv[0];
        int code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_profiles_forget(s, filter, &count);
        if (r)
                code = ctl_fail(r, "cannot delete the profiles");
        else
                printf("%" PRIu64 " forgotten\n", count);
        dsc_control_close(s);
        return code;
}

int profile_cmd_export(const struct ctl_args *args)
{
        struct dsc_profiles profiles;
        int code = fetch("", &profiles);
        if (code)
                return code;
        code = profile_export(&profiles, args->argv[0]);
        free(profiles.rows);
        return code;
}

int profile_cmd_import(const struct ctl_args *args)
{
        struct dsc_profiles there;
        struct dsc_profile *rows = NULL;
        dsc_session *s = NULL;
        size_t n = 0;
        int code = fetch("", &there);
        if (code)
                return code;
        free(there.rows);
        code = profile_import(args->argv[0], there.gpu, &rows, &n);
        if (!code)
                code = ctl_open(&s);
        if (code) {
                free(rows);
                return code;
        }
        const int r = dsc_control_profiles_put(s, rows, n);
        if (r)
                code = ctl_fail(r, "cannot import %s", args->argv[0]);
        else
                printf("%zu imported\n", n);
        free(rows);
        dsc_control_close(s);
        return code;
}
