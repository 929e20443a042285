/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl set-policy
 *
 * The daemon checks name and parameters. If it refuses them, the policy in force stays.
 */
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

/* Prints the names of all policies on stderr. */
static void say_names(dsc_session *s)
{
        struct dsc_policy *policies = NULL;
        size_t n = 0;
        if (!dsc_control_policies(s, &policies, &n))
                ctl_say_policies(policies, n);
        free(policies);
}

int cmd_set_policy(const struct ctl_args *args)
{
        const char *name = args->argv[0];
        char *const *params = args->argv + 1;
        const int n = args->argc - 1;
        dsc_session *s = NULL;
        for (int i = 0; i < n; i++)
                if (!strchr(params[i], '=') || params[i][0] == '=')
                        return ctl_usage("set-policy: %s is not KEY=VALUE", params[i]);
        int code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_set_policy(s, name, params, (size_t)n);
        if (r)
                code = ctl_fail(r, "cannot set policy %s", name);
        if (r == DSC_CONTROL_NO_SUCH)
                say_names(s);
        dsc_control_close(s);
        return code;
}
