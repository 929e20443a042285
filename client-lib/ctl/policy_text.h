/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of policies, parsed from the lines that the daemon sends (PolicyEntry in detshare.proto)
 */
#pragma once

struct ctl_param {
        char name[64], help[512];
        long long def, min, max;
};

/* Read the next line of dsc_policy.params. 1: *ret is filled; 0: no more lines; -1: the line has another format. */
int ctl_next_param(const char **at, struct ctl_param *ret);
/* The value of a parameter in dsc_policy.in_force. 1 and the value, or 0. */
int ctl_param_in_force(const char *in_force, const char *name, long long *ret);
/* The unit that the name ends with ("us", "permille"), "0 or 1" for a flag, else "number". */
const char *ctl_param_type(const struct ctl_param *param);
