/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl set-policy
 *
 * The daemon checks name and parameters; when it refuses, the old policy stays.
 */
#include <getopt.h>
#include <string.h>

#include "ctl/ctl.h"

int cmd_set_policy(const struct ctl_command *self, int argc, char **argv)
{
        dsc_session *s = NULL;
        int code = ctl_options(self, argc, argv, NULL, 1, -1);
        if (code >= 0)
                return code;
        const char *name = argv[optind];
        char *const *params = argv + optind + 1;
        const int n = argc - optind - 1;
        for (int i = 0; i < n; i++)
                if (!strchr(params[i], '=') || params[i][0] == '=')
                        return ctl_usage("set-policy: %s is not KEY=VALUE", params[i]);
        code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_set_policy(s, name, params, (size_t)n);
        if (r)
                code = ctl_fail(r, "cannot set policy %s", name);
        dsc_control_close(s);
        return code;
}
