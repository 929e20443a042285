/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of detsharectl's subcommands
 */
#include "ctl/ctl.h"
#include "ctl/profile.h"

/* clang-format off: one row per option and argument */

#define FLAG(option, text)                                     \
        {                                                      \
                .name = option, .kind = CTL_FLAG, .help = text \
        }
#define VALUE(option, of, is, low, high, takes, text)                                                            \
        {                                                                                                        \
                .name = option, .value = of, .kind = is, .min = low, .max = high, .accepts = takes, .help = text \
        }
#define OBJECTIVES "a factor from 1x to 100x, for example 1.5x, or a latency, for example 5ms"
#define JSON FLAG("json", "print JSON, for scripts")
#define WIDE FLAG("wide", "show all columns, however wide the terminal is")

#define ARGUMENT(called, is)               \
        {                                  \
                .name = called, .kind = is \
        }
#define OPTIONAL(called, is)                              \
        {                                                 \
                .name = called, .kind = is, .optional = 1 \
        }
#define SEVERAL(called, is)                                          \
        {                                                            \
                .name = called, .kind = is, .optional = 1, .many = 1 \
        }
#define PROGRAM ARGUMENT("COMMAND", CTL_PROGRAM), SEVERAL("ARGUMENT", CTL_PROGRAM)
#define CLIENT_HELP "CLIENT is a number or a name, as detsharectl clients shows them."

#define END                  \
        {                    \
                .name = NULL \
        }

const struct ctl_option ctl_global_options[] = {
        VALUE("socket", "PATH", CTL_FILE, 0, 0, NULL,
                "the daemon's socket (default: DETSHARE_SOCKET, else /run/detshare/detshared.sock)"),
        FLAG("help", "this text; behind a command, the help of that command"),
        FLAG("version", "the same as the command version"),
        END,
};

static const struct ctl_command trace_commands[] = {
        {
                .name = "start",
                .summary = "start to record",
                .help = "The daemon keeps the newest BYTES of records.",
                .run = trace_start,
                .options =
                        {
                                VALUE("seconds", "N", CTL_REAL, 1e-6, 1e6, "a number of seconds",
                                        "stop after N seconds of the device's clock (default: at trace stop)"),
                                VALUE("size", "BYTES", CTL_BYTES, 1, 0, "a number of bytes",
                                        "memory for the records (default: 64M); K, M or G may follow the number"),
                        },
        },
        {
                .name = "stop",
                .summary = "stop, and write the timeline to FILE",
                .help = "ui.perfetto.dev and chrome://tracing show the file.",
                .run = trace_stop,
                .arguments = {ARGUMENT("FILE", CTL_FILE)},
        },
        END,
};

static const struct ctl_command profile_commands[] = {
        {
                .name = "list",
                .summary = "the kernels that the daemon has seen, or those whose names contain NAME",
                .run = profile_cmd_list,
                .options = {JSON, WIDE},
                .arguments = {OPTIONAL("NAME", CTL_TEXT)},
        },
        {
                .name = "show",
                .summary = "every measurement of the kernels whose names contain NAME",
                .run = profile_cmd_show,
                .arguments = {ARGUMENT("NAME", CTL_TEXT)},
        },
        {
                .name = "forget",
                .summary = "delete the profiles of the kernels whose names contain NAME",
                .help = "The daemon measures these kernels again. It compares NAME with the names in the images only: "
                        "profile list --json shows them as \"kernel\".",
                .run = profile_cmd_forget,
                .options = {FLAG("all", "delete all profiles; without NAME")},
                .arguments = {OPTIONAL("NAME", CTL_TEXT)},
        },
        {
                .name = "export",
                .summary = "write all profiles of this GPU to FILE (- is standard output)",
                .run = profile_cmd_export,
                .arguments = {ARGUMENT("FILE", CTL_FILE)},
        },
        {
                .name = "import",
                .summary = "read profiles of a GPU of the same model from FILE (- is standard input)",
                .run = profile_cmd_import,
                .arguments = {ARGUMENT("FILE", CTL_FILE)},
        },
        {
                .name = "run",
                .summary = "run a program and measure its kernels",
                .help = "Until the program ends, the GPU runs one kernel at a time, whoever launched it. Afterwards "
                        "the daemon sets the policy again that was in force. Exits like the program.",
                .run = profile_run,
                .options =
                        {
                                VALUE("samples", "N", CTL_COUNT, 1, 4, "a number",
                                        "samples of a kernel at each number of SMs (default: 3)"),
                                VALUE("tolerance", "PERMILLE", CTL_COUNT, 1, 1000, "a number of thousandths",
                                        "times that differ by less count as the same (default: 30)"),
                                VALUE("seconds", "N", CTL_COUNT, 1, 86400, "a number of seconds",
                                        "measure for at most N seconds; the program goes on"),
                                JSON,
                                WIDE,
                        },
                .arguments = {PROGRAM},
        },
        END,
};

