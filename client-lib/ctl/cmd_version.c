/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl version
 *
 * Succeeds without a daemon, because bug reports need the version when nothing else works.
 */
#include "ctl/ctl.h"

int cmd_version(const struct ctl_args *args)
{
        dsc_session *s = NULL;
        printf("detsharectl %s\n", DETSHARE_VERSION);
        if (dsc_control_open(arg_socket, 0, &s) == 0) {
                printf("detshared %s\n", dsc_control_version(s));
                dsc_control_close(s);
        }
        return CTL_OK;
}
