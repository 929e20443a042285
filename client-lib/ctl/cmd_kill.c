/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl kill
 *
 * Ends the session, not the process: the client's next call fails, and the daemon has everything back.
 */
#include <getopt.h>
#include <inttypes.h>

#include "ctl/ctl.h"

int cmd_kill(const struct ctl_command *self, int argc, char **argv)
{
        dsc_session *s = NULL;
        uint64_t id;
        int code = ctl_options(self, argc, argv, NULL, 1, 1);
        if (code >= 0)
                return code;
        if (ctl_parse_id(argv[optind], &id))
                return CTL_USAGE;
        code = ctl_open(&s);
        if (code)
                return code;
        const int r = dsc_control_kill(s, id);
        if (r)
                code = ctl_fail(r, "cannot end client %" PRIu64, id);
        dsc_control_close(s);
        return code;
}
