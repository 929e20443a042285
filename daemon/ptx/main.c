/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detshare-ptx: look at PTX, and run it without a GPU
 *
 * For people who debug kernels, and for the tests. PTX and results go to standard output, diagnostics with carets to
 * standard error. Exit code 0: fine; 1: the input is wrong or the kernel faulted; 2: the command line is wrong;
 * 3: the text is right but the interpreter does not execute it.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ptx/interp/interp.h"
#include "ptx/ir.h"
#include "ptx/ptx.h"
#include "ptx/run_args.h"
#include "util/alloc.h"
#include "util/log.h"
#include "util/macro.h"

#define EXIT_BAD 1
#define EXIT_USAGE 2
#define EXIT_UNSUPPORTED 3
#define MAX_FILE DS_MIB(256)
#define MAX_THREADS 1024
#define MAX_SHARED (227 * 1024)

static const char usage_text[] =
        "usage: detshare-ptx check FILE\n"
        "       detshare-ptx print FILE\n"
        "       detshare-ptx stats FILE\n"
        "       detshare-ptx run FILE KERNEL --grid X[,Y[,Z]] --block X[,Y[,Z]] [--shared BYTES] [--cost] ARG...\n"
        "\n"
        "FILE is PTX text; - is standard input.\n"
        "  check   parse and validate, say nothing when all is well\n"
        "  print   the module as this front end understands it, as PTX\n"
        "  stats   functions, registers, memory and instructions per class\n"
        "  run     execute a kernel on the CPU, block after block\n"
        "\n"
        "Options of run:\n"
        "  -g, --grid X[,Y[,Z]]    blocks (default 1)\n"
        "  -b, --block X[,Y[,Z]]   threads per block (default 1)\n"
        "  -s, --shared BYTES      dynamic shared memory (default 0)\n"
        "  -c, --cost              print what the launch executed to standard error\n"
        "\n"
        "One ARG per kernel parameter:\n"
        "  TYPE:VALUE              a number, e.g. u32:5 f32:1.5 s64:-1\n"
        "  bytes:HEX               a struct's bytes, e.g. bytes:0100000000000040\n"
        "  [out:]TYPE[N][=INIT]    a pointer to N elements; out: prints them afterwards\n"
        "                          INIT is zero (default), ramp (0, 1, 2, ...), a number, or rand:SEED\n"
        "TYPE is u8 s8 u16 s16 u32 s32 u64 s64 f16 f32 f64 (f16 buffers print and take floats).\n"
        "\n"
        "  -h, --help     this text\n"
        "  -V, --version  the version\n";

static int usage_error(const char *message)
{
        fprintf(stderr, "detshare-ptx: %s\nTry 'detshare-ptx --help'.\n", message);
        return EXIT_USAGE;
}

/* --- reading and parsing ----------------------------------------------------------------------------------------- */
struct text {
        char *data;
        size_t length;
};

static void text_freep(struct text *text)
{
        text->data = ds_free(text->data);
}

static int read_stream(FILE *in, struct text *text)
{
        size_t capacity = 0;

        for (;;) {
                size_t n;

                if (text->length == capacity) {
                        char *grown;

                        if (capacity >= MAX_FILE)
                                return -EFBIG;
                        capacity = capacity ? capacity * 2 : (size_t)64 << 10;
                        grown = ds_realloc(text->data, capacity, 1);
                        if (!grown)
                                return -ENOMEM;
                        text->data = grown;
                }
                errno = EIO;
                n = fread(text->data + text->length, 1, capacity - text->length, in);
                text->length += n;
                if (!n)
                        return ferror(in) ? -errno : 0;
        }
}

static int read_file(const char *path, struct text *text)
{
        bool is_stdin = strcmp(path, "-") == 0;
        FILE *in = is_stdin ? stdin : fopen(path, "re");
        int r = in ? read_stream(in, text) : -errno;

        if (in && !is_stdin)
                fclose(in);
        if (r)
                fprintf(stderr, "detshare-ptx: %s: %s\n", path, strerror(-r));
        return r;
}

