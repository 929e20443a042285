/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words and exit codes for what can go wrong, and reaching the daemon
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/ctl.h"

void ctl_complain(const char *format, ...)
{
        va_list args;
        va_start(args, format);
        fprintf(stderr, "detsharectl: ");
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
}

int ctl_usage(const char *format, ...)
{
        va_list args;
        va_start(args, format);
        fprintf(stderr, "detsharectl: ");
        vfprintf(stderr, format, args);
        fprintf(stderr, "\nTry 'detsharectl --help'.\n");
        va_end(args);
        return CTL_USAGE;
}

static int exit_code(int error)
{
        switch (error) {
        case DSC_CONTROL_UNREACHABLE:
        case DSC_CONTROL_LOST:
                return CTL_UNREACHABLE;
        case DSC_CONTROL_DENIED:
                return CTL_DENIED;
        case DSC_CONTROL_NO_SUCH:
                return CTL_NO_SUCH;
        case DSC_CONTROL_UNSUPPORTED:
                return CTL_UNSUPPORTED;
        default:
                return CTL_FAILED;
        }
}

int ctl_fail(int error, const char *format, ...)
{
        const char *words = dsc_message();
        va_list args;
        va_start(args, format);
        fprintf(stderr, "detsharectl: ");
        vfprintf(stderr, format, args);
        va_end(args);
        if (words[0])
                fprintf(stderr, ": %s\n", words);
        else
                fprintf(stderr, ": error %d\n", error);
        return exit_code(error);
}

int ctl_open_as(int ls, dsc_session **ret)
{
        const int r = dsc_control_open(arg_socket, ls, ret);
        switch (r) {
        case 0:
                return 0;
        case DSC_CONTROL_UNREACHABLE: /* dsc_message() names the path and the reason */
                ctl_complain("%s; is detshared running?", dsc_message());
                return CTL_UNREACHABLE;
        case DSC_CONTROL_DENIED: /* the socket's rights, or the configuration */
                ctl_complain("permission denied: %s", dsc_message());
                return CTL_DENIED;
        default:
                return ctl_fail(r, "cannot talk to the daemon at %s", dsc_control_path(arg_socket));
        }
}

int ctl_open(dsc_session **ret)
{
        return ctl_open_as(0, ret);
}

int ctl_parse_id(const char *text, uint64_t *ret)
{
        char *end;
        errno = 0;
        const unsigned long long id = strtoull(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end || errno)
                return ctl_usage("%s is not the number of a client", text);
        *ret = id;
        return 0;
}

int ctl_parse_class(const char *text, int *ret_ls)
{
        if (strcmp(text, "ls") && strcmp(text, "be"))
                return ctl_usage("%s is not a class: ls or be", text);
        *ret_ls = !strcmp(text, "ls");
        return 0;
}
