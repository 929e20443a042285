/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors: their texts and exit codes; the connection to the daemon
 */
#include <stdarg.h>
#include <unistd.h>

#include "ctl/ctl.h"
#include "ctl/progress.h"

static char usage_path[48]; /* path of the running subcommand, for example "profile list" */

/* Prints "detsharectl: " on stderr, red on a terminal. */
static void prefix(void)
{
        ctl_progress_end();
        fprintf(stderr, ctl_has_colours(STDERR_FILENO) ? "\033[31mdetsharectl:\033[0m " : "detsharectl: ");
}

void ctl_complain(const char *format, ...)
{
        va_list args;
        va_start(args, format);
        prefix();
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
}

void ctl_usage_of(const char *path)
{
        snprintf(usage_path, sizeof(usage_path), "%s", path);
}

int ctl_usage(const char *format, ...)
{
        va_list args;
        va_start(args, format);
        prefix();
        vfprintf(stderr, format, args);
        fprintf(stderr, "\nTry 'detsharectl %s%s--help'.\n", usage_path, usage_path[0] ? " " : "");
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
        prefix();
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
        case DSC_CONTROL_UNREACHABLE: /* the message names the socket and the reason */
                ctl_complain("%s; is detshared running?", dsc_message());
                return CTL_UNREACHABLE;
        case DSC_CONTROL_DENIED: /* the socket's mode or the configuration forbids it */
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