static void print_diags(const struct ds_ptx_diags *diags, const char *path)
{
        size_t size = ds_ptx_diags_format(diags, path, NULL, 0) + 1;
        char *buffer = ds_alloc(size);

        if (!buffer)
                return;
        ds_ptx_diags_format(diags, path, buffer, size);
        fputs(buffer, stderr);
        ds_free(buffer);
}

/* 0, or an exit code after saying why */
static int load(const char *path, struct ds_ptx_diags *diags, ds_ptx_module **ret)
{
        ds_cleanup(text_freep) struct text text = {0};
        int r;

        if (read_file(path, &text))
                return EXIT_BAD;
        r = ds_ptx_parse(text.data, text.length, 0, diags, ret);
        if (r < 0)
                fprintf(stderr, "detshare-ptx: %s: %s\n", path, strerror(-r));
        else if (r)
                print_diags(diags, path);
        return r ? EXIT_BAD : 0;
}

/* --- check, print, stats ----------------------------------------------------------------------------------------- */
static int command_check(int argc, char **argv)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        struct ds_ptx_diags diags;

        if (argc != 2)
                return usage_error("check takes one file");
        return load(argv[1], &diags, &module);
}

static int command_print(int argc, char **argv)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        struct ds_ptx_diags diags;
        int r;

        if (argc != 2)
                return usage_error("print takes one file");
        r = load(argv[1], &diags, &module);
        if (r)
                return r;
        r = ds_ptx_print(module, stdout);
        if (r || fflush(stdout)) {
                fprintf(stderr, "detshare-ptx: standard output: %s\n", strerror(r ? -r : errno));
                return EXIT_BAD;
        }
        return 0;
}

static uint64_t bytes_in(const struct ds_ptx_function *f, enum ds_ptx_space space)
{
        uint64_t bytes = 0;

        for (uint32_t i = 0; i < f->n_vars; i++)
                if (f->vars[i]->space == space)
                        bytes += f->vars[i]->size;
        return bytes;
}

static void print_function_stats(const struct ds_ptx_function *f)
{
        uint32_t counts[_DS_PTX_CLASS_MAX] = {0}, refused = 0;

        for (uint32_t i = 0; i < f->n_instrs; i++) {
                const struct ds_ptx_op_info *info = ds_ptx_op_info((enum ds_ptx_op)f->instrs[i].op);

                counts[info->class]++;
                refused += !info->run;
        }
        printf("%s %s\n", f->is_entry ? "entry" : "func", f->name);
        printf("  parameters %u (%u bytes), registers %u, labels %u, shared %" PRIu64 " bytes, local %" PRIu64
               " bytes\n",
                f->n_params, f->params_size, f->n_regs, f->n_labels, bytes_in(f, DS_PTX_IN_SHARED),
                bytes_in(f, DS_PTX_IN_LOCAL));
        printf("  instructions %u:", f->n_instrs);
        for (uint32_t i = 0; i < _DS_PTX_CLASS_MAX; i++)
                if (counts[i])
                        printf(" %s %u", ds_ptx_class_name((enum ds_ptx_class)i), counts[i]);
        printf("\n");
        if (refused)
                printf("  not executed by the interpreter: %u\n", refused);
}

static int command_stats(int argc, char **argv)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        struct ds_ptx_diags diags;
        int r;

        if (argc != 2)
                return usage_error("stats takes one file");
        r = load(argv[1], &diags, &module);
        if (r)
                return r;
        printf("PTX %u.%u for sm_%u, %u variables, %u functions\n", module->version / 10, module->version % 10,
                module->target, module->n_vars, module->n_functions);
        for (uint32_t i = 0; i < module->n_functions; i++)
                if (module->functions[i]->has_body)
                        print_function_stats(module->functions[i]);
        return fflush(stdout) ? EXIT_BAD : 0;
}

