/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl set-class
 */
#include <string.h>

#include "ctl/ctl.h"

int cmd_set_class(const struct ctl_args *args)
{
        const int ls = !strcmp(args->argv[1], "ls");
        dsc_session *s = NULL;
        uint64_t id;
        int code = ctl_open(&s);
        if (code)
                return code;
        code = ctl_find_id(s, args->argv[0], &id);
        if (!code) {
                /* the daemon treats number 0 as the caller's own session, so refuse it here */
                const int r = id ? dsc_control_set_class(s, id, ls) : DSC_CONTROL_NO_SUCH;
                code = r ? ctl_fail(r, "cannot set the class of client %s", args->argv[0]) : CTL_OK;
        }
        dsc_control_close(s);
        return code;
}
