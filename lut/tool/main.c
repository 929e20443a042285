/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-lut: measures and shows which VRAM channel memory belongs to
 *
 * For people who make a table for a GPU, and for the tests. Each command has a file of its own.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lut/tool/tool.h"
#include "util/log.h"
#include "util/macro.h"

static const char usage_text[] =
        "usage: detshare-lut probe [OPTIONS] --device DEVICE -o SAMPLES\n"
        "       detshare-lut show [--patterns] FILE\n"
        "\n"
        "  probe   measures which channel memory belongs to; what is there is gone on with\n"
        "  learn   make a table of what was probed\n"
        "  show    what a table or a file of samples says\n"
        "\n"
        "Options of probe; a device is sim:MODEL or cuda:N:\n"
        "      --pages N     pages of 2 MiB (default 8)\n"
        "      --per-page N  so many granules of each, at random (default 0: all)\n"
        "      --method M    contention (default), or paper: banks and sets of L2, as the SGDRC paper does\n"
        "      --channels N  the paper's method stops after so many\n"
        "      --rate        say how many granules per second that were\n"
        "      --structure   say how regular the labels are\n"
        "      --seed N      which pages and granules (default 1)\n"
        "      --spread BITS pages of a simulated device lie in so many bits of addresses (default "
        "34)\n"
        "      --base ADDR   ... from here on\n"
        "      --launches    one comparison per launch also on a GPU, which is slow\n"
        "  -v, --verbose     say what is tried\n"
        "\n"
        "Options of learn:\n"
        "  -o, --output FILE     the table; nothing is written when none can be made\n"
        "      --samples N       learn from at most N granules, at random over the pages (default 15000)\n"
        "      --method METHOD   structure, network, or auto (default): the network where there is no structure\n"
        "      --seed N          of what is chosen at random (default 1)\n"
        "  -q, --quiet           do not tell what is found\n"
        "\n"
        "  -h, --help        this text\n"
        "  -V, --version     the version\n";

static bool is_option(const char *word, const char *name, const char *letter)
{
        return word && (strcmp(word, name) == 0 || strcmp(word, letter) == 0);
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                int (*run)(int argc, char **argv);
        } commands[] = {
                {"probe", ds_lut_tool_probe},
                {"learn", ds_lut_tool_learn},
                {"show", ds_lut_tool_show},
        };

        ds_log_setup("detshare-lut", DS_LOG_ERROR);
        if (argc < 2)
                return ds_lut_tool_usage("a command is missing: probe, learn or show");
        if (is_option(argv[1], "--help", "-h") || is_option(argv[2], "--help", "-h"))
                return fputs(usage_text, stdout) < 0 ? DS_LUT_TOOL_BAD : ds_lut_tool_flush();
        if (is_option(argv[1], "--version", "-V"))
                return printf("detshare-lut %s\n", DETSHARE_VERSION) < 0 ? DS_LUT_TOOL_BAD : ds_lut_tool_flush();
        for (size_t i = 0; i < DS_ARRAY_SIZE(commands); i++)
                if (strcmp(argv[1], commands[i].name) == 0)
                        return commands[i].run(argc - 1, argv + 1);
        return ds_lut_tool_usage("unknown command '%.40s'", argv[1]);
}