/* --- run --------------------------------------------------------------------------------------------------------- */
struct run_options {
        uint32_t grid[3], block[3];
        uint32_t shared;
        bool cost;
};

static bool parse_extent(const char *text, uint32_t extent[3])
{
        for (int i = 0; i < 3; i++)
                extent[i] = 1;
        for (int i = 0; i < 3; i++) {
                char *end;
                unsigned long value = strtoul(text, &end, 10);

                if (end == text || !value || value > INT32_MAX)
                        return false;
                extent[i] = (uint32_t)value;
                if (!*end)
                        return true;
                if (*end != ',')
                        return false;
                text = end + 1;
        }
        return false;
}

static int parse_run_options(int argc, char **argv, struct run_options *options)
{
        static const struct option longs[] = {{"grid", required_argument, NULL, 'g'},
                {"block", required_argument, NULL, 'b'}, {"shared", required_argument, NULL, 's'},
                {"cost", no_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};
        char *end;
        int c;

        *options = (struct run_options){.grid = {1, 1, 1}, .block = {1, 1, 1}};
        optind = 1;
        while ((c = getopt_long(argc, argv, "g:b:s:c", longs, NULL)) != -1) {
                switch (c) {
                case 'g':
                        if (!parse_extent(optarg, options->grid))
                                return usage_error("--grid takes X[,Y[,Z]]");
                        break;
                case 'b':
                        if (!parse_extent(optarg, options->block))
                                return usage_error("--block takes X[,Y[,Z]]");
                        break;
                case 's':
                        options->shared = (uint32_t)strtoul(optarg, &end, 0);
                        if (!*optarg || *end || options->shared > MAX_SHARED)
                                return usage_error("--shared takes a number of bytes, at most 232448");
                        break;
                case 'c':
                        options->cost = true;
                        break;
                default:
                        return usage_error("unknown option");
                }
        }
        if ((uint64_t)options->block[0] * options->block[1] * options->block[2] > MAX_THREADS)
                return usage_error("a block has at most 1024 threads");
        return 0;
}

static void add_cost(struct ds_interp_cost *sum, const struct ds_interp_cost *cost)
{
        sum->instructions += cost->instructions;
        sum->memory_instructions += cost->memory_instructions;
        sum->sectors += cost->sectors;
        sum->shared_instructions += cost->shared_instructions;
        sum->special_instructions += cost->special_instructions;
        sum->tensor_instructions += cost->tensor_instructions;
        sum->barriers += cost->barriers;
        sum->critical_path = DS_MAX(sum->critical_path, cost->critical_path);
}

static void print_cost(const struct ds_interp_cost *cost)
{
        fprintf(stderr,
                "warp instructions %" PRIu64 ", global memory %" PRIu64 " (%" PRIu64 " sectors), shared %" PRIu64
                ", special %" PRIu64 ", tensor %" PRIu64 ", barriers %" PRIu64 ", longest warp %" PRIu64 "\n",
                cost->instructions, cost->memory_instructions, cost->sectors, cost->shared_instructions,
                cost->special_instructions, cost->tensor_instructions, cost->barriers, cost->critical_path);
}

static int report_fault(const struct ds_interp_result *result, uint32_t x, uint32_t y, uint32_t z)
{
        fprintf(stderr, "detshare-ptx: fault in block (%u, %u, %u), thread (%u, %u, %u), PTX line %u: %s\n", x, y, z,
                result->thread[0], result->thread[1], result->thread[2], result->line, result->message);
        return EXIT_BAD;
}

static int run_blocks(const struct ds_interp_launch *launch, struct ds_interp_cost *cost)
{
        ds_cleanup(ds_interp_block_freep) ds_interp_block *work = ds_interp_block_new();
        uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];

        if (!work) {
                fprintf(stderr, "detshare-ptx: out of memory\n");
                return EXIT_BAD;
        }
        for (uint64_t i = 0; i < blocks; i++) {
                uint32_t x = (uint32_t)(i % launch->grid[0]), y = (uint32_t)(i / launch->grid[0] % launch->grid[1]);
                uint32_t z = (uint32_t)(i / launch->grid[0] / launch->grid[1]);
                struct ds_interp_result result = {0};

                if (ds_interp_run_block(work, launch, x, y, z, &result)) {
                        fprintf(stderr, "detshare-ptx: out of memory\n");
                        return EXIT_BAD;
                }
                add_cost(cost, &result.cost);
                if (result.fault)
                        return report_fault(&result, x, y, z);
        }
        return 0;
}