static const struct ctl_command lut_commands[] = {
        {
                .name = "list",
                .summary = "the installed tables, or those in DIR",
                .run = lut_list,
                .options = {JSON},
                .arguments = {OPTIONAL("DIR", CTL_FILE)},
        },
        {
                .name = "show",
                .summary = "what a table contains",
                .run = lut_show,
                .options = {JSON},
                .arguments = {ARGUMENT("FILE", CTL_FILE)},
        },
        {
                .name = "verify",
                .summary = "check that a table is whole",
                .help = "Exits 1 if the file is damaged, of another version, or for another model.",
                .run = lut_verify,
                .options = {VALUE("model", "NAME", CTL_TEXT, 0, 0, NULL, "the GPU model that the table must be for")},
                .arguments = {ARGUMENT("FILE", CTL_FILE)},
        },
        END,
};

static const struct ctl_command completion_commands[] = {
        {
                .name = "bash",
                .summary = "the script for bash",
                .help = "For the shell at hand: source <(detsharectl completion bash)",
                .run = completion_bash,
        },
        {
                .name = "zsh",
                .summary = "the script for zsh",
                .help = "zsh reads it from a file _detsharectl in a folder of $fpath.",
                .run = completion_zsh,
        },
        {
                .name = "fish",
                .summary = "the script for fish",
                .help = "fish reads it from ~/.config/fish/completions/detsharectl.fish.",
                .run = completion_fish,
        },
        {
                .name = "candidates",
                .summary = "what may stand in place of the last WORD; the scripts use it",
                .help = "Prints a word and its meaning per line, with a tab between; :files or :programs stand for "
                        "what the shell completes itself.",
                .run = completion_candidates,
                .arguments = {{.name = "WORD", .kind = CTL_PROGRAM, .many = 1}},
        },
        END,
};

