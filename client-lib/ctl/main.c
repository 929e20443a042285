/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl: shows and changes the state of the daemon, and runs programs under it
 *
 * commands.c is the table of subcommands.
 */
#include <fcntl.h>
#include <getopt.h>
#include <locale.h>
#include <unistd.h>

#include "ctl/ctl.h"

const char *arg_socket;

/* Opens /dev/null as descriptors 0, 1 and 2 if they are closed: otherwise the daemon's socket would get such a
 * number. Writes to a descriptor that was closed still fail. */
static void open_standard_fds(void)
{
        int fd;
        do
                fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        while (fd >= 0 && fd <= STDERR_FILENO);
        if (fd > STDERR_FILENO)
                close(fd);
}

int main(int argc, char **argv)
{
        static const struct option options[] = {
                {"socket", required_argument, NULL, 's'},
                {"help", no_argument, NULL, 'h'},
                {"version", no_argument, NULL, 'v'},
                {NULL, 0, NULL, 0},
        };
        static char *version[] = {(char *)"version", NULL};
        int c;
        open_standard_fds();
        setlocale(LC_CTYPE, ""); /* not LC_NUMERIC: scripts expect numbers in the C locale */
        while ((c = getopt_long(argc, argv, "+:h", options, NULL)) >= 0) {
                switch (c) {
                case 's':
                        arg_socket = optarg;
                        break;
                case 'h':
                        ctl_print_help();
                        return CTL_OK;
                case 'v':
                        return ctl_dispatch(1, version);
                case ':':
                        return ctl_usage("option %s needs a value", argv[optind - 1]);
                default:
                        return ctl_usage("unknown option %s", argv[optind - 1]);
                }
        }
        if (optind == argc)
                return ctl_usage("which command?");
        return ctl_dispatch(argc - optind, argv + optind);
}
