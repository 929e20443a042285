/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl set-class
 */
#include <getopt.h>
#include <inttypes.h>

#include "ctl/ctl.h"

int cmd_set_class(const struct ctl_command *self, int argc, char **argv)
{
        dsc_session *s = NULL;
        uint64_t id;
        int ls;
        int code = ctl_options(self, argc, argv, NULL, 2, 2);
        if (code >= 0)
                return code;
        if (ctl_parse_id(argv[optind], &id) || ctl_parse_class(argv[optind + 1], &ls))
                return CTL_USAGE;
        code = ctl_open(&s);
        if (code)
                return code;
        const int r = id ? dsc_control_set_class(s, id, ls) : DSC_CONTROL_NO_SUCH;
        if (r)
                code = ctl_fail(r, "cannot set the class of client %" PRIu64, id);
        dsc_control_close(s);
        return code;
}