const struct ctl_command ctl_commands[] = {
        {
                .name = "status",
                .summary = "the daemon, its device and its clients",
                .run = cmd_status,
                .options = {JSON, WIDE},
        },
        {
                .name = "top",
                .summary = "who uses the device, live",
                .help = "q ends it. If the output is no terminal, top prints once and ends.",
                .run = cmd_top,
                .options =
                        {
                                FLAG("once", "print once and end"),
                                JSON,
                                WIDE,
                                VALUE("delay", "SECONDS", CTL_REAL, 0.1, 3600, "a number of seconds",
                                        "time between two pictures (default: 1)"),
                        },
        },
        {
                .name = "explain",
                .summary = "where the time of a client's last requests went",
                .help = CLIENT_HELP,
                .run = cmd_explain,
                .options = {JSON, WIDE},
                .arguments = {ARGUMENT("CLIENT", CTL_CLIENT)},
        },
        {
                .name = "trace",
                .summary = "record what the device does, as a timeline",
                .subcommands = trace_commands,
        },
        {
                .name = "run",
                .summary = "run a program under DetShare",
                .help = "The program needs no change: detsharectl sets DETSHARE_ variables and puts the drop-in "
                        "libcuda.so.1 first in LD_LIBRARY_PATH. Exits like the program; 127 if it is not found, 126 "
                        "if it cannot be executed.",
                .run = cmd_run,
                .options =
                        {
                                VALUE("class", "ls|be", CTL_WORD, 0, 0, "be|ls", "class of the client (default: be)"),
                                VALUE("slo", "OBJECTIVE", CTL_OBJECTIVE, 0, 0, OBJECTIVES,
                                        "latency objective of a request: 1.5x of what it has alone, or 5ms"),
                                VALUE("slo-ms", "N", CTL_REAL, 1e-6, 1e9, "a number of milliseconds",
                                        "latency objective of a request, ms"),
                                VALUE("ttft", "OBJECTIVE", CTL_OBJECTIVE, 0, 0, OBJECTIVES,
                                        "the same for a language model's time to first token"),
                                VALUE("tpot", "OBJECTIVE", CTL_OBJECTIVE, 0, 0, OBJECTIVES,
                                        "the same for its time per output token"),
                                VALUE("name", "NAME", CTL_TEXT, 0, 63, "at most 63 bytes",
                                        "name of the client (default: the program's)"),
                                VALUE("mem-limit", "BYTES", CTL_BYTES, 0, 0, "a number of bytes",
                                        "limit of device memory; K, M, G or T may follow the number"),
                                VALUE("sm-percent", "N", CTL_COUNT, 1, 100, "a percentage",
                                        "share of the SMs that the client may use"),
                                VALUE("gpu-request", "SHARE", CTL_SHARE, 0.001, 1, "a share",
                                        "share of the GPU's time to get at least, 0 to 1"),
                                VALUE("gpu-limit", "SHARE", CTL_SHARE, 0.001, 1, "a share",
                                        "share of the GPU's time to get at most, 0 to 1"),
                        },
                .arguments = {PROGRAM},
        },
        {
                .name = "clients",
                .summary = "who is connected",
                .run = cmd_clients,
                .options = {JSON, WIDE},
        },
        {
                .name = "policies",
                .summary = "the policies, or the parameters of one and their values in force",
                .help = "An asterisk marks the policy in force.",
                .run = cmd_policies,
                .options = {JSON, WIDE},
                .arguments = {OPTIONAL("NAME", CTL_POLICY)},
        },
        {
                .name = "set-policy",
                .summary = "change the policy, at once",
                .help = "detsharectl policies NAME shows the keys and the ranges of a policy's parameters.",
                .run = cmd_set_policy,
                .arguments = {ARGUMENT("NAME", CTL_POLICY), SEVERAL("KEY=VALUE", CTL_PARAMETER)},
        },
        {
                .name = "profile",
                .summary = "what the daemon knows of kernels, and measuring it",
                .help = "PACK is a folder with a model pack. detsharectl measures its kernels like profile run -- "
                        "detshare-serve PACK --requests N, and then what bounds them.",
                .run = profile_pack,
                .subcommands = profile_commands,
                .options =
                        {
                                VALUE("requests", "N", CTL_COUNT, 1, 1e9, "a number",
                                        "requests to serve (default: 100)"),
                                JSON,
                                WIDE,
                        },
                .arguments = {ARGUMENT("PACK", CTL_FILE)},
        },
        {
                .name = "calibrate",
                .summary = "measure how much kernels slow each other down on this GPU",
                .help = "Policies bound BE work by the result. No other client may have work on the GPU meanwhile, "
                        "unless --force is given. Afterwards the daemon sets the policy again that was in force.\n"
                        "--quick goes with neither --seconds nor --channels. --show and --forget go with no option "
                        "but --json.",
                .run = cmd_calibrate,
                .options =
                        {
                                FLAG("quick", "measure for 10 seconds, and no memory channels"),
                                FLAG("channels", "measure only the memory channels"),
                                VALUE("seconds", "N", CTL_COUNT, 1, 3600, "a number of seconds",
                                        "time for all but the memory channels, about (default: 40)"),
                                FLAG("force", "measure although other clients are at work"),
                                FLAG("show", "print the stored calibration of this GPU"),
                                FLAG("forget", "delete the stored calibration of this GPU"),
                                JSON,
                        },
        },
        {
                .name = "lut",
                .summary = "tables of VRAM channels",
                .help = "detshare-lut makes these tables.",
                .subcommands = lut_commands,
        },
        {
                .name = "set-class",
                .summary = "change a client's class",
                .help = CLIENT_HELP,
                .run = cmd_set_class,
                .arguments = {ARGUMENT("CLIENT", CTL_CLIENT), {.name = "ls|be", .kind = CTL_WORD, .words = "ls|be"}},
        },
        {
                .name = "kill",
                .summary = "end a client's session",
                .help = CLIENT_HELP " The process lives on; its CUDA calls fail.",
                .run = cmd_kill,
                .arguments = {ARGUMENT("CLIENT", CTL_CLIENT)},
        },
        {
                .name = "completion",
                .summary = "print the completion script of a shell",
                .help = "The packages and make install put the scripts where the shells look for them.",
                .subcommands = completion_commands,
        },
        {
                .name = "version",
                .summary = "the versions of this program and of the daemon",
                .run = cmd_version,
        },
        END,
};
