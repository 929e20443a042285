/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of policies, parsed from the lines that the daemon sends (PolicyEntry in detshare.proto)
 */
#pragma once

struct ctl_param {
        char name[64], help[512];
        long long def, min, max;
};

/* Reads the next line of dsc_policy.params. 1: *ret has the parameter; 0: no more lines; -1: the line has another
 * format. */
int ctl_next_param(const char **at, struct ctl_param *ret);
/* Reads a parameter's value from dsc_policy.in_force. 1: *ret is the value; 0: the parameter is not there. */
int ctl_param_in_force(const char *in_force, const char *name, long long *ret);
/* Returns the unit with which the name ends ("us", "permille"), "0 or 1" for a flag, else "number". */
const char *ctl_param_type(const struct ctl_param *param);
