/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl kill
 *
 * Ends the session, not the process: the client's next CUDA call fails, and the daemon frees the session's memory.
 */
#include "ctl/ctl.h"

int cmd_kill(const struct ctl_args *args)
{
        dsc_session *s = NULL;
        uint64_t id;
        int code = ctl_open(&s);
        if (code)
                return code;
        code = ctl_find_id(s, args->argv[0], &id);
        if (!code) {
                const int r = dsc_control_kill(s, id);
                code = r ? ctl_fail(r, "cannot end client %s", args->argv[0]) : CTL_OK;
        }
        dsc_control_close(s);
        return code;
}
