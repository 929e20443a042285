/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detsharectl: what people and scripts ask of the daemon
 *
 * The table below is the whole of it: a command's row names its arguments, its help and its function.
 */
#include <fcntl.h>
#include <getopt.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>

#include "ctl/ctl.h"

const char *arg_socket;

static const struct ctl_command commands[] = {
        {"status", "[--json]", "the daemon, its device and its clients", NULL, cmd_status},
        {"top", "[--once] [--json] [--delay SECONDS]", "who uses the device, live",
                "Keys: q ends it. Where the output is no terminal, and with --once or --json, it is printed once.\n",
                cmd_top},
        {"explain", "[--json] CLIENT", "where the time of a client's last requests went",
                "CLIENT is a number or a name, as clients shows them.\n", cmd_explain},
        {"trace", "start [--seconds N] [--size BYTES] | stop FILE", "record all that happens, as a timeline",
                "FILE becomes a timeline for ui.perfetto.dev or chrome://tracing. BYTES may end in K, M or G; what\n"
                "does not fit makes room, the oldest first. N are seconds of the device's clock.\n",
                cmd_trace},
        {"run",
                "[--class ls|be] [--slo-ms N] [--name NAME] [--mem-limit BYTES] [--sm-percent N]\n"
                "           [--gpu-request SHARE] [--gpu-limit SHARE] -- COMMAND [ARGUMENT...]",
                "run a program under DetShare",
                "The program needs no change: it is given DETSHARE_ variables and the drop-in libcuda.so.1.\n"
                "SHARE is of the GPU's time, 0 to 1. BYTES may end in K, M, G or T. Exits like the program; 127 when "
                "it is not found, 126 when it\n"
                "cannot be executed.\n",
                cmd_run},
        {"clients", "[--json]", "who is connected", NULL, cmd_clients},
        {"policies", "[--json]", "the policies that can be set", NULL, cmd_policies},
        {"set-policy", "NAME [KEY=VALUE...]", "change the policy, at once", NULL, cmd_set_policy},
        {"profile", "PACK|list|show|forget|export|import|run [ARGUMENT...]",
                "what is known of kernels, and measuring it", NULL, cmd_profile},
        {"calibrate", "[--quick | [--channels] [--seconds N]] [--force] [--json] | --show [--json] | --forget",
                "measure what kernels do to each other on this GPU",
                "Policies bound BE by it. The policy that was set comes back afterwards. Takes about N seconds (40;\n"
                "--quick: 10), then half a minute for memory channels, which --channels measures alone and --quick\n"
                "leaves out, and a GPU on which nobody else works: --force goes on beside others.\n",
                cmd_calibrate},
        {"lut", "list [--json] [DIR] | show [--json] FILE | verify [--model NAME] FILE",
                "tables of VRAM channels: which there are, what one says, whether one is whole",
                "DIR: those that are installed. verify exits 1 for what is damaged, of another version or model.\n"
                "detshare-lut makes tables.\n",
                cmd_lut},
        {"set-class", "ID ls|be", "change a client's class", NULL, cmd_set_class},
        {"kill", "ID", "end a client's session", NULL, cmd_kill},
        {"version", "", "the versions of this program and of the daemon", NULL, cmd_version},
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct option common[] = {
        {"help", no_argument, NULL, 'h'},
        {"json", no_argument, NULL, 'j'},
        {NULL, 0, NULL, 0},
};

int ctl_help(const struct ctl_command *command)
{
        printf("usage: detsharectl [--socket PATH] %s%s%s\n\n%s\n", command->name, command->arguments[0] ? " " : "",
                command->arguments, command->summary);
        if (command->help)
                printf("\n%s", command->help);
        return CTL_OK;
}

static int help(void)
{
        printf("usage: detsharectl [--socket PATH] COMMAND [ARGUMENT...]\n\n");
        for (size_t i = 0; i < N_COMMANDS; i++)
                printf("  %-12s %s\n", commands[i].name, commands[i].summary);
        printf("\n"
               "  --socket PATH  the daemon's socket (default: DETSHARE_SOCKET, /run/detshare/detshared.sock)\n"
               "  --help         this, or after a command its own help\n"
               "  --version      as the command\n\n"
               "exit status: 0, 1 failed, 2 usage, 3 unsupported, 4 permission, 6 no such object,\n"
               "9 daemon unreachable\n");
        return CTL_OK;
}

int ctl_options(const struct ctl_command *command, int argc, char **argv, int *ret_json, int n_min, int n_max)
{
        int c;
        optind = 0;
        while ((c = getopt_long(argc, argv, "+:h", common, NULL)) >= 0) {
                if (c == 'h')
                        return ctl_help(command);
                if (c != 'j' || !ret_json)
                        return ctl_usage("%s: unknown option %s", command->name, argv[optind - 1]);
                *ret_json = 1;
        }
        const int n = argc - optind;
        if (n < n_min)
                return ctl_usage("%s: an argument is missing: %s", command->name, command->arguments);
        if (n_max >= 0 && n > n_max)
                return ctl_usage("%s: too many arguments: %s", command->name, argv[optind + n_max]);
        return -1;
}

/* 0, 1 and 2 must be something, or the socket would become standard output. Writing to what was closed still fails. */
static void open_standard_fds(void)
{
        int fd;
        do
                fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        while (fd >= 0 && fd <= STDERR_FILENO);
        if (fd > STDERR_FILENO)
                close(fd);
}

static int run_command(int argc, char **argv)
{
        for (size_t i = 0; i < N_COMMANDS; i++)
                if (!strcmp(commands[i].name, argv[0]))
                        return commands[i].run(&commands[i], argc, argv);
        return ctl_usage("unknown command %s", argv[0]);
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
        setlocale(LC_CTYPE, ""); /* numbers stay what scripts expect */
        while ((c = getopt_long(argc, argv, "+:h", options, NULL)) >= 0) {
                switch (c) {
                case 's':
                        arg_socket = optarg;
                        break;
                case 'h':
                        return help();
                case 'v':
                        return run_command(1, version);
                case ':':
                        return ctl_usage("option %s needs a value", argv[optind - 1]);
                default:
                        return ctl_usage("unknown option %s", argv[optind - 1]);
                }
        }
        if (optind == argc)
                return ctl_usage("which command?");
        return run_command(argc - optind, argv + optind);
}
