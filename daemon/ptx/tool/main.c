/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-ptx: inspects PTX, transforms it, and runs it without a GPU
 *
 * For users who debug kernels, and for the tests. Each command is a file of its own; tool.h has their shared code.
 */
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ptx/tool/tool.h"
#include "util/log.h"
#include "util/macro.h"

static const char usage_text[] =
        "usage: detshare-ptx check [--sim] FILE...\n"
        "       detshare-ptx print [--strip-debug] FILE\n"
        "       detshare-ptx stats [--json] [--sm NN] [--block N] FILE\n"
        "       detshare-ptx run [OPTIONS] FILE [KERNEL] ARG...\n"
        "       detshare-ptx pass [--only KERNEL] [--strict] [-v] [--mask MASK] [--layout LAYOUT] NAME[,NAME...] FILE\n"
        "       detshare-ptx pass --list\n"
        "       detshare-ptx forms FILE\n"
        "\n"
        "FILE is PTX text; - is standard input.\n"
        "  check   parse and validate, print only errors; --sim: also instructions that the simulated device lacks\n"
        "  print   print the parsed module as PTX\n"
        "  stats   print functions, registers, memory, instructions per class, and facts for schedulers and passes\n"
        "  run     execute a kernel on the CPU, block after block\n"
        "  pass    transform the module and print it as PTX\n"
        "  forms   print the module with the sliced and the persistent form of its kernels\n"
        "\n"
        "Options of run:\n"
        "  -g, --grid X[,Y[,Z]]    blocks (default 1)\n"
        "  -b, --block X[,Y[,Z]]   threads per block (default 1)\n"
        "      --cluster X[,Y[,Z]] blocks per cluster (default: the kernel's requirement, else 1)\n"
        "  -s, --shared BYTES      dynamic shared memory (default 0)\n"
        "  -k, --kernel NAME       the kernel, if its name is not the first word behind the file\n"
        "      --seed N            run blocks in the order of this seed (default 0: increasing)\n"
        "  -j, --jobs N            run blocks on N threads (default 1)\n"
        "      --watch BLOCK,THREAD  print each instruction of one thread, with written registers, to standard error\n"
        "      --evict N           compare the persistent form, evicted at random by this seed, with the native "
        "kernel\n"
        "  -c, --cost              print the cost of the launch to standard error\n"
        "\n"
        "One ARG per kernel parameter:\n"
        "  TYPE:VALUE              a number, e.g. u32:5 f32:1.5 s64:-1\n"
        "  bytes:HEX               a struct's bytes, e.g. bytes:0100000000000040\n"
        "  [out:]TYPE[N][=INIT]    a pointer to N elements; out: prints them afterwards\n"
        "                          INIT is zero (default), ramp (0, 1, 2, ...), a number, rand:SEED, or @FILE: its "
        "bytes\n"
        "  [out:]TYPE[N][=INIT]>FILE   the elements are written to FILE afterwards, as bytes\n"
        "TYPE is u8 s8 u16 s16 u32 s32 u64 s64 f16 f32 f64 (f16 buffers print and take floats).\n"
        "\n"
        "      --color=WHEN  auto (default: on a terminal unless NO_COLOR is set), always, never\n"
        "  -h, --help        this text\n"
        "  -V, --version     the version\n";

/* Removes --color=WHEN from the words, anywhere before `--`. Returns the new argc, or -1 if WHEN is wrong. */
static int take_color(int argc, char **argv)
{
        static const char option[] = "--color=";
        int n = 1, i = 1;

        if (!ds_ptx_tool_color("auto"))
                return -1;
        for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
                if (strncmp(argv[i], option, strlen(option)) != 0)
                        argv[n++] = argv[i];
                else if (!ds_ptx_tool_color(argv[i] + strlen(option)))
                        return -1;
        }
        for (; i < argc; i++)
                argv[n++] = argv[i];
        argv[n] = NULL;
        return n;
}

static bool is_option(const char *word, const char *name, const char *letter)
{
        return word && (strcmp(word, name) == 0 || strcmp(word, letter) == 0);
}

int main(int argc, char **argv)
{
        char message[80];
        static const struct {
                const char *name;
                int (*run)(int argc, char **argv);
        } commands[] = {{"check", ds_ptx_tool_check}, {"print", ds_ptx_tool_print}, {"stats", ds_ptx_tool_stats},
                {"run", ds_ptx_tool_run}, {"pass", ds_ptx_tool_pass}, {"forms", ds_ptx_tool_forms}};

        ds_log_setup("detshare-ptx", DS_LOG_ERROR);
        opterr = 0;
        argc = take_color(argc, argv);
        if (argc < 0)
                return ds_ptx_tool_usage("--color takes auto, always or never");
        if (argc < 2)
                return ds_ptx_tool_usage("a command is missing");
        if (is_option(argv[1], "--help", "-h") || is_option(argv[2], "--help", "-h"))
                return fputs(usage_text, stdout) < 0 ? DS_PTX_TOOL_BAD : ds_ptx_tool_flush();
        if (is_option(argv[1], "--version", "-V"))
                return printf("detshare-ptx %s\n", DETSHARE_VERSION) < 0 ? DS_PTX_TOOL_BAD : ds_ptx_tool_flush();
        for (size_t i = 0; i < DS_ARRAY_SIZE(commands); i++)
                if (strcmp(argv[1], commands[i].name) == 0)
                        return commands[i].run(argc - 1, argv + 1);
        snprintf(message, sizeof(message), "unknown command '%.40s'", argv[1]);
        return ds_ptx_tool_usage(message);
}
