/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of policies, out of the lines in which the daemon lists them
 */
#include "ctl/policy_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ctl_next_param(const char **at, struct ctl_param *ret)
{
        const char *line = *at;
        const size_t n = strcspn(line, "\n");
        int help = 0;
        *ret = (struct ctl_param){.name = ""};
        if (!*line)
                return 0;
        *at = line + n + (line[n] == '\n');
        /* form of a line: "ls_percent=50 [10..90]: share of the SMs" */
        if (sscanf(line, "%63[^= \n]=%lld [%lld..%lld]: %n", ret->name, &ret->def, &ret->min, &ret->max, &help) < 4)
                return -1;
        snprintf(ret->help, sizeof(ret->help), "%.*s", help && (size_t)help <= n ? (int)(n - (size_t)help) : 0,
                line + help);
        return 1;
}

int ctl_param_in_force(const char *in_force, const char *name, long long *ret)
{
        const size_t n = strlen(name);
        while (*in_force) {
                if (!strncmp(in_force, name, n) && in_force[n] == '=') {
                        *ret = strtoll(in_force + n + 1, NULL, 10);
                        return 1;
                }
                in_force += strcspn(in_force, "\n");
                in_force += *in_force == '\n';
        }
        return 0;
}

const char *ctl_param_type(const struct ctl_param *param)
{
        static const struct {
                const char *ending, *type;
        } units[] = {{"_us", "us"}, {"_ms", "ms"}, {"_ns", "ns"}, {"_percent", "percent"}, {"_permille", "permille"},
                {"_bytes", "bytes"}, {"_s", "s"}, {"_mib", "MiB"}};
        const size_t n = strlen(param->name);
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
                const size_t ending = strlen(units[i].ending);
                if (n > ending && !strcmp(param->name + n - ending, units[i].ending))
                        return units[i].type;
        }
        return param->min == 0 && param->max == 1 ? "0 or 1" : "number";
}