/* argv: the kernel's arguments */
static int launch_kernel(const ds_interp_kernel *kernel, const struct run_options *options, int argc, char **argv)
{
        const struct ds_interp_kernel_info *info = ds_interp_kernel_info(kernel);
        ds_cleanup(ds_run_args_freep) struct ds_run_args *args = NULL;
        struct ds_interp_cost cost = {0};
        struct ds_interp_launch launch = {
                .kernel = kernel, .dynamic_shared = options->shared, .params_size = info->params_size, .n_sms = 1};
        char message[160];
        int r;

        if (info->static_shared + options->shared > MAX_SHARED)
                return usage_error("the kernel's shared memory and --shared pass 232448 bytes");
        if (ds_run_args_new(info, argc, argv, message, sizeof(message), &args))
                return usage_error(message);
        memcpy(launch.grid, options->grid, sizeof(launch.grid));
        memcpy(launch.block, options->block, sizeof(launch.block));
        launch.params = ds_run_args_params(args);
        launch.ranges = ds_run_args_ranges(args, &launch.n_ranges);
        r = run_blocks(&launch, &cost);
        if (!r)
                ds_run_args_print(args, stdout);
        if (options->cost)
                print_cost(&cost);
        return fflush(stdout) ? EXIT_BAD : r;
}

static int command_run(int argc, char **argv)
{
        ds_cleanup(ds_ptx_module_freep) ds_ptx_module *module = NULL;
        ds_cleanup(ds_interp_freep) ds_interp *interp = NULL;
        const ds_interp_kernel *kernel;
        struct run_options options;
        struct ds_ptx_diags diags;
        int r = parse_run_options(argc, argv, &options);

        if (r)
                return r;
        if (argc - optind < 2)
                return usage_error("run takes a file and a kernel's name");
        r = load(argv[optind], &diags, &module);
        if (r)
                return r;
        r = ds_interp_new(module, &diags, &interp);
        if (r) {
                print_diags(&diags, argv[optind]);
                return r > 0 ? EXIT_UNSUPPORTED : EXIT_BAD;
        }
        kernel = ds_interp_find_kernel(interp, argv[optind + 1]);
        if (!kernel) {
                fprintf(stderr, "detshare-ptx: %s has no kernel '%s'\n", argv[optind], argv[optind + 1]);
                return EXIT_BAD;
        }
        return launch_kernel(kernel, &options, argc - optind - 2, argv + optind + 2);
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                int (*run)(int argc, char **argv);
        } commands[] = {
                {"check", command_check}, {"print", command_print}, {"stats", command_stats}, {"run", command_run}};

        ds_log_setup("detshare-ptx", DS_LOG_ERROR);
        if (argc < 2)
                return usage_error("a command is missing");
        if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
                return fputs(usage_text, stdout) < 0 ? EXIT_BAD : 0;
        if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
                return printf("detshare-ptx %s\n", DETSHARE_VERSION) < 0 ? EXIT_BAD : 0;
        for (size_t i = 0; i < DS_ARRAY_SIZE(commands); i++)
                if (strcmp(argv[1], commands[i].name) == 0)
                        return commands[i].run(argc - 1, argv + 1);
        return usage_error("unknown command");
}
